//! Scatter reception with `recvmmsg(2)`: headers go to a separate buffer, pixels directly to their
//! place in the frame.
//!
//! The kernel may coalesce datagrams of one size (`UDP_GRO`). A message then spans as many planned
//! packets as it has datagrams. Packets that do not match the plan are reassembled and copied,
//! which is rare: after loss, and before the first frame is known.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use nix::cmsg_space;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::assembler::Assembler;
use crate::shapes::LONGEST_HEADER;

/// Messages per call while each holds one packet.
const MESSAGES: usize = 32;
/// Packets per message when the kernel coalesces; it never coalesces more.
const SEGMENTS: usize = 64;
/// Room for the headers and padding of a packet.
const HEAD_BYTES: usize = LONGEST_HEADER + 256;
/// Room for the part of a message that exceeds the plan: up to the longest message.
const SPILL_BYTES: usize = 65_536;
/// Requested size of the socket buffer in bytes: a fifth of a second of HDTV.
const SOCKET_BUFFER: usize = 32 << 20;

/// A planned packet: bytes of its headers, pixels and padding.
#[derive(Clone, Copy)]
struct Slot {
    header: usize,
    data: usize,
    padding: usize,
}

impl Slot {
    fn bytes(self) -> usize {
        self.header + self.data + self.padding
    }
}

/// A received message: its total length, and the length of each datagram in it.
struct Message {
    bytes: usize,
    segment: usize,
    from: SocketAddr,
}

/// Opens a socket for video to an address of this IP version; it is not bound yet.
///
/// # Errors
/// The kernel's.
pub(crate) fn receiving_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    }
    // Linux before 5.0 lacks GRO for UDP; datagrams then arrive one by one.
    let _ = setsockopt(&socket, sockopt::UdpGroSegment, &true);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Receive buffers other than the frames.
pub(crate) struct Scatter {
    heads: Vec<u8>,
    spills: Vec<u8>,
    slots: Vec<Slot>,
    messages: Vec<Message>,
    /// Packets that did not match the plan, one after the other, with their lengths and senders.
    strays: Vec<u8>,
    stray_bytes: Vec<(usize, SocketAddr)>,
    /// Whether the kernel coalesced datagrams in the last call.
    is_joined: bool,
}

impl Scatter {
    /// Allocates the buffers.
    pub(crate) fn new() -> Self {
        Self {
            heads: vec![0; SEGMENTS * HEAD_BYTES],
            spills: vec![0; MESSAGES * SPILL_BYTES],
            slots: Vec::new(),
            messages: Vec::new(),
            strays: Vec::new(),
            stray_bytes: Vec::new(),
            is_joined: false,
        }
    }

    /// Receives what is in the socket, at most one call's worth, and hands it to the assembler.
    /// Returns whether more may be waiting. Does not block.
    ///
    /// # Errors
    /// The kernel's, except that an empty socket is not an error.
    pub(crate) fn receive(
        &mut self,
        socket: &UdpSocket,
        assembler: &mut Assembler,
        now_ns: u64,
    ) -> io::Result<bool> {
        let (messages, each) = if self.is_joined { (1, SEGMENTS) } else { (MESSAGES, 1) };
        let planned = assembler.plan(messages * each);
        self.slots.clear();
        if let Some((_, shapes)) = assembler.slots() {
            self.slots.extend(shapes[..planned].iter().map(|shape| Slot {
                header: shape.header_bytes,
                data: shape.data.len(),
                padding: usize::from(shape.padding),
            }));
        }
        match self.call(socket, assembler, messages, each) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        self.sort(assembler, each, now_ns);
        self.is_joined = self.messages.iter().any(|message| message.bytes > message.segment);
        Ok(self.messages.len() == messages)
    }

    /// Makes the system call, with each message laid out as `each` planned packets and room for the
    /// rest.
    fn call(
        &mut self,
        socket: &UdpSocket,
        assembler: &mut Assembler,
        messages: usize,
        each: usize,
    ) -> io::Result<()> {
        self.messages.clear();
        let mut pieces = Vec::with_capacity(messages * (3 * each + 1));
        let mut counts = Vec::with_capacity(messages);
        let mut heads = self.heads.chunks_exact_mut(HEAD_BYTES);
        let spills = self.spills.chunks_exact_mut(SPILL_BYTES).take(messages);
        let (frame, shapes) = assembler.slots().unwrap_or_default();
        // Each packet's pixels start where the previous packet's end.
        let start = shapes.first().map_or(0, |shape| shape.data.start);
        let mut pixels = &mut frame[start..];
        let mut slots = self.slots.iter();
        for spill in spills {
            let before = pieces.len();
            for (slot, head) in slots.by_ref().take(each).zip(&mut heads) {
                let (header, rest) = head.split_at_mut(slot.header);
                let (data, behind) = std::mem::take(&mut pixels).split_at_mut(slot.data);
                pixels = behind;
                pieces.push(IoSliceMut::new(header));
                pieces.push(IoSliceMut::new(data));
                if slot.padding > 0 {
                    pieces.push(IoSliceMut::new(&mut rest[..slot.padding]));
                }
            }
            pieces.push(IoSliceMut::new(spill));
            counts.push(pieces.len() - before);
        }
        let mut rest = pieces.as_mut_slice();
        let mut layouts: Vec<&mut [IoSliceMut<'_>]> = Vec::with_capacity(messages);
        for count in counts {
            let (own, behind) = std::mem::take(&mut rest).split_at_mut(count);
            layouts.push(own);
            rest = behind;
        }
        let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(messages, Some(cmsg_space!(i32)));
        let flags = MsgFlags::MSG_DONTWAIT;
        for message in recvmmsg(socket.as_fd().as_raw_fd(), &mut headers, layouts.iter_mut(), flags, None)? {
            let joined = message.cmsgs().ok().and_then(|mut controls| {
                controls.find_map(|control| match control {
                    ControlMessageOwned::UdpGroSegments(bytes) => {
                        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
                    }
                    _ => None,
                })
            });
            let from = message.address.as_ref().and_then(address).unwrap_or(UNKNOWN_SENDER);
            let segment = joined.unwrap_or(message.bytes.max(1));
            self.messages.push(Message { bytes: message.bytes, segment, from });
        }
        Ok(())
    }

    /// Hands each packet to the assembler. Packets in place come first, since copying others would
    /// overwrite them.
    fn sort(&mut self, assembler: &mut Assembler, each: usize, now_ns: u64) {
        self.strays.clear();
        self.stray_bytes.clear();
        for at in 0..self.messages.len() {
            let first = (at * each).min(self.slots.len());
            let slots = first..(first + each).min(self.slots.len());
            let Message { bytes, segment, from } = self.messages[at];
            let is_own = assembler.is_from(from);
            let (mut slot, mut planned) = (slots.start, 0);
            for start in (0..bytes).step_by(segment) {
                let end = (start + segment).min(bytes);
                let own = (slot < slots.end).then(|| self.slots[slot]);
                let is_planned = own.is_some_and(|own| planned == start && own.bytes() == end - start);
                planned += own.map_or(0, Slot::bytes);
                if !(is_planned && is_own && self.accept(assembler, slot, now_ns)) {
                    self.put_together(assembler, slots.clone(), at, start..end);
                    self.stray_bytes.push((end - start, from));
                }
                slot += 1;
            }
        }
        assembler.settle();
        let mut rest = self.strays.as_slice();
        for (bytes, from) in &self.stray_bytes {
            let (packet, behind) = rest.split_at(*bytes);
            assembler.take(packet, *from, now_ns);
            rest = behind;
        }
    }

    fn accept(&self, assembler: &mut Assembler, slot: usize, now_ns: u64) -> bool {
        let Slot { header, padding, .. } = self.slots[slot];
        let head = &self.heads[slot * HEAD_BYTES..][..HEAD_BYTES];
        let padding_end = (padding > 0).then(|| head[header + padding - 1]);
        assembler.accept(slot, &head[..header], padding_end, now_ns)
    }

    /// Appends a range of a message's bytes from the pieces it was scattered to: its planned
    /// packets, then the rest.
    fn put_together(
        &mut self,
        assembler: &mut Assembler,
        slots: std::ops::Range<usize>,
        message: usize,
        wanted: std::ops::Range<usize>,
    ) {
        let (frame, shapes) = assembler.slots().unwrap_or_default();
        let mut at = 0;
        let strays = &mut self.strays;
        let mut piece = |bytes: &[u8]| {
            let from = wanted.start.clamp(at, at + bytes.len()) - at;
            let until = wanted.end.clamp(at, at + bytes.len()) - at;
            strays.extend(&bytes[from..until]);
            at += bytes.len();
        };
        for slot in slots {
            let Slot { header, padding, .. } = self.slots[slot];
            let head = &self.heads[slot * HEAD_BYTES..][..HEAD_BYTES];
            piece(&head[..header]);
            piece(&frame[shapes[slot].data.clone()]);
            piece(&head[header..header + padding]);
        }
        piece(&self.spills[message * SPILL_BYTES..][..SPILL_BYTES]);
    }
}

/// Stands for a sender without an address; the kernel always reports one.
const UNKNOWN_SENDER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// An IPv4 or IPv6 socket address.
fn address(name: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = || name.as_sockaddr_in().map(|name| SocketAddr::V4((*name).into()));
    v4().or_else(|| name.as_sockaddr_in6().map(|name| SocketAddr::V6((*name).into())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::layout::{Layout, PAYLOAD_TYPE};

    fn sockets() -> (UdpSocket, UdpSocket) {
        let any_port: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let receiver = receiving_socket(any_port).expect("a socket");
        receiver.bind(&any_port.into()).expect("a port");
        let receiver = UdpSocket::from(receiver);
        let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
        sender.connect(receiver.local_addr().expect("bound")).expect("an address");
        (sender, receiver)
    }

    /// Sends frames as messages of `joined` packets, except packets whose index in the stream is in
    /// `lost`; returns the counters.
    fn stream(joined: usize, lost: &[usize]) -> crate::assembler::Counts {
        let format: Format = "640x16p25".parse().expect("a name");
        let mut layout = Layout::new(&format, 1000, 7).expect("fits");
        let count = layout.packets().len();
        let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 8, 0);
        let (sender, receiver) = sockets();
        setsockopt(&sender, sockopt::UdpGsoSegment, &(layout.packet_bytes() as i32)).expect("Linux 4.18");
        let mut scatter = Scatter::new();
        let mut packet = Vec::new();
        for number in 0..6 {
            let picture: Vec<u8> = (0..format.frame_bytes()).map(|at| (at * 3 + number * 5) as u8).collect();
            layout.number(0..count, (number * count) as u32, [number as u32 * 3600; 2]);
            let left =
                layout.packets().iter().enumerate().filter(|(at, _)| !lost.contains(&(number * count + at)));
            let left: Vec<_> = left.map(|(_, plan)| plan).collect();
            for burst in left.chunks(joined) {
                let mut bytes = Vec::new();
                for plan in burst {
                    layout.write(plan, &picture, &mut packet);
                    bytes.extend(&packet);
                }
                sender.send(&bytes).expect("the loopback interface takes it");
            }
            while scatter.receive(&receiver, &mut assembler, 0).expect("a socket") {}
            let frame = assembler.flush().expect("a frame");
            let missing: usize = frame.holes.iter().map(|hole| hole.len()).sum();
            assert_eq!(missing > 0, lost.iter().any(|at| at / count == number));
            let mut holes = frame.holes.iter().peekable();
            for (at, (byte, should)) in frame.bytes.iter().zip(&picture).enumerate() {
                while holes.next_if(|hole| hole.end <= at).is_some() {}
                let is_missing = holes.peek().is_some_and(|hole| hole.contains(&at));
                assert!(is_missing || byte == should, "frame {number}, byte {at}");
            }
            assembler.give_back(frame.bytes);
        }
        assembler.counts()
    }

    #[test]
    fn packets_go_straight_to_their_places_one_by_one_and_joined() {
        let format: Format = "640x16p25".parse().expect("a name");
        for joined in [1, 5, 64] {
            let counts = stream(joined, &[]);
            assert_eq!((counts.whole_frames, counts.lost, counts.malformed), (6, 0, 0), "{joined}");
            // The first frame is unknown in advance, and at each frame's end a new plan is needed.
            assert!(counts.copied_bytes <= 2 * format.frame_bytes() as u64, "{joined}: {counts:?}");
        }
    }

    #[test]
    fn after_loss_what_lies_elsewhere_is_moved() {
        for joined in [1, 5] {
            let counts = stream(joined, &[25, 40, 41, 60]);
            assert_eq!((counts.lost, counts.malformed, counts.frames), (4, 0, 6), "{joined}");
        }
    }
}
