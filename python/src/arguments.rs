//! The arguments that all runs of a platform have, as Python gives them.

use std::path::{Path, PathBuf};

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::Platform;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::depythonize;

use crate::bad;
use crate::request::{Request, Source};

/// What is not given stays as the platform or the paper has it.
pub(crate) struct Arguments<'a> {
    pub(crate) pattern: Option<&'a str>,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) packets: Option<i128>,
    pub(crate) window: Option<i128>,
    pub(crate) accelerators: Option<i128>,
    pub(crate) init_ratio: Option<f64>,
    pub(crate) enc_ratio: Option<f64>,
    pub(crate) depth: Option<i128>,
    pub(crate) policy: Option<&'a str>,
    pub(crate) full_queue: Option<&'a str>,
    pub(crate) depth_unit: Option<&'a str>,
    pub(crate) variant: Option<&'a str>,
    pub(crate) queue_packets: Option<i128>,
    pub(crate) seed: i128,
    pub(crate) sas: Option<i128>,
    pub(crate) popularity: Option<f64>,
    pub(crate) locality: Option<f64>,
}

impl Arguments<'_> {
    /// The runs that they describe, with back-to-back arrivals.
    pub(crate) fn request(self, platform: &Bound<'_, PyAny>) -> PyResult<Request> {
        let platform = self.change(platform_of(platform)?)?;
        let packets = whole("packets", self.packets)?;
        let seed = whole("seed", Some(self.seed))?.unwrap_or_default();
        let policy = self.policy;
        Request::new(platform, self.source()?, packets, seed).with_policy(policy).map_err(bad)
    }

    fn change(&self, mut platform: Platform) -> PyResult<Platform> {
        if let Some(names) = self.variant {
            platform = platform.with_variants(names).map_err(bad)?;
        }
        platform.source.queue_packets =
            whole("queue_packets", self.queue_packets)?.or(platform.source.queue_packets);
        if let Some(packets) = whole("window", self.window)? {
            platform.scheduler.window = packets;
        }
        if let Some(count) = whole("accelerators", self.accelerators)? {
            platform.set_accelerators(count);
        }
        if let Some(ratio) = self.init_ratio {
            platform.set_init_ratio(ratio);
        }
        if let Some(ratio) = self.enc_ratio {
            platform.set_enc_ratio(ratio);
        }
        if let Some(multi_packets) = whole("depth", self.depth)? {
            platform.set_depth(multi_packets);
        }
        if let Some(name) = self.full_queue {
            platform.scheduler.full_queue = name.parse::<FullQueue>().map_err(bad)?.to_string();
        }
        if let Some(name) = self.depth_unit {
            platform.scheduler.depth_unit = name.parse::<DepthUnit>().map_err(bad)?.to_string();
        }
        Ok(platform)
    }

    fn source(self) -> PyResult<Source> {
        let Self { pattern, trace, sas, popularity, locality, .. } = self;
        match (pattern, trace) {
            (Some(pattern), None) => {
                Source::pattern(pattern, whole("sas", sas)?, popularity, locality).map_err(bad)
            }
            (None, Some(_)) if sas.is_some() || popularity.is_some() || locality.is_some() => {
                Err(bad("sas, popularity and locality are only for a pattern; a trace has its own"))
            }
            (None, Some(trace)) => Ok(Source::Trace(trace)),
            _ => Err(bad("give either pattern or trace")),
        }
    }
}

fn platform_of(given: &Bound<'_, PyAny>) -> PyResult<Platform> {
    if given.is_instance_of::<PyDict>() {
        return depythonize(given).map_err(|error| bad(format!("platform: {error}")));
    }
    open_platform(&given.extract::<PathBuf>()?)
}

/// Only a name in UTF-8 can be a built-in platform's.
pub(crate) fn open_platform(path: &Path) -> PyResult<Platform> {
    match path.to_str() {
        Some(name) => Platform::open(name),
        None => Platform::load(path),
    }
    .map_err(bad)
}

/// An integer of Python's, which may be below 0 or too large.
fn whole<T: TryFrom<i128>>(name: &str, given: Option<i128>) -> PyResult<Option<T>> {
    let in_range = |given| {
        let bits = 8 * size_of::<T>();
        T::try_from(given)
            .map_err(|_| bad(format!("{name}: {given}; it must be 0 or more, and below 2^{bits}")))
    };
    given.map(in_range).transpose()
}
