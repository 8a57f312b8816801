//! The `multibuffer` engine in the configuration.

use convoy_settings::{Checker, tables};

use super::{Multibuffer, done_well};
use crate::backend::{
    AutoSelect, Cost, EngineBackend, EngineStart, EngineTraits, Found, Made, Missing, boxed,
};
use crate::software::transforms;
use crate::{EngineError, IdleEngine, Placement};

const WITHOUT_VECTOR_CODE: &str = "DES and 3DES, for which ipsec-mb has vector code with AVX-512 alone";

tables! {
    /// Its own keys.
    pub MultibufferKeys {
        core: usize => ", which can run on its own thread",
    }
}

/// The settings of a `multibuffer` engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MultibufferSettings {
    /// The core of its own thread; `None` is the worker's own.
    pub core: Option<usize>,
}

impl EngineBackend for MultibufferSettings {
    type Keys = MultibufferKeys;

    const TRAITS: EngineTraits = EngineTraits {
        summary: "bursts with Intel's ipsec-mb, on the worker's core or a core of its own",
        is_model: false,
        auto_select: AutoSelect::IfFaster,
        system_calls: &[],
    };

    fn check(keys: &MultibufferKeys, c: &mut Checker<'_>) -> Self {
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
        let library = convoy_ipsec_mb::Manager::new()
            .map_err(|error| Missing { reason: error.reason, remedy: error.remedy })?;
        let done_well = done_well(&library);
        let is_all = done_well.len() == transforms().len();
        Ok(Found {
            version: library.version(),
            left_out: (!is_all).then_some(WITHOUT_VECTOR_CODE),
            transforms: done_well,
            devices: Vec::new(),
        })
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        let (core, name) = (self.core, name.to_owned());
        Ok(Box::new(move |_, workers| {
            let made = match core {
                None => (0..workers).map(|_| Multibuffer::inline(&name).map(boxed)).collect(),
                Some(core) => Multibuffer::shared(&name, core, workers)
                    .map(|engines| engines.into_iter().map(boxed).collect()),
            };
            let engines = made
                .map_err(|error: EngineError| format!("{error}; `convoy engines` says how to install it"))?;
            let measured = move || match core {
                None => Multibuffer::inline(&name).map(IdleEngine::new),
                Some(_) => Multibuffer::on_any_core(&name).map(IdleEngine::new),
            };
            Ok(Made { engines, cost: Cost::Measured(Box::new(measured)) })
        }))
    }
}
