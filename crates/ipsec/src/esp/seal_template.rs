//! From a plain packet and its sequence number to an ESP packet of tunnel mode with its job (RFC
//! 4303 section 3.3).

use convoy_packet::Frame;
use convoy_packet::esp::{self, HEADER_BYTES as ESP_HEADER};

use crate::drops::DropReason;
use crate::esp::job::CryptoPacket;
use crate::esp::job_plan::{CBC_IV, COUNTED_IV, EspParts, JobPlan, Shape};
use crate::esp::outer_header::{Inner, OuterHeader};
use crate::esp::stage::{FinishContext, Form, LONGEST_BYTES, no_room};
use crate::esp::trailer::{ESP_TRAILER, write_trailer};
use crate::sa::config::SaConfig;

/// The multiple to which every AEAD pads payload and trailer, in bytes (RFC 4303 section 2.4).
const AEAD_ALIGNMENT: usize = 4;

/// The parameters by which an outbound SA seals its packets, beside their numbers. Stateless, so
/// that a copy serves any core.
#[derive(Clone, Copy, Debug)]
pub struct SealTemplate {
    iv_start: u64,
    pub(crate) outer: OuterHeader,
    pub(crate) spi: u32,
    pub(crate) generation: u32,
    pub(crate) plan: JobPlan,
}

/// The bytes that protection adds to a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// All headers before the payload.
    pub(crate) front: usize,
    /// Payload, padding and trailer: what the lifetime counts.
    pub(crate) body: usize,
    /// Padding and trailer.
    trailer: usize,
    icv: usize,
}

impl Growth {
    /// The growth of a packet of `len` bytes, whose payload and trailer are padded to a multiple of
    /// `alignment`.
    #[inline(always)]
    fn new(len: usize, front: usize, alignment: usize, icv: usize) -> Self {
        // A power of two, so that the compiler sees how little padding there may be.
        let trailer = ESP_TRAILER + ((len + ESP_TRAILER).wrapping_neg() & (alignment - 1));
        Self { front, body: len + trailer, trailer, icv }
    }

    /// Padding, trailer and ICV.
    #[inline(always)]
    fn back(&self) -> usize {
        self.trailer + self.icv
    }

    /// The packet's length once grown.
    #[inline(always)]
    pub(crate) fn total(&self) -> usize {
        self.front + self.body + self.icv
    }
}

/// What a packet grows by: `front` bytes before it, and the padding to a multiple of `alignment`
/// bytes behind it.
#[derive(Clone, Copy)]
struct Expansion {
    front: usize,
    alignment: usize,
}

impl SealTemplate {
    pub(crate) fn new(config: &SaConfig, generation: u32) -> Self {
        let plan = JobPlan::new(&config.keys, config.esn);
        debug_assert!(plan.shape() != Shape::Aead || plan.alignment() == AEAD_ALIGNMENT);
        Self { iv_start: config.iv_start, outer: OuterHeader::new(config), spi: config.spi, generation, plan }
    }

    /// The context that `finish` needs of its packet with this number.
    #[inline]
    pub(crate) fn context(&self, sequence: u64) -> FinishContext {
        let (header, generation) = (self.outer.len() as u16, self.generation);
        FinishContext { sequence, generation, header, ..FinishContext::default() }
    }

    /// The growth of a packet of `len` bytes.
    #[inline]
    pub(crate) fn growth(&self, len: usize) -> Growth {
        Growth::new(len, self.front(), self.plan.alignment(), self.plan.icv_len())
    }

    /// The parts of a packet with this growth.
    #[inline]
    fn parts(&self, growth: Growth) -> EspParts {
        EspParts { header: self.outer.len(), body_len: growth.body }
    }

    /// All headers before the payload, in bytes.
    #[inline]
    pub(crate) fn front(&self) -> usize {
        self.outer.len() + self.plan.esp_header_len()
    }

    /// Turns a raw packet into an ESP packet with its job, by an encrypting AEAD.
    ///
    /// # Errors
    /// The reason to drop it; the packet is unchanged then.
    #[inline(always)]
    pub(crate) fn write_aead(&self, packet: &mut CryptoPacket, sequence: u64) -> Result<Growth, DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let front = self.outer.len() + ESP_HEADER + COUNTED_IV;
        let (bytes, growth) =
            self.grown(frame, Expansion { front, alignment: AEAD_ALIGNMENT }, context.inner)?;
        let iv = self.counted_iv(sequence);
        self.write_header::<{ ESP_HEADER + COUNTED_IV }>(bytes, sequence, &iv)?;
        self.outer.write(bytes, context.inner, context.identification);
        self.plan.aead_job(job, self.parts(growth), self.spi, sequence, iv);
        self.note_laid_out(context, sequence);
        Ok(growth)
    }

    /// Turns a raw packet into an ESP packet by AES-CBC; `random` generates the IV.
    ///
    /// # Errors
    /// The reason to drop the packet; it is unchanged then.
    #[inline(always)]
    pub(crate) fn write_cbc(
        &self,
        packet: &mut CryptoPacket,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Growth, DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let front = self.outer.len() + ESP_HEADER + CBC_IV;
        let (bytes, growth) = self.grown(frame, Expansion { front, alignment: CBC_IV }, context.inner)?;
        random(&mut job.nonce);
        self.write_header::<{ ESP_HEADER + CBC_IV }>(bytes, sequence, &job.nonce)?;
        self.outer.write(bytes, context.inner, context.identification);
        self.plan.cbc_job(job, self.parts(growth), sequence);
        self.note_laid_out(context, sequence);
        Ok(growth)
    }

    /// Turns a raw packet into an ESP packet by any transform; `random` generates the IV of a
    /// chaining cipher.
    ///
    /// # Errors
    /// The reason to drop the packet; it is unchanged then.
    #[inline]
    pub(crate) fn write_any(
        &self,
        packet: &mut CryptoPacket,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Growth, DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let expansion = Expansion { front: self.front(), alignment: self.plan.alignment() };
        let (bytes, growth) = self.grown(frame, expansion, context.inner)?;
        self.outer.write(bytes, context.inner, context.identification);
        self.write_esp(bytes, self.outer.len(), sequence, random);
        *job = self.plan.esp_job(bytes, self.parts(growth), self.spi, sequence);
        self.note_laid_out(context, sequence);
        Ok(growth)
    }

    /// Turns a raw packet into an ESP packet with its job, by the SA's transform.
    ///
    /// # Errors
    /// The reason to drop it; the packet is unchanged then.
    #[inline]
    pub(crate) fn lay_out(
        &self,
        packet: &mut CryptoPacket,
        sequence: u64,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), DropReason> {
        let grown = match self.plan.shape() {
            Shape::Aead => self.write_aead(packet, sequence),
            Shape::AesCbc => self.write_cbc(packet, sequence, random),
            _ => self.write_any(packet, sequence, random),
        };
        grown.map(|_| ())
    }

    /// Records the number of a raw packet that is laid out later.
    ///
    /// # Errors
    /// The reason to drop it; the packet is unchanged then.
    #[inline(always)]
    pub(crate) fn number(&self, packet: &mut CryptoPacket, sequence: u64) -> Result<Growth, DropReason> {
        let CryptoPacket { frame, context, .. } = packet;
        let growth = self.growth(frame.len());
        if growth.front > frame.headroom() || growth.back() > frame.tailroom() {
            return Err(DropReason::NoRoom);
        }
        if growth.total() > LONGEST_BYTES {
            return Err(DropReason::PacketTooBig);
        }
        context.sequence = sequence;
        Ok(growth)
    }

    #[inline(always)]
    fn note_laid_out(&self, context: &mut FinishContext, sequence: u64) {
        context.sequence = sequence;
        context.header = self.outer.len() as u16;
        context.form = Form::LaidOut;
    }

    /// An IV that never repeats, because the sequence number does not.
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

    /// Grows a frame's packet before it and, behind it, by the padding and the ICV; the trailer is
    /// written.
    ///
    /// # Errors
    /// [`DropReason::NoRoom`] if its frame is too small, [`DropReason::PacketTooBig`] if no packet
    /// may be so long; it is unchanged then.
    #[inline(always)]
    fn grown<'a>(
        &self,
        frame: &'a mut Frame,
        Expansion { front, alignment }: Expansion,
        inner: Inner,
    ) -> Result<(&'a mut [u8], Growth), DropReason> {
        let growth = Growth::new(frame.len(), front, alignment, self.plan.icv_len());
        if growth.total() > LONGEST_BYTES {
            return Err(DropReason::PacketTooBig);
        }
        let bytes = frame.grow(growth.front, growth.back()).map_err(no_room)?;
        let behind = bytes.len() - growth.back();
        write_trailer(&mut bytes[behind..], growth.trailer, inner.next_header);
        Ok((bytes, growth))
    }

    /// Writes the ESP header and an IV, `LEN` bytes together, behind the outer header.
    #[inline(always)]
    fn write_header<const LEN: usize>(
        &self,
        packet: &mut [u8],
        sequence: u64,
        iv: &[u8],
    ) -> Result<(), DropReason> {
        let header = packet.get_mut(self.outer.len()..).and_then(|from| from.first_chunk_mut::<LEN>());
        let Some(header) = header else { return Err(DropReason::NoRoom) };
        let number = u64::from(self.spi) << 32 | u64::from(sequence as u32);
        header[..ESP_HEADER].copy_from_slice(&number.to_be_bytes());
        header[ESP_HEADER..].copy_from_slice(iv);
        Ok(())
    }
}
