//! Where the time of a packet goes in a gateway: by functional block, by utilisation, and by the turnaround of cryptography.
//!
//! One worker's pipeline stands between two wires of system calls and is driven burst by burst on one thread, with a stamp of the clock between
//! its blocks. What the stamps themselves take is measured and subtracted. The median over many bursts counts, since one burst is
//! over before a busy machine interrupts it.

mod blocks;
mod rig;
mod stamped;

use convoy_ipsec::Proposal;
use convoy_port::Port;
use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Ways};
use crate::gateways::{Placement, Scheme, Service};
use crate::lengths::Lengths;
use crate::memory::{MemoryAccount, bandwidth};
use crate::search::Shape;
pub use blocks::{Block, BlockName, Blocks};
use rig::{Lap, Rig};

/// Bursts that are not counted, and those that are.
const WARM_UP: usize = 200;
const BURSTS: usize = 2_001;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Measures the blocks of packets that a gateway sends out, in bursts of so many.
///
/// # Errors
/// [`MeasureError`] says what there is not.
pub fn blocks(service: &Service, lengths: Lengths, burst: usize) -> Result<Blocks, MeasureError> {
    let mut rig = Rig::new(service, lengths)?;
    let (mut laps, stamp_ns) = (Vec::new(), rig.stamp_ns);
    for at in 0..WARM_UP + BURSTS {
        let lap = rig.lap(burst)?;
        laps.extend(lap.filter(|_| at >= WARM_UP));
    }
    if laps.len() < BURSTS / 2 {
        let what = format!("of {BURSTS} bursts only {} passed whole", laps.len());
        return Err(MeasureError::Gateway(what));
    }
    let of = |name, read: fn(&Lap) -> f64, stamps: f64| {
        let whole = median(laps.iter().map(read).collect());
        Block { name, ns: (whole - stamps * stamp_ns).max(0.0) / burst as f64 }
    };
    let blocks = vec![
        of(BlockName::Receive, |lap| lap.receive, 1.0),
        of(BlockName::ClassifyAndPrepare, |lap| lap.take_in, 1.0),
        of(BlockName::Crypto, |lap| lap.crypto, 0.0),
        of(BlockName::WindowAndFinish, |lap| lap.pump, 1.0),
        of(BlockName::Transmit, |lap| lap.transmit, 1.0),
    ];
    let (came, left) = (rig.inside.counters(), rig.outside.counters());
    let memory = MemoryAccount::new(
        came.received_bytes as f64 / came.received_packets.max(1) as f64,
        left.sent_bytes as f64 / left.sent_packets.max(1) as f64,
        *service != Service::Forward,
        bandwidth(),
    );
    Ok(Blocks { lengths, burst, bursts: laps.len(), blocks, stamp_ns, memory })
}

/// How long an engine takes for one packet, by its length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Turnaround {
    /// Bytes of plaintext packets, and what one of them takes alone, in ns.
    pub points: Vec<(u16, f64)>,
    /// The engine's rate from the slope between the shortest and the longest, in Mbit/s (the paper's ∆s over ∆t).
    pub slope_mbps: f64,
    /// The same by calibration: the cost of a block of 16 bytes, of the engine that is cheapest for a long packet.
    pub calibrated_mbps: Option<f64>,
}

/// Measures how long cryptography takes for packets that come alone.
///
/// # Errors
/// [`MeasureError`] says what there is not.
pub fn turnaround(proposal: &str, lengths: &[u16]) -> Result<Turnaround, MeasureError> {
    let service = Service::Ipsec(proposal.to_owned());
    let mut points = Vec::new();
    for length in lengths {
        points.push((*length, blocks(&service, Lengths::All(*length), 1)?.of(BlockName::Crypto)));
    }
    let slope_mbps = match (points.first(), points.last()) {
        (Some(first), Some(last)) if last.1 > first.1 => {
            f64::from(last.0 - first.0) * 8e3 / (last.1 - first.1)
        }
        _ => 0.0,
    };
    Ok(Turnaround { points, slope_mbps, calibrated_mbps: calibrated(proposal)? })
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

/// Sends packets at each of these rates through a gateway that does everything on its worker's core.
///
/// # Errors
/// [`MeasureError`] if a trial could not be held.
pub fn utilisation(
    service: &Service,
    placement: &Placement,
    lengths: Lengths,
    rates: &[f64],
    seconds: f64,
) -> Result<Vec<Busy>, MeasureError> {
    let mut gateway = Scheme::ALL[0].start(service, placement)?;
    let shape = Shape { lengths, ways: Ways::One };
    let mut all = Vec::new();
    for rate in rates {
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
        let short = blocks(&service, Lengths::All(64), 16).expect("loopback");
        let long = blocks(&service, Lengths::All(1450), 16).expect("loopback");
        for name in
            [BlockName::Receive, BlockName::ClassifyAndPrepare, BlockName::Crypto, BlockName::Transmit]
        {
            assert!(short.of(name) > 0.0, "{name:?}: {short:?}");
        }
        assert!(long.of(BlockName::Crypto) > short.of(BlockName::Crypto), "{short:?} {long:?}");
    }
}
