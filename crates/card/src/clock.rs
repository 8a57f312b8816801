//! Clock rates of the card on an FPGA.

use crate::functions::{EMPTY_MHZ, FUNCTIONS};

/// Clock rate of the line, in MHz: a byte in each cycle is a gigabit (IEEE 802.3, GMII). It is
/// independent of the card's.
pub const LINE_MHZ: u32 = 125;

/// Clock rate, in MHz, of the card with this function in its slots (0: none), as nextpnr routed it
/// on an ECP5-85 (docs/results/card.md, "On an FPGA"). It is the rate of the slowest part that a
/// packet passes. For AES-GCM the whole card was routed; for other functions only X0 and the
/// pipelines, so their rates are upper bounds.
///
/// # Panics
/// If there is no such function.
pub fn routed_mhz(function: u8) -> u32 {
    match function {
        0 => EMPTY_MHZ,
        id => FUNCTIONS[usize::from(id) - 1].routed_mhz,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::functions::NAMES;

    const REPORTS: &str = include_str!("../../../card/reports.json");

    #[test]
    fn each_clock_is_that_of_the_slowest_part_that_was_routed() {
        let reports: Value = serde_json::from_str(REPORTS).expect("as card/fpga.py writes it");
        let mhz = |title: String| reports[title]["mhz"]["clk"].as_f64();
        let x0 = mhz("X0".to_owned()).expect("routed");
        assert_eq!(routed_mhz(0), x0.round() as u32);
        for (function, name) in (1..).zip(NAMES) {
            let x1 = mhz(format!("X1 with {name}")).expect("routed");
            let others =
                ["X2", "the whole card"].iter().filter_map(|part| mhz(format!("{part} with {name}")));
            let slowest = others.fold(x0.min(x1), f64::min);
            assert_eq!(routed_mhz(function), slowest.round() as u32, "{name}");
        }
    }
}
