//! Floods of a million packets per second on one worker, over ports in memory, together with a
//! peer's own traffic. Whatever the flood consists of, each of the peer's packets for which the
//! port had room must be delivered.
//!
//! Prints figures: `cargo test --release -p convoy-gateway --test floods -- --nocapture`. Without
//! optimisation, or on a busy machine, the offered rate is lower.

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::pipeline::{Clock, Pipeline};
use convoy_dataplane::worker::Worker;
use convoy_engine::{Engine, Multibuffer, Software};
use convoy_ipsec::DropReason;
use convoy_packet::protocol::{ESP, UDP};
use convoy_packet::{Frame, FramePool, IpHeader};
use convoy_port::Port;
use convoy_port::memory::{self, Memory};
use convoy_scheduler::{CostModel, Input};
use convoy_state::Starts;
use data_encoding::HEXLOWER;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Packets per second.
const FLOOD: u64 = 1_000_000;
const PEERS: u64 = 10_000;
const LENGTH: Duration = Duration::from_secs(2);
/// Capacity of a port's queue in packets, as of a network card.
const QUEUE: usize = 4096;
/// Length of the peer's packets, in bytes; the last 8 are the packet's number.
const BYTES: usize = 200;

fn config(site: u8) -> Config {
    let peer = 3 - site;
    let text = format!(
        "[[tunnel]]\nname = \"peer\"\nlocal = \"192.0.2.{site}\"\nremote = \"192.0.2.{peer}\"\nlocal_ts = [\"10.{site}.0.0/24\"]\n\
         remote_ts = [\"10.{peer}.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\nencap = \"none\"\n[tunnel.manual]\n\
         spi_in = {}\nspi_out = {}\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
        0x1000 + u32::from(site),
        0x1000 + u32::from(peer),
        HEXLOWER.encode(&[site; 20]),
        HEXLOWER.encode(&[peer; 20]),
    );
    Config::parse("site.toml", &text).expect("good")
}

fn pipeline(site: u8) -> Pipeline {
    let engine: Box<dyn Engine> = match Multibuffer::inline("engine") {
        Ok(engine) => Box::new(engine),
        Err(_) => Box::new(Software::new("engine")),
    };
    let mut costs = assemble::costs();
    costs.set_fixed("engine", CostModel { t_init: 100.0, t_block: 5.0 });
    let (config, engines) = (config(site), vec![engine]);
    let made = assemble::pipeline(&config, 0, engines, &costs, Clock::start(), &Starts::Unlimited);
    made.expect("a good configuration").0
}

/// The peer's packets, sealed in order.
fn sealed(count: u64) -> Vec<Vec<u8>> {
    let mut peer = pipeline(2);
    let mut packet = vec![0; BYTES];
    let header = IpHeader::new(UDP, [10, 2, 0, 9].into(), [10, 1, 0, 9].into());
    header.write(&mut packet);
    convoy_packet::udp::write(&mut packet[header.header_len()..], 7, 7);
    let mut all = Vec::new();
    for number in 0..count {
        packet[BYTES - 8..].copy_from_slice(&number.to_be_bytes());
        let frame = peer.pool_mut().take_filled(&packet, 64).expect("a frame");
        peer.outbound(&mut vec![frame]);
        while !peer.is_empty() {
            peer.pump(Input::Ended);
        }
        let (pool, departures) = peer.pool_and_departures();
        all.extend(departures.to_outside.iter().map(|frame| frame.to_vec()));
        pool.give_back_burst(&mut departures.to_outside);
    }
    all
}

/// Generates the packet of a flood with this number.
type Flood<'a> = &'a dyn Fn(u64, &[Vec<u8>]) -> Vec<u8>;

fn esp(spi: u32, sequence: u32) -> Vec<u8> {
    let mut packet = vec![0xa5; BYTES];
    IpHeader::new(ESP, [192, 0, 2, 2].into(), [192, 0, 2, 1].into()).write(&mut packet);
    packet[20..24].copy_from_slice(&spi.to_be_bytes());
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet
}

const FLOODS: [(&str, DropReason, Flood<'static>); 4] = [
    ("garbage", DropReason::MalformedOuter, &|number, _| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        // A version other than 4 or 6, and any length.
        let len = 1 + mixed[7] as usize % BYTES;
        mixed.iter().cycle().map(|byte| byte | 0xf0).take(len).collect()
    }),
    ("unknown SPIs", DropReason::UnknownSpi, &|number, _| esp(0x7000_0000 | number as u32, 1)),
    ("replays", DropReason::Replayed, &|_, peers| peers[0].clone()),
    // Sequence numbers ahead of all that the peer has sent, so that each ICV is verified.
    ("forged ICVs", DropReason::IntegrityFailed, &|number, _| esp(0x1001, (1 << 30) + number as u32)),
];

/// The far ends of the gateway's ports.
struct Outside {
    network: Memory,
    hosts: Memory,
    pool: FramePool,
    burst: Vec<Frame>,
}

impl Outside {
    /// Sends packets while there is room, and returns their number.
    fn send<'a>(&mut self, packets: impl Iterator<Item = &'a [u8]>) -> u64 {
        let pool = &mut self.pool;
        self.burst.extend(packets.map_while(|packet| pool.take_filled(packet, 64)));
        let sent = self.network.send(pool, &mut self.burst).expect("memory does not fail");
        pool.give_back_burst(&mut self.burst);
        sent as u64
    }

    /// Receives what was delivered inside, and returns the number of the peer's packets.
    fn delivered(&mut self) -> u64 {
        self.hosts.receive(&mut self.pool, QUEUE, &mut self.burst).expect("memory does not fail");
        let count = self.burst.iter().filter(|frame| frame.len() == BYTES).count();
        assert_eq!(count, self.burst.len(), "nothing else comes out");
        self.pool.give_back_burst(&mut self.burst);
        count as u64
    }
}

/// Counters of one flood.
#[derive(Default)]
struct Figures {
    flooded: u64,
    sent: u64,
    entered: u64,
    delivered: u64,
}

fn run(flood: Flood<'_>, peers: &[Vec<u8>]) -> (Figures, Worker) {
    let (inside, hosts) = memory::link("inside", "hosts", QUEUE, 1500);
    let (outside, network) = memory::link("outside", "network", QUEUE, 1500);
    let mut worker = Worker::new(pipeline(1), vec![Box::new(inside)], vec![Box::new(outside)]);
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let gateway = std::thread::spawn(move || {
        loop {
            let is_over = ends.load(Ordering::Acquire);
            if worker.round(true).expect("memory does not fail") {
                continue;
            }
            if is_over && worker.is_drained() {
                return worker;
            }
            worker.idle();
        }
    });
    let flood: Vec<Vec<u8>> = (0..FLOOD / 10).map(|number| flood(number, peers)).collect();
    let mut flood = flood.iter().cycle();
    let mut outside = Outside { network, hosts, pool: FramePool::new(4 * QUEUE, 0), burst: Vec::new() };
    let (mut figures, mut due, began) = (Figures::default(), 0, Instant::now());
    while began.elapsed() < LENGTH {
        let now = |rate: u64| (began.elapsed().as_nanos() * u128::from(rate) / 1_000_000_000) as u64;
        // The first packet comes before the flood, which may replay it.
        let next = (now(PEERS) as usize + 1).min(peers.len());
        figures.entered += outside.send(peers[figures.sent as usize..next].iter().map(Vec::as_slice));
        figures.sent = next as u64;
        // Packets that were due while the queue was full are lost, as on a real link.
        let burst = (now(FLOOD) - due).min(QUEUE as u64);
        due = now(FLOOD);
        figures.flooded += outside.send(flood.by_ref().take(burst as usize).map(Vec::as_slice));
        figures.delivered += outside.delivered();
    }
    let until = Instant::now() + Duration::from_secs(20);
    while figures.delivered < figures.entered && Instant::now() < until {
        figures.delivered += outside.delivered();
    }
    is_over.store(true, Ordering::Release);
    (figures, gateway.join().expect("the worker does not panic"))
}

#[test]
fn a_peer_gets_through_whatever_else_comes() {
    let peers = sealed(PEERS * LENGTH.as_secs());
    println!("| flood | flood packets/s | the peer's sent | found the queue full | delivered |");
    println!("| --- | --: | --: | --: | --: |");
    for (name, reason, flood) in FLOODS {
        // On a busy machine the worker may have no core for most of the time.
        let is_good = |(figures, _): &(Figures, Worker)| figures.delivered > figures.sent / 10;
        let run = || run(flood, &peers);
        let (figures, worker) = (0..10).map(|_| run()).find(is_good).unwrap_or_else(run);
        let Figures { flooded, sent, entered, delivered } = figures;
        let rate = flooded as f64 / LENGTH.as_secs_f64();
        println!("| {name} | {rate:.0} | {sent} | {} | {delivered} |", sent - entered);
        assert_eq!(delivered, entered, "{name}: what the port had room for is lost");
        assert!(delivered > sent / 10, "{name}: {delivered} of {sent}");
        let dropped: Vec<_> = worker.pipeline().ipsec().tables.drops().met().collect();
        assert_eq!(dropped, [(reason, flooded)], "{name}");
    }
}
