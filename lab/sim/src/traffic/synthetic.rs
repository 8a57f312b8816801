//! Packets with sizes drawn from a pattern, and SAs drawn by popularity and repeated by locality.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::discrete::{Discrete, NUMBERS_MAX};
use super::{Packet, Pattern, Traffic, TrafficError};

/// The locality at which [`Pattern::Trace`] has 2.57 packets per multi-packet at `W = 30` with 100
/// equiprobable SAs, as in the paper's trace. It is fitted to that number, not measured.
pub const FITTED_TRACE_LOCALITY: f64 = 0.56;

/// Parameters of synthetic traffic.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SyntheticSpec {
    /// Number of SAs.
    pub sas: u32,
    /// Exponent of Zipf's law for the popularity of SAs; with 0 all SAs are equiprobable.
    pub popularity: f64,
    /// Probability that a packet has the same SA as the one before, regardless of popularity, 0 to
    /// 1. The mean length of bursts is `1 / (1 - locality)` packets.
    pub locality: f64,
    /// The share of SAs in each traffic class, highest class first; if empty, all SAs are in class
    /// 0.
    pub class_shares: Vec<f64>,
}

impl Default for SyntheticSpec {
    /// The paper's: 100 equiprobable SAs.
    fn default() -> Self {
        Self { sas: 100, popularity: 0.0, locality: 0.0, class_shares: Vec::new() }
    }
}

impl SyntheticSpec {
    /// The parameters of the paper for a pattern: only its trace has locality, which is fitted.
    pub fn paper(pattern: Pattern) -> Self {
        let locality = if pattern == Pattern::Trace { FITTED_TRACE_LOCALITY } else { 0.0 };
        Self { locality, ..Self::default() }
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=NUMBERS_MAX).contains(&self.sas) {
            return Err(format!("the number of SAs must be 1 to {NUMBERS_MAX}, not {}", self.sas));
        }
        if !(self.popularity.is_finite() && self.popularity >= 0.0) {
            return Err(format!("the popularity must be at least 0, not {}", self.popularity));
        }
        if !(0.0..1.0).contains(&self.locality) {
            return Err(format!("the locality must be at least 0 and below 1, not {}", self.locality));
        }
        let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
        let sum: f64 = self.class_shares.iter().sum();
        let fits =
            self.class_shares.len() <= convoy_scheduler::CLASSES && self.class_shares.iter().all(is_share);
        if !self.class_shares.is_empty() && (!fits || sum <= 0.0) {
            return Err(
                "there can be at most 8 class shares, each at least 0 and one of them above 0".to_owned()
            );
        }
        Ok(())
    }
}

/// Synthetic traffic, which is determined by its seed.
pub struct Synthetic {
    random: Xoshiro256PlusPlus,
    sizes: Discrete,
    sas: Discrete,
    /// `locality` as a fraction of 2^64.
    stay: u64,
    /// The class of each SA; empty if all are in class 0.
    classes: Vec<u8>,
    /// The SA of the previous packet.
    last_sa: u32,
    left: u64,
}

impl Synthetic {
    /// Generates `packets` packets of a pattern.
    ///
    /// # Errors
    /// [`TrafficError`] says which parameter is out of range.
    pub fn new(
        pattern: Pattern,
        spec: &SyntheticSpec,
        seed: u64,
        packets: u64,
    ) -> Result<Self, TrafficError> {
        spec.check().map_err(|what| TrafficError { place: format!("pattern {pattern}"), what })?;
        let (first, weights) = pattern.weights();
        let popularity: Vec<f64> =
            (1..=spec.sas).map(|rank| f64::from(rank).powf(-spec.popularity)).collect();
        let sas = Discrete::new(0, &popularity);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // The first packet may repeat this SA by locality as well.
        let last_sa = sas.draw(random.next_u32());
        Ok(Self {
            random,
            sizes: Discrete::new(first, &weights),
            sas,
            stay: (spec.locality * 2f64.powi(64)) as u64,
            classes: classes(spec),
            last_sa,
            left: packets,
        })
    }
}

/// Distributes the classes over all ranks of popularity, so that the shares of packets are close to
/// the shares of SAs.
fn classes(spec: &SyntheticSpec) -> Vec<u8> {
    if spec.class_shares.is_empty() {
        return Vec::new();
    }
    let sum: f64 = spec.class_shares.iter().sum();
    let mut owed = vec![0.0; spec.class_shares.len()];
    (0..spec.sas)
        .map(|_| {
            for (owed, share) in owed.iter_mut().zip(&spec.class_shares) {
                *owed += share / sum;
            }
            let most = (0..owed.len()).max_by(|a, b| owed[*a].total_cmp(&owed[*b])).unwrap_or(0);
            owed[most] -= 1.0;
            most as u8
        })
        .collect()
}

impl Synthetic {
    /// Appends `count` packets. The state that changes with each packet is kept in local variables,
    /// which the compiler holds in registers.
    fn draw(&mut self, packets: &mut Vec<Packet>, count: u64) {
        let (mut random, mut sa) = (self.random.clone(), self.last_sa);
        let next = |_| {
            // Size and SA use half of the bits each, which saves one call of the generator.
            let bits = random.next_u64();
            let payload_bytes = self.sizes.draw(bits as u32);
            let stays = self.stay > 0 && random.next_u64() < self.stay;
            sa = if stays { sa } else { self.sas.draw((bits >> 32) as u32) };
            let class = if self.classes.is_empty() { 0 } else { self.classes[sa as usize] };
            Packet { payload_bytes, sa, class, gap_ticks: 0 }
        };
        packets.extend((0..count).map(next));
        (self.random, self.last_sa) = (random, sa);
    }
}

impl Traffic for Synthetic {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let mut one = Vec::with_capacity(1);
        self.fill(&mut one, 1)?;
        Ok(one.pop())
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        let count = self.left.min(most as u64);
        self.left -= count;
        self.draw(packets, count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(spec: &SyntheticSpec, seed: u64) -> Vec<Packet> {
        let mut traffic = Synthetic::new(Pattern::Uniform, spec, seed, 50_000).expect("in range");
        std::iter::from_fn(|| traffic.next_packet().expect("no file to fail")).collect()
    }

    #[test]
    fn traffic_is_a_function_of_its_seed() {
        let spec = SyntheticSpec { locality: 0.3, ..SyntheticSpec::default() };
        assert_eq!(packets(&spec, 1), packets(&spec, 1));
        assert_ne!(packets(&spec, 1), packets(&spec, 2));
        assert_eq!(packets(&spec, 1).len(), 50_000);
    }

    #[test]
    fn locality_keeps_an_sa_and_popularity_prefers_the_first() {
        let repeats = |packets: &[Packet]| {
            packets.windows(2).filter(|pair| pair[0].sa == pair[1].sa).count() as f64 / packets.len() as f64
        };
        let local = packets(&SyntheticSpec { locality: 0.6, ..SyntheticSpec::default() }, 1);
        // A packet that draws a new SA may draw the same one by chance.
        assert!((repeats(&local) - 0.604).abs() < 0.01);
        let popular = packets(&SyntheticSpec { sas: 10, popularity: 1.0, ..SyntheticSpec::default() }, 1);
        let of = |sa| popular.iter().filter(|packet| packet.sa == sa).count() as f64;
        assert!((of(0) / of(4) - 5.0).abs() < 0.5);
    }

    #[test]
    fn classes_have_their_shares_and_an_sa_has_one_class() {
        let spec = SyntheticSpec { class_shares: vec![1.0, 3.0], ..SyntheticSpec::default() };
        let packets = packets(&spec, 1);
        let high = packets.iter().filter(|packet| packet.class == 0).count() as f64;
        assert!((high / packets.len() as f64 - 0.25).abs() < 0.01);
        let mut of = [None; 100];
        assert!(packets.iter().all(|p| *of[p.sa as usize].get_or_insert(p.class) == p.class));
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let specs = [
            SyntheticSpec { sas: 0, ..SyntheticSpec::default() },
            SyntheticSpec { locality: 1.0, ..SyntheticSpec::default() },
            SyntheticSpec { popularity: f64::NAN, ..SyntheticSpec::default() },
            SyntheticSpec { class_shares: vec![0.0], ..SyntheticSpec::default() },
        ];
        for spec in specs {
            assert!(Synthetic::new(Pattern::Imix, &spec, 1, 1).is_err(), "{spec:?}");
        }
    }
}
