//! Random bytes for the IVs of CBC, which must be unpredictable (RFC 3602 section 3), where a
//! thread lays packets out.

use ring::rand::{SecureRandom, SystemRandom};

/// Bytes requested from the system at once: a call for each IV would take longer than a short
/// packet.
const BYTES: usize = 4_096;

/// Random bytes from the system, each used once.
pub(crate) struct Random {
    system: SystemRandom,
    bytes: Box<[u8; BYTES]>,
    used: usize,
}

impl Default for Random {
    fn default() -> Self {
        Self { system: SystemRandom::new(), bytes: Box::new([0; BYTES]), used: BYTES }
    }
}

impl Random {
    /// Fills `iv`.
    ///
    /// # Panics
    /// If the system has no random bytes: a predictable IV must not leave. The engine's thread then
    /// ends, and the engine is quarantined.
    pub(crate) fn fill(&mut self, iv: &mut [u8]) {
        if self.used + iv.len() > BYTES {
            self.system.fill(&mut self.bytes[..]).expect("the system has random bytes");
            self.used = 0;
        }
        let end = self.used + iv.len();
        iv.copy_from_slice(&self.bytes[self.used..end]);
        self.bytes[self.used..end].fill(0);
        self.used = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_come_twice() {
        let mut random = Random::default();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..3 * BYTES / 16 {
            let mut iv = [0; 16];
            random.fill(&mut iv);
            assert!(seen.insert(iv));
        }
    }
}
