//! What would become of a packet from the inside, as `convoy explain` asks: by which port, policy,
//! tunnel, SA, engine and next hop it would go, how long it would be outside, or where it would be
//! dropped and why. No packet is sent.

mod ask;
mod beside;
mod tell;
mod tell_sa;
mod way_in;

use std::net::IpAddr;

pub(crate) use beside::GatewayParts;
use convoy_config::{Config, TunnelConfig};
use convoy_ipsec::{FlowKey, Supposed};
use serde::{Deserialize, Serialize};

use crate::worker_handles::WorkerHandles;

/// A packet that might come from the inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExplainRequest {
    /// Its source.
    pub source: IpAddr,
    /// Its destination, of the same family.
    pub destination: IpAddr,
    /// The protocol above IP.
    pub protocol: u8,
    /// Source and destination port; of ICMP twice its type and code, as `type << 8 | code`. `None`
    /// for protocols without.
    pub ports: Option<(u16, u16)>,
    /// Its length in bytes, IP header included.
    pub length: usize,
    /// Whether it may not be fragmented; always so with IPv6.
    pub dont_fragment: bool,
    /// The inside interface on which it arrives; `None` is the one that the kernel's routes have.
    pub interface: Option<String>,
}

/// What would become of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// `protected`; `sent` if it would be, but a step is a fault, so that it or its answer may
    /// not arrive; `bypassed`, `waits` for an SA that charon negotiates, `dropped`, or
    /// `elsewhere` if it would not reach the gateway.
    pub outcome: String,
    /// The drop reason, if it would be dropped.
    pub reason: Option<String>,
    /// The port by which it would arrive.
    pub port: Option<String>,
    /// The tunnel or `bypass` rule whose policy selects it.
    pub policy: Option<String>,
    /// The worker that has the tunnel's SA.
    pub worker: Option<u16>,
    /// The SPI of the SA.
    pub spi: Option<u32>,
    /// The engine that would seal it now.
    pub engine: Option<String>,
    /// The peer's outer address.
    pub peer: Option<IpAddr>,
    /// The next router towards the peer; the peer itself if it is on the link.
    pub next_hop: Option<IpAddr>,
    /// The length of the outer packet, in bytes.
    pub outer_length: Option<usize>,
    /// The stages, in order, in words.
    pub steps: Vec<ExplainStep>,
}

/// What would happen at one stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainStep {
    /// `port`, `policy`, `sa`, `size`, `engine`, `route` or `peer`.
    pub stage: String,
    /// A sentence.
    pub text: String,
    /// Whether this is why the packet, or its answer, would not arrive.
    pub is_fault: bool,
}

impl Explanation {
    fn step(&mut self, stage: &str, text: impl Into<String>) {
        self.steps.push(ExplainStep { stage: stage.to_owned(), text: text.into(), is_fault: false });
    }

    fn fault(&mut self, stage: &str, text: impl Into<String>) {
        self.steps.push(ExplainStep { stage: stage.to_owned(), text: text.into(), is_fault: true });
    }

    /// The packet would be dropped; only the first reason counts.
    fn dropped(&mut self, reason: convoy_ipsec::DropReason) {
        if self.reason.is_none() {
            self.outcome = "dropped".to_owned();
            self.reason = Some(reason.name().to_owned());
        }
    }
}

/// Explains what would become of a packet.
///
/// # Errors
/// What is wrong with the request, or that a worker did not answer.
pub(crate) fn explain(
    handles: &WorkerHandles,
    config: &Config,
    beside: &GatewayParts<'_>,
    request: &ExplainRequest,
) -> Result<Explanation, String> {
    let way_in = way_in::of(config, request);
    let supposed = supposed(config, request, way_in.interface.as_deref())?;
    let mut reported = Explanation { outcome: "protected".to_owned(), ..Explanation::default() };
    way_in::tell(&mut reported, config, request, &way_in, beside.helper);
    let decision = ask::decision(handles, supposed)?;
    let Some(tunnel) = tell::policy(&mut reported, &decision, &supposed.flow) else {
        if decision.selecting.is_empty() {
            let negotiation = || beside.negotiation(config, [toward(config, request.destination)?, ""]);
            let absence = beside.absence(config, None).or_else(negotiation).into_iter();
            absence.for_each(|absence| reported.fault("policy", absence));
        }
        return Ok(reported);
    };
    let serving = ask::serving(handles, tunnel, supposed)?;
    let name = reported.policy.clone().unwrap_or_default();
    let absence = beside.absence(config, Some(&name));
    let negotiation = beside.negotiation(config, [&name, &serving.child]);
    let why = tell_sa::Absence { lasting: absence.as_deref(), last_attempt: negotiation.as_deref() };
    tell_sa::serving(&mut reported, config, &serving, &why);
    match beside.probes(&name) {
        Some(Ok(text)) => reported.step("peer", text),
        Some(Err(text)) => reported.fault("peer", text),
        None => {}
    }
    if reported.outcome == "protected" && reported.steps.iter().any(|step| step.is_fault) {
        reported.outcome = "sent".to_owned();
    }
    Ok(reported)
}

/// The tunnel of the configuration, without static keys, behind which an address is.
fn toward(config: &Config, destination: IpAddr) -> Option<&str> {
    let is_behind = |tunnel: &&TunnelConfig| {
        let mut networks = tunnel.remote_ts.iter().map(|selector| selector.addresses);
        !tunnel.has_static_keys()
            && networks.any(|range| range.first() <= destination && destination <= range.last())
    };
    config.tunnels.iter().find(is_behind).map(|tunnel| tunnel.name.as_str())
}

/// The packet of a request.
fn supposed(config: &Config, request: &ExplainRequest, name: Option<&str>) -> Result<Supposed, String> {
    let ExplainRequest { source, destination, protocol, ports, length, dont_fragment, .. } = *request;
    if source.is_ipv6() != destination.is_ipv6() {
        return Err(format!("{source} and {destination} are not of the same family"));
    }
    let header_len = if source.is_ipv6() { 40 } else { 20 };
    if !(header_len..=65_535).contains(&length) {
        return Err(format!("a length from {header_len} to 65535 bytes is expected, not {length}"));
    }
    let interface = config.interface_number(name).ok_or_else(|| {
        let names: Vec<&str> = config.interfaces.iter().map(|interface| interface.name.as_str()).collect();
        format!("there is no [[interface]] {}; there are: {}", name.unwrap_or_default(), names.join(", "))
    })?;
    let flow = FlowKey::new(source, destination, protocol, ports).on(interface);
    Ok(Supposed { flow, len: length, header_len, dont_fragment: dont_fragment || source.is_ipv6() })
}
