//! Known cost models, and estimates for unknown ones.

use std::collections::BTreeMap;

use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;

use super::AlgorithmCost;
use crate::EngineDescription;

/// The assumed cost of an engine of which nothing is known, in ns: about that of a slow cipher on a
/// slow processor. The scheduler corrects it from the first completion on.
const UNKNOWN: CostModel = CostModel { t_init: 1_000.0, t_block: 10.0 };
/// Blocks of a packet of 1450 bytes, at which two models are compared.
const PACKET_BLOCKS: f64 = 91.0;

/// Kind of engine with its device, placement, transform.
pub(super) type CostKey = (String, String, String);

/// Costs by kind of engine, placement, and transform, in ns: on a core of its own an engine also
/// fetches the packets from the caller's caches.
#[derive(Clone, Debug, Default)]
pub struct KnownCosts(pub(super) BTreeMap<CostKey, AlgorithmCost>);

pub(super) fn key(engine: &EngineDescription, transform: Transform) -> CostKey {
    let kind = match &engine.device {
        Some(device) => format!("{} {device}", engine.kind),
        None => engine.kind.to_string(),
    };
    (kind, engine.placement.to_string(), transform.to_string())
}

impl KnownCosts {
    /// The cost of an engine for a transform, if it was measured.
    pub fn of(&self, engine: &EngineDescription, transform: Transform) -> Option<AlgorithmCost> {
        self.0.get(&key(engine, transform)).copied()
    }

    /// Adds a measurement.
    pub fn set(&mut self, engine: &EngineDescription, transform: Transform, cost: AlgorithmCost) {
        self.0.insert(key(engine, transform), cost);
    }

    /// The estimated cost until it is measured: that of the nearest transform measured on this
    /// engine, which is one of the same algorithms with other lengths, otherwise of the same
    /// integrity algorithm, otherwise of the same cipher, otherwise any. The most expensive of
    /// several: an engine estimated too slow gets less work, one estimated too fast is waited for.
    pub fn estimate(&self, engine: &EngineDescription, transform: Transform) -> AlgorithmCost {
        let measured = engine.transforms.iter().filter_map(|other| Some((*other, self.of(engine, *other)?)));
        let packet_ns = |cost: &AlgorithmCost| cost.model.t_init + cost.model.t_block * PACKET_BLOCKS;
        let nearest = measured.max_by(|(one, one_costs), (other, other_costs)| {
            let by_nearness = nearness(transform, *one).cmp(&nearness(transform, *other));
            by_nearness.then(packet_ns(one_costs).total_cmp(&packet_ns(other_costs)))
        });
        nearest.map_or_else(|| UNKNOWN.into(), |(_, cost)| cost)
    }
}

/// How similar two transforms are. Integrity says more than the cipher, as HMAC takes longer than
/// AES.
fn nearness(one: Transform, other: Transform) -> u8 {
    use std::mem::discriminant;
    match (one, other) {
        (Transform::Aead(one), Transform::Aead(other)) => {
            3 * u8::from(discriminant(&one) == discriminant(&other))
        }
        (
            Transform::Chained { cipher, integrity },
            Transform::Chained { cipher: other, integrity: others },
        ) => 2 * u8::from(integrity == others) + u8::from(discriminant(&cipher) == discriminant(&other)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::{Aead, Cipher, Integrity, KeyBits};

    use super::*;
    use crate::{EngineControl, Software};

    const fn gcm(key: KeyBits) -> Transform {
        Transform::Aead(Aead::AesGcm { key, icv: 16 })
    }

    const fn cbc(key: KeyBits, integrity: Integrity) -> Transform {
        Transform::Chained { cipher: Cipher::AesCbc(key), integrity: Some(integrity) }
    }

    fn model(t_block: f64) -> AlgorithmCost {
        CostModel { t_init: 100.0, t_block }.into()
    }

    #[test]
    fn what_was_not_measured_costs_what_the_nearest_transform_does() {
        let software = Software::new("software0");
        let engine = software.description();
        let mut known = KnownCosts::default();
        let wanted = cbc(KeyBits::B256, Integrity::HmacSha256_128);
        assert_eq!(known.estimate(engine, wanted), UNKNOWN.into(), "of an engine of which nothing is known");
        let nearer_and_nearer = [
            (gcm(KeyBits::B128), 1.0),
            (cbc(KeyBits::B128, Integrity::HmacSha1_96), 2.0),
            (
                Transform::Chained {
                    cipher: Cipher::AesCtr(KeyBits::B128),
                    integrity: Some(Integrity::HmacSha256_128),
                },
                3.0,
            ),
            (cbc(KeyBits::B128, Integrity::HmacSha256_128), 4.0),
        ];
        for (other, t_block) in nearer_and_nearer {
            known.set(engine, other, model(t_block));
            assert_eq!(known.estimate(engine, wanted), model(t_block), "{other}");
        }
    }

    #[test]
    fn of_several_that_are_as_near_the_dearest_is_taken() {
        let software = Software::new("software0");
        let engine = software.description();
        let mut known = KnownCosts::default();
        known.set(engine, gcm(KeyBits::B128), model(1.0));
        known.set(engine, gcm(KeyBits::B256), model(2.0));
        assert_eq!(known.estimate(engine, gcm(KeyBits::B192)), model(2.0));
    }

    #[test]
    fn what_one_device_costs_says_nothing_of_another() {
        let software = Software::new("software0");
        let of = |device: &str| EngineDescription {
            device: Some(device.to_owned()),
            ..software.description().clone()
        };
        let mut known = KnownCosts::default();
        known.set(&of("crypto_aesni_mb0"), gcm(KeyBits::B128), model(1.0));
        assert_eq!(known.of(&of("crypto_aesni_mb0"), gcm(KeyBits::B128)), Some(model(1.0)));
        assert_eq!(known.of(&of("crypto_openssl0"), gcm(KeyBits::B128)), None);
        assert_eq!(known.of(software.description(), gcm(KeyBits::B128)), None);
    }
}
