//! From a plain packet and its sequence number to an ESP packet of tunnel mode with its job (RFC 4303 section 3.3).

use convoy_packet::esp::{self, HEADER_BYTES as ESP_HEADER};

use crate::drops::DropReason;
use crate::job::Prepared;
use crate::job_plan::JobPlan;
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
        self.esp_tunnel(packet, inner, inner.protocol(), sequence, random)
    }

    /// Makes a payload, of which `next` is the protocol, into an ESP packet with its job.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`] if its frame is too small; it is as it was then.
    #[inline]
    pub(crate) fn esp_tunnel(
        &self,
        packet: &mut Prepared,
        inner: Inner,
        next: u8,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        let Prepared { frame, job, context, .. } = packet;
        let Growth { front, body, back } = self.growth(frame.len());
        let payload_len = frame.len();
        let bytes = frame.grow(front, back).map_err(no_room)?;
        write_trailer(&mut bytes[front + payload_len..], body - payload_len, next);
        self.outer.write(bytes, inner, sequence);
        let esp = self.outer.len();
        self.write_esp(bytes, esp, sequence, random);
        self.plan.esp_job(job, bytes, (esp, body), sequence);
        context.note_layout(esp, sequence, self.generation);
        Ok(())
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
            rest[..8].copy_from_slice(&self.iv_start.wrapping_add(sequence).to_be_bytes());
        }
    }
}
