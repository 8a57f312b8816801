//! The `card` engine: the GRIP card's RTL simulated by Verilator, behind its driver, on a thread of
//! its own (docs/lab/card.md).
//!
//! It is a model: its results are the card's, and its `service_ns` are the card's cycles at the
//! clock that its cores were routed for ([`super::clock`]), not the far longer time of the
//! simulation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use convoy_ipsec::{KeyMaterial, SaIndex};

use super::CardEngineSettings;
use super::core::CardCore;
use convoy_engine::CryptoThread;
use convoy_engine::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, Refused, Submission,
    Takes,
};

/// Three times what the simulation takes on a busy core for a full queue of large packets. A card
/// that hangs is detected by its own cycles, much sooner.
pub(super) const SLACK_NS: u64 = 60_000_000_000;

/// The `card` engine, lookaside.
pub struct LookasideCard {
    engine: CryptoThread,
    left_to_software: Arc<AtomicU64>,
}

impl LookasideCard {
    /// A card after reset, without keys, and with the functions of the first model. "-card-model"
    /// is appended to its name unless that contains "card".
    ///
    /// # Errors
    /// [`EngineError::Device`] if it does not respond, or the thread cannot be created.
    pub fn new(name: &str) -> Result<Self, EngineError> {
        Self::with_function(name, None)
    }

    /// A card with one function alone, if its number is given ([`convoy_card::PROPOSALS`]).
    ///
    /// # Errors
    /// As for [`Self::new`], or if there is no such function.
    pub fn with_function(name: &str, function: Option<u8>) -> Result<Self, EngineError> {
        let name = if name.contains("card") { name.to_owned() } else { format!("{name}-card-model") };
        let left_to_software = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&left_to_software);
        let like = CryptoThread::describe(&name, EngineKind::of::<CardEngineSettings>());
        let describe = |transforms| EngineDescription {
            is_model: true,
            takes: Takes::MultiPackets,
            slack_ns: SLACK_NS,
            ..like(transforms)
        };
        let make = move |name: &str| CardCore::new(name, function, Arc::clone(&counter));
        let engine = CryptoThread::start(&name, None, 1, make, describe)?.pop().expect("as many as workers");
        Ok(Self { engine, left_to_software })
    }

    /// Packets so far that are no ESP in the card's format (AH, or empty packets), which the
    /// reference processed instead, in no time of the card.
    pub fn left_to_software(&self) -> u64 {
        self.left_to_software.load(Ordering::Relaxed)
    }
}

impl EngineControl for LookasideCard {
    fn description(&self) -> &EngineDescription {
        self.engine.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        self.engine.probe()
    }
}

impl EngineQueue for LookasideCard {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        self.engine.submit(submission)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.engine.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    fn wake_by(&mut self, waker: &Waker) -> bool {
        self.engine.wake_by(waker)
    }

    fn has_completions(&self) -> bool {
        self.engine.has_completions()
    }
}
