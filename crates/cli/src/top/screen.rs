//! The terminal: it is given back however the program ends.

use std::io;

use ratatui::DefaultTerminal;

use super::drawn::Drawn;
use super::model::Model;
use super::state::TopState;
use super::view;

/// The whole terminal in raw mode. Dropping it gives the terminal back as it was; so does a panic
/// on any thread, before its message is printed.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open() -> io::Result<Self> {
        // It also sets a hook for panics.
        Ok(Self(ratatui::try_init()?))
    }

    /// Draws everything, for the terminal's present size.
    ///
    /// # Errors
    /// The terminal's.
    pub(super) fn draw(&mut self, model: &Model, state: &TopState) -> io::Result<Drawn> {
        let mut drawn = Drawn::default();
        self.0.draw(|frame| drawn = view::draw(frame, model, state))?;
        Ok(drawn)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Without a terminal nothing can be shown.
        let _ = ratatui::try_restore();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::process::Command;

    use nix::pty::{OpenptyResult, openpty};
    use nix::sys::termios::{LocalFlags, tcgetattr};

    use super::*;

    #[test]
    #[ignore = "it panics, and needs the terminal that the next test gives it"]
    fn panics_on_a_terminal() {
        let _screen = Screen::open().expect("a terminal");
        panic!("provoked by a test");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
        let before = tcgetattr(&slave).expect("a terminal").local_flags;
        assert!(before.contains(LocalFlags::ICANON | LocalFlags::ECHO), "{before:?}");
        let end = || slave.try_clone().expect("a descriptor");
        let panicking = ["--ignored", "--exact", "top::screen::tests::panics_on_a_terminal", "--nocapture"];
        let mut child = Command::new(std::env::current_exe().expect("a test"))
            .args(panicking)
            .env("RUST_BACKTRACE", "0")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("a process");
        let reader = std::thread::spawn(move || {
            let (mut said, mut bytes) = (Vec::new(), [0; 4096]);
            // Reading fails once the other end is closed.
            while let Ok(count @ 1..) = File::from(master.try_clone().expect("a descriptor")).read(&mut bytes)
            {
                said.extend_from_slice(&bytes[..count]);
            }
            String::from_utf8_lossy(&said).into_owned()
        });
        assert!(!child.wait().expect("a child").success(), "it panicked");
        assert_eq!(tcgetattr(&slave).expect("a terminal").local_flags, before);
        drop(slave);
        let said = reader.join().expect("no panic");
        let (_, drawn) = said.split_once("\x1b[?1049h").expect("it had the whole terminal");
        let (_, after) = drawn.split_once("\x1b[?1049l").expect("it gave it back");
        assert!(after.contains("provoked by a test"), "{said:?}");
    }
}
