//! charon's SAs as the cluster has them: under which number, how far each may go, and what
//! is written to the store.

use std::collections::HashMap;

use convoy_cluster::{Event, Marks, SaId, Span};
use convoy_engine::{far_below, wipe_stack};
use convoy_ike::protocol::Message;
use convoy_ipsec::{SaConfig, SaDirection, SaNumber, SaProtocol};
use sha2::{Digest, Sha256};

use crate::cluster::GroupLine;
use crate::state::Beginning;

/// The first generation of charon's SAs; those below are of pairs with static keys.
const FIRST_GENERATION: u64 = 1 << 63;

/// What the gateway is to its cluster, as far as charon's SAs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Another one leads, or none.
    StandsBy,
    /// SAs are installed, but the term has not begun.
    Restored,
    Leads,
}

/// An SA that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    id: SaId,
    generation: u64,
    marks: Marks,
    /// How far it may go.
    pub(super) beginning: Beginning,
}

/// charon's SAs in a cluster. What is to be written to the store waits here until the term has
/// begun.
pub(crate) struct Share {
    line: GroupLine,
    is_strict: bool,
    phase: Phase,
    generation: u64,
    known: HashMap<SaNumber, Begun>,
    reported: Vec<Event>,
    generations: HashMap<u64, SaId>,
}

impl Share {
    /// No SAs, at a gateway that stands by. With `is_strict`, the numbers that are received are
    /// reserved, too.
    pub(crate) fn new(line: GroupLine, is_strict: bool) -> Self {
        Self {
            line,
            is_strict,
            phase: Phase::StandsBy,
            generation: FIRST_GENERATION,
            known: HashMap::new(),
            reported: Vec::new(),
            generations: HashMap::new(),
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.phase == Phase::Leads
    }

    /// The SAs of a term come next.
    pub(super) fn restore(&mut self) {
        self.forget();
        self.phase = Phase::Restored;
    }

    /// What the term begins with.
    pub(super) fn take_restored(&mut self) -> (HashMap<u64, SaId>, Vec<Event>) {
        (std::mem::take(&mut self.generations), std::mem::take(&mut self.reported))
    }

    /// The term has begun; returns whether it has not ended meanwhile.
    pub(super) fn lead(&mut self) -> bool {
        if self.phase == Phase::Restored {
            self.phase = Phase::Leads;
            self.flush();
        }
        self.leads()
    }

    /// The term has ended.
    pub(super) fn stand_by(&mut self) {
        self.forget();
        self.phase = Phase::StandsBy;
    }

    fn forget(&mut self) {
        self.known.clear();
        self.reported.clear();
        self.generations.clear();
    }

    /// Limits an SA that is to be installed, unless it has limits: no other member has a new one,
    /// so that it may be used up to its first marks before the store has them.
    pub(super) fn begin(&mut self, sa: &mut SaConfig) -> Begun {
        let last = if sa.esn { u64::MAX } else { u32::MAX.into() };
        let marks = Marks {
            sent: Span::OUTBOUND.first.min(last),
            ceiling: if self.is_strict { Span::INBOUND.first } else { u64::MAX },
            received: 0,
            iv_start: sa.iv_start,
        };
        if sa.sequence_reserved == u64::MAX {
            sa.sequence_reserved = match sa.direction {
                SaDirection::Outbound => marks.sent,
                SaDirection::Inbound => marks.ceiling,
            };
        }
        self.generation += 1;
        // One direction has numbers; the other one is never short of them.
        let (start, end) = (sa.sequence_start, sa.sequence_reserved);
        let fresh = Beginning::fresh(sa.iv_start);
        let beginning = match sa.direction {
            SaDirection::Outbound => Beginning { sent: start, reserved: end, ..fresh },
            SaDirection::Inbound => Beginning { received: start, acceptable: end, ..fresh },
        };
        Begun { id: id(sa), generation: self.generation, marks, beginning: beginning.shared(self.generation) }
    }

    /// It is installed.
    pub(super) fn installed(&mut self, number: SaNumber, begun: Begun) {
        self.known.insert(number, begun);
        self.generations.insert(begun.generation, begun.id);
    }

    /// It has this record.
    pub(super) fn put(&mut self, number: SaNumber, record: &Message) {
        if let Some(Begun { id, marks, .. }) = self.known.get(&number) {
            self.reported.push(Event::Put { sa: *id, record: record.to_vec().into(), marks: *marks });
        }
    }

    /// It is removed.
    pub(super) fn remove(&mut self, number: SaNumber) {
        let Some(Begun { id, generation, .. }) = self.known.remove(&number) else { return };
        self.reported.push(Event::Remove { sa: id });
        self.generations.remove(&generation);
        if self.leads() {
            self.line.remove(generation);
        }
    }

    /// An SA that is in the store is not installed.
    pub(super) fn drop_taken(&mut self, sa: SaId) {
        self.reported.push(Event::Remove { sa });
    }

    /// Tells the store what it is to know, in a term.
    pub(super) fn flush(&mut self) {
        if !self.leads() {
            return;
        }
        // The store must know an SA before it hears how far that has come.
        self.reported.drain(..).for_each(|event| self.line.tell(event));
        if !self.generations.is_empty() {
            self.line.add(std::mem::take(&mut self.generations));
        }
    }
}

/// The number by which all members know an SA, which no other has, as no other has its keys. Its
/// ends are not part of it, since they change.
fn id(sa: &SaConfig) -> SaId {
    let id = far_below(|| hash(sa));
    // The hash leaves copies of the keys there.
    wipe_stack();
    id
}

fn hash(sa: &SaConfig) -> SaId {
    let protocol = match sa.protocol {
        SaProtocol::Esp => 50,
        SaProtocol::Ah => 51,
    };
    let is_inbound = u8::from(sa.direction == SaDirection::Inbound);
    let mut hash = Sha256::new();
    hash.update(b"convoy's charon");
    hash.update([protocol, is_inbound]);
    hash.update(sa.spi.to_be_bytes());
    for part in [sa.keys.cipher_key(), sa.keys.salt(), sa.keys.integrity_key()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let whole = hash.finalize();
    SaId(u64::from_be_bytes(*whole.first_chunk().expect("32 bytes")))
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::{KeyMaterial, SaIndex};

    use super::*;

    fn share(is_strict: bool) -> (Share, std::os::unix::net::UnixStream) {
        let (line, agent) = GroupLine::without_reader();
        (Share::new(line, is_strict), agent)
    }

    fn sa(spi: u32, direction: SaDirection) -> SaConfig {
        let proposal: convoy_ipsec::Proposal = "aes128gcm16".parse().expect("a proposal");
        let keys = KeyMaterial::new(proposal.transform, vec![7; 20]).expect("keys");
        SaConfig::new(spi, direction, [192, 0, 2, 1].into(), [192, 0, 2, 2].into(), keys)
    }

    fn number(index: u32) -> SaNumber {
        SaNumber { owner: 0, index: SaIndex(index), generation: 1 }
    }

    #[test]
    fn new_sa_has_numbers_at_once_and_a_taken_one_has_none() {
        let (mut share, _agent) = share(true);
        let mut out = sa(1, SaDirection::Outbound);
        let begun = share.begin(&mut out);
        assert_eq!(out.sequence_reserved, Span::OUTBOUND.first);
        assert_eq!((begun.beginning.sent, begun.beginning.reserved), (0, Span::OUTBOUND.first));
        assert_eq!(begun.beginning.acceptable, u64::MAX, "it receives nothing");
        let mut inward = sa(1, SaDirection::Inbound);
        assert_eq!(share.begin(&mut inward).beginning.acceptable, Span::INBOUND.first);
        let mut taken = SaConfig { sequence_start: 9, sequence_reserved: 9, ..sa(1, SaDirection::Outbound) };
        let beginning = share.begin(&mut taken).beginning;
        assert_eq!((taken.sequence_reserved, beginning.sent, beginning.reserved), (9, 9, 9));
        let (mut lax, _agent) = self::share(false);
        let mut inward = sa(1, SaDirection::Inbound);
        assert_eq!(lax.begin(&mut inward).beginning.acceptable, u64::MAX);
    }

    #[test]
    fn an_sa_keeps_its_number_when_it_moves_and_each_direction_has_one() {
        let (out, inward) = (sa(1, SaDirection::Outbound), sa(1, SaDirection::Inbound));
        let moved = SaConfig { remote: [198, 51, 100, 9].into(), ..out.clone() };
        assert_eq!(id(&out), id(&moved));
        assert_ne!(id(&out), id(&inward));
        assert_ne!(id(&out), id(&sa(2, SaDirection::Outbound)));
    }

    #[test]
    fn what_a_term_begins_with_is_taken_once_and_nothing_is_reported_before_or_after() {
        let (mut share, _agent) = share(true);
        share.restore();
        let begun = share.begin(&mut sa(1, SaDirection::Outbound));
        share.installed(number(1), begun);
        share.drop_taken(SaId(5));
        share.flush();
        let (generations, reported) = share.take_restored();
        assert_eq!(generations, HashMap::from([(begun.generation, begun.id)]));
        assert_eq!(reported, [Event::Remove { sa: SaId(5) }]);
        assert!(share.lead() && share.leads());
        share.stand_by();
        assert!(!share.lead(), "a term that has ended does not begin again");
        share.remove(number(1));
        assert!(share.take_restored().1.is_empty(), "another gateway has it now");
    }
}
