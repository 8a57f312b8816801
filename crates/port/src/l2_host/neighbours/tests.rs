use std::net::Ipv4Addr;

use super::*;
use crate::l2_host::waiting::FOR_ONE;
use convoy_packet::FramePool;

const HOP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const SHARE: usize = 512;

fn v4(number: u32) -> IpAddr {
    Ipv4Addr::from(number).into()
}

fn frame(pool: &mut FramePool, byte: u8) -> Frame {
    pool.take_filled(&[byte; 40], 0).expect("a frame")
}

fn asked(neighbours: &mut Neighbours, now_ms: u64) -> (usize, usize) {
    let mut count = 0;
    let given_up = neighbours.due(now_ms, &mut |_| count += 1);
    (count, given_up.len())
}

/// The result for a packet, which is identified by a byte.
#[derive(Debug, PartialEq, Eq)]
enum Routed {
    Sent(MacAddress),
    /// The packet waits, and this many others were displaced.
    Waits(usize),
}

fn route(neighbours: &mut Neighbours, pool: &mut FramePool, to: IpAddr, byte: u8, now_ms: u64) -> Routed {
    let mut displaced = Vec::new();
    let frame = frame(pool, byte);
    let way = match neighbours.route(to, frame, now_ms, SHARE, &mut displaced) {
        Some((mac, frame)) => {
            pool.give_back(frame);
            Routed::Sent(mac)
        }
        None => Routed::Waits(displaced.len()),
    };
    pool.give_back_burst(&mut displaced);
    way
}

#[test]
fn packets_wait_for_the_answer_and_leave_in_order() {
    let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
    for byte in 0..3 {
        assert_eq!(route(&mut neighbours, &mut pool, HOP, byte, 10), Routed::Waits(0));
    }
    assert_eq!(asked(&mut neighbours, 10), (1, 0));
    assert_eq!(asked(&mut neighbours, 11), (0, 0));
    let freed = neighbours.learn(HOP, MAC, false, 12);
    assert_eq!(freed.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 3, 13), Routed::Sent(MAC));
    assert_eq!(asked(&mut neighbours, 20_000), (0, 0), "it is known");
}

#[test]
fn an_address_that_does_not_answer_is_given_up_after_three_requests() {
    let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, 0), Routed::Waits(0));
    let rounds: Vec<_> = (0..5).map(|second| asked(&mut neighbours, second * REQUEST_MS)).collect();
    assert_eq!(rounds, [(1, 0), (1, 0), (1, 0), (0, 1), (0, 0)]);
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, 9_000), Routed::Waits(0));
    assert_eq!(asked(&mut neighbours, 9_000), (1, 0), "the next packet asks again");
}

#[test]
fn an_answer_is_refreshed_in_use_and_holds_for_a_minute() {
    let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
    neighbours.learn(HOP, MAC, true, 0);
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, REFRESH_MS), Routed::Sent(MAC));
    assert_eq!(asked(&mut neighbours, REFRESH_MS), (1, 0));
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, REFRESH_MS + 1), Routed::Sent(MAC));
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, KNOWN_MS), Routed::Waits(0));
    assert_eq!(asked(&mut neighbours, KNOWN_MS), (1, 0));
}

#[test]
fn packets_to_absent_hosts_hold_no_more_than_the_share() {
    const FRAMES: usize = 8_192;
    let (mut pool, mut neighbours) = (FramePool::new(FRAMES, 0), Neighbours::default());
    for n in 0..96 * FOR_ONE {
        let to = [10, 2, 0, (n % 96) as u8].into();
        route(&mut neighbours, &mut pool, to, 0, 0);
    }
    let held = FRAMES - pool.available(convoy_packet::FrameSize::Small);
    assert_eq!(held, SHARE);
    for second in 0..REQUESTS.into() {
        assert_eq!(asked(&mut neighbours, second * REQUEST_MS), (96, 0));
    }
    assert_eq!(asked(&mut neighbours, u64::from(REQUESTS) * REQUEST_MS), (0, SHARE), "all are given up");
}

#[test]
fn a_scan_shuts_no_host_out() {
    let (mut pool, mut neighbours) = (FramePool::new(1_024, 0), Neighbours::default());
    let in_use: Vec<IpAddr> = (0..1_000_u32).map(|n| v4(0x0a01_0000 + n)).collect();
    for address in &in_use {
        route(&mut neighbours, &mut pool, *address, 0, 0);
        pool.give_back_burst(&mut neighbours.learn(*address, MAC, true, 0).into());
    }
    for n in 0..20_000_u32 {
        route(&mut neighbours, &mut pool, v4(0x0a02_0000 + n), 0, 1);
    }
    assert_eq!(neighbours.asked.len(), ASKED);
    for address in &in_use {
        assert_eq!(route(&mut neighbours, &mut pool, *address, 0, 2), Routed::Sent(MAC));
    }
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 7, 3), Routed::Waits(1), "the oldest makes room");
    let freed = neighbours.learn(HOP, MAC, false, 4);
    assert_eq!(freed.iter().map(|frame| frame[0]).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_link_with_more_hosts_than_the_table_holds_keeps_those_in_use() {
    let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
    neighbours.learn(HOP, MAC, true, 0);
    for n in 0..3 * KNOWN as u32 {
        assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, n.into()), Routed::Sent(MAC));
        let host = v4(0x0a01_0000 + n);
        neighbours.learn(host, MAC, true, n.into());
        assert_eq!(route(&mut neighbours, &mut pool, host, 0, n.into()), Routed::Sent(MAC));
        assert!(neighbours.known.len() <= KNOWN);
    }
}

#[test]
fn strangers_neither_fill_the_table_nor_push_out_what_is_in_use() {
    let (mut pool, mut neighbours) = (FramePool::new(8, 0), Neighbours::default());
    neighbours.learn(HOP, MAC, true, 0);
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, 0), Routed::Sent(MAC));
    for n in 0..20_000_u32 {
        neighbours.learn(v4(n), MAC, true, 1);
    }
    assert!(neighbours.known.len() <= KNOWN);
    assert_eq!(route(&mut neighbours, &mut pool, HOP, 0, 2), Routed::Sent(MAC));
    let other = [192, 0, 2, 10].into();
    neighbours.learn(other, MAC, false, 0);
    assert!(!neighbours.known.contains_key(&other), "what others say to each other is not kept");
}
