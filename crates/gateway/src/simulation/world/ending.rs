//! The end of a run: faults end, traffic flows again, and everything comes to rest.

use std::sync::atomic::Ordering;

use super::super::hosts::{HostPairs, LEAST_BYTES};
use super::super::network::SimulatedLink;
use super::World;

/// Time limit after the last fault until traffic flows through every tunnel, both ways, in ns: an
/// engine is probed again, SAs are negotiated, and a path's MTU is found.
const RECOVERY_NS: u64 = 60_000_000_000;
/// The maximum transit time of a packet without faults, in ns.
const TRANSIT_NS: u64 = 2_000_000_000;
/// The longest wait: for fragments that a damaged header created, in ns.
const REST_NS: u64 = 40_000_000_000;

impl World<'_> {
    /// Faults end, and traffic must flow again through every tunnel.
    pub(super) fn recover(&mut self) {
        self.is_calm.store(true, Ordering::Relaxed);
        self.links.iter_mut().for_each(SimulatedLink::calm);
        self.disagrees_until_ns = 0;
        for site in &mut self.sites {
            site.is_disk_writable = true;
            if let Some(running) = &site.running {
                running.inside.iter().chain(&running.outside).for_each(|end| end.lock().room = None);
            }
        }
        self.journal.note(format_args!("faults end"));
        // What one end has lost while there was no agreement, the other cannot know.
        (0..self.negotiator.len()).for_each(|tunnel| self.negotiate(tunnel));
        let (calm_ns, mut flowing_ns) = (self.now_ns, None);
        let numbers =
            |hosts: &HostPairs| hosts.flows.iter().map(|flow| flow.last_delivered).collect::<Vec<_>>();
        let mut before = vec![Some(self.hosts.sent()); self.hosts.flows.len()];
        // Twice: anyone who flows once must not stop again.
        for _ in 0..2 {
            loop {
                let now = numbers(&self.hosts);
                if now.iter().zip(&before).all(|(now, before)| now >= before) {
                    break;
                }
                let waited_ns = self.now_ns - flowing_ns.unwrap_or(calm_ns);
                let limit_ns = if flowing_ns.is_some() { TRANSIT_NS } else { RECOVERY_NS };
                let still: Vec<_> = (0..now.len()).filter(|flow| now[*flow] < before[*flow]).collect();
                assert!(
                    waited_ns < limit_ns,
                    "flows {still:?} do not arrive {waited_ns} ns after the last fault"
                );
                for flow in 0..self.hosts.flows.len() {
                    self.send(flow, LEAST_BYTES);
                }
                for _ in 0..20 {
                    self.advance(1_000_000);
                    self.work();
                }
            }
            before = vec![Some(self.hosts.sent()); self.hosts.flows.len()];
            flowing_ns = Some(self.now_ns);
        }
        let recovered_ns = self.now_ns - calm_ns;
        self.journal.note(format_args!("traffic flows again after {recovered_ns} ns"));
    }

    /// Nobody sends any more: all packets in flight leave, and every frame is returned.
    pub(super) fn come_to_rest(&mut self) {
        let until_ns = self.now_ns + REST_NS;
        // A slow engine without a queue does one multi-packet a step, and a whole window may wait
        // for it.
        while self.now_ns < until_ns {
            self.advance(50_000_000);
            self.work();
        }
        // Keep-alives of the last round.
        for _ in 0..3 {
            self.advance(1_000);
            self.work();
        }
        for (number, site) in self.sites.iter_mut().enumerate() {
            let Some(running) = &mut site.running else { panic!("site {number} did not come back") };
            assert!(running.is_drained(), "site {number}: packets are still inside");
            let balance = running.balance();
            assert_eq!(
                balance.inside(),
                0,
                "site {number}: packets are gone that nothing counted: {balance:?}"
            );
            running.check_frames();
        }
    }
}
