//! What is said in one answer.

use std::net::{IpAddr, SocketAddr};

use convoy_ipsec::{Proposal, ProposalList, SaProtocol};
use ipnet::IpNet;

use super::{KeySource, Reached};
use crate::ends::is_host_name;

/// The items of a list that commas or spaces separate.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).filter(|item| !item.is_empty())
}

pub(super) fn keys(text: &str) -> Result<KeySource, String> {
    match text {
        "no" => Ok(KeySource::Static),
        "psk" => Ok(KeySource::Psk),
        _ => Err(format!(
            "{text:?}: no (static keys in the files) or psk (keys from strongSwan by IKEv2) is expected"
        )),
    }
}

/// A name that may stand in file names, TOML, swanctl's sections and IKE's identities.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_good = (1..=32).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_good {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?}: a name of up to 32 letters, digits and hyphens is expected, such as site-b"))
    }
}

/// A gateway's outside end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutsideEnd {
    Address(IpAddr),
    Name(String),
}

pub(super) fn end(text: &str) -> Result<OutsideEnd, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            Err(format!("{address} is no address of a single host"))
        }
        Ok(address) => Ok(OutsideEnd::Address(address)),
        Err(_) if is_host_name(text) => Ok(OutsideEnd::Name(text.to_owned())),
        Err(_) => Err(format!(
            "{text:?}: an address or a name is expected, such as 192.0.2.1, 2001:db8::1 or gateway.example.org"
        )),
    }
}

pub(super) fn reached(text: &str) -> Result<Reached, String> {
    if text == "any" {
        return Ok(Reached::Nowhere);
    }
    let at = |host: String, port| Ok(Reached::At { host, port });
    if let Ok(address) = text.parse::<SocketAddr>() {
        end(&address.ip().to_string())?;
        return at(address.ip().to_string(), Some(port(&address.port().to_string())?));
    }
    if let Some((host, after)) = text.rsplit_once(':').filter(|(host, _)| is_host_name(host)) {
        return at(host.to_owned(), Some(port(after)?));
    }
    match end(text)? {
        OutsideEnd::Address(address) => at(address.to_string(), None),
        OutsideEnd::Name(name) => at(name, None),
    }
}

pub(super) fn networks(text: &str) -> Result<Vec<IpNet>, String> {
    let networks = items(text).map(network).collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        return Err("at least one network is expected, such as 10.1.0.0/24".to_owned());
    }
    Ok(networks)
}

fn network(text: &str) -> Result<IpNet, String> {
    let read = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    let network = read.ok_or_else(|| {
        format!("{text:?}: a network or an address is expected, such as 10.1.0.0/24 or fd00:1::/64")
    })?;
    if network.trunc() != network {
        return Err(format!("{network} has bits after its prefix; write {}", network.trunc()));
    }
    Ok(network)
}

pub(super) fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let address = |text: &str| {
        text.parse::<IpAddr>().map_err(|_| {
            format!("{text:?}: an address without a prefix is expected, such as 10.1.0.1 or fd00:1::1")
        })
    };
    let addresses = items(text).map(address).collect::<Result<Vec<_>, _>>()?;
    if addresses.is_empty() {
        return Err("at least one address is expected, such as 10.1.0.1".to_owned());
    }
    Ok(addresses)
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("{text:?}: a UDP port from 1 to 65535 is expected"))
}

/// What is proposed where nothing is said. With IKE, the keys of each rekeying come from a key
/// exchange of its own (perfect forward secrecy).
pub(super) const fn usual_proposal(keys: KeySource) -> &'static str {
    match keys {
        KeySource::Static => "aes128gcm16-esn",
        KeySource::Psk => "aes256gcm16-x25519-esn",
    }
}

/// Proposals of which none is weak; with static keys it is exactly one.
pub(super) fn proposal(text: &str, keys: KeySource) -> Result<String, String> {
    let list = text.parse::<ProposalList>().map_err(|error| error.to_string())?;
    let only = text.parse::<Proposal>().is_ok();
    if keys == KeySource::Static && !only {
        return Err(format!("{text:?}: static keys are for one proposal, such as aes128gcm16-esn"));
    }
    if list.has_default || list.proposals.is_empty() {
        return Err(format!("{text:?}: proposals with algorithms are expected, such as aes128gcm16-esn"));
    }
    match list.proposals.iter().find(|one| one.transform.is_weak(SaProtocol::Esp)) {
        Some(weak) => Err(format!(
            "{weak} is weak: it has no encryption or no integrity, or a broken algorithm; use aes128gcm16-esn"
        )),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_addresses_names_and_ports_of_a_nat() {
        let at = |host: &str, port| Ok(Reached::At { host: host.to_owned(), port });
        assert_eq!(reached("203.0.113.7"), at("203.0.113.7", None));
        assert_eq!(reached("203.0.113.7:40500"), at("203.0.113.7", Some(40500)));
        assert_eq!(reached("2001:db8::7"), at("2001:db8::7", None));
        assert_eq!(reached("[2001:db8::7]:40500"), at("2001:db8::7", Some(40500)));
        assert_eq!(reached("gw.example.org:40500"), at("gw.example.org", Some(40500)));
        assert_eq!(reached("any"), Ok(Reached::Nowhere));
        for wrong in
            ["203.0.113.256", "203.0.113.7:0", "203.0.113.7:99999", "gw.example.org:x", "0.0.0.0", "a b"]
        {
            reached(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn a_list_has_commas_or_spaces_and_no_bits_after_a_prefix() {
        let two: Vec<IpNet> =
            ["10.1.0.0/24", "fd00:1::/64"].iter().map(|text| text.parse().expect(text)).collect();
        assert_eq!(networks("10.1.0.0/24,fd00:1::/64"), Ok(two.clone()));
        assert_eq!(networks(" 10.1.0.0/24, fd00:1::/64 "), Ok(two));
        assert_eq!(networks("10.1.0.7").map(|one| one[0].to_string()), Ok("10.1.0.7/32".to_owned()));
        let reported = networks("10.1.0.7/24").expect_err("bits after the prefix");
        assert_eq!(reported, "10.1.0.7/24 has bits after its prefix; write 10.1.0.0/24");
        assert!(networks("10.1.0.0/33").is_err() && networks(" ").is_err() && networks("lan").is_err());
        assert!(addresses("10.1.0.1/24").is_err() && addresses("").is_err());
    }

    #[test]
    fn weak_proposals_and_several_for_static_keys_are_refused() {
        let (fixed, psk) = (KeySource::Static, KeySource::Psk);
        for (text, keys) in [("aes128gcm16-esn", fixed), ("aes256gcm16-x25519-esn, aes128-sha256", psk)] {
            assert_eq!(proposal(text, keys).as_deref(), Ok(text));
        }
        for (text, keys) in [
            ("aes256gcm16, aes128gcm16", fixed),
            ("null-sha256", psk),
            ("default", psk),
            ("aes128gmc16", psk),
        ] {
            proposal(text, keys).expect_err(text);
        }
    }
}
