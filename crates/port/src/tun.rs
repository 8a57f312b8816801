//! A Linux TUN interface: the plaintext side as the kernel's IP stack sees it.
//!
//! The library tun-rs carries the device, its addresses and its offloads: a 64 KiB TCP super-packet of the kernel
//! is read in one call and cut here into packets that fit the MTU, and what leaves is coalesced again.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use convoy_packet::{Frame, FramePool};
use tun_rs::{DeviceBuilder, GROTable, IDEAL_BATCH_SIZE, SyncDevice, VIRTIO_NET_HDR_LEN};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind};

/// Tailroom of frames that are handed out, in bytes: what ESP may add behind a packet.
const TAILROOM: usize = 320;
/// Room of a packet that leaves, in bytes: for the largest packet that others are coalesced into. tun-rs wants the offload header's
/// room twice; with less it coalesces nothing, and with more a packet could outgrow its length field.
const LEAVING_BYTES: usize = 2 * VIRTIO_NET_HDR_LEN + u16::MAX as usize;
/// Longest interface name that Linux takes.
const NAME_BYTES: usize = 15;

/// How a `tun` port is to be.
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
    /// Queues, each for one worker. The kernel gives all packets of one flow to one queue.
    pub queues: usize,
}

/// One queue of the `tun` port.
pub struct Tun {
    description: PortDescription,
    counters: PortCounters,
    device: SyncDevice,
    /// What the kernel gave in one call, and what became of it.
    super_packet: Vec<u8>,
    packets: Vec<Vec<u8>>,
    sizes: Vec<usize>,
    /// Of `packets`, those from `next` to `count` were not handed out yet.
    next: usize,
    count: usize,
    gro: GROTable,
    /// What leaves in one burst, each with [`LEAVING_BYTES`] of room. Memory that was never written costs nothing.
    leaving: Vec<Vec<u8>>,
}

impl Tun {
    /// Opens the device with its queues, gives it its addresses and MTU, and sets it up. Nothing is routed to it yet but the
    /// networks of its addresses.
    ///
    /// # Errors
    /// [`PortError`] says what the system refused, and what to do.
    pub fn open(config: &TunConfig) -> Result<Vec<Self>, PortError> {
        let TunConfig { name, device, addresses, mtu, queues } = config;
        if device.is_empty() || device.len() > NAME_BYTES {
            let reason = format!("{device:?} cannot be an interface's name: 1 to {NAME_BYTES} bytes");
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
        let io = |action: String| {
            move |source| PortError::Io {
                port: name.to_owned(),
                action: with_advice(action, &source),
                source,
            }
        };
        let has_more = *queues > 1;
        if has_more && crate::taken::interface_exists(device) {
            // The kernel would add our queues to those of whoever has it, and share the packets out among all.
            let reason = format!(
                "there is an interface {device} already: another gateway has it, or it was made to stay; stop that gateway, \
                 or run: ip link del {device}"
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
            .map_err(io(format!("make the interface {device}")))?;
        let index = tun.if_index().map_err(io(format!("find {device}")))?;
        for (address, bits) in addresses {
            let added = crate::route::add_address(index, *address, *bits);
            added.map_err(io(format!("give {device} the address {address}/{bits}")))?;
        }
        tun.enabled(true).map_err(io(format!("set {device} up")))?;
        let more: Vec<SyncDevice> = (1..*queues)
            .map(|_| tun.try_clone())
            .collect::<Result<_, _>>()
            .map_err(io(format!("open another queue of {device}")))?;
        std::iter::once(tun)
            .chain(more)
            .map(|queue| {
                queue.set_nonblocking(true).map_err(io(format!("make {device} non-blocking")))?;
                Ok(Self::queue(name, *mtu, queue))
            })
            .collect()
    }

    fn queue(name: &str, mtu: u16, device: SyncDevice) -> Self {
        let capacity = usize::from(mtu).max(2048);
        Self {
            description: PortDescription { name: name.to_owned(), kind: PortKind::Tun, mtu: mtu.into() },
            counters: PortCounters::default(),
            device,
            super_packet: vec![0; VIRTIO_NET_HDR_LEN + 65_535],
            packets: vec![vec![0; capacity]; IDEAL_BATCH_SIZE],
            sizes: vec![0; IDEAL_BATCH_SIZE],
            next: 0,
            count: 0,
            gro: GROTable::default(),
            leaving: Vec::new(),
        }
    }

    /// Reads one packet or super-packet; `false` if there is none.
    fn read(&mut self) -> Result<bool, PortError> {
        self.counters.system_calls += 1;
        (self.next, self.count) = (0, 0);
        let read = self.device.recv_multiple(&mut self.super_packet, &mut self.packets, &mut self.sizes, 0);
        match read {
            Ok(count) => {
                self.count = count;
                Ok(true)
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.raw_os_error().is_none() => {
                // A super-packet that could not be taken apart.
                self.counters.receive_dropped += 1;
                Ok(true)
            }
            Err(source) => Err(PortError::Io {
                port: self.description.name.clone(),
                action: "read from the interface".to_owned(),
                source,
            }),
        }
    }

    /// Hands out what was read; `false` if frames or room ran out.
    fn hand_out(&mut self, pool: &mut FramePool, limit: usize, burst: &mut Vec<Frame>) -> bool {
        while self.next < self.count {
            if burst.len() >= limit {
                return false;
            }
            let packet = &self.packets[self.next][..self.sizes[self.next]];
            let Some(size) = pool.size_for(packet.len(), TAILROOM) else {
                self.counters.receive_dropped += 1;
                self.next += 1;
                continue;
            };
            let Some(mut frame) = pool.take(size) else { return false };
            self.next += 1;
            if frame.fill(packet).is_err() {
                self.counters.receive_dropped += 1;
                pool.give_back(frame);
                continue;
            }
            self.counters.received_packets += 1;
            self.counters.received_bytes += packet.len() as u64;
            burst.push(frame);
        }
        true
    }
}

/// The usual reasons for which no TUN device can be had.
fn with_advice(action: String, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("{action} (is there a /dev/net/tun? Try: modprobe tun)"),
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
        let count = burst.len().min(IDEAL_BATCH_SIZE);
        let room = || Vec::with_capacity(LEAVING_BYTES);
        self.leaving.resize_with(count.max(self.leaving.len()), room);
        for (frame, packet) in burst.drain(..count).zip(&mut self.leaving) {
            packet.clear();
            packet.resize(VIRTIO_NET_HDR_LEN, 0);
            packet.extend_from_slice(&frame);
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            pool.give_back(frame);
        }
        let sent = self.device.send_multiple(&mut self.gro, &mut self.leaving[..count], VIRTIO_NET_HDR_LEN);
        self.counters.system_calls += 1;
        if sent.is_err() {
            // The kernel takes no part of what it refuses, and does not say which: a malformed inner packet, or
            // the interface is down.
            self.counters.send_dropped += 1;
        }
        Ok(count)
    }

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(crate::sys::borrow(self, self.device.as_raw_fd()))
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}
