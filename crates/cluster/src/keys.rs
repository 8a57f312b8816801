//! The names of keys in the store.

use crate::fingerprint::SaFingerprint;

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub struct Keys {
    root: String,
}

/// What a key below a group's prefix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The record of an SA.
    Record(SaFingerprint),
    /// The reservation of an SA.
    Reservation(SaFingerprint),
}

impl Keys {
    /// The keys of the cluster of this name.
    pub fn new(cluster: &str) -> Self {
        Self { root: format!("/convoy/{cluster}/") }
    }

    /// The beginning of the keys of all members.
    pub fn members(&self) -> String {
        format!("{}members/", self.root)
    }

    /// The key of a member.
    pub fn member(&self, name: &str) -> String {
        format!("{}members/{name}", self.root)
    }

    /// The beginning of the keys of all leaders.
    pub fn leaders(&self) -> String {
        format!("{}leaders/", self.root)
    }

    /// The key of a group's leader.
    pub fn leader(&self, group: &str) -> String {
        format!("{}leaders/{group}", self.root)
    }

    /// The key of the configuration that all members share.
    pub fn config(&self) -> String {
        format!("{}config/current", self.root)
    }

    /// The beginning of the keys of its versions.
    pub fn config_versions(&self) -> String {
        format!("{}config/versions/", self.root)
    }

    /// The key of a version of it.
    pub fn config_version(&self, version: u64) -> String {
        format!("{}{version:08}", self.config_versions())
    }

    /// The beginning of the keys of all groups' SAs.
    pub fn groups(&self) -> String {
        format!("{}groups/", self.root)
    }

    /// The beginning of the keys of a group's SAs.
    pub fn group(&self, group: &str) -> String {
        format!("{}{group}/", self.groups())
    }

    /// The key of an SA's record.
    pub fn record(&self, group: &str, sa: SaFingerprint) -> String {
        format!("{}sas/{sa}", self.group(group))
    }

    /// The key of an SA's reservation.
    pub fn reservation(&self, group: &str, sa: SaFingerprint) -> String {
        format!("{}marks/{sa}", self.group(group))
    }

    /// What a key of a group has.
    pub(crate) fn part(&self, group: &str, key: &str) -> Option<Part> {
        let (kind, sa) = key.strip_prefix(&self.group(group))?.split_once('/')?;
        let sa = SaFingerprint(u64::from_str_radix(sa, 16).ok()?);
        match kind {
            "sas" => Some(Part::Record(sa)),
            "marks" => Some(Part::Reservation(sa)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_group_are_read_as_they_were_written() {
        let keys = Keys::new("west");
        assert_eq!(keys.record("a", SaFingerprint(0x1f)), "/convoy/west/groups/a/sas/000000000000001f");
        assert_eq!(keys.part("a", &keys.record("a", SaFingerprint(7))), Some(Part::Record(SaFingerprint(7))));
        assert_eq!(
            keys.part("a", &keys.reservation("a", SaFingerprint(u64::MAX))),
            Some(Part::Reservation(SaFingerprint(u64::MAX)))
        );
        assert_eq!(keys.part("a", &keys.reservation("ab", SaFingerprint(7))), None);
        assert_eq!(keys.part("a", "/convoy/west/groups/a/other/7"), None);
    }
}
