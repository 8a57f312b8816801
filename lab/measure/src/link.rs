//! A link with known properties as a device under test: it shows how exact the tester is on this
//! machine.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use convoy_port::memory::{self, LinkFaults, ReadNs};

use crate::device::MeasureError;
use crate::family::Family;
use crate::gateways::flow;
use crate::tester::{End, Tester, Time};

/// Capacity of the link's rings in packets.
const RING: usize = 4096;
/// MTU in bytes.
const MTU: usize = 9200;

/// Impairments of a link in each direction, written as
/// `rate=100000,queue=64,delay_us=500,loss=0.01,reorder=0.001,extent=5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec(pub LinkFaults);

impl LinkSpec {
    /// Starts the link in real time, with a tester at both ends.
    ///
    /// # Errors
    /// [`MeasureError`] if there is no memory for frames.
    pub fn start(&self) -> Result<Tester, MeasureError> {
        let began = Instant::now();
        let now: ReadNs = Arc::new(move || began.elapsed().as_nanos() as u64);
        let back = LinkFaults { seed: self.0.seed + 1, ..self.0 };
        let (near, far) = memory::faulty_link("near", "far", RING, MTU, [self.0, back], &now);
        let ends = [End::new(Box::new(near))?, End::new(Box::new(far))?];
        Ok(Tester::new(ends, flow(Family::V4, 1), Time::machine()))
    }
}

impl FromStr for LinkSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = LinkFaults::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part}: a value is missing"))?;
            let number: f64 = value.parse().map_err(|_| format!("{key}: {value} is not a number"))?;
            let ratio = || {
                let is_ratio = (0.0..1.0).contains(&number);
                if is_ratio { Ok(number) } else { Err(format!("{key} is a ratio: at least 0 and below 1")) }
            };
            let count = || {
                let is_count = number.fract() == 0.0 && (0.0..=1e9).contains(&number);
                if is_count { Ok(number as u64) } else { Err(format!("{key} is a whole number up to 1e9")) }
            };
            match key {
                "rate" if number > 0.0 => faults.packets_per_second = number,
                "rate" => return Err("rate must be above 0 packets/s".to_owned()),
                "queue" => faults.queue_packets = count()? as usize,
                "delay_us" => faults.delay_ns = count()? * 1000,
                "loss" => faults.loss = ratio()?,
                "duplicate" => faults.duplication = ratio()?,
                "reorder" => faults.reordering = ratio()?,
                "extent" => faults.overtaken_by = (count()? as u32).max(1),
                "seed" => faults.seed = count()?,
                _ => {
                    let known = "rate, queue, delay_us, loss, duplicate, reorder, extent, seed";
                    return Err(format!("unknown property {key:?} of a link; possible properties: {known}"));
                }
            }
        }
        Ok(Self(faults))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_and_what_is_wrong_is_named() {
        let LinkSpec(faults) = "rate=1e5,queue=64,delay_us=500,loss=0.01,extent=5".parse().expect("good");
        assert_eq!((faults.packets_per_second, faults.queue_packets, faults.delay_ns), (1e5, 64, 500_000));
        for (wrong, said) in
            [("rate=0", "rate"), ("loss=1", "loss"), ("speed=1", "unknown property"), ("rate", "missing")]
        {
            let error = wrong.parse::<LinkSpec>().expect_err(wrong);
            assert!(error.contains(said), "{error}");
        }
    }
}
