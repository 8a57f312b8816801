//! `convoy cluster`: what a service beside a gateway of a cluster waits for, and the configuration
//! that a cluster shares.

mod shared;

use std::io;
use std::time::Duration;

use convoy_gateway::control::{self, Answer, Ask};
use convoy_report::snapshot::{Snapshot, TunnelSelection};

use crate::Failure;
use crate::args::{ClusterArgs, ClusterCommand, WaitArgs};
use crate::control::why_not;

/// The time between two looks at the gateway.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn run(args: &ClusterArgs) -> Result<(), Failure> {
    match &args.command {
        ClusterCommand::Wait(args) => wait(args),
        _ => shared::run(args),
    }
}

/// `convoy cluster wait`.
fn wait(args: &WaitArgs) -> Result<(), Failure> {
    loop {
        match control::ask(&args.control, Ask::Tunnel(TunnelSelection::NONE)) {
            Ok(Answer::Snapshot(snapshot)) if leads(&snapshot) => return Ok(()),
            // A gateway that is not there, or is about to end, may come back.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Failure::Failed(why_not(&args.control, &error)));
            }
            Err(_) => {}
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether it leads a group, or need not.
fn leads(snapshot: &Snapshot) -> bool {
    snapshot.cluster.as_ref().is_none_or(|cluster| cluster.groups.iter().any(|group| group.is_led))
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{ClusterRow, GroupRow};

    use super::*;

    #[test]
    fn a_gateway_leads_if_it_leads_a_group_or_is_in_no_cluster() {
        let alone = Snapshot::default();
        assert!(leads(&alone));
        let with = |groups| Snapshot {
            cluster: Some(ClusterRow { groups, ..ClusterRow::default() }),
            ..Snapshot::default()
        };
        assert!(!leads(&with(Vec::new())));
        assert!(!leads(&with(vec![GroupRow::default()])));
        assert!(leads(&with(vec![GroupRow { is_led: true, ..GroupRow::default() }])));
    }
}
