//! A worker behind a fence: what becomes of packets when it closes.

use convoy_ipsec::DropReason;

use super::Worker;
use crate::fence::Fence;

impl Worker {
    /// The same worker, which sends and delivers only while the fence is open.
    pub fn behind(self, fence: Fence) -> Self {
        Self { fence: Some(fence), ..self }
    }

    /// Whether nothing may leave now, by a fresh reading of the clock.
    pub(super) fn is_fenced(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.is_closed(self.pipeline.clock().now_ns()))
    }

    /// Drops everything that is about to leave.
    #[cold]
    pub(super) fn drop_departures(&mut self) {
        let (pool, departures, _) = self.pipeline.leaving_parts();
        let mut dropped = 0;
        let fresh = [
            &mut departures.to_outside,
            &mut departures.bypass_out,
            &mut departures.to_inside,
            &mut departures.bypass_in,
        ];
        for frames in fresh.into_iter().chain(self.leaving.iter_mut().flatten()) {
            dropped += frames.len() as u64;
            pool.give_back_burst(frames);
        }
        self.pipeline.ipsec_mut().tables.count_dropped(DropReason::NotLeading, dropped);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};
    use convoy_port::{Port, memory};

    use super::*;
    use crate::clock::VirtualTime;
    use crate::worker::tests::fixture::Fixture;

    #[test]
    fn nothing_leaves_from_the_deadline_on_and_all_of_it_is_counted() {
        let (time, fence) = (VirtualTime::new(), Fence::closed());
        let (inside, mut lan) = memory::link("inside", "lan", 8, 1_500);
        let (outside, mut internet) = memory::link("outside", "internet", 8, 1_500);
        let pipeline = Fixture::default().of_software(time.clock());
        let mut worker = Worker::new(pipeline, vec![Box::new(inside)], vec![Box::new(outside)]);
        worker = worker.behind(fence.clone());
        let mut packet = vec![0; 100];
        let ends = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 2, 0, 1));
        IpHeader::new(253, ends.0.into(), ends.1.into()).write(&mut packet);
        let mut pool = FramePool::new(8, 0);
        let mut round = |worker: &mut Worker| {
            let mut frames: Vec<Frame> = vec![pool.take_filled(&packet, 0).expect("a frame")];
            lan.send(&mut pool, &mut frames).expect("it has room");
            worker.round(true).expect("no port fails");
            let mut sent = Vec::new();
            let left = internet.receive(&mut pool, 8, &mut sent).expect("it is there");
            pool.give_back_burst(&mut sent);
            left
        };
        let dropped = |worker: &Worker| worker.pipeline().ipsec().tables.drops().get(DropReason::NotLeading);
        assert_eq!((round(&mut worker), dropped(&worker)), (0, 1), "there was no lease yet");
        fence.open_until(1_000);
        time.advance_to(999);
        assert_eq!((round(&mut worker), dropped(&worker)), (1, 1));
        time.advance_to(1_000);
        assert_eq!((round(&mut worker), dropped(&worker)), (0, 2));
        fence.open_until(2_000);
        assert_eq!((round(&mut worker), dropped(&worker)), (1, 2));
        let pool = worker.pipeline_mut().pool_mut();
        assert_eq!(pool.available(FrameSize::Small), pool.total(FrameSize::Small), "no frame is lost");
    }
}
