//! The `af_xdp` port: an Ethernet interface of the kernel's, whose packets go through rings between
//! the device, or its driver, and the process's packet memory, without the kernel's network stack.
//!
//! A program at the interface takes the gateway's frames, and the kernel says where packets go
//! ([`link`](crate::link)). Since the rings of all ports use frames of one memory, a packet crosses
//! the gateway without a copy if both drivers support that.

mod interface;
mod open;
mod queues;
mod settings;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use convoy_kernel::Prefix;
use convoy_packet::{CHUNK_BYTES, Frame, FramePool, ethernet};

use crate::link::{Link, TAG_BYTES, is_tag, packet_len};
use crate::sys::{XdpSocket, XdpStatistics};
use crate::{Port, PortCounters, PortDescription, PortError, Unsent};
use interface::AfXdpInterface;
pub use settings::AfXdpSettings;

/// One queue of an `af_xdp` port.
pub(crate) struct AfXdp {
    link: Link,
    /// `None` while the interface is missing.
    socket: Option<XdpSocket>,
    received: Vec<Frame>,
    /// What earlier sockets have lost.
    lost: XdpStatistics,
    at: Arc<AfXdpInterface>,
    queue: usize,
}

impl AfXdp {
    fn new(link: Link, socket: Option<XdpSocket>, at: Arc<AfXdpInterface>, queue: usize) -> Self {
        let (received, lost) = (Vec::with_capacity(64), XdpStatistics::default());
        Self { link, socket, received, lost, at, queue }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        match socket.flush() {
            Ok(calls) => self.link.counters.system_calls += calls,
            // The interface has gone: what is in the ring is lost with the socket.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV)) => self.close(),
            Err(source) => return Err(self.link.description.failed("send", source)),
        }
        Ok(())
    }

    /// Closes the socket, whose interface has gone; its frames return to their pool.
    fn close(&mut self) {
        self.lost = self.lost();
        self.socket = None;
    }

    fn lost(&self) -> XdpStatistics {
        let more = self.socket.as_ref().map(XdpSocket::statistics).unwrap_or_default();
        XdpStatistics {
            dropped: self.lost.dropped + more.dropped,
            no_frame: self.lost.no_frame + more.no_frame,
        }
    }

    /// Sends one packet, or counts it as dropped. There must be room for it.
    fn send_one(&mut self, pool: &mut FramePool, mut frame: Frame) {
        let bytes = frame.len();
        let is_small = frame.capacity() == CHUNK_BYTES && self.socket.is_some();
        let Some(to) = self.link.next_hop(&mut frame, is_small) else { return pool.give_back(frame) };
        let header = self.link.header(to, &frame);
        let is_framed = frame.prepend(header.len()).map(|place| place.copy_from_slice(&header)).is_ok();
        let socket = self.socket.as_mut().filter(|_| is_framed);
        let sent = match socket {
            Some(socket) => socket.send(frame),
            None => Err(frame),
        };
        match sent {
            Ok(()) => self.link.counters.count_sent(bytes),
            Err(frame) => {
                self.link.counters.send_dropped += 1;
                self.link.unsent.no_buffer(&frame[if is_framed { header.len() } else { 0 }..]);
                pool.give_back(frame);
            }
        }
    }
}

impl Port for AfXdp {
    fn description(&self) -> &PortDescription {
        &self.link.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        // Frames that a full device left in the ring, and completions since.
        if self.socket.as_ref().is_some_and(XdpSocket::is_sending) {
            self.flush()?;
            self.socket.iter_mut().for_each(|socket| socket.reap(pool));
        }
        if let Some(socket) = &mut self.socket {
            self.link.counters.system_calls += socket.receive(pool, limit, &mut self.received);
        }
        for mut frame in self.received.drain(..) {
            if strip(&mut frame).is_some() {
                self.link.counters.count_received(frame.len());
                burst.push(frame);
            } else {
                self.link.counters.receive_dropped += 1;
                pool.give_back(frame);
            }
        }
        let was_idle = burst.len() == before;
        self.link.look(was_idle, pool, before + limit, burst)?;
        Ok(burst.len() - before)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let room = self.socket.as_mut().map_or(usize::MAX, |socket| {
            socket.reap(pool);
            socket.room()
        });
        let count = burst.len().min(room);
        for frame in burst.drain(..count) {
            self.send_one(pool, frame);
        }
        self.flush()?;
        Ok(count)
    }

    fn tick(&mut self, _pool: &mut FramePool) -> Result<(), PortError> {
        if self.link.lacks_interface() && self.socket.is_some() {
            self.close();
        }
        if let Some((number, socket)) = self.at.fresh.take(self.queue) {
            self.close();
            self.socket = Some(socket);
            // One that has vanished meanwhile is missing still.
            let _ = self.link.use_interface(&self.at.config, number);
        }
        Ok(())
    }

    fn lacks_interface(&self) -> bool {
        self.link.lacks_interface()
    }

    fn take_path_mtu(&mut self) -> Option<(IpAddr, u16)> {
        self.link.path_mtus.take()
    }

    fn take_unsent(&mut self, unsent: &mut Vec<Unsent>) {
        self.link.unsent.take(unsent);
    }

    fn readable_fds(&self) -> Option<Vec<BorrowedFd<'_>>> {
        Some(self.socket.iter().map(AsFd::as_fd).chain(self.link.readable_fds()).collect())
    }

    fn set_networks(&mut self, networks: &BTreeSet<Prefix>) -> io::Result<()> {
        self.at.networks.set(networks)
    }

    fn has_input(&self) -> bool {
        self.socket.as_ref().is_some_and(XdpSocket::has_received)
    }

    fn has_waiting(&self) -> bool {
        self.link.has_waiting()
    }

    fn counters(&self) -> PortCounters {
        let counters = self.link.counters();
        let lost = self.lost();
        PortCounters { receive_dropped: counters.receive_dropped + lost.dropped + lost.no_frame, ..counters }
    }

    fn device_counters(&self) -> Vec<(Cow<'static, str>, u64)> {
        let lost = self.lost();
        let is_zero_copy = self.socket.as_ref().is_some_and(XdpSocket::is_zero_copy);
        vec![
            ("queues_without_copy".into(), u64::from(is_zero_copy)),
            ("queues_with_copy".into(), u64::from(self.socket.is_some() && !is_zero_copy)),
            ("sent_by_kernel".into(), self.link.sent_by_kernel()),
            ("ring_full".into(), lost.dropped),
            ("no_frame".into(), lost.no_frame),
        ]
    }
}

/// Strips the Ethernet header, a tag of VLAN 0, and the padding of a short frame.
fn strip(frame: &mut Frame) -> Option<()> {
    let is_tagged = frame.get(ethernet::ETHERTYPE_AT..ethernet::HEADER_BYTES).is_some_and(is_tag);
    let tag_bytes = if is_tagged { TAG_BYTES } else { 0 };
    frame.trim_front(ethernet::HEADER_BYTES + tag_bytes).ok()?;
    let len = packet_len(frame)?;
    frame.truncate(len);
    Some(())
}

#[cfg(test)]
mod tests {
    use convoy_packet::{FramePool, IpHeader, MacAddress};

    use super::*;

    #[test]
    fn a_tag_goes_with_the_ethernet_header() {
        let mut packet = vec![7; 40];
        IpHeader::new(17, [192, 0, 2, 2].into(), [192, 0, 2, 1].into()).write(&mut packet);
        let mac = MacAddress([2, 0, 0, 0, 0, 1]);
        let header = ethernet::header(mac, mac, ethernet::IPV4);
        let mut pool = FramePool::new(1, 0);
        for tag in [&[][..], &[0x81, 0, 0xa0, 0], &[0x88, 0xa8, 0, 0]] {
            let bytes = [&header[..12], tag, &header[12..], &packet, &[0; 6]].concat();
            let mut frame = pool.take_filled(&bytes, 0).expect("a frame");
            assert_eq!(strip(&mut frame), Some(()));
            assert_eq!(frame[..], packet);
            pool.give_back(frame);
        }
    }
}
