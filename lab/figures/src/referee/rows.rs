//! The policies that are compared, each with its options.

use convoy_scheduler::FullQueue;
use convoy_sim::Platform;

/// A policy with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// Unique.
    pub(super) name: &'static str,
    pub(super) kind: RowKind,
    policy: &'static str,
    full_queue: FullQueue,
    credits: Option<usize>,
    ageing: Option<usize>,
}

/// What a row is, and hence what it is compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// Compared in everything.
    Main,
    /// The baselines: compared with disturbances as well.
    Simple,
    /// Compared while packets always wait.
    Other,
}

/// The rule over the whole window, of which each claim speaks.
pub(super) const CANDIDATE: &str = "sufferage";
/// The rule of the paper, which is the gateway's default.
pub(super) const PUBLISHED: &str = "finishing-time";
/// So many others may pass a multi-packet where none is to age.
const NEVER: Option<usize> = Some(1_000_000);

const fn row(name: &'static str, policy: &'static str) -> Row {
    Row { name, kind: RowKind::Other, policy, full_queue: FullQueue::Wait, credits: None, ageing: None }
}

const fn main(row: Row) -> Row {
    Row { kind: RowKind::Main, ..row }
}

const fn simple(name: &'static str) -> Row {
    Row { kind: RowKind::Simple, ..row(name, name) }
}

const fn with_room_only(row: Row) -> Row {
    Row { full_queue: FullQueue::Skip, ..row }
}

const fn with_credits(row: Row) -> Row {
    Row { credits: Some(4), ..row }
}

const fn ageing(row: Row, ageing: Option<usize>) -> Row {
    Row { ageing, ..row }
}

/// All of them. Those that are not said to take engines with room only wait for room.
pub(super) const ROWS: [Row; 40] = [
    main(row(CANDIDATE, "sufferage")),
    main(with_credits(row("sufferage, 4 credits", "sufferage"))),
    ageing(row("sufferage, passed by 32 at most", "sufferage"), Some(32)),
    ageing(row("sufferage, passed by 8 at most", "sufferage"), Some(8)),
    main(ageing(row("sufferage, no ageing", "sufferage"), NEVER)),
    with_room_only(row("sufferage, room only", "sufferage")),
    with_credits(with_room_only(row("sufferage, room only, 4 credits", "sufferage"))),
    main(row(PUBLISHED, "finishing-time")),
    main(with_credits(row("finishing-time, 4 credits", "finishing-time"))),
    with_room_only(row("finishing-time, room only", "finishing-time")),
    main(ageing(row("finishing-time, overtake", "overtake"), NEVER)),
    simple("cpu-only"),
    simple("round-robin"),
    simple("packet-size"),
    simple("first-capable"),
    simple("least-loaded"),
    main(row("min-min", "min-min")),
    main(with_credits(row("min-min, 4 credits", "min-min"))),
    with_room_only(row("min-min, room only", "min-min")),
    row("max-min", "max-min"),
    with_room_only(row("max-min, room only", "max-min")),
    row("met", "met"),
    with_room_only(row("met, room only", "met")),
    row("olb", "olb"),
    with_room_only(row("olb, room only", "olb")),
    row("kpb", "kpb"),
    with_room_only(row("kpb, room only", "kpb")),
    row("jsq", "jsq"),
    with_room_only(row("jsq, room only", "jsq")),
    row("jsq-2", "jsq-2"),
    with_room_only(row("jsq-2, room only", "jsq-2")),
    row("sed", "sed"),
    with_room_only(row("sed, room only", "sed")),
    row("whittle", "whittle"),
    main(with_room_only(row("whittle, room only", "whittle"))),
    main(row("late-binding", "late-binding")),
    row("prequal", "prequal"),
    main(with_room_only(row("prequal, room only", "prequal"))),
    row("nba", "nba"),
    with_room_only(row("nba, room only", "nba")),
];

impl Row {
    /// The platform with this policy.
    pub(super) fn on(&self, platform: &Platform) -> Platform {
        let mut platform = platform.clone();
        let scheduler = &mut platform.scheduler;
        self.policy.clone_into(&mut scheduler.policy);
        self.full_queue.name().clone_into(&mut scheduler.full_queue);
        scheduler.credits = self.credits;
        scheduler.ageing = self.ageing;
        platform
    }
}

/// The row of this name.
pub(super) fn by_name(name: &str) -> Row {
    ROWS.into_iter().find(|row| row.name == name).expect("only names of rows are asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_policy_and_rival_is_a_row() {
        let mut names = ROWS.map(|row| row.name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
        let policies = convoy_scheduler::SchedulingPolicy::ALL.map(convoy_scheduler::SchedulingPolicy::name);
        let rivals = convoy_rivals::ALL.map(|rival| rival.name);
        for policy in policies.iter().chain(&rivals) {
            assert!(ROWS.iter().any(|row| row.policy == *policy), "{policy}");
        }
    }
}
