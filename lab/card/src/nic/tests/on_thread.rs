//! A card on its thread; the other end of its line belongs to the test.

use std::time::{Duration, Instant};

use convoy_packet::FramePool;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);

fn started() -> (NicControl, NicPort, MemoryLine) {
    let (line, peer) = memory(64).expect("descriptors");
    let (control, port) = pair(Box::new(line), &NicSettings::default()).expect("a card");
    (control, port, peer)
}

/// A frame of a pool of its own, which may be gone before it.
fn filled(bytes: &[u8]) -> Frame {
    FramePool::new(1, 0).take_filled(bytes, 0).expect("it fits")
}

fn wait_for(fd: std::os::fd::BorrowedFd<'_>) {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(TIMEOUT).expect("short");
    assert_eq!(poll(&mut fds, timeout).expect("a poll"), 1, "nothing came");
}

fn from_line(line: &mut MemoryLine) -> Vec<u8> {
    loop {
        wait_for(line.readable_fd().expect("an event"));
        if let Some(frame) = drained(line).into_iter().next() {
            return frame;
        }
    }
}

fn from_port(port: &mut NicPort) -> Arrival {
    loop {
        wait_for(port.readable_fd());
        if let Some(arrival) = port.receive() {
            return arrival;
        }
    }
}

#[test]
fn packets_go_both_ways_and_wake_anyone_who_waits() {
    let (control, mut port, mut line) = started();
    control.install(1, sa(GCM, 1), None).expect("fits");
    control.install(2, sa(GCM, 2), Some(inbound(2, true))).expect("fits");
    let (out, inward) = (case(shape(GCM), 1, 1, 64), case(shape(GCM), 2, 1, 64));
    port.transmit(filled(&out.plain), Some(out.seal)).expect("room");
    assert_eq!(from_line(&mut line), out.sealed);
    assert!(line.send(&inward.sealed).expect("a peer"));
    let arrival = from_port(&mut port);
    assert_eq!((arrival.opened, &arrival.frame[..]), (Some(2), &inward.opened[..]));
    let start = Instant::now();
    while (control.counters().sealed, control.counters().opened) != (1, 1) {
        assert!(start.elapsed() < TIMEOUT, "{:?}", control.counters());
    }
}

#[test]
fn an_sa_is_removed_behind_the_packets_that_were_given_before() {
    let (control, mut port, mut line) = started();
    control.install(1, sa(GCM, 1), None).expect("fits");
    let case = case(shape(GCM), 1, 1, 64);
    for _ in 0..40 {
        port.transmit(filled(&case.plain), Some(case.seal)).expect("room");
    }
    control.remove(1);
    let mut frames = Vec::new();
    while frames.len() < 40 {
        wait_for(line.readable_fd().expect("an event"));
        frames.extend(drained(&mut line));
    }
    assert!(frames.iter().all(|frame| *frame == case.sealed));
    let start = Instant::now();
    while control.counters().refused == 0 {
        // The queue may be full until the card's thread runs.
        let _ = port.transmit(filled(&case.plain), Some(case.seal));
        drained(&mut line);
        assert!(start.elapsed() < TIMEOUT, "{:?}", control.counters());
    }
}

#[test]
fn a_host_that_gives_too_much_is_refused_until_there_is_room() {
    let (control, mut port, mut line) = started();
    let (mut given, mut pool) = (0_u32, FramePool::new(512, 0));
    loop {
        let bytes = [&given.to_be_bytes()[..], &[0; 56]].concat();
        if port.transmit(pool.take_filled(&bytes, 0).expect("more than the queue holds"), None).is_err() {
            break;
        }
        given += 1;
    }
    assert!(control.room() < 64);
    let mut frames = Vec::new();
    while frames.len() < given as usize {
        wait_for(line.readable_fd().expect("an event"));
        frames.extend(drained(&mut line));
    }
    for (frame, at) in frames.iter().zip(0_u32..) {
        assert_eq!(frame[..4], at.to_be_bytes());
    }
}

#[test]
fn a_card_whose_owner_is_gone_takes_no_more_sas() {
    let (control, mut port, _line) = started();
    control.install(1, sa(GCM, 1), None).expect("fits");
    assert!(port.receive().is_none());
    assert!(!port.is_gone());
    drop(port);
    assert_eq!(control.install(2, sa(GCM, 2), None), Err(CardError::Gone));
    let (line, _peer) = memory(1).expect("descriptors");
    let (control, port) = pair(Box::new(line), &NicSettings::default()).expect("a card");
    drop(port);
    assert_eq!(control.install(2, sa(GCM, 2), None), Err(CardError::Gone), "it never began");
}
