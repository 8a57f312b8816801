//! Frames for copies of what engines may lose, where there are too few.

use convoy_ipsec::{CryptoStatus, DropReason, Prepared};
use convoy_packet::FramePool;
use convoy_scheduler::Dispatch;

use super::CryptoStage;

/// How long a multi-packet waits for a frame that no engine has, in ns. Ports have sent by then what they hold; what is left is held by packets that
/// wait behind this one.
const STARVED_NS: u64 = 10_000_000;

impl CryptoStage {
    /// Whether there are frames for the copies of a multi-packet that its engine needs. Where nothing is under way, whose end would free more of
    /// them, it is cut to those for which there are, and the rest is scheduled again. Where there is none for long, the first of its packets is given
    /// up, whose own frame is then free: the others would wait for ever.
    #[inline]
    pub(super) fn cut_to_frames(
        &mut self,
        now_ns: u64,
        dispatch: &mut Dispatch<Prepared>,
        pool: &FramePool,
    ) -> bool {
        let fits = self.engines.can_submit(dispatch.engine, pool, &dispatch.items);
        if fits == dispatch.items.len() {
            self.starved_since_ns = None;
            return true;
        }
        self.cut_to(fits, now_ns, dispatch)
    }

    #[cold]
    fn cut_to(&mut self, fits: usize, now_ns: u64, dispatch: &mut Dispatch<Prepared>) -> bool {
        if self.engines.in_flight() > 0 {
            self.starved_since_ns = None;
            return false;
        }
        if fits == 0 {
            self.give_up_first(now_ns, dispatch);
            return false;
        }
        for packet in dispatch.items.drain(fits..).rev() {
            self.retry.packets.push_front(packet);
        }
        true
    }

    fn give_up_first(&mut self, now_ns: u64, dispatch: &mut Dispatch<Prepared>) {
        let since_ns = *self.starved_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) >= STARVED_NS {
            let mut first = dispatch.items.remove(0);
            first.status = CryptoStatus::Refused(DropReason::NoFrame);
            self.done.push(first);
        }
    }
}
