//! Cutting a packet into fragments (RFC 791, RFC 8200 section 4.5).

use convoy_packet::ipv4::{self, Ipv4Option};
use convoy_packet::ipv6::{self, FRAGMENT_BYTES};
use convoy_packet::protocol::FRAGMENT;
use convoy_packet::{Fragment, Frame, FramePool, FrameSize, Ipv4, Layout, ip};

use crate::drops::DropReason;

/// Bytes kept free behind a fragment for the trailer of a later transform.
const TAILROOM: usize = 300;

/// Cuts `frame` into packets of at most `mtu` bytes and appends them to `out`, in order. One that
/// fits is appended as it is. The caller knows whether fragmentation is allowed (DF).
///
/// `id` is the new identification; `None` keeps IPv4's own, as required for packets of others, and
/// refuses IPv6, which only its source may fragment.
///
/// # Errors
/// The reason; the frame has then been returned to the pool. Packets to be sealed in flight are
/// never cut.
pub(crate) fn split(
    mut frame: Frame,
    mtu: usize,
    id: Option<u32>,
    pool: &mut FramePool,
    out: &mut Vec<Frame>,
) -> Result<(), DropReason> {
    if frame.len() <= mtu {
        out.push(frame);
        return Ok(());
    }
    if frame.offload().is_unsealed() {
        pool.give_back(frame);
        return Err(DropReason::Unencrypted);
    }
    let before = out.len();
    let cut = FragmentPlan::plan(&frame, mtu, id).and_then(|cut| {
        cut.tail_pieces(&frame, pool, out)?;
        cut.first_piece(&mut frame)
    });
    match cut {
        Ok(()) => {
            out.insert(before, frame);
            Ok(())
        }
        Err(reason) => {
            while out.len() > before {
                out.pop().into_iter().for_each(|piece| pool.give_back(piece));
            }
            pool.give_back(frame);
            Err(reason)
        }
    }
}

/// The plan of a fragmentation.
struct FragmentPlan {
    layout: Layout,
    /// Payload bytes of every fragment but the last; a multiple of eight.
    step: usize,
    /// Offset of this packet's payload in the original datagram, in bytes.
    base: usize,
    /// Whether more fragments follow our last one.
    more: bool,
    id: u32,
}

impl FragmentPlan {
    fn plan(packet: &[u8], mtu: usize, id: Option<u32>) -> Result<Self, DropReason> {
        let layout = Layout::parse(packet).map_err(|_| DropReason::MalformedOuter)?;
        let own = if layout.is_v6 { FRAGMENT_BYTES } else { 0 };
        let step = mtu.saturating_sub(layout.unfragmentable + own) & !7;
        let refused = layout.is_v6 && (id.is_none() || layout.fragment.is_some());
        if step == 0 || refused {
            return Err(DropReason::PacketTooBig);
        }
        let own_id = Ipv4::parse(packet).map_or(0, |header| header.identification().into());
        let whole = Fragment { identification: own_id, offset: 0, more: false };
        let Fragment { offset: base, more, .. } = layout.fragment.unwrap_or(whole);
        if base + layout.total_len - layout.unfragmentable > usize::from(u16::MAX) {
            return Err(DropReason::FragmentMalformed);
        }
        Ok(Self { layout, step, base, more, id: id.unwrap_or(own_id) })
    }

    fn tail_pieces(
        &self,
        frame: &Frame,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) -> Result<(), DropReason> {
        let body = &frame[self.layout.unfragmentable..self.layout.total_len];
        let mut at = self.step;
        while at < body.len() {
            let end = body.len().min(at + self.step);
            let is_last = end == body.len();
            let mut header = [0u8; ipv4::LONGEST_BYTES];
            let piece = if self.layout.is_v6 {
                self.piece(frame, &frame[..self.layout.unfragmentable], &body[at..end], pool)
            } else {
                let len = later_ipv4_header(&frame[..self.layout.payload], &mut header);
                self.piece(frame, &header[..len], &body[at..end], pool)
            };
            let mut piece = piece.ok_or(DropReason::NoFrame)?;
            self.write_fields(&mut piece, at, !is_last || self.more);
            out.push(piece);
            at = end;
        }
        Ok(())
    }

    fn piece(&self, frame: &Frame, header: &[u8], body: &[u8], pool: &mut FramePool) -> Option<Frame> {
        let own = if self.layout.is_v6 { FRAGMENT_BYTES } else { 0 };
        let size = FrameSize::for_packet(header.len() + own + body.len(), TAILROOM)?;
        let mut piece = pool.take(size)?;
        let Ok(room) = piece.append(header.len() + own + body.len()) else {
            pool.give_back(piece);
            return None;
        };
        room[..header.len()].copy_from_slice(header);
        room[header.len() + own..].copy_from_slice(body);
        piece.set_received_ns(frame.received_ns());
        Some(piece)
    }

    /// Turns the packet itself into its first fragment.
    fn first_piece(&self, frame: &mut Frame) -> Result<(), DropReason> {
        frame.truncate(self.layout.unfragmentable + self.step);
        if self.layout.is_v6 {
            let header = self.layout.unfragmentable;
            frame.prepend(FRAGMENT_BYTES).map_err(|_| DropReason::NoRoom)?;
            frame.copy_within(FRAGMENT_BYTES..FRAGMENT_BYTES + header, 0);
        }
        self.write_fields(frame, 0, true);
        Ok(())
    }

    fn write_fields(&self, piece: &mut Frame, at: usize, more: bool) {
        let fragment = Fragment { identification: self.id, offset: self.base + at, more };
        if self.layout.is_v6 {
            // The original's next header number: this copy is not yet modified.
            let next = std::mem::replace(&mut piece[self.layout.next_header_at], FRAGMENT);
            ipv6::write_fragment(&mut piece[self.layout.unfragmentable..], next, fragment);
        } else {
            ipv4::set_fragment(piece, fragment);
        }
        ip::set_length(piece);
    }
}

/// Writes the header of a fragment other than the first, with only the options that have the copied
/// flag (RFC 791 section 3.1). Returns its length.
fn later_ipv4_header(original: &[u8], header: &mut [u8; ipv4::LONGEST_BYTES]) -> usize {
    let mut from = ipv4::HEADER_BYTES;
    let mut to = from;
    header[..from].copy_from_slice(&original[..from]);
    while let Ok(Some(option)) = Ipv4Option::parse(original, from) {
        if option.is_copied() {
            let bytes = &original[option.at..option.end];
            header[to..to + bytes.len()].copy_from_slice(bytes);
            to += bytes.len();
        }
        from = option.end;
    }
    let len = to.next_multiple_of(4);
    header[to..len].fill(0);
    ipv4::set_header_len(header, len);
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool() -> FramePool {
        FramePool::new(200, 8)
    }

    fn v4(options: &[u8], body: usize) -> Vec<u8> {
        let header = 20 + options.len();
        let mut packet = vec![0u8; header + body];
        packet[0] = 0x40 | (header / 4) as u8;
        packet[2..4].copy_from_slice(&((header + body) as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&[0xab, 0xcd]);
        packet[8..10].copy_from_slice(&[64, 50]);
        packet[20..header].copy_from_slice(options);
        packet[header..].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
        ipv4::fill_checksum(&mut packet);
        packet
    }

    fn cut(packet: &[u8], mtu: usize, id: Option<u32>) -> Result<Vec<Vec<u8>>, DropReason> {
        let mut pool = pool();
        let frame = pool.take_filled(packet, TAILROOM).expect("fits a frame");
        let mut out = Vec::new();
        let result = split(frame, mtu, id, &mut pool, &mut out);
        let pieces = out.iter().map(|frame| frame.to_vec()).collect();
        pool.give_back_burst(&mut out);
        assert_eq!([pool.available(FrameSize::Small), pool.available(FrameSize::Jumbo)], [200, 8]);
        result.map(|()| pieces)
    }

    #[test]
    fn only_copied_options_are_repeated() {
        // No-operation, a record route (not copied), a router alert (copied), end of options.
        let options = [1, 7, 7, 4, 0, 0, 0, 0, 0x94, 4, 0, 0];
        let pieces = cut(&v4(&options, 600), 332, None).expect("fragmented");
        assert_eq!(pieces.len(), 3);
        assert_eq!(
            pieces[0][..32],
            {
                let mut first = pieces[0][..32].to_vec();
                first[20..32].copy_from_slice(&options);
                first
            }[..]
        );
        assert_eq!((pieces[1][0], &pieces[1][20..24]), (0x46, &[0x94, 4, 0, 0][..]));
    }

    #[test]
    fn a_fragment_is_cut_again_without_losing_its_place() {
        let mut packet = v4(&[], 1_000);
        packet[6..8].copy_from_slice(&0x20b9u16.to_be_bytes());
        ipv4::fill_checksum(&mut packet);
        let fields: Vec<Fragment> = cut(&packet, 500, None)
            .expect("fragmented")
            .iter()
            .map(|piece| Layout::parse(piece).expect("well-formed").fragment.expect("a fragment"))
            .collect();
        assert_eq!(fields.iter().map(|f| f.offset).collect::<Vec<_>>(), [1_480, 1_960, 2_440]);
        assert!(fields.iter().all(|f| f.more && f.identification == 0xabcd));
    }

    #[test]
    fn a_fragment_past_the_end_of_any_datagram_is_refused() {
        let mut packet = v4(&[], 1_000);
        packet[6..8].copy_from_slice(&0x1fffu16.to_be_bytes());
        assert_eq!(cut(&packet, 500, None), Err(DropReason::FragmentMalformed));
    }

    #[test]
    fn ipv6_is_cut_by_its_source_only() {
        let mut packet = vec![0u8; 2_040];
        packet[0] = 0x60;
        packet[4..7].copy_from_slice(&[0x07, 0xd0, 50]);
        assert_eq!(cut(&packet, 1_280, None), Err(DropReason::PacketTooBig));
        let pieces = cut(&packet, 1_280, Some(77)).expect("fragmented");
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [1_280, 816]);
        let layout = Layout::parse(&pieces[1]).expect("well-formed");
        assert_eq!((layout.protocol, layout.payload), (50, 48));
        assert_eq!(layout.fragment, Some(Fragment { identification: 77, offset: 1_232, more: false }));
    }

    #[test]
    fn without_frames_nothing_is_left_behind() {
        let mut pool = FramePool::new(2, 0);
        let frame = pool.take_filled(&v4(&[], 1_400), 0).expect("fits a frame");
        let mut out = Vec::new();
        assert_eq!(split(frame, 300, Some(1), &mut pool, &mut out), Err(DropReason::NoFrame));
        assert_eq!((out.len(), pool.available(FrameSize::Small)), (0, 2));
    }

    proptest! {
        #[test]
        fn the_pieces_fit_and_make_up_the_whole(body in 1usize..4_000, mtu in 68usize..1_600) {
            let packet = v4(&[], body);
            let pieces = cut(&packet, mtu, None).expect("fragmented");
            let mut whole = Vec::new();
            for (n, piece) in pieces.iter().enumerate() {
                let layout = Layout::parse(piece).expect("well-formed");
                prop_assert!(piece.len() <= mtu && layout.total_len == piece.len());
                let fields = layout.fragment.unwrap_or(Fragment { identification: 0xabcd, offset: 0, more: false });
                prop_assert_eq!(fields.offset, whole.len());
                prop_assert_eq!(fields.more, n + 1 < pieces.len());
                whole.extend_from_slice(&piece[20..]);
            }
            prop_assert_eq!(&whole, &packet[20..]);
        }
    }
}
