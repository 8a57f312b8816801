//! What a seed decides before anything runs.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::member::{GroupConfig, MemberConfig, Replay};
use crate::memory::Seen;
use convoy_reservation::{Reservation, ReserveSize};

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000 * MS;
/// Rates of clocks in millionths: the highest is 9.4 % faster than the lowest, and the margin
/// covers 11 %.
const RATES_PPM: [u64; 4] = [955_000, 999_900, 1_000_000, 1_045_000];

/// What happens at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    PauseAgent(usize),
    PauseGateway(usize),
    PauseMachine(usize),
    /// The machine is paused, and its clock stands still.
    Freeze(usize),
    CrashAgent(usize),
    CrashGateway(usize),
    CrashMachine(usize),
    /// The member does not reach the store.
    Cut(usize),
    CutAll,
    Break(usize),
    NoQuorum,
    NoRoom,
    StoreLeader,
    Drain(usize),
    Serve(usize),
    End(usize),
    /// The store is restored to what it was before, by as much as the fault lasts.
    Restore,
}

/// Everything that a seed decides at the start.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) groups: usize,
    pub(super) ttl_s: u32,
    pub(super) replay: Replay,
    pub(super) rates_ppm: Vec<u64>,
    /// Whether clocks may stand still, and pauses may come between the comparison with the deadline
    /// and the sending.
    pub(super) is_lenient: bool,
    /// When, what and how long.
    pub(super) faults: Vec<(u64, Fault, u64)>,
    /// When faults have ended.
    pub(super) calm_ns: u64,
    /// After which time without an answer an agent gives a connection up.
    pub(super) timeout_ns: u64,
    /// The share of requests that are slow, by up to some seconds; of those that are lost; and of
    /// answers that are lost.
    pub(super) slow: f64,
    pub(super) lost: f64,
    pub(super) answer_lost: f64,
    pub(super) watch_delay_ns: u64,
    pub(super) rekey: f64,
    pub(super) first: u64,
    pub(super) rebalance_ns: Option<u64>,
}

pub(super) fn rate(dice: &mut Xoshiro256PlusPlus) -> u64 {
    *RATES_PPM.choose(dice).expect("not empty")
}

impl Scenario {
    pub(super) fn new(dice: &mut Xoshiro256PlusPlus) -> Self {
        let rarely = |dice: &mut Xoshiro256PlusPlus, most: f64| {
            if dice.random_bool(0.5) { dice.random_range(0.0..most) } else { 0.0 }
        };
        let (hosts, calm_ns) = (dice.random_range(2..=4), dice.random_range(5..20) * S);
        let (is_lenient, ttl_s) = (dice.random_bool(0.2), dice.random_range(1..=4));
        Self {
            groups: dice.random_range(1..=3),
            ttl_s,
            replay: if dice.random_bool(0.75) { Replay::Strict } else { Replay::Checkpoint },
            rates_ppm: (0..hosts).map(|_| rate(dice)).collect(),
            is_lenient,
            faults: faults(dice, hosts, is_lenient, ttl_s.max(2), calm_ns),
            calm_ns,
            timeout_ns: dice.random_range(200..2500) * MS,
            slow: *[0.0, 0.02, 0.2, 0.7].choose(dice).expect("not empty"),
            lost: rarely(dice, 0.1),
            answer_lost: rarely(dice, 0.1),
            watch_delay_ns: *[5 * MS, 50 * MS, S].choose(dice).expect("not empty"),
            rekey: rarely(dice, 0.02),
            first: dice.random_range(8..200),
            rebalance_ns: dice.random_bool(0.5).then(|| dice.random_range(200..3_000) * MS),
        }
    }

    pub(super) fn member(&self, host: usize) -> MemberConfig {
        let span = ReserveSize {
            first: self.first,
            least: self.first / 2 + 2,
            most: self.first * 4,
            time_ns: 200 * MS,
        };
        let group = |index| GroupConfig { name: group(index), replay: self.replay };
        MemberConfig {
            cluster: "test".into(),
            name: format!("m{host}"),
            priority: 100,
            ttl_s: self.ttl_s,
            groups: (0..self.groups).map(group).collect(),
            rebalance_ns: self.rebalance_ns,
            outbound: span,
            inbound: span,
            seen: Seen::default(),
        }
    }

    /// The reservation of an SA that no other member has.
    pub(super) fn first(&self) -> Reservation {
        Reservation { send_until: self.first, accept_until: self.first, ..Reservation::default() }
    }

    /// The time after the faults within which everything must flow again: the longest lease, what
    /// was given up, and some attempts.
    pub(super) fn recovery_ns(&self) -> u64 {
        u64::from(self.ttl_s.max(2)) * S * 11 / 10 + 3 * self.timeout_ns + 3 * S
    }
}

pub(super) fn group(index: usize) -> String {
    format!("g{index}")
}

fn faults(
    dice: &mut Xoshiro256PlusPlus,
    hosts: usize,
    is_lenient: bool,
    ttl_s: u32,
    calm_ns: u64,
) -> Vec<(u64, Fault, u64)> {
    let fault = |dice: &mut Xoshiro256PlusPlus| {
        let host = dice.random_range(0..hosts);
        let all = [
            Fault::PauseAgent(host),
            Fault::PauseGateway(host),
            Fault::PauseMachine(host),
            Fault::CrashAgent(host),
            Fault::CrashGateway(host),
            Fault::CrashMachine(host),
            Fault::Cut(host),
            Fault::CutAll,
            Fault::Break(host),
            Fault::NoQuorum,
            Fault::NoRoom,
            Fault::StoreLeader,
            Fault::Drain(host),
            Fault::Serve(host),
            Fault::End(host),
        ];
        if is_lenient && dice.random_bool(0.3) {
            Fault::Freeze(host)
        } else {
            *all.choose(dice).expect("not empty")
        }
    };
    let restore = dice.random_bool(0.1).then(|| {
        let at_ns = dice.random_range(calm_ns / 2..calm_ns);
        (at_ns, Fault::Restore, dice.random_range(100 * MS..at_ns))
    });
    let mut faults: Vec<_> = (0..dice.random_range(0..14))
        .map(|_| {
            let at_ns = dice.random_range(0..calm_ns);
            let lasts_ns = duration_ns(dice, ttl_s);
            (at_ns, fault(dice), lasts_ns.min(calm_ns - at_ns))
        })
        .collect();
    faults.extend(restore);
    faults
}

/// From 10 ms to twice the time to live: as many short ones as long ones, or around the time to
/// live.
fn duration_ns(dice: &mut Xoshiro256PlusPlus, ttl_s: u32) -> u64 {
    let ttl_s = f64::from(ttl_s);
    let lasts_s = if dice.random_bool(0.5) {
        dice.random_range(0.7..2.0) * ttl_s
    } else {
        0.01 * dice.random_range(0.0..(ttl_s * 2.0 / 0.01).ln()).exp()
    };
    (lasts_s * S as f64) as u64
}
