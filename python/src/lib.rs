//! convoy's simulator as a Python module: arguments in, a run without the interpreter's lock, a
//! report as plain dicts out.

mod arguments;
mod paper;
mod policy;
mod request;
mod traffic;

use std::fmt::Display;
use std::path::PathBuf;

use convoy_sim::{NdrSearch, RateSearch};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pythonize::pythonize;

use arguments::{open_platform, request};
use paper::figures;
use request::Ended;

/// convoy's simulator of platforms that share IPsec cryptography between a CPU and accelerators on
/// a bus.
///
/// A run is a function of its arguments: the same ones give the same report on every machine.
///
///     import convoy_sim
///     report = convoy_sim.simulate("pci-accelerators", pattern="trace", window=30, accelerators=2)
///     report["throughput_mbps"], report["share"]
///     convoy_sim.ndr("ixp425", pattern="1450")["throughput"]["pps"]
#[pymodule(name = "convoy_sim")]
mod module {
    #[pymodule_export]
    use super::policy::{MultiPacket, Offer, Processor, View};
    #[pymodule_export]
    use super::{figures, find_ndr, load_platform, ndr, simulate};
}

/// Reads and checks a platform: a TOML file, or the name of one that comes with the module, such as
/// pci-accelerators.
///
/// What comes back are plain dicts, lists and numbers: change them, or send them to machines that
/// lack the file. ValueError has all errors of the file,
/// each with line, column and key.
#[pyfunction]
fn load_platform(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    Ok(pythonize(py, &open_platform(&path)?)?)
}

/// Simulates a platform under a pattern or a trace, and returns what `convoy-lab sim run --json`
/// prints, as dicts.
///
/// platform is a TOML file's path, the name of a platform that comes with the module (grip,
/// grip-inline, ixp425, pci-accelerators, pentium3), or what load_platform() returned. Give one of
/// pattern (exponential, uniform, trace, imix, or a fixed payload size in bytes), trace (a file:
/// pcap, pcapng, or six columns of text) and traffic.
///
/// traffic: packets, each with its payload in bytes, the number of its SA and optionally the time
/// since the packet before it in us, for captured arrivals, and its traffic class from 0, the
/// highest. Either an iterable of rows in this order, tuples or a matrix, which is read as the run
/// goes on; or a dict of columns "bytes", "sa", "gap_us" and "class", such as arrays.
///
/// packets: how many; 500,000 of a pattern and all of other traffic if not given. seed: of
/// patterns and of random arrivals. sas, popularity, locality: a pattern's SAs, the exponent of
/// Zipf's law over them, and the chance that a packet has the SA of the one before it; if not
/// given, 100, 0 and the paper's, which is 0 but for pattern trace. class_shares: the share of a
/// pattern's SAs in each traffic class, highest class first. arrivals: back-to-back, paced, poisson
/// (both at `rate` packets a second) or captured.
///
/// All others take the place of the platform's own value. init_ratio, enc_ratio: the CPU's. policy:
/// one of the gateway's, such as sufferage; a rival from the literature, such as min-min; or a
/// callable (see below). full_queue: wait or skip. depth_unit: multi-packets, packets or bytes.
/// ageing, credits, pool, class_credits, byte_limit, window_bytes, max_wait_us, aggregation,
/// predicts_transfers: the scheduler's keys of these names. classes: how many; if not given, one
/// for each share or weight. weights: one for each class, highest class first; without, classes
/// have strict priority. t_init_us: of the reference. transfers, prefetch, write_buffer: of all
/// processors on a bus. variant: the platform in another of the settings that its file names, "+"
/// between several. rate_mbps: of the source's line. queue_packets, queue_bytes: an ingress queue,
/// which drops and counts what finds it full; without, the source waits.
///
/// A policy that is a callable is called with a View whenever the window is due, and returns the
/// index of a multi-packet and that of its processor, or None to wait for the next arrival or
/// completion. A processor without room is waited for as well. It sees the first `reach`
/// multi-packets of the window, all of them if not given; one that others have passed too often
/// (`ageing`) it sees alone. Times are integers in ps. An exception of the callable ends the run.
///
///     def earliest(view):
///         offers = {at: offer for at, offer in enumerate(view.offers[0]) if offer}
///         states = view.processors
///         return 0, min(offers, key=lambda at: states[at].wait_ps + offers[at].processing_ps)
///
///     convoy_sim.simulate("pci-accelerators", pattern="trace", policy=earliest, reach=1)
///
/// The interpreter's lock is free while it runs, and Ctrl-C ends it with KeyboardInterrupt.
/// ValueError says which argument is wrong and what was expected.
#[pyfunction]
#[pyo3(
    signature = (platform, *, trace=None, traffic=None, arrivals="back-to-back", rate=None, **setting),
    text_signature = "(platform, *, pattern=None, trace=None, traffic=None, packets=None, window=None, \
        accelerators=None, init_ratio=None, enc_ratio=None, depth=None, t_init_us=None, \
        policy=None, reach=None, full_queue=None, depth_unit=None, ageing=None, credits=None, pool=None, \
        transfers=None, predicts_transfers=None, prefetch=None, write_buffer=None, \
        byte_limit=None, window_bytes=None, max_wait_us=None, aggregation=None, classes=None, \
        weights=None, class_shares=None, class_credits=None, variant=None, rate_mbps=None, \
        queue_packets=None, queue_bytes=None, sas=None, popularity=None, locality=None, seed=1, \
        arrivals='back-to-back', rate=None)"
)]
fn simulate<'py>(
    py: Python<'py>,
    platform: &Bound<'py, PyAny>,
    trace: Option<PathBuf>,
    traffic: Option<&Bound<'py, PyAny>>,
    arrivals: &str,
    rate: Option<f64>,
    setting: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = request(platform, trace, traffic, setting)?.with_arrivals(arrivals, rate).map_err(bad)?;
    let report = py.detach(|| request.run(check_signals)).map_err(raised)?;
    Ok(pythonize(py, &report)?)
}

/// Searches for the highest rate at which a platform loses no packets, its non-drop rate (RFC 2544,
/// section 26.1), and returns what `convoy-lab sim ndr --json` prints of it, as dicts.
///
/// The platform needs an ingress queue: its own or queue_packets. loss_ratio: the share of packets
/// that may be lost; above 0 it is a partial drop rate. resolution: the relative difference between
/// the result and a rate that loses more. poisson: packets arrive as a Poisson process, not evenly
/// spaced. packets: of each trial, 200,000 of a pattern and all of other traffic if not given;
/// a queue of n packets hides an overload of less than n packets in a trial. The other
/// arguments are those of simulate(). The times of a trace or of traffic are not used; an iterator
/// is read once, for all trials.
///
/// throughput is the load at the result, all zero if no rate passed; line the load at the line
/// rate; trials has all that were run, and report what simulate() returns for the result.
///
/// The interpreter's lock, Ctrl-C and errors are as with simulate().
#[pyfunction]
#[pyo3(
    signature = (platform, *, loss_ratio=0.0, resolution=0.001, poisson=false, trace=None, traffic=None, **setting),
    text_signature = "(platform, *, loss_ratio=0.0, resolution=0.001, poisson=False, \
        pattern=None, trace=None, traffic=None, packets=None, window=None, accelerators=None, init_ratio=None, \
        enc_ratio=None, depth=None, t_init_us=None, policy=None, reach=None, full_queue=None, \
        depth_unit=None, ageing=None, credits=None, pool=None, transfers=None, \
        predicts_transfers=None, prefetch=None, write_buffer=None, byte_limit=None, \
        window_bytes=None, max_wait_us=None, aggregation=None, classes=None, weights=None, \
        class_shares=None, class_credits=None, variant=None, rate_mbps=None, queue_packets=None, \
        queue_bytes=None, sas=None, popularity=None, locality=None, seed=1)"
)]
#[expect(clippy::too_many_arguments, reason = "they are Python's keywords")]
fn ndr<'py>(
    py: Python<'py>,
    platform: &Bound<'py, PyAny>,
    loss_ratio: f64,
    resolution: f64,
    poisson: bool,
    trace: Option<PathBuf>,
    traffic: Option<&Bound<'py, PyAny>>,
    setting: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let request = request(platform, trace, traffic, setting)?;
    let search = NdrSearch { loss_ratio, resolution, is_poisson: poisson };
    let found = py.detach(|| request.ndr(&search, check_signals)).map_err(raised)?;
    Ok(pythonize(py, &found)?)
}

/// Searches for the highest rate at which any device loses no packets, its non-drop rate (RFC 2544,
/// section 26.1), in the same way as ndr().
///
/// trial(rate) offers the device this rate and returns the share of the packets that was lost, from
/// 0 to 1; an exception that it raises ends the search. high: the highest rate, which is tried
/// first, such as the line rate. low: the lowest rate to try, in the same unit. loss_ratio: the
/// share that may be lost; above 0 it is a partial drop rate. resolution: the relative difference
/// between the result and a rate that loses more.
///
/// The result has rate, the highest that passed or None; fails_at, the lowest that failed, or None
/// if high passed; and trials, each with rate, loss_ratio and is_good.
///
///     convoy_sim.find_ndr(lambda rate: max(0, 1 - 420_000 / rate), high=1_000_000)["rate"]
#[pyfunction]
#[pyo3(signature = (trial, *, high, low=0.0, loss_ratio=0.0, resolution=0.001))]
fn find_ndr<'py>(
    py: Python<'py>,
    trial: &Bound<'py, PyAny>,
    high: f64,
    low: f64,
    loss_ratio: f64,
    resolution: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let search = RateSearch { high, low, loss_ratio, resolution };
    let found = search.run(|rate| lost_at(trial, rate).map_err(Ended::Stopped)).map_err(raised)?;
    Ok(pythonize(py, &found)?)
}

fn lost_at(trial: &Bound<'_, PyAny>, rate: f64) -> PyResult<f64> {
    let lost = trial.call1((rate,))?;
    lost.extract().map_err(|_| {
        PyTypeError::new_err(format!("trial({rate}) must return the lost share of packets, not {lost}"))
    })
}

/// A handler of a signal may raise, as Ctrl-C's does.
fn check_signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

fn raised(ended: Ended) -> PyErr {
    match ended {
        Ended::Stopped(exception) => exception,
        Ended::Failed(error) => bad(error),
    }
}

fn bad(what: impl Display) -> PyErr {
    PyValueError::new_err(what.to_string())
}
