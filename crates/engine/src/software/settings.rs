//! The `software` engine in the configuration.

use convoy_settings::{Checker, tables};

use super::{Software, transforms};
use crate::backend::{
    AutoSelect, Cost, EngineBackend, EngineStart, EngineTraits, Found, Made, Missing, boxed,
};
use crate::{IdleEngine, Placement};

tables! {
    /// Its own keys.
    pub SoftwareKeys {
        core: usize => ", which can run on its own thread",
    }
}

/// The settings of a `software` engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoftwareSettings {
    /// The core of its own thread; `None` is the worker's own.
    pub core: Option<usize>,
}

impl EngineBackend for SoftwareSettings {
    type Keys = SoftwareKeys;

    const TRAITS: EngineTraits = EngineTraits {
        summary: "one packet at a time with RustCrypto and ring, on the worker's core or a core of its own; the reference",
        is_model: false,
        auto_select: AutoSelect::Always,
        system_calls: &[],
    };

    fn check(keys: &SoftwareKeys, c: &mut Checker<'_>) -> Self {
        Self { core: c.core(keys.core.as_ref(), "engine.core") }
    }

    fn on_core(core: usize) -> Option<Self> {
        Some(Self { core: Some(core) })
    }

    fn placement(&self) -> Placement {
        if self.core.is_some() { Placement::Lookaside } else { Placement::Inline }
    }

    fn is_shareable(&self) -> bool {
        self.core.is_some()
    }

    fn find() -> Result<Found, Missing> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Found { version, left_out: None, transforms: transforms(), devices: Vec::new() })
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        let (core, name) = (self.core, name.to_owned());
        Ok(Box::new(move |_, workers| {
            let engines = match core {
                None => (0..workers).map(|_| boxed(Software::new(&name))).collect(),
                Some(core) => {
                    let engines =
                        Software::shared(&name, core, workers).map_err(|error| error.to_string())?;
                    engines.into_iter().map(boxed).collect()
                }
            };
            let measured = move || match core {
                None => Ok(IdleEngine::new(Software::new(&name))),
                Some(_) => Software::on_any_core(&name).map(IdleEngine::new),
            };
            Ok(Made { engines, cost: Cost::Measured(Box::new(measured)) })
        }))
    }
}
