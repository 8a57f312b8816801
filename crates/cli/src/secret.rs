//! Files that only their owner may read.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens an empty file that only its owner may read, also if it existed and others could.
///
/// # Errors
/// The system's.
pub(crate) fn secret_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_empty_and_closed_to_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("esp_sa");
        std::fs::write(&path, "older").expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("it is ours");
        let file = secret_file(&path).expect("it is ours");
        let metadata = file.metadata().expect("it is open");
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, 0));
    }
}
