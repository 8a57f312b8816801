//! The bytes that protection adds to a packet, and hence the longest packet that fits.

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{ipv4, ipv6};

use crate::esp::ah;
use crate::esp::trailer::ESP_TRAILER;
use crate::sa::algorithm::Transform;
use crate::sa::config::Mode;
use crate::sa::id::SaProtocol;

/// The bytes that an SA adds to a packet.
///
/// ```
/// use convoy_ipsec::{Envelope, Mode, Proposal, SaProtocol};
/// let proposal: Proposal = "aes128gcm16".parse().expect("known words");
/// let in_udp_over_ipv4 = Envelope::new(SaProtocol::Esp, Mode::Tunnel, proposal.transform, false,
/// true);
/// assert_eq!(in_udp_over_ipv4.inner_mtu(1_500, 20), 1_438);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    mode: Mode,
    /// The outer IP header, if there is one, and UDP's.
    outer: usize,
    /// The ESP header and IV; all of AH.
    header: usize,
    /// The multiple to which payload and trailer are padded.
    alignment: usize,
    /// ESP's pad length and next header.
    trailer: usize,
    /// The ICV behind ESP's trailer.
    icv: usize,
}

impl Envelope {
    /// The envelope of an SA whose outer packets are IPv6 or IPv4, with or without UDP.
    pub const fn new(
        protocol: SaProtocol,
        mode: Mode,
        transform: Transform,
        is_v6: bool,
        in_udp: bool,
    ) -> Self {
        let ip = match mode {
            Mode::Tunnel | Mode::Iptfs if is_v6 => ipv6::HEADER_BYTES,
            Mode::Tunnel | Mode::Iptfs => ipv4::HEADER_BYTES,
            Mode::Transport => 0,
        };
        let outer = ip + if in_udp { UDP_HEADER } else { 0 };
        match protocol {
            SaProtocol::Esp => Self {
                mode,
                outer,
                header: ESP_HEADER + transform.iv_len(),
                alignment: transform.alignment(),
                trailer: ESP_TRAILER,
                icv: transform.icv_len(),
            },
            SaProtocol::Ah => {
                let header = ah::header_len(transform.icv_len(), is_v6);
                Self { mode, outer, header, alignment: 1, trailer: 0, icv: 0 }
            }
        }
    }

    /// The longest inner packet, or AGGFRAG payload, that fits an outer one of `mtu` bytes, in
    /// bytes. In transport mode
    /// the packet keeps its own IP header of `header_len` bytes in front; in tunnel mode that does
    /// not matter.
    pub const fn inner_mtu(&self, mtu: usize, header_len: usize) -> usize {
        let kept = match self.mode {
            Mode::Tunnel | Mode::Iptfs => 0,
            Mode::Transport => header_len,
        };
        let room = mtu.saturating_sub(kept + self.outer + self.header + self.icv);
        (room / self.alignment * self.alignment).saturating_sub(self.trailer) + kept
    }

    /// The length of the outer packet of an inner one, or of an AGGFRAG payload, in bytes; the
    /// inverse of [`inner_mtu`](Self::inner_mtu).
    pub const fn outer_len(&self, inner_len: usize, header_len: usize) -> usize {
        let kept = match self.mode {
            Mode::Tunnel | Mode::Iptfs => 0,
            Mode::Transport => header_len,
        };
        let body = (inner_len - kept + self.trailer).next_multiple_of(self.alignment);
        kept + self.outer + self.header + body + self.icv
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sa::proposal::Proposal;

    #[test]
    fn the_longest_packet_that_fits_fits_and_one_byte_more_does_not() {
        for words in ["aes128gcm16", "aes256-sha256", "aes128ctr-sha1", "3des-sha1"] {
            let transform = words.parse::<Proposal>().expect(words).transform;
            for mode in [Mode::Tunnel, Mode::Transport] {
                for (is_v6, in_udp) in [(false, false), (false, true), (true, false), (true, true)] {
                    for protocol in [SaProtocol::Esp, SaProtocol::Ah] {
                        let envelope = Envelope::new(protocol, mode, transform, is_v6, in_udp);
                        for mtu in 1_280..1_320 {
                            let longest = envelope.inner_mtu(mtu, 20);
                            assert!(envelope.outer_len(longest, 20) <= mtu, "{words} {mode:?} {mtu}");
                            assert!(envelope.outer_len(longest + 1, 20) > mtu, "{words} {mode:?} {mtu}");
                        }
                    }
                }
            }
        }
    }
}
