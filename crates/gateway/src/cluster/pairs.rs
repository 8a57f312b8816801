//! Pairs of SAs with static keys, as the cluster knows them.

use std::collections::{HashMap, HashSet};

use convoy_cluster::{GroupEvent, Record, SaFingerprint, StoredSa};
use convoy_config::{ManualKeys, TunnelConfig};
use convoy_engine::{far_below, wipe_stack};
use convoy_reservation::{Reservation, ReserveRules, SaStart, Used};
use convoy_state::{SaProgress, StartId, Started};
use sha2::{Digest, Sha256};

/// The record of a pair: all else that another gateway needs is in the reservation and in the
/// configuration that both have.
const RECORD: &[u8] = b"static keys";

/// What tunnels start with.
#[derive(Default)]
pub(crate) struct StartedTunnels {
    /// How the SAs start, by tunnel.
    pub(crate) by_tunnel: HashMap<String, Vec<Started>>,
    /// The pair of each start.
    pub(crate) starts: HashMap<StartId, SaFingerprint>,
    /// What is written to the store.
    pub(crate) reported: Vec<GroupEvent>,
    /// How many of them the store did not know.
    pub(crate) new: usize,
    /// Tunnels that do not start, as a worker may still use their keys.
    pub(crate) in_use: Vec<String>,
    /// Tunnels that do not start, as their last numbers cannot be read.
    pub(crate) unreadable: Vec<String>,
}

/// The term in which a group is led.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedTerm {
    /// How numbers are reserved.
    pub(crate) rules: ReserveRules,
    /// Whether the group has begun in it before: then the store is asked for the limits of pairs
    /// again.
    pub(crate) has_begun: bool,
    /// The time of the wall clock, in ns, from which IVs begin.
    pub(crate) clock_ns: u64,
}

/// What is known of a pair.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The last numbers that may have been used.
    used: Used,
    iv_start: u64,
}

/// The pairs of a group, as far as they may have been used. Pairs of removed tunnels stay, since
/// their keys may come back.
#[derive(Default)]
pub(crate) struct Pairs {
    known: HashMap<SaFingerprint, Known>,
    unreadable: HashSet<SaFingerprint>,
    starts: HashMap<StartId, SaFingerprint>,
}

impl Pairs {
    /// Those that the store has, and SAs that it has and that cannot be read.
    pub(crate) fn new(stored: &[StoredSa], unreadable: &[SaFingerprint]) -> Self {
        let (readable, strange): (Vec<&StoredSa>, Vec<&StoredSa>) =
            stored.iter().partition(|stored| *stored.record == *RECORD);
        let known = |StoredSa { sa, used, iv_start, .. }: &StoredSa| {
            (*sa, Known { used: *used, iv_start: *iv_start })
        };
        Self {
            known: readable.into_iter().map(known).collect(),
            unreadable: unreadable.iter().copied().chain(strange.iter().map(|stored| stored.sa)).collect(),
            starts: HashMap::new(),
        }
    }

    /// Starts tunnels of the group; their starts are numbered from the one after `last_start`.
    pub(crate) fn start<'a>(
        &mut self,
        tunnels: impl Iterator<Item = &'a TunnelConfig>,
        term: &LedTerm,
        last_start: &mut u64,
    ) -> StartedTunnels {
        let mut all = StartedTunnels::default();
        for tunnel in tunnels {
            let sas: Vec<SaFingerprint> =
                tunnel.manual.iter().map(|keys| fingerprint(tunnel, keys)).collect();
            // A worker that is late may still use these: their last numbers are unknown.
            if sas.iter().any(|sa| self.is_in_use(*sa)) {
                all.in_use.push(tunnel.name.clone());
                continue;
            }
            if sas.iter().any(|sa| self.unreadable.contains(sa)) {
                all.unreadable.push(tunnel.name.clone());
                continue;
            }
            let last = if tunnel.esn { u64::MAX } else { u32::MAX.into() };
            let mut started = Vec::new();
            for sa in sas {
                *last_start += 1;
                let id = StartId(*last_start);
                all.starts.insert(id, sa);
                started.push(Started::kept(self.start_pair(sa, last, term, &mut all), id));
            }
            all.by_tunnel.insert(tunnel.name.clone(), started);
        }
        self.starts.extend(&all.starts);
        all
    }

    /// One that is known starts behind all that it may have used, and the store permits it more
    /// when it is asked; another one goes to the store with its first reservation.
    fn start_pair(
        &mut self,
        sa: SaFingerprint,
        last: u64,
        term: &LedTerm,
        all: &mut StartedTunnels,
    ) -> SaStart {
        let record = || Record::from(RECORD.to_vec());
        if let Some(Known { used, iv_start }) = self.known.get(&sa) {
            if term.has_begun {
                all.reported.push(GroupEvent::Put {
                    sa,
                    record: record(),
                    reservation: Reservation::default(),
                });
            }
            return SaStart::behind(*used, *iv_start);
        }
        let first = term.rules.first(last, term.clock_ns);
        let known = Known { used: term.rules.used(&first), iv_start: first.iv_start };
        self.known.insert(sa, known);
        all.reported.push(GroupEvent::Put { sa, record: record(), reservation: first });
        all.new += 1;
        SaStart { limits: first.limits(), ..SaStart::unlimited(first.iv_start) }
    }

    fn is_in_use(&self, sa: SaFingerprint) -> bool {
        self.starts.values().any(|used| *used == sa)
    }

    /// Pairs have ended, which may have used these numbers at most.
    pub(crate) fn end(&mut self, spent: &[SaProgress]) {
        for SaProgress { id, used } in spent {
            let sa = self.starts.remove(id);
            if let Some(known) = sa.and_then(|sa| self.known.get_mut(&sa)) {
                known.used.sent = known.used.sent.max(used.sent);
                known.used.received = known.used.received.max(used.received);
            }
        }
    }
}

/// The name by which all members know a pair: it changes with its keys.
fn fingerprint(tunnel: &TunnelConfig, keys: &ManualKeys) -> SaFingerprint {
    let id = far_below(|| hash(tunnel, keys));
    // The hash leaves copies of the keys there.
    wipe_stack();
    id
}

fn hash(tunnel: &TunnelConfig, keys: &ManualKeys) -> SaFingerprint {
    let mut hash = Sha256::new();
    hash.update(b"convoy static keys");
    hash.update(format!("{:?} {}", tunnel.protocol, tunnel.proposal));
    for (spi, keys) in [(keys.spi_in, &keys.keys_in), (keys.spi_out, &keys.keys_out)] {
        hash.update(spi.to_be_bytes());
        for part in [keys.cipher_key(), keys.salt(), keys.integrity_key()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    let whole = hash.finalize();
    SaFingerprint(u64::from_be_bytes(*whole.first_chunk().expect("32 bytes")))
}

#[cfg(test)]
mod tests {
    use convoy_config::Config;
    use convoy_reservation::ReserveSize;

    use super::*;

    fn config() -> Config {
        let text = "[cluster]\nname = \"w\"\nendpoints = [\"http://127.0.0.1:2379\"]\nsecret = \"/d\"\n\
             [[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
             [tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
             key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
             key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"\n";
        Config::parse("a.toml", text).expect("good")
    }

    fn rules() -> ReserveRules {
        ReserveRules { outbound: ReserveSize::OUTBOUND, inbound: Some(ReserveSize::INBOUND) }
    }

    fn start(
        pairs: &mut Pairs,
        has_begun: bool,
        clock_ns: u64,
        last_start: &mut u64,
    ) -> (StartedTunnels, SaStart) {
        let term = LedTerm { rules: rules(), has_begun, clock_ns };
        let all = pairs.start(config().tunnels.iter(), &term, last_start);
        let started = all.by_tunnel["site-b"][0].start;
        (all, started)
    }

    #[test]
    fn second_leader_starts_behind_all_that_the_first_may_have_used() {
        let mut last_start = 0;
        let (first, of_first) = start(&mut Pairs::default(), false, 7_000, &mut last_start);
        let [GroupEvent::Put { sa, record, reservation }] = &first.reported[..] else {
            panic!("one pair is new")
        };
        assert_eq!((of_first.used, of_first.limits), (Used::default(), reservation.limits()));
        let used = Used { sent: reservation.send_until, received: reservation.accept_until };
        let stored = StoredSa { sa: *sa, record: record.clone(), used, iv_start: 7_777 };
        let (second, of_second) = start(&mut Pairs::new(&[stored], &[]), false, 1, &mut last_start);
        assert!(second.reported.is_empty() && second.new == 0 && first.new == 1);
        assert_eq!(of_second, SaStart::behind(used, 7_777), "nothing is granted yet");
        assert_eq!(of_first.iv_start, 7_000, "each term has its own IVs");
        assert_eq!(first.starts.len() + second.starts.len(), 2, "each has its own");
        assert_ne!(first.starts.keys().next(), second.starts.keys().next());
    }

    #[test]
    fn tunnel_with_a_pair_that_cannot_be_read_does_not_start() {
        let (mut last_start, config) = (0, config());
        let sa = fingerprint(&config.tunnels[0], &config.tunnels[0].manual[0]);
        let record = Record::from(b"of another version".to_vec());
        let strange = StoredSa { sa, record, used: Used { sent: 9, received: 9 }, iv_start: 0 };
        for mut pairs in [Pairs::new(&[], &[sa]), Pairs::new(&[strange], &[])] {
            let term = LedTerm { rules: rules(), has_begun: false, clock_ns: 7_000 };
            let all = pairs.start(config.tunnels.iter(), &term, &mut last_start);
            assert_eq!(all.unreadable, ["site-b"]);
            assert!(all.by_tunnel.is_empty() && all.reported.is_empty() && all.new == 0);
        }
    }

    #[test]
    fn keys_that_come_back_within_a_term_start_behind_what_they_may_have_used() {
        let (mut pairs, mut last_start) = (Pairs::default(), 0);
        let (all, _) = start(&mut pairs, false, 7_000, &mut last_start);
        let id = *all.starts.keys().next().expect("one pair");
        let term = LedTerm { rules: rules(), has_begun: true, clock_ns: 7_500 };
        let all = pairs.start(config().tunnels.iter(), &term, &mut last_start);
        assert_eq!((all.in_use, all.reported.len()), (vec!["site-b".to_owned()], 0), "it has not ended");
        let used = Used { sent: 1 << 30, received: 5_000 };
        let other = SaProgress { id: StartId(99), used: Used { sent: u64::MAX, received: u64::MAX } };
        pairs.end(&[SaProgress { id, used }, other]);
        let (all, again) = start(&mut pairs, true, 8_000, &mut last_start);
        assert_eq!((again, all.new), (SaStart::behind(used, 7_000), 0));
        assert!(
            matches!(all.reported[..], [GroupEvent::Put { .. }]),
            "the store permits more when it is asked"
        );
    }

    #[test]
    fn other_keys_are_another_pair() {
        let config = config();
        let tunnel = &config.tunnels[0];
        let mut other = config.clone();
        other.tunnels[0].manual[0].spi_in += 1;
        let of = |config: &Config| fingerprint(tunnel, &config.tunnels[0].manual[0]);
        assert_eq!(of(&config), of(&config.clone()));
        assert_ne!(of(&config), of(&other));
    }
}
