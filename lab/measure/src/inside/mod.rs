//! Measures a gateway from inside: time by functional block, utilisation, and the turnaround time
//! of cryptography.
//!
//! One worker's pipeline stands between two links of UDP sockets and is driven burst by burst on
//! one thread, with a time stamp between its blocks. The cost of the stamps is measured and
//! subtracted. Results are medians over many short bursts, so that interruptions on a busy machine
//! have little effect.

mod blocks;
mod profile;
mod rig;
mod timed_engine;

use std::sync::OnceLock;
use std::time::Instant;

use convoy_ipsec::Proposal;
use convoy_port::Port;
use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Ways};
use crate::gateways::{Placement, Scheme, Service, Waiting};
use crate::lengths::Lengths;
use crate::memory::{MemoryAccount, bandwidth};
use crate::search::Shape;
pub use blocks::{Block, BlockName, Blocks};
pub use profile::{Profile, ProfilePart, ProfileSource, ProfiledLoad, Shares, profile};
use rig::{Lap, Rig};

/// Bursts for warming up, which are discarded, and bursts that are measured.
const WARM_UP: usize = 200;
const BURSTS: usize = 2_001;
/// The fewest bursts for a meaningful median, where time is short.
const FEWEST: usize = 101;

/// Copy bandwidth of this machine's memory, measured once.
static BANDWIDTH: OnceLock<f64> = OnceLock::new();

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Drives bursts through a rig and returns the times of those that arrived complete; fewer bursts
/// after `until`.
fn laps(rig: &mut Rig, burst: usize, until: Option<Instant>) -> Result<Vec<Lap>, MeasureError> {
    let (mut laps, mut tried) = (Vec::new(), 0);
    for _ in 0..WARM_UP {
        rig.lap(burst)?;
    }
    while tried < BURSTS && (tried < FEWEST || until.is_none_or(|until| Instant::now() < until)) {
        laps.extend(rig.lap(burst)?);
        tried += 1;
    }
    if laps.len() < tried / 2 {
        return Err(MeasureError::Gateway(format!("only {} of {tried} bursts arrived complete", laps.len())));
    }
    Ok(laps)
}

/// Measures the functional blocks for outbound packets, in bursts of `burst` packets; with fewer
/// bursts than usual after `until`.
///
/// # Errors
/// [`MeasureError`] if something needed is not available.
pub fn blocks(
    service: &Service,
    lengths: Lengths,
    burst: usize,
    until: Option<Instant>,
) -> Result<Blocks, MeasureError> {
    let mut rig = Rig::new(service, lengths)?;
    let laps = laps(&mut rig, burst, until)?;
    let stamp_ns = rig.stamp_ns;
    let of = |name, read: fn(&Lap) -> f64, stamps: f64| {
        Block::of(name, laps.iter().map(read).collect(), stamps * stamp_ns, burst)
    };
    let blocks = vec![
        of(BlockName::Receive, |lap| lap.receive, 1.0),
        of(BlockName::Classify, |lap| lap.classify, 1.0),
        of(BlockName::Prepare, |lap| lap.prepare, 1.0),
        of(BlockName::Crypto, |lap| lap.crypto, 0.0),
        of(BlockName::WindowAndFinish, |lap| lap.pump, 1.0),
        of(BlockName::Transmit, |lap| lap.transmit, 1.0),
    ];
    let (came, left) = (rig.inside.counters(), rig.outside.counters());
    let memory = MemoryAccount::new(
        came.received_bytes as f64 / came.received_packets.max(1) as f64,
        left.sent_bytes as f64 / left.sent_packets.max(1) as f64,
        *service != Service::Forward,
        *BANDWIDTH.get_or_init(bandwidth),
    );
    Ok(Blocks { lengths, burst, bursts: laps.len(), blocks, stamp_ns, memory })
}

/// Time of cryptography for a single packet, by packet length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turnaround {
    /// Plaintext packet length in bytes, and the time for one packet on its own, in ns.
    pub points: Vec<(u16, f64)>,
    /// Packets behind each median; the smallest number over the points.
    pub packets: usize,
    /// The engine's rate in Mbit/s from the slope of the fitted line (the paper's ∆s/∆t); `None` if
    /// time does not grow with length.
    pub slope_mbps: Option<f64>,
    /// The rate from calibration, in Mbit/s: from the cost of a 16-byte block on the engine that is
    /// cheapest for long packets.
    pub calibrated_mbps: Option<f64>,
}

/// Slope of the least-squares line, in ns per byte.
fn slope(points: &[(u16, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean_bytes = points.iter().map(|(bytes, _)| f64::from(*bytes)).sum::<f64>() / count;
    let mean_ns = points.iter().map(|(_, ns)| ns).sum::<f64>() / count;
    let both =
        points.iter().map(|(bytes, ns)| (f64::from(*bytes) - mean_bytes) * (ns - mean_ns)).sum::<f64>();
    let square = points.iter().map(|(bytes, _)| (f64::from(*bytes) - mean_bytes).powi(2)).sum::<f64>();
    if square > 0.0 { both / square } else { 0.0 }
}

/// Measures how long cryptography takes for packets that come one at a time; with fewer bursts than
/// usual after `until`.
///
/// # Errors
/// [`MeasureError`] if something needed is not available.
pub fn turnaround(
    proposal: &str,
    lengths: &[u16],
    until: Option<Instant>,
) -> Result<Turnaround, MeasureError> {
    const BITS_PER_BYTE_IN_MBPS: f64 = 8e3;
    let service = Service::Ipsec(proposal.to_owned());
    let (mut points, mut packets) = (Vec::new(), BURSTS);
    for length in lengths {
        let laps = laps(&mut Rig::new(&service, Lengths::All(*length))?, 1, until)?;
        packets = packets.min(laps.len());
        points.push((*length, median(laps.iter().map(|lap| lap.crypto).collect()).max(0.0)));
    }
    let ns = slope(&points);
    let slope_mbps = (ns > 0.0).then(|| BITS_PER_BYTE_IN_MBPS / ns);
    Ok(Turnaround { points, packets, slope_mbps, calibrated_mbps: calibrated(proposal)? })
}

fn calibrated(proposal: &str) -> Result<Option<f64>, MeasureError> {
    const BLOCK_BITS: f64 = 128.0;
    const LONG: f64 = 90.0;
    let rig = Rig::new(&Service::Ipsec(proposal.to_owned()), Lengths::All(64))?;
    let parsed: Proposal =
        proposal.parse().map_err(|error| MeasureError::Invalid(format!("{proposal}: {error}")))?;
    let models = rig.costs.models();
    let engines = rig.pipeline.stage().engines();
    let all = (0..engines.len()).map(|at| models.of(engines.description(at), parsed.transform).model);
    let cheapest = all.min_by(|a, b| (a.t_init + LONG * a.t_block).total_cmp(&(b.t_init + LONG * b.t_block)));
    Ok(cheapest.filter(|model| model.t_block > 0.0).map(|model| BLOCK_BITS * 1e3 / model.t_block))
}

/// Utilisation and success rate of a gateway at one offered load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Busy {
    /// Offered load in packets per second.
    pub packets_per_second: f64,
    /// Fraction of time in which the worker had packets.
    pub utilisation: f64,
    /// Fraction of its CPU time in the kernel, which includes the system calls of idle rounds.
    pub kernel: f64,
    /// Fraction of the packets that arrived.
    pub success: f64,
}

/// Sends packets at each of these rates through a gateway that does everything on its worker's
/// core; starts no further rate after `until`.
///
/// # Errors
/// [`MeasureError`] if a trial could not be run.
pub fn utilisation(
    service: &Service,
    placement: &Placement,
    lengths: Lengths,
    rates: &[f64],
    seconds: f64,
    until: Option<Instant>,
) -> Result<Vec<Busy>, MeasureError> {
    let mut gateway = Scheme::ALL[0].start(service, placement, Waiting::Polls)?;
    let shape = Shape { lengths, ways: Ways::One };
    let mut all = Vec::new();
    for rate in rates {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        gateway.utilisation();
        let outcome = gateway.trial(&shape.trial(*rate, seconds))?;
        // After the trial, the worker idled while the tester waited for stragglers; this is left
        // out.
        let found = gateway.utilisation().unwrap_or_default();
        let sent_s = outcome.sent as f64 / outcome.sent_per_second.max(1.0);
        all.push(Busy {
            packets_per_second: outcome.sent_per_second,
            utilisation: (found.busy_ns as f64 / 1e9 / sent_s).min(1.0),
            kernel: found.kernel(),
            success: 1.0 - outcome.loss_ratio(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blocks_of_a_real_gateway_take_some_time_and_longer_packets_take_the_cipher_longer() {
        let service = Service::Ipsec("aes128-sha1".to_owned());
        let short = blocks(&service, Lengths::All(64), 16, None).expect("loopback");
        let long = blocks(&service, Lengths::All(1450), 16, None).expect("loopback");
        for name in [
            BlockName::Receive,
            BlockName::Classify,
            BlockName::Prepare,
            BlockName::Crypto,
            BlockName::Transmit,
        ] {
            assert!(short.of(name) > 0.0, "{name:?}: {short:?}");
        }
        assert!(long.of(BlockName::Crypto) > short.of(BlockName::Crypto), "{short:?} {long:?}");
    }

    #[test]
    fn the_slope_is_that_of_the_line_through_all_points() {
        let line = [64u16, 256, 512, 1450].map(|bytes| (bytes, 100.0 + 0.5 * f64::from(bytes)));
        assert!((slope(&line) - 0.5).abs() < 1e-9);
        let disturbed = [(64, 210.0), (256, 96.0), (512, 121.0), (1024, 162.0), (1280, 181.0), (1450, 192.0)];
        assert!(slope(&disturbed) > 0.0, "one bad point does not turn it: {}", slope(&disturbed));
        assert_eq!((slope(&[]), slope(&line[..1])), (0.0, 0.0));
    }

    #[test]
    fn a_measurement_whose_time_is_up_still_says_something() {
        let now = Some(Instant::now());
        let few = blocks(&Service::Forward, Lengths::All(64), 4, now).expect("loopback");
        assert!(few.bursts <= FEWEST && few.sum_ns() > 0.0, "{few:?}");
        let none = utilisation(&Service::Forward, &Placement::here(), Lengths::All(64), &[1e3], 1.0, now);
        assert!(none.expect("a gateway").is_empty());
    }
}
