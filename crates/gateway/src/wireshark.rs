//! The keys of all SAs as Wireshark's table `esp_sa`, for root alone.

use std::fmt::Write;

use convoy_ipsec::{Aead, Cipher, Integrity, KeyMaterial, SaProtocol, SaView, Transform};
use zeroize::Zeroizing;

use crate::worker_handles::WorkerHandles;
use crate::worker_thread::WorkerThread;

/// Bytes of a line, at most: two keys of 64 bytes, two IPv6 addresses, and the names.
const LINE_BYTES: usize = 512;

/// A line for each SA that Wireshark can decrypt, and a comment for each that it cannot.
///
/// # Errors
/// A worker did not answer in time.
pub(crate) fn esp_sa(handles: &WorkerHandles) -> Result<Zeroizing<String>, String> {
    let parts = handles.ask(of_worker);
    let len = parts.iter().flatten().map(|part| part.len()).sum();
    // Allocated once: an outgrown buffer would leave keys behind.
    let mut all = Zeroizing::new(String::with_capacity(len));
    for part in parts {
        all.push_str(&part.ok_or("a worker did not answer in time")?);
    }
    Ok(all)
}

fn of_worker(thread: &mut WorkerThread) -> Zeroizing<String> {
    let pipeline = thread.worker_mut().pipeline();
    let views: Vec<SaView> = pipeline.ipsec().tables.sas().collect();
    let mut lines = Zeroizing::new(String::with_capacity(views.len() * LINE_BYTES));
    for view in &views {
        if let Some(keys) = pipeline.stage().engines().keys(view.index) {
            line(view, keys, &mut lines);
        }
    }
    lines
}

/// Appends the line of an SA.
fn line(view: &SaView, keys: &KeyMaterial, lines: &mut String) {
    let (spi, transform) = (view.name.spi, view.transform);
    let Some(encryption) = encryption(transform).filter(|_| view.name.protocol == SaProtocol::Esp) else {
        let _ = writeln!(lines, "# {spi:#010x}: Wireshark does not decrypt {transform}");
        return;
    };
    let family = if view.name.local.is_ipv6() { "IPv6" } else { "IPv4" };
    let (source, destination) = view.name.ends();
    let _ = write!(lines, "\"{family}\",\"{source}\",\"{destination}\",\"{spi:#010x}\",\"{encryption}\",\"");
    push_hex(lines, &[keys.cipher_key(), keys.salt()]);
    let _ = write!(lines, "\",\"{}\",\"", integrity(transform.integrity()));
    push_hex(lines, &[keys.integrity_key()]);
    lines.push_str("\"\n");
}

/// Appends a key in hexadecimal digits; nothing if it is empty. No copy of it is made elsewhere.
fn push_hex(lines: &mut String, parts: &[&[u8]]) {
    if parts.iter().all(|part| part.is_empty()) {
        return;
    }
    lines.push_str("0x");
    for byte in parts.iter().copied().flatten() {
        let _ = write!(lines, "{byte:02x}");
    }
}

/// Wireshark's name of an encryption algorithm; `None` if it cannot decrypt it.
fn encryption(transform: Transform) -> Option<&'static str> {
    Some(match transform {
        Transform::Aead(Aead::AesGcm { icv: 8, .. }) => "AES-GCM with 8 octet ICV [RFC4106]",
        Transform::Aead(Aead::AesGcm { icv: 12, .. }) => "AES-GCM with 12 octet ICV [RFC4106]",
        Transform::Aead(Aead::AesGcm { .. }) => "AES-GCM with 16 octet ICV [RFC4106]",
        Transform::Aead(Aead::ChaCha20Poly1305 | Aead::NullAesGmac(_)) => return None,
        Transform::Chained { cipher, .. } => match cipher {
            Cipher::Null => "NULL",
            Cipher::AesCbc(_) => "AES-CBC [RFC3602]",
            Cipher::AesCtr(_) => "AES-CTR [RFC3686]",
            Cipher::TripleDesCbc => "TripleDES-CBC [RFC2451]",
            Cipher::DesCbc => "DES-CBC [RFC2405]",
        },
    })
}

/// Wireshark's name of an integrity algorithm.
fn integrity(integrity: Option<Integrity>) -> &'static str {
    match integrity {
        None => "NULL",
        Some(Integrity::HmacMd5_96) => "HMAC-MD5-96 [RFC2403]",
        Some(Integrity::HmacSha1_96) => "HMAC-SHA-1-96 [RFC2404]",
        Some(Integrity::HmacSha256_128) => "HMAC-SHA-256-128 [RFC4868]",
        Some(Integrity::HmacSha384_192) => "HMAC-SHA-384-192 [RFC4868]",
        Some(Integrity::HmacSha512_256) => "HMAC-SHA-512-256 [RFC4868]",
    }
}
