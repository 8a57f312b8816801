//! The reservations of SAs with static keys, in the terms of the state file: a number for each of
//! the fingerprints that keep an SA's numbers, or a key's IVs, over restarts.

use std::collections::{BTreeMap, HashMap};

use convoy_config::{ManualKeys, TunnelConfig};
use convoy_engine::{far_below, wipe_stack};
use convoy_ipsec::{KeyMaterial, SaDirection, SaProtocol};
use convoy_reservation::{
    IvClock, Limits, Reservation, ReserveRules, ReserveSize, Resume, SaLedger, SaStart, Write,
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::StateError;
use super::file::{CAPACITY, Fingerprint, Records};
use super::reporter::{StartId, Started, WorkerReport};

/// Inbound numbers are not reserved: a number that came since the last write, a second ago at most,
/// can be replayed once after the gateway was killed.
const RULES: ReserveRules = ReserveRules { outbound: ReserveSize::STATE_FILE, inbound: None };

/// The places of the records of a pair of SAs.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// The outbound SA's sequence numbers.
    outbound: usize,
    /// Its cipher key's IVs, if the cipher counts them.
    nonce: Option<usize>,
    /// The inbound SA's sequence numbers.
    inbound: usize,
}

/// A start of a pair of SAs.
#[derive(Clone, Copy, Debug)]
struct KeptPair {
    slots: Slots,
    /// Its worker, once that has reported.
    worker: usize,
}

/// Numbers that are reserved for a worker's SAs.
pub struct Grant {
    /// The worker's number.
    pub worker: usize,
    /// The pair of SAs.
    pub id: StartId,
    /// Up to where they may go.
    pub limits: Limits,
}

/// The records by fingerprint, and the ledger of the SAs that have started.
pub(super) struct Reservations {
    records: Records,
    places: HashMap<Fingerprint, usize>,
    ledger: SaLedger<StartId>,
    kept: HashMap<StartId, KeptPair>,
    /// The latest start of each outbound SA, which alone may go on, and the one before, which may
    /// still report what it has received.
    starts: HashMap<usize, [Option<StartId>; 2]>,
    /// The latest start of each key whose IVs are counted.
    nonce_starts: HashMap<usize, StartId>,
    last_start: u64,
    /// What the records have and the disk may not have yet, the latest of each start.
    writes: BTreeMap<StartId, Write<StartId>>,
}

impl Reservations {
    pub(super) fn new(records: Records) -> Self {
        let places = records.marks.iter().enumerate().map(|(place, (fingerprint, _))| (*fingerprint, place));
        Self {
            places: places.collect(),
            records,
            ledger: SaLedger::new(RULES),
            kept: HashMap::new(),
            starts: HashMap::new(),
            nonce_starts: HashMap::new(),
            last_start: 0,
            writes: BTreeMap::new(),
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Starts the SAs of a tunnel's resources behind everything that may have been used before, and
    /// reserves numbers; without static keys there are none. They may be used once the records are
    /// on the disk. `clock_ns` is the wall clock, `now_ns` any monotonic one.
    ///
    /// # Errors
    /// [`StateError::Full`] if there is no room for its records.
    pub(super) fn start(
        &mut self,
        tunnel: &TunnelConfig,
        clock_ns: u64,
        now_ns: u64,
    ) -> Result<Vec<Started>, StateError> {
        let pairs = tunnel.manual.iter().map(|manual| {
            let slots = self.slots(tunnel, manual)?;
            let last = if tunnel.esn { u64::MAX } else { u32::MAX.into() };
            Ok(self.start_pair(slots, last, clock_ns, now_ns))
        });
        let done = pairs.collect();
        wipe_stack();
        done
    }

    fn start_pair(&mut self, slots: Slots, last: u64, clock_ns: u64, now_ns: u64) -> Started {
        let stored = self.stored(&slots);
        let iv_start = match slots.nonce {
            Some(_) => IvClock::default().begin(clock_ns, &stored),
            None => clock_ns,
        };
        self.last_start += 1;
        let id = StartId(self.last_start);
        let [latest, older] = self.starts.entry(slots.outbound).or_default();
        if let Some(gone) = older.take() {
            self.kept.remove(&gone);
        }
        if let Some(old) = *latest {
            self.ledger.forget(old);
        }
        (*older, *latest) = (*latest, Some(id));
        // Another SA that had the key gets no more numbers, whose IVs would be this one's.
        let of_key = slots.nonce.and_then(|nonce| self.nonce_starts.insert(nonce, id));
        if let Some(old) = of_key {
            self.ledger.forget(old);
        }
        self.kept.insert(id, KeptPair { slots, worker: 0 });
        let start = self.ledger.resume(id, &Resume { stored, iv_start, last }, now_ns);
        self.fetch_writes();
        let reserved = self.ledger.wanted(id).map(Reservation::limits);
        Started { id: Some(id), start: SaStart { limits: reserved.unwrap_or(start.limits), ..start } }
    }

    /// The first two of these tunnels that would send with one key, so that neither could be sure
    /// of its numbers.
    pub(super) fn shared_key<'a>(&self, tunnels: &'a [TunnelConfig]) -> Option<(&'a str, &'a str)> {
        let mut seen: HashMap<Fingerprint, &str> = HashMap::new();
        let pairs = tunnels.iter().flat_map(|tunnel| tunnel.manual.iter().map(move |pair| (tunnel, pair)));
        let shared = pairs.flat_map(|(tunnel, manual)| {
            let keys = &manual.keys_out;
            let sa = self.sa_fingerprint(tunnel, SaDirection::Outbound, manual.spi_out, keys);
            let both = [Some(sa), self.nonce_fingerprint(keys)];
            both.into_iter().flatten().map(move |fingerprint| (fingerprint, tunnel.name.as_str()))
        });
        let mut first =
            shared.filter_map(|(fingerprint, name)| Some((seen.insert(fingerprint, name)?, name)));
        let found = first.next();
        wipe_stack();
        found
    }

    /// Takes note of a worker's report, and reserves more numbers where it must.
    pub(super) fn report(&mut self, report: &WorkerReport, now_ns: u64) {
        self.note_received(report);
        for progress in &report.progress {
            let Some(kept) = self.kept.get_mut(&progress.id) else { continue };
            kept.worker = report.worker;
            if report.is_last {
                self.ledger.close(progress.id, progress.used);
            } else {
                self.ledger.report(progress.id, progress.used, now_ns);
            }
        }
        self.fetch_writes();
    }

    /// Records only what was received.
    pub(super) fn note_received(&mut self, report: &WorkerReport) {
        for progress in &report.progress {
            let Some(kept) = self.kept.get(&progress.id) else { continue };
            let mark = &mut self.records.marks[kept.slots.inbound].1;
            *mark = progress.used.received.max(*mark);
        }
    }

    /// Whether SAs wait for the records to be on the disk.
    pub(super) fn has_raises(&self) -> bool {
        self.writes.values().any(|write| write.is_raise)
    }

    /// The records are on the disk: what SAs may use now.
    pub(super) fn written(&mut self) -> Vec<Grant> {
        let mut grants = Vec::new();
        for write in std::mem::take(&mut self.writes).into_values() {
            let limits = self.ledger.written(&write).filter(|_| write.is_raise);
            let kept = self.kept.get(&write.sa);
            grants.extend(limits.zip(kept).map(|(limits, kept)| Grant {
                worker: kept.worker,
                id: write.sa,
                limits,
            }));
        }
        grants
    }

    /// The records may not be on the disk: they are to be written again.
    pub(super) fn failed(&mut self) {
        for write in std::mem::take(&mut self.writes).into_values() {
            self.ledger.failed(&write);
        }
        self.fetch_writes();
    }

    /// Puts into the records what the ledger wants written.
    fn fetch_writes(&mut self) {
        while let Some(write) = self.ledger.next_write() {
            if let (Some(kept), Some(reservation)) = (self.kept.get(&write.sa), &write.reservation) {
                self.records.marks[kept.slots.outbound].1 = reservation.send_until;
                if let Some(nonce) = kept.slots.nonce {
                    self.records.marks[nonce].1 = reservation.iv_start.wrapping_add(reservation.send_until);
                }
            }
            self.writes.insert(write.sa, write);
        }
    }

    fn mark(&self, place: usize) -> u64 {
        self.records.marks[place].1
    }

    /// What the records have of a pair. The IVs are those of the key, which another SA may have
    /// had.
    fn stored(&self, slots: &Slots) -> Reservation {
        let send_until = self.mark(slots.outbound);
        let last_iv = slots.nonce.map_or(0, |nonce| self.mark(nonce));
        let iv_start = last_iv.wrapping_sub(send_until);
        Reservation { send_until, accept_until: u64::MAX, received: self.mark(slots.inbound), iv_start }
    }

    fn slots(&mut self, tunnel: &TunnelConfig, manual: &ManualKeys) -> Result<Slots, StateError> {
        let nonce = self.nonce_fingerprint(&manual.keys_out).map(|nonce| self.place(nonce)).transpose()?;
        let of_sa = |direction, spi, keys| self.sa_fingerprint(tunnel, direction, spi, keys);
        let outbound = of_sa(SaDirection::Outbound, manual.spi_out, &manual.keys_out);
        let inbound = of_sa(SaDirection::Inbound, manual.spi_in, &manual.keys_in);
        Ok(Slots { outbound: self.place(outbound)?, nonce, inbound: self.place(inbound)? })
    }

    /// The index of the record, which is created if necessary.
    fn place(&mut self, fingerprint: Fingerprint) -> Result<usize, StateError> {
        let next = self.records.marks.len();
        let place = *self.places.entry(fingerprint).or_insert(next);
        if place == CAPACITY {
            self.places.remove(&fingerprint);
            return Err(StateError::Full);
        }
        if place == next {
            self.records.marks.push((fingerprint, 0));
        }
        Ok(place)
    }

    /// The fingerprint of one direction's SA. The destination is not part of it: a peer that has
    /// moved has still received its numbers.
    fn sa_fingerprint(
        &self,
        tunnel: &TunnelConfig,
        direction: SaDirection,
        spi: u32,
        keys: &KeyMaterial,
    ) -> Fingerprint {
        let direction = match direction {
            SaDirection::Outbound => b'o',
            SaDirection::Inbound => b'i',
        };
        let protocol = match tunnel.protocol {
            SaProtocol::Esp => 50,
            SaProtocol::Ah => 51,
        };
        let algorithms = convoy_ipsec::Proposal { esn: false, ..tunnel.proposal }.to_string();
        let key = [keys.cipher_key(), keys.salt(), keys.integrity_key()];
        let head: [&[u8]; 4] =
            [b"sa", &[direction, protocol], &spi.to_be_bytes(), &[algorithms.as_bytes(), b"\0"].concat()];
        self.fingerprint(head.into_iter().chain(key))
    }

    /// The fingerprint of a key and salt under which no IV may repeat, whatever SA has them; `None`
    /// if IVs are random.
    fn nonce_fingerprint(&self, keys: &KeyMaterial) -> Option<Fingerprint> {
        let counts = !keys.salt().is_empty();
        counts.then(|| self.fingerprint([b"nonce", keys.cipher_key(), keys.salt()]))
    }

    /// The parts contain keys, of which the hash leaves copies on the stack: the caller wipes it.
    fn fingerprint<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>) -> Fingerprint {
        far_below(|| {
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.records.salt).expect("a key of any length");
            parts.into_iter().for_each(|part| mac.update(part));
            let whole = mac.finalize().into_bytes();
            whole[..].first_chunk().copied().expect("32 bytes")
        })
    }
}

#[cfg(test)]
mod tests;
