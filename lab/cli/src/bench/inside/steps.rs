//! The steps of `convoy-lab bench inside`, and how long each takes.

use convoy_measure::Service;

use super::super::args::InsideArgs;
use super::super::load::LOADS;
use super::{PROFILED_TRIALS, TURNAROUND};

/// Time besides the trials, in seconds: starting a gateway with its bursts, and the tester's wait
/// for stragglers.
const START_S: f64 = 0.8;
const WAIT_S: f64 = 0.1;
/// Extra time of a profile for `perf` to start, and to report its samples, in seconds.
const SAMPLES_S: f64 = 1.0;

/// A step, which has a share of the time by what it is expected to take.
#[derive(Clone, Copy)]
pub(in super::super) enum InsideStep {
    /// The functional blocks at one length.
    Blocks,
    /// One round of all loads at one length.
    Utilisation,
    /// The profiles at all lengths of one service.
    Profile,
    /// The turnaround of one cipher.
    Turnaround,
}

impl InsideStep {
    /// Its name in the progress.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Utilisation => "utilisation",
            Self::Profile => "profile",
            Self::Turnaround => "turnaround",
        }
    }

    /// Its expected duration in seconds.
    pub(super) fn seconds(self, args: &InsideArgs) -> f64 {
        match self {
            Self::Blocks => START_S,
            Self::Utilisation => START_S + LOADS.len() as f64 * (args.trial + WAIT_S),
            Self::Profile => {
                let a_length_s = args.trial * PROFILED_TRIALS + WAIT_S + SAMPLES_S;
                START_S + SAMPLES_S + args.lengths.len() as f64 * a_length_s
            }
            Self::Turnaround => TURNAROUND.len() as f64 * START_S,
        }
    }
}

/// All steps of these services.
pub(super) fn steps(args: &InsideArgs, services: &[(String, Service)]) -> Vec<InsideStep> {
    let of_length = || {
        let rounds = (0..args.rounds).map(|_| InsideStep::Utilisation);
        std::iter::once(InsideStep::Blocks).chain(rounds)
    };
    let of_service = |(_, service): &(String, Service)| {
        let lengths = args.lengths.iter().flat_map(|_| of_length());
        let turnaround = (*service != Service::Forward).then_some(InsideStep::Turnaround);
        lengths.chain([InsideStep::Profile]).chain(turnaround).collect::<Vec<InsideStep>>()
    };
    services.iter().flat_map(of_service).collect()
}
