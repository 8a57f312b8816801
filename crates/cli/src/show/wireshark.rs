//! `convoy show sa --wireshark`: writes the keys of all SAs for Wireshark.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use convoy_gateway::control::{Answer, Ask};

use crate::Failure;
use crate::args::{ShowArgs, Shown};
use crate::control::ask;

pub(super) fn write(args: &ShowArgs, file: &Path) -> Result<(), Failure> {
    if !matches!(args.what, Some(Shown::Sa)) {
        return Err(Failure::Config("--wireshark is for `convoy show sa`".to_owned()));
    }
    let keys = match ask(&args.control, Ask::Keys)? {
        Answer::Keys(keys) => keys,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        _ => return Err(Failure::Failed("the gateway gave an unexpected answer".to_owned())),
    };
    let failed = |error| Failure::Failed(format!("cannot write {}: {error}", file.display()));
    write_secret(file, &keys).map_err(failed)?;
    eprintln!(
        "convoy: warning: {} has the keys of {} SAs: whoever reads it can decrypt and forge their packets; \
         delete it when you are done",
        file.display(),
        keys.lines().filter(|line| !line.starts_with('#')).count()
    );
    Ok(())
}

/// Writes a file that only its owner may read, before anything is in it.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_others_could_read_is_closed_to_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("esp_sa");
        std::fs::write(&path, "older and longer").expect("a file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("it is ours");
        write_secret(&path, "keys").expect("it is ours");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!((mode & 0o777, std::fs::read_to_string(&path).expect("ours")), (0o600, "keys".to_owned()));
    }
}
