//! Padding against traffic analysis, the room that headers need, and what lifetimes count.

use super::*;

const NULL_SHA512: Transform =
    Transform::Chained { cipher: Cipher::Null, integrity: Some(Integrity::HmacSha512_256) };

#[test]
fn padding_against_traffic_analysis_goes_no_further_than_the_path() {
    for (outer_v6, encap) in [(false, None), (false, Some(ENCAP)), (true, None)] {
        let link = Link { outer_v6, encap, tfc_bytes: 1_500, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let mut packet = link.packet(false, 100);
        set_dont_fragment(&mut packet);
        for path in [1_500, 1_300] {
            a.ipsec.tables.learn_path_mtu(0, link.ends()[1], path);
            let outer = a.send(std::slice::from_ref(&packet));
            assert_eq!(outer.len(), 1);
            // A block of the cipher may stay unused.
            assert!(outer[0].len() <= path.into() && outer[0].len() + 4 > path.into());
            assert_eq!(b.receive(&outer), std::slice::from_ref(&packet));
        }
        assert_eq!(a.ipsec.counters().cut, 0);
        a.assert_no_leak();
    }
}

#[test]
fn a_frame_with_too_little_headroom_is_left_for_a_larger_one() {
    let ah = Link { protocol: SaProtocol::Ah, transform: NULL_SHA512, outer_v6: true, ..Link::default() };
    let transport = Link { mode: Mode::Transport, ..ah.clone() };
    let encapsulated = Link { outer_v6: true, encap: Some(ENCAP), transform: CBC_SHA256, ..Link::default() };
    for link in [ah, transport, encapsulated, Link::default()] {
        let [mut a, mut b] = link.pair();
        let packet = link.packet(link.outer_v6, 200);
        for headroom in 0..=convoy_packet::HEADROOM_BYTES {
            let mut frame = a.pool.take(FrameSize::Small).expect("a frame");
            frame.reset(headroom).expect("so much there is");
            frame.append(packet.len()).expect("room").copy_from_slice(&packet);
            let mut random = |bytes: &mut [u8]| bytes.fill(0x5a);
            let mut frames = vec![frame];
            a.ipsec.outbound.classify(
                &mut a.ipsec.tables,
                a.now_ns,
                &mut random,
                &mut a.pool,
                &mut frames,
                &mut a.outbound,
            );
            let mut prepared = std::mem::take(&mut a.outbound.protect);
            a.ipsec.tables.lay_out(a.now_ns, &mut prepared, &mut random);
            let outer = a.seal(prepared);
            assert_eq!(b.receive(&outer), std::slice::from_ref(&packet), "{headroom} bytes of headroom");
        }
        a.assert_no_leak();
    }
}

#[test]
fn lifetimes_count_the_same_bytes_at_both_ends() {
    let ah = Link { protocol: SaProtocol::Ah, transform: NULL_SHA1, ..Link::default() };
    let transport = |link: &Link| Link { mode: Mode::Transport, ..link.clone() };
    let null = Link { transform: NULL_SHA1, outer_v6: true, ..Link::default() };
    // Of 100 bytes ESP takes in two of trailer and pads to its block; AH covers the headers before
    // it too.
    let links = [
        (transport(&ah), 100 + 24),
        (transport(&Link::default()), (80 + 2usize).next_multiple_of(4)),
        (ah, 20 + 24 + 100),
        (Link::default(), (100 + 2usize).next_multiple_of(4)),
        (Link { transform: CBC_SHA256, ..Link::default() }, (100 + 2usize).next_multiple_of(16)),
        (Link { tfc_bytes: 300, ..Link::default() }, (300 + 2usize).next_multiple_of(4)),
        (null, (100 + 2usize).next_multiple_of(4)),
    ];
    for (link, expected) in links {
        let [mut a, mut b] = link.pair();
        let outer = a.send(&vec![link.packet(false, 100); 3]);
        assert_eq!(b.receive(&outer).len(), 3);
        let bytes =
            [a.ipsec.tables.sa(OUT), b.ipsec.tables.sa(IN)].map(|sa| sa.expect("installed").usage.bytes());
        assert_eq!(bytes, [3 * expected as u64; 2], "{link:?}");
    }
}
