//! From an ESP packet of tunnel mode whose number is known to its job, and from the opened packet to the one inside (RFC 4303 section 3.4).

use convoy_packet::esp::HEADER_BYTES as ESP_HEADER;
use convoy_packet::protocol::{IPV4, IPV6, NO_NEXT_HEADER};
use convoy_packet::{Esp, Frame, Layout, PlainV4, ip};

use crate::drops::DropReason;
use crate::job::{CryptoJob, Prepared};
use crate::job_plan::{COUNTED_IV, JobPlan};
use crate::tos::{Ecn, decapsulate};
use crate::trailer::{ESP_TRAILER, PADDING};
use crate::{FinishContext, Form};

/// Padding in bytes that no cipher's blocks need more of, and that one word holds.
const SHORT_PADDING: usize = 16;

/// What an inbound SA takes its packets apart by. It has no state, so that a copy of it serves any core.
#[derive(Clone, Copy, Debug)]
pub struct OpenTemplate {
    pub(crate) plan: JobPlan,
}

/// What stands before the payload in a packet of an AEAD that encrypts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AeadHeader {
    spi: u32,
    /// As it travels.
    pub(crate) sequence: u32,
    iv: [u8; COUNTED_IV],
}

impl OpenTemplate {
    /// The length of what stands between the IV and the ICV of a packet whose ESP header stands at `esp`, in bytes.
    ///
    /// # Errors
    /// [`DropReason::MalformedOuter`] if it has no such length.
    #[inline]
    pub(crate) fn body_len(&self, packet_len: usize, esp: usize) -> Result<usize, DropReason> {
        let fixed = esp + self.plan.esp_header_len() + self.plan.icv_len();
        let len = packet_len.checked_sub(fixed).filter(|len| *len >= ESP_TRAILER);
        len.filter(|len| self.plan.takes_body(*len)).ok_or(DropReason::MalformedOuter)
    }

    /// Lays out the job of a packet whose number and whose header's place stand in its context. The packet is not changed.
    ///
    /// # Errors
    /// [`DropReason::MalformedOuter`] if it is too short.
    #[inline]
    pub(crate) fn lay_out(&self, packet: &mut Prepared) -> Result<(), DropReason> {
        let Prepared { frame, job, context, .. } = packet;
        let (esp, sequence) = (usize::from(context.header), context.sequence);
        if self.plan.is_aead() {
            let (header, body_len) = self.aead_header(frame, esp)?;
            *job = self.aead_job(header, (esp, body_len), sequence);
        } else {
            let body_len = self.body_len(frame.len(), esp)?;
            let header = Esp::parse(&frame[esp..]).map_err(|_| DropReason::MalformedOuter)?;
            *job = self.plan.esp_job(frame, (esp, body_len), (header.spi(), sequence));
        }
        context.form = Form::LaidOut;
        Ok(())
    }

    /// The header of a packet that was protected by an AEAD that encrypts, and the length of what stands between its IV and its ICV.
    ///
    /// # Errors
    /// [`DropReason::MalformedOuter`] if they are not there.
    #[inline]
    pub(crate) fn aead_header(&self, packet: &[u8], esp: usize) -> Result<(AeadHeader, usize), DropReason> {
        let from = packet.get(esp..).unwrap_or_default();
        let Some((header, rest)) = from.split_first_chunk::<{ ESP_HEADER + COUNTED_IV }>() else {
            return Err(DropReason::MalformedOuter);
        };
        let body_len = rest.len().checked_sub(self.plan.icv_len()).filter(|len| self.plan.is_whole(*len));
        let body_len = body_len.filter(|len| *len >= ESP_TRAILER).ok_or(DropReason::MalformedOuter)?;
        let (mut number, mut iv) = ([0; ESP_HEADER], [0; COUNTED_IV]);
        number.copy_from_slice(&header[..ESP_HEADER]);
        iv.copy_from_slice(&header[ESP_HEADER..]);
        let number = u64::from_be_bytes(number);
        Ok((AeadHeader { spi: (number >> 32) as u32, sequence: number as u32, iv }, body_len))
    }

    /// The job of a packet that was protected by an AEAD that encrypts.
    #[inline]
    pub(crate) fn aead_job(
        &self,
        header: AeadHeader,
        (esp, body_len): (usize, usize),
        sequence: u64,
    ) -> CryptoJob {
        let body = esp + ESP_HEADER + COUNTED_IV;
        self.plan.aead_job((body, body_len), (header.spi, sequence), header.iv)
    }

    /// Leaves the inner packet of one that was opened, with its ECN field brought up to date (RFC 6040), and returns its layout.
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

    /// Where the payload stands in a packet that is not stripped, in bytes from its start.
    #[inline]
    pub(crate) fn payload_at(&self, context: &FinishContext) -> usize {
        usize::from(context.header) + self.plan.esp_header_len()
    }
}

/// The packet inside an opened one, if it is one of IPv4 with TCP or UDP that is to be delivered just as it stands: with a short and good padding, and
/// with an ECN field that the outer one changes nothing of.
#[inline]
pub(crate) fn plain_inner(packet: &[u8], job: &CryptoJob) -> Option<PlainV4> {
    let body = packet.get(usize::from(job.cipher_start)..usize::from(job.icv_start))?;
    let (rest, [pad_len, next]) = body.split_last_chunk::<ESP_TRAILER>()?;
    let (start, padding) = rest.split_last_chunk::<SHORT_PADDING>()?;
    let (pad_len, next) = (usize::from(*pad_len), *next);
    let is_padding_good = is_padding(u128::from_be_bytes(*padding), pad_len);
    let inner = PlainV4::parse(body).filter(|_| is_padding_good && next == IPV4)?;
    let (outer_class, end) = (ip::traffic_class(packet), (start.len() + SHORT_PADDING).checked_sub(pad_len)?);
    let is_ecn_same = Ecn::of(outer_class) == Ecn::of(inner.traffic_class);
    (is_ecn_same && inner.total_len <= end).then_some(inner)
}

/// By length: what padding of RFC 4303 section 2.4 is at the end of a word, and the bits of it.
const PADDED: [(u128, u128); SHORT_PADDING + 1] = {
    const COUNT: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let mut padded = [(0, 0); SHORT_PADDING + 1];
    let mut len = 1;
    while len <= SHORT_PADDING {
        let before = 8 * (SHORT_PADDING - len);
        padded[len] = (COUNT >> before, u128::MAX >> before);
        len += 1;
    }
    padded
};

/// Whether the last bytes of 16, `len` of them, count from one.
#[inline]
fn is_padding(bytes: u128, len: usize) -> bool {
    PADDED.get(len).is_some_and(|(expected, bits)| (bytes ^ expected) & bits == 0)
}

/// Cuts ICV, trailer and padding off and returns the next header.
#[inline]
pub(crate) fn strip_trailer(frame: &mut Frame, job: &CryptoJob, icv_len: usize) -> Result<u8, DropReason> {
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
pub(crate) fn strip_tunnel(frame: &mut Frame, payload: usize, next: u8) -> Result<Layout, DropReason> {
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
    fn padding_is_a_count_from_one_and_any_other_byte_in_it_is_seen() {
        for len in 0..=SHORT_PADDING {
            let mut bytes = [0x5c; SHORT_PADDING];
            bytes[SHORT_PADDING - len..].copy_from_slice(&PADDING[..len]);
            assert!(is_padding(u128::from_be_bytes(bytes), len), "{len} bytes");
            for at in 0..SHORT_PADDING {
                let mut changed = bytes;
                changed[at] ^= 0x80;
                let is_outside = at < SHORT_PADDING - len;
                assert_eq!(
                    is_padding(u128::from_be_bytes(changed), len),
                    is_outside,
                    "{len} bytes, byte {at}"
                );
            }
        }
    }
}
