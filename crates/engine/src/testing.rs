//! An engine for tests, of this crate and of others.

use std::time::Instant;

use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction, KeyMaterial, SaIndex};
use convoy_packet::Offload;

use crate::{
    Binding, Completion, EngineControl, EngineDescription, EngineError, EngineQueue, InPlace, Outcome,
    Placement, Refused, Software, Submission, Takes, lay_out, open_up,
};

type IsDone = dyn FnMut(u32) -> bool + Send;
type ServiceNs = dyn Fn(&Submission) -> u64 + Send;
type OnSubmit = dyn FnMut(&Submission) + Send;
type OnKeys = dyn FnMut(Option<&KeyMaterial>) + Send;
type TestProcess = dyn FnMut(&mut Software, &mut [CryptoPacket]) + Send;

/// `software` disguised as another engine: with another description, and with a test's hooks. It
/// processes its input when it is polled.
///
/// ```
/// use convoy_engine::testing::ScriptedEngine;
/// use convoy_engine::{EngineControl, Takes};
/// let engine = ScriptedEngine::elsewhere("card", 3, |polls| polls == 2)
///     .describe(|description| description.takes = Takes::MultiPackets);
/// assert_eq!(engine.description().depth, 3);
/// ```
pub struct ScriptedEngine {
    engine: Software,
    description: EngineDescription,
    /// Trains, each with the number of polls since its submission.
    given: Vec<(u32, Submission)>,
    /// SAs that are bound to it, if it is the device of a port.
    bound: Option<Vec<SaIndex>>,
    /// The ticket of the previous completion, if each is repeated.
    repeated: Option<u64>,
    recovers: bool,
    is_done: Box<IsDone>,
    service_ns: Option<Box<ServiceNs>>,
    on_submit: Box<OnSubmit>,
    on_keys: Box<OnKeys>,
    process: Box<TestProcess>,
}

impl ScriptedEngine {
    /// `software` under this name.
    pub fn new(name: &str) -> Self {
        let engine = Software::new(name);
        Self {
            description: engine.description().clone(),
            engine,
            given: Vec::new(),
            bound: None,
            repeated: None,
            recovers: true,
            is_done: Box::new(|_| true),
            service_ns: None,
            on_submit: Box::new(|_| ()),
            on_keys: Box::new(|_| ()),
            process: Box::new(|software, packets| software.process(packets)),
        }
    }

    /// One off the caller's core. A train completes at the poll for which `is_done` is true,
    /// given the number of polls since its submission, including this one.
    pub fn elsewhere(name: &str, depth: usize, is_done: impl FnMut(u32) -> bool + Send + 'static) -> Self {
        let like = Self { is_done: Box::new(is_done), ..Self::new(name) };
        like.takes_ns(|_| 1_000).describe(|description| {
            description.placement = Placement::Lookaside;
            description.needs_input_kept = true;
            description.depth = depth;
        })
    }

    /// The device of a port: SAs are bound to it, and it tags packets.
    pub fn device(name: &str) -> Self {
        let like = Self { bound: Some(Vec::new()), ..Self::new(name) };
        like.takes_ns(|_| 1_000).describe(|description| {
            description.transforms.clear();
            description.takes = Takes::MultiPackets;
        })
    }

    /// Changes its description.
    #[must_use]
    pub fn describe(mut self, change: impl FnOnce(&mut EngineDescription)) -> Self {
        change(&mut self.description);
        self
    }

    /// The service time it reports; by default the real one.
    #[must_use]
    pub fn takes_ns(self, service_ns: impl Fn(&Submission) -> u64 + Send + 'static) -> Self {
        Self { service_ns: Some(Box::new(service_ns)), ..self }
    }

    /// Called when a train is submitted.
    #[must_use]
    pub fn on_submit(self, on_submit: impl FnMut(&Submission) + Send + 'static) -> Self {
        Self { on_submit: Box::new(on_submit), ..self }
    }

    /// Called when keys are installed, or with `None` when they are removed.
    #[must_use]
    pub fn on_keys(self, on_keys: impl FnMut(Option<&KeyMaterial>) + Send + 'static) -> Self {
        Self { on_keys: Box::new(on_keys), ..self }
    }

    /// What it does to packets, with `software` at hand.
    #[must_use]
    pub fn processing(self, work: impl FnMut(&mut Software, &mut [CryptoPacket]) + Send + 'static) -> Self {
        Self { process: Box::new(work), ..self }
    }

    /// After each completion it fails once more, without packets, under the previous ticket.
    #[must_use]
    pub fn repeating_itself(self) -> Self {
        Self { repeated: Some(0), ..self }
    }

    /// Once it has failed, no probe succeeds.
    #[must_use]
    pub fn never_recovering(self) -> Self {
        Self { recovers: false, ..self }
    }

    fn work(&mut self, mut submission: Submission) -> Completion {
        let began = Instant::now();
        let Submission { packets, templates, .. } = &mut submission;
        if self.bound.is_some() {
            packets.iter_mut().for_each(tag);
        } else {
            lay_out(templates, packets, &mut |iv| iv.fill(0x77));
            (self.process)(&mut self.engine, packets);
            open_up(templates, packets);
        }
        let taken_ns = || began.elapsed().as_nanos() as u64;
        let service_ns = self.service_ns.as_ref().map_or_else(taken_ns, |says| says(&submission));
        Completion { submission, outcome: Outcome::Done, service_ns: Some(service_ns) }
    }
}

fn tag(packet: &mut CryptoPacket) {
    packet.frame.set_offload(Offload::Seal { sa: 0, esp_start: 0, seq_high: None });
    packet.status = CryptoStatus::Done;
}

/// A failure under a ticket, without its packets.
fn stale(ticket: u64) -> Completion {
    let submission = Submission::new(ticket, SaIndex(0), Direction::Seal, Vec::new());
    Completion { submission, outcome: Outcome::Failed, service_ns: None }
}

impl InPlace for ScriptedEngine {
    fn process(&mut self, packets: &mut [CryptoPacket]) {
        (self.process)(&mut self.engine, packets);
    }
}

impl EngineControl for ScriptedEngine {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.description.check_transform(keys.transform())?;
        (self.on_keys)(Some(keys));
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        (self.on_keys)(None);
        self.engine.remove_key(sa);
        self.bound.iter_mut().for_each(|bound| bound.retain(|other| *other != sa));
    }

    fn bind(&mut self, sa: SaIndex, _: Binding, _: &KeyMaterial) -> bool {
        self.bound.iter_mut().for_each(|bound| bound.push(sa));
        self.bound.is_some()
    }

    fn bound(&self, number: u32) -> Option<SaIndex> {
        self.bound.as_ref()?.get(number as usize).copied()
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        if self.recovers {
            return Ok(());
        }
        let reason = "it still fails".to_owned();
        Err(EngineError::Device { engine: self.description.name.clone(), reason })
    }
}

impl EngineQueue for ScriptedEngine {
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>> {
        let may_come = self.bound.as_ref().is_none_or(|bound| bound.contains(&submission.sa));
        assert!(may_come, "a device is given only what is bound to it");
        (self.on_submit)(&submission);
        self.given.push((0, submission));
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.given.iter_mut().for_each(|(polls, _)| *polls += 1);
        let due: Vec<_> = self.given.extract_if(.., |(polls, _)| (self.is_done)(*polls)).collect();
        for (_, submission) in due {
            let ticket = submission.ticket;
            completions.push(self.work(submission));
            if let Some(before) = &mut self.repeated {
                completions.push(stale(std::mem::replace(before, ticket)));
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.given.len()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        let EngineDescription { placement, takes, .. } = self.description;
        (placement == Placement::Inline && takes == Takes::Trains).then_some(self as &mut dyn InPlace)
    }

    fn gathered(&self) -> usize {
        if self.description.gathers > 1 { self.given.len() } else { 0 }
    }
}
