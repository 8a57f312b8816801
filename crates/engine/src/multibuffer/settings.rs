//! The `multibuffer` engine in the configuration.

use super::{Multibuffer, done_well};
use crate::backend::{FoundEngine, MissingEngine};
use crate::cpu::{CpuSettings, Library};
use crate::interface::{AutoSelect, EngineTraits};
use crate::software::transforms;
use crate::{CryptoThread, EngineError};

const WITHOUT_VECTOR_CODE: &str = "DES and 3DES, for which ipsec-mb has vector code only with AVX-512";

/// The settings of a `multibuffer` engine.
pub type MultibufferSettings = CpuSettings<IpsecMb>;

/// The library behind the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IpsecMb;

impl Library for IpsecMb {
    type Inline = Multibuffer;

    const WORD: &'static str = "multibuffer";

    const TRAITS: EngineTraits = EngineTraits {
        summary: "bursts with Intel's ipsec-mb, on the worker's core or a core of its own",
        is_model: false,
        auto_select: AutoSelect::IfFaster,
        system_calls: &[],
    };

    const ADVICE: &'static str = "; `convoy engines` says how to install it";

    fn find() -> Result<FoundEngine, MissingEngine> {
        let library = convoy_ipsec_mb::Manager::new()
            .map_err(|error| MissingEngine { reason: error.reason, remedy: error.remedy })?;
        let done_well = done_well(&library);
        let is_all = done_well.len() == transforms().len();
        Ok(FoundEngine {
            version: library.version(),
            left_out: (!is_all).then_some(WITHOUT_VECTOR_CODE),
            transforms: done_well,
            devices: Vec::new(),
        })
    }

    fn inline(name: &str) -> Result<Multibuffer, EngineError> {
        Multibuffer::inline(name)
    }

    fn on_thread(name: &str, core: Option<usize>, workers: usize) -> Result<Vec<CryptoThread>, EngineError> {
        Multibuffer::shared(name, core, workers)
    }
}
