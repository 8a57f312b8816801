//! Project Wycheproof through the engine interface.
//!
//! Skips cases that no ESP packet can have: nonces that are not 12 bytes long, more than 12 bytes
//! of additional data, keys longer than ESP's. `aes_cbc_pkcs5` is about PKCS#5 padding, which ESP
//! does not use: padding is checked in `finish`, not in an engine.

use convoy_ipsec::{AAD_BYTES, Aead, Cipher, Integrity, Transform};
use wycheproof::TestResult;

use crate::aead::{case, key_bits};
use crate::case::Case;
use crate::lab::Lab;

#[test]
fn wycheproof_aes_gcm() {
    use wycheproof::aead::{TestName, TestSet};
    let mut lab = Lab::new();
    let set = TestSet::load(TestName::AesGcm).expect("the crate's data is well-formed");
    for group in set.test_groups {
        for test in group.tests {
            let Some(key) = key_bits(test.key.len()) else { continue };
            if test.nonce.len() != 12 || test.aad.len() > AAD_BYTES || test.tag.len() != 16 {
                continue;
            }
            let is_valid = test.result == TestResult::Valid;
            let icvs: &[u8] = if is_valid { &[8, 12, 16] } else { &[16] };
            let fields =
                [&test.key, &test.nonce, &test.aad, &test.pt, &test.ct, &test.tag].map(|field| &field[..]);
            for icv in icvs {
                let name = format!("Wycheproof {} with ICV {icv}", test.tc_id);
                lab.check(&Case { is_valid, ..case(name, Aead::AesGcm { key, icv: *icv }, fields) });
            }
        }
    }
    lab.report("Wycheproof AES-GCM", true);
}

#[test]
fn wycheproof_chacha20_poly1305() {
    use wycheproof::aead::{TestName, TestSet};
    let mut lab = Lab::new();
    let set = TestSet::load(TestName::ChaCha20Poly1305).expect("the crate's data is well-formed");
    for group in set.test_groups {
        for test in group.tests {
            if test.nonce.len() != 12 || test.aad.len() > AAD_BYTES || test.tag.len() != 16 {
                continue;
            }
            let is_valid = test.result == TestResult::Valid;
            let fields =
                [&test.key, &test.nonce, &test.aad, &test.pt, &test.ct, &test.tag].map(|field| &field[..]);
            let name = format!("Wycheproof {}", test.tc_id);
            lab.check(&Case { is_valid, ..case(name, Aead::ChaCha20Poly1305, fields) });
        }
    }
    lab.report("Wycheproof ChaCha20-Poly1305", true);
}

#[test]
fn wycheproof_aes_gmac() {
    use wycheproof::mac_with_nonce::{TestName, TestSet};
    let mut lab = Lab::new();
    let set = TestSet::load(TestName::Gmac).expect("the crate's data is well-formed");
    for group in set.test_groups {
        for test in group.tests {
            let Some(key) = key_bits(test.key.len()) else { continue };
            if test.nonce.len() != 12 || test.tag.len() != 16 {
                continue;
            }
            // The message is split as in ESP: SPI and sequence number, then the frame's bytes.
            let aad_len = [12, 8, 0].into_iter().find(|len| *len <= test.msg.len()).unwrap_or(0);
            let (aad, head) = test.msg.split_at(aad_len);
            let fields = [&test.key, &test.nonce, aad, &[], &[], &test.tag[..]];
            let name = format!("Wycheproof {}", test.tc_id);
            let is_valid = test.result == TestResult::Valid;
            lab.check(&Case { is_valid, head: head.to_vec(), ..case(name, Aead::NullAesGmac(key), fields) });
        }
    }
    lab.report("Wycheproof AES-GMAC", true);
}

/// Whether only bytes behind the first `icv_len` are wrong, as in "Flipped bit 97 in tag".
fn is_cut_off(comment: &str, icv_len: usize) -> bool {
    let first_number = comment.split(' ').find_map(|word| word.parse::<usize>().ok());
    first_number.is_some_and(|bit| bit >= icv_len * 8)
}

/// Tags are truncated to the ICV's length; keys are padded with zeros, as HMAC does.
fn hmac(name: wycheproof::mac::TestName, integrity: Integrity) {
    let mut lab = Lab::new();
    let set = wycheproof::mac::TestSet::load(name).expect("the crate's data is well-formed");
    for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
        let icv_len = integrity.row().icv_len;
        if test.tag.len() < icv_len || test.key.len() > integrity.row().key_len {
            continue;
        }
        let is_valid = test.result == TestResult::Valid;
        if !is_valid && is_cut_off(&test.comment, icv_len) {
            continue;
        }
        let mut key = test.key.to_vec();
        key.resize(integrity.row().key_len, 0);
        let icv = test.tag[..icv_len].to_vec();
        let transform = Transform::Chained { cipher: Cipher::Null, integrity: Some(integrity) };
        let name = format!("Wycheproof {}: {}", test.tc_id, test.comment);
        lab.check(&Case { key, head: test.msg.to_vec(), icv, is_valid, ..Case::new(name, transform) });
    }
    lab.report(&format!("Wycheproof {integrity:?}"), true);
}

#[test]
fn wycheproof_hmac_sha_1() {
    hmac(wycheproof::mac::TestName::HmacSha1, Integrity::HmacSha1_96);
}

#[test]
fn wycheproof_hmac_sha_256() {
    hmac(wycheproof::mac::TestName::HmacSha256, Integrity::HmacSha256_128);
}

#[test]
fn wycheproof_hmac_sha_384() {
    hmac(wycheproof::mac::TestName::HmacSha384, Integrity::HmacSha384_192);
}

#[test]
fn wycheproof_hmac_sha_512() {
    hmac(wycheproof::mac::TestName::HmacSha512, Integrity::HmacSha512_256);
}
