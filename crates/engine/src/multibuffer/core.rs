//! The library with the keys of one thread: packets in, the same with their results out.

mod aead;
mod runs;

use convoy_ipsec::{
    Aead, Cipher, CryptoJob, CryptoPacket, CryptoStatus, Direction, Integrity, KeyMaterial, SaIndex,
    Transform,
};
use convoy_ipsec_mb as mb;
use convoy_packet::prefetch;
use subtle::{Choice, ConstantTimeEq};

use self::runs::{JobRun, Work};
use crate::software::KeyTable;
use crate::{EngineError, Submission};

/// Bytes of the upper half of an extended sequence number.
const ESN_HIGH: usize = 4;

/// The expanded keys of one SA.
struct MbKeys {
    transform: Transform,
    key: mb::Key,
}

impl MbKeys {
    /// Whether the upper half of an extended sequence number goes into an integrity algorithm.
    fn has_hash(&self) -> bool {
        matches!(self.transform, Transform::Chained { integrity: Some(_), .. })
    }
}

/// Manager and keys.
pub struct MultibufferState {
    name: String,
    manager: mb::Manager,
    keys: Vec<Option<MbKeys>>,
    /// For what the library refuses: hashing nothing at all, which occurs only in tests.
    reference: KeyTable,
    arranged: Arranged,
}

/// Packets in progress of other transforms than AEADs.
#[derive(Default)]
struct Arranged {
    /// By packet.
    packets: Vec<Arrangement>,
    /// The ICVs that were displaced, in the order of their packets: most stay in place.
    displaced: Vec<[u8; mb::TAG_BYTES]>,
}

/// A packet in progress.
#[derive(Clone, Copy)]
struct Arrangement {
    /// Whether it was submitted to the library.
    is_given: bool,
    /// Whether its ICV was displaced.
    is_displaced: bool,
}

impl Arranged {
    fn clear(&mut self) {
        self.packets.clear();
        self.displaced.clear();
    }
}

impl MultibufferState {
    /// The library, without keys; `name` is the engine's, for errors.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is unavailable.
    pub fn new(name: &str) -> Result<Self, EngineError> {
        let manager = mb::Manager::new()
            .map_err(|error| EngineError::Device { engine: name.to_owned(), reason: error.to_string() })?;
        Ok(Self {
            name: name.to_owned(),
            manager,
            keys: Vec::new(),
            reference: KeyTable::default(),
            arranged: Arranged::default(),
        })
    }

    /// The transforms that it does well on this machine.
    pub fn transforms(&self) -> Vec<Transform> {
        done_well(&self.manager)
    }

    /// Installs the keys of an SA.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if the library lacks the transform.
    pub fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        let transform = keys.transform();
        let (cipher, hash) = names(transform);
        let key =
            self.manager.key(cipher, hash, transform.icv_len(), keys.cipher_key(), keys.integrity_key());
        let Some(key) = key else {
            return Err(EngineError::Unsupported { engine: self.name.clone(), transform });
        };
        self.reference.install(&self.name, sa, keys)?;
        let at = sa.0 as usize;
        if self.keys.len() <= at {
            self.keys.resize_with(at + 1, || None);
        }
        self.keys[at] = Some(MbKeys { transform, key });
        Ok(())
    }

    /// Removes the keys of an SA, if it has any.
    pub fn remove(&mut self, sa: SaIndex) {
        self.reference.remove(sa);
        if let Some(slot) = self.keys.get_mut(sa.0 as usize) {
            *slot = None;
        }
    }

    /// Whether an SA has keys here.
    pub(super) fn has_key(&self, sa: SaIndex) -> bool {
        self.keys.get(sa.0 as usize).is_some_and(Option::is_some)
    }

    /// Processes a train; `false` if its SA has no keys here.
    pub fn process_one(&mut self, submission: &mut Submission) -> bool {
        let has_key = self.has_key(submission.sa);
        if has_key {
            self.process(submission);
        }
        has_key
    }

    /// Processes packets of any SAs together, so that packets of one fill the lanes that another
    /// leaves empty. Packets without keys stay unchanged.
    pub(super) fn process(&mut self, work: &mut (impl Work + ?Sized)) {
        self.arranged.clear();
        let mut is_chained = false;
        let mut burst = self.manager.burst();
        for JobRun { sa, direction, packets, ahead } in work.runs() {
            if let Some(entry) = ahead.far.and_then(|far| self.keys.get(far.sa.0 as usize)) {
                prefetch(entry);
            }
            if let Some(near) = ahead.near
                && let Some(Some(keys)) = self.keys.get(near.sa.0 as usize)
            {
                keys.key.prefetch(near.len.into());
            }
            let Some(Some(keys)) = self.keys.get(sa.0 as usize) else { continue };
            let seal = direction == Direction::Seal;
            if !matches!(keys.transform, Transform::Aead(_)) {
                is_chained = true;
                give(&mut burst, keys, seal, packets, &mut self.arranged);
            } else if !aead::process(&mut burst, &keys.key, seal, packets) {
                do_refused(&self.reference, sa, direction, packets);
            }
        }
        let results = burst.run();
        if is_chained {
            conclude_all(&self.keys, &self.reference, &self.arranged, &results, work);
        }
    }
}

/// Writes the results of packets of other transforms than AEADs.
fn conclude_all(
    keys: &[Option<MbKeys>],
    reference: &KeyTable,
    arranged: &Arranged,
    results: &mb::Results<'_>,
    work: &mut (impl Work + ?Sized),
) {
    let (mut given, mut arrangements, mut displaced) =
        (0, arranged.packets.iter(), arranged.displaced.iter());
    for JobRun { sa, direction, packets, .. } in work.runs() {
        let Some(Some(keys)) = keys.get(sa.0 as usize) else { continue };
        if let Transform::Aead(_) = keys.transform {
            continue;
        }
        let (icv_len, seal) = (keys.transform.icv_len(), direction == Direction::Seal);
        let mut refused = false;
        for (packet, arrangement) in packets.iter_mut().zip(&mut arrangements) {
            let is_done = arrangement.is_given && results.is_done(given);
            if arrangement.is_displaced
                && let Some(icv) = displaced.next()
            {
                replace(packet, &icv[..icv_len], is_done && seal);
            }
            let tag = if is_done && !seal { results.tag(given) } else { None };
            given += usize::from(arrangement.is_given);
            refused |= !conclude(packet, is_done, seal, tag);
        }
        if refused {
            do_refused(reference, sa, direction, packets);
        }
    }
}

/// Processes what the library refused.
#[cold]
fn do_refused(reference: &KeyTable, sa: SaIndex, direction: Direction, packets: &mut [CryptoPacket]) {
    let Some(keys) = reference.get(sa) else { return };
    for packet in packets.iter_mut().filter(|packet| packet.status == CryptoStatus::Pending) {
        keys.run(direction, std::slice::from_mut(packet));
    }
}

/// The transforms for which the library has vector code on this processor: with scalar code it is
/// not worth choosing.
pub(crate) fn done_well(manager: &mb::Manager) -> Vec<Transform> {
    let is_done_well = |transform: &Transform| manager.has_vector_code(names(*transform).0);
    crate::transforms().into_iter().filter(is_done_well).collect()
}

fn names(transform: Transform) -> (mb::LibraryCipher, mb::Hash) {
    match transform {
        Transform::Aead(Aead::AesGcm { .. }) => (mb::LibraryCipher::Gcm, mb::Hash::None),
        Transform::Aead(Aead::NullAesGmac(_)) => (mb::LibraryCipher::Gmac, mb::Hash::None),
        Transform::Aead(Aead::ChaCha20Poly1305) => (mb::LibraryCipher::ChaCha20Poly1305, mb::Hash::None),
        Transform::Chained { cipher, integrity } => {
            let cipher = match cipher {
                Cipher::Null => mb::LibraryCipher::Null,
                Cipher::AesCbc(_) => mb::LibraryCipher::Cbc,
                Cipher::AesCtr(_) => mb::LibraryCipher::Ctr,
                Cipher::TripleDesCbc => mb::LibraryCipher::TripleDes,
                Cipher::DesCbc => mb::LibraryCipher::Des,
            };
            let hash = match integrity {
                None => mb::Hash::None,
                Some(Integrity::HmacMd5_96) => mb::Hash::Md5,
                Some(Integrity::HmacSha1_96) => mb::Hash::Sha1,
                Some(Integrity::HmacSha256_128) => mb::Hash::Sha256,
                Some(Integrity::HmacSha384_192) => mb::Hash::Sha384,
                Some(Integrity::HmacSha512_256) => mb::Hash::Sha512,
            };
            (cipher, hash)
        }
    }
}

/// The nonce and additional data of a job, for the library.
fn inputs(job: &CryptoJob) -> mb::Inputs<'_> {
    let CryptoJob { nonce, nonce_len, aad, aad_len, .. } = job;
    mb::Inputs { nonce, nonce_len: *nonce_len, aad, aad_len: *aad_len }
}

/// The position of the bytes that the integrity algorithm covers behind `auth`: in place of the ICV
/// for ESP, behind the packet for AH, whose ICV is inside.
fn auth_end(packet: &CryptoPacket) -> usize {
    usize::from(packet.job.auth_start) + usize::from(packet.job.auth_len)
}

/// Makes what is authenticated contiguous; an ICV that is in the way is appended to `displaced`.
/// Returns whether there was one; `None` if the job exceeds the frame.
#[inline]
fn arrange(
    packet: &mut CryptoPacket,
    icv_len: usize,
    seal: bool,
    displaced: &mut Vec<[u8; mb::TAG_BYTES]>,
) -> Option<bool> {
    let (job, end, len) = (&packet.job, auth_end(packet), packet.frame.len());
    let icv = usize::from(job.icv_start);
    if icv + icv_len > len || end > len {
        return None;
    }
    let is_inside = icv_len > 0 && (usize::from(job.auth_start)..end).contains(&icv);
    let is_displaced = job.esn_high.is_some() || is_inside && !seal;
    if is_displaced {
        displaced.push(displace(packet, icv_len, is_inside && !seal)?);
    }
    Some(is_displaced)
}

/// Replaces the ICV by what is authenticated without being sent, and returns the ICV.
fn displace(packet: &mut CryptoPacket, icv_len: usize, is_zero: bool) -> Option<[u8; mb::TAG_BYTES]> {
    let (icv, end) = (usize::from(packet.job.icv_start), auth_end(packet));
    let mut received = [0; mb::TAG_BYTES];
    received[..icv_len].copy_from_slice(packet.frame.get(icv..icv + icv_len)?);
    if is_zero {
        // AH's ICV counts as zero under itself (RFC 4302 section 3.4.4).
        packet.frame[icv..icv + icv_len].fill(0);
    }
    if let Some(high) = packet.job.esn_high {
        if packet.frame.len() < end + ESN_HIGH {
            let missing = end + ESN_HIGH - packet.frame.len();
            packet.frame.append(missing).ok()?;
        }
        packet.frame[end..end + ESN_HIGH].copy_from_slice(&high);
    }
    Some(received)
}

/// Undoes [`displace`]; an ICV that was written in its place `stays`.
fn replace(packet: &mut CryptoPacket, icv: &[u8], stays: bool) {
    let (at, end) = (usize::from(packet.job.icv_start), auth_end(packet));
    if packet.job.esn_high.is_some() && at < end {
        packet.frame.truncate(end);
    }
    if !stays {
        packet.frame[at..at + icv.len()].copy_from_slice(icv);
    }
}

/// Arranges the packets of a train, and adds them to the burst where possible.
fn give<'p>(
    burst: &mut mb::JobBurst<'_, 'p>,
    keys: &'p MbKeys,
    seal: bool,
    packets: &'p mut [CryptoPacket],
    arranged: &mut Arranged,
) {
    let (block, nonce_len) = match keys.transform {
        // Processed by `aead`.
        Transform::Aead(_) => return,
        Transform::Chained { cipher: Cipher::Null, .. } => (1, None),
        Transform::Chained { cipher: Cipher::AesCtr(_), .. } => (1, Some(16)),
        Transform::Chained { cipher: Cipher::AesCbc(_), .. } => (16, Some(16)),
        Transform::Chained { cipher: Cipher::TripleDesCbc | Cipher::DesCbc, .. } => (8, Some(8)),
    };
    let (icv_len, has_hash) = (keys.transform.icv_len(), keys.has_hash());
    for packet in packets {
        if !has_hash {
            packet.job.esn_high = None;
        }
        let is_refused = matches!(packet.status, CryptoStatus::Refused(_));
        let displaced = &mut arranged.displaced;
        let is_displaced = if is_refused { None } else { arrange(packet, icv_len, seal, displaced) };
        let job = &packet.job;
        let is_good = is_displaced.is_some()
            && nonce_len.is_none_or(|len| len == job.nonce_len)
            && job.cipher_len & (block - 1) == 0;
        let is_given = is_good && push(burst, keys, seal, packet);
        arranged.packets.push(Arrangement { is_given, is_displaced: is_displaced == Some(true) });
    }
}

/// Adds an arranged packet to the burst; `false` if its job is invalid.
#[inline]
fn push<'p>(
    burst: &mut mb::JobBurst<'_, 'p>,
    keys: &'p MbKeys,
    seal: bool,
    packet: &'p mut CryptoPacket,
) -> bool {
    let job = &packet.job;
    let extra = if job.esn_high.is_some() { ESN_HIGH } else { 0 };
    let cipher = mb::PacketSpan { at: job.cipher_start.into(), len: job.cipher_len.into() };
    let auth = mb::PacketSpan { at: job.auth_start.into(), len: usize::from(job.auth_len) + extra };
    let Some(given) = mb::Job::new(&mut packet.frame, cipher, auth, inputs(job)) else { return false };
    // A packet to be opened has the received ICV there, with which the computed one is compared.
    let given = if seal { given.with_tag_at(job.icv_start.into()) } else { given };
    burst.push(given, &keys.key, seal)
}

/// Compares ICVs, which are whole words, in constant time: a word at a time, as a byte at a time
/// took 50 cycles.
#[inline]
fn is_equal(one: &[u8], other: &[u8]) -> Choice {
    let pairs = one.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    let difference =
        pairs.fold(0, |sum, (one, other)| sum | (u32::from_ne_bytes(*one) ^ u32::from_ne_bytes(*other)));
    difference.ct_eq(&0)
}

/// Writes the result of a packet that is restored except for the library's work; `tag` is the
/// expected ICV if it is opened. `false` if the library did not process the job.
#[inline]
fn conclude(packet: &mut CryptoPacket, is_done: bool, seal: bool, tag: Option<&[u8]>) -> bool {
    if let CryptoStatus::Refused(_) = packet.status {
        return true;
    }
    let icv = usize::from(packet.job.icv_start);
    let is_good = seal
        || tag.is_some_and(|tag| {
            let received = packet.frame.get(icv..icv + tag.len());
            received.is_some_and(|received| is_equal(tag, received).into())
        });
    packet.status = match (is_done, is_good) {
        (false, _) => CryptoStatus::Pending,
        (true, true) => CryptoStatus::Done,
        (true, false) => CryptoStatus::IcvMismatch,
    };
    is_done
}
