//! Pictures of single frames. To encode one takes longer than many frames last, so neither the
//! stream nor what shows it waits for it, and it has only the time that they leave.

use std::io;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use crate::format::Format;
use crate::output::write_png;

/// A frame to photograph.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number, counted from 0.
    pub frame: u64,
    /// The PNG.
    pub path: PathBuf,
}

/// Takes pictures of the frames that are wanted; a thread for each writes it.
pub(crate) struct Photographer {
    format: Format,
    wanted: Vec<Snapshot>,
    writing: Vec<JoinHandle<io::Result<()>>>,
}

impl Photographer {
    pub(crate) fn new(format: Format, wanted: Vec<Snapshot>) -> Self {
        Self { format, wanted, writing: Vec::new() }
    }

    /// Sees a frame, and copies it if it is wanted.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn see(&mut self, number: u64, frame: &[u8]) -> io::Result<()> {
        for snapshot in self.wanted.iter().filter(|snapshot| snapshot.frame == number) {
            let (path, format, frame) = (snapshot.path.clone(), self.format, frame.to_vec());
            let write = move || {
                // A thread inherits the priority of the one that starts it, which may be that of
                // packets.
                crate::priority::background()?;
                write_png(&path, &format, &frame)
            };
            self.writing.push(Builder::new().name("picture".to_owned()).spawn(write)?);
        }
        Ok(())
    }

    /// Waits until all pictures are written.
    ///
    /// # Errors
    /// If one could not be written.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.writing.drain(..).try_for_each(|writing| {
            writing.join().map_err(|_| io::Error::other("the thread that writes a picture failed"))?
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_frames_are_written_and_a_picture_that_cannot_be_is_told() {
        let format: Format = "2x2p25".parse().expect("a name");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |frame, name: &str| Snapshot { frame, path: folder.path().join(name) };
        let mut photographer = Photographer::new(format, vec![at(1, "one.png"), at(3, "no/folder.png")]);
        let frame = [128, 16, 128, 235, 128, 235, 128, 16];
        (0..3).for_each(|number| photographer.see(number, &frame).expect("a thread"));
        photographer.finish().expect("a disk");
        assert!(std::fs::read(folder.path().join("one.png")).expect("it is there").starts_with(b"\x89PNG"));
        photographer.see(3, &frame).expect("a thread");
        assert_eq!(photographer.finish().expect_err("no such folder").kind(), io::ErrorKind::NotFound);
    }
}
