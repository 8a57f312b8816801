//! `convoy show`: asks a running gateway.

use std::collections::BTreeMap;
use std::io::{self, Write};

use comfy_table::Table;
use convoy_gateway::control::{Answer, Ask, ask};
use convoy_gateway::snapshot::Snapshot;
use serde::Serialize;

use crate::Failure;
use crate::args::{ShowArgs, Shown};
use crate::table::new_table;

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let answer = ask(&args.control, Ask::Snapshot).map_err(|error| {
        let place = args.control.display();
        Failure::Failed(format!(
            "no gateway answers at {place}: {error} (is `convoy run` running? --control names its socket)"
        ))
    })?;
    let snapshot = match answer {
        Answer::Snapshot(snapshot) => snapshot,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        Answer::Good => return Err(Failure::Failed("the gateway gave no snapshot".to_owned())),
    };
    let text = if args.json {
        json(args.what, &snapshot).map_err(|error| Failure::Failed(error.to_string()))?
    } else {
        table(args.what, &snapshot).to_string()
    };
    print(&mut io::stdout().lock(), &text)
}

/// Prints for a reader who may leave early, as `grep -q` does.
fn print(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(error.to_string())),
        _ => Ok(()),
    }
}

fn json(what: Shown, snapshot: &Snapshot) -> Result<String, serde_json::Error> {
    fn text<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(value)
    }
    match what {
        Shown::Sa => text(&snapshot.sas),
        Shown::Policy => text(&snapshot.policies),
        Shown::Engine => text(&snapshot.engines),
        Shown::Scheduler => text(&snapshot.schedulers),
        Shown::Port => text(&snapshot.ports),
        Shown::Stats => text(snapshot),
    }
}

/// What was counted under each name.
fn named(counts: &BTreeMap<String, u64>) -> String {
    let met = counts.iter().filter(|(_, count)| **count > 0);
    let words: Vec<String> = met.map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

fn table(what: Shown, snapshot: &Snapshot) -> Table {
    match what {
        Shown::Sa => {
            let mut table = new_table(&[
                "tunnel",
                "worker",
                "SA",
                "mode",
                "encap",
                "algorithms",
                "ESN",
                "window",
                "packets",
                "bytes",
                "sequence",
                "age s",
                "in flight by",
                "dropped",
            ]);
            for sa in &snapshot.sas {
                table.add_row([
                    sa.tunnel.clone(),
                    sa.worker.to_string(),
                    format!("{} {} {:#010x} {}", sa.direction, sa.protocol, sa.spi, sa.remote),
                    sa.mode.clone(),
                    sa.encap.clone(),
                    sa.transform.clone(),
                    if sa.esn { "yes" } else { "no" }.to_owned(),
                    sa.replay_window.map_or_else(String::new, |packets| packets.to_string()),
                    sa.packets.to_string(),
                    sa.bytes.to_string(),
                    sa.sequence.to_string(),
                    format!("{:.0}", sa.age_s),
                    sa.in_flight_by.clone(),
                    named(&sa.drops),
                ]);
            }
            table
        }
        Shown::Policy => {
            let mut table =
                new_table(&["policy", "priority", "local", "remote", "action", "packets", "bytes"]);
            for policy in &snapshot.policies {
                table.add_row([
                    policy.name.clone(),
                    policy.priority.to_string(),
                    policy.local.clone(),
                    policy.remote.clone(),
                    policy.action.clone(),
                    policy.packets.to_string(),
                    policy.bytes.to_string(),
                ]);
            }
            table
        }
        Shown::Engine => engines(snapshot),
        Shown::Scheduler => {
            let mut table = new_table(&["worker", "window", "waiting", "mean wait us"]);
            for row in &snapshot.schedulers {
                let count: u64 = row.wait_ns.buckets.iter().map(|(_, count)| count).sum();
                let mean = row.wait_ns.sum as f64 / count.max(1) as f64 / 1000.0;
                let words = [
                    row.worker.to_string(),
                    row.window.to_string(),
                    row.waiting.to_string(),
                    format!("{mean:.1}"),
                ];
                table.add_row(words);
            }
            table
        }
        Shown::Port => {
            let mut table = new_table(&[
                "port",
                "kind",
                "received",
                "bytes",
                "sent",
                "bytes",
                "dropped",
                "system calls",
                "device",
            ]);
            for port in &snapshot.ports {
                table.add_row([
                    port.name.clone(),
                    port.kind.clone(),
                    port.received_packets.to_string(),
                    port.received_bytes.to_string(),
                    port.sent_packets.to_string(),
                    port.sent_bytes.to_string(),
                    (port.receive_dropped + port.send_dropped).to_string(),
                    port.system_calls.to_string(),
                    named(&port.device),
                ]);
            }
            table
        }
        Shown::Stats => {
            let mut table = new_table(&["what", "count"]);
            table.add_row(["packets protected".to_owned(), snapshot.protected.to_string()]);
            table.add_row(["packets opened".to_owned(), snapshot.opened.to_string()]);
            table.add_row(["handed to another worker".to_owned(), snapshot.handed_over.to_string()]);
            for (reason, count) in &snapshot.drops {
                table.add_row([format!("dropped: {reason}"), count.to_string()]);
            }
            if let Some(charon) = &snapshot.charon {
                let counts = [
                    ("charon connected", u64::from(charon.is_connected)),
                    ("SAs asked of charon", charon.acquires),
                    ("SAs not asked of charon: no room", charon.acquires_lost),
                    ("IKE messages lost on the way to charon", charon.ike_lost),
                    ("lifetimes and moves charon has not heard of", charon.events_waiting),
                ];
                for (what, count) in counts {
                    table.add_row([what.to_owned(), count.to_string()]);
                }
            }
            for worker in &snapshot.silent_workers {
                table.add_row([
                    "does not answer, and is not counted here".to_owned(),
                    format!("worker {worker}"),
                ]);
            }
            table.add_row(["uptime s".to_owned(), format!("{:.0}", snapshot.uptime_s)]);
            table
        }
    }
}

fn engines(snapshot: &Snapshot) -> Table {
    let mut table = new_table(&[
        "engine",
        "worker",
        "kind",
        "state",
        "packets",
        "per multi-packet",
        "queued",
        "predicted us",
        "error us",
        "failures",
        "redone",
    ]);
    for engine in &snapshot.engines {
        let kind =
            if engine.is_model { format!("{} (modelled timing)", engine.kind) } else { engine.kind.clone() };
        let state = if engine.down.is_empty() { "up".to_owned() } else { format!("down: {}", engine.down) };
        let per = engine.packets as f64 / engine.multi_packets.max(1) as f64;
        table.add_row([
            engine.name.clone(),
            engine.worker.to_string(),
            kind,
            state,
            engine.packets.to_string(),
            format!("{per:.2}"),
            engine.queued.to_string(),
            format!("{:.2}", engine.predicted_ns / 1000.0),
            format!("{:.2}", engine.prediction_error_ns / 1000.0),
            engine.failures.to_string(),
            engine.redone_packets.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use convoy_gateway::snapshot::{EngineRow, SaRow};

    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_sa_is_shown_with_mode_encapsulation_sequence_numbers_and_window() {
        let row = |encap: &str, esn, replay_window| SaRow {
            mode: "transport".to_owned(),
            encap: encap.to_owned(),
            transform: "aes128gcm16".to_owned(),
            esn,
            replay_window,
            ..SaRow::default()
        };
        let snapshot = Snapshot {
            sas: vec![row("udp", true, Some(1024)), row("none", false, None)],
            ..Snapshot::default()
        };
        let shown = table(Shown::Sa, &snapshot).to_string();
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        let line = |words: &str| lines.iter().any(|line| line.join(" ").contains(words));
        assert!(line("SA mode encap algorithms ESN window packets"), "{shown}");
        assert!(line("0x00000000 transport udp aes128gcm16 yes 1024 0 0"), "{shown}");
        assert!(line("0x00000000 transport none aes128gcm16 no 0 0"), "{shown}");
        let json = json(Shown::Sa, &snapshot).expect("JSON");
        assert!(
            json.contains("\"replay_window\": 1024") && json.contains("\"replay_window\": null"),
            "{json}"
        );
    }

    #[test]
    fn an_engine_is_shown_with_how_often_it_failed_and_what_others_did_again() {
        let engine = EngineRow {
            name: "multibuffer0".to_owned(),
            down: "it did not answer before its deadline".to_owned(),
            failures: 3,
            redone_packets: 96,
            ..EngineRow::default()
        };
        let shown =
            table(Shown::Engine, &Snapshot { engines: vec![engine], ..Snapshot::default() }).to_string();
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        let line = |words: &str| lines.iter().any(|line| line.join(" ").ends_with(words));
        assert!(line("predicted us error us failures redone"), "{shown}");
        assert!(line("0.00 0.00 3 96") && shown.contains("down: it did not answer"), "{shown}");
    }

    #[test]
    fn a_reader_who_leaves_early_is_no_error_and_a_full_disk_is() {
        assert!(print(&mut Broken(io::ErrorKind::BrokenPipe), "all").is_ok());
        assert!(print(&mut Broken(io::ErrorKind::StorageFull), "all").is_err());
    }
}
