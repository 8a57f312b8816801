//! The marks of the state file: how far each SA with static keys has come, and how far it may go.

use std::collections::HashMap;

use convoy_config::{ManualKeys, TunnelConfig};
use convoy_engine::{far_below, wipe_stack};
use convoy_ipsec::{KeyMaterial, SaDirection, SaProtocol};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::StateError;
use super::file::{CAPACITY, Fingerprint, Records};

/// Sequence numbers reserved at once, at least. A killed gateway leaves the rest of them unused, so
/// 32-bit numbers last for 16,384 such ends; at 1.5 million packets a second half of them last for
/// 87 ms, in which the disk must respond.
const LEAST_SPAN: u64 = 1 << 18;
/// The most reserved at once: a thousandth of all 32-bit numbers.
const MOST_SPAN: u64 = 1 << 22;
/// Between these bounds, as many are reserved as were sent in this time, in ns.
const SPAN_NS: u128 = 4_000_000_000;

/// The beginning of a pair of SAs with static keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The last sequence number that may have been sent before.
    pub sent: u64,
    /// The last one that may currently be sent.
    pub reserved: u64,
    /// The start of counter ciphers' IVs: each is this plus its packet's sequence number.
    pub iv_start: u64,
    /// The highest sequence number that counts as received before.
    pub received: u64,
    /// The last one that may currently be accepted.
    pub acceptable: u64,
    /// Their records in the state file, if there is one.
    pub(crate) kept: Option<Kept>,
}

impl Beginning {
    /// With the first sequence number, and IVs from the clock, which no IV counted up from an
    /// earlier reading has reached, as no gateway sends a packet each nanosecond.
    pub fn fresh(clock_ns: u64) -> Self {
        Self {
            sent: 0,
            reserved: u64::MAX,
            iv_start: clock_ns,
            received: 0,
            acceptable: u64::MAX,
            kept: None,
        }
    }

    /// This beginning, kept under this generation by a cluster instead of a file.
    pub(crate) fn shared(self, generation: u64) -> Self {
        let Self { iv_start, .. } = self;
        let kept = Kept { outbound: 0, nonce: None, inbound: 0, iv_start, last: u64::MAX, generation };
        Self { kept: Some(kept), ..self }
    }
}

/// How far a pair of SAs has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub(super) kept: Kept,
    /// The last sequence number sent.
    pub(super) sent: u64,
    /// The highest received.
    pub(super) received: u64,
}

impl Progress {
    /// The generation of the pair's beginning.
    pub(crate) fn generation(&self) -> u64 {
        self.kept.generation
    }

    /// The last sequence number sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The highest received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

/// The indices of the records of a pair of SAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The outbound SA's sequence numbers.
    outbound: usize,
    /// Its cipher key's IVs, if the cipher counts them.
    nonce: Option<usize>,
    /// The inbound SA's sequence numbers.
    inbound: usize,
    iv_start: u64,
    /// The last number that the SA can have.
    last: u64,
    /// The generation of this beginning: only the latest one of a record may go on.
    pub(crate) generation: u64,
}

/// The latest beginning of a record.
#[derive(Clone, Copy, Debug)]
struct Live {
    generation: u64,
    /// What was sent when the reserve was made, and the time of that.
    base: u64,
    at_ns: u64,
    reserved: u64,
}

/// Whether a reserve that was made when `base` had been sent is half used.
pub(super) fn is_short(base: u64, reserved: u64, sent: u64) -> bool {
    reserved.saturating_sub(sent) <= reserved.saturating_sub(base) / 2
}

/// The records by fingerprint.
pub(super) struct Marks {
    records: Records,
    places: HashMap<Fingerprint, usize>,
    live: HashMap<usize, Live>,
    generations: u64,
}

impl Marks {
    pub(super) fn new(records: Records) -> Self {
        let places = records.marks.iter().enumerate().map(|(place, (fingerprint, _))| (*fingerprint, place));
        Self { places: places.collect(), records, live: HashMap::new(), generations: 0 }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// Begins the SAs of a tunnel's resources behind everything that may have been used before, and
    /// reserves numbers; without static keys there are none. They are valid once the records are on
    /// the disk. `clock_ns` is the wall clock, `now_ns` any monotonic one.
    ///
    /// # Errors
    /// [`StateError::Full`] if there is no room for its records.
    pub(super) fn begin(
        &mut self,
        tunnel: &TunnelConfig,
        clock_ns: u64,
        now_ns: u64,
    ) -> Result<Vec<Beginning>, StateError> {
        let pairs = tunnel.manual.iter().map(|manual| self.begin_pair(tunnel, manual, clock_ns, now_ns));
        let done = pairs.collect();
        wipe_stack();
        done
    }

    fn begin_pair(
        &mut self,
        tunnel: &TunnelConfig,
        manual: &ManualKeys,
        clock_ns: u64,
        now_ns: u64,
    ) -> Result<Beginning, StateError> {
        let nonce = self.nonce_fingerprint(&manual.keys_out).map(|nonce| self.place(nonce)).transpose()?;
        let of_sa = |direction, spi, keys| self.sa_fingerprint(tunnel, direction, spi, keys);
        let outbound = of_sa(SaDirection::Outbound, manual.spi_out, &manual.keys_out);
        let inbound = of_sa(SaDirection::Inbound, manual.spi_in, &manual.keys_in);
        let (outbound, inbound) = (self.place(outbound)?, self.place(inbound)?);
        let (sent, received) = (self.mark(outbound), self.mark(inbound));
        let last = if tunnel.esn { u64::MAX } else { u32::MAX.into() };
        let reserved = sent.saturating_add(LEAST_SPAN).min(last).max(sent);
        // The first IV is the next number's, so one more than the highest that may have been used.
        let iv_start = nonce.map_or(0, |nonce| self.mark(nonce).saturating_sub(sent)).max(clock_ns);
        self.generations += 1;
        let kept = Kept { outbound, nonce, inbound, iv_start, last, generation: self.generations };
        let live = Live { generation: kept.generation, base: sent, at_ns: now_ns, reserved };
        self.live.extend([Some(outbound), nonce].into_iter().flatten().map(|place| (place, live)));
        self.set_sent(&kept, reserved);
        Ok(Beginning { sent, reserved, iv_start, received, acceptable: u64::MAX, kept: Some(kept) })
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

    /// Records what was received, and reserves more numbers if the reserve is half used: returns
    /// the last of them, which may be sent once the records are on the disk.
    pub(super) fn go_on(&mut self, progress: &Progress, now_ns: u64) -> Option<u64> {
        self.note_received(progress);
        let Progress { kept, sent, .. } = progress;
        let live = self.live.get_mut(&kept.outbound).filter(|live| live.generation == kept.generation)?;
        if !is_short(live.base, live.reserved, *sent) {
            return None;
        }
        let elapsed_ns = u128::from(now_ns.saturating_sub(live.at_ns).max(1));
        let in_time = u128::from(sent.saturating_sub(live.base)) * SPAN_NS / elapsed_ns;
        let span = u64::try_from(in_time).unwrap_or(u64::MAX).clamp(LEAST_SPAN, MOST_SPAN);
        let reserved = sent.saturating_add(span).min(kept.last);
        if reserved <= live.reserved {
            return None;
        }
        *live = Live { base: *sent, at_ns: now_ns, reserved, ..*live };
        self.set_sent(kept, reserved);
        Some(reserved)
    }

    /// Records the last number sent by an SA that has stopped: the rest of its reserve is free
    /// again.
    pub(super) fn close(&mut self, progress: &Progress) {
        self.note_received(progress);
        let Progress { kept, sent, .. } = progress;
        if self.live.get(&kept.outbound).is_some_and(|live| live.generation == kept.generation) {
            self.set_sent(kept, *sent);
        }
    }

    fn mark(&self, place: usize) -> u64 {
        self.records.marks[place].1
    }

    /// Sets the last number that may have been sent, and the IV that goes with it.
    fn set_sent(&mut self, kept: &Kept, sent: u64) {
        self.records.marks[kept.outbound].1 = sent;
        if let Some(nonce) = kept.nonce {
            self.records.marks[nonce].1 = kept.iv_start.saturating_add(sent);
        }
    }

    /// Records only what was received.
    pub(super) fn note_received(&mut self, progress: &Progress) {
        let mark = &mut self.records.marks[progress.kept.inbound].1;
        *mark = progress.received.max(*mark);
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
