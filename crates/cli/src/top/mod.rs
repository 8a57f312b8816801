//! `convoy top`: a running gateway on the whole terminal.
//!
//! A thread asks the gateway for its state and sends the answers ([`poll_gateway`]). The
//! [model](model::Model) takes them, keys change the [state](state::TopState), and the [view]
//! draws both.

mod details;
mod drawn;
mod model;
mod picture;
mod screen;
mod state;
mod view;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use convoy_gateway::control::{Answer, Ask};
use convoy_report::snapshot::Snapshot;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Failure;
use crate::args::TopArgs;
use crate::control::ask;
use model::Model;
use screen::Screen;
use state::{AfterKey, TopState};

/// How long a key may wait, and an answer to be drawn.
const TICK: Duration = Duration::from_millis(50);
/// How often everything is drawn again: it says for how long the gateway has not answered.
const REDRAW: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let what = "convoy top needs a terminal; `convoy show --watch` prints to files and pipes";
        return Err(Failure::Config(what.to_owned()));
    }
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_ended)).map_err(|error| failed(&error))?;
    }
    let answers = start_polling(args.control.clone(), Duration::from_secs_f64(args.interval))
        .map_err(|error| failed(&error))?;
    let mut screen = Screen::open().map_err(|error| failed(&error))?;
    let shown = show(&mut screen, &answers, &is_ended);
    drop(screen);
    shown.map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> Failure {
    Failure::Failed(error.to_string())
}

/// Draws until the user quits or a signal ends the program.
fn show(
    screen: &mut Screen,
    answers: &Receiver<Result<Snapshot, String>>,
    is_ended: &AtomicBool,
) -> io::Result<()> {
    let (mut model, mut state) = (Model::default(), TopState::default());
    let mut drawn: Option<(Instant, drawn::Drawn)> = None;
    while !is_ended.load(Ordering::Relaxed) {
        let mut is_stale = drawn.as_ref().is_none_or(|(at, _)| at.elapsed() >= REDRAW);
        loop {
            match answers.try_recv() {
                Ok(answer) => model.take(answer),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the thread that asks the gateway has ended"));
                }
            }
            is_stale = true;
        }
        if is_stale {
            let now = screen.draw(&model, &state)?;
            state.scroll_to_at_most(now.last_line);
            drawn = Some((Instant::now(), now));
        }
        if !event::poll(TICK)? {
            continue;
        }
        let page = drawn.as_ref().map_or(1, |(_, drawn)| drawn.lines);
        if let Event::Key(key) = event::read()?
            && key.is_press()
        {
            let tunnels: Vec<_> = model.lines(&state).iter().map(|line| line.key()).collect();
            if state.press(key, &tunnels, page) == AfterKey::Quit {
                break;
            }
        }
        // A key or another size of the terminal.
        drawn = None;
    }
    Ok(())
}

/// Asks the gateway again and again on a thread of its own, as an answer may take seconds.
fn start_polling(control: PathBuf, pause: Duration) -> io::Result<Receiver<Result<Snapshot, String>>> {
    let (send, answers) = sync_channel(1);
    std::thread::Builder::new()
        .name("gateway".to_owned())
        .spawn(move || poll_gateway(&control, pause, &send))?;
    Ok(answers)
}

fn poll_gateway(control: &Path, pause: Duration, answers: &SyncSender<Result<Snapshot, String>>) {
    loop {
        let began = Instant::now();
        let answer = match ask(control, Ask::Snapshot) {
            Ok(Answer::Snapshot(snapshot)) => Ok(*snapshot),
            Ok(Answer::Refused(reason)) => Err(reason),
            Ok(_) => Err("the gateway gave no snapshot".to_owned()),
            Err(failure) => Err(failure.to_string()),
        };
        if answers.send(answer).is_err() {
            return;
        }
        std::thread::sleep(pause.saturating_sub(began.elapsed()));
    }
}
