//! AEADs: draft-mcgrew-gcm-test-01 (RFC 4106, RFC 4543), the GCM specification, RFC 7634.

use convoy_ipsec::{Aead, KeyBits, Transform};

use crate::aead_vectors::MCGREW;
use crate::case::{Case, bytes};
use crate::lab::Lab;

pub(crate) fn key_bits(len: usize) -> Option<KeyBits> {
    [KeyBits::B128, KeyBits::B192, KeyBits::B256].into_iter().find(|bits| bits.bytes() == len)
}

/// A test case of an AEAD; the salt is the first part of the nonce.
pub(crate) fn case(name: String, aead: Aead, [key, nonce, aad, plain, cipher, icv]: [&[u8]; 6]) -> Case {
    let transform = Transform::Aead(aead);
    Case {
        key: [key, &nonce[..4]].concat(),
        nonce: nonce.to_vec(),
        aad: aad.to_vec(),
        plain: plain.to_vec(),
        cipher: cipher.to_vec(),
        icv: icv[..transform.icv_len()].to_vec(),
        ..Case::new(name, transform)
    }
}

/// The same answer with every length of ICV: shorter ones are truncated (RFC 4106 section 6).
fn gcm_cases(name: &str, fields: [&str; 6]) -> impl Iterator<Item = Case> {
    let fields = fields.map(bytes);
    let key = key_bits(fields[0].len()).expect("an AES key");
    let name = name.to_owned();
    [8, 12, 16].into_iter().map(move |icv| {
        case(
            format!("{name}, ICV {icv}"),
            Aead::AesGcm { key, icv },
            fields.each_ref().map(|field| &field[..]),
        )
    })
}

#[test]
fn aes_gcm_esp_packets_of_the_mcgrew_draft() {
    let mut lab = Lab::new();
    for (number, fields) in MCGREW.into_iter().enumerate() {
        gcm_cases(&format!("packet {}", number + 1), fields).for_each(|case| lab.check(&case));
    }
    lab.report("draft-mcgrew-gcm-test", false);
}

/// Test cases 3, 9 and 15 of *The Galois/Counter Mode of Operation*.
#[test]
fn aes_gcm_specification_known_answers() {
    const KEY: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
    const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72
                         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
    let mut lab = Lab::new();
    for (name, key_len, ciphered, icv) in [
        (
            "case 3",
            16,
            "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e
             21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
            "4d5c2af327cd64a62cf35abd2ba6fab4",
        ),
        (
            "case 9",
            24,
            "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c
             7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710acade256",
            "9924a7c8587336bfb118024db8674a14",
        ),
        (
            "case 15",
            32,
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
            "b094dac5d93471bdec1a502270e3cc6c",
        ),
    ] {
        let fields = [&KEY[..2 * key_len], "cafebabefacedbaddecaf888", "", PLAIN, ciphered, icv];
        gcm_cases(name, fields).for_each(|case| lab.check(&case));
    }
    lab.report("GCM specification", false);
}

/// The ESP packet with AES-GMAC that ends the mcgrew draft: SPI and sequence number, then IV and
/// payload, are authenticated (RFC 4543 section 3.3).
#[test]
fn aes_gmac_esp_packet_of_the_mcgrew_draft() {
    let mut lab = Lab::new();
    let iv = "0000000000000000";
    let payload =
        "45000030da3a00008001df3bc0a80005c0a800010800c6cd020007006162636465666768696a6b6c6d6e6f7071727374
                   01020201";
    let answer = Case {
        key: bytes("4c80cdefbb5d10da906ac73c3613a63422433c64"),
        nonce: bytes(&format!("22433c64{iv}")),
        aad: bytes("0000432100000007"),
        head: bytes(&format!("{iv}{payload}")),
        icv: bytes("f2a9a836e155106aa8dcd618e4099aaa"),
        ..Case::new("packet 15", Transform::Aead(Aead::NullAesGmac(KeyBits::B128)))
    };
    lab.check(&answer);
    lab.report("RFC 4543", false);
}

#[test]
fn rfc_7634_esp_packet() {
    let mut lab = Lab::new();
    let fields = [
        "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
        "a0a1a2a31011121314151617",
        "0102030400000005",
        "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec100007362708090a0b0c0d0e0f
         101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363701020204",
        "24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c614ee8099d52844eb61aa95df
         ab4c02f72aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da9165b82829f641e0",
        "76aaa8266b7fb0f7b11b369907e1ad43",
    ]
    .map(bytes);
    let fields = fields.each_ref().map(|field| &field[..]);
    lab.check(&case("appendix A".into(), Aead::ChaCha20Poly1305, fields));
    lab.report("RFC 7634", false);
}
