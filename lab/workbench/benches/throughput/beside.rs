//! A gateway with the inline engine and a second engine on another core, compared with the inline
//! engine alone: cycles per packet under saturation.

use convoy_dataplane::costs::Costs;
use convoy_engine::{Engine, IdleEngine, Multibuffer};
use convoy_ipsec::Proposal;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::path::{Rig, Setting};
use crate::report::{row, table};

/// A cipher that is cheaper than handing a packet to another core, and one that is more expensive.
const PROPOSALS: [&str; 2] = ["aes128gcm16", "aes128-sha256"];
/// Number of SAs, and inner packet length in bytes.
const CASES: [(usize, usize); 4] = [(1, 64), (100, 64), (1, 1450), (100, 1450)];
/// Packets per pass, all available at once.
const PACKETS: usize = 1_024;
const WARM_UP: usize = 30;
const PASSES: usize = 301;
/// The worker's core, and the engine's.
const CORES: [usize; 2] = [0, 1];
fn inline() -> Box<dyn Engine> {
    Box::new(Multibuffer::inline("inline").expect("the report was asked whether the library is there"))
}

fn beside() -> Vec<Box<dyn Engine>> {
    let elsewhere = Multibuffer::on_core("elsewhere", CORES[1]).expect("a thread can be had");
    vec![inline(), Box::new(elsewhere)]
}

/// Costs measured on separate, idle instances.
fn costs(proposal: &str) -> Costs {
    let transform = proposal.parse::<Proposal>().expect("a good proposal").transform;
    let mut costs = Costs::without_cache();
    for engine in beside() {
        let name = engine.description().name.clone();
        let cost = IdleEngine::from(engine).calibrate(transform).expect("the library does it");
        costs.set_fixed(&name, cost);
    }
    costs
}

/// Two pairs of gateways: one with the inline engine alone, one with both engines in direction
/// `way`. The other gateway of each pair has the inline engine.
fn rigs(setting: &Setting<'_>, way: usize, costs: &Costs) -> [Rig; 2] {
    let alone = Rig::with(setting, [vec![inline()], vec![inline()]], costs);
    let mut engines = [vec![inline()], vec![inline()]];
    engines[way] = beside();
    [alone, Rig::with(setting, engines, costs)]
}

/// Median ticks per packet of each rig, measured alternately.
fn cycles(rigs: &mut [Rig; 2], way: usize) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for pass in 0..WARM_UP + PASSES {
        for (rig, times) in rigs.iter_mut().zip(&mut times) {
            let taken = rig.timed_pass(PACKETS)[way];
            if pass >= WARM_UP {
                times.push(taken);
            }
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / PACKETS as f64
    })
}

pub(crate) fn report() {
    if Multibuffer::inline("inline").is_err() {
        return println!("\nThere is no ipsec-mb, and so no engine on a core of its own.");
    }
    let mut cpus = CpuSet::new();
    if cpus.set(CORES[0]).and_then(|()| sched_setaffinity(Pid::from_raw(0), &cpus)).is_err() {
        return println!("\nThe worker cannot have a core of its own.");
    }
    let title = format!(
        "An engine on a core of its own beside the inline one: cycles per packet, medians of {PASSES} passes of {PACKETS}"
    );
    let columns = ["proposal", "way", "SAs", "bytes", "inline", "both", "times", "done elsewhere"];
    table(&title, &columns.map(str::to_owned));
    for proposal in PROPOSALS {
        let costs = costs(proposal);
        for (way, name) in ["out", "in"].into_iter().enumerate() {
            for (sas, bytes) in CASES {
                let setting = Setting { link: PACKETS, ..Setting::timed(proposal, bytes, sas) };
                let cells = [proposal, name].map(str::to_owned).to_vec();
                row(&[cells, measure(&setting, way, &costs)].concat());
            }
        }
    }
}

/// The table cells of one case.
fn measure(setting: &Setting<'_>, way: usize, costs: &Costs) -> Vec<String> {
    let mut rigs = rigs(setting, way, costs);
    let [alone, both] = cycles(&mut rigs, way);
    let taken = rigs[1].taken(way);
    let elsewhere = taken[1] as f64 / taken.iter().sum::<u64>() as f64;
    let mut cells = vec![setting.sas.to_string(), setting.bytes.to_string()];
    cells.extend([format!("{alone:.0}"), format!("{both:.0}"), format!("{:.2}", alone / both)]);
    cells.push(format!("{:.0} %", 100.0 * elsewhere));
    cells
}
