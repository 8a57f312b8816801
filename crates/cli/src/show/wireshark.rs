//! `convoy show sa --wireshark`: writes the keys of all SAs for Wireshark.

use std::io::Write;
use std::path::Path;

use convoy_config::counted;
use convoy_gateway::control::{Answer, Ask};

use crate::Failure;
use crate::args::{ShowArgs, Shown};
use crate::control::ask;
use crate::secret::secret_file;

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
    secret_file(file).and_then(|mut out| out.write_all(keys.as_bytes())).map_err(failed)?;
    eprintln!(
        "convoy: warning: {} has the keys of {}: anyone who reads it can decrypt and forge their packets; \
         delete it when you are done",
        file.display(),
        counted(keys.lines().filter(|line| !line.starts_with('#')).count(), "SA")
    );
    Ok(())
}
