//! An engine for tests: it reads every field of a job that a real one reads, but its ciphers and
//! hashes are toys. The correctness of real ones is tested elsewhere.

use crate::esp::job::{CryptoJob, CryptoPacket, CryptoStatus, Direction};
use crate::sa::algorithm::{KeyMaterial, Transform};

fn mix(state: u64, byte: u8) -> u64 {
    (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
}

fn absorb(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(mix(state, bytes.len() as u8), |state, byte| mix(state, *byte))
}

/// Encrypts or decrypts: each byte is combined with one determined by key, nonce and position.
fn cipher(keys: &KeyMaterial, job: &CryptoJob, packet: &mut [u8]) {
    let seed = absorb(absorb(1, keys.cipher_key()), job.nonce());
    let (start, len) = (usize::from(job.cipher_start), usize::from(job.cipher_len));
    for (place, byte) in packet[start..start + len].iter_mut().enumerate() {
        *byte ^= (mix(seed, place as u8) >> 32) as u8;
    }
}

/// The hash of what is authenticated; an ICV inside it counts as zeros, as in AH.
fn icv(keys: &KeyMaterial, job: &CryptoJob, packet: &[u8]) -> Vec<u8> {
    let transform = keys.transform();
    let mut packet = packet.to_vec();
    let icv = usize::from(job.icv_start)..usize::from(job.icv_start) + transform.icv_len();
    packet[icv].fill(0);
    let part = |start: u16, len: u16| &packet[usize::from(start)..usize::from(start) + usize::from(len)];
    let mut state = absorb(absorb(absorb(2, keys.cipher_key()), keys.integrity_key()), job.aad());
    state = absorb(state, part(job.auth_start, job.auth_len));
    if matches!(transform, Transform::Aead(_)) {
        state = absorb(absorb(state, job.nonce()), part(job.cipher_start, job.cipher_len));
    }
    state = absorb(state, &job.esn_high.unwrap_or_default());
    (0..transform.icv_len()).map(|place| (mix(state, place as u8) >> 24) as u8).collect()
}

/// Executes the job, if the packet was not refused.
pub(super) fn run(keys: &KeyMaterial, direction: Direction, packet: &mut CryptoPacket) {
    if let CryptoStatus::Refused(_) = packet.status {
        return;
    }
    assert!(!packet.is_raw(), "an engine gets packets that are laid out");
    let job = packet.job;
    let place = usize::from(job.icv_start)..usize::from(job.icv_start) + keys.transform().icv_len();
    packet.status = CryptoStatus::Done;
    match direction {
        Direction::Seal => {
            cipher(keys, &job, &mut packet.frame);
            let icv = icv(keys, &job, &packet.frame);
            packet.frame[place].copy_from_slice(&icv);
        }
        Direction::Open if packet.frame[place] != icv(keys, &job, &packet.frame) => {
            packet.status = CryptoStatus::IcvMismatch;
        }
        Direction::Open => cipher(keys, &job, &mut packet.frame),
    }
}
