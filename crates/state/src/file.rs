//! The state file on disk: two copies of the same records, each with its checksum.
//!
//! Both copies are written, one after the other, before a number is used, so an interrupted write
//! or a bad sector costs at most one of them. The file has its full size from the start and is
//! written in place through one descriptor: that needs no privileges, no directory and no free
//! space.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::StateError;

/// The identity of a record, which reveals nothing of its key.
pub(super) type Fingerprint = [u8; 16];

/// The capacity: three records for each tunnel whose cipher counts, two for others. That is 10,000
/// tunnels with four keys each, one after the other, as a key that was ever in use keeps its
/// records.
pub(super) const CAPACITY: usize = 1 << 17;
/// From the start of one copy to that of the other, in bytes.
const COPY_BYTES: usize = 4 << 20;
const MAGIC: [u8; 8] = *b"convoyst";
const VERSION: u32 = 2;
const SALT_BYTES: usize = 32;
const DIGEST_BYTES: usize = 32;
/// Magic, version, number of records, generation, salt; then the records and the checksum of
/// everything before it.
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + SALT_BYTES;
const RECORD_BYTES: usize = 16 + 8;
const _: () = assert!(HEADER_BYTES + CAPACITY * RECORD_BYTES + DIGEST_BYTES <= COPY_BYTES);

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Records {
    /// Keys the fingerprints, so that an attacker cannot test guesses of a key by them without the
    /// file, or compare two files.
    pub(super) salt: [u8; SALT_BYTES],
    /// The mark of each fingerprint: the highest number that may have been used.
    pub(super) marks: Vec<(Fingerprint, u64)>,
}

/// Why a copy cannot be read.
#[derive(Debug, PartialEq, Eq)]
enum Unreadable {
    Damaged,
    OtherVersion(u32),
}

/// An open state file, locked against other gateways.
pub(super) struct StateFile {
    file: File,
    generation: u64,
    bytes: Vec<u8>,
}

impl StateFile {
    /// Opens the file and reads its records.
    ///
    /// # Errors
    /// [`StateError`]: [`StateError::Absent`] if there is none, otherwise what is wrong with it.
    pub(super) fn open(path: &Path) -> Result<(Self, Records), StateError> {
        // Without blocking if it is a FIFO.
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = opened.map_err(|source| match source.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => StateError::Absent(path.to_owned()),
            _ => cannot(path, "opened", source),
        })?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Err(cannot(path, "read", io::Error::other("it is not a regular file")));
        }
        lock(&file, path)?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).map_err(|source| cannot(path, "read", source))?;
        let copies = match bytes.split_at_checked(COPY_BYTES) {
            Some((first, second)) if second.len() == COPY_BYTES => [decode(first), decode(second)],
            // Another format may be shorter.
            _ => [decode(&bytes).and(Err(Unreadable::Damaged)), Err(Unreadable::Damaged)],
        };
        let (generation, records) = newest(copies, path)?;
        Ok((Self { file, generation, bytes: Vec::new() }, records))
    }

    /// Creates the file with these records, and its folder if necessary.
    ///
    /// # Errors
    /// [`StateError::Cannot`] says what the system refused.
    pub(super) fn create(path: &Path, records: &Records) -> Result<Self, StateError> {
        let refused = |source| cannot(path, "created", source);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
        // Under a temporary, unpredictable name until it is complete: an existing file is never
        // half written, and no planted link is followed. It is removed on failure.
        let unfinished = tempfile::Builder::new().prefix(".state-").tempfile_in(folder).map_err(refused)?;
        let mut file = unfinished.as_file().try_clone().map_err(refused)?;
        lock(&file, path)?;
        file.write_all(&vec![0; 2 * COPY_BYTES]).map_err(refused)?;
        let mut made = Self { file, generation: 0, bytes: Vec::new() };
        made.write_through(records).map_err(refused)?;
        made.file.sync_all().map_err(refused)?;
        // Fails if another gateway was faster.
        unfinished.persist_noclobber(path).map_err(|error| refused(error.error))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(refused)?;
        Ok(made)
    }

    /// Writes both copies and returns when they are on the disk.
    ///
    /// # Errors
    /// The system's; the records may or may not be in the file then.
    pub(super) fn write_through(&mut self, records: &Records) -> io::Result<()> {
        self.write_second(records)?;
        self.file.sync_data()?;
        self.file.write_all_at(&self.bytes, 0)?;
        self.file.sync_data()
    }

    /// Writes the second copy and leaves it to the kernel when that reaches the disk: it survives
    /// the end of this process at once, and a power cut after about half a minute. The first copy
    /// stays as last written through.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write_second(&mut self, records: &Records) -> io::Result<()> {
        self.generation += 1;
        encode(records, self.generation, &mut self.bytes);
        self.file.write_all_at(&self.bytes, COPY_BYTES as u64)
    }
}

fn cannot(path: &Path, done: &'static str, source: io::Error) -> StateError {
    StateError::Cannot { path: path.to_owned(), done, source }
}

fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StateError::Taken(path.to_owned()),
        TryLockError::Error(source) => cannot(path, "locked", source),
    })
}

/// The newer valid one of two copies.
fn newest(
    copies: [Result<(u64, Records), Unreadable>; 2],
    path: &Path,
) -> Result<(u64, Records), StateError> {
    match copies {
        [Ok(first), Ok(second)] => Ok(if first.0 > second.0 { first } else { second }),
        [Ok(whole), Err(_)] | [Err(_), Ok(whole)] => {
            tracing::warn!(
                "state file {}: one of its two copies is incomplete, as after a power cut; the other copy is used",
                path.display()
            );
            Ok(whole)
        }
        [Err(Unreadable::OtherVersion(version)), _] | [_, Err(Unreadable::OtherVersion(version))] => {
            Err(StateError::Version { path: path.to_owned(), version, known: VERSION })
        }
        [Err(_), Err(_)] => Err(StateError::Damaged(path.to_owned())),
    }
}

fn encode(records: &Records, generation: u64, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((records.marks.len() as u32).to_le_bytes());
    bytes.extend(generation.to_le_bytes());
    bytes.extend(records.salt);
    for (fingerprint, mark) in &records.marks {
        bytes.extend(fingerprint);
        bytes.extend(mark.to_le_bytes());
    }
    let digest = Sha256::digest(&*bytes);
    bytes.extend(digest);
}

fn decode(bytes: &[u8]) -> Result<(u64, Records), Unreadable> {
    let mut rest = bytes;
    if take::<8>(&mut rest)? != MAGIC {
        return Err(Unreadable::Damaged);
    }
    let version = u32::from_le_bytes(take(&mut rest)?);
    if version != VERSION {
        return Err(Unreadable::OtherVersion(version));
    }
    let count = u32::from_le_bytes(take(&mut rest)?) as usize;
    let generation = u64::from_le_bytes(take(&mut rest)?);
    let salt = take(&mut rest)?;
    if count > CAPACITY {
        return Err(Unreadable::Damaged);
    }
    let mut marks = Vec::with_capacity(count);
    for _ in 0..count {
        let fingerprint = take(&mut rest)?;
        marks.push((fingerprint, u64::from_le_bytes(take(&mut rest)?)));
    }
    let covered = bytes.len() - rest.len();
    let digest: [u8; DIGEST_BYTES] = take(&mut rest)?;
    if Sha256::digest(&bytes[..covered])[..] != digest {
        return Err(Unreadable::Damaged);
    }
    Ok((generation, Records { salt, marks }))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let (taken, left) = rest.split_first_chunk::<N>().ok_or(Unreadable::Damaged)?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn records(marks: &[u64]) -> Records {
        let marks = marks.iter().enumerate().map(|(at, mark)| ([at as u8; 16], *mark)).collect();
        Records { salt: [7; SALT_BYTES], marks }
    }

    fn made() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("state");
        drop(StateFile::create(&path, &records(&[1, 2])).expect("made"));
        (folder, path)
    }

    /// Changes one byte of the file, `at` bytes from its start.
    fn spoil(path: &Path, at: u64) {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("there");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("long enough");
        file.write_all_at(&[byte[0] ^ 1], at).expect("written");
    }

    #[test]
    fn what_was_written_through_is_read_again() {
        let (_folder, path) = made();
        let (mut file, found) = StateFile::open(&path).expect("whole");
        assert_eq!(found, records(&[1, 2]));
        file.write_through(&records(&[3, 4, 5])).expect("written");
        file.write_second(&records(&[3, 4, 6])).expect("written");
        drop(file);
        assert_eq!(StateFile::open(&path).expect("whole").1, records(&[3, 4, 6]));
    }

    #[test]
    fn any_one_byte_that_went_bad_leaves_the_marks_that_were_written_through() {
        let (_folder, path) = made();
        let used = (HEADER_BYTES + 2 * RECORD_BYTES + DIGEST_BYTES) as u64;
        for copy in [0, COPY_BYTES as u64] {
            for at in 0..used {
                spoil(&path, copy + at);
                assert_eq!(StateFile::open(&path).expect("the other copy").1, records(&[1, 2]), "byte {at}");
                spoil(&path, copy + at);
            }
        }
    }

    #[test]
    fn a_write_that_was_cut_short_anywhere_leaves_the_marks_of_before() {
        let (_folder, path) = made();
        let before = std::fs::read(&path).expect("read");
        let mut next = Vec::new();
        encode(&records(&[9, 9]), 2, &mut next);
        for cut in 0..next.len() {
            let mut torn = before.clone();
            torn[COPY_BYTES..COPY_BYTES + cut].copy_from_slice(&next[..cut]);
            std::fs::write(&path, &torn).expect("written");
            assert_eq!(StateFile::open(&path).expect("the first copy").1, records(&[1, 2]), "cut at {cut}");
        }
    }

    #[test]
    fn a_file_of_which_neither_copy_is_whole_is_refused_and_says_what_to_do() {
        let (_folder, path) = made();
        spoil(&path, 60);
        spoil(&path, COPY_BYTES as u64 + 60);
        let error = StateFile::open(&path).err().expect("refused").to_string();
        assert!(error.contains("is damaged") && error.contains("new keys"), "{error}");
        std::fs::write(&path, "short").expect("written");
        assert!(matches!(StateFile::open(&path), Err(StateError::Damaged(_))));
    }

    #[test]
    fn a_file_of_another_version_is_not_taken_for_damaged() {
        let (_folder, path) = made();
        for copy in [0, COPY_BYTES as u64] {
            spoil(&path, copy + 8);
        }
        let error = StateFile::open(&path).err().expect("refused").to_string();
        assert!(error.contains("format 3") && error.contains("format 2"), "{error}");
        let mut short = std::fs::read(&path).expect("there");
        short.truncate(COPY_BYTES / 4);
        std::fs::write(&path, short).expect("written");
        let error = StateFile::open(&path).err().expect("refused").to_string();
        assert!(error.contains("format 3"), "{error}");
    }

    #[test]
    fn a_second_gateway_does_not_get_the_file_of_a_living_one() {
        let (_folder, path) = made();
        let living = StateFile::open(&path).expect("whole");
        assert!(matches!(StateFile::open(&path), Err(StateError::Taken(_))));
        drop(living);
        StateFile::open(&path).expect("free again");
    }

    #[test]
    fn a_file_that_another_gateway_made_meanwhile_is_not_replaced() {
        let (_folder, path) = made();
        assert!(matches!(StateFile::create(&path, &records(&[])), Err(StateError::Cannot { .. })));
        assert_eq!(StateFile::open(&path).expect("whole").1, records(&[1, 2]));
    }

    #[test]
    fn a_link_under_the_name_that_the_unfinished_file_once_had_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, victim) = (folder.path().join("state"), folder.path().join("victim"));
        std::fs::write(&victim, "untouched").expect("written");
        std::os::unix::fs::symlink(&victim, folder.path().join("state.new")).expect("made");
        drop(StateFile::create(&path, &records(&[1])).expect("made"));
        assert_eq!(std::fs::read(&victim).expect("there"), b"untouched");
        assert_eq!(StateFile::open(&path).expect("whole").1, records(&[1]));
    }

    #[test]
    fn a_file_that_could_not_be_made_leaves_nothing_behind() {
        let (_folder, path) = made();
        // The name is taken, which is found at the very end; a full disk ends it earlier.
        assert!(StateFile::create(&path, &records(&[])).is_err());
        let names = |folder: &Path| std::fs::read_dir(folder).expect("there").count();
        assert_eq!(names(path.parent().expect("a folder")), 1);
    }

    #[test]
    fn fifo_is_refused_as_state_file_without_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        let error = StateFile::open(&path).err().expect("refused").to_string();
        assert!(error.contains("not a regular file"), "{error}");
    }

    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, path) = made();
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
