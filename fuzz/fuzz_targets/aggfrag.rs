//! A peer that has the keys sends any AGGFRAG payloads in any order: the parser stays within the
//! bytes, every packet that comes out is as long as its own header says, every payload is
//! delivered, held back or counted as dropped, no more is held back than may be, and no frame is
//! lost.
#![no_main]

mod bytes;

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use convoy_ipsec::{
    Action, CryptoStatus, InboundBurst, Ipsec, IpsecConfig, IptfsConfig, KeyMaterial, Mode, Policy,
    PolicyDirection, Proposal, SaConfig, SaDirection, SaIndex, Selector, TunnelId,
};
use convoy_packet::aggfrag::{self, CONGESTION_HEADER_BYTES, HEADER_BYTES};
use convoy_packet::protocol::{AGGFRAG, ESP};
use convoy_packet::{Aggfrag, DataBlock, EspEcho, Frame, FramePool, FrameSize, IpHeader, ip};
use libfuzzer_sys::fuzz_target;

const SPI: u32 = 256;
const ICV_BYTES: usize = 12;
/// More than all SAs of a worker may hold back.
const FRAMES: [usize; 3] = [640, 16, 16];
/// Frames that all SAs of a worker may hold back or have in reassembly.
const MOST_HELD: usize = 512;
const DROP_TIME_NS: u64 = 1_000;

thread_local! {
    /// All of its frames are back after each input.
    static POOL: RefCell<FramePool> = RefCell::new(FramePool::new(FRAMES[0], FRAMES[1]).with_huge(FRAMES[2]));
}

fn all_policies() -> Vec<Policy> {
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

struct Receiver<'a> {
    ipsec: Ipsec,
    pool: &'a mut FramePool,
    sa: SaIndex,
    window: u16,
    now_ns: u64,
    inner: Vec<Frame>,
}

impl<'a> Receiver<'a> {
    fn new(bytes: &mut Bytes<'_>, pool: &'a mut FramePool) -> Self {
        let mut ipsec = Ipsec::new(IpsecConfig { flow_cache: 16, ..IpsecConfig::default() });
        let proposal: Proposal = "null-sha1".parse().expect("known words");
        let keys = KeyMaterial::new(proposal.transform, vec![7; proposal.transform.key_material_len()]);
        let [local, remote] = [1, 2].map(|last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last)));
        let base = SaConfig::new(SPI, SaDirection::Inbound, local, remote, keys.expect("its own length"));
        let window = [0, 1, 3, 64, 1_000, u16::MAX][usize::from(bytes.byte() % 6)];
        let sa = ipsec.install(SaConfig {
            mode: Mode::Iptfs,
            iptfs: IptfsConfig {
                reorder_window: window,
                drop_time_ns: DROP_TIME_NS,
                ..IptfsConfig::default()
            },
            replay_window: [0, 32, 1_024][usize::from(bytes.byte() % 3)],
            ..base
        });
        ipsec.set_policies(all_policies());
        Self { ipsec, pool, sa: sa.expect("a good SA"), window, now_ns: 1, inner: Vec::new() }
    }

    fn frames_out(&self) -> usize {
        let out = |size| self.pool.total(size) - self.pool.available(size);
        FrameSize::ALL.into_iter().map(out).sum::<usize>() - self.inner.len()
    }

    /// What has come of payloads: inner packets and drops.
    fn outcomes(&self) -> u64 {
        let counters = self.ipsec.counters();
        counters.opened + counters.drops.total()
    }

    /// Takes a payload as if an engine had opened it.
    fn take(&mut self, sequence: u32, payload: &[u8]) {
        let packet = outer(sequence, payload);
        let Some(frame) = self.pool.take_filled(&packet, 0) else { return };
        let (held, outcomes) = (self.frames_out() - 1, self.outcomes());
        let mut burst = InboundBurst::default();
        let Self { ipsec, pool, inner, now_ns, .. } = self;
        ipsec.inbound.classify(&mut ipsec.tables, *now_ns, pool, &mut vec![frame], &mut burst);
        ipsec.tables.lay_out(*now_ns, &mut burst.open, &mut |_| {});
        let pending = burst.open.iter_mut().filter(|packet| packet.status == CryptoStatus::Pending);
        pending.for_each(|packet| packet.status = CryptoStatus::Done);
        ipsec.inbound.finish(&mut ipsec.tables, *now_ns, pool, &mut burst.open, inner);
        // Behind it there may be held back what continues its packet.
        let is_accounted = held > 0 || self.frames_out() > held || self.outcomes() > outcomes;
        assert!(is_accounted || !begins_packet(payload), "a payload is gone, and not counted");
        self.check();
    }

    fn advance(&mut self, by_ns: u64) {
        self.now_ns += by_ns;
        let Self { ipsec, pool, inner, now_ns, .. } = self;
        ipsec.inbound.give_up_payloads(&mut ipsec.tables, *now_ns, pool, inner);
        assert!(ipsec.inbound.payloads_due_ns() > *now_ns, "what is due was not given up");
        self.check();
    }

    /// Holds what came out against its own headers, and what is held back against its bounds.
    fn check(&mut self) {
        for frame in &self.inner {
            assert_eq!(DataBlock::of(frame), Ok(DataBlock::Packet(frame.len())));
            assert!(ip::source(frame).is_ipv4() == (frame[0] >> 4 == 4));
        }
        self.pool.give_back_burst(&mut self.inner);
        let held = self.frames_out();
        assert!(held <= MOST_HELD.min(usize::from(self.window) + 1), "{held} frames are held");
        let counters = self.ipsec.counters();
        let counts = self.ipsec.tables.sa(self.sa).and_then(|view| view.reassembly);
        assert!(counts.is_none_or(|counts| counts == counters.unpacking));
        // A packet that was unpacked was then delivered, or dropped for what it is.
        assert!(counters.unpacking.packets >= counters.opened);
        let dropped = counters.unpacking.packets - counters.opened + counters.unpacking.lost;
        assert!(counters.drops.total() >= dropped, "drops without a reason");
    }

    /// Ends the SA with whatever it holds.
    fn end(mut self) {
        let outcomes = self.outcomes();
        let held = self.frames_out();
        self.ipsec.withdraw(self.sa);
        self.ipsec.remove(self.sa);
        assert_eq!((self.frames_out(), self.outcomes()), (0, outcomes + held as u64));
        self.advance(2 * DROP_TIME_NS);
    }
}

/// Whether the sender says that a packet begins at the front of the payload.
fn begins_packet(payload: &[u8]) -> bool {
    let Ok(view) = Aggfrag::parse(payload) else { return true };
    assert_eq!(view.header_len() + view.data().len(), payload.len());
    let block = (!view.data().is_empty()).then(|| DataBlock::of(view.data()));
    view.block_offset() == 0 && block.is_some_and(|block| block != Ok(DataBlock::Padding))
}

/// An ESP packet without encryption around a payload.
fn outer(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let address = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
    let header = IpHeader::new(ESP, address(2), address(1));
    let padding = (4 - (payload.len() + 2) % 4) % 4;
    let trailer: Vec<u8> = (1..=padding as u8).chain([padding as u8, AGGFRAG]).collect();
    let esp = [SPI.to_be_bytes(), sequence.to_be_bytes()].concat();
    let mut packet = [&[0; 20], &esp[..], payload, &trailer, &[0; ICV_BYTES]].concat();
    header.write(&mut packet);
    packet
}

/// An inner packet of nearly any length.
fn packet(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let kind = bytes.byte();
    let (is_v6, least) = if kind & 1 == 0 { (false, 20) } else { (true, 40) };
    let most = usize::from(u16::MAX);
    let len = match kind >> 1 & 7 {
        0 => least,
        1..=3 => least + usize::from(bytes.byte()),
        4 | 5 => least + usize::from(bytes.short()) % 3_000,
        6 => (least + usize::from(bytes.short())).min(most),
        _ => most,
    };
    let address = |last| -> IpAddr {
        if is_v6 { [0xfd, 0, 0, 0, 0, 0, 0, last].into() } else { Ipv4Addr::new(10, 0, 0, last as u8).into() }
    };
    let mut packet = vec![kind; len];
    IpHeader::new(253, address(1), address(2)).write(&mut packet);
    packet
}

/// The next payload of a sender that packs packets one behind the other, but may lie about each.
fn packed(bytes: &mut Bytes<'_>, rest: &mut Vec<u8>) -> Vec<u8> {
    let (room, lie) = (usize::from(bytes.short()) % 2_000, bytes.byte());
    let header = if lie & 1 == 0 { HEADER_BYTES } else { CONGESTION_HEADER_BYTES };
    let mut payload = vec![0; header];
    let offset = match lie >> 1 & 0x1f {
        0 => bytes.short(),
        1 => (rest.len() as u16).wrapping_add(1),
        2 => (rest.len() as u16).wrapping_sub(1),
        _ => rest.len() as u16,
    };
    aggfrag::write(&mut payload, offset);
    payload[0] = (header == CONGESTION_HEADER_BYTES).into();
    let mut data = std::mem::take(rest);
    while data.len() < room && !bytes.is_empty() && lie >> 6 != 3 {
        data.extend(packet(bytes));
    }
    *rest = data.split_off(room.min(data.len()));
    if lie >> 6 == 2 {
        rest.clear();
    }
    payload.extend(data);
    payload
}

fuzz_target!(|input: &[u8]| {
    let _ = (Aggfrag::parse(input).map(|view| view.block_offset()), DataBlock::of(input));
    if let Ok(echo) = EspEcho::parse(input) {
        assert_eq!(echo.data(input).len(), usize::from(echo.data_len));
    }
    let bytes = &mut Bytes(input);
    POOL.with_borrow_mut(|pool| {
        let mut receiver = Receiver::new(bytes, pool);
        let (mut next, mut rest) = (1_000u32, Vec::new());
        while !bytes.is_empty() {
            let step = bytes.byte();
            let sequence = match step >> 4 {
                0 => next.wrapping_add(u32::from(bytes.byte())),
                1 => next.wrapping_sub(u32::from(bytes.byte())),
                2 => u32::from(bytes.short()),
                _ => next,
            };
            match step & 0xf {
                0 => receiver.advance(u64::from(bytes.byte()) * 16),
                1 => receiver.take(sequence, bytes.some()),
                2 => next = sequence,
                _ => receiver.take(sequence, &packed(bytes, &mut rest)),
            }
            if sequence == next {
                next = next.wrapping_add(1);
            }
        }
        receiver.end();
    });
});
