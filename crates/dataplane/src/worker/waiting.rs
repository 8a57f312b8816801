//! What a worker does without work: it polls for a moment, sleeps, gathers packets, or yields its
//! core.

use std::time::Duration;

use super::{BEHIND_NS, Worker};

/// The longest sleep while nothing is in flight, in ns; a stop is noticed within it.
const IDLE_NS: u64 = 100_000_000;
/// How long the worker sleeps if a port cannot wake it.
const ASK_AGAIN: Duration = Duration::from_micros(50);
/// Idle rounds before the thread yields its core while engines work.
pub(super) const SPINS: u32 = 64;
/// How much longer than requested a worker that gathers or holds packets back may sleep, in ns.
const TIMER_SLACK_NS: u64 = 1_000;
/// How long it then yields its core if an engine cannot wake it.
const NAP: Duration = Duration::from_micros(20);

impl Worker {
    /// Whether only input or time can make progress, and no port is known to be ready: it may
    /// [wait](Self::idle) without another round.
    pub fn is_at_rest(&self) -> bool {
        self.watch.is_quiet() && (self.is_drained() || self.held_until_ns().is_some())
    }

    /// Waits until a port or an engine is ready or timed work is due. With packets in flight at an
    /// engine that cannot wake it, the worker only yields its core for a moment.
    pub fn idle(&mut self) {
        let longest_ns = if self.is_drained() {
            if self.is_behind { BEHIND_NS } else { IDLE_NS }
        } else if let Some(until_ns) = self.held_until_ns() {
            until_ns.saturating_sub(self.pipeline.clock().now_ns()).min(IDLE_NS)
        } else if self.idle_rounds <= SPINS {
            return std::hint::spin_loop();
        } else {
            match self.may_sleep_ns() {
                Some(ns) => ns.min(IDLE_NS),
                None => return std::thread::sleep(NAP),
            }
        };
        let due_ns = self.pipeline.payloads_due_ns().min(self.owner_due_ns);
        let longest_ns = if due_ns == u64::MAX {
            longest_ns
        } else {
            longest_ns.min(due_ns.saturating_sub(self.pipeline.clock().now_ns()))
        };
        if longest_ns == 0 {
            return std::hint::spin_loop();
        }
        if self.watch.is_mute() {
            // A port that cannot wake the worker must soon be polled again.
            if self.idle_rounds > SPINS {
                std::thread::sleep(ASK_AGAIN);
            }
            return;
        }
        if self.gather() {
            return;
        }
        if !self.busy_poll.is_on() && !self.moderation.is_on() {
            return self.sleep(longest_ns);
        }
        let began_ns = self.pipeline.clock().now_ns();
        let polled_ns = self.busy_poll.budget_ns().min(longest_ns);
        if !self.ask_on(began_ns, polled_ns) {
            self.sleep(longest_ns - polled_ns);
        }
        let waited_ns = self.pipeline.clock().now_ns() - began_ns;
        self.busy_poll.note(waited_ns);
        self.moderation.note_wait(waited_ns);
    }

    /// Lets packets accumulate, so that a wake-up and its system calls serve several, if that pays;
    /// returns whether it did. Nothing in flight waits for it.
    fn gather(&mut self) -> bool {
        if !self.moderation.is_on() || !self.is_drained() {
            return false;
        }
        let arrived = std::mem::take(&mut self.arrived);
        let now_ns = self.pipeline.clock().now_ns();
        let time_ns = self.moderation.next_ns(now_ns, arrived);
        if time_ns > 0 {
            self.watch.pause(Duration::from_nanos(time_ns));
        }
        time_ns > 0
    }

    /// Sets the timer slack of this thread if it [gathers](Self::moderating) packets or holds them
    /// back in its window: by default the system lets short sleeps last 50 us longer.
    pub fn prepare_thread(&self) {
        if (self.moderation.is_on() || self.pipeline.stage().holds_back())
            && let Err(error) = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS)
        {
            tracing::warn!(
                "cannot set the timer slack, so packets may wait 50 us longer than moderation_us and max_wait_us say: {error}"
            );
        }
    }

    /// Polls for up to `budget_ns` for something to do, without yielding the core.
    fn ask_on(&mut self, began_ns: u64, budget_ns: u64) -> bool {
        let clock = self.pipeline.clock();
        while clock.now_ns() - began_ns < budget_ns {
            let (events, is_woken) = self.watch.ask(Duration::ZERO);
            let handoff = self.handoff.as_ref();
            if is_woken {
                // Otherwise it would be found woken again and again.
                handoff.into_iter().for_each(|handoff| handoff.end_sleep(true));
            }
            let is_handed = handoff.is_some_and(|handoff| !handoff.is_empty());
            if events > 0 || is_handed || self.pipeline.stage().engines().has_completions() {
                return true;
            }
        }
        false
    }

    fn sleep(&mut self, longest_ns: u64) {
        let has_news = || self.pipeline.stage().engines().has_completions();
        if self.handoff.as_ref().is_some_and(|handoff| !handoff.begin_sleep(has_news)) {
            return;
        }
        let (events, is_woken) = self.watch.ask(Duration::from_nanos(longest_ns));
        self.handoff.iter().for_each(|handoff| handoff.end_sleep(is_woken));
        if events == 0 && self.is_drained() {
            self.watch.ask_all();
        }
    }

    /// The deadline until which everything in flight is held back in the window, in ns; `None` if
    /// anything else is in flight, or a port may have input.
    fn held_until_ns(&self) -> Option<u64> {
        let is_alone = self.nothing_leaves() && self.watch.is_quiet();
        if is_alone { self.pipeline.held_until_ns() } else { None }
    }

    /// How long the worker may sleep with packets in flight, in ns; `None` if nothing would wake
    /// it: an engine that cannot, or a port without room for departing packets.
    pub(super) fn may_sleep_ns(&self) -> Option<u64> {
        // With a full pipeline the ports are not read, and a ready one would prevent any sleep.
        let may_wait = self.handoff.is_some() && self.nothing_leaves() && self.pipeline.has_room();
        if may_wait { self.pipeline.stage().may_sleep_ns(self.pipeline.clock().now_ns()) } else { None }
    }

    fn nothing_leaves(&self) -> bool {
        self.leaving.iter().flatten().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests;
