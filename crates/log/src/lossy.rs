//! A writer of lines that does not wait for its reader: a slow one delays the gateway by 20 ms at
//! most, and the gateway continues without a reader.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A write of this many bytes to a pipe is atomic (`PIPE_BUF`).
const AT_ONCE: usize = 4096;
/// How long a write may wait for a slow reader, in ms. The caller may be a worker.
const TIMEOUT_MS: u8 = 20;

/// A writer that drops lines which it cannot write: because the reader is gone or blocked, the
/// terminal was closed or the disk is full. The next line that can be written is preceded by the
/// number of dropped lines.
pub(crate) struct Lossy<D> {
    state: Mutex<LossyState<D>>,
    /// Formats the number of dropped lines as a line.
    report_lost: fn(u64) -> String,
}

struct LossyState<D> {
    destination: D,
    /// What is left of a line that was written in part: half a line of JSON would spoil the next
    /// one.
    rest: Vec<u8>,
    lost: u64,
}

impl<D: Write + AsFd> Lossy<D> {
    /// `report_lost` formats the line that reports dropped lines.
    pub(crate) fn new(destination: D, report_lost: fn(u64) -> String) -> Self {
        Self { state: Mutex::new(LossyState { destination, rest: Vec::new(), lost: 0 }), report_lost }
    }
}

impl<D: Write + AsFd> Write for &Lossy<D> {
    /// Takes a whole line. It never fails, since `tracing-subscriber` would report the error on
    /// standard error and panic there.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let state = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout_ms = if state.lost == 0 { TIMEOUT_MS } else { 0 };
        let mut has_room = state.put_rest(timeout_ms);
        if has_room && state.lost > 0 {
            has_room = state.put((self.report_lost)(state.lost).as_bytes(), timeout_ms);
            state.lost = if has_room { 0 } else { state.lost };
        }
        if !(has_room && state.put_rest(timeout_ms) && state.put(line, timeout_ms)) {
            state.lost += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<D: Write + AsFd> LossyState<D> {
    /// Writes a line, or begins to and keeps the rest of it; `false` if nothing of it was written.
    fn put(&mut self, line: &[u8], timeout_ms: u8) -> bool {
        let mut at = 0;
        while at < line.len() {
            let part = &line[at..line.len().min(at + AT_ONCE)];
            let written = await_room(self.destination.as_fd(), timeout_ms);
            match written.and_then(|()| self.destination.write(part)) {
                Ok(written @ 1..) => at += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        if at > 0 {
            self.rest = line[at..].to_vec();
        }
        at > 0
    }

    /// Writes what is left of an earlier line; `false` if some still is.
    fn put_rest(&mut self, timeout_ms: u8) -> bool {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() && !self.put(&rest, timeout_ms) {
            self.rest = rest;
        }
        self.rest.is_empty()
    }
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
    fn log_without_a_reader_fails_no_writer() {
        let (reader, writer) = pipe();
        let log = lossy(writer);
        drop(reader);
        for _ in 0..3 {
            (&log).write_all(b"a line\n").expect("it never fails");
        }
        assert_eq!(log.state.lock().expect("no panic").lost, 3);
    }

    #[test]
    fn full_disk_fails_no_writer() {
        let log = lossy(File::options().write(true).open("/dev/full").expect("Linux has it"));
        (&log).write_all(b"a line\n").expect("it never fails");
        assert_eq!(log.state.lock().expect("no panic").lost, 1);
    }

    #[test]
    fn reader_that_hangs_delays_no_writer_and_hears_of_lost_lines() {
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

    #[test]
    fn a_line_that_was_written_in_part_is_completed_before_the_next() {
        let (mut reader, writer) = pipe();
        let log = lossy(writer);
        let long = [vec![b'x'; 100_000], vec![b'\n']].concat();
        (&log).write_all(&long).expect("it never fails");
        (&log).write_all(b"lost\n").expect("it never fails");
        let mut read = vec![0; 65_536];
        reader.read_exact(&mut read).expect("what the pipe held");
        (&log).write_all(b"the next\n").expect("it never fails");
        drop(log);
        reader.read_to_end(&mut read).expect("the rest");
        assert!(read.starts_with(&long), "a whole line");
        assert_eq!(String::from_utf8_lossy(&read[long.len()..]), "1 lost\nthe next\n");
    }
}
