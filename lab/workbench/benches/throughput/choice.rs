//! What the finishing time gains on a plain processor: `software` and `multibuffer` on the worker's
//! core, each alone and both with calibrated costs.

use convoy_assembly::assemble;
use convoy_engine::{Engine, Multibuffer, Software};

use crate::path::{PathDirection, Rig, Setting, site};
use crate::report::{row, table};
use crate::time::{median, ticks};

const PROPOSALS: [&str; 3] = ["aes128gcm16", "aes128-sha1", "aes128-sha256"];
const BYTES: [usize; 2] = [64, 1450];
const BURSTS: [usize; 4] = [1, 2, 4, 32];
/// Rounds of each turn, and turns.
const ROUNDS: usize = 300;
const TURNS: usize = 9;

/// Prints the table.
pub(crate) fn report() {
    let names = ["proposal", "bytes", "burst", "software", "multibuffer", "both", "of these by software"];
    table("A choice of two engines on the worker's core: cycles per packet out", &names.map(str::to_owned));
    for proposal in PROPOSALS {
        for (bytes, burst) in BYTES.into_iter().flat_map(|bytes| BURSTS.map(|burst| (bytes, burst))) {
            case(proposal, bytes, burst);
        }
    }
}

fn case(proposal: &str, bytes: usize, burst: usize) {
    let setting = Setting::timed(proposal, bytes, 1);
    let software = || -> Box<dyn Engine> { Box::new(Software::new("software")) };
    let multibuffer = || -> Box<dyn Engine> {
        Box::new(Multibuffer::inline("multibuffer").expect("ipsec-mb, see scripts/install.sh"))
    };
    let mut costs = assemble::costs();
    costs.measure_by(software().description(), move || Ok(software().into()));
    costs.measure_by(multibuffer().description(), move || Ok(multibuffer().into()));
    costs.measure(site(&setting, 1).tunnels[0].proposal.transform);
    let set = |at: usize| match at {
        0 => vec![software()],
        1 => vec![multibuffer()],
        _ => vec![multibuffer(), software()],
    };
    let mut rigs = [0, 1, 2].map(|at| Rig::with(&setting, [set(at), set(at)], &costs));
    let mut turns = [const { Vec::new() }; 3];
    for _ in 0..TURNS {
        for (rig, turns) in rigs.iter_mut().zip(&mut turns) {
            turns.push(median((0..ROUNDS).map(|_| round(rig, burst)).collect()) / burst as f64);
        }
    }
    let taken = rigs[2].taken(0);
    let share = 100.0 * taken[1] as f64 / taken.iter().sum::<u64>() as f64;
    let cycles = turns.map(|turns| format!("{:.0}", turns.into_iter().fold(f64::MAX, f64::min)));
    let names = [proposal.to_owned(), bytes.to_string(), burst.to_string()];
    row(&[&names[..], &cycles, &[format!("{share:.0} %")]].concat());
}

/// Ticks of a round of the encrypting gateway.
fn round(rig: &mut Rig, burst: usize) -> f64 {
    rig.fill(burst);
    let began = ticks();
    rig.part(PathDirection::Out, burst, false);
    let time = ticks() - began;
    rig.part(PathDirection::In, burst, false);
    rig.empty(burst);
    time as f64
}
