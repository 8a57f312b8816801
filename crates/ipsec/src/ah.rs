//! The Authentication Header (RFC 4302): where it stands, and what of a packet it leaves out.
//!
//! The ICV covers the packet with its mutable fields counted as zero. An engine only reads bytes, so the
//! headers before AH are copied aside, into the frame's headroom, and the fields zeroed in place; once the
//! job is done the copy goes back.

use convoy_packet::Frame;

use crate::FinishContext;
use crate::drops::DropReason;
use crate::job::CryptoJob;
use crate::layout::{AH, FRAGMENT, IPV6_HEADER, Layout};
use crate::outbound::JobPlan;
use crate::sa::{no_room, set_length};

/// AH without its ICV, in bytes.
pub(crate) const AH_FIXED: usize = 12;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const DESTINATION_OPTIONS: u8 = 60;

/// The whole header's length: padded to 8 bytes in IPv6, to 4 in IPv4 (RFC 4302 section 2.6).
pub(crate) fn header_len(icv_len: usize, is_v6: bool) -> usize {
    (AH_FIXED + icv_len).next_multiple_of(if is_v6 { 8 } else { 4 })
}

/// Where an AH header stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its offset in the packet.
    pub(crate) at: usize,
    /// Its length.
    pub(crate) len: usize,
    /// What follows it.
    pub(crate) next: u8,
}

/// Makes room for AH behind the headers that every fragment repeats (transport mode).
pub(crate) fn insert(frame: &mut Frame, inner: &Layout, icv_len: usize) -> Result<Place, DropReason> {
    if inner.fragment.is_some() {
        return Err(DropReason::FragmentInTransport);
    }
    let at = inner.unfragmentable;
    let next = frame[inner.next_header_at];
    let len = header_len(icv_len, inner.is_v6);
    frame.prepend(len).map_err(no_room)?;
    frame.copy_within(len..len + at, 0);
    frame[inner.next_header_at] = AH;
    set_length(frame);
    Ok(Place { at, len, next })
}

/// Writes the header at its place and lays out the job.
pub(crate) fn seal(
    frame: &mut Frame,
    place: Place,
    spi: u32,
    sequence: u64,
    plan: &JobPlan,
) -> Result<(CryptoJob, FinishContext), DropReason> {
    let header = &mut frame[place.at..place.at + place.len];
    header.fill(0);
    header[0] = place.next;
    header[1] = (place.len / 4 - 2) as u8;
    header[4..8].copy_from_slice(&spi.to_be_bytes());
    header[8..12].copy_from_slice(&(sequence as u32).to_be_bytes());
    hide(frame, place.at, sequence, plan)
}

/// Copies the headers before AH aside, zeroes what may change on the way, and lays out the job.
pub(crate) fn hide(
    frame: &mut Frame,
    at: usize,
    sequence: u64,
    plan: &JobPlan,
) -> Result<(CryptoJob, FinishContext), DropReason> {
    frame.prepend(at).map_err(no_room)?;
    frame.copy_within(at..2 * at, 0);
    zero_mutable(&mut frame[at..2 * at])?;
    let job = CryptoJob {
        auth_start: at as u16,
        auth_len: (frame.len() - at) as u16,
        icv_start: (2 * at + AH_FIXED) as u16,
        esn_high: plan.esn_high(sequence),
        ..CryptoJob::default()
    };
    Ok((job, FinishContext { sequence, header: at as u16, saved: at as u16, ..FinishContext::default() }))
}

/// Undoes [`hide`]. Does nothing to a packet that hid nothing.
pub(crate) fn restore(frame: &mut Frame, context: &FinishContext) -> Result<(), DropReason> {
    let saved = usize::from(context.saved);
    if saved > 0 {
        frame.copy_within(0..saved, saved);
        frame.trim_front(saved).map_err(no_room)?;
    }
    Ok(())
}

/// Zeroes the mutable fields of the headers before AH (RFC 4302 sections 3.3.3.1.1 and 3.3.3.1.2).
fn zero_mutable(headers: &mut [u8]) -> Result<(), DropReason> {
    if headers[0] >> 4 == 4 { zero_ipv4(headers) } else { zero_ipv6(headers) }
}

fn zero_ipv4(header: &mut [u8]) -> Result<(), DropReason> {
    header[1] = 0; // DSCP, ECN
    header[6..8].fill(0); // flags, fragment offset
    header[8] = 0; // TTL
    header[10..12].fill(0); // checksum
    let mut at = 20;
    while at < header.len() {
        let len = match header[at] {
            0 => break,
            1 => 1,
            _ => usize::from(*header.get(at + 1).ok_or(DropReason::MalformedOuter)?),
        };
        if len == 0 || at + len > header.len() {
            return Err(DropReason::MalformedOuter);
        }
        // RFC 4302 appendix A1: these are immutable; every other option is left out whole.
        let immutable = matches!(header[at], 1 | 130 | 133 | 134 | 148 | 149);
        if !immutable {
            header[at..at + len].fill(0);
        }
        at += len;
    }
    Ok(())
}

fn zero_ipv6(headers: &mut [u8]) -> Result<(), DropReason> {
    headers[0] = 0x60; // version stays; class and flow label go
    headers[1..4].fill(0);
    headers[7] = 0; // hop limit
    let (mut kind, mut at) = (headers[6], IPV6_HEADER);
    while at < headers.len() {
        let Some([next, words, ..]) = headers.get(at..at + 8) else { return Err(DropReason::MalformedOuter) };
        let (next, end) = (*next, at + 8 + usize::from(*words) * 8);
        let Some(header) = headers.get_mut(at..end) else { return Err(DropReason::MalformedOuter) };
        match kind {
            HOP_BY_HOP | DESTINATION_OPTIONS => zero_options(header)?,
            // With segments left, the receiver's view would have to be foretold for each routing type;
            // type 0, for which the RFC does so, is deprecated (RFC 5095).
            ROUTING if header[3] == 0 => {}
            ROUTING | FRAGMENT => return Err(DropReason::MalformedOuter),
            _ => return Err(DropReason::MalformedOuter),
        }
        (kind, at) = (next, end);
    }
    Ok(())
}

/// Zeroes the data of options that may change en route: bit 0x20 of their type.
fn zero_options(header: &mut [u8]) -> Result<(), DropReason> {
    let mut at = 2;
    while at < header.len() {
        if header[at] == 0 {
            at += 1;
            continue;
        }
        let len = usize::from(*header.get(at + 1).ok_or(DropReason::MalformedOuter)?);
        let mutable = header[at] & 0x20 != 0;
        let data = header.get_mut(at + 2..at + 2 + len).ok_or(DropReason::MalformedOuter)?;
        if mutable {
            data.fill(0);
        }
        at += 2 + len;
    }
    Ok(())
}
