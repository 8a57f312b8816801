//! The whole path of one worker: in at a `memory` port, classified, prepared, scheduled, sealed or opened, finished, out
//! at another.

use std::fmt::Write as _;

use convoy_engine::{Engine, Multibuffer, Software};
use convoy_gateway::assemble;
use convoy_gateway::config::Config;
use convoy_gateway::costs::Costs;
use convoy_gateway::pipeline::Clock;
use convoy_gateway::state::Beginnings;
use convoy_gateway::worker::Worker;
use convoy_packet::{Frame, FramePool};
use convoy_port::Port;
use convoy_port::memory::{self, Memory};
use convoy_scheduler::CostModel;

use crate::report::{BYTES, row, table};
use crate::time::ticks;

/// SAs and packets of a burst.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 32), (100, 32), (10_000, 32)];
const WARM_UP: usize = 100;
const BURSTS_TIMED: usize = 3_001;
const LINK_PACKETS: usize = 64;
/// So that 1450 bytes and the outer headers leave whole, in bytes.
const MTU: usize = 1600;

/// The whole path of VPP 26.06 without generator and sink, one core, cycles per packet at 64, 512 and 1450 bytes, of a
/// Cascade Lake Xeon at 2.5 GHz with AVX-512: another machine than this one, most likely.
const VPP: [(&str, [[u32; 3]; 2]); 2] = [
    ("aes128gcm16", [[389, 701, 1305], [448, 1061, 1628]]),
    ("aes128-sha1", [[602, 1050, 1985], [591, 1057, 1982]]),
];

/// Two gateways that join two sites over a link, and the ends outside of them.
pub(crate) struct Rig {
    workers: [Worker; 2],
    source: Memory,
    sink: Memory,
    pool: FramePool,
    /// One for each SA, and which is next.
    packets: Vec<Vec<u8>>,
    next: usize,
    burst: Vec<Frame>,
}

impl Rig {
    pub(crate) fn new(proposal: &str, bytes: usize, sas: usize) -> Self {
        let (source, inside_a) = memory::link("source", "inside", LINK_PACKETS, MTU);
        let (outside_a, outside_b) = memory::link("outside", "outside", LINK_PACKETS, MTU);
        let (inside_b, sink) = memory::link("inside", "sink", LINK_PACKETS, MTU);
        let workers = [
            worker(&site(proposal, 1, sas), inside_a, outside_a),
            worker(&site(proposal, 2, sas), inside_b, outside_b),
        ];
        let pool = FramePool::new(2 * LINK_PACKETS, 0);
        // In an order without a pattern that a cache could learn.
        let step = |at: usize| at * 7_919 % sas;
        let packets = (0..sas).map(|at| udp_packet(bytes, step(at))).collect();
        Self { workers, source, sink, pool, packets, next: 0, burst: Vec::new() }
    }

    /// Sends one burst from end to end; the ticks that the sealing and the opening gateway took.
    pub(crate) fn run(&mut self, burst: usize) -> [u64; 2] {
        for _ in 0..burst {
            let packet = &self.packets[self.next];
            self.burst.push(self.pool.take_filled(packet, 64).expect("frames come back"));
            self.next = (self.next + 1) % self.packets.len();
        }
        self.source.send(&mut self.pool, &mut self.burst).expect("a link does not fail");
        let times = [0, 1].map(|at| {
            let began = ticks();
            self.workers[at].round(true).expect("a link does not fail");
            ticks() - began
        });
        let arrived =
            self.sink.receive(&mut self.pool, burst, &mut self.burst).expect("a link does not fail");
        assert_eq!(arrived, burst, "every packet comes out within a round");
        assert_eq!(self.burst[0].len(), self.packets[0].len());
        self.pool.give_back_burst(&mut self.burst);
        times
    }

    /// Ticks per packet of the median burst, sealing and opening: one burst is over before a busy machine interrupts it.
    fn measure(&mut self, burst: usize) -> [f64; 2] {
        let mut times = [Vec::new(), Vec::new()];
        for at in 0..WARM_UP + BURSTS_TIMED {
            let taken = self.run(burst);
            if at >= WARM_UP {
                times.iter_mut().zip(taken).for_each(|(times, taken)| times.push(taken));
            }
        }
        times.map(|mut times| {
            times.sort_unstable();
            times[times.len() / 2] as f64 / burst as f64
        })
    }
}

fn worker(config: &Config, inside: Memory, outside: Memory) -> Worker {
    let engine: Box<dyn Engine> = match Multibuffer::inline("engine") {
        Ok(engine) => Box::new(engine),
        Err(_) => Box::new(Software::new("engine")),
    };
    let mut costs = Costs::new();
    costs.state("engine", CostModel { t_init: 100.0, t_block: 5.0 });
    let (pipeline, _) =
        assemble::pipeline(config, 0, vec![engine], &costs, Clock::start(), &Beginnings::Fresh)
            .expect("a good configuration");
    Worker::new(pipeline, vec![Box::new(inside)], vec![Box::new(outside)])
}

/// Tunnels of one host each at the second site.
fn site(proposal: &str, site: u8, tunnels: usize) -> Config {
    let peer = 3 - site;
    let key_bytes = match proposal {
        "aes128gcm16" => 16 + 4,
        "aes128-sha1" => 16 + 20,
        _ => 16 + 32,
    };
    let mut text = format!("[gateway]\nmtu = {MTU}\n");
    for tunnel in 0..tunnels {
        let key = |from: u8| format!("{from:02x}{tunnel:06x}").repeat(key_bytes / 4);
        let host = |of: u8| {
            if of == 1 {
                "10.1.0.9/32".to_owned()
            } else {
                format!("10.2.{}.{}/32", tunnel >> 8, tunnel & 255)
            }
        };
        let (local_ts, remote_ts) = (host(site), host(peer));
        let spi = |of: u8| 0x10_0000 * u32::from(of) + tunnel as u32;
        let _ = write!(
            text,
            r#"
[[tunnel]]
name = "peer-{tunnel}"
local = "192.0.2.{site}"
remote = "192.0.2.{peer}"
local_ts = ["{local_ts}"]
remote_ts = ["{remote_ts}"]
esp_proposal = "{proposal}"
encap = "none"
[tunnel.manual]
spi_in = {}
spi_out = {}
key_in = "{}"
key_out = "{}"
"#,
            spi(site),
            spi(peer),
            key(peer),
            key(site),
        );
    }
    Config::parse("throughput.toml", &text).expect("a good configuration")
}

/// From the first site to a host of the second.
fn udp_packet(bytes: usize, host: usize) -> Vec<u8> {
    let [high, low] = (bytes as u16).to_be_bytes();
    let mut packet =
        vec![0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 9, 10, 2, (host >> 8) as u8, host as u8];
    let sum = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = (bytes as u16 - 20).to_be_bytes();
    packet.extend([0x10, 0, 0x10, 1, high, low, 0, 0]);
    packet.resize(bytes, 0x5c);
    packet
}

pub(crate) fn report() {
    let names = ["proposal", "way", "SAs", "burst"].map(str::to_owned).to_vec();
    let ours = BYTES.map(|bytes| format!("{bytes} B")).to_vec();
    let vpp = BYTES.map(|bytes| format!("VPP, another machine, {bytes} B")).to_vec();
    let title = format!("The whole path: cycles per packet, the median of {BURSTS_TIMED} bursts");
    table(&title, &[names, ours, vpp].concat());
    for (proposal, vpp) in VPP {
        for (sas, burst) in CASES {
            let ours = BYTES.map(|bytes| Rig::new(proposal, bytes, sas).measure(burst));
            for (way, name) in ["out", "in"].into_iter().enumerate() {
                let names = [proposal.to_owned(), name.to_owned(), sas.to_string(), burst.to_string()];
                let ours = ours.map(|times| format!("{:.0}", times[way]));
                // VPP chooses its own burst, up to 256.
                let is_comparable = burst > 1 && sas == 1;
                let vpp =
                    vpp[way].map(|cycles| if is_comparable { cycles.to_string() } else { String::new() });
                row(&[&names[..], &ours, &vpp].concat());
            }
        }
    }
}
