//! What a worker does while it has nothing to do: it asks on for a moment, sleeps, gathers packets,
//! or gives up its core.

use std::time::Duration;

use super::{BEHIND_NS, Worker};

/// The longest sleep while nothing is under way, in ns; a stop is seen within it.
const IDLE_NS: u64 = 100_000_000;
/// How long it sleeps where a port cannot wake it.
const ASK_AGAIN: Duration = Duration::from_micros(50);
/// Rounds without any movement before the thread gives up its core while engines work.
pub(super) const SPINS: u32 = 64;
/// How much longer than asked a sleep may last of a worker that gathers packets or holds them back,
/// in ns.
const TIMER_SLACK_NS: u64 = 1_000;
/// How long it then gives up its core where an engine wakes nobody.
const NAP: Duration = Duration::from_micros(20);

impl Worker {
    /// Whether only input or time brings anything on, and no port is known to have anything: it may
    /// [wait](Self::idle) without another round.
    pub fn is_at_rest(&self) -> bool {
        self.watch.is_quiet() && (self.is_drained() || self.held_until_ns().is_some())
    }

    /// Waits until a port or an engine has something or time must be looked at. With packets under
    /// way at an engine that wakes nobody, it only gives up the core for a moment.
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
        if self.watch.is_mute() {
            // A port that cannot wake us must be asked again soon.
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

    /// Lets more packets come, so that a wake and its system calls serve several, where that pays;
    /// whether it did. Nothing waits for it that is under way.
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

    /// Has the system end this thread's short sleeps in time, if it is to
    /// [gather](Self::moderating) packets or to hold them back in its window: it lets them last 50
    /// us longer by default.
    pub fn prepare_thread(&self) {
        if (self.moderation.is_on() || self.pipeline.stage().holds_back())
            && let Err(error) = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS)
        {
            tracing::warn!(
                "packets wait for up to 50 us longer than moderation_us and max_wait_us say: {error}"
            );
        }
    }

    /// Asks for `budget_ns` whether there is anything to do, without giving up the core.
    fn ask_on(&mut self, began_ns: u64, budget_ns: u64) -> bool {
        let clock = self.pipeline.clock();
        while clock.now_ns() - began_ns < budget_ns {
            let (events, is_woken) = self.watch.ask(Duration::ZERO);
            let handoff = self.handoff.as_ref();
            if is_woken {
                // Else it would be found woken again and again.
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

    /// Until when all that is under way is held back in the window, in ns; `None` if anything else
    /// is, or a port may have something.
    fn held_until_ns(&self) -> Option<u64> {
        let is_alone = self.nothing_leaves() && self.watch.is_quiet();
        if is_alone { self.pipeline.held_until_ns() } else { None }
    }

    /// How long it may sleep with packets under way, in ns; `None` if nobody would wake it: an
    /// engine that cannot, or a port that has no room for what leaves.
    pub(super) fn may_sleep_ns(&self) -> Option<u64> {
        // With a full pipeline the ports are not read, and one that has something would not let it
        // sleep.
        let may_wait = self.handoff.is_some() && self.nothing_leaves() && self.pipeline.has_room();
        if may_wait { self.pipeline.stage().may_sleep_ns(self.pipeline.clock().now_ns()) } else { None }
    }

    fn nothing_leaves(&self) -> bool {
        self.leaving.iter().flatten().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests;
