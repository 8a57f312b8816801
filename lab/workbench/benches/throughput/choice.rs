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
    let names = [
        "proposal",
        "bytes",
        "burst",
        "software",
        "multibuffer",
        "both",
        "both / better",
        "of both by software",
    ];
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
    let turns: Vec<[f64; 3]> = (0..TURNS)
        .map(|_| {
            let of_rounds = |rig: &mut Rig| median((0..ROUNDS).map(|_| round(rig, burst)).collect());
            rigs.each_mut().map(|rig| of_rounds(rig) / burst as f64)
        })
        .collect();
    let taken = rigs[2].taken(0);
    let share = 100.0 * taken[1] as f64 / taken.iter().sum::<u64>() as f64;
    let lowest = [0, 1, 2].map(|at| turns.iter().map(|turn| turn[at]).fold(f64::MAX, f64::min));
    // Of one turn, as the core's clock may change between two.
    let ratio = median(turns.iter().map(|[one, other, both]| both / one.min(*other)).collect());
    let cycles = lowest.map(|cycles| format!("{cycles:.0}"));
    let names = [proposal.to_owned(), bytes.to_string(), burst.to_string()];
    row(&[&names[..], &cycles, &[format!("{ratio:.2}"), format!("{share:.0} %")]].concat());
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
