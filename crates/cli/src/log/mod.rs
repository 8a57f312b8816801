//! The log on standard error, as text or with one JSON object in each line.

mod line;
mod lossy;
mod text;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Stderr, Write};
use std::panic::PanicHookInfo;
use std::sync::{Arc, LazyLock};

use convoy_gateway::config::{self, ConfigErrors, Severity};
use convoy_gateway::supervise::words;
use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;
use line::{ERROR, Line, WARN};
use lossy::Lossy;
use text::TextFields;

/// The default filter. What the resolver's library says of single servers is in the gateway's own
/// words already.
const QUIET: &str = "info,hickory_resolver=error,hickory_net=error,hickory_proto=error";

/// Standard error with lines of JSON: those of the log, and those that are written directly.
static JSON: LazyLock<Lossy<Stderr>> = LazyLock::new(|| {
    Lossy::new(io::stderr(), |lost| {
        Line::new(WARN, &format!("{lost} lines of the log could not be written")).to_string()
    })
});

/// Starts logging to standard error. `RUST_LOG` sets the filter.
pub(crate) fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| QUIET.into());
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        LogFormat::Text => {
            let stderr =
                Lossy::new(io::stderr(), |lost| format!("{lost} lines of the log could not be written\n"));
            log.with_ansi(has_colors()).fmt_fields(TextFields).with_writer(Arc::new(stderr)).init();
        }
        LogFormat::Json => {
            log.json().flatten_event(true).with_writer(|| &*JSON).init();
            // A caught panic, such as a worker's, writes a line as well.
            std::panic::set_hook(Box::new(write_panic));
        }
    }
}

/// Writes the reason for the program's end to standard error, regardless of `RUST_LOG`.
pub(crate) fn fatal(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => eprintln!("convoy: {text}"),
        LogFormat::Json => write(&Line::new(ERROR, text)),
    }
}

/// Writes a wrong use of the command line. Clap's text ends with the usage, which is for a reader
/// at a terminal.
pub(crate) fn usage(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => eprintln!("{text}"),
        LogFormat::Json => {
            let what = text.split("\n\nUsage:").next().unwrap_or(text);
            let what = what.strip_prefix("error: ").unwrap_or(what);
            let parts: Vec<&str> = what.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
            write(&Line::new(ERROR, &parts.join("; ")));
        }
    }
}

/// Writes what is wrong with a configuration: as text with excerpts of the file, or as one line of
/// JSON for each problem.
pub(crate) fn problems(format: LogFormat, errors: &ConfigErrors) {
    if format == LogFormat::Text {
        eprintln!("{errors}");
        return;
    }
    let (told, rest) = config::told(&errors.0);
    for problem in told {
        let level = if problem.severity == Severity::Error { ERROR } else { WARN };
        let message = problem.in_one_line();
        write(&Line {
            file: Some(&problem.file),
            line: problem.position.map(|position| position.line),
            column: problem.position.map(|position| position.column),
            key: Some(problem.key.as_str()).filter(|key| !key.is_empty()),
            ..Line::new(level, &message)
        });
    }
    rest.iter().for_each(|rest| write(&Line::new(ERROR, rest)));
}

/// Whether an invalid command line asks for a log in JSON.
pub(crate) fn is_json_asked_for(arguments: impl Iterator<Item = OsString>) -> bool {
    let (option, word) = ("--log-format", LogFormat::Json.word());
    let arguments: Vec<OsString> = arguments.collect();
    arguments.windows(2).any(|pair| pair[0] == option && pair[1] == word)
        || arguments.iter().any(|argument| *argument == *format!("{option}={word}"))
}

fn write(line: &Line<'_>) {
    // `Lossy` never fails.
    let _ = (&*JSON).write_all(line.to_string().as_bytes());
}

/// Writes what the standard library's hook would, `RUST_BACKTRACE` included.
fn write_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location();
    let backtrace = std::backtrace::Backtrace::capture();
    let is_captured = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
    let message = format!("panicked: {}", words(panic.payload()));
    write(&Line {
        file: place.map(std::panic::Location::file),
        line: place.map(|place| place.line() as usize),
        column: place.map(|place| place.column() as usize),
        thread: thread.name(),
        backtrace: is_captured.then(|| backtrace.to_string()),
        ..Line::new(ERROR, &message)
    });
}

/// Colours are used on a terminal unless the user disabled them (<https://no-color.org>).
fn has_colors() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
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
        let panicking = ["--ignored", "--exact", "log::tests::panics_in_a_thread", "--nocapture"];
        let mut child = Command::new(std::env::current_exe().expect("a test"));
        child.args(panicking).stdout(Stdio::null());
        let ended = child.env("RUST_BACKTRACE", backtrace).env_remove("RUST_LOG").output().expect("a child");
        assert!(ended.status.success(), "the thread's panic was caught");
        let told = String::from_utf8(ended.stderr).expect("text");
        told.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
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
        assert!(panicked["file"].as_str().is_some_and(|file| file.ends_with("log/mod.rs")), "{panicked}");
        assert!(panicked["line"].is_u64() && panicked.get("backtrace").is_none(), "{panicked}");
        let [_, panicked] = &lines_of_a_panic("1")[..] else { panic!("two lines") };
        assert!(panicked["backtrace"].as_str().is_some_and(|trace| trace.contains("panics_in_a_thread")));
    }

    #[test]
    fn json_is_asked_for_in_both_notations() {
        let asked = |words: &[&str]| is_json_asked_for(words.iter().map(OsString::from));
        assert!(asked(&["run", "--log-format", "json", "--wrong"]) && asked(&["--log-format=json"]));
        assert!(!asked(&["run", "--log-format", "text", "json"]) && !asked(&["run", "--json"]));
    }
}
