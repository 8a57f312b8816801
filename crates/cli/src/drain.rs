//! `convoy drain`: has other gateways of the cluster lead, before maintenance.

use std::path::Path;
use std::time::{Duration, Instant};

use convoy_gateway::control::{Answer, Ask};
use convoy_report::snapshot::{ClusterRow, TunnelSelection};

use crate::Failure;
use crate::args::DrainArgs;
use crate::control::ask;

/// The time between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(200);

/// Why a gateway is not drained.
const ALONE: &str =
    "no other gateway may lead, so that all traffic would stop; --force drains this one nevertheless";

pub(crate) fn run(args: &DrainArgs) -> Result<(), Failure> {
    if !args.undo && !args.force {
        let cluster = cluster(&args.control)?;
        if is_alone(&cluster) {
            return Err(Failure::Failed(ALONE.to_owned()));
        }
    }
    match ask(&args.control, Ask::Drain(!args.undo))? {
        Answer::Good => {}
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        other => return Err(Failure::Failed(format!("the gateway gave an unexpected answer: {other:?}"))),
    }
    if args.undo {
        println!("this gateway may lead again");
        return Ok(());
    }
    let until = Instant::now() + Duration::from_secs_f64(args.timeout);
    loop {
        let cluster = cluster(&args.control)?;
        if cluster.is_draining && is_over(&cluster) {
            for group in &cluster.groups {
                println!("group {}: {}", group.name, group.leader.as_deref().unwrap_or("no leader"));
            }
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Failure::Failed(remainder(&cluster)));
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether another member leads each group; where there is no other, whether this one does not.
fn is_over(cluster: &ClusterRow) -> bool {
    let is_alone = is_alone(cluster);
    cluster.groups.iter().all(|group| match &group.leader {
        Some(leader) => *leader != cluster.member && !group.is_led,
        None => is_alone,
    })
}

/// Whether no other member may lead.
fn is_alone(cluster: &ClusterRow) -> bool {
    !cluster.members.iter().any(|other| other.name != cluster.member && !other.is_draining)
}

fn remainder(cluster: &ClusterRow) -> String {
    let is_left = |leader: &Option<String>| leader.as_ref().is_none_or(|leader| *leader == cluster.member);
    let left = cluster.groups.iter().filter(|group| is_left(&group.leader));
    let left: Vec<&str> = left.map(|group| group.name.as_str()).collect();
    format!(
        "no other gateway leads {} yet; `convoy show cluster` says more, and `convoy drain --undo` has this gateway lead again",
        left.join(", ")
    )
}

fn cluster(control: &Path) -> Result<ClusterRow, Failure> {
    let row = match ask(control, Ask::Tunnel(TunnelSelection::NONE))? {
        Answer::Snapshot(snapshot) => snapshot.cluster,
        Answer::Refused(reason) => return Err(Failure::Failed(reason)),
        _ => None,
    };
    row.ok_or_else(|| {
        Failure::Failed("this gateway is in no cluster: its configuration has no [cluster]".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{GroupRow, MemberRow};

    use super::*;

    #[test]
    fn a_drain_is_over_when_others_lead_or_there_are_none() {
        let member =
            |name: &str, is_draining| MemberRow { name: name.into(), is_draining, ..MemberRow::default() };
        let group = |leader: Option<&str>| GroupRow { leader: leader.map(Into::into), ..GroupRow::default() };
        let with = |members: Vec<MemberRow>, leaders: [Option<&str>; 2]| {
            is_over(&ClusterRow {
                member: "a".into(),
                members,
                groups: leaders.map(group).into(),
                ..ClusterRow::default()
            })
        };
        let both = || vec![member("a", true), member("b", false)];
        assert!(with(both(), [Some("b"), Some("b")]));
        assert!(!with(both(), [Some("b"), Some("a")]));
        assert!(!with(both(), [Some("b"), None]), "it has no leader yet");
        assert!(with(vec![member("a", true)], [None, None]), "there is no other");
        assert!(with(vec![member("a", true), member("b", true)], [None, None]));
    }
}
