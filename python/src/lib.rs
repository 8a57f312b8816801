//! convoy's simulator as a Python module: arguments in, a run without the interpreter's lock, a
//! report as plain dicts out.

mod request;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::Platform;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::{depythonize, pythonize};

use request::{Ended, Request, Source};

/// convoy's simulator of platforms that share IPsec cryptography between a CPU and accelerators on
/// a bus.
///
/// A run is a function of its arguments: the same ones give the same report on every machine.
///
///     import convoy_sim
///     report = convoy_sim.simulate("pci-accelerators", pattern="trace", window=30, accelerators=2)
///     report["throughput_mbps"], report["share"]
#[pymodule(name = "convoy_sim")]
mod module {
    #[pymodule_export]
    use super::{load_platform, simulate};
}

/// Reads and checks a platform: a TOML file, or the name of one that comes with the module, such as
/// pci-accelerators.
///
/// What comes back are plain dicts, lists and numbers: change them, or send them to machines that
/// lack the file. ValueError names the file, line and key of what is wrong.
#[pyfunction]
fn load_platform(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    Ok(pythonize(py, &open_platform(&path)?)?)
}

/// Simulates a platform under a pattern or a trace, and returns what `convoy sim run --json`
/// prints, as dicts.
///
/// platform is a TOML file's path, the name of a platform that comes with the module (grip,
/// grip-inline, ixp425, pci-accelerators, pentium3), or what load_platform() returned. Give either
/// pattern (exponential, uniform, trace, imix, or a fixed payload size in bytes) or trace (a file:
/// pcap, pcapng, or six columns of text).
///
/// packets: how many; 500,000 of a pattern and all of a trace if not given. window, accelerators,
/// init_ratio, enc_ratio, depth, policy, full_queue (wait or skip), depth_unit (multi-packets or
/// packets): instead of the platform's own; the ratios are the CPU's. variant: the platform in
/// another of the settings that its file names, "+" between several. queue_packets: an ingress
/// queue, which drops and counts what finds it full; without, the source waits. seed: of patterns
/// and of random arrivals. sas, popularity, locality: a pattern's SAs, the exponent of Zipf's law
/// over them, and the chance that a packet has the SA of the one before it; if not given, 100, 0
/// and the paper's, which is 0 but for pattern trace. arrivals: back-to-back, paced, poisson (both
/// at `rate` packets a second) or captured.
///
/// The interpreter's lock is free while it runs, and Ctrl-C ends it with KeyboardInterrupt.
/// ValueError says which argument is wrong and what was expected.
#[pyfunction]
#[pyo3(signature = (platform, *, pattern=None, trace=None, packets=None, window=None, accelerators=None,
    init_ratio=None, enc_ratio=None, depth=None, policy=None, full_queue=None, depth_unit=None, variant=None,
    queue_packets=None, seed=1, sas=None, popularity=None, locality=None,
    arrivals="back-to-back", rate=None))]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
fn simulate<'py>(
    py: Python<'py>,
    platform: &Bound<'py, PyAny>,
    pattern: Option<&str>,
    trace: Option<PathBuf>,
    packets: Option<i128>,
    window: Option<i128>,
    accelerators: Option<i128>,
    init_ratio: Option<f64>,
    enc_ratio: Option<f64>,
    depth: Option<i128>,
    policy: Option<&str>,
    full_queue: Option<&str>,
    depth_unit: Option<&str>,
    variant: Option<&str>,
    queue_packets: Option<i128>,
    seed: i128,
    sas: Option<i128>,
    popularity: Option<f64>,
    locality: Option<f64>,
    arrivals: &str,
    rate: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut platform = platform_of(platform)?;
    if let Some(names) = variant {
        platform = platform.with_variants(names).map_err(bad)?;
    }
    platform.source.queue_packets = whole("queue_packets", queue_packets)?.or(platform.source.queue_packets);
    if let Some(packets) = whole("window", window)? {
        platform.scheduler.window = packets;
    }
    if let Some(count) = whole("accelerators", accelerators)? {
        platform.set_accelerators(count);
    }
    if let Some(ratio) = init_ratio {
        platform.set_init_ratio(ratio);
    }
    if let Some(ratio) = enc_ratio {
        platform.set_enc_ratio(ratio);
    }
    if let Some(multi_packets) = whole("depth", depth)? {
        platform.set_depth(multi_packets);
    }
    if let Some(name) = full_queue {
        platform.scheduler.full_queue = name.parse::<FullQueue>().map_err(bad)?.to_string();
    }
    if let Some(name) = depth_unit {
        platform.scheduler.depth_unit = name.parse::<DepthUnit>().map_err(bad)?.to_string();
    }
    let source = match (pattern, trace) {
        (Some(pattern), None) => {
            Source::pattern(pattern, whole("sas", sas)?, popularity, locality).map_err(bad)?
        }
        (None, Some(_)) if sas.is_some() || popularity.is_some() || locality.is_some() => {
            return Err(bad("sas, popularity and locality are only for a pattern; a trace has its own"));
        }
        (None, Some(trace)) => Source::Trace(trace),
        _ => return Err(bad("give either pattern or trace")),
    };
    let seed = whole("seed", Some(seed))?.unwrap_or_default();
    let request = Request::new(platform, source, whole("packets", packets)?, seed)
        .with_arrivals(arrivals, rate)
        .and_then(|request| request.with_policy(policy))
        .map_err(bad)?;
    // A handler of a signal may raise, as Ctrl-C's does.
    let run = py.detach(|| request.run(|| Python::attach(|py| py.check_signals())));
    let report = run.map_err(|ended| match ended {
        Ended::Stopped(exception) => exception,
        Ended::Failed(error) => bad(error),
    })?;
    Ok(pythonize(py, &report)?)
}

fn platform_of(given: &Bound<'_, PyAny>) -> PyResult<Platform> {
    if given.is_instance_of::<PyDict>() {
        return depythonize(given).map_err(|error| bad(format!("platform: {error}")));
    }
    open_platform(&given.extract::<PathBuf>()?)
}

/// Only a name in UTF-8 can be a built-in platform's.
fn open_platform(path: &Path) -> PyResult<Platform> {
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

fn bad(what: impl Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}
