//! ipsec.conf of strongSwan's starter and of libreswan: a gateway, and connections for swanctl.

mod conns;
mod end;
mod words;

use convoy_ipsec::SaProtocol;
use convoy_settings::{HostEnvironment, unknown};

use self::conns::Conn;
use self::end::{ConnEnds, EndHost};
use self::words::{ACTION, MODE, NOT_TAKEN, NUMBERS, START, TAKEN, TAKEN_OF_ENDS, proposals, translated};
use super::findings::{Finding, ImportEntry};
use super::gateway::{
    ImportedConnection, ImportedGateway, ImportedSecret, ImportedTunnel, NETWORKS_OF_THE_PEER, SwanctlKeys,
    free_name, known_proposal, word,
};
use super::source::ImportSource;

/// The gateway and the connections of a file.
///
/// # Errors
/// What is wrong in it, with its line.
pub(super) fn read(
    source: &ImportSource,
    machine: &dyn HostEnvironment,
    left: &mut Vec<Finding>,
) -> Result<ImportedGateway, Finding> {
    let conns = conns::read(source, left)?;
    let mut gateway = ImportedGateway::default();
    for conn in &conns {
        report(conn, left);
        connection(conn, machine, &mut gateway, left)?;
    }
    if gateway.connections.is_empty() {
        let what = "there is no connection to take; write auto=add, route or start in one";
        return Err(source.place(0).finding("conn", what));
    }
    Ok(gateway)
}

/// Says of each key that is not taken why.
fn report(conn: &Conn, left: &mut Vec<Finding>) {
    let is_of_end = |key: &str| {
        let rest = key.strip_prefix("left").or_else(|| key.strip_prefix("right"));
        rest.is_some_and(|rest| TAKEN_OF_ENDS.contains(&rest))
    };
    for entry in conn.entries() {
        let key = &*entry.key;
        if TAKEN.contains(&key) || is_of_end(key) || NUMBERS.iter().any(|(known, _)| *known == key) {
            continue;
        }
        let known = NOT_TAKEN.iter().find(|(known, _)| *known == key);
        let what = match known {
            Some((_, what)) => (*what).to_owned(),
            None => unknown("key", key, &TAKEN) + "; it was left out",
        };
        left.push(entry.finding(what));
    }
}

fn connection(
    conn: &Conn,
    machine: &dyn HostEnvironment,
    gateway: &mut ImportedGateway,
    left: &mut Vec<Finding>,
) -> Result<(), Finding> {
    let ends = ConnEnds::of(conn, machine)?;
    let ConnEnds { local, remote } = &ends;
    let Some(mode) = mode(conn, left) else { return Ok(()) };
    let name =
        free_name(&word(&conn.name), |name| gateway.connections.iter().any(|known| known.name == name));
    local.outside(remote).into_iter().for_each(|address| gateway.add_outside(address));
    let mut keys = ike_keys(conn, &ends, gateway, left);
    if let Some(pool) = remote.pool() {
        let pool_name = format!("{name}-pool");
        keys.push(("pools", pool_name.clone()));
        gateway.pools.push((pool_name, pool.to_owned()));
    }
    let tunnel = tunnel(conn, &name, mode, &ends, left)?;
    let child = ("net".to_owned(), child(conn, &tunnel, &ends, left));
    let (own, peer) = (local.authentication(left)?, remote.authentication(left)?);
    let has_secret = own.iter().chain(&peer).any(|(key, value)| *key == "auth" && value == "psk");
    let secret = if has_secret { secret(conn, &ends, left) } else { ImportedSecret::Elsewhere };
    let inside = local.source().filter(|_| mode == "tunnel");
    inside.into_iter().for_each(|address| gateway.add_inside(address));
    if mode == "pass" {
        let pairs =
            tunnel.local_ts.iter().flat_map(|one| tunnel.remote_ts.iter().map(move |other| (*one, *other)));
        gateway.bypasses.extend(pairs);
    } else {
        gateway.add_tunnel(tunnel);
    }
    gateway.connections.push(ImportedConnection { name, keys, local: own, remote: peer, child, secret });
    Ok(())
}

/// `type` in swanctl's word, if the gateway has it.
fn mode(conn: &Conn, left: &mut Vec<Finding>) -> Option<&'static str> {
    let Some(entry) = conn.entry("type") else { return Some("tunnel") };
    let mode = translated(&MODE, &entry.value);
    if mode.is_none() {
        left.push(
            entry
                .finding("the gateway has tunnel, transport and passthrough, so the connection was left out"),
        );
    }
    mode
}

/// A connection's own keys. Without a known address here, only ESP in UDP reaches the gateway.
fn ike_keys(
    conn: &Conn,
    ends: &ConnEnds<'_>,
    gateway: &mut ImportedGateway,
    left: &mut Vec<Finding>,
) -> SwanctlKeys {
    let mut keys: SwanctlKeys = vec![("version", "2".to_owned())];
    let known = match ends.local.host {
        EndHost::Address(address) => Some(address),
        _ => None,
    };
    keys.extend(known.map(|address| ("local_addrs", address.to_string())));
    keys.push(("remote_addrs", ends.remote.host.to_string()));
    let is_forced = |key: &&str| conn.entry(key).is_some_and(ImportEntry::is_yes);
    let is_forced = ["forceencaps", "encapsulation"].iter().any(is_forced);
    match (known, ah(conn)) {
        (Some(address), Some(_)) => gateway.add_native(address),
        (Some(address), None) if !is_forced => gateway.add_native(address),
        (None, Some(entry)) => {
            left.push(
                entry.finding("AH comes to known addresses alone; write this gateway's own as local_addrs"),
            );
        }
        _ => {}
    }
    if is_forced || known.is_none() {
        keys.push(("encap", "yes".to_owned()));
    }
    exchange(conn, &mut keys, left);
    keys.extend(ends.local.vips().map(|vips| ("vips", vips)));
    keys
}

/// What concerns IKE.
fn exchange(conn: &Conn, keys: &mut SwanctlKeys, left: &mut Vec<Finding>) {
    let is_old = |entry: &&ImportEntry| ["ikev1", "no", "never"].contains(&&*entry.value);
    for entry in ["keyexchange", "ikev2"].iter().filter_map(|key| conn.entry(key)).filter(is_old) {
        left.push(entry.finding(
            "IKEv1 was never tried with convoy; the connection has version = 2, which the peer needs as well",
        ));
    }
    if let Some(compress) = conn.entry("compress").filter(|entry| entry.is_yes()) {
        left.push(compress.finding("the gateway has no IPComp; remove it at the peer"));
    }
    keys.extend(conn.value(&["ike"]).map(|ike| ("proposals", proposals(ike))));
    keys.extend(conn.value(&["mobike"]).map(|mobike| ("mobike", mobike.to_owned())));
    keys.extend(
        conn.value(&["fragmentation"]).map(|fragmentation| ("fragmentation", fragmentation.to_owned())),
    );
    let send = [
        ("always", "always"),
        ("yes", "always"),
        ("never", "never"),
        ("no", "never"),
        ("ifasked", "ifasked"),
    ];
    let sent = conn.value(&["leftsendcert", "rightsendcert"]).and_then(|value| translated(&send, value));
    keys.extend(sent.map(|sent| ("send_cert", sent.to_owned())));
    if conn.value(&["dpdaction"]).is_some_and(|action| action != "none") {
        let delay = conn.value(&["dpddelay"]).unwrap_or("30s");
        keys.push(("dpd_delay", delay.to_owned()));
    }
}

/// The proposals of AH, if the connection has it in place of ESP.
fn ah(conn: &Conn) -> Option<&ImportEntry> {
    conn.entry("ah").or_else(|| conn.entry("phase2alg").filter(|_| conn.value(&["phase2"]) == Some("ah")))
}

/// What the gateway routes.
fn tunnel(
    conn: &Conn,
    name: &str,
    mode: &str,
    ends: &ConnEnds<'_>,
    left: &mut Vec<Finding>,
) -> Result<ImportedTunnel, Finding> {
    let ah = ah(conn);
    let esp = ah.or_else(|| conn.entry("esp")).or_else(|| conn.entry("phase2alg"));
    let protocol = if ah.is_some() { SaProtocol::Ah } else { SaProtocol::Esp };
    let proposal = esp.and_then(|entry| {
        let translated = ImportEntry { value: proposals(&entry.value), ..entry.clone() };
        known_proposal(&translated, protocol, left)
    });
    let (local_ts, remote_ts) = (ends.local.selectors()?, ends.remote.selectors()?);
    let is_transport = mode == "transport";
    if remote_ts.is_empty() {
        let key = format!("conn {}", conn.name);
        if mode != "tunnel" {
            let what = "which networks are behind the peer is not known; write them as rightsubnet";
            return Err(conn.place.finding(key, what));
        }
        left.push(conn.place.finding(key, NETWORKS_OF_THE_PEER));
    }
    Ok(ImportedTunnel {
        name: name.to_owned(),
        is_ah: ah.is_some(),
        is_transport,
        local_ts,
        remote_ts,
        proposal,
    })
}

/// The child of a connection. An end with a virtual IP has that alone, which is charon's default.
fn child(conn: &Conn, tunnel: &ImportedTunnel, ends: &ConnEnds<'_>, left: &mut Vec<Finding>) -> SwanctlKeys {
    let mut keys: SwanctlKeys = Vec::new();
    for (key, end, list) in
        [("local_ts", &ends.local, &tunnel.local_ts), ("remote_ts", &ends.remote, &tunnel.remote_ts)]
    {
        if !end.is_dynamic() && !list.is_empty() {
            keys.push((key, list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")));
        }
    }
    let of = if tunnel.is_ah { "ah_proposals" } else { "esp_proposals" };
    keys.extend(tunnel.proposal.clone().map(|proposal| (of, proposal)));
    let words = [
        ("type", "mode", &MODE[..]),
        ("auto", "start_action", &START),
        ("dpdaction", "dpd_action", &ACTION),
        ("closeaction", "close_action", &ACTION),
    ];
    for (key, name, words) in words {
        let Some(entry) = conn.entry(key) else { continue };
        match translated(words, &entry.value) {
            Some(word) => keys.push((name, word.to_owned())),
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                left.push(entry.finding(format!(
                    "{:?}: one of {} is expected",
                    entry.value,
                    known.join(", ")
                )));
            }
        }
    }
    for (key, name) in NUMBERS {
        keys.extend(conn.value(&[key]).map(|value| (name, value.to_owned())));
    }
    keys
}

/// The place for the pre-shared key of a connection.
fn secret(conn: &Conn, ends: &ConnEnds<'_>, left: &mut Vec<Finding>) -> ImportedSecret {
    let place = conn.entry("authby").map_or(&conn.place, |entry| &entry.place);
    let what = "the pre-shared key is in ipsec.secrets, which is not read; write it into `secrets` of swanctl's file";
    left.push(place.finding("authby", what));
    ImportedSecret::Missing([ends.local.identity(), ends.remote.identity()].into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
