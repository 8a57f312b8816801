//! SAs are installed, removed and moved, and policies change, while packets are under way in two
//! real pipelines. No frame is lost, nothing is delivered that was not sent, and removed SAs are
//! freed in the end.
#![no_main]

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr};

use convoy_dataplane::clock::VirtualTime;
use convoy_dataplane::pipeline::{CryptoStage, EngineSet, Pipeline, StageConfig, Timeouts};
use convoy_engine::{Engine, FaultPlan, Faulty, InjectedFault, Software};
use convoy_ipsec::{
    Action, Ipsec, IpsecConfig, KeyMaterial, Policy, PolicyDirection, Proposal, SaConfig, SaDirection,
    SaEnds, SaIndex, Selector, TunnelId,
};
use convoy_packet::{Frame, FramePool, FrameSize, IpHeader};
use convoy_scheduler::{CostModel, Input, SchedulerConfig};
use libfuzzer_sys::fuzz_target;

const TUNNELS: u8 = 3;
const FRAMES: (usize, usize) = (96, 8);
/// Rounds within which everything under way must complete.
const ROUNDS: usize = 10_000;

/// Time after which reassembly of any datagram has been given up, in ns.
const REASSEMBLY_OVER_NS: u64 = 600_000_000_000;

/// A gateway without ports.
struct Side {
    number: u8,
    time: VirtualTime,
    pipeline: Pipeline,
    sas: Vec<(SaIndex, SaDirection)>,
}

/// An outer address of a side, which may move to another.
fn outer(side: u8, place: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, 1 + side + 8 * (place % 3)).into()
}

fn inner(side: u8, tunnel: u8) -> IpAddr {
    Ipv4Addr::new(10, 1 + side, tunnel, 1).into()
}

fn selector(side: u8, tunnel: u8) -> convoy_ipsec::TrafficSelector {
    format!("10.{}.{tunnel}.0/24", 1 + side).parse().expect("a selector")
}

impl Side {
    fn new(number: u8, seed: u64) -> Self {
        let slow = FaultPlan {
            seed,
            faults: vec![InjectedFault::Slow { polls: 6 }],
            after: 0..=3,
            times: u32::MAX,
            probes: Some(0),
        };
        let engines: Vec<Box<dyn Engine>> = vec![
            Box::new(Software::new("quick")),
            Box::new(Faulty::new(Box::new(Software::new("slow")), slow)),
        ];
        let time = VirtualTime::new();
        let clock = time.clock();
        let scheduler = SchedulerConfig { window: 8, ..SchedulerConfig::default() };
        // Without timeouts: an engine must not be quarantined with its frames only because this
        // process was delayed.
        let stage = StageConfig { timeouts: Timeouts::both(u64::MAX), ..StageConfig::new(scheduler) };
        let stage = CryptoStage::new(stage, EngineSet::new(engines), clock.clone()).expect("in range");
        let ipsec = Ipsec::new(IpsecConfig { flow_cache: 16, ..IpsecConfig::default() });
        let pipeline = Pipeline::new(ipsec, stage, FramePool::new(FRAMES.0, FRAMES.1), clock);
        Self { number, time, pipeline, sas: Vec::new() }
    }

    /// Installs the SA of a tunnel. There are four tunnels in each direction, whose keys the other
    /// side has as well.
    fn install(&mut self, choice: u8) {
        let (tunnel, generation) = (choice % TUNNELS, choice / 4 % 4);
        let direction = if choice & 0x40 == 0 { SaDirection::Outbound } else { SaDirection::Inbound };
        let sender = if direction == SaDirection::Outbound { self.number } else { 1 - self.number };
        let words =
            ["aes128gcm16", "aes128-sha256", "chacha20poly1305-esn", "null-sha1"][usize::from(generation)];
        let proposal: Proposal = words.parse().expect("known words");
        let bytes =
            (0..proposal.transform.key_material_len()).map(|at| at as u8 ^ tunnel ^ sender << 7).collect();
        let keys = KeyMaterial::new(proposal.transform, bytes).expect("its own length");
        let spi = 0x1000 + u32::from(tunnel) * 16 + u32::from(generation) * 2 + u32::from(sender);
        let base = SaConfig::new(spi, direction, outer(self.number, 0), outer(1 - self.number, 0), keys);
        let sa = SaConfig { esn: proposal.esn, tunnel: TunnelId(tunnel.into()), ..base };
        // There may be an SA with this SPI already.
        if let Ok(index) =
            self.pipeline.install(&sa, &|_, _| CostModel { t_init: 1_000.0, t_block: 10.0 }.into())
        {
            self.sas.push((index, direction));
        }
    }

    fn retire(&mut self, choice: u8) {
        if !self.sas.is_empty() {
            let (sa, _) = self.sas.swap_remove(usize::from(choice) % self.sas.len());
            self.pipeline.retire(sa);
        }
    }

    fn move_one(&mut self, choice: u8) {
        if !self.sas.is_empty() {
            let (sa, _) = self.sas[usize::from(choice) % self.sas.len()];
            let ends = SaEnds {
                local: outer(self.number, choice >> 4),
                remote: outer(1 - self.number, choice >> 6),
                encap: None,
            };
            let ipsec = self.pipeline.ipsec_mut();
            ipsec.upkeep.move_sa(&mut ipsec.tables, sa, &ends);
        }
    }

    fn decide(&mut self, mask: u8) {
        let chosen = (0..TUNNELS).filter(|tunnel| mask & 1 << tunnel != 0);
        let policies = chosen.map(|tunnel| Policy {
            name: format!("tunnel {tunnel}"),
            priority: u32::from(mask) % 7,
            direction: PolicyDirection::Both,
            interface: 0,
            selector: Selector {
                local: selector(self.number, tunnel),
                remote: selector(1 - self.number, tunnel),
            },
            action: if mask & 0x40 == 0 { Action::Protect(TunnelId(tunnel.into())) } else { Action::Discard },
        });
        self.pipeline.ipsec_mut().set_policies(policies.collect());
    }

    fn send(&mut self, choice: u8, sent: &mut HashSet<Vec<u8>>) {
        let tunnel = choice % TUNNELS;
        let mut burst = Vec::new();
        for _ in 0..1 + choice / 16 {
            let mut packet = vec![0; 28 + usize::from(choice)];
            let mut header = IpHeader::new(253, inner(self.number, tunnel), inner(1 - self.number, tunnel));
            header.identification = 1;
            header.write(&mut packet);
            packet[20..28].copy_from_slice(&(sent.len() as u64).to_be_bytes());
            if let Some(frame) = self.pipeline.pool_mut().take_filled(&packet, 0) {
                sent.insert(packet);
                burst.push(frame);
            }
        }
        self.pipeline.outbound(&mut burst);
    }

    /// The packets for the other side; some are lost, duplicated or changed on their way.
    fn leave(&mut self, choice: u8) -> Vec<Vec<u8>> {
        let (pool, departures) = self.pipeline.pool_and_departures();
        let mut link = Vec::new();
        for (at, frame) in departures.to_outside.iter().enumerate() {
            match choice.rotate_left(at as u32) & 7 {
                0 => {}
                1 => link.extend([frame.to_vec(), frame.to_vec()]),
                2 => {
                    let mut changed = frame.to_vec();
                    let place = usize::from(choice) * 7 % changed.len();
                    changed[place] ^= 1;
                    link.push(changed);
                }
                _ => link.push(frame.to_vec()),
            }
        }
        pool.give_back_burst(&mut departures.to_outside);
        link
    }

    fn take(&mut self, link: &[Vec<u8>]) {
        let pool = self.pipeline.pool_mut();
        let mut burst: Vec<Frame> = link.iter().filter_map(|packet| pool.take_filled(packet, 64)).collect();
        self.pipeline.inbound(&mut burst);
    }

    fn deliver(&mut self, sent: &HashSet<Vec<u8>>) {
        let (pool, departures) = self.pipeline.pool_and_departures();
        assert!(departures.to_inside.iter().all(|frame| sent.contains(&frame[..])), "never sent");
        for frames in [
            &mut departures.to_inside,
            &mut departures.bypass_in,
            &mut departures.bypass_out,
            &mut departures.ike,
        ] {
            pool.give_back_burst(frames);
        }
    }

    /// Lets everything complete.
    fn end(&mut self, sent: &HashSet<Vec<u8>>) {
        self.pipeline.ipsec_mut().set_policies(Vec::new());
        for (sa, _) in std::mem::take(&mut self.sas) {
            self.pipeline.retire(sa);
        }
        let mut rounds = 0;
        while !self.pipeline.is_empty() || self.pipeline.is_retiring() {
            self.pipeline.pump(Input::Ended);
            rounds += 1;
            assert!(rounds < ROUNDS, "packets or SAs stay for ever");
        }
        // A changed byte may have made a packet look like a fragment, which is kept until its time
        // is over.
        self.time.advance_to(REASSEMBLY_OVER_NS);
        self.pipeline.tick(&mut Vec::new());
        self.leave(0);
        self.deliver(sent);
        assert_eq!(self.pipeline.ipsec().tables.sas().count(), 0);
        let pool = self.pipeline.pool_mut();
        assert_eq!((pool.available(FrameSize::Small), pool.available(FrameSize::Jumbo)), FRAMES);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let seed = bytes.iter().fold(7, |seed: u64, byte| seed.wrapping_mul(31) + u64::from(*byte));
    let mut sides = [Side::new(0, seed), Side::new(1, !seed)];
    let mut sent = HashSet::new();
    for side in &mut sides {
        side.decide(0x07);
        (0..TUNNELS).flat_map(|tunnel| [tunnel, tunnel | 0x40]).for_each(|choice| side.install(choice));
    }
    let mut events = Vec::new();
    for step in bytes.chunks_exact(2) {
        let (what, choice) = (step[0], step[1]);
        let at = usize::from(what >> 7);
        let side = &mut sides[at];
        match what % 11 {
            0..=2 if side.pipeline.has_room() => side.send(choice, &mut sent),
            3 => _ = side.pipeline.pump(if choice & 1 == 0 { Input::More } else { Input::Paused }),
            4 | 5 => {
                let link = side.leave(choice);
                sides[1 - at].take(&link);
            }
            6 => side.install(choice),
            7 => side.retire(choice),
            8 => side.move_one(choice),
            9 => side.decide(choice),
            _ => _ = side.pipeline.tick(&mut events),
        }
        sides[at].deliver(&sent);
    }
    for side in &mut sides {
        side.end(&sent);
    }
});
