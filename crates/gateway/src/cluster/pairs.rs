//! Pairs of SAs with static keys, as the cluster knows them.

use std::collections::{HashMap, HashSet};

use convoy_cluster::{Event, Marks, SaId, Span, Taken};
use convoy_config::{ManualKeys, TunnelConfig};
use convoy_engine::{far_below, wipe_stack};
use sha2::{Digest, Sha256};

use crate::state::{Beginning, Limits};

/// The record of a pair: all else that another gateway needs is in the marks and in the
/// configuration that both have.
const RECORD: &[u8] = b"static keys";

/// What tunnels begin with.
pub(crate) struct Lead {
    /// The beginnings of the SAs.
    pub(crate) beginnings: HashMap<String, Vec<Beginning>>,
    /// The pair of each generation.
    pub(crate) generations: HashMap<u64, SaId>,
    /// What is written to the store.
    pub(crate) reported: Vec<Event>,
    /// How many of them the store did not know.
    pub(crate) new: usize,
    /// Tunnels that do not begin, as a worker may still use their keys.
    pub(crate) in_use: Vec<String>,
    /// Tunnels that do not begin, as it cannot be read how far their numbers have come.
    pub(crate) unreadable: Vec<String>,
}

/// The term in which a group is led.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedTerm {
    /// Whether the next leader refuses all that this one may have received.
    pub(crate) is_strict: bool,
    /// Whether the group has begun in it before: then the store is asked for the limits of pairs
    /// again.
    pub(crate) has_begun: bool,
    /// The time of the wall clock, in ns, from which IVs begin.
    pub(crate) clock_ns: u64,
}

/// The pairs of a group, as far as they may have been used. Pairs of removed tunnels stay, since
/// their keys may come back.
#[derive(Default)]
pub(crate) struct Pairs {
    known: HashMap<SaId, Taken>,
    unreadable: HashSet<SaId>,
    generations: HashMap<u64, SaId>,
}

impl Pairs {
    /// Those that the store has, and SAs that it has and that cannot be read.
    pub(crate) fn new(taken: &[Taken], unreadable: &[SaId]) -> Self {
        let (readable, strange): (Vec<&Taken>, Vec<&Taken>) =
            taken.iter().partition(|taken| *taken.record == *RECORD);
        Self {
            known: readable.into_iter().map(|taken| (taken.sa, taken.clone())).collect(),
            unreadable: unreadable.iter().copied().chain(strange.iter().map(|taken| taken.sa)).collect(),
            generations: HashMap::new(),
        }
    }

    /// The beginnings of tunnels of the group; their generations count up from `generation`.
    pub(crate) fn begin<'a>(
        &mut self,
        tunnels: impl Iterator<Item = &'a TunnelConfig>,
        term: &LedTerm,
        generation: &mut u64,
    ) -> Lead {
        let (beginnings, generations) = (HashMap::new(), HashMap::new());
        let (in_use, unreadable) = (Vec::new(), Vec::new());
        let mut lead = Lead { beginnings, generations, reported: Vec::new(), new: 0, in_use, unreadable };
        for tunnel in tunnels {
            // A worker that is late may still use these: it is unknown how far they come.
            if tunnel.manual.iter().any(|keys| self.is_in_use(id(tunnel, keys))) {
                lead.in_use.push(tunnel.name.clone());
                continue;
            }
            if tunnel.manual.iter().any(|keys| self.unreadable.contains(&id(tunnel, keys))) {
                lead.unreadable.push(tunnel.name.clone());
                continue;
            }
            let mut beginnings = Vec::new();
            for keys in &tunnel.manual {
                *generation += 1;
                let sa = id(tunnel, keys);
                lead.generations.insert(*generation, sa);
                let beginning = match self.known.get(&sa).map(going_on) {
                    Some(beginning) => {
                        if let Some(known) = self.known.get(&sa).filter(|_| term.has_begun) {
                            let (record, marks) = (known.record.clone(), Marks::default());
                            lead.reported.push(Event::Put { sa, record, marks });
                        }
                        beginning
                    }
                    None => self.fresh(sa, tunnel, term, &mut lead),
                };
                beginnings.push(beginning.shared(*generation));
            }
            lead.beginnings.insert(tunnel.name.clone(), beginnings);
        }
        self.generations.extend(&lead.generations);
        lead
    }

    /// A pair that was never used; its first marks go to the store with it.
    fn fresh(&mut self, sa: SaId, tunnel: &TunnelConfig, term: &LedTerm, lead: &mut Lead) -> Beginning {
        let last = if tunnel.esn { u64::MAX } else { u32::MAX.into() };
        let marks = Marks {
            sent: Span::OUTBOUND.first.min(last),
            ceiling: if term.is_strict { Span::INBOUND.first } else { u64::MAX },
            received: 0,
            iv_start: term.clock_ns,
        };
        let record = convoy_cluster::Record::from(RECORD.to_vec());
        let (sent, accepted) = (marks.sent, if term.is_strict { marks.ceiling } else { 0 });
        self.known.insert(sa, Taken { sa, record: record.clone(), sent, accepted, iv_start: term.clock_ns });
        lead.reported.push(Event::Put { sa, record, marks });
        lead.new += 1;
        Beginning { reserved: marks.sent, acceptable: marks.ceiling, ..Beginning::fresh(term.clock_ns) }
    }

    fn is_in_use(&self, sa: SaId) -> bool {
        self.generations.values().any(|used| *used == sa)
    }

    /// Pairs have ended, which may have come so far at most, by their generations.
    pub(crate) fn end(&mut self, spent: &[(u64, Limits)]) {
        for (generation, limits) in spent {
            let sa = self.generations.remove(generation);
            if let Some(known) = sa.and_then(|sa| self.known.get_mut(&sa)) {
                known.sent = known.sent.max(limits.send);
                known.accepted = known.accepted.max(limits.accept);
            }
        }
    }
}

/// Behind everything that may have been used; nothing may be until the store says so.
fn going_on(taken: &Taken) -> Beginning {
    Beginning {
        sent: taken.sent,
        reserved: taken.sent,
        received: taken.accepted,
        acceptable: taken.accepted,
        ..Beginning::fresh(taken.iv_start)
    }
}

/// The number by which all members know a pair: it changes with its keys.
fn id(tunnel: &TunnelConfig, keys: &ManualKeys) -> SaId {
    let id = far_below(|| hash(tunnel, keys));
    // The hash leaves copies of the keys there.
    wipe_stack();
    id
}

fn hash(tunnel: &TunnelConfig, keys: &ManualKeys) -> SaId {
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
    SaId(u64::from_be_bytes(*whole.first_chunk().expect("32 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_config::Config;

    fn config() -> Config {
        let text = "[cluster]\nname = \"w\"\nendpoints = [\"http://127.0.0.1:2379\"]\nsecret = \"/d\"\n\
             [[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
             [tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
             key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
             key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"\n";
        Config::parse("a.toml", text).expect("good")
    }

    fn begin(pairs: &mut Pairs, is_late: bool, clock_ns: u64, generation: &mut u64) -> (Lead, Beginning) {
        let term = LedTerm { is_strict: true, has_begun: is_late, clock_ns };
        let lead = pairs.begin(config().tunnels.iter(), &term, generation);
        let beginning = lead.beginnings["site-b"][0];
        (lead, beginning)
    }

    #[test]
    fn a_second_leader_goes_on_behind_all_that_the_first_may_have_used() {
        let mut generation = 0;
        let (first, of_first) = begin(&mut Pairs::default(), false, 7_000, &mut generation);
        let [Event::Put { sa, record, marks }] = &first.reported[..] else { panic!("one pair is new") };
        assert_eq!((of_first.sent, of_first.reserved, of_first.acceptable), (0, marks.sent, marks.ceiling));
        let (sent, accepted) = (marks.sent, marks.ceiling);
        let taken = Taken { sa: *sa, record: record.clone(), sent, accepted, iv_start: 7_777 };
        let (second, of_second) = begin(&mut Pairs::new(&[taken], &[]), false, 1, &mut generation);
        assert!(second.reported.is_empty() && second.new == 0 && first.new == 1);
        assert_eq!((of_second.sent, of_second.reserved), (marks.sent, marks.sent), "nothing is granted yet");
        assert_eq!((of_second.received, of_second.acceptable), (marks.ceiling, marks.ceiling));
        assert_eq!((of_first.iv_start, of_second.iv_start), (7_000, 7_777), "each term has its own IVs");
        assert_eq!(first.generations.len() + second.generations.len(), 2, "each has its own");
        assert_ne!(first.generations.keys().next(), second.generations.keys().next());
    }

    #[test]
    fn a_tunnel_whose_pair_cannot_be_read_does_not_begin() {
        let (mut generation, config) = (0, config());
        let sa = id(&config.tunnels[0], &config.tunnels[0].manual[0]);
        let record = convoy_cluster::Record::from(b"of another version".to_vec());
        let strange = Taken { sa, record, sent: 9, accepted: 9, iv_start: 0 };
        for mut pairs in [Pairs::new(&[], &[sa]), Pairs::new(&[strange], &[])] {
            let term = LedTerm { is_strict: true, has_begun: false, clock_ns: 7_000 };
            let lead = pairs.begin(config.tunnels.iter(), &term, &mut generation);
            assert_eq!(lead.unreadable, ["site-b"]);
            assert!(lead.beginnings.is_empty() && lead.reported.is_empty() && lead.new == 0);
        }
    }

    #[test]
    fn keys_that_come_back_within_a_term_go_on_behind_what_they_may_have_used() {
        let (mut pairs, mut generation) = (Pairs::default(), 0);
        let (lead, _) = begin(&mut pairs, false, 7_000, &mut generation);
        let used = *lead.generations.keys().next().expect("one pair");
        let term = LedTerm { is_strict: true, has_begun: true, clock_ns: 7_500 };
        let lead = pairs.begin(config().tunnels.iter(), &term, &mut generation);
        assert_eq!((lead.in_use, lead.reported.len()), (vec!["site-b".to_owned()], 0), "it has not ended");
        pairs.end(&[(used, Limits { send: 1 << 30, accept: 5_000 }), (99, Limits::sending(u64::MAX))]);
        let (lead, again) = begin(&mut pairs, true, 8_000, &mut generation);
        assert_eq!(
            (again.sent, again.reserved, again.received, again.acceptable),
            (1 << 30, 1 << 30, 5_000, 5_000)
        );
        assert_eq!((again.iv_start, lead.new), (7_000, 0));
        assert!(matches!(lead.reported[..], [Event::Put { .. }]), "the store grants more when it is asked");
    }

    #[test]
    fn other_keys_are_another_pair() {
        let config = config();
        let tunnel = &config.tunnels[0];
        let mut other = config.clone();
        other.tunnels[0].manual[0].spi_in += 1;
        assert_eq!(id(tunnel, &tunnel.manual[0]), id(tunnel, &config.clone().tunnels[0].manual[0]));
        assert_ne!(id(tunnel, &tunnel.manual[0]), id(&other.tunnels[0], &other.tunnels[0].manual[0]));
    }
}
