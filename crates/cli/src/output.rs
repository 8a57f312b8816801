//! Standard output and standard error, whose readers may have gone.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};

/// As the standard library's, but a reader that leaves early, as `head` does, ends no command.
macro_rules! println {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// As `println`, without the line's end.
macro_rules! print {
    ($($text:tt)*) => { $crate::output::text(format_args!($($text)*)) };
}

/// As the standard library's, but with nobody to read it the program goes on.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::error(format_args!($($text)*)) };
}

/// Prints a line. What cannot be printed for another reason than that nobody reads on, such as a
/// full disk, fails the command.
pub(crate) fn line(text: Arguments<'_>) {
    check(writeln!(stdout(), "{text}"));
}

/// Prints a text, and fails as [`line()`] does.
pub(crate) fn text(text: Arguments<'_>) {
    check(write!(stdout(), "{text}"));
}

/// Says what is wrong. The exit status says it too, so that it may get lost.
pub(crate) fn error(text: Arguments<'_>) {
    let _ = writeln!(stderr(), "{text}");
}

fn check(printed: io::Result<()>) {
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("convoy: standard output: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Says on standard error where a capture is cut off or damaged, if it is.
pub(crate) fn warn_of(damage: Option<&str>) {
    if let Some(damage) = damage {
        eprintln!("convoy: warning: {damage}");
    }
}
