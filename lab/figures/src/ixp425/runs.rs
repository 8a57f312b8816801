//! The runs behind the figures and claims of the IXP425 paper.

use std::collections::HashMap;

use convoy_sim::{Arrivals, Load, NdrSearch, Platform, Report, Setting, SimulationError};

use super::cases::Platforms;
use crate::FigureError;

/// Lengths of frames in bytes: those of figure 11, and others of RFC 2544.
pub(super) const LENGTHS: [u32; 8] = [64, 128, 256, 512, 1024, 1280, 1450, 1518];
/// The lengths of figure 11.
pub(super) const FIGURE_11: [u32; 5] = [64, 512, 1024, 1450, 1518];
/// Lengths whose requests to the coprocessor are those of figure 14: 284, 540, 1052 and 1458 bytes.
pub(super) const REQUESTS: [u32; 4] = [256, 512, 1024, 1430];
/// The longest frame that is not fragmented.
pub(super) const LONGEST: u32 = 1450;
/// Loads of figure 12 in percent of the line rate; with 64 bytes the XScale is saturated from 17 %
/// on.
pub(super) const LINE_PERCENT: [u32; 10] = [3, 6, 10, 13, 16, 20, 40, 60, 80, 100];
/// Loads of figure 13, in packets per second.
pub(super) const IPSEC_PPS: [u32; 12] =
    [400, 1200, 2000, 2800, 3200, 3600, 3800, 4000, 4400, 5200, 6400, 8400];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum System {
    Ixp425,
    Pentium3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// The highest rate without loss.
    Ndr,
    /// A fixed number of packets per second.
    Load(u32),
    /// One packet at a time.
    Idle,
    /// The coprocessor alone, always busy.
    Alone,
}

/// Identifies a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) system: System,
    /// Variants of its platform; empty if none.
    pub(super) variant: &'static str,
    pub(super) length: u32,
    pub(super) what: What,
}

/// The four schemes of figure 6: packet I/O by NPEs or not, cryptography by NPE B or not; each with
/// 3DES and with DES.
pub(super) const SCHEMES: [(&str, &str, &str); 4] = [
    ("none", "software-io+software-crypto", "software-io+software-crypto+des"),
    ("packet I/O", "software-crypto", "software-crypto+des"),
    ("cryptography", "software-io", "software-io+des"),
    ("both", "", "des"),
];
/// Forwarding with two NPEs, with one, and without.
pub(super) const FORWARDING: [(&str, &str); 3] =
    [("two NPEs", "forwarding"), ("one NPE", "forwarding+one-npe"), ("no NPE", "forwarding+software-io")];

/// Packets per second of a load given in percent of the line rate.
pub(super) fn line_pps(length: u32, percent: u32) -> u32 {
    (f64::from(percent) * 1e6 / f64::from(8 * (length + 20))) as u32
}

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    let mut add = |system, variant, length, what| keys.push(Key { system, variant, length, what });
    for length in LENGTHS {
        for (_, variant) in FORWARDING {
            add(System::Ixp425, variant, length, What::Ndr);
        }
        for (_, triple, single) in SCHEMES {
            add(System::Ixp425, triple, length, What::Ndr);
            add(System::Ixp425, single, length, What::Ndr);
        }
        for variant in ["forwarding", "", "des"] {
            add(System::Pentium3, variant, length, What::Ndr);
        }
    }
    for length in FIGURE_11 {
        add(System::Ixp425, "npe-b-receives", length, What::Ndr);
    }
    for length in [64, 512, 1024, 1518] {
        for percent in LINE_PERCENT {
            add(System::Ixp425, "forwarding", length, What::Load(line_pps(length, percent)));
        }
    }
    for length in [64, 512, LONGEST] {
        for pps in IPSEC_PPS {
            add(System::Ixp425, "", length, What::Load(pps));
        }
    }
    for variant in ["", "des"] {
        for length in REQUESTS {
            add(System::Ixp425, variant, length, What::Idle);
        }
        add(System::Ixp425, variant, REQUESTS[3], What::Alone);
        add(System::Pentium3, variant, LONGEST, What::Idle);
    }
    for variant in ["", "des", "software-crypto", "software-crypto+des"] {
        add(System::Ixp425, variant, LONGEST, What::Idle);
    }
    for variant in ["npe-lookup", "npe-lookup-fast", "direct-access", "npe-lookup-fast+direct-access"] {
        add(System::Ixp425, variant, LONGEST, What::Ndr);
    }
    keys
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The highest load without loss, or the carried load.
    pub(super) throughput: Load,
    /// The load at the line rate.
    pub(super) line: Load,
    pub(super) report: Report,
}

/// Packets per second, and number of packets, of a run in which packets never wait for each other.
const IDLE_PPS: f64 = 100.0;
const IDLE_PACKETS: u64 = 20;

/// The platform of a run.
pub(super) fn platform_of(platforms: &Platforms, key: &Key) -> Result<Platform, FigureError> {
    let base = match key.system {
        System::Ixp425 => &platforms.ixp425,
        System::Pentium3 => &platforms.pentium3,
    };
    let variant = (!key.variant.is_empty()).then(|| key.variant.to_owned());
    Ok(Setting { variant, ..Setting::default() }.platform(base)?)
}

/// Runs one simulation.
pub(super) fn run(platforms: &Platforms, key: &Key, packets: u64) -> Result<Outcome, FigureError> {
    let base = &platform_of(platforms, key)?;
    let setting =
        Setting { pattern: Some(key.length.to_string()), packets: Some(packets), ..Setting::default() };
    let outcome = match key.what {
        What::Ndr => {
            let found = NdrSearch::default().run(base, &setting)?;
            Outcome { throughput: found.throughput, line: found.line, report: found.report }
        }
        What::Load(pps) => paced(base, &setting, f64::from(pps))?,
        What::Idle => paced(base, &Setting { packets: Some(IDLE_PACKETS), ..setting }, IDLE_PPS)?,
        What::Alone => paced(&coprocessor_alone(base), &setting, 1e5)?,
    };
    Ok(outcome)
}

pub(super) fn paced(base: &Platform, setting: &Setting, pps: f64) -> Result<Outcome, SimulationError> {
    let mut simulation = setting.simulation(base)?;
    simulation.arrivals = Arrivals::Paced(pps);
    let report = simulation.run(setting.traffic()?)?;
    Ok(Outcome { throughput: report.carried, line: report.offered, report })
}

/// The gateway with the coprocessor as the only part that takes time.
fn coprocessor_alone(base: &Platform) -> Platform {
    let mut platform = base.clone();
    platform.source.rate_mbps = 1e5;
    for stage in platform.stages.iter_mut().filter(|stage| stage.on.is_some()) {
        (stage.packet_us, stage.byte_ns) = (0.0, 0.0);
    }
    platform
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Outcome>);

impl Runs {
    /// The result of one run; all runs that are requested are in [`keys`].
    pub(super) fn of(&self, system: System, variant: &'static str, length: u32, what: What) -> &Outcome {
        let key = Key { system, variant, length, what };
        self.0.get(&key).expect("every run that a figure or a claim asks for is among the keys")
    }

    /// The throughput of the IXP425 without loss, in Mbit/s of frames.
    pub(super) fn mbps(&self, variant: &'static str, length: u32) -> f64 {
        self.of(System::Ixp425, variant, length, What::Ndr).throughput.mbps
    }

    /// The throughput of the Pentium III without loss, in Mbit/s of frames.
    pub(super) fn pentium3_mbps(&self, variant: &'static str, length: u32) -> f64 {
        self.of(System::Pentium3, variant, length, What::Ndr).throughput.mbps
    }

    /// Turnaround time of a request to the coprocessor in us, with one packet at a time.
    pub(super) fn turnaround_us(&self, variant: &'static str, length: u32) -> f64 {
        let report = &self.of(System::Ixp425, variant, length, What::Idle).report;
        let stages = ["queue-manager", "crypto-in", "crypto-out"].map(|name| sojourn_us(report, name));
        stages.iter().sum::<f64>() + report.latency_ms * 1e3
    }

    /// A table with one row for each run, in order.
    pub(super) fn csv(&self) -> String {
        let mut rows: Vec<String> = self.0.iter().map(|(key, outcome)| row(key, outcome)).collect();
        rows.sort();
        let head = "system,variant,length,what,throughput_pps,throughput_mbps,offered_pps,success_ratio,cpu,npe_b,ahb";
        format!("{head}\n{}", rows.concat())
    }
}

fn row(key: &Key, outcome: &Outcome) -> String {
    let Outcome { throughput, report, .. } = outcome;
    let processor =
        |at: usize| report.processors.get(at).map(|it| it.utilisation.to_string()).unwrap_or_default();
    let bus = report.buses.first().map(|bus| bus.utilisation.to_string()).unwrap_or_default();
    format!(
        "{:?},{},{},{:?},{},{},{},{},{},{},{bus}\n",
        key.system,
        key.variant,
        key.length,
        key.what,
        throughput.pps,
        throughput.mbps,
        report.offered.pps,
        report.success_ratio,
        processor(0),
        processor(1)
    )
}

/// Service time of a stage for each packet in us; 0 if the stage is absent.
pub(super) fn service_us(report: &Report, name: &str) -> f64 {
    report.stages.iter().find(|stage| stage.name == name).map_or(0.0, |stage| stage.service_us)
}

fn sojourn_us(report: &Report, name: &str) -> f64 {
    report.stages.iter().find(|stage| stage.name == name).map_or(0.0, |stage| stage.sojourn_us)
}

/// Utilisation of the CPU, 0 to 1.
pub(super) fn cpu(report: &Report) -> f64 {
    report.processors[0].utilisation
}

/// Utilisation of NPE B, 0 to 1.
pub(super) fn npe_b(report: &Report) -> f64 {
    report.processors[1].utilisation
}
