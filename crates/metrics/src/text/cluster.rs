//! The metrics of a gateway of a cluster.

use convoy_report::snapshot::{ClusterRow, GroupRow};

use super::family::{Encoder, Label, gauges, label, single_gauge};

pub(super) fn cluster(encoder: &mut Encoder<'_>, row: &ClusterRow) -> std::fmt::Result {
    let flag = |is_set: bool| f64::from(u8::from(is_set));
    let help = "1 while the store of the cluster can be reached";
    single_gauge(encoder, "cluster_store_reached", help, flag(row.is_store_reached))?;
    let help = "0 while the store is another one than it was, or behind, so that this gateway leads nothing";
    single_gauge(encoder, "cluster_store_trusted", help, flag(row.store_fault.is_none()))?;
    let help = "0 while a part of this gateway hangs, so that it leads nothing";
    single_gauge(encoder, "cluster_alive", help, flag(row.is_alive))?;
    let help = "How long this gateway may lead if its lease is not renewed";
    single_gauge(encoder, "cluster_lease_left_seconds", help, row.lease_left_s)?;
    let help = "1 while this gateway leads nothing until it is ordered to";
    single_gauge(encoder, "cluster_draining", help, flag(row.is_draining))?;
    let help = "Gateways of the cluster with a lease";
    single_gauge(encoder, "cluster_members", help, row.members.len() as f64)?;
    let all = |value: fn(&GroupRow) -> f64| row.groups.iter().map(move |row| (group(row), value(row)));
    let leads = all(|row| f64::from(u8::from(row.is_led)));
    gauges(encoder, "cluster_leads", "1 while this gateway leads a group of tunnels", leads)?;
    let locked = all(|row| row.locked as f64);
    let help = "SAs of a group that are sealed by a cluster key that this gateway lacks";
    gauges(encoder, "cluster_locked_sas", help, locked)?;
    let led = |value: fn(&GroupRow) -> Option<u64>| {
        let led = row.groups.iter().filter(|row| row.is_led);
        led.filter_map(move |row| Some((group(row), value(row)? as f64)))
    };
    let help = "SAs of a group that this gateway leads";
    gauges(encoder, "cluster_sas", help, led(|row| Some(row.sas)))?;
    let help = "SAs of a group of which the store has not got the latest yet";
    gauges(encoder, "cluster_waiting_sas", help, led(|row| Some(row.waiting)))?;
    let help = "The fewest outbound sequence numbers that are reserved for an SA of a group";
    gauges(encoder, "cluster_least_to_send", help, led(|row| row.least_to_send))?;
    let help = "The fewest inbound sequence numbers that are reserved for an SA of a group";
    gauges(encoder, "cluster_least_to_accept", help, led(|row| row.least_to_accept))
}

fn group(row: &GroupRow) -> [Label; 1] {
    [label("group", &row.name)]
}
