//! Priorities for the systemd journal, which takes them from the start of each line (sd-daemon(3)).
//! Without them, `journalctl -p warning` shows no line.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Whether standard error is the journal, as systemd says in `JOURNAL_STREAM` (systemd.exec(5)).
pub(crate) fn is_stderr() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let metadata = file.and_then(|file| file.metadata());
    metadata.is_ok_and(|metadata| stream == *format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// The priority of lines of this level, as the journal reads it.
pub(crate) fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Text with a priority at the start of each line.
pub(crate) fn with_priority(priority: &str, text: &str) -> String {
    text.split_inclusive('\n').flat_map(|line| [priority, line]).collect()
}

/// A log whose lines begin with their priorities if it is the journal's.
pub(crate) struct Prioritised<W> {
    pub(crate) writers: W,
    pub(crate) is_journal: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Prioritised<W> {
    type Writer = Prioritising<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Prioritising { writer: self.writers.make_writer(), priority: None }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let priority = self.is_journal.then(|| priority(*metadata.level()));
        Prioritising { writer: self.writers.make_writer_for(metadata), priority }
    }
}

/// Writes one entry of the log.
pub(crate) struct Prioritising<W> {
    writer: W,
    priority: Option<&'static str>,
}

impl<W: Write> Write for Prioritising<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let Some(priority) = self.priority else { return self.writer.write(text) };
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<u8> = lines.flat_map(|line| [priority.as_bytes(), line].concat()).collect();
        self.writer.write_all(&lines).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
