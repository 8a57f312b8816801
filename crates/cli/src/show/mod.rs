//! `convoy show`: prints the state of a running gateway.

mod tables;
#[cfg(test)]
mod tests;
mod units;
mod wireshark;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use convoy_gateway::control::{Answer, Ask};
use convoy_gateway::snapshot::Snapshot;
use serde::Serialize;

use crate::Failure;
use crate::args::{ShowArgs, Shown};
use crate::control::ask;
use tables::{View, table};

/// Escape sequence that clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    if let Some(file) = &args.wireshark {
        return wireshark::write(args, file);
    }
    if let Some(seconds) = args.watch {
        return watch(args, Duration::from_secs_f64(seconds));
    }
    let snapshot = fetch(args)?;
    let text = if args.json {
        json(args.what, &snapshot).map_err(|error| Failure::Failed(error.to_string()))?
    } else {
        let view = View { now: &snapshot, before: None, has_rates: false, is_wide: args.wide };
        table(args.what, &view)
    };
    print(&mut io::stdout().lock(), &text).map(drop)
}

/// Prints tables with rates repeatedly, until the reader or the gateway is gone.
fn watch(args: &ShowArgs, pause: Duration) -> Result<(), Failure> {
    let mut out = io::stdout();
    let clear = if out.is_terminal() { CLEAR } else { "" };
    let mut before: Option<Snapshot> = None;
    loop {
        let now = fetch(args)?;
        // Counters of a restarted gateway start at 0, so they are not compared.
        let before_of_same_run = before.as_ref().filter(|before| before.started_s == now.started_s);
        let view = View { now: &now, before: before_of_same_run, has_rates: true, is_wide: args.wide };
        if !print(&mut out, &format!("{clear}{}", table(args.what, &view)))? {
            return Ok(());
        }
        before = Some(now);
        std::thread::sleep(pause);
    }
}

fn fetch(args: &ShowArgs) -> Result<Snapshot, Failure> {
    match ask(&args.control, Ask::Snapshot)? {
        Answer::Snapshot(snapshot) => Ok(*snapshot),
        Answer::Refused(reason) => Err(Failure::Failed(reason)),
        _ => Err(Failure::Failed("the gateway gave no snapshot".to_owned())),
    }
}

/// Prints text; `false` if the reader has closed, as `grep -q` does.
fn print(out: &mut dyn Write, text: &str) -> Result<bool, Failure> {
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(error.to_string())),
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
        Shown::Name => text(&snapshot.names),
        Shown::Stats => text(snapshot),
    }
}
