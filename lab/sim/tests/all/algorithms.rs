//! Processors that differ in the algorithms that they support.

use std::collections::{BTreeMap, BTreeSet};

use convoy_sim::{Pattern, Platform, Served, Simulation, Synthetic, SyntheticSpec};

/// SAs of two algorithms, a CPU that has both, 3DES at ten times its time for a block, and an
/// accelerator of AES alone.
const TEXT: &str = r#"
name = "two algorithms"
reference = { t_init_us = 1.0, block_mbps = 128.0 }
source = { header_bytes = 0, esp_bytes = 0 }

[[algorithm]]
name = "aes"
share = 3

[[algorithm]]
name = "3des"
share = 1

[[processor]]
name = "cpu"
kind = "cpu"
algorithms = { aes = {}, 3des = { enc_ratio = 10.0 } }

[[processor]]
name = "engine"
enc_ratio = 0.5
algorithms.aes = { init_ratio = 2.0 }
"#;

fn platform(changes: &[(&str, &str)]) -> Platform {
    let text = changes.iter().fold(TEXT.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    Platform::from_toml("two.toml", &text).expect("good")
}

/// For each SA the processors that served it, and for each processor its times for packets of ten
/// blocks without what a multi-packet costs, in ns a packet.
type Seen = (BTreeMap<u32, BTreeSet<usize>>, BTreeMap<(usize, u32), BTreeSet<u64>>);

fn run(platform: Platform) -> Seen {
    let (mut processors, mut times) = Seen::default();
    let mut observer = |served: &Served<'_>| {
        processors.entry(served.sa).or_default().insert(served.processor);
        let init_us = if served.processor == 0 { 1 } else { 2 };
        let blocks_ns = served.processing_ticks / 1000 - 1000 * init_us;
        let packet_ns = blocks_ns / served.packets.len() as u64;
        times.entry((served.processor, served.sa)).or_default().insert(packet_ns);
    };
    let spec = SyntheticSpec { sas: 40, ..SyntheticSpec::default() };
    let traffic = Synthetic::new(Pattern::Fixed(160), &spec, 1, 4_000).expect("in range");
    Simulation::new(platform).run_observed(traffic, &mut observer).expect("in range");
    (processors, times)
}

#[test]
fn processors_get_only_what_they_support_and_take_the_times_of_each_algorithm() {
    let (processors, times) = run(platform(&[]));
    let of_cpu_alone: BTreeSet<u32> =
        processors.iter().filter(|(_, of)| !of.contains(&1)).map(|(sa, _)| *sa).collect();
    assert!((9..=11).contains(&of_cpu_alone.len()), "a quarter of {}", processors.len());
    for ((processor, sa), packet_ns) in times {
        let expected = match (processor, of_cpu_alone.contains(&sa)) {
            (0, true) => 100_000,
            (0, false) => 10_000,
            _ => 5_000,
        };
        assert_eq!(packet_ns, BTreeSet::from([expected]), "SA {sa} at processor {processor}");
    }
}

#[test]
fn algorithms_that_cost_the_same_everywhere_change_nothing() {
    let same = [
        ("algorithms = { aes = {}, 3des = { enc_ratio = 10.0 } }", ""),
        ("algorithms.aes = { init_ratio = 2.0 }", ""),
    ];
    let none = [
        same[0],
        same[1],
        ("[[algorithm]]\nname = \"aes\"\nshare = 3\n", ""),
        ("[[algorithm]]\nname = \"3des\"\nshare = 1\n", ""),
    ];
    let report = |platform| {
        let simulation = Simulation::new(platform);
        let report = simulation.run_pattern(Pattern::Trace, &SyntheticSpec::default(), 5_000);
        serde_json::to_string(&report.expect("in range")).expect("numbers")
    };
    assert_eq!(report(platform(&same)), report(platform(&none)));
}

#[test]
fn known_cache_and_algorithm_are_predicted_together() {
    // Predictions are exact: a wrong one would be corrected, and the processing time differ from
    // it.
    let cached = [("enc_ratio = 0.5\n", "enc_ratio = 0.5\ncache = { sas = 8, miss_us = 3.0 }\n")];
    let (processors, times) = run(platform(&cached));
    assert!(processors.values().filter(|of| !of.contains(&1)).count() >= 10, "3DES is the CPU's");
    let engine = times.iter().filter(|((processor, _), _)| *processor == 1);
    let all: BTreeSet<u64> = engine.flat_map(|(_, packet_ns)| packet_ns).copied().collect();
    assert!(all.contains(&5_000) && all.contains(&8_000), "hits, and misses of single packets: {all:?}");
}

#[test]
fn errors_name_the_algorithm() {
    for (from, to, message) in [
        (
            "algorithms.aes",
            "algorithms.aess",
            "processor[1].algorithms: there is no [[algorithm]] with the name \"aess\"; did you mean \"aes\"?",
        ),
        ("share = 1", "share = 0", "algorithm[1].share: 0; it must be a number above 0"),
        ("name = \"3des\"\nshare", "name = \"aes\"\nshare", "algorithm[1].name: \"aes\" is used twice"),
        (
            ", 3des = { enc_ratio = 10.0 }",
            "",
            "algorithm[1].name: no processor supports \"3des\", so its packets never leave",
        ),
        (
            "enc_ratio = 10.0",
            "enc_ratio = -1.0",
            "processor[0].algorithms: 3des.enc_ratio = -1; it must be a number 0 or more",
        ),
        ("enc_ratio = 10.0", "enc = 1", "unknown key"),
    ] {
        assert!(TEXT.contains(from), "{from}");
        let error = Platform::from_toml("two.toml", &TEXT.replacen(from, to, 1)).expect_err("wrong");
        assert!(error.to_string().contains(message), "{error}");
    }
}
