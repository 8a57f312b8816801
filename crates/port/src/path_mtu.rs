//! The MTUs of the interfaces towards peers, learned when the kernel refuses a packet as too long.
//!
//! The kernel is not asked for the MTUs of routers further on: it believes any ICMP that names an
//! address and port. Such reports are handed up as packets, to anyone who knows what was sent (RFC
//! 4301 section 8.2).

use std::net::IpAddr;

/// Peers that are remembered, and findings that wait to be taken.
const LIMIT: usize = 256;

#[derive(Default)]
pub(crate) struct PathMtus {
    known: Vec<(IpAddr, u16)>,
    unreported: Vec<(IpAddr, u16)>,
}

impl PathMtus {
    /// Records that a packet of `len` bytes was too long for the interface towards `peer`. `ask`
    /// determines its MTU.
    pub(crate) fn exceeded(&mut self, peer: IpAddr, len: usize, ask: impl FnOnce() -> Option<u16>) {
        let mtu = match self.get(peer) {
            Some(known) if usize::from(known) < len => known,
            _ => match ask() {
                Some(mtu) => mtu,
                // It left after all, or there is no route any more: nothing is known of the path.
                None => return,
            },
        };
        put(&mut self.known, peer, mtu);
        put(&mut self.unreported, peer, mtu);
    }

    pub(crate) fn get(&self, peer: IpAddr) -> Option<u16> {
        self.known.iter().find(|(known, _)| *known == peer).map(|(_, mtu)| *mtu)
    }

    pub(crate) fn take(&mut self) -> Option<(IpAddr, u16)> {
        self.unreported.pop()
    }
}

/// Replaces the entry of this peer; without room the oldest is removed.
fn put(list: &mut Vec<(IpAddr, u16)>, peer: IpAddr, mtu: u16) {
    if let Some(entry) = list.iter_mut().find(|(known, _)| *known == peer) {
        entry.1 = mtu;
        return;
    }
    if list.len() >= LIMIT {
        list.remove(0);
    }
    list.push((peer, mtu));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_again_only_where_what_is_known_cannot_be_true_any_more() {
        let peer = IpAddr::from([192, 0, 2, 1]);
        let mut mtus = PathMtus::default();
        mtus.exceeded(peer, 1_500, || None);
        assert_eq!(mtus.take(), None);
        mtus.exceeded(peer, 1_500, || Some(1_400));
        mtus.exceeded(peer, 1_450, || panic!("1,400 explains it"));
        assert_eq!((mtus.take(), mtus.take()), (Some((peer, 1_400)), None));
        mtus.exceeded(peer, 1_400, || Some(1_300));
        assert_eq!(mtus.take(), Some((peer, 1_300)));
    }

    #[test]
    fn what_is_remembered_is_bounded_and_reported_once_a_peer() {
        let mut list = Vec::new();
        for number in 0..1000_u32 {
            let peer = IpAddr::from(number.to_be_bytes());
            put(&mut list, peer, 1400);
            put(&mut list, peer, 1300);
        }
        assert_eq!(list.len(), LIMIT);
        assert_eq!(list.last(), Some(&(IpAddr::from(999_u32.to_be_bytes()), 1300)));
    }
}
