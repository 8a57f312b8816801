//! The thread of a [`Nic`], which sleeps while nothing is under way.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rtrb::{Consumer, Producer};

use super::Nic;
use super::halves::{Arrival, NicDeparture, Request, SharedNic, lock};

/// Cycles between two checks of queues and line if the card does not interrupt: enough for a packet
/// or two.
const STEP_CYCLES: u64 = 256;
/// The longest sleep, in ms, if the line cannot wake the thread or has no room, so that it has to
/// be polled.
const ASK_MS: u16 = 1;
/// The longest sleep, in ms, if all sources of work can wake the thread.
const SLEEP_MS: u16 = 1_000;
/// The pause after an error of the line, in ms, for example if an interface is down.
const LINE_ERROR_MS: u16 = 50;

/// State of the thread.
pub(super) struct NicWork {
    pub(super) nic: Nic,
    pub(super) departing: Consumer<NicDeparture>,
    /// A packet for which the card had no room.
    pub(super) next: Option<NicDeparture>,
    pub(super) arriving: Producer<Arrival>,
    pub(super) requested: Receiver<Request>,
    pub(super) removals: Vec<(u32, u64)>,
}

impl NicWork {
    pub(super) fn run(mut self, shared: &SharedNic) {
        let mut unread = 0;
        while !shared.is_stopping.load(Ordering::SeqCst) {
            self.take_requests(shared);
            self.transmit(shared);
            let (sent, line_errors) = (self.nic.counters().sent, self.nic.counters().line_errors);
            let mut has_arrived = false;
            let arriving = &mut self.arriving;
            let stepped = self.nic.step(STEP_CYCLES, &mut |opened, frame| {
                has_arrived |= arriving.push(Arrival { opened, frame }).map_err(|_| unread += 1).is_ok();
            });
            if has_arrived {
                // Fails only if the counter is at its limit, when the host has been woken anyway.
                let _ = shared.arrived.write(1);
            }
            if stepped.is_err() && self.nic.reset().is_err() {
                return;
            }
            self.publish(shared, unread);
            let has_failed = self.nic.counters().line_errors != line_errors;
            let is_stuck = self.nic.is_line_full() && self.nic.counters().sent == sent;
            if has_failed || is_stuck || (self.nic.is_idle() && self.next.is_none()) {
                self.sleep(shared, has_failed, is_stuck);
            }
        }
    }

    fn take_requests(&mut self, shared: &SharedNic) {
        while let Ok(request) = self.requested.try_recv() {
            match request {
                Request::Install { number, sa, inbound, reply } => {
                    // Removals that are due come first: they may free the place in the map that
                    // this SA needs.
                    self.remove_due(shared);
                    self.removals.retain(|(removed, _)| *removed != number);
                    // The requester may have given up.
                    let _ = reply.send(self.nic.install(number, *sa, inbound));
                }
                Request::Checks(checks) => self.nic.set_checks(*checks),
                Request::Remove { number, after } => self.removals.push((number, after)),
            }
        }
    }

    fn remove_due(&mut self, shared: &SharedNic) {
        let taken = shared.taken.load(Ordering::SeqCst);
        let nic = &mut self.nic;
        self.removals.retain(|(number, after)| {
            let is_due = *after <= taken;
            if is_due {
                nic.remove(*number);
            }
            !is_due
        });
    }

    fn transmit(&mut self, shared: &SharedNic) {
        while let Some(departure) = self.next.take().or_else(|| self.departing.pop().ok()) {
            let seal = departure.seal;
            if let Err(frame) = self.nic.transmit(departure.frame, seal) {
                self.next = Some(NicDeparture { frame, seal });
                break;
            }
            shared.taken.fetch_add(1, Ordering::SeqCst);
        }
        self.remove_due(shared);
    }

    fn publish(&self, shared: &SharedNic, unread: u64) {
        let mut counters = lock(&shared.counters);
        counters.clone_from(self.nic.counters());
        counters.overrun += unread;
    }

    fn sleep(&self, shared: &SharedNic, has_failed: bool, is_stuck: bool) {
        shared.is_sleeping.store(true, Ordering::SeqCst);
        let line = self.nic.line().readable_fd().filter(|_| !has_failed && !is_stuck);
        let timeout = match line {
            _ if has_failed => LINE_ERROR_MS,
            Some(_) => SLEEP_MS,
            None => ASK_MS,
        };
        // A packet that was queued before the flag was set has not woken this thread.
        if self.departing.is_empty() || has_failed || is_stuck {
            let mut fds = vec![PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN)];
            fds.extend(line.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            // If the poll is interrupted, the loop just runs once more.
            let _ = poll(&mut fds, PollTimeout::from(timeout));
        }
        shared.is_sleeping.store(false, Ordering::SeqCst);
        let _ = shared.wake.read();
    }
}
