//! The registry's interface to a port.

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;
use std::ops::Range;

use convoy_kernel::Prefix;
use convoy_settings::{At, Checker, Table, Text};
use ipnet::IpNet;

use super::config::PortConfig;
use super::interface::{Port, PortError};
use super::reopening::Reopening;

/// Properties that all ports of a kind share.
#[derive(Clone, Copy, Debug)]
pub struct PortTraits {
    /// Its side unless `side` says otherwise.
    pub side: PortSide,
    /// Whether it carries ESP in UDP (RFC 3948) outside.
    pub carries_udp: bool,
    /// Whether it carries ESP and AH as IP protocols of their own outside.
    pub carries_native: bool,
    /// Whether it carries IKE for charon.
    pub carries_ike: bool,
    /// How many queues it can have.
    pub queues: QueueCount,
    /// Whether it receives ICMP about paths, through raw sockets of the kernel: of two ports with
    /// one address, only one may.
    pub hears_reports: bool,
    /// Whether its device is also an engine, under the port's name.
    pub is_engine: bool,
    /// Whether it is an interface of its own, to which the kernel routes packets. A gateway may
    /// have thousands of them.
    pub is_interface: bool,
    /// Whether its packets leave outside by the kernel's routes.
    pub uses_kernel_routes: bool,
    /// Whether the kernel also gets the packets of its interface, and forwards them by its own
    /// routes.
    pub is_beside_kernel: bool,
    /// Whether it receives IKE by a socket of the kernel's, which gives a datagram to one socket.
    pub has_ike_socket: bool,
    /// Why it must be the only outside port, if it must.
    pub why_alone: Option<&'static str>,
    /// Its system calls beside those of every gateway, once privileges are given up.
    pub system_calls: &'static [i64],
}

/// On which side of a gateway a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSide {
    /// Plaintext.
    Inside,
    /// Protected.
    Outside,
    /// By its name, `inside` or `outside`.
    AsNamed,
}

/// How many queues a port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCount {
    /// One for each worker.
    EachWorker,
    /// One, so that there is one worker.
    One,
}

/// A `[[port]]` of the file while the settings of its kind are checked.
pub struct CheckedPort<'a> {
    /// The table's position.
    pub at: &'a At,
    /// The position of its kind's word.
    pub kind: Range<usize>,
    /// Whether it has an address, valid or not.
    pub has_address: bool,
    /// Its addresses; one without a prefix gets the longest.
    pub addresses: &'a [(&'a Text, IpNet)],
}

impl CheckedPort<'_> {
    /// Reports an error about the port, at its kind.
    pub fn add(&self, c: &mut Checker<'_>, what: &str) {
        c.add(&self.kind, "port.kind", what);
    }

    /// Whether a key is absent from the file; `is_there` says whether it was parsed.
    pub fn lacks(&self, key: &str, is_there: bool) -> bool {
        self.at.lacks(key, is_there)
    }

    /// Whether there is no address at all.
    pub fn lacks_address(&self) -> bool {
        self.lacks("address", self.has_address)
    }

    /// Checks the addresses of a port over the kernel's sockets.
    pub fn check_socket_addresses(&self, c: &mut Checker<'_>) {
        for (text, address) in self.addresses.iter().filter(|(text, _)| text.get_ref().contains('/')) {
            let what = format!(
                "write {} alone: packets leave with this address, and the prefix is the interface's",
                address.addr()
            );
            c.add(&text.span(), "port.address", what);
        }
        for (text, address) in self.addresses {
            c.not_link_local(text, address.addr(), "port.address");
            c.address_is_there(text, address.addr(), "port.address");
        }
        if self.lacks_address() {
            let what = "this kind of port needs address = [\"192.0.2.1\"], the tunnels' local address";
            self.add(c, what);
        }
    }
}

/// The gateway's settings for a port.
#[derive(Clone, Debug)]
pub struct PortContext {
    /// Workers, each with a queue of its own if the port supports several.
    pub workers: usize,
    /// Whether each worker sends some of its packets from a UDP port of its own.
    pub has_own_ports: bool,
    /// The largest packet outside, in bytes.
    pub mtu: u16,
    /// The largest packet inside, in bytes.
    pub inner_mtu: u16,
    /// The UDP port of IKE, if charon needs it beside that of ESP in UDP and IKE to the port's
    /// addresses is this port's.
    pub ike_port: Option<u16>,
    /// The addresses at which it receives ICMP about paths.
    pub reports: Vec<IpAddr>,
    /// The networks behind the tunnels.
    pub networks: Vec<Prefix>,
    /// Whether it is the only outside port.
    pub is_only_outside: bool,
    /// The mark of what the kernel sends for this port (`SO_MARK`), for routing rules.
    pub mark: Option<u32>,
}

/// An open port.
pub struct Opened {
    /// Its queues.
    pub queues: Vec<Box<dyn Port>>,
    /// Its device, if that is also an engine.
    pub device: Option<PortDevice>,
    /// What the operator should know of it.
    pub note: Option<String>,
    /// How it goes on when its interface has vanished and is back, if it has one.
    pub reopening: Option<Reopening>,
}

impl Opened {
    /// A port with these queues, whose device is no engine.
    pub fn of<P: Port + 'static>(queues: Vec<P>) -> Self {
        let queues = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Port>).collect();
        Self { queues, device: None, note: None, reopening: None }
    }
}

/// A port's device that is also an engine; only the program that has the kind of port knows its
/// type, and makes the engine.
pub type PortDevice = Box<dyn Any + Send>;

/// The settings of one kind of port, through which the rest of convoy knows the kind.
pub trait Backend: Clone + PartialEq + Debug + Send + Sync + 'static {
    /// Its keys in `[[port]]`, beside those common to all ports.
    type Keys: Table;

    /// Its word in the configuration.
    const WORD: &'static str;

    /// The properties of its kind.
    const TRAITS: PortTraits;

    /// Checks the configuration.
    fn check(keys: &Self::Keys, entry: &CheckedPort<'_>, c: &mut Checker<'_>) -> Self;

    /// Opens the port's queues, while the gateway still has privileges.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused, and what to do.
    fn open(&self, port: &PortConfig, context: &PortContext) -> Result<Opened, PortError>;

    /// Takes over those of `new` that a running port does ([`Port::take_settings`]); the others
    /// need a restart.
    fn take_over(&mut self, _new: &Self) {}

    /// The kernel's interface that it creates or uses.
    fn interface(&self) -> Option<&str> {
        None
    }

    /// The device for which DPDK has to be started.
    fn dpdk_device(&self) -> Option<&str> {
        None
    }

    /// The kernel's interface into which the networks behind the tunnels are routed.
    fn routed_interface(&self) -> Option<&str> {
        None
    }

    /// Whether it carries packets that the kernel does not forward, so that the gateway counts
    /// their hops.
    fn forwards(&self) -> bool {
        false
    }

    /// Its MTU in bytes, if it has one of its own.
    fn mtu(&self) -> Option<u16> {
        None
    }

    /// What it takes of the process's packet memory for frames of its own, in chunks, with packets
    /// of up to `mtu` bytes.
    fn packet_chunks(&self, _mtu: u16) -> usize {
        0
    }

    /// Its UDP port of ESP in UDP, if it has one of its own.
    fn udp_port(&self) -> Option<u16> {
        None
    }
}
