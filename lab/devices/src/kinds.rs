//! The kinds of engine and port of the laboratory's programs.

use convoy_config::Kinds;
use convoy_engine::{CryptodevSettings, EngineKindRow, EngineTable, MultibufferSettings, SoftwareSettings};
use convoy_port::{
    AfPacketSettings, AfXdpSettings, DpdkSettings, PcapSettings, PortKindRow, PortTable, RawSettings,
    TunSettings, UdpSettings,
};

use crate::card_engine::CardEngineSettings;
use crate::card_port::CardSettings;
use crate::model::ModelSettings;

/// The product's kinds, and the simulated ones.
pub static KINDS: Kinds = Kinds {
    engines: EngineTable { rows: ENGINES, elsewhere: &[], ..convoy_config::PRODUCT.engines },
    ports: PortTable { rows: PORTS, elsewhere: &[], ..convoy_config::PRODUCT.ports },
    port_engine: crate::card_engine::of_port,
    rivals: &convoy_rivals::ALL,
};

const ENGINES: &[EngineKindRow] = &[
    EngineKindRow::of::<SoftwareSettings>(),
    EngineKindRow::of::<MultibufferSettings>(),
    EngineKindRow::of::<ModelSettings>(),
    EngineKindRow::of::<CryptodevSettings>(),
    EngineKindRow::of::<CardEngineSettings>(),
];

const PORTS: &[PortKindRow] = &[
    PortKindRow::of::<TunSettings>(),
    PortKindRow::of::<UdpSettings>(),
    PortKindRow::of::<RawSettings>(),
    PortKindRow::of::<AfXdpSettings>(),
    PortKindRow::of::<AfPacketSettings>(),
    PortKindRow::of::<DpdkSettings>(),
    PortKindRow::of::<PcapSettings>(),
    PortKindRow::of::<CardSettings>(),
];

#[cfg(test)]
mod tests {
    use convoy_engine::{ENGINES as PRODUCT, EngineContext, available};
    use convoy_port::PORTS as PRODUCT_PORTS;
    use convoy_settings::Kind;

    use super::*;

    #[test]
    fn laboratory_has_all_kinds_of_the_product() {
        let engines = KINDS.engines.words();
        assert!(PRODUCT.iter().all(|row| engines.contains(&row.word())), "{engines:?}");
        let ports = KINDS.ports.words();
        assert!(PRODUCT_PORTS.iter().all(|row| ports.contains(&row.word())), "{ports:?}");
    }

    #[test]
    fn card_is_available_in_a_build_with_it_and_else_names_the_feature() {
        let card = available(&KINDS.engines).pop().expect("the last one");
        assert_eq!((card.row.word(), card.found.is_ok()), ("card", cfg!(feature = "card")));
        if let Err(missing) = card.found {
            assert!(missing.remedy.contains("--features card"), "{}", missing.remedy);
        }
    }

    #[test]
    fn engines_that_were_found_can_be_opened() {
        for finding in available(&KINDS.engines) {
            let (kind, settings) = (finding.row.kind(), finding.row.default_settings());
            let opened = settings.open(&format!("{kind}0"));
            let made = opened.and_then(|start| start(&mut EngineContext::default(), 1));
            assert_eq!(made.is_ok(), finding.found.is_ok(), "{kind}: {:?}", made.err());
            if let Ok(made) = made {
                let description = made.engines[0].description();
                assert_eq!(description.kind, kind);
                assert_eq!(description.placement, settings.placement());
                assert_eq!(description.is_model, kind.traits().is_model);
            }
        }
    }
}
