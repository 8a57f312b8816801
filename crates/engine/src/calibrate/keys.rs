//! The cost of a change of SA inside a train.

use std::time::Instant;

use convoy_ipsec::{CryptoPacket, KeyMaterial, SaIndex, Transform};

use super::trip::Traveller;
use super::{CALIBRATION_SA, ROUNDS, TIME_PER_POINT, sample_packet};
use crate::{Engine, EngineError};

/// Packets of a train. They are short, since changes weigh most between short packets.
const TRAIN: usize = 16;
const BYTES: usize = 64;

/// The SAs of a train in which each packet has its own.
fn sas() -> impl Iterator<Item = SaIndex> {
    (0..TRAIN as u32).map(|at| SaIndex(CALIBRATION_SA.0 - at))
}

/// The difference between a train of as many SAs as packets and one of a single SA, in ns per
/// change of SA; never negative. All keys are in the caches, so it is a lower bound.
///
/// # Errors
/// The engine's, if it fails meanwhile. Only keys that it had before remain: those of
/// [`CALIBRATION_SA`].
pub(super) fn t_key(
    engine: &mut dyn Engine,
    keys: &KeyMaterial,
    transform: Transform,
    traveller: &mut Traveller,
) -> Result<f64, EngineError> {
    let installed = sas().skip(1).try_for_each(|sa| engine.install_key(sa, keys));
    let shortest = installed.and_then(|()| {
        let mut train =
            || (0..TRAIN).map(|_| sample_packet(&mut traveller.pool, transform, BYTES)).collect::<Vec<_>>();
        let mut trains = [train(), train()];
        trains[1].iter_mut().zip(sas()).for_each(|(packet, sa)| packet.sa = sa);
        let shortest = shortest(engine, &mut trains, traveller);
        trains.into_iter().flatten().for_each(|packet| traveller.pool.give_back(packet.frame));
        shortest
    });
    sas().skip(1).for_each(|sa| engine.remove_key(sa));
    let [of_one, of_many] = shortest?;
    Ok(of_many.saturating_sub(of_one) as f64 / (TRAIN - 1) as f64)
}

/// The shortest time of each train, measured in turns: the difference is small compared with the
/// machine's noise, which only adds to either.
fn shortest(
    engine: &mut dyn Engine,
    trains: &mut [Vec<CryptoPacket>; 2],
    traveller: &mut Traveller,
) -> Result<[u64; 2], EngineError> {
    let mut shortest = [u64::MAX; 2];
    let start = Instant::now();
    let mut rounds = 0;
    while rounds <= *ROUNDS.start() || (rounds <= *ROUNDS.end() && start.elapsed() < TIME_PER_POINT) {
        for (train, shortest) in trains.iter_mut().zip(&mut shortest) {
            *shortest = traveller.in_place(engine, train)?.min(*shortest);
        }
        rounds += 1;
    }
    Ok(shortest)
}
