//! Calibration: an engine's time for a multi-packet of one algorithm, as `t_init + t_block * n` in
//! ns, the cost of a change of SA inside a train, and the caller's cost of handing packets over to
//! an engine elsewhere.

mod cache;
mod contention;
mod fingerprint;
mod fit;
mod keys;
mod known;
mod rig;
#[cfg(test)]
mod tests;
mod trip;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use convoy_ipsec::{
    Cipher, CryptoJob, CryptoPacket, CryptoStatus, Direction, FinishContext, KeyMaterial, SaIndex, Transform,
};
use convoy_packet::{FramePool, FrameSize};
use convoy_scheduler::{CostModel, Handover, TrainModel};

pub use cache::{CacheError, CacheWarning, CalibrationCache};
pub use fingerprint::fingerprint;
pub use known::KnownCosts;
pub use rig::Rig;

use crate::{Engine, EngineDescription, EngineError, Placement, Takes};
use fit::{Point, fit, fit_handover, fit_train};
use keys::t_key;
use trip::Traveller;

/// The SA used by calibration: no SAD grows to this index, and engines keep
/// tables up to it.
pub const CALIBRATION_SA: SaIndex = SaIndex(65_535);

/// Packets per multi-packet.
const PACKETS: [usize; 4] = [1, 4, 16, 64];
/// Bytes per packet.
const BYTES: [usize; 4] = [64, 256, 512, 1408];
/// Measurements per point: at least, and at most while time remains.
const ROUNDS: std::ops::RangeInclusive<usize> = 3..=31;
const TIME_PER_POINT: Duration = Duration::from_micros(1_500);
/// Time for all points of a transform. Larger ones that would exceed it are left out: the line
/// through the smaller ones applies to them too, and DES in a vector library may take milliseconds
/// a packet.
const TIME: Duration = Duration::from_millis(25);
/// Points that a fit needs, however long they take.
const LEAST_POINTS: usize = 6;
/// An engine that does not respond within this time has failed.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Tickets are unique among all calibrations and known answers, and differ from those of a gateway,
/// which counts from 0: completions that arrive after our timeout then match nothing.
static NEXT_TICKET: AtomicU64 = AtomicU64::new(1 << 63);

/// A ticket that no gateway and no other question has.
pub(crate) fn next_ticket() -> u64 {
    NEXT_TICKET.fetch_add(1, Ordering::Relaxed)
}

/// The cost of a transform on an engine, in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmCost {
    /// The engine's own time for a multi-packet.
    pub model: CostModel,
    /// The caller's cost of handing a multi-packet over and taking it back; 0 for an engine on its
    /// core.
    pub handover: Handover,
    /// The engine's cost of a change of SA inside a train; 0 for one that takes multi-packets only.
    pub t_key: f64,
    /// Its own time for a train; `None` for one that takes multi-packets only.
    pub train: Option<TrainModel>,
}

impl AlgorithmCost {
    /// The engine's own time for a burst of this many packets of `blocks` blocks each, in ns.
    pub fn of_burst(&self, packets: u32, blocks: u16) -> f64 {
        let CostModel { t_init, t_block } =
            self.train.map_or(self.model, |train| train.line(packets, blocks));
        t_init + t_block * f64::from(packets) * f64::from(blocks)
    }
}

impl fmt::Display for AlgorithmCost {
    /// The engine's own time for a burst.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(TrainModel { t_init, t_packet, t_block, t_longest }) = self.train else {
            let CostModel { t_init, t_block } = self.model;
            return write!(f, "{t_init:.0} ns per burst + {t_block:.1} per 16 bytes");
        };
        write!(f, "{t_init:.0} ns per burst + {t_packet:.0} per packet + {t_block:.1} per 16 bytes")?;
        if t_longest > 0.0 {
            write!(f, " + {t_longest:.1} per 16 bytes of the longest")?;
        }
        Ok(())
    }
}

impl From<CostModel> for AlgorithmCost {
    /// Without the costs of a handover and of a change of SA; a train costs as much as a
    /// multi-packet.
    fn from(model: CostModel) -> Self {
        Self { model, handover: Handover::default(), t_key: 0.0, train: None }
    }
}

/// An engine created to be measured. It never works for a gateway, since it cannot be taken out
/// again: measuring an engine in use would take its packets' completions, and its worker's time.
pub struct IdleEngine(Box<dyn Engine>);

impl IdleEngine {
    /// Wraps an engine that has no work and will get none but calibration.
    pub fn new(engine: impl Engine + 'static) -> Self {
        Self(Box::new(engine))
    }

    /// Its description.
    pub fn description(&self) -> &EngineDescription {
        self.0.description()
    }

    /// Measures a transform, which takes some 25 ms, or twice that for an engine that is measured
    /// as it is submitted to and in place.
    ///
    /// Medians over several rounds suppress the machine's noise; the fit minimises the squares of
    /// the relative error, so that small multi-packets count as much as large ones. The handover to
    /// an engine elsewhere is everything that the caller does as a worker would: write packets
    /// where others were before, copy the input, submit, poll successfully, and read the results;
    /// waiting is excluded, and so is time in which the kernel ran another thread on the core.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if it does not support the transform; [`EngineError::Device`]
    /// if it fails or does not respond within two seconds.
    pub fn calibrate(&mut self, transform: Transform) -> Result<AlgorithmCost, EngineError> {
        let engine = self.0.as_mut();
        let key = (0..transform.key_material_len()).map(|at| (at * 37 + 11) as u8).collect();
        let keys = KeyMaterial::new(transform, key).expect("a key of the transform's own length");
        engine.install_key(CALIBRATION_SA, &keys)?;
        let mut traveller = Traveller::new(PACKETS[PACKETS.len() - 1]);
        let points = measure(engine, transform, &mut traveller, times);
        let measured = points.and_then(|points| match engine.description().takes {
            Takes::Trains => {
                let [trains, _] = if engine.description().placement == Placement::Inline {
                    measure(engine, transform, &mut traveller, times_in_place)?
                } else {
                    points.clone()
                };
                let t_key = t_key(engine, &keys, transform, &mut traveller)?;
                Ok((points, t_key, Some(fit_train(&trains))))
            }
            Takes::MultiPackets => Ok((points, 0.0, None)),
        });
        engine.remove_key(CALIBRATION_SA);
        let ([own, handover], t_key, train) = measured?;
        let is_elsewhere = engine.description().placement == Placement::Lookaside;
        let handover = if is_elsewhere { fit_handover(&handover) } else { Handover::default() };
        Ok(AlgorithmCost { model: fit(&own), handover, t_key, train })
    }
}

impl From<Box<dyn Engine>> for IdleEngine {
    fn from(engine: Box<dyn Engine>) -> Self {
        Self(engine)
    }
}

/// Measures a multi-packet: the engine's time for it and the caller's, in ns.
type Times = fn(&mut dyn Engine, Vec<CryptoPacket>, &mut Traveller) -> Result<[f64; 2], EngineError>;

/// The points of the engine's time and of the caller's.
fn measure(
    engine: &mut dyn Engine,
    transform: Transform,
    traveller: &mut Traveller,
    times: Times,
) -> Result<[Vec<Point>; 2], EngineError> {
    let mut sizes: Vec<(usize, usize)> =
        PACKETS.into_iter().flat_map(|count| BYTES.map(|bytes| (count, bytes))).collect();
    sizes.sort_by_key(|(count, bytes)| count * bytes);
    let start = Instant::now();
    let mut points = [const { Vec::<Point>::new() }; 2];
    for (count, bytes) in sizes {
        let sample = |_| sample_packet(&mut traveller.pool, transform, bytes);
        let packets: Vec<CryptoPacket> = (0..count).map(sample).collect();
        let blocks = packets.iter().map(|packet| f64::from(packet.job.blocks())).sum();
        let own = &points[0];
        if own.len() >= LEAST_POINTS && !fits(TIME.saturating_sub(start.elapsed()), own, blocks) {
            break;
        }
        for (points, ns) in points.iter_mut().zip(times(engine, packets, traveller)?) {
            points.push(Point { packets: count as f64, blocks, ns });
        }
    }
    Ok(points)
}

/// Whether the minimum of rounds with this many blocks fits into `left`, at the pace of the last
/// point.
fn fits(left: Duration, points: &[Point], blocks: f64) -> bool {
    let ns_per_block = points.last().map_or(0.0, |point| point.ns / point.blocks);
    let rounds = 1.0 + *ROUNDS.start() as f64;
    !left.is_zero() && ns_per_block * blocks * rounds <= left.as_nanos() as f64
}

/// A packet of [`CALIBRATION_SA`] to seal: header and IV, a body of `bytes` plus alignment, ICV.
///
/// # Panics
/// If the pool has no small frame left, or the packet does not fit one.
pub fn sample_packet(pool: &mut FramePool, transform: Transform, bytes: usize) -> CryptoPacket {
    let head = 8 + transform.iv_len();
    let body = bytes.next_multiple_of(transform.alignment());
    let mut frame = pool.take(FrameSize::Small).expect("the pool has as many as the largest multi-packet");
    let whole =
        frame.append(head + body + transform.icv_len()).expect("the longest packet fits a small frame");
    whole.fill(0x5c);
    let is_gmac = matches!(transform, Transform::Aead(convoy_ipsec::Aead::NullAesGmac(_)));
    let is_null = matches!(transform, Transform::Chained { cipher: Cipher::Null, .. });
    let has_hmac = matches!(transform, Transform::Chained { integrity: Some(_), .. });
    let (aad_len, nonce_len) = match transform {
        Transform::Aead(_) => (8, 12),
        Transform::Chained { cipher: Cipher::AesCtr(_), .. } => (0, 16),
        Transform::Chained { .. } => (0, transform.iv_len() as u8),
    };
    let job = CryptoJob {
        cipher_start: head as u16,
        cipher_len: if is_gmac || is_null { 0 } else { body as u16 },
        auth_len: if is_gmac || has_hmac { (head + body) as u16 } else { 0 },
        icv_start: (head + body) as u16,
        aad_len,
        nonce_len,
        nonce: [0x36; 16],
        ..CryptoJob::default()
    };
    let (status, context) = (CryptoStatus::Pending, FinishContext::default());
    CryptoPacket { frame, job, status, sa: CALIBRATION_SA, direction: Direction::Seal, class: 0, context }
}

/// One in this many handovers is quicker than the one that counts. Whatever else runs on the
/// machine makes them longer: it displaces caches, and if it keeps the engine's thread from
/// polling, that has to be woken by a system call. A cost that was once measured too high would
/// keep packets from the engine for good.
const QUICKER_HANDOVERS: usize = 10;

/// The times of sealing `packets` repeatedly, without the first time: the median of the engine's,
/// and the quickest tenth of the caller's.
fn times(
    engine: &mut dyn Engine,
    mut packets: Vec<CryptoPacket>,
    traveller: &mut Traveller,
) -> Result<[f64; 2], EngineError> {
    traveller.go(engine, &mut packets)?;
    let mut times = [Vec::with_capacity(*ROUNDS.end()), Vec::with_capacity(*ROUNDS.end())];
    let start = Instant::now();
    while times[0].len() < *ROUNDS.start()
        || (times[0].len() < *ROUNDS.end() && start.elapsed() < TIME_PER_POINT)
    {
        let trip = traveller.go(engine, &mut packets)?;
        times[0].push(trip.ns);
        times[1].push(trip.handover_ns);
    }
    packets.into_iter().for_each(|packet| traveller.pool.give_back(packet.frame));
    times.iter_mut().for_each(|times| times.sort_unstable());
    let [own, handovers] = &times;
    Ok([own[own.len() / 2] as f64, handovers[handovers.len() / QUICKER_HANDOVERS] as f64])
}

/// The median time of an engine on the caller's core for `packets`, which it gets as from a worker:
/// in place. The caller's is 0.
fn times_in_place(
    engine: &mut dyn Engine,
    mut packets: Vec<CryptoPacket>,
    traveller: &mut Traveller,
) -> Result<[f64; 2], EngineError> {
    traveller.in_place(engine, &mut packets)?;
    let (mut times, start) = (Vec::with_capacity(*ROUNDS.end()), Instant::now());
    while times.len() < *ROUNDS.start() || (times.len() < *ROUNDS.end() && start.elapsed() < TIME_PER_POINT) {
        times.push(traveller.in_place(engine, &mut packets)?.max(1));
    }
    packets.into_iter().for_each(|packet| traveller.pool.give_back(packet.frame));
    times.sort_unstable();
    Ok([times[times.len() / 2] as f64, 0.0])
}
