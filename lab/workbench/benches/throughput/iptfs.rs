//! AGGFRAG mode (IP-TFS) beside tunnel mode: cycles per inner packet of the whole path, in turns.

use crate::path::{PathDirection, Rig, Setting, usual_engine};
use crate::report::{row, table};
use crate::sample::AT_HAND;
use crate::time::{median, ticks};

const PROPOSALS: [&str; 2] = ["aes128gcm16", "aes128-sha1"];
const BYTES: [usize; 3] = [64, 512, 1450];
const SAS: [usize; 2] = [1, 100];
/// The modes, in turns.
const MODES: [&str; 2] = ["tunnel", "iptfs"];
const TURNS: usize = 12;
/// Passes of each turn.
const PASSES: usize = 400;

/// Prints the table.
pub(crate) fn report() {
    let names = ["proposal", "bytes", "SAs", "way", "tunnel", "iptfs", "ratio", "outer packets per inner"];
    let title = format!(
        "AGGFRAG mode: cycles per inner packet, {AT_HAND} at hand, the least median of {TURNS} turns"
    );
    table(&title, &names.map(str::to_owned));
    for proposal in PROPOSALS {
        for (bytes, sas) in BYTES.into_iter().flat_map(|bytes| SAS.map(|sas| (bytes, sas))) {
            case(proposal, bytes, sas);
        }
    }
}

/// Prints the rows of one case.
pub(crate) fn case(proposal: &str, bytes: usize, sas: usize) {
    let mut rigs = MODES.map(|mode| rig(proposal, mode, bytes, sas));
    let mut least = [[f64::MAX; 2]; 2];
    for _ in 0..TURNS {
        for (rig, least) in rigs.iter_mut().zip(&mut least) {
            let turn = turn(rig);
            least.iter_mut().zip(turn).for_each(|(least, cycles)| *least = least.min(cycles));
        }
    }
    let sent = rigs.each_ref().map(|rig| rig.outer_packets() as f64);
    for (at, way) in ["out", "in"].into_iter().enumerate() {
        let [tunnel, iptfs] = [least[0][at], least[1][at]];
        row(&[
            proposal.to_owned(),
            bytes.to_string(),
            sas.to_string(),
            way.to_owned(),
            format!("{tunnel:.0}"),
            format!("{iptfs:.0}"),
            format!("{:.2}", iptfs / tunnel),
            format!("{:.3}", sent[1] / sent[0]),
        ]);
    }
}

fn rig(proposal: &str, mode: &str, bytes: usize, sas: usize) -> Rig {
    let setting = Setting { mode, link: AT_HAND, ..Setting::timed(proposal, bytes, sas) };
    let mut rig = Rig::new(&setting, &mut usual_engine);
    for _ in 0..PASSES {
        rig.pass(AT_HAND, [false; 2]);
    }
    rig
}

/// Ticks per packet of each direction, as medians over the passes of a turn.
fn turn(rig: &mut Rig) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..PASSES {
        rig.fill(AT_HAND);
        for way in PathDirection::ALL {
            let began = ticks();
            rig.part(way, AT_HAND, false);
            times[way as usize].push((ticks() - began) as f64 / AT_HAND as f64);
        }
        rig.empty(AT_HAND);
    }
    times.map(median)
}
