//! Another function is loaded into a slot while packets pass: none may be lost.

use super::*;

const FUNCTIONS: [Algorithm; 2] = [GCM, CTR_SHA1];
/// Exchanges in a test.
const EXCHANGES: u8 = 12;
/// Packets of each SA.
const PACKETS: u8 = 48;
/// Long enough that X2 keeps up with the line with either function.
const PAYLOAD_BYTES: usize = 700;

/// The packets of the SA with this number, whose function is another than that of the SA before.
fn cases(number: u8) -> impl Iterator<Item = Case> {
    let algorithm = FUNCTIONS[usize::from(number) % 2];
    (0..PACKETS).map(move |sequence| case(shape(algorithm), number, sequence, PAYLOAD_BYTES))
}

fn algorithm(number: u8) -> Algorithm {
    FUNCTIONS[usize::from(number) % 2]
}

#[test]
fn packets_that_were_given_before_and_after_an_exchange_in_x1_all_leave_sealed() {
    let (mut nic, mut line) = alone(usize::from(EXCHANGES) * usize::from(PACKETS));
    let mut expected = Vec::new();
    for number in 0..EXCHANGES {
        // The card still has packets of the SA before, for nothing waits until they have left.
        if number > 0 {
            assert!(!nic.is_idle());
            nic.remove(u32::from(number) - 1);
        }
        nic.install(number.into(), sa(algorithm(number), number), None).expect("its function can be loaded");
        for case in cases(number) {
            while !nic.transmit_copy(&case.plain, Some(case.seal)) {
                nic.step(64, &mut |_, _| ()).expect("the card works");
            }
            expected.push(case.sealed);
        }
    }
    run_until_idle(&mut nic);
    let left = drained(&mut line);
    assert_eq!(left.len(), expected.len());
    assert!(left == expected, "a packet is not as its SA seals it, or the order is another");
    assert_eq!((nic.counters().refused, nic.counters().device_errors), (0, 0));
}

#[test]
fn what_the_line_brings_during_an_exchange_in_x2_reaches_the_host_opened_or_as_it_came() {
    let (mut nic, mut line) = alone(usize::from(EXCHANGES) * usize::from(PACKETS));
    let all: Vec<Case> = (0..EXCHANGES).flat_map(cases).collect();
    for case in &all {
        assert!(line.send(&case.sealed).expect("a peer"));
    }
    let mut received = Received::new();
    let install = |nic: &mut Nic, number: u8| {
        let inbound = Some(inbound(number, true));
        nic.install(number.into(), sa(algorithm(number), number), inbound)
            .expect("its function can be loaded");
    };
    install(&mut nic, 0);
    for number in 0..EXCHANGES {
        // The exchange comes while packets of this SA still arrive, at the full rate of the line.
        let enough = usize::from(number) * usize::from(PACKETS) + usize::from(PACKETS) * 3 / 4;
        while received.len() < enough {
            nic.step(64, &mut |sa, frame| received.push((sa, frame.to_vec()))).expect("the card works");
        }
        if number + 1 < EXCHANGES {
            nic.remove(number.into());
            install(&mut nic, number + 1);
        }
    }
    received.extend(run_until_idle(&mut nic));
    assert_eq!((received.len(), nic.counters().overrun, nic.counters().malformed), (all.len(), 0, 0));
    for (at, ((opened, frame), case)) in received.iter().zip(&all).enumerate() {
        let expected = if opened.is_some() { &case.opened } else { &case.sealed };
        assert!(frame == expected && opened.is_none_or(|sa| sa == case.seal.sa), "packet {at}");
    }
    let opened = received.iter().filter(|(sa, _)| sa.is_some()).count();
    let passed = all.len() - opened;
    println!(
        "{EXCHANGES} functions in turn at the line's full rate: {opened} packets opened, {passed} passed up"
    );
    assert!(opened > all.len() / 2 && passed > 0, "{opened} of {}", all.len());
}
