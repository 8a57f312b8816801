//! From frames to messages of a packet socket: a burst in one system call, packets of one flow as
//! one super-packet.

use std::io;
use std::os::fd::BorrowedFd;

use convoy_packet::{Frame, FramePool, MacAddress};

use super::BEFORE_PACKET;
use super::receive::LINK_BYTES;
use crate::link::Link;
use crate::super_packet::{Coalescer, HEADERS_BYTES, Joins, OffloadHeader};
use crate::sys::Sender;

/// Packets that leave together, and messages of a call.
const BURST: usize = 64;

/// The bytes before a message's payloads.
struct MessageHead {
    bytes: [u8; BEFORE_PACKET + HEADERS_BYTES],
    len: usize,
}

impl MessageHead {
    fn new(offload: OffloadHeader, link: &Link, to: MacAddress, packet: &[u8], headers: &[u8]) -> Self {
        let mut bytes = [0; BEFORE_PACKET + HEADERS_BYTES];
        let offload = offload.before_link(LINK_BYTES).write();
        let parts: [&[u8]; 3] = [&offload, &link.header(to, packet), headers];
        let mut len = 0;
        for part in parts {
            bytes[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        Self { bytes, len }
    }

    /// Those of a packet that leaves alone.
    fn alone(link: &Link, to: MacAddress, packet: &[u8]) -> Self {
        Self::new(OffloadHeader::default(), link, to, packet, &[])
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Sends bursts. Keeps its buffers between calls.
pub(super) struct BurstSender {
    joins: Joins,
    sender: Sender,
    coalescer: Coalescer,
    /// For each frame that leaves by the interface.
    next_hops: Vec<MacAddress>,
    /// For each group of such frames.
    heads: Vec<MessageHead>,
    is_done: Vec<bool>,
}

impl BurstSender {
    pub(super) fn new(joins: Joins) -> Self {
        Self {
            joins,
            sender: Sender::default(),
            coalescer: Coalescer::default(),
            next_hops: Vec::with_capacity(BURST),
            heads: Vec::with_capacity(BURST),
            is_done: Vec::with_capacity(BURST),
        }
    }

    /// Sends what there is room for, and counts it; its frames return to `pool`, and the rest stays
    /// in `burst`, in order.
    ///
    /// # Errors
    /// The socket has failed.
    pub(super) fn send(
        &mut self,
        link: &mut Link,
        socket: Option<BorrowedFd<'_>>,
        pool: &mut FramePool,
        burst: &mut Vec<Frame>,
    ) -> io::Result<()> {
        self.choose(link, pool, burst);
        // Without an interface none of them leaves by it.
        let Some(socket) = socket else { return Ok(()) };
        let frames = &burst[..self.next_hops.len()];
        self.coalescer.group(frames, self.joins);
        self.heads.clear();
        self.heads.extend(self.coalescer.groups().iter().map(|group| {
            let (offload, headers, len) = group.headers(frames);
            let first = group.first();
            MessageHead::new(offload, link, self.next_hops[first], &frames[first], &headers[..len])
        }));
        let done = self.send_groups(link, socket, frames)?;
        self.is_done.clear();
        self.is_done.resize(frames.len(), false);
        for group in &self.coalescer.groups()[..done] {
            self.coalescer.packets(group).for_each(|at| self.is_done[at] = true);
        }
        let is_done = &self.is_done;
        give_back(pool, burst, is_done.len(), |at, _| is_done[at]);
        Ok(())
    }

    /// Moves the frames that leave by the interface to the front of the burst; the others have left
    /// through the kernel, or cannot leave.
    fn choose(&mut self, link: &mut Link, pool: &mut FramePool, burst: &mut Vec<Frame>) {
        self.next_hops.clear();
        let count = burst.len().min(BURST);
        give_back(pool, burst, count, |_, frame| {
            let next_hop = link.next_hop(frame, true);
            self.next_hops.extend(next_hop);
            next_hop.is_none()
        });
    }

    /// Returns how many groups, from the first, are done.
    fn send_groups(
        &mut self,
        link: &mut Link,
        socket: BorrowedFd<'_>,
        frames: &[Frame],
    ) -> io::Result<usize> {
        let Self { sender, coalescer, next_hops, heads, .. } = self;
        let groups = coalescer.groups();
        let mut at = 0;
        while at < groups.len() {
            link.counters.system_calls += 1;
            let parts =
                groups[at..].iter().zip(&heads[at..]).enumerate().flat_map(|(message, (group, head))| {
                    let skip = group.header_len();
                    let payloads = coalescer.packets(group).map(move |packet| &frames[packet][skip..]);
                    std::iter::once(head.bytes()).chain(payloads).map(move |part| (message, part))
                });
            match sender.send_parts(socket, parts) {
                Ok(messages) => {
                    let sent = groups[at..at + messages].iter().flat_map(|group| coalescer.packets(group));
                    sent.for_each(|packet| link.counters.count_sent(frames[packet].len()));
                    at += messages;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    Some(libc::EINTR) => {}
                    Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) => return Err(error),
                    // Whatever the kernel rejects in a super-packet, it may accept the packets.
                    Some(libc::EINVAL) if groups[at].len() > 1 => {
                        for packet in coalescer.packets(&groups[at]) {
                            send_alone(sender, link, socket, next_hops[packet], &frames[packet]);
                        }
                        at += 1;
                    }
                    // The interface is down, or its queue is full.
                    _ => {
                        for packet in coalescer.packets(&groups[at]) {
                            link.count_refused(&frames[packet], &error);
                        }
                        at += 1;
                    }
                },
            }
        }
        Ok(at)
    }
}

fn send_alone(sender: &mut Sender, link: &mut Link, socket: BorrowedFd<'_>, to: MacAddress, packet: &[u8]) {
    link.counters.system_calls += 1;
    let head = MessageHead::alone(link, to, packet);
    match sender.send_parts(socket, [head.bytes(), packet].map(|part| (0, part)).into_iter()) {
        Ok(_) => link.counters.count_sent(packet.len()),
        Err(error) => link.count_refused(packet, &error),
    }
}

/// Returns the frames that are done to the pool; the others stay, in order.
fn give_back(
    pool: &mut FramePool,
    burst: &mut Vec<Frame>,
    count: usize,
    mut is_done: impl FnMut(usize, &mut Frame) -> bool,
) {
    let mut kept = 0;
    for at in 0..count {
        if !is_done(at, &mut burst[at]) {
            burst.swap(kept, at);
            kept += 1;
        }
    }
    burst.drain(kept..count).for_each(|frame| pool.give_back(frame));
}
