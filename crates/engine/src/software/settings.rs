//! The `software` engine in the configuration.

use convoy_settings::{Checker, tables};

use super::{Software, transforms};
use crate::backend::{AutoSelect, Cost, EngineBackend, EngineStart, EngineTraits, Found, Made, Missing};
use crate::{Engine, IdleEngine, Placement};

tables! {
    /// It has no keys of its own.
    pub SoftwareKeys {}
}

/// The settings of a `software` engine: none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoftwareSettings;

impl EngineBackend for SoftwareSettings {
    type Keys = SoftwareKeys;

    const TRAITS: EngineTraits = EngineTraits {
        summary: "one packet at a time with RustCrypto and ring, on the worker's core; the reference",
        is_model: false,
        auto_select: AutoSelect::Always,
        system_calls: &[],
    };

    fn check(_: &SoftwareKeys, _: &mut Checker<'_>) -> Self {
        Self
    }

    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn find() -> Result<Found, Missing> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Found { version, left_out: None, transforms: transforms() })
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        let name = name.to_owned();
        Ok(Box::new(move |_| {
            let engine: Box<dyn Engine> = Box::new(Software::new(&name));
            let cost = Cost::Measured(Box::new(move || Ok(IdleEngine::new(Software::new(&name)))));
            Ok(Made { engine, cost })
        }))
    }
}
