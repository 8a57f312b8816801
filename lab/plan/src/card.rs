//! Hypothetical cards: the accelerators of one of the simulator's platforms, added to this machine.

use convoy_sim::{BusSpec, Platform, ProcessorKind};

use super::PlanError;
use super::platform::EngineCost;

/// A card as described by a platform.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// Name of the platform.
    pub(super) name: String,
    /// The card's accelerators.
    pub(super) engines: Vec<EngineCost>,
    /// The buses that connect them.
    pub(super) buses: Vec<BusSpec>,
}

impl Card {
    /// Takes a platform's accelerators with their queues, caches and buses. The platform's stages
    /// are left out, since this machine has its own packet I/O.
    ///
    /// # Errors
    /// [`PlanError::Card`] if the platform has no accelerator.
    pub(super) fn of(platform: &Platform) -> Result<Self, PlanError> {
        let name = &platform.name;
        // Prefixed, since several cards and the configuration may use the same name.
        let own = |bus: &str| format!("{name}'s {bus}");
        let (t_init_ns, t_block_ns) =
            (platform.reference.t_init_us * 1e3, 128.0 / platform.reference.block_mbps * 1e3);
        let mut engines = Vec::new();
        for processor in platform.processors.iter().filter(|it| it.kind == ProcessorKind::Accelerator) {
            for number in 1..=processor.count {
                let numbered = if processor.count == 1 { String::new() } else { format!("-{number}") };
                engines.push(EngineCost {
                    name: format!("{name}'s {}{numbered}", processor.name),
                    is_inline: false,
                    is_model: true,
                    t_init_ns: processor.init_ratio * t_init_ns,
                    t_block_ns: processor.enc_ratio * t_block_ns,
                    depth: processor.depth,
                    bus: processor.bus.as_deref().map(own),
                    cache: processor.cache,
                });
            }
        }
        if engines.is_empty() {
            return Err(PlanError::Card(name.clone()));
        }
        let buses = platform.buses.iter().map(|bus| BusSpec { name: own(&bus.name), ..bus.clone() });
        Ok(Self { name: name.clone(), engines, buses: buses.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_its_platforms_accelerators_at_their_own_speed() {
        let platform = Platform::open("connectx-7").expect("it comes with the program");
        let card = Card::of(&platform).expect("it has an accelerator");
        let [engine] = &card.engines[..] else { panic!("one accelerator: {card:?}") };
        assert_eq!(engine.name, "connectx-7's card");
        assert!((engine.t_block_ns - 0.690_691).abs() < 1e-9 && engine.t_init_ns == 0.0);
        assert_eq!(engine.cache.map(|cache| cache.sas), Some(2102));
    }

    #[test]
    fn a_card_brings_its_bus_under_a_name_of_its_own() {
        let mut platform = Platform::open("pci-accelerators").expect("it comes with the program");
        platform.set_accelerators(2);
        let card = Card::of(&platform).expect("it has accelerators");
        let names: Vec<&str> = card.engines.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(names, ["pci-accelerators's accelerator-1", "pci-accelerators's accelerator-2"]);
        assert_eq!(card.engines[1].bus.as_deref(), Some("pci-accelerators's pci"));
        assert_eq!(card.buses[0].name, "pci-accelerators's pci");
        assert_eq!(card.engines[0].t_init_ns, 2000.0);
        assert!((card.engines[0].t_block_ns - 556.52).abs() < 0.01);
    }

    #[test]
    fn a_platform_without_accelerators_is_no_card() {
        let platform = Platform::open("pentium3").expect("it comes with the program");
        let error = Card::of(&platform).expect_err("nothing to add").to_string();
        assert_eq!(
            error,
            "pentium3 has no [[processor]] of kind \"accelerator\" that could be added to this machine"
        );
    }
}
