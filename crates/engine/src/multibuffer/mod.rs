//! The `multibuffer` engine: Intel ipsec-mb on the worker's core or on a thread of its own, with
//! packets of many SAs at a time.

mod core;
mod settings;

use std::task::Waker;
use std::time::Instant;

use convoy_ipsec::{CryptoPacket, KeyMaterial, SaIndex, Transform};

pub use self::core::MultibufferState;
pub(crate) use self::core::done_well;
pub use settings::MultibufferSettings;

use crate::crypto_thread::{CryptoThread, Processor};
use crate::interface::split_time;
use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, InPlace, Outcome,
    Placement, Refused, Submission, Takes,
};

/// Packets that keep every lane of the library busy: twice the 16 that it has with AVX-512, so that
/// the end of a burst, where lanes run empty, is at most half of it.
const GATHERS: usize = 32;

/// The `multibuffer` engine on its caller's core; [`on_core`](Self::on_core) creates one on a core
/// of its own.
pub struct Multibuffer {
    description: EngineDescription,
    core: Box<MultibufferState>,
    gathered: Vec<Submission>,
    /// Packets of `gathered`.
    packets: usize,
    done: Vec<Completion>,
}

impl Multibuffer {
    /// One that works on the caller's core, in `submit` and `poll`.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is unavailable, with how to get it.
    pub fn inline(name: &str) -> Result<Self, EngineError> {
        let core = MultibufferState::new(name)?;
        let description = EngineDescription {
            name: name.to_owned(),
            kind: EngineKind::of::<MultibufferSettings>(),
            device: None,
            placement: Placement::Inline,
            transforms: core.transforms(),
            // Each has a packet at least, so that there is always room for what it gathers.
            depth: GATHERS,
            gathers: GATHERS,
            is_model: false,
            needs_input_kept: false,
            takes: Takes::Trains,
            slack_ns: 0,
        };
        let (gathered, done) = (Vec::new(), Vec::new());
        Ok(Self { description, core: Box::new(core), gathered, packets: 0, done })
    }

    /// One that works on a thread of its own, fed by a ring and pinned to `core` if given.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is unavailable or the thread cannot be created.
    pub fn on_core(name: &str, core: impl Into<Option<usize>>) -> Result<CryptoThread, EngineError> {
        let mut engines = Self::shared(name, core.into(), 1)?;
        Ok(engines.pop().expect("as many as workers"))
    }

    /// An engine for each of this many workers, all on one such thread.
    ///
    /// # Errors
    /// Those of [`on_core`](Self::on_core).
    pub fn shared(name: &str, core: Option<usize>, workers: usize) -> Result<Vec<CryptoThread>, EngineError> {
        let describe = CryptoThread::describe(name, EngineKind::of::<MultibufferSettings>());
        CryptoThread::start(name, core, workers, MultibufferState::new, describe)
    }

    fn gather(&mut self, submission: Submission) {
        self.packets += submission.packets.len();
        self.gathered.push(submission);
        if self.packets >= GATHERS {
            self.begin();
        }
    }

    /// Processes everything gathered. The time is measured once; each train gets a share by its
    /// bytes.
    fn begin(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let began = Instant::now();
        self.core.process(&mut self.gathered[..]);
        let part = split_time(began.elapsed().as_nanos() as u64, &self.gathered);
        self.done.extend(self.gathered.drain(..).map(|submission| {
            let service_ns = Some(part(&submission));
            Completion { submission, outcome: Outcome::Done, service_ns }
        }));
        self.packets = 0;
    }
}

impl Processor for MultibufferState {
    fn transforms(&self) -> Vec<Transform> {
        MultibufferState::transforms(self)
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        // If the library refuses an SA it has no keys here, and its packets fail.
        let _ = MultibufferState::install(self, sa, keys);
    }

    fn remove(&mut self, sa: SaIndex) {
        MultibufferState::remove(self, sa);
    }

    fn gathers(&self) -> usize {
        GATHERS
    }

    fn process(&mut self, submissions: &mut [Submission]) -> bool {
        MultibufferState::process(self, submissions);
        true
    }
}

impl EngineControl for Multibuffer {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.description.check_transform(keys.transform())?;
        self.core.install(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.core.remove(sa);
    }
}

impl EngineQueue for Multibuffer {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        if !self.core.has_key(submission.sa) {
            return Err(self.description.refuse_unkeyed(submission));
        }
        self.gather(submission);
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.begin();
        completions.append(&mut self.done);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn in_flight(&self) -> usize {
        self.gathered.len() + self.done.len()
    }

    fn gathered(&self) -> usize {
        self.gathered.len()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        true
    }

    fn has_completions(&self) -> bool {
        !self.done.is_empty()
    }
}

impl InPlace for Multibuffer {
    fn process(&mut self, packets: &mut [CryptoPacket]) {
        self.core.process(packets);
    }
}
