//! The log on standard error. A slow reader delays the gateway by 20 ms at most, and the gateway
//! continues without a reader.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::args::LogFormat;

/// A write of this many bytes to a pipe is atomic (`PIPE_BUF`).
const AT_ONCE: usize = 4096;
/// How long a write may wait for a slow reader, in ms. The caller may be a worker.
const TIMEOUT_MS: u8 = 20;

/// The default filter. What the resolver's library says of single servers is in the gateway's own
/// words already.
const QUIET: &str = "info,hickory_resolver=error,hickory_net=error,hickory_proto=error";

/// Starts logging to standard error. `RUST_LOG` sets the filter.
pub(crate) fn init(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| QUIET.into());
    let log = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        LogFormat::Text => {
            let stderr =
                Lossy::new(io::stderr(), |lost| format!("{lost} lines of the log could not be written\n"));
            log.with_ansi(has_colors()).with_writer(Arc::new(stderr)).init();
        }
        LogFormat::Json => {
            let stderr = Lossy::new(io::stderr(), |lost| {
                format!(
                    "{{\"level\":\"WARN\",\"message\":\"{lost} lines of the log could not be written\"}}\n"
                )
            });
            log.json().flatten_event(true).with_writer(Arc::new(stderr)).init();
            // A caught panic, such as a worker's, prints its message as well.
            std::panic::set_hook(Box::new(|panic| fatal(LogFormat::Json, &panic.to_string())));
        }
    }
}

/// Writes the reason for the program's end to standard error, regardless of `RUST_LOG`; in JSON as
/// one line with the same keys as the log.
pub(crate) fn fatal(format: LogFormat, text: &str) {
    match format {
        LogFormat::Text => eprintln!("{text}"),
        LogFormat::Json => {
            let mut now = String::new();
            // If the time cannot be formatted, the line is written without it.
            let _ = SystemTime.format_time(&mut Writer::new(&mut now));
            let line = serde_json::json!({ "timestamp": now, "level": "ERROR", "message": text.trim_end() });
            eprintln!("{line}");
        }
    }
}

/// Whether an invalid command line asks for a log in JSON.
pub(crate) fn is_json_asked_for(arguments: impl Iterator<Item = OsString>) -> bool {
    let (option, word) = ("--log-format", LogFormat::Json.word());
    let arguments: Vec<OsString> = arguments.collect();
    arguments.windows(2).any(|pair| pair[0] == option && pair[1] == word)
        || arguments.iter().any(|argument| *argument == *format!("{option}={word}"))
}

/// Colours are used on a terminal unless the user disabled them (<https://no-color.org>).
fn has_colors() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A writer that drops lines which it cannot write: because the reader is gone or blocked, the
/// terminal was closed or the disk is full. The next line that can be written is preceded by the
/// number of dropped lines.
pub(crate) struct Lossy<D> {
    state: Mutex<State<D>>,
    /// Formats the number of dropped lines as a line.
    report_lost: fn(u64) -> String,
}

struct State<D> {
    destination: D,
    lost: u64,
}

impl<D: Write + AsFd> Lossy<D> {
    /// `report_lost` formats the line that reports dropped lines.
    pub(crate) fn new(destination: D, report_lost: fn(u64) -> String) -> Self {
        Self { state: Mutex::new(State { destination, lost: 0 }), report_lost }
    }
}

impl<D: Write + AsFd> Write for &Lossy<D> {
    /// Takes a whole line. It never fails, since `tracing-subscriber` would report the error on
    /// standard error and panic there.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = if state.lost == 0 { TIMEOUT_MS } else { 0 };
        let told = match state.lost {
            0 => Ok(()),
            lost => put(&mut state.destination, (self.report_lost)(lost).as_bytes(), timeout),
        };
        if told.is_ok() {
            state.lost = 0;
        }
        if told.and_then(|()| put(&mut state.destination, line, timeout)).is_err() {
            state.lost += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn put<D: Write + AsFd>(destination: &mut D, text: &[u8], timeout_ms: u8) -> io::Result<()> {
    for part in text.chunks(AT_ONCE) {
        await_room(destination.as_fd(), timeout_ms)?;
        destination.write_all(part)?;
    }
    Ok(())
}

/// A pipe without a reader is writable too; the write then fails.
fn await_room(destination: BorrowedFd<'_>, timeout_ms: u8) -> io::Result<()> {
    match poll(&mut [PollFd::new(destination, PollFlags::POLLOUT)], PollTimeout::from(timeout_ms)) {
        Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
        // A signal, such as the one that requests a reload, must not cause a lost line.
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};

    use super::*;

    fn lossy(destination: File) -> Lossy<File> {
        Lossy::new(destination, |lost| format!("{lost} lost\n"))
    }

    fn pipe() -> (File, File) {
        let (reader, writer) = io::pipe().expect("a pipe");
        (OwnedFd::from(reader).into(), OwnedFd::from(writer).into())
    }

    #[test]
    fn a_log_whose_reader_has_gone_fails_nobody() {
        let (reader, writer) = pipe();
        let log = lossy(writer);
        drop(reader);
        for _ in 0..3 {
            (&log).write_all(b"a line\n").expect("it never fails");
        }
        assert_eq!(log.state.lock().expect("no panic").lost, 3);
    }

    #[test]
    fn a_full_disk_fails_nobody() {
        let log = lossy(File::options().write(true).open("/dev/full").expect("Linux has it"));
        (&log).write_all(b"a line\n").expect("it never fails");
        assert_eq!(log.state.lock().expect("no panic").lost, 1);
    }

    #[test]
    fn a_reader_that_stands_still_delays_nobody_and_hears_what_it_missed() {
        let (mut reader, writer) = pipe();
        let log = lossy(writer);
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        let began = Instant::now();
        for _ in 0..1_000 {
            (&log).write_all(&line).expect("it never fails");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "only the first line waits");
        let lost = log.state.lock().expect("no panic").lost;
        assert!((800..1_000).contains(&lost), "a pipe holds 64 KiB, {lost} lines were lost");
        let mut read = vec![0; (1_000 - lost as usize) * line.len()];
        reader.read_exact(&mut read).expect("what the pipe held");
        (&log).write_all(b"the next\n").expect("it never fails");
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, format!("{lost} lost\nthe next\n"));
    }
}
