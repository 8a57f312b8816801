//! Draws `convoy top`.

mod table;

use std::collections::VecDeque;

use convoy_config::counted;
use convoy_report::snapshot::PeerState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, RenderDirection, Sparkline};

use super::details;
use super::drawn::Drawn;
use super::model::{History, Model};
use super::picture::{TopDrop, TopEngine, TopTunnel, WindowLine};
use super::state::{TopPage, TopState};
use crate::rates::{TrafficRate, Ways};
use crate::show::units::{short, time};
use crate::table::{folded, shortened};
use table::ColumnContent::{Name, Number, Word};
use table::draw_table;

/// Width of the numbers before a sparkline.
const NUMBERS: u16 = 49;
/// A terminal of this width has room for more columns.
const WIDE: u16 = 120;
/// A terminal of less than this height shows tunnels only.
const LOW: u16 = 14;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, state: &TopState) -> Drawn {
    let rows = [Constraint::Length(1), Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)];
    let [title, rates, page, keys] = Layout::vertical(rows).areas(frame.area());
    draw_title(frame, title, model);
    frame.render_widget(footer(model, state, keys.width), keys);
    if model.now().is_none() {
        frame.render_widget(Paragraph::new(waiting(model, page.width)), page);
        return Drawn::default();
    }
    match &state.page {
        TopPage::Help => {
            draw_rates(frame, rates, model.picture.total, Some(&model.total));
            frame.render_widget(Paragraph::new(HELP), page);
            Drawn::default()
        }
        TopPage::Tunnel(tunnel, line) => {
            let found = model.line(tunnel);
            let history = found.and_then(|line| model.history(&line.key()));
            draw_rates(frame, rates, found.and_then(|line| line.rates), history);
            details::draw(frame, page, model, tunnel, *line)
        }
        TopPage::Overview => {
            draw_rates(frame, rates, model.picture.total, Some(&model.total));
            draw_overview(frame, page, model, state)
        }
    }
}

const HELP: &str = "
  Up, Down, j, k      select a tunnel, or scroll
  PageUp, PageDown    the same by a page
  Home, End, g, G     the first, the last
  Enter, Right        open the tunnel: both directions side by side, its SAs
  Esc, Left           close it; Esc also ends the filter
  s, S                the next, the previous order: by rate, in, out, dropped,
                      heard, state, name
  r                   reverse the order
  /                   show only tunnels whose name or address contains a text
  ?, h                this page
  q, Ctrl-C           quit

  heard               time since the last packet from the peer
  per train           packets in one submission to an engine
  predicted, measured mean time of a train from dispatch to completion, in us
  waiting, full       packets in a worker's window, and their part of its size";

/// Version, uptime, workers and configuration; or that the gateway does not answer.
fn draw_title(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let width = area.width.into();
    if let Some(trouble) = &model.trouble {
        let since = time(trouble.since.elapsed().as_secs_f64());
        let text = format!("NO ANSWER for {since}, trying again: {}", trouble.why);
        let text = text.chars().take(width).collect::<String>();
        return frame.render_widget(Line::from(text).style(Style::new().fg(Color::Red).bold()), area);
    }
    let Some(now) = model.now() else { return frame.render_widget(Line::from("convoy top"), area) };
    let (up, all) = (model.picture.count(PeerState::Up), model.picture.tunnels.len());
    let not_heard = match model.picture.count(PeerState::Silent) {
        0 => String::new(),
        count => format!(", {count} silent"),
    };
    let silent = match now.silent_workers.len() {
        0 => String::new(),
        count => format!(" ({count} silent)"),
    };
    let left = format!(
        "convoy {}, running for {}, {}{silent}, {up} of {} up{not_heard}",
        now.version,
        time(now.uptime_s),
        counted(now.workers, "worker"),
        counted(all, "tunnel"),
    );
    let room = usize::from(area.width).saturating_sub(left.chars().count() + 2);
    let file = if room < 12 { String::new() } else { shortened(&now.configuration, room) };
    let gap = usize::from(area.width).saturating_sub(left.chars().count() + file.chars().count());
    frame.render_widget(Line::from(format!("{left}{}{file}", " ".repeat(gap))).bold(), area);
}

/// Both directions with a sparkline each, the newest at the right.
fn draw_rates(frame: &mut Frame<'_>, area: Rect, ways: Option<Ways>, history: Option<&History>) {
    let [inbound, outbound] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let none = VecDeque::new();
    let past = |of: fn(&History) -> &VecDeque<u64>| history.map_or(&none, of);
    let inward = ("in", ways.map(|ways| ways.inbound), past(|history| &history.inbound));
    let outward = ("out", ways.map(|ways| ways.outbound), past(|history| &history.outbound));
    for (area, (label, rate, past)) in [(inbound, inward), (outbound, outward)] {
        let [numbers, line] =
            Layout::horizontal([Constraint::Length(NUMBERS), Constraint::Min(0)]).areas(area);
        let shown = |of: fn(TrafficRate) -> f64| rate.map_or_else(|| "-".to_owned(), |rate| short(of(rate)));
        let peak = past.iter().max().map_or_else(|| "-".to_owned(), |most| short(*most as f64));
        let (bits, packets) = (shown(|rate| rate.bits), shown(|rate| rate.packets));
        let text = format!("{label:3} {bits:>6} bit/s  {packets:>6} packets/s  peak {peak:>6}");
        frame.render_widget(Line::from(text), numbers);
        let newest: Vec<u64> = past.iter().rev().copied().collect();
        let line_of_bars = Sparkline::default().data(newest).direction(RenderDirection::RightToLeft);
        frame.render_widget(line_of_bars.style(Style::new().fg(Color::Cyan)), line);
    }
}

fn draw_overview(frame: &mut Frame<'_>, area: Rect, model: &Model, state: &TopState) -> Drawn {
    let picture = &model.picture;
    let part = |lines: usize| {
        if area.height < LOW { 0 } else { (lines as u16).clamp(1, (area.height / 5).max(2)) + 1 }
    };
    let bottom = part(picture.windows.len().max(picture.drops.len()));
    let parts =
        [Constraint::Min(0), Constraint::Length(part(picture.engines.len())), Constraint::Length(bottom)];
    let [tunnels, engines, bottom] = Layout::vertical(parts).areas(area);
    draw_tunnels(frame, tunnels, &model.lines(state), state);
    if area.height >= LOW {
        draw_engines(frame, engines, &picture.engines);
        let halves = [Constraint::Length(39), Constraint::Length(2), Constraint::Min(0)];
        let [windows, _, drops] = Layout::horizontal(halves).areas(bottom);
        draw_windows(frame, windows, &picture.windows);
        draw_drops(frame, drops, &picture.drops);
    }
    Drawn { lines: tunnels.height.saturating_sub(1).into(), last_line: 0 }
}

fn draw_tunnels(frame: &mut Frame<'_>, area: Rect, lines: &[&TopTunnel], state: &TopState) {
    let is_wide = area.width >= WIDE;
    let of = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), short);
    let row = |line: &&TopTunnel| {
        let rate = |of: fn(Ways) -> f64| line.rates.map(of);
        let mut cells =
            vec![line.row.tunnel.clone(), line.row.remote.clone(), line.row.state.name().to_owned()];
        cells.push((line.row.outbound.sas + line.row.inbound.sas).to_string());
        cells.extend([of(rate(|ways| ways.inbound.bits)), of(rate(|ways| ways.outbound.bits))]);
        if is_wide {
            cells.extend([of(rate(|ways| ways.inbound.packets)), of(rate(|ways| ways.outbound.packets))]);
        }
        cells.extend([of(line.dropped), heard(line)]);
        if is_wide {
            cells.push(line.row.path_mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()));
        }
        cells
    };
    let mut columns = vec![("TUNNEL", Name, 6), ("PEER", Name, 15), ("STATE", Word, 7), ("SAs", Number, 3)];
    columns.extend([("bit/s in", Number, 8), ("bit/s out", Number, 9)]);
    if is_wide {
        columns.extend([("pkt/s in", Number, 8), ("pkt/s out", Number, 9)]);
    }
    columns.extend([("drop/s", Number, 6), ("heard", Number, 5)]);
    if is_wide {
        columns.push(("MTU", Number, 5));
    }
    let selected = state.selected.as_ref().and_then(|key| lines.iter().position(|line| line.key() == *key));
    let is_marked = |at: usize| if lines[at].is_up() { Style::new() } else { Style::new().fg(Color::Yellow) };
    let rows = lines.iter().map(row).collect();
    draw_table(frame, area, &columns, rows, selected, &is_marked);
}

/// Time since the last packet from a peer.
fn heard(line: &TopTunnel) -> String {
    crate::show::last(&line.row.inbound)
}

fn draw_engines(frame: &mut Frame<'_>, area: Rect, lines: &[TopEngine]) {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let us = |ns: f64| format!("{:.1}", ns / 1000.0);
    let row = |line: &TopEngine| {
        let state = match (line.down.is_empty(), line.is_model) {
            (true, false) => "up",
            (true, true) => "up, model",
            (false, false) => "down",
            (false, true) => "down, model",
        };
        vec![
            line.name.clone(),
            line.worker.to_string(),
            state.to_owned(),
            or_dash(line.packets.map(short)),
            or_dash(line.per_train.map(|packets| format!("{packets:.1}"))),
            line.queued.to_string(),
            or_dash(line.times_ns.map(|(predicted, _)| us(predicted))),
            or_dash(line.times_ns.map(|(_, measured)| us(measured))),
            line.down.clone(),
        ]
    };
    let mut columns = vec![
        ("ENGINE", Name, 6),
        ("worker", Number, 6),
        ("state", Word, 5),
        ("pkt/s", Number, 6),
        ("per train", Number, 9),
        ("queue", Number, 5),
        ("predicted", Number, 9),
        ("measured", Number, 8),
    ];
    let mut rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    // Why an engine is out of use takes what room there is.
    if area.width >= WIDE {
        columns.push(("", Name, 0));
    } else {
        rows.iter_mut().for_each(|row| row.truncate(columns.len()));
    }
    let style =
        |at: usize| if lines[at].down.is_empty() { Style::new() } else { Style::new().fg(Color::Red) };
    draw_table(frame, area, &columns, rows, None, &style);
}

fn draw_windows(frame: &mut Frame<'_>, area: Rect, lines: &[WindowLine]) {
    let row = |line: &WindowLine| {
        let percent = 100 * line.waiting / line.window.max(1);
        vec![
            line.worker.to_string(),
            line.window.to_string(),
            line.waiting.to_string(),
            format!("{percent} %"),
            line.wait_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1}", ns / 1000.0)),
        ]
    };
    let columns = [
        ("WORKER", Number, 6),
        ("window", Number, 6),
        ("waiting", Number, 7),
        ("full", Number, 5),
        ("wait us", Number, 7),
    ];
    draw_table(frame, area, &columns, lines.iter().map(row).collect(), None, &|_| Style::new());
}

fn draw_drops(frame: &mut Frame<'_>, area: Rect, lines: &[TopDrop]) {
    let row = |line: &TopDrop| {
        vec![line.reason.clone(), line.rate.map_or_else(|| "-".to_owned(), short), short(line.packets as f64)]
    };
    let columns = [("DROPPED", Name, 7), ("pkt/s", Number, 6), ("in all", Number, 6)];
    let is_now = |at: usize| {
        let is_now = lines[at].rate.is_some_and(|rate| rate > 0.0);
        if is_now { Style::new().fg(Color::Yellow) } else { Style::new() }
    };
    draw_table(frame, area, &columns, lines.iter().map(row).collect(), None, &is_now);
}

/// The last line: the filter, the order, and the most important keys.
fn footer(model: &Model, state: &TopState, width: u16) -> Line<'static> {
    let text = match (&state.page, state.is_typing) {
        (_, true) => format!("filter: {}_   Enter keeps it, Esc ends it", state.filter),
        (TopPage::Overview, false) => {
            let order = if state.is_reversed { " reversed" } else { "" };
            let filter = match state.filter.as_str() {
                "" => String::new(),
                text => format!("  filter {text:?}: {}", counted(model.lines(state).len(), "tunnel")),
            };
            format!("by {}{order}{filter}  s sort  / filter  Enter open  ? help  q quit", state.sort.name())
        }
        (TopPage::Tunnel(..), false) => "Up, Down scroll  Esc close  ? help  q quit".to_owned(),
        (TopPage::Help, false) => "Esc close  q quit".to_owned(),
    };
    Line::from(text.chars().take(width.into()).collect::<String>()).dim()
}

/// The page while no gateway has ever answered.
fn waiting(model: &Model, width: u16) -> String {
    let why = model.trouble.as_ref().map_or("asking the gateway ...", |trouble| &trouble.why);
    format!("\n{}", folded("  ", why, usize::from(width).saturating_sub(2).max(20)))
}

#[cfg(test)]
mod tests;
