//! The runs behind the figures and claims of the GRIP papers.

use std::collections::HashMap;

use convoy_sim::{Arrivals, Load, NdrSearch, Platform, Report, Setting};

use crate::FigureError;

/// MTUs of the sweep, in bytes.
pub(super) const MTUS: [u32; 9] = [1000, 1500, 2000, 3000, 4000, 5000, 6000, 7500, 9000];
/// MTU of the demonstration.
pub(super) const JUMBO: u32 = 9000;
/// The usual MTU of Ethernet.
pub(super) const USUAL: u32 = 1500;
/// Bytes of the MTU that are not encrypted (IP, ESP header and IV), and encrypted bytes that are
/// not video (UDP, RTP and ESP trailer).
const CLEAR_BYTES: u32 = 36;
const OTHER_BYTES: u32 = 22;

/// Bytes of video in a packet.
pub(super) fn video_bytes(mtu: u32) -> u32 {
    mtu - CLEAR_BYTES - OTHER_BYTES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// The highest rate without loss.
    Ndr,
    /// A fixed rate of video, in Mbit/s.
    Video(u32),
}

/// Identifies a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Variants of the platform; empty if none.
    pub(super) variant: &'static str,
    pub(super) mtu: u32,
    pub(super) what: What,
}

/// A row of the profile: its name, the variant, Mbit/s of video, and percent: idle, kernel, IPsec,
/// driver, application, libc ("< 1 %" as 1).
pub(super) type Profile = (&'static str, &'static str, u32, [f64; 6]);
/// Figure 3 of HDTV.
pub(super) const PROFILES: [Profile; 3] = [
    ("HDTV-SMP", "", 893, [62.0, 28.0, 4.0, 3.0, 1.0, 1.0]),
    ("iperf-SMP", "iperf", 989, [47.0, 35.0, 4.0, 4.0, 2.0, 8.0]),
    ("iperf-UP", "iperf-uniprocessor", 989, [0.0, 70.0, 9.0, 4.0, 3.0, 12.0]),
];
/// The functions of a profile, with idle time first.
pub(super) const FUNCTIONS: [&str; 6] = ["idle", "kernel", "ipsec", "driver", "application", "libc"];

/// The improvements, on a line of 10 Gbit/s and with pipelines to match.
pub(super) const IMPROVEMENTS: [(&str, &str); 5] = [
    ("as it is", "ten-gigabit"),
    ("direct DMA", "ten-gigabit+direct-dma"),
    ("no copy for IPsec", "ten-gigabit+no-ipsec-copy"),
    ("zero-copy socket", "ten-gigabit+zero-copy"),
    ("the last two", "ten-gigabit+no-copies"),
];

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    let mut add = |variant, mtu, what| keys.push(Key { variant, mtu, what });
    for mtu in MTUS {
        for variant in ["", "plain", "standard-card"] {
            add(variant, mtu, What::Ndr);
        }
    }
    for (_, variant, mbps, _) in PROFILES {
        add(variant, JUMBO, What::Video(mbps));
    }
    for variant in ["iperf", "iperf-uniprocessor"] {
        add(variant, JUMBO, What::Ndr);
    }
    for (_, variant) in IMPROVEMENTS {
        add(variant, JUMBO, What::Ndr);
    }
    keys
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// The highest load without loss, or the carried load.
    pub(super) throughput: Load,
    pub(super) report: Report,
}

/// The platform of a run.
pub(super) fn platform_of(base: &Platform, key: &Key) -> Result<Platform, FigureError> {
    let variant = (!key.variant.is_empty()).then(|| key.variant.to_owned());
    Ok(Setting { variant, ..Setting::default() }.platform(base)?)
}

/// Runs one simulation.
pub(super) fn run(base: &Platform, key: &Key, packets: u64) -> Result<Outcome, FigureError> {
    let platform = &platform_of(base, key)?;
    let setting = Setting {
        pattern: Some((key.mtu - CLEAR_BYTES).to_string()),
        packets: Some(packets),
        sas: Some(1),
        ..Setting::default()
    };
    let What::Video(mbps) = key.what else {
        let found = NdrSearch::default().run(platform, &setting)?;
        return Ok(Outcome { throughput: found.throughput, report: found.report });
    };
    let mut simulation = setting.simulation(platform)?;
    simulation.arrivals = Arrivals::Paced(f64::from(mbps) * 1e6 / 8.0 / f64::from(video_bytes(key.mtu)));
    let report = simulation.run(setting.traffic()?)?;
    Ok(Outcome { throughput: report.carried, report })
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Outcome>);

impl Runs {
    /// The result of one run; all runs that are requested are in [`keys`].
    pub(super) fn of(&self, variant: &'static str, mtu: u32, what: What) -> &Outcome {
        self.0
            .get(&Key { variant, mtu, what })
            .expect("every run that a figure or a claim asks for is among the keys")
    }

    /// The highest rate of video without loss, in Mbit/s.
    pub(super) fn video_mbps(&self, variant: &'static str, mtu: u32) -> f64 {
        self.of(variant, mtu, What::Ndr).throughput.pps * f64::from(8 * video_bytes(mtu)) / 1e6
    }

    /// One row of the simulated profile, in percent of the CPUs' time.
    pub(super) fn profile(&self, (_, variant, mbps, _): &Profile) -> [f64; 6] {
        let report = &self.of(variant, JUMBO, What::Video(*mbps)).report;
        let part = |name| {
            let stage = report.stages.iter().find(|stage| stage.name == name);
            stage.map_or(0.0, |stage| stage.utilisation * 100.0)
        };
        let mut profile = FUNCTIONS.map(part);
        profile[0] = 100.0 - report.cores[0].utilisation * 100.0;
        profile
    }

    /// A table with one row for each run, in order.
    pub(super) fn csv(&self) -> String {
        let mut rows: Vec<String> = self.0.iter().map(|(key, outcome)| row(key, outcome)).collect();
        rows.sort();
        format!("variant,mtu,what,pps,video_mbps,dropped,host,memory,pci,x1\n{}", rows.concat())
    }
}

fn row(key: &Key, outcome: &Outcome) -> String {
    let Busy { host, memory, pci, x1 } = Busy::of(&outcome.report);
    let (pps, dropped) = (outcome.throughput.pps, outcome.report.dropped.packets);
    let video = pps * f64::from(8 * video_bytes(key.mtu)) / 1e6;
    format!("{},{},{:?},{pps},{video},{dropped},{host},{memory},{pci},{x1}\n", key.variant, key.mtu, key.what)
}

/// Utilisation of each part, 0 to 1.
pub(super) struct Busy {
    pub(super) host: f64,
    pub(super) memory: f64,
    pub(super) pci: f64,
    pub(super) x1: f64,
}

impl Busy {
    pub(super) fn of(report: &Report) -> Self {
        let bus = |name| report.buses.iter().find(|bus| bus.name == name).map_or(0.0, |bus| bus.utilisation);
        Self {
            host: report.cores[0].utilisation,
            memory: bus("memory"),
            pci: bus("pci"),
            x1: report.processors[0].utilisation,
        }
    }
}
