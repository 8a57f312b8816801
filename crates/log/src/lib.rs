//! The log of convoy's programs on standard error, as text or with one JSON object in each line.
//!
//! [`init`] starts it; in the systemd journal its lines have priorities. What ends a program is
//! written whatever the filter is: by [`fatal`], and for a wrong command line by [`usage`].

mod format;
mod journal;
mod line;
mod lossy;
#[cfg(feature = "problems")]
mod problems;
mod text;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Stderr, Write};
use std::panic::PanicHookInfo;
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use convoy_process::panics::words;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

pub use format::LogFormat;
use journal::{Prioritised, priority, with_priority};
use line::{ERROR, LogLine, WARN};
use lossy::Lossy;
#[cfg(feature = "problems")]
pub use problems::problems;
use text::TextFields;

/// Exit status for wrong usage or configuration, like clap's.
pub const USAGE: u8 = 2;

/// The default filter. What the resolver's library says of single servers is in the gateway's own
/// words already.
const QUIET: &str = "info,hickory_resolver=error,hickory_net=error,hickory_proto=error";

/// Standard error with lines of JSON: those of the log, and those that are written directly.
static JSON: LazyLock<Lossy<Stderr>> =
    LazyLock::new(|| Lossy::new(io::stderr(), |lost| LogLine::new(WARN, &lost_lines(lost)).to_string()));

/// Starts logging to standard error. `RUST_LOG` sets the filter: levels by
/// target, such as `info,convoy_gateway=debug`.
pub fn init(format: LogFormat) {
    let asked = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
    let filter = asked.and_then(|text| text.parse::<Targets>().ok());
    let filter = filter.unwrap_or_else(|| QUIET.parse().expect("the default is a filter"));
    let is_journal = journal::is_stderr();
    match format {
        LogFormat::Text => {
            let stderr = Lossy::new(io::stderr(), |lost| lost_lines(lost) + "\n");
            let log = fmt::layer().with_ansi(has_colors()).fmt_fields(TextFields);
            let writer = Prioritised { writers: Arc::new(stderr), is_journal };
            registry().with(log.with_writer(writer).with_filter(filter)).init();
        }
        LogFormat::Json => {
            let log = fmt::layer().json().flatten_event(true);
            let writer = Prioritised { writers: || &*JSON, is_journal };
            registry().with(log.with_writer(writer).with_filter(filter)).init();
            // A caught panic, such as a worker's, writes a line as well.
            std::panic::set_hook(Box::new(write_panic));
        }
    }
}

/// Reports lines that could not be written.
fn lost_lines(count: u64) -> String {
    let noun = if count == 1 { "line" } else { "lines" };
    format!("{count} {noun} of the log could not be written")
}

/// Writes the reason for the program's end to standard error, regardless of `RUST_LOG`.
pub fn fatal(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => write_text(format_args!("convoy: {text}")),
        LogFormat::Json => write(&LogLine::new(ERROR, text)),
    }
}

/// Writes a wrong use of the command line. Clap's text ends with the usage, which is for a reader
/// at a terminal.
pub fn usage(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => write_text(text),
        LogFormat::Json => {
            let what = text.split("\n\nUsage:").next().unwrap_or(text);
            let what = what.strip_prefix("error: ").unwrap_or(what);
            let parts: Vec<&str> = what.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
            write(&LogLine::new(ERROR, &parts.join("; ")));
        }
    }
}

/// Writes what is wrong with a command line, or the help that it asks for; returns the program's
/// exit status.
pub fn wrong_usage(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && is_json_asked_for(std::env::args_os()) {
        usage(LogFormat::Json, &error.to_string());
        return ExitCode::from(USAGE);
    }
    error.exit()
}

/// Whether an invalid command line asks for a log in JSON.
fn is_json_asked_for(arguments: impl Iterator<Item = OsString>) -> bool {
    let (option, word) = ("--log-format", LogFormat::Json.word());
    let arguments: Vec<OsString> = arguments.collect();
    arguments.windows(2).any(|pair| pair[0] == option && pair[1] == word)
        || arguments.iter().any(|argument| *argument == *format!("{option}={word}"))
}

/// Writes text. Without a reader it is lost, since the exit status reports the error as well;
/// `eprintln` would panic, and the status would be another one.
fn write_text(text: impl Display) {
    let _ = io::stderr().write_all(of_error(&format!("{text}\n")).as_bytes());
}

fn write(line: &LogLine<'_>) {
    // `Lossy` never fails.
    let _ = (&*JSON).write_all(of_error(&line.to_string()).as_bytes());
}

/// Lines of an error, as they are written to standard error.
fn of_error(lines: &str) -> String {
    if journal::is_stderr() { with_priority(priority(Level::ERROR), lines) } else { lines.to_owned() }
}

/// Writes what the standard library's hook would, `RUST_BACKTRACE` included.
fn write_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location();
    let backtrace = std::backtrace::Backtrace::capture();
    let is_captured = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
    let message = format!("panicked: {}", words(panic.payload()));
    write(&LogLine {
        file: place.map(std::panic::Location::file),
        line: place.map(|place| place.line() as usize),
        column: place.map(|place| place.column() as usize),
        thread: thread.name(),
        backtrace: is_captured.then(|| backtrace.to_string()),
        ..LogLine::new(ERROR, &message)
    });
}

/// Colours are used on a terminal unless the user disabled them (<https://no-color.org>).
fn has_colors() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::unix::fs::MetadataExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    #[ignore = "it sets the process's hook, and the next test reads what it writes"]
    fn panics_in_a_thread() {
        init(LogFormat::Json);
        tracing::info!(tunnel = "site", "before");
        let thread = std::thread::Builder::new().name("worker-0".to_owned());
        let ended = thread.spawn(|| panic!("provoked by\na test")).expect("a thread").join();
        ended.expect_err("it panicked");
    }

    fn lines_of_a_panic(backtrace: &str) -> Vec<serde_json::Value> {
        let panicking = ["--ignored", "--exact", "tests::panics_in_a_thread", "--nocapture"];
        let mut child = Command::new(std::env::current_exe().expect("a test"));
        child.args(panicking).stdout(Stdio::null());
        let ended = child.env("RUST_BACKTRACE", backtrace).env_remove("RUST_LOG").output().expect("a child");
        assert!(ended.status.success(), "the thread's panic was caught");
        let reported = String::from_utf8(ended.stderr).expect("text");
        reported.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    #[test]
    fn a_panic_of_any_thread_is_a_line_of_json_like_the_logs() {
        let [before, panicked] = &lines_of_a_panic("0")[..] else { panic!("two lines") };
        assert_eq!(before["message"], "before");
        for key in ["timestamp", "level", "message", "target"] {
            assert!(before[key].is_string() && panicked[key].is_string(), "{key}: {before} {panicked}");
        }
        assert_eq!(panicked["message"], "panicked: provoked by\na test");
        assert_eq!((&panicked["level"], &panicked["thread"]), (&"ERROR".into(), &"worker-0".into()));
        assert!(panicked["file"].as_str().is_some_and(|file| file.ends_with("log/src/lib.rs")), "{panicked}");
        assert!(panicked["line"].is_u64() && panicked.get("backtrace").is_none(), "{panicked}");
        let [_, panicked] = &lines_of_a_panic("1")[..] else { panic!("two lines") };
        assert!(panicked["backtrace"].as_str().is_some_and(|trace| trace.contains("panics_in_a_thread")));
    }

    #[test]
    #[ignore = "it sets the process's log, and the next test reads what it writes"]
    fn entries_of_each_level() {
        let format =
            if std::env::var_os("CONVOY_TEST_JSON").is_some() { LogFormat::Json } else { LogFormat::Text };
        init(format);
        tracing::info!("begun");
        tracing::warn!("two\nlines");
        fatal(format, "it ended");
    }

    /// What a child process writes to a file that is, or is not, the journal.
    fn logged(is_journal: bool, is_json: bool) -> String {
        let mut file = tempfile::tempfile().expect("a file");
        let metadata = file.metadata().expect("it is open");
        let inode = metadata.ino() + u64::from(!is_journal);
        let mut child = Command::new(std::env::current_exe().expect("a test"));
        child
            .args(["--ignored", "--exact", "tests::entries_of_each_level", "--nocapture"])
            .stdout(Stdio::null());
        child.env("JOURNAL_STREAM", format!("{}:{inode}", metadata.dev())).env_remove("RUST_LOG");
        child.envs(is_json.then_some(("CONVOY_TEST_JSON", "1")));
        let stderr = file.try_clone().expect("another descriptor");
        assert!(child.stderr(stderr).status().expect("a child").success());
        let mut text = String::new();
        file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("text");
        text
    }

    #[test]
    fn lines_in_the_journal_have_priorities() {
        for is_json in [false, true] {
            let text = logged(true, is_json);
            let priorities: Vec<&str> = text.lines().map(|line| &line[..3]).collect();
            let wanted = if is_json { &["<6>", "<4>", "<3>"][..] } else { &["<6>", "<4>", "<4>", "<3>"] };
            assert_eq!(priorities, wanted, "{text}");
            let elsewhere = logged(false, is_json);
            assert!(elsewhere.lines().all(|line| !line.starts_with('<')), "{elsewhere}");
        }
    }

    #[test]
    fn json_is_asked_for_in_both_notations() {
        let asked = |words: &[&str]| is_json_asked_for(words.iter().map(OsString::from));
        assert!(asked(&["run", "--log-format", "json", "--wrong"]) && asked(&["--log-format=json"]));
        assert!(!asked(&["run", "--log-format", "text", "json"]) && !asked(&["run", "--json"]));
    }
}
