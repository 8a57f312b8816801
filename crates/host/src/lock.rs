//! One gateway for each control socket: a lock that is taken before anything else is touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a killed gateway may take to release its lock.
const PATIENCE: Duration = Duration::from_secs(5);
/// The flag of a process that is exiting (the kernel's include/linux/sched.h).
const PF_EXITING: u32 = 0x4;

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A gateway runs.
    #[error(
        "another gateway{} runs with the control socket {}; stop it, or give this gateway another control \
         socket and device in its configuration", by(.holder), .control.display()
    )]
    Taken {
        /// The control socket of both.
        control: PathBuf,
        /// The other's process, if known.
        holder: Option<u32>,
    },
    /// A gateway has ended, and the system takes long to release its resources.
    #[error(
        "the gateway that used the control socket {} has ended, but its lock {} is still held; try again, or \
         find the holder with `fuser`", .control.display(), .path.display()
    )]
    Ending {
        /// The control socket.
        control: PathBuf,
        /// The lock's file.
        path: PathBuf,
    },
    /// The user who starts this gateway may not write to the folder of its control socket.
    #[error(
        "this user may not write {}: {source}; start the gateway as root, or set control in [gateway] to a path that this \
         user may write", path.display()
    )]
    Denied {
        /// The file that could not be created.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The lock's file cannot be used.
    #[error("cannot use the lock {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn by(holder: &Option<u32>) -> String {
    holder.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// Held while this lives. The file stays: removing it would let two gateways hold one each.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes the lock beside a control socket. Waits a moment for a killed gateway: the system
    /// releases its lock only after its memory.
    ///
    /// # Errors
    /// [`LockError::Taken`] if another gateway has it.
    pub fn take(control: &Path) -> Result<Self, LockError> {
        Self::take_within(control, PATIENCE)
    }

    fn take_within(control: &Path, patience: Duration) -> Result<Self, LockError> {
        let mut name = control.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let mut file = open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::PermissionDenied => LockError::Denied { path: path.clone(), source },
            _ => LockError::Io { path: path.clone(), source },
        })?;
        let until = Instant::now() + patience;
        loop {
            match file.try_lock() {
                Ok(()) => {
                    // Only for another gateway's message: a full disk is no reason not to start.
                    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                    return Ok(Self(file));
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(LockError::Io { path, source }),
            }
            let holder = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            let control = control.to_owned();
            if !holder.is_some_and(has_ended) {
                return Err(LockError::Taken { control, holder });
            }
            if Instant::now() >= until {
                return Err(LockError::Ending { control, path });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Opens or creates the lock's file; refuses a symbolic link and a FIFO.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() != 1 {
        return Err(io::Error::other("it is not a regular file with one name; remove it"));
    }
    Ok(file)
}

/// Whether a process is gone or exiting: killed, a zombie, or releasing its resources.
fn has_ended(process: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        return Path::new("/proc/self").exists();
    };
    // The name before may contain anything, also brackets; for the rest see proc_pid_stat(5).
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let flags = fields.get(6).and_then(|flags| flags.parse::<u32>().ok()).unwrap_or(0);
    let is_dead = matches!(fields.first(), Some(&("Z" | "X")));
    is_dead || flags & PF_EXITING != 0 || is_killed(process)
}

/// Whether a process has a pending signal that cannot be ignored.
fn is_killed(process: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else { return true };
    let pending = status.lines().filter_map(|line| {
        let (key, mask) = line.split_once(':')?;
        matches!(key, "SigPnd" | "ShdPnd").then(|| u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
    });
    pending.fold(0, |all, mask| all | mask) & (1 << (libc::SIGKILL - 1)) != 0
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_second_gateway_is_refused_and_reported_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path().join("new").join("control.sock");
        let lock = Lock::take(&control).expect("it is free");
        let error = Lock::take(&control).expect_err("taken").to_string();
        let process = std::process::id();
        assert!(error.starts_with(&format!("another gateway (process {process}) runs")), "{error}");
        drop(lock);
        Lock::take(&control).expect("free again");
    }

    #[test]
    fn a_gateway_that_was_killed_is_waited_for_and_not_named_as_running() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path().join("control.sock");
        let mut lock = Lock::take(&control).expect("it is free");
        let mut killed = Command::new("cat").stdin(Stdio::piped()).spawn().expect("there is a cat");
        killed.kill().expect("ours");
        lock.0.set_len(0).expect("writable");
        std::io::Seek::rewind(&mut lock.0).expect("a file");
        writeln!(lock.0, "{}", killed.id()).expect("writable");
        let error = Lock::take_within(&control, Duration::from_millis(30)).expect_err("held").to_string();
        assert!(error.contains("has ended") && !error.contains("runs"), "{error}");
        let (reported, tells) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            reported.send(()).expect("the test waits");
            Lock::take(&control).map(drop)
        });
        tells.recv().expect("it began");
        drop(lock);
        other.join().expect("no panic").expect("free in the end");
        killed.wait().expect("ours");
    }

    #[test]
    fn anyone_who_may_not_write_there_is_reported_to_be_root() {
        let error = LockError::Denied {
            path: "/run/convoy/control.sock.lock".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let reported = error.to_string();
        let what = "this user may not write /run/convoy/control.sock.lock: permission denied; start the gateway as root";
        assert!(reported.starts_with(what), "{reported}");
    }

    #[test]
    fn what_somebody_else_put_under_its_name_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (control, victim) = (folder.path().join("control.sock"), folder.path().join("victim"));
        let path = folder.path().join("control.sock.lock");
        std::fs::write(&victim, "untouched").expect("written");
        std::os::unix::fs::symlink(&victim, &path).expect("made");
        Lock::take(&control).expect_err("a symbolic link");
        std::fs::remove_file(&path).expect("there");
        std::fs::hard_link(&victim, &path).expect("made");
        Lock::take(&control).expect_err("another name of a file");
        std::fs::remove_file(&path).expect("there");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        Lock::take(&control).expect_err("a FIFO");
        assert_eq!(std::fs::read(&victim).expect("there"), b"untouched");
    }
}
