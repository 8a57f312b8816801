//! Any packet from outside is opened, dropped or passed on, and no frame is lost.
#![no_main]

mod gateway;

use convoy_ipsec::{CryptoStatus, InboundBurst};
use convoy_packet::{FramePool, FrameSize};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut ipsec = gateway::gateway();
    let mut pool = FramePool::new(8, 4);
    let mut burst = InboundBurst::default();
    let mut inner = Vec::new();
    // Two packets, so that fragments of a datagram are possible.
    for part in bytes.chunks(bytes.len() / 2 + 1) {
        let Some(frame) = pool.take_filled(part, 64) else { continue };
        ipsec.inbound.classify(&mut ipsec.tables, 1, &mut pool, &mut vec![frame], &mut burst);
        // All ICVs count as right, so that the inner bytes are processed.
        ipsec.tables.lay_out(1, &mut burst.open, &mut |_| {});
        let pending = burst.open.iter_mut().filter(|packet| packet.status == CryptoStatus::Pending);
        pending.for_each(|packet| packet.status = CryptoStatus::Done);
        ipsec.inbound.finish(&mut ipsec.tables, 2, &mut pool, &mut burst.open, &mut inner);
    }
    pool.give_back_burst(&mut inner);
    for frames in [&mut burst.bypass, &mut burst.ike, &mut burst.to_outside] {
        pool.give_back_burst(frames);
    }
    drop((burst, ipsec));
    assert_eq!((pool.available(FrameSize::Small), pool.available(FrameSize::Jumbo)), (8, 4));
});
