//! Time of one packet in each engine on its own, and in `crypto_null`, which does nothing: the
//! latter is the cost of DPDK's interface and of the bindings.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use convoy_dpdk::{DeviceCipher, DeviceHash, DeviceJob, DeviceSuite, Eal, FrameBatch, Icv, SessionKeys};
use convoy_engine::{Cryptodev, CryptodevSettings, Engine, Multibuffer, Rig};
use convoy_ipsec::Proposal;
use convoy_packet::{Frame, FramePool};

use super::grouping;
use super::report::{Alone, Grouped};

/// Packets per burst.
const BURSTS: [usize; 3] = [1, 4, 32];
const BYTES: usize = 64;
const ROUNDS: usize = 2_001;

struct Frames(Vec<Frame>);

// SAFETY: the frames are not accessed until they come back, and their bytes are in packet memory.
#[allow(unsafe_code)]
unsafe impl FrameBatch for Frames {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn frame(&mut self, at: usize) -> &mut Frame {
        &mut self.0[at]
    }
}

/// Median time per packet, in ns.
fn median(burst: usize, mut once: impl FnMut()) -> f64 {
    let mut times: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            once();
            began.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / burst as f64
}

fn null(burst: usize) -> f64 {
    let device = Eal::running().expect("it was started").device("crypto_null_alone", 512, 16);
    let device = device.expect("a software device can be made");
    let suite = DeviceSuite {
        cipher: DeviceCipher::Null,
        key_len: 0,
        hash: DeviceHash::None,
        hash_key_len: 0,
        icv_len: 0,
    };
    let keys = SessionKeys { suite, aad_len: 0, seal: true, key: &[], hash_key: &[] };
    let session = Arc::new(device.session(&keys).expect("NULL is what it does"));
    let mut queue = device.queue().expect("one is free");
    let mut pool = FramePool::new(burst, 0);
    let frames = (0..burst).map(|_| pool.take_filled(&[7; BYTES], 0).expect("a frame")).collect();
    let job = DeviceJob { cipher: (0, BYTES), auth: (0, 0), icv: Icv::At(0), nonce: [0; 16], aad: [0; 12] };
    let mut batch = Some(Frames(frames));
    median(burst, || {
        queue.submit(batch.take().expect("it came back"), |_, _| Some((job, &session)));
        while queue.in_flight() > 0 {
            queue.poll(|done, _, _| batch = Some(done));
        }
    })
}

/// Measures every engine with each algorithm that it supports: bursts of one SA, and packets of
/// several SAs with and without grouping.
pub(crate) fn measure() -> (Vec<Alone>, Vec<Grouped>) {
    let by_burst =
        |once: &mut dyn FnMut(usize) -> f64| BURSTS.into_iter().map(|burst| (burst, once(burst))).collect();
    let mut all = vec![Alone {
        engine: "crypto_null by the bindings".to_owned(),
        proposal: "none",
        ns_by_burst: by_burst(&mut null),
    }];
    let mut grouped = Vec::new();
    for proposal in super::PROPOSALS {
        let transform = proposal.parse::<Proposal>().expect("one of the bench's own").transform;
        let mut engines: Vec<Box<dyn Engine>> = Vec::new();
        engines.extend(
            Multibuffer::inline("multibuffer").ok().map(|engine| Box::new(engine) as Box<dyn Engine>),
        );
        for driver in ["aesni_mb", "aesni_gcm", "openssl"] {
            let settings = CryptodevSettings::of(&format!("crypto_{driver}_alone"));
            let name = format!("crypto_{driver}");
            engines.extend(
                Cryptodev::new(&name, &settings).ok().map(|engine| Box::new(engine) as Box<dyn Engine>),
            );
        }
        for engine in engines.iter_mut().filter(|engine| engine.description().transforms.contains(&transform))
        {
            let name = engine.description().name.clone();
            let ns_by_burst = by_burst(&mut |burst| {
                let mut rig = Rig::new(engine.as_mut(), transform, burst, BYTES);
                median(burst, || {
                    black_box(rig.run());
                })
            });
            all.push(Alone { engine: name, proposal, ns_by_burst });
            grouped.push(grouping::measure(engine.as_mut(), transform, proposal));
        }
    }
    (all, grouped)
}
