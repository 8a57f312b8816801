//! Time per functional block of the packet path, the bottleneck, and what another scheme would
//! gain.

use serde::Serialize;

use crate::gateways::Scheme;
use crate::lengths::Lengths;
use crate::memory::MemoryAccount;

/// Functional blocks in the order of the packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockName {
    /// Receiving system calls and frame allocation.
    Receive,
    /// Lookup in the flow cache or SPD, and of the SA.
    Classify,
    /// Sequence number, headers, trailer and the cipher's job.
    Prepare,
    /// Encryption and authentication by the engine.
    Crypto,
    /// Window, choice of the engine, ordering, and finishing after the cipher.
    WindowAndFinish,
    /// Sending system calls.
    Transmit,
}

impl BlockName {
    /// Name for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Classify => "classify",
            Self::Prepare => "prepare",
            Self::Crypto => "cryptography",
            Self::WindowAndFinish => "window, order and finish",
            Self::Transmit => "transmit",
        }
    }
}

/// Time of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Which.
    pub name: BlockName,
    /// Time per packet in ns: the median over bursts, less the cost of the stamps.
    pub ns: f64,
    /// First and third quartile over bursts, in ns.
    pub quartiles_ns: (f64, f64),
}

impl Block {
    /// From the times of bursts in ns, which include the stamps.
    pub(super) fn of(name: BlockName, whole_ns: Vec<f64>, stamps_ns: f64, burst: usize) -> Self {
        let mut sorted = whole_ns;
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = (sorted.len() as f64 * part) as usize;
            let whole = sorted.get(place).copied().unwrap_or(0.0);
            (whole - stamps_ns).max(0.0) / burst as f64
        };
        Self { name, ns: at(0.5), quartiles_ns: (at(0.25), at(0.75)) }
    }
}

/// The bottleneck once a scheme has moved blocks off the worker's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bottleneck {
    Worker,
    PacketIo,
    Engine,
}

impl Bottleneck {
    fn words(self) -> &'static str {
        match self {
            Self::Worker => "the worker core",
            Self::PacketIo => "the I/O thread",
            Self::Engine => "the engine",
        }
    }
}

/// Estimated effect of a scheme, in ns per packet.
struct Estimate {
    /// Time moved off the worker's core.
    off_ns: f64,
    bottleneck: Bottleneck,
    /// Time of the slowest part.
    bottleneck_ns: f64,
}

/// Time per packet by block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// Lengths of the plaintext packets.
    pub lengths: Lengths,
    /// Packets per burst.
    pub burst: usize,
    /// Number of bursts.
    pub bursts: usize,
    /// The blocks, in the order of the packet path.
    pub blocks: Vec<Block>,
    /// Cost of a stamp in ns. One was subtracted per block, and one per call of an engine.
    pub stamp_ns: f64,
    /// Memory traffic per packet.
    pub memory: MemoryAccount,
}

impl Blocks {
    /// Sum of all blocks, in ns per packet.
    pub fn sum_ns(&self) -> f64 {
        self.blocks.iter().map(|block| block.ns).sum()
    }

    /// Time of one block, in ns per packet.
    pub fn of(&self, name: BlockName) -> f64 {
        self.blocks.iter().find(|block| block.name == name).map_or(0.0, |block| block.ns)
    }

    /// Estimates a scheme: the time that it moves off the worker's core, and the bottleneck that
    /// remains. Packet I/O has one thread for both directions, as in [`Scheme::start`]. Handover
    /// costs are ignored, and each block is assumed to take as long elsewhere as on the worker's
    /// core.
    fn estimate(&self, scheme: Scheme) -> Estimate {
        let part = |is_apart: bool, ns: f64| if is_apart { ns } else { 0.0 };
        let io = part(scheme.is_io_apart, self.of(BlockName::Receive) + self.of(BlockName::Transmit));
        let crypto = part(scheme.is_crypto_apart, self.of(BlockName::Crypto));
        let mut slowest = (Bottleneck::Worker, self.sum_ns() - io - crypto);
        for other in [(Bottleneck::PacketIo, io), (Bottleneck::Engine, crypto)] {
            if other.1 > slowest.1 {
                slowest = other;
            }
        }
        Estimate { off_ns: io + crypto, bottleneck: slowest.0, bottleneck_ns: slowest.1 }
    }

    /// Upper bound on the throughput with a scheme, relative to everything on the worker's core.
    pub fn gain(&self, scheme: Scheme) -> f64 {
        self.sum_ns() / self.estimate(scheme).bottleneck_ns.max(f64::MIN_POSITIVE)
    }

    /// Names the bottleneck and what each other scheme would gain.
    pub fn verdict(&self) -> String {
        let sum = self.sum_ns();
        let Some(most) = self.blocks.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)) else {
            return "nothing was measured".to_owned();
        };
        let has_cipher = self.of(BlockName::Crypto) > 0.0;
        let schemes = Scheme::ALL[1..].iter().filter(|scheme| has_cipher || !scheme.is_crypto_apart);
        let next = schemes.map(|scheme| self.next(*scheme)).collect::<String>();
        format!(
            "{} bytes: worker core: {sum:.0} ns per packet, {:.0} % in {}.{next}",
            self.lengths,
            most.ns / sum * 100.0,
            most.name.words()
        )
    }

    fn next(&self, scheme: Scheme) -> String {
        let what = match (scheme.is_io_apart, scheme.is_crypto_apart) {
            (true, true) => "Both together",
            (false, true) => "A separate engine for cryptography",
            (true, false) => "A separate I/O thread",
            (false, false) => "Nothing separate",
        };
        let Estimate { off_ns, bottleneck, bottleneck_ns } = self.estimate(scheme);
        format!(
            " {what} would save {off_ns:.0} ns; {} would then be slowest with {bottleneck_ns:.0} ns per packet: \
             at most {:.2} times as many packets.",
            bottleneck.words(),
            self.gain(scheme)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(receive: f64, crypto: f64, transmit: f64) -> Blocks {
        let block = |name, ns| Block { name, ns, quartiles_ns: (ns, ns) };
        Blocks {
            lengths: Lengths::All(64),
            burst: 32,
            bursts: 1,
            blocks: vec![
                block(BlockName::Receive, receive),
                block(BlockName::Prepare, 100.0),
                block(BlockName::Crypto, crypto),
                block(BlockName::Transmit, transmit),
            ],
            stamp_ns: 20.0,
            memory: MemoryAccount::new(64.0, 120.0, true, 1e9),
        }
    }

    #[test]
    fn the_gain_of_a_scheme_is_limited_by_what_is_slowest_then() {
        let [none, io, crypto, both] = Scheme::ALL.map(|scheme| known(150.0, 600.0, 150.0).gain(scheme));
        assert!((none - 1.0).abs() < 1e-9);
        assert!((io - 1000.0 / 700.0).abs() < 1e-9);
        assert!((crypto - 1000.0 / 600.0).abs() < 1e-9, "the engine is the bottleneck then");
        assert!((both - 1000.0 / 600.0).abs() < 1e-9);
    }

    #[test]
    fn the_verdict_names_the_greatest_block() {
        assert!(known(100.0, 800.0, 100.0).verdict().contains("73 % in cryptography"));
        assert!(known(900.0, 100.0, 100.0).verdict().contains("75 % in receive"));
    }

    #[test]
    fn the_verdict_says_what_each_scheme_takes_off_and_what_is_slowest_then() {
        let verdict = known(150.0, 600.0, 150.0).verdict();
        for said in [
            "A separate I/O thread would save 300 ns; the worker core would then be slowest with 700 ns per packet: at most 1.43",
            "A separate engine for cryptography would save 600 ns; the engine would then be slowest with 600 ns",
            "Both together would save 900 ns; the engine would then be slowest with 600 ns",
        ] {
            assert!(verdict.contains(said), "{said}: {verdict}");
        }
        let by_io = known(500.0, 100.0, 300.0).verdict();
        assert!(by_io.contains("the I/O thread would then be slowest with 800 ns"), "{by_io}");
        assert!(!known(500.0, 0.0, 300.0).verdict().contains("engine"), "there is nothing for one");
    }

    #[test]
    fn a_block_is_the_median_of_its_bursts_with_the_quartiles_as_spread() {
        let block =
            Block::of(BlockName::Crypto, (1..=100).rev().map(|n| f64::from(n) * 20.0).collect(), 20.0, 10);
        assert_eq!((block.ns, block.quartiles_ns), (100.0, (50.0, 150.0)));
    }
}
