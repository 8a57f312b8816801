//! What was found of a packet's way: its blocks, the bottleneck among them, and what another scheme
//! would bring.

use serde::Serialize;

use crate::gateways::Scheme;
use crate::lengths::Lengths;
use crate::memory::MemoryAccount;

/// The parts of a packet's way, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockName {
    /// The system calls that bring packets, and their frames.
    Receive,
    /// Flow cache or SPD, and the SA.
    Classify,
    /// Number, headers, trailer, and the job of the cipher.
    Prepare,
    /// The engine.
    Crypto,
    /// Window and choice of an engine, order, and what follows the cipher.
    WindowAndFinish,
    /// The system calls that send packets.
    Transmit,
}

impl BlockName {
    /// In words.
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

/// What one block takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Block {
    /// Which.
    pub name: BlockName,
    /// For each packet, in ns: the median over bursts, without what the stamps take.
    pub ns: f64,
    /// The spread: between these, in ns, lies the half of the bursts about the median.
    pub quartiles_ns: (f64, f64),
}

impl Block {
    /// From what each of some bursts took, in ns, stamps included.
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

/// What is slowest once a scheme has taken blocks off the worker's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Worker,
    PacketIo,
    Engine,
}

impl Limit {
    fn words(self) -> &'static str {
        match self {
            Self::Worker => "the worker's core is still",
            Self::PacketIo => "the thread that receives and transmits is then",
            Self::Engine => "the engine is then",
        }
    }
}

/// What a scheme makes of the blocks, each time in ns for a packet.
struct Relief {
    /// What it takes off the worker's core.
    off_ns: f64,
    limit: Limit,
    /// What the slowest takes.
    limit_ns: f64,
}

/// Where the time of packets goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// The lengths of plaintext packets.
    pub lengths: Lengths,
    /// Packets of a burst.
    pub burst: usize,
    /// Bursts.
    pub bursts: usize,
    /// The blocks, in the order of a packet.
    pub blocks: Vec<Block>,
    /// What a stamp takes, in ns. One was subtracted for each block, and one for each call of an
    /// engine.
    pub stamp_ns: f64,
    /// What a packet moves through memory.
    pub memory: MemoryAccount,
}

impl Blocks {
    /// All blocks together, in ns for each packet.
    pub fn sum_ns(&self) -> f64 {
        self.blocks.iter().map(|block| block.ns).sum()
    }

    /// One block, in ns for each packet.
    pub fn of(&self, name: BlockName) -> f64 {
        self.blocks.iter().find(|block| block.name == name).map_or(0.0, |block| block.ns)
    }

    /// What a scheme takes off the worker's core, and what is slowest then. Packet I/O has one
    /// thread for both ways, as in [`Scheme::start`]; what handing packets over costs is not in it,
    /// and what is elsewhere is as fast as it is here.
    fn relief(&self, scheme: Scheme) -> Relief {
        let part = |is_apart: bool, ns: f64| if is_apart { ns } else { 0.0 };
        let io = part(scheme.is_io_apart, self.of(BlockName::Receive) + self.of(BlockName::Transmit));
        let crypto = part(scheme.is_crypto_apart, self.of(BlockName::Crypto));
        let mut slowest = (Limit::Worker, self.sum_ns() - io - crypto);
        for other in [(Limit::PacketIo, io), (Limit::Engine, crypto)] {
            if other.1 > slowest.1 {
                slowest = other;
            }
        }
        Relief { off_ns: io + crypto, limit: slowest.0, limit_ns: slowest.1 }
    }

    /// What the gateway would carry at most by a scheme, over what the worker's core carries alone.
    pub fn gain(&self, scheme: Scheme) -> f64 {
        self.sum_ns() / self.relief(scheme).limit_ns.max(f64::MIN_POSITIVE)
    }

    /// What is the bottleneck, and what each other scheme would bring.
    pub fn verdict(&self) -> String {
        let sum = self.sum_ns();
        let Some(most) = self.blocks.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)) else {
            return "nothing was measured".to_owned();
        };
        let has_cipher = self.of(BlockName::Crypto) > 0.0;
        let schemes = Scheme::ALL[1..].iter().filter(|scheme| has_cipher || !scheme.is_crypto_apart);
        let next = schemes.map(|scheme| self.next(*scheme)).collect::<String>();
        format!(
            "At {} bytes the bottleneck is the worker's core, of whose {sum:.0} ns for a packet {} takes {:.0} %.{next}",
            self.lengths,
            most.name.words(),
            most.ns / sum * 100.0
        )
    }

    fn next(&self, scheme: Scheme) -> String {
        let what = match (scheme.is_io_apart, scheme.is_crypto_apart) {
            (true, true) => "Both together",
            (false, true) => "Cryptography on an engine of its own",
            (true, false) => "Packet I/O on a thread of its own",
            (false, false) => "Nothing elsewhere",
        };
        let Relief { off_ns, limit, limit_ns } = self.relief(scheme);
        format!(
            " {what} would take {off_ns:.0} ns off it: {} the slowest with {limit_ns:.0} ns, for at most {:.2} times as many packets.",
            limit.words(),
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
        assert!(known(100.0, 800.0, 100.0).verdict().contains("cryptography takes 73 %"));
        assert!(known(900.0, 100.0, 100.0).verdict().contains("receive takes 75 %"));
    }

    #[test]
    fn the_verdict_says_what_each_scheme_takes_off_and_what_is_slowest_then() {
        let verdict = known(150.0, 600.0, 150.0).verdict();
        for said in [
            "Packet I/O on a thread of its own would take 300 ns off it: the worker's core is still the slowest with 700 ns, for at most 1.43",
            "Cryptography on an engine of its own would take 600 ns off it: the engine is then the slowest with 600 ns",
            "Both together would take 900 ns off it: the engine is then the slowest with 600 ns",
        ] {
            assert!(verdict.contains(said), "{said}: {verdict}");
        }
        let by_io = known(500.0, 100.0, 300.0).verdict();
        assert!(
            by_io.contains("the thread that receives and transmits is then the slowest with 800 ns"),
            "{by_io}"
        );
        assert!(!known(500.0, 0.0, 300.0).verdict().contains("engine"), "there is nothing for one");
    }

    #[test]
    fn a_block_is_the_median_of_its_bursts_with_the_quartiles_as_spread() {
        let block =
            Block::of(BlockName::Crypto, (1..=100).rev().map(|n| f64::from(n) * 20.0).collect(), 20.0, 10);
        assert_eq!((block.ns, block.quartiles_ns), (100.0, (50.0, 150.0)));
    }
}
