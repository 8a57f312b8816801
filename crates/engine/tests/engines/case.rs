//! A known answer, and its layout in a frame: `head` (only authenticated), body, ICV.

use convoy_ipsec::{
    AAD_BYTES, Aead, Cipher, CryptoJob, CryptoPacket, CryptoStatus, Direction, FinishContext, KeyMaterial,
    NONCE_BYTES, SaIndex, Transform,
};
use convoy_packet::{Frame, FramePool};
use data_encoding::HEXLOWER_PERMISSIVE;

/// The SA under which cases are run.
pub(crate) const SA: SaIndex = SaIndex(3);

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) transform: Transform,
    /// Cipher key, salt and integrity key.
    pub(crate) key: Vec<u8>,
    pub(crate) nonce: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) esn_high: Option<[u8; 4]>,
    pub(crate) head: Vec<u8>,
    pub(crate) plain: Vec<u8>,
    pub(crate) cipher: Vec<u8>,
    pub(crate) icv: Vec<u8>,
    pub(crate) is_valid: bool,
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    HEXLOWER_PERMISSIVE
        .decode(hex.replace(char::is_whitespace, "").as_bytes())
        .expect("the test's hex is well-formed")
}

impl Case {
    pub(crate) fn new(name: impl Into<String>, transform: Transform) -> Self {
        Self {
            name: name.into(),
            transform,
            key: Vec::new(),
            nonce: Vec::new(),
            aad: Vec::new(),
            esn_high: None,
            head: Vec::new(),
            plain: Vec::new(),
            cipher: Vec::new(),
            icv: Vec::new(),
            is_valid: true,
        }
    }

    pub(crate) fn keys(&self) -> KeyMaterial {
        KeyMaterial::new(self.transform, self.key.clone()).expect("the case's key has the right length")
    }

    /// The frame's bytes before sealing and after opening, without ICV.
    pub(crate) fn open_bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.plain].concat()
    }

    /// The frame's bytes after sealing and before opening.
    pub(crate) fn sealed_bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.cipher, &self.icv].concat()
    }

    pub(crate) fn job(&self) -> CryptoJob {
        let is_gmac = matches!(self.transform, Transform::Aead(Aead::NullAesGmac(_)));
        let is_null = matches!(self.transform, Transform::Chained { cipher: Cipher::Null, .. });
        let has_hmac = matches!(self.transform, Transform::Chained { integrity: Some(_), .. });
        let (head, body) = (self.head.len(), self.plain.len());
        let mut job = CryptoJob {
            cipher_start: head as u16,
            cipher_len: if is_gmac || is_null { 0 } else { body as u16 },
            auth_len: if is_gmac || has_hmac { (head + body) as u16 } else { 0 },
            icv_start: (head + body) as u16,
            aad_len: self.aad.len() as u8,
            nonce_len: self.nonce.len() as u8,
            esn_high: self.esn_high,
            ..CryptoJob::default()
        };
        assert!(self.aad.len() <= AAD_BYTES && self.nonce.len() <= NONCE_BYTES);
        job.aad[..self.aad.len()].copy_from_slice(&self.aad);
        job.nonce[..self.nonce.len()].copy_from_slice(&self.nonce);
        job
    }

    /// The case before sealing, with arbitrary bytes in place of the ICV.
    pub(crate) fn to_seal(&self, pool: &mut FramePool) -> CryptoPacket {
        let mut bytes = self.open_bytes();
        bytes.resize(bytes.len() + self.transform.icv_len(), 0xa5);
        prepared(Direction::Seal, self.job(), filled(pool, &bytes))
    }

    /// The case before opening.
    pub(crate) fn to_open(&self, pool: &mut FramePool) -> CryptoPacket {
        prepared(Direction::Open, self.job(), filled(pool, &self.sealed_bytes()))
    }
}

pub(crate) fn filled(pool: &mut FramePool, bytes: &[u8]) -> Frame {
    pool.take_filled(bytes, 0).expect("the test's pool has frames")
}

pub(crate) fn prepared(direction: Direction, job: CryptoJob, frame: Frame) -> CryptoPacket {
    CryptoPacket {
        frame,
        job,
        status: CryptoStatus::Pending,
        sa: SA,
        direction,
        class: 0,
        context: FinishContext::default(),
    }
}
