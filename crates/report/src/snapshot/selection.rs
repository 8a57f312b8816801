//! Which tunnels a snapshot is asked for.

use serde::{Deserialize, Serialize};

use super::{PolicyNote, SaNote, Snapshot};

/// The tunnels of one name, and those whose connection of charon's has that name, or no tunnels. A
/// snapshot of these alone is some kilobytes long where that of ten thousand tunnels has megabytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelSelection {
    /// The tunnel's name, or charon's connection or child of it; nothing for no tunnels.
    pub name: Option<String>,
}

impl TunnelSelection {
    /// No tunnels.
    pub const NONE: Self = Self { name: None };

    /// Whether it is of no tunnels.
    pub fn is_of_none(&self) -> bool {
        self.name.is_none()
    }

    /// Whether a tunnel's name is selected by the name that is wanted.
    pub fn selects(wanted: &str, name: &str) -> bool {
        let rest = name.strip_prefix(wanted).filter(|_| !wanted.is_empty());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether a tunnel's name is selected.
    pub fn has(&self, name: &str) -> bool {
        self.name.as_deref().is_some_and(|wanted| Self::selects(wanted, name))
    }

    /// Whether an SA is one of them.
    pub fn has_sa(&self, note: &SaNote) -> bool {
        self.has(&note.tunnel) || self.has(&note.child)
    }

    /// Whether a policy is of one of them.
    pub fn has_policy(&self, note: &PolicyNote) -> bool {
        self.has(&note.view.policy.name)
            || self.has(&note.child)
            || note.others.iter().any(|other| self.has(other))
    }

    /// Leaves no other tunnels in what a gateway adds to its workers' parts. The SAs, which are
    /// selected already, may be of a tunnel with another name than charon's connection.
    pub fn narrow(&self, snapshot: &mut Snapshot) {
        let Snapshot { sas, configured, names, monitors, .. } = snapshot;
        let is_shown = |name: &str| self.has(name) || sas.iter().any(|sa| sa.tunnel == name);
        configured.retain(|row| is_shown(&row.name));
        names.retain(|row| is_shown(&row.tunnel));
        monitors.retain(|row| is_shown(&row.tunnel));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_stands_for_its_children_and_no_name_for_a_longer_one() {
        let site = TunnelSelection { name: Some("site".to_owned()) };
        let names = ["site", "site/net", "site-2", "sit", ""];
        assert_eq!(names.map(|name| site.has(name)), [true, true, false, false, false]);
        for none in [TunnelSelection::NONE, TunnelSelection { name: Some(String::new()) }] {
            assert_eq!(names.map(|name| none.has(name)), [false; 5]);
        }
    }
}
