//! The engines of a gateway whose configuration names none, and the costs of any gateway's engines.
//!
//! Only engines on the worker's own core are chosen: `multibuffer` if Intel's library is available
//! and calibration finds it faster for some transform of the tunnels, and `software` always, which
//! supports everything. The scheduler gives each multi-packet to the one that finishes first.
//! Simulated devices and crypto threads are never chosen: the cost models contain the
//! cipher's time there, but not the worker's cost of waking the thread and handing packets over,
//! nor that the kernel's work for tun and sockets needs the spare core more. `convoy-lab sim plan`
//! measures that with a capture.

use convoy_config::{Config, EngineConfig};
use convoy_dataplane::costs::Costs;
use convoy_engine::{AlgorithmCost, AutoSelect, Engine, EngineKindRow, IdleEngine, selected};
use convoy_ipsec::Transform;

/// Packets and the blocks of each of the smallest burst that an engine gets, a packet of 64 bytes,
/// and of a window of full packets: real sizes are in between.
const BURSTS: [(u32, u16); 2] = [(1, 4), (32, 91)];
/// Transforms whose costs the log line names.
const TOLD: usize = 4;

/// The engines on the worker's core that are useful for a configuration's tunnels.
pub fn choose(config: &Config, costs: &mut Costs) -> Vec<EngineConfig> {
    let kinds = &config.kinds.engines;
    let faster = selected(kinds, AutoSelect::IfFaster).filter(|row| match row.idle() {
        Ok(engine) => engine.is_some_and(|engine| is_useful(engine, config, costs)),
        Err(reason) => {
            tracing::info!("{reason}");
            false
        }
    });
    let faster: Vec<&EngineKindRow> = faster.collect();
    faster.into_iter().chain(selected(kinds, AutoSelect::Always)).map(EngineConfig::plain).collect()
}

/// Whether it is faster for some needed transform than what is always available. If charon
/// negotiates transforms they are unknown, and it counts as useful.
fn is_useful(mut engine: IdleEngine, config: &Config, costs: &mut Costs) -> bool {
    let always = selected(&config.kinds.engines, AutoSelect::Always);
    let always = always.filter_map(|row| row.idle().ok().flatten());
    let mut always: Vec<IdleEngine> = always.collect();
    let is_known = config.charon.is_none() && !config.tunnels.is_empty();
    !is_known
        || transforms(config).into_iter().any(|transform| {
            let own = cost(&mut engine, transform, costs);
            let mut others = always.iter_mut().filter_map(|other| cost(other, transform, costs));
            own.is_some_and(|own| others.all(|other| is_faster(own, other)))
        })
}

fn is_faster(own: AlgorithmCost, other: AlgorithmCost) -> bool {
    BURSTS.iter().any(|(packets, blocks)| own.of_burst(*packets, *blocks) < other.of_burst(*packets, *blocks))
}

/// `None` if it does not support the transform, or fails.
fn cost(engine: &mut IdleEngine, transform: Transform, costs: &mut Costs) -> Option<AlgorithmCost> {
    let can = engine.description().transforms.contains(&transform);
    can.then(|| costs.of_engine(engine, transform)).and_then(|cost| {
        cost.inspect_err(|error| tracing::warn!("{error}; this engine is left out of the comparison")).ok()
    })
}

/// The transforms of the tunnels, without repetitions.
pub fn transforms(config: &Config) -> Vec<Transform> {
    let mut all = Vec::new();
    for transform in config.tunnels.iter().map(|tunnel| tunnel.proposal.transform) {
        if !all.contains(&transform) {
            all.push(transform);
        }
    }
    all
}

/// The engines of all workers and their costs for the tunnels' transforms, in one line.
pub fn summary(config: &Config, engines: &[Vec<Box<dyn Engine>>], costs: &Costs) -> String {
    let (transforms, costs) = (transforms(config), costs.models());
    let mut reported: Vec<String> = Vec::new();
    for description in engines.iter().flatten().map(|engine| engine.description()) {
        let does = |transform: &&Transform| description.transforms.contains(transform);
        let row = |transform: &Transform| format!("{transform}: {}", costs.of(description, *transform));
        let rows: Vec<String> = transforms.iter().take(TOLD).filter(does).map(row).collect();
        let model = if description.is_model { ", modelled timing" } else { "" };
        let rows = if rows.is_empty() { String::new() } else { format!(" ({})", rows.join(", ")) };
        let line = format!("{}{model}{rows}", description.name);
        if !reported.iter().any(|other| other.split(' ').next() == line.split(' ').next()) {
            reported.push(line);
        }
    }
    format!("engines: {}", reported.join("; "))
}

#[cfg(test)]
mod tests {
    use convoy_engine::Multibuffer;
    use convoy_scheduler::CostModel;

    use super::*;
    use crate::assemble;

    fn config(proposal: &str, more: &str) -> Config {
        let text = format!(
            "{more}[[tunnel]]\nname = \"t\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"{proposal}\"\n"
        );
        Config::parse("test.toml", &text).expect("good")
    }

    fn names(engines: &[Vec<Box<dyn Engine>>]) -> Vec<Vec<&str>> {
        let workers = engines.iter().map(|engines| engines.iter());
        workers.map(|engines| engines.map(|engine| engine.description().name.as_str()).collect()).collect()
    }

    #[test]
    fn without_engines_each_worker_has_what_is_useful_here_and_software_last() {
        let mut costs = assemble::costs();
        let config = config("aes128gcm16", "[gateway]\nworkers = 2\n");
        let engines = assemble::engines(&config, &mut costs).expect("software is everywhere");
        let one = match Multibuffer::inline("multibuffer") {
            Ok(_) => vec!["multibuffer", "software"],
            Err(_) => vec!["software"],
        };
        assert_eq!(names(&engines), [one.clone(), one.clone()]);
        let reported = summary(&config, &engines, &costs);
        assert!(reported.starts_with("engines: "), "{reported}");
        for name in one {
            assert_eq!(reported.matches(&format!("{name} (aes128gcm16: ")).count(), 1, "{reported}");
        }
    }

    #[test]
    fn a_crypto_core_serves_all_workers_unless_there_is_one_for_each() {
        let names_of = |engines: &str, workers: u16| -> Vec<Vec<String>> {
            let config = config("aes128gcm16", &format!("[gateway]\nworkers = {workers}\n{engines}"));
            let engines = assemble::engines(&config, &mut assemble::costs()).expect("threads can be had");
            names(&engines).iter().map(|names| names.iter().map(ToString::to_string).collect()).collect()
        };
        let core = |name: &str| format!("[[engine]]\nkind = \"software\"\ncore = 0\nname = \"{name}\"\n");
        let (one, two) = (core("one"), [core("one"), core("two")].concat());
        assert_eq!(names_of(&one, 1), [["one"]]);
        assert_eq!(names_of(&one, 2), [["one"], ["one"]]);
        assert_eq!(names_of(&two, 2), [["one"], ["two"]]);
        assert_eq!(names_of(&two, 3), [["one", "two"], ["one", "two"], ["one", "two"]]);
    }

    #[test]
    fn named_engines_are_what_there_is() {
        let mut costs = assemble::costs();
        let named = config("aes128gcm16", "[[engine]]\nkind = \"software\"\nname = \"mine\"\n");
        let engines = assemble::engines(&named, &mut costs).expect("software is everywhere");
        assert_eq!(names(&engines), [["mine"]]);
    }

    #[test]
    fn an_engine_is_faster_if_it_is_for_some_multi_packet() {
        let cost = |t_init, t_block| CostModel { t_init, t_block }.into();
        assert!(is_faster(cost(200.0, 5.0), cost(100.0, 10.0)), "for long ones");
        assert!(is_faster(cost(50.0, 20.0), cost(100.0, 10.0)), "for short ones");
        assert!(!is_faster(cost(200.0, 20.0), cost(100.0, 10.0)));
    }

    #[test]
    fn what_software_does_better_is_left_to_it() {
        let mut costs = assemble::costs();
        costs.set_fixed("multibuffer", CostModel { t_init: 1e9, t_block: 1e9 });
        assert_eq!(choose(&config("aes128gcm16", ""), &mut costs).len(), 1);
        let charon = "[gateway]\ncharon = \"/run/convoy/charon.sock\"\n[[port]]\nname = \"inside\"\nkind = \"tun\"\n\
                      device = \"convoy0\"\n[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n";
        let is_there = Multibuffer::inline("multibuffer").is_ok();
        let chosen = choose(&config("aes128gcm16", charon), &mut costs);
        assert_eq!(chosen.len(), 1 + usize::from(is_there), "what charon negotiates is not known");
    }
}
