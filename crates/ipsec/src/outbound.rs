//! The outbound SA: from a plain packet to one whose crypto job is ready (RFC 4303 section 3.3).

use convoy_packet::esp::{self, HEADER_BYTES as ESP_HEADER};
use convoy_packet::protocol::{ESP, IPV4, IPV6, NO_NEXT_HEADER, UDP};
use convoy_packet::udp::HEADER_BYTES as UDP_HEADER;
use convoy_packet::{Frame, Layout, ip};

use crate::ah;
use crate::drops::DropReason;
use crate::envelope::Envelope;
use crate::job::{CryptoJob, CryptoStatus};
use crate::job_plan::JobPlan;
use crate::lifetime::{Expiry, Usage};
use crate::sa::{OuterHeader, SaError, no_room, validate, write_udp};
use crate::sa_config::{Mode, SaConfig, SaEnds, SaProtocol, UdpEncap};
use crate::{FinishContext, LONGEST_BYTES};

/// ESP trailer without padding: pad length and next header.
pub(crate) const ESP_TRAILER: usize = 2;

/// RFC 4303's padding: 1, 2, 3, …
pub(crate) static PADDING: [u8; 255] = {
    let mut bytes = [0; 255];
    let mut at = 0;
    while at < 255 {
        bytes[at] = at as u8 + 1;
        at += 1;
    }
    bytes
};

/// Behind it numbers would come again (RFC 4303 section 3.3.3).
const fn last_sequence(esn: bool) -> u64 {
    if esn { u64::MAX } else { u32::MAX as u64 }
}

/// An SA that seals.
#[derive(Debug)]
pub(crate) struct OutboundSa {
    spi: u32,
    protocol: SaProtocol,
    mode: Mode,
    encap: Option<UdpEncap>,
    plan: JobPlan,
    outer: OuterHeader,
    envelope: Envelope,
    /// The number of the last packet.
    sequence: u64,
    /// The last number that may be used for now.
    reserved: u64,
    iv_start: u64,
    usage: Usage,
}

impl OutboundSa {
    /// An SA that has sent nothing yet.
    ///
    /// # Errors
    /// [`SaError`], what is wrong with the configuration.
    pub(crate) fn new(config: &SaConfig, now_ns: u64) -> Result<Self, SaError> {
        validate(config)?;
        let SaConfig { protocol, mode, encap, .. } = *config;
        let transform = config.keys.transform();
        Ok(Self {
            spi: config.spi,
            protocol,
            mode,
            encap,
            plan: JobPlan::new(&config.keys, config.esn),
            outer: OuterHeader::new(config),
            envelope: Envelope::new(protocol, mode, transform, config.remote.is_ipv6(), encap.is_some()),
            sequence: config.sequence_start,
            reserved: config.sequence_reserved.min(last_sequence(config.esn)),
            iv_start: config.iv_start,
            usage: Usage::new(config.lifetime, now_ns),
        })
    }

    /// The number of the last packet; 0 before the first.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Goes on after `sequence`, as a standby that takes over does. Never goes back: a number, and with it a nonce,
    /// would come twice under one key.
    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    /// Lets it use the numbers up to this one. What was allowed before stays allowed.
    pub(crate) fn reserve_sequence(&mut self, last: u64) {
        self.reserved = self.reserved.max(last.min(last_sequence(self.plan.esn)));
    }

    /// What it has used of its life.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The expiry that was reached and not told yet.
    pub(crate) fn expiry(&mut self, now_ns: u64) -> Option<Expiry> {
        if self.sequence >= last_sequence(self.plan.esn) {
            self.usage.exhaust();
        }
        self.usage.expiry(now_ns)
    }

    /// An end moved.
    pub(crate) fn set_ends(&mut self, ends: &SaEnds) {
        self.outer.set_ends(ends);
        self.encap = ends.encap;
        let (transform, in_udp) = (self.plan.transform, ends.encap.is_some());
        self.envelope = Envelope::new(self.protocol, self.mode, transform, ends.remote.is_ipv6(), in_udp);
    }

    /// The longest inner packet that fits an outer one of `mtu` bytes, in bytes, whose headers before the payload are `header_len` bytes
    /// long.
    pub(crate) fn inner_mtu(&self, mtu: usize, header_len: usize) -> usize {
        self.envelope.inner_mtu(mtu, header_len)
    }

    /// Bytes of headroom that a packet with this layout needs: what is put before it and, with AH, the copy of
    /// the headers before that.
    pub(crate) fn needed_headroom(&self, inner: &Layout) -> usize {
        let esp = ESP_HEADER + self.plan.iv_len;
        let ah = |is_v6| ah::header_len(self.plan.icv_len, is_v6);
        match (self.protocol, self.mode) {
            (SaProtocol::Esp, Mode::Tunnel) => self.outer.len() + esp,
            (SaProtocol::Esp, Mode::Transport) => self.encap.map_or(0, |_| UDP_HEADER) + esp,
            (SaProtocol::Ah, Mode::Tunnel) => 2 * self.outer.len() + ah(self.outer.is_v6()),
            (SaProtocol::Ah, Mode::Transport) => inner.unfragmentable + ah(inner.is_v6),
        }
    }

    /// Makes `frame`, a plain packet with this layout, into an IPsec packet whose job is returned. In ESP tunnel
    /// mode one shorter than `tfc_len` is padded to it. On an error the frame's content is undefined.
    ///
    /// # Errors
    /// The reason to drop the packet.
    pub(crate) fn prepare(
        &mut self,
        frame: &mut Frame,
        inner: &Layout,
        tfc_len: usize,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        frame.truncate(inner.total_len);
        let sequence = self.take_sequence(now_ns)?;
        let (job, context) = self.seal(frame, inner, tfc_len, sequence, random)?;
        check_length(frame, &context)?;
        self.usage.spend(job.lifetime_bytes(self.protocol));
        Ok((job, context))
    }

    fn seal(
        &mut self,
        frame: &mut Frame,
        inner: &Layout,
        tfc_len: usize,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        match (self.protocol, self.mode) {
            (SaProtocol::Esp, Mode::Tunnel) => {
                let next = if inner.is_v6 { IPV6 } else { IPV4 };
                let short = tfc_len.saturating_sub(frame.len());
                if short > 0 {
                    frame.append(short).map_err(no_room)?.fill(0);
                }
                self.esp_tunnel(frame, inner, next, sequence, random)
            }
            (SaProtocol::Esp, Mode::Transport) => self.esp_transport(frame, inner, sequence, random),
            (SaProtocol::Ah, Mode::Tunnel) => {
                let next = if inner.is_v6 { IPV6 } else { IPV4 };
                let before = self.outer.len();
                let header = ah::header_len(self.plan.icv_len, self.outer.is_v6());
                frame.prepend(before + header).map_err(no_room)?;
                self.outer.write(frame, inner);
                let place = ah::Place { at: before, len: header, next };
                ah::seal(frame, place, self.spi, sequence, &self.plan)
            }
            (SaProtocol::Ah, Mode::Transport) => {
                let place = ah::insert(frame, inner, self.plan.icv_len)?;
                ah::seal(frame, place, self.spi, sequence, &self.plan)
            }
        }
    }

    /// Makes an empty frame into a dummy packet of `len` bytes of payload (RFC 4303 section 2.6), for traffic
    /// flow confidentiality. Only ESP in tunnel mode has them.
    ///
    /// # Errors
    /// The reason why none can be sent.
    pub(crate) fn prepare_dummy(
        &mut self,
        frame: &mut Frame,
        len: usize,
        now_ns: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        if self.protocol != SaProtocol::Esp || self.mode != Mode::Tunnel {
            return Err(DropReason::BadNextHeader);
        }
        let sequence = self.take_sequence(now_ns)?;
        random(frame.append(len).map_err(no_room)?);
        let plain = Layout::dummy(len);
        let (job, context) = self.esp_tunnel(frame, &plain, NO_NEXT_HEADER, sequence, random)?;
        check_length(frame, &context)?;
        self.usage.spend(job.lifetime_bytes(self.protocol));
        Ok((job, context))
    }

    fn take_sequence(&mut self, now_ns: u64) -> Result<u64, DropReason> {
        if self.sequence >= self.reserved {
            let is_last = self.sequence >= last_sequence(self.plan.esn);
            return Err(if is_last { DropReason::SequenceExhausted } else { DropReason::SequenceUnreserved });
        }
        if self.usage.is_over(now_ns) {
            return Err(DropReason::SaExpired);
        }
        self.sequence += 1;
        Ok(self.sequence)
    }

    fn esp_tunnel(
        &mut self,
        frame: &mut Frame,
        inner: &Layout,
        next: u8,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        let payload_len = frame.len();
        let body_len = self.append_trailer(frame, payload_len, next)?;
        let esp = self.outer.len();
        frame.prepend(esp + ESP_HEADER + self.plan.iv_len).map_err(no_room)?;
        self.outer.write(frame, inner);
        self.write_esp(frame, esp, sequence, random);
        let context = FinishContext { sequence, header: esp as u16, ..FinishContext::default() };
        Ok((self.plan.esp_job(frame, esp, body_len, sequence), context))
    }

    fn esp_transport(
        &mut self,
        frame: &mut Frame,
        inner: &Layout,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(CryptoJob, FinishContext), DropReason> {
        if inner.fragment.is_some() {
            return Err(DropReason::FragmentInTransport);
        }
        let header = inner.unfragmentable;
        let next = frame[inner.next_header_at];
        let payload_len = frame.len() - header;
        let body_len = self.append_trailer(frame, payload_len, next)?;
        let udp = self.encap.map_or(0, |_| UDP_HEADER);
        let grown = udp + ESP_HEADER + self.plan.iv_len;
        frame.prepend(grown).map_err(no_room)?;
        frame.copy_within(grown..grown + header, 0);
        frame[inner.next_header_at] = if self.encap.is_some() { UDP } else { ESP };
        if let Some(ports) = self.encap {
            write_udp(&mut frame[header..], ports);
        }
        ip::set_length(frame);
        let esp = header + udp;
        self.write_esp(frame, esp, sequence, random);
        let context = FinishContext { sequence, header: esp as u16, ..FinishContext::default() };
        Ok((self.plan.esp_job(frame, esp, body_len, sequence), context))
    }

    /// Appends padding, trailer and room for the ICV; returns the length of what is encrypted.
    fn append_trailer(&self, frame: &mut Frame, payload_len: usize, next: u8) -> Result<usize, DropReason> {
        let body_len = (payload_len + ESP_TRAILER).next_multiple_of(self.plan.alignment);
        let pad_len = body_len - payload_len - ESP_TRAILER;
        let tail = frame.append(pad_len + ESP_TRAILER + self.plan.icv_len).map_err(no_room)?;
        tail[..pad_len].copy_from_slice(&PADDING[..pad_len]);
        tail[pad_len] = pad_len as u8;
        tail[pad_len + 1] = next;
        Ok(body_len)
    }

    fn write_esp(&self, frame: &mut Frame, at: usize, sequence: u64, random: &mut dyn FnMut(&mut [u8])) {
        let (header, rest) = frame[at..].split_at_mut(ESP_HEADER);
        esp::write(header, self.spi, sequence as u32);
        let iv = &mut rest[..self.plan.iv_len];
        if self.plan.counts_iv() {
            let counter = self.iv_start.wrapping_add(sequence);
            iv.copy_from_slice(&counter.to_be_bytes()[..self.plan.iv_len]);
        } else {
            random(iv);
        }
    }

    /// Completes a packet whose job is done: what AH hid from the engine is put back.
    ///
    /// # Errors
    /// [`DropReason::EngineFailed`] if the job was not done.
    pub(crate) fn finish(
        &self,
        frame: &mut Frame,
        context: &FinishContext,
        status: CryptoStatus,
    ) -> Result<(), DropReason> {
        if status != CryptoStatus::Done {
            return Err(DropReason::EngineFailed);
        }
        ah::restore(frame, context)
    }
}

/// Refuses what is longer than any packet, now that it is protected.
fn check_length(frame: &Frame, context: &FinishContext) -> Result<(), DropReason> {
    let len = frame.len() - usize::from(context.saved);
    if len > LONGEST_BYTES { Err(DropReason::PacketTooBig) } else { Ok(()) }
}
