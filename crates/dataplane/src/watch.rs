//! What a worker sleeps on: the descriptors of its ports and what wakes it, in one epoll.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use convoy_port::Port;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::side::Side;

/// Events that one look takes.
const EVENTS: usize = 16;
/// What stands for the worker's own event file among the ports.
const WAKER: u64 = u64::MAX;

/// Stands for the system in tests with a clock of their own: it lets time pass, and says which
/// ports have something.
#[cfg(test)]
pub(crate) type StandIn = Box<dyn FnMut(Wait) -> Vec<(Side, usize)> + Send>;

/// What a worker waits for.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Input, for so long at most.
    ForInput(Duration),
    /// For that time to pass.
    Pause(Duration),
}

/// A worker's ports, and which of them may have something to read.
pub(crate) struct Watch {
    epoll: Option<OwnedFd>,
    /// By side and port.
    is_ready: [Vec<bool>; 2],
    /// By side and port: whether it must be asked again and again.
    is_mute: [Vec<bool>; 2],
    /// Whether the system was asked since the last round.
    has_looked: bool,
    #[cfg(test)]
    pub(crate) sleeps: u64,
    #[cfg(test)]
    pub(crate) system: Option<StandIn>,
}

impl Watch {
    /// Watches the ports of both sides. All are asked first.
    pub(crate) fn new(inside: &[Box<dyn Port>], outside: &[Box<dyn Port>]) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .inspect_err(|error| {
                tracing::warn!("a worker cannot sleep and asks its ports all the time: {error}")
            })
            .ok();
        let watch = |side: Side, ports: &[Box<dyn Port>]| -> Vec<bool> {
            let numbered = (0..).zip(ports);
            numbered
                .map(|(at, port)| add(epoll.as_ref(), number(side, at), port.as_ref()).is_none())
                .collect()
        };
        let is_mute = [watch(Side::Inside, inside), watch(Side::Outside, outside)];
        Self {
            is_ready: is_mute.each_ref().map(|ports| vec![true; ports.len()]),
            is_mute,
            epoll,
            has_looked: true,
            #[cfg(test)]
            sleeps: 0,
            #[cfg(test)]
            system: None,
        }
    }

    /// Watches what wakes the worker, too.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn add_waker(&self, waker: impl AsFd) -> Result<(), Errno> {
        let epoll = self.epoll.as_ref().ok_or(Errno::BADF)?;
        epoll::add(epoll, waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)
    }

    /// Whether the port may have something.
    pub(crate) fn is_ready(&self, side: Side, port: usize) -> bool {
        self.is_ready[side as usize][port]
    }

    /// Notes whether a port that was asked may have more at once.
    pub(crate) fn set_ready(&mut self, side: Side, port: usize, may_have_more: bool) {
        let is_mute = self.is_mute[side as usize][port];
        self.is_ready[side as usize][port] = may_have_more || is_mute;
    }

    /// Whether some port can wake nobody.
    pub(crate) fn is_mute(&self) -> bool {
        self.is_mute.iter().flatten().any(|is_mute| *is_mute)
    }

    /// Whether no port has anything as far as is known.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_ready.iter().flatten().any(|is_ready| *is_ready)
    }

    /// Learns which ports have something, if some are not known to and nobody has looked since the
    /// last call.
    pub(crate) fn look(&mut self) {
        let all_known = self.is_ready.iter().flatten().all(|is_ready| *is_ready);
        if !std::mem::take(&mut self.has_looked) && !all_known {
            self.ask(Duration::ZERO);
            self.has_looked = false;
        }
    }

    /// Has all ports asked in the next round, whether they are known to have something or not: some
    /// have timers of their own.
    pub(crate) fn ask_all(&mut self) {
        self.is_ready.iter_mut().flatten().for_each(|is_ready| *is_ready = true);
    }

    /// Lets `time` pass, whatever comes meanwhile.
    pub(crate) fn pause(&mut self, time: Duration) {
        #[cfg(test)]
        if let Some(system) = &mut self.system {
            system(Wait::Pause(time));
            return;
        }
        std::thread::sleep(time);
    }

    /// Waits until a port has something or somebody wakes the worker, for `longest` at most.
    /// Returns how many of them there are, and whether somebody wants the worker.
    pub(crate) fn ask(&mut self, longest: Duration) -> (usize, bool) {
        self.has_looked = true;
        #[cfg(test)]
        {
            self.sleeps += u64::from(!longest.is_zero());
            if let Some(system) = &mut self.system {
                let ready = system(Wait::ForInput(longest));
                ready.iter().for_each(|(side, port)| self.is_ready[*side as usize][*port] = true);
                return (ready.len(), false);
            }
        }
        let Some(epoll) = &self.epoll else { return (0, false) };
        let no_event = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [no_event; EVENTS];
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: longest.subsec_nanos().into() };
        // An interrupted or failed call only means another round.
        let count = epoll::wait(epoll, &mut events, Some(&longest)).unwrap_or(0);
        let mut is_woken = false;
        for event in &events[..count] {
            match event.data.u64() {
                WAKER => is_woken = true,
                number => {
                    let place = self.is_ready[(number & 1) as usize].get_mut((number >> 1) as usize);
                    place.into_iter().for_each(|is_ready| *is_ready = true);
                }
            }
        }
        (count, is_woken)
    }
}

/// What stands for a port among the events.
fn number(side: Side, port: u64) -> u64 {
    port << 1 | side as u64
}

/// Watches a port's descriptors; `None` if it has none, or the system refuses.
fn add(epoll: Option<&OwnedFd>, number: u64, port: &dyn Port) -> Option<()> {
    let (epoll, descriptors) = (epoll?, port.readable_fds()?);
    let data = epoll::EventData::new_u64(number);
    let added = descriptors.iter().try_for_each(|fd| epoll::add(epoll, fd, data, epoll::EventFlags::IN));
    added
        .inspect_err(|error| {
            tracing::warn!("port {} is asked all the time: {error}", port.description().name)
        })
        .ok()
}
