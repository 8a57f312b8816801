//! `[tunnel.manual]`: SPIs and keys, which no two SAs may share.

use data_encoding::HEXLOWER_PERMISSIVE;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

use convoy_dataplane::handoff::MAX_WORKERS;
use convoy_ipsec::{KeyMaterial, Proposal, SaProtocol};
use convoy_settings::Checker;
use hkdf::Hkdf;
use sha2::Sha256;
use toml::Spanned;
use zeroize::Zeroizing;

use super::file;
use super::{ManualKeys, TunnelConfig};

/// The keys of one tunnel, a pair of SAs for each of its resources; empty if they are invalid.
pub(super) fn keys(c: &mut Checker<'_>, file: &file::Manual, proposal: Proposal) -> Vec<ManualKeys> {
    let count = c.in_range(file.resources.as_ref(), "tunnel.manual.resources", 1, 1..=MAX_WORKERS);
    let mut spi = |value: &Option<Spanned<u32>>, key: &str, example: &str| {
        let value = c.needed(&file.at, value.as_ref(), key, example)?;
        if *value.get_ref() < 256 {
            let what = format!("SPI {:#010x} is reserved; use one above 0x000000ff", value.get_ref());
            c.add(&value.span(), key, what);
        } else if value.get_ref().checked_add(u32::from(count) - 1).is_none() {
            let what = format!("it is the first of {count} SPIs, of which the last would exceed 0xffffffff");
            c.add(&value.span(), key, what);
            return None;
        }
        Some(*value.get_ref())
    };
    let spi_in = spi(&file.spi_in, "tunnel.manual.spi_in", "0x1001");
    let spi_out = spi(&file.spi_out, "tunnel.manual.spi_out", "0x1002");
    let mut material = |secret: &Option<Spanned<file::Secret>>, key: &str| {
        let secret = c.needed(&file.at, secret.as_ref(), key, "\"...\", in hexadecimal")?;
        let digits = secret.get_ref().0.as_str();
        // Allocated at once: a growing buffer would leave pieces of the key behind.
        let mut bytes = vec![0; digits.len() / 2];
        if let Err(error) = from_hex(digits, &mut bytes) {
            c.add(&secret.span(), key, format!("it is not a hexadecimal number: {error}"));
            return None;
        }
        KeyMaterial::new(proposal.transform, bytes)
            .map_err(|error| c.add(&secret.span(), key, format!("{proposal}: {error}")))
            .ok()
    };
    let keys_in = material(&file.key_in, "tunnel.manual.key_in");
    let keys_out = material(&file.key_out, "tunnel.manual.key_out");
    let (Some(spi_in), Some(spi_out)) = (spi_in, spi_out) else { return Vec::new() };
    let (Some(keys_in), Some(keys_out)) = (keys_in, keys_out) else { return Vec::new() };
    if count == 1 {
        return vec![ManualKeys { spi_in, spi_out, keys_in, keys_out }];
    }
    let of_resource = |resource| {
        let (spi_in, spi_out) = (spi_in + resource, spi_out + resource);
        let keys_in = of_spi(&keys_in, spi_in)?;
        Some(ManualKeys { spi_in, spi_out, keys_in, keys_out: of_spi(&keys_out, spi_out)? })
    };
    (0..u32::from(count)).map_while(of_resource).collect()
}

/// Writes hexadecimal digits as bytes to `to`, which has half their number of bytes.
fn from_hex(digits: &str, to: &mut [u8]) -> Result<(), String> {
    if !digits.len().is_multiple_of(2) {
        return Err(format!("{} digits, an odd number", digits.len()));
    }
    match HEXLOWER_PERMISSIVE.decode_mut(digits.as_bytes(), to) {
        Ok(_) => Ok(()),
        // It may be a byte within a character, so the position says more than the byte.
        Err(partial) => Err(format!("character {} is not a digit", partial.error.position + 1)),
    }
}

/// What the derived keys are for, as HKDF's `info` has it before the SPI.
const PURPOSE: &[u8] = b"convoy resource";

/// The keys of one resource's SA (RFC 9611): HKDF with SHA-256 (RFC 5869), without salt, of the
/// tunnel's key, cut to the same length. `info` ends with the SPI, 4 bytes in network byte order.
fn of_spi(key: &KeyMaterial, spi: u32) -> Option<KeyMaterial> {
    let whole = Zeroizing::new([key.cipher_key(), key.salt(), key.integrity_key()].concat());
    let mut derived = vec![0; whole.len()];
    let info = [PURPOSE, &spi.to_be_bytes()].concat();
    Hkdf::<Sha256>::new(None, &whole).expand(&info, &mut derived).ok()?;
    KeyMaterial::new(key.transform(), derived).ok()
}

/// Inbound SAs are identified by SPI and protocol, outbound ones also by their peer.
pub(super) fn spis_differ(c: &mut Checker<'_>, tunnels: &[file::Tunnel]) {
    let mut taken: HashMap<(u32, &str, String), &str> = HashMap::new();
    for tunnel in tunnels {
        let (Some(manual), Some(name)) = (&tunnel.manual, &tunnel.name) else { continue };
        let roams = tunnel.roaming.as_ref().is_some_and(|roams| *roams.get_ref());
        if tunnel.remote.is_none() && !roams {
            continue;
        }
        let protocol = tunnel.protocol.as_ref().map_or("esp", |text| text.get_ref().as_str());
        // One address can be written in several ways.
        let written = |remote: &String| {
            remote.parse().map_or_else(|_| remote.clone(), |address: IpAddr| address.to_string())
        };
        // Any two that roam may be behind one NAT.
        let peer = if roams {
            Some("roaming".to_owned())
        } else {
            tunnel.remote.as_ref().map(|it| written(it.get_ref()))
        };
        let peer = peer.unwrap_or_default();
        let directions = [
            (&manual.spi_in, String::new(), "tunnel.manual.spi_in"),
            (&manual.spi_out, peer, "tunnel.manual.spi_out"),
        ];
        let resources = manual.resources.as_ref().map_or(1, |count| (*count.get_ref()).clamp(1, MAX_WORKERS));
        for (first, peer, key) in directions {
            let Some(first) = first else { continue };
            for spi in (*first.get_ref()..=u32::MAX).take(resources.into()) {
                if let Some(other) = taken.insert((spi, protocol, peer.clone()), name.get_ref()) {
                    let what = format!(
                        "SPI {spi:#010x} of tunnel {:?} is also used by tunnel {other:?}; give one of them another SPI",
                        name.get_ref()
                    );
                    c.add(&first.span(), key, what);
                    break;
                }
            }
        }
    }
}

/// The keys of one direction of a tunnel.
struct DirectionKeys<'a> {
    tunnel: &'a str,
    key: &'static str,
    spi: u32,
    protocol: SaProtocol,
    keys: &'a KeyMaterial,
    span: Range<usize>,
}

/// Compares the keys of all tunnels and directions, as bytes.
///
/// Algorithms with counted nonces (GCM, CTR, ChaCha20, GMAC) repeat them under a key and salt that
/// another SA has, whatever the SPIs are: that reveals the plaintexts, and allows forgeries; it is
/// an error. CBC takes a random IV and HMAC needs none, so that there a shared key is a warning, as
/// the loss of one SA's key is the loss of both; but if the SPI is the same too, each SA accepts
/// what the other seals, so that packets can be reflected to their sender: an error.
pub(super) fn keys_differ(c: &mut Checker<'_>, tunnels: &[(&file::Tunnel, TunnelConfig)]) {
    let mut nonces: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
    let mut secrets: HashMap<&[u8], usize> = HashMap::new();
    let directions: Vec<DirectionKeys<'_>> =
        tunnels.iter().flat_map(|(file, tunnel)| directions(file, tunnel)).collect();
    for (at, one) in directions.iter().enumerate() {
        let (keys, own) = (one.keys, format!("tunnel {:?}", one.tunnel));
        let counts = !keys.salt().is_empty();
        let mut reported = false;
        if counts && let Some(other) = nonces.insert((keys.cipher_key(), keys.salt()), at) {
            let what = format!(
                "{own} has the same key as {} of tunnel {:?}: both would use the same nonces, which breaks {}; make a key \
                 for each tunnel and direction",
                directions[other].key,
                directions[other].tunnel,
                keys.transform()
            );
            c.add(&one.span, &format!("tunnel.manual.{}", one.key), what);
            reported = true;
        }
        for secret in [keys.cipher_key(), keys.integrity_key()] {
            if secret.is_empty() {
                continue;
            }
            let Some(other) = secrets.insert(secret, at).filter(|other| !reported && *other != at) else {
                continue;
            };
            reported = true;
            is_shared(c, one, &directions[other]);
        }
    }
}

/// Reports a key that two SAs share although their cipher counts no nonces with it.
fn is_shared(c: &mut Checker<'_>, one: &DirectionKeys<'_>, other: &DirectionKeys<'_>) {
    let key = format!("tunnel.manual.{}", one.key);
    let shared =
        format!("tunnel {:?} shares a key with {} of tunnel {:?}", one.tunnel, other.key, other.tunnel);
    if (one.spi, one.protocol) == (other.spi, other.protocol) {
        let what = format!(
            "{shared}, and the SPI {:#010x} is the same: each SA accepts the packets of the other, so that \
             packets can be reflected to their sender; make a key for each tunnel and direction",
            one.spi
        );
        c.add(&one.span, &key, what);
    } else {
        let what = format!(
            "{shared}: anyone who learns it can read both; generate a key for each tunnel and direction"
        );
        c.warn(&one.span, &key, what);
    }
}

fn directions<'a>(
    file: &'a file::Tunnel,
    tunnel: &'a TunnelConfig,
) -> impl Iterator<Item = DirectionKeys<'a>> {
    let of = |manual: &'a ManualKeys| {
        let file = file.manual.as_ref();
        let spans = [file.and_then(|file| file.key_in.as_ref()), file.and_then(|file| file.key_out.as_ref())];
        let ends =
            [("key_in", manual.spi_in, &manual.keys_in), ("key_out", manual.spi_out, &manual.keys_out)];
        ends.into_iter().zip(spans).map(|((key, spi, keys), span)| DirectionKeys {
            tunnel: &tunnel.name,
            key,
            spi,
            protocol: tunnel.protocol,
            keys,
            span: span.map_or(0..0, Spanned::span),
        })
    };
    tunnel.manual.iter().flat_map(of)
}
