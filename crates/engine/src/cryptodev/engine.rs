//! The engine over one queue pair: on the worker's core, at a device, or on a thread of its own.

use std::collections::BTreeSet;
use std::mem;
use std::task::Waker;
use std::time::Instant;

use convoy_dpdk::{Device, Eal, default_arguments};
use convoy_ipsec::{KeyMaterial, SaIndex, Transform};
use convoy_packet::FramePool;

use super::core::{Back, CryptodevState};
use super::settings::CryptodevSettings;
use super::{keys, suite, trial};
use crate::backend::{EngineBackend, EngineStart, Made};
use crate::crypto_thread::{CryptoThread, Processor, Random};
use crate::interface::{lay_out, open_up, split_time};
use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, Outcome, Placement,
    Refused, Submission, Takes,
};

/// Trains that may wait.
const DEPTH: usize = 32;
/// Packets that a software device processes efficiently at a time.
const GATHERS: usize = 32;

/// Opens a device and verifies what it claims to support.
pub(super) fn open_device(settings: &CryptodevSettings) -> Result<(&'static Device, Vec<Transform>), String> {
    let name = settings.device.as_str();
    let eal = match Eal::running() {
        Some(eal) => eal,
        None => Eal::start(&default_arguments([name])).map_err(|error| error.to_string())?,
    };
    let sessions = settings.sas.saturating_mul(keys::SESSIONS_OF_SA);
    let device = eal.device(name, settings.descriptors, sessions).map_err(|error| error.to_string())?;
    let (claimed, lacks) = suite::claimed(device.info());
    let claims = claimed.len();
    let transforms = trial::tried(device, claimed).map_err(|error| error.to_string())?;
    match (transforms.is_empty(), claims) {
        (false, _) => Ok((device, transforms)),
        (true, 0) => Err(does_nothing(name, &lacks)),
        (true, _) => {
            Err(format!("DPDK's device {name} gives wrong results for all of its reported algorithms"))
        }
    }
}

/// Why a device is no engine.
pub(super) fn does_nothing(name: &str, lacks: &[String]) -> String {
    let lacks: BTreeSet<&str> = lacks.iter().map(String::as_str).collect();
    let lacks: Vec<&str> = lacks.into_iter().collect();
    format!("DPDK's device {name} supports no algorithm of ESP or AH: {}", lacks.join("; "))
}

pub(super) fn open(settings: &CryptodevSettings, name: &str) -> Result<EngineStart, String> {
    let (device, transforms) = open_device(settings)?;
    if device.info().features.is_hardware() && settings.placement() == Placement::Inline {
        return Err(format!(
            "{} has the name of a DPDK software device but is hardware; give it a thread of its own, for \
             example core = 1",
            settings.device
        ));
    }
    let (settings, name) = (settings.clone(), name.to_owned());
    Ok(Box::new(move |_, workers| {
        let core = settings.core;
        let (over, other) = ((device, transforms.clone()), name.clone());
        let here = move || Cryptodev::over(&name, &settings, over.clone());
        let on_thread = move |core, workers| on_thread(&other, core, workers, (device, transforms.clone()));
        Made::here_or_on(core, workers, here, on_thread).map_err(|error| error.to_string())
    }))
}

/// A device, and the transforms verified.
type Tried = (&'static Device, Vec<Transform>);

/// An engine for each worker, on one thread that polls the device; each worker has a queue pair.
fn on_thread(
    name: &str,
    core: Option<usize>,
    workers: usize,
    (device, transforms): Tried,
) -> Result<Vec<CryptoThread>, EngineError> {
    let make = move |name: &str| {
        make_core(name, device).map(|core| ThreadedQueue { core, transforms: transforms.clone() })
    };
    let like = CryptoThread::describe(name, EngineKind::of::<CryptodevSettings>());
    let describe =
        |transforms| EngineDescription { device: Some(device.info().name.clone()), ..like(transforms) };
    CryptoThread::start(name, core, workers, make, describe)
}

fn make_core(name: &str, device: &'static Device) -> Result<CryptodevState, EngineError> {
    CryptodevState::new(name, device)
        .map_err(|error| EngineError::Device { engine: name.to_owned(), reason: error.to_string() })
}

enum Execution {
    Here(Here),
    AtDevice(AtDevice),
}

/// The `cryptodev` engine without a thread of its own.
pub struct Cryptodev {
    description: EngineDescription,
    execution: Execution,
}

impl Cryptodev {
    /// One over the device of `settings`, ignoring their `core`, with a queue pair of its own.
    ///
    /// # Errors
    /// [`EngineError::Device`] if DPDK or the device does not start, or the device supports nothing
    /// that an SA needs.
    pub fn new(name: &str, settings: &CryptodevSettings) -> Result<Self, EngineError> {
        Self::over(name, settings, opened(name, settings)?)
    }

    /// One that is polled by a thread pinned to `core`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), or that the thread cannot be created.
    pub fn on_core(
        name: &str,
        settings: &CryptodevSettings,
        core: usize,
    ) -> Result<CryptoThread, EngineError> {
        let mut engines = on_thread(name, Some(core), 1, opened(name, settings)?)?;
        Ok(engines.pop().expect("as many as workers"))
    }

    fn over(
        name: &str,
        settings: &CryptodevSettings,
        (device, transforms): Tried,
    ) -> Result<Self, EngineError> {
        let core = Box::new(make_core(name, device)?);
        let placement = settings.placement();
        let is_inline = placement == Placement::Inline;
        let execution = if is_inline {
            Execution::Here(Here::new(core))
        } else {
            Execution::AtDevice(AtDevice::new(core))
        };
        let description = EngineDescription {
            name: name.to_owned(),
            kind: EngineKind::of::<CryptodevSettings>(),
            device: Some(device.info().name.clone()),
            placement,
            transforms,
            depth: if is_inline { GATHERS } else { DEPTH },
            gathers: if is_inline { GATHERS } else { 1 },
            is_model: false,
            // A device may fail half way, even a software one: it may be DPDK's scheduler over
            // others.
            needs_input_kept: true,
            takes: if is_inline { Takes::MultiPackets } else { Takes::Trains },
            slack_ns: 0,
        };
        Ok(Self { description, execution })
    }

    fn core(&self) -> &CryptodevState {
        match &self.execution {
            Execution::Here(here) => &here.core,
            Execution::AtDevice(at_device) => &at_device.core,
        }
    }

    fn core_mut(&mut self) -> &mut CryptodevState {
        match &mut self.execution {
            Execution::Here(here) => &mut here.core,
            Execution::AtDevice(at_device) => &mut at_device.core,
        }
    }
}

fn opened(name: &str, settings: &CryptodevSettings) -> Result<Tried, EngineError> {
    open_device(settings).map_err(|reason| EngineError::Device { engine: name.to_owned(), reason })
}

/// A device that works on the core that polls it.
struct Here {
    core: Box<CryptodevState>,
    gathered: Vec<Submission>,
    /// Packets of `gathered`.
    packets: usize,
    done: Vec<Completion>,
    /// Kept to avoid allocations.
    back: Vec<Submission>,
    outcomes: Vec<Outcome>,
}

impl Here {
    fn new(core: Box<CryptodevState>) -> Self {
        Self {
            core,
            gathered: Vec::new(),
            packets: 0,
            done: Vec::new(),
            back: Vec::new(),
            outcomes: Vec::new(),
        }
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
        if self.gathered.is_empty() && self.core.in_flight() == 0 {
            return;
        }
        let began = Instant::now();
        self.packets = 0;
        self.gathered.drain(..).for_each(|submission| self.core.submit(submission));
        self.core.finish(|Back { submission, outcome, .. }| {
            self.back.push(submission);
            self.outcomes.push(outcome);
        });
        let part = split_time(began.elapsed().as_nanos() as u64, &self.back);
        let back = self.back.drain(..).zip(self.outcomes.drain(..));
        self.done.extend(back.map(|(submission, outcome)| {
            let service_ns = Some(part(&submission));
            Completion { submission, outcome, service_ns }
        }));
    }
}

/// A device that works by itself.
struct AtDevice {
    core: Box<CryptodevState>,
    random: Random,
    last: Instant,
}

impl AtDevice {
    fn new(core: Box<CryptodevState>) -> Self {
        Self { core, random: Random::default(), last: Instant::now() }
    }

    fn submit(&mut self, mut submission: Submission) {
        let Submission { packets, templates, .. } = &mut submission;
        lay_out(templates, packets, &mut |iv| self.random.fill(iv));
        self.core.submit(submission);
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        let last = &mut self.last;
        self.core.poll(|Back { mut submission, outcome, began }| {
            let Submission { packets, templates, .. } = &mut submission;
            if outcome == Outcome::Done {
                open_up(templates, packets);
            }
            // Sequential: it started when the previous one was done.
            let now = Instant::now();
            let service_ns = Some(now.duration_since(began.max(*last)).as_nanos() as u64);
            *last = now;
            completions.push(Completion { submission, outcome, service_ns });
        });
    }
}

/// A worker's queue pair on a thread of its own.
struct ThreadedQueue {
    core: CryptodevState,
    transforms: Vec<Transform>,
}

impl Processor for ThreadedQueue {
    fn transforms(&self) -> Vec<Transform> {
        self.transforms.clone()
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        // If the device refuses an SA it has no keys here, and its packets fail.
        let _ = self.core.keys.install(sa, keys);
    }

    fn remove(&mut self, sa: SaIndex) {
        self.core.keys.remove(sa);
    }

    fn gathers(&self) -> usize {
        GATHERS
    }

    fn process(&mut self, submissions: &mut [Submission]) -> bool {
        for place in &mut *submissions {
            // The device has the packets until they are back, and one that hangs keeps them.
            let empty = Submission::new(place.ticket, place.sa, place.direction, Vec::new());
            self.core.submit(mem::replace(place, empty));
        }
        let (mut missing, mut is_failed) = (submissions.len(), false);
        self.core.finish(|Back { submission, outcome, .. }| {
            let place = submissions.iter_mut().find(|place| place.ticket == submission.ticket);
            // Results that arrive after the thread has given up on them are dropped.
            let Some(place) = place else { return };
            is_failed |= outcome == Outcome::Failed;
            missing -= 1;
            *place = submission;
        });
        missing == 0 && !is_failed
    }
}

impl EngineControl for Cryptodev {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.description.check_transform(keys.transform())?;
        self.core_mut().keys.install(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.core_mut().keys.remove(sa);
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        let (name, transform) = (self.description.name.clone(), self.description.transforms[0]);
        let core = self.core_mut();
        let failed = |reason: &str| Err(EngineError::Device { engine: name, reason: reason.to_owned() });
        if core.device().is_stopped() {
            return failed("its device was stopped");
        }
        if core.in_flight() > 0 {
            return failed("its device still holds packets from before its failure");
        }
        if trial::is_right(core, transform, &mut FramePool::new(4, 0)) {
            return Ok(());
        }
        failed("its device gives wrong results")
    }
}

impl EngineQueue for Cryptodev {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        if self.core().keys.get(submission.sa).is_none() {
            return Err(self.description.refuse_unkeyed(submission));
        }
        match &mut self.execution {
            Execution::Here(here) => here.gather(submission),
            Execution::AtDevice(at_device) => {
                if at_device.core.in_flight() > DEPTH || !at_device.core.has_room() {
                    let reason = EngineError::NoRoom(self.description.name.clone());
                    return Err(Box::new(Refused { submission, reason }));
                }
                at_device.submit(submission);
            }
        }
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        match &mut self.execution {
            Execution::Here(here) => {
                here.begin();
                completions.append(&mut here.done);
            }
            Execution::AtDevice(at_device) => at_device.poll(completions),
        }
    }

    fn in_flight(&self) -> usize {
        match &self.execution {
            Execution::Here(here) => here.gathered.len() + here.core.in_flight() + here.done.len(),
            Execution::AtDevice(at_device) => at_device.core.in_flight(),
        }
    }

    fn gathered(&self) -> usize {
        match &self.execution {
            Execution::Here(here) => here.gathered.len(),
            Execution::AtDevice(_) => 0,
        }
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        // DPDK's crypto devices are polled.
        self.description.placement == Placement::Inline
    }

    fn has_completions(&self) -> bool {
        match &self.execution {
            Execution::Here(here) => !here.done.is_empty(),
            Execution::AtDevice(_) => false,
        }
    }
}
