//! The outbound SA: from a plain packet to one whose crypto job is ready (RFC 4303 section 3.3).

mod general;

use convoy_packet::aggfrag::HEADER_BYTES as AGGFRAG_HEADER;
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, Layout};

use crate::drops::DropReason;
use crate::esp::ah;
use crate::esp::envelope::Envelope;
use crate::esp::identification::{OuterFlow, Series};
use crate::esp::job::{CryptoPacket, CryptoStatus, for_each_raw};
use crate::esp::job_plan::Shape;
use crate::esp::outer_header::Inner;
use crate::esp::seal_template::{Growth, SealTemplate};
use crate::esp::stage::{FinishContext, Form, LONGEST_BYTES, no_room};
use crate::iptfs::Aggregator;
use crate::nat::flows::NatFlow;
use crate::sa::config::{Mode, SaConfig, SaEnds};
use crate::sa::facts::SaCommon;
use crate::sa::id::SaProtocol;
use crate::sa::lifetime::{Expiry, Usage};
use crate::sad::cached_limits::{CachedLimits, NEVER_NS};
use crate::sad::path_mtu::{PathMtu, SentLately};

/// Beyond this, numbers would repeat (RFC 4303 section 3.3.3).
const fn last_sequence(esn: bool) -> u64 {
    if esn { u64::MAX } else { u32::MAX as u64 }
}

/// The sequence number from which on an SA counts as past its soft lifetime, so that it is replaced
/// before its numbers end: nine tenths of them.
const fn late_sequence(esn: bool) -> u64 {
    last_sequence(esn) / 10 * 9
}

/// The hot state of an outbound SA, which every packet reads or writes: two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OutboundSa {
    /// The sequence number of the last packet.
    sequence: u64,
    /// Bytes to which the algorithm was applied.
    bytes: u64,
    /// Here `packets` counts sequence numbers.
    limits: CachedLimits,
    /// When the last packet left, in ns, or [`NEVER_NS`]; keep-alives do not count.
    pub(crate) last_used_ns: u64,
    template: SealTemplate,
    /// The longest inner packet that needs no special treatment, in bytes; in AGGFRAG mode the
    /// longest payload.
    plain_largest: u16,
    /// The assumed path MTU of outer packets.
    pub(crate) path_mtu: u16,
    /// Whether it is ESP in tunnel or AGGFRAG mode, whose packets are raw.
    is_raw: bool,
    /// Whether its packets are AGGFRAG payloads.
    pub(crate) is_iptfs: bool,
    /// Whether it has inner packets always in one payload.
    dont_frag: bool,
}

/// The cold state of an outbound SA, which few packets need.
pub(crate) struct OutboundCold {
    pub(crate) common: SaCommon,
    envelope: Envelope,
    /// The last number that may be used for now.
    reserved: u64,
    /// Sequence numbers that no packet used.
    skipped: u64,
    pub(crate) path: PathMtu,
    /// Which packets a report from the path can be about.
    pub(crate) sent_lately: SentLately,
    /// The NAT flow kept open for it, if any.
    pub(crate) nat_flow: Option<NatFlow>,
    /// In AGGFRAG mode.
    pub(crate) aggregator: Option<Box<Aggregator>>,
}

impl OutboundCold {
    pub(crate) fn new(config: &SaConfig, common: SaCommon) -> Self {
        Self {
            envelope: envelope(&common, config.encap.is_some(), config.remote.is_ipv6()),
            common,
            reserved: config.sequence_reserved.min(last_sequence(config.esn)),
            skipped: config.sequence_start,
            path: PathMtu::default(),
            sent_lately: SentLately::default(),
            nat_flow: None,
            aggregator: (config.mode == Mode::Iptfs).then(|| Box::new(Aggregator::new(config.iptfs))),
        }
    }

    /// The longest inner packet that fits an outer one of `mtu` bytes, in bytes, if its headers
    /// before the payload take `header_len` bytes.
    pub(crate) fn inner_mtu(&self, mtu: usize, header_len: usize) -> usize {
        self.envelope.inner_mtu(mtu, header_len)
    }

    /// The length of the outer packet of an inner one of `len` bytes, likewise.
    pub(crate) fn outer_len(&self, len: usize, header_len: usize) -> usize {
        self.envelope.outer_len(len, header_len)
    }
}

fn envelope(common: &SaCommon, in_udp: bool, is_v6: bool) -> Envelope {
    let facts = &common.facts;
    Envelope::new(facts.name.protocol, facts.mode, facts.transform, is_v6, in_udp)
}

impl OutboundSa {
    /// An SA that has sent nothing yet; its settings must be valid.
    pub(crate) fn new(config: &SaConfig, common: &SaCommon) -> Self {
        Self {
            sequence: config.sequence_start,
            bytes: 0,
            limits: CachedLimits::default(),
            last_used_ns: NEVER_NS,
            template: SealTemplate::new(config, common.generation),
            plain_largest: 0,
            path_mtu: 0,
            is_raw: config.protocol == SaProtocol::Esp && config.mode != Mode::Transport,
            is_iptfs: config.mode == Mode::Iptfs,
            dont_frag: config.iptfs.dont_frag,
        }
    }

    /// The sequence number of the last packet; 0 before the first.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Continues after `sequence`, like a standby that takes over. Never goes back: a number, and
    /// with it a nonce, would be reused under one key.
    pub(crate) fn set_sequence(&mut self, cold: &mut OutboundCold, sequence: u64) {
        let skipped = sequence.saturating_sub(self.sequence);
        self.sequence += skipped;
        cold.skipped += skipped;
        self.expire_limits();
    }

    /// Allows the use of numbers up to this one. What was allowed before stays allowed.
    pub(crate) fn reserve_sequence(&mut self, cold: &mut OutboundCold, last: u64) {
        cold.reserved = cold.reserved.max(last.min(last_sequence(self.template.plan.esn())));
        self.expire_limits();
    }

    /// Makes the next packet check limits and path again.
    pub(crate) fn expire_limits(&mut self) {
        self.limits.until_ns = 0;
    }

    /// The used part of its lifetime.
    pub(crate) fn usage(&self, cold: &OutboundCold) -> Usage {
        let mut usage = cold.common.usage;
        usage.set_spent(self.bytes, self.sequence - cold.skipped);
        usage
    }

    /// An expiry that was reached and not reported yet.
    pub(crate) fn expiry(&mut self, cold: &mut OutboundCold, now_ns: u64) -> Option<Expiry> {
        let mut usage = self.usage(cold);
        let esn = self.template.plan.esn();
        if self.sequence >= last_sequence(esn) {
            usage.exhaust();
        } else if self.sequence >= late_sequence(esn) {
            usage.near_exhaustion();
        }
        let expiry = usage.expiry(now_ns);
        cold.common.usage = usage;
        expiry
    }

    /// Evaluates limits and path again; `port_mtu` is the largest packet that the outside port
    /// sends, in bytes. Call it before using the SA's [path MTU](Self::path_mtu) if the cached
    /// limits have expired.
    pub(crate) fn renew(&mut self, cold: &mut OutboundCold, now_ns: u64, port_mtu: u16) {
        cold.sent_lately.note(now_ns, self.sequence);
        self.path_mtu = cold.path.current(now_ns, port_mtu);
        let usage = self.usage(cold);
        let (bytes, packets, over_ns) = usage.next_limits();
        let changes = [over_ns, cold.path.forgotten_ns(), cold.sent_lately.next_mark_ns()];
        let next_ns = changes.into_iter().filter(|change_ns| *change_ns > now_ns).min();
        let is_spent = self.sequence >= cold.reserved || usage.is_over(now_ns);
        self.limits = CachedLimits {
            until_ns: if is_spent { 0 } else { next_ns.unwrap_or(NEVER_NS) },
            bytes,
            packets: cold.reserved.min(packets.saturating_add(cold.skipped)).min(self.next_mark()),
        };
        let facts = &cold.common.facts;
        let is_plain = self.is_raw && (facts.tfc_bytes == 0 || self.is_iptfs);
        let mtu = match cold.aggregator.as_ref().map_or(0, |aggregator| aggregator.config().pkt_size) {
            0 => self.path_mtu,
            pkt_size => self.path_mtu.min(pkt_size),
        };
        let largest = cold.inner_mtu(mtu.into(), 0);
        self.plain_largest = if is_plain { largest.min(u16::MAX.into()) as u16 } else { 0 };
    }

    /// The sequence number at which the end of its numbers is reported, if that is still to come.
    fn next_mark(&self) -> u64 {
        let late = late_sequence(self.template.plan.esn());
        if self.sequence < late { late } else { u64::MAX }
    }

    /// Whether the cached limits have expired.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.limits.until_ns
    }

    /// Changes the SA's ends.
    pub(crate) fn set_ends(&mut self, cold: &mut OutboundCold, ends: &SaEnds) {
        self.template.outer.set_ends(cold.common.facts.name.protocol, ends);
        cold.envelope = envelope(&cold.common, ends.encap.is_some(), ends.remote.is_ipv6());
        self.expire_limits();
    }

    /// Bytes of headroom that a packet with this layout needs: the prepended headers and, with AH,
    /// the copy of the headers before it.
    pub(crate) fn needed_headroom(&self, cold: &OutboundCold, inner: &Layout) -> usize {
        let esp = self.template.plan.esp_header_len();
        let ah = |is_v6| ah::header_len(self.template.plan.icv_len(), is_v6);
        let facts = &cold.common.facts;
        match (facts.name.protocol, facts.mode) {
            (SaProtocol::Esp, Mode::Tunnel) => self.template.outer.len() + esp,
            (SaProtocol::Esp, Mode::Iptfs) => self.template.outer.len() + esp + AGGFRAG_HEADER,
            (SaProtocol::Esp, Mode::Transport) => facts.encap.map_or(0, |_| UDP_HEADER) + esp,
            (SaProtocol::Ah, Mode::Tunnel | Mode::Iptfs) => {
                2 * self.template.outer.len() + ah(self.template.outer.is_v6())
            }
            (SaProtocol::Ah, Mode::Transport) => inner.unfragmentable + ah(inner.is_v6),
        }
    }

    /// Counts a packet; returns whether it reaches a limit.
    #[inline]
    fn spend(&mut self, bytes: usize) -> bool {
        self.bytes += bytes as u64;
        self.is_limit()
    }

    /// The generation: counts the SAs that had its index one after another.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.template.generation
    }

    /// Whether its packets are raw until [laid out](Self::lay_out): ESP, but for transport mode.
    #[inline]
    pub(crate) fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// The template that seals its packets on any core; `None` if they are never raw.
    #[inline]
    pub(crate) fn template(&self) -> Option<SealTemplate> {
        self.is_raw.then_some(self.template)
    }

    /// The context of a raw packet.
    #[inline]
    pub(crate) fn raw_context(&self, inner: Inner) -> FinishContext {
        let generation = self.template.generation;
        FinishContext { generation, form: Form::Raw, inner, ..FinishContext::default() }
    }

    /// The counter of its outer headers' identifications.
    #[inline(always)]
    pub(crate) fn flow(&self) -> OuterFlow {
        self.template.outer.flow()
    }

    /// Bytes prepended to each raw packet.
    #[inline(always)]
    pub(crate) fn front(&self) -> usize {
        self.template.front()
    }

    /// The longest packet that needs no special treatment, in bytes; in AGGFRAG mode the longest
    /// payload. 0 if limits and path must be [evaluated](Self::renew) first.
    #[inline(always)]
    pub(crate) fn largest(&self, now_ns: u64) -> usize {
        if self.is_due(now_ns) { 0 } else { self.plain_largest.into() }
    }

    /// Whether inner packets always stand in one payload.
    pub(crate) fn keeps_whole(&self) -> bool {
        self.dont_frag
    }

    /// The longest AGGFRAG payload that fits the path, in bytes, as of the last
    /// [evaluation](Self::renew).
    pub(crate) fn payload_capacity(&self) -> usize {
        self.plain_largest.into()
    }

    /// The traffic class that its outer headers have whatever is inside.
    pub(crate) fn outer_class(&self) -> u8 {
        self.template.outer.set_class()
    }

    /// Whether this many packets may be numbered without checking limits and path before, between
    /// or behind them.
    #[inline(always)]
    pub(crate) fn covers(&self, packets: usize, now_ns: u64) -> bool {
        let numbers = self.limits.packets.saturating_sub(self.sequence);
        let bytes = self.limits.bytes.saturating_sub(self.bytes);
        !self.is_due(now_ns) && (packets as u64) < numbers && ((packets * LONGEST_BYTES) as u64) < bytes
    }

    /// Whether a limit is reached; the cached limits then expire.
    #[inline]
    pub(crate) fn is_limit(&mut self) -> bool {
        let is_limit = self.bytes >= self.limits.bytes || self.sequence >= self.limits.packets;
        if is_limit {
            self.expire_limits();
        }
        is_limit
    }

    /// Numbers the raw packets among these, counts them, and turns them into ESP packets with their
    /// jobs; returns how many were numbered. `ids` has their identifications. A packet that has a
    /// number keeps it and is not counted again; one that must not leave is refused, and uses no
    /// number. `random` generates IVs.
    #[inline(always)]
    pub(crate) fn lay_out(
        &mut self,
        packets: &mut [CryptoPacket],
        ids: Series,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> u64 {
        match self.template.plan.shape() {
            Shape::Aead => self.lay_out_aead(packets, ids, now_ns),
            Shape::AesCbc => self.lay_out_cbc(packets, ids, now_ns, random),
            _ => self.lay_out_any(packets, ids, now_ns, random),
        }
    }

    // A function that calls nothing: inlined into the loop over all runs, most of its values would
    // not stay in registers.

    #[inline(never)]
    fn lay_out_aead(&mut self, packets: &mut [CryptoPacket], ids: Series, now_ns: u64) -> u64 {
        self.number(packets, ids, now_ns, |template, packet, sequence| template.write_aead(packet, sequence))
    }

    #[inline(never)]
    fn lay_out_cbc(
        &mut self,
        packets: &mut [CryptoPacket],
        ids: Series,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> u64 {
        self.number(packets, ids, now_ns, |template, packet, sequence| {
            template.write_cbc(packet, sequence, random)
        })
    }

    #[inline(never)]
    fn lay_out_any(
        &mut self,
        packets: &mut [CryptoPacket],
        ids: Series,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> u64 {
        self.number(packets, ids, now_ns, |template, packet, sequence| {
            template.write_any(packet, sequence, random)
        })
    }

    /// Like [`lay_out`](Self::lay_out), without headers and jobs.
    pub(crate) fn begin(&mut self, packets: &mut [CryptoPacket], ids: Series, now_ns: u64) -> u64 {
        self.number(packets, ids, now_ns, SealTemplate::number)
    }

    /// Numbers raw packets and counts them; `write` receives the number of each.
    #[inline(always)]
    fn number(
        &mut self,
        packets: &mut [CryptoPacket],
        ids: Series,
        now_ns: u64,
        mut write: impl FnMut(&SealTemplate, &mut CryptoPacket, u64) -> Result<Growth, DropReason>,
    ) -> u64 {
        let Self { template, path_mtu, .. } = self;
        let (before, mut sequence, mut bytes) = (self.sequence, self.sequence, self.bytes);
        for_each_raw(packets, template.generation, DropReason::OutboundNoSa, |packet| {
            let known = packet.context.sequence;
            if known == 0 {
                packet.context.identification = ids.of(sequence + 1);
            }
            let growth = write(template, packet, if known == 0 { sequence + 1 } else { known })?;
            if known == 0 {
                sequence += 1;
                bytes += growth.body as u64;
                packet.context.is_cut = growth.total() > usize::from(*path_mtu);
            }
            Ok(())
        });
        (self.sequence, self.bytes) = (sequence, bytes);
        if sequence > before {
            self.last_used_ns = now_ns;
        }
        sequence - before
    }

    fn take_sequence(&mut self, cold: &OutboundCold, now_ns: u64) -> Result<u64, DropReason> {
        self.check_limits(cold, now_ns)?;
        self.sequence += 1;
        Ok(self.sequence)
    }

    /// Checks that the SA may send another packet.
    ///
    /// # Errors
    /// The reason why not.
    pub(crate) fn check_limits(&self, cold: &OutboundCold, now_ns: u64) -> Result<(), DropReason> {
        if self.sequence >= cold.reserved {
            let is_last = self.sequence >= last_sequence(self.template.plan.esn());
            return Err(if is_last { DropReason::SequenceExhausted } else { DropReason::SequenceUnreserved });
        }
        if self.usage(cold).is_over(now_ns) { Err(DropReason::SaExpired) } else { Ok(()) }
    }

    /// Completes a packet whose job is done: puts back what AH hid from the engine.
    ///
    /// # Errors
    /// The reason for which it was refused, or [`DropReason::EngineFailed`] if its job was not
    /// done.
    #[inline]
    pub(crate) fn finish(
        frame: &mut Frame,
        context: &FinishContext,
        status: CryptoStatus,
    ) -> Result<(), DropReason> {
        match status {
            // A raw packet was not sealed, whatever an engine reports.
            CryptoStatus::Done if context.form != Form::Raw => ah::restore(frame, context),
            CryptoStatus::Refused(reason) => Err(reason),
            _ => Err(DropReason::EngineFailed),
        }
    }
}

/// Pads a packet at its end against traffic analysis (RFC 4303 section 2.7).
///
/// # Errors
/// [`DropReason::NoRoom`] if the frame is too small.
pub(crate) fn pad_to(frame: &mut Frame, tfc_len: usize) -> Result<(), DropReason> {
    let short = tfc_len.saturating_sub(frame.len());
    if short > 0 {
        frame.append(short).map_err(no_room)?.fill(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_packet_needs_is_two_cache_lines() {
        assert_eq!(size_of::<Option<OutboundSa>>(), 128);
    }
}
