//! Warns the operator of dropped packets and says what they usually mean: each reason of each
//! tunnel at most once a minute.

use std::collections::HashMap;

use convoy_ipsec::{DropReason, SaDirection};

/// Interval between two looks at the counters, in ns.
const LOOK_NS: u64 = 5_000_000_000;
/// Interval between two warnings of one reason and tunnel, in ns.
const SILENCE_NS: u64 = 60_000_000_000;

/// The tunnel and direction in which packets were dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DropScope {
    /// The tunnel's name; empty for packets of no tunnel, or of one without a name.
    pub tunnel: String,
    /// The packets' direction, where there is a tunnel.
    pub direction: Option<SaDirection>,
}

/// A counter of dropped packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCount {
    /// The tunnel and direction.
    pub scope: DropScope,
    /// Why they were dropped.
    pub reason: DropReason,
    /// Packets since the gateway's start.
    pub count: u64,
    /// Good packets of the same scope; 0 where there is no tunnel.
    pub good: u64,
}

/// A counter that has increased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Climb {
    /// The tunnel and direction.
    pub scope: DropScope,
    /// Why packets were dropped.
    pub reason: DropReason,
    /// The increase since the last warning.
    pub packets: u64,
    /// The time over which it increased, in ns.
    pub over_ns: u64,
    /// Whether it is certain that no packet of the scope was good in that time.
    pub none_good: bool,
}

impl Climb {
    /// What the drops mean, given what else is known of the scope.
    fn meaning(&self) -> &'static str {
        match self.reason {
            DropReason::Replayed if self.none_good => PEER_IS_BEHIND,
            reason => meaning(reason).unwrap_or_default(),
        }
    }

    /// The warning in words.
    pub fn message(&self) -> String {
        format!("packets were dropped: {}", self.meaning())
    }

    /// Logs it as a warning.
    pub fn warn(&self) {
        let Self { scope, reason, packets, over_ns, .. } = self;
        let (message, seconds) = (self.message(), over_ns / 1_000_000_000);
        let reason = reason.name();
        match scope.direction {
            Some(direction) => {
                let direction = match direction {
                    SaDirection::Outbound => "outbound",
                    SaDirection::Inbound => "inbound",
                };
                let tunnel = scope.tunnel.as_str();
                tracing::warn!(tunnel, direction, reason, packets, seconds, "{message}");
            }
            None => tracing::warn!(reason, packets, seconds, "{message}"),
        }
    }
}

/// The value of a counter at its last warning, and the time of that.
#[derive(Clone, Copy, Debug)]
struct LastReport {
    count: u64,
    /// Good packets at that time, if recorded.
    good: Option<u64>,
    at_ns: u64,
}

/// The last warning of each counter.
#[derive(Debug, Default)]
pub struct DropWatch {
    reported: HashMap<(DropScope, DropReason), LastReport>,
    looked_ns: u64,
    /// Sum of all relevant counters at the last look.
    sum: u64,
    /// Whether a counter has increased whose warning is suppressed for now.
    has_unsaid: bool,
}

impl DropWatch {
    /// Whether to look at the individual counters: the interval is over and a relevant one has
    /// increased. `counts` are the sums over all scopes.
    pub fn is_due(&mut self, now_ns: u64, counts: impl Iterator<Item = (DropReason, u64)>) -> bool {
        if now_ns < self.looked_ns + LOOK_NS {
            return false;
        }
        let is_due = self.has_unsaid || sum(counts) != self.sum;
        if !is_due {
            self.looked_ns = now_ns;
        }
        is_due
    }

    /// The counters to warn of now.
    pub fn look(&mut self, now_ns: u64, counts: impl IntoIterator<Item = DropCount>) -> Vec<Climb> {
        let mut climbs = Vec::new();
        (self.has_unsaid, self.sum) = (false, 0);
        for DropCount { scope, reason, count, good } in counts {
            if meaning(reason).is_none() {
                continue;
            }
            self.sum += count;
            let reported = self.reported.get(&(scope.clone(), reason)).copied();
            if count <= reported.map_or(0, |reported| reported.count) {
                continue;
            }
            if reported.is_some_and(|reported| now_ns < reported.at_ns + SILENCE_NS) {
                self.has_unsaid = true;
                continue;
            }
            let before = reported.unwrap_or(LastReport { count: 0, good: None, at_ns: self.looked_ns });
            self.reported
                .insert((scope.clone(), reason), LastReport { count, good: Some(good), at_ns: now_ns });
            let (packets, over_ns) = (count - before.count, now_ns - before.at_ns);
            let none_good = scope.direction.is_some() && before.good == Some(good);
            climbs.push(Climb { scope, reason, packets, over_ns, none_good });
        }
        self.looked_ns = now_ns;
        climbs
    }
}

fn sum(counts: impl Iterator<Item = (DropReason, u64)>) -> u64 {
    counts.filter(|(reason, _)| meaning(*reason).is_some()).map(|(_, count)| count).sum()
}

/// What it means if packets are dropped as `replayed` for a minute or more while no others arrive
/// through the same tunnel.
const PEER_IS_BEHIND: &str = "the peer's sequence numbers lie behind those that this gateway has already received, and none of its packets was accepted in this \
     time. A peer with static keys restarted without a state file, or with one that was lost or restored from a backup or a snapshot: \
     install new keys at both ends. Otherwise someone replays packets of a peer that sends nothing itself";

/// What drops of a reason usually mean, and what to do; `None` where the reason is no sign of a
/// fault.
pub fn meaning(reason: DropReason) -> Option<&'static str> {
    use DropReason as D;
    Some(match reason {
        D::Replayed => {
            "their sequence numbers were already received, or are older than the replay window; a gateway of a cluster that has just \
             begun to lead refuses what the former leader may have received. If nothing else arrives from a peer with static keys, its sequence numbers lie behind those that this gateway has received, because it restarted without \
             a state file or with an old one: install new keys at both ends. Otherwise the path duplicates packets or reorders them \
             by more than replay_window, or someone replays packets"
        }
        D::IntegrityFailed => {
            "their integrity check failed. If it fails for all packets of a tunnel, keys or algorithms differ from the peer's; a few \
             packets were corrupted on the way, or forged"
        }
        D::UnknownSpi => {
            "no SA has their SPI. This is normal for a moment after a rekeying or a restart; otherwise the peer uses an SA that this \
             gateway does not have, or the packets were sent here by mistake"
        }
        D::OutboundNoSa => {
            "their tunnel has no SA. With keys from charon, the negotiation failed or is in progress (see swanctl --list-sas and charon's \
             log); otherwise the tunnel has no [tunnel.manual]"
        }
        D::OutboundNoPeer => {
            "the address of their tunnel's peer is not known: its name has not been resolved (see `convoy show name`), or nothing has \
             come from a peer that roams"
        }
        D::SaMismatch => {
            "their SPI is known, but their address or encapsulation is not that of the SA; both ends need the same encap"
        }
        D::SaExpired => {
            "the hard lifetime of their SA has passed; install new keys, or have charon rekey earlier"
        }
        D::SequenceExhausted => {
            "their SA has used all sequence numbers; install new keys, or set esn = true at both ends"
        }
        D::SequenceUnreserved => {
            "no sequence numbers could be reserved in time: the state file's disk is slow, full or missing, or in a cluster the store is slow or cannot be reached"
        }
        D::NotLeading => {
            "this gateway does not lead: its lease from the cluster's store has ended, and another gateway may have taken over"
        }
        D::InboundUnreserved => {
            "their sequence numbers are above those reserved for acceptance in the cluster's store, which is slow or cannot be reached"
        }
        D::PolicyMismatch => {
            "the decrypted packets do not match the selectors of their tunnel; local_ts and remote_ts must mirror the peer's"
        }
        D::InboundUnprotected => {
            "they arrived unencrypted from outside, although the selectors of a tunnel require protection"
        }
        D::EngineFailed => "no engine could process them; `convoy show engine` shows which are down",
        D::NoFrame => "no packet buffer was free: more packets are in progress than the gateway can hold",
        D::NoRoom => {
            "a packet buffer had no room for the headers of the SA; lower the MTU of the inside interface"
        }
        D::BadPadding | D::BadNextHeader | D::MalformedDecrypted => {
            "they are authentic, but their content is malformed or of another mode; mode must be the same at both ends"
        }
        D::DecryptedElsewhere | D::Unencrypted => {
            "the SAs of a port with inline cryptography do not match those of the gateway; please report it"
        }
        D::ReassemblyLimit | D::FragmentTooMany => {
            "more outer fragments are being reassembled than the gateway allows; lower the peer's MTU so that it does not fragment"
        }
        D::NoRoute => {
            "the system has no route to the peer, the interface is down, or the tunnel's local address is no longer an address of \
             this host (ENETUNREACH, EHOSTUNREACH, ENETDOWN); see `ip route get` with the peer's address, and `ip address`"
        }
        D::SendForbidden => {
            "the kernel refused to send them (EPERM, EACCES): a packet filter drops them on their way out, or a route prohibits \
             them; see `nft list ruleset` for output and postrouting, and allow ESP and UDP port 4500 to the peer"
        }
        D::NoLocalAddress => {
            "their source, the tunnel's local address, is no longer an address of this host (EADDRNOTAVAIL, EINVAL), or a \
             blackhole route takes them; see `ip address` and `ip route get` with the peer's address"
        }
        D::SendFailed => {
            "the system refused to send them; another line of the log has its error, and `convoy show port` counts them"
        }
        D::FragmentOverlap => "outer fragments overlap, which no correct sender produces",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn site(reason: DropReason, count: u64) -> DropCount {
        let scope = DropScope { tunnel: "site".to_owned(), direction: Some(SaDirection::Inbound) };
        DropCount { scope, reason, count, good: 0 }
    }

    fn reported(watch: &mut DropWatch, at_s: u64, count: u64) -> Option<(u64, u64)> {
        let (now_ns, replayed) = (at_s * SECOND, DropReason::Replayed);
        if !watch.is_due(now_ns, [(replayed, count)].into_iter()) {
            return None;
        }
        let climbs = watch.look(now_ns, [site(replayed, count)]);
        climbs.first().map(|climb| (climb.packets, climb.over_ns / SECOND))
    }

    #[test]
    fn a_counter_that_climbs_is_reported_at_once_and_then_once_a_minute() {
        let mut watch = DropWatch::default();
        assert_eq!(reported(&mut watch, 100, 0), None);
        assert_eq!(reported(&mut watch, 105, 7), Some((7, 5)));
        assert_eq!(reported(&mut watch, 107, 8), None, "the counters are looked at every five seconds");
        for at_s in (110..165).step_by(5) {
            assert_eq!(reported(&mut watch, at_s, 30), None, "at {at_s} s");
        }
        assert_eq!(reported(&mut watch, 165, 30), Some((23, 60)), "though it climbs no more");
        assert_eq!(reported(&mut watch, 300, 30), None);
        assert_eq!(reported(&mut watch, 305, 31), Some((1, 140)));
    }

    #[test]
    fn tunnels_and_reasons_are_reported_apart_and_what_is_no_fault_is_not() {
        let mut watch = DropWatch::default();
        let of_none = |reason, count| {
            let scope = DropScope { tunnel: String::new(), direction: None };
            DropCount { scope, reason, count, good: 0 }
        };
        let climbs = watch.look(
            SECOND,
            [
                site(DropReason::Replayed, 1),
                site(DropReason::IntegrityFailed, 2),
                of_none(DropReason::UnknownSpi, 3),
                of_none(DropReason::Keepalive, 4),
            ],
        );
        assert_eq!(climbs.iter().map(|climb| climb.packets).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(watch.look(2 * SECOND, [site(DropReason::Replayed, 1)]).is_empty());
    }
    #[test]
    fn a_peer_whose_packets_are_all_replayed_for_a_minute_is_said_to_be_behind() {
        let mut watch = DropWatch::default();
        let mut reported = |at_s: u64, count: u64, good: u64| {
            let dropped = DropCount { good, ..site(DropReason::Replayed, count) };
            let climbs = watch.look(at_s * SECOND, [dropped]);
            climbs.first().map(|climb| climb.meaning() == PEER_IS_BEHIND)
        };
        assert_eq!(reported(100, 7, 50), Some(false), "they may be duplicates among others");
        assert_eq!(reported(160, 70, 50), Some(true));
        assert_eq!(reported(220, 80, 51), Some(false), "another came through");
        assert_eq!(reported(280, 90, 51), Some(true));
    }
}
