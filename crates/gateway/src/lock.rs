//! One gateway for each control socket: a lock that is taken before anything else is touched.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A gateway runs.
    #[error(
        "another gateway{} runs with the control socket {}; stop it, or configure another control socket and device for this \
         in its configuration", by(.holder), .control.display()
    )]
    Taken {
        /// The control socket of both.
        control: PathBuf,
        /// The other's process, if it says so.
        holder: Option<u32>,
    },
    /// The lock's file cannot be had.
    #[error("lock {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn by(holder: &Option<u32>) -> String {
    holder.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// Held for as long as this lives. The file stays: to remove it would let two gateways hold one each.
#[derive(Debug)]
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes the lock beside a control socket.
    ///
    /// # Errors
    /// [`LockError::Taken`] if another gateway has it.
    pub fn take(control: &Path) -> Result<Self, LockError> {
        let mut name = control.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let failed = |source| LockError::Io { path: path.clone(), source };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                // For another's message alone: a full disk is no reason not to start.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                Ok(Self(file))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // For the message alone.
                let _ = file.read_to_string(&mut holder);
                Err(LockError::Taken { control: control.to_owned(), holder: holder.trim().parse().ok() })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_gateway_is_refused_and_told_of_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let control = folder.path().join("new").join("control.sock");
        let lock = Lock::take(&control).expect("nobody has it");
        let error = Lock::take(&control).expect_err("taken").to_string();
        let process = std::process::id();
        assert!(error.starts_with(&format!("another gateway (process {process}) runs")), "{error}");
        drop(lock);
        Lock::take(&control).expect("free again");
    }
}
