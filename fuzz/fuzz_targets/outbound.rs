//! Any packet from inside is prepared, answered or dropped, and no frame is lost.
#![no_main]

mod gateway;

use convoy_ipsec::{CryptoStatus, OutboundBurst};
use convoy_packet::{FramePool, FrameSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut ipsec = gateway::gateway();
    let mut pool = FramePool::new(8, 4);
    let mut burst = OutboundBurst::default();
    let mut outer = Vec::new();
    if let Some(frame) = pool.take_filled(bytes, 320) {
        let mut random = |bytes: &mut [u8]| bytes.fill(5);
        ipsec.outbound.classify(&mut ipsec.tables, 1, &mut random, &mut pool, &mut vec![frame], &mut burst);
        ipsec.tables.lay_out(1, &mut burst.protect, &mut random);
        let pending = burst.protect.iter_mut().filter(|packet| packet.status == CryptoStatus::Pending);
        pending.for_each(|packet| packet.status = CryptoStatus::Done);
        ipsec.outbound.finish(&mut ipsec.tables, &mut pool, &mut burst.protect, &mut outer);
    }
    pool.give_back_burst(&mut outer);
    for frames in [&mut burst.bypass, &mut burst.to_inside] {
        pool.give_back_burst(frames);
    }
    drop((burst, ipsec));
    assert_eq!((pool.available(FrameSize::Small), pool.available(FrameSize::Jumbo)), (8, 4));
});
