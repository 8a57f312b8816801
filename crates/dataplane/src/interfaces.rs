//! The inside interfaces of a gateway: the one that tunnels share, and those that tunnels have for
//! themselves.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use convoy_port::Port;

/// The links of all interfaces, shared by the workers: each serves some tunnels of an interface,
/// which has a link while one of them can send, and echoes by one are answered if there are any.
#[derive(Debug)]
pub struct InterfaceLinks {
    by_interface: Vec<Mutex<LinkState>>,
}

/// What decides the link of an interface.
#[derive(Debug)]
struct LinkState {
    /// Workers with a tunnel that can send.
    workers: u32,
    /// Whether its monitors, if it has some, know of an answer.
    is_answered: bool,
}

impl LinkState {
    fn is_up(&self) -> bool {
        self.workers > 0 && self.is_answered
    }
}

impl InterfaceLinks {
    /// No interface below `interfaces` has a link.
    pub fn new(interfaces: u16) -> Self {
        let down = || Mutex::new(LinkState { workers: 0, is_answered: true });
        Self { by_interface: (0..interfaces).map(|_| down()).collect() }
    }

    /// Notes that the tunnels of one worker can send from now on, or no longer. `set` is called if
    /// that changes the link; no other worker changes it meanwhile.
    pub fn change(&self, interface: u16, can_send: bool, set: impl FnOnce(bool)) {
        self.update(interface, set, |link| {
            link.workers = if can_send { link.workers + 1 } else { link.workers.saturating_sub(1) };
        });
    }

    /// Notes whether the monitors of an interface know of an answer, as `is_answered` says while
    /// no other worker changes it; without monitors they do. `set` is as that of
    /// [`change`](Self::change).
    pub fn answer(&self, interface: u16, is_answered: impl FnOnce() -> bool, set: impl FnOnce(bool)) {
        self.update(interface, set, |link| link.is_answered = is_answered());
    }

    fn update(&self, interface: u16, set: impl FnOnce(bool), change: impl FnOnce(&mut LinkState)) {
        let Some(link) = self.by_interface.get(usize::from(interface)) else { return };
        let mut link = link.lock().unwrap_or_else(PoisonError::into_inner);
        let was_up = link.is_up();
        change(&mut link);
        if was_up != link.is_up() {
            set(link.is_up());
        }
    }

    /// Whether an interface has a link.
    pub fn is_up(&self, interface: u16) -> bool {
        let link = self.by_interface.get(usize::from(interface));
        link.is_some_and(|link| link.lock().unwrap_or_else(PoisonError::into_inner).is_up())
    }
}

/// A worker's inside ports by interface.
#[derive(Debug, Default)]
pub(crate) struct InsidePorts {
    /// The interface of each port.
    interfaces: Vec<u16>,
    /// The port of each interface.
    ports: Vec<Option<usize>>,
}

impl InsidePorts {
    /// These interfaces, by port.
    pub(crate) fn new(interfaces: Vec<u16>) -> Self {
        let mut ports = vec![None; interfaces.iter().max().map_or(0, |last| usize::from(*last) + 1)];
        // Of several ports of one interface the first sends.
        for (port, interface) in interfaces.iter().enumerate().rev() {
            ports[usize::from(*interface)] = Some(port);
        }
        Self { interfaces, ports }
    }

    /// The interface of a port.
    pub(crate) fn interface(&self, port: usize) -> u16 {
        self.interfaces.get(port).copied().unwrap_or(0)
    }

    /// The port by which packets of an interface leave.
    pub(crate) fn port(&self, interface: u16) -> Option<usize> {
        self.ports.get(usize::from(interface)).copied().flatten()
    }

    /// Whether there is no other interface than the one that tunnels share.
    pub(crate) fn is_shared_only(&self) -> bool {
        self.ports.len() <= 1
    }
}

/// Ports that are closed side by side where they are many: to remove an interface of the kernel's
/// takes some 25 ms, most of it waiting.
pub(crate) struct PortList(Vec<Box<dyn Port>>);

/// Ports that one thread closes.
const CLOSED_IN_TURN: usize = 16;
/// Threads that close ports, at most.
const CLOSERS: usize = 64;

impl PortList {
    /// These ports.
    pub(crate) fn new(ports: Vec<Box<dyn Port>>) -> Self {
        Self(ports)
    }
}

impl Deref for PortList {
    type Target = Vec<Box<dyn Port>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for PortList {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for PortList {
    fn drop(&mut self) {
        let ports = &mut self.0;
        let each = ports.len().div_ceil(CLOSERS).max(CLOSED_IN_TURN);
        if ports.len() <= each {
            return;
        }
        std::thread::scope(|scope| {
            while !ports.is_empty() {
                let part = ports.split_off(ports.len().saturating_sub(each));
                // Without a thread they are closed here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(part));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_up_while_one_worker_has_a_tunnel_that_can_send() {
        let links = InterfaceLinks::new(3);
        let mut reported = Vec::new();
        for can_send in [true, true, false, false, true] {
            links.change(2, can_send, |is_up| reported.push(is_up));
        }
        assert_eq!(reported, [true, false, true]);
        assert!(links.is_up(2) && !links.is_up(1) && !links.is_up(9));
    }

    #[test]
    fn a_link_is_down_while_its_monitors_have_no_answer() {
        let links = InterfaceLinks::new(2);
        let mut reported = Vec::new();
        links.answer(1, || false, |is_up| reported.push(is_up));
        links.change(1, true, |is_up| reported.push(is_up));
        assert!(!links.is_up(1) && reported.is_empty());
        for is_answered in [true, true, false] {
            links.answer(1, || is_answered, |is_up| reported.push(is_up));
        }
        links.change(1, false, |is_up| reported.push(is_up));
        assert_eq!(reported, [true, false]);
    }

    #[test]
    fn ports_are_found_by_interface() {
        let ports = InsidePorts::new(vec![0, 0, 1, 2]);
        assert_eq!([0, 1, 2, 3].map(|interface| ports.port(interface)), [Some(0), Some(2), Some(3), None]);
        assert_eq!((ports.interface(1), ports.interface(3)), (0, 2));
        assert!(!ports.is_shared_only() && InsidePorts::new(vec![0]).is_shared_only());
        assert_eq!(InsidePorts::new(vec![1]).port(0), None);
    }
}
