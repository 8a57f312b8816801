//! Tables of what was measured in turns.

use std::fmt;

use convoy_workbench::{Comparison, DemoEngine, Measurement, ModeComparison};

use crate::text::{cell, new_table, paragraph};

/// Writes each policy's throughput on one platform, and its latency under the same load.
pub(super) fn write_comparison(f: &mut fmt::Formatter<'_>, comparison: &Comparison) -> fmt::Result {
    let Comparison { about, name, proposal, engines, offered_packets_per_second, .. } = comparison;
    write!(f, "\n{}", paragraph(0, 0, &format!("Policies with the {name}: {about}; {proposal}.")))?;
    f.write_str(&paragraph(2, 2, &costs(engines)))?;
    let load = cell(offered_packets_per_second.scaled(1e-3), 0);
    let rounds = comparison.without_window.rounds.len();
    let text = format!(
        "{rounds} rounds, all policies in turns: median (lowest-highest). Latency, between the plaintext \
         ports, and loss are under the same load for all policies of a round, {load} thousand packets/s."
    );
    f.write_str(&paragraph(2, 2, &text))?;
    let mut table = new_table(
        &["policy", "thousand\npackets/s", "per multi-\npacket", "p50\nus", "p99\nus", "lost\n%"],
        1,
    );
    for (saturated, offered) in comparison.saturated.iter().zip(&comparison.offered) {
        table.add_row([
            saturated.rule.name().to_owned(),
            cell(saturated.spread(|round| round.packets_per_second).scaled(1e-3), 0),
            format!("{:.2}", saturated.packets_per_multi_packet),
            format!("{:.0}", offered.latency.p50_us),
            cell(offered.spread(|round| round.p99_us), 0),
            cell(offered.spread(|round| round.refused).scaled(100.0), 1),
        ]);
    }
    writeln!(f, "{}", table.trim_fmt())?;
    let measured = comparison.saturated.iter().chain(&comparison.offered).chain([&comparison.without_window]);
    write_imperfect(f, measured.map(|measured| (measured.rule.name(), measured)))
}

/// Names whatever did not deliver every packet.
fn write_imperfect<'name, 'a>(
    f: &mut fmt::Formatter<'_>,
    measured: impl Iterator<Item = (&'name str, &'a Measurement)>,
) -> fmt::Result {
    for (name, measured) in measured.filter(|(_, measured)| !measured.is_perfect) {
        let Measurement { sent, good, window, quarantined, .. } = measured;
        let text = format!(
            "{name}, window {window}: NOT ALL packets arrived unchanged, in order and within 30 s, {good} of {sent}; \
             quarantined engines: {quarantined}"
        );
        f.write_str(&paragraph(2, 4, &text))?;
    }
    Ok(())
}

/// Costs of a platform's engines, as given to the scheduler at the start.
fn costs(engines: &[DemoEngine]) -> String {
    let cost = |engine: &DemoEngine| {
        let kind = if engine.is_model { "modelled" } else { "measured" };
        let DemoEngine { name, t_init_ns, t_block_ns, .. } = engine;
        format!("{name} {t_init_ns:.0} ns and {t_block_ns:.1} ns ({kind})")
    };
    let costs: Vec<String> = engines.iter().map(cost).collect();
    format!("Costs per multi-packet and per 16 bytes: {}.", costs.join(", "))
}

/// Writes the same traffic in tunnel mode and with IP-TFS, and what that means.
pub(super) fn write_modes(f: &mut fmt::Formatter<'_>, compared: &[ModeComparison]) -> fmt::Result {
    let rounds = compared.first().map_or(0, |first| first.tunnel.rounds.len());
    let text = format!(
        "Two gateways without and with IP-TFS, which puts small packets into shared ESP packets; 8 tunnels, \
         AES-GCM; {rounds} rounds in turns. Ethernet: outer IP packets with 38 bytes each. CPU: both gateways \
         and the comparison."
    );
    write!(f, "\n{}", paragraph(0, 0, &text))?;
    let mut table = new_table(
        &[
            "traffic",
            "mode",
            "ESP packets\nper packet",
            "Ethernet bytes\nper packet",
            "thousand\npackets/s",
            "CPU ns\nper packet",
        ],
        2,
    );
    for comparison in compared {
        for (mode, measured) in comparison.modes() {
            // Gateways that wait for packets poll, so that their processor time says nothing.
            let cpu = if comparison.is_offered {
                "-".to_owned()
            } else {
                cell(measured.spread(|round| round.cpu_ns_per_packet), 0)
            };
            table.add_row([
                comparison.traffic.clone(),
                mode.to_owned(),
                format!("{:.2}", measured.esp_packets_per_packet()),
                format!("{:.0}", measured.ethernet_bytes_per_packet()),
                cell(measured.spread(|round| round.packets_per_second).scaled(1e-3), 0),
                cpu,
            ]);
        }
    }
    writeln!(f, "{}", table.trim_fmt())?;
    write_imperfect(f, compared.iter().flat_map(ModeComparison::modes))?;
    for comparison in compared {
        f.write_str(&paragraph(2, 4, &comparison.to_string()))?;
    }
    Ok(())
}
