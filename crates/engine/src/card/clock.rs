//! From the card's cycles to time.

/// MHz of the slowest core of each function, by its number, as nextpnr routed it on an ECP5-85 (docs/card.md, "On an FPGA"). The card
/// as a whole has not been routed: these are an upper bound for it.
const ROUTED_MHZ: [u64; 6] = [119, 119, 114, 114, 114, 106];

/// The time of `cycles` with a function in the slot, in ns.
pub(super) fn nanoseconds(function: u8, cycles: u32) -> u64 {
    let mhz = ROUTED_MHZ.get(usize::from(function)).copied().unwrap_or(ROUTED_MHZ[0]);
    u64::from(cycles) * 1_000 / mhz
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
