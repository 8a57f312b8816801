//! What a member has seen of the store, on disk, so that a gateway that starts again notices that
//! the store went back meanwhile.
//!
//! The file has two slots, each a line of JSON, which are written in turns: an interrupted write
//! costs the older one. It is opened before the gateway gives up its privileges, and written in
//! place by a thread of its own, since a disk may be slow.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use convoy_cluster::Seen;
use convoy_process::supervise::{self, Fault};

/// The bytes of a slot, which a disk writes as a whole.
const SLOT: usize = 512;

/// The file.
pub(super) struct StoreMemory {
    file: File,
    path: PathBuf,
    /// The slot that is written next.
    slot: usize,
}

impl StoreMemory {
    /// Opens or creates the file, and reads the latest that was noted.
    ///
    /// # Errors
    /// The system's, or that the file has something else.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Seen)> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(2 * SLOT as u64).read_to_end(&mut bytes)?;
        let slots = bytes.chunks(SLOT).map(|slot| serde_json::from_slice::<Seen>(slot).ok());
        let latest = slots.enumerate().filter_map(|(at, seen)| Some((seen?, at)));
        let latest = latest.max_by_key(|(seen, _)| (seen.fault.is_some(), seen.revision, seen.next_iv));
        let Some((seen, at)) = latest else {
            // All that an interrupted first write leaves is no more than one slot.
            let is_begun = bytes.len() <= SLOT && bytes.iter().all(|byte| *byte == 0);
            if !is_begun {
                return Err(io::Error::other("it has no record that can be read"));
            }
            return Ok((Self { file, path: path.to_owned(), slot: 0 }, Seen::default()));
        };
        Ok((Self { file, path: path.to_owned(), slot: 1 - at }, seen))
    }

    /// Notes this, and waits for the disk.
    ///
    /// # Errors
    /// The system's.
    fn note(&mut self, seen: &Seen) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(seen)?;
        bytes.resize(SLOT - 1, b' ');
        bytes.push(b'\n');
        self.file.write_all_at(&bytes, (self.slot * SLOT) as u64)?;
        self.slot = 1 - self.slot;
        self.file.sync_data()
    }

    /// Notes all that is sent, the latest of it, on a thread that ends with the sender, and by a
    /// fault reports to `faults`.
    ///
    /// # Errors
    /// The system's, if it cannot create a thread.
    pub(super) fn keep(
        mut self,
        failed: impl Fn(String) + Send + 'static,
        faults: &Sender<Fault>,
    ) -> io::Result<Sender<Seen>> {
        let (sender, received) = channel::<Seen>();
        supervise::spawn("cluster's memory", faults, move || {
            let mut has_failed = false;
            while let Ok(seen) = received.recv() {
                let seen = received.try_iter().last().unwrap_or(seen);
                let Err(error) = self.note(&seen) else {
                    has_failed = false;
                    continue;
                };
                if !std::mem::replace(&mut has_failed, true) {
                    failed(format!(
                        "cluster: {} cannot be written: {error}; after a restart this gateway does not notice that \
                         the store went back",
                        self.path.display()
                    ));
                }
            }
        })?;
        Ok(sender)
    }
}

#[cfg(test)]
mod tests {
    use convoy_cluster::StoreFault;

    use super::*;

    fn seen(revision: u64) -> Seen {
        Seen { store: Some(7), revision, next_iv: revision * 10, fault: None }
    }

    #[test]
    fn the_latest_is_read_and_an_interrupted_write_costs_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("convoy/cluster-west-a");
        let (mut memory, first) = StoreMemory::open(&path).expect("made");
        assert_eq!(first, Seen::default());
        for revision in 1..=3 {
            memory.note(&seen(revision)).expect("written");
            assert_eq!(StoreMemory::open(&path).expect("read").1, seen(revision));
        }
        let (memory, _) = StoreMemory::open(&path).expect("read");
        memory.file.write_all_at(b"{\"store\":7,\"revis", (memory.slot * SLOT) as u64).expect("written");
        assert_eq!(StoreMemory::open(&path).expect("read").1, seen(3));
    }

    #[test]
    fn a_fault_is_the_latest_whatever_the_revision() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory");
        let (mut memory, _) = StoreMemory::open(&path).expect("made");
        let fault = Some(StoreFault::WentBack { from: 9, to: 1 });
        memory.note(&Seen { fault, ..seen(9) }).expect("written");
        memory.note(&seen(9)).expect("written");
        assert_eq!(StoreMemory::open(&path).expect("read").1.fault, fault);
    }

    #[test]
    fn a_file_with_something_else_and_a_fifo_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory");
        std::fs::write(&path, "a shopping list").expect("written");
        assert!(StoreMemory::open(&path).err().expect("refused").to_string().contains("no record"));
        let fifo = folder.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert!(StoreMemory::open(&fifo).err().expect("refused").to_string().contains("regular"));
    }
}
