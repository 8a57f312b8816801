//! `convoy show events`: what happened to a running gateway, once or as a stream.

use std::io;
use std::time::Duration;

use convoy_config::counted;
use convoy_gateway::control::{Answer, Ask};
use convoy_report::events::{Event, EventPage, EventSeverity, What};
use serde::Serialize;

use super::filter::Filter;
use super::units::{short, time, utc};
use super::view::WIDTH;
use super::{print, text};
use crate::Failure;
use crate::args::ShowArgs;
use crate::control::ask;
use crate::table::{folded, shortened};

/// Warnings that the summary shows, at most.
const RECENT: usize = 5;
/// How long the summary shows a warning, in seconds.
const RECENT_S: f64 = 900.0;
/// Characters of a warning that the summary shows.
const BRIEF: usize = 160;

/// A line of a stream that stands for events that were not kept until they were asked for.
#[derive(Serialize)]
struct Lost {
    event: &'static str,
    lost: u64,
}

pub(super) fn run(args: &ShowArgs) -> Result<(), Failure> {
    let filter = Filter { tunnel: args.tunnel.as_deref(), peer: None };
    let mut out = io::stdout();
    let mut seen = 0;
    loop {
        let mut page = fetch(args, seen)?;
        // Before the first page nothing was missed.
        let lost = if seen > 0 { page.lost } else { 0 };
        seen = page.events.last().map_or(seen, |event| event.number);
        page.events.retain(|event| {
            args.tunnel.is_none() || event.what.tunnel().is_some_and(|name| filter.has_name(name))
        });
        let Some(seconds) = args.watch else {
            let text = if args.json { json(&page.events, false)? } else { lines(&page.events, args.wide) };
            return print(&mut out, &text).map(drop);
        };
        for text in stream(args, lost, &page.events)? {
            if !print(&mut out, &text)? {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
    }
}

/// The lines of a stream for some events.
fn stream(args: &ShowArgs, lost: u64, events: &[Event]) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    if lost > 0 && args.json {
        texts.push(json(&Lost { event: "lost", lost }, true)?);
    } else if lost > 0 {
        texts.push(format!("(not kept: {})", counted(lost, "event")));
    }
    for event in events {
        texts.push(if args.json { json(event, true)? } else { line(event, args.wide) });
    }
    Ok(texts)
}

fn json<T: Serialize>(value: &T, is_line: bool) -> Result<String, Failure> {
    text(value, is_line).map_err(|error| Failure::Failed(error.to_string()))
}

fn fetch(args: &ShowArgs, after: u64) -> Result<EventPage, Failure> {
    match ask(&args.control, Ask::Events { after })? {
        Answer::Events(page) => Ok(page),
        Answer::Refused(reason) => Err(Failure::Failed(reason)),
        _ => Err(Failure::Failed("the gateway gave no events".to_owned())),
    }
}

fn lines(events: &[Event], is_wide: bool) -> String {
    if events.is_empty() {
        return "no events".to_owned();
    }
    let lines: Vec<String> = events.iter().map(|event| line(event, is_wide)).collect();
    lines.join("\n")
}

/// An event as in the log, folded unless it is wide.
fn line(event: &Event, is_wide: bool) -> String {
    let severity = match event.severity {
        EventSeverity::Info => "",
        EventSeverity::Warn => "WARN ",
        EventSeverity::Error => "ERROR ",
    };
    let mut message = event.message.replace('\n', " ");
    if let What::Dropped { .. } = event.what {
        message = if is_wide { format!("{}; {message}", brief(event)) } else { brief(event) };
    }
    let width = if is_wide { usize::MAX } else { WIDTH.into() };
    folded(&format!("{}  ", utc(event.time_s)), &format!("{severity}{message}"), width)
}

/// An event in few words.
fn brief(event: &Event) -> String {
    match &event.what {
        What::Dropped { tunnel, direction, reason, packets, seconds } => {
            let of =
                if tunnel.is_empty() { String::new() } else { format!("tunnel {tunnel}, {direction}: ") };
            let noun = if *packets == 1 { "packet" } else { "packets" };
            format!("{of}{} {noun} dropped in {seconds} s, {reason}", short(*packets as f64))
        }
        _ => shortened(&event.message.replace('\n', " "), BRIEF),
    }
}

/// The last warnings, the newest first, with their age.
pub(super) fn warnings(args: &ShowArgs, now_s: f64) -> Result<Vec<String>, Failure> {
    let page = fetch(args, 0)?;
    let is_recent = |event: &&Event| event.severity > EventSeverity::Info && now_s - event.time_s < RECENT_S;
    let recent = page.events.iter().rev().filter(is_recent).take(RECENT);
    Ok(recent
        .map(|event| format!("{} ago: {}", time((now_s - event.time_s).max(0.0)), brief(event)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: What, message: &str) -> Event {
        let severity = what.severity();
        Event { number: 7, time_s: 1_764_121_934.5, severity, what, message: message.to_owned() }
    }

    #[test]
    fn an_event_is_a_line_of_the_log_in_80_columns() {
        let what = What::EngineOut { engine: "one".to_owned(), worker: 0, reason: "why".to_owned() };
        let long = event(what, "engine one was quarantined: it did not answer before its deadline of 2 ms");
        let shown = line(&long, false);
        assert_eq!(
            shown,
            "2025-11-26T01:52:14Z  WARN engine one was quarantined: it did not answer before\n                      its deadline of 2 ms"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert_eq!(line(&long, true).lines().count(), 1);
    }

    #[test]
    fn a_warning_of_dropped_packets_begins_with_what_and_how_many() {
        let what = What::Dropped {
            tunnel: "site".to_owned(),
            direction: "inbound".to_owned(),
            reason: "replayed".to_owned(),
            packets: 12_345,
            seconds: 60,
        };
        let dropped = event(what, "packets were dropped: a long explanation");
        assert_eq!(brief(&dropped), "tunnel site, inbound: 12.3k packets dropped in 60 s, replayed");
        assert!(line(&dropped, true).ends_with("60 s, replayed; packets were dropped: a long explanation"));
    }
}
