//! The gateway's file.

use std::net::IpAddr;

use zeroize::Zeroizing;

use super::gateway::{ImportedGateway, ImportedInterface, ImportedTunnel};
use crate::lines::Lines;

/// The text of convoy.toml.
pub(super) fn text(gateway: &ImportedGateway, origin: &str) -> Zeroizing<String> {
    let mut text = Lines::new();
    text.add(&format!("# By convoy import, from {}.", origin.replace(char::is_control, " ")));
    text.add("[gateway]");
    text.word("charon", "/run/convoy/charon.sock");
    if let Some(bytes) = gateway.mss_clamp {
        text.add(&format!("mss_clamp = {bytes}"));
    }
    if !gateway.tunnels.is_empty() || gateway.interfaces.is_empty() {
        inside(gateway, &mut text);
    }
    outside("outside", "udp", &gateway.outside, &mut text);
    if !gateway.native.is_empty() {
        outside("outside-native", "raw", &gateway.native, &mut text);
    }
    gateway.interfaces.iter().for_each(|one| interface(one, &mut text));
    gateway.tunnels.iter().for_each(|one| tunnel(one, &mut text));
    for (local, remote) in &gateway.bypasses {
        text.add("[[bypass]]");
        text.word("local_ts", local);
        text.word("remote_ts", remote);
    }
    text.0
}

fn inside(gateway: &ImportedGateway, text: &mut Lines) {
    text.add("[[port]]");
    text.word("name", "inside");
    text.word("kind", "tun");
    text.word("device", "convoy0");
    if let Some(mtu) = &gateway.inside_mtu {
        text.add(&format!("mtu = {}", mtu.value));
    }
    let whole = |address: &IpAddr| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
    if !gateway.inside.is_empty() {
        text.list("address", &gateway.inside.iter().map(whole).collect::<Vec<_>>());
    }
}

fn outside(name: &str, kind: &str, addresses: &[IpAddr], text: &mut Lines) {
    text.add("[[port]]");
    text.word("name", name);
    text.word("kind", kind);
    text.list("address", addresses);
}

fn interface(interface: &ImportedInterface, text: &mut Lines) {
    text.add("[[interface]]");
    text.word("name", &interface.name);
    text.add(&format!("if_id = {}", interface.if_id));
    if !interface.addresses.is_empty() {
        text.list("address", &interface.addresses);
    }
    if let Some(mtu) = &interface.mtu {
        text.add(&format!("mtu = {}", mtu.value));
    }
}

fn tunnel(tunnel: &ImportedTunnel, text: &mut Lines) {
    text.add("[[tunnel]]");
    text.word("name", &tunnel.name);
    if tunnel.is_ah {
        text.word("protocol", "ah");
    }
    if tunnel.is_transport {
        text.word("mode", "transport");
    }
    if !tunnel.local_ts.is_empty() {
        text.list("local_ts", &tunnel.local_ts);
    }
    if !tunnel.remote_ts.is_empty() {
        text.list("remote_ts", &tunnel.remote_ts);
    }
    if let Some(proposal) = &tunnel.proposal {
        text.word("esp_proposal", proposal);
    }
}
