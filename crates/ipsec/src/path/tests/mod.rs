//! Two gateways, a toy engine, and everything that may happen between them.

mod abuse;
mod batch;
mod echo;
mod held;
mod hostile;
mod icmp_errors;
mod identification;
mod interfaces;
mod iptfs;
mod mss;
mod offload;
mod plain;
mod policy;
mod roaming;
mod room;
mod round_trip;
mod runs;
mod size;
mod upkeep;
mod walk;
mod workers;

use std::collections::HashMap;
use std::net::IpAddr;

use convoy_packet::{Frame, FramePool, FrameSize, IpHeader, Layout, checksum, ip, ipv4, udp};

use super::toy_engine::run;
use super::*;
use crate::drops::DropReason;
use crate::esp::job::{CryptoPacket, CryptoStatus, Direction};
use crate::ip::fragment::split;
use crate::sa::algorithm::{Aead, Cipher, Integrity, KeyBits, KeyMaterial, Transform};
use crate::sa::config::{IptfsConfig, Mode, NatKeepalive, OuterDf, SaEnds, UdpEncap};
use crate::sa::id::{OutboundId, SaDirection, SaProtocol, TunnelId};
use crate::spd::selector::Selector;
use crate::spd::{Action, Policy, PolicyChange, PolicyDirection, PolicyPlace, PolicyRank};

const FRAMES: [usize; 3] = [200, 100, 40];
const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
const CBC_SHA256: Transform =
    Transform::Chained { cipher: Cipher::AesCbc(KeyBits::B256), integrity: Some(Integrity::HmacSha256_128) };
const NULL_SHA1: Transform =
    Transform::Chained { cipher: Cipher::Null, integrity: Some(Integrity::HmacSha1_96) };
const ENCAP: UdpEncap = UdpEncap { local_port: 4500, remote_port: 4500 };

/// One gateway, its frames and its keys.
struct Gateway {
    ipsec: Ipsec,
    pool: FramePool,
    keys: HashMap<SaIndex, KeyMaterial>,
    now_ns: u64,
    outbound: OutboundBurst,
    inbound: InboundBurst,
}

impl Gateway {
    fn new(config: IpsecConfig) -> Self {
        Self::of(Ipsec::new(config))
    }

    fn of(ipsec: Ipsec) -> Self {
        Self {
            ipsec,
            pool: FramePool::new(FRAMES[0], FRAMES[1]).with_huge(FRAMES[2]),
            keys: HashMap::new(),
            now_ns: 1_000,
            outbound: OutboundBurst::default(),
            inbound: InboundBurst::default(),
        }
    }

    /// What came from the outside, up to what lays packets out.
    fn classify_inbound(&mut self, frames: &mut Vec<Frame>) {
        let Self { ipsec, pool, now_ns, inbound, .. } = self;
        ipsec.inbound.classify(&mut ipsec.tables, *now_ns, pool, frames, inbound);
    }

    fn finish_outbound(&mut self, done: &mut Vec<CryptoPacket>, out: &mut Vec<Frame>) {
        self.ipsec.outbound.finish(&mut self.ipsec.tables, &mut self.pool, done, out);
    }

    fn finish_inbound(&mut self, done: &mut Vec<CryptoPacket>, out: &mut Vec<Frame>) {
        let Self { ipsec, pool, now_ns, .. } = self;
        ipsec.inbound.finish(&mut ipsec.tables, *now_ns, pool, done, out);
    }

    fn expire(&mut self, now_ns: u64, events: &mut Vec<LifetimeEvent>) {
        self.ipsec.upkeep.expire(&mut self.ipsec.tables, now_ns, events);
    }

    fn move_sa(&mut self, index: SaIndex, ends: &SaEnds) -> bool {
        self.ipsec.upkeep.move_sa(&mut self.ipsec.tables, index, ends)
    }

    fn view(&self, index: SaIndex) -> SaView {
        self.ipsec.tables.sa(index).expect("installed")
    }

    fn install(&mut self, config: SaConfig) -> SaIndex {
        let keys = config.keys.clone();
        let index = self.ipsec.install(config).expect("a good SA");
        self.keys.insert(index, keys);
        index
    }

    fn frames(&mut self, packets: &[Vec<u8>]) -> Vec<Frame> {
        packets.iter().map(|packet| self.pool.take_filled(packet, 0).expect("a frame")).collect()
    }

    /// Copies what is in `frames` and gives them back.
    fn copied(&mut self, frames: &mut Vec<Frame>) -> Vec<Vec<u8>> {
        let packets = frames.iter().map(|frame| frame.to_vec()).collect();
        self.pool.give_back_burst(frames);
        packets
    }

    /// From the inside up to the engine.
    fn prepare(&mut self, packets: &[Vec<u8>]) -> Vec<CryptoPacket> {
        let mut packets = self.classify(packets);
        let mut random = |bytes: &mut [u8]| bytes.fill(0x5a);
        self.ipsec.tables.lay_out(self.now_ns, &mut packets, &mut random);
        self.drop_refused(packets)
    }

    /// From the inside up to what lays packets out.
    fn classify(&mut self, packets: &[Vec<u8>]) -> Vec<CryptoPacket> {
        let mut frames = self.frames(packets);
        let mut random = |bytes: &mut [u8]| bytes.fill(0x5a);
        self.ipsec.outbound.classify(
            &mut self.ipsec.tables,
            self.now_ns,
            &mut random,
            &mut self.pool,
            &mut frames,
            &mut self.outbound,
        );
        assert!(frames.is_empty());
        std::mem::take(&mut self.outbound.protect)
    }

    /// Finishes what may not go on, and leaves the rest.
    fn drop_refused(&mut self, mut packets: Vec<CryptoPacket>) -> Vec<CryptoPacket> {
        let is_refused = |packet: &mut CryptoPacket| matches!(packet.status, CryptoStatus::Refused(_));
        let (mut refused, mut none) = (packets.extract_if(.., is_refused).collect(), Vec::new());
        self.finish_outbound(&mut refused, &mut none);
        assert!(none.is_empty());
        packets
    }

    /// From the engine to the outside.
    fn seal(&mut self, prepared: Vec<CryptoPacket>) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for mut packet in prepared {
            run(&self.keys[&packet.sa], Direction::Seal, &mut packet);
            self.finish_outbound(&mut vec![packet], &mut out);
        }
        self.copied(&mut out)
    }

    fn send(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let prepared = self.prepare(packets);
        self.seal(prepared)
    }

    /// From the outside to the inside.
    fn receive(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut frames = self.frames(packets);
        self.classify_inbound(&mut frames);
        assert!(frames.is_empty());
        let mut out = Vec::new();
        let mut open = std::mem::take(&mut self.inbound.open);
        self.ipsec.tables.lay_out(self.now_ns, &mut open, &mut |_| {});
        for mut packet in open {
            run(&self.keys[&packet.sa], Direction::Open, &mut packet);
            self.finish_inbound(&mut vec![packet], &mut out);
        }
        self.copied(&mut out)
    }

    /// Cuts packets as a router or another peer does.
    fn cut(&mut self, packets: &[Vec<u8>], mtu: usize) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        for (number, frame) in (1..).zip(self.frames(packets)) {
            // IPv4 has an identification of its own, which AH covers.
            let id = (frame[0] >> 4 == 6).then_some(number);
            split(frame, mtu, id, &mut self.pool, &mut pieces).expect("it can be cut");
        }
        self.copied(&mut pieces)
    }

    fn reported_inside(&mut self) -> Vec<Vec<u8>> {
        let mut frames = std::mem::take(&mut self.outbound.to_inside);
        self.copied(&mut frames)
    }

    fn drops(&self, reason: DropReason) -> u64 {
        self.ipsec.counters().drops.get(reason)
    }

    /// That the SA has counted it too.
    fn sa_drops(&self, index: SaIndex, reason: DropReason) -> u64 {
        self.view(index).drops.get(reason)
    }

    /// That every frame is back, but for those in reassembly.
    fn assert_no_leak(&mut self) {
        for mut frames in [
            std::mem::take(&mut self.outbound.bypass),
            std::mem::take(&mut self.outbound.to_inside),
            std::mem::take(&mut self.inbound.bypass),
            std::mem::take(&mut self.inbound.ike),
            std::mem::take(&mut self.inbound.to_outside),
        ] {
            self.pool.give_back_burst(&mut frames);
        }
        let for_others = self.outbound.for_others.drain(..).chain(self.inbound.for_others.drain(..));
        for_others.for_each(|(_, frame)| self.pool.give_back(frame));
        let later = u64::MAX;
        let mut none = Vec::new();
        // What waits for a missing payload, and then for the one behind that.
        for later in [later / 2, later - 1] {
            let Ipsec { inbound, tables, .. } = &mut self.ipsec;
            inbound.give_up_payloads(tables, later, &mut self.pool, &mut none);
        }
        self.pool.give_back_burst(&mut none);
        self.ipsec.inbound.classify(
            &mut self.ipsec.tables,
            later,
            &mut self.pool,
            &mut Vec::new(),
            &mut self.inbound,
        );
        let available = FrameSize::ALL.map(|size| self.pool.available(size));
        assert_eq!(available, FRAMES);
    }
}

/// How two gateways are joined.
#[derive(Clone, Debug)]
struct Link {
    outer_v6: bool,
    mode: Mode,
    iptfs: IptfsConfig,
    protocol: SaProtocol,
    encap: Option<UdpEncap>,
    transform: Transform,
    mtu: u16,
    df: OuterDf,
    esn: bool,
    tfc_bytes: u16,
    decrement_ttl: bool,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            outer_v6: false,
            mode: Mode::Tunnel,
            iptfs: IptfsConfig::default(),
            protocol: SaProtocol::Esp,
            encap: None,
            transform: GCM,
            mtu: 1_500,
            df: OuterDf::Copy,
            esn: false,
            tfc_bytes: 0,
            decrement_ttl: false,
        }
    }
}

impl Link {
    fn ends(&self) -> [IpAddr; 2] {
        if self.outer_v6 {
            ["2001:db8::a", "2001:db8::b"].map(|text| text.parse().expect(text))
        } else {
            ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect(text))
        }
    }

    /// The SA of one end (0 or 1), from its own point of view.
    fn sa(&self, end: usize, direction: SaDirection) -> SaConfig {
        let ends = self.ends();
        let way = match direction {
            SaDirection::Outbound => end,
            SaDirection::Inbound => 1 - end,
        };
        let bytes = (0..self.transform.key_material_len()).map(|n| n as u8 ^ (way as u8) << 7).collect();
        let keys = KeyMaterial::new(self.transform, bytes).expect("as long as it must be");
        let mut sa = SaConfig::new(0x1001 + way as u32, direction, ends[end], ends[1 - end], keys);
        (sa.mode, sa.iptfs, sa.protocol, sa.encap) = (self.mode, self.iptfs, self.protocol, self.encap);
        // The ends have public addresses.
        sa.nat_keepalive = NatKeepalive::Always;
        (sa.df, sa.esn, sa.tfc_bytes, sa.tunnel) = (self.df, self.esn, self.tfc_bytes, TunnelId(7));
        sa
    }

    fn policies(&self, end: usize) -> Vec<Policy> {
        let networks = match (self.mode, self.outer_v6) {
            (Mode::Tunnel | Mode::Iptfs, _) => {
                vec![("10.1.0.0/16", "10.2.0.0/16"), ("2001:db8:1::/48", "2001:db8:2::/48")]
            }
            (Mode::Transport, false) => vec![("192.0.2.1", "192.0.2.2")],
            (Mode::Transport, true) => vec![("2001:db8::a", "2001:db8::b")],
        };
        let sides = networks.into_iter().map(|(a, b)| if end == 0 { (a, b) } else { (b, a) });
        sides.map(|(local, remote)| protect(local, remote)).collect()
    }

    fn gateway(&self, end: usize) -> Gateway {
        let mut gateway = Gateway::new(self.config(end));
        gateway.install(self.sa(end, SaDirection::Outbound));
        gateway.install(self.sa(end, SaDirection::Inbound));
        gateway.ipsec.set_policies(self.policies(end));
        gateway
    }

    fn config(&self, end: usize) -> IpsecConfig {
        IpsecConfig {
            mtu: self.mtu,
            inside_v6: Some("2001:db8:1::1".parse().expect("an address")),
            outside: vec![self.ends()[end]],
            decrement_ttl: self.decrement_ttl,
            ..IpsecConfig::default()
        }
    }

    fn pair(&self) -> [Gateway; 2] {
        [self.gateway(0), self.gateway(1)]
    }

    /// A packet from behind the first gateway to behind the second, `len` bytes long in all.
    fn packet(&self, inner_v6: bool, len: usize) -> Vec<u8> {
        let ends = match (self.mode, inner_v6) {
            (Mode::Transport, _) => self.ends(),
            (_, false) => ["10.1.0.5", "10.2.0.9"].map(|text| text.parse().expect(text)),
            (_, true) => ["2001:db8:1::5", "2001:db8:2::9"].map(|text| text.parse().expect(text)),
        };
        udp(ends, len)
    }
}

/// Outbound and inbound SA of a gateway made by [`Link::gateway`].
const OUT: SaIndex = SaIndex(0);
const IN: SaIndex = SaIndex(1);
const OUT_ID: OutboundId = OutboundId(0);

fn protect(local: &str, remote: &str) -> Policy {
    policy(local, remote, Action::Protect(TunnelId(7)))
}

fn policy(local: &str, remote: &str, action: Action) -> Policy {
    let selector = Selector { local: local.parse().expect(local), remote: remote.parse().expect(remote) };
    Policy {
        name: String::new(),
        priority: 10,
        direction: PolicyDirection::Both,
        interface: 0,
        selector,
        action,
    }
}

/// A UDP packet of `len` bytes in all, from port 4660 to 53; too short ones have no UDP header.
fn udp([source, destination]: [IpAddr; 2], len: usize) -> Vec<u8> {
    let header = IpHeader::new(17, source, destination);
    let at = header.header_len();
    let mut packet: Vec<u8> = (0..len).map(|n| (n.saturating_sub(at) * 31 / 7) as u8).collect();
    header.write(&mut packet);
    if len >= at + udp::HEADER_BYTES {
        udp::write(&mut packet[at..], 0x1234, 53);
        if !header.source.is_ipv4() {
            // The true checksum: a NAT's traces are mended on the way. Over IPv4 there may be none.
            let pseudo = checksum::pseudo_header(&packet, 17, len - at);
            udp::fill_checksum(&mut packet[at..], pseudo);
        }
    }
    packet
}

fn set_dont_fragment(packet: &mut [u8]) {
    packet[6] |= 0x40;
    ipv4::fill_checksum(packet);
}
