//! The kind of a packet from the outside, by its headers.

use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Layout, Udp};

use crate::nat::carried::{Carried, classify};
use crate::sa::id::SaProtocol;

/// IKE's port (RFC 7296 section 2).
const IKE_PORT: u16 = 500;

/// The kind of an outside packet, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutsideKind {
    /// ESP or AH; the header is at `at`, and the protected part ends at `end`.
    Protected {
        protocol: SaProtocol,
        spi: u32,
        at: usize,
        end: usize,
        in_udp: bool,
    },
    Ike,
    Keepalive,
    Plain,
    /// One of the above, cut short.
    Short,
}

impl OutsideKind {
    /// The kind of a packet to one of our own addresses.
    #[inline]
    pub(super) fn of(packet: &[u8], layout: &Layout, natt_port: u16) -> Self {
        let (at, body) = (layout.payload, layout.body(packet));
        let end = layout.total_len;
        let protected = |protocol, spi| Self::Protected { protocol, spi, at, end, in_udp: false };
        match layout.protocol {
            ESP => Esp::parse(body).map_or(Self::Short, |esp| protected(SaProtocol::Esp, esp.spi())),
            AH => Ah::parse(body).map_or(Self::Short, |ah| protected(SaProtocol::Ah, ah.spi())),
            UDP => Udp::parse(body).map_or(Self::Short, |udp| Self::of_udp(udp, at, natt_port)),
            _ => Self::Plain,
        }
    }

    fn of_udp(datagram: Udp<'_>, at: usize, natt_port: u16) -> Self {
        match datagram.destination_port() {
            IKE_PORT => Self::Ike,
            port if port == natt_port => match (classify(datagram.payload()), Esp::parse(datagram.payload()))
            {
                (Carried::Keepalive, _) => Self::Keepalive,
                (Carried::Ike, _) => Self::Ike,
                (Carried::Esp, Ok(esp)) => {
                    let (protocol, spi) = (SaProtocol::Esp, esp.spi());
                    // The datagram's own length counts: IP may carry more behind it.
                    let end = at + usize::from(datagram.length());
                    Self::Protected { protocol, spi, at: at + UDP_HEADER, end, in_udp: true }
                }
                (Carried::Esp | Carried::Malformed, _) => Self::Short,
            },
            _ => Self::Plain,
        }
    }
}
