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
pub(crate) struct PortPoll {
    epoll: Option<OwnedFd>,
    /// By side and port.
    is_ready: [Vec<bool>; 2],
    /// By side and port: whether it cannot wake the worker and must be polled.
    is_mute: [Vec<bool>; 2],
    /// By side and port: whether it has nothing beside what its descriptors tell, as an interface
    /// of the kernel's, of which there may be thousands.
    is_plain: [Vec<bool>; 2],
    /// By side and port: whether its descriptors are not watched, as its interface is missing: they
    /// would wake the worker all the time.
    is_suspended: [Vec<bool>; 2],
    /// Whether the system was asked since the last round.
    has_looked: bool,
    #[cfg(test)]
    pub(crate) sleeps: u64,
    #[cfg(test)]
    pub(crate) system: Option<StandIn>,
}

impl PortPoll {
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
            is_suspended: is_mute.each_ref().map(|ports| vec![false; ports.len()]),
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

    /// Watches the descriptors of a port as long as it has its interface.
    pub(crate) fn follow(&mut self, side: Side, at: usize, port: &dyn Port) {
        let (side_at, lacks_interface) = (side as usize, port.lacks_interface());
        if self.is_suspended[side_at][at] == lacks_interface {
            return;
        }
        self.is_suspended[side_at][at] = lacks_interface;
        if lacks_interface {
            for fd in port.readable_fds().unwrap_or_default() {
                // One that is not watched need not be removed.
                let _ = self.epoll.as_ref().map(|epoll| epoll::delete(epoll, fd));
            }
        } else {
            let number = number(side, at as u64);
            self.is_mute[side_at][at] = add(self.epoll.as_ref(), number, port).is_none();
        }
        self.is_ready[side_at][at] = !lacks_interface;
    }

    /// Whether some port cannot wake the worker.
    pub(crate) fn is_mute(&self) -> bool {
        self.is_mute.iter().flatten().any(|is_mute| *is_mute)
    }

    /// Whether no port is known to have input.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_ready.iter().flatten().any(|is_ready| *is_ready)
    }

    /// Finds out which ports have input, if some are not known to and no worker has looked since
    /// the last call.
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

#[cfg(test)]
mod tests {
    use convoy_packet::{Frame, FramePool};
    use convoy_port::{PortCounters, PortDescription, PortError, PortKind, TunSettings};
    use nix::sys::eventfd::EventFd;
    use std::os::fd::BorrowedFd;

    use super::*;

    /// A port whose descriptor is always readable, as that of a deleted interface.
    struct Deleted {
        description: PortDescription,
        descriptor: EventFd,
        lacks_interface: bool,
    }

    impl Port for Deleted {
        fn description(&self) -> &PortDescription {
            &self.description
        }

        fn receive(&mut self, _: &mut FramePool, _: usize, _: &mut Vec<Frame>) -> Result<usize, PortError> {
            Ok(0)
        }

        fn send(&mut self, _: &mut FramePool, _: &mut Vec<Frame>) -> Result<usize, PortError> {
            Ok(0)
        }

        fn lacks_interface(&self) -> bool {
            self.lacks_interface
        }

        fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
            Some(vec![self.descriptor.as_fd()])
        }

        fn counters(&self) -> PortCounters {
            PortCounters::default()
        }
    }

    #[test]
    fn port_wakes_its_worker_unless_its_interface_is_missing() {
        let kind = PortKind::of::<TunSettings>();
        let description = PortDescription { name: "inside".to_owned(), kind, mtu: 1_400 };
        let descriptor = EventFd::from_value(1).expect("an eventfd");
        let mut ports: Vec<Box<dyn Port>> =
            vec![Box::new(Deleted { description, descriptor, lacks_interface: true })];
        let mut watch = PortPoll::new(&ports, &[]);
        let woken = |watch: &mut PortPoll| watch.ask(Duration::ZERO).0;
        assert_eq!(woken(&mut watch), 1);
        watch.follow(Side::Inside, 0, ports[0].as_ref());
        assert_eq!((woken(&mut watch), watch.is_quiet()), (0, true));
        let description = ports[0].description().clone();
        let descriptor = EventFd::from_value(1).expect("an eventfd");
        ports[0] = Box::new(Deleted { description, descriptor, lacks_interface: false });
        watch.follow(Side::Inside, 0, ports[0].as_ref());
        assert_eq!((watch.is_ready(Side::Inside, 0), woken(&mut watch)), (true, 1));
    }
}
