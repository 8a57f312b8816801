//! `convoy show`: prints the state of a running gateway.

mod cluster;
mod events;
mod filter;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
mod tunnels;
pub(crate) mod units;
pub(crate) mod view;
mod wireshark;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use convoy_gateway::control::{Answer, Ask};
use convoy_report::snapshot::{PeerRow, Snapshot, TunnelSelection};
use serde::Serialize;

use crate::Failure;
use crate::args::{ShowArgs, Shown};
use crate::control::ask;
use crate::rates::RunInterval;
use filter::Filter;
use summary::Summary;
use tunnels::Details;
use view::ShownSnapshot;

pub(crate) use tunnels::last;

/// Escape sequence that clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// The time over which the summary's rates are taken where it is not repeated.
const GLANCE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    are_sensible(args)?;
    if let Some(file) = &args.wireshark {
        return wireshark::write(args, file);
    }
    if args.what == Some(Shown::Events) {
        return events::run(args);
    }
    let mut out = io::stdout();
    let clear = if args.watch.is_some() && !args.json && out.is_terminal() { CLEAR } else { "" };
    let mut before: Option<Snapshot> = None;
    if args.what.is_none() && args.watch.is_none() {
        before = Some(fetch(args)?);
        std::thread::sleep(GLANCE);
    }
    loop {
        let now = fetch(args)?;
        let text = shown(args, &now, before.as_ref())?;
        if !print(&mut out, &format!("{clear}{text}"))? {
            return Ok(());
        }
        let Some(seconds) = args.watch else { return Ok(()) };
        before = Some(now);
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

/// Refuses options that what is shown does not have.
fn are_sensible(args: &ShowArgs) -> Result<(), Failure> {
    let has_peers = matches!(args.what, Some(Shown::Sa | Shown::Tunnel | Shown::Policy));
    let has_tunnels = has_peers || args.what == Some(Shown::Events);
    if args.name.is_some() && !matches!(args.what, Some(Shown::Tunnel)) {
        return Err(Failure::Config("only `convoy show tunnel` takes a NAME".to_owned()));
    }
    if args.tunnel.is_some() && !has_tunnels {
        return Err(Failure::Config("--tunnel is for sa, tunnel, policy and events".to_owned()));
    }
    if args.peer.is_some() && !has_peers {
        return Err(Failure::Config("--peer is for sa, tunnel and policy".to_owned()));
    }
    Ok(())
}

/// What is asked for, as text or JSON.
fn shown(args: &ShowArgs, now: &Snapshot, before: Option<&Snapshot>) -> Result<String, Failure> {
    let interval = before.and_then(|before| RunInterval::between(before, now));
    let has_rates = args.watch.is_some() || args.what.is_none();
    let filter = Filter { tunnel: args.name.as_deref().or(args.tunnel.as_deref()), peer: args.peer };
    let view = ShownSnapshot { now, interval, has_rates, is_wide: args.wide };
    if args.json {
        return json(args, &view, &filter);
    }
    if args.what.is_none() {
        return Ok(summary(args, &view)?.text(now.taken_s));
    }
    table(args.what, args.name.is_some(), &view, &filter)
}

/// The summary, with the warnings of the last time.
fn summary(args: &ShowArgs, view: &ShownSnapshot<'_>) -> Result<Summary, Failure> {
    let mut summary = Summary::of(view);
    summary.warn(events::warnings(args, view.now.taken_s)?);
    Ok(summary)
}

/// A table, or the summary.
fn table(
    what: Option<Shown>,
    is_one: bool,
    view: &ShownSnapshot<'_>,
    filter: &Filter<'_>,
) -> Result<String, Failure> {
    let narrowed = |table: fn(&ShownSnapshot<'_>) -> String| {
        let mut now = view.now.clone();
        filter.narrow(&mut now)?;
        Ok(table(&ShownSnapshot { now: &now, ..*view }))
    };
    Ok(match what {
        None | Some(Shown::Events) => Summary::of(view).text(view.now.taken_s),
        Some(Shown::Tunnel) if is_one => tunnels::details(view, &filter.peers(view.now)?),
        Some(Shown::Tunnel) => tunnels::list(view, &filter.peers(view.now)?),
        Some(Shown::Sa) => return narrowed(tables::sas),
        Some(Shown::Policy) => return narrowed(tables::policies),
        Some(Shown::Engine) => tables::engines(view),
        Some(Shown::Scheduler) => tables::schedulers(view),
        Some(Shown::Port) => tables::ports(view),
        Some(Shown::Name) => tables::names(view),
        Some(Shown::Cluster) => return cluster::text(view),
        Some(Shown::Stats) => tables::stats(view),
    })
}

/// The details of a tunnel, as `convoy show tunnel NAME` has them.
pub(crate) fn tunnel_details(now: &Snapshot, interval: Option<RunInterval<'_>>, peer: &PeerRow) -> String {
    let view = ShownSnapshot { now, interval, has_rates: interval.is_some(), is_wide: false };
    tunnels::details(&view, std::slice::from_ref(peer))
}

fn json(args: &ShowArgs, view: &ShownSnapshot<'_>, filter: &Filter<'_>) -> Result<String, Failure> {
    let mut narrow = view.now.clone();
    filter.narrow(&mut narrow)?;
    // A stream has a line for each moment.
    let is_line = args.watch.is_some();
    let text = match args.what {
        None | Some(Shown::Events) => text(&summary(args, view)?, is_line),
        Some(Shown::Tunnel) => {
            let peers = filter.peers(view.now)?;
            let details = || peers.iter().map(|peer| Details::of(view, peer)).collect::<Vec<_>>();
            if args.name.is_some() { text(&details(), is_line) } else { text(&peers, is_line) }
        }
        Some(Shown::Sa) => text(&narrow.sas, is_line),
        Some(Shown::Policy) => text(&narrow.policies, is_line),
        Some(Shown::Engine) => text(&narrow.engines, is_line),
        Some(Shown::Scheduler) => text(&narrow.schedulers, is_line),
        Some(Shown::Port) => text(&narrow.ports, is_line),
        Some(Shown::Name) => text(&narrow.names, is_line),
        Some(Shown::Cluster) => text(cluster::row(view)?, is_line),
        Some(Shown::Stats) => text(&narrow, is_line),
    };
    text.map_err(|error| Failure::Failed(error.to_string()))
}

fn text<T: Serialize>(value: &T, is_line: bool) -> Result<String, serde_json::Error> {
    if is_line { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) }
}

/// The state of the gateway; of the tunnel alone that is asked for, if there is one of that name,
/// and of no tunnels where none is shown.
fn fetch(args: &ShowArgs) -> Result<Snapshot, Failure> {
    if matches!(args.what, Some(Shown::Engine | Shown::Scheduler | Shown::Port | Shown::Cluster)) {
        return fetch_by(args, Ask::Tunnel(TunnelSelection::NONE));
    }
    if let Some(name) = args.name.as_ref().or(args.tunnel.as_ref()) {
        let selection = TunnelSelection { name: Some(name.clone()) };
        let snapshot = fetch_by(args, Ask::Tunnel(selection))?;
        let filter = Filter { tunnel: Some(name), peer: None };
        if filter.peers(&snapshot).is_ok() {
            return Ok(snapshot);
        }
        // The error names the tunnels that there are.
    }
    fetch_by(args, Ask::Snapshot)
}

fn fetch_by(args: &ShowArgs, what: Ask) -> Result<Snapshot, Failure> {
    match ask(&args.control, what)? {
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
