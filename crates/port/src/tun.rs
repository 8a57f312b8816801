//! A Linux TUN interface: the plaintext side as the kernel's IP stack sees it.
//!
//! The library tun-rs creates the device and sets its offloads. A super-packet of TCP or UDP, of at
//! most 64 KiB, is read in one call and cut into packets that fit the MTU. Outgoing packets are
//! written in as few calls, as super-packets gathered from the frames in place (`super_packet/`).
//! tun-rs can do both as well, through buffers of its own: one more copy each way.

mod settings;

use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use convoy_packet::{Frame, FramePool};
use nix::errno::Errno;
use nix::sys::uio::writev;
use tun_rs::DeviceBuilder;

use crate::super_packet::{
    CoalescedGroup, Coalescer, Cut, HEADER_BYTES, Joins, MOST_PACKETS, NextSegment, OffloadHeader,
};
use crate::tun_device::{TunDevice, TunFiles};
use crate::{Port, PortCounters, PortDescription, PortError, PortKind};
pub use settings::TunSettings;

/// Packets grouped at once.
const BURST: usize = 128;
/// Longest interface name that Linux takes.
const NAME_BYTES: usize = 15;

/// The configuration of a `tun` port.
#[derive(Clone, Debug)]
pub struct TunConfig {
    /// The port's name, for example `inside`.
    pub name: String,
    /// The interface's name.
    pub device: String,
    /// Its addresses, with the length of their prefix.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its MTU in bytes.
    pub mtu: u16,
    /// Packets that the kernel holds for each queue until they are read (`txqueuelen`); `None`
    /// leaves Linux's default, 500.
    pub kernel_queue_packets: Option<u32>,
    /// Queues, each for one worker. The kernel gives all packets of one flow to one queue.
    pub queues: usize,
    /// The worker that alone reads the interface, where the others only write: one queue of the
    /// kernel's for all. Of thousands of interfaces, each further queue would take some 20 ms to
    /// open. `None` gives each its own.
    pub reader: Option<usize>,
    /// Whether packets of one flow that leave together are joined to super-packets.
    pub joins_packets: bool,
    /// Whether the interface has a carrier from the start, or only once it is
    /// [set](Port::set_link).
    pub has_link: bool,
}

impl TunConfig {
    /// Whether the interface has several queues of the kernel's.
    fn has_more_queues(&self) -> bool {
        self.queues > 1 && self.reader.is_none()
    }
}

/// One queue of the `tun` port.
pub struct Tun {
    description: PortDescription,
    counters: PortCounters,
    device: Arc<OwnedFd>,
    /// Whether the device has its interface, which somebody may delete.
    is_attached: bool,
    is_read: bool,
    /// What the kernel returned in one call, with its offload header, and what is left of it.
    super_packet: Vec<u8>,
    len: usize,
    cut: Cut,
    coalescer: Coalescer,
    /// The kernel takes super-packets of UDP since Linux 6.2.
    joins: Joins,
}

impl Tun {
    /// Opens the device with its queues, gives it its addresses and MTU, and sets it up. Nothing is
    /// routed to it yet but the networks of its addresses.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused, and what to do.
    pub fn open(config: &TunConfig) -> Result<Vec<Self>, PortError> {
        let TunConfig { name, device, addresses, mtu, kernel_queue_packets, queues, joins_packets, .. } =
            config;
        if device.is_empty() || device.len() > NAME_BYTES {
            let reason = format!("{device:?} is not an interface name, which has 1 to {NAME_BYTES} bytes");
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let io = |action: String| {
            move |source| PortError::Io {
                port: name.to_owned(),
                action: with_advice(action, &source),
                source,
            }
        };
        let has_more = config.has_more_queues();
        if has_more && crate::taken::interface_exists(device) {
            // The kernel would add our queues to those of the other program, and distribute the
            // packets among all.
            let reason = format!(
                "the interface {device} exists: another gateway uses it, or it was created as a persistent one; \
                 stop that gateway, or run: ip link del {device}"
            );
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let tun = DeviceBuilder::new()
            .name(device)
            .mtu(*mtu)
            .with(|builder| {
                builder.offload(true).multi_queue(has_more);
            })
            .build_sync()
            .map_err(io(format!("create the interface {device}")))?;
        // Before there is another queue: the kernel then creates each with this length.
        if let Some(packets) = kernel_queue_packets {
            let set = tun.set_tx_queue_len(*packets);
            set.map_err(io(format!("set the queue of {device} to {packets} packets")))?;
        }
        let index = tun.if_index().map_err(io(format!("find {device}")))?;
        // Not to be able to is no reason to refuse to start: a kernel without IPv4 has none to
        // send.
        let _ = convoy_kernel::route::stop_redirects(index);
        for (address, bits) in addresses {
            let added = convoy_kernel::route::add_address(index, *address, *bits);
            added.map_err(io(format!(
                "give {device} the address {address}/{bits}{}",
                v6_advice(device, *address)
            )))?;
        }
        if !config.has_link {
            let fd = crate::sys::borrow(&tun, tun.as_raw_fd());
            let set = crate::sys::set_carrier(fd, false);
            set.map_err(io(format!("set the carrier of {device} to off")))?;
        }
        tun.enabled(true).map_err(io(format!("set {device} up")))?;
        let joins = match (joins_packets, tun.udp_gso()) {
            (false, _) => Joins::Nothing,
            (true, false) => Joins::Tcp,
            (true, true) => Joins::TcpAndUdp,
        };
        tun.set_nonblocking(true).map_err(io(format!("make {device} non-blocking")))?;
        let first = Arc::new(
            crate::sys::borrow(&tun, tun.as_raw_fd())
                .try_clone_to_owned()
                .map_err(io(format!("open a queue of {device}")))?,
        );
        let queue = |number: usize| -> std::io::Result<Self> {
            let file = if number > 0 && has_more {
                let another = tun.try_clone()?;
                another.set_nonblocking(true)?;
                Arc::new(crate::sys::borrow(&another, another.as_raw_fd()).try_clone_to_owned()?)
            } else {
                Arc::clone(&first)
            };
            let is_read = config.reader.is_none_or(|reader| reader == number);
            Ok(Self::queue(name, *mtu, joins, file, is_read))
        };
        let opened = (0..*queues).map(queue).collect::<Result<_, _>>();
        opened.map_err(io(format!("open a queue of {device}")))
    }

    /// The files of the queues of a port, for attaching them again.
    pub(crate) fn files(queues: &[Self], config: &TunConfig) -> TunFiles {
        let has_more_queues = config.has_more_queues();
        let device = TunDevice {
            name: config.device.clone(),
            addresses: config.addresses.clone(),
            mtu: config.mtu,
            kernel_queue_packets: config.kernel_queue_packets,
            has_more_queues,
        };
        let count = if has_more_queues { queues.len() } else { 1 };
        let files = queues.iter().take(count).map(|queue| Arc::clone(&queue.device)).collect();
        TunFiles { device, files }
    }

    fn queue(name: &str, mtu: u16, joins: Joins, device: Arc<OwnedFd>, is_read: bool) -> Self {
        Self {
            description: PortDescription {
                name: name.to_owned(),
                kind: PortKind::of::<TunSettings>(),
                mtu: mtu.into(),
            },
            counters: PortCounters::default(),
            joins,
            device,
            is_attached: true,
            is_read,
            super_packet: vec![0; HEADER_BYTES + usize::from(u16::MAX)],
            len: 0,
            cut: Cut::default(),
            coalescer: Coalescer::default(),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// Reads one packet or super-packet; `false` if there is none.
    fn read(&mut self) -> Result<bool, PortError> {
        self.counters.system_calls += 1;
        let len = match nix::unistd::read(&self.device, &mut self.super_packet) {
            Ok(len) => len,
            Err(Errno::EAGAIN) => return Ok(false),
            Err(Errno::EINTR) => return Ok(true),
            Err(Errno::EBADFD) => {
                self.is_attached = false;
                return Ok(false);
            }
            Err(error) => {
                return Err(self.description.failed("read from the interface", error.into()));
            }
        };
        self.len = len;
        let cut = self.super_packet[..len].split_first_chunk_mut().and_then(|(header, packet)| {
            let header = OffloadHeader::read(header)?;
            Cut::of(&header, packet)
        });
        self.counters.receive_dropped += u64::from(cut.is_none());
        self.cut = cut.unwrap_or_default();
        Ok(true)
    }

    /// Hands out what was read; `false` if frames or room ran out.
    fn hand_out(&mut self, pool: &mut FramePool, limit: usize, burst: &mut Vec<Frame>) -> bool {
        while !self.cut.is_done() {
            if burst.len() >= limit {
                return false;
            }
            match self.cut.next(&self.super_packet[HEADER_BYTES..self.len], pool) {
                NextSegment::Frame(frame) => {
                    self.counters.count_received(frame.len());
                    burst.push(frame);
                }
                NextSegment::TooLong => self.counters.receive_dropped += 1,
                NextSegment::NoFrame => return false,
            }
        }
        true
    }

    /// Writes one group of a burst. The kernel takes nothing of what it refuses: a malformed inner
    /// packet, or the interface is down.
    fn write(&mut self, coalescer: &Coalescer, group: &CoalescedGroup, burst: &[Frame]) {
        match self.write_joined(coalescer, group, burst) {
            Ok(()) => {
                self.counters.sent_packets += group.len() as u64;
                let bytes = coalescer.packets(group).map(|at| burst[at].len() as u64);
                self.counters.sent_bytes += bytes.sum::<u64>();
            }
            // Whatever the kernel rejects in a super-packet, it may accept the packets.
            Err(Errno::EINVAL) if group.len() > 1 => {
                coalescer.packets(group).for_each(|at| self.write_alone(&burst[at]));
            }
            Err(error) => {
                self.is_attached &= error != Errno::EBADFD;
                self.counters.send_dropped += group.len() as u64;
            }
        }
    }

    /// Writes a group in one call, from its packets in place.
    fn write_joined(
        &mut self,
        coalescer: &Coalescer,
        group: &CoalescedGroup,
        burst: &[Frame],
    ) -> nix::Result<()> {
        self.counters.system_calls += 1;
        let (offload, headers, len) = group.headers(burst);
        let offload = offload.write();
        let mut slices = [IoSlice::new(&[]); 2 + MOST_PACKETS];
        slices[0] = IoSlice::new(&offload);
        slices[1] = IoSlice::new(&headers[..len]);
        let skip = group.header_len();
        for (slice, at) in slices[2..].iter_mut().zip(coalescer.packets(group)) {
            *slice = IoSlice::new(&burst[at][skip..]);
        }
        writev(self.fd(), &slices[..2 + group.len()]).map(drop)
    }

    /// Writes one packet.
    fn write_alone(&mut self, packet: &[u8]) {
        self.counters.system_calls += 1;
        let offload = OffloadHeader::default().write();
        match writev(self.fd(), &[IoSlice::new(&offload), IoSlice::new(packet)]) {
            Ok(_) => {
                self.counters.count_sent(packet.len());
            }
            Err(_) => self.counters.send_dropped += 1,
        }
    }
}

/// Why an interface may get no IPv6 address, whatever the gateway's rights.
fn v6_advice(device: &str, address: IpAddr) -> String {
    if address.is_ipv4() {
        return String::new();
    }
    format!(", for which net.ipv6.conf.{device}.disable_ipv6 must be 0")
}

/// The usual reasons why no TUN device can be created.
fn with_advice(action: String, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("{action} (if there is no /dev/net/tun, run: modprobe tun)"),
        std::io::ErrorKind::PermissionDenied => {
            format!("{action} (run as root, or with the capability CAP_NET_ADMIN)")
        }
        std::io::ErrorKind::ResourceBusy => format!("{action} (another program has it open)"),
        _ => action,
    }
}

impl Port for Tun {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        if !self.is_read || !self.is_attached {
            return Ok(0);
        }
        let before = burst.len();
        let limit = before + limit;
        while self.hand_out(pool, limit, burst) {
            if burst.len() >= limit || !self.read()? {
                break;
            }
        }
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len().min(BURST);
        // Taken out of the port, so that it can write while it iterates over the groups.
        let mut coalescer = std::mem::take(&mut self.coalescer);
        coalescer.group(&burst[..count], self.joins);
        for group in coalescer.groups() {
            self.write(&coalescer, group, &burst[..count]);
        }
        self.coalescer = coalescer;
        for frame in burst.drain(..count) {
            pool.give_back(frame);
        }
        Ok(count)
    }

    fn tick(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        if !self.is_attached {
            self.is_attached = !crate::tun_device::is_detached(&self.device);
        }
        Ok(())
    }

    fn lacks_interface(&self) -> bool {
        !self.is_attached
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(if self.is_read { vec![self.fd()] } else { Vec::new() })
    }

    fn set_link(&mut self, is_up: bool) -> std::io::Result<()> {
        crate::sys::set_carrier(self.fd(), is_up)
    }

    fn has_waiting(&self) -> bool {
        !self.cut.is_done()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
