//! Memory traffic per packet, compared with the bandwidth of this machine's memory.
//!
//! The GRIP papers count six transfers of each packet through a host's memory. A gateway with the
//! kernel's ports has six as well: the copy into a frame, the cipher, and the copy out of the frame
//! each read and write it. The bytes are those that the ports count.

use std::time::Instant;

use serde::Serialize;

/// Size of the buffers that are copied, in bytes: larger than caches.
const BUFFER: usize = 64 << 20;
/// Number of copies; the fastest counts.
const COPIES: usize = 8;

/// Memory traffic of a packet, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryAccount {
    /// Copy from the kernel into a frame, read and written.
    pub receive: f64,
    /// Cipher, read and written; 0 without one.
    pub crypto: f64,
    /// Copy from the frame into the kernel, read and written.
    pub transmit: f64,
    /// Copy bandwidth of one core, read and written, in bytes per second.
    pub bandwidth: f64,
}

impl MemoryAccount {
    /// For packets with these mean lengths, in bytes, when received and when sent.
    pub(crate) fn new(received: f64, sent: f64, has_cipher: bool, bandwidth: f64) -> Self {
        let crypto = if has_cipher { 2.0 * sent } else { 0.0 };
        Self { receive: 2.0 * received, crypto, transmit: 2.0 * sent, bandwidth }
    }

    /// Sum of the six transfers, in bytes per packet.
    pub fn bytes(&self) -> f64 {
        self.receive + self.crypto + self.transmit
    }

    /// The packet rate at which memory would be the bottleneck if no transfer hit a cache, in
    /// packets per second.
    pub fn most_packets_per_second(&self) -> f64 {
        self.bandwidth / self.bytes().max(1.0)
    }
}

/// Copy bandwidth of one core, read and written, in bytes per second.
pub(crate) fn bandwidth() -> f64 {
    let (from, mut to) = (vec![1u8; BUFFER], vec![0u8; BUFFER]);
    let copy = |_| {
        let began = Instant::now();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&mut to);
        began.elapsed().as_secs_f64()
    };
    let fastest = (0..COPIES).map(copy).fold(f64::INFINITY, f64::min);
    2.0 * BUFFER as f64 / fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_six_transfers_are_those_of_a_packet_that_comes_and_leaves() {
        let esp = MemoryAccount::new(64.0, 120.0, true, 1e9);
        assert_eq!((esp.receive, esp.crypto, esp.transmit, esp.bytes()), (128.0, 240.0, 240.0, 608.0));
        assert!((esp.most_packets_per_second() - 1e9 / 608.0).abs() < 1e-6);
        assert_eq!(MemoryAccount::new(64.0, 64.0, false, 1e9).bytes(), 256.0);
    }

    #[test]
    fn memory_moves_more_than_a_disk_and_less_than_all_caches() {
        let found = bandwidth();
        assert!((1e8..1e13).contains(&found), "{found}");
    }
}
