//! Network namespaces for a single test. Needs root; without it the tests fail with a message.

use std::fs::File;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};

/// A network namespace whose loopback interface is up. It is removed when this value and everything
/// opened in it are dropped.
pub struct Namespace(File);

impl Namespace {
    /// Makes one.
    pub fn create() -> Self {
        let file = on_a_thread(|| {
            own_loopback();
            File::open("/proc/thread-self/ns/net").expect("the namespace has a file")
        });
        Self(file)
    }

    /// Runs `work` inside the namespace. What it opens stays there, wherever it is used.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        on_a_thread(|| {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
            work()
        })
    }

    /// The namespace's path, as an argument of `ip`.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Makes a veth pair to `other` and assigns addresses to its ends.
    pub fn link(&self, other: &Self, mtu: u32, ends: [(&str, &[&str]); 2]) {
        let [(here, own), (there, others)] = ends;
        let path = other.path();
        self.inside(|| {
            ip(&format!("link add {here} mtu {mtu} type veth peer name {there} mtu {mtu} netns {path}"));
            configure(here, own);
        });
        other.inside(|| configure(there, others));
        self.inside(|| own.iter().for_each(|address| wait_until_delivered(address)));
        other.inside(|| others.iter().for_each(|address| wait_until_delivered(address)));
        let macs = [self.inside(|| mac_of_carrier(here)), other.inside(|| mac_of_carrier(there))];
        // The neighbours are set in advance, so that no burst waits for their discovery and loses
        // packets.
        self.inside(|| know(here, others, &macs[1]));
        other.inside(|| know(there, own, &macs[0]));
    }
}

/// Moves the calling thread into a new namespace, whose loopback interface only carries this test's
/// packets.
pub fn own_loopback() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace: run the tests as root");
    ip("link set lo up");
    wait_until_delivered("::1");
}

/// Buffers that the stack has given to a device in this thread's namespace; a super-packet counts
/// as one.
pub fn sent_buffers(device: &str) -> u64 {
    buffers(device, "TX:")
}

/// Buffers that a device in this thread's namespace has given to the stack; for a tun device, those
/// that were written to it.
pub fn received_buffers(device: &str) -> u64 {
    buffers(device, "RX:")
}

fn buffers(device: &str, way: &str) -> u64 {
    let counters = run(&format!("ip -s link show {device}"));
    let line = counters.lines().skip_while(|line| !line.trim().starts_with(way)).nth(1);
    let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    packets.unwrap_or_else(|| panic!("ip tells no counters of {device}: {counters}"))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn configure(device: &str, addresses: &[&str]) {
    for address in addresses {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        ip(&format!("address add {address} dev {device}{nodad}"));
    }
    ip(&format!("link set {device} up"));
}

/// Waits until the kernel delivers packets to this local address. The address can be bound earlier,
/// but the local route of an IPv6 address is added by a work queue, and packets that come before
/// that are dropped.
pub fn wait_until_delivered(address: &str) {
    let address = address.split('/').next().unwrap_or(address);
    let Ok(address) = address.parse::<Ipv6Addr>() else { return };
    let destination = format!("{:032x} 80 ", u128::from(address));
    for _ in 0..500 {
        let routes =
            std::fs::read_to_string("/proc/thread-self/net/ipv6_route").expect("the kernel has IPv6");
        if routes.lines().any(|route| route.starts_with(&destination)) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{address} has no local route after 5 s");
}

/// Waits until the device has a carrier, and returns its MAC address.
fn mac_of_carrier(device: &str) -> String {
    for _ in 0..500 {
        let reported = run(&format!("ip -o link show {device}"));
        if reported.contains("state UP") {
            let mac = reported.split("link/ether ").nth(1).and_then(|rest| rest.split_whitespace().next());
            return mac.unwrap_or_else(|| panic!("a cable's end has a MAC address: {reported}")).to_owned();
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{device} has no carrier after 5 s");
}

fn know(device: &str, addresses: &[&str], mac: &str) {
    for address in addresses {
        let address = address.split('/').next().unwrap_or(address);
        ip(&format!("neigh replace {address} lladdr {mac} dev {device} nud permanent"));
    }
}

/// Runs `ip` with these arguments in this thread's namespace.
pub fn ip(arguments: &str) {
    run(&format!("ip {arguments}"));
}

/// Runs a command in this thread's namespace and returns its output.
pub fn run(command: &str) -> String {
    let mut words = command.split_whitespace();
    let program = words.next().expect("a command");
    let output = Command::new(program)
        .args(words)
        .output()
        .unwrap_or_else(|error| panic!("{command}: {error}; install {program}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
