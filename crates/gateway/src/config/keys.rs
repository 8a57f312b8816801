//! `[tunnel.manual]`: SPIs and keys, which no two SAs may share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;

use convoy_ipsec::{KeyMaterial, Proposal, SaProtocol};
use convoy_settings::Checker;
use toml::Spanned;

use super::file;
use super::{ManualKeys, TunnelConfig};

/// The keys of one tunnel.
pub(super) fn keys(c: &mut Checker<'_>, file: &file::Manual, proposal: Proposal) -> Option<ManualKeys> {
    let mut spi = |value: &Option<Spanned<u32>>, key: &str, example: &str| {
        let value = c.needed(&file.at, value.as_ref(), key, example)?;
        if *value.get_ref() < 256 {
            let what = format!("SPI {:#010x} is reserved; use one above 0x000000ff", value.get_ref());
            c.add(&value.span(), key, what);
        }
        Some(*value.get_ref())
    };
    let spi_in = spi(&file.spi_in, "tunnel.manual.spi_in", "0x1001");
    let spi_out = spi(&file.spi_out, "tunnel.manual.spi_out", "0x1002");
    let mut material = |secret: &Option<Spanned<file::Secret>>, key: &str| {
        let secret = c.needed(&file.at, secret.as_ref(), key, "\"...\", in hexadecimal")?;
        let bytes = match hex::decode(secret.get_ref().0.as_str()) {
            Ok(bytes) => bytes,
            Err(error) => {
                c.add(&secret.span(), key, format!("not a hexadecimal number: {error}"));
                return None;
            }
        };
        KeyMaterial::new(proposal.transform, bytes)
            .map_err(|error| c.add(&secret.span(), key, format!("{proposal}: {error}")))
            .ok()
    };
    let keys_in = material(&file.key_in, "tunnel.manual.key_in");
    let keys_out = material(&file.key_out, "tunnel.manual.key_out");
    Some(ManualKeys { spi_in: spi_in?, spi_out: spi_out?, keys_in: keys_in?, keys_out: keys_out? })
}

/// Inbound SAs are identified by SPI and protocol, outbound ones also by their peer.
pub(super) fn spis_differ(c: &mut Checker<'_>, tunnels: &[file::Tunnel]) {
    let mut taken: HashMap<(u32, &str, String), &str> = HashMap::new();
    for tunnel in tunnels {
        let (Some(manual), Some(name), Some(remote)) = (&tunnel.manual, &tunnel.name, &tunnel.remote) else {
            continue;
        };
        let protocol = tunnel.protocol.as_ref().map_or("esp", |text| text.get_ref().as_str());
        // One address can be written in several ways.
        let remote = remote.get_ref();
        let peer = remote.parse().map_or_else(|_| remote.clone(), |address: IpAddr| address.to_string());
        let directions = [
            (&manual.spi_in, String::new(), "tunnel.manual.spi_in"),
            (&manual.spi_out, peer, "tunnel.manual.spi_out"),
        ];
        for (spi, peer, key) in directions {
            let Some(spi) = spi else { continue };
            if let Some(other) = taken.insert((*spi.get_ref(), protocol, peer), name.get_ref()) {
                let what = format!(
                    "SPI {:#010x} of tunnel {:?} is also that of tunnel {other:?}; give one of them another",
                    spi.get_ref(),
                    name.get_ref()
                );
                c.add(&spi.span(), key, what);
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
        let mut told = false;
        if counts && let Some(other) = nonces.insert((keys.cipher_key(), keys.salt()), at) {
            let what = format!(
                "{own} has the same key as {} of tunnel {:?}: both would use the same nonces, which breaks {}; make a key \
                 for each tunnel and direction",
                directions[other].key,
                directions[other].tunnel,
                keys.transform()
            );
            c.add(&one.span, &format!("tunnel.manual.{}", one.key), what);
            told = true;
        }
        for secret in [keys.cipher_key(), keys.integrity_key()] {
            if secret.is_empty() {
                continue;
            }
            let Some(other) = secrets.insert(secret, at).filter(|other| !told && *other != at) else {
                continue;
            };
            told = true;
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
            "{shared}, and the SPI {:#010x} is the same: each SA accepts the packets of the other, so that packets can \
             be sent back; make a key for each tunnel and direction",
            one.spi
        );
        c.add(&one.span, &key, what);
    } else {
        let what = format!(
            "{shared}: whoever learns it can read both; generate a key for each tunnel and direction"
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
