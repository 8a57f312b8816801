//! Sends packets directly from a frame: `sendmsg(2)` gathers headers and pixels, and the kernel
//! splits the message into datagrams (`UDP_SEGMENT`).

use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::group::{GROUP_TTL, GroupError, Interface, set_ttl, with_scope};
use crate::layout::{Layout, PacketPlan};

/// Datagrams per message that every kernel accepts.
pub(crate) const MOST_SEGMENTS: usize = 64;
/// Largest message in bytes.
const MESSAGE_BYTES: usize = 65_487;
/// Requested size of the socket buffer in bytes.
const SOCKET_BUFFER: usize = 4 << 20;

/// How packets leave this host.
#[derive(Clone, Debug)]
pub struct Route {
    /// Address and port of RTP: of one receiver, or of a multicast group. RTCP goes to the next
    /// port.
    pub to: SocketAddr,
    /// The interface that they leave by. Without one, the routes choose it.
    pub interface: Option<Interface>,
    /// TTL or hop limit. `None` for [`GROUP_TTL`](crate::GROUP_TTL) to a group and for the system's
    /// to one receiver.
    pub ttl: Option<u8>,
}

impl Route {
    /// Opens a socket that sends to this address and is connected to its RTP port.
    ///
    /// # Errors
    /// If the interface cannot be used, or no route leads to the address.
    pub(crate) fn connect(&self) -> Result<UdpSocket, GroupError> {
        let socket = self.open()?;
        self.connected(&socket, self.address(self.to.port()))?;
        Ok(socket.into())
    }

    /// Opens a socket for RTCP; returns the address to send to as well. Receivers of a group answer
    /// from addresses of their own, so this socket is connected only to a single receiver.
    ///
    /// # Errors
    /// If the interface cannot be used, or no route leads to the address.
    pub(crate) fn open_control(&self) -> Result<(UdpSocket, SocketAddr), GroupError> {
        let socket = self.open()?;
        let to = self.address(self.to.port().wrapping_add(1));
        if !to.ip().is_multicast() {
            self.connected(&socket, to)?;
        }
        socket.set_nonblocking(true).map_err(|error| GroupError::Send { to, error })?;
        Ok((socket.into(), to))
    }

    /// The TTL of packets to a group; `None` where the destination is none.
    pub(crate) fn group_ttl(&self) -> Option<u8> {
        self.to.ip().is_multicast().then_some(self.ttl.unwrap_or(GROUP_TTL))
    }

    /// The address of this host from which packets are sent.
    ///
    /// # Errors
    /// If the interface cannot be used, or no route leads to the address.
    pub(crate) fn source_address(&self) -> Result<IpAddr, GroupError> {
        let address = self.connect()?.local_addr().map_err(|error| self.cannot_send(error))?;
        Ok(address.ip())
    }

    fn open(&self) -> Result<Socket, GroupError> {
        let failed = |error| self.cannot_send(error);
        let socket =
            Socket::new(Domain::for_address(self.to), Type::DGRAM, Some(Protocol::UDP)).map_err(failed)?;
        if let Some(interface) = &self.interface {
            interface.bind(&socket)?;
        }
        if let Some(ttl) = self.group_ttl().or(self.ttl) {
            set_ttl(&socket, self.to.ip(), ttl).map_err(failed)?;
        }
        if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
            let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
        }
        Ok(socket)
    }

    fn address(&self, port: u16) -> SocketAddr {
        let mut address = self.to;
        address.set_port(port);
        with_scope(address, self.interface.as_ref())
    }

    fn connected(&self, socket: &Socket, to: SocketAddr) -> Result<(), GroupError> {
        socket.connect(&to.into()).map_err(|error| match error.kind() {
            // IPv6 has routes to groups, but only link-local ones, without an address to send from.
            ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable
                if to.ip().is_multicast() && self.interface.is_none() =>
            {
                GroupError::NoRoute(to.ip())
            }
            _ => GroupError::Send { to, error },
        })
    }

    fn cannot_send(&self, error: io::Error) -> GroupError {
        GroupError::Send { to: self.to, error }
    }
}

/// Groups the packets of a frame into bursts of at most `most` packets of one field, which are also
/// few enough for one message.
pub(crate) fn bursts(layout: &Layout, most: usize) -> Vec<Range<usize>> {
    let most = most.clamp(1, MOST_SEGMENTS).min(MESSAGE_BYTES / layout.packet_bytes().max(1)).max(1);
    let mut bursts: Vec<Range<usize>> = Vec::new();
    for (at, plan) in layout.packets().iter().enumerate() {
        match bursts.last_mut() {
            Some(last) if last.len() < most && layout.packets()[last.start].field == plan.field => {
                last.end = at + 1
            }
            _ => bursts.push(at..at + 1),
        }
    }
    bursts
}

/// Number of leading packets that the kernel takes as one message: all of one length but for the
/// last one, which may be shorter.
fn message_len(layout: &Layout, plans: &[PacketPlan]) -> usize {
    let Some(first) = plans.first() else { return 0 };
    let longest = layout.len_of(first);
    let equal = plans.iter().take_while(|plan| layout.len_of(plan) == longest).count();
    let is_shorter = plans.get(equal).is_some_and(|plan| layout.len_of(plan) < longest);
    equal + usize::from(is_shorter)
}

/// Sends a burst with one system call for each message that it takes.
///
/// # Errors
/// The kernel's. Packets of earlier messages have been sent then.
pub(crate) fn send(
    socket: &UdpSocket,
    layout: &Layout,
    packets: &Range<usize>,
    frame: &[u8],
) -> io::Result<()> {
    let mut rest = &layout.packets()[packets.clone()];
    while !rest.is_empty() {
        let (message, behind) = rest.split_at(message_len(layout, rest));
        send_message(socket, layout, message, frame)?;
        rest = behind;
    }
    Ok(())
}

fn send_message(socket: &UdpSocket, layout: &Layout, plans: &[PacketPlan], frame: &[u8]) -> io::Result<()> {
    let mut pieces = Vec::with_capacity(2 * plans.len());
    for plan in plans {
        pieces.push(IoSlice::new(layout.header(plan)));
        pieces.push(IoSlice::new(&frame[plan.data.clone()]));
    }
    let segment = plans.first().map_or(0, |first| layout.len_of(first)) as u16;
    let segments = [ControlMessage::UdpGsoSegments(&segment)];
    let control = if plans.len() > 1 { &segments[..] } else { &[] };
    sendmsg::<()>(socket.as_fd().as_raw_fd(), &pieces, control, MsgFlags::empty(), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Depth, Format};

    #[test]
    fn bursts_hold_every_packet_and_no_two_fields() {
        let format: Format = "64x16i50".parse().expect("a name");
        let layout = Layout::new(&format, 200, 1).expect("fits");
        let count = layout.packets().len();
        for most in [1, 3, 1000] {
            let bursts = bursts(&layout, most);
            assert_eq!(bursts.iter().map(Range::len).sum::<usize>(), count);
            assert!(bursts.iter().all(|burst| {
                let plans = &layout.packets()[burst.clone()];
                burst.len() <= most.min(MOST_SEGMENTS)
                    && plans.iter().all(|plan| plan.field == plans[0].field)
                    && message_len(&layout, plans) == plans.len()
            }));
        }
        let jumbo = Layout::new(&"720p60".parse().expect("a name"), 8952, 1).expect("fits");
        assert!(bursts(&jumbo, 64).iter().all(|burst| burst.len() <= 8));
    }

    #[test]
    fn a_message_ends_with_the_first_shorter_packet() {
        let format: Format = "720p60".parse().expect("a name");
        let layout = Layout::new(&format.with_depth(Depth::Ten), 1452, 1).expect("fits");
        let lengths: Vec<_> = layout.packets()[..4].iter().map(|plan| layout.len_of(plan)).collect();
        assert_eq!(lengths, [1090, 1090, 1080, 1090]);
        let len = |from: usize, to: usize| message_len(&layout, &layout.packets()[from..to]);
        assert_eq!([len(0, 16), len(1, 16), len(2, 16), len(0, 2)], [3, 2, 1, 2]);
        assert_eq!(len(0, 0), 0);
    }
}
