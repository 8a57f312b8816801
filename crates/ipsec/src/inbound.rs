//! The inbound SA: from an IPsec packet to its crypto job, and from the job's result to the plain packet
//! (RFC 4303 section 3.4).

use convoy_packet::Frame;

use crate::FinishContext;
use crate::ah::{self, AH_FIXED};
use crate::algorithm::{Cipher, Transform};
use crate::drops::DropReason;
use crate::job::{CryptoJob, CryptoStatus};
use crate::layout::{Layout, TCP, UDP, be16, be32};
use crate::lifetime::{Expiry, Usage};
use crate::natt;
use crate::outbound::{ESP_HEADER, ESP_TRAILER, JobPlan, NEXT_IPV4, NEXT_IPV6, NEXT_NONE, PADDING};
use crate::replay::ReplayWindow;
use crate::sa::{SaError, no_room, set_length, validate};
use crate::sa_config::{Mode, SaConfig, SaProtocol};
use crate::tos::decapsulate;

/// An SA that opens.
#[derive(Debug)]
pub(crate) struct InboundSa {
    protocol: SaProtocol,
    mode: Mode,
    is_encapsulated: bool,
    plan: JobPlan,
    replay: ReplayWindow,
    usage: Usage,
}

impl InboundSa {
    /// An SA that has received nothing yet.
    ///
    /// # Errors
    /// [`SaError`], what is wrong with the configuration.
    pub(crate) fn new(config: &SaConfig, now_ns: u64) -> Result<Self, SaError> {
        validate(config)?;
        Ok(Self {
            protocol: config.protocol,
            mode: config.mode,
            is_encapsulated: config.encap.is_some(),
            plan: JobPlan::new(&config.keys, config.esn),
            replay: ReplayWindow::new(config.replay_window, config.esn),
            usage: Usage::new(config.lifetime, now_ns),
        })
    }

    /// The anti-replay window.
    pub(crate) fn replay(&self) -> &ReplayWindow {
        &self.replay
    }

    /// What it has used of its life.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The expiry that was reached and not told yet.
    pub(crate) fn expiry(&mut self, now_ns: u64) -> Option<Expiry> {
        self.usage.expiry(now_ns)
    }

    /// Lays out the job of a packet whose ESP or AH header stands at `header`. The packet is not changed but for
    /// what AH must hide.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub(crate) fn prepare(
        &self,
        frame: &mut Frame,
        outer: &Layout,
        header: usize,
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        frame.truncate(outer.total_len);
        match self.protocol {
            SaProtocol::Esp => self.prepare_esp(frame, header),
            SaProtocol::Ah => self.prepare_ah(frame, outer, header),
        }
    }

    fn check_number(&self, low: u32) -> Result<u64, DropReason> {
        let sequence = self.replay.infer(low);
        if self.replay.may_accept(sequence) { Ok(sequence) } else { Err(DropReason::Replayed) }
    }

    fn prepare_esp(&self, frame: &Frame, esp: usize) -> Result<(CryptoJob, FinishContext), DropReason> {
        let fixed = esp + ESP_HEADER + self.plan.iv_len + self.plan.icv_len;
        let body_len = frame.len().checked_sub(fixed).ok_or(DropReason::MalformedOuter)?;
        let is_ciphered = !matches!(self.plan.transform, Transform::Chained { cipher: Cipher::Null, .. });
        if body_len < ESP_TRAILER || is_ciphered && body_len % self.plan.alignment != 0 {
            return Err(DropReason::MalformedOuter);
        }
        let sequence = self.check_number(be32(frame, esp + 4))?;
        let context = FinishContext { sequence, header: esp as u16, ..FinishContext::default() };
        Ok((self.plan.esp_job(frame, esp, body_len, sequence), context))
    }

    fn prepare_ah(
        &self,
        frame: &mut Frame,
        outer: &Layout,
        at: usize,
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        let len = ah::header_len(self.plan.icv_len, outer.is_v6);
        let fixed = frame.get(at..at + len).ok_or(DropReason::MalformedOuter)?;
        if usize::from(fixed[1]) * 4 + 8 != len {
            return Err(DropReason::MalformedOuter);
        }
        let sequence = self.check_number(be32(fixed, 8))?;
        let (job, context) = ah::hide(frame, at, sequence, &self.plan)?;
        Ok((job, context))
    }

    /// Makes an opened packet into the plain one that was protected. Must be called in the order in which
    /// packets of the SA arrived, as far as the window is to be kind to reordering.
    ///
    /// # Errors
    /// The reason to drop the packet; its content is then undefined.
    pub(crate) fn finish(
        &mut self,
        frame: &mut Frame,
        job: &CryptoJob,
        context: &FinishContext,
        status: CryptoStatus,
        now_ns: u64,
    ) -> Result<(), DropReason> {
        match status {
            CryptoStatus::Done => {}
            CryptoStatus::IcvMismatch => return Err(DropReason::IntegrityFailed),
            CryptoStatus::Pending => return Err(DropReason::EngineFailed),
        }
        if !self.replay.accept(context.sequence) {
            return Err(DropReason::Replayed);
        }
        if self.usage.is_over(now_ns) {
            return Err(DropReason::SaExpired);
        }
        self.usage.spend(job.lifetime_bytes(self.protocol));
        let outer_octet;
        let (payload, next) = match self.protocol {
            SaProtocol::Esp => {
                outer_octet = octet_of(frame);
                let next = strip_trailer(frame, job, self.plan.icv_len)?;
                (usize::from(context.header) + ESP_HEADER + self.plan.iv_len, next)
            }
            SaProtocol::Ah => {
                ah::restore(frame, context)?;
                outer_octet = octet_of(frame);
                let at = usize::from(context.header);
                let len = usize::from(frame[at + 1]) * 4 + 8;
                debug_assert!(len >= AH_FIXED);
                (at + len, frame[at])
            }
        };
        match self.mode {
            Mode::Tunnel => strip_tunnel(frame, payload, next, outer_octet),
            Mode::Transport => self.strip_transport(frame, payload, next, usize::from(context.header)),
        }
    }

    fn strip_transport(
        &self,
        frame: &mut Frame,
        payload: usize,
        next: u8,
        header: usize,
    ) -> Result<(), DropReason> {
        if next == NEXT_NONE {
            return Err(DropReason::Dummy);
        }
        let udp = if self.is_encapsulated { crate::sa::UDP_HEADER } else { 0 };
        let ip_len = header - udp;
        let place = next_header_place(frame, ip_len)?;
        frame[place] = next;
        let gone = payload - ip_len;
        frame.copy_within(0..ip_len, gone);
        frame.trim_front(gone).map_err(no_room)?;
        set_length(frame);
        if self.is_encapsulated && matches!(next, TCP | UDP) {
            // A NAT changed the addresses that the transport checksum covers (RFC 3948 section 3.1.2).
            natt::fix_checksum(frame, ip_len, next);
        }
        Ok(())
    }
}

/// The traffic class octet of the packet's own header.
fn octet_of(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[1] } else { (be16(packet, 0) >> 4) as u8 }
}

/// Cuts ICV, trailer and padding off and returns the next header.
fn strip_trailer(frame: &mut Frame, job: &CryptoJob, icv_len: usize) -> Result<u8, DropReason> {
    debug_assert_eq!(usize::from(job.icv_start) + icv_len, frame.len());
    let end = usize::from(job.icv_start);
    let (pad_len, next) = (usize::from(frame[end - 2]), frame[end - 1]);
    // The body starts at the cipher's start; with NULL encryption that is set all the same.
    let pad_start =
        (end - ESP_TRAILER).checked_sub(pad_len).filter(|start| *start >= usize::from(job.cipher_start));
    let Some(pad_start) = pad_start else { return Err(DropReason::BadPadding) };
    if frame[pad_start..end - ESP_TRAILER] != PADDING[..pad_len] {
        return Err(DropReason::BadPadding);
    }
    frame.truncate(pad_start);
    Ok(next)
}

/// Leaves the inner packet of tunnel mode, with its ECN field brought up to date (RFC 6040).
fn strip_tunnel(frame: &mut Frame, payload: usize, next: u8, outer_octet: u8) -> Result<(), DropReason> {
    let version = match next {
        NEXT_IPV4 => 4,
        NEXT_IPV6 => 6,
        NEXT_NONE => return Err(DropReason::Dummy),
        _ => return Err(DropReason::BadNextHeader),
    };
    frame.trim_front(payload).map_err(|_| DropReason::MalformedDecrypted)?;
    if frame.first().map(|byte| byte >> 4) != Some(version) {
        return Err(DropReason::MalformedDecrypted);
    }
    let inner = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
    // What is behind the inner packet is padding against traffic analysis.
    frame.truncate(inner.total_len);
    let octet = decapsulate(outer_octet, inner.octet).ok_or(DropReason::EcnCongestion)?;
    if octet != inner.octet {
        set_octet(frame, &inner, octet);
    }
    Ok(())
}

fn set_octet(packet: &mut [u8], layout: &Layout, octet: u8) {
    if layout.is_v6 {
        packet[0] = 0x60 | octet >> 4;
        packet[1] = packet[1] & 0x0f | octet << 4;
    } else {
        packet[1] = octet;
        crate::fragment::write_ipv4_checksum(&mut packet[..layout.payload]);
    }
}

/// Where the number of the header that starts at `ip_len` stands.
fn next_header_place(packet: &[u8], ip_len: usize) -> Result<usize, DropReason> {
    if packet[0] >> 4 == 4 {
        return Ok(9);
    }
    let (mut place, mut at) = (6, crate::layout::IPV6_HEADER);
    while at < ip_len {
        let Some([_, words, ..]) = packet.get(at..at + 8) else { return Err(DropReason::MalformedOuter) };
        (place, at) = (at, at + 8 + usize::from(*words) * 8);
    }
    if at == ip_len { Ok(place) } else { Err(DropReason::MalformedOuter) }
}
