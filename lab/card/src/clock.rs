//! Clock rates of the card on an FPGA.

use crate::functions::{EMPTY_MHZ, FUNCTIONS};

/// Clock rate of the line, in MHz: a byte in each cycle is a gigabit (IEEE 802.3, GMII). It is
/// independent of the card's.
pub const LINE_MHZ: u32 = 125;

/// Clock rate, in MHz, of the card with this function in its slots (0: none), as nextpnr routed it
/// on an ECP5-85 (docs/lab/results/card.md, "On an FPGA"). Where the whole card does not fit there,
/// it is the rate of the slowest of X0 and the pipelines, an upper bound.
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
    fn each_clock_is_that_of_the_whole_card_or_else_of_its_slowest_part() {
        let reports: Value = serde_json::from_str(REPORTS).expect("as card/fpga.py writes it");
        let mhz = |title: String| reports[title]["mhz"]["clk"].as_f64();
        let x0 = mhz("X0".to_owned()).expect("routed");
        assert_eq!(routed_mhz(0), x0.round() as u32);
        for (function, name) in (1..).zip(NAMES) {
            let of = |part| mhz(format!("{part} with {name}"));
            let slowest = || of("X2").into_iter().fold(x0.min(of("X1").expect("routed")), f64::min);
            let clock = of("the whole card").unwrap_or_else(slowest);
            assert_eq!(routed_mhz(function), clock.round() as u32, "{name}");
        }
    }
}
