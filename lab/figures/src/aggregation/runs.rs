//! The runs with and without aggregation.

use std::collections::HashMap;

use convoy_sim::{Pattern, Platform, Report, Served, Setting, esp_packet_bytes};

use crate::FigureError;
use crate::runs::{ENC_RATIO, ENC_RATIOS};

/// Bytes of TCP and IPv4 in each inner packet: what the paper adds to a payload.
const INNER_HEADER_BYTES: u32 = 40;
/// Bytes that an Ethernet frame occupies on the line around an IP packet: preamble, header, FCS and
/// gap.
const ETHERNET_BYTES: u64 = 8 + 14 + 4 + 12;
const IPV4_HEADER_BYTES: u64 = 20;

/// Both platforms, with the path MTU of aggregation.
#[derive(Clone)]
pub(super) struct Platforms {
    pci: Platform,
    card: Platform,
    pub(super) mtu: u32,
    /// That of the simulator unless a run is repeated.
    seed: Option<u64>,
}

impl Platforms {
    /// The card's platform gets the paper's traffic and CPU: inner packets with 40 bytes of header
    /// on the line, and a CPU whose costs are ratios to those of the card.
    pub(super) fn open() -> Result<Self, FigureError> {
        let (pci, mut card) = (Platform::open("pci-accelerators")?, Platform::open("grip")?);
        card.source.header_bytes += INNER_HEADER_BYTES;
        card.source.line_bytes = Some(INNER_HEADER_BYTES);
        card.processors.splice(0..0, pci.processors.iter().filter(|of| of.bus.is_none()).cloned());
        Ok(Self { pci, card, mtu: 1500, seed: None })
    }

    /// These platforms with traffic of another seed.
    pub(super) fn with_seed(&self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self.clone() }
    }

    /// Lets the paper's engines process the ESP trailer of 2 bytes, which the paper leaves out.
    pub(super) fn with_trailer(&mut self) {
        let source = &mut self.pci.source;
        (source.line_bytes, source.esp_bytes) = (Some(source.header_bytes), 2);
        source.header_bytes += source.esp_bytes;
    }

    /// Changes both platforms.
    pub(super) fn each(&mut self, change: impl Fn(&mut Platform)) {
        [&mut self.pci, &mut self.card].into_iter().for_each(change);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Board {
    /// The paper's platform.
    Pci,
    /// The GRIP card.
    Card,
}

impl Board {
    pub(super) const ALL: [Self; 2] = [Self::Pci, Self::Card];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pci => "the paper's platform",
            Self::Card => "the GRIP card",
        }
    }
}

/// Identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) board: Board,
    pub(super) pattern: Pattern,
    pub(super) sas: u32,
    pub(super) accelerators: usize,
    pub(super) window: usize,
    pub(super) enc_ratio: u32,
    pub(super) is_aggregated: bool,
}

impl Key {
    /// A run behind figures 6 and 7.
    pub(super) fn one(board: Board, pattern: Pattern, window: usize, is_aggregated: bool) -> Self {
        Self { board, pattern, sas: PAPER_SAS, accelerators: 1, window, enc_ratio: ENC_RATIO, is_aggregated }
    }

    /// A run behind figure 12.
    pub(super) fn two(board: Board, pattern: Pattern, enc_ratio: u32, is_aggregated: bool) -> Self {
        Self { accelerators: 2, enc_ratio, ..Self::one(board, pattern, 30, is_aggregated) }
    }
}

/// Number of SAs in the paper, and the numbers in the charts over SAs.
pub(super) const PAPER_SAS: u32 = 100;
pub(super) const SAS: [u32; 7] = [1, 2, 5, 10, 20, 50, PAPER_SAS];
/// Windows of figures 6 and 7.
pub(super) const WINDOWS: [usize; 2] = [10, 30];

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    for board in Board::ALL {
        for pattern in Pattern::PAPER {
            keys.push(Key::one(board, pattern, 1, false));
            for is_aggregated in [false, true] {
                keys.extend(WINDOWS.map(|window| Key::one(board, pattern, window, is_aggregated)));
                keys.extend(ENC_RATIOS.map(|ratio| Key::two(board, pattern, ratio, is_aggregated)));
                let few = SAS.into_iter().filter(|sas| *sas != PAPER_SAS);
                keys.extend(few.map(|sas| Key { sas, ..Key::one(board, pattern, 30, is_aggregated) }));
            }
        }
    }
    keys
}

/// Whether a claim needs the run: of the figures over SAs, one SA alone.
pub(super) fn is_claimed(key: &Key) -> bool {
    key.window == 30 && (key.accelerators == 2 || [1, PAPER_SAS].contains(&key.sas))
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) report: Report,
    /// Mbit/s of inner IP packets.
    pub(super) mbps: f64,
    /// Bytes on the line behind the gateway for each inner packet, with Ethernet.
    pub(super) line_bytes: f64,
}

impl Outcome {
    /// Share of a line of 1 Gbit/s behind the gateway that this throughput would need; above 1 that
    /// line would be the limit.
    pub(super) fn line_share(&self) -> f64 {
        let seconds = self.report.end_ms * 1e-3;
        self.line_bytes * self.report.packets as f64 * 8.0 / seconds / 1e9
    }
}

/// The platform of a run.
pub(super) fn platform_of(base: &Platforms, key: &Key) -> Result<Platform, FigureError> {
    let platform = match key.board {
        Board::Pci => &base.pci,
        Board::Card => &base.card,
    };
    Ok(setting(base, key).platform(platform)?)
}

fn setting(base: &Platforms, key: &Key) -> Setting {
    Setting {
        pattern: Some(key.pattern.to_string()),
        sas: Some(key.sas),
        window: Some(key.window),
        accelerators: Some(key.accelerators),
        init_ratio: Some(3.0),
        enc_ratio: Some(f64::from(key.enc_ratio)),
        aggregation: key.is_aggregated.then_some(base.mtu),
        seed: base.seed,
        ..Setting::default()
    }
}

/// Runs one simulation.
pub(super) fn run(base: &Platforms, key: &Key, packets: u64) -> Result<Outcome, FigureError> {
    let platform = platform_of(base, key)?;
    let esp_bytes = platform.source.esp_bytes;
    let setting = Setting { packets: Some(packets), ..setting(base, key) };
    let mut line = 0;
    let mut watch = |served: &Served<'_>| {
        let inner = served.packets.iter().map(|packet| u64::from(packet.bytes - esp_bytes));
        line += inner.map(|bytes| fragmented(esp_packet_bytes(bytes), base.mtu.into())).sum::<u64>();
    };
    let report = match key.is_aggregated {
        false => setting.run_observed(&platform, &mut watch)?,
        true => setting.run(&platform)?,
    };
    line += report.outer.map_or(0, |outer| outer.wire_bytes + outer.packets * ETHERNET_BYTES);
    let inner_bytes = report.bytes - u64::from(esp_bytes) * report.packets;
    Ok(Outcome {
        mbps: inner_bytes as f64 * 8.0 / report.end_ms / 1e3,
        line_bytes: line as f64 / report.packets as f64,
        report,
    })
}

/// Bytes on an Ethernet line of an IPv4 packet, which is fragmented if it is longer than the MTU.
fn fragmented(packet_bytes: u64, mtu: u64) -> u64 {
    let payload = packet_bytes - IPV4_HEADER_BYTES;
    let fragments = if packet_bytes <= mtu { 1 } else { payload.div_ceil((mtu - IPV4_HEADER_BYTES) / 8 * 8) };
    payload + fragments * (IPV4_HEADER_BYTES + ETHERNET_BYTES)
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Outcome>);

impl Runs {
    /// The result of one run; all runs that are requested are in [`keys`].
    pub(super) fn of(&self, key: Key) -> &Outcome {
        self.0.get(&key).expect("every run that a figure or a claim asks for is among the keys")
    }

    /// Throughput divided by that at `W = 1` without aggregation.
    pub(super) fn throughput(&self, key: Key) -> f64 {
        self.of(key).mbps / self.of(Key::one(key.board, key.pattern, 1, false)).mbps
    }

    /// Latency divided by that at `W = 1` without aggregation.
    pub(super) fn latency(&self, key: Key) -> f64 {
        let plain = self.of(Key::one(key.board, key.pattern, 1, false));
        self.of(key).report.latency_ms / plain.report.latency_ms
    }

    /// A measure with aggregation divided by the same without it.
    pub(super) fn gain(&self, key: Key, measure: fn(&Outcome) -> f64) -> f64 {
        let at = |is_aggregated| measure(self.of(Key { is_aggregated, ..key }));
        at(true) / at(false)
    }

    /// A table with one row for each run, in order.
    pub(super) fn csv(&self) -> String {
        let rows = keys().into_iter().map(|key| row(&key, self.of(key)));
        let head = "platform,pattern,sas,accelerators,window,enc_ratio,aggregation,mbps_of_ip_packets,latency_ms,\
                    packets_per_multipacket,packets_per_outer_packet,line_bytes_per_packet,line_share,bus";
        format!("{head}\n{}", rows.collect::<String>())
    }
}

fn row(key: &Key, outcome: &Outcome) -> String {
    let Key { board, pattern, sas, accelerators, window, enc_ratio, is_aggregated } = key;
    let report = &outcome.report;
    let each = report.outer.map_or(1.0, |outer| report.packets as f64 / outer.packets as f64);
    let board = format!("{board:?}").to_lowercase();
    let state = if *is_aggregated { "on" } else { "off" };
    format!(
        "{board},{pattern},{sas},{accelerators},{window},{enc_ratio},{state},{:.3},{:.5},{:.3},{each:.3},{:.1},{:.3},{:.3}\n",
        outcome.mbps,
        report.latency_ms,
        report.packets_per_multipacket,
        outcome.line_bytes,
        outcome.line_share(),
        report.buses[0].utilisation
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_above_the_mtu_is_fragmented_at_multiples_of_eight() {
        assert_eq!(fragmented(1500, 1500), 1500 + 38);
        // 1484 bytes of payload in fragments of at most 1480.
        assert_eq!(fragmented(1504, 1500), 1484 + 2 * (20 + 38));
        // 1260 bytes of an MTU of 1280 are cut to 1256.
        assert_eq!(fragmented(20 + 1256 * 2, 1280), 2 * (1256 + 20 + 38));
    }

    #[test]
    fn keys_are_unique() {
        let keys = keys();
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), keys.len());
    }
}
