//! `convoy-lab hdtv`: uncompressed video over RTP.

mod figure;
mod receive;
mod send;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, Subcommand, ValueEnum};
use convoy_hdtv::{CpuSeconds, Depth, Format, FormatError, Interface, LineNumbers, Rate, Sampling, Snapshot};

use convoy_cli::Failure;

#[derive(Args)]
pub(crate) struct HdtvArgs {
    #[command(subcommand)]
    command: HdtvCommand,
}

#[derive(Subcommand)]
enum HdtvCommand {
    /// Send video: a moving test picture, a Y4M file, raw frames, or the contents of a pipe
    Send(send::SendArgs),
    /// Receive video, conceal what was lost, and write it to a file, a pipe, or nowhere
    Receive(receive::ReceiveArgs),
    /// Draw what the MTU sweep of `make bench-hdtv` measured
    Figure(figure::FigureArgs),
}

pub(crate) fn run(args: HdtvArgs) -> Result<(), Failure> {
    match args.command {
        HdtvCommand::Send(args) => send::run(args),
        HdtvCommand::Receive(args) => receive::run(args),
        HdtvCommand::Figure(args) => figure::run(&args),
    }
}

/// Components of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Components {
    /// YCbCr 4:2:2
    Ycbcr,
    /// YCbCr 4:4:4
    Ycbcr444,
    /// Red, green and blue
    Rgb,
}

impl Components {
    fn sampling(self) -> Sampling {
        match self {
            Self::Ycbcr => Sampling::Ycbcr422,
            Self::Ycbcr444 => Sampling::Ycbcr444,
            Self::Rgb => Sampling::Rgb,
        }
    }
}

/// How packets number the lines of an interlaced frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CountedFrom {
    /// Each field's lines from 0, as in SMPTE ST 2110-20
    Field,
    /// The frame's lines from 0, as in GStreamer
    Frame,
}

impl CountedFrom {
    fn line_numbers(self) -> LineNumbers {
        match self {
            Self::Field => LineNumbers::Field,
            Self::Frame => LineNumbers::Frame,
        }
    }
}

/// Parses a number of bits.
fn depth(text: &str) -> Result<Depth, String> {
    match text {
        "8" => Ok(Depth::Eight),
        "10" => Ok(Depth::Ten),
        "12" => Ok(Depth::Twelve),
        _ => Err("expected 8, 10 or 12".to_owned()),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    Rate::parse(text).ok_or_else(|| "expected frames per second, such as 50, 59.94 or 60000/1001".to_owned())
}

/// Finds an interface that was named on the command line.
fn interface(name: Option<&String>) -> Result<Option<Interface>, Failure> {
    name.map(|name| Interface::named(name))
        .transpose()
        .map_err(|error| wrong(format!("--interface: {error}")))
}

fn format(text: &str) -> Result<Format, FormatError> {
    text.parse()
}

/// A frame to save, as `NUMBER:FILE`.
#[derive(Clone)]
struct SnapshotArg(Snapshot);

impl FromStr for SnapshotArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected a frame's number and a file, such as 100:picture.png".to_owned();
        let (frame, path) = text.split_once(':').ok_or_else(expected)?;
        let frame = frame.parse().map_err(|_| expected())?;
        if path.is_empty() {
            Err(expected())
        } else {
            Ok(Self(Snapshot { frame, path: PathBuf::from(path) }))
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

fn wrong(text: impl Into<String>) -> Failure {
    Failure::Config(text.into())
}

fn is_pipe(path: &Path) -> bool {
    path == Path::new("-")
}

fn is_y4m(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("y4m"))
}

/// Creates a file that is written line by line.
fn lines_to(path: Option<&PathBuf>) -> Result<Option<Box<dyn Write + Send>>, Failure> {
    let open = |path: &PathBuf| {
        File::create(path).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
    };
    Ok(path.map(open).transpose()?.map(|file| Box::new(io::BufWriter::new(file)) as Box<dyn Write + Send>))
}

/// A flag that SIGINT and SIGTERM set.
fn stop_on_signals() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
    }
    Ok(stop)
}

/// Updates a status line; only on a terminal.
fn progress_line(text: std::fmt::Arguments<'_>) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

fn end_progress_line() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

/// Processor time of a thread, relative to the `seconds` over which it was counted.
fn cpu(name: &str, used: CpuSeconds, seconds: f64) -> String {
    let share = |part: f64| 100.0 * part / seconds;
    format!(
        "{name} {:.1} % of a core ({:.1} % in the kernel), {:.0} ms waiting for a core",
        share(used.total()),
        share(used.system),
        used.waiting * 1000.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_names_a_frame_and_a_file() {
        let read =
            |text: &str| text.parse::<SnapshotArg>().ok().map(|snapshot| (snapshot.0.frame, snapshot.0.path));
        assert_eq!(read("12:a:b.png"), Some((12, PathBuf::from("a:b.png"))));
        assert!(["", "12", "12:", ":a", "x:a"].iter().all(|text| read(text).is_none()));
    }
}
