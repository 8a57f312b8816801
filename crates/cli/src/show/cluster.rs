//! `convoy show cluster`: members and groups of tunnels.

use convoy_config::counted;
use convoy_report::snapshot::{ClusterRow, GroupRow, MemberRow};

use super::view::{ShownSnapshot, WIDTH};
use crate::Failure;
use crate::table::{folded, number, word, words};

/// What is said of a gateway of which a part hangs.
const HUNG: &str = "a part of it has not answered for a third of the lease; it leads nothing until all do";

/// The cluster of a gateway.
///
/// # Errors
/// That it is in none.
pub(super) fn row<'a>(view: &ShownSnapshot<'a>) -> Result<&'a ClusterRow, Failure> {
    let none =
        || Failure::Failed("this gateway is in no cluster: its configuration has no [cluster]".to_owned());
    view.now.cluster.as_ref().ok_or_else(none)
}

/// Its members and its groups.
pub(super) fn text(view: &ShownSnapshot<'_>) -> Result<String, Failure> {
    let cluster = row(view)?;
    Ok([head(cluster), members(view, cluster), groups(view, cluster)].join("\n"))
}

fn head(cluster: &ClusterRow) -> String {
    let ClusterRow { name, member, .. } = cluster;
    let state = if cluster.is_draining { ", which leads nothing until `convoy drain --undo`" } else { "" };
    let lease = match cluster.lease_left_s {
        left if left > 0.0 => format!("{left:.1} s left"),
        _ => "ended; this gateway sends and delivers nothing".to_owned(),
    };
    let store = match &cluster.store_error {
        _ if cluster.store_fault.is_some() => {
            format!("not trusted: {}", cluster.store_fault.as_deref().unwrap_or_default())
        }
        _ if cluster.is_store_reached => "can be reached".to_owned(),
        Some(reason) => format!("cannot be reached: {reason}"),
        None => "not reached yet".to_owned(),
    };
    let line = |label: &str, text: &str| folded(&format!("{label:8}"), text, WIDTH.into());
    let mut lines = vec![
        line("cluster", &format!("{name}, here {member}{state}")),
        line("lease", &lease),
        line("store", &store),
    ];
    lines.extend(cluster.store_warning.as_ref().map(|warning| line("", warning)));
    lines.extend((!cluster.is_alive).then(|| line("gateway", HUNG)));
    lines.extend(cluster.groups.iter().filter(|group| group.locked > 0).map(|group| {
        let what = format!(
            "{}: this gateway does not lead, as it lacks the key of {}",
            group.name,
            counted(group.locked, "SA")
        );
        line("group", &what)
    }));
    lines.push(String::new());
    lines.join("\n")
}

fn members(view: &ShownSnapshot<'_>, cluster: &ClusterRow) -> String {
    let state = |member: &MemberRow| if member.is_draining { "draining" } else { "serving" }.to_owned();
    let leads = |member: &MemberRow| match &member.leads[..] {
        [] => "nothing".to_owned(),
        groups => groups.join(", "),
    };
    let columns = [
        words("member", |member: &MemberRow| member.name.clone()),
        word("state", state),
        number("priority", |member: &MemberRow| member.priority.to_string()),
        words("leads", leads),
    ];
    view.table(&columns, &cluster.members)
}

fn groups(view: &ShownSnapshot<'_>, cluster: &ClusterRow) -> String {
    let led = |group: &GroupRow, value: Option<u64>| match value {
        Some(value) if group.is_led => view.count(value),
        _ => "-".to_owned(),
    };
    let columns = [
        words("group", |group: &GroupRow| group.name.clone()),
        words("leader", |group: &GroupRow| group.leader.clone().unwrap_or_else(|| "none".to_owned())),
        number("SAs", |group: &GroupRow| led(group, Some(group.sas))),
        number("waiting", |group: &GroupRow| led(group, Some(group.waiting))),
        number("to send", |group: &GroupRow| led(group, group.least_to_send)),
        number("to accept", |group: &GroupRow| led(group, group.least_to_accept)),
        words("addresses", |group: &GroupRow| group.addresses.join(", ")),
    ];
    view.table(&columns, &cluster.groups)
}
