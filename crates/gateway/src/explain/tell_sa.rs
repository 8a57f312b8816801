//! What the worker of a packet's tunnel would do with it, in words.

use std::net::IpAddr;

use convoy_config::{Config, counted};
use convoy_ipsec::{DropReason, Fit, SaView};
use convoy_kernel::route::system_route;
use convoy_report::drop_words::meaning;

use super::Explanation;
use super::ask::{EngineView, Serving};

/// A peer counts as silent if nothing came from it for this much longer than the last packet to it
/// is ago, in ns.
const SILENT_NS: u64 = 5_000_000_000;

/// What was dropped longer ago is not shown, in ns.
const RECENT_NS: u64 = 60_000_000_000;

/// Why a tunnel may have no SAs here.
pub(super) struct Absence<'a> {
    /// What will not change by itself.
    pub(super) lasting: Option<&'a str>,
    /// Why charon's last negotiation failed; it may try again.
    pub(super) last_attempt: Option<&'a str>,
}

/// Says what the worker of the tunnel would do.
pub(super) fn serving(reported: &mut Explanation, config: &Config, serving: &Serving, absence: &Absence<'_>) {
    reported.worker = Some(serving.worker);
    let Some(sa) = &serving.sa else { return without_sa(reported, config, serving, absence) };
    reported.spi = Some(sa.name.spi);
    reported.peer = Some(sa.name.remote);
    reported.step("sa", described_sa(sa, serving.worker));
    size(reported, serving.fit);
    engines(reported, serving);
    route(reported, config, serving, sa);
    peer(reported, serving, sa);
}

fn without_sa(reported: &mut Explanation, config: &Config, serving: &Serving, absence: &Absence<'_>) {
    if serving.has_no_peer {
        let reason = DropReason::OutboundNoPeer;
        reported.dropped(reason);
        return reported.fault("sa", format!("{reason}: {}", meaning(reason)));
    }
    let lost = match serving.lost {
        0 => String::new(),
        lost => format!("; dropped for this reason: {}", counted(lost, "packet")),
    };
    if let Some(absence) = absence.lasting {
        reported.dropped(DropReason::OutboundNoSa);
        return reported.fault("sa", format!("the tunnel has no SA{lost}; {absence}"));
    }
    if config.charon.is_some() {
        if reported.reason.is_none() {
            reported.outcome = "waits".to_owned();
        }
        let last = absence.last_attempt.unwrap_or("see charon's log");
        let waits = "the tunnel has no SA: charon is asked for one, and the packet waits up to 10 s";
        return reported.fault("sa", format!("{waits}{lost}; {last}"));
    }
    reported.dropped(DropReason::OutboundNoSa);
    reported.fault("sa", format!("the tunnel has no SA{lost}"));
}

fn described_sa(sa: &SaView, worker: u16) -> String {
    let form = if sa.encap.is_some() { "in UDP" } else { "native" };
    let (spi, local, remote) = (sa.name.spi, sa.name.local, sa.name.remote);
    let (transform, sequence) = (sa.transform, sa.sequence);
    format!(
        "SA {spi:#010x} of worker {worker} from {local} to {remote}, {transform}, {form}, last \
            sequence number {sequence}"
    )
}

fn size(reported: &mut Explanation, fit: Option<Result<Fit, DropReason>>) {
    match fit {
        None => {}
        Some(Err(reason)) => {
            reported.dropped(reason);
            reported.fault("sa", format!("{reason}: {}", meaning(reason)));
        }
        Some(Ok(Fit::Whole(outer))) => {
            reported.outer_length = Some(outer);
            reported.step("size", format!("{outer} bytes outside"));
        }
        Some(Ok(Fit::CutBefore(largest))) => {
            reported.step(
                "size",
                format!(
                    "too long for the path: it is cut into packets of up to {largest} bytes \
                    before"
                ),
            );
        }
        Some(Ok(Fit::CutAfter(outer))) => {
            reported.outer_length = Some(outer);
            reported.step(
                "size",
                format!("{outer} bytes outside, sent in fragments, since the path takes fewer"),
            );
        }
        Some(Ok(Fit::Aggregated)) => reported.step(
            "size",
            "it is packed into IP-TFS payloads with \
            others",
        ),
        Some(Ok(Fit::TooBig(reported_mtu))) => {
            reported.dropped(DropReason::PacketTooBig);
            reported.fault(
                "size",
                format!(
                    "too long for the path, and it may not be fragmented: the \
                sender is notified of an MTU of {reported_mtu} bytes by ICMP"
                ),
            );
        }
    }
}

fn engines(reported: &mut Explanation, serving: &Serving) {
    if let Some(engine) = &serving.inline_by {
        reported.engine = Some(engine.clone());
        return reported.step("engine", format!("the device of port {engine} encrypts it inline"));
    }
    let times = |engine: &EngineView| {
        format!("{} ({} ns wait + {} ns)", engine.name, engine.wait_ns, engine.processing_ns)
    };
    let (up, down): (Vec<_>, Vec<_>) = serving.engines.iter().partition(|engine| engine.down.is_none());
    let others: Vec<String> =
        up.iter().filter(|engine| !engine.is_chosen).map(|engine| times(engine)).collect();
    let others = if others.is_empty() { String::new() } else { format!("; others: {}", others.join(", ")) };
    match up.iter().find(|engine| engine.is_chosen) {
        Some(engine) => {
            reported.engine = Some(engine.name.clone());
            reported.step("engine", format!("{}{others}", times(engine)));
        }
        None if up.is_empty() => {
            reported.fault(
                "engine",
                "no engine for its algorithm is in use: packets wait until one \
                comes back",
            );
        }
        None => reported.step("engine", format!("it would wait for room in an engine's queue{others}")),
    }
    for engine in down {
        let why = engine.down.as_deref().unwrap_or_default();
        reported.fault("engine", format!("engine {} is out of use: {why}", engine.name));
    }
}

/// Says how the outer packet would leave, and what the system refused before.
fn route(reported: &mut Explanation, config: &Config, serving: &Serving, sa: &SaView) {
    let port = config.ports.iter().find(|port| Some(&port.name) == serving.port.as_ref());
    let Some(port) = port else { return };
    let (name, peer) = (&port.name, sa.name.remote);
    if !port.traits().uses_kernel_routes {
        return reported.step(
            "route",
            format!(
                "port {name} sends it to {peer} without the system's \
            routes"
            ),
        );
    }
    match system_route(peer, Some(config.routing.mark)) {
        Ok(Some(route)) => {
            reported.next_hop = Some(route.gateway.unwrap_or(peer));
            let via = route.gateway.map_or_else(
                || "on the link".to_owned(),
                |gateway| {
                    format!(
                        "via \
                    {gateway}"
                    )
                },
            );
            reported.step("route", format!("port {name}, {peer} {via}, interface {}", route.interface));
        }
        Ok(None) => {
            reported.dropped(DropReason::NoRoute);
            reported.fault("route", format!("the system has no route to the peer {peer}"));
        }
        Err(error) => reported.step("route", format!("the system's routes are unknown: {error}")),
    }
    if is_foreign(sa.name.local) {
        reported.dropped(DropReason::NoLocalAddress);
        reported.fault("route", format!("{} is not an address of this host", sa.name.local));
    }
    for dropped in recent(sa) {
        reported.fault("route", format!("packets of this SA were {dropped}"));
    }
}

/// Whether an address is none of this host's.
fn is_foreign(address: IpAddr) -> bool {
    !system_route(address, None).is_ok_and(|route| route.is_some_and(|route| route.is_local))
}

/// Says whether the peer answers, and what became of its packets.
fn peer(reported: &mut Explanation, serving: &Serving, sa: &SaView) {
    let last = serving.inbound.iter().filter_map(|view| view.idle_ns).min();
    match (last, sa.idle_ns) {
        (Some(came), Some(sent)) if came.saturating_sub(sent) > SILENT_NS => {
            reported.fault(
                "peer",
                format!(
                    "the last packet from the peer came {}, the last one to \
                it left {}: it is down, or does not accept them",
                    ago(came),
                    ago(sent)
                ),
            );
        }
        (Some(came), _) => reported.step("peer", format!("the last packet from the peer came {}", ago(came))),
        (None, Some(_)) => {
            reported.fault("peer", "packets were sent, but none has come from the peer with these SAs");
        }
        (None, None) => reported.step("peer", "no packet was exchanged with these SAs yet"),
    }
    for view in &serving.inbound {
        for dropped in recent(view) {
            let spi = view.name.spi;
            reported.fault("peer", format!("packets from the peer (SA {spi:#010x}) were {dropped}"));
        }
    }
}

/// What an SA has dropped within the last minute, in words: what is longer ago need not be so any
/// more.
fn recent(sa: &SaView) -> Vec<String> {
    let recent = sa.drop_ages_ns.iter().filter(|(_, age_ns)| *age_ns < RECENT_NS);
    let text = |(reason, age_ns): &(DropReason, u64)| {
        let (count, ago, meaning) = (sa.drops.get(*reason), ago(*age_ns), meaning(*reason));
        format!("dropped: {reason}, {count} in all, the last {ago}: {meaning}")
    };
    recent.map(text).collect()
}

/// A time in the past.
fn ago(ns: u64) -> String {
    format!("{:.1} s ago", ns as f64 * 1e-9)
}
