//! From the card's cycles to time.

/// MHz of the slowest core of each function, by its number, as nextpnr routed it on an ECP5-85 (docs/card.md, "On an FPGA"). The card
/// as a whole has not been routed: these are an upper bound for it.
const ROUTED_MHZ: [u32; 6] = [119, 119, 114, 114, 114, 106];

/// MHz of the host's 64-bit bus: what the GRIP papers measured on X0's PCI side (2.11 Gbit/s; `platforms/grip.toml`). It is slower
/// than the card, so that the card's cycles have its wait states among them.
pub(super) const BUS_MHZ: u32 = 33;

/// The card's clock with a function in the slot.
pub(super) fn mhz(function: u8) -> u32 {
    ROUTED_MHZ.get(usize::from(function)).copied().unwrap_or(ROUTED_MHZ[0])
}

/// Cycles of AES-GCM in flight that a multi-packet costs once, for its keys, as platforms/grip.toml has them.
const KEY_CYCLES: f64 = 89.0;
/// Cycles of AES-GCM per block of 16 bytes, from the same place.
const BLOCK_CYCLES: f64 = 10.0;

/// What a card is taken to cost in flight, where nothing tells how long it took: per multi-packet and per 16 bytes, in ns.
pub(super) fn in_flight() -> (f64, f64) {
    let cycle_ns = 1_000.0 / f64::from(ROUTED_MHZ[1]);
    (KEY_CYCLES * cycle_ns, BLOCK_CYCLES * cycle_ns)
}

/// The time of `cycles` with a function in the slot, in ns.
pub(super) fn nanoseconds(function: u8, cycles: u32) -> u64 {
    u64::from(cycles) * 1_000 / u64::from(mhz(function))
}

#[cfg(test)]
mod tests {
    use super::nanoseconds;

    #[test]
    fn a_cycle_lasts_as_long_as_the_slowest_core_of_the_function_says() {
        assert_eq!(nanoseconds(1, 119_000), 1_000_000);
        assert_eq!(nanoseconds(4, 114), 1_000);
    }
}
