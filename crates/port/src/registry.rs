//! The kinds of port that the product has. A program passes in a table of them.

use crate::af_packet::AfPacketSettings;
use crate::af_xdp::AfXdpSettings;
use crate::contract::PortRow;
use crate::dpdk::DpdkSettings;
use crate::pcap::PcapSettings;
use crate::raw::RawSettings;
use crate::tun::TunSettings;
use crate::udp::UdpSettings;

/// The kinds that the product has.
pub const PORTS: &[PortRow] = &[
    PortRow::of::<TunSettings>(),
    PortRow::of::<UdpSettings>(),
    PortRow::of::<RawSettings>(),
    PortRow::of::<AfXdpSettings>(),
    PortRow::of::<AfPacketSettings>(),
    PortRow::of::<DpdkSettings>(),
    PortRow::of::<PcapSettings>(),
];
