//! The settings of one simplex SA.

use std::net::IpAddr;

use crate::ip::tos::{EcnMode, OuterDscp};
use crate::sa::algorithm::KeyMaterial;
use crate::sa::id::{SaDirection, SaProtocol, TunnelId};

/// The mode of an SA (RFC 4301 section 4.1, RFC 9347).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A whole IP packet inside another.
    #[default]
    Tunnel,
    /// The payload of an IP packet between the SA's own endpoints.
    Transport,
    /// Whole IP packets and parts of them, several inside another (RFC 9347).
    Iptfs,
}

/// The DF bit of an outer IPv4 header (RFC 4301 section 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OuterDf {
    /// From the inner header; set for an inner IPv6 packet.
    #[default]
    Copy,
    /// Always set.
    Set,
    /// Never set: routers outside may fragment.
    Clear,
}

/// The UDP ports of an encapsulated SA (RFC 3948).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpEncap {
    /// Ours, 4500 as a rule.
    pub local_port: u16,
    /// The peer's, which a NAT may have changed; 0 is any, of an inbound SA only.
    pub remote_port: u16,
}

/// Whether the UDP flow of an encapsulated SA is kept open while nothing is sent (RFC 3948 section
/// 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NatKeepalive {
    /// If our address is private and the peer's is not, so that there is a NAT on our side.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The endpoints of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaEnds {
    /// Our outer address.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// UDP encapsulation; only ESP has it.
    pub encap: Option<UdpEncap>,
}

/// Limits after which an SA expires; `None` is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeLimits {
    /// Bytes protected, as RFC 4301 section 4.4.2.1 counts them: those to which the algorithm is
    /// applied. For ESP payload, padding and trailer, for AH the whole packet; the same at both
    /// ends.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Time since installation, in ns.
    pub time_ns: Option<u64>,
}

/// When an SA should be replaced, and when it must not be used any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Reported once.
    pub soft: LifetimeLimits,
    /// Reported once; from then on packets are dropped.
    pub hard: LifetimeLimits,
}

/// Settings of an SA in AGGFRAG mode. Names and defaults are those of Linux, which has no
/// `packet_rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptfsConfig {
    /// How long a missing payload is waited for, in ns: those behind it are held back meanwhile,
    /// and with them the packet that it continues. Inbound.
    pub drop_time_ns: u64,
    /// Payloads that are held back behind a missing one, at most. Inbound.
    pub reorder_window: u16,
    /// How long a payload with room waits for more packets, in ns; 0 is until nothing more is at
    /// hand. Outbound.
    pub init_delay_ns: u64,
    /// Bytes that may wait for their turn at a constant rate. Outbound.
    pub max_queue_size: u32,
    /// Whether inner packets always stay whole. Outbound.
    pub dont_frag: bool,
    /// The largest outer packet, in bytes; 0 is the path MTU. Outbound.
    pub pkt_size: u16,
    /// Outer packets a second, all of the same size, whatever there is to send (RFC 9347 section
    /// 2.4.1); 0 is as packets come. Outbound.
    pub packet_rate: u32,
}

impl Default for IptfsConfig {
    fn default() -> Self {
        Self {
            drop_time_ns: 1_000_000_000,
            reorder_window: 3,
            init_delay_ns: 0,
            max_queue_size: 10_485_760,
            dont_frag: false,
            pkt_size: 0,
            packet_rate: 0,
        }
    }
}

/// One simplex SA.
#[derive(Clone, Debug)]
pub struct SaConfig {
    /// The index into the receiver's SAD; 0 to 255 are reserved (RFC 4303 section 2.1).
    pub spi: u32,
    /// Its direction.
    pub direction: SaDirection,
    /// ESP or AH.
    pub protocol: SaProtocol,
    /// Tunnel, transport or AGGFRAG.
    pub mode: Mode,
    /// Settings of AGGFRAG mode; other modes do not use them.
    pub iptfs: IptfsConfig,
    /// Our outer address; unspecified accepts any, inbound only.
    pub local: IpAddr,
    /// The peer's outer address. Unspecified is not known yet: until it
    /// [moves](crate::Upkeep::move_sa) to the peer, an outbound SA does not protect its tunnel's
    /// packets.
    pub remote: IpAddr,
    /// Whether the tunnel's outbound SAs at this worker follow the source of the newest authentic
    /// packet, encapsulated or not. Inbound only.
    pub roams: bool,
    /// UDP encapsulation; `None` is plain ESP.
    pub encap: Option<UdpEncap>,
    /// Whether its UDP flow is kept open. Outbound only.
    pub nat_keepalive: NatKeepalive,
    /// Algorithms and keys.
    pub keys: KeyMaterial,
    /// Extended (64-bit) sequence numbers.
    pub esn: bool,
    /// The initial IV of a counter cipher, which each packet increments. 0 if the keys are fresh.
    /// If they may have been used before, like manual keys after a restart, a value that no packet
    /// can have used: a repeated nonce breaks such a cipher (RFC 4106 section 2, RFC 3686 section
    /// 2.1). Outbound only.
    pub iv_start: u64,
    /// The last sequence number before this SA: an outbound one continues after it, an inbound one
    /// treats it and all before it as received. 0 if the keys are fresh.
    pub sequence_start: u64,
    /// The last sequence number that may be sent, or accepted, until
    /// [`Tables::reserve_sequence`](crate::Tables::reserve_sequence) allows more, for owners that
    /// must persist numbers before they are used. Without a replay window, all are accepted.
    pub sequence_reserved: u64,
    /// Packets in the replay window, 32 to 65,536; 0 checks nothing. Inbound only.
    pub replay_window: u32,
    /// Soft and hard lifetimes.
    pub lifetime: Lifetime,
    /// The outer DSCP. In AGGFRAG mode a copy is that of the packet that begins the payload.
    pub dscp: OuterDscp,
    /// Whether ECN crosses the tunnel. In AGGFRAG mode it never does on the way out (RFC 9347
    /// section 2.2.5.2).
    pub ecn: EcnMode,
    /// The outer DF bit.
    pub df: OuterDf,
    /// Tunnel mode ESP packets are padded to this inner length, in bytes, but not beyond their path
    /// (RFC 4303 section 2.7); 0 is none.
    pub tfc_bytes: u16,
    /// The tunnel by which policies refer to it.
    pub tunnel: TunnelId,
}

impl SaConfig {
    /// An SA with default settings: ESP in tunnel mode, no encapsulation, 32-bit sequence numbers,
    /// a replay window of 1,024, no lifetimes.
    pub fn new(spi: u32, direction: SaDirection, local: IpAddr, remote: IpAddr, keys: KeyMaterial) -> Self {
        Self {
            spi,
            direction,
            protocol: SaProtocol::Esp,
            mode: Mode::Tunnel,
            iptfs: IptfsConfig::default(),
            local,
            remote,
            roams: false,
            encap: None,
            nat_keepalive: NatKeepalive::default(),
            keys,
            esn: false,
            iv_start: 0,
            sequence_start: 0,
            sequence_reserved: u64::MAX,
            replay_window: 1024,
            lifetime: Lifetime::default(),
            dscp: OuterDscp::Copy,
            ecn: EcnMode::Normal,
            df: OuterDf::Copy,
            tfc_bytes: 0,
            tunnel: TunnelId(0),
        }
    }
}
