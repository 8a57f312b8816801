//! What was found of a packet's way: its blocks, the bottleneck among them, and what another scheme would bring.

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
    /// Flow cache or SPD, the SA, number, headers, trailer, and the job of the cipher.
    ClassifyAndPrepare,
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
            Self::ClassifyAndPrepare => "classify and prepare",
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
    /// What a stamp takes, in ns. One was subtracted for each block, and one for each call of an engine.
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

    /// What the worker's core would carry at most if the blocks of a scheme were elsewhere, over what it carries: it then waits for
    /// nothing, and what is elsewhere is no slower than it is here.
    pub fn gain(&self, scheme: Scheme) -> f64 {
        let io = self.of(BlockName::Receive) + self.of(BlockName::Transmit);
        let crypto = self.of(BlockName::Crypto);
        let own = self.sum_ns()
            - if scheme.is_io_apart { io } else { 0.0 }
            - if scheme.is_crypto_apart { crypto } else { 0.0 };
        let apart = [(scheme.is_io_apart, io), (scheme.is_crypto_apart, crypto)];
        let slowest = apart.iter().filter(|(is_apart, _)| *is_apart).map(|(_, ns)| *ns).fold(own, f64::max);
        self.sum_ns() / slowest.max(f64::MIN_POSITIVE)
    }

    /// What is the bottleneck, and what another scheme would bring.
    pub fn verdict(&self) -> String {
        let sum = self.sum_ns();
        let Some(most) = self.blocks.iter().max_by(|a, b| a.ns.total_cmp(&b.ns)) else {
            return "nothing was measured".to_owned();
        };
        let gains = Scheme::ALL[1..].iter().map(|scheme| (scheme, self.gain(*scheme)));
        let best = gains.max_by(|a, b| a.1.total_cmp(&b.1));
        let next = best.map_or_else(String::new, |(scheme, gain)| {
            let what = if scheme.is_io_apart && scheme.is_crypto_apart {
                "both packet I/O and cryptography"
            } else {
                scheme.name()
            };
            format!("; with {what} on cores of their own it would carry at most {gain:.2} times as much")
        });
        format!(
            "At {} bytes the bottleneck is the worker's core, of whose {sum:.0} ns for a packet {} takes {:.0} %{next}.",
            self.lengths,
            most.name.words(),
            most.ns / sum * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(receive: f64, crypto: f64, transmit: f64) -> Blocks {
        let block = |name, ns| Block { name, ns };
        Blocks {
            lengths: Lengths::All(64),
            burst: 32,
            bursts: 1,
            blocks: vec![
                block(BlockName::Receive, receive),
                block(BlockName::ClassifyAndPrepare, 100.0),
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
}
