//! What members say of themselves, and who of them tries first to lead a group.

use std::cmp::Reverse;

use sha2::{Digest, Sha256};

use crate::store::LeaseId;

/// The version of the values that this crate writes.
const VERSION: &str = "1";

/// What a member says of itself: the value of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// A member with a higher one tries before others.
    pub(crate) priority: u32,
    pub(crate) is_draining: bool,
    pub(crate) lease: LeaseId,
}

impl Registration {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Self { priority, is_draining, lease } = self;
        let state = if *is_draining { "draining" } else { "serving" };
        format!("{VERSION} {priority} {state} {lease:x}").into_bytes()
    }

    /// `None` if another version wrote it.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let words: Vec<&str> = std::str::from_utf8(value).ok()?.split(' ').collect();
        let [VERSION, priority, state, lease] = words[..] else { return None };
        let is_draining = match state {
            "draining" => true,
            "serving" => false,
            _ => return None,
        };
        let lease = LeaseId::from_str_radix(lease, 16).ok()?;
        Some(Self { priority: priority.parse().ok()?, is_draining, lease })
    }
}

/// The value of a leader's key: its name and its lease.
pub(crate) fn leader(name: &str, lease: LeaseId) -> Vec<u8> {
    format!("{name} {lease:x}").into_bytes()
}

/// The name in the value of a leader's key.
pub(crate) fn leader_name(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// A member's place among those that may lead a group: by priority, and then by rendezvous hashing,
/// so that groups are spread and only those of a member that is gone move.
pub(crate) fn rank<'a>(
    group: &str,
    name: &str,
    priority: u32,
    others: impl Iterator<Item = (&'a str, u32)>,
) -> usize {
    let place =
        |name: &str, priority: u32| (Reverse(priority), Reverse(weight(group, name)), name.to_owned());
    let own = place(name, priority);
    others.filter(|(other, priority)| *other != name && place(other, *priority) < own).count()
}

/// The weight of a member for a group.
fn weight(group: &str, name: &str) -> [u8; 32] {
    // A length before the name: no two pairs of names are one text.
    let length = (name.len() as u64).to_be_bytes();
    Sha256::new().chain_update(length).chain_update(name).chain_update(group).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: [&str; 3] = ["a", "b", "c"];

    fn first(group: &str, members: &[&str]) -> String {
        let is_first = |name: &&&str| rank(group, name, 1, members.iter().map(|other| (*other, 1))) == 0;
        members.iter().find(is_first).expect("one is first").to_string()
    }

    #[test]
    fn each_member_has_a_rank_of_its_own() {
        for group in 0..50 {
            let of = |name| rank(&format!("g{group}"), name, 1, MEMBERS.into_iter().map(|other| (other, 1)));
            let mut ranks = MEMBERS.map(of);
            ranks.sort_unstable();
            assert_eq!(ranks, [0, 1, 2]);
        }
    }

    #[test]
    fn a_higher_priority_comes_first() {
        for group in 0..50 {
            assert_eq!(rank(&format!("g{group}"), "a", 2, [("b", 1), ("c", 1)].into_iter()), 0);
            assert_eq!(rank(&format!("g{group}"), "a", 0, [("b", 1), ("c", 1)].into_iter()), 2);
        }
    }

    #[test]
    fn groups_are_spread_and_only_those_of_a_lost_member_move() {
        let groups: Vec<String> = (0..300).map(|group| format!("g{group}")).collect();
        for name in MEMBERS {
            let led = groups.iter().filter(|group| first(group, &MEMBERS) == name).count();
            assert!((70..130).contains(&led), "{name} is first of {led} groups");
        }
        for group in &groups {
            let before = first(group, &MEMBERS);
            assert!(before == "c" || first(group, &MEMBERS[..2]) == before);
        }
    }

    #[test]
    fn a_registration_is_read_as_it_was_written_and_another_version_is_not() {
        let registration = Registration { priority: 7, is_draining: true, lease: 0x1234 };
        assert_eq!(Registration::decode(&registration.encode()), Some(registration));
        for value in ["2 7 serving 1", "1 7 serving", "1 x serving 1", "1 7 other 1", "1 7 serving 1 1", ""] {
            assert_eq!(Registration::decode(value.as_bytes()), None, "{value}");
        }
    }
}
