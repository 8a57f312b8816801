//! A modelled accelerator: real ciphers, the timing of a device on a shared bus
//! (docs/lab/simulator.md, rules 4 and 5).
//!
//! Packets come out as the `software` engine would produce them, computed by ipsec-mb where that is
//! available and fast, and not before the modelled device would have completed them. The model's
//! time is virtual and exact, in picoseconds (`platform`); one thread per bus (`thread`)
//! follows it with the machine's clock, as closely as the operating system allows. Everything that
//! an operator sees of it says "model".

mod bus;
mod platform;
mod settings;
mod stepped;
mod thread;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use convoy_ipsec::{KeyMaterial, SaIndex};

pub use bus::{BusStatistics, SharedBus};
pub use settings::ModelSettings;
pub use stepped::SteppedBus;

use convoy_engine::MultibufferCore;
use convoy_engine::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, Placement, Refused,
    Submission, Takes,
};
use convoy_engine::{KeyTable, transforms};
use thread::{ModelJob, ThreadMessage};

/// The timing of one modelled accelerator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelTiming {
    /// Initialisation, once per multi-packet, in ns.
    pub t_init_ns: f64,
    /// One block of 16 bytes, in ns.
    pub t_block_ns: f64,
    /// Multi-packets that may wait, the one in service not counted.
    pub depth: usize,
    /// Whether it has room for the next input and the last output, so that transfers overlap with
    /// computing (docs/lab/simulator.md, rule 5).
    pub has_prefetch: bool,
}

impl Default for ModelTiming {
    /// The accelerator of the small-packets paper: 2 us and 230 Mbit/s, no prefetch.
    fn default() -> Self {
        Self { t_init_ns: 2_000.0, t_block_ns: 128.0 / 0.230, depth: 10, has_prefetch: false }
    }
}

/// The `model` engine.
pub struct Model {
    description: EngineDescription,
    keys: KeyTable,
    /// Computes in bursts, so that devices faster than `software` on this machine can be modelled.
    /// Locked once a multi-packet by the bus's thread, and when keys change.
    burst: Option<Arc<Mutex<MultibufferCore>>>,
    device: usize,
    bus: ModelBus,
    from_bus: Receiver<Completion>,
    /// On the bus.
    under_way: usize,
    /// Back from the bus, not polled yet.
    done: Vec<Completion>,
}

/// The bus of a device.
enum ModelBus {
    /// In the machine's time, kept by a thread, which lives as long as the bus does.
    Thread { messages: Sender<ThreadMessage>, _alive: SharedBus },
    /// In virtual time.
    Stepped(SteppedBus),
}

impl Model {
    /// An accelerator on `bus`. "-model" is appended to its name unless that contains "model".
    pub fn new(name: impl Into<String>, timing: ModelTiming, bus: SharedBus) -> Self {
        Self::on(name.into(), timing, |done| {
            let (device, messages) = bus.join(timing, done);
            (device, ModelBus::Thread { messages, _alive: bus })
        })
    }

    /// An accelerator in virtual time.
    pub fn stepped(name: impl Into<String>, timing: ModelTiming, bus: &SteppedBus) -> Self {
        Self::on(name.into(), timing, |done| (bus.join(timing, done), ModelBus::Stepped(bus.clone())))
    }

    fn on(
        mut name: String,
        timing: ModelTiming,
        join: impl FnOnce(Sender<Completion>) -> (usize, ModelBus),
    ) -> Self {
        if !name.contains("model") {
            name.push_str("-model");
        }
        let description = EngineDescription {
            name,
            kind: EngineKind::of::<ModelSettings>(),
            device: None,
            placement: Placement::Lookaside,
            transforms: transforms(),
            depth: timing.depth,
            gathers: 1,
            is_model: true,
            needs_input_kept: true,
            takes: Takes::MultiPackets,
            slack_ns: 0,
        };
        let (done, from_bus) = channel();
        let (device, bus) = join(done);
        let burst = MultibufferCore::new(&description.name).ok().map(|core| Arc::new(Mutex::new(core)));
        let (keys, under_way, done) = (KeyTable::default(), 0, Vec::new());
        Self { description, keys, burst, device, bus, from_bus, under_way, done }
    }

    fn collect(&mut self) {
        if let ModelBus::Stepped(bus) = &self.bus {
            bus.catch_up();
        }
        let before = self.done.len();
        self.done.extend(self.from_bus.try_iter());
        self.under_way -= self.done.len() - before;
    }

    fn gone(&self) -> EngineError {
        let reason = "the thread that keeps the model's time has ended".to_owned();
        EngineError::Device { engine: self.description.name.clone(), reason }
    }
}

impl EngineControl for Model {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.keys.install(&self.description.name, sa, keys)?;
        if let Some(burst) = &self.burst {
            let mut core = burst.lock().unwrap_or_else(PoisonError::into_inner);
            // What the library does not support, or only slowly, has no keys there and is left to
            // `software`.
            core.remove(sa);
            if core.transforms().contains(&keys.transform()) {
                let _ = core.install(sa, keys);
            }
        }
        Ok(())
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.keys.remove(sa);
        if let Some(burst) = &self.burst {
            burst.lock().unwrap_or_else(PoisonError::into_inner).remove(sa);
        }
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        let is_alive = match &self.bus {
            ModelBus::Thread { messages, .. } => messages.send(ThreadMessage::Ping).is_ok(),
            ModelBus::Stepped(_) => true,
        };
        if is_alive { Ok(()) } else { Err(self.gone()) }
    }
}

impl EngineQueue for Model {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        let Some(keys) = self.keys.get(submission.sa).cloned() else {
            return Err(self.description.refuse_unkeyed(submission));
        };
        self.collect();
        if self.under_way > self.description.depth {
            let reason = EngineError::NoRoom(self.description.name.clone());
            return Err(Box::new(Refused { submission, reason }));
        }
        let job = ModelJob { keys, burst: self.burst.clone(), submission };
        let messages = match &self.bus {
            ModelBus::Thread { messages, .. } => messages,
            ModelBus::Stepped(bus) => {
                bus.submit(self.device, job);
                self.under_way += 1;
                return Ok(());
            }
        };
        let message = ThreadMessage::Work { device: self.device, submitted: Instant::now(), job };
        let Err(unsent) = messages.send(message) else {
            self.under_way += 1;
            return Ok(());
        };
        let ThreadMessage::Work { job, .. } = unsent.0 else { unreachable!("what was sent is work") };
        Err(Box::new(Refused { submission: job.submission, reason: self.gone() }))
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.collect();
        completions.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.under_way + self.done.len()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        match &self.bus {
            // A thread that has ended has nothing to forget.
            ModelBus::Thread { messages, .. } => {
                let _ = messages.send(ThreadMessage::Leave { device: self.device });
            }
            ModelBus::Stepped(bus) => bus.leave(self.device),
        }
    }
}
