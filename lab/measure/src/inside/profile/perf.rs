//! Samples one thread with `perf`, by the kernel's clock, which needs no hardware counters.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::unistd::Pid;
use tempfile::NamedTempFile;

use super::parts::{ProfilePart, Samples, count};

/// Sampling frequency; a prime number, so as not to coincide with periodic activity.
const HERTZ: &str = "4999";

/// A running recording; it ends when it is finished or dropped.
pub(super) struct Recording {
    file: NamedTempFile,
    perf: Child,
    /// Standard input of the command that `perf` runs; closing it ends the recording.
    until: Option<ChildStdin>,
}

impl Recording {
    /// Starts sampling a thread of this process; returns once samples are being taken.
    ///
    /// # Errors
    /// Why `perf` does not record, in one line.
    pub(super) fn of(thread: Pid) -> Result<Self, String> {
        Self::with("perf", thread)
    }

    fn with(program: &str, thread: Pid) -> Result<Self, String> {
        let file = NamedTempFile::new().map_err(|error| format!("no file for samples: {error}"))?;
        let mut perf = Command::new(program)
            // Its messages are quoted in English sentences.
            .env("LC_ALL", "C")
            .args(["record", "-q", "-e", "cpu-clock", "-F", HERTZ, "-t", &thread.to_string(), "-o"])
            .arg(file.path())
            .args(["--", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program} cannot be run: {error}"))?;
        let until = perf.stdin.take();
        let mut recording = Self { file, perf, until };
        if recording.has_begun() { Ok(recording) } else { Err(recording.refusal()) }
    }

    /// `perf` starts the command only once sampling is active, so an answer from the command proves
    /// that it is.
    fn has_begun(&mut self) -> bool {
        let asked = self.until.as_mut().is_some_and(|input| input.write_all(b"\n").is_ok());
        asked && self.perf.stdout.as_mut().is_some_and(|output| output.read_exact(&mut [0]).is_ok())
    }

    /// What `perf` printed instead.
    fn refusal(&mut self) -> String {
        self.until = None;
        let mut said = String::new();
        if let Some(errors) = self.perf.stderr.as_mut() {
            // An unreadable message is treated as an empty one.
            let _ = errors.read_to_string(&mut said);
        }
        let line = said.lines().map(str::trim).find(|line| !line.is_empty() && *line != "Error:");
        format!("perf does not record: {}", line.unwrap_or("it gave no reason"))
    }

    /// Ends the recording and counts its samples.
    ///
    /// # Errors
    /// Why there is no profile, in one line.
    pub(super) fn finish(mut self) -> Result<Samples, String> {
        self.until = None;
        let failed = |error: std::io::Error| format!("perf cannot be run: {error}");
        self.perf.wait().map_err(failed)?;
        let script = Command::new("perf")
            .args(["script", "--no-inline", "-F", "ip,sym,dso", "-i"])
            .arg(self.file.path())
            .stdin(Stdio::null())
            .output()
            .map_err(failed)?;
        let samples = count(&String::from_utf8_lossy(&script.stdout));
        if samples.iter().sum::<u64>() == 0 {
            return Err("perf took no samples".to_owned());
        }
        // The worker makes system calls in every round, so a recording without kernel samples is
        // incomplete.
        if samples[ProfilePart::Kernel as usize] == 0 {
            return Err("perf may not sample the kernel (kernel.perf_event_paranoid)".to_owned());
        }
        Ok(samples)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.until = None;
        // The exit status does not matter any more.
        let _ = self.perf.wait();
    }
}

#[cfg(test)]
mod tests {
    use nix::unistd::gettid;

    use super::*;

    #[test]
    fn a_machine_without_perf_is_reported_in_one_sentence() {
        let why = Recording::with("perf-that-is-not-there", gettid()).err().expect("no such program");
        assert!(why.starts_with("perf-that-is-not-there cannot be run: No such file"), "{why}");
    }

    #[test]
    fn a_program_that_refuses_is_quoted() {
        let why = Recording::with("false", gettid()).err().expect("it records nothing");
        assert_eq!(why, "perf does not record: it gave no reason");
        let why = Recording::with("cat", gettid()).err().expect("it knows no such options");
        assert!(why.contains("invalid option") || why.contains("unrecognized option"), "{why}");
    }
}
