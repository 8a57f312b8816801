//! Properties of DPDK's devices, in addition to those of every engine.

use convoy_dpdk::Eal;
use convoy_engine::{
    Completion, Cryptodev, CryptodevSettings, EngineControl, EngineError, EngineQueue, FaultPlan, Faulty,
    InjectedFault, Outcome, Submission,
};
use convoy_ipsec::{Aead, CryptoStatus, Direction, KeyBits, SaIndex, Transform};
use convoy_packet::{FramePool, FrameSize};

use crate::case::{Case, SA};

const FRAMES: usize = 512;

fn gcm() -> Case {
    let transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
    Case {
        key: vec![7; transform.key_material_len()],
        nonce: vec![7; 12],
        aad: vec![1; 8],
        plain: vec![2; 64],
        ..Case::new("GCM", transform)
    }
}

fn engine(settings: &CryptodevSettings) -> Cryptodev {
    let mut engine = Cryptodev::new("dpdk", settings).expect("a software device is on every machine");
    engine.install_key(SA, &gcm().keys()).expect("AES-GCM");
    engine
}

fn submit(engine: &mut impl EngineQueue, pool: &mut FramePool, ticket: u64, packets: usize) {
    let packets = (0..packets).map(|_| gcm().to_seal(pool)).collect();
    let submission = Submission::new(ticket, SA, Direction::Seal, packets);
    engine.submit(submission).unwrap_or_else(|refused| panic!("{}", refused.reason));
}

fn poll(engine: &mut impl EngineQueue, times: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    (0..times).for_each(|_| engine.poll(&mut completions));
    completions
}

#[test]
fn a_device_that_does_nothing_for_ipsec_is_no_engine_and_says_why() {
    let error =
        Cryptodev::new("null", &CryptodevSettings::of("crypto_null_refused")).err().expect("NULL alone");
    let words = error.to_string();
    assert!(words.contains("crypto_null_refused supports no algorithm of ESP or AH"), "{words}");
    assert!(words.contains("it has no AES-GCM"), "{words}");
}

#[test]
fn a_device_that_is_not_there_says_so() {
    let error = Cryptodev::new("qat", &CryptodevSettings::of("0000:ff:1f.7")).err().expect("no such device");
    assert!(error.to_string().contains("DPDK has no device \"0000:ff:1f.7\""), "{error}");
}

#[test]
fn what_a_queue_pair_does_not_take_at_once_is_done_all_the_same() {
    let settings = CryptodevSettings { descriptors: 64, ..CryptodevSettings::of("crypto_aesni_mb_small") };
    let (mut engine, mut pool) = (engine(&settings), FramePool::new(FRAMES, 0));
    submit(&mut engine, &mut pool, 1, 300);
    let completions = poll(&mut engine, 1);
    assert_eq!(completions.len(), 1);
    let packets = &completions[0].submission.packets;
    assert_eq!(packets.len(), 300);
    assert!(packets.iter().all(|packet| packet.status == CryptoStatus::Done));
    assert!(packets.iter().all(|packet| packet.frame[..] == packets[0].frame[..]));
}

#[test]
fn an_sa_too_many_is_refused_and_the_others_go_on() {
    let settings = CryptodevSettings { sas: 1, ..CryptodevSettings::of("crypto_aesni_mb_few") };
    let (mut engine, mut pool) = (engine(&settings), FramePool::new(FRAMES, 0));
    let error = engine.install_key(SaIndex(9), &gcm().keys()).expect_err("one SA");
    assert!(error.to_string().contains("cannot create a session for AES-GCM-128"), "{error}");
    submit(&mut engine, &mut pool, 1, 3);
    assert_eq!(poll(&mut engine, 1)[0].outcome, Outcome::Done);
    engine.remove_key(SA);
    engine.install_key(SaIndex(9), &gcm().keys()).expect("the first has gone");
}

#[test]
fn a_device_that_is_lost_brings_nothing_and_fails_its_probe() {
    let name = "crypto_aesni_mb_lost";
    let (mut engine, mut pool) = (engine(&CryptodevSettings::of(name)), FramePool::new(FRAMES, 0));
    Eal::running().expect("it was started").device(name, 512, 16).expect("it is open").stop();
    submit(&mut engine, &mut pool, 1, 4);
    assert!(poll(&mut engine, 5).is_empty());
    assert_eq!(engine.in_flight(), 1);
    let error = engine.probe().expect_err("it has stopped");
    assert_eq!(error.to_string(), "engine dpdk: its device was stopped");
    drop(engine);
    // Nothing was at the device, so nothing is lost with it.
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn a_device_that_is_lost_to_a_thread_fails_what_the_thread_has() {
    let (name, mut pool) = ("crypto_aesni_mb_lost_to_thread", FramePool::new(FRAMES, 0));
    let mut engine =
        Cryptodev::on_core("dpdk", &CryptodevSettings::of(name), 0).expect("a thread can be had");
    engine.install_key(SA, &gcm().keys()).expect("AES-GCM");
    Eal::running().expect("it was started").device(name, 512, 16).expect("it is open").stop();
    submit(&mut engine, &mut pool, 1, 4);
    let mut completions = Vec::new();
    while engine.in_flight() > 0 {
        engine.poll(&mut completions);
        std::thread::yield_now();
    }
    assert_eq!(completions.len(), 1);
    assert_eq!((completions[0].outcome, completions[0].submission.ticket), (Outcome::Failed, 1));
}

#[test]
fn faults_before_a_device_lose_no_frame_and_end_with_a_probe() {
    for fault in
        [InjectedFault::Error, InjectedFault::Hang, InjectedFault::Vanish, InjectedFault::Slow { polls: 3 }]
    {
        let mut pool = FramePool::new(FRAMES, 0);
        let device = engine(&CryptodevSettings::of("crypto_aesni_mb_faulty"));
        let mut faulty = Faulty::new(Box::new(device), FaultPlan::once(fault, 1));
        faulty.install_key(SA, &gcm().keys()).expect("AES-GCM");
        submit(&mut faulty, &mut pool, 1, 4);
        assert_eq!(poll(&mut faulty, 1).len(), 1, "{fault:?}");
        let packets = (0..4).map(|_| gcm().to_seal(&mut pool)).collect();
        let taken = faulty.submit(Submission::new(2, SA, Direction::Seal, packets));
        assert_eq!(taken.is_err(), fault == InjectedFault::Vanish);
        drop(taken);
        let good = |completion: &Completion| completion.outcome == Outcome::Done;
        let came = poll(&mut faulty, 10);
        assert_eq!(came.iter().any(good), matches!(fault, InjectedFault::Slow { .. }), "{fault:?}");
        assert_eq!(faulty.probe(), Ok(()), "{fault:?}");
        faulty.install_key(SA, &gcm().keys()).expect("well again");
        submit(&mut faulty, &mut pool, 3, 4);
        let again = poll(&mut faulty, 10);
        assert!(again.iter().any(|completion| completion.submission.ticket == 3 && good(completion)));
        drop((came, again, faulty));
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "{fault:?}");
    }
}

#[test]
fn an_algorithm_that_a_device_lacks_is_refused_by_it() {
    let mut engine = engine(&CryptodevSettings::of("crypto_aesni_gcm_refuses"));
    let chained = "aes128-sha1".parse::<convoy_ipsec::Proposal>().expect("a proposal").transform;
    assert!(!engine.description().transforms.contains(&chained));
    let key = vec![1; chained.key_material_len()];
    let keys = convoy_ipsec::KeyMaterial::new(chained, key).expect("the right length");
    assert!(matches!(engine.install_key(SA, &keys), Err(EngineError::Unsupported { .. })));
}
