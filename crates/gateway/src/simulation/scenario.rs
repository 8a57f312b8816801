//! What a seed decides before anything runs: the gateways' configuration, their engines, the links
//! and the hosts.

use convoy_config::Config;
use data_encoding::HEXLOWER;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_ipsec::{Mode, Proposal, SaProtocol, Transform};
use convoy_scheduler::{CostModel, SchedulingPolicy};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::engine::Character;
use super::hosts::{HostFlow, LEAST_BYTES, host};

/// The proposals that tunnels with ESP have: every kind of IV and of job.
const PROPOSALS: [&str; 7] = [
    "aes128gcm16",
    "aes256gcm16",
    "aes128gcm8",
    "chacha20poly1305",
    "aes128-sha256",
    "aes128ctr-sha1",
    "aes256-sha512",
];
/// Those with AH.
const AH_PROPOSALS: [&str; 2] = ["sha256", "sha512"];
/// What a port sends whole, in bytes.
pub(super) const MTU: usize = 1500;
/// The SPI of the first tunnel with static keys in the direction to each site.
const STATIC_SPI: u32 = 0x1000;

/// A tunnel, as both ends have it.
#[derive(Clone, Debug)]
pub(super) struct ScenarioTunnel {
    pub(super) is_static: bool,
    pub(super) protocol: SaProtocol,
    /// In transport mode the gateways themselves are the hosts.
    pub(super) mode: Mode,
    pub(super) is_encapsulated: bool,
    pub(super) is_v6_outside: bool,
    pub(super) is_v6_inside: bool,
    pub(super) esn: bool,
    pub(super) transform: Transform,
    proposal: &'static str,
    pub(super) replay_window: u32,
    /// Packets after which a negotiated SA ends, if any.
    pub(super) hard_packets: Option<u64>,
}

/// A link, in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScenarioLink {
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    pub(super) corrupt: f64,
    pub(super) replay: f64,
    pub(super) delay_ns: u64,
    /// The maximum additional delay of a packet; 0 keeps them in order.
    pub(super) jitter_ns: u64,
}

/// How often an operator, a network or a machine intervenes, in each round.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterventionRates {
    pub(super) restart: f64,
    /// A tunnel with static keys is removed by a reload, and comes back by another.
    pub(super) reload: f64,
    pub(super) rekey: f64,
    pub(super) refuse: f64,
    pub(super) path_mtu: f64,
    pub(super) move_peer: f64,
    pub(super) cut_link: f64,
    pub(super) withdraw: f64,
    pub(super) disk_fails: f64,
    /// IKE negotiates nothing for some seconds.
    pub(super) no_agreement: f64,
}

/// Everything that a seed decides at the start.
pub(super) struct Scenario {
    pub(super) workers: u16,
    pub(super) tunnels: Vec<ScenarioTunnel>,
    pub(super) engines: Vec<(Character, Option<u64>)>,
    pub(super) frames: (usize, usize, usize),
    pub(super) faults: ScenarioLink,
    pub(super) rates: InterventionRates,
    /// Whether a packet arrives at any queue, rather than at its flow's.
    pub(super) is_sprayed: bool,
    pub(super) ticks: u64,
    /// Whether the wall clock restarts at each start of a gateway.
    pub(super) has_stuck_clock: bool,
    policy: SchedulingPolicy,
    text: String,
}

/// The outer address of a site.
pub(super) fn address(site: usize, is_v6: bool) -> IpAddr {
    let number = site as u8 + 1;
    if is_v6 {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into()
    } else {
        Ipv4Addr::new(192, 0, 2, number).into()
    }
}

/// The SPI of a tunnel with static keys in the direction to `site`.
pub(super) fn static_spi(tunnel: usize, site: usize) -> u32 {
    STATIC_SPI + (tunnel as u32) * 2 + site as u32
}

fn key(tunnel: usize, site: usize, transform: Transform) -> Vec<u8> {
    (0..transform.key_material_len()).map(|at| (at * 31 + tunnel * 7 + site * 101 + 3) as u8).collect()
}

impl Scenario {
    pub(super) fn new(dice: &mut Xoshiro256PlusPlus) -> Self {
        let rarely = |dice: &mut Xoshiro256PlusPlus, share: f64, most: f64| {
            if dice.random_bool(share) { dice.random_range(0.0..most) } else { 0.0 }
        };
        let workers = *[1, 1, 2, 3].choose(dice).expect("not empty");
        let count = dice.random_range(2..=4);
        let mut tunnels: Vec<ScenarioTunnel> = (0..count).map(|at| tunnel(at, dice)).collect();
        keep_one_transport(&mut tunnels);
        let engines = engines(dice);
        let window = dice.random_range(1..64);
        // The largest multi-packet must find frames for its copies while the window is full and a
        // burst waits.
        let small = 4 * window + *[100, 160, 512, 2048].choose(dice).expect("not empty");
        let faults = ScenarioLink {
            loss: rarely(dice, 0.6, 0.2),
            duplicate: rarely(dice, 0.5, 0.2),
            corrupt: rarely(dice, 0.4, 0.1),
            replay: rarely(dice, 0.5, 0.1),
            delay_ns: dice.random_range(10_000..20_000_000),
            jitter_ns: if dice.random_bool(0.5) { dice.random_range(1_000..30_000_000) } else { 0 },
        };
        let rates = InterventionRates {
            restart: rarely(dice, 0.5, 0.006),
            reload: rarely(dice, 0.5, 0.02),
            rekey: rarely(dice, 0.6, 0.02),
            refuse: rarely(dice, 0.4, 0.05),
            path_mtu: rarely(dice, 0.3, 0.004),
            move_peer: rarely(dice, 0.4, 0.01),
            cut_link: rarely(dice, 0.3, 0.01),
            withdraw: rarely(dice, 0.3, 0.01),
            disk_fails: rarely(dice, 0.3, 0.01),
            no_agreement: rarely(dice, 0.3, 0.01),
        };
        let policy = *SchedulingPolicy::ALL.choose(dice).expect("not empty");
        let text = settings(workers, window);
        Self {
            workers,
            tunnels,
            engines,
            frames: (small, small / 8, 4),
            faults,
            rates,
            is_sprayed: dice.random_bool(0.3),
            ticks: dice.random_range(300..900),
            has_stuck_clock: dice.random_bool(0.3),
            policy,
            text,
        }
    }

    /// The decisions, in a few lines.
    pub(super) fn describe(&self) -> String {
        let mut text =
            format!("{} workers, {} small frames, {:?}\n", self.workers, self.frames.0, self.faults);
        self.tunnels
            .iter()
            .enumerate()
            .for_each(|(at, tunnel)| text += &format!("tunnel {at}: {tunnel:?}\n"));
        for (character, faults) in &self.engines {
            text += &format!("{character:?}{}\n", if faults.is_some() { ", with faults" } else { "" });
        }
        text
    }

    /// The configuration of a site.
    pub(super) fn config(&self, site: usize) -> Config {
        let mut text = self.text.clone();
        for (at, tunnel) in self.tunnels.iter().enumerate().filter(|(_, tunnel)| tunnel.is_static) {
            let (local, remote) =
                (address(site, tunnel.is_v6_outside), address(1 - site, tunnel.is_v6_outside));
            let network = |site: usize| tunnel.selector(site, at);
            let protocol = if tunnel.protocol == SaProtocol::Ah { "ah" } else { "esp" };
            let mode = match tunnel.mode {
                Mode::Tunnel => "tunnel",
                Mode::Transport => "transport",
                Mode::Iptfs => "iptfs",
            };
            let [own, other] =
                [site, 1 - site].map(|site| HEXLOWER.encode(key(at, site, tunnel.transform).as_ref()));
            let encap = if tunnel.is_encapsulated { "udp" } else { "none" };
            let esn = if tunnel.esn { "-esn" } else { "" };
            text += &format!(
                "[[tunnel]]\nname = \"t{at}\"\nprotocol = \"{protocol}\"\nmode = \"{mode}\"\nlocal = \"{local}\"\nremote = \"{remote}\"\nlocal_ts = [\"{}\"]\nremote_ts = [\"{}\"]\n\
                 esp_proposal = \"{}{esn}\"\nencap = \"{encap}\"\nreplay_window = {}\n[tunnel.manual]\nspi_in = {}\nspi_out = {}\n\
                 key_in = \"{own}\"\nkey_out = \"{other}\"\n",
                network(site),
                network(1 - site),
                tunnel.proposal,
                tunnel.replay_window,
                static_spi(at, site),
                static_spi(at, 1 - site),
            );
        }
        let mut config =
            Config::parse("site.toml", &text).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        // A file names no baselines.
        config.scheduler.policy = self.policy;
        config
    }

    /// A host at each end of each tunnel.
    pub(super) fn flows(&self, dice: &mut Xoshiro256PlusPlus) -> Vec<HostFlow> {
        let mut flows = Vec::new();
        for (tunnel, of) in self.tunnels.iter().enumerate() {
            for site in 0..2 {
                flows.push(HostFlow {
                    site,
                    tunnel,
                    ends: [site, 1 - site].map(|site| of.host(site, tunnel)),
                    is_transport: of.mode == Mode::Transport,
                    traffic_class: dice.random_range(0..64) << 2,
                    path_bytes: MTU,
                    queue: dice.random_range(0..usize::from(self.workers)),
                    last_delivered: None,
                });
            }
        }
        flows
    }

    /// The length of a host's packet.
    pub(super) fn bytes(dice: &mut Xoshiro256PlusPlus) -> usize {
        if dice.random_bool(0.2) { MTU } else { dice.random_range(LEAST_BYTES..600) }
    }
}

impl ScenarioTunnel {
    /// Its selector at a site; it has this number.
    pub(super) fn selector(&self, site: usize, number: usize) -> String {
        if self.mode == Mode::Transport {
            return address(site, self.is_v6_outside).to_string();
        }
        let site = site + 1;
        if self.is_v6_inside {
            format!("fd00:{site:x}:{number:x}::/48")
        } else {
            format!("10.{site}.{number}.0/24")
        }
    }

    /// Its host at a site.
    fn host(&self, site: usize, number: usize) -> IpAddr {
        match self.mode {
            Mode::Transport => address(site, self.is_v6_outside),
            Mode::Tunnel | Mode::Iptfs => host(site, number, self.is_v6_inside),
        }
    }
}

/// Between two addresses there can be one SA in transport mode for all traffic.
fn keep_one_transport(tunnels: &mut [ScenarioTunnel]) {
    for is_v6 in [false, true] {
        let is_one =
            |tunnel: &&mut ScenarioTunnel| tunnel.mode == Mode::Transport && tunnel.is_v6_outside == is_v6;
        tunnels.iter_mut().filter(is_one).skip(1).for_each(|tunnel| tunnel.mode = Mode::Tunnel);
    }
}

fn tunnel(at: usize, dice: &mut Xoshiro256PlusPlus) -> ScenarioTunnel {
    let protocol = if dice.random_bool(0.25) { SaProtocol::Ah } else { SaProtocol::Esp };
    let mode = if dice.random_bool(0.3) { Mode::Transport } else { Mode::Tunnel };
    let proposal = match protocol {
        SaProtocol::Esp => PROPOSALS.choose(dice),
        SaProtocol::Ah => AH_PROPOSALS.choose(dice),
    };
    let proposal = proposal.expect("not empty");
    let is_plain = protocol == SaProtocol::Esp && mode == Mode::Tunnel;
    let mode = if is_plain && dice.random_bool(0.3) { Mode::Iptfs } else { mode };
    let is_encapsulated = is_plain && dice.random_bool(0.5);
    ScenarioTunnel {
        // The first is static and the second is not, so that both are always there.
        is_static: at == 0 || at > 1 && dice.random_bool(0.5),
        protocol,
        mode,
        is_encapsulated,
        is_v6_outside: !is_encapsulated && dice.random_bool(0.3),
        is_v6_inside: dice.random_bool(0.3),
        esn: dice.random_bool(0.4),
        transform: proposal.parse::<Proposal>().expect("good").transform,
        proposal,
        replay_window: *[64, 128, 1024].choose(dice).expect("not empty"),
        hard_packets: dice.random_bool(0.3).then(|| dice.random_range(20..400)),
    }
}

/// Engines of each worker, some of them with a seed for their faults. One of them, or all, may
/// fail.
fn engines(dice: &mut Xoshiro256PlusPlus) -> Vec<(Character, Option<u64>)> {
    let count = dice.random_range(1..=3);
    let part_with_trains = *[0.0, 0.5, 1.0].choose(dice).expect("not empty");
    let engine = |at: usize| {
        let is_lookaside = dice.random_bool(0.6);
        let t_init = dice.random_range(100.0..50_000.0);
        let t_block = dice.random_range(1.0..2_000.0);
        let character = Character {
            name: format!("engine{at}"),
            is_lookaside,
            takes_trains: dice.random_bool(part_with_trains),
            cost: CostModel { t_init, t_block },
            depth: dice.random_range(0..16),
            late: if is_lookaside && dice.random_bool(0.4) { dice.random_range(0.0..0.05) } else { 0.0 },
            twice: if is_lookaside && dice.random_bool(0.4) { dice.random_range(0.0..0.1) } else { 0.0 },
        };
        (character, dice.random_bool(0.5).then(|| dice.random()))
    };
    (0..count).map(engine).collect()
}

fn settings(workers: u16, window: usize) -> String {
    format!(
        "[gateway]\nworkers = {workers}\ncharon = \"/run/convoy/charon.sock\"\nstate = \"\"\n\
         [scheduler]\nwindow = {window}\n\
         [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\n\
         [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\", \"192.0.2.2\", \"2001:db8::1\", \"2001:db8::2\"]\n\
         [[port]]\nname = \"raw\"\nkind = \"raw\"\naddress = [\"192.0.2.1\", \"192.0.2.2\", \"2001:db8::1\", \"2001:db8::2\"]\n"
    )
}
