//! Finds the IP header behind a link-layer header.

use convoy_packet::ethernet::{self, ETHERTYPE_AT};

use crate::unread::Reason;

/// Link types (<https://www.tcpdump.org/linktypes.html>).
pub(crate) const NULL: u16 = 0;
pub(crate) const ETHERNET: u16 = 1;
pub(crate) const RAW: u16 = 101;
/// Other values for raw IP: `DLT_RAW` of most systems and of OpenBSD, written to files unconverted.
const OTHER_RAW: [u16; 2] = [12, 14];
pub(crate) const LOOP: u16 = 108;
pub(crate) const LINUX_SLL: u16 = 113;
pub(crate) const IPV4: u16 = 228;
pub(crate) const IPV6: u16 = 229;
pub(crate) const LINUX_SLL2: u16 = 276;

/// Offset of the EtherType in a Linux "cooked" header, version 1.
const SLL_ETHERTYPE_AT: usize = 14;
/// Length of a Linux "cooked" header, version 2, which begins with the EtherType.
const SLL2_HEADER_BYTES: usize = 20;
/// Length of BSD's loopback header: an address family, in the byte order of the capturing machine
/// (`NULL`) or of the network (`LOOP`).
const FAMILY_BYTES: usize = 4;
/// Address families: `AF_INET` everywhere; `AF_INET6` on Linux, Windows, NetBSD and OpenBSD,
/// FreeBSD, Darwin.
const IP_FAMILIES: [u32; 6] = [2, 10, 23, 24, 28, 30];

/// Offset of the IP header in a frame of this link type.
pub(crate) fn ip_start(link: u16, frame: &[u8]) -> Result<usize, Reason> {
    let start = match link {
        ETHERNET => behind_ethertype(frame, ETHERTYPE_AT)?,
        LINUX_SLL => behind_ethertype(frame, SLL_ETHERTYPE_AT)?,
        LINUX_SLL2 => behind_sll2(frame)?,
        NULL | LOOP => behind_family(frame)?,
        RAW | IPV4 | IPV6 => 0,
        link if OTHER_RAW.contains(&link) => 0,
        link => return Err(Reason::LinkType(link)),
    };
    match frame.get(start).map(|first| first >> 4) {
        Some(4 | 6) => Ok(start),
        Some(_) => Err(Reason::NotIp),
        None => Err(Reason::HeaderCutOff),
    }
}

fn behind_ethertype(frame: &[u8], at: usize) -> Result<usize, Reason> {
    if frame.len() < at + 2 {
        return Err(Reason::HeaderCutOff);
    }
    ethernet::ip_start(frame, at).ok_or(Reason::NotIp)
}

fn behind_sll2(frame: &[u8]) -> Result<usize, Reason> {
    if frame.len() < SLL2_HEADER_BYTES {
        return Err(Reason::HeaderCutOff);
    }
    // The EtherType leads the header and a VLAN tag follows it. Joining the two gives the layout
    // that the walk over Ethernet's tags expects.
    let mut ahead = [0; 2 + 16];
    let behind = &frame[SLL2_HEADER_BYTES..];
    let count = behind.len().min(16);
    ahead[..2].copy_from_slice(&frame[..2]);
    ahead[2..2 + count].copy_from_slice(&behind[..count]);
    let start = ethernet::ip_start(&ahead[..2 + count], 0).ok_or(Reason::NotIp)?;
    Ok(SLL2_HEADER_BYTES + start - 2)
}

fn behind_family(frame: &[u8]) -> Result<usize, Reason> {
    let family = *frame.first_chunk::<FAMILY_BYTES>().ok_or(Reason::HeaderCutOff)?;
    let is_ip =
        [u32::from_le_bytes(family), u32::from_be_bytes(family)].iter().any(|it| IP_FAMILIES.contains(it));
    if is_ip { Ok(FAMILY_BYTES) } else { Err(Reason::NotIp) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each link type with a header of it, some with VLAN tags.
    fn links() -> Vec<(u16, Vec<u8>)> {
        let ethernet = |behind: &[u8]| [&[2; 12][..], behind].concat();
        let sll2 = |ethertype: [u8; 2], behind: &[u8]| [&ethertype[..], &[0; 18], behind].concat();
        vec![
            (ETHERNET, ethernet(&[8, 0])),
            (ETHERNET, ethernet(&[0x81, 0, 0, 5, 0x86, 0xdd])),
            (ETHERNET, ethernet(&[0x88, 0xa8, 0, 9, 0x81, 0, 0, 5, 8, 0])),
            (LINUX_SLL, [&[0; 14][..], &[8, 0]].concat()),
            (LINUX_SLL2, sll2([8, 0], &[])),
            (LINUX_SLL2, sll2([0x81, 0], &[0, 5, 8, 0])),
            (NULL, vec![2, 0, 0, 0]),
            (NULL, vec![0, 0, 0, 30]),
            (LOOP, vec![0, 0, 0, 2]),
            (RAW, vec![]),
            (IPV4, vec![]),
            (IPV6, vec![]),
            (12, vec![]),
            (14, vec![]),
        ]
    }

    #[test]
    fn ip_is_found_behind_every_links_header() {
        for (link, header) in links() {
            let frame = [&header[..], &[0x45; 20]].concat();
            assert_eq!(ip_start(link, &frame), Ok(header.len()), "{link}");
        }
    }

    #[test]
    fn a_frame_that_is_shorter_than_its_headers_says_so() {
        for (link, header) in links() {
            for len in 0..=header.len() {
                let found = ip_start(link, &header[..len]);
                // If the frame ends inside a VLAN tag, the inner EtherType is missing.
                let is_reported = [Err(Reason::HeaderCutOff), Err(Reason::NotIp)].contains(&found);
                assert!(is_reported, "{link}, {len} bytes: {found:?}");
            }
            assert_eq!(ip_start(link, &[]), Err(Reason::HeaderCutOff));
        }
    }

    #[test]
    fn what_is_not_ip_says_so() {
        let arp = [&[2; 12][..], &[8, 6], &[0x45; 28]].concat();
        assert_eq!(ip_start(ETHERNET, &arp), Err(Reason::NotIp));
        assert_eq!(ip_start(LINUX_SLL2, &[&[8, 6][..], &[0x45; 40]].concat()), Err(Reason::NotIp));
        assert_eq!(ip_start(NULL, &[7, 0, 0, 0, 0x45, 0]), Err(Reason::NotIp));
        assert_eq!(ip_start(RAW, &[0x55; 20]), Err(Reason::NotIp));
        assert_eq!(ip_start(105, &[0x45; 20]), Err(Reason::LinkType(105)));
    }

    proptest! {
        #[test]
        fn any_frame_of_any_link_has_its_packet_inside_or_a_reason(
            link in prop::sample::select(vec![NULL, ETHERNET, RAW, LOOP, LINUX_SLL, IPV4, IPV6, LINUX_SLL2, 12, 14, 105]),
            frame in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Ok(start) = ip_start(link, &frame) {
                prop_assert!(matches!(frame[start] >> 4, 4 | 6));
            }
        }
    }
}
