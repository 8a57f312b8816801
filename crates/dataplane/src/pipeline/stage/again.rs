//! Trains that failed engines left, and who processes them again.

use convoy_scheduler::TrainDispatch;

use super::{CryptoStage, Released};
use crate::pipeline::train::{Train, is_pending};

impl CryptoStage {
    /// The next train to be processed again, if an engine has room for it. Its finished packets
    /// leave; if no engine takes it whole, it is split.
    pub(super) fn next_again(
        &mut self,
        now_ns: u64,
        released: &mut Released,
    ) -> Option<(Train, TrainDispatch)> {
        while let Some(mut train) = self.again.pop_front() {
            self.forget_kept(train.place);
            train.lay_out(&mut self.ivs);
            let of_one_kind = train.run_len(is_pending);
            self.put_back_behind(&mut train, of_one_kind);
            if !train.packets.first().is_some_and(is_pending) {
                self.put_in_order(train, released);
                continue;
            }
            let sa = train.sa();
            let burst = self.burst_of(train.packets.iter());
            if let Some(given) = self.scheduler.give_again(now_ns, sa.map(|sa| sa.0), &burst) {
                return Some((train, given));
            }
            let is_only_by_sa = burst.parts.is_none_or(|parts| self.scheduler.has_only_others(&parts));
            if sa.is_none() && is_only_by_sa {
                let of_one_sa = train.run_len(|packet| packet.sa);
                self.put_back_behind(&mut train, of_one_sa);
                self.again.push_front(train);
                continue;
            }
            self.again.push_front(train);
            return None;
        }
        None
    }

    /// Keeps the first packets of a train, and queues the others behind it.
    fn put_back_behind(&mut self, train: &mut Train, packets: usize) {
        let rest = train.split_off(packets);
        if !rest.packets.is_empty() {
            self.again.push_front(rest);
        }
    }
}
