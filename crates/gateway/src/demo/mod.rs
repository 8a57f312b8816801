//! `convoy demo`: two gateways in one process, joined by a link, protect real traffic over all engines at hand, and
//! every packet is held against what was sent.

mod port;
mod sites;
pub(crate) mod traffic;
mod trial;

pub use port::Delivery;
pub use trial::{EngineReport, LiveView, TrialReport};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoy_capture::Unread;
use convoy_packet::FramePool;
use convoy_port::{Pcap, Port, PortError};
use convoy_scheduler::Policy;
use serde::Serialize;

use crate::assemble::AssembleError;
use crate::costs::Costs;
use sites::TUNNELS;
use traffic::{Traffic, both_ways};
use trial::{Trial, engines_at_hand, run_trial};

/// Packets of one direction before they repeat.
const TRAFFIC_PACKETS: usize = 20_000;
/// Windows that are held against each other.
const WINDOWS: [usize; 2] = [1, 32];

/// What the demo does.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// Length of the first part, in which finishing time with a window of 32 is shown live.
    pub live: Duration,
    /// Length of each of the comparisons.
    pub comparison: Duration,
    /// Length of each of the two runs with the card alone, if it is built in.
    pub card: Duration,
    /// The capture of real programs; without it, IMIX alone.
    pub capture: Option<PathBuf>,
    /// The engine of the first gateway that vanishes half way, if any.
    pub fail: Option<String>,
    /// Seed of the IMIX.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// Packets of the capture that took part, both ways.
    pub capture_packets: usize,
    /// Packets of the capture that could not be used, by reason.
    pub capture_unreadable: Unread,
    /// Where the capture is cut off or damaged, if it is; what follows was not read.
    pub capture_damage: Option<String>,
    /// The first part.
    pub live: TrialReport,
    /// Each policy with each window.
    pub comparisons: Vec<TrialReport>,
    /// The verilated card alone, without and with the window; empty if it is not built in.
    pub card: Vec<TrialReport>,
}

impl DemoReport {
    /// Whether every packet of every part came out once, byte for byte, in the order of its SA.
    pub fn is_perfect(&self) -> bool {
        self.trials().all(|trial| trial.is_perfect)
    }

    /// All parts.
    pub fn trials(&self) -> impl Iterator<Item = &TrialReport> {
        self.comparisons.iter().chain(&self.card).chain([&self.live])
    }
}

/// Why the demo could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A gateway could not be put together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The engine that should fail is not one of the demo's.
    #[error("there is no engine {wanted:?} to fail; the demo has {known}")]
    NoSuchEngine {
        /// What was asked.
        wanted: String,
        /// What there is.
        known: String,
    },
}

/// Runs the demo; `show` is called a few times a second with what is going on.
///
/// # Errors
/// [`DemoError`] says what could not be put together.
pub fn run(config: &DemoConfig, show: &mut dyn FnMut(&LiveView)) -> Result<DemoReport, DemoError> {
    let Captured { packets: capture, unreadable, damage } =
        config.capture.as_deref().map(read_capture).transpose()?.unwrap_or_default();
    let capture_packets = capture.len();
    let traffic: [Arc<Traffic>; 2] = both_ways(capture, TUNNELS, TRAFFIC_PACKETS, config.seed).map(Arc::new);
    let mut costs = Costs::new();
    let engines = engines_at_hand();
    let live = Trial {
        engines: &engines,
        policy: Policy::FinishingTime,
        window: 32,
        length: config.live,
        fail: config.fail.as_deref(),
    };
    let live = run_trial(&live, &traffic, &mut costs, show)?;
    let mut comparisons = Vec::new();
    for policy in Policy::ALL {
        for window in WINDOWS {
            let trial = Trial { engines: &engines, policy, window, length: config.comparison, fail: None };
            comparisons.push(run_trial(&trial, &traffic, &mut costs, show)?);
        }
    }
    let card = on_card(config, &traffic, &mut costs, show)?;
    Ok(DemoReport {
        capture_packets,
        capture_unreadable: unreadable,
        capture_damage: damage,
        live,
        comparisons,
        card,
    })
}

#[cfg(feature = "card")]
fn on_card(
    config: &DemoConfig,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    show: &mut dyn FnMut(&LiveView),
) -> Result<Vec<TrialReport>, DemoError> {
    let run = |window| {
        let engines = sites::Engines::Card;
        let policy = Policy::FinishingTime;
        run_trial(
            &Trial { engines: &engines, policy, window, length: config.card, fail: None },
            traffic,
            costs,
            show,
        )
    };
    WINDOWS.into_iter().map(run).collect()
}

#[cfg(not(feature = "card"))]
fn on_card(
    _: &DemoConfig,
    _: &[Arc<Traffic>; 2],
    _: &mut Costs,
    _: &mut dyn FnMut(&LiveView),
) -> Result<Vec<TrialReport>, DemoError> {
    Ok(Vec::new())
}

/// What a capture has for the demo.
#[derive(Default)]
struct Captured {
    packets: Vec<Vec<u8>>,
    unreadable: Unread,
    damage: Option<String>,
}

fn read_capture(path: &Path) -> Result<Captured, PortError> {
    let mut port = Pcap::open("capture", Some(path), None)?;
    let mut pool = FramePool::new(64, 64);
    let (mut packets, mut burst) = (Vec::new(), Vec::new());
    while port.receive(&mut pool, 64, &mut burst)? > 0 {
        packets.extend(burst.iter().map(|frame| frame.to_vec()));
        pool.give_back_burst(&mut burst);
    }
    Ok(Captured { packets, unreadable: port.unread(), damage: port.damage().map(ToString::to_string) })
}
