//! The kinds of port that the product has. A program passes in a table of them.

use crate::af_packet::AfPacketSettings;
use crate::af_xdp::AfXdpSettings;
use crate::contract::PortKindRow;
use crate::dpdk::DpdkSettings;
use crate::pcap::PcapSettings;
use crate::raw::RawSettings;
use crate::tun::TunSettings;
use crate::udp::UdpSettings;

/// The kinds that the product has.
pub const PORTS: &[PortKindRow] = &[
    PortKindRow::of::<TunSettings>(),
    PortKindRow::of::<UdpSettings>(),
    PortKindRow::of::<RawSettings>(),
    PortKindRow::of::<AfXdpSettings>(),
    PortKindRow::of::<AfPacketSettings>(),
    PortKindRow::of::<DpdkSettings>(),
    PortKindRow::of::<PcapSettings>(),
];
