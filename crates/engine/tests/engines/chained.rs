//! Ciphers without integrity: ESP packets of RFC 3602 (cases 5 to 8), RFC 3686, FIPS 81 for DES;
//! and a cipher with an HMAC over its output.

use convoy_ipsec::{Cipher, Integrity, KeyBits, Transform};
use data_encoding::HEXLOWER;

use crate::case::{Case, bytes};
use crate::lab::Lab;

fn unauthenticated(name: &str, cipher: Cipher, key: &str, nonce: &str, plain: &str, ciphered: &str) -> Case {
    Case {
        key: bytes(key),
        nonce: bytes(nonce),
        plain: bytes(plain),
        cipher: bytes(ciphered),
        ..Case::new(name, Transform::Chained { cipher, integrity: None })
    }
}

/// RFC 3602 section 4: key, IV, ESP header, plaintext with padding and trailer, ciphertext.
fn rfc_3602() -> Vec<Case> {
    const A: &str = "90d382b410eeba7ad938c46cec1a82bf";
    const B: &str = "0123456789abcdef0123456789abcdef";
    const PADDING: &str = "0102030405060708090a0b0c0d0e";
    let packets = [
        (
            "case 5",
            A,
            "e96e8c08ab465763fd098d45dd3ff893",
            "0000432100000001",
            "08000ebda70a00008e9c083db95b070008090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
             202122232425262728292a2b2c2d2e2f3031323334353637",
            format!("{PADDING}0e01"),
            "f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898dc856a4699e523a55db080b59ec3a8e4b7e52
             775b07d1db34ed9c538ab50c551b874aa269add047ad2d5913ac19b7cfbad4a6",
        ),
        (
            "case 6",
            A,
            "69d08df7d203329db093fc4924e5bd80",
            "0000432100000008",
            "0800b5e8a80a0500a69c083d0b660e00777777777777777777777777",
            "01020201".into(),
            "f51995881ec4e0c4488987ce742e8109689bb379d2d750c0d915dca346a89f75",
        ),
        (
            "case 7",
            B,
            "f4e765244f6407adf13dc1380f673f37",
            "0000876500000002",
            "45000054090400004001f988c0a87b03c0a87bc808009f76a90a0100b49c083d02a2040008090a0b0c0d0e0f
             101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637",
            "0102030405060708090a0a04".into(),
            "773b5241a4c449225e4f3ce5ed611b0c237ca96cf74a93013c1b0ea1a0cf70f8e4ecaec78ac53aad7a0f022b859243c6
             47752e94a859352b8a4d4d2decd136e5c177f132ad3fbfb2201ac9904c74ee0a109e0ca1e4dfe9d5a100b842f1c22f0d",
        ),
        (
            "case 8",
            B,
            "85d47224b5f3dd5d2101d4ea8dffab22",
            "0000876500000005",
            "45000044090c00004001f990c0a87b03c0a87bc80800d63caa0a0200c69c083da3de0300
             ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
            "0102030405060708090a0a04".into(),
            "15b92683819596a8047232cc00f7048fe45318e11f8a0f62ede3c3fc61203bb50f980a08c9843fd3a1b06d5c07ff9639
             b7eb7dfb3512e5de435e7207ed971ef3d2726d9b5ef6affc6d17a0decbb13892",
        ),
    ];
    let cases = packets.map(|(name, key, iv, esp, payload, trailer, ciphered)| Case {
        head: bytes(&format!("{esp}{iv}")),
        ..unauthenticated(
            name,
            Cipher::AesCbc(KeyBits::B128),
            key,
            iv,
            &format!("{payload}{trailer}"),
            ciphered,
        )
    });
    cases.into()
}

#[test]
fn rfc_3602_esp_packets() {
    let mut lab = Lab::new();
    rfc_3602().iter().for_each(|case| lab.check(case));
    lab.report("RFC 3602", false);
}

/// RFC 3686 section 6: key, nonce and IV, ciphertext; three plaintexts in turn.
const RFC_3686: [(KeyBits, &str, &str, &str); 9] = [
    (
        KeyBits::B128,
        "ae6852f8121067cc4bf7a5765577f39e",
        "000000300000000000000000",
        "e4095d4fb7a7b3792d6175a3261311b8",
    ),
    (
        KeyBits::B128,
        "7e24067817fae0d743d6ce1f32539163",
        "006cb6dbc0543b59da48d90b",
        "5104a106168a72d9790d41ee8edad388eb2e1efc46da57c8fce630df9141be28",
    ),
    (
        KeyBits::B128,
        "7691be035e5020a8ac6e618529f9a0dc",
        "00e0017b27777f3f4a1786f0",
        "c1cf48a89f2ffdd9cf4652e9efdb72d74540a42bde6d7836d59a5ceaaef3105325b2072f",
    ),
    (
        KeyBits::B192,
        "16af5b145fc9f579c175f93e3bfb0eed863d06ccfdb78515",
        "0000004836733c147d6d93cb",
        "4b55384fe259c9c84e7935a003cbe928",
    ),
    (
        KeyBits::B192,
        "7c5cb2401b3dc33c19e7340819e0f69c678c3db8e6f6a91a",
        "0096b03b020c6eadc2cb500d",
        "453243fc609b23327edfaafa7131cd9f8490701c5ad4a79cfc1fe0ff42f4fb00",
    ),
    (
        KeyBits::B192,
        "02bf391ee8ecb159b959617b0965279bf59b60a786d3e0fe",
        "0007bdfd5cbd60278dcc0912",
        "96893fc55e5c722f540b7dd1ddf7e758d288bc95c69165884536c811662f2188abee0935",
    ),
    (
        KeyBits::B256,
        "776beff2851db06f4c8a0542c8696f6c6a81af1eec96b4d37fc1d689e6c1c104",
        "00000060db5672c97aa8f0b2",
        "145ad01dbf824ec7560863dc71e3e0c0",
    ),
    (
        KeyBits::B256,
        "f6d66d6bd52d59bb0796365879eff886c66dd51a5b6a99744b50590c87a23884",
        "00faac24c1585ef15a43d875",
        "f05e231b3894612c49ee000b804eb2a9b8306b508f839d6a5530831d9344af1c",
    ),
    (
        KeyBits::B256,
        "ff7a617ce69148e4f1726e2f43581de2aa62d9f805532edff1eed687fb54153d",
        "001cc5b751a51d70a1c11148",
        "eb6c52821d0bbbf7ce7594462aca4faab407df866569fd07f48cc0b583d6071f1ec0e6b8",
    ),
];

#[test]
fn rfc_3686_known_answers() {
    let counting: Vec<u8> = (0..36).collect();
    let plains = [b"Single block msg", &counting[..32], &counting];
    let mut lab = Lab::new();
    for (number, (bits, key, nonce, ciphered)) in RFC_3686.into_iter().enumerate() {
        let key = format!("{key}{}", &nonce[..8]);
        let nonce = format!("{nonce}00000001");
        let plain = HEXLOWER.encode(plains[number % 3].as_ref());
        let name = format!("vector {}", number + 1);
        lab.check(&unauthenticated(&name, Cipher::AesCtr(bits), &key, &nonce, &plain, ciphered));
    }
    lab.report("RFC 3686", false);
}

/// FIPS 81 appendix C for DES; the same text under three keys, from the tests of OpenSSL and
/// SSLeay.
#[test]
fn des_and_triple_des_known_answers() {
    let mut lab = Lab::new();
    let time = HEXLOWER.encode(b"Now is the time for all ");
    let seven = HEXLOWER.encode(b"7654321 Now is the time for \0\0\0\0");
    for case in [
        unauthenticated(
            "DES",
            Cipher::DesCbc,
            "0123456789abcdef",
            "1234567890abcdef",
            &time,
            "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
        ),
        unauthenticated(
            "3DES",
            Cipher::TripleDesCbc,
            "0123456789abcdeff1e0d3c2b5a49786fedcba9876543210",
            "fedcba9876543210",
            &seven,
            "3fe301c962ac01d02213763c1cbd4cdc799657c064ecf5d41c673812cfde9675",
        ),
    ] {
        lab.check(&case);
    }
    lab.report("DES", false);
}

/// A known ciphertext with a known HMAC: case 6 of RFC 3602 under HMAC-SHA-256-128 with the first
/// key of RFC 4868, computed with Python's hmac; once without ESN, and once with 5 as the upper
/// half.
#[test]
fn a_cipher_and_an_hmac_over_its_output() {
    let mut lab = Lab::new();
    for (esn_high, icv) in
        [(None, "d52458f79d560b7334389a4662cf6348"), (Some([0, 0, 0, 5]), "2f3cc798c3afad00bb8a04d987939c25")]
    {
        let mut case = rfc_3602().swap_remove(1);
        let integrity = Some(Integrity::HmacSha256_128);
        case.transform = Transform::Chained { cipher: Cipher::AesCbc(KeyBits::B128), integrity };
        case.key.extend([0x0b; 32]);
        case.icv = bytes(icv);
        case.esn_high = esn_high;
        lab.check(&case);
    }
    lab.report("CBC with HMAC", false);
}
