//! The bump in the wire: what becomes of an IP packet between the kernel and the line.

use std::collections::HashSet;
use std::time::Instant;

use convoy_assembly::assemble::{EspPorts, pair_of};
use convoy_card::nic::{Arrival, NicControl, Seal};
use convoy_config::TunnelConfig;
use convoy_engine::EngineError;
use convoy_ipsec::{
    Carried, CryptoPacket, CryptoStatus, Expiry, InboundBurst, InstallError, Ipsec, IpsecConfig,
    LifetimeEvent, OutboundBurst, TunnelId, classify,
};
use convoy_packet::protocol::{AH, ESP, UDP};
use convoy_packet::{Esp, Ethernet, Frame, FramePool, Layout, MacAddress, Offload, Udp, ethernet, ip, ipv6};
use convoy_port::NATT_PORT;
use convoy_state::Starts;
use rand::Rng;

use crate::NicConfig;
use crate::sas::Engines;

/// Frames for packets under way: those in the card's queue, one packet and its fragments, and
/// fragments that wait for others.
const FRAMES: (usize, usize, usize) = (1_024, 384, 4);
/// Room behind a packet for what ESP adds, in bytes.
const TAIL_BYTES: usize = 320;
/// The longest ICV, in bytes.
const LONGEST_ICV: usize = 32;

/// Why an SA was not installed.
#[derive(Debug, thiserror::Error)]
pub enum SaRefused {
    /// By the SAD.
    #[error(transparent)]
    Sad(#[from] InstallError),
    /// By the engines.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Line,
    Kernel,
}

/// A frame that goes on.
pub(crate) struct Departure {
    pub(crate) towards: Towards,
    /// Its Ethernet header.
    pub(crate) head: [u8; ethernet::HEADER_BYTES],
    /// What follows it.
    pub(crate) packet: Frame,
}

impl Departure {
    /// How the card is to encrypt it, if it is.
    pub(crate) fn seal(&self) -> Option<Seal> {
        match self.packet.offload() {
            Offload::Seal { sa, esp_start, seq_high } => {
                Some(Seal { sa, esp_at: esp_start + ethernet::HEADER_BYTES as u16, seq_high })
            }
            Offload::None | Offload::Opened { .. } => None,
        }
    }
}

/// What becomes of a frame.
pub(crate) enum Fate {
    /// It goes on as it came: it is no IP, or no concern of IPsec's.
    Unchanged,
    /// The departures are what it has become: often one frame, or none.
    Replaced,
}

/// SAs, policies and engines between kernel and line.
pub(crate) struct Bump {
    pub(crate) ipsec: Ipsec,
    pub(crate) engines: Engines,
    pool: FramePool,
    /// The SPIs of packets from the line that are ours.
    spis: HashSet<u32>,
    /// Frames with a VLAN tag that were dropped.
    pub(crate) tagged: u64,
    frames: Vec<Frame>,
    done: Vec<CryptoPacket>,
    outbound: OutboundBurst,
    inbound: InboundBurst,
    start: Instant,
}

impl Bump {
    /// Without SAs; `mtu` is the line's, in bytes.
    pub(crate) fn new(config: &NicConfig, mtu: u16, control: NicControl) -> Self {
        let settings = IpsecConfig {
            mtu,
            outside: config.addresses.iter().map(|(address, _)| *address).collect(),
            natt_port: NATT_PORT,
            seed: rand::rng().next_u64(),
            ..IpsecConfig::default()
        };
        let mut ipsec = Ipsec::new(settings);
        ipsec.set_policies(config.policies());
        Self {
            ipsec,
            engines: Engines::new(control),
            pool: FramePool::new(FRAMES.0, FRAMES.1).with_huge(FRAMES.2),
            spis: HashSet::new(),
            tagged: 0,
            frames: Vec::new(),
            done: Vec::new(),
            outbound: OutboundBurst::default(),
            inbound: InboundBurst::default(),
            start: Instant::now(),
        }
    }

    /// Installs a tunnel's SAs; whether the card has both of them.
    ///
    /// # Errors
    /// [`SaRefused`] says by whom.
    pub(crate) fn install(&mut self, id: TunnelId, tunnel: &TunnelConfig) -> Result<bool, SaRefused> {
        let beginnings = Starts::Unlimited.of(tunnel).unwrap_or_default();
        let mut are_at_card = true;
        for (keys, beginning) in tunnel.manual.iter().zip(&beginnings) {
            self.spis.insert(keys.spi_in);
            let ports = EspPorts { received_at: NATT_PORT, sent_from: NATT_PORT };
            for sa in pair_of(tunnel, id, keys, beginning, &ports) {
                let index = self.ipsec.install(sa.clone())?;
                are_at_card &= self.engines.install(index, &sa)?;
            }
        }
        Ok(are_at_card)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Ends SAs whose lifetime is over, and returns what has expired.
    pub(crate) fn expire(&mut self) -> Vec<LifetimeEvent> {
        let (now_ns, mut events) = (self.now_ns(), Vec::new());
        self.ipsec.upkeep.expire(&mut self.ipsec.tables, now_ns, &mut events);
        for event in events.iter().filter(|event| event.expiry == Expiry::Hard) {
            if let Some(index) = self.ipsec.tables.place(event.sa) {
                self.ipsec.remove(index);
                self.engines.remove(index);
            }
        }
        self.ipsec.inbound.expire_fragments(&mut self.ipsec.tables, now_ns, &mut self.pool);
        events
    }

    /// Takes back the frame of a departure.
    pub(crate) fn give_back(&mut self, frame: Frame) {
        self.pool.give_back(frame);
    }

    /// What becomes of a frame that the kernel sends.
    pub(crate) fn sent(&mut self, bytes: &[u8], out: &mut Vec<Departure>) -> Fate {
        let Some(frame) = Ethernet::parse(bytes).ok().filter(is_ip) else { return self.no_ip(bytes) };
        let Some(packet) = self.pool.take_filled(frame.payload(), TAIL_BYTES) else { return Fate::Replaced };
        self.frames.push(packet);
        let now_ns = self.now_ns();
        let Self { ipsec, engines, pool, frames, done, outbound, .. } = self;
        let random = &mut |iv: &mut [u8]| rand::rng().fill_bytes(iv);
        ipsec.outbound.classify(&mut ipsec.tables, now_ns, random, pool, frames, outbound);
        ipsec.tables.lay_out(now_ns, &mut outbound.protect, random);
        done.extend(outbound.protect.drain(..).filter_map(|packet| engines.process(packet)));
        ipsec.outbound.finish(&mut ipsec.tables, pool, done, frames);
        let (to, from) = (frame.destination(), frame.source());
        let onwards = frames.drain(..).chain(outbound.bypass.drain(..));
        out.extend(onwards.map(|packet| departure(Towards::Line, to, from, packet)));
        // What is too big is reported to the kernel as if the next hop had.
        let reported = outbound.to_inside.drain(..);
        out.extend(reported.map(|packet| departure(Towards::Kernel, from, to, packet)));
        Fate::Replaced
    }

    /// What becomes of a frame that came from the line.
    pub(crate) fn received(&mut self, arrival: &Arrival, out: &mut Vec<Departure>) -> Fate {
        let Some(frame) = Ethernet::parse(&arrival.frame).ok().filter(is_ip) else {
            return self.no_ip(&arrival.frame);
        };
        if arrival.opened.is_none() && self.is_others_esp(frame.payload()) {
            return Fate::Unchanged;
        }
        let Some(packet) = self.packet(frame.payload(), arrival.opened) else { return Fate::Replaced };
        self.frames.push(packet);
        let now_ns = self.now_ns();
        let Self { ipsec, engines, pool, frames, done, inbound, .. } = self;
        ipsec.inbound.classify(&mut ipsec.tables, now_ns, pool, frames, inbound);
        ipsec.tables.lay_out(now_ns, &mut inbound.open, &mut |_| {});
        done.extend(inbound.open.drain(..).filter_map(|packet| match packet.status {
            CryptoStatus::Done => Some(packet),
            _ => engines.process(packet),
        }));
        ipsec.inbound.finish(&mut ipsec.tables, now_ns, pool, done, frames);
        let (to, from) = (frame.destination(), frame.source());
        let onwards = frames.drain(..).chain(inbound.bypass.drain(..)).chain(inbound.ike.drain(..));
        out.extend(onwards.map(|packet| departure(Towards::Kernel, to, from, packet)));
        let reported = inbound.to_outside.drain(..);
        out.extend(reported.map(|packet| departure(Towards::Line, from, to, packet)));
        Fate::Replaced
    }

    /// What becomes of a frame that is no IP. One with a VLAN tag may have an IP packet inside,
    /// which no policy has seen: with tunnels, it is dropped.
    fn no_ip(&mut self, bytes: &[u8]) -> Fate {
        let is_tagged = Ethernet::parse(bytes).is_ok_and(|frame| ethernet::TAGS.contains(&frame.ethertype()));
        if !is_tagged || self.spis.is_empty() {
            return Fate::Unchanged;
        }
        self.tagged += 1;
        Fate::Replaced
    }

    /// A packet from the line, as long as it was there, and marked if the card has decrypted it.
    fn packet(&mut self, bytes: &[u8], opened: Option<u32>) -> Option<Frame> {
        let mut frame = self.pool.take_filled(bytes, LONGEST_ICV)?;
        let Some(number) = opened else { return Some(frame) };
        let missing = total_len(bytes).and_then(|total| total.checked_sub(bytes.len()));
        let icv = missing.filter(|missing| *missing <= LONGEST_ICV).and_then(|len| frame.append(len).ok());
        let (Some(icv), Some(index)) = (icv, self.engines.bound(number)) else {
            self.pool.give_back(frame);
            return None;
        };
        icv.fill(0);
        frame.set_offload(Offload::Opened { sa: index.0 });
        Some(frame)
    }

    /// Whether a packet is ESP or AH with an SA that is not ours, or IKE: the kernel's own IPsec or
    /// a key daemon may know it. Fragments are reassembled before.
    fn is_others_esp(&self, packet: &[u8]) -> bool {
        let Ok(layout) = Layout::parse(packet) else { return false };
        if layout.fragment.is_some() {
            return false;
        }
        let body = layout.body(packet);
        let is_other = |esp: &[u8]| Esp::parse(esp).is_ok_and(|esp| !self.spis.contains(&esp.spi()));
        match layout.protocol {
            ESP => is_other(body),
            AH => true,
            UDP => Udp::parse(body).is_ok_and(|datagram| {
                datagram.destination_port() == NATT_PORT
                    && match classify(datagram.payload()) {
                        Carried::Esp => is_other(datagram.payload()),
                        Carried::Keepalive | Carried::Ike | Carried::Malformed => true,
                    }
            }),
            _ => false,
        }
    }
}

/// The length of a packet by its header, in bytes.
fn total_len(packet: &[u8]) -> Option<usize> {
    let (at, before) = if ip::is_v6(packet) { (4, ipv6::HEADER_BYTES) } else { (2, 0) };
    let length = packet.get(at..)?.first_chunk()?;
    Some(before + usize::from(u16::from_be_bytes(*length)))
}

fn is_ip(frame: &Ethernet<'_>) -> bool {
    [ethernet::IPV4, ethernet::IPV6].contains(&frame.ethertype())
}

fn departure(towards: Towards, to: MacAddress, from: MacAddress, packet: Frame) -> Departure {
    let ethertype = if ip::is_v6(&packet) { ethernet::IPV6 } else { ethernet::IPV4 };
    Departure { towards, head: ethernet::header(to, from, ethertype), packet }
}
