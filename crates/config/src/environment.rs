//! The machine that a configuration is checked against.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};

use convoy_kernel::guard::forward_chains_without;
use convoy_settings::{HostEnvironment, Interface};
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::SockaddrStorage;
use nix::unistd::{Pid, User};

/// This machine, on which a gateway is to start.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl HostEnvironment for ThisMachine {
    fn interfaces(&self) -> Option<Vec<Interface>> {
        let mut interfaces = convoy_kernel::interfaces().ok()?;
        for (name, network) in networks() {
            if let Some(interface) = interfaces.iter_mut().find(|interface| interface.name == name) {
                interface.networks.push(network);
            }
        }
        Some(interfaces)
    }

    /// Tried rather than looked up in a list: addresses of local routes can also be bound.
    fn has_address(&self, address: IpAddr) -> Option<bool> {
        match UdpSocket::bind((address, 0)) {
            Ok(_) => Some(true),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Some(false),
            Err(_) => None,
        }
    }

    /// Asked of a socket, which sends nothing.
    fn source_to(&self, remote: IpAddr) -> Option<IpAddr> {
        let any = if remote.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((remote, 9)).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    }

    /// Tried as well, in a thread of its own: the machine and its cgroup decide which cores a
    /// thread may use.
    fn cores(&self) -> Option<Vec<usize>> {
        let can_have = |core: &usize| {
            let mut set = CpuSet::new();
            set.set(*core).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_ok()
        };
        let try_all = move || (0..CpuSet::count()).filter(can_have).collect::<Vec<_>>();
        std::thread::spawn(try_all).join().ok().filter(|cores| !cores.is_empty())
    }

    fn disables_v6(&self, interface: &str) -> Option<String> {
        let own = Path::new("/proc/sys/net/ipv6/conf").join(interface).is_dir();
        let setting = format!("net/ipv6/conf/{}/disable_ipv6", if own { interface } else { "default" });
        let value = std::fs::read_to_string(Path::new("/proc/sys").join(&setting)).ok()?;
        // In sysctl's form, a dot of the interface's name is written as a slash.
        let words = |part: &str| part.replace('.', "/");
        let name: Vec<String> = setting.split('/').map(words).collect();
        (value.trim() == "1").then(|| name.join("."))
    }

    fn has_user(&self, name: &str) -> Option<bool> {
        User::from_name(name).ok().map(|found| found.is_some())
    }

    fn forwarding(&self) -> Vec<&'static str> {
        let settings = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
        settings.into_iter().filter(|setting| is_on(setting)).collect()
    }

    /// Of IPv4, the interface's own setting decides.
    fn forwards_from(&self, interface: &str, is_v6: bool) -> Option<bool> {
        let path = if is_v6 {
            PathBuf::from("/proc/sys/net/ipv6/conf/all/forwarding")
        } else {
            Path::new("/proc/sys/net/ipv4/conf").join(interface).join("forwarding")
        };
        std::fs::read_to_string(path).ok().map(|value| value.trim() != "0")
    }

    fn interface_behind(&self, address: IpAddr) -> Option<String> {
        convoy_kernel::route::interface_behind(address).ok().flatten()
    }

    /// Without CAP_NET_ADMIN or nftables, none is known.
    fn chains_without(&self, interface: &str) -> Vec<String> {
        let chains = forward_chains_without(interface).unwrap_or_default();
        chains.iter().map(|chain| chain.remedy(interface)).collect()
    }

    fn sends_redirects(&self) -> bool {
        is_on("net.ipv4.conf.all.send_redirects")
    }
}

/// Whether a setting of the kernel can be read and is not 0.
fn is_on(setting: &str) -> bool {
    let path = format!("/proc/sys/{}", setting.replace('.', "/"));
    std::fs::read_to_string(path).is_ok_and(|value| value.trim() != "0")
}

/// The networks of the interfaces, with the interface's name.
fn networks() -> Vec<(String, IpNet)> {
    let Ok(all) = getifaddrs() else { return Vec::new() };
    let network = |address: Option<SockaddrStorage>, mask: Option<SockaddrStorage>| {
        IpNet::with_netmask(ip_of(&address?)?, ip_of(&mask?)?).ok()
    };
    let named = |found: nix::ifaddrs::InterfaceAddress| {
        network(found.address, found.netmask).map(|network| (found.interface_name, network))
    };
    all.filter_map(named).collect()
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4().or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
