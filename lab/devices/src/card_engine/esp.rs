//! From a job to the parts of an ESP packet that the card requires.

use convoy_card::command::FRAME_BYTES;
use convoy_card::{Algorithm, CardVerdict, Cipher as CardCipher, DriverPacket, Hash, Sa};
use convoy_ipsec::{Aead, Cipher, CryptoJob, CryptoPacket, Integrity, KeyMaterial, Transform};

/// Bytes of an ESP header.
const ESP_BYTES: usize = 8;

/// The card's algorithm for a transform; `None` if no function of it supports it.
pub(super) fn algorithm(transform: Transform) -> Option<Algorithm> {
    let (cipher, integrity) = match transform {
        Transform::Aead(Aead::AesGcm { icv: 8 | 12 | 16, .. }) => (CardCipher::AesGcm, None),
        Transform::Aead(_) => return None,
        Transform::Chained { cipher, integrity } => (
            match cipher {
                Cipher::Null => CardCipher::Null,
                Cipher::AesCtr(_) => CardCipher::AesCtr,
                Cipher::AesCbc(_) => CardCipher::AesCbc,
                Cipher::TripleDesCbc => CardCipher::TripleDesCbc,
                Cipher::DesCbc => return None,
            },
            Some(integrity?),
        ),
    };
    let hash = match integrity {
        None => Hash::None,
        Some(Integrity::HmacSha1_96) => Hash::HmacSha1,
        Some(Integrity::HmacSha512_256) => Hash::HmacSha512,
        Some(_) => return None,
    };
    let algorithm = Algorithm { cipher, hash };
    algorithm.functions().next().map(|_| algorithm)
}

/// An SA as the card keeps it.
pub(super) fn sa(keys: &KeyMaterial) -> Option<Sa> {
    let mut salt = [0; 4];
    salt[..keys.salt().len()].copy_from_slice(keys.salt());
    Some(Sa {
        algorithm: algorithm(keys.transform())?,
        salt,
        key: keys.cipher_key().to_vec(),
        auth_key: keys.integrity_key().to_vec(),
        icv_bytes: keys.transform().icv_len() as u8,
    })
}

/// The positions of the parts in the frame, and what the card cannot read there.
struct PacketParts {
    esp: [u8; ESP_BYTES],
    seq_high: Option<[u8; 4]>,
    /// In the nonce.
    iv: std::ops::Range<usize>,
    payload: std::ops::Range<usize>,
}

/// The packet in the card's parts; `None` for a job that is not ESP in the card's format: AH, an
/// empty packet, or more than its frames hold.
pub(super) fn packet<'a>(number: u32, sa: &Sa, prepared: &'a mut CryptoPacket) -> Option<DriverPacket<'a>> {
    let CryptoPacket { frame, job, .. } = prepared;
    let parts = match sa.algorithm.cipher {
        CardCipher::AesGcm => combined(sa, job)?,
        CardCipher::Null => hashed(job, frame)?,
        _ => chained(sa, job, frame)?,
    };
    let icv_start = usize::from(job.icv_start);
    let len = ESP_BYTES + parts.iv.len() + parts.payload.len() + usize::from(sa.icv_bytes);
    if parts.payload.is_empty() || parts.payload.end > icv_start || len > FRAME_BYTES {
        return None;
    }
    let frame: &mut [u8] = frame;
    let (before, icv) = frame.split_at_mut_checked(icv_start)?;
    Some(DriverPacket {
        sa: number,
        esp: parts.esp,
        seq_high: parts.seq_high,
        iv: job.nonce().get(parts.iv)?,
        payload: before.get_mut(parts.payload)?,
        icv: icv.get_mut(..sa.icv_bytes.into())?,
        verdict: CardVerdict::Pending,
    })
}

/// The position of the ESP header of a packet that ends with its ICV, and the upper half of its
/// sequence number: what a card needs to seal it in flight. `None` as for [`packet`].
pub(super) fn in_flight(sa: &Sa, prepared: &mut CryptoPacket) -> Option<(u16, Option<[u8; 4]>)> {
    let job = prepared.job;
    let is_whole = usize::from(job.icv_start) + usize::from(sa.icv_bytes) == prepared.frame.len();
    let before = ESP_BYTES + sa.algorithm.cipher.iv_bytes();
    let esp_start = match sa.algorithm.cipher {
        CardCipher::AesGcm => job.cipher_start.checked_sub(before as u16)?,
        _ => job.auth_start,
    };
    let DriverPacket { esp, seq_high, .. } = packet(0, sa, prepared)?;
    // The card reads header and IV from the frame, not from the job.
    let is_there = prepared.frame.get(usize::from(esp_start)..)?.starts_with(&esp);
    (is_whole && is_there).then_some((esp_start, seq_high))
}

fn ciphered(job: &CryptoJob) -> std::ops::Range<usize> {
    usize::from(job.cipher_start)..usize::from(job.cipher_start) + usize::from(job.cipher_len)
}

fn authenticated(job: &CryptoJob) -> std::ops::Range<usize> {
    usize::from(job.auth_start)..usize::from(job.auth_start) + usize::from(job.auth_len)
}

/// RFC 4106: the header is the additional data (section 5), salt and IV are the nonce (section 4).
fn combined(sa: &Sa, job: &CryptoJob) -> Option<PacketParts> {
    let nonce = job.nonce();
    if nonce.len() != 12 || nonce[..4] != sa.salt {
        return None;
    }
    let (esp, seq_high) = match *job.aad() {
        [a, b, c, d, e, f, g, h] => ([a, b, c, d, e, f, g, h], None),
        [a, b, c, d, h0, h1, h2, h3, e, f, g, h] => ([a, b, c, d, e, f, g, h], Some([h0, h1, h2, h3])),
        _ => return None,
    };
    Some(PacketParts { esp, seq_high, iv: 4..12, payload: ciphered(job) })
}

/// ESP-NULL: the header is the first thing that is authenticated, and the ICV follows the last.
fn hashed(job: &CryptoJob, frame: &[u8]) -> Option<PacketParts> {
    let covered = authenticated(job);
    let esp = *frame.get(covered.clone())?.first_chunk()?;
    let is_esp = job.cipher_len == 0 && covered.end == usize::from(job.icv_start);
    let payload = covered.start + ESP_BYTES..covered.end;
    is_esp.then_some(PacketParts { esp, seq_high: job.esn_high, iv: 0..0, payload })
}

/// Header, IV, ciphertext, and the ICV over them all. The card takes the IV from the packet.
fn chained(sa: &Sa, job: &CryptoJob, frame: &[u8]) -> Option<PacketParts> {
    let (covered, payload, nonce) = (authenticated(job), ciphered(job), job.nonce());
    let iv = if sa.algorithm.cipher == CardCipher::AesCtr {
        // RFC 3686 section 4: nonce, IV, and a block counter that begins with one.
        let is_whole = nonce.len() == 16 && nonce[..4] == sa.salt && nonce[12..] == [0, 0, 0, 1];
        is_whole.then_some(4..12)?
    } else {
        0..nonce.len()
    };
    let (esp, rest) = frame.get(covered.clone())?.split_first_chunk()?;
    let is_esp = iv.len() == sa.algorithm.cipher.iv_bytes()
        && rest.starts_with(&nonce[iv.clone()])
        && payload.start == covered.start + ESP_BYTES + iv.len()
        && payload.end == covered.end
        && payload.len() % sa.algorithm.cipher.block_bytes() == 0
        && covered.end == usize::from(job.icv_start);
    is_esp.then_some(PacketParts { esp: *esp, seq_high: job.esn_high, iv, payload })
}
