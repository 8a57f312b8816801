//! The settings of an engine that is a library, on the worker's core or on one of its own.

use std::fmt::Debug;

use convoy_settings::{Checker, tables};

use crate::backend::{EngineBackend, EngineStart, FoundEngine, Made, MissingEngine};
use crate::interface::EngineTraits;
use crate::{CryptoThread, Engine, EngineError, Placement};

tables! {
    /// Its own keys.
    pub CpuKeys {
        core: usize => ", which can run on its own thread",
        core_is_shared: bool => ", which can run on its own thread",
    }
}

/// A cryptographic library, and the engines that it provides.
pub trait Library: Default + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// The engine on its caller's core.
    type Inline: Engine + 'static;

    /// Its word in the configuration.
    const WORD: &'static str;

    /// The properties of the library's engines.
    const TRAITS: EngineTraits;

    /// What to add to the error if there are none.
    const ADVICE: &'static str = "";

    /// What is available of it.
    ///
    /// # Errors
    /// Those of [`EngineBackend::find`].
    fn find() -> Result<FoundEngine, MissingEngine>;

    /// An engine on its caller's core.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is unavailable.
    fn inline(name: &str) -> Result<Self::Inline, EngineError>;

    /// One for each of this many workers, all on one thread, pinned to `core` if given.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is unavailable, or the thread cannot be created.
    fn on_thread(name: &str, core: Option<usize>, workers: usize) -> Result<Vec<CryptoThread>, EngineError>;
}

/// The settings of an engine of the library `L`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuSettings<L> {
    /// The core of its own thread; `None` is the worker's own.
    pub core: Option<usize>,
    /// Whether that core runs other threads as well, so that this one sleeps rather than polls.
    pub core_is_shared: bool,
    library: L,
}

impl<L: Library> EngineBackend for CpuSettings<L> {
    type Keys = CpuKeys;

    const WORD: &'static str = L::WORD;

    const TRAITS: EngineTraits = L::TRAITS;

    fn check(keys: &CpuKeys, c: &mut Checker<'_>) -> Self {
        let core = c.core(keys.core.as_ref(), "engine.core");
        let shared = keys.core_is_shared.as_ref();
        c.only(shared, keys.core.is_some(), "engine.core_is_shared", "it is only for an engine with a core");
        Self { core, core_is_shared: shared.is_some_and(|shared| *shared.get_ref()), ..Self::default() }
    }

    fn on_core(core: usize) -> Option<Self> {
        Some(Self { core: Some(core), ..Self::default() })
    }

    fn placement(&self) -> Placement {
        if self.core.is_some() { Placement::Lookaside } else { Placement::Inline }
    }

    fn is_shareable(&self) -> bool {
        self.core.is_some()
    }

    fn find() -> Result<FoundEngine, MissingEngine> {
        L::find()
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        let (core, core_is_shared, name) = (self.core, self.core_is_shared, name.to_owned());
        Ok(Box::new(move |_, workers| {
            let other = name.clone();
            let here = move || L::inline(&name);
            let on_thread = move |core, workers| {
                let engines = L::on_thread(&other, core, workers)?;
                if core_is_shared {
                    engines.iter().for_each(CryptoThread::sleep_at_once);
                }
                Ok(engines)
            };
            let made = Made::here_or_on(core, workers, here, on_thread);
            made.map_err(|error| format!("{error}{}", L::ADVICE))
        }))
    }
}
