//! The outer header of tunnel mode, stored per SA and written per packet.

use convoy_packet::protocol::{AH, ESP, IPV4, IPV6, UDP};
use convoy_packet::{IpHeader, IpTemplate, IpVariables, Layout, udp};

use crate::esp::identification::OuterFlow;
use crate::ip::tos::{EcnMode, encapsulate};
use crate::sa::config::{Mode, OuterDf, SaConfig, SaEnds, UdpEncap};
use crate::sa::id::SaProtocol;

/// What an outer header takes over from the inner packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Inner {
    /// The number of its protocol: IPv4, IPv6 or AGGFRAG.
    pub(crate) next_header: u8,
    pub(crate) traffic_class: u8,
    pub(crate) dont_fragment: bool,
}

impl Inner {
    #[inline]
    pub(crate) const fn of(layout: &Layout) -> Self {
        let Layout { is_v6, traffic_class, dont_fragment, .. } = *layout;
        Self { next_header: if is_v6 { IPV6 } else { IPV4 }, traffic_class, dont_fragment }
    }
}

/// The headers before ESP or AH: IP and, if encapsulated, UDP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OuterHeader {
    ip: IpTemplate,
    /// Both 0 without UDP.
    ports: [u16; 2],
    /// The bits of the inner traffic class that are copied, and those that are set.
    copied_class: u8,
    set_class: u8,
    df: OuterDf,
    /// The total length in bytes.
    len: u8,
}

impl OuterHeader {
    pub(crate) fn new(config: &SaConfig) -> Self {
        let SaConfig { protocol, mode, local, remote, encap, df, dscp, .. } = *config;
        let ecn = if mode == Mode::Iptfs { EcnMode::Compatibility } else { config.ecn };
        let ends = SaEnds { local, remote, encap };
        // A bit that is 0 for an inner 0 and 1 for an inner 1 is copied.
        let set_class = encapsulate(0, dscp, ecn);
        let copied_class = encapsulate(0xff, dscp, ecn) & !set_class;
        Self::between(protocol, &ends, df, [copied_class, set_class])
    }

    fn between(protocol: SaProtocol, ends: &SaEnds, df: OuterDf, [copied_class, set_class]: [u8; 2]) -> Self {
        let number = if ends.encap.is_some() { UDP } else { number_of(protocol) };
        // Its hop limit is a system parameter (RFC 4301 section 5.1.2.1).
        let ip = IpTemplate::new(&IpHeader::new(number, ends.local, ends.remote));
        let len = ip.header_len() + ends.encap.map_or(0, |_| udp::HEADER_BYTES);
        let ports = ends.encap.map_or([0, 0], |encap| [encap.local_port, encap.remote_port]);
        Self { ip, ports, copied_class, set_class, df, len: len as u8 }
    }

    /// Changes the ends (NAT rebinding, MOBIKE). The protocol stays.
    pub(crate) fn set_ends(&mut self, protocol: SaProtocol, ends: &SaEnds) {
        *self = Self::between(protocol, ends, self.df, [self.copied_class, self.set_class]);
    }

    /// The bits of the traffic class that do not depend on the inner packet.
    pub(crate) fn set_class(&self) -> u8 {
        self.set_class
    }

    /// Whether it is an IPv6 header.
    pub(crate) fn is_v6(&self) -> bool {
        self.ip.is_v6()
    }

    /// The counter of IPv4's identifications that it shares with others between its ends.
    #[inline]
    pub(crate) fn flow(&self) -> OuterFlow {
        OuterFlow(self.ip.address_sum())
    }

    /// Bytes before the ESP or AH header.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// Writes the header at the start of `packet`, whose length is final.
    #[inline(always)]
    pub(crate) fn write(&self, packet: &mut [u8], inner: Inner, identification: u16) {
        let own = IpVariables {
            traffic_class: inner.traffic_class & self.copied_class | self.set_class,
            identification,
            dont_fragment: match self.df {
                OuterDf::Copy => inner.dont_fragment,
                OuterDf::Set => true,
                OuterDf::Clear => false,
            },
        };
        self.ip.write(packet, own);
        let at = self.ip.header_len();
        if at < self.len() {
            let [local_port, remote_port] = self.ports;
            write_udp(&mut packet[at..], UdpEncap { local_port, remote_port });
        }
    }
}

/// The IP protocol number of an IPsec protocol.
pub(crate) fn number_of(protocol: SaProtocol) -> u8 {
    match protocol {
        SaProtocol::Esp => ESP,
        SaProtocol::Ah => AH,
    }
}

/// Writes a UDP header at the start of `datagram`, over its whole length, with checksum 0: over
/// IPv4 as RFC 3948 section 2.1 has it, over IPv6 as RFC 6935 allows for tunnels.
pub(crate) fn write_udp(datagram: &mut [u8], ports: UdpEncap) {
    udp::write(datagram, ports.local_port, ports.remote_port);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::tos::OuterDscp;

    fn header(dscp: OuterDscp, ecn: EcnMode) -> OuterHeader {
        let [local, remote] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().expect("an address"));
        let keys = crate::KeyMaterial::new(
            "aes128gcm16".parse::<crate::Proposal>().expect("known").transform,
            vec![0; 20],
        );
        let config =
            SaConfig::new(0x1001, crate::SaDirection::Outbound, local, remote, keys.expect("20 bytes"));
        OuterHeader::new(&SaConfig { df: OuterDf::Clear, dscp, ecn, ..config })
    }

    fn inner(traffic_class: u8) -> Inner {
        Inner { next_header: IPV4, traffic_class, dont_fragment: false }
    }

    #[test]
    fn the_traffic_class_is_what_encapsulation_makes_of_the_inner_one() {
        for dscp in [OuterDscp::Copy, OuterDscp::Set(0), OuterDscp::Set(46), OuterDscp::Set(63)] {
            for ecn in [EcnMode::Normal, EcnMode::Compatibility] {
                let header = header(dscp, ecn);
                for class in 0..=255 {
                    let mut packet = [0; 20];
                    header.write(&mut packet, inner(class), 1);
                    assert_eq!(packet[1], encapsulate(class, dscp, ecn), "{dscp:?}, {ecn:?}, {class:#x}");
                }
            }
        }
    }
}
