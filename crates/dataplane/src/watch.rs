//! What a worker sleeps on: one epoll with the descriptors of its ports and of its waker.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use convoy_port::Port;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::side::Side;

/// Events read by one call.
const EVENTS: usize = 16;
/// The number of the worker's own eventfd among those of the ports.
const WAKER: u64 = u64::MAX;

/// Replaces the system in tests with a clock of their own: it lets time pass and says which ports
/// are ready.
#[cfg(test)]
pub(crate) type StandIn = Box<dyn FnMut(Wait) -> Vec<(Side, usize)> + Send>;

/// What a worker waits for.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For input, at most for this time.
    ForInput(Duration),
    /// For this time to pass.
    Pause(Duration),
}

/// A worker's ports, and which of them may have input.
pub(crate) struct Watch {
    epoll: Option<OwnedFd>,
    /// By side and port.
    is_ready: [Vec<bool>; 2],
    /// By side and port: whether it cannot wake the worker and must be polled.
    is_mute: [Vec<bool>; 2],
    /// By side and port: whether it has nothing beside what its descriptors tell, as an interface
    /// of the kernel's, of which there may be thousands.
    is_plain: [Vec<bool>; 2],
    /// Whether the system was asked since the last round.
    has_looked: bool,
    #[cfg(test)]
    pub(crate) sleeps: u64,
    #[cfg(test)]
    pub(crate) system: Option<StandIn>,
}

impl Watch {
    /// Watches the ports of both sides. Initially all count as ready.
    pub(crate) fn new(inside: &[Box<dyn Port>], outside: &[Box<dyn Port>]) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .inspect_err(|error| tracing::warn!("epoll failed, so the worker polls its ports: {error}"))
            .ok();
        let watch = |side: Side, ports: &[Box<dyn Port>]| -> Vec<bool> {
            let numbered = (0..).zip(ports);
            numbered
                .map(|(at, port)| add(epoll.as_ref(), number(side, at), port.as_ref()).is_none())
                .collect()
        };
        let is_mute = [watch(Side::Inside, inside), watch(Side::Outside, outside)];
        let plain = |ports: &[Box<dyn Port>]| -> Vec<bool> {
            ports.iter().map(|port| port.description().kind.traits().is_interface).collect()
        };
        Self {
            is_plain: [plain(inside), plain(outside)],
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

    /// Watches the worker's waker, too.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_waker(&self, waker: impl AsFd) -> Result<(), Errno> {
        let epoll = self.epoll.as_ref().ok_or(Errno::BADF)?;
        epoll::add(epoll, waker, epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)
    }

    /// Whether the port may have input.
    pub(crate) fn is_ready(&self, side: Side, port: usize) -> bool {
        self.is_ready[side as usize][port]
    }

    /// Records whether a port that was read may have more at once.
    pub(crate) fn set_ready(&mut self, side: Side, port: usize, may_have_more: bool) {
        let is_mute = self.is_mute[side as usize][port];
        self.is_ready[side as usize][port] = may_have_more || is_mute;
    }

    /// Whether some port cannot wake the worker.
    pub(crate) fn is_mute(&self) -> bool {
        self.is_mute.iter().flatten().any(|is_mute| *is_mute)
    }

    /// Whether no port is known to have input.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_ready.iter().flatten().any(|is_ready| *is_ready)
    }

    /// Finds out which ports have input, if some are not known to and nobody has looked since the
    /// last call.
    pub(crate) fn look(&mut self) {
        let all_known = self.is_ready.iter().flatten().all(|is_ready| *is_ready);
        if !std::mem::take(&mut self.has_looked) && !all_known {
            self.ask(Duration::ZERO);
            self.has_looked = false;
        }
    }

    /// Makes the next round read all ports that may have timers of their own, ready or not.
    pub(crate) fn ask_all(&mut self) {
        let ports = self.is_ready.iter_mut().flatten().zip(self.is_plain.iter().flatten());
        ports.for_each(|(is_ready, is_plain)| *is_ready |= !is_plain);
    }

    /// Lets `time` pass, whatever arrives meanwhile.
    pub(crate) fn pause(&mut self, time: Duration) {
        #[cfg(test)]
        if let Some(system) = &mut self.system {
            system(Wait::Pause(time));
            return;
        }
        std::thread::sleep(time);
    }

    /// Waits until a port has input or somebody wakes the worker, at most for `longest`. Returns
    /// the number of ports that have input, and whether the worker was woken.
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

/// The number of a port among the events.
fn number(side: Side, port: u64) -> u64 {
    port << 1 | side as u64
}

/// Watches a port's descriptors; `None` if it has none or the system refuses.
fn add(epoll: Option<&OwnedFd>, number: u64, port: &dyn Port) -> Option<()> {
    let (epoll, descriptors) = (epoll?, port.readable_fds()?);
    let data = epoll::EventData::new_u64(number);
    let added = descriptors.iter().try_for_each(|fd| epoll::add(epoll, fd, data, epoll::EventFlags::IN));
    added
        .inspect_err(|error| {
            tracing::warn!("port {}: epoll failed, so the worker polls it: {error}", port.description().name)
        })
        .ok()
}
