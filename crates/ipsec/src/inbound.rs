//! The inbound SA: from an IPsec packet to its crypto job, and from the job's result to the plain packet
//! (RFC 4303 section 3.4).

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::protocol::{IPV4, IPV6, NO_NEXT_HEADER};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Ah, Esp, Frame, Layout, ip};

use crate::ah;
use crate::algorithm::{Cipher, Transform};
use crate::drops::DropReason;
use crate::job::{CryptoJob, CryptoStatus};
use crate::job_plan::JobPlan;
use crate::lifetime::{Expiry, Usage};
use crate::natt;
use crate::outbound::{ESP_TRAILER, PADDING};
use crate::replay::ReplayWindow;
use crate::sa::{SaError, no_room, validate};
use crate::sa_config::{Mode, SaConfig, SaProtocol};
use crate::tos::decapsulate;
use crate::{FinishContext, LONGEST_BYTES};

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
            replay: ReplayWindow::after(config.sequence_start, config.replay_window, config.esn),
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
        if frame.len() > LONGEST_BYTES {
            return Err(DropReason::MalformedOuter);
        }
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
        let header = Esp::parse(&frame[esp..]).map_err(|_| DropReason::MalformedOuter)?;
        let sequence = self.check_number(header.sequence_number())?;
        let context = FinishContext { sequence, header: esp as u16, ..FinishContext::default() };
        Ok((self.plan.esp_job(frame, esp, body_len, sequence), context))
    }

    fn prepare_ah(
        &self,
        frame: &mut Frame,
        outer: &Layout,
        at: usize,
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        let header = Ah::parse(&frame[at..]).map_err(|_| DropReason::MalformedOuter)?;
        if header.header_len() != ah::header_len(self.plan.icv_len, outer.is_v6) {
            return Err(DropReason::MalformedOuter);
        }
        let sequence = self.check_number(header.sequence_number())?;
        let (job, context) = ah::hide(frame, at, sequence, &self.plan)?;
        Ok((job, context))
    }

    /// Makes an opened packet into the plain one that was protected, and returns its layout. Must be called in the order in which
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
    ) -> Result<Layout, DropReason> {
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
        let at = usize::from(context.header);
        let (payload, next) = match self.protocol {
            SaProtocol::Esp => {
                let next = strip_trailer(frame, job, self.plan.icv_len)?;
                (at + ESP_HEADER + self.plan.iv_len, next)
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
        let udp = if self.is_encapsulated { UDP_HEADER } else { 0 };
        let ip_len = header - udp;
        let place = ip::protocol_at(frame, ip_len).map_err(|_| DropReason::MalformedOuter)?;
        frame[place] = next;
        let gone = payload - ip_len;
        frame.copy_within(0..ip_len, gone);
        frame.trim_front(gone).map_err(no_room)?;
        ip::set_length(frame);
        if self.is_encapsulated {
            // A NAT changed the addresses that the transport checksum covers (RFC 3948 section 3.1.2).
            natt::fix_checksum(frame, ip_len, next);
        }
        let layout = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
        frame.truncate(layout.total_len);
        Ok(layout)
    }
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

/// Leaves the inner packet of tunnel mode, with its ECN field brought up to date (RFC 6040), and returns its layout.
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
