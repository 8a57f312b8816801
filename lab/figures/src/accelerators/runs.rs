//! The runs behind the figures and claims about commercial accelerators.

use std::collections::HashMap;

use convoy_sim::{Platform, Report, Setting};

use crate::FigureError;

/// The three platforms.
#[derive(Clone)]
pub(super) struct Platforms {
    pub(super) connectx: Platform,
    pub(super) bluefield: Platform,
    pub(super) qat: Platform,
    /// That of the simulator unless a run is repeated.
    seed: Option<u64>,
}

impl Platforms {
    pub(super) fn open() -> Result<Self, FigureError> {
        let open = Platform::open;
        let (connectx, bluefield, qat) = (open("connectx-7")?, open("bluefield-3")?, open("qat-gen4")?);
        Ok(Self { connectx, bluefield, qat, seed: None })
    }

    /// These platforms with traffic of another seed.
    pub(super) fn with_seed(&self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self.clone() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Device {
    ConnectX,
    BlueField,
    Qat,
}

/// Identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) device: Device,
    /// Variants of the platform; empty if none.
    pub(super) variant: &'static str,
    /// Number of cores that process IPsec.
    pub(super) cores: usize,
    /// Number of tunnels, or of QAT's requests in flight.
    pub(super) load: u32,
}

/// Numbers of tunnels in the figures about the ConnectX-7 and the BlueField-3.
pub(super) const TUNNELS: [u32; 14] =
    [400, 600, 800, 900, 1000, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1850, 2000];
pub(super) const BLUEFIELD_TUNNELS: [u32; 11] =
    [250, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6500, 8000];
/// Number of cores beside the card in the figure of the hybrid by tunnels, and the number of
/// tunnels in the figure by cores.
pub(super) const CORES: usize = 8;
pub(super) const CORES_SWEEP: [usize; 9] = [0, 1, 2, 4, 6, 8, 10, 12, 16];
pub(super) const SWEEP_TUNNELS: u32 = 1600;
/// Numbers of QAT's requests in flight.
pub(super) const REQUESTS: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256];

/// A curve of the hybrid's figures: its name, its variants, and whether cores process IPsec.
pub(super) struct Contender {
    pub(super) name: &'static str,
    pub(super) variant: &'static str,
    pub(super) has_cores: bool,
}

pub(super) const CARD: Contender = Contender { name: "card", variant: "", has_cores: false };
pub(super) const ALONE: Contender = Contender { name: "cores", variant: "cores-8-alone", has_cores: true };
pub(super) const KNOWN: Contender = Contender { name: "both, cache known", variant: "", has_cores: true };
pub(super) const UNKNOWN: Contender =
    Contender { name: "both, cache unknown", variant: "cache-unknown", has_cores: true };
pub(super) const CONTENDERS: [Contender; 4] = [CARD, ALONE, UNKNOWN, KNOWN];

impl Contender {
    /// The run of this curve with these numbers of tunnels and cores.
    pub(super) fn key(&self, tunnels: u32, cores: usize) -> Key {
        let cores = if self.has_cores { cores } else { 0 };
        Key { device: Device::ConnectX, variant: self.variant, cores, load: tunnels }
    }
}

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    let key = |device, variant, load| Key { device, variant, cores: 0, load };
    for tunnels in TUNNELS {
        keys.push(key(Device::ConnectX, "xdp", tunnels));
        keys.extend(CONTENDERS.map(|way| way.key(tunnels, CORES)));
    }
    for cores in CORES_SWEEP.into_iter().filter(|cores| *cores > 0 && *cores != CORES) {
        let with_cores = CONTENDERS.iter().filter(|way| way.has_cores);
        keys.extend(with_cores.map(|way| way.key(SWEEP_TUNNELS, cores)));
    }
    keys.extend(BLUEFIELD_TUNNELS.map(|tunnels| key(Device::BlueField, "", tunnels)));
    for requests in REQUESTS {
        keys.extend(["synchronous", "synchronous-emerald-rapids"].map(|of| key(Device::Qat, of, requests)));
    }
    keys.extend(["", "core-alone"].map(|variant| key(Device::Qat, variant, BATCHED)));
    keys
}

/// Requests in flight of a batched caller: the platform's limit.
pub(super) const BATCHED: u32 = 256;

/// Whether a claim needs the run: of the figure by cores, its number of cores alone.
pub(super) fn is_claimed(key: &Key) -> bool {
    key.cores == 0 || key.cores == CORES
}

/// The platform of a run.
pub(super) fn platform_of(base: &Platforms, key: &Key) -> Result<Platform, FigureError> {
    let of = match key.device {
        Device::ConnectX => &base.connectx,
        Device::BlueField => &base.bluefield,
        Device::Qat => &base.qat,
    };
    let variant = (!key.variant.is_empty()).then(|| key.variant.to_owned());
    let mut platform = Setting { variant, ..Setting::default() }.platform(of)?;
    if key.cores > 0 {
        platform.processors.iter_mut().filter(|it| it.name == "core").for_each(|it| it.count = key.cores);
    }
    if key.device == Device::Qat {
        platform.source.frames = key.load as usize;
    }
    Ok(platform)
}

/// Runs one simulation: packets of the published mean size with equiprobable SAs.
pub(super) fn run(base: &Platforms, key: &Key, packets: u64) -> Result<Report, FigureError> {
    let platform = platform_of(base, key)?;
    let (pattern, sas) = match key.device {
        Device::ConnectX => ("1058", 2 * key.load),
        Device::BlueField => ("862", 2 * key.load),
        Device::Qat => ("4096", 1),
    };
    let setting = Setting {
        pattern: Some(pattern.to_owned()),
        packets: Some(packets),
        sas: Some(sas),
        seed: base.seed,
        ..Setting::default()
    };
    Ok(setting.simulation(&platform)?.run(setting.traffic()?)?)
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Report>);

impl Runs {
    /// The result of one run; all runs that are requested are in [`keys`].
    pub(super) fn of(&self, key: Key) -> &Report {
        self.0.get(&key).expect("every run that a figure or a claim asks for is among the keys")
    }

    /// The carried load, in Gbit/s on the line.
    pub(super) fn gbps(&self, key: Key) -> f64 {
        gbps(self.of(key))
    }

    /// The carried load of the card alone.
    pub(super) fn card(&self, device: Device, variant: &'static str, tunnels: u32) -> f64 {
        self.gbps(Key { device, variant, cores: 0, load: tunnels })
    }

    /// A table with one row for each run, in order.
    pub(super) fn csv(&self) -> String {
        let mut rows: Vec<String> = self.0.iter().map(|(key, report)| row(key, report)).collect();
        rows.sort();
        format!("device,variant,cores,tunnels_or_requests,gbps,hits,misses,card_share\n{}", rows.concat())
    }
}

/// Rate on the line until the last packet has left, including what each packet occupies on the line
/// beside its payload.
pub(super) fn gbps(report: &Report) -> f64 {
    let seconds = report.end_ms * 1e-3;
    if seconds == 0.0 { 0.0 } else { report.bytes as f64 * 8.0 / seconds / 1e9 }
}

fn row(key: &Key, report: &Report) -> String {
    let cache = report.processors.iter().find_map(|processor| processor.cache);
    let (hits, misses) = cache.map_or((0, 0), |cache| (cache.hits, cache.misses));
    let is_card = |name: &str| name == "card" || name == "qat";
    let shares = report.processors.iter().zip(&report.share).filter(|(of, _)| is_card(&of.name));
    let share: f64 = shares.map(|(_, share)| share).sum();
    let Key { device, variant, cores, load } = key;
    format!("{device:?},{variant},{cores},{load:05},{},{hits},{misses},{share}\n", gbps(report))
}
