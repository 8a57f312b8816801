//! HMACs: RFC 2202 (MD5, and SHA-1 for RFC 2404), RFC 4868 section 2.7.2, RFC 4231, and the upper
//! half of an extended sequence number (RFC 4303 section 2.2.1).

use convoy_ipsec::{Cipher, Integrity, Transform};

use crate::case::{Case, bytes};
use crate::lab::Lab;

/// ESP-NULL or AH: `message` under `key`, which HMAC pads with zeros (RFC 2104 section 2).
fn case(name: &str, integrity: Integrity, key: &[u8], message: &[u8], mac: &str) -> Case {
    let mut key = key.to_vec();
    key.resize(integrity.row().key_len, 0);
    Case {
        key,
        head: message.to_vec(),
        icv: bytes(mac)[..integrity.row().icv_len].to_vec(),
        ..Case::new(name, Transform::Chained { cipher: Cipher::Null, integrity: Some(integrity) })
    }
}

const JEFE: &[u8] = b"what do ya want for nothing?";
const TRUNCATION: &[u8] = b"Test With Truncation";

#[test]
fn rfc_2202_and_2404_known_answers() {
    use Integrity::{HmacMd5_96, HmacSha1_96};
    let mut lab = Lab::new();
    for case in [
        case("MD5 1", HmacMd5_96, &[0x0b; 16], b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d"),
        case("MD5 2", HmacMd5_96, b"Jefe", JEFE, "750c783e6ab0b503eaa86e310a5db738"),
        case("MD5 3", HmacMd5_96, &[0xaa; 16], &[0xdd; 50], "56be34521d144c88dbb8c733f0e8b3f6"),
        case("MD5 5", HmacMd5_96, &[0x0c; 16], TRUNCATION, "56461ef2342edc00f9bab995690efd4c"),
        case("SHA-1 1", HmacSha1_96, &[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"),
        case("SHA-1 2", HmacSha1_96, b"Jefe", JEFE, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        case("SHA-1 3", HmacSha1_96, &[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3"),
        case("SHA-1 5", HmacSha1_96, &[0x0c; 20], TRUNCATION, "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04"),
    ] {
        lab.check(&case);
    }
    lab.report("RFC 2202", false);
}

#[test]
fn rfc_4868_authentication_known_answers() {
    use Integrity::{HmacSha256_128, HmacSha384_192, HmacSha512_256};
    let mut lab = Lab::new();
    for case in [
        case("AUTH256-1", HmacSha256_128, &[0x0b; 32], b"Hi There", "198a607eb44bfbc69903a0f1cf2bbdc5"),
        case("AUTH256-2", HmacSha256_128, &b"Jefe".repeat(8), JEFE, "167f928588c5cc2eef8e3093caa0e87c"),
        case("AUTH256-3", HmacSha256_128, &[0xaa; 32], &[0xdd; 50], "cdcb1220d1ecccea91e53aba3092f962"),
        case(
            "AUTH384-1",
            HmacSha384_192,
            &[0x0b; 48],
            b"Hi There",
            "b6a8d5636f5c6a7224f9977dcf7ee6c7fb6d0c48cbdee973",
        ),
        case(
            "AUTH384-2",
            HmacSha384_192,
            &b"Jefe".repeat(12),
            JEFE,
            "2c7353974f1842fd66d53c452ca42122b28c0b594cfb184d",
        ),
        case(
            "AUTH512-1",
            HmacSha512_256,
            &[0x0b; 64],
            b"Hi There",
            "637edc6e01dce7e6742a99451aae82df23da3e92439e590e43e761b33e910fb8",
        ),
        case(
            "AUTH512-2",
            HmacSha512_256,
            &b"Jefe".repeat(16),
            JEFE,
            "cb370917ae8a7ce28cfd1d8f4705d6141c173b2a9362c15df235dfb251b15454",
        ),
    ] {
        lab.check(&case);
    }
    lab.report("RFC 4868", false);
}

/// Cases 2 and 4 of RFC 4231, untruncated.
fn rfc_4231() -> Vec<Case> {
    use Integrity::{HmacSha256_128, HmacSha384_192, HmacSha512_256};
    let key: Vec<u8> = (1..=25).collect();
    let answers = [
        (
            HmacSha256_128,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
        ),
        (
            HmacSha384_192,
            "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
            "3e8a69b7783c25851933ab6290af6ca77a9981480850009cc5577c6e1f573b4e6801dd23c4a7d679ccf8a386c674cffb",
        ),
        (
            HmacSha512_256,
            "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
             9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
            "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db\
             a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
        ),
    ];
    let pairs = answers.into_iter().flat_map(|(integrity, two, four)| {
        [case("4231-2", integrity, b"Jefe", JEFE, two), case("4231-4", integrity, &key, &[0xcd; 50], four)]
    });
    pairs.collect()
}

#[test]
fn rfc_4231_known_answers() {
    let mut lab = Lab::new();
    rfc_4231().iter().for_each(|case| lab.check(case));
    lab.report("RFC 4231", false);
}

/// The last four bytes of a known message serve as the upper half of the sequence number. That is
/// authenticated behind the packet and not sent, so the answer must be the same.
#[test]
fn the_upper_half_of_an_extended_sequence_number_is_authenticated_behind_the_packet() {
    let mut lab = Lab::new();
    for mut case in rfc_4231() {
        let at = case.head.len() - 4;
        case.esn_high = case.head[at..].first_chunk().copied();
        case.head.truncate(at);
        lab.check(&case);
    }
    lab.report("ESN over HMAC", false);
}
