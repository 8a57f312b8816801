//! DPDK's software devices: known answers, forged packets, full queues, devices that stop.
//!
//! A process can start EAL once, so all tests share it; each test has its own devices.

use data_encoding::HEXLOWER_PERMISSIVE;
use std::sync::Arc;

use convoy_dpdk::{
    DIGEST_BYTES, Device, DeviceCipher, DeviceHash, DeviceJob, DeviceQueue, DeviceSuite, Eal, FrameBatch,
    Icv, JobResult, Session, SessionKeys, default_arguments,
};
use convoy_packet::{Frame, FramePool, FrameSize};

const GCM: DeviceSuite = DeviceSuite {
    cipher: DeviceCipher::Gcm,
    key_len: 16,
    hash: DeviceHash::None,
    hash_key_len: 0,
    icv_len: 16,
};
const NOTHING: DeviceSuite = DeviceSuite {
    cipher: DeviceCipher::Null,
    key_len: 0,
    hash: DeviceHash::None,
    hash_key_len: 0,
    icv_len: 0,
};
const DEPTH: u32 = 512;

fn eal() -> &'static Eal {
    Eal::start(&default_arguments([])).expect("DPDK starts without huge pages, PCI and privileges")
}

fn device(name: &str) -> &'static Device {
    eal().device(name, DEPTH, 512).expect("a software device is on every machine")
}

struct Frames(Vec<Frame>);

// SAFETY: the frames are not touched until they are back, and their bytes are in the packet memory.
#[allow(unsafe_code)]
unsafe impl FrameBatch for Frames {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn frame(&mut self, at: usize) -> &mut Frame {
        &mut self.0[at]
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).expect("the test's hex is well-formed")
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array[..bytes.len()].copy_from_slice(bytes);
    array
}

/// A test vector: `plain` encrypts to `cipher` with the ICV `icv`.
struct Answer {
    suite: DeviceSuite,
    key: Vec<u8>,
    hash_key: Vec<u8>,
    nonce: Vec<u8>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    icv: Vec<u8>,
}

/// GCM test case 2 of NIST, case 1 of RFC 3602, HMAC-SHA-1 case 1 of RFC 2202 (truncated to 96
/// bits) and HMAC-SHA-256 case 2 of RFC 4231 (to 128 bits).
fn answers() -> Vec<Answer> {
    let none = Vec::new;
    let cbc = DeviceSuite { cipher: DeviceCipher::Cbc, icv_len: 0, ..GCM };
    let sha1 = DeviceSuite { hash: DeviceHash::Sha1, hash_key_len: 20, icv_len: 12, ..NOTHING };
    let sha256 = DeviceSuite { hash: DeviceHash::Sha256, hash_key_len: 4, icv_len: 16, ..NOTHING };
    let hmac = |suite, hash_key, plain: &[u8], icv| Answer {
        suite,
        key: none(),
        hash_key,
        nonce: none(),
        plain: plain.to_vec(),
        cipher: plain.to_vec(),
        icv: bytes(icv),
    };
    vec![
        Answer {
            suite: GCM,
            key: vec![0; 16],
            hash_key: none(),
            nonce: vec![0; 12],
            plain: vec![0; 16],
            cipher: bytes("0388dace60b6a392f328c2b971b2fe78"),
            icv: bytes("ab6e47d42cec13bdf53a67b21257bddf"),
        },
        Answer {
            suite: cbc,
            key: bytes("06a9214036b8a15b512e03d534120006"),
            hash_key: none(),
            nonce: bytes("3dafba429d9eb430b422da802c9fac41"),
            plain: b"Single block msg".to_vec(),
            cipher: bytes("e353779c1079aeb82708942dbe77181a"),
            icv: none(),
        },
        hmac(sha1, vec![0x0b; 20], b"Hi There", "b617318655057264e28bc0b6"),
        hmac(sha256, b"Jefe".to_vec(), b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"),
    ]
}

impl Answer {
    fn session(&self, device: &'static Device, seal: bool) -> Arc<Session> {
        let keys =
            SessionKeys { suite: self.suite, aad_len: 0, seal, key: &self.key, hash_key: &self.hash_key };
        Arc::new(device.session(&keys).expect("the device said that it can"))
    }

    fn job(&self) -> DeviceJob {
        let all = (0, self.plain.len());
        let cipher = if self.suite.cipher == DeviceCipher::Null { (0, 0) } else { all };
        DeviceJob {
            cipher,
            auth: all,
            icv: Icv::At(self.plain.len()),
            nonce: array(&self.nonce),
            aad: [0; 12],
        }
    }
}

/// Polls until all batches are back.
fn wait(queue: &mut DeviceQueue<Frames>) -> Vec<(Vec<Frame>, Vec<JobResult>)> {
    let mut back = Vec::new();
    while queue.in_flight() > 0 {
        queue.poll(|batch, ended, _| back.push((batch.0, ended.to_vec())));
    }
    back
}

fn answers_are_right(name: &str) -> usize {
    let device = device(name);
    let mut queue = device.queue().expect("one is free");
    let mut pool = FramePool::new(16, 0);
    let mut held = 0;
    for answer in answers() {
        if device.info().check(&answer.suite, &[0]).is_err() {
            continue;
        }
        let filled = |pool: &mut FramePool, bytes: &[u8]| pool.take_filled(bytes, 0).expect("a frame");
        let (seal, open) = (answer.session(device, true), answer.session(device, false));
        let room = [&answer.plain[..], &vec![0xa5; answer.icv.len()]].concat();
        let sealed = [&answer.cipher[..], &answer.icv].concat();
        let batch = Frames((0..3).map(|_| filled(&mut pool, &room)).collect());
        queue.submit(batch, |_, _| Some((answer.job(), &seal)));
        for (frames, ended) in wait(&mut queue) {
            assert_eq!(ended, [JobResult::Done; 3], "{name}: {}", answer.suite);
            assert!(frames.iter().all(|frame| frame[..] == sealed[..]), "{name}: {}", answer.suite);
        }
        let mut frames: Vec<Frame> = (0..3).map(|_| filled(&mut pool, &sealed)).collect();
        let is_forged = !answer.icv.is_empty();
        if is_forged {
            frames[1][answer.plain.len()] ^= 0x80;
        }
        queue.submit(Frames(frames), |_, _| Some((answer.job(), &open)));
        for (frames, ended) in wait(&mut queue) {
            let middle = if is_forged { JobResult::Mismatch } else { JobResult::Done };
            assert_eq!(ended, [JobResult::Done, middle, JobResult::Done], "{name}: {}", answer.suite);
            assert!(frames[0][..answer.plain.len()] == answer.plain[..], "{name}: {}", answer.suite);
        }
        held += 1;
    }
    held
}

#[test]
fn each_software_device_gives_the_published_answers_and_finds_what_is_forged() {
    assert_eq!(answers_are_right("crypto_aesni_mb0"), 4);
    assert_eq!(answers_are_right("crypto_openssl0"), 4);
    assert_eq!(answers_are_right("crypto_aesni_gcm0"), 1);
    for mode in ["round-robin", "packet-size-distr", "fail-over"] {
        // A device can belong to one scheduler only.
        let workers = ["aesni_mb", "openssl"].map(|driver| format!("crypto_{driver}_{mode}"));
        workers.iter().for_each(|worker| eal().probe(worker).expect("a vdev can be made"));
        let [first, second] = workers;
        let scheduler = format!("crypto_scheduler_{mode},worker={first},worker={second},mode={mode}");
        assert_eq!(answers_are_right(&scheduler), 4, "{mode}");
    }
}

#[test]
fn a_scheduler_that_keeps_order_is_refused() {
    eal().probe("crypto_openssl_ordered").expect("a vdev can be made");
    let name = "crypto_scheduler_ordered,worker=crypto_openssl_ordered,mode=round-robin,ordering=enable";
    let error = eal().device(name, DEPTH, 512).expect_err("it returns operations too early").to_string();
    let reported =
        "DPDK's device crypto_scheduler_ordered does not start: with ordering=enable it returns operations";
    assert!(error.starts_with(reported), "{error}");
}

#[test]
fn what_a_full_queue_does_not_take_waits_and_is_done() {
    const FRAMES: usize = 3000;
    let device = device("crypto_null_full");
    let keys = SessionKeys { suite: NOTHING, aad_len: 0, seal: true, key: &[], hash_key: &[] };
    let session = Arc::new(device.session(&keys).expect("NULL is all that it does"));
    let mut queue = device.queue().expect("one is free");
    let mut pool = FramePool::new(FRAMES, 0);
    let mut frames = Vec::new();
    pool.take_burst(FrameSize::Small, FRAMES, &mut frames);
    frames.iter_mut().for_each(|frame| frame.fill(&[7; 64]).expect("fits"));
    let job = DeviceJob {
        cipher: (0, 64),
        auth: (0, 0),
        icv: Icv::Aside([0; DIGEST_BYTES]),
        nonce: [0; 16],
        aad: [0; 12],
    };
    queue.submit(Frames(frames), |_, _| Some((job, &session)));
    assert!(queue.at_device() <= DEPTH as usize, "{}", queue.at_device());
    let back = wait(&mut queue);
    assert_eq!(back.len(), 1);
    assert!(back[0].1.iter().all(|ended| *ended == JobResult::Done));
    assert_eq!(back[0].0.len(), FRAMES);
}

#[test]
fn a_job_outside_its_frame_is_left_as_it_is() {
    let device = device("crypto_aesni_mb_outside");
    let answer = &answers()[0];
    let session = answer.session(device, true);
    let mut queue = device.queue().expect("one is free");
    let mut pool = FramePool::new(2, 0);
    let frames = (0..2).map(|_| pool.take_filled(&[1; 32], 0).expect("a frame")).collect();
    let outside = |at: usize| DeviceJob { icv: Icv::At(17 + at), ..answer.job() };
    queue.submit(Frames(frames), |_, at| (at == 0).then(|| (outside(0), &session)));
    let back = wait(&mut queue);
    assert_eq!(back[0].1, [JobResult::Left, JobResult::Left]);
    assert!(back[0].0.iter().all(|frame| frame[..] == [1; 32]));
}

#[test]
fn a_device_that_stops_brings_nothing_and_keeps_its_frames() {
    let device = device("crypto_null_stopped");
    let keys = SessionKeys { suite: NOTHING, aad_len: 0, seal: true, key: &[], hash_key: &[] };
    let session = Arc::new(device.session(&keys).expect("NULL is all that it does"));
    let mut queue = device.queue().expect("one is free");
    let mut pool = FramePool::new(8, 0);
    let frames = (0..8).map(|_| pool.take_filled(&[1; 64], 0).expect("a frame")).collect();
    let job = DeviceJob {
        cipher: (0, 64),
        auth: (0, 0),
        icv: Icv::Aside([0; DIGEST_BYTES]),
        nonce: [0; 16],
        aad: [0; 12],
    };
    queue.submit(Frames(frames), |_, _| Some((job, &session)));
    device.stop();
    for _ in 0..100 {
        assert_eq!(queue.poll(|_, _, _| panic!("it has stopped")), 0);
    }
    assert_eq!((queue.in_flight(), queue.at_device()), (1, 8));
    drop(queue);
    assert_eq!(pool.available(FrameSize::Small), 0, "what a device may still write to has no owner");
}

#[test]
fn queue_pairs_have_one_owner_each_and_come_back() {
    let device = device("crypto_null_queues,max_nb_queue_pairs=2");
    let first: DeviceQueue<Frames> = device.queue().expect("two");
    let second: DeviceQueue<Frames> = device.queue().expect("two");
    let error = device.queue::<Frames>().err().expect("both are in use").to_string();
    assert_eq!(error, "all queue pairs of DPDK's device crypto_null_queues are in use: 2");
    drop(first);
    assert!(device.queue::<Frames>().is_ok());
    drop(second);
}

#[test]
fn what_is_not_there_is_said_in_dpdk_s_words() {
    let error = eal().device("crypto_no_such_driver0", DEPTH, 16).expect_err("no such driver").to_string();
    assert!(error.starts_with("DPDK has no device \"crypto_no_such_driver0\": "), "{error}");
    let error = Eal::start(&["--no-pci".to_owned()]).expect_err("it runs with others").to_string();
    assert!(error.contains("only after a restart"), "{error}");
}

#[test]
fn threads_of_dpdk_can_be_made_to_do_something() {
    let eal = eal();
    let (send, receive) = std::sync::mpsc::channel();
    let name = move || send.send(std::thread::current().id()).expect("the test waits");
    eal.in_its_thread(name).expect("an alarm can be set");
    assert_ne!(receive.try_recv().expect("it has run when the call returns"), std::thread::current().id());
}
