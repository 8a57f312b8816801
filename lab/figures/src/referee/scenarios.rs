//! The platforms and traffic on which policies are compared, undisturbed and disturbed.

use std::sync::OnceLock;

use convoy_sim::{DeviationSpec, Platform, PlatformError, ProcessorKind, ProcessorSpec, Setting};

use crate::FigureError;
use crate::open::{Case, Change, one_at_a_time};

/// A platform and its traffic.
#[derive(Clone)]
pub(super) struct Scenario {
    pub(super) platform: Platform,
    pub(super) pattern: &'static str,
    pub(super) sas: u32,
    /// Exponent of Zipf's law; 0 for equal SAs.
    pub(super) popularity: f64,
    /// How many times the usual number of packets a run has: it must be longer than what disturbs
    /// it.
    pub(super) length: u64,
    /// Packets per second to which loads are relative, once it is known.
    pub(super) capacity: OnceLock<f64>,
}

/// What they are, in the order of [`open`], and their short names.
pub(super) const NAMES: [(&str, &str); SCENARIOS] = [
    ("paper: CPU and two accelerators on PCI, its trace", "paper"),
    ("paper: the same, IMIX, SAs by Zipf's law", "paper, Zipf"),
    ("paper: the same, 24-byte payloads", "paper, 24 B"),
    ("two engines: software and multibuffer elsewhere, IMIX, 8 SAs", "two, 8"),
    ("two engines: the same, 100 SAs", "two, 100"),
    ("three engines: software and two modelled accelerators, IMIX, 8 SAs", "three, 8"),
    ("three engines: the same, 1,000 SAs by Zipf's law", "three, 1,000"),
    ("card and CPU: GRIP's two pipelines and software, IMIX, 100 SAs", "card"),
    ("ConnectX-7 and 8 cores, 1,600 tunnels", "CX-7"),
    ("two engines, 100 SAs: multibuffer stands still for 1 ms, 100 times a second", "1 ms"),
    ("two engines, 100 SAs: multibuffer stands still for 10 ms, 25 times a second", "10 ms"),
    ("paper: an accelerator stands still for 150 ms, twice a second", "150 ms"),
    ("two engines, 100 SAs: multibuffer becomes 2 times slower", "2 times"),
    ("two engines, 100 SAs: multibuffer becomes 5 times slower", "5 times"),
    ("two engines, 100 SAs: a busy program shares multibuffer's core", "its core"),
    ("two engines, 100 SAs: a busy program shares the gateway's core", "own core"),
];
pub(super) const SCENARIOS: usize = 16;
/// The first scenario with a disturbance.
pub(super) const DISTURBED: usize = 9;

/// All scenarios, and the number of seeds with which each run is repeated.
#[derive(Clone)]
pub(super) struct Scenarios {
    pub(super) all: Vec<Scenario>,
    pub(super) seeds: u64,
}

/// Seeds of the comparison itself, and over the range.
const SEEDS: u64 = 10;
const RANGE_SEEDS: u64 = 3;

/// The calibrated costs of aes256-sha512, which docs/lab/results/policies.md cites: for each engine
/// its name, and `t_init` and `t_block` in ns.
const COSTS: &str = include_str!("../../../../docs/lab/results/engine-costs.csv");

/// An engine's `t_init` and `t_block` in us, by its name in [`COSTS`].
fn costs_of(name: &str) -> [f64; 2] {
    let mut rows = COSTS.lines().filter_map(|row| row.strip_prefix(name)?.strip_prefix(','));
    let (t_init_ns, t_block_ns) = rows.next().and_then(|row| row.split_once(',')).expect("a row of the file");
    [t_init_ns, t_block_ns].map(|ns| ns.parse::<f64>().expect("the file has numbers") * 1e-3)
}

/// The cases; the first is the comparison itself.
///
/// # Errors
/// A platform that comes with the program cannot be read.
pub(super) fn cases() -> Result<Vec<Case<Scenarios>>, FigureError> {
    let changes: [Change<Scenarios>; 4] = [
        ("window", "a window of 8", |it| windows(it, 8)),
        ("window", "a window of 64", |it| windows(it, 64)),
        ("times", "times up to 30 % off at random", |it| spread(it, 0.3)),
        ("times", "accelerators 30 % slower than calibrated, corrected on line", |it| slower(it, 1.3)),
    ];
    let mut cases = one_at_a_time(&open()?, &changes);
    cases.iter_mut().skip(1).for_each(|case| case.platforms.seeds = RANGE_SEEDS);
    Ok(cases)
}

fn open() -> Result<Scenarios, FigureError> {
    let mut paper = Platform::open("pci-accelerators")?;
    paper.set_accelerators(2);
    let two = two_engines()?;
    let three = engines(&["software", "model-a", "model-b"])?;
    let of = |platform: &Platform, pattern, sas, popularity| {
        let mut platform = platform.clone();
        platform.scheduler.work_conserving = true;
        platform.scheduler.late_margin_us = Some(200.0);
        window(&mut platform, 32);
        Scenario { platform, pattern, sas, popularity, length: 1, capacity: OnceLock::new() }
    };
    let two_100 = || of(&two, "imix", 100, 0.0);
    // Of the processors of `two`, 0 is the gateway's own core and 1 multibuffer's.
    let all = vec![
        of(&paper, "trace", 100, 0.0),
        of(&paper, "imix", 100, 1.0),
        of(&paper, "24", 100, 0.0),
        of(&two, "imix", 8, 0.0),
        two_100(),
        of(&three, "imix", 8, 0.0),
        of(&three, "imix", 1_000, 1.0),
        of(&card_and_cpu()?, "imix", 100, 0.0),
        of(&connectx()?, "1058", 3_200, 0.0),
        disturbed(two_100(), 1, stalls(9_000.0, 1_000.0), 6),
        disturbed(two_100(), 1, stalls(30_000.0, 10_000.0), 20),
        disturbed(of(&lone_accelerators(&paper), "trace", 100, 0.0), 1, stalls(350_000.0, 150_000.0), 10),
        disturbed(two_100(), 1, becomes_slower(2.0), 3),
        disturbed(two_100(), 1, becomes_slower(5.0), 3),
        disturbed(two_100(), 1, stalls(3_000.0, 3_000.0), 6),
        disturbed(two_100(), 0, stalls(3_000.0, 3_000.0), 6),
    ];
    Ok(Scenarios { all, seeds: SEEDS })
}

/// Identical processors as an entry each, so that one of them can be disturbed.
fn lone_accelerators(platform: &Platform) -> Platform {
    let mut platform = platform.clone();
    let each = platform.processors.iter().flat_map(|spec| {
        let name = |at| if spec.count > 1 { format!("{}-{at}", spec.name) } else { spec.name.clone() };
        (0..spec.count).map(move |at| ProcessorSpec { name: name(at), count: 1, ..spec.clone() })
    });
    platform.processors = each.collect();
    platform
}

fn stalls(every_us: f64, us: f64) -> DeviationSpec {
    DeviationSpec { stall_every_us: every_us, stall_us: us, ..DeviationSpec::default() }
}

/// After 2 ms, which is about a sixth of a run.
fn becomes_slower(ratio: f64) -> DeviationSpec {
    DeviationSpec { ratio, from_us: 2_000.0, ..DeviationSpec::default() }
}

fn disturbed(mut of: Scenario, processor: usize, deviation: DeviationSpec, length: u64) -> Scenario {
    of.platform.processors[processor].deviation = Some(deviation);
    of.platform.scheduler.corrects = true;
    of.length = length;
    of
}

/// `software` on the gateway's own core and `multibuffer` on another.
pub(super) fn two_engines() -> Result<Platform, PlatformError> {
    engines(&["software", "multibuffer"])
}

/// A platform of these engines without a bus; the first is the scheduler's own core.
fn engines(names: &[&str]) -> Result<Platform, PlatformError> {
    let mut platform = Platform::open("pci-accelerators")?;
    platform.name = "engines".to_owned();
    platform.buses.clear();
    platform.source.rate_mbps = 100_000.0;
    platform.reference.t_init_us = 1.0;
    platform.reference.block_mbps = 128.0;
    let processor = |(place, name): (usize, &&str)| {
        let [init_ratio, enc_ratio] = costs_of(name);
        ProcessorSpec {
            kind: if place == 0 { ProcessorKind::Cpu } else { ProcessorKind::Accelerator },
            depth: 64,
            init_ratio,
            enc_ratio,
            ..ProcessorSpec::named(name)
        }
    };
    platform.processors = names.iter().enumerate().map(processor).collect();
    Ok(platform)
}

/// The card, whose line is not the limit here, and `software`.
fn card_and_cpu() -> Result<Platform, PlatformError> {
    let mut platform = Platform::open("grip")?;
    platform.source.rate_mbps = 100_000.0;
    let [t_init_us, t_block_us] = costs_of("software");
    let block_us = 128.0 / platform.reference.block_mbps;
    let software = ProcessorSpec {
        kind: ProcessorKind::Cpu,
        init_ratio: t_init_us / platform.reference.t_init_us,
        enc_ratio: t_block_us / block_us,
        ..ProcessorSpec::named("software")
    };
    platform.processors.insert(0, software);
    Ok(platform)
}

fn connectx() -> Result<Platform, FigureError> {
    let setting = Setting { variant: Some("cores-8".to_owned()), ..Setting::default() };
    Ok(setting.platform(&Platform::open("connectx-7")?)?)
}

/// A card that takes packet by packet keeps its window of 1.
fn window(platform: &mut Platform, packets: usize) {
    if platform.name != "connectx-7" {
        platform.scheduler.window = packets;
    }
}

fn windows(scenarios: &mut Scenarios, packets: usize) {
    scenarios.all.iter_mut().for_each(|scenario| window(&mut scenario.platform, packets));
}

/// Without the scenarios that are disturbed already.
fn undisturbed(scenarios: &mut Scenarios) -> impl Iterator<Item = &mut Platform> {
    scenarios.all.iter_mut().take(DISTURBED).map(|scenario| &mut scenario.platform)
}

fn spread(scenarios: &mut Scenarios, spread: f64) {
    for processor in undisturbed(scenarios).flat_map(|platform| &mut platform.processors) {
        processor.deviation = Some(DeviationSpec { spread, ..DeviationSpec::default() });
    }
}

fn slower(scenarios: &mut Scenarios, ratio: f64) {
    for platform in undisturbed(scenarios) {
        platform.scheduler.corrects = true;
        for processor in platform.processors.iter_mut().filter(|of| of.kind == ProcessorKind::Accelerator) {
            processor.deviation = Some(DeviationSpec { ratio, ..DeviationSpec::default() });
        }
    }
}
