//! `convoy helper`: the privileged process that `convoy run` starts.

use convoy_gateway::helper::{self, Duties};

use crate::Failure;
use crate::args::HelperArgs;

pub(crate) fn run(args: &HelperArgs) -> Result<(), Failure> {
    helper::serve(Duties { config: &args.config, sockets: &args.socket })
        .map_err(|error| Failure::Failed(format!("helper: {error}")))
}
