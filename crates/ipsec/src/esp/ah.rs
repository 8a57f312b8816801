//! The Authentication Header (RFC 4302): its position, and the fields of a packet that it does not
//! cover.
//!
//! The ICV covers the packet with its mutable fields counted as zero. An engine only reads bytes,
//! so the headers before AH are copied into the frame's headroom and the fields zeroed in place;
//! once the job is done the copy is put back.

use convoy_packet::protocol::AH;
use convoy_packet::{Frame, Layout, ah, ip, zero_mutable};

use crate::drops::DropReason;
use crate::esp::job::CryptoJob;
use crate::esp::job_plan::JobPlan;
use crate::esp::stage::{FinishContext, no_room};

/// The whole header's length: padded to 8 bytes in IPv6, to 4 in IPv4 (RFC 4302 section 2.6).
pub(crate) const fn header_len(icv_len: usize, is_v6: bool) -> usize {
    (ah::HEADER_BYTES + icv_len).next_multiple_of(if is_v6 { 8 } else { 4 })
}

/// The position of an AH header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AhPosition {
    /// Its offset in the packet.
    pub(crate) at: usize,
    /// Its length.
    pub(crate) len: usize,
    /// The next header.
    pub(crate) next: u8,
}

/// Makes room for AH behind the headers that every fragment repeats (transport mode).
pub(crate) fn insert(frame: &mut Frame, inner: &Layout, icv_len: usize) -> Result<AhPosition, DropReason> {
    if inner.fragment.is_some() {
        return Err(DropReason::FragmentInTransport);
    }
    let at = inner.unfragmentable;
    let next = frame[inner.next_header_at];
    let len = header_len(icv_len, inner.is_v6);
    frame.prepend(len).map_err(no_room)?;
    frame.copy_within(len..len + at, 0);
    frame[inner.next_header_at] = AH;
    ip::set_length(frame);
    Ok(AhPosition { at, len, next })
}

/// Writes the header at its position and lays out the job.
pub(crate) fn seal(
    frame: &mut Frame,
    place: AhPosition,
    spi: u32,
    sequence: u64,
    plan: &JobPlan,
) -> Result<(CryptoJob, FinishContext), DropReason> {
    ah::write(&mut frame[place.at..place.at + place.len], place.next, spi, sequence as u32);
    hide(frame, place.at, sequence, plan)
}

/// Saves the headers before AH, zeroes the mutable fields, and lays out the job.
pub(crate) fn hide(
    frame: &mut Frame,
    at: usize,
    sequence: u64,
    plan: &JobPlan,
) -> Result<(CryptoJob, FinishContext), DropReason> {
    frame.prepend(at).map_err(no_room)?;
    frame.copy_within(at..2 * at, 0);
    zero_mutable(&mut frame[at..2 * at]).map_err(|_| DropReason::MalformedOuter)?;
    let job = CryptoJob {
        auth_start: at as u16,
        auth_len: (frame.len() - at) as u16,
        icv_start: (2 * at + ah::HEADER_BYTES) as u16,
        esn_high: plan.esn_high(sequence),
        ..CryptoJob::default()
    };
    Ok((job, FinishContext { sequence, header: at as u16, saved: at as u16, ..FinishContext::default() }))
}

/// Undoes [`hide`]. Does nothing if the packet was not hidden.
pub(crate) fn restore(frame: &mut Frame, context: &FinishContext) -> Result<(), DropReason> {
    let saved = usize::from(context.saved);
    if saved > 0 {
        frame.copy_within(0..saved, saved);
        frame.trim_front(saved).map_err(no_room)?;
    }
    Ok(())
}
