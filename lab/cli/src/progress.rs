//! A progress bar on a terminal for operations of more than two seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long the bar stays hidden.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Appears after two seconds, and disappears when it is dropped.
pub(crate) struct LabProgress {
    bar: ProgressBar,
    began: Instant,
}

impl LabProgress {
    /// A bar for `total` items, if that is known; `unit` is their plural name.
    pub(crate) fn new(total: Option<u64>, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => {
                format!(
                    "[{{elapsed}}] {{wide_bar}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left {{msg}}"
                )
            }
            None => format!("[{{elapsed}}] {{spinner}} {{human_pos}} {unit} {{msg}}"),
        };
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar, began: Instant::now() }
    }

    /// Shows the current activity beside the count.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Sets the number of finished items.
    pub(crate) fn set(&self, done: u64) {
        if self.bar.is_hidden() && self.began.elapsed() > TIMEOUT && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for LabProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
