use proptest::prelude::*;

use super::*;

/// A device with a fixed capacity, which may lose a packet in some trials as well.
struct Ideal {
    capacity: f64,
    most_sent: f64,
    /// Loses a packet in one of this many trials.
    disturbed: Option<u64>,
    trials: u64,
    /// What the tester can receive, in packets per second.
    most_received: f64,
}

impl Ideal {
    fn new(capacity: f64) -> Self {
        let unlimited = f64::INFINITY;
        Self { capacity, most_sent: unlimited, disturbed: None, trials: 0, most_received: unlimited }
    }
}

impl DeviceUnderTest for Ideal {
    fn trial(&mut self, trial: &DeviceTrial) -> Result<DeviceOutcome, MeasureError> {
        let Phase { packets_per_second, seconds } = trial.phases[0];
        self.trials += 1;
        let rate = packets_per_second.min(self.most_sent);
        let sent = (rate * seconds).round() as u64;
        let lost = (((rate - self.capacity) * seconds).max(0.0)).ceil() as u64;
        let lost = lost + u64::from(self.disturbed.is_some_and(|one_in| self.trials.is_multiple_of(one_in)));
        let missed = ((rate.min(self.capacity) - self.most_received) * seconds).max(0.0).ceil() as u64;
        let lost = (lost + missed).min(sent);
        let received_per_second = (sent - lost) as f64 / seconds;
        Ok(DeviceOutcome {
            sent,
            received: sent - lost,
            sent_per_second: rate,
            received_per_second,
            missed_by_tester: missed,
            ..DeviceOutcome::default()
        })
    }
}

fn goal(loss_ratio: f64) -> Goal {
    Goal { loss_ratio, width: 0.005, trial_s: 1.0, sum_s: 1.0, exceed_ratio: 0.0 }
}

const SHAPE: Shape = Shape { lengths: Lengths::All(64), ways: Ways::One };
const RATES: Rates = Rates { least: 100.0, most: 1e7 };

fn of(device: &mut Ideal, goals: &[Goal]) -> SearchResult {
    search(device, SHAPE, RATES, goals, None, &mut |_| ()).expect("it holds any trial")
}

proptest! {
    #[test]
    fn rates_are_found_within_the_resolution(log in 4.0f64..6.9) {
        let capacity = 10f64.powf(log);
        let searched = of(&mut Ideal::new(capacity), &[goal(0.0), goal(0.005)]);
        for (found, ratio) in searched.found.iter().zip([0.0, 0.005]) {
            let highest = capacity / (1.0 - ratio);
            let rate = found.packets_per_second.expect("some rate passes");
            prop_assert!(rate <= highest * 1.0001 && rate >= highest * 0.99, "{rate} of {highest}");
            prop_assert!(found.fails_at.expect("some fails") >= highest * 0.999);
            prop_assert!(!found.is_limited_by_tester);
        }
        prop_assert!(searched.trials.len() < 60, "{} trials", searched.trials.len());
    }
}

#[test]
fn what_is_faster_than_the_line_or_the_tester_is_said_to_be_limited_by_it() {
    let found = of(&mut Ideal::new(1e9), &[goal(0.0)]).found[0];
    assert_eq!((found.packets_per_second, found.fails_at), (Some(RATES.most), None));
    assert!(found.is_limited_by_tester);
    let slow_tester = &mut Ideal { most_sent: 1e6, ..Ideal::new(1e9) };
    let found = of(slow_tester, &[goal(0.0)]).found[0];
    assert_eq!(found.packets_per_second, Some(990_000.0));
    assert!(found.is_limited_by_tester);
}

#[test]
fn what_loses_at_every_rate_has_none() {
    let found = of(&mut Ideal::new(0.0), &[goal(0.0)]).found[0];
    assert_eq!((found.packets_per_second, found.fails_at), (None, Some(RATES.least)));
}

#[test]
fn a_few_disturbed_trials_change_nothing_where_half_of_the_time_may_exceed() {
    let patient = Goal { sum_s: 5.0, exceed_ratio: 0.5, ..goal(0.0) };
    let disturbed = || Ideal { disturbed: Some(4), ..Ideal::new(1e6) };
    let rate = of(&mut disturbed(), &[patient]).found[0].packets_per_second.expect("some passes");
    assert!((990_000.0..=1_000_000.0).contains(&rate), "{rate}");
}

#[test]
fn goals_that_make_no_sense_are_refused() {
    for wrong in [
        goal(1.0),
        Goal { width: 0.0, ..goal(0.0) },
        Goal { trial_s: 0.0, ..goal(0.0) },
        Goal { sum_s: 0.5, ..goal(0.0) },
    ] {
        let refused = search(&mut Ideal::new(1e6), SHAPE, RATES, &[wrong], None, &mut |_| ());
        assert!(matches!(refused, Err(MeasureError::Invalid(_))), "{wrong:?}");
    }
}

#[test]
fn a_search_whose_time_is_up_ends_and_says_so() {
    let patient = Goal { sum_s: 5.0, exceed_ratio: 0.5, ..goal(0.0) };
    let (now, mut trials) = (Instant::now(), 0);
    let searched =
        search(&mut Ideal::new(1e6), SHAPE, RATES, &[patient, goal(0.005)], Some(now), &mut |_| trials += 1);
    let searched = searched.expect("it holds any trial");
    assert_eq!(trials, 1, "the highest rate is tried at any rate");
    for found in searched.found {
        assert!(
            !found.is_settled && found.packets_per_second.is_none() && !found.is_limited_by_tester,
            "{found:?}"
        );
    }
    assert!(of(&mut Ideal::new(1e6), &[patient]).found[0].is_settled);
}

/// Loses packets at random, whatever the rate, so that repeated trials contradict each other.
#[test]
fn a_device_that_loses_at_random_does_not_keep_the_search_for_ever() {
    for one_in in [2, 3] {
        let device = &mut Ideal { disturbed: Some(one_in), ..Ideal::new(1e6) };
        let patient = Goal { trial_s: 0.3, sum_s: 0.9, exceed_ratio: 0.5, ..goal(0.0) };
        let searched = of(device, &[patient]);
        assert!(searched.trials.len() < 120, "one in {one_in}: {} trials", searched.trials.len());
    }
}

#[test]
fn what_the_tester_has_no_room_for_is_not_held_against_the_device() {
    let mut slow_tester = Ideal { most_received: 30_000.0, ..Ideal::new(50_000.0) };
    for found in of(&mut slow_tester, &[goal(0.0), goal(0.005)]).found {
        let rate = found.packets_per_second.expect("it receives some");
        assert!((29_000.0..=30_300.0).contains(&rate) && found.is_limited_by_tester, "{found:?}");
    }
    // Loss by the tester does not excuse loss by the device.
    let mut quick_tester = Ideal { most_received: 49_999.0, ..Ideal::new(50_000.0) };
    let found = of(&mut quick_tester, &[goal(0.02)]).found[0];
    assert!(found.packets_per_second.is_some_and(|rate| rate > 50_000.0) && !found.is_limited_by_tester);
}
