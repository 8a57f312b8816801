//! What the demo does at present, on standard error.

use std::io::Write;
use std::time::{Duration, Instant};

use convoy_workbench::Progress;

/// Shortest interval of lines where they are not overwritten.
const EVERY: Duration = Duration::from_secs(3);
/// Returns to the start of a terminal's line and clears it.
const CLEAR_LINE: &str = "\r\x1b[K";

/// One line that is overwritten at a terminal; elsewhere a line every few seconds.
pub(crate) struct ProgressLine<W> {
    out: W,
    is_terminal: bool,
    began: Instant,
    length: Duration,
    last: Option<Instant>,
}

impl<W: Write> ProgressLine<W> {
    /// Of a demo that takes `length` from now on.
    pub(crate) fn new(out: W, is_terminal: bool, length: Duration) -> Self {
        let mut line = Self { out, is_terminal, began: Instant::now(), length, last: None };
        let seconds = length.as_secs_f64();
        line.write(&format!("The demonstration takes {seconds:.0} s; its results follow then.\n"));
        line
    }

    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        self.show_at(progress, Instant::now());
    }

    fn show_at(&mut self, progress: &Progress<'_>, now: Instant) {
        if self.last.is_some_and(|last| !self.is_terminal && now - last < EVERY) {
            return;
        }
        self.last = Some(now);
        let text = text(progress, now - self.began, self.length);
        if self.is_terminal {
            self.write(&format!("{CLEAR_LINE}{text}"));
        } else {
            self.write(&format!("{text}\n"));
        }
    }

    /// Removes the line from a terminal.
    pub(crate) fn end(&mut self) {
        if self.is_terminal {
            self.write(CLEAR_LINE);
        }
    }

    /// Failures are ignored, for example when the terminal was closed.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

fn text(progress: &Progress<'_>, elapsed: Duration, length: Duration) -> String {
    let Progress { part, round, view } = progress;
    let round = round.map_or_else(String::new, |(round, rounds)| format!(", round {round} of {rounds}"));
    let view = view.map_or_else(String::new, |view| {
        format!(", {} packets delivered, {:.0} Mbit/s", view.delivered, view.mbps)
    });
    format!("{:3.0} of {:.0} s: {part}{round}{view}", elapsed.as_secs_f64(), length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(50);

    /// What is shown of three rounds that begin after 0, 2 and 4 s.
    fn shown(is_terminal: bool) -> String {
        let mut out = Vec::new();
        let mut line = ProgressLine::new(&mut out, is_terminal, LENGTH);
        let began = line.began;
        for (round, seconds) in (1..).zip([0, 2, 4]) {
            let progress = Progress { part: "policies", round: Some((round, 7)), view: None };
            line.show_at(&progress, began + Duration::from_secs(seconds));
        }
        line.end();
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn line_is_overwritten_at_a_terminal_and_removed_at_the_end() {
        let shown = shown(true);
        let (announced, line) = shown.split_once('\n').expect("the announcement has a line of its own");
        assert_eq!(announced, "The demonstration takes 50 s; its results follow then.");
        assert_eq!(line.matches("\r\x1b[K").count(), 4);
        assert!(line.contains("policies, round 3 of 7") && line.ends_with("\r\x1b[K"), "{line:?}");
    }

    #[test]
    fn lines_that_stay_are_at_least_seconds_apart_and_without_control_characters() {
        let shown = shown(false);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[1..],
            ["  0 of 50 s: policies, round 1 of 7", "  4 of 50 s: policies, round 3 of 7"]
        );
        assert!(!shown.contains('\x1b') && !shown.contains('\r'), "{shown:?}");
    }
}
