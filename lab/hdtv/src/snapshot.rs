//! Snapshots of single frames as PNG files. Encoding takes longer than a frame lasts, so it runs on
//! threads of its own at idle priority, and neither the stream nor its viewer waits for it.

use std::io;
use std::path::PathBuf;
use std::thread::{Builder, JoinHandle};

use crate::format::Format;
use crate::output::write_png;

/// A frame to save as a picture.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Number of the frame, counted from 0.
    pub frame: u64,
    /// Path of the PNG file.
    pub path: PathBuf,
}

/// Saves the requested frames, each on a thread of its own.
pub(crate) struct SnapshotWriter {
    format: Format,
    wanted: Vec<Snapshot>,
    writing: Vec<JoinHandle<io::Result<()>>>,
}

impl SnapshotWriter {
    pub(crate) fn new(format: Format, wanted: Vec<Snapshot>) -> Self {
        Self { format, wanted, writing: Vec::new() }
    }

    /// Starts a snapshot of this frame if one is requested.
    ///
    /// # Errors
    /// The operating system's, if it gives no thread.
    pub(crate) fn offer(&mut self, number: u64, frame: &[u8]) -> io::Result<()> {
        for snapshot in self.wanted.iter().filter(|snapshot| snapshot.frame == number) {
            let (path, format, frame) = (snapshot.path.clone(), self.format, frame.to_vec());
            let write = move || {
                // A thread inherits the priority of its creator, which may be the real-time one of
                // the packet thread.
                crate::priority::background()?;
                write_png(&path, &format, &frame)
            };
            self.writing.push(Builder::new().name("picture".to_owned()).spawn(write)?);
        }
        Ok(())
    }

    /// Waits until all snapshots are written.
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
    fn wanted_frames_are_written_and_a_failed_picture_is_reported() {
        let format: Format = "2x2p25".parse().expect("a name");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |frame, name: &str| Snapshot { frame, path: folder.path().join(name) };
        let mut snapshot_writer = SnapshotWriter::new(format, vec![at(1, "one.png"), at(3, "no/folder.png")]);
        let frame = [128, 16, 128, 235, 128, 235, 128, 16];
        (0..3).for_each(|number| snapshot_writer.offer(number, &frame).expect("a thread"));
        snapshot_writer.finish().expect("a disk");
        assert!(std::fs::read(folder.path().join("one.png")).expect("it is there").starts_with(b"\x89PNG"));
        snapshot_writer.offer(3, &frame).expect("a thread");
        assert_eq!(snapshot_writer.finish().expect_err("no such folder").kind(), io::ErrorKind::NotFound);
    }
}
