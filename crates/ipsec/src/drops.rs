//! Reasons for dropped packets, and their counters.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// Why a packet was dropped. The names follow RFC 4301's auditable events and Linux'
        /// `xfrm_stat` where one fits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])* $variant,)* }

        impl DropReason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in metrics and in `convoy show`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The sentence that documents it here, for an operator who asks what it means.
            pub fn meaning(self) -> String {
                let documented = match self { $(Self::$variant => concat!($($doc),*),)* };
                documented.trim().replace('`', "")
            }
        }
    };
}

drop_reasons! {
    // Outbound.
    /// An inside packet that is no IP packet.
    MalformedInner = "malformed_inner",
    /// No outbound policy selects the packet (`XfrmOutNoPols`; RFC 4301 section 5.1).
    OutboundNoPolicy = "outbound_no_policy",
    /// An outbound policy says discard (`XfrmOutPolBlock`).
    OutboundDiscard = "outbound_discard",
    /// The policy's tunnel has no outbound SA (`XfrmOutNoStates`).
    OutboundNoSa = "outbound_no_sa",
    /// The address of the tunnel's peer is not known yet: its name has not been resolved, or
    /// nothing has come from a roaming peer.
    OutboundNoPeer = "outbound_no_peer",
    /// It does not fit the path and may not be fragmented; the sender was notified, rate limit
    /// permitting.
    PacketTooBig = "packet_too_big",
    /// Its TTL or hop limit ran out.
    TtlExpired = "ttl_expired",
    /// A fragment cannot go by a transport mode SA (RFC 4303 section 3.3.4).
    FragmentInTransport = "fragment_in_transport",
    /// The inner and outer addresses of a transport mode SA differ.
    TransportAddress = "transport_address",
    /// The sequence number would repeat (`XfrmOutStateSeqError`; RFC 4303 section 3.3.3).
    SequenceExhausted = "sequence_exhausted",
    /// No further sequence number was reserved in the state file yet: its disk is slow, full or
    /// gone.
    SequenceUnreserved = "sequence_unreserved",
    /// An engine failed and no other could do the job.
    EngineFailed = "engine_failed",
    /// It was to be encrypted by a port's device, but was about to leave by another port, or in
    /// fragments.
    Unencrypted = "unencrypted",
    /// More waits for an IP-TFS tunnel's constant rate than may (`max_queue_size`).
    IptfsQueueFull = "iptfs_queue_full",
    /// Sealed, but the system has no route to the peer from the local address, or the interface is
    /// down.
    NoRoute = "no_route",
    /// Sealed, but the system's packet filter or a policy of its routing forbids to send it.
    SendForbidden = "send_forbidden",
    /// Sealed, but its source is no address of this host.
    NoLocalAddress = "no_local_address",
    /// Sealed, but longer than the MTU of the interface, which is learned from that.
    SendTooLong = "send_too_long",
    /// Sealed, but the system refused to send it for another reason, which is logged.
    SendFailed = "send_failed",

    // Both ways.
    /// It would leave by an inside interface that the gateway has not.
    NoInterface = "no_interface",
    /// The gateway's lease has ended, so that another one of its cluster may lead.
    NotLeading = "not_leading",
    /// The SA is past its hard lifetime (`XfrmInStateExpired`, `XfrmOutStateExpired`).
    SaExpired = "sa_expired",
    /// No frame was free.
    NoFrame = "no_frame",
    /// The frame has no room for what had to be written.
    NoRoom = "no_room",
    /// The worker that owns its SA is overloaded: the queue to it is full.
    HandoffFull = "handoff_full",
    /// The engines of its worker are behind, while the worker reads on for the sake of other
    /// workers' packets.
    Overloaded = "overloaded",

    // Inbound, before the crypto job.
    /// An outside packet that is no IP packet, or whose ESP, AH or UDP header is cut short
    /// (`XfrmInHdrError`).
    MalformedOuter = "malformed_outer",
    /// No SA under this SPI (`XfrmInNoStates`; RFC 4301 section 5.2).
    UnknownSpi = "unknown_spi",
    /// The SPI is known, but the packet came to another address, in another encapsulation or
    /// direction.
    SaMismatch = "sa_mismatch",
    /// The sequence number was seen before, or is left of the window (`XfrmInStateSeqError`).
    Replayed = "replayed",
    /// Authentic and new, but no number so high was reserved for acceptance in time.
    InboundUnreserved = "inbound_unreserved",
    /// A port's device decrypted it, but not with the keys of the SA that it belongs to.
    DecryptedElsewhere = "decrypted_elsewhere",
    /// A NAT keep-alive (RFC 3948 section 2.3): absorbed, not lost.
    Keepalive = "keepalive",
    /// An IKE message for which the queue to charon had no room; its sender sends it again (RFC
    /// 7296 section 2.1).
    IkeQueueFull = "ike_queue_full",
    /// An ICMP error about one of our SAs: absorbed, not lost.
    IcmpError = "icmp_error",
    /// An ICMP error that quotes one of our SAs, but no packet that it sent lately: forged, or far
    /// too late.
    IcmpUnbelieved = "icmp_unbelieved",

    // Inbound, after the crypto job.
    /// The ICV did not match: the keys or algorithms of the two ends differ, or the packet was
    /// changed on its way (`XfrmInStateProtoError`; RFC 4303 section 3.4.4).
    IntegrityFailed = "integrity_failed",
    /// The padding is not 1, 2, 3, … or longer than the packet (RFC 4303 section 2.4).
    BadPadding = "bad_padding",
    /// The next header is not what the SA's mode carries (`XfrmInStateModeError`).
    BadNextHeader = "bad_next_header",
    /// The decrypted packet is no IP packet.
    MalformedDecrypted = "malformed_decrypted",
    /// A dummy packet (RFC 4303 section 2.6): dropped as intended.
    Dummy = "dummy",
    /// An ESP echo, which ends at the gateway; only in traces, as it is not lost.
    EspEcho = "esp_echo",
    /// An ESP echo request that was not answered: it names a return SPI that is none of its
    /// tunnel's, or there were too many.
    EspEchoRefused = "esp_echo_refused",
    /// Congestion was met on a path whose endpoints do not know ECN (RFC 6040 section 4.2).
    EcnCongestion = "ecn_congestion",
    /// The inner packet is not what the SA's policies select (`XfrmInTmplMismatch`; RFC 4301
    /// section 5.2).
    PolicyMismatch = "policy_mismatch",
    /// An ICMP error that came by an SA quotes a packet whose answers that SA may not carry (RFC
    /// 4301 section 6.2).
    IcmpMismatch = "icmp_mismatch",
    /// An AGGFRAG payload whose header, block offset or lengths are wrong, or a packet joined by
    /// them (RFC 9347 section 6.1).
    IptfsMalformed = "iptfs_malformed",
    /// A part of an inner packet, or the payload before it, did not come in time.
    IptfsIncomplete = "iptfs_incomplete",
    /// Too many inner packets of all SAs were in reassembly.
    IptfsLimit = "iptfs_limit",

    // Inbound plaintext.
    /// No inbound policy selects the packet (`XfrmInNoPols`).
    InboundNoPolicy = "inbound_no_policy",
    /// An inbound policy says discard (`XfrmInPolBlock`).
    InboundDiscard = "inbound_discard",
    /// It came in plain, although policy requires protection.
    InboundUnprotected = "inbound_unprotected",

    // Reassembly of outer fragments.
    /// A fragment that ends past 65,535, is empty, or is not a multiple of eight bytes.
    FragmentMalformed = "fragment_malformed",
    /// A fragment other than the last is smaller than any path would make it.
    FragmentTiny = "fragment_tiny",
    /// A fragment came twice.
    FragmentDuplicate = "fragment_duplicate",
    /// Fragments overlap: the whole datagram is dropped (RFC 5722).
    FragmentOverlap = "fragment_overlap",
    /// More fragments, or more bytes, than one datagram may have here.
    FragmentTooMany = "fragment_too_many",
    /// The datagram was not whole in time.
    ReassemblyTimeout = "reassembly_timeout",
    /// Too many datagrams were in reassembly, from this source or in all.
    ReassemblyLimit = "reassembly_limit",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Dropped packets by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl Default for DropCounters {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

impl DropCounters {
    /// Counts one packet.
    pub fn count(&mut self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Counts several packets.
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    /// The packets dropped for `reason`.
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// All dropped packets.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Reasons with a count above 0.
    pub fn met(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|reason| (*reason, self.get(*reason))).filter(|(_, count)| *count > 0)
    }
}

/// Dropped packets of an SA by reason, and when the last of each reason was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SaDrops {
    /// The packets.
    pub(crate) counts: DropCounters,
    /// The time of the last one, in ns, for the few reasons that an SA meets.
    last_ns: Vec<(DropReason, u64)>,
}

impl SaDrops {
    /// Counts packets that are dropped now.
    pub(crate) fn add(&mut self, reason: DropReason, packets: u64, now_ns: u64) {
        self.counts.add(reason, packets);
        match self.last_ns.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, last_ns)) => *last_ns = now_ns,
            None => self.last_ns.push((reason, now_ns)),
        }
    }

    /// How long ago the last packet of each reason was dropped, in ns.
    pub(crate) fn ages(&self, now_ns: u64) -> Vec<(DropReason, u64)> {
        self.last_ns.iter().map(|(reason, last_ns)| (*reason, now_ns.saturating_sub(*last_ns))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_an_sa_have_the_time_of_the_last_of_each_reason() {
        let mut drops = SaDrops::default();
        drops.add(DropReason::Replayed, 1, 100);
        drops.add(DropReason::IntegrityFailed, 2, 200);
        drops.add(DropReason::Replayed, 3, 300);
        assert_eq!(drops.counts.get(DropReason::Replayed), 4);
        let ages = [(DropReason::Replayed, 700), (DropReason::IntegrityFailed, 800)];
        assert_eq!(drops.ages(1_000), ages);
    }

    #[test]
    fn every_reason_has_its_own_name_and_place() {
        let mut names: Vec<&str> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert!(DropReason::ALL.iter().all(|reason| reason.meaning().ends_with('.')));
        assert!(DropReason::ALL.iter().enumerate().all(|(place, reason)| place == *reason as usize));
    }

    #[test]
    fn what_is_counted_is_found_again() {
        let mut drops = DropCounters::default();
        drops.count(DropReason::Replayed);
        drops.add(DropReason::UnknownSpi, 3);
        assert_eq!(drops.total(), 4);
        assert_eq!(drops.met().collect::<Vec<_>>(), [(DropReason::UnknownSpi, 3), (DropReason::Replayed, 1)]);
    }
}
