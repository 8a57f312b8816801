//! The ESP packets of one video frame: what `convoy-lab hdtv send` sends, in tunnel mode.

use convoy_card::nic::Seal;
use convoy_card::{Algorithm, Cipher, Hash, Inbound, LINE_MHZ, Sa, routed_mhz};
use convoy_hdtv::{Depth, Format, Layout, VideoSource};

/// The longest packet inside the tunnel whose ESP packet has 9000 bytes at most with either
/// algorithm, in bytes.
pub(super) const INNER_MTU: usize = 8_946;
/// Ethernet and IPv4, before ESP.
const ESP_AT: usize = 34;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const ESP_BYTES: usize = 8;
/// Of both algorithms.
pub(super) const IV_BYTES: usize = 8;
/// Preamble, FCS and gap of a frame on the line.
const LINE_OVERHEAD_BYTES: usize = 24;

/// A protection of the demonstration.
#[derive(Clone, Copy)]
pub(super) struct Protection {
    /// As in a proposal.
    pub(super) name: &'static str,
    /// The number of its function.
    function: u8,
    algorithm: Algorithm,
    auth_bytes: usize,
    pub(super) icv_bytes: usize,
}

pub(super) const AES_GCM: Protection = Protection {
    name: "aes128gcm16",
    function: 1,
    algorithm: Algorithm { cipher: Cipher::AesGcm, hash: Hash::None },
    auth_bytes: 0,
    icv_bytes: 16,
};

pub(super) const AES_CTR_SHA1: Protection = Protection {
    name: "aes128ctr-sha1",
    function: 2,
    algorithm: Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 },
    auth_bytes: 20,
    icv_bytes: 12,
};

impl Protection {
    /// The SA with this number, from which its keys are derived.
    pub(super) fn sa(self, number: u8) -> Sa {
        Sa {
            algorithm: self.algorithm,
            salt: [number; 4],
            key: vec![number; 16],
            auth_key: vec![number; self.auth_bytes],
            icv_bytes: self.icv_bytes as u8,
        }
    }

    /// The clock at which the card was routed with this function.
    pub(super) fn mhz(self) -> u32 {
        routed_mhz(self.function)
    }
}

/// How the card recognises packets of the SA with this number.
pub(super) fn inbound(number: u8) -> Inbound {
    Inbound { spi: [0, 0, 1, number], is_tunnel: true }
}

pub(super) fn seal(number: u8) -> Seal {
    Seal { sa: number.into(), esp_at: ESP_AT as u16, seq_high: None }
}

/// The test picture's first frame in 720p60, 4:2:2, 8 bits, as the payloads of ESP packets: each is
/// an IP packet with its ESP trailer. Also the frame's length in bytes.
pub(super) fn payloads() -> (Vec<Vec<u8>>, usize) {
    let format: Format = "720p60".parse().expect("a format");
    let mut picture = vec![0; format.frame_bytes()];
    let mut source = VideoSource::generated(format, Depth::Eight).expect("a test picture");
    source.next(0, &mut picture).expect("it never ends");
    let layout = Layout::new(&format, INNER_MTU - IPV4_BYTES - UDP_BYTES, 1).expect("the packets are long");
    let packets = layout.packets().iter().map(|plan| {
        let mut rtp = Vec::new();
        layout.write(plan, &picture, &mut rtp);
        payload(&rtp)
    });
    (packets.collect(), picture.len())
}

/// An IPv4 packet with a UDP datagram, and the ESP trailer. Its checksums are left out: the card
/// does not read them.
fn payload(datagram: &[u8]) -> Vec<u8> {
    const IPV4: u8 = 4;
    let total = IPV4_BYTES + UDP_BYTES + datagram.len();
    let [high, low] = (total as u16).to_be_bytes();
    let [udp_high, udp_low] = ((UDP_BYTES + datagram.len()) as u16).to_be_bytes();
    let ip = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
    let udp = [0x9c, 0x40, 0x13, 0x8c, udp_high, udp_low, 0, 0];
    let padding = (total + 2).next_multiple_of(4) - total - 2;
    let trailer: Vec<u8> = (1..=padding as u8).chain([padding as u8, IPV4]).collect();
    [&ip[..], &udp, datagram, &trailer].concat()
}

/// The ESP header of the packet with this sequence number.
pub(super) fn esp(number: u8, sequence: usize) -> [u8; ESP_BYTES] {
    let [a, b, c, d] = inbound(number).spi;
    let [e, f, g, h] = (sequence as u32).to_be_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The frames that carry the payloads on the line, not sealed yet.
pub(super) fn frames(protection: Protection, number: u8, payloads: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let make = |(at, payload): (usize, &Vec<u8>)| {
        let total = IPV4_BYTES + ESP_BYTES + IV_BYTES + payload.len() + protection.icv_bytes;
        let [high, low] = (total as u16).to_be_bytes();
        let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let ip = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, 50, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let icv = vec![0; protection.icv_bytes];
        [&ethernet[..], &ip, &esp(number, at + 1), &(at as u64).to_be_bytes(), payload, &icv].concat()
    };
    payloads.iter().enumerate().map(make).collect()
}

/// The card's cycles that the line alone takes for the frames, at a byte in each of its own.
pub(super) fn line_cycles(frames: &[Vec<u8>], card_mhz: u32) -> usize {
    let bytes: usize = frames.iter().map(|frame| frame.len() + LINE_OVERHEAD_BYTES).sum();
    bytes * card_mhz as usize / LINE_MHZ as usize
}
