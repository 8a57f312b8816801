//! One packet at a time with vetted ciphers (RustCrypto, and ring for ChaCha20-Poly1305), on the
//! caller's core or a thread of its own: the reference for every other engine, on every platform.

mod aead;
mod chacha;
mod chained;
mod gmac;
mod integrity;
mod keys;
mod modes;
mod settings;

use std::task::Waker;

use convoy_ipsec::{CryptoPacket, KeyMaterial, SaIndex, Transform};

pub use keys::transforms;
pub use keys::{KeyTable, SaKeys};
pub use settings::SoftwareSettings;

use crate::crypto_thread::{CryptoThread, Processor};
use crate::interface::is_one_run;
use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, InPlace, Outcome,
    Placement, Refused, Submission, Takes,
};

/// The `software` engine on its caller's core; [`on_core`](Self::on_core) creates one on a core of
/// its own. Supports everything that [`transforms`] lists.
pub struct Software {
    description: EngineDescription,
    keys: KeyTable,
    done: Vec<Completion>,
}

impl Software {
    /// An engine called `name`, without keys.
    pub fn new(name: impl Into<String>) -> Self {
        let description = EngineDescription {
            name: name.into(),
            kind: EngineKind::of::<SoftwareSettings>(),
            device: None,
            placement: Placement::Inline,
            transforms: transforms(),
            depth: 0,
            gathers: 1,
            is_model: false,
            needs_input_kept: false,
            takes: Takes::Trains,
            slack_ns: 0,
        };
        Self { description, keys: KeyTable::default(), done: Vec::new() }
    }

    /// One that works on a thread of its own, fed by a ring and pinned to `core` if given.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the thread cannot be created.
    pub fn on_core(name: &str, core: impl Into<Option<usize>>) -> Result<CryptoThread, EngineError> {
        let mut engines = Self::shared(name, core.into(), 1)?;
        Ok(engines.pop().expect("as many as workers"))
    }

    /// An engine for each of this many workers, all on one such thread.
    ///
    /// # Errors
    /// Those of [`on_core`](Self::on_core).
    pub fn shared(name: &str, core: Option<usize>, workers: usize) -> Result<Vec<CryptoThread>, EngineError> {
        let describe = CryptoThread::describe(name, EngineKind::of::<SoftwareSettings>());
        CryptoThread::start(name, core, workers, keys_of, describe)
    }
}

/// The thread's keys of one worker.
struct WorkerKeys {
    engine: String,
    keys: KeyTable,
}

fn keys_of(engine: &str) -> Result<WorkerKeys, EngineError> {
    Ok(WorkerKeys { engine: engine.to_owned(), keys: KeyTable::default() })
}

impl Processor for WorkerKeys {
    fn transforms(&self) -> Vec<Transform> {
        transforms()
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        // If an SA is refused it has no keys here, and its packets fail.
        let _ = self.keys.install(&self.engine, sa, keys);
    }

    fn remove(&mut self, sa: SaIndex) {
        self.keys.remove(sa);
    }

    fn process(&mut self, submissions: &mut [Submission]) -> bool {
        submissions.iter_mut().for_each(|submission| run(&self.keys, &mut submission.packets));
        true
    }
}

/// Processes packets of any SAs, one by one.
fn run(keys: &KeyTable, packets: &mut [CryptoPacket]) {
    for run in packets.chunk_by_mut(is_one_run) {
        let Some(first) = run.first() else { continue };
        if let Some(keys) = keys.get(first.sa) {
            keys.run(first.direction, run);
        }
    }
}

impl EngineControl for Software {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.keys.install(&self.description.name, sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.keys.remove(sa);
    }
}

impl EngineQueue for Software {
    fn submit(&mut self, mut submission: Submission) -> Result<(), Box<Refused>> {
        let Some(keys) = self.keys.get(submission.sa) else {
            return Err(self.description.refuse_unkeyed(submission));
        };
        let start = std::time::Instant::now();
        keys.run(submission.direction, &mut submission.packets);
        let service_ns = Some(start.elapsed().as_nanos() as u64);
        self.done.push(Completion { submission, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        true
    }
}

impl InPlace for Software {
    fn process(&mut self, packets: &mut [CryptoPacket]) {
        run(&self.keys, packets);
    }
}
