//! Pairs of SAs with static keys, as the cluster knows them.

use std::collections::HashMap;

use convoy_cluster::{Event, Marks, SaId, Span, Taken};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{Config, ManualKeys, ReplayAfterTakeover, TunnelConfig};
use crate::state::{Beginning, Beginnings};

/// What another gateway needs beside the configuration that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The start of counter ciphers' IVs: each is this plus its packet's number, so that no IV
    /// repeats as no number does.
    iv_start: u64,
}

/// What a leader begins with.
pub(crate) struct Lead {
    /// The beginnings of the SAs.
    pub(crate) beginnings: Beginnings,
    /// The pair of each generation.
    pub(crate) generations: HashMap<u64, SaId>,
    /// Those that the store does not know yet.
    pub(crate) new: Vec<Event>,
}

/// The beginnings of all tunnels, where `taken` is what the store has. Generations count up from
/// `generation`.
pub(crate) fn lead(config: &Config, taken: &[Taken], clock_ns: u64, generation: &mut u64) -> Lead {
    let known: HashMap<SaId, &Taken> = taken.iter().map(|taken| (taken.sa, taken)).collect();
    let is_strict =
        config.cluster.as_ref().is_none_or(|cluster| cluster.replay == ReplayAfterTakeover::Strict);
    let (mut generations, mut new, mut by_name) = (HashMap::new(), Vec::new(), HashMap::new());
    for tunnel in &config.tunnels {
        let mut beginnings = Vec::new();
        for keys in &tunnel.manual {
            *generation += 1;
            let sa = id(tunnel, keys);
            generations.insert(*generation, sa);
            let found = known.get(&sa).and_then(|taken| {
                let record: Record = serde_json::from_slice(&taken.record).ok()?;
                Some(going_on(taken, record))
            });
            let beginning = found.unwrap_or_else(|| {
                let (beginning, marks) = fresh(tunnel, clock_ns, is_strict);
                let record = Record { iv_start: clock_ns };
                let record = serde_json::to_vec(&record).expect("numbers are written");
                new.push(Event::Put { sa, record, marks });
                beginning
            });
            beginnings.push(beginning.shared(*generation));
        }
        by_name.insert(tunnel.name.clone(), beginnings);
    }
    Lead { beginnings: Beginnings::Noted(by_name), generations, new }
}

/// Behind everything that may have been used; nothing may be until the store says so.
fn going_on(taken: &Taken, record: Record) -> Beginning {
    Beginning {
        sent: taken.sent,
        reserved: taken.sent,
        received: taken.accepted,
        acceptable: taken.accepted,
        ..Beginning::fresh(record.iv_start)
    }
}

/// A pair that nobody has used; its first marks go to the store with it.
fn fresh(tunnel: &TunnelConfig, clock_ns: u64, is_strict: bool) -> (Beginning, Marks) {
    let last = if tunnel.esn { u64::MAX } else { u32::MAX.into() };
    let marks = Marks {
        sent: Span::OUTBOUND.first.min(last),
        ceiling: if is_strict { Span::INBOUND.first } else { u64::MAX },
        received: 0,
    };
    let beginning =
        Beginning { reserved: marks.sent, acceptable: marks.ceiling, ..Beginning::fresh(clock_ns) };
    (beginning, marks)
}

/// The number by which all members know a pair: it changes with its keys.
fn id(tunnel: &TunnelConfig, keys: &ManualKeys) -> SaId {
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

    fn config() -> Config {
        let text = "[cluster]\nname = \"w\"\nendpoints = [\"http://127.0.0.1:2379\"]\nsecret = \"/d\"\n\
             [[tunnel]]\nname = \"site-b\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
             local_ts = [\"10.1.0.0/24\"]\nremote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n\
             [tunnel.manual]\nspi_in = 0x1001\nspi_out = 0x1002\n\
             key_in = \"00112233445566778899aabbccddeeff00112233\"\n\
             key_out = \"ffeeddccbbaa99887766554433221100ffeeddcc\"\n";
        Config::parse("a.toml", text).expect("good")
    }

    fn beginning(lead: &Lead) -> Beginning {
        match &lead.beginnings {
            Beginnings::Noted(known) => known["site-b"][0],
            Beginnings::Fresh => panic!("they are noted"),
        }
    }

    #[test]
    fn a_second_leader_goes_on_behind_all_that_the_first_may_have_used() {
        let (config, mut generation) = (config(), 0);
        let first = lead(&config, &[], 7_000, &mut generation);
        let [Event::Put { sa, record, marks }] = &first.new[..] else { panic!("one pair is new") };
        let of_first = beginning(&first);
        assert_eq!((of_first.sent, of_first.reserved, of_first.acceptable), (0, marks.sent, marks.ceiling));
        let taken = Taken { sa: *sa, record: record.clone(), sent: marks.sent, accepted: marks.ceiling };
        let second = lead(&config, &[taken], 1, &mut generation);
        assert!(second.new.is_empty());
        let of_second = beginning(&second);
        assert_eq!((of_second.sent, of_second.reserved), (marks.sent, marks.sent), "nothing is granted yet");
        assert_eq!((of_second.received, of_second.acceptable), (marks.ceiling, marks.ceiling));
        assert_eq!(of_second.iv_start, 7_000, "IVs go on with the numbers");
        assert_eq!(first.generations.len() + second.generations.len(), 2, "each has its own");
        assert_ne!(first.generations.keys().next(), second.generations.keys().next());
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
