//! What stands between policies and SAs: per tunnel its outbound SAs and the traffic that it admits.

use std::collections::HashMap;

use crate::flow::FlowKey;
use crate::job::SaIndex;
use crate::selector::Selector;
use crate::spd::TunnelId;

/// One tunnel.
struct Tunnel {
    id: TunnelId,
    /// The newest, and last, is the current one; the others are on their way out.
    outbound: Vec<SaIndex>,
    /// Of the policies that protect by this tunnel.
    selectors: Vec<Selector>,
    /// Packets that were dropped because there was no SA.
    dropped_without_sa: u64,
}

/// All tunnels that a policy or an SA has named, under a dense number each. Numbers are never reused.
#[derive(Default)]
pub(crate) struct Tunnels {
    list: Vec<Tunnel>,
    numbers: HashMap<TunnelId, u32>,
}

impl Tunnels {
    /// The number of a tunnel, new or old.
    pub(crate) fn number(&mut self, id: TunnelId) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.list.push(Tunnel { id, outbound: Vec::new(), selectors: Vec::new(), dropped_without_sa: 0 });
            self.list.len() as u32 - 1
        })
    }

    /// The id behind a number.
    pub(crate) fn id(&self, number: u32) -> TunnelId {
        self.list[number as usize].id
    }

    /// The SA by which the tunnel's packets leave now.
    pub(crate) fn current(&self, number: u32) -> Option<SaIndex> {
        self.list[number as usize].outbound.last().copied()
    }

    /// All its outbound SAs, the current one last.
    pub(crate) fn outbound(&self, number: u32) -> &[SaIndex] {
        &self.list[number as usize].outbound
    }

    /// Makes `sa` the current one.
    pub(crate) fn add_outbound(&mut self, number: u32, sa: SaIndex) {
        self.list[number as usize].outbound.push(sa);
    }

    /// Forgets an SA; the one before it takes over if it was the current one.
    pub(crate) fn remove_outbound(&mut self, number: u32, sa: SaIndex) {
        self.list[number as usize].outbound.retain(|present| *present != sa);
    }

    /// Counts a packet that was dropped because the tunnel has no SA.
    pub(crate) fn count_without_sa(&mut self, number: u32) {
        self.list[number as usize].dropped_without_sa += 1;
    }

    /// Packets that were dropped for want of an SA, for each tunnel that has lost any.
    pub(crate) fn dropped_without_sa(&self) -> impl Iterator<Item = (TunnelId, u64)> + '_ {
        let losers = self.list.iter().filter(|tunnel| tunnel.dropped_without_sa > 0);
        losers.map(|tunnel| (tunnel.id, tunnel.dropped_without_sa))
    }

    /// Forgets what the tunnels admit.
    pub(crate) fn clear_selectors(&mut self) {
        self.list.iter_mut().for_each(|tunnel| tunnel.selectors.clear());
    }

    /// Admits more traffic to a tunnel.
    pub(crate) fn add_selector(&mut self, number: u32, selector: Selector) {
        self.list[number as usize].selectors.push(selector);
    }

    /// Whether an inner packet may come by this tunnel (RFC 4301 section 5.2, step 4).
    pub(crate) fn admits_inbound(&self, number: u32, flow: &FlowKey) -> bool {
        let flow = flow.reversed();
        self.list[number as usize].selectors.iter().any(|selector| selector.matches_outbound(&flow))
    }

    /// Whether the tunnel carries answers to an outbound packet that was quoted, as far as the quote reaches (RFC 4301 section 6.2).
    pub(crate) fn answers(&self, number: u32, quoted: &FlowKey) -> bool {
        self.list[number as usize].selectors.iter().any(|selector| selector.matches_quoted(quoted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sa_is_current_and_its_forerunner_takes_over() {
        let mut tunnels = Tunnels::default();
        let number = tunnels.number(TunnelId(900));
        assert_eq!(tunnels.number(TunnelId(900)), number);
        tunnels.add_outbound(number, SaIndex(1));
        tunnels.add_outbound(number, SaIndex(2));
        assert_eq!(tunnels.current(number), Some(SaIndex(2)));
        tunnels.remove_outbound(number, SaIndex(2));
        assert_eq!(tunnels.current(number), Some(SaIndex(1)));
        tunnels.remove_outbound(number, SaIndex(1));
        assert_eq!(tunnels.current(number), None);
        assert_eq!(tunnels.id(number), TunnelId(900));
    }
}
