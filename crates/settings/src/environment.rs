//! The environment that a configuration is checked against, besides its own text.

use std::net::IpAddr;

use ipnet::IpNet;

/// A network interface of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's name.
    pub name: String,
    /// The largest IP packet that it sends whole, in bytes.
    pub mtu: u32,
    /// Whether it is a TUN interface, which a gateway can open.
    pub is_tun: bool,
    /// Its addresses with their prefixes.
    pub networks: Vec<IpNet>,
}

/// The machine that a configuration is for. `None` means unknown, so that nothing is checked
/// against it: the file is read for another machine, or by a gateway whose ports are open.
pub trait HostEnvironment {
    /// The network interfaces.
    fn interfaces(&self) -> Option<Vec<Interface>> {
        None
    }

    /// Whether a socket can be bound to this address now.
    fn has_address(&self, _address: IpAddr) -> Option<bool> {
        None
    }

    /// The address from which packets to another host leave.
    fn source_to(&self, _remote: IpAddr) -> Option<IpAddr> {
        None
    }

    /// The numbers of the cores to which a thread can be pinned.
    fn cores(&self) -> Option<Vec<usize>> {
        None
    }

    /// The kernel's setting that is 1 and turns IPv6 off at an interface, which need not exist yet.
    fn disables_v6(&self, _interface: &str) -> Option<String> {
        None
    }

    /// Whether there is a user of this name.
    fn has_user(&self, _name: &str) -> Option<bool> {
        None
    }

    /// The forwarding settings of the kernel that are 1.
    fn forwarding(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether the kernel forwards packets of one family that come in by this interface.
    fn forwards_from(&self, _interface: &str, _is_v6: bool) -> Option<bool> {
        None
    }

    /// The interface by which the kernel reaches an address behind a further router, by a route
    /// that is not the default.
    fn interface_behind(&self, _address: IpAddr) -> Option<String> {
        None
    }

    /// What drops packets that the kernel forwards from and to this interface, with what to do, in
    /// words.
    fn chains_without(&self, _interface: &str) -> Vec<String> {
        Vec::new()
    }

    /// Whether the kernel sends ICMP redirects by every interface, whatever the interface's own
    /// setting.
    fn sends_redirects(&self) -> bool {
        false
    }
}

/// No machine: nothing is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Nowhere;

impl HostEnvironment for Nowhere {}
