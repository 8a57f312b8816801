//! Cost of `Ipsec` for a packet beside the ciphers, by step and by the number of SAs: for
//! `callgrind`, which counts instructions without noise, and for a clock.
//!
//! ```text
//! path <out|in> <SAs> <bursts> [bytes] [packets of one SA in a row]
//! ```
//!
//! Packets come in bursts of 32, from the SAs in turn but not in the order of their indices; the
//! crypto jobs count as done. The two steps of a direction are the functions `prepare_step` and
//! `finish_step`, so that
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*prepare_step*' --toggle-collect='*finish_step*' target/release/examples/path out 100 1000
//! ```
//!
//! counts them alone. The output is in nanoseconds a packet, as medians over all bursts.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use convoy_ipsec::{
    Action, CryptoStatus, InboundBurst, Ipsec, IpsecConfig, KeyMaterial, OutboundBurst, Policy,
    PolicyDirection, Proposal, SaConfig, SaDirection, Selector, TunnelId,
};
use convoy_packet::protocol::UDP;
use convoy_packet::{Frame, FramePool, IpHeader, udp};

const BURST: usize = 32;
const NOW_NS: u64 = 1_000_000_000;

/// Source and destination of the packets of an SA.
fn inside(sa: u32) -> [Ipv4Addr; 2] {
    [Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(172, (16 + (sa >> 8)) as u8, sa as u8, 9)]
}

/// A gateway with one SA and one policy for each tunnel; `direction` is that of all SAs.
fn gateway(sas: u32, direction: SaDirection) -> Ipsec {
    let mut ipsec = Ipsec::new(IpsecConfig { seed: 7, ..IpsecConfig::default() });
    let proposal: Proposal = "aes128gcm16".parse().expect("known words");
    let outer = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<IpAddr>().expect("an address"));
    let is_sender = direction == SaDirection::Outbound;
    let [local, remote] = if is_sender { outer } else { [outer[1], outer[0]] };
    let mut policies = Vec::new();
    for sa in 0..sas {
        let keys = vec![7; proposal.transform.key_material_len()];
        let keys = KeyMaterial::new(proposal.transform, keys).expect("its own length");
        let tunnel = TunnelId(sa);
        let config = SaConfig { tunnel, ..SaConfig::new(0x1000 + sa, direction, local, remote, keys) };
        ipsec.install(config).expect("a good SA");
        let [source, destination] = inside(sa);
        let [local, remote] = if is_sender { [source, destination] } else { [destination, source] };
        let network = |address: Ipv4Addr| format!("{address}/32").parse().expect("a network");
        policies.push(Policy {
            interface: 0,
            name: format!("site {sa}"),
            priority: 10,
            direction: PolicyDirection::Both,
            selector: Selector { local: network(local), remote: network(remote) },
            action: Action::Protect(tunnel),
        });
    }
    ipsec.set_policies(policies);
    ipsec
}

fn plain_packet(sa: u32, bytes: usize) -> Vec<u8> {
    let [source, destination] = inside(sa);
    let header = IpHeader::new(UDP, source.into(), destination.into());
    let mut packet = vec![0; bytes];
    header.write(&mut packet);
    udp::write(&mut packet[header.header_len()..], 0x1234, 53);
    packet
}

/// One direction's path through `Ipsec`, in two steps around the engine.
trait Path {
    fn prepare(&mut self, frames: &mut Vec<Frame>);
    fn finish(&mut self, out: &mut Vec<Frame>);
    fn pool(&mut self) -> &mut FramePool;
}

struct Outbound {
    ipsec: Ipsec,
    pool: FramePool,
    burst: OutboundBurst,
}

impl Path for Outbound {
    fn prepare(&mut self, frames: &mut Vec<Frame>) {
        let Self { ipsec, pool, burst } = self;
        ipsec.outbound.classify(&mut ipsec.tables, NOW_NS, &mut |_| {}, pool, frames, burst);
        ipsec.tables.lay_out(NOW_NS, &mut burst.protect, &mut |_| {});
    }

    fn finish(&mut self, out: &mut Vec<Frame>) {
        let Self { ipsec, pool, burst } = self;
        burst.protect.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        ipsec.outbound.finish(&mut ipsec.tables, pool, &mut burst.protect, out);
    }

    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }
}

struct Inbound {
    ipsec: Ipsec,
    pool: FramePool,
    burst: InboundBurst,
}

impl Path for Inbound {
    fn prepare(&mut self, frames: &mut Vec<Frame>) {
        let Self { ipsec, pool, burst } = self;
        ipsec.inbound.classify(&mut ipsec.tables, NOW_NS, pool, frames, burst);
        ipsec.tables.lay_out(NOW_NS, &mut burst.open, &mut |_| {});
    }

    fn finish(&mut self, out: &mut Vec<Frame>) {
        let Self { ipsec, pool, burst } = self;
        burst.open.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        ipsec.inbound.finish(&mut ipsec.tables, NOW_NS, pool, &mut burst.open, out);
    }

    fn pool(&mut self) -> &mut FramePool {
        &mut self.pool
    }
}

#[inline(never)]
fn prepare_step<P: Path>(path: &mut P, frames: &mut Vec<Frame>) {
    path.prepare(black_box(frames));
}

#[inline(never)]
fn finish_step<P: Path>(path: &mut P, out: &mut Vec<Frame>) {
    path.finish(black_box(out));
}

fn pool() -> FramePool {
    FramePool::new(2 * BURST, 0)
}

fn outbound(sas: u32) -> Outbound {
    Outbound { ipsec: gateway(sas, SaDirection::Outbound), pool: pool(), burst: OutboundBurst::default() }
}

/// The packets of all bursts, one behind the other.
struct Input {
    bytes: Vec<u8>,
    packet_len: usize,
}

impl Input {
    fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.packet_len)
    }
}

fn plain_input(sas: u32, bursts: usize, bytes: usize, run: usize) -> Input {
    let packets: Vec<Vec<u8>> = (0..sas).map(|sa| plain_packet(sa, bytes)).collect();
    let order = (0..bursts * BURST).map(|number| number / run * 7_919 % sas as usize);
    Input { bytes: order.flat_map(|sa| packets[sa].iter().copied()).collect(), packet_len: bytes }
}

/// The other gateway's packets for the plain ones.
fn protected_input(sas: u32, plain: &Input) -> Input {
    let (mut sender, mut frames, mut out) = (outbound(sas), Vec::new(), Vec::new());
    let (mut bytes, mut packet_len) = (Vec::new(), 0);
    for packet in plain.packets() {
        frames.push(sender.pool.take_filled(packet, 64).expect("a frame"));
        sender.prepare(&mut frames);
        sender.finish(&mut out);
        for frame in out.drain(..) {
            packet_len = frame.len();
            bytes.extend_from_slice(&frame);
            sender.pool.give_back(frame);
        }
    }
    Input { bytes, packet_len }
}

fn median(mut times_ns: Vec<f64>) -> f64 {
    times_ns.sort_by(f64::total_cmp);
    times_ns[times_ns.len() / 2] / BURST as f64
}

fn measure<P: Path>(path: &mut P, input: &Input) -> [f64; 2] {
    let (mut frames, mut out) = (Vec::new(), Vec::new());
    let (mut prepare_ns, mut finish_ns) = (Vec::new(), Vec::new());
    let packets: Vec<&[u8]> = input.packets().collect();
    for burst in packets.chunks_exact(BURST) {
        frames.extend(burst.iter().map(|packet| path.pool().take_filled(packet, 64).expect("a frame")));
        let start = Instant::now();
        prepare_step(path, &mut frames);
        prepare_ns.push(start.elapsed().as_nanos() as f64);
        let start = Instant::now();
        finish_step(path, &mut out);
        finish_ns.push(start.elapsed().as_nanos() as f64);
        assert_eq!(out.len(), BURST, "no packet may be dropped");
        path.pool().give_back_burst(&mut out);
    }
    [median(prepare_ns), median(finish_ns)]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: usize| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (sas, bursts, bytes, run) = (number(1, 1) as u32, number(2, 10_000), number(3, 64), number(4, 1));
    assert!((1..=40_000).contains(&sas), "1 to 40,000 SAs");
    let plain = plain_input(sas, bursts, bytes, run);
    let way = arguments.first().map_or("out", String::as_str);
    let [prepare_ns, finish_ns] = match way {
        "out" => measure(&mut outbound(sas), &plain),
        "in" => {
            let protected = protected_input(sas, &plain);
            let ipsec = gateway(sas, SaDirection::Inbound);
            let mut path = Inbound { ipsec, pool: pool(), burst: InboundBurst::default() };
            measure(&mut path, &protected)
        }
        other => panic!("`{other}`: expected `out` or `in`"),
    };
    println!("{way}, {sas} SAs, {bytes} bytes: prepare {prepare_ns:.1}, finish {finish_ns:.1} ns a packet");
}
