//! What a worker's time goes to under a load: idle, kernel, IPsec, port, application.
//!
//! A worker never sleeps under test: rounds that find nothing are its idle time, and make system
//! calls too. What such a round consists of is therefore sampled without a load first, and taken
//! off what is sampled under a load, as often as the worker counted idle time.

mod parts;
mod perf;

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Ways};
use crate::gateways::{Gateways, Placement, Scheme, Service, Utilisation};
use crate::lengths::Lengths;
use crate::search::Shape;
pub use parts::Part;
use perf::Recording;

/// How long idle rounds are sampled.
const QUIET: Duration = Duration::from_millis(400);

/// What a worker is profiled under.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How long its packets are.
    pub lengths: Lengths,
    /// In packets per second.
    pub rate: f64,
    /// What of a packet's time its blocks say that IPsec takes, in ns: what tells IPsec from the
    /// rest where `perf` does not run.
    pub ipsec_ns: f64,
}

/// Where shares come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileSource {
    /// Samples of `perf`.
    Perf,
    /// What the kernel counts of the thread, as /proc has it, and the time of a packet by block;
    /// and why not `perf`.
    Proc(String),
}

impl ProfileSource {
    /// One sentence for those who read the shares.
    pub fn sentence(&self) -> String {
        match self {
            Self::Perf => {
                "By samples of perf; what a round takes that finds nothing is idle, by the worker's own count.".to_owned()
            }
            Self::Proc(why) => format!(
                "By the thread's times in and outside the kernel (as /proc has them), the worker's own count of idle time, and the blocks for \
                 IPsec; port and application are told together, as {why}."
            ),
        }
    }
}

/// The shares of a worker's time under one load; together they are 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// How long its packets were.
    pub lengths: Lengths,
    /// What was sent, in packets per second.
    pub packets_per_second: f64,
    /// Time in rounds that found nothing.
    pub idle: f64,
    /// Of each part; a part that its source does not tell from the application is not here.
    pub parts: Vec<(Part, f64)>,
    /// Samples under this load, and those of idle rounds; none where nothing was sampled.
    pub samples: Option<(u64, u64)>,
}

impl Shares {
    /// Of one part.
    pub fn of(&self, part: Part) -> Option<f64> {
        self.parts.iter().find(|(named, _)| *named == part).map(|(_, share)| *share)
    }
}

/// What a worker's time goes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Where all shares come from.
    pub source: ProfileSource,
    /// One for each load.
    pub shares: Vec<Shares>,
}

/// A stretch of time in which the worker was watched.
struct Watched {
    samples: Result<parts::Samples, String>,
    counted: Utilisation,
}

fn watch<T>(
    gateway: &mut Gateways,
    work: impl FnOnce(&mut Gateways) -> Result<T, MeasureError>,
) -> Result<(Watched, T), MeasureError> {
    let recording =
        gateway.thread_id().ok_or_else(|| "the worker has no thread".to_owned()).and_then(Recording::of);
    gateway.utilisation();
    let done = work(gateway)?;
    let counted = gateway.utilisation().unwrap_or_default();
    Ok((Watched { samples: recording.and_then(Recording::finish), counted }, done))
}

/// What of some amounts belongs to busy rounds: their parts, which add up to 1, or all 0 where
/// there was nothing but idle rounds.
fn busy<const N: usize>(all: [u64; N], idle_alone: [u64; N], idle: f64) -> [f64; N] {
    let part = |amounts: &[u64; N], at: usize| amounts[at] as f64 / amounts.iter().sum::<u64>().max(1) as f64;
    let own: [f64; N] = std::array::from_fn(|at| (part(&all, at) - idle * part(&idle_alone, at)).max(0.0));
    let sum: f64 = own.iter().sum();
    own.map(|own| if sum > 0.0 { own / sum } else { 0.0 })
}

/// One load's trial.
struct Tried {
    load: Load,
    watched: Watched,
    packets_per_second: f64,
    arrived_per_second: f64,
    seconds: f64,
}

impl Tried {
    /// The part of the trial in which the worker was idle. What came before and after it was idle
    /// too and is in its count.
    fn idle(&self) -> f64 {
        (1.0 - self.watched.counted.busy_ns as f64 / 1e9 / self.seconds).clamp(0.0, 1.0)
    }

    fn idle_while_watched(&self) -> f64 {
        1.0 - self.watched.counted.part()
    }

    fn shares(&self, parts: Vec<(Part, f64)>, samples: Option<(u64, u64)>) -> Shares {
        let busy = 1.0 - self.idle();
        let sum: f64 = parts.iter().map(|(_, share)| share).sum();
        let parts = parts.into_iter().map(|(part, share)| (part, share * busy)).collect();
        let idle = if sum > 0.0 { self.idle() } else { 1.0 };
        let Self { load: Load { lengths, .. }, packets_per_second, .. } = *self;
        Shares { lengths, packets_per_second, idle, parts, samples }
    }

    fn by_perf(&self, quiet: &Watched) -> Result<Shares, String> {
        let (own, idle_alone) = (self.watched.samples.clone()?, quiet.samples.clone()?);
        let parts = busy(own, idle_alone, self.idle_while_watched());
        let samples = (own.iter().sum(), idle_alone.iter().sum());
        Ok(self.shares(Part::ALL.into_iter().zip(parts).collect(), Some(samples)))
    }

    fn by_proc(&self, quiet: &Watched) -> Shares {
        let times = |counted: &Utilisation| [counted.kernel_ns, counted.user_ns];
        let [kernel, outside] =
            busy(times(&self.watched.counted), times(&quiet.counted), self.idle_while_watched());
        let busy_ns = self.watched.counted.busy_ns.max(1) as f64 / self.seconds;
        let ipsec = (self.arrived_per_second * self.load.ipsec_ns / busy_ns).min(outside);
        let parts = vec![(Part::Kernel, kernel), (Part::Ipsec, ipsec), (Part::Application, outside - ipsec)];
        self.shares(parts, None)
    }
}

/// Watches the worker of a gateway that does everything on its core under each of some loads; after
/// `until` under no further one.
///
/// # Errors
/// [`MeasureError`] if a trial could not be held. That `perf` does not run is none.
pub fn profile(
    service: &Service,
    placement: &Placement,
    loads: &[Load],
    seconds: f64,
    until: Option<Instant>,
) -> Result<Profile, MeasureError> {
    let mut gateway = Scheme::ALL[0].start(service, placement)?;
    let (quiet, ()) = watch(&mut gateway, |_| {
        std::thread::sleep(QUIET);
        Ok(())
    })?;
    let mut tried = Vec::new();
    for load in loads {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let shape = Shape { lengths: load.lengths, ways: Ways::One };
        let trial = shape.trial(load.rate, seconds);
        let (watched, outcome) = watch(&mut gateway, |gateway| gateway.trial(&trial))?;
        let seconds = outcome.sent as f64 / outcome.sent_per_second.max(1.0);
        tried.push(Tried {
            load: *load,
            watched,
            packets_per_second: outcome.sent_per_second,
            arrived_per_second: outcome.received as f64 / seconds,
            seconds,
        });
    }
    Ok(told(&tried, &quiet))
}

/// By `perf` if it took samples of all, else all by /proc, so that the shares of a table can be
/// compared.
fn told(tried: &[Tried], quiet: &Watched) -> Profile {
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

    /// 1 s, of which the worker was idle for 0.6 s.
    fn tried(samples: Result<parts::Samples, String>) -> Tried {
        let counted = Utilisation {
            busy_ns: 400_000_000,
            idle_ns: 600_000_000,
            busy_rounds: 1_000,
            user_ns: 400_000_000,
            kernel_ns: 600_000_000,
        };
        let load = Load { lengths: Lengths::All(64), rate: 1e5, ipsec_ns: 500.0 };
        let watched = Watched { samples, counted };
        Tried { load, watched, packets_per_second: 1e5, arrived_per_second: 1e5, seconds: 1.0 }
    }

    /// Of idle rounds, two thirds are the kernel's.
    fn quiet(samples: Result<parts::Samples, String>) -> Watched {
        let counted = Utilisation {
            idle_ns: 300,
            user_ns: 100_000_000,
            kernel_ns: 200_000_000,
            ..Utilisation::default()
        };
        Watched { samples, counted }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn samples_of_idle_rounds_are_taken_off_those_under_a_load() {
        let profile = told(&[tried(Ok([600, 100, 140, 160]))], &quiet(Ok([200, 0, 40, 60])));
        assert_eq!(profile.source, ProfileSource::Perf);
        let shares = &profile.shares[0];
        assert!(near(shares.idle, 0.6), "{shares:?}");
        for (part, share) in
            [(Part::Kernel, 0.2), (Part::Ipsec, 0.1), (Part::Port, 0.06), (Part::Application, 0.04)]
        {
            assert!(near(shares.of(part).expect("sampled"), share), "{part:?}: {shares:?}");
        }
        assert_eq!(shares.samples, Some((1000, 300)));
    }

    #[test]
    fn without_perf_the_kernels_account_and_the_blocks_say_it_and_the_reason_is_told() {
        let profile = told(&[tried(Err("perf is not there".to_owned()))], &quiet(Ok([2, 0, 0, 1])));
        let shares = &profile.shares[0];
        assert!(profile.source.sentence().ends_with("as perf is not there."), "{profile:?}");
        // 0.6 s in the kernel, of which idle rounds had 0.4 s; 0.4 s outside, of which they had 0.2
        // s.
        let found = [Part::Kernel, Part::Ipsec, Part::Application].map(|part| shares.of(part).expect("told"));
        assert!(near(found[0], 0.2) && near(found[1], 0.05) && near(found[2], 0.15), "{shares:?}");
        assert_eq!((shares.of(Part::Port), shares.samples), (None, None));
    }

    #[test]
    fn one_load_without_samples_makes_all_be_told_by_proc() {
        let all = [tried(Ok([1, 1, 1, 1])), tried(Err("perf took no samples".to_owned()))];
        let profile = told(&all, &quiet(Ok([1, 0, 0, 1])));
        assert_eq!(profile.source, ProfileSource::Proc("perf took no samples".to_owned()));
        assert!(profile.shares.iter().all(|shares| shares.samples.is_none()));
    }

    #[test]
    fn a_real_worker_under_a_load_has_shares_that_add_up_to_one() {
        let load = Load { lengths: Lengths::All(512), rate: 5e3, ipsec_ns: 1e3 };
        let service = Service::Ipsec("aes128-sha1".to_owned());
        let found = profile(&service, &Placement::here(), &[load], 0.2, None).expect("a gateway");
        let shares = &found.shares[0];
        let sum = shares.idle + shares.parts.iter().map(|(_, share)| share).sum::<f64>();
        assert!(near(sum, 1.0), "{found:?}");
        assert!(shares.idle < 1.0, "{found:?}");
        assert_eq!(found.source == ProfileSource::Perf, shares.samples.is_some());
    }
}
