//! From an SA's transform to the job of a packet: what is ciphered and authenticated, with which nonce.

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;

use crate::KeyMaterial;
use crate::algorithm::{Aead, Cipher, Transform};
use crate::job::{AAD_BYTES, CryptoJob, NONCE_BYTES};

/// What both directions keep of an SA's transform to lay out a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobPlan {
    pub(crate) transform: Transform,
    pub(crate) iv_len: usize,
    pub(crate) icv_len: usize,
    pub(crate) alignment: usize,
    pub(crate) esn: bool,
    salt: [u8; 4],
}

impl JobPlan {
    pub(crate) fn new(keys: &KeyMaterial, esn: bool) -> Self {
        let transform = keys.transform();
        let mut salt = [0; 4];
        salt[..keys.salt().len()].copy_from_slice(keys.salt());
        Self {
            transform,
            iv_len: transform.iv_len(),
            icv_len: transform.icv_len(),
            alignment: transform.alignment(),
            esn,
            salt,
        }
    }

    /// The job of an ESP packet: `esp` is where its header stands, `body_len` the bytes between IV and ICV.
    pub(crate) fn esp_job(&self, packet: &[u8], esp: usize, body_len: usize, sequence: u64) -> CryptoJob {
        let body = esp + ESP_HEADER + self.iv_len;
        let iv = &packet[esp + ESP_HEADER..body];
        let mut job = CryptoJob {
            cipher_start: body as u16,
            cipher_len: body_len as u16,
            icv_start: (body + body_len) as u16,
            ..CryptoJob::default()
        };
        match self.transform {
            Transform::Aead(aead) => {
                self.add_aad(&mut job, &packet[esp..esp + 4], sequence);
                job.nonce[..4].copy_from_slice(&self.salt);
                job.nonce[4..12].copy_from_slice(iv);
                job.nonce_len = 12;
                if matches!(aead, Aead::NullAesGmac(_)) {
                    // RFC 4543 section 3.3: the IV is authenticated with the payload.
                    job.cipher_len = 0;
                    job.auth_start = (esp + ESP_HEADER) as u16;
                    job.auth_len = (self.iv_len + body_len) as u16;
                }
            }
            Transform::Chained { cipher, integrity } => {
                self.chained_nonce(&mut job, cipher, iv);
                if cipher == Cipher::Null {
                    job.cipher_len = 0;
                }
                if integrity.is_some() {
                    job.auth_start = esp as u16;
                    job.auth_len = (ESP_HEADER + self.iv_len + body_len) as u16;
                    job.esn_high = self.esn_high(sequence);
                }
            }
        }
        job
    }

    fn add_aad(&self, job: &mut CryptoJob, spi: &[u8], sequence: u64) {
        job.aad[..4].copy_from_slice(spi);
        if self.esn {
            job.aad[4..AAD_BYTES].copy_from_slice(&sequence.to_be_bytes());
            job.aad_len = 12;
        } else {
            job.aad[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
            job.aad_len = 8;
        }
    }

    fn chained_nonce(&self, job: &mut CryptoJob, cipher: Cipher, iv: &[u8]) {
        match cipher {
            Cipher::Null => {}
            Cipher::AesCtr(_) => {
                // RFC 3686 section 4: nonce, IV, and a block counter that starts at 1.
                job.nonce[..4].copy_from_slice(&self.salt);
                job.nonce[4..12].copy_from_slice(iv);
                job.nonce[12..NONCE_BYTES].copy_from_slice(&1u32.to_be_bytes());
                job.nonce_len = NONCE_BYTES as u8;
            }
            Cipher::AesCbc(_) | Cipher::TripleDesCbc | Cipher::DesCbc => {
                job.nonce[..iv.len()].copy_from_slice(iv);
                job.nonce_len = iv.len() as u8;
            }
        }
    }

    /// The upper half that the integrity algorithm takes in, with ESN.
    pub(crate) fn esn_high(&self, sequence: u64) -> Option<[u8; 4]> {
        self.esn.then(|| ((sequence >> 32) as u32).to_be_bytes())
    }

    /// Whether the IV counts with the sequence number, so that it never repeats under one key; a chaining cipher needs one that cannot
    /// be foreseen.
    pub(crate) fn counts_iv(&self) -> bool {
        !matches!(
            self.transform,
            Transform::Chained { cipher: Cipher::AesCbc(_) | Cipher::TripleDesCbc | Cipher::DesCbc, .. }
        )
    }
}
