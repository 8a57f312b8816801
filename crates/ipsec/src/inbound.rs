//! The inbound SA: from an IPsec packet to its crypto job, and from the job's result to the plain packet
//! (RFC 4303 section 3.4).

use std::net::SocketAddr;

use convoy_packet::protocol::{IPV4, IPV6, NO_NEXT_HEADER};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Frame, Layout, ip};

use crate::ah;
use crate::drops::DropReason;
use crate::flow::address_number;
use crate::job::{CryptoJob, CryptoStatus, Prepared};
use crate::job_plan::JobPlan;
use crate::lease::{Lease, NEVER_NS};
use crate::lifetime::{Expiry, Usage};
use crate::natt;
use crate::replay::ReplayWindow;
use crate::sa::no_room;
use crate::sa_config::{Mode, SaConfig, SaEnds, SaProtocol};
use crate::sad::SaCommon;
use crate::tos::decapsulate;
use crate::trailer::{ESP_TRAILER, PADDING};
use crate::{FinishContext, LONGEST_BYTES};

/// What every packet of an SA that opens reads or writes: two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct InboundSa {
    replay: ReplayWindow,
    /// Bytes that the algorithm was applied to, and packets.
    bytes: u64,
    packets: u64,
    lease: Lease,
    /// When a packet last came in, in ns, or [`NEVER_NS`].
    pub(crate) last_used_ns: u64,
    /// Our outer address as a number; unspecified admits any.
    local: [u8; 16],
    pub(crate) generation: u32,
    /// The tunnel's number.
    pub(crate) tunnel: u32,
    pub(crate) owner: u16,
    plan: JobPlan,
    protocol: SaProtocol,
    mode: Mode,
    is_v6: bool,
    in_udp: bool,
}

/// What is kept of an inbound SA, and few packets need.
pub(crate) struct InboundRest {
    pub(crate) common: SaCommon,
    /// Where the peer was and where it has moved, until that is told.
    pub(crate) moved: Option<(SocketAddr, SocketAddr)>,
}

impl InboundRest {
    pub(crate) fn new(common: SaCommon) -> Self {
        Self { common, moved: None }
    }
}

impl InboundSa {
    /// An SA that has received nothing yet; its settings were found good.
    pub(crate) fn new(config: &SaConfig, common: &SaCommon) -> Self {
        let mut sa = Self {
            replay: ReplayWindow::after(config.sequence_start, config.replay_window, config.esn),
            bytes: 0,
            packets: 0,
            lease: Lease::default(),
            last_used_ns: NEVER_NS,
            local: [0; 16],
            generation: common.generation,
            tunnel: common.tunnel,
            owner: config.owner,
            plan: JobPlan::new(&config.keys, config.esn),
            protocol: config.protocol,
            mode: config.mode,
            is_v6: false,
            in_udp: false,
        };
        sa.set_ends(&SaEnds { local: config.local, remote: config.remote, encap: config.encap });
        sa
    }

    /// An end moved.
    pub(crate) fn set_ends(&mut self, ends: &SaEnds) {
        self.local = address_number(ends.local).to_ne_bytes();
        (self.is_v6, self.in_udp) = (ends.local.is_ipv6(), ends.encap.is_some());
    }

    /// The anti-replay window.
    pub(crate) fn replay(&self) -> &ReplayWindow {
        &self.replay
    }

    /// Tunnel or transport.
    #[inline]
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether its packets come in UDP.
    #[inline]
    pub(crate) fn in_udp(&self) -> bool {
        self.in_udp
    }

    /// Whether it is this very address, told as a number, that its packets come to, and in this encapsulation.
    #[inline]
    pub(crate) fn is_at(&self, is_v6: bool, address: u128, in_udp: bool) -> bool {
        u128::from_ne_bytes(self.local) == address && self.is_v6 == is_v6 && self.in_udp == in_udp
    }

    /// What it has used of its life.
    pub(crate) fn usage(&self, rest: &InboundRest) -> Usage {
        let mut usage = rest.common.usage;
        usage.set_spent(self.bytes, self.packets);
        usage
    }

    /// The expiry that was reached and not told yet.
    pub(crate) fn expiry(&mut self, rest: &mut InboundRest, now_ns: u64) -> Option<Expiry> {
        let mut usage = self.usage(rest);
        let expiry = usage.expiry(now_ns);
        rest.common.usage = usage;
        expiry
    }

    /// Looks at the limits anew; whether the SA is past a hard one.
    pub(crate) fn renew(&mut self, rest: &InboundRest, now_ns: u64) -> bool {
        let usage = self.usage(rest);
        let (bytes, packets, over_ns) = usage.next_limits();
        let is_over = usage.is_over(now_ns);
        self.lease = Lease { until_ns: if is_over { 0 } else { over_ns }, bytes, packets };
        is_over
    }

    /// Whether the limits are to be looked at anew.
    #[inline]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.lease.until_ns
    }

    /// Lays out the job of a packet whose ESP or AH header stands at `header`. The packet is not changed but for
    /// what AH must hide.
    ///
    /// # Errors
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn prepare(&self, packet: &mut Prepared, header: usize) -> Result<(), DropReason> {
        if packet.frame.len() > LONGEST_BYTES {
            return Err(DropReason::MalformedOuter);
        }
        packet.context.generation = self.generation;
        match self.protocol {
            SaProtocol::Esp => self.prepare_esp(packet, header),
            SaProtocol::Ah => self.prepare_ah(packet, header),
        }
    }

    #[inline]
    fn check_number(&self, low: u32) -> Result<u64, DropReason> {
        let sequence = self.replay.infer(low);
        if self.replay.may_accept(sequence) { Ok(sequence) } else { Err(DropReason::Replayed) }
    }

    #[inline]
    fn prepare_esp(&self, packet: &mut Prepared, esp: usize) -> Result<(), DropReason> {
        let Prepared { frame, job, context, .. } = packet;
        let bytes = &frame[..];
        let fixed = esp + self.plan.esp_header_len() + self.plan.icv_len();
        let body_len = bytes.len().checked_sub(fixed).ok_or(DropReason::MalformedOuter)?;
        if body_len < ESP_TRAILER || !self.plan.takes_body(body_len) {
            return Err(DropReason::MalformedOuter);
        }
        let header = Esp::parse(&bytes[esp..]).map_err(|_| DropReason::MalformedOuter)?;
        let sequence = self.check_number(header.sequence_number())?;
        context.sequence = sequence;
        context.header = esp as u16;
        self.plan.esp_job(job, bytes, (esp, body_len), sequence);
        Ok(())
    }

    fn prepare_ah(&self, packet: &mut Prepared, at: usize) -> Result<(), DropReason> {
        let frame = &mut packet.frame;
        let header = Ah::parse(&frame[at..]).map_err(|_| DropReason::MalformedOuter)?;
        if header.header_len() != ah::header_len(self.plan.icv_len(), ip::is_v6(frame)) {
            return Err(DropReason::MalformedOuter);
        }
        let sequence = self.check_number(header.sequence_number())?;
        let (job, context) = ah::hide(frame, at, sequence, &self.plan)?;
        packet.job = job;
        packet.context = FinishContext { generation: self.generation, ..context };
        Ok(())
    }

    /// Whether the number of a packet that was found authentic is still new; it is noted then.
    ///
    /// # Errors
    /// The reason to drop the packet.
    #[inline]
    pub(crate) fn accept(&mut self, status: CryptoStatus, sequence: u64) -> Result<(), DropReason> {
        match status {
            CryptoStatus::Done if self.replay.accept(sequence) => Ok(()),
            CryptoStatus::Done => Err(DropReason::Replayed),
            CryptoStatus::IcvMismatch => Err(DropReason::IntegrityFailed),
            CryptoStatus::Pending => Err(DropReason::EngineFailed),
        }
    }

    /// Counts a packet; whether a limit is reached by it.
    #[inline]
    pub(crate) fn spend(&mut self, job: &CryptoJob) -> bool {
        self.bytes += job.lifetime_bytes(self.protocol) as u64;
        self.packets += 1;
        let is_limit = self.bytes >= self.lease.bytes || self.packets >= self.lease.packets;
        if is_limit {
            self.lease.until_ns = 0;
        }
        is_limit
    }

    /// Makes an opened packet, which was [accepted](Self::accept), into the plain one that was protected, and returns its layout.
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
        let at = usize::from(context.header);
        let (payload, next) = match self.protocol {
            SaProtocol::Esp => {
                let next = strip_trailer(frame, job, self.plan.icv_len())?;
                (at + self.plan.esp_header_len(), next)
            }
            SaProtocol::Ah => {
                ah::restore(frame, context)?;
                let header = Ah::parse(&frame[at..]).map_err(|_| DropReason::MalformedOuter)?;
                (at + header.header_len(), header.next_header())
            }
        };
        match self.mode {
            Mode::Tunnel => strip_tunnel(frame, payload, next),
            Mode::Transport => self.strip_transport(frame, payload, next, at),
        }
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
            // A NAT changed the addresses that the transport checksum covers (RFC 3948 section 3.1.2).
            natt::fix_checksum(frame, ip_len, next);
        }
        let layout = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
        frame.truncate(layout.total_len);
        Ok(layout)
    }
}

/// Cuts ICV, trailer and padding off and returns the next header.
#[inline]
fn strip_trailer(frame: &mut Frame, job: &CryptoJob, icv_len: usize) -> Result<u8, DropReason> {
    debug_assert_eq!(usize::from(job.icv_start) + icv_len, frame.len());
    let packet = &frame[..];
    let end = usize::from(job.icv_start);
    let (pad_len, next) = (usize::from(packet[end - 2]), packet[end - 1]);
    // The body starts at the cipher's start; with NULL encryption that is set all the same.
    let pad_start =
        (end - ESP_TRAILER).checked_sub(pad_len).filter(|start| *start >= usize::from(job.cipher_start));
    let Some(pad_start) = pad_start else { return Err(DropReason::BadPadding) };
    // Most often there are few bytes of it, for which a loop is cheaper than a comparison of memory.
    let padding = &packet[pad_start..end - ESP_TRAILER];
    if !padding.iter().zip(&PADDING).all(|(byte, expected)| byte == expected) {
        return Err(DropReason::BadPadding);
    }
    frame.truncate(pad_start);
    Ok(next)
}

/// Leaves the inner packet of tunnel mode, with its ECN field brought up to date (RFC 6040), and returns its layout.
#[inline]
fn strip_tunnel(frame: &mut Frame, payload: usize, next: u8) -> Result<Layout, DropReason> {
    let is_v6 = match next {
        IPV4 => false,
        IPV6 => true,
        NO_NEXT_HEADER => return Err(DropReason::Dummy),
        _ => return Err(DropReason::BadNextHeader),
    };
    let outer_class = ip::traffic_class(frame);
    frame.trim_front(payload).map_err(|_| DropReason::MalformedDecrypted)?;
    let mut inner = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
    if inner.is_v6 != is_v6 {
        return Err(DropReason::MalformedDecrypted);
    }
    // What is behind the inner packet is padding against traffic analysis.
    frame.truncate(inner.total_len);
    let traffic_class = decapsulate(outer_class, inner.traffic_class).ok_or(DropReason::EcnCongestion)?;
    if traffic_class != inner.traffic_class {
        ip::set_traffic_class(frame, traffic_class);
        inner.traffic_class = traffic_class;
    }
    Ok(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_packet_needs_is_two_cache_lines() {
        assert_eq!(size_of::<Option<InboundSa>>(), 128);
    }
}
