//! `convoy helper`: the process that `convoy run` starts, which keeps some privileges.

use convoy_host::helper::{self, Duties};

use crate::Failure;
use crate::args::HelperArgs;

/// `convoy helper`: the process with privileges of a gateway.
///
/// # Errors
/// What the system refused.
pub fn run(args: &HelperArgs) -> Result<(), Failure> {
    helper::serve(Duties { config: &args.config, sockets: &args.socket, addresses: &args.address })
        .map_err(|error| Failure::Failed(format!("helper: {error}")))
}
