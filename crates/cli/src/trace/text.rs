//! Traced packets as text.

use convoy_config::counted;
use convoy_gateway::trace::{EndRow, StageRow, TraceRow};

/// A packet's headline, and a line for each of its steps.
pub(super) fn packet(row: &TraceRow) -> String {
    let mut text = headline(row);
    for step in &row.steps {
        let after_us = step.after_ns as f64 * 1e-3;
        text.push_str(&format!("\n   {after_us:>10.1} us  {}", stage(&step.stage, row)));
    }
    text
}

/// Addresses, ports, protocol, length, tunnel and SPI.
pub(super) fn headline(row: &TraceRow) -> String {
    let mut text = match (row.source, row.destination) {
        (Some(source), Some(destination)) => ends(row, source, destination),
        _ => "no IP packet".to_owned(),
    };
    text.push_str(&format!(", {} bytes from {}", row.received_len, row.side));
    if !row.tunnel.is_empty() {
        text.push_str(&format!(", tunnel {}", row.tunnel));
    }
    if let Some(spi) = row.spi {
        text.push_str(&format!(", SPI {spi:#010x}"));
    }
    text
}

fn ends(row: &TraceRow, source: std::net::IpAddr, destination: std::net::IpAddr) -> String {
    let with_port = |address: std::net::IpAddr, port: u16| std::net::SocketAddr::new(address, port);
    match (row.protocol, row.ports) {
        (Some(6), Some((from, to))) => {
            format!("{} > {} TCP", with_port(source, from), with_port(destination, to))
        }
        (Some(17), Some((from, to))) => {
            format!("{} > {} UDP", with_port(source, from), with_port(destination, to))
        }
        (Some(protocol), _) => format!("{source} > {destination} {}", protocol_name(protocol)),
        (None, _) => format!("{source} > {destination}"),
    }
}

fn protocol_name(protocol: u8) -> String {
    match protocol {
        1 => "ICMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        50 => "ESP".to_owned(),
        51 => "AH".to_owned(),
        58 => "ICMPv6".to_owned(),
        other => format!("protocol {other}"),
    }
}

fn stage(stage: &StageRow, row: &TraceRow) -> String {
    match stage {
        StageRow::Port { port } => format!("received by port {port}"),
        StageRow::Handover => "taken over by the worker of its SA".to_owned(),
        StageRow::Classify => format!("classified: tunnel {}, worker {}", row.tunnel, row.worker),
        StageRow::Bypass => "bypassed: passes unencrypted".to_owned(),
        StageRow::Acquire => "waits for an SA that charon negotiates".to_owned(),
        StageRow::Window { waiting: 0, in_line: 0 } => "enters the empty window".to_owned(),
        StageRow::Window { waiting, in_line: 0 } => {
            format!("enters the window behind {}", counted(*waiting, "packet"))
        }
        StageRow::Window { in_line, .. } => {
            format!("waits before the full window behind {}", counted(*in_line, "packet"))
        }
        StageRow::Train { engine, packets, sas, wait_ns, processing_ns } => format!(
            "to engine {engine} in a train of {} of {}, predicted {wait_ns} ns wait + {processing_ns} ns",
            counted(*packets, "packet"),
            counted(*sas, "SA")
        ),
        StageRow::Engine { is_good: true } => "the engine is done".to_owned(),
        StageRow::Engine { is_good: false } => "the engine is done: refused".to_owned(),
        StageRow::Order => "released in order".to_owned(),
        StageRow::End => end(row),
    }
}

/// How a packet ended.
pub(super) fn end(row: &TraceRow) -> String {
    match &row.end {
        EndRow::Sent { port } => format!("sent by port {port}, {} bytes", row.sent_len),
        EndRow::Dropped { reason, meaning } => format!("dropped: {reason}: {meaning}"),
        EndRow::HandedOver { worker } => format!("handed over to worker {worker}"),
        EndRow::Daemon => "handed to charon".to_owned(),
        EndRow::TakenUp => {
            "its bytes go on in other packets (fragments, a whole datagram, or IP-TFS payloads)".to_owned()
        }
        EndRow::Inside => "still inside".to_owned(),
    }
}
