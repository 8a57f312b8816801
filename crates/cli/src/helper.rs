//! The processes that `convoy run` starts: `convoy helper`, which has privileges, and
//! `convoy cluster-agent`.

use convoy_gateway::cluster;
use convoy_gateway::helper::{self, Duties};

use crate::Failure;
use crate::args::HelperArgs;

pub(crate) fn run(args: &HelperArgs) -> Result<(), Failure> {
    helper::serve(Duties { config: &args.config, sockets: &args.socket, addresses: &args.address })
        .map_err(|error| Failure::Failed(format!("helper: {error}")))
}

/// `convoy cluster-agent`: the process of a cluster's member that `convoy run` starts.
pub(crate) fn run_agent() -> Result<(), Failure> {
    cluster::serve().map_err(|error| Failure::Failed(format!("the cluster's agent: {error}")))
}
