//! The platforms and traffic on which policies are compared, and the cases of what is open.

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
}

/// What they are, in the order of [`open`].
pub(super) const NAMES: [&str; SCENARIOS] = [
    "paper: CPU and two accelerators on PCI, its trace",
    "paper: the same, IMIX, SAs by Zipf's law",
    "paper: the same, 24-byte payloads",
    "two engines: software and multibuffer elsewhere, IMIX, 8 SAs",
    "two engines: the same, 100 SAs",
    "three engines: software and two modelled accelerators, IMIX, 8 SAs",
    "three engines: the same, 1,000 SAs by Zipf's law",
    "card and CPU: GRIP's two pipelines and software, IMIX, 100 SAs",
    "ConnectX-7 and 8 cores, 1,600 tunnels",
    "two engines, one of which loses its core for 0.4 ms, 400 times a second",
];
pub(super) const SCENARIOS: usize = 10;

/// All scenarios.
pub(super) type Scenarios = Vec<Scenario>;

/// Costs of aes256-sha512 that docs/lab/results/policies.md has from calibration, as `t_init` and
/// `t_block` in ns: the gateway's own core, multibuffer on another core, and two modelled
/// accelerators.
const SOFTWARE: (&str, f64, f64) = ("software", 596.0, 117.0);
const MULTIBUFFER: (&str, f64, f64) = ("multibuffer", 3067.0, 17.8);
const MODELS: [(&str, f64, f64); 2] = [("model-a", 3239.0, 46.8), ("model-b", 3358.0, 70.2)];

/// The cases; the first is the comparison itself.
///
/// # Errors
/// A platform that comes with the program cannot be read.
pub(super) fn cases() -> Result<Vec<Case<Scenarios>>, FigureError> {
    let changes: [Change<Scenarios>; 8] = [
        ("window", "a window of 1", |it| windows(it, 1)),
        ("window", "a window of 8", |it| windows(it, 8)),
        ("window", "a window of 64", |it| windows(it, 64)),
        ("window", "a window of 256", |it| windows(it, 256)),
        ("times", "times up to 10 % off at random", |it| spread(it, 0.1)),
        ("times", "times up to 30 % off at random", |it| spread(it, 0.3)),
        ("times", "times up to 100 % off at random", |it| spread(it, 1.0)),
        ("times", "accelerators 30 % slower than calibrated, corrected on line", |it| slower(it, 1.3)),
    ];
    Ok(one_at_a_time(&open()?, &changes))
}

fn open() -> Result<Scenarios, FigureError> {
    let mut paper = Platform::open("pci-accelerators")?;
    paper.set_accelerators(2);
    let two = engines(&[SOFTWARE, MULTIBUFFER])?;
    let three = engines(&[SOFTWARE, MODELS[0], MODELS[1]])?;
    let mut stalled = two.clone();
    let loses = DeviationSpec { stall_every_us: 2_100.0, stall_us: 400.0, ..DeviationSpec::default() };
    stalled.processors[1].deviation = Some(loses);
    stalled.scheduler.corrects = true;
    let of = |platform: &Platform, pattern, sas, popularity| {
        let mut platform = platform.clone();
        platform.scheduler.work_conserving = true;
        platform.scheduler.late_margin_us = Some(200.0);
        window(&mut platform, 32);
        Scenario { platform, pattern, sas, popularity }
    };
    Ok(vec![
        of(&paper, "trace", 100, 0.0),
        of(&paper, "imix", 100, 1.0),
        of(&paper, "24", 100, 0.0),
        of(&two, "imix", 8, 0.0),
        of(&two, "imix", 100, 0.0),
        of(&three, "imix", 8, 0.0),
        of(&three, "imix", 1_000, 1.0),
        of(&card_and_cpu()?, "imix", 100, 0.0),
        of(&connectx()?, "1058", 3_200, 0.0),
        of(&stalled, "imix", 8, 0.0),
    ])
}

/// A platform of these engines without a bus; the first is the scheduler's own core.
fn engines(engines: &[(&str, f64, f64)]) -> Result<Platform, PlatformError> {
    let mut platform = Platform::open("pci-accelerators")?;
    platform.name = "engines".to_owned();
    platform.buses.clear();
    platform.source.rate_mbps = 100_000.0;
    platform.reference.t_init_us = 1.0;
    platform.reference.block_mbps = 128.0;
    let processor = |(place, (name, t_init, t_block)): (usize, &(&str, f64, f64))| ProcessorSpec {
        kind: if place == 0 { ProcessorKind::Cpu } else { ProcessorKind::Accelerator },
        count: 1,
        bus: None,
        depth: 64,
        init_ratio: t_init * 1e-3,
        enc_ratio: t_block * 1e-3,
        ..ProcessorSpec::named(name)
    };
    platform.processors = engines.iter().enumerate().map(processor).collect();
    Ok(platform)
}

/// The card, whose line is not the limit here, and the software of [`SOFTWARE`].
fn card_and_cpu() -> Result<Platform, PlatformError> {
    let mut platform = Platform::open("grip")?;
    platform.source.rate_mbps = 100_000.0;
    let (_, t_init, t_block) = SOFTWARE;
    let block_us = 128.0 / platform.reference.block_mbps;
    platform.processors.insert(
        0,
        ProcessorSpec {
            kind: ProcessorKind::Cpu,
            init_ratio: t_init * 1e-3 / platform.reference.t_init_us,
            enc_ratio: t_block * 1e-3 / block_us,
            ..ProcessorSpec::named("software")
        },
    );
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
    scenarios.iter_mut().for_each(|scenario| window(&mut scenario.platform, packets));
}

fn spread(scenarios: &mut Scenarios, spread: f64) {
    for processor in scenarios.iter_mut().flat_map(|scenario| &mut scenario.platform.processors) {
        let deviation = processor.deviation.unwrap_or_default();
        processor.deviation = Some(DeviationSpec { spread, ..deviation });
    }
}

fn slower(scenarios: &mut Scenarios, ratio: f64) {
    for platform in scenarios.iter_mut().map(|scenario| &mut scenario.platform) {
        platform.scheduler.corrects = true;
        for processor in platform.processors.iter_mut().filter(|of| of.kind == ProcessorKind::Accelerator) {
            let deviation = processor.deviation.unwrap_or_default();
            processor.deviation = Some(DeviationSpec { ratio, ..deviation });
        }
    }
}
