//! Functions are exchanged in the slots of a lookaside card while packets are queued: none is lost,
//! and each is as on a card that has one function only.

use convoy_card::{Algorithm, CardVerdict, Cipher, CommandDirection, Driver, DriverPacket, Hash, Sa};

const ALGORITHMS: [Algorithm; 2] = [
    Algorithm { cipher: Cipher::AesGcm, hash: Hash::None },
    Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 },
];
const ICV_BYTES: [usize; 2] = [16, 12];
/// Fewer than a batch of the driver holds, with the commands between them.
const PACKETS: usize = 120;

fn driver() -> Driver {
    let mut driver = Driver::new().expect("a card");
    for (number, algorithm) in (0..).zip(ALGORITHMS) {
        let auth_bytes = if algorithm.hash == Hash::None { 0 } else { 20 };
        let sa = Sa {
            algorithm,
            salt: [number as u8; 4],
            key: vec![number as u8; 16],
            auth_key: vec![7; auth_bytes],
            icv_bytes: ICV_BYTES[number as usize] as u8,
        };
        driver.install(number, sa).expect("the card has the function");
    }
    driver
}

#[derive(Clone, PartialEq)]
struct Body {
    sa: usize,
    sequence: u8,
    payload: Vec<u8>,
    icv: [u8; 16],
}

/// Packets of both SAs, in runs of one to four.
fn mixed() -> Vec<Body> {
    let order = (1..).flat_map(|run| std::iter::repeat_n(run % 2, 1 + run % 4));
    let bodies = order.take(PACKETS).zip(0_u8..).map(|(sa, sequence)| {
        let payload = (0..40 + 11 * usize::from(sequence)).map(|at| at as u8 ^ sequence).collect();
        Body { sa, sequence, payload, icv: [0; 16] }
    });
    bodies.collect()
}

/// Processes all bodies of the given SAs in one call.
fn process<'a>(driver: &mut Driver, direction: CommandDirection, bodies: impl Iterator<Item = &'a mut Body>) {
    let mut packets: Vec<DriverPacket<'_>> = bodies
        .map(|Body { sa, sequence, payload, icv }| DriverPacket {
            sa: *sa as u32,
            esp: [0, 0, 0, *sa as u8, 0, 0, 0, *sequence],
            seq_high: None,
            iv: &[9; 8],
            payload,
            icv: &mut icv[..ICV_BYTES[*sa]],
            verdict: CardVerdict::Pending,
        })
        .collect();
    driver.process(direction, &mut packets).expect("the card works");
    assert!(packets.iter().all(|packet| packet.verdict == CardVerdict::Done), "a packet was lost");
}

#[test]
fn a_queue_with_packets_of_both_functions_is_done_whole_and_as_by_cards_with_one_each() {
    let plain = mixed();
    let mut exchanged = plain.clone();
    let mut both = driver();
    process(&mut both, CommandDirection::Seal, exchanged.iter_mut());
    let mut apart = plain.clone();
    for sa in 0..ALGORITHMS.len() {
        process(&mut driver(), CommandDirection::Seal, apart.iter_mut().filter(|body| body.sa == sa));
    }
    assert!(exchanged == apart, "a packet is another than without exchanges");
    process(&mut both, CommandDirection::Open, exchanged.iter_mut());
    let are_equal = exchanged.iter().zip(&plain).all(|(opened, plain)| opened.payload == plain.payload);
    assert!(are_equal, "a packet is another than was sealed");
}
