//! News of the kernel's interfaces and addresses.

use std::io;

use rtnetlink::MulticastGroup;
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

const GROUPS: [MulticastGroup; 3] =
    [MulticastGroup::Link, MulticastGroup::Ipv4Ifaddr, MulticastGroup::Ipv6Ifaddr];
/// Messages read by one look.
const MESSAGES: usize = 1024;
/// Longest message that is read whole; what one says does not matter.
const MESSAGE_BYTES: usize = 64;

/// Whether interfaces or addresses came, went or changed. It needs no privileges.
pub struct InterfaceNews {
    socket: Socket,
    buffer: Vec<u8>,
}

impl InterfaceNews {
    /// News from now on.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        let groups = GROUPS.iter().fold(0, |groups, group| groups | 1 << (*group as u32 - 1));
        socket.bind(&SocketAddr::new(0, groups))?;
        Ok(Self { socket, buffer: Vec::with_capacity(MESSAGE_BYTES) })
    }

    /// Whether there are any since the last call.
    pub fn take(&mut self) -> bool {
        for message in 0..MESSAGES {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return message > 0,
                // Interrupted, or some were lost.
                Err(_) => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_change_there_is_no_news() {
        // Other tests may change interfaces.
        let mut news = InterfaceNews::open().expect("netlink needs no privileges");
        assert!((0..100).any(|_| !news.take()));
    }
}
