//! The claims about latency and memory against load, for which the paper has no figure: section
//! 4.4.1's account of what happens when packets come too frequently.

use super::super::runs::{LINE_PERCENT, Runs, System, What, cpu, line_pps};
use super::{Claim, finding};
use crate::basis::Basis;
use crate::finding::{Finding, bounds};

/// Lengths of which several loads were run.
const LENGTHS: [u32; 4] = [64, 512, 1024, 1518];
/// Utilisation of the XScale up to which it is not busy all the time.
const BUSY: f64 = 0.95;

pub(super) fn all() -> Vec<Claim> {
    vec![
        Claim {
            source: "4.4.1",
            text: "The busyness of the XScale leads the latency to increase when packets come too frequently: over twice as long \
                   where packets are lost, at 64 bytes",
            basis: Basis::put_in(
                "the places for frames fill where packets are lost, and each frame waits for those before it",
            )
            .read_as("from the arrival of a frame to its departure, mean over frames that get through"),
            compared: "latency at the loads where packets are lost with that at 3 % of the line",
            check: grows_when_busy,
        },
        Claim {
            source: "4.4.1",
            text: "… before the XScale is busy all the time as well: by over 5 % at each length",
            basis: Basis::MODEL.read_as("up to 95 % of utilisation, as the paper says of packets that come \"too frequently\" no more than that"),
            compared: "latency at the highest load below 95 % of utilisation with that at 3 % of the line, at each length",
            check: grows_below_saturation,
        },
        Claim {
            source: "4.4.1",
            text: "Then the packet queue is full, and the remaining packets are dropped: where packets are lost, over five times as \
                   many frames are in the system as at any load without loss",
            basis: Basis::put_in("a packet is dropped only where all places are taken")
                .read_as("frames in the system by Little's law: packets that get through by their latency"),
            compared: "frames in the system where packets are lost with those where none is, at each length and load",
            check: fills_buffers,
        },
        Claim {
            source: "4.4.1",
            text: "The bandwidth of the memory is not the bottleneck",
            basis: Basis::put_in(
                "the platform has no memory: what it takes is in the XScale's times, which were fitted, and only the AHB to it can be busy",
            ),
            compared: "utilisation of the AHB, over which all frames go to memory, with 70 %, at the line's rate with 1518 bytes",
            check: |runs| {
                let load = What::Load(line_pps(1518, 100));
                let ahb = runs.of(System::Ixp425, "forwarding", 1518, load).report.buses[0].utilisation;
                finding(ahb < 0.7, format!("AHB {:.0} %", ahb * 100.0))
            },
        },
    ]
}

/// The state of the gateway under a load.
struct State {
    cpu: f64,
    latency_us: f64,
    /// Frames in the system.
    frames: f64,
    has_loss: bool,
}

fn at(runs: &Runs, length: u32, percent: u32) -> State {
    let load = What::Load(line_pps(length, percent));
    let report = &runs.of(System::Ixp425, "forwarding", length, load).report;
    State {
        cpu: cpu(report),
        latency_us: report.sojourn_ms * 1e3,
        frames: report.carried.pps * report.sojourn_ms * 1e-3,
        has_loss: report.dropped.packets > 0,
    }
}

fn grows_below_saturation(runs: &Runs) -> Finding {
    let growth = |length| {
        let lowest = at(runs, length, LINE_PERCENT[0]).latency_us;
        let below =
            LINE_PERCENT.map(|percent| at(runs, length, percent)).into_iter().filter(|it| it.cpu < BUSY);
        bounds(below.map(|it| it.latency_us)).1 / lowest
    };
    let each = LENGTHS.map(|length| format!("{length} B {:.3}", growth(length)));
    let all = LENGTHS.iter().all(|length| growth(*length) > 1.05);
    finding(all, format!("times that at 3 % of the line: {}", each.join(", ")))
}

fn grows_when_busy(runs: &Runs) -> Finding {
    let lowest = at(runs, 64, LINE_PERCENT[0]).latency_us;
    let (lossy, lossless) = by_loss(LINE_PERCENT.map(|percent| at(runs, 64, percent)));
    let latency = |of: &[State]| bounds(of.iter().map(|it| it.latency_us));
    let (below, above) = (latency(&lossless), latency(&lossy));
    finding(
        !lossy.is_empty() && above.0 > 2.0 * lowest,
        format!(
            "{lowest:.0} us at 3 % of the line; {:.0} to {:.0} us without loss, {:.0} to {:.0} us with it",
            below.0, below.1, above.0, above.1
        ),
    )
}

fn fills_buffers(runs: &Runs) -> Finding {
    let every = LENGTHS.iter().flat_map(|length| LINE_PERCENT.map(|percent| at(runs, *length, percent)));
    let (lossy, lossless) = by_loss(every);
    let frames = |of: &[State]| bounds(of.iter().map(|it| it.frames));
    let (full, free) = (frames(&lossy), frames(&lossless));
    finding(
        !lossy.is_empty() && full.0 > 5.0 * free.1,
        format!(
            "{:.1} to {:.1} frames where packets are lost, {:.1} to {:.1} where none is",
            full.0, full.1, free.0, free.1
        ),
    )
}

/// The states in which packets are lost, and the others.
fn by_loss(states: impl IntoIterator<Item = State>) -> (Vec<State>, Vec<State>) {
    states.into_iter().partition(|it| it.has_loss)
}
