//! What another program already uses, where the kernel would silently let two programs share it.

use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP};

/// Whether there is a network interface of this name.
pub(crate) fn interface_exists(name: &str) -> bool {
    nix::net::if_::if_nametoindex(name).is_ok()
}

/// The IP protocol, ESP or AH, for which a raw socket of another program is bound to this address:
/// it would get, and answer, the same packets.
pub(crate) fn raw_protocol_taken(address: IpAddr) -> Option<u8> {
    let list = if address.is_ipv4() { "/proc/thread-self/net/raw" } else { "/proc/thread-self/net/raw6" };
    // Without /proc nothing is known, and nothing refused.
    let sockets = std::fs::read_to_string(list).ok()?;
    [ESP, AH].into_iter().find(|protocol| lists(&sockets, address, *protocol))
}

/// Whether the kernel's list of raw sockets has one bound to `address`; the protocol is in the
/// place of a port.
fn lists(sockets: &str, address: IpAddr, protocol: u8) -> bool {
    let words = |bytes: &[u8]| -> String {
        let words = bytes.chunks_exact(4).filter_map(|word| word.first_chunk::<4>());
        words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect()
    };
    let address = match address {
        IpAddr::V4(v4) => words(&v4.octets()),
        IpAddr::V6(v6) => words(&v6.octets()),
    };
    let wanted = format!("{address}:{protocol:04X}");
    sockets.lines().any(|line| line.split_whitespace().nth(1) == Some(&wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root; `make test` runs it"]
    fn raw_sockets_are_found_by_address_and_protocol() {
        convoy_kernel::testing::own_loopback();
        for here in ["127.0.0.91", "::1"] {
            let here: IpAddr = here.parse().expect("an address");
            let kind = socket2::Domain::for_address(std::net::SocketAddr::new(here, 0));
            let socket = socket2::Socket::new(kind, socket2::Type::RAW, Some(200.into()))
                .expect("raw sockets need root");
            socket.bind(&std::net::SocketAddr::new(here, 0).into()).expect("loopback");
            let list =
                if here.is_ipv4() { "/proc/thread-self/net/raw" } else { "/proc/thread-self/net/raw6" };
            let sockets = std::fs::read_to_string(list).expect("there is a /proc");
            assert!(lists(&sockets, here, 200), "{sockets}");
            assert!(!lists(&sockets, here, 201));
        }
        assert_eq!(raw_protocol_taken("127.0.0.92".parse().expect("an address")), None);
    }
}
