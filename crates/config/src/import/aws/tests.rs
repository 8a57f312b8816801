//! Texts in the form of AWS' generic one.

use std::path::Path;

use super::*;
use crate::Config;
use crate::import::import;
use convoy_settings::Nowhere;

/// A tunnel in the form of the text, with numbers of its own.
fn tunnel(number: u8, routing: &str) -> String {
    format!(
        "IPSec Tunnel #{number}
====
#1: Internet Key Exchange Configuration

  - IKE version              : IKEv2
  - Authentication Method    : Pre-Shared Key
  - Pre-Shared Key           : a.secret_of.{number}
  - Authentication Algorithm : sha2-256
  - Encryption Algorithm     : aes-128-cbc
  - Lifetime                 : 28800 seconds
  - Diffie-Hellman           : Group 14

#2: IPSec Configuration

  - Protocol                 : esp
  - Authentication Algorithm : hmac-sha1-96
  - Encryption Algorithm     : aes-256-gcm-16
  - Perfect Forward Secrecy  : Diffie-Hellman Group 2
  - DPD Interval             : 10
  - TCP MSS Adjustment       : 1379 bytes

#3: Tunnel Interface Configuration

Outside IP Addresses:
  - Customer Gateway         : 203.0.113.1
  - Virtual Private Gateway  : 198.51.100.{number}

Inside IP Addresses
  - Customer Gateway         : 169.254.{number}.2/30
  - Virtual Private Gateway  : 169.254.{number}.1/30

  - Tunnel interface MTU     : 1436 bytes

{routing}
"
    )
}

fn text(routing: &str) -> String {
    format!("Your VPN Connection ID : vpn-1\n\n{}{}", tunnel(1, routing), tunnel(2, routing))
}

const BGP: &str = "#4: Border Gateway Protocol (BGP) Configuration:
  - Customer Gateway ASN          : 65000
  - Virtual Private  Gateway ASN  : 64512
  - Neighbor IP Address           : 169.254.1.1";
const STATIC: &str = "#4: Static Route Configuration:\n  - Next hop       : 169.254.1.1";

#[test]
fn both_tunnels_become_interfaces_and_connections_with_the_keys_of_the_text() {
    let source = ImportSource::new(Path::new("vpn.txt"), &text(BGP));
    let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
    let config = Config::parse("convoy.toml", &imported.convoy).unwrap_or_else(|errors| panic!("{errors}"));
    let interfaces: Vec<_> =
        config.interfaces.iter().map(|one| (one.name.as_str(), one.if_id, one.mtu)).collect();
    assert_eq!(interfaces, [("aws-1", Some(1), None), ("aws-2", Some(2), None)]);
    assert_eq!(config.mss_clamp, crate::MssLimit::Auto, "lower, as the MTU is");
    assert!(config.warnings.is_empty() && !imported.convoy.contains("secret"), "{:?}", config.warnings);
    let charon = imported.charon.as_ref().expect("connections");
    for line in [
        "  aws-2 {\n    version = 2\n    local_addrs = 203.0.113.1\n    remote_addrs = 198.51.100.2\n",
        "proposals = aes128-sha256-modp2048",
        "esp_proposals = aes256gcm16-modp1024",
        "if_id_in = 2",
        "  ike-aws-1 {\n    id-1 = 203.0.113.1\n    id-2 = 198.51.100.1\n    secret = a.secret_of.1\n  }",
        "secret = a.secret_of.2",
    ] {
        assert!(charon.contains(line), "{line}: {}", **charon);
    }
    let left: String = imported.left.iter().map(|finding| format!("{finding}\n")).collect();
    for line in [
        "vpn.txt:39: Neighbor IP Address: BGP is a routing daemon's: `neighbor 169.254.1.1 remote-as 64512`",
        "vpn.txt:20: Perfect Forward Secrecy: it was taken, but is weak",
        "vpn.txt:34: Tunnel interface MTU: it is more than a tunnel carries whole",
        "vpn.txt:12: Lifetime: with IKEv2 each end has its own",
    ] {
        assert!(left.contains(line), "{line}: {left}");
    }
    assert!(!left.contains("secret_of"));
}

#[test]
fn mtu_and_mss_that_the_tunnels_carry_are_taken() {
    let source =
        ImportSource::new(Path::new("vpn.txt"), &text(BGP).replace("1436", "1400").replace("1379", "1360"));
    let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
    let config = Config::parse("convoy.toml", &imported.convoy).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((config.interfaces[1].mtu, config.mss_clamp), (Some(1400), crate::MssLimit::To(1360)));
}

#[test]
fn lower_mss_of_two_tunnels_is_taken() {
    for [one, other] in [["1379", "1340"], ["1340", "1379"]] {
        let text = tunnel(1, BGP).replace("1379", one) + &tunnel(2, BGP).replace("1379", other);
        let text = text.replace("1436", "1400");
        let source = ImportSource::new(Path::new("vpn.txt"), &text);
        let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
        let config =
            Config::parse("convoy.toml", &imported.convoy).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.mss_clamp, crate::MssLimit::To(1340));
    }
}

#[test]
fn missing_algorithms_are_reported_and_nothing_is_proposed_without_integrity() {
    let charon_of = |missing: &str| {
        let source = ImportSource::new(Path::new("vpn.txt"), &tunnel(1, BGP).replace(missing, ""));
        let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
        let left: String = imported.left.iter().map(|finding| format!("{finding}\n")).collect();
        let charon = imported.charon.as_ref().expect("connections").to_string();
        (charon, left)
    };
    for (missing, key, part) in [
        ("  - Authentication Algorithm : sha2-256\n", "Authentication Algorithm", "IKE"),
        ("  - Encryption Algorithm     : aes-128-cbc\n", "Encryption Algorithm", "IKE"),
        ("  - Encryption Algorithm     : aes-256-gcm-16\n", "Encryption Algorithm", "IPSec"),
    ] {
        let (charon, left) = charon_of(missing);
        let expected =
            format!("vpn.txt:1: {key}: the text has no line \"- {key} : …\" for {part}, so charon's default");
        assert!(left.contains(&expected), "{left}");
        assert!(!charon.contains(if part == "IKE" { "    proposals" } else { "esp_proposals" }), "{charon}");
    }
    let (charon, left) = charon_of("  - Authentication Algorithm : hmac-sha1-96\n");
    assert!(charon.contains("esp_proposals = aes256gcm16-modp1024"), "{charon}");
    assert!(!left.contains("Authentication Algorithm"), "{left}");
}

#[test]
fn static_routes_and_ikev1_are_reported_with_what_to_do() {
    let source = ImportSource::new(Path::new("vpn.txt"), &text(STATIC).replace("IKEv2", "IKEv1"));
    let imported = import(&source, None, &Nowhere).unwrap_or_else(|error| panic!("{error}"));
    let left: String = imported.left.iter().map(|finding| format!("{finding}\n")).collect();
    assert!(left.contains("Next hop: the gateway sets no routes to interfaces"), "{left}");
    assert!(left.contains("ip route add NETWORK dev aws-2") && left.contains("IKE version: IKEv1"), "{left}");
}

#[test]
fn missing_and_bad_lines_are_errors() {
    for (text, expected) in [
        (
            text(BGP).replace("  - Customer Gateway         : 203.0.113.1\n", ""),
            "vpn.txt:3: Customer Gateway: IPSec Tunnel #1 has no line",
        ),
        (
            text(BGP).replace("203.0.113.1", "203.0.113"),
            "vpn.txt:27: Customer Gateway: \"203.0.113\": an address",
        ),
        (text(BGP).replace("1436 bytes", "large"), "vpn.txt:34: Tunnel interface MTU: \"large\": a number"),
        ("Your VPN Connection ID : vpn-1\n".to_owned(), "vpn.txt: no line \"IPSec Tunnel #1\""),
    ] {
        let error =
            import(&ImportSource::new(Path::new("vpn.txt"), &text), None, &Nowhere).err().expect(expected);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
