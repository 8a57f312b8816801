//! Standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// As the standard library's, but a reader that leaves early, as `head` does, ends no command.
macro_rules! println {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Prints a line. What cannot be printed for another reason than that nobody reads on, such as a full disk, fails the
/// command.
pub(crate) fn line(text: Arguments<'_>) {
    match writeln!(stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("convoy: standard output: {error}");
            std::process::exit(1);
        }
        _ => {}
    }
}
