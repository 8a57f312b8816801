//! Packets above the sequence numbers that may be accepted so far.

use super::*;

const LONGEST_NS: u64 = 100_000_000;

impl Gateway {
    /// Tries what waits again, if that is due.
    fn try_held(&mut self) -> Vec<Vec<u8>> {
        let Self { ipsec, pool, now_ns, .. } = self;
        let mut out = Vec::new();
        if ipsec.inbound.payloads_due_ns() <= *now_ns {
            ipsec.inbound.give_up_payloads(&mut ipsec.tables, *now_ns, pool, &mut out);
        }
        self.copied(&mut out)
    }

    /// Reserves more numbers, as a cluster grants them.
    fn grant(&mut self, index: SaIndex, last: u64) {
        self.ipsec.tables.reserve_sequence(index, last);
        self.ipsec.inbound.retry_held();
    }
}

/// Packets of a peer, and a gateway that may accept numbers up to 2.
fn gateway(packets: usize) -> (Vec<Vec<u8>>, Gateway, SaIndex) {
    let link = Link::default();
    let inner: Vec<Vec<u8>> = (0..packets).map(|more| link.packet(false, 100 + more)).collect();
    let mut a = link.gateway(0);
    let sent = inner.chunks(50).flat_map(|burst| a.send(burst)).collect();
    let mut b = Gateway::new(IpsecConfig::default());
    let index = b.install(SaConfig { sequence_reserved: 2, ..link.sa(1, SaDirection::Inbound) });
    b.ipsec.set_policies(link.policies(1));
    (sent, b, index)
}

pub(super) fn lengths(packets: &[Vec<u8>]) -> Vec<usize> {
    packets.iter().map(Vec::len).collect()
}

#[test]
fn packets_above_the_reserved_numbers_wait_and_come_in_order_once_more_are_reserved() {
    let (sent, mut b, index) = gateway(5);
    assert!(!b.ipsec.inbound.has_held_more());
    assert_eq!(lengths(&b.receive(&sent)), [100, 101]);
    assert!(b.ipsec.inbound.has_held_more() && !b.ipsec.inbound.has_held_more(), "it is news once");
    assert_eq!(b.ipsec.tables.sequence_seen(index), Some(5), "how far the peer is");
    assert_eq!(b.ipsec.tables.sequence(index), Some(2));
    assert!(b.try_held().is_empty(), "nothing is due");
    b.grant(index, 4);
    assert_eq!(lengths(&b.try_held()), [102, 103]);
    assert_eq!(b.ipsec.tables.sequence(index), Some(4));
    b.grant(index, 10);
    assert_eq!(lengths(&b.try_held()), [104]);
    assert_eq!(b.drops(DropReason::InboundUnreserved), 0);
    b.assert_no_leak();
}

#[test]
fn a_packet_that_waits_twice_is_delivered_once() {
    let (sent, mut b, index) = gateway(3);
    b.receive(&sent);
    assert!(b.receive(&sent[2..]).is_empty());
    b.grant(index, 3);
    assert_eq!(b.try_held().len(), 1);
    assert_eq!(b.sa_drops(index, DropReason::Replayed), 1);
    b.assert_no_leak();
}

#[test]
fn a_packet_waits_for_a_limited_time() {
    let (sent, mut b, index) = gateway(3);
    b.receive(&sent);
    b.now_ns += LONGEST_NS - 1;
    assert!(b.try_held().is_empty());
    assert_eq!(b.sa_drops(index, DropReason::InboundUnreserved), 0);
    b.now_ns += 1;
    assert!(b.try_held().is_empty());
    assert_eq!(b.sa_drops(index, DropReason::InboundUnreserved), 1);
    assert_eq!(b.ipsec.inbound.payloads_due_ns(), u64::MAX);
    b.grant(index, 3);
    assert_eq!(b.receive(&sent[2..]).len(), 1, "it may come again");
    b.assert_no_leak();
}

#[test]
fn a_packet_whose_sa_is_gone_is_dropped() {
    let (sent, mut b, index) = gateway(3);
    b.receive(&sent);
    b.ipsec.remove(index);
    b.now_ns += LONGEST_NS;
    assert!(b.try_held().is_empty());
    assert_eq!(b.drops(DropReason::UnknownSpi), 1);
    b.assert_no_leak();
}

#[test]
fn no_more_packets_wait_than_there_is_room_for() {
    let (sent, mut b, index) = gateway(600);
    b.pool = FramePool::new(2_000, 0);
    for burst in sent.chunks(50) {
        b.receive(burst);
    }
    assert_eq!(b.sa_drops(index, DropReason::InboundUnreserved), 600 - 2 - 512);
    b.grant(index, 600);
    assert_eq!(b.try_held().len(), 512);
    assert_eq!(b.pool.available(FrameSize::Small), 2_000);
}

#[test]
fn packets_that_wait_leave_half_of_the_frames_free() {
    let (sent, mut b, index) = gateway(150);
    for burst in sent.chunks(10) {
        b.receive(burst);
    }
    let free = b.pool.available(FrameSize::Small);
    assert!(free >= FRAMES[0] / 2 && free < FRAMES[0] / 2 + 10, "{free}");
    let dropped = b.sa_drops(index, DropReason::InboundUnreserved) as usize;
    assert_eq!(dropped, 150 - 2 - (FRAMES[0] - free));
    b.now_ns += LONGEST_NS;
    assert!(b.try_held().is_empty());
    b.assert_no_leak();
}

#[test]
fn packets_that_wait_are_counted_when_no_more_numbers_will_be_reserved() {
    let (sent, mut b, index) = gateway(5);
    b.receive(&sent);
    let Ipsec { inbound, tables, .. } = &mut b.ipsec;
    inbound.give_up_held(tables, &mut b.pool);
    assert_eq!(b.sa_drops(index, DropReason::InboundUnreserved), 3);
    assert_eq!(b.ipsec.inbound.payloads_due_ns(), u64::MAX);
    assert!(!b.ipsec.inbound.has_held_more());
    b.assert_no_leak();
}
