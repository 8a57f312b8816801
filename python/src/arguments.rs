//! The arguments that all runs of a platform have, as Python gives them.

use std::path::{Path, PathBuf};

use convoy_sim::{Platform, Setting};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::depythonize;

use crate::bad;
use crate::policy::PythonPolicy;
use crate::request::{Request, Source};

/// The runs that the arguments describe, with back-to-back arrivals. What is not given stays as the
/// platform or the paper has it.
pub(crate) fn request(
    platform: &Bound<'_, PyAny>,
    trace: Option<PathBuf>,
    traffic: Option<&Bound<'_, PyAny>>,
    setting: Option<&Bound<'_, PyDict>>,
) -> PyResult<Request> {
    let policy = setting.map_or(Ok(None), take_policy)?;
    let setting = setting.map_or_else(|| Ok(Setting::default()), setting_of)?;
    let platform = platform_of(platform)?;
    let source = source_of(&setting, trace, traffic)?;
    Request::new(&platform, setting, source, policy).map_err(bad)
}

/// Takes a policy that is a callable, and its reach, out of the keywords.
fn take_policy(keywords: &Bound<'_, PyDict>) -> PyResult<Option<PythonPolicy>> {
    let given = |name| PyResult::Ok(keywords.get_item(name)?.filter(|value| !value.is_none()));
    let reach = given("reach")?;
    if keywords.contains("reach")? {
        keywords.del_item("reach")?;
    }
    let Some(callable) = given("policy")?.filter(|policy| policy.is_callable()) else {
        return match reach {
            Some(_) => Err(bad("reach is only for a policy that is a callable")),
            None => Ok(None),
        };
    };
    keywords.del_item("policy")?;
    let wrong = |reach: &Bound<'_, PyAny>| bad(format!("reach: {reach}; it must be an integer of 1 or more"));
    let reach = match reach {
        Some(reach) => reach.extract().ok().filter(|least| *least > 0).ok_or_else(|| wrong(&reach))?,
        None => usize::MAX,
    };
    Ok(Some(PythonPolicy { callable: callable.unbind(), reach }))
}

/// The keywords of Python are the fields of a [`Setting`].
fn setting_of(keywords: &Bound<'_, PyDict>) -> PyResult<Setting> {
    // The error of a field does not name it.
    for (name, value) in keywords {
        let alone = PyDict::new(keywords.py());
        alone.set_item(&name, &value)?;
        if let Err(error) = depythonize::<Setting>(&alone) {
            return Err(refused(&name, &value, error.into()));
        }
    }
    Ok(depythonize(keywords)?)
}

fn refused(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = name.py();
    if error.is_instance_of::<PyOverflowError>(py) {
        let expected =
            if value.lt(0).unwrap_or(false) { "it must be 0 or more" } else { "it is out of range" };
        return bad(format!("{name}: {value}; {expected}"));
    }
    PyTypeError::new_err(format!("{name}: {}", error.value(py)))
}

fn source_of(
    setting: &Setting,
    trace: Option<PathBuf>,
    traffic: Option<&Bound<'_, PyAny>>,
) -> PyResult<Source> {
    let is_of_pattern = setting.sas.is_some()
        || setting.popularity.is_some()
        || setting.locality.is_some()
        || setting.class_shares.is_some();
    let source = match (&setting.pattern, trace, traffic) {
        (Some(_), None, None) => return Ok(Source::Pattern),
        (None, Some(trace), None) => Source::Trace(trace),
        (None, None, Some(traffic)) => Source::Given(traffic.clone().unbind()),
        _ => return Err(bad("give either pattern or trace or traffic")),
    };
    if is_of_pattern {
        let what =
            "sas, popularity, locality and class_shares are only for a pattern; other traffic has its own";
        return Err(bad(what));
    }
    Ok(source)
}

fn platform_of(given: &Bound<'_, PyAny>) -> PyResult<Platform> {
    if given.is_instance_of::<PyDict>() {
        let mut values: serde_json::Value =
            depythonize(given).map_err(|error| bad(format!("platform: {error}")))?;
        drop_nones(&mut values);
        // As a file, so that all errors are reported, each with the line that has it.
        let text = toml::to_string(&values).map_err(|error| bad(format!("platform: {error}")))?;
        return Platform::from_toml("platform", &text).map_err(bad);
    }
    open_platform(&given.extract::<PathBuf>()?)
}

/// Removes what is `None` in Python, which TOML has no value for: it is what a missing key means.
fn drop_nones(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(drop_nones);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(drop_nones),
        _ => {}
    }
}

/// Only a name in UTF-8 can be a built-in platform's.
pub(crate) fn open_platform(path: &Path) -> PyResult<Platform> {
    match path.to_str() {
        Some(name) => Platform::open(name),
        None => Platform::load(path),
    }
    .map_err(bad)
}
