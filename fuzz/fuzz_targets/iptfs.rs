//! Packets of all lengths cross an SA in AGGFRAG mode with any settings between two real pipelines;
//! outer packets are lost, cut, repeated and reordered meanwhile, the path shrinks, time passes and
//! SAs end. Nothing is delivered that was not sent, byte for byte, and nothing twice; if the link
//! only reorders, and within the window, all that is not counted as dropped comes, in order. No
//! frame is lost.
#![no_main]

mod bytes;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use convoy_dataplane::clock::VirtualTime;
use convoy_dataplane::pipeline::{CryptoStage, EngineSet, Pipeline, StageConfig, Timeouts};
use convoy_engine::{Engine, Software};
use convoy_ipsec::{
    Action, DropReason, Ipsec, IpsecConfig, IptfsConfig, KeyMaterial, Mode, Policy, PolicyDirection,
    Proposal, SaConfig, SaDirection, SaIndex, Selector, TunnelId, UdpEncap,
};
use convoy_packet::{FramePool, FrameSize, IpHeader, ip};
use convoy_scheduler::{CostModel, Input, SchedulerConfig};
use libfuzzer_sys::fuzz_target;

const FRAMES: [usize; 3] = [128, 12, 6];
const DROP_TIME_NS: u64 = 1_000_000_000;
/// Rounds within which everything under way must complete.
const ROUNDS: usize = 10_000;
/// Time after which reassembly of any outer datagram has been given up, in ns.
const REASSEMBLY_OVER_NS: u64 = 600_000_000_000;
/// Packets of an input; each has a number of 16 bits.
const MOST_PACKETS: usize = 4_000;
const LEAST_V6_MTU: usize = 1_280;

struct Side {
    pipeline: Pipeline,
    sa: Option<SaIndex>,
}

/// The settings that both sides share.
struct Settings {
    proposal: Proposal,
    iptfs: IptfsConfig,
    mtu: u16,
    is_outer_v6: bool,
    in_udp: bool,
}

impl Settings {
    fn of(bytes: &mut Bytes<'_>) -> Self {
        let words = ["aes128gcm16", "null-sha1", "chacha20poly1305-esn", "aes128-sha256"];
        let choice = bytes.byte();
        let is_outer_v6 = choice & 4 != 0;
        let least_mtu = if is_outer_v6 { LEAST_V6_MTU } else { 576 } as u16;
        let mtu = [1_500, least_mtu, 9_000, least_mtu + bytes.short() % 2_000][usize::from(choice >> 6)];
        let pkt_size = [0, 0, 576, 256 + bytes.short() % 1_500][usize::from(choice >> 4 & 3)];
        let timing = bytes.byte();
        Self {
            proposal: words[usize::from(choice & 3)].parse().expect("known words"),
            iptfs: IptfsConfig {
                drop_time_ns: DROP_TIME_NS,
                reorder_window: [0, 1, 3, 40][usize::from(timing & 3)],
                init_delay_ns: [0, 0, 500, 1_000_000][usize::from(timing >> 2 & 3)],
                max_queue_size: [10_485_760, 10_485_760, 20_000, 1_000][usize::from(timing >> 4 & 3)],
                dont_frag: choice & 8 != 0,
                pkt_size,
                packet_rate: [0, 0, 1_000, 1_000_000][usize::from(timing >> 6)],
            },
            mtu,
            is_outer_v6,
            in_udp: bytes.byte() & 1 != 0,
        }
    }

    fn outer(&self, side: u8) -> IpAddr {
        if self.is_outer_v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, side.into()).into()
        } else {
            Ipv4Addr::new(192, 0, 2, side).into()
        }
    }

    fn sa(&self, side: u8) -> SaConfig {
        let transform = self.proposal.transform;
        let keys = (0..transform.key_material_len()).map(|at| at as u8).collect();
        let keys = KeyMaterial::new(transform, keys).expect("its own length");
        let direction = if side == 0 { SaDirection::Outbound } else { SaDirection::Inbound };
        let encap = self.in_udp.then_some(UdpEncap { local_port: 4500, remote_port: 4500 });
        SaConfig {
            mode: Mode::Iptfs,
            iptfs: self.iptfs,
            esn: self.proposal.esn,
            encap,
            ..SaConfig::new(0x1000, direction, self.outer(side), self.outer(1 - side), keys)
        }
    }
}

fn policies() -> Vec<Policy> {
    let all = |selector: &str| Policy {
        name: selector.to_owned(),
        priority: 1,
        direction: PolicyDirection::Both,
        interface: 0,
        selector: Selector {
            local: selector.parse().expect("a selector"),
            remote: selector.parse().expect("a selector"),
        },
        action: Action::Protect(TunnelId(0)),
    };
    vec![all("0.0.0.0/0"), all("::/0")]
}

impl Side {
    fn new(side: u8, settings: &Settings, time: &VirtualTime) -> Self {
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("software"))];
        let scheduler = SchedulerConfig { window: 8, ..SchedulerConfig::default() };
        let stage = StageConfig { timeouts: Timeouts::both(u64::MAX), ..StageConfig::new(scheduler) };
        let stage = CryptoStage::new(stage, EngineSet::new(engines), time.clock()).expect("in range");
        let ipsec = Ipsec::new(IpsecConfig { flow_cache: 16, mtu: settings.mtu, ..IpsecConfig::default() });
        let pool = FramePool::new(FRAMES[0], FRAMES[1]).with_huge(FRAMES[2]);
        let mut pipeline = Pipeline::new(ipsec, stage, pool, time.clock());
        let cost = CostModel { t_init: 1_000.0, t_block: 10.0 };
        let sa = pipeline.install(&settings.sa(side), &|_, _| cost.into()).expect("a good SA");
        pipeline.ipsec_mut().set_policies(policies());
        Self { pipeline, sa: Some(sa) }
    }

    fn retire(&mut self) {
        if let Some(sa) = self.sa.take() {
            self.pipeline.retire(sa);
        }
        for _ in 0..ROUNDS {
            if self.pipeline.is_empty() && !self.pipeline.is_retiring() {
                return;
            }
            self.pipeline.pump(Input::Ended);
        }
        panic!("packets or SAs stay for ever");
    }

    fn drops(&self) -> u64 {
        self.pipeline.ipsec().counters().drops.total()
    }

    fn assert_complete(&mut self) {
        let pool = self.pipeline.pool_mut();
        assert_eq!(FrameSize::ALL.map(|size| pool.available(size)), FRAMES);
    }
}

/// What the link has done to the order of payloads.
#[derive(Default)]
struct Order {
    expected: usize,
    ahead: BTreeSet<usize>,
}

impl Order {
    /// Notes that a payload arrived; returns whether all is within a window.
    fn arrive(&mut self, number: usize, window: u16) -> bool {
        // The receiver does not know that the first was not the first.
        let is_known = number == 0 || self.expected > 0;
        self.ahead.insert(number);
        while self.ahead.remove(&self.expected) {
            self.expected += 1;
        }
        is_known && self.ahead.len() <= window.into()
    }
}

struct Test {
    settings: Settings,
    time: VirtualTime,
    now_ns: u64,
    a: Side,
    b: Side,
    sent: Vec<Vec<u8>>,
    has_come: Vec<bool>,
    /// Outer packets under way, with their numbers.
    link: Vec<(usize, Vec<u8>)>,
    left: usize,
    order: Order,
    /// Whether the link did no more so far than AGGFRAG mode makes good.
    is_gentle: bool,
    has_shrunk: bool,
    last: Option<usize>,
    refusable: u64,
}

impl Test {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let settings = Settings::of(bytes);
        let time = VirtualTime::new();
        Self {
            a: Side::new(0, &settings, &time),
            b: Side::new(1, &settings, &time),
            settings,
            time,
            now_ns: 0,
            sent: Vec::new(),
            has_come: Vec::new(),
            link: Vec::new(),
            left: 0,
            order: Order::default(),
            is_gentle: true,
            has_shrunk: false,
            last: None,
            refusable: 0,
        }
    }

    fn send(&mut self, count: u8, bytes: &mut Bytes<'_>) {
        let (kind, mut burst) = (bytes.byte(), Vec::new());
        for _ in 0..=count {
            if self.sent.len() >= MOST_PACKETS || !self.a.pipeline.has_room() {
                break;
            }
            let packet = packet(self.sent.len() as u16, kind, bytes);
            // The rest of the frame is no part of the packet.
            let padded = [&packet[..], &[0xee; 3][..usize::from(kind >> 6)]].concat();
            let Some(frame) = self.a.pipeline.pool_mut().take_filled(&padded, 0) else { break };
            let is_long_v6 = packet[0] >> 4 == 6 && packet.len() > LEAST_V6_MTU;
            self.refusable += u64::from(packet[0] >> 4 == 4 || is_long_v6);
            burst.push(frame);
            self.sent.push(packet);
            self.has_come.push(false);
        }
        self.a.pipeline.outbound(&mut burst);
        self.leave();
    }

    /// Puts what has left the sender on the link.
    fn leave(&mut self) {
        let (pool, departures) = self.a.pipeline.pool_and_departures();
        let most = match self.settings.iptfs.pkt_size {
            0 => self.settings.mtu,
            pkt_size => self.settings.mtu.min(pkt_size),
        };
        for frame in &departures.to_outside {
            assert!(self.has_shrunk || frame.len() <= most.into(), "longer than the path");
            self.link.push((self.left, frame.to_vec()));
            self.left += 1;
        }
        if self.settings.iptfs.packet_rate > 0 && !self.has_shrunk {
            let lens: BTreeSet<usize> = self.link.iter().map(|(_, packet)| packet.len()).collect();
            assert!(lens.len() <= 1, "packets of a constant rate are of several sizes: {lens:?}");
        }
        pool.give_back_burst(&mut departures.to_outside);
        // "Too big" for senders inside.
        pool.give_back_burst(&mut departures.to_inside);
    }

    fn arrive(&mut self, number: usize, packet: &[u8]) {
        let Some(frame) = self.b.pipeline.pool_mut().take_filled(packet, 64) else {
            self.is_gentle = false;
            return;
        };
        self.is_gentle &= self.order.arrive(number, self.settings.iptfs.reorder_window);
        self.b.pipeline.inbound(&mut vec![frame]);
        self.deliver();
    }

    /// Takes a packet off the link, and lets it or what is left of it arrive.
    fn cross(&mut self, what: u8, choice: u8) {
        if self.link.is_empty() {
            return;
        }
        let at = if what & 0x80 == 0 { 0 } else { usize::from(choice) % self.link.len().min(8) };
        let (number, mut packet) = self.link.remove(at);
        match what >> 3 & 0xf {
            1 => self.is_gentle = false,
            2 => {
                self.is_gentle = false;
                packet.truncate(usize::from(choice) * 8);
                self.arrive(number, &packet);
            }
            3 => {
                // A second time, now or later.
                self.arrive(number, &packet);
                let later = usize::from(choice) % (self.link.len() + 1);
                self.is_gentle = false;
                self.link.insert(later, (number, packet));
            }
            _ => self.arrive(number, &packet),
        }
    }

    fn deliver(&mut self) {
        let (pool, departures) = self.b.pipeline.pool_and_departures();
        for frame in &departures.to_inside {
            let number_at = if ip::source(frame).is_ipv4() { 4 } else { 2 };
            let number = u16::from_be_bytes([frame[number_at], frame[number_at + 1]]).into();
            assert!(self.sent.get(number).is_some_and(|sent| *sent == frame[..]), "never sent");
            assert!(!std::mem::replace(&mut self.has_come[number], true), "delivered twice");
            assert!(!self.is_gentle || self.last.is_none_or(|last| last < number), "out of order");
            self.last = Some(number);
        }
        pool.give_back_burst(&mut departures.to_inside);
    }

    fn advance(&mut self, by_ns: u64) {
        self.now_ns += by_ns;
        self.time.advance_to(self.now_ns);
        // What is missing may be given up from now on.
        self.is_gentle &= self.now_ns < DROP_TIME_NS;
    }

    fn pump(&mut self, input: Input) {
        self.a.pipeline.pump(input);
        self.leave();
        self.b.pipeline.pump(input);
        self.deliver();
    }

    /// The path takes shorter packets from now on.
    fn shrink(&mut self, choice: u8) {
        let least = if self.settings.is_outer_v6 { LEAST_V6_MTU as u16 } else { 576 };
        let (now_ns, peer) = (self.now_ns, self.settings.outer(1));
        let mtu = least + u16::from(choice) * 4;
        self.a.pipeline.ipsec_mut().tables.learn_path_mtu(now_ns, peer, mtu);
        (self.has_shrunk, self.is_gentle) = (true, false);
    }

    fn end(mut self) {
        // What waits for more packets, or for its turn, leaves.
        self.a.retire();
        self.leave();
        for (number, packet) in std::mem::take(&mut self.link) {
            self.arrive(number, &packet);
        }
        let come = self.has_come.iter().filter(|come| **come).count() as u64;
        let counted = come + self.a.drops() + self.b.drops();
        let sent = self.sent.len() as u64;
        // Where the sender had no frame for the rest of a packet, both count it.
        let is_exact = self.a.pipeline.ipsec().counters().drops.get(DropReason::NoFrame) == 0;
        let is_right = if is_exact { counted == sent } else { counted >= sent };
        assert!(!self.is_gentle || is_right, "{sent} sent, {come} came, {counted} with those dropped");
        let too_big = self.a.pipeline.ipsec().counters().drops.get(DropReason::PacketTooBig);
        let refusable = if self.settings.iptfs.dont_frag { self.refusable } else { 0 };
        assert!(self.has_shrunk || too_big <= refusable, "refused, though it may be cut");
        // Nothing waits for ever: not even without an end of the SA.
        for _ in 0..2 {
            self.now_ns += REASSEMBLY_OVER_NS;
            self.time.advance_to(self.now_ns);
            self.is_gentle = false;
            self.b.pipeline.pump(Input::Ended);
            self.b.pipeline.tick(&mut Vec::new());
            self.deliver();
        }
        self.a.assert_complete();
        self.b.assert_complete();
        self.b.retire();
        assert_eq!(self.b.pipeline.ipsec().tables.sas().count(), 0);
    }
}

/// An inner packet of any length, with its number in its header.
fn packet(number: u16, kind: u8, bytes: &mut Bytes<'_>) -> Vec<u8> {
    let is_v6 = kind & 1 != 0 || kind & 2 != 0 && number & 1 != 0;
    let least = if is_v6 { 40 } else { 20 };
    let len = match kind >> 2 & 0xf {
        0 => least,
        1 => least + 1,
        2 => usize::from(u16::MAX),
        3 => (least + usize::from(bytes.short())).min(usize::from(u16::MAX)),
        4 => LEAST_V6_MTU + usize::from(bytes.byte() & 3) - 1,
        5..=8 => least + usize::from(bytes.byte()),
        9 => 64,
        _ => least + usize::from(bytes.short()) % 2_000,
    };
    let address = |last| -> IpAddr {
        if is_v6 {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).into()
        } else {
            Ipv4Addr::new(10, 0, 0, last as u8).into()
        }
    };
    let mut packet: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31) ^ number as u8).collect();
    let mut header = IpHeader::new(253, address(1), address(2));
    (header.identification, header.dont_fragment) = (number, true);
    header.write(&mut packet);
    if is_v6 {
        packet[2..4].copy_from_slice(&number.to_be_bytes());
    }
    packet
}

fuzz_target!(|input: &[u8]| {
    let bytes = &mut Bytes(input);
    let mut test = Test::new(bytes);
    while !bytes.is_empty() {
        let (what, choice) = (bytes.byte(), bytes.byte());
        match what & 7 {
            0 | 1 => test.send(choice & 0x3f, bytes),
            2 => test.pump(if choice & 1 == 0 { Input::More } else { Input::Paused }),
            3 => test.advance(u64::from(choice) << (what >> 3)),
            4 if what >> 3 == 31 => test.a.retire(),
            4 if what >> 3 == 30 => {
                test.b.retire();
                test.is_gentle = false;
                // Fragments of outer packets, which a shorter path makes, wait all the same.
                if !test.has_shrunk {
                    test.b.assert_complete();
                }
            }
            4 if what >> 3 == 29 => test.shrink(choice),
            _ => test.cross(what, choice),
        }
        test.leave();
    }
    test.end();
});
