//! From an ESP packet of tunnel mode with a known number to its job, and from the opened packet to
//! the inner one (RFC 4303 section 3.4).

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::esp_echo::is_echo;
use convoy_packet::protocol::{AGGFRAG, IPV4, IPV6, NO_NEXT_HEADER};
use convoy_packet::{Esp, Frame, Layout, ip};

use crate::drops::DropReason;
use crate::esp::job::{CryptoJob, CryptoPacket};
use crate::esp::job_plan::{CBC_IV, COUNTED_IV, EspParts, JobPlan, Shape};
use crate::esp::stage::{FinishContext, Form, LONGEST_BYTES, no_room};
use crate::esp::trailer::{ESP_TRAILER, unpadded};
use crate::ip::tos::decapsulate;

/// The parameters by which an inbound SA unpacks its packets. Stateless, so that a copy serves any
/// core.
#[derive(Clone, Copy, Debug)]
pub struct OpenTemplate {
    pub(crate) plan: JobPlan,
    /// Whether its packets are AGGFRAG payloads.
    pub(crate) is_iptfs: bool,
}

/// The bytes before the payload with an IV of this length.
#[derive(Clone, Copy)]
struct EspHeader<const IV: usize> {
    spi: u32,
    /// As transmitted.
    sequence: u32,
    iv: [u8; IV],
}

impl OpenTemplate {
    /// Bytes between the IV and the ICV of a packet whose ESP header is at `esp`.
    ///
    /// # Errors
    /// [`DropReason::MalformedOuter`] if there is no valid length.
    #[inline]
    fn body_len(&self, packet_len: usize, esp: usize) -> Result<usize, DropReason> {
        let fixed = esp + self.plan.esp_header_len() + self.plan.icv_len();
        let len = packet_len.checked_sub(fixed).filter(|len| *len >= ESP_TRAILER);
        let len = len.filter(|len| self.plan.takes_body(*len) && packet_len <= LONGEST_BYTES);
        len.ok_or(DropReason::MalformedOuter)
    }

    /// Lays out the job of a packet of an encrypting AEAD, whose context has the header's position;
    /// `number` derives its number from the transmitted part. The packet is not changed.
    ///
    /// # Errors
    /// [`DropReason::MalformedOuter`] if it is too short or too long, or the error of `number`.
    #[inline(always)]
    pub(crate) fn lay_out_aead(
        &self,
        packet: &mut CryptoPacket,
        number: impl FnOnce(u32) -> Result<u64, DropReason>,
    ) -> Result<(), DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let esp = usize::from(context.header);
        let (header, body_len) = self.header::<COUNTED_IV>(frame, esp).ok_or(DropReason::MalformedOuter)?;
        context.sequence = number(header.sequence)?;
        context.form = Form::LaidOut;
        let parts = EspParts { header: esp, body_len };
        self.plan.aead_job(job, parts, header.spi, context.sequence, header.iv);
        Ok(())
    }

    /// Lays out the job of a packet of AES-CBC.
    ///
    /// # Errors
    /// Those of [`lay_out_aead`](Self::lay_out_aead).
    #[inline(always)]
    pub(crate) fn lay_out_cbc(
        &self,
        packet: &mut CryptoPacket,
        number: impl FnOnce(u32) -> Result<u64, DropReason>,
    ) -> Result<(), DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let esp = usize::from(context.header);
        let (header, body_len) = self.header::<CBC_IV>(frame, esp).ok_or(DropReason::MalformedOuter)?;
        context.sequence = number(header.sequence)?;
        context.form = Form::LaidOut;
        job.nonce = header.iv;
        self.plan.cbc_job(job, EspParts { header: esp, body_len }, context.sequence);
        Ok(())
    }

    /// Lays out the job of a packet of any transform.
    ///
    /// # Errors
    /// Those of [`lay_out_aead`](Self::lay_out_aead).
    #[inline]
    pub(crate) fn lay_out_any(
        &self,
        packet: &mut CryptoPacket,
        number: impl FnOnce(u32) -> Result<u64, DropReason>,
    ) -> Result<(), DropReason> {
        let CryptoPacket { frame, job, context, .. } = packet;
        let esp = usize::from(context.header);
        let (header, body_len) = self.any_header(frame, esp)?;
        context.sequence = number(header.sequence_number())?;
        context.form = Form::LaidOut;
        *job = self.plan.esp_job(frame, EspParts { header: esp, body_len }, header.spi(), context.sequence);
        Ok(())
    }

    /// Lays out the job of a packet of the SA's transform.
    ///
    /// # Errors
    /// Those of [`lay_out_aead`](Self::lay_out_aead).
    #[inline]
    pub(crate) fn lay_out(
        &self,
        packet: &mut CryptoPacket,
        number: impl FnOnce(u32) -> Result<u64, DropReason>,
    ) -> Result<(), DropReason> {
        match self.plan.shape() {
            Shape::Aead => self.lay_out_aead(packet, number),
            Shape::AesCbc => self.lay_out_cbc(packet, number),
            _ => self.lay_out_any(packet, number),
        }
    }

    /// Records the number of a packet that is laid out later.
    ///
    /// # Errors
    /// As above.
    #[inline(always)]
    pub(crate) fn number(
        &self,
        packet: &mut CryptoPacket,
        number: impl FnOnce(u32) -> Result<u64, DropReason>,
    ) -> Result<(), DropReason> {
        let CryptoPacket { frame, context, .. } = packet;
        let (header, _) = self.any_header(frame, context.header.into())?;
        context.sequence = number(header.sequence_number())?;
        Ok(())
    }

    /// The header of a packet, and the bytes between its IV and its ICV.
    #[inline]
    fn any_header<'a>(&self, packet: &'a [u8], esp: usize) -> Result<(Esp<'a>, usize), DropReason> {
        let body_len = self.body_len(packet.len(), esp)?;
        let header = Esp::parse(&packet[esp..]).map_err(|_| DropReason::MalformedOuter)?;
        Ok((header, body_len))
    }

    /// The header of a packet with an IV of this length, in bytes. `None` if it has no such header,
    /// or its body has no length that its cipher produces.
    #[inline(always)]
    fn header<const IV: usize>(&self, packet: &[u8], esp: usize) -> Option<(EspHeader<IV>, usize)> {
        let (number, rest) = packet.get(esp..)?.split_first_chunk::<ESP_HEADER>()?;
        let (iv, rest) = rest.split_first_chunk::<IV>()?;
        let body_len = rest.len().checked_sub(self.plan.icv_len())?;
        let number = u64::from_be_bytes(*number);
        let header = EspHeader { spi: (number >> 32) as u32, sequence: number as u32, iv: *iv };
        let fits = body_len >= ESP_TRAILER && packet.len() <= LONGEST_BYTES;
        (fits && self.plan.is_whole(body_len)).then_some((header, body_len))
    }

    /// Reduces an opened packet to the inner one, with its ECN field updated (RFC 6040), and
    /// returns its layout.
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
        let next = strip_trailer(frame, job, self.plan.icv_len())?;
        strip_tunnel(frame, self.payload_at(context), next)
    }

    /// Reduces an opened packet to its AGGFRAG payload (RFC 9347 section 2.1). Of an echo, the
    /// error says that it is one, and its message is left.
    ///
    /// # Errors
    /// The reason to drop the packet; its content is then undefined.
    pub(crate) fn strip_payload(
        &self,
        frame: &mut Frame,
        job: &CryptoJob,
        context: &FinishContext,
    ) -> Result<(), DropReason> {
        match strip_trailer(frame, job, self.plan.icv_len())? {
            AGGFRAG => {
                frame.trim_front(self.payload_at(context)).map_err(no_room)?;
                if is_echo(frame) { Err(DropReason::EspEcho) } else { Ok(()) }
            }
            NO_NEXT_HEADER => Err(DropReason::Dummy),
            _ => Err(DropReason::BadNextHeader),
        }
    }

    /// Position of the payload in a packet that is not stripped, in bytes from its start.
    #[inline]
    pub(crate) fn payload_at(&self, context: &FinishContext) -> usize {
        usize::from(context.header) + self.plan.esp_header_len()
    }
}

/// Cuts off ICV, trailer and padding, and returns the next header.
#[inline]
pub(crate) fn strip_trailer(frame: &mut Frame, job: &CryptoJob, icv_len: usize) -> Result<u8, DropReason> {
    debug_assert_eq!(usize::from(job.icv_start) + icv_len, frame.len());
    // The body starts at the cipher's start, which is also set with NULL encryption.
    let start = usize::from(job.cipher_start);
    let unpadded = frame.get(start..usize::from(job.icv_start)).and_then(unpadded);
    let (payload_len, next) = unpadded.ok_or(DropReason::BadPadding)?;
    frame.truncate(start + payload_len);
    Ok(next)
}

/// Leaves the inner packet of tunnel mode, with its ECN field updated (RFC 6040), and returns its
/// layout. Of an echo, the error says that it is one, and its message is left.
#[inline]
pub(crate) fn strip_tunnel(frame: &mut Frame, payload: usize, next: u8) -> Result<Layout, DropReason> {
    let is_v6 = match next {
        IPV4 => false,
        IPV6 => true,
        NO_NEXT_HEADER => return Err(DropReason::Dummy),
        AGGFRAG => {
            frame.trim_front(payload).map_err(no_room)?;
            return Err(DropReason::EspEcho);
        }
        _ => return Err(DropReason::BadNextHeader),
    };
    let outer_class = ip::traffic_class(frame);
    frame.trim_front(payload).map_err(|_| DropReason::MalformedDecrypted)?;
    let mut inner = Layout::parse(frame).map_err(|_| DropReason::MalformedDecrypted)?;
    if inner.is_v6 != is_v6 {
        return Err(DropReason::MalformedDecrypted);
    }
    // Bytes behind the inner packet are padding against traffic analysis.
    frame.truncate(inner.total_len);
    let traffic_class = decapsulate(outer_class, inner.traffic_class).ok_or(DropReason::EcnCongestion)?;
    if traffic_class != inner.traffic_class {
        ip::set_traffic_class(frame, traffic_class);
        inner.traffic_class = traffic_class;
    }
    Ok(inner)
}
