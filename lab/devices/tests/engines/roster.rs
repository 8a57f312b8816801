//! The simulated engines of this build; the reference comes first.

use convoy_devices::model::{Model, ModelTiming, SharedBus};
use convoy_engine::{BusTiming, Engine, Software};

/// Multi-packets of each transform on which all engines must agree: few, as the card is simulated
/// cycle by cycle.
pub(crate) const ROUNDS: u32 = 3;

/// Short times keep the suite fast. Two devices share a bus, and one prefetches.
fn models() -> [Box<dyn Engine>; 2] {
    let bus = SharedBus::new(BusTiming { t_cycle_ns: 0.1, ..BusTiming::PCI }).expect("a thread can be had");
    let timing = ModelTiming { t_init_ns: 100.0, t_block_ns: 0.5, ..ModelTiming::default() };
    let prefetching = ModelTiming { has_prefetch: true, ..timing };
    [Box::new(Model::new("model0", timing, bus.clone())), Box::new(Model::new("model1", prefetching, bus))]
}

#[cfg(feature = "card")]
fn cards() -> Vec<Box<dyn Engine>> {
    use convoy_devices::card_engine::LookasideCard;
    let mut cards = vec![LookasideCard::new("card").expect("a model of the card can be made")];
    // The functions of the other models.
    for proposal in ["aes128-sha1", "3des-sha1", "aes128ctr-sha512", "aes128gcm16-unrolled"] {
        let function = convoy_card::PROPOSALS.iter().find(|(name, _)| *name == proposal).map(|(_, id)| *id);
        let card = LookasideCard::with_function(&format!("card-{proposal}"), function);
        cards.push(card.expect("a model of the card has the function"));
    }
    cards.into_iter().map(|card| Box::new(card) as Box<dyn Engine>).collect()
}

#[cfg(not(feature = "card"))]
fn cards() -> Vec<Box<dyn Engine>> {
    Vec::new()
}

pub(crate) fn every_engine() -> Vec<Box<dyn Engine>> {
    let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
    engines.extend(models());
    engines.extend(cards());
    engines
}

/// Whether one of them works on a thread of its own.
pub(crate) fn has_threads() -> bool {
    cfg!(feature = "card")
}
