//! ESP packets in Ethernet frames, sealed by software as a reference for the card.

use aes_gcm::aead::{AeadInOut, KeyInit};
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, Mac};

use crate::nic::Seal;
use crate::sa::{Algorithm, Cipher, Hash, Inbound, Sa};

pub(super) const GCM: Algorithm = Algorithm { cipher: Cipher::AesGcm, hash: Hash::None };
pub(super) const CTR_SHA1: Algorithm = Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 };
const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const IV_BYTES: usize = 8;

/// Format of an SA's packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) algorithm: Algorithm,
    pub(super) is_tunnel: bool,
    pub(super) is_nat: bool,
    pub(super) is_v6: bool,
    pub(super) seq_high: Option<[u8; 4]>,
}

/// All formats without ESN.
pub(super) fn shapes(algorithm: Algorithm) -> impl Iterator<Item = Shape> {
    (0..8).map(move |bits| Shape {
        algorithm,
        is_tunnel: bits & 1 != 0,
        is_nat: bits & 2 != 0,
        is_v6: bits & 4 != 0,
        seq_high: None,
    })
}

/// The SA with this number, from which its keys are derived.
pub(super) fn sa(algorithm: Algorithm, number: u8) -> Sa {
    let (auth_bytes, icv_bytes) = if algorithm.hash == Hash::None { (0, 16) } else { (20, 12) };
    Sa {
        algorithm,
        salt: [number; 4],
        key: vec![number ^ 0x5a; 16],
        auth_key: vec![number; auth_bytes],
        icv_bytes,
    }
}

/// How the card recognises packets of the SA with this number.
pub(super) fn inbound(number: u8, is_tunnel: bool) -> Inbound {
    Inbound { spi: [7, 0, 0, number], is_tunnel }
}

/// An Ethernet frame with an ESP packet, before and after sealing.
pub(super) struct Case {
    pub(super) seal: Seal,
    /// With zeros in place of the ICV.
    pub(super) plain: Vec<u8>,
    pub(super) sealed: Vec<u8>,
    /// As the receiving card passes it up: without ICV.
    pub(super) opened: Vec<u8>,
}

/// The packet of an SA with this sequence number; in tunnel mode, its payload begins with an IPv4
/// header.
pub(super) fn case(shape: Shape, number: u8, sequence: u8, payload_bytes: usize) -> Case {
    let sa = sa(shape.algorithm, number);
    let udp_at = ETHERNET_BYTES + if shape.is_v6 { IPV6_BYTES } else { IPV4_BYTES };
    let esp_at = udp_at + if shape.is_nat { UDP_BYTES } else { 0 };
    let payload_at = esp_at + 8 + IV_BYTES;
    let mut frame = vec![0; payload_at + payload_bytes + usize::from(sa.icv_bytes)];
    let [total, after] = [ETHERNET_BYTES, udp_at].map(|at| ((frame.len() - at) as u16).to_be_bytes());
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    let protocol = if shape.is_nat { 17 } else { 50 };
    if shape.is_v6 {
        frame[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, after[0], after[1], protocol, 64]);
        frame[22..54].copy_from_slice(&[[0x20; 16], [0x30; 16]].concat());
    } else {
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..34]
            .copy_from_slice(&[0x45, 0, 0, 0, 0, 9, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        frame[16..18].copy_from_slice(&total);
    }
    if shape.is_nat {
        frame[udp_at..udp_at + 4].copy_from_slice(&[0x11, 0x94, 0x11, 0x94]);
        frame[udp_at + 4..udp_at + 6].copy_from_slice(&after);
    }
    frame[esp_at..esp_at + 4].copy_from_slice(&inbound(number, shape.is_tunnel).spi);
    frame[esp_at + 7] = sequence;
    frame[esp_at + 8..payload_at].copy_from_slice(&[sequence, 1, 2, 3, 4, 5, 6, number]);
    for (at, byte) in frame[payload_at..][..payload_bytes].iter_mut().enumerate() {
        *byte = at as u8 ^ sequence;
    }
    if shape.is_tunnel {
        frame[payload_at] = 0x45;
    }
    let mut sealed = frame.clone();
    seal(&sa, shape.seq_high, &mut sealed[esp_at..]);
    let mut opened = frame[..frame.len() - usize::from(sa.icv_bytes)].to_vec();
    if shape.is_v6 && shape.is_nat {
        let sum = udp_checksum(&sealed[22..54], &sealed[udp_at..]);
        for frame in [&mut sealed, &mut opened] {
            frame[udp_at + 6..udp_at + 8].copy_from_slice(&sum);
        }
    }
    let seal = Seal { sa: number.into(), esp_at: esp_at as u16, seq_high: shape.seq_high };
    Case { seal, plain: frame, sealed, opened }
}

/// The checksum of a datagram without one, between these addresses of IPv6 (RFC 8200 section 8.1).
fn udp_checksum(ends: &[u8], datagram: &[u8]) -> [u8; 2] {
    let words = ends.chunks(2).chain(datagram.chunks(2));
    let words = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum = 17 + datagram.len() as u32 + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    match !(sum as u16) {
        0 => [0xff; 2],
        sum => sum.to_be_bytes(),
    }
}

/// Seals an ESP packet; `esp` runs from its header to the room for the ICV.
fn seal(sa: &Sa, seq_high: Option<[u8; 4]>, esp: &mut [u8]) {
    let (packet, icv) = esp.split_at_mut(esp.len() - usize::from(sa.icv_bytes));
    let nonce: [u8; 12] = [&sa.salt[..], &packet[8..16]].concat().try_into().expect("four and eight");
    if sa.algorithm == GCM {
        let (header, payload) = packet.split_at_mut(16);
        // RFC 4106 section 5: with ESN, the upper half of the sequence number stands between SPI
        // and the lower half.
        let aad = [&header[..4], &seq_high.map_or(vec![], Vec::from), &header[4..8]].concat();
        let cipher = aes_gcm::Aes128Gcm::new_from_slice(&sa.key).expect("16 bytes");
        let tag = cipher.encrypt_inout_detached(&nonce.into(), &aad, payload.into()).expect("short");
        icv.copy_from_slice(&tag);
        return;
    }
    // RFC 3686 section 4: nonce, IV, and a block counter that starts at one.
    let counter: [u8; 16] = [&nonce[..], &[0, 0, 0, 1]].concat().try_into().expect("twelve and four");
    let key: [u8; 16] = sa.key.as_slice().try_into().expect("16 bytes");
    ctr::Ctr32BE::<aes::Aes128>::new(&key.into(), &counter.into()).apply_keystream(&mut packet[16..]);
    let mut mac = Hmac::<sha1::Sha1>::new_from_slice(&sa.auth_key).expect("any length");
    mac.update(packet);
    mac.update(&seq_high.unwrap_or_default()[..if seq_high.is_some() { 4 } else { 0 }]);
    icv.copy_from_slice(&mac.finalize().into_bytes()[..12]);
}
