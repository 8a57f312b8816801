//! Shares of a worker's time under load: idle, kernel, IPsec, port, application.
//!
//! A worker under test never sleeps: its idle time consists of rounds that find no packets, and
//! these make system calls as well. The composition of such a round is therefore sampled without
//! load first, and subtracted from the samples under load in proportion to the counted idle time.

mod parts;
mod perf;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Ways};
use crate::gateways::{Gateways, Placement, Scheme, Service, Utilisation, Waiting};
use crate::lengths::Lengths;
use crate::search::Shape;
pub use parts::ProfilePart;
use perf::Recording;

/// How long idle rounds are sampled.
const IDLE_SAMPLING: Duration = Duration::from_millis(400);

/// A load under which the worker is profiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfiledLoad {
    /// Packet lengths.
    pub lengths: Lengths,
    /// Offered load in packets per second.
    pub rate: f64,
    /// Time of IPsec per packet in ns, from the functional blocks. It separates IPsec from the rest
    /// where `perf` is not available.
    pub ipsec_ns: f64,
}

/// Source of the shares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileSource {
    /// Samples by `perf`.
    Perf,
    /// The kernel's CPU time in /proc and the times of the functional blocks; with the reason why
    /// `perf` could not be used.
    Proc(String),
}

impl ProfileSource {
    /// Describes the source in one sentence.
    pub fn sentence(&self) -> String {
        match self {
            Self::Perf => {
                "The shares are from samples of perf; idle time is the time of rounds without packets, which the worker counts.".to_owned()
            }
            Self::Proc(why) => format!(
                "The shares are from the thread's user and kernel times in /proc, the idle time that the worker counts, and the blocks for \
                 IPsec; port and application are one share, because {why}."
            ),
        }
    }
}

/// Shares of a worker's time under one load; they add up to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// Packet lengths.
    pub lengths: Lengths,
    /// Offered load in packets per second.
    pub packets_per_second: f64,
    /// Share of rounds that found no packets.
    pub idle: f64,
    /// Share of each part; omitted where the source cannot separate it from the application.
    pub parts: Vec<(ProfilePart, f64)>,
    /// Number of samples under load and of idle rounds; `None` without `perf`.
    pub samples: Option<(u64, u64)>,
}

impl Shares {
    /// The share of one part.
    pub fn of(&self, part: ProfilePart) -> Option<f64> {
        self.parts.iter().find(|(named, _)| *named == part).map(|(_, share)| *share)
    }
}

/// Profile of a worker under several loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Source of all shares.
    pub source: ProfileSource,
    /// Shares for each load.
    pub shares: Vec<Shares>,
}

/// Samples and counted times of a period.
struct Observation {
    samples: Result<parts::Samples, String>,
    counted: Utilisation,
}

fn observe<T>(
    gateway: &mut Gateways,
    work: impl FnOnce(&mut Gateways) -> Result<T, MeasureError>,
) -> Result<(Observation, T), MeasureError> {
    let recording =
        gateway.thread_id().ok_or_else(|| "the worker has no thread".to_owned()).and_then(Recording::of);
    gateway.utilisation();
    let done = work(gateway)?;
    let counted = gateway.utilisation().unwrap_or_default();
    Ok((Observation { samples: recording.and_then(Recording::finish), counted }, done))
}

/// Fractions of busy rounds, after idle rounds are subtracted. They add up to 1, or are all 0 where
/// there were only idle rounds.
fn busy_fractions<const N: usize>(all: [u64; N], idle_alone: [u64; N], idle: f64) -> [f64; N] {
    let part = |amounts: &[u64; N], at: usize| amounts[at] as f64 / amounts.iter().sum::<u64>().max(1) as f64;
    let own: [f64; N] = std::array::from_fn(|at| (part(&all, at) - idle * part(&idle_alone, at)).max(0.0));
    let sum: f64 = own.iter().sum();
    own.map(|own| if sum > 0.0 { own / sum } else { 0.0 })
}

/// Result of one load.
struct LoadTrial {
    load: ProfiledLoad,
    observed: Observation,
    packets_per_second: f64,
    arrived_per_second: f64,
    seconds: f64,
}

impl LoadTrial {
    /// Idle fraction of the trial. The observed period is longer and idle otherwise, so this is
    /// computed from the counted busy time.
    fn idle(&self) -> f64 {
        (1.0 - self.observed.counted.busy_ns as f64 / 1e9 / self.seconds).clamp(0.0, 1.0)
    }

    fn idle_while_observed(&self) -> f64 {
        1.0 - self.observed.counted.part()
    }

    fn shares(&self, parts: Vec<(ProfilePart, f64)>, samples: Option<(u64, u64)>) -> Shares {
        let busy = 1.0 - self.idle();
        let sum: f64 = parts.iter().map(|(_, share)| share).sum();
        let parts = parts.into_iter().map(|(part, share)| (part, share * busy)).collect();
        let idle = if sum > 0.0 { self.idle() } else { 1.0 };
        let Self { load: ProfiledLoad { lengths, .. }, packets_per_second, .. } = *self;
        Shares { lengths, packets_per_second, idle, parts, samples }
    }

    fn by_perf(&self, quiet: &Observation) -> Result<Shares, String> {
        let (own, idle_alone) = (self.observed.samples.clone()?, quiet.samples.clone()?);
        let parts = busy_fractions(own, idle_alone, self.idle_while_observed());
        let samples = (own.iter().sum(), idle_alone.iter().sum());
        Ok(self.shares(ProfilePart::ALL.into_iter().zip(parts).collect(), Some(samples)))
    }

    fn by_proc(&self, quiet: &Observation) -> Shares {
        let times = |counted: &Utilisation| [counted.kernel_ns, counted.user_ns];
        let [kernel, outside] =
            busy_fractions(times(&self.observed.counted), times(&quiet.counted), self.idle_while_observed());
        let busy_ns = self.observed.counted.busy_ns.max(1) as f64 / self.seconds;
        let ipsec = (self.arrived_per_second * self.load.ipsec_ns / busy_ns).min(outside);
        let parts = vec![
            (ProfilePart::Kernel, kernel),
            (ProfilePart::Ipsec, ipsec),
            (ProfilePart::Application, outside - ipsec),
        ];
        self.shares(parts, None)
    }
}

/// Profiles a gateway that does everything on its worker's core, under each of the loads; starts no
/// further load after `until`.
///
/// # Errors
/// [`MeasureError`] if a trial could not be run. A missing `perf` is not an error.
pub fn profile(
    service: &Service,
    placement: &Placement,
    loads: &[ProfiledLoad],
    seconds: f64,
    until: Option<Instant>,
) -> Result<Profile, MeasureError> {
    let mut gateway = Scheme::ALL[0].start(service, placement, Waiting::Polls)?;
    let (quiet, ()) = observe(&mut gateway, |_| {
        std::thread::sleep(IDLE_SAMPLING);
        Ok(())
    })?;
    let mut tried = Vec::new();
    for load in loads {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let shape = Shape { lengths: load.lengths, ways: Ways::One };
        let trial = shape.trial(load.rate, seconds);
        let (observed, outcome) = observe(&mut gateway, |gateway| gateway.trial(&trial))?;
        let seconds = outcome.sent as f64 / outcome.sent_per_second.max(1.0);
        tried.push(LoadTrial {
            load: *load,
            observed,
            packets_per_second: outcome.sent_per_second,
            arrived_per_second: outcome.received as f64 / seconds,
            seconds,
        });
    }
    Ok(profile_of(&tried, &quiet))
}

/// Uses `perf` if it sampled every load, otherwise /proc for all, so that the rows of a table are
/// comparable.
fn profile_of(tried: &[LoadTrial], quiet: &Observation) -> Profile {
    let by_perf: Result<Vec<Shares>, String> = tried.iter().map(|tried| tried.by_perf(quiet)).collect();
    match by_perf {
        Ok(shares) => Profile { source: ProfileSource::Perf, shares },
        Err(why) => Profile {
            source: ProfileSource::Proc(why),
            shares: tried.iter().map(|tried| tried.by_proc(quiet)).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A period of 1 s, of which the worker was idle for 0.6 s.
    fn tried(samples: Result<parts::Samples, String>) -> LoadTrial {
        let counted = Utilisation {
            busy_ns: 400_000_000,
            idle_ns: 600_000_000,
            busy_rounds: 1_000,
            user_ns: 400_000_000,
            kernel_ns: 600_000_000,
        };
        let load = ProfiledLoad { lengths: Lengths::All(64), rate: 1e5, ipsec_ns: 500.0 };
        let observed = Observation { samples, counted };
        LoadTrial { load, observed, packets_per_second: 1e5, arrived_per_second: 1e5, seconds: 1.0 }
    }

    /// Idle rounds, which spend two thirds of their time in the kernel.
    fn quiet(samples: Result<parts::Samples, String>) -> Observation {
        let counted = Utilisation {
            idle_ns: 300,
            user_ns: 100_000_000,
            kernel_ns: 200_000_000,
            ..Utilisation::default()
        };
        Observation { samples, counted }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn samples_of_idle_rounds_are_taken_off_those_under_a_load() {
        let profile = profile_of(&[tried(Ok([600, 100, 140, 160]))], &quiet(Ok([200, 0, 40, 60])));
        assert_eq!(profile.source, ProfileSource::Perf);
        let shares = &profile.shares[0];
        assert!(near(shares.idle, 0.6), "{shares:?}");
        for (part, share) in [
            (ProfilePart::Kernel, 0.2),
            (ProfilePart::Ipsec, 0.1),
            (ProfilePart::Port, 0.06),
            (ProfilePart::Application, 0.04),
        ] {
            assert!(near(shares.of(part).expect("sampled"), share), "{part:?}: {shares:?}");
        }
        assert_eq!(shares.samples, Some((1000, 300)));
    }

    #[test]
    fn without_perf_the_kernels_account_and_the_blocks_say_it_and_the_reason_is_reported() {
        let profile = profile_of(&[tried(Err("perf is not there".to_owned()))], &quiet(Ok([2, 0, 0, 1])));
        let shares = &profile.shares[0];
        assert!(profile.source.sentence().ends_with("because perf is not there."), "{profile:?}");
        // 0.6 s in the kernel, of which idle rounds account for 0.4 s; 0.4 s in user mode, of which
        // they account for 0.2 s.
        let found = [ProfilePart::Kernel, ProfilePart::Ipsec, ProfilePart::Application]
            .map(|part| shares.of(part).expect("reported"));
        assert!(near(found[0], 0.2) && near(found[1], 0.05) && near(found[2], 0.15), "{shares:?}");
        assert_eq!((shares.of(ProfilePart::Port), shares.samples), (None, None));
    }

    #[test]
    fn one_load_without_samples_makes_all_be_reported_by_proc() {
        let all = [tried(Ok([1, 1, 1, 1])), tried(Err("perf took no samples".to_owned()))];
        let profile = profile_of(&all, &quiet(Ok([1, 0, 0, 1])));
        assert_eq!(profile.source, ProfileSource::Proc("perf took no samples".to_owned()));
        assert!(profile.shares.iter().all(|shares| shares.samples.is_none()));
    }

    #[test]
    fn a_real_worker_under_a_load_has_shares_that_add_up_to_one() {
        let load = ProfiledLoad { lengths: Lengths::All(512), rate: 5e3, ipsec_ns: 1e3 };
        let service = Service::Ipsec("aes128-sha1".to_owned());
        let measure = |_| profile(&service, &Placement::here(), &[load], 0.2, None).expect("a gateway");
        // On a busy machine the worker may have no core during a whole load.
        let found = (0..50).map(measure).find(|found| found.shares[0].idle < 1.0).expect("a core at times");
        let shares = &found.shares[0];
        let sum = shares.idle + shares.parts.iter().map(|(_, share)| share).sum::<f64>();
        assert!(near(sum, 1.0), "{found:?}");
        assert!(shares.idle < 1.0, "{found:?}");
        assert_eq!(found.source == ProfileSource::Perf, shares.samples.is_some());
    }
}
