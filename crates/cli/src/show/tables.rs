//! Tables of `convoy show`.

use std::collections::HashMap;

use convoy_report::snapshot::{
    COUNTERS, Counter, EngineRow, IptfsRow, NameRow, PolicyRow, PortRow, SaRow, SchedulerRow, Snapshot,
};

use super::units::{short, time};
use super::view::{ShownSnapshot, WIDTH, end, named};
use crate::rates::sa_key;
use crate::table::{clipped, folded, number, word, words};

fn way(sa: &SaRow) -> String {
    if sa.direction == "inbound" { "in" } else { "out" }.to_owned()
}

/// What is remarkable about an SA in AGGFRAG mode.
pub(crate) fn iptfs(row: &IptfsRow) -> String {
    let counts = [
        ("split", row.split_packets),
        ("padding bytes", row.padding_bytes),
        ("padding packets", row.padding_packets),
        ("missed", row.missed_packets),
        ("reordered", row.reordered_packets),
        ("missing", row.missing_packets),
    ];
    let named = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
    named.collect::<Vec<_>>().join(", ")
}

pub(crate) fn sas(view: &ShownSnapshot<'_>) -> String {
    let rates = view.rates(|snapshot| &snapshot.sas[..], sa_key);
    let packets = |sa: &SaRow| rates.of(&sa_key(sa), sa.packets, 1.0, |sa| sa.packets);
    let bits = |sa: &SaRow| rates.of(&sa_key(sa), sa.bytes, 8.0, |sa| sa.bytes);
    let used = |sa: &SaRow| sa.last_used_s.map_or_else(|| "never".to_owned(), time);
    let mut columns = vec![words("tunnel", |sa: &SaRow| sa.tunnel.clone())];
    if view.is_wide {
        columns.push(words("child", |sa: &SaRow| sa.child.clone()));
        columns.push(number("worker", |sa: &SaRow| sa.worker.to_string()));
    }
    // Tunnel mode is what an SA has unless the table says otherwise.
    let has_others = view.now.sas.iter().any(|sa| sa.mode != "tunnel");
    if has_others && !view.is_wide {
        columns.push(word("mode", |sa: &SaRow| sa.mode.clone()));
    }
    columns.push(word("way", way));
    columns.push(number("SPI", |sa: &SaRow| format!("{:#010x}", sa.spi)));
    if view.is_wide {
        columns.extend([
            words("protocol", |sa: &SaRow| sa.protocol.clone()),
            words("mode", |sa: &SaRow| sa.mode.clone()),
            words("local", |sa: &SaRow| end(&sa.local, sa.local_port)),
            words("remote", |sa: &SaRow| end(&sa.remote, sa.remote_port)),
            words("encap", |sa: &SaRow| sa.encap.clone()),
            words("algorithms", |sa: &SaRow| sa.transform.clone()),
            words("ESN", |sa: &SaRow| if sa.esn { "yes" } else { "no" }.to_owned()),
            number("window", |sa: &SaRow| sa.replay_window.map_or_else(String::new, |size| size.to_string())),
        ]);
    } else if !view.has_rates {
        columns.push(words("remote", |sa: &SaRow| sa.remote.clone()));
    }
    if view.has_rates {
        columns.extend([number("packets/s", packets), number("bit/s", bits)]);
    }
    if view.now.sas.iter().any(|sa| sa.iptfs.is_some()) {
        let inner = |sa: &SaRow| sa.iptfs.map_or_else(String::new, |iptfs| view.count(iptfs.inner_packets));
        columns.push(number("inner", inner));
    }
    columns.extend([
        number("packets", |sa: &SaRow| view.count(sa.packets)),
        number("bytes", |sa: &SaRow| view.count(sa.bytes)),
    ]);
    if view.is_wide {
        columns.extend([
            number("sequence", |sa: &SaRow| sa.sequence.to_string()),
            number("path MTU", |sa: &SaRow| sa.path_mtu.map_or_else(String::new, |mtu| mtu.to_string())),
            number("age s", |sa: &SaRow| format!("{:.0}", sa.age_s)),
            number("used s ago", |sa: &SaRow| {
                sa.last_used_s.map_or_else(|| "never".to_owned(), |used_s| format!("{used_s:.0}"))
            }),
            words("inline by", |sa: &SaRow| sa.inline_by.clone()),
            words("IP-TFS", |sa: &SaRow| sa.iptfs.as_ref().map_or_else(String::new, iptfs)),
            words("dropped", |sa: &SaRow| named(&sa.drops)),
        ]);
    } else {
        if !view.has_rates {
            columns.push(number("used", used));
        }
        columns.push(number("dropped", |sa: &SaRow| view.count(sa.drops.values().sum())));
    }
    view.table(&columns, &view.now.sas)
}

pub(crate) fn names(view: &ShownSnapshot<'_>) -> String {
    let again = |name: &NameRow| name.asked_again_s.map_or_else(|| "now".to_owned(), time);
    let columns = [
        words("tunnel", |name: &NameRow| name.tunnel.clone()),
        words("name", |name: &NameRow| name.name.clone()),
        word("address", |name: &NameRow| name.address.clone().unwrap_or_else(|| "unknown".to_owned())),
        word("asked in", again),
        words("problem", |name: &NameRow| name.problem.clone()),
    ];
    view.table(&columns, &view.now.names)
}

pub(crate) fn policies(view: &ShownSnapshot<'_>) -> String {
    let key = |policy: &PolicyRow| (policy.name.clone(), policy.local.clone(), policy.remote.clone());
    let rates = view.rates(|snapshot| &snapshot.policies[..], key);
    let packets = |row: &PolicyRow| rates.of(&key(row), row.packets, 1.0, |row| row.packets);
    let bits = |row: &PolicyRow| rates.of(&key(row), row.bytes, 8.0, |row| row.bytes);
    let mut columns = vec![words("policy", |policy: &PolicyRow| policy.name.clone())];
    if view.is_wide {
        columns.push(number("priority", |policy: &PolicyRow| policy.priority.to_string()));
    }
    columns.extend([
        words("local", |policy: &PolicyRow| policy.local.clone()),
        words("remote", |policy: &PolicyRow| policy.remote.clone()),
        word("action", |policy: &PolicyRow| policy.action.clone()),
    ]);
    if view.has_rates {
        columns.extend([number("packets/s", packets), number("bit/s", bits)]);
    }
    if view.is_wide || !view.has_rates {
        columns.push(number("packets", |policy: &PolicyRow| view.count(policy.packets)));
        columns.push(number("bytes", |policy: &PolicyRow| view.count(policy.bytes)));
    }
    view.table(&columns, &view.now.policies)
}

pub(crate) fn engines(view: &ShownSnapshot<'_>) -> String {
    let key = |engine: &EngineRow| (engine.name.clone(), engine.worker);
    let rates = view.rates(|snapshot| &snapshot.engines[..], key);
    let packets = |row: &EngineRow| rates.of(&key(row), row.packets, 1.0, |row| row.packets);
    let mut columns = vec![
        clipped("engine", |row: &EngineRow| row.name.clone()),
        number("worker", |row: &EngineRow| row.worker.to_string()),
    ];
    if view.is_wide {
        columns.push(words("kind", kind));
    }
    columns.push(words("state", |row: &EngineRow| state(row, view.is_wide)));
    if view.has_rates {
        columns.push(number("packets/s", packets));
    }
    columns.extend([
        number("packets", |row: &EngineRow| view.count(row.packets)),
        number("per train", |row: &EngineRow| {
            format!("{:.2}", row.packets as f64 / row.multi_packets.max(1) as f64)
        }),
        number("queued", |row: &EngineRow| row.queued.to_string()),
    ]);
    if view.is_wide {
        let us = |ns: f64| format!("{:.2}", ns / 1000.0);
        columns.push(number("predicted us", move |row: &EngineRow| us(row.predicted_ns)));
        columns.push(number("measured us", move |row: &EngineRow| us(row.measured_ns)));
        columns.push(number("error us", move |row: &EngineRow| us(row.prediction_error_ns)));
    }
    if view.is_wide || !view.has_rates {
        columns.push(number("failures", |row: &EngineRow| view.count(row.failures)));
        columns.push(number("retried", |row: &EngineRow| view.count(row.retried_packets)));
    }
    let mut text = view.table(&columns, &view.now.engines);
    if !view.is_wide {
        for row in view.now.engines.iter().filter(|row| !row.down.is_empty()) {
            let why = folded(
                "",
                &format!("{} of worker {} is down: {}", row.name, row.worker, row.down),
                WIDTH.into(),
            );
            text = format!("{text}\n{why}");
        }
    }
    text
}

/// An engine's kind, and whether its timing is a model's.
fn kind(row: &EngineRow) -> String {
    if row.is_model { format!("{} (modelled timing)", row.kind) } else { row.kind.clone() }
}

/// Whether an engine is in use; if `is_whole`, also why not.
fn state(row: &EngineRow, is_whole: bool) -> String {
    let state = match row.down.as_str() {
        "" => "up".to_owned(),
        reason if is_whole => format!("down: {reason}"),
        _ => "down".to_owned(),
    };
    if row.is_model && !is_whole { format!("{state}, model") } else { state }
}

pub(crate) fn schedulers(view: &ShownSnapshot<'_>) -> String {
    let passed = |row: &SchedulerRow| row.wait_ns.buckets.iter().map(|(_, count)| count).sum::<u64>();
    let rates = view.rates(|snapshot| &snapshot.schedulers[..], |row| row.worker);
    let packets = |row: &SchedulerRow| rates.of(&row.worker, passed(row), 1.0, passed);
    let mean =
        |row: &SchedulerRow| format!("{:.1}", row.wait_ns.sum as f64 / passed(row).max(1) as f64 / 1000.0);
    let mut columns = vec![
        number("worker", |row: &SchedulerRow| row.worker.to_string()),
        number("window", |row: &SchedulerRow| row.window.to_string()),
        number("waiting", |row: &SchedulerRow| row.waiting.to_string()),
        number("mean wait us", mean),
    ];
    if view.has_rates {
        columns.push(number("packets/s", packets));
    }
    columns.push(number("packets", |row: &SchedulerRow| view.count(passed(row))));
    view.table(&columns, &view.now.schedulers)
}

pub(crate) fn ports(view: &ShownSnapshot<'_>) -> String {
    let key = |port: &PortRow| port.name.clone();
    let rates = view.rates(|snapshot| &snapshot.ports[..], key);
    let rate = |row: &PortRow, factor: f64, counter: fn(&PortRow) -> u64| {
        rates.of(&key(row), counter(row), factor, counter)
    };
    let mut columns = vec![
        words("port", |port: &PortRow| port.name.clone()),
        word("kind", |port: &PortRow| port.kind.clone()),
    ];
    if view.now.ports.iter().any(|port| port.link.is_some()) {
        let link = |is_up| if is_up { "up" } else { "down" };
        columns.push(word("link", move |port: &PortRow| port.link.map_or("", link).to_owned()));
    }
    if view.now.ports.iter().any(|port| !port.missing.is_empty()) {
        columns.push(words("waits for", |port: &PortRow| port.missing.join(", ")));
    }
    if view.is_wide || !view.has_rates {
        columns.push(number("MTU", |port: &PortRow| port.mtu.to_string()));
    }
    if view.has_rates {
        columns.extend([
            number("received/s", |port: &PortRow| rate(port, 1.0, |port| port.received_packets)),
            number("bit/s", |port: &PortRow| rate(port, 8.0, |port| port.received_bytes)),
            number("sent/s", |port: &PortRow| rate(port, 1.0, |port| port.sent_packets)),
            number("bit/s", |port: &PortRow| rate(port, 8.0, |port| port.sent_bytes)),
        ]);
    }
    if view.is_wide || !view.has_rates {
        columns.extend([
            number("received", |port: &PortRow| view.count(port.received_packets)),
            number("bytes", |port: &PortRow| view.count(port.received_bytes)),
            number("sent", |port: &PortRow| view.count(port.sent_packets)),
            number("bytes", |port: &PortRow| view.count(port.sent_bytes)),
        ]);
    }
    if view.is_wide {
        columns.extend([
            number("dropped in", |port: &PortRow| port.receive_dropped.to_string()),
            number("dropped out", |port: &PortRow| port.send_dropped.to_string()),
            number("system calls", |port: &PortRow| port.system_calls.to_string()),
            words("device", |port: &PortRow| named(&port.device)),
            words("MTU from", |port: &PortRow| port.mtu_reason.clone()),
        ]);
    } else {
        let dropped = |port: &PortRow| view.count(port.receive_dropped + port.send_dropped);
        columns.push(number("dropped", dropped));
    }
    view.table(&columns, &view.now.ports)
}

pub(crate) fn stats(view: &ShownSnapshot<'_>) -> String {
    let before: Option<HashMap<String, u64>> =
        view.interval.map(|interval| totals(interval.before()).into_iter().collect());
    let rate = |(what, count): &(String, u64)| {
        let Some((interval, before)) = view.interval.zip(before.as_ref()) else { return "-".to_owned() };
        short(interval.per_second(*count, before.get(what).copied().unwrap_or_default()))
    };
    let mut columns = vec![words("what", |(what, _): &(String, u64)| what.clone())];
    if view.has_rates {
        columns.push(number("each second", rate));
    }
    columns.push(number("count", |(_, count): &(String, u64)| count.to_string()));
    let mut text = format!("convoy {}, running for {}\n", view.now.version, time(view.now.uptime_s));
    if let Some(memory) = &view.now.memory {
        text += &format!("packet memory: {} MiB in {}\n", memory.bytes >> 20, memory.pages);
    }
    if let Some(guard) = &view.now.guard {
        text += &format!("guard: nftables table {}\n", guard.table);
    }
    if let Some(charon) = &view.now.charon {
        text += if charon.is_connected { "charon is connected\n" } else { "charon is not connected\n" };
    }
    for worker in &view.now.silent_workers {
        text += &format!("worker {worker} does not answer; its counts are missing\n");
    }
    text + &view.table(&columns, &totals(view.now))
}

fn totals(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let mut totals = vec![
        ("packets protected".to_owned(), snapshot.protected),
        ("packets decrypted".to_owned(), snapshot.decrypted),
        ("handed to another worker".to_owned(), snapshot.handed_over),
    ];
    let counted = |row: &Counter| Some((row.title.to_owned(), *snapshot.counters.get(row.name)?));
    totals.extend(COUNTERS.iter().filter_map(counted));
    if let Some(guard) = &snapshot.guard {
        totals.extend([
            ("guard dropped inbound".to_owned(), guard.dropped_inbound),
            ("guard dropped outbound".to_owned(), guard.dropped_outbound),
        ]);
    }
    totals.extend(snapshot.drops.iter().map(|(reason, count)| (format!("dropped: {reason}"), *count)));
    if let Some(charon) = &snapshot.charon {
        totals.extend([
            ("SA requests sent to charon".to_owned(), charon.acquires),
            ("SA requests dropped (queue full)".to_owned(), charon.acquires_lost),
            ("IKE messages lost on the way to charon".to_owned(), charon.ike_lost),
            ("events not yet delivered to charon".to_owned(), charon.events_waiting),
        ]);
    }
    totals
}
