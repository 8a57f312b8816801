//! Which inside interfaces have a link: those with a tunnel that can send.

use std::collections::{BTreeSet, HashMap};

/// The tunnels of each interface that can send, and what was last reported of it. Interface 0,
/// which tunnels share, is not counted.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: HashMap<u16, TunnelLink>,
    /// Interfaces that may have changed since the last call of
    /// [`take_changes`](Self::take_changes).
    touched: BTreeSet<u16>,
}

#[derive(Debug, Default)]
struct TunnelLink {
    tunnels: u32,
    is_reported_up: bool,
}

impl Links {
    /// Notes that a tunnel of this interface can send from now on, or no longer.
    pub(crate) fn note(&mut self, interface: u16, can_send: bool) {
        if interface == 0 {
            return;
        }
        let link = self.links.entry(interface).or_default();
        link.tunnels = if can_send { link.tunnels + 1 } else { link.tunnels.saturating_sub(1) };
        self.touched.insert(interface);
    }

    /// Whether [`take_changes`](Self::take_changes) might return something.
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The interfaces whose link has come up or gone down since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<(u16, bool)> {
        let mut changes = Vec::new();
        for interface in std::mem::take(&mut self.touched) {
            let Some(link) = self.links.get_mut(&interface) else { continue };
            let is_up = link.tunnels > 0;
            if std::mem::replace(&mut link.is_reported_up, is_up) != is_up {
                changes.push((interface, is_up));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_up_while_any_tunnel_can_send_and_only_changes_are_reported() {
        let mut links = Links::default();
        links.note(0, true);
        assert!(!links.has_changes());
        links.note(3, true);
        links.note(3, true);
        links.note(7, true);
        assert_eq!(links.take_changes(), [(3, true), (7, true)]);
        links.note(3, false);
        assert_eq!(links.take_changes(), []);
        links.note(3, false);
        links.note(7, false);
        links.note(7, true);
        assert_eq!(links.take_changes(), [(3, false)]);
    }
}
