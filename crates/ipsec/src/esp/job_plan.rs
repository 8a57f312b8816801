//! From an SA's transform to the job of a packet: what is encrypted and authenticated, with which
//! nonce.

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;

use crate::KeyMaterial;
use crate::esp::job::{AAD_BYTES, CryptoJob, NONCE_BYTES};
use crate::sa::algorithm::{Aead, Cipher, Transform};

/// Length of an IV that counts with the sequence number, in bytes.
pub(crate) const COUNTED_IV: usize = 8;
/// Length of AES-CBC's IV, its block, in bytes.
pub(crate) const CBC_IV: usize = 16;

/// The form of a transform's jobs; algorithms of one form are laid out alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An AEAD that encrypts.
    Aead,
    /// NULL-AES-GMAC.
    Gmac,
    /// A counter mode, authenticated or not.
    Counter,
    /// AES-CBC, authenticated or not.
    AesCbc,
    /// DES in a chaining mode, authenticated or not.
    DesCbc,
    /// No cipher.
    Null,
}

impl Shape {
    const fn of(transform: Transform) -> Self {
        match transform {
            Transform::Aead(Aead::NullAesGmac(_)) => Self::Gmac,
            Transform::Aead(_) => Self::Aead,
            Transform::Chained { cipher, .. } => match cipher {
                Cipher::Null => Self::Null,
                Cipher::AesCtr(_) => Self::Counter,
                Cipher::AesCbc(_) => Self::AesCbc,
                Cipher::TripleDesCbc | Cipher::DesCbc => Self::DesCbc,
            },
        }
    }
}

/// What both directions store of an SA's transform to lay out jobs. Lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobPlan {
    salt: [u8; 4],
    shape: Shape,
    iv_len: u8,
    icv_len: u8,
    alignment: u8,
    esn: bool,
}

/// Where the parts of an ESP packet are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EspParts {
    /// Position of ESP's header, in bytes from the packet's start.
    pub(crate) header: usize,
    /// Bytes between IV and ICV.
    pub(crate) body_len: usize,
}

impl JobPlan {
    pub(crate) fn new(keys: &KeyMaterial, esn: bool) -> Self {
        let transform = keys.transform();
        let mut salt = [0; 4];
        salt[..keys.salt().len()].copy_from_slice(keys.salt());
        Self {
            salt,
            shape: Shape::of(transform),
            iv_len: transform.iv_len() as u8,
            icv_len: transform.icv_len() as u8,
            alignment: transform.alignment() as u8,
            esn,
        }
    }

    /// Length of the IV in each packet.
    #[inline]
    pub(crate) fn iv_len(&self) -> usize {
        self.iv_len.into()
    }

    /// Length of the ICV.
    #[inline]
    pub(crate) fn icv_len(&self) -> usize {
        self.icv_len.into()
    }

    /// Whether sequence numbers are 64 bits long.
    #[inline]
    pub(crate) fn esn(&self) -> bool {
        self.esn
    }

    /// Bytes from the start of the ESP header to the payload.
    #[inline]
    pub(crate) fn esp_header_len(&self) -> usize {
        ESP_HEADER + self.iv_len()
    }

    /// The multiple to which payload and trailer are padded. A power of two: the shortest is what
    /// RFC 4303 requires of all ciphers, the longest AES's block.
    #[inline]
    pub(crate) fn alignment(&self) -> usize {
        self.alignment.into()
    }

    /// `len` bytes of payload and trailer, padded.
    #[inline]
    pub(crate) fn padded(&self, len: usize) -> usize {
        let mask = self.alignment() - 1;
        (len + mask) & !mask
    }

    /// Whether the part between IV and ICV may have this length.
    #[inline]
    pub(crate) fn takes_body(&self, len: usize) -> bool {
        self.shape == Shape::Null || self.is_whole(len)
    }

    /// Whether `len` bytes are padded as the cipher requires.
    #[inline]
    pub(crate) fn is_whole(&self, len: usize) -> bool {
        len & (usize::from(self.alignment) - 1) == 0
    }

    /// The form of its jobs.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Writes the job of an ESP packet of an AEAD over an empty one. Fields are written as words
    /// computed in registers: reading back in smaller or larger parts would stall on store
    /// forwarding.
    #[inline(always)]
    pub(crate) fn aead_job(
        &self,
        job: &mut CryptoJob,
        parts: EspParts,
        spi: u32,
        sequence: u64,
        iv: [u8; COUNTED_IV],
    ) {
        let EspParts { header, body_len } = parts;
        let body = header + ESP_HEADER + COUNTED_IV;
        let (salt, counter) = (u64::from(u32::from_le_bytes(self.salt)), u64::from_le_bytes(iv));
        job.nonce[..8].copy_from_slice(&(salt | counter << 32).to_le_bytes());
        job.nonce[8..].copy_from_slice(&(counter >> 32).to_le_bytes());
        job.nonce_len = 12;
        // SPI and sequence number (RFC 4106 section 5). Without ESN the upper half is 0, and the
        // bytes behind the lower one are unused.
        let (words, len) = if self.esn { (sequence, AAD_BYTES) } else { (sequence << 32, ESP_HEADER) };
        job.aad[..8].copy_from_slice(&(u64::from(spi) << 32 | words >> 32).to_be_bytes());
        job.aad[8..].copy_from_slice(&(words as u32).to_be_bytes());
        job.aad_len = len as u8;
        job.cipher_start = body as u16;
        job.cipher_len = body_len as u16;
        job.icv_start = (body + body_len) as u16;
    }

    /// Writes the job of an ESP packet of AES-CBC over one that contains only the IV, which is its
    /// nonce.
    #[inline(always)]
    pub(crate) fn cbc_job(&self, job: &mut CryptoJob, parts: EspParts, sequence: u64) {
        let EspParts { header, body_len } = parts;
        let body = header + ESP_HEADER + CBC_IV;
        job.nonce_len = CBC_IV as u8;
        job.cipher_start = body as u16;
        job.cipher_len = body_len as u16;
        job.icv_start = (body + body_len) as u16;
        self.add_integrity(job, parts, sequence);
    }

    /// The job of an ESP packet with its headers written.
    #[inline]
    pub(crate) fn esp_job(&self, packet: &[u8], parts: EspParts, spi: u32, sequence: u64) -> CryptoJob {
        let EspParts { header, body_len } = parts;
        let body = header + self.esp_header_len();
        let mut job = CryptoJob {
            cipher_start: body as u16,
            cipher_len: body_len as u16,
            icv_start: (body + body_len) as u16,
            ..CryptoJob::default()
        };
        let counted = |packet: &[u8]| {
            let mut iv = [0; COUNTED_IV];
            iv.copy_from_slice(&packet[body - COUNTED_IV..body]);
            iv
        };
        match self.shape {
            Shape::Aead => {
                self.aead_job(&mut job, parts, spi, sequence, counted(packet));
            }
            Shape::Gmac => {
                self.aead_job(&mut job, parts, spi, sequence, counted(packet));
                // RFC 4543 section 3.3: the IV is authenticated with the payload.
                job.cipher_len = 0;
                job.auth_start = (header + ESP_HEADER) as u16;
                job.auth_len = (self.iv_len() + body_len) as u16;
            }
            Shape::Counter => {
                // RFC 3686 section 4: nonce, IV, and a block counter that starts at 1.
                job.nonce[..4].copy_from_slice(&self.salt);
                job.nonce[4..12].copy_from_slice(&counted(packet));
                job.nonce[12..NONCE_BYTES].copy_from_slice(&1u32.to_be_bytes());
                job.nonce_len = NONCE_BYTES as u8;
                self.add_integrity(&mut job, parts, sequence);
            }
            Shape::AesCbc => {
                job.nonce.copy_from_slice(&packet[body - CBC_IV..body]);
                self.cbc_job(&mut job, parts, sequence);
            }
            Shape::DesCbc => {
                let iv = &packet[body - self.iv_len()..body];
                job.nonce[..iv.len()].copy_from_slice(iv);
                job.nonce_len = self.iv_len;
                self.add_integrity(&mut job, parts, sequence);
            }
            Shape::Null => {
                job.cipher_len = 0;
                self.add_integrity(&mut job, parts, sequence);
            }
        }
        job
    }

    #[inline]
    fn add_integrity(&self, job: &mut CryptoJob, parts: EspParts, sequence: u64) {
        let EspParts { header, body_len } = parts;
        if self.icv_len > 0 {
            job.auth_start = header as u16;
            job.auth_len = (self.esp_header_len() + body_len) as u16;
            job.esn_high = self.esn_high(sequence);
        }
    }

    /// The upper half of the sequence number that the integrity algorithm covers, with ESN.
    pub(crate) fn esn_high(&self, sequence: u64) -> Option<[u8; 4]> {
        self.esn.then(|| ((sequence >> 32) as u32).to_be_bytes())
    }

    /// Whether the IV counts with the sequence number, so that it never repeats under one key; a
    /// chaining cipher needs an unpredictable one.
    #[inline]
    pub(crate) fn counts_iv(&self) -> bool {
        !matches!(self.shape, Shape::AesCbc | Shape::DesCbc)
    }
}
