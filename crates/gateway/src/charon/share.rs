//! charon's SAs as the cluster has them: each by its fingerprint, with the numbers that it may use,
//! and what is written to the store.

use std::collections::HashMap;

use convoy_cluster::{GroupEvent, SaFingerprint};
use convoy_engine::{far_below, wipe_stack};
use convoy_ike::protocol::Message;
use convoy_ipsec::{SaConfig, SaDirection, SaNumber, SaProtocol};
use convoy_reservation::{Limits, Reservation, ReserveRules, SaStart, Used};
use convoy_state::{StartId, Started};
use sha2::{Digest, Sha256};

use crate::cluster::GroupLine;

/// The first start of charon's SAs; those below are of pairs with static keys.
const FIRST_START: u64 = 1 << 63;

/// What the gateway is to its cluster, as far as charon's SAs are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharePhase {
    /// Another one leads, or none.
    StandsBy,
    /// SAs are installed, but the term has not begun.
    Restored,
    Leads,
}

/// An SA that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    sa: SaFingerprint,
    start: StartId,
    first: Reservation,
    pub(super) started: Started,
}

/// charon's SAs in a cluster. What is to be written to the store waits here until the term has
/// begun.
pub(crate) struct Share {
    line: GroupLine,
    rules: ReserveRules,
    phase: SharePhase,
    last_start: u64,
    known: HashMap<SaNumber, Begun>,
    reported: Vec<GroupEvent>,
    starts: HashMap<StartId, SaFingerprint>,
}

impl Share {
    /// No SAs, at a gateway that stands by.
    pub(crate) fn new(line: GroupLine, rules: ReserveRules) -> Self {
        Self {
            line,
            rules,
            phase: SharePhase::StandsBy,
            last_start: FIRST_START,
            known: HashMap::new(),
            reported: Vec::new(),
            starts: HashMap::new(),
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.phase == SharePhase::Leads
    }

    /// The SAs of a term come next.
    pub(super) fn restore(&mut self) {
        self.forget();
        self.phase = SharePhase::Restored;
    }

    /// What the term begins with.
    pub(super) fn take_restored(&mut self) -> (HashMap<StartId, SaFingerprint>, Vec<GroupEvent>) {
        (std::mem::take(&mut self.starts), std::mem::take(&mut self.reported))
    }

    /// The term has begun; returns whether it has not ended meanwhile.
    pub(super) fn lead(&mut self) -> bool {
        if self.phase == SharePhase::Restored {
            self.phase = SharePhase::Leads;
            self.flush();
        }
        self.leads()
    }

    /// The term has ended.
    pub(super) fn stand_by(&mut self) {
        self.forget();
        self.phase = SharePhase::StandsBy;
    }

    fn forget(&mut self) {
        self.known.clear();
        self.reported.clear();
        self.starts.clear();
    }

    /// Limits an SA that is to be installed, unless it has limits: no other member has a new one,
    /// so that it may use its first reservation before the store has it.
    pub(super) fn begin(&mut self, sa: &mut SaConfig) -> Begun {
        let last = if sa.esn { u64::MAX } else { u32::MAX.into() };
        let first = self.rules.first(last, sa.iv_start);
        if sa.sequence_reserved == u64::MAX {
            sa.sequence_reserved = match sa.direction {
                SaDirection::Outbound => first.send_until,
                SaDirection::Inbound => first.accept_until,
            };
        }
        self.last_start += 1;
        let id = StartId(self.last_start);
        // One direction has numbers; the other one is never short of them.
        let (from, end) = (sa.sequence_start, sa.sequence_reserved);
        let (used, limits) = match sa.direction {
            SaDirection::Outbound => (Used { sent: from, received: 0 }, Limits { send: end, ..Limits::NONE }),
            SaDirection::Inbound => {
                (Used { sent: 0, received: from }, Limits { accept: end, ..Limits::NONE })
            }
        };
        let started = Started::kept(SaStart { used, limits, iv_start: sa.iv_start }, id);
        Begun { sa: fingerprint(sa), start: id, first, started }
    }

    /// It is installed.
    pub(super) fn installed(&mut self, number: SaNumber, begun: Begun) {
        self.known.insert(number, begun);
        self.starts.insert(begun.start, begun.sa);
    }

    /// It has this record.
    pub(super) fn put(&mut self, number: SaNumber, record: &Message) {
        if let Some(Begun { sa, first, .. }) = self.known.get(&number) {
            self.reported.push(GroupEvent::Put {
                sa: *sa,
                record: record.to_vec().into(),
                reservation: *first,
            });
        }
    }

    /// It is removed.
    pub(super) fn remove(&mut self, number: SaNumber) {
        let Some(Begun { sa, start, .. }) = self.known.remove(&number) else { return };
        self.reported.push(GroupEvent::Remove { sa });
        self.starts.remove(&start);
        if self.leads() {
            self.line.remove(start);
        }
    }

    /// An SA that is in the store is not installed.
    pub(super) fn drop_stored(&mut self, sa: SaFingerprint) {
        self.reported.push(GroupEvent::Remove { sa });
    }

    /// Reports to the store what it must know, in a term.
    pub(super) fn flush(&mut self) {
        if !self.leads() {
            return;
        }
        // The store must know an SA before its numbers.
        self.reported.drain(..).for_each(|event| self.line.report(event));
        if !self.starts.is_empty() {
            self.line.add(std::mem::take(&mut self.starts));
        }
    }
}

/// The name by which all members know an SA, which no other has, as no other has its keys. Its ends
/// are not part of it, since they change.
fn fingerprint(sa: &SaConfig) -> SaFingerprint {
    let id = far_below(|| hash(sa));
    // The hash leaves copies of the keys there.
    wipe_stack();
    id
}

fn hash(sa: &SaConfig) -> SaFingerprint {
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
    SaFingerprint(u64::from_be_bytes(*whole.first_chunk().expect("32 bytes")))
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::{KeyMaterial, SaIndex};
    use convoy_reservation::ReserveSize;

    use super::*;

    fn share(is_strict: bool) -> (Share, std::os::unix::net::UnixStream) {
        let (line, agent) = GroupLine::without_reader();
        let inbound = is_strict.then_some(ReserveSize::INBOUND);
        (Share::new(line, ReserveRules { outbound: ReserveSize::OUTBOUND, inbound }), agent)
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
        assert_eq!(out.sequence_reserved, ReserveSize::OUTBOUND.first);
        let SaStart { used, limits, .. } = begun.started.start;
        assert_eq!((used.sent, limits.send), (0, ReserveSize::OUTBOUND.first));
        assert_eq!(limits.accept, u64::MAX, "it receives nothing");
        let mut inward = sa(1, SaDirection::Inbound);
        assert_eq!(share.begin(&mut inward).started.start.limits.accept, ReserveSize::INBOUND.first);
        let mut taken = SaConfig { sequence_start: 9, sequence_reserved: 9, ..sa(1, SaDirection::Outbound) };
        let SaStart { used, limits, .. } = share.begin(&mut taken).started.start;
        assert_eq!((taken.sequence_reserved, used.sent, limits.send), (9, 9, 9));
        let (mut lax, _agent) = self::share(false);
        let mut inward = sa(1, SaDirection::Inbound);
        assert_eq!(lax.begin(&mut inward).started.start.limits.accept, u64::MAX);
    }

    #[test]
    fn an_sa_keeps_its_number_when_it_moves_and_each_direction_has_one() {
        let (out, inward) = (sa(1, SaDirection::Outbound), sa(1, SaDirection::Inbound));
        let moved = SaConfig { remote: [198, 51, 100, 9].into(), ..out.clone() };
        assert_eq!(fingerprint(&out), fingerprint(&moved));
        assert_ne!(fingerprint(&out), fingerprint(&inward));
        assert_ne!(fingerprint(&out), fingerprint(&sa(2, SaDirection::Outbound)));
    }

    #[test]
    fn what_a_term_begins_with_is_taken_once_and_nothing_is_reported_before_or_after() {
        let (mut share, _agent) = share(true);
        share.restore();
        let begun = share.begin(&mut sa(1, SaDirection::Outbound));
        share.installed(number(1), begun);
        share.drop_stored(SaFingerprint(5));
        share.flush();
        let (starts, reported) = share.take_restored();
        assert_eq!(starts, HashMap::from([(begun.start, begun.sa)]));
        assert_eq!(reported, [GroupEvent::Remove { sa: SaFingerprint(5) }]);
        assert!(share.lead() && share.leads());
        share.stand_by();
        assert!(!share.lead(), "a term that has ended does not begin again");
        share.remove(number(1));
        assert!(share.take_restored().1.is_empty(), "another gateway has it now");
    }
}
