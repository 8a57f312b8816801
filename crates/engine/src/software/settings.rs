//! The `software` engine in the configuration.

use super::{Software, transforms};
use crate::backend::{FoundEngine, MissingEngine};
use crate::cpu::{CpuSettings, Library};
use crate::interface::{AutoSelect, EngineTraits};
use crate::{CryptoThread, EngineError};

/// The settings of a `software` engine.
pub type SoftwareSettings = CpuSettings<RustCrypto>;

/// The library behind the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RustCrypto;

impl Library for RustCrypto {
    type Inline = Software;

    const WORD: &'static str = "software";

    const TRAITS: EngineTraits = EngineTraits {
        summary: "one packet at a time with RustCrypto and ring, on the worker's core or a core of its own; the reference",
        is_model: false,
        auto_select: AutoSelect::Always,
        system_calls: &[],
    };

    fn find() -> Result<FoundEngine, MissingEngine> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(FoundEngine { version, left_out: None, transforms: transforms(), devices: Vec::new() })
    }

    fn inline(name: &str) -> Result<Software, EngineError> {
        Ok(Software::new(name))
    }

    fn on_thread(name: &str, core: Option<usize>, workers: usize) -> Result<Vec<CryptoThread>, EngineError> {
        Software::shared(name, core, workers)
    }
}
