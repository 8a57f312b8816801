//! From the card's cycles to time.

use convoy_card::routed_mhz;

/// The clock of the host's 64-bit bus in MHz: what the GRIP papers measured on X0's PCI side (2.11
/// Gbit/s; `platforms/grip.toml`). It is slower than the card, so that the card's cycles include
/// its wait states.
pub(super) const BUS_MHZ: u32 = 33;

/// The number of the function that does AES-GCM.
const AES_GCM: u8 = 1;
/// Cycles of AES-GCM in flight that a multi-packet costs once, for its keys: the fit of
/// `platforms/grip.toml`.
const KEY_CYCLES: f64 = 89.4;
/// Cycles of AES-GCM per block of 16 bytes, from the same place.
const BLOCK_CYCLES: f64 = 10.0;

/// The assumed cost of a card in flight, where nothing measures it: per multi-packet and per 16
/// bytes, in ns.
pub(super) fn in_flight() -> (f64, f64) {
    let cycle_ns = 1_000.0 / f64::from(routed_mhz(AES_GCM));
    (KEY_CYCLES * cycle_ns, BLOCK_CYCLES * cycle_ns)
}

/// The time of `cycles` with a function in the slot, in ns.
pub(super) fn nanoseconds(function: u8, cycles: u32) -> u64 {
    u64::from(cycles) * 1_000 / u64::from(routed_mhz(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_lasts_as_long_as_the_routed_clock_says() {
        for function in [0, AES_GCM] {
            assert_eq!(nanoseconds(function, 1_000 * routed_mhz(function)), 1_000_000);
        }
    }
}
