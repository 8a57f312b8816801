//! The whole path of one worker: received at a `memory` port, classified, prepared, scheduled,
//! encrypted or decrypted, finished, and sent at another port.

use std::fmt::Write as _;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::clock::{Clock, VirtualTime};
use convoy_dataplane::costs::Costs;
use convoy_dataplane::pipeline::PipelineResources;
use convoy_dataplane::worker::{Side, Worker};
use convoy_engine::{Engine, Multibuffer, Software};
use convoy_packet::protocol::UDP;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, FramePool, IpHeader, udp};
use convoy_port::Port;
use convoy_port::memory::{self, Memory};
use convoy_scheduler::CostModel;
use convoy_state::Starts;

use crate::headers::Headers;
use crate::report::{BYTES, row, table};
use crate::time::ticks;
use crate::{callgrind, engines};

/// Number of SAs, and packets per burst.
const CASES: [(usize, usize); 4] = [(1, 1), (1, 32), (100, 32), (10_000, 32)];
const WARM_UP: usize = 100;
const BURSTS_TIMED: usize = 3_001;
const LINK_PACKETS: usize = 64;
/// The scheduler's window, in packets.
const WINDOW: usize = 32;
/// Seed of the simulated random numbers.
const SEED: u64 = 1;
/// Simulated time per round, in ns: short enough that nothing expires during a measurement.
const ROUND_NS: u64 = 1_000;
/// MTU in bytes, large enough for 1450 bytes and the outer headers.
pub(crate) const MTU: usize = 1600;

const PROPOSALS: [&str; 2] = ["aes128gcm16", "aes128-sha1"];

/// Time of VPP 26.06's whole path beyond the cipher, in TSC cycles per packet at 64, 512 and 1450
/// bytes: without generator and sink, on one core of a Zen 5 at 2.6 GHz, with bursts of its own
/// choice. VPP checks no replay and uses no SPD in these runs.
fn vpp_beyond(proposal: &str, way: &str, sas: usize) -> [Option<u32>; 3] {
    match (proposal, way, sas) {
        ("aes128gcm16", "out", 1) => [Some(78), Some(96), Some(117)],
        ("aes128gcm16", "out", 100) => [Some(112), None, None],
        ("aes128gcm16", "in", 1) => [Some(116), None, None],
        ("aes128gcm16", "in", 100) => [Some(162), None, None],
        ("aes128-sha1", "out", 1) => [Some(58), None, Some(109)],
        ("aes128-sha1", "out", 100) => [Some(68), None, Some(164)],
        _ => [None; 3],
    }
}

/// Settings of two gateways.
pub(crate) struct Setting<'a> {
    pub(crate) proposal: &'a str,
    /// The tunnels' mode, as in the configuration.
    pub(crate) mode: &'a str,
    pub(crate) headers: Headers,
    /// Inner packet length in bytes.
    pub(crate) bytes: usize,
    pub(crate) sas: usize,
    /// The scheduler's window, in packets.
    pub(crate) window: usize,
    /// Capacity of the links in packets.
    pub(crate) link: usize,
    /// Simulated time and seeded random numbers, so that runs are reproducible; otherwise the
    /// machine's.
    pub(crate) simulated: bool,
    /// Workers of each gateway, and those of which each tunnel has SAs.
    pub(crate) workers: u16,
    pub(crate) resources: u16,
}

impl<'a> Setting<'a> {
    /// The settings for the tables of cycles.
    pub(crate) fn timed(proposal: &'a str, bytes: usize, sas: usize) -> Self {
        let mode = "tunnel";
        Self {
            proposal,
            mode,
            headers: Headers::default(),
            bytes,
            sas,
            window: WINDOW,
            link: LINK_PACKETS,
            simulated: false,
            workers: 1,
            resources: 1,
        }
    }

    fn resources(&self, time: &VirtualTime) -> PipelineResources {
        if self.simulated { PipelineResources::simulated(time, SEED) } else { Clock::start().into() }
    }
}

/// Direction as seen from the protected network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathDirection {
    /// Encrypted by the first gateway.
    Out,
    /// Decrypted by the second gateway.
    In,
}

impl PathDirection {
    /// In the order in which a packet passes them.
    pub(crate) const ALL: [Self; 2] = [Self::Out, Self::In];
}

/// Two gateways that connect two sites by a link, with a source and a sink at the outer ends.
pub(crate) struct Rig {
    workers: [Worker; 2],
    source: Memory,
    sink: Memory,
    pool: FramePool,
    /// One packet for each SA; `next` is the one to send next.
    packets: Vec<Vec<u8>>,
    next: usize,
    burst: Vec<Frame>,
    /// The workers' clock, if time is simulated.
    time: VirtualTime,
}

impl Rig {
    /// Sets up both gateways; `engine` makes the engine of each.
    pub(crate) fn new(setting: &Setting<'_>, engine: &mut dyn FnMut() -> Box<dyn Engine>) -> Self {
        let mut costs = assemble::costs();
        costs.set_fixed("engine", CostModel { t_init: 100.0, t_block: 5.0 });
        Self::with(setting, [vec![engine()], vec![engine()]], &costs)
    }

    /// Sets up the gateways with these engines (encrypting, decrypting) and costs.
    pub(crate) fn with(setting: &Setting<'_>, engines: [Vec<Box<dyn Engine>>; 2], costs: &Costs) -> Self {
        let &Setting { headers, bytes, sas, link, .. } = setting;
        let (source, inside_a) = memory::link("source", "inside", link, MTU);
        let (outside_a, outside_b) = memory::link("outside", "outside", link, MTU);
        let (inside_b, sink) = memory::link("inside", "sink", link, MTU);
        let time = VirtualTime::new();
        let [engines_a, engines_b] = engines;
        let workers = [
            worker(&site(setting, 1), engines_a, costs, setting.resources(&time), [inside_a, outside_a]),
            worker(&site(setting, 2), engines_b, costs, setting.resources(&time), [inside_b, outside_b]),
        ];
        let pool = FramePool::new(2 * link, 0);
        // A permuted order of the SAs, which caches cannot predict.
        let step = |at: usize| at * 7_919 % sas;
        let packets = (0..sas).map(|at| udp_packet(headers, bytes, step(at))).collect();
        Self { workers, source, sink, pool, packets, next: 0, burst: Vec::new(), time }
    }

    /// Sends this many packets to the first gateway.
    pub(crate) fn fill(&mut self, packets: usize) {
        for _ in 0..packets {
            let packet = &self.packets[self.next];
            self.burst.push(self.pool.take_filled(packet, 64).expect("frames come back"));
            self.next = (self.next + 1) % self.packets.len();
        }
        self.source.send(&mut self.pool, &mut self.burst).expect("a link does not fail");
    }

    /// Receives this many packets from the second gateway.
    pub(crate) fn empty(&mut self, packets: usize) {
        let arrived =
            self.sink.receive(&mut self.pool, packets, &mut self.burst).expect("a link does not fail");
        assert_eq!(arrived, packets, "every packet comes out");
        assert_eq!(self.burst[0].len(), self.packets[0].len());
        self.pool.give_back_burst(&mut self.burst);
    }

    /// Sends packets through both gateways, all available at once; `counted` says whose rounds
    /// callgrind counts.
    pub(crate) fn pass(&mut self, packets: usize, counted: [bool; 2]) {
        self.fill(packets);
        for way in PathDirection::ALL {
            self.part(way, packets, counted[way as usize]);
        }
        self.empty(packets);
    }

    /// Sends packets through both gateways, all available at once; returns the ticks of the
    /// encrypting and the decrypting gateway.
    pub(crate) fn timed_pass(&mut self, packets: usize) -> [u64; 2] {
        self.fill(packets);
        let times = PathDirection::ALL.map(|way| {
            let began = ticks();
            self.part(way, packets, false);
            ticks() - began
        });
        self.empty(packets);
        times
    }

    /// Lets one gateway process this many packets, or those that the other sent of them, in as many
    /// rounds as it needs.
    pub(crate) fn part(&mut self, way: PathDirection, packets: usize, counted: bool) {
        let side = if way == PathDirection::Out { Side::Inside } else { Side::Outside };
        let received = |worker: &Worker| worker.ports(side)[0].counters().received_packets;
        let all = match way {
            PathDirection::Out => received(&self.workers[0]) + packets as u64,
            PathDirection::In => self.outer_packets(),
        };
        let worker = &mut self.workers[way as usize];
        while received(worker) < all || !worker.is_drained() {
            self.time.advance_to(self.time.now_ns() + ROUND_NS);
            if counted {
                await_engines(worker);
            }
            callgrind::counted(counted, || worker.round(true)).expect("a link does not fail");
        }
    }

    /// Packets that the first gateway has sent to the second.
    pub(crate) fn outer_packets(&self) -> u64 {
        self.workers[0].ports(Side::Outside)[0].counters().sent_packets
    }

    /// Packets processed by each engine of a gateway.
    pub(crate) fn taken(&self, at: usize) -> Vec<u64> {
        let engines = self.workers[at].pipeline().stage().engines();
        (0..engines.len()).map(|engine| engines.counters(engine).packets).collect()
    }

    /// Sends one burst through both gateways; returns the ticks of the encrypting and the
    /// decrypting gateway.
    pub(crate) fn run(&mut self, burst: usize) -> [u64; 2] {
        self.fill(burst);
        let times = [0, 1].map(|at| {
            let began = ticks();
            self.workers[at].round(true).expect("a link does not fail");
            ticks() - began
        });
        self.empty(burst);
        times
    }

    /// Ticks per packet for encryption and decryption, as medians over bursts; a burst is short
    /// enough to be rarely interrupted.
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

/// Waits for engines on other cores, so that rounds in which nothing can progress are not counted.
fn await_engines(worker: &Worker) {
    let stage = worker.pipeline().stage();
    while stage.in_flight() > 0 && !stage.wakes() && !stage.engines().has_completions() {
        std::thread::yield_now();
    }
}

/// The engine for the tables of cycles.
pub(crate) fn usual_engine() -> Box<dyn Engine> {
    match Multibuffer::inline("engine") {
        Ok(engine) => Box::new(engine),
        Err(_) => Box::new(Software::new("engine")),
    }
}

fn worker(
    config: &Config,
    engines: Vec<Box<dyn Engine>>,
    costs: &Costs,
    resources: PipelineResources,
    [inside, outside]: [Memory; 2],
) -> Worker {
    let (pipeline, _) = assemble::pipeline(config, 0, engines, costs, resources, &Starts::Unlimited)
        .expect("a good configuration");
    Worker::new(pipeline, vec![Box::new(inside)], vec![Box::new(outside)])
}

/// The configuration of a site, with one tunnel per host at the second site.
pub(crate) fn site(setting: &Setting<'_>, site: u8) -> Config {
    let &Setting { proposal, mode, headers, sas: tunnels, window, workers, resources, .. } = setting;
    let peer = 3 - site;
    let key_bytes = match proposal {
        "aes128gcm16" => 16 + 4,
        "aes128-sha1" => 16 + 20,
        _ => 16 + 32,
    };
    let mut text = format!("[gateway]\nmtu = {MTU}\nworkers = {workers}\n[scheduler]\nwindow = {window}\n");
    for tunnel in 0..tunnels {
        let key = |from: u8| format!("{from:02x}{tunnel:06x}").repeat(key_bytes / 4);
        let (local_ts, remote_ts) = (headers.selector(site, tunnel), headers.selector(peer, tunnel));
        let spi = |of: u8| 0x10_0000 * u32::from(of) + tunnel as u32 * u32::from(resources);
        let _ = write!(
            text,
            r#"
[[tunnel]]
name = "peer-{tunnel}"
mode = "{mode}"
local = "{}"
remote = "{}"
local_ts = ["{local_ts}"]
remote_ts = ["{remote_ts}"]
esp_proposal = "{proposal}"
encap = "{}"
[tunnel.manual]
spi_in = {}
spi_out = {}
key_in = "{}"
key_out = "{}"
resources = {resources}
"#,
            headers.gateway(site),
            headers.gateway(peer),
            headers.encap(),
            spi(site),
            spi(peer),
            key(peer),
            key(site),
        );
    }
    Config::parse("throughput.toml", &text).expect("a good configuration")
}

/// A packet from the first site to a host of the second.
pub(crate) fn udp_packet(headers: Headers, bytes: usize, host: usize) -> Vec<u8> {
    let [source, destination] =
        [1, 2].map(|site| headers.host(site, host).parse().expect("an address of its family"));
    let header = IpHeader::new(UDP, source, destination);
    let mut packet = vec![0x5c; bytes];
    packet[header.header_len()..][..UDP_HEADER].fill(0);
    header.write(&mut packet);
    udp::write(&mut packet[header.header_len()..], 0x1000, 0x1001);
    packet
}

pub(crate) fn report() {
    let names = ["proposal", "way", "SAs", "burst"].map(str::to_owned).to_vec();
    let ours = BYTES.map(|bytes| format!("{bytes} B")).to_vec();
    let beyond = BYTES.map(|bytes| format!("beyond the cipher, {bytes} B")).to_vec();
    let vpp = BYTES.map(|bytes| format!("VPP beyond, {bytes} B")).to_vec();
    let title = format!("The whole path: cycles per packet, the median of {BURSTS_TIMED} bursts");
    table(&title, &[names, ours, beyond, vpp].concat());
    for proposal in PROPOSALS {
        for (sas, burst) in CASES {
            // A packet that comes alone is compared with the cipher's time for a single packet.
            let floors = BYTES.map(|bytes| engines::floor(proposal, burst, bytes));
            let ours = BYTES.map(|bytes| {
                let setting = Setting::timed(proposal, bytes, sas);
                Rig::new(&setting, &mut usual_engine).measure(burst)
            });
            for (at, way) in ["out", "in"].into_iter().enumerate() {
                let names = [proposal.to_owned(), way.to_owned(), sas.to_string(), burst.to_string()];
                let figures = ours.map(|times| format!("{:.0}", times[at]));
                let beyond = [0, 1, 2].map(|size| {
                    floors[size].map_or_else(String::new, |floor| format!("{:.0}", ours[size][at] - floor))
                });
                // VPP chooses its own burst size, up to 256.
                let vpp = if burst > 1 { vpp_beyond(proposal, way, sas) } else { [None; 3] };
                let vpp = vpp.map(|cycles| cycles.map_or_else(String::new, |cycles| cycles.to_string()));
                row(&[&names[..], &figures, &beyond, &vpp].concat());
            }
        }
    }
}
