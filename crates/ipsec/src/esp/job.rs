//! The crypto job: the interface between `prepare` and `finish`, and all that an engine sees of a
//! packet.

use convoy_packet::Frame;

use crate::drops::DropReason;
use crate::esp::stage::{FinishContext, Form};
use crate::sa::id::{SaIndex, SaProtocol};

/// What the engine does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Encrypt in place and write the ICV.
    Seal,
    /// Compare the ICV in constant time, then decrypt in place. On a mismatch the bytes are
    /// undefined and must not be used.
    Open,
}

/// The longest nonce: AES-CBC's IV, or AES-CTR's counter block.
pub const NONCE_BYTES: usize = 16;
/// The longest additional authenticated data: SPI and a 64-bit sequence number.
pub const AAD_BYTES: usize = 12;

/// Where an engine finds the parts of one packet. Offsets and lengths are in bytes, from the start
/// of the frame's packet; `prepare` has checked that all lie inside it.
///
/// | transform | nonce | authenticated |
/// | --- | --- | --- |
/// | AES-GCM, ChaCha20-Poly1305 | salt, IV (12) | `aad`, then the ciphertext as the AEAD does |
/// | NULL-AES-GMAC | salt, IV (12) | `aad`, then `auth` of the frame; nothing is encrypted |
/// | AES-CTR + HMAC | nonce, IV, 1 (16) | `auth` of the frame, then `esn_high` |
/// | CBC + HMAC | IV (8 or 16) | `auth` of the frame, then `esn_high` |
///
/// An ICV that lies inside `auth`, as AH's does, counts as zeros there (RFC 4302 section
/// 3.3.3.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CryptoJob {
    /// Start of the encrypted part.
    pub cipher_start: u16,
    /// Its length; a multiple of the block for CBC.
    pub cipher_len: u16,
    /// Start of the authenticated part, as it is in the frame (after sealing, before opening).
    pub auth_start: u16,
    /// Its length; 0 for an AEAD, which authenticates only its ciphertext.
    pub auth_len: u16,
    /// Start of the ICV; its length is the transform's.
    pub icv_start: u16,
    /// Bytes of `aad` in use: 0, 8 or 12.
    pub aad_len: u8,
    /// Bytes of `nonce` in use.
    pub nonce_len: u8,
    /// SPI and sequence number (RFC 4106 section 5), for AEADs.
    pub aad: [u8; AAD_BYTES],
    /// The nonce or IV as the cipher takes it.
    pub nonce: [u8; NONCE_BYTES],
    /// The upper half of an extended sequence number, which integrity algorithms take in behind
    /// `auth` without its being sent (RFC 4303 section 2.2.1, RFC 4302 section 2.5.1).
    pub esn_high: Option<[u8; 4]>,
}

impl CryptoJob {
    /// A job that is not laid out yet. A constant is written by whole vectors; the value of
    /// `default` would be assembled on the stack first.
    pub(crate) const EMPTY: Self = Self {
        cipher_start: 0,
        cipher_len: 0,
        auth_start: 0,
        auth_len: 0,
        icv_start: 0,
        aad_len: 0,
        nonce_len: 0,
        aad: [0; AAD_BYTES],
        nonce: [0; NONCE_BYTES],
        esn_high: None,
    };

    /// The additional authenticated data.
    pub fn aad(&self) -> &[u8] {
        &self.aad[..self.aad_len as usize]
    }

    /// The nonce or IV.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce[..self.nonce_len as usize]
    }

    /// Bytes to which the SA's algorithm is applied, as lifetimes count them (RFC 4301 section
    /// 4.4.2.1): ESP's payload, padding and trailer, encrypted or not; all that AH covers.
    pub(crate) fn lifetime_bytes(&self, protocol: SaProtocol) -> usize {
        usize::from(match protocol {
            SaProtocol::Esp => self.icv_start - self.cipher_start,
            SaProtocol::Ah => self.auth_len,
        })
    }

    /// The job's size in 16-byte blocks, as the cost model counts it: what is ciphered or, where
    /// nothing is, authenticated.
    pub fn blocks(&self) -> u32 {
        u32::from(self.cipher_len.max(self.auth_len)).div_ceil(16)
    }
}

/// The outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CryptoStatus {
    /// Not done yet.
    #[default]
    Pending,
    /// Sealed, or opened and authentic.
    Done,
    /// The ICV did not match.
    IcvMismatch,
    /// No job: the packet is to be dropped for this reason, and no engine touches it.
    Refused(DropReason),
}

/// A packet on its way to or from an engine, between `prepare` and `finish`: its frame, its job,
/// and the context for `finish`.
#[derive(Debug)]
pub struct CryptoPacket {
    /// The packet, including its ESP or AH header.
    pub frame: Frame,
    /// The engine's job.
    pub job: CryptoJob,
    /// The job's outcome.
    pub status: CryptoStatus,
    /// The SA whose keys apply.
    pub sa: SaIndex,
    /// Whether to encrypt or decrypt; an SA has one direction.
    pub direction: Direction,
    /// The traffic class, 0 highest, from the DSCP of the inner packet.
    pub class: u8,
    /// For `finish` only.
    pub context: FinishContext,
}

impl CryptoPacket {
    /// A packet whose job is not laid out yet.
    #[inline(always)]
    pub(crate) fn new(
        frame: Frame,
        sa: SaIndex,
        direction: Direction,
        class: u8,
        context: FinishContext,
    ) -> Self {
        let (job, status) = (CryptoJob::EMPTY, CryptoStatus::Pending);
        Self { frame, job, status, sa, direction, class, context }
    }

    /// Whether its job has yet to be laid out, by [`lay_out`](crate::Tables::lay_out) or by a
    /// [`BatchTemplate`](crate::BatchTemplate): an outbound packet is still plain, an inbound one
    /// as received.
    #[inline]
    pub fn is_raw(&self) -> bool {
        self.context.form == Form::Raw
    }

    /// The size of its job in 16-byte blocks, as the cost model counts it; for a raw packet
    /// estimated from its length.
    #[inline]
    pub fn blocks(&self) -> u32 {
        if self.is_raw() { (self.frame.len() as u32).div_ceil(16) } else { self.job.blocks() }
    }

    /// Whether it will leave in fragments once sealed, so that no device can seal it on its way
    /// out.
    pub fn leaves_in_pieces(&self) -> bool {
        self.context.is_cut
    }
}

/// Applies `step` to each raw packet that was not refused. A packet of another `generation` of its
/// SA is refused with `gone`, one for which the step fails with the step's reason.
#[inline(always)]
pub(crate) fn for_each_raw(
    packets: &mut [CryptoPacket],
    generation: u32,
    gone: DropReason,
    mut step: impl FnMut(&mut CryptoPacket) -> Result<(), DropReason>,
) {
    for packet in packets {
        if !packet.is_raw() || packet.status != CryptoStatus::Pending {
            continue;
        }
        let taken = if packet.context.generation == generation { step(packet) } else { Err(gone) };
        if let Err(reason) = taken {
            packet.status = CryptoStatus::Refused(reason);
        }
    }
}
