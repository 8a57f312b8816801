//! The engine with injected faults fails and recovers as planned.

use convoy_engine::{
    Completion, EngineControl, EngineError, EngineQueue, FaultPlan, Faulty, InjectedFault, Outcome, Software,
    Submission,
};
use convoy_ipsec::{Aead, CryptoStatus, Direction, KeyBits, Transform};
use convoy_packet::{FramePool, FrameSize};

use crate::case::{Case, SA};

const FRAMES: usize = 256;

struct Rig {
    pool: FramePool,
    engine: Faulty,
    case: Case,
    next_ticket: u64,
}

impl Rig {
    fn new(plan: FaultPlan) -> Self {
        let transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
        let case = Case {
            key: vec![7; transform.key_material_len()],
            nonce: vec![7; 12],
            aad: vec![1; 8],
            plain: vec![2; 64],
            ..Case::new("GCM", transform)
        };
        let mut engine = Faulty::new(Box::new(Software::new("software")), plan);
        engine.install_key(SA, &case.keys()).expect("AES-GCM");
        Self { pool: FramePool::new(FRAMES, 0), engine, case, next_ticket: 0 }
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let packets = vec![self.case.to_seal(&mut self.pool), self.case.to_seal(&mut self.pool)];
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let submission = Submission::new(ticket, SA, Direction::Seal, packets);
        self.engine.submit(submission).map_err(|refused| {
            assert_eq!(refused.submission.packets.len(), 2);
            refused.reason
        })
    }

    fn poll(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.engine.poll(&mut completions);
        completions
    }

    fn tickets(&mut self) -> Vec<(u64, Outcome)> {
        self.poll().iter().map(|done| (done.submission.ticket, done.outcome)).collect()
    }
}

#[test]
fn an_error_garbles_frames_and_says_so_until_a_probe_finds_it_well() {
    let mut rig = Rig::new(FaultPlan { probes: Some(1), ..FaultPlan::once(InjectedFault::Error, 1) });
    assert!(rig.engine.description().needs_input_kept);
    rig.submit().expect("still well");
    assert_eq!(rig.tickets(), [(0, Outcome::Done)]);
    rig.submit().expect("taken");
    rig.submit().expect("taken");
    let failed = rig.poll();
    assert!(failed.iter().all(|done| done.outcome == Outcome::Failed));
    assert_eq!(failed.iter().map(|done| done.submission.packets.len()).sum::<usize>(), 4);
    let original = rig.case.to_seal(&mut rig.pool);
    assert!(
        failed.iter().flat_map(|done| &done.submission.packets).all(|p| p.frame[..] != original.frame[..])
    );
    assert!(rig.engine.probe().is_err());
    assert_eq!(rig.engine.probe(), Ok(()));
    rig.submit().expect("well again");
    assert_eq!(rig.tickets(), [(3, Outcome::Done)]);
}

#[test]
fn a_hung_engine_brings_late_what_it_had_done_and_loses_the_rest() {
    let mut rig = Rig::new(FaultPlan::once(InjectedFault::Hang, 1));
    rig.submit().expect("still well");
    rig.submit().expect("taken");
    for _ in 0..100 {
        assert_eq!(rig.tickets(), []);
    }
    assert_eq!(rig.engine.in_flight(), 2);
    assert_eq!(rig.engine.probe(), Ok(()));
    assert_eq!(rig.tickets(), [(0, Outcome::Done)]);
    assert_eq!(rig.engine.in_flight(), 0);
    assert_eq!(rig.pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn a_vanished_engine_answers_nothing_and_comes_back_without_keys() {
    let mut rig = Rig::new(FaultPlan::once(InjectedFault::Vanish, 1));
    rig.submit().expect("still well");
    let vanished = rig.submit().expect_err("gone");
    assert_eq!(vanished.to_string(), "engine software: it has disappeared");
    assert!(rig.engine.install_key(SA, &rig.case.keys()).is_err());
    assert_eq!((rig.tickets(), rig.engine.in_flight()), (vec![], 0));
    assert_eq!(rig.pool.available(FrameSize::Small), FRAMES);
    assert_eq!(rig.engine.probe(), Ok(()));
    assert!(matches!(rig.submit(), Err(EngineError::NoKey { .. })));
    rig.engine.install_key(SA, &rig.case.keys()).expect("well again");
    rig.submit().expect("well again");
    assert_eq!(rig.tickets(), [(3, Outcome::Done)]);
}

#[test]
fn a_slow_engine_brings_everything_in_the_end() {
    let mut rig = Rig::new(FaultPlan::once(InjectedFault::Slow { polls: 3 }, 0));
    rig.submit().expect("taken");
    assert_eq!(rig.tickets(), []);
    rig.submit().expect("taken");
    assert_eq!((rig.tickets(), rig.engine.in_flight()), (vec![], 2));
    assert_eq!(rig.tickets(), [(0, Outcome::Done), (1, Outcome::Done)]);
}

#[test]
fn an_engine_that_fails_for_good_never_answers_a_probe() {
    let mut rig = Rig::new(FaultPlan { probes: None, ..FaultPlan::once(InjectedFault::Vanish, 0) });
    assert!(rig.submit().is_err());
    assert!((0..100).all(|_| rig.engine.probe().is_err()));
}

/// What happened, with a number for each call.
fn story(seed: u64) -> Vec<u32> {
    let mut rig = Rig::new(FaultPlan::random(seed));
    let mut story = Vec::new();
    for _ in 0..400 {
        let taken = rig.submit();
        let done = rig.poll();
        let ok = done.iter().filter(|done| done.outcome == Outcome::Done);
        assert!(ok.flat_map(|done| &done.submission.packets).all(|p| p.status == CryptoStatus::Done));
        story.push(done.len() as u32 * 2 + u32::from(taken.is_ok()));
        if rig.engine.probe().is_ok() {
            rig.engine.install_key(SA, &rig.case.keys()).expect("works again");
        }
    }
    drop(rig.engine);
    assert_eq!(rig.pool.available(FrameSize::Small), FRAMES);
    story
}

#[test]
fn the_same_seed_tells_the_same_story() {
    assert_eq!(story(42), story(42));
    assert_ne!(story(42), story(43));
}
