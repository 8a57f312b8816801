//! `convoy show tunnel`: a line for each tunnel and peer, or one tunnel's details with both
//! directions side by side.

use std::collections::{BTreeSet, HashMap};

use convoy_report::snapshot::{MonitorRow, PeerRow, PeerState, PolicyRow, SaRow, WayRow};
use serde::Serialize;

use super::tables::iptfs;
use super::units::{short, time};
use super::view::{ShownSnapshot, WIDTH, end, named};
use crate::rates::{RunInterval, TrafficRate, Ways};
use crate::table::{clipped, folded, number, table_of, word, words};

/// Selectors listed in the details of a tunnel.
const SELECTORS: usize = 10;

/// A tunnel with all that is known of it, as JSON.
#[derive(Serialize)]
pub(crate) struct Details<'a> {
    #[serde(flatten)]
    tunnel: &'a PeerRow,
    policies: Vec<&'a PolicyRow>,
    sas: Vec<&'a SaRow>,
}

impl<'a> Details<'a> {
    pub(crate) fn of(view: &ShownSnapshot<'a>, peer: &'a PeerRow) -> Self {
        let [outbound, inbound] = ["outbound", "inbound"].map(|way| view.now.sas_of(peer, way));
        let sas = outbound.into_iter().chain(inbound).collect();
        Self { tunnel: peer, policies: policies(view, peer), sas }
    }
}

/// A line for each tunnel.
pub(crate) fn list(view: &ShownSnapshot<'_>, peers: &[PeerRow]) -> String {
    let rates = view.interval.as_ref().map(RunInterval::of_tunnels);
    let bits = |row: &PeerRow, of: fn(&Ways) -> TrafficRate| bits(rates.as_ref(), row, of);
    let mut columns = vec![clipped("tunnel", |row: &PeerRow| row.tunnel.clone())];
    if view.is_wide {
        columns.extend([
            word("mode", |row: &PeerRow| row.mode.clone()),
            word("local", |row: &PeerRow| end(&row.local, row.local_port)),
            word("peer", |row: &PeerRow| end(&row.remote, row.remote_port)),
        ]);
    } else {
        columns.push(clipped("peer", |row: &PeerRow| known(&row.remote)));
    }
    columns.push(word("state", |row: &PeerRow| row.state.name().to_owned()));
    columns.push(number("SAs", |row: &PeerRow| (row.outbound.sas + row.inbound.sas).to_string()));
    if view.has_rates {
        columns.push(number("bit/s in", |row: &PeerRow| bits(row, |ways| ways.inbound)));
        columns.push(number("bit/s out", |row: &PeerRow| bits(row, |ways| ways.outbound)));
    }
    if view.is_wide {
        columns.push(number("packets in", |row: &PeerRow| row.inbound.packets.to_string()));
        columns.push(number("packets out", |row: &PeerRow| row.outbound.packets.to_string()));
    }
    if view.is_wide || !view.has_rates {
        columns.push(number("B in", |row: &PeerRow| view.count(row.inbound.bytes)));
        columns.push(number("B out", |row: &PeerRow| view.count(row.outbound.bytes)));
    }
    columns.push(number("heard", |row: &PeerRow| last(&row.inbound)));
    columns.push(number("MTU", |row: &PeerRow| {
        row.path_mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string())
    }));
    if view.is_wide {
        columns.push(words("dropped in", |row: &PeerRow| named(&row.inbound.drops)));
        columns.push(words("dropped out", |row: &PeerRow| named(&row.outbound.drops)));
    }
    view.table(&columns, peers)
}

/// The details of tunnels, one after the other.
pub(crate) fn details(view: &ShownSnapshot<'_>, peers: &[PeerRow]) -> String {
    let texts: Vec<String> = peers.iter().map(|peer| detail(view, peer)).collect();
    texts.join("\n\n")
}

fn detail(view: &ShownSnapshot<'_>, peer: &PeerRow) -> String {
    let is_lost = peer.monitor.as_ref().is_some_and(MonitorRow::is_lost);
    let since = match (peer.state, peer.inbound.last_used_s) {
        (PeerState::Silent, _) if is_lost => ", probes are not answered".to_owned(),
        (PeerState::Silent, Some(ago_s)) => format!(", not heard for {}", time(ago_s)),
        (PeerState::Silent, None) => ", not heard yet".to_owned(),
        _ => String::new(),
    };
    let failed = peer.negotiation.as_ref();
    let ike = failed.map(|last| format!("{} ({} ago)", last.reason, time(last.age_s)));
    let mut text = format!("{}: {}{since}", peer.tunnel, peer.state.name());
    for (label, value) in ike.map(|ike| ("IKE", ike)).into_iter().chain(facts(view, peer)) {
        text = format!("{text}\n{}", folded(&format!("  {label:11}"), &value, WIDTH.into()));
    }
    let mut rows = totals(view, peer);
    let [outbound, inbound] = ["outbound", "inbound"].map(|way| view.now.sas_of(peer, way));
    for at in 0..outbound.len().max(inbound.len()) {
        rows.push([String::new(), String::new(), String::new()]);
        rows.extend(pair(peer, at, outbound.get(at).copied(), inbound.get(at).copied()));
    }
    let columns = [
        word("", |row: &[String; 3]| row[0].clone()),
        number("out", |row: &[String; 3]| row[1].clone()),
        number("in", |row: &[String; 3]| row[2].clone()),
    ];
    format!("{text}\n\n{}", table_of(&columns, &rows, None))
}

/// What is the same in both directions.
fn facts(view: &ShownSnapshot<'_>, peer: &PeerRow) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !peer.remote.is_empty() {
        facts.push(("peer", end(&peer.remote, peer.remote_port)));
    }
    if !peer.local.is_empty() {
        facts.push(("local", end(&peer.local, peer.local_port)));
    }
    if let Some(ike) = &peer.ike {
        let parts =
            [("identity", &ike.identity), ("virtual IP", &ike.virtual_ips), ("keys by", &ike.key_exchange)];
        let known = parts.into_iter().filter(|(_, text)| !text.is_empty());
        facts.extend(known.map(|(label, text)| (label, text.clone())));
    }
    if !peer.child.is_empty() && peer.child != peer.tunnel {
        facts.push(("child", peer.child.clone()));
    }
    let encap = if peer.remote_port.is_some() { ", ESP in UDP" } else { "" };
    if !peer.mode.is_empty() {
        facts.push(("mode", format!("{}{encap}", peer.mode)));
    }
    if let Some(mtu) = peer.path_mtu {
        facts.push(("path MTU", format!("{mtu} bytes")));
    }
    if let Some(monitor) = &peer.monitor {
        facts.push(("monitor", probes(monitor)));
    }
    let policies = policies(view, peer);
    let pairs: BTreeSet<_> = policies.iter().map(|policy| (&policy.local, &policy.remote)).collect();
    let labels = std::iter::once("traffic").chain(std::iter::repeat(""));
    for (label, (local, remote)) in labels.zip(pairs.iter().take(SELECTORS)) {
        facts.push((label, format!("{local} === {remote}")));
    }
    if let Some(more @ 1..) = pairs.len().checked_sub(SELECTORS) {
        facts.push(("", format!("and {more} more, see convoy show policy --tunnel {}", peer.tunnel)));
    }
    facts
}

/// What a tunnel's monitor knows.
fn probes(monitor: &MonitorRow) -> String {
    let (who, probes, MonitorRow { recent, unanswered, .. }) =
        (monitor.answerer(), monitor.probes(), monitor);
    let answered = match (monitor.answered_s, monitor.round_trip_s) {
        (Some(ago_s), Some(trip_s)) => {
            format!("last answer {ago_s:.1} s ago, round trip {:.1} ms", trip_s * 1e3)
        }
        _ => "no answer yet".to_owned(),
    };
    format!("{probes} to {who}: {answered}; {unanswered} of the last {recent} without answer")
}

fn policies<'a>(view: &ShownSnapshot<'a>, peer: &PeerRow) -> Vec<&'a PolicyRow> {
    let is_own = |policy: &&PolicyRow| (policy.name.as_str(), policy.tunnel_id) == peer.key();
    view.now.policies.iter().filter(is_own).collect()
}

/// Counters of both directions.
fn totals(view: &ShownSnapshot<'_>, peer: &PeerRow) -> Vec<[String; 3]> {
    let (outbound, inbound) = (&peer.outbound, &peer.inbound);
    let both =
        |label: &str, value: &dyn Fn(&WayRow) -> String| [label.to_owned(), value(outbound), value(inbound)];
    let mut rows = Vec::new();
    if let Some(interval) = view.interval {
        let ways = interval.of_tunnels().get(&peer.key()).copied().unwrap_or_default();
        let rates = |label: &str, of: fn(&TrafficRate) -> f64| {
            [label.to_owned(), short(of(&ways.outbound)), short(of(&ways.inbound))]
        };
        rows.extend([rates("packets/s", |rate| rate.packets), rates("bit/s", |rate| rate.bits)]);
    }
    let dropped = |way: &WayRow| way.drops.values().sum::<u64>().to_string();
    rows.extend([
        both("packets", &|way| way.packets.to_string()),
        both("bytes", &|way| way.bytes.to_string()),
        both("last packet", &last),
        both("dropped", &dropped),
    ]);
    let reasons: BTreeSet<&String> = outbound.drops.keys().chain(inbound.drops.keys()).collect();
    for reason in reasons {
        let count = |way: &WayRow| way.drops.get(reason).copied().unwrap_or_default().to_string();
        rows.push(both(&format!("  {reason}"), &count));
    }
    rows
}

/// An outbound and an inbound SA side by side.
fn pair(peer: &PeerRow, at: usize, outbound: Option<&SaRow>, inbound: Option<&SaRow>) -> Vec<[String; 3]> {
    let both = |label: &str, value: &dyn Fn(&SaRow) -> String| {
        let cell = |sa: Option<&SaRow>| sa.map_or_else(String::new, value);
        [label.to_owned(), cell(outbound), cell(inbound)]
    };
    let mut rows = vec![
        both(&format!("SA {}", at + 1), &|sa| if sa.has_ended { "ended" } else { "" }.to_owned()),
        both("  SPI", &|sa| format!("{:#010x}", sa.spi)),
        both("  algorithms", &|sa| format!("{}{}", sa.transform, if sa.esn { "-esn" } else { "" })),
        both("  worker", &|sa| sa.worker.to_string()),
        both("  age", &|sa| time(sa.age_s)),
        both("  packets", &|sa| sa.packets.to_string()),
        both("  bytes", &|sa| sa.bytes.to_string()),
        both("  sequence number", &|sa| sa.sequence.to_string()),
        both("  replay window", &|sa| sa.replay_window.map_or_else(String::new, |size| size.to_string())),
    ];
    // An inbound SA follows a peer that has moved sooner than the tunnel does.
    let has_moved = |sa: &SaRow| (&sa.remote, sa.remote_port) != (&peer.remote, peer.remote_port);
    let moved = |sa: &SaRow| if has_moved(sa) { end(&sa.remote, sa.remote_port) } else { String::new() };
    let protocol = |sa: &SaRow| if sa.protocol == "esp" { String::new() } else { sa.protocol.clone() };
    let of_some = [
        both("  peer", &moved),
        both("  protocol", &protocol),
        both("  inline by", &|sa| sa.inline_by.clone()),
        both("  IP-TFS", &|sa| sa.iptfs.as_ref().map_or_else(String::new, iptfs)),
    ];
    rows.extend(of_some.into_iter().filter(|row| row[1..].iter().any(|cell| !cell.is_empty())));
    rows
}

/// Bits per second of a tunnel; `-` before the second snapshot.
fn bits(
    rates: Option<&HashMap<(&str, Option<u32>), Ways>>,
    row: &PeerRow,
    of: fn(&Ways) -> TrafficRate,
) -> String {
    let Some(rates) = rates else { return "-".to_owned() };
    short(rates.get(&row.key()).map_or(0.0, |ways| of(ways).bits))
}

/// Time since a direction's last packet.
pub(crate) fn last(way: &WayRow) -> String {
    match way.last_used_s {
        Some(seconds) => time(seconds),
        None if way.sas > 0 => "never".to_owned(),
        None => "-".to_owned(),
    }
}

fn known(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
