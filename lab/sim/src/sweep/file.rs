//! Reading the file of a sweep.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use toml::{Spanned, Table, Value};

use super::Sweep;
use crate::platform::Platform;
use crate::setting::Setting;

/// A grid with more points than this is taken for a mistake.
const POINTS_MAX: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    platform: Spanned<String>,
    #[serde(default)]
    setting: BTreeMap<String, Spanned<Value>>,
    grid: Spanned<BTreeMap<String, Spanned<Vec<Value>>>>,
}

/// Reads the file of a sweep.
///
/// # Errors
/// The file, line and key of the error, and what was expected.
pub(super) fn read(path: &Path, text: &str) -> Result<Sweep, String> {
    let at = |offset: usize| {
        let line = text.get(..offset).unwrap_or("").matches('\n').count() + 1;
        format!("{}:{line}", path.display())
    };
    let file: File = toml::from_str(text)
        .map_err(|error| format!("{}: {}", at(error.span().map_or(0, |span| span.start)), error.message()))?;
    let platform = platform(path, file.platform.get_ref())
        .map_err(|error| format!("{}: platform: {error}", at(file.platform.span().start)))?;
    let mut fixed = Table::new();
    for (key, value) in &file.setting {
        let place = || format!("{}: setting.{key}", at(value.span().start));
        fixed.insert(
            key.clone(),
            checked(key, value.get_ref()).map_err(|what| format!("{}: {what}", place()))?,
        );
    }
    let mut grid = Vec::new();
    for (key, values) in file.grid.get_ref() {
        let place = || format!("{}: grid.{key}", at(values.span().start));
        let check = |value| checked(key, value).map_err(|what| format!("{}: {what}", place()));
        if values.get_ref().is_empty() {
            return Err(format!("{}: give at least one value", place()));
        }
        if fixed.contains_key(key) {
            return Err(format!("{}: it is in [setting] as well; give it once", place()));
        }
        grid.push((key.clone(), values.get_ref().iter().map(check).collect::<Result<Vec<Value>, String>>()?));
    }
    let points = points(&fixed, &grid).map_err(|what| format!("{}: {what}", at(file.grid.span().start)))?;
    for (number, point) in points.iter().enumerate() {
        let good = point.simulation(&platform).and_then(|_| point.traffic());
        good.map_err(|error| {
            let point = toml::to_string(point).unwrap_or_default().replace('\n', ", ");
            format!("{}: point {number} ({}): {error}", path.display(), point.trim_end_matches(", "))
        })?;
    }
    let identity = json!({
        "version": env!("CARGO_PKG_VERSION"), "platform": as_json(&platform), "setting": as_json(&fixed),
        "grid": as_json(&grid.iter().cloned().collect::<BTreeMap<_, _>>()),
    });
    Ok(Sweep { file: path.to_owned(), platform, points, identity })
}

/// Opens a platform file in the sweep's folder, or a platform that comes with the program.
fn platform(sweep: &Path, name: &str) -> Result<Platform, String> {
    let beside = sweep.parent().unwrap_or(Path::new("")).join(name);
    let found = if beside.is_file() { Platform::load(&beside) } else { Platform::open(name) };
    found.map_err(|error| error.to_string())
}

/// Converts a value for the setting of this name. A pattern may be given as a number, which is a
/// size.
fn checked(key: &str, value: &Value) -> Result<Value, String> {
    let value = match value {
        Value::Integer(size) if key == "pattern" => Value::String(size.to_string()),
        other => other.clone(),
    };
    let one = Table::from_iter([(key.to_owned(), value.clone())]);
    let setting: Result<Setting, _> = one.try_into();
    setting.map(|_| value).map_err(|error: toml::de::Error| error.message().to_owned())
}

fn points(fixed: &Table, grid: &[(String, Vec<Value>)]) -> Result<Vec<Setting>, String> {
    let lengths = grid.iter().map(|(_, values)| values.len());
    let all = lengths.clone().try_fold(1usize, |product, length| product.checked_mul(length));
    let all = all.filter(|all| *all <= POINTS_MAX).ok_or(format!("more than {POINTS_MAX} points"))?;
    let point = |number: usize| {
        let mut table = fixed.clone();
        let mut left = number;
        for (key, values) in grid.iter().rev() {
            table.insert(key.clone(), values[left % values.len()].clone());
            left /= values.len();
        }
        table.try_into().map_err(|error: toml::de::Error| error.message().to_owned())
    };
    (0..all).map(point).collect()
}

fn as_json(of: &impl Serialize) -> serde_json::Value {
    // Settings hold only structs, strings and numbers, all of which JSON can represent.
    serde_json::to_value(of).unwrap_or_default()
}
