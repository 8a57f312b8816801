//! Where the time of a packet goes in a gateway: by functional block, by utilisation, and by the
//! turnaround of cryptography.
//!
//! One worker's pipeline stands between two wires of system calls and is driven burst by burst on
//! one thread, with a stamp of the clock between its blocks. What the stamps themselves take is
//! measured and subtracted. The median over many bursts counts, since one burst is over before a
//! busy machine interrupts it.

mod blocks;
mod profile;
mod rig;
mod stamped;

use std::sync::OnceLock;
use std::time::Instant;

use convoy_ipsec::Proposal;
use convoy_port::Port;
use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Ways};
use crate::gateways::{Placement, Scheme, Service};
use crate::lengths::Lengths;
use crate::memory::{MemoryAccount, bandwidth};
use crate::search::Shape;
pub use blocks::{Block, BlockName, Blocks};
pub use profile::{Load, Part, Profile, ProfileSource, Shares, profile};
use rig::{Lap, Rig};

/// Bursts that are not counted, and those that are.
const WARM_UP: usize = 200;
const BURSTS: usize = 2_001;
/// The fewest of which a median says something, when time is up.
const FEWEST: usize = 101;

/// The machine's, measured once.
static BANDWIDTH: OnceLock<f64> = OnceLock::new();

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Drives bursts through a rig and gives the times of those that passed whole; fewer if time is up.
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
        return Err(MeasureError::Gateway(format!("of {tried} bursts only {} passed whole", laps.len())));
    }
    Ok(laps)
}

/// Measures the blocks of packets that a gateway sends out, in bursts of so many; in fewer bursts
/// than usual after `until`.
///
/// # Errors
/// [`MeasureError`] says what there is not.
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

/// How long an engine takes for one packet, by its length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turnaround {
    /// Bytes of plaintext packets, and what one of them takes alone, in ns.
    pub points: Vec<(u16, f64)>,
    /// Packets of which each point is the median; of the point that has fewest.
    pub packets: usize,
    /// The engine's rate from the slope of the line that fits these best, in Mbit/s (the paper's
    /// ∆s over ∆t); nothing where longer packets do not take longer.
    pub slope_mbps: Option<f64>,
    /// The same by calibration: the cost of a block of 16 bytes, of the engine that is cheapest for
    /// a long packet.
    pub calibrated_mbps: Option<f64>,
}

/// The slope of the line with the least squares of errors, in ns for each byte.
fn slope(points: &[(u16, f64)]) -> f64 {
    let count = points.len().max(1) as f64;
    let mean_bytes = points.iter().map(|(bytes, _)| f64::from(*bytes)).sum::<f64>() / count;
    let mean_ns = points.iter().map(|(_, ns)| ns).sum::<f64>() / count;
    let both =
        points.iter().map(|(bytes, ns)| (f64::from(*bytes) - mean_bytes) * (ns - mean_ns)).sum::<f64>();
    let square = points.iter().map(|(bytes, _)| (f64::from(*bytes) - mean_bytes).powi(2)).sum::<f64>();
    if square > 0.0 { both / square } else { 0.0 }
}

/// Measures how long cryptography takes for packets that come alone; in fewer bursts than usual
/// after `until`.
///
/// # Errors
/// [`MeasureError`] says what there is not.
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

/// How busy a gateway's worker is under a load, and what it lets through.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Busy {
    /// What was sent, in packets per second.
    pub packets_per_second: f64,
    /// The part of the time in which the worker had something to do.
    pub utilisation: f64,
    /// The part in which its thread was in the kernel, idle rounds' system calls among it.
    pub kernel: f64,
    /// The part of the packets that arrived.
    pub success: f64,
}

/// Sends packets at each of these rates through a gateway that does everything on its worker's
/// core; after `until` at no further one.
///
/// # Errors
/// [`MeasureError`] if a trial could not be held.
pub fn utilisation(
    service: &Service,
    placement: &Placement,
    lengths: Lengths,
    rates: &[f64],
    seconds: f64,
    until: Option<Instant>,
) -> Result<Vec<Busy>, MeasureError> {
    let mut gateway = Scheme::ALL[0].start(service, placement)?;
    let shape = Shape { lengths, ways: Ways::One };
    let mut all = Vec::new();
    for rate in rates {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        gateway.utilisation();
        let outcome = gateway.trial(&shape.trial(*rate, seconds))?;
        // What came after the trial, while the tester waited for stragglers, was idle.
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
