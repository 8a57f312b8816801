//! From a plain packet and its sequence number to an ESP packet of tunnel mode with its job (RFC 4303 section 3.3).

use convoy_packet::Frame;
use convoy_packet::esp::{self, HEADER_BYTES as ESP_HEADER};

use crate::FinishContext;
use crate::drops::DropReason;
use crate::job::{CryptoJob, Prepared};
use crate::job_plan::{COUNTED_IV, JobPlan};
use crate::outer_header::{Inner, OuterHeader};
use crate::sa::no_room;
use crate::sa_config::SaConfig;
use crate::trailer::{ESP_TRAILER, write_trailer};

/// What an outbound SA makes its packets of, beside their numbers. It has no state, so that a copy of it serves any core.
#[derive(Clone, Copy, Debug)]
pub struct SealTemplate {
    iv_start: u64,
    pub(crate) outer: OuterHeader,
    pub(crate) spi: u32,
    pub(crate) generation: u32,
    pub(crate) plan: JobPlan,
}

/// How long a protected packet is, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// Of all headers before the payload.
    pub(crate) front: usize,
    /// Of payload, padding and trailer: what the lifetime counts.
    pub(crate) body: usize,
    /// Of padding, trailer and ICV.
    pub(crate) back: usize,
}

impl SealTemplate {
    pub(crate) fn new(config: &SaConfig, generation: u32) -> Self {
        Self {
            iv_start: config.iv_start,
            outer: OuterHeader::new(config),
            spi: config.spi,
            generation,
            plan: JobPlan::new(&config.keys, config.esn),
        }
    }

    /// What `finish` will need of its packet with this number.
    #[inline]
    pub(crate) fn context(&self, sequence: u64) -> FinishContext {
        let (header, generation) = (self.outer.len() as u16, self.generation);
        FinishContext { sequence, generation, header, ..FinishContext::default() }
    }

    /// By how much a payload of `len` bytes grows.
    #[inline]
    pub(crate) fn growth(&self, len: usize) -> Growth {
        let body = self.plan.padded(len + ESP_TRAILER);
        let front = self.outer.len() + self.plan.esp_header_len();
        Growth { front, body, back: body - len + self.plan.icv_len() }
    }

    /// Makes a raw packet, which has its number, into an ESP packet with its job.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`] if its frame is too small; it is as it was then.
    #[inline]
    pub(crate) fn lay_out(
        &self,
        packet: &mut Prepared,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        let (inner, sequence) = (packet.context.inner, packet.context.sequence);
        self.esp_tunnel(packet, inner, sequence, random)
    }

    /// Makes a payload into an ESP packet with its job.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`] if its frame is too small; it is as it was then.
    #[inline]
    pub(crate) fn esp_tunnel(
        &self,
        packet: &mut Prepared,
        inner: Inner,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        let Prepared { frame, job, context, .. } = packet;
        if self.plan.is_aead() {
            *job = self.write_aead(frame, inner, sequence)?;
        } else {
            *job = self.write_any(frame, inner, sequence, random)?;
        }
        *context = FinishContext { is_cut: context.is_cut, ..self.context(sequence) };
        Ok(())
    }

    /// Writes what stands around a payload in a packet of an AEAD that encrypts, and makes its job.
    #[inline(always)]
    pub(crate) fn write_aead(
        &self,
        frame: &mut Frame,
        inner: Inner,
        sequence: u64,
    ) -> Result<CryptoJob, DropReason> {
        let Growth { front, body, back } = self.growth(frame.len());
        let padding = body - frame.len();
        let bytes = frame.grow(front, back).map_err(no_room)?;
        let icv_len = self.plan.icv_len();
        let trailer = bytes.len() - icv_len - padding;
        write_trailer(&mut bytes[trailer..], padding, inner.protocol());
        let iv = self.counted_iv(sequence);
        let header = bytes
            .get_mut(self.outer.len()..)
            .and_then(|from| from.first_chunk_mut::<{ ESP_HEADER + COUNTED_IV }>());
        let Some(header) = header else { return Err(DropReason::NoRoom) };
        let number = u64::from(self.spi) << 32 | u64::from(sequence as u32);
        header[..ESP_HEADER].copy_from_slice(&number.to_be_bytes());
        header[ESP_HEADER..].copy_from_slice(&iv);
        self.outer.write(bytes, inner, sequence);
        Ok(self.plan.aead_job((front, body), (self.spi, sequence), iv))
    }

    /// The same in a packet of any transform.
    #[inline]
    pub(crate) fn write_any(
        &self,
        frame: &mut Frame,
        inner: Inner,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<CryptoJob, DropReason> {
        let payload_len = frame.len();
        let Growth { front, body, back } = self.growth(payload_len);
        let bytes = frame.grow(front, back).map_err(no_room)?;
        write_trailer(&mut bytes[front + payload_len..], body - payload_len, inner.protocol());
        self.outer.write(bytes, inner, sequence);
        let esp = self.outer.len();
        self.write_esp(bytes, esp, sequence, random);
        Ok(self.plan.esp_job(bytes, (esp, body), (self.spi, sequence)))
    }

    /// An IV that never repeats, as the sequence number does not.
    #[inline]
    fn counted_iv(&self, sequence: u64) -> [u8; COUNTED_IV] {
        self.iv_start.wrapping_add(sequence).to_be_bytes()
    }

    /// Writes the ESP header and the IV.
    #[inline]
    pub(crate) fn write_esp(
        &self,
        packet: &mut [u8],
        at: usize,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        let (header, rest) = packet[at..].split_at_mut(ESP_HEADER);
        esp::write(header, self.spi, sequence as u32);
        let iv_len = self.plan.iv_len();
        if !self.plan.counts_iv() {
            random(&mut rest[..iv_len]);
        } else if iv_len > 0 {
            rest[..COUNTED_IV].copy_from_slice(&self.counted_iv(sequence));
        }
    }
}
