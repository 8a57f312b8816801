//! A thread that hangs is detected by its worker.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use convoy_ipsec::{CryptoStatus, Direction};
use convoy_packet::FramePool;

use super::*;
use crate::{
    CALIBRATION_SA, EngineKind, Rig, Software, SoftwareSettings, Submission, sample_packet, transforms,
};

/// More SAs than the ring has places.
const SAS: u32 = 1_000;

/// An engine that blocks until it is released, and then processes packets for which it has a key.
struct Hanging {
    released: Option<Receiver<()>>,
    keyed: Vec<SaIndex>,
}

impl Processor for Hanging {
    fn transforms(&self) -> Vec<Transform> {
        transforms()
    }

    fn install(&mut self, sa: SaIndex, _: &KeyMaterial) {
        if let Some(released) = self.released.take() {
            released.recv().expect("the test releases it");
        }
        self.keyed.push(sa);
    }

    fn remove(&mut self, sa: SaIndex) {
        self.keyed.retain(|keyed| *keyed != sa);
    }

    fn process(&mut self, submissions: &mut [Submission]) -> bool {
        for packet in submissions.iter_mut().flat_map(|submission| &mut submission.packets) {
            if self.keyed == [packet.sa] {
                packet.status = CryptoStatus::Done;
            }
        }
        true
    }
}

/// An end of an engine that hangs at the first installation of a key, until it is released.
fn hanging() -> (CryptoThread, std::sync::mpsc::Sender<()>) {
    let (release, released) = channel();
    let mut released = Some(released);
    let make = move |_: &str| Ok(Hanging { released: released.take(), keyed: Vec::new() });
    let describe = CryptoThread::describe("hanging", EngineKind::of::<SoftwareSettings>());
    let mut engines = CryptoThread::start("hanging", None, 1, make, describe).expect("a thread can be had");
    (engines.pop().expect("as many as workers"), release)
}

fn keys() -> KeyMaterial {
    let transform = transforms()[0];
    KeyMaterial::new(transform, vec![1; transform.key_material_len()]).expect("its length")
}

#[test]
fn an_engine_that_hangs_fails_its_probe_until_it_has_returned_its_packets() {
    let (mut engine, release) = hanging();
    engine.install_key(CALIBRATION_SA, &keys()).expect("the thread lives");
    assert_eq!(engine.probe(), Ok(()), "it has no packets");
    let mut pool = FramePool::new(8, 0);
    let packets = vec![sample_packet(&mut pool, transforms()[0], 64)];
    engine.submit(Submission::new(1, CALIBRATION_SA, Direction::Seal, packets)).expect("there is room");
    assert!(engine.probe().is_err());
    release.send(()).expect("the thread waits");
    let began = Instant::now();
    while !engine.has_completions() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come back");
    }
    assert_eq!(engine.probe(), Ok(()));
}

#[test]
fn a_worker_waits_for_no_thread_that_hangs_and_its_keys_and_packets_keep_their_order() {
    let (mut engine, release) = hanging();
    let (transform, keys) = (transforms()[0], keys());
    // The thread hangs at the first installation.
    for sa in (0..SAS).map(SaIndex) {
        engine.install_key(sa, &keys).expect("the thread lives");
        engine.remove_key(sa);
    }
    engine.install_key(CALIBRATION_SA, &keys).expect("the thread lives");
    let mut pool = FramePool::new(8, 0);
    let packets = vec![sample_packet(&mut pool, transform, 64)];
    let refused = engine.submit(Submission::new(1, CALIBRATION_SA, Direction::Seal, packets));
    let refused = refused.expect_err("it would overtake keys");
    assert!(matches!(refused.reason, EngineError::NoRoom(_)));
    release.send(()).expect("the thread waits");
    let (mut again, mut done) = (Some(refused.submission), Vec::new());
    let began = Instant::now();
    while done.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come back");
        if let Some(submission) = again.take() {
            again = engine.submit(submission).err().map(|refused| refused.submission);
        }
        engine.poll(&mut done);
    }
    assert_eq!(done[0].submission.packets[0].status, CryptoStatus::Done, "all keys but one are removed");
}

#[test]
fn a_thread_that_sleeps_at_once_is_woken_for_each_submission() {
    let mut engine = Software::on_core("sleeper", None).expect("a thread can be had");
    engine.sleep_at_once();
    let mut rig = Rig::new(&mut engine, transforms()[0], 1, 64);
    for _ in 0..3 {
        // Long enough for the thread to fall asleep.
        std::thread::sleep(Duration::from_millis(5));
        assert!(rig.run().is_some());
        assert_eq!(rig.packets()[0].status, CryptoStatus::Done);
    }
}
