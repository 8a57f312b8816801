//! A Linux interface as the card's line: a veth or a network card that has no addresses of the
//! kernel's.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use convoy_card::line::Line;
use convoy_packet::checksum;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv, sendmsg, setsockopt, sockopt};
use socket2::{Domain, SockFilter, Socket, Type};

use convoy_port::packet_socket::{self, OFFLOAD_HEADER_BYTES};

/// Requested size of the socket buffers, in bytes, each way.
const SOCKET_BUFFER: usize = 4 << 20;
/// Frames created by the kernel's own offloads may be this long; no card could take them.
const LONGEST_BYTES: usize = 65_536 + 256;

/// Accepts untagged frames: the kernel removes VLAN tags from frames, which would then look
/// untagged.
const UNTAGGED: [SockFilter; 4] = [
    SockFilter::new(
        (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16,
        0,
        0,
        (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32,
    ),
    SockFilter::new((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 1, 0),
    SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX),
    SockFilter::new((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0),
];

/// An interface, frame by frame.
pub struct InterfaceLine {
    socket: Socket,
    buffer: Vec<u8>,
    mtu: usize,
    index: u32,
    /// Keeps frames from the kernel while it is open.
    _kept: Option<OwnedFd>,
}

impl InterfaceLine {
    /// Opens an interface. It then receives frames to any hardware address.
    ///
    /// # Errors
    /// The system's: packet sockets need CAP_NET_RAW, and the interface must exist.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = nix::net::if_::if_nametoindex(interface)?;
        let socket = Socket::new(Domain::PACKET, Type::RAW.nonblocking(), None)?;
        // The simulation reads slowly, so frames wait here. Without the privilege to exceed the
        // system's limit, a smaller buffer is accepted.
        if setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
            let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
        }
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        let fd = socket.as_fd();
        packet_socket::begin_offload_headers(fd)?;
        packet_socket::ignore_outgoing(fd)?;
        socket.attach_filter(&UNTAGGED)?;
        packet_socket::take_all(fd, index)?;
        let mtu = packet_socket::interface_mtu(fd, interface)?;
        convoy_kernel::packet_socket::bind(fd, index)?;
        Ok(Self { socket, buffer: vec![0; LONGEST_BYTES], mtu, index, _kept: None })
    }

    /// Keeps the kernel from receiving what the line receives, for as long as the line is there.
    /// The kernel answers ARP for, and takes packets to, all of its addresses at any interface: if
    /// it has those of the card, it would take them here unprotected.
    ///
    /// # Errors
    /// The system's: this needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN.
    pub fn kept_from_kernel(self) -> io::Result<Self> {
        let kept = packet_socket::drop_ingress(self.index)?;
        Ok(Self { _kept: Some(kept), ..self })
    }

    /// The interface's MTU when it was opened, in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// The interface's number.
    pub fn index(&self) -> u32 {
        self.index
    }
}

/// The start and the offset of a checksum that the kernel left to be computed, if it did. `None`
/// for a frame that is to be segmented, which no wire carries.
fn left_undone(header: &[u8; OFFLOAD_HEADER_BYTES]) -> Option<Option<(usize, usize)>> {
    const NEEDS_CHECKSUM: u8 = 1;
    let [flags, segmentation, _, _, _, _, start, start_high, place, place_high] = *header;
    let start = u16::from_ne_bytes([start, start_high]);
    let place = u16::from_ne_bytes([place, place_high]);
    let is_whole = segmentation == 0;
    is_whole.then(|| (flags & NEEDS_CHECKSUM != 0).then(|| (start.into(), place.into())))
}

/// Computes the checksum that the kernel would have left to its hardware; `false` if it lies
/// outside the frame.
fn finish_checksum(frame: &mut [u8], start: usize, place: usize) -> bool {
    let Some(covered) = frame.get_mut(start..).filter(|covered| place + 2 <= covered.len()) else {
        return false;
    };
    // The field already has the pseudo header's sum. 0 means no checksum in UDP (RFC 768).
    let sum = match checksum::of(covered, 0) {
        0 => u16::MAX,
        sum => sum,
    };
    covered[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

impl Line for InterfaceLine {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            let len = match recv(self.socket.as_raw_fd(), &mut self.buffer, flags) {
                Ok(len) => len,
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let Some((header, frame)) =
                self.buffer.get_mut(..len).and_then(|message| message.split_first_chunk_mut())
            else {
                continue;
            };
            let is_sound = match left_undone(header) {
                Some(Some((start, place))) => finish_checksum(frame, start, place),
                Some(None) => true,
                None => false,
            };
            if let Some(place) = buffer.get_mut(..frame.len()).filter(|_| is_sound) {
                place.copy_from_slice(frame);
                return Ok(Some(frame.len()));
            }
        }
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let parts = [IoSlice::new(&[0; OFFLOAD_HEADER_BYTES]), IoSlice::new(frame)];
        match sendmsg::<()>(self.socket.as_raw_fd(), &parts, &[], MsgFlags::MSG_DONTWAIT, None) {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_that_the_kernel_left_is_summed() {
        let mut header = [0; OFFLOAD_HEADER_BYTES];
        assert_eq!(left_undone(&header), Some(None));
        header[0] = 1;
        header[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        header[8..10].copy_from_slice(&6_u16.to_ne_bytes());
        assert_eq!(left_undone(&header), Some(Some((34, 6))));
        header[1] = 1;
        assert_eq!(left_undone(&header), None, "a frame that is to be cut");
        let mut frame = vec![3; 60];
        assert!(finish_checksum(&mut frame, 34, 6));
        assert_eq!(checksum::of(&frame[34..], 0), 0x0303, "what stood in the place is part of the sum");
        assert!(!finish_checksum(&mut frame, 34, 25) && !finish_checksum(&mut frame, 61, 0));
    }
}
