//! Platform files: errors are reported with line and key.

use convoy_sim::{Arrivals, Pattern, Platform, Simulation, SimulationError, SyntheticSpec};

use crate::support::paper;

const PAPER: &str = include_str!("../../../../platforms/pci-accelerators.toml");

fn error(text: &str) -> String {
    Platform::from_toml("p.toml", text).expect_err("wrong").to_string()
}

/// The paper's platform with one line replaced, and the number of that line.
fn with(line: &str, replacement: &str) -> (String, usize) {
    let number = PAPER.lines().position(|of| of.starts_with(line)).expect("a line of the file") + 1;
    let lines = PAPER.lines().enumerate();
    let replaced = lines.map(|(at, of)| if at + 1 == number { replacement } else { of });
    (replaced.collect::<Vec<_>>().join("\n"), number)
}

#[test]
fn the_papers_platform_has_the_values_of_model_md() {
    let platform = paper();
    assert_eq!((platform.source.rate_mbps, platform.source.header_bytes), (1000.0, 40));
    assert_eq!((platform.reference.t_init_us, platform.reference.block_mbps), (2.0, 230.0));
    assert_eq!(platform.scheduler.byte_limit, None);
    assert!(platform.processors.iter().all(|processor| processor.depth == 10));
    let text = toml::to_string(&platform).expect("written");
    assert_eq!(Platform::from_toml("again", &text).expect("read back"), platform);
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_key() {
    for (line, replacement, key, what) in [
        ("window = 30", "windw = 30", "scheduler.windw", "unknown key; did you mean \"window\"?"),
        ("window = 30", "window = \"x\"", "scheduler.window", "invalid type"),
        ("window = 30", "window = 0", "scheduler", "1 to 1024"),
        ("policy", "policy = \"best\"", "scheduler.policy", "finishing-time"),
        ("rate_mbps", "rate_mbps = 0", "source.rate_mbps", "above 0"),
        ("t_init_us", "t_init_us = -1.0", "reference.t_init_us", "0 or more"),
        ("block_mbps", "block_mbps = nan", "reference.block_mbps", "above 0"),
        ("clock_mhz", "clock_mhz = inf", "bus[0].clock_mhz", "above 0"),
        ("width_bytes", "width_bytes = 0", "bus[0].width_bytes", "at least 1"),
        ("init_ratio", "init_ratio = -3.0", "processor[0].init_ratio", "0 or more"),
        ("kind = \"cpu\"", "prefetch = true", "processor[0].prefetch", "with a bus"),
        ("kind = \"cpu\"", "transfers = 1", "processor[0].transfers", "with a bus"),
        ("count = 1", "transfers = 3", "processor[1].transfers", "1 or 2 times"),
        ("window = 30", "pool = 0", "scheduler.pool", "at least 1"),
        ("kind = \"cpu\"", "kind = \"gpu\"", "processor[0].kind", "did you mean \"cpu\""),
        ("bus = \"pci\"", "bus = \"isa\"", "processor[1].bus", "\"isa\""),
        ("name = \"accelerator\"", "name = \"cpu\"", "processor[1].name", "used twice"),
    ] {
        let (text, number) = with(line, replacement);
        let error = error(&text);
        let is_table = key == "scheduler";
        assert!(is_table || error.starts_with(&format!("p.toml:{number}:")), "{error}");
        assert!(is_table || error.contains(&format!(": error: {key}: ")), "{error}");
        assert!(error.contains(what) && error.contains(key), "{error}");
    }
}

#[test]
fn stages_are_checked_too() {
    let with_stage = |stage: &str| format!("{PAPER}\n[[stage]]\nname = \"s\"\nplace = \"before\"\n{stage}\n");
    assert!(Platform::from_toml("p.toml", &with_stage("servers = 2\npacket_us = 1.5")).is_ok());
    for (stage, what) in [
        ("servers = 0", "at least 1"),
        ("on = \"accelerator\"", "without a bus"),
        ("on = \"absent\"", "absent"),
        ("bus = \"pci\"\npacket_us = 1.0", "either on a bus"),
        ("packet_us = -1.0", "0 or more"),
    ] {
        assert!(error(&with_stage(stage)).contains(what), "{stage}");
    }
    let on = PAPER.replace("[scheduler]", "[scheduler]\non = \"accelerator\"");
    assert!(error(&on).contains("without a bus"), "{}", error(&on));
    let few = with_stage("").replace("header_bytes = 40", "frames = 29\nheader_bytes = 40");
    assert!(error(&few).contains("29 frames do not fill a window of 30"));
}

#[test]
fn what_is_built_by_hand_is_checked_when_it_runs() {
    let run = |simulation: &Simulation| simulation.run_pattern(Pattern::Imix, &SyntheticSpec::default(), 10);
    let mut platform = paper();
    platform.processors[0].depth = usize::MAX;
    assert!(run(&Simulation::new(platform.clone())).is_ok());
    platform.set_accelerators(64);
    assert!(matches!(run(&Simulation::new(platform)), Err(SimulationError::Platform(_))));
    let mut simulation = Simulation::new(paper());
    simulation.arrivals = Arrivals::Poisson(0.0);
    assert!(matches!(run(&simulation), Err(SimulationError::Arrivals(_))));
    assert!(Platform::load("/nowhere.toml".as_ref()).is_err());
}

#[test]
fn the_number_of_packets_cuts_traffic_off() {
    let mut simulation = Simulation::new(paper());
    simulation.packets = Some(777);
    let report = simulation.run_pattern(Pattern::Imix, &SyntheticSpec::default(), 1000).expect("in range");
    assert_eq!((report.packets, report.packets_out), (777, 777));
}

#[test]
fn cores_and_queues_that_make_no_sense_are_named_with_their_line_and_key() {
    let lines = PAPER.lines().count();
    for (table, what) in [
        ("[[cores]]\nname = \"host\"\ncount = 0", "cores[0].count: 0; at least 1"),
        ("[[cores]]\nname = \"cpu\"\ncount = 1", "cores[0].name: \"cpu\" is used twice"),
        (
            "[[stage]]\nname = \"read\"\nplace = \"before\"\non = \"host\"",
            "stage[0].on: \"host\" is neither the name of a single processor",
        ),
    ] {
        let message = error(&format!("{PAPER}\n{table}\n"));
        let number: usize = message.split(':').nth(1).and_then(|line| line.parse().ok()).unwrap_or(0);
        assert!(number > lines && message.contains(what), "{message}");
    }
    let (text, line) = with("header_bytes", "header_bytes = 40\nqueue_bytes = 0");
    let message = error(&text);
    assert!(message.starts_with(&format!("p.toml:{}:15: error: source.queue_bytes", line + 1)), "{message}");
}
