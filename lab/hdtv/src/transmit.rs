//! Sends packets directly from a frame: `sendmsg(2)` gathers headers and pixels, and the kernel
//! splits the message into datagrams (`UDP_SEGMENT`).

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::layout::{Layout, padding};

/// Datagrams per message that every kernel accepts.
pub(crate) const MOST_SEGMENTS: usize = 64;
/// Largest message in bytes.
const MESSAGE_BYTES: usize = 65_487;
/// Requested size of the socket buffer in bytes.
const SOCKET_BUFFER: usize = 4 << 20;

/// Opens a socket connected to one address.
///
/// # Errors
/// If there is no route to it.
pub(crate) fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
    if setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    }
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Groups the packets of a frame into messages of at most `most` packets. The packets of a message
/// are of one field, and of one length but for the last one.
pub(crate) fn messages(layout: &Layout, most: usize) -> Vec<Range<usize>> {
    let most = most.clamp(1, MOST_SEGMENTS).min(MESSAGE_BYTES / layout.packet_bytes()).max(1);
    let mut messages: Vec<Range<usize>> = Vec::new();
    for (at, plan) in layout.packets().iter().enumerate() {
        match messages.last_mut() {
            Some(last) if last.len() < most && layout.packets()[last.start].field == plan.field => {
                last.end = at + 1
            }
            _ => messages.push(at..at + 1),
        }
    }
    messages
}

/// Sends packets of a frame in one system call.
///
/// # Errors
/// The kernel's.
pub(crate) fn send(
    socket: &UdpSocket,
    layout: &Layout,
    packets: &Range<usize>,
    frame: &[u8],
) -> io::Result<()> {
    let plans = &layout.packets()[packets.clone()];
    let mut pieces = Vec::with_capacity(3 * plans.len());
    for plan in plans {
        pieces.push(IoSlice::new(layout.header(plan)));
        pieces.push(IoSlice::new(&frame[plan.data.clone()]));
        if plan.padding > 0 {
            pieces.push(IoSlice::new(padding(plan.padding)));
        }
    }
    let segment = layout.packet_bytes() as u16;
    let segments = [ControlMessage::UdpGsoSegments(&segment)];
    let control = if plans.len() > 1 { &segments[..] } else { &[] };
    sendmsg::<()>(socket.as_fd().as_raw_fd(), &pieces, control, MsgFlags::empty(), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn messages_hold_every_packet_and_no_two_fields() {
        let format: Format = "64x16i50".parse().expect("a name");
        let layout = Layout::new(&format, 200, 1).expect("fits");
        let count = layout.packets().len();
        for most in [1, 3, 1000] {
            let messages = messages(&layout, most);
            assert_eq!(messages.iter().map(Range::len).sum::<usize>(), count);
            assert!(messages.iter().all(|message| {
                let plans = &layout.packets()[message.clone()];
                let is_last = |at| at + 1 == plans.len();
                message.len() <= most.min(MOST_SEGMENTS)
                    && plans.iter().all(|plan| plan.field == plans[0].field)
                    && (0..plans.len()).all(|at| is_last(at) || layout.len_of(&plans[at]) == 200)
            }));
        }
        let jumbo = Layout::new(&"720p60".parse().expect("a name"), 8972, 1).expect("fits");
        assert!(messages(&jumbo, 64).iter().all(|message| message.len() <= 7));
    }
}
