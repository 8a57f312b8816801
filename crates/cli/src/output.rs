//! Standard output and standard error whose readers may have closed them.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};

/// Like the standard library's, but a reader that closes early, such as `head`, is not an error.
#[macro_export]
macro_rules! println {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Like `println`, without a newline.
#[macro_export]
macro_rules! print {
    ($($text:tt)*) => { $crate::output::text(format_args!($($text)*)) };
}

/// Like the standard library's, but a missing reader is ignored.
#[macro_export]
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::error(format_args!($($text)*)) };
}

/// Prints a line. Exits with an error if it cannot be written for a reason other than a closed
/// reader, such as a full disk.
pub fn line(text: Arguments<'_>) {
    check(writeln!(stdout(), "{text}"));
}

/// Prints text, and fails as [`line()`] does.
pub fn text(text: Arguments<'_>) {
    check(write!(stdout(), "{text}"));
}

/// Prints an error. A failure to print is ignored, since the exit status reports the error as well.
pub fn error(text: Arguments<'_>) {
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

/// Warns on standard error where a capture is truncated or damaged, if it is.
pub fn warn_of(damage: Option<&str>) {
    if let Some(damage) = damage {
        eprintln!("convoy: warning: {damage}");
    }
}
