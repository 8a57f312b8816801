//! What is on the screen, at two sizes of a terminal and some odd ones.

use convoy_report::snapshot::{Buckets, EngineRow, SaRow, SchedulerRow, Snapshot, TunnelRow};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::*;

/// A busy gateway after some seconds.
fn snapshot(second: u64) -> Snapshot {
    let sa = |number: u32, direction: &str| SaRow {
        tunnel: format!("office-{number}/net"),
        tunnel_id: number,
        direction: direction.to_owned(),
        mode: "tunnel".to_owned(),
        spi: number,
        local: "192.0.2.1".to_owned(),
        remote: if number.is_multiple_of(2) {
            format!("198.51.100.{number}")
        } else {
            format!("2001:db8:1111:2222::{number:x}")
        },
        packets: second * u64::from(number) * 1_000,
        bytes: second * u64::from(number) * 1_000_000,
        path_mtu: (direction == "outbound").then_some(1400),
        last_used_s: Some(0.5),
        age_s: second as f64,
        ..SaRow::default()
    };
    let engine = |name: &str, down: &str, packets: u64| EngineRow {
        name: name.to_owned(),
        is_model: name.starts_with("model"),
        down: down.to_owned(),
        packets: second * packets,
        multi_packets: second * packets / 8,
        completed: second * packets / 8,
        predicted_ns: 12_345.0,
        measured_ns: 23_456.0,
        queued: 7,
        ..EngineRow::default()
    };
    let window = |worker: u16| SchedulerRow {
        worker,
        window: 32,
        waiting: 8,
        wait_ns: Buckets { buckets: vec![(None, second * 100)], sum: second * 150_000 },
        ..SchedulerRow::default()
    };
    let total = |direction: &str, bytes: u64| TunnelRow {
        direction: direction.to_owned(),
        tunnel: "office-1/net".to_owned(),
        bytes: second * bytes,
        ..TunnelRow::default()
    };
    // Rates that rise and fall, for the sparkline.
    let wave = |second: u64| (0..=second).map(|second| second % 5).sum::<u64>();
    let mut sas: Vec<SaRow> =
        (1..=200).flat_map(|number| [sa(number, "outbound"), sa(number, "inbound")]).collect();
    sas.pop();
    Snapshot {
        version: "0.1.0".to_owned(),
        started_s: 1.0,
        uptime_s: second as f64,
        configuration: "/etc/convoy/convoy.toml".to_owned(),
        workers: 2,
        sas,
        tunnels: vec![
            total("outbound", 1_000_000),
            TunnelRow { bytes: wave(second) * 1_000_000, ..total("inbound", 0) },
        ],
        engines: vec![
            engine("multibuffer", "", 800_000),
            engine("model-of-an-accelerator-in-slot-2", "it did not answer before its deadline", 80),
        ],
        schedulers: vec![window(0), window(1)],
        drops: [("replayed".to_owned(), second * 20), ("unknown_spi".to_owned(), 1_234_567)].into(),
        protected: second * 12_345,
        decrypted: second * 2_345,
        ..Snapshot::default()
    }
}

fn model() -> Model {
    let mut model = Model::default();
    (1..=40).for_each(|second| model.take(Ok(snapshot(second))));
    model
}

fn pressed(codes: &[KeyCode], model: &Model) -> TopState {
    let mut state = TopState::default();
    for code in codes {
        let tunnels: Vec<_> = model.lines(&state).iter().map(|line| line.key()).collect();
        state.press(KeyEvent::from(*code), &tunnels, 10);
    }
    state
}

/// The lines on a terminal of this size.
fn screen((width, height): (u16, u16), model: &Model, state: &TopState) -> (String, Drawn) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("memory");
    let mut drawn = Drawn::default();
    terminal.draw(|frame| drawn = draw(frame, model, state)).expect("memory");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(width.into()).map(|cells| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    });
    (lines.collect::<Vec<_>>().join("\n"), drawn)
}

#[test]
fn the_overview_and_a_tunnel_at_two_sizes() {
    let model = model();
    for size in [(80, 24), (200, 50)] {
        let name = format!("{}x{}", size.0, size.1);
        insta::assert_snapshot!(format!("overview_{name}"), screen(size, &model, &TopState::default()).0);
        let state = pressed(&[KeyCode::Down, KeyCode::Enter], &model);
        insta::assert_snapshot!(format!("tunnel_{name}"), screen(size, &model, &state).0);
    }
    insta::assert_snapshot!("help", screen((80, 24), &model, &pressed(&[KeyCode::Char('?')], &model)).0);
}

#[test]
fn every_number_is_whole_at_80_columns() {
    let (text, _) = screen((80, 24), &model(), &TopState::default());
    // Bits per second of the busiest tunnel, in and out, and the engine's times.
    assert!(text.contains("1.59G      1.59G"), "{text}");
    assert!(text.contains("12.3      23.5"), "{text}");
    assert!(text.contains("199 of 200 tunnels up"), "{text}");
    assert!(text.contains("unknown_spi       0   1.23M"), "{text}");
}

#[test]
fn the_selected_tunnel_is_always_on_the_screen() {
    let model = model();
    for presses in [1, 9, 50, 200, 300] {
        let state = pressed(&vec![KeyCode::Down; presses], &model);
        let (name, _) = state.selected.clone().expect("one is selected");
        let (text, _) = screen((80, 24), &model, &state);
        assert!(text.lines().any(|line| line.starts_with(&name)), "{name} after {presses}:\n{text}");
    }
}

#[test]
fn details_are_scrolled_to_their_end_and_no_further() {
    let model = model();
    let state = pressed(&[KeyCode::Enter, KeyCode::End], &model);
    let (text, drawn) = screen((80, 24), &model, &state);
    assert!(drawn.last_line > 0, "they are longer than the screen");
    assert!(text.contains("replay window"), "the last line is there:\n{text}");
}

#[test]
fn filter_and_order_are_said() {
    let model = model();
    let typed: Vec<KeyCode> = "/office-19".chars().map(KeyCode::Char).collect();
    let (text, _) = screen((80, 24), &model, &pressed(&typed, &model));
    assert!(text.ends_with("filter: office-19_   Enter keeps it, Esc ends it"), "{text}");
    let keys = [&typed[..], &[KeyCode::Enter, KeyCode::Char('S'), KeyCode::Char('r')]].concat();
    let (text, _) = screen((80, 24), &model, &pressed(&keys, &model));
    assert!(text.contains("by name reversed  filter \"office-19\": 11 tunnels"), "{text}");
    assert!(text.lines().nth(4).is_some_and(|line| line.starts_with("office-199/net")), "{text}");
}

#[test]
fn a_gateway_that_does_not_answer_is_said_over_its_last_state() {
    let mut never = Model::default();
    never.take(Err("no gateway answers at /run/convoy/control.sock: it is not there".to_owned()));
    let (text, _) = screen((80, 24), &never, &TopState::default());
    assert!(text.starts_with("NO ANSWER for 0s, trying again: no gateway answers at"), "{text}");
    assert!(text.contains("\n  no gateway answers at /run/convoy/control.sock: it is not there"), "{text}");
    let mut gone = model();
    gone.take(Err("it was stopped".to_owned()));
    let (text, _) = screen((80, 24), &gone, &TopState::default());
    assert!(text.starts_with("NO ANSWER for 0s, trying again: it was stopped"), "{text}");
    assert!(text.contains("office-199/net"), "{text}");
}

#[test]
fn no_size_of_a_terminal_and_no_state_is_too_odd() {
    let (empty, busy) = (Model::default(), model());
    let mut bare = Model::default();
    bare.take(Ok(Snapshot::default()));
    let states = [
        TopState::default(),
        pressed(&[KeyCode::Enter, KeyCode::End], &busy),
        pressed(&[KeyCode::Char('?')], &busy),
        pressed(&[KeyCode::Char('/')], &busy),
    ];
    for size in [(1, 1), (3, 2), (10, 5), (40, 10), (79, 13), (80, 15), (500, 3), (65, 200)] {
        for model in [&empty, &bare, &busy] {
            states.iter().for_each(|state| drop(screen(size, model, state)));
        }
    }
}
