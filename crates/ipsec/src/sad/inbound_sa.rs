//! The inbound SA: from an IPsec packet to its crypto job, and from the job's result to the plain
//! packet (RFC 4303 section 3.4).

use std::net::SocketAddr;

use convoy_packet::protocol::NO_NEXT_HEADER;
use convoy_packet::udp::{self, HEADER_BYTES as UDP_HEADER};
use convoy_packet::{Ah, Frame, Layout, ip};

use crate::drops::DropReason;
use crate::esp::ah;
use crate::esp::job::{CryptoJob, CryptoPacket, CryptoStatus, for_each_raw};
use crate::esp::job_plan::{JobPlan, Shape};
use crate::esp::open_template::{OpenTemplate, strip_trailer, strip_tunnel};
use crate::esp::outer_header::Inner;
use crate::esp::stage::{FinishContext, Form, LONGEST_BYTES, no_room};
use crate::icmp::rate_limit::RateLimit;
use crate::ip::flow::address_number;
use crate::iptfs::Reassembler;
use crate::nat::carried as natt;
use crate::sa::config::{Mode, SaConfig, SaEnds};
use crate::sa::facts::SaCommon;
use crate::sa::id::SaProtocol;
use crate::sa::lifetime::{Expiry, Usage};
use crate::sad::cached_limits::{CachedLimits, NEVER_NS};
use crate::sad::replay::ReplayWindow;

/// The hot state of an inbound SA, which every packet reads or writes: two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct InboundSa {
    replay: ReplayWindow,
    /// Bytes to which the algorithm was applied, and packets.
    bytes: u64,
    packets: u64,
    limits: CachedLimits,
    /// When the last packet was received, in ns, or [`NEVER_NS`].
    pub(crate) last_used_ns: u64,
    pub(crate) generation: u32,
    /// The tunnel's number.
    pub(crate) tunnel: u32,
    ends: HotEnds,
    template: OpenTemplate,
    protocol: SaProtocol,
    mode: Mode,
    in_udp: bool,
    roams: bool,
    follows_source: bool,
}

/// An SA's ends as numbers, as far as the hot state has room: not for an IPv6 peer. An unspecified
/// local address accepts any.
#[derive(Clone, Copy, Debug)]
enum HotEnds {
    V4 {
        local: [u8; 4],
        peer: [u8; 4],
        /// 0 without encapsulation, or if any port will do.
        port: [u8; 2],
    },
    V6 {
        local: [u8; 16],
    },
}

impl HotEnds {
    fn of(ends: &SaEnds) -> Self {
        let number = |address| (address_number(address) as u32).to_ne_bytes();
        let port = ends.encap.map_or(0, |encap| encap.remote_port).to_ne_bytes();
        match ends.local.is_ipv6() {
            false => Self::V4 { local: number(ends.local), peer: number(ends.remote), port },
            true => Self::V6 { local: address_number(ends.local).to_ne_bytes() },
        }
    }
}

/// The cold state of an inbound SA, which few packets need.
pub(crate) struct InboundCold {
    pub(crate) common: SaCommon,
    /// The peer's previous and new address and port, until that is reported.
    pub(crate) moved: Option<(SocketAddr, SocketAddr)>,
    /// The highest authentic number that was above those reserved: how far the peer is.
    pub(crate) highest_unreserved: u64,
    /// In AGGFRAG mode.
    pub(crate) reassembler: Option<Box<Reassembler>>,
    /// The echo requests that are answered.
    pub(crate) echo_limit: RateLimit,
}

/// Echo requests of one SA that are answered a second, on average and at once.
const ECHOES: u32 = 50;

impl InboundCold {
    pub(crate) fn new(config: &SaConfig, common: SaCommon) -> Self {
        let reassembler = (config.mode == Mode::Iptfs).then(|| Box::new(Reassembler::new(config.iptfs)));
        let echo_limit = RateLimit::new(ECHOES, ECHOES);
        Self { common, moved: None, highest_unreserved: 0, reassembler, echo_limit }
    }
}

impl InboundSa {
    /// An SA that has received nothing yet; its settings must be valid.
    pub(crate) fn new(config: &SaConfig, common: &SaCommon) -> Self {
        let ends = SaEnds { local: config.local, remote: config.remote, encap: config.encap };
        let mut sa = Self {
            replay: ReplayWindow::after(config.sequence_start, config.replay_window, config.esn)
                .reserved(config.sequence_reserved),
            bytes: 0,
            packets: 0,
            limits: CachedLimits::default(),
            last_used_ns: NEVER_NS,
            generation: common.generation,
            tunnel: common.tunnel,
            ends: HotEnds::of(&ends),
            template: OpenTemplate {
                plan: JobPlan::new(&config.keys, config.esn),
                is_iptfs: config.mode == Mode::Iptfs,
            },
            protocol: config.protocol,
            mode: config.mode,
            in_udp: false,
            roams: config.roams,
            follows_source: false,
        };
        sa.set_ends(&ends);
        sa
    }

    /// Changes the SA's ends.
    pub(crate) fn set_ends(&mut self, ends: &SaEnds) {
        self.ends = HotEnds::of(ends);
        self.in_udp = ends.encap.is_some();
        self.follows_source = self.in_udp || self.roams;
    }

    /// The anti-replay window.
    pub(crate) fn replay(&self) -> &ReplayWindow {
        &self.replay
    }

    /// Allows the sequence numbers up to `last`.
    pub(crate) fn reserve_sequence(&mut self, last: u64) {
        self.replay.reserve(last);
    }

    /// Tunnel or transport.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Length of the ICV, in bytes.
    pub(crate) fn icv_len(&self) -> usize {
        self.template.plan.icv_len()
    }

    /// Whether its packets arrive in UDP.
    #[inline]
    pub(crate) fn in_udp(&self) -> bool {
        self.in_udp
    }

    /// Whether the source of its newest packet is where its peer is: behind a NAT, or if the peer
    /// may roam.
    #[inline]
    pub(crate) fn follows_source(&self) -> bool {
        self.follows_source
    }

    /// Whether this address, given as a number, and this encapsulation are exactly the SA's.
    #[inline]
    pub(crate) fn is_at(&self, is_v6: bool, address: u128, in_udp: bool) -> bool {
        let is_local = match self.ends {
            HotEnds::V4 { local, .. } => !is_v6 && u128::from(u32::from_ne_bytes(local)) == address,
            HotEnds::V6 { local } => is_v6 && u128::from_ne_bytes(local) == address,
        };
        is_local && self.in_udp == in_udp
    }

    /// Whether a packet, whose ESP header is at `header`, comes from where its peer is known to be;
    /// also `false` if that is not at hand.
    #[inline]
    pub(crate) fn is_from_peer(&self, packet: &[u8], header: usize) -> bool {
        let HotEnds::V4 { peer, port, .. } = self.ends else { return false };
        let (source, _) = ip::address_numbers(packet, false);
        let datagram = header.checked_sub(UDP_HEADER).and_then(|at| packet.get(at..));
        let is_port = !self.in_udp || datagram.and_then(udp::source_port) == Some(u16::from_ne_bytes(port));
        u32::from_ne_bytes(peer) == source as u32 && is_port
    }

    /// The used part of its lifetime.
    pub(crate) fn usage(&self, cold: &InboundCold) -> Usage {
        let mut usage = cold.common.usage;
        usage.set_spent(self.bytes, self.packets);
        usage
    }

    /// An expiry that was reached and not reported yet.
    pub(crate) fn expiry(&mut self, cold: &mut InboundCold, now_ns: u64) -> Option<Expiry> {
        let mut usage = self.usage(cold);
        let expiry = usage.expiry(now_ns);
        cold.common.usage = usage;
        expiry
    }

    /// Evaluates the limits again; returns whether the SA is past a hard one.
    pub(crate) fn renew(&mut self, cold: &InboundCold, now_ns: u64) -> bool {
        let usage = self.usage(cold);
        let (bytes, packets, over_ns) = usage.next_limits();
        let is_over = usage.is_over(now_ns);
        self.limits = CachedLimits { until_ns: if is_over { 0 } else { over_ns }, bytes, packets };
        is_over
    }

    /// Whether the limits must be evaluated again.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.limits.until_ns
    }

    /// Makes the next packet check limits again.
    #[cfg(test)]
    pub(crate) fn expire_limits(&mut self) {
        self.limits.until_ns = 0;
    }

    /// Whether its packets are raw until [laid out](Self::lay_out): ESP, but for transport mode.
    #[inline]
    pub(crate) fn is_raw(&self) -> bool {
        self.protocol == SaProtocol::Esp && self.mode != Mode::Transport
    }

    /// The template that opens its packets on any core; `None` if they are never raw.
    pub(crate) fn template(&self) -> Option<OpenTemplate> {
        self.is_raw().then_some(self.template)
    }

    /// Checks a packet whose ESP or AH header is at `header`, and lays out its job. Only what AH
    /// must hide is changed in the packet.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub(crate) fn prepare(&self, packet: &mut CryptoPacket, header: usize) -> Result<(), DropReason> {
        if packet.frame.len() > LONGEST_BYTES {
            return Err(DropReason::MalformedOuter);
        }
        if self.protocol == SaProtocol::Ah {
            return self.prepare_ah(packet, header);
        }
        self.template.lay_out_any(packet, |low| self.check_number(low))
    }

    /// The context of a raw packet with this outer traffic class, whose ESP header is at `header`.
    #[inline]
    pub(crate) fn raw_context(&self, header: usize, traffic_class: u8) -> FinishContext {
        let (generation, header) = (self.generation, header as u16);
        let inner = Inner { traffic_class, ..Inner::default() };
        FinishContext { generation, header, form: Form::Raw, inner, ..FinishContext::default() }
    }

    /// Checks the sequence numbers of the raw packets among these and lays out their jobs. One that
    /// must not be opened is refused.
    #[inline]
    pub(crate) fn lay_out(&self, packets: &mut [CryptoPacket]) {
        match self.template.plan.shape() {
            Shape::Aead => self.lay_out_aead(packets),
            Shape::AesCbc => self.lay_out_cbc(packets),
            _ => self.lay_out_any(packets),
        }
    }

    // A function that calls nothing: inlined into the loop over all runs, most of its values would
    // not stay in registers.
    #[inline(never)]
    fn lay_out_aead(&self, packets: &mut [CryptoPacket]) {
        for_each_raw(packets, self.generation, DropReason::UnknownSpi, |packet| {
            let known = packet.context.sequence;
            self.template.lay_out_aead(packet, |low| self.number(known, low))
        });
    }

    #[inline(never)]
    fn lay_out_cbc(&self, packets: &mut [CryptoPacket]) {
        for_each_raw(packets, self.generation, DropReason::UnknownSpi, |packet| {
            let known = packet.context.sequence;
            self.template.lay_out_cbc(packet, |low| self.number(known, low))
        });
    }

    #[inline(never)]
    fn lay_out_any(&self, packets: &mut [CryptoPacket]) {
        for_each_raw(packets, self.generation, DropReason::UnknownSpi, |packet| {
            let known = packet.context.sequence;
            self.template.lay_out_any(packet, |low| self.number(known, low))
        });
    }

    /// Like [`lay_out`](Self::lay_out), without the jobs.
    pub(crate) fn begin(&self, packets: &mut [CryptoPacket]) {
        for_each_raw(packets, self.generation, DropReason::UnknownSpi, |packet| {
            let known = packet.context.sequence;
            self.template.number(packet, |low| self.number(known, low))
        });
    }

    /// Whether it is of ESP in tunnel mode, in which the inner packet follows the ESP header.
    #[inline]
    pub(crate) fn is_plain_tunnel(&self) -> bool {
        self.is_raw() && self.mode == Mode::Tunnel
    }

    /// The sequence number of a packet: known already if an engine failed with it, otherwise
    /// inferred from the transmitted part.
    #[inline(always)]
    fn number(&self, known: u64, low: u32) -> Result<u64, DropReason> {
        if known == 0 { self.check_number(low) } else { Ok(known) }
    }

    #[inline(always)]
    fn check_number(&self, low: u32) -> Result<u64, DropReason> {
        let sequence = self.replay.infer(low);
        if self.replay.may_accept(sequence) { Ok(sequence) } else { Err(DropReason::Replayed) }
    }

    fn prepare_ah(&self, packet: &mut CryptoPacket, at: usize) -> Result<(), DropReason> {
        let frame = &mut packet.frame;
        let header = Ah::parse(&frame[at..]).map_err(|_| DropReason::MalformedOuter)?;
        if header.header_len() != ah::header_len(self.template.plan.icv_len(), ip::is_v6(frame)) {
            return Err(DropReason::MalformedOuter);
        }
        let sequence = self.check_number(header.sequence_number())?;
        let (job, context) = ah::hide(frame, at, sequence, &self.template.plan)?;
        packet.job = job;
        packet.context = FinishContext { generation: self.generation, ..context };
        Ok(())
    }

    /// Checks that the number of an authentic packet is still new, and records it.
    ///
    /// # Errors
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn accept(&mut self, status: CryptoStatus, sequence: u64) -> Result<(), DropReason> {
        match status {
            CryptoStatus::Done if self.replay.accept(sequence) => Ok(()),
            CryptoStatus::Done if self.replay.is_unreserved(sequence) => Err(DropReason::InboundUnreserved),
            CryptoStatus::Done => Err(DropReason::Replayed),
            CryptoStatus::IcvMismatch => Err(DropReason::IntegrityFailed),
            CryptoStatus::Pending => Err(DropReason::EngineFailed),
            CryptoStatus::Refused(reason) => Err(reason),
        }
    }

    /// Counts a packet; returns whether it reaches a limit.
    #[inline(always)]
    pub(crate) fn spend(&mut self, job: &CryptoJob) -> bool {
        self.bytes += job.lifetime_bytes(self.protocol) as u64;
        self.packets += 1;
        let is_limit = self.bytes >= self.limits.bytes || self.packets >= self.limits.packets;
        if is_limit {
            self.limits.until_ns = 0;
        }
        is_limit
    }

    /// Turns an opened packet, which was [accepted](Self::accept), into the plain one that was
    /// protected, and returns its layout.
    ///
    /// # Errors
    /// The reason to drop the packet; its content is then undefined.
    #[inline]
    pub(crate) fn strip(
        &self,
        frame: &mut Frame,
        job: &CryptoJob,
        context: &FinishContext,
    ) -> Result<Layout, DropReason> {
        if let Some(template) = self.template() {
            return template.strip(frame, job, context);
        }
        let at = usize::from(context.header);
        let (payload, next) = match self.protocol {
            SaProtocol::Esp => {
                let next = strip_trailer(frame, job, self.template.plan.icv_len())?;
                (self.template.payload_at(context), next)
            }
            SaProtocol::Ah => {
                ah::restore(frame, context)?;
                let header = Ah::parse(&frame[at..]).map_err(|_| DropReason::MalformedOuter)?;
                (at + header.header_len(), header.next_header())
            }
        };
        match self.mode {
            Mode::Tunnel | Mode::Iptfs => strip_tunnel(frame, payload, next),
            Mode::Transport => self.strip_transport(frame, payload, next, at),
        }
    }

    /// Reduces an opened packet to its AGGFRAG payload.
    ///
    /// # Errors
    /// The reason to drop the packet; its content is then undefined.
    pub(crate) fn strip_payload(
        &self,
        frame: &mut Frame,
        job: &CryptoJob,
        context: &FinishContext,
    ) -> Result<(), DropReason> {
        self.template.strip_payload(frame, job, context)
    }

    fn strip_transport(
        &self,
        frame: &mut Frame,
        payload: usize,
        next: u8,
        header: usize,
    ) -> Result<Layout, DropReason> {
        if next == NO_NEXT_HEADER {
            return Err(DropReason::Dummy);
        }
        let udp = if self.in_udp { UDP_HEADER } else { 0 };
        let ip_len = header - udp;
        let place = ip::protocol_at(frame, ip_len).map_err(|_| DropReason::MalformedOuter)?;
        frame[place] = next;
        let gone = payload - ip_len;
        frame.copy_within(0..ip_len, gone);
        frame.trim_front(gone).map_err(no_room)?;
        ip::set_length(frame);
        if self.in_udp {
            // A NAT changed the addresses that the transport checksum covers (RFC 3948 section
            // 3.1.2).
            natt::fix_checksum(frame, ip_len, next);
        }
        let layout = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
        frame.truncate(layout.total_len);
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_packet_needs_is_two_cache_lines() {
        assert_eq!(size_of::<Option<InboundSa>>(), 128);
    }
}
