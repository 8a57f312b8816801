//! A full test at one packet length: rates, latency, loss against load, bursts and recovery.

use std::time::Instant;

use serde::Serialize;

use crate::device::Ways;
use crate::device::{DeviceTrial, DeviceUnderTest, MeasureError};
use crate::latency::Latency;
use crate::lengths::Lengths;
use crate::schedule::Phase;
use crate::search::{Found, Goal, Rates, SearchResult, Shape, search};

/// Loads at which latency is measured, relative to the rate found, as in RFC 8219 and CSIT.
const LATENCY_AT: [f64; 3] = [0.1, 0.5, 0.9];
/// Loads at which loss is measured, relative to the PDR.
const LOSS_AT: [f64; 10] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0];
/// RFC 2544 section 26.5: the overload, and the load after it relative to the overload.
const OVERLOAD: f64 = 1.1;
const AFTERWARDS: f64 = 0.5;
/// RFC 2544 section 26.4: a burst lasts two seconds at most.
const LONGEST_BURST_S: f64 = 2.0;
/// Relative resolution of the longest burst.
const BURST_WIDTH: f64 = 0.02;
/// Consecutive bursts that must pass for a length to count.
const BURSTS: usize = 3;

/// What is to be tested.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputPlan {
    /// Packet lengths; one test for each.
    pub lengths: Vec<Lengths>,
    /// Directions.
    pub ways: Ways,
    /// Range of the search.
    pub rates: Rates,
    /// Goal of the rate without loss.
    pub ndr: Goal,
    /// Goal of the rate with little loss.
    pub pdr: Goal,
    /// Whether latency, loss against load, bursts and recovery are measured as well.
    pub is_whole: bool,
    /// Duration of the overload in seconds; RFC 2544 asks for 60.
    pub overload_s: f64,
}

/// Latency at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyAt {
    /// Load relative to the rate found.
    pub part: f64,
    /// Rate in each direction, in packets per second.
    pub packets_per_second: f64,
    /// Lost packets as a fraction of those sent.
    pub loss_ratio: f64,
    /// Measured latency.
    pub latency: Latency,
}

/// Loss at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossAt {
    /// Offered load in each direction, in packets per second.
    pub packets_per_second: f64,
    /// Lost packets as a fraction of those sent.
    pub loss_ratio: f64,
    /// Reordered packets as a fraction of those received.
    pub reordered_ratio: f64,
}

/// RFC 2544's back-to-back frames, with RFC 9004's correction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BackToBack {
    /// Rate within bursts, in packets per second.
    pub packets_per_second: f64,
    /// The longest burst without loss, in packets.
    pub packets: u64,
    /// Whether it is also the longest burst tried.
    pub is_longest_tried: bool,
    /// Buffer time in seconds at the rate of the bursts, after subtracting what the device forwards
    /// meanwhile (RFC 9004 section 6.4).
    pub buffer_s: f64,
}

/// RFC 2544's system recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// Overload in packets per second and direction.
    pub overload_packets_per_second: f64,
    /// Lost packets during the overload, as a fraction of those sent.
    pub overload_loss_ratio: f64,
    /// Time from the end of the overload to the last lost packet, in seconds; 0 if no more were
    /// lost.
    pub seconds: f64,
}

/// Results at one packet length.
#[derive(Clone, Debug, Serialize)]
pub struct LengthReport {
    /// Lengths of the plaintext IP packets.
    pub lengths: Lengths,
    /// Mean length in bytes.
    pub mean_bytes: f64,
    /// Directions.
    pub ways: Ways,
    /// The highest rate without loss.
    pub ndr: Found,
    /// The highest rate with little loss.
    pub pdr: Found,
    /// Rate received in each direction at the highest rate tried, in packets per second.
    pub most_received_per_second: f64,
    /// The highest rate tried.
    pub most_sent_per_second: f64,
    /// Number of trials of the search.
    pub trials: usize,
    /// Latency at several loads.
    pub latency: Vec<LatencyAt>,
    /// Loss against load.
    pub loss: Vec<LossAt>,
    /// Longest burst; `None` if even short bursts lose packets, or if it was not measured.
    pub back_to_back: Option<BackToBack>,
    /// Recovery after overload; `None` if the device cannot be overloaded, or if it was not
    /// measured.
    pub recovery: Option<Recovery>,
    /// Whether time ran out before everything was measured.
    pub is_cut_short: bool,
}

impl LengthReport {
    /// Converts a packet rate to Mbit/s of plaintext IP packets, per direction.
    pub fn mbps(&self, packets_per_second: f64) -> f64 {
        packets_per_second * self.mean_bytes * 8e-6
    }

    /// The rate that latency is measured relative to: the one without loss, else the one with
    /// little.
    pub fn rate(&self) -> Option<f64> {
        self.ndr.packets_per_second.or(self.pdr.packets_per_second)
    }
}

/// Largest fraction of the test's time for the search.
const SEARCH_PART: f64 = 0.6;

/// Runs the test at one packet length. Calls `observe` with the current step, before each trial
/// that follows the search. Starts no trial after `until`; the report then has the results so far.
///
/// # Errors
/// [`MeasureError`] if a trial could not be run.
pub fn test(
    device: &mut dyn DeviceUnderTest,
    plan: &ThroughputPlan,
    lengths: Lengths,
    until: Option<Instant>,
    observe: &mut dyn FnMut(&str),
) -> Result<LengthReport, MeasureError> {
    let shape = Shape { lengths, ways: plan.ways };
    let goals = [plan.ndr, plan.pdr];
    let now = Instant::now();
    let part = if plan.is_whole { SEARCH_PART } else { 1.0 };
    let search_until = until.map(|until| now + until.saturating_duration_since(now).mul_f64(part));
    let searched = search(device, shape, plan.rates, &goals, search_until, &mut |_| observe("search"))?;
    let mut report = report_of(&searched, shape);
    if plan.is_whole {
        let mut rest = Rest { device, plan, shape, until, is_cut_short: false, observe };
        report.latency = rest.latency(&report)?;
        report.loss = rest.loss(&report)?;
        report.back_to_back = rest.back_to_back(&report)?;
        report.recovery = rest.recovery(&report)?;
        report.is_cut_short |= rest.is_cut_short;
    }
    Ok(report)
}

fn report_of(searched: &SearchResult, Shape { lengths, ways }: Shape) -> LengthReport {
    LengthReport {
        lengths,
        mean_bytes: lengths.mean(),
        ways,
        ndr: searched.found[0],
        pdr: searched.found[1],
        most_received_per_second: searched.most_received_per_second,
        most_sent_per_second: searched.most_sent_per_second,
        trials: searched.trials.len(),
        latency: Vec::new(),
        loss: Vec::new(),
        back_to_back: None,
        recovery: None,
        is_cut_short: searched.found.iter().any(|found| !found.is_settled),
    }
}

/// Measurements after the search.
struct Rest<'a> {
    device: &'a mut dyn DeviceUnderTest,
    plan: &'a ThroughputPlan,
    shape: Shape,
    until: Option<Instant>,
    is_cut_short: bool,
    observe: &'a mut dyn FnMut(&str),
}

impl Rest<'_> {
    /// Whether there is time for another trial; records in the report if not.
    fn has_time(&mut self) -> bool {
        self.is_cut_short |= self.until.is_some_and(|until| Instant::now() >= until);
        !self.is_cut_short
    }

    fn latency(&mut self, report: &LengthReport) -> Result<Vec<LatencyAt>, MeasureError> {
        let Some(rate) = report.rate() else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for part in LATENCY_AT {
            if !self.has_time() {
                break;
            }
            (self.observe)("latency");
            let packets_per_second = rate * part;
            let outcome = self.device.trial(&self.shape.trial(packets_per_second, self.plan.ndr.sum_s))?;
            let (loss_ratio, latency) = (outcome.loss_ratio(), outcome.latency);
            all.push(LatencyAt { part, packets_per_second, loss_ratio, latency });
        }
        Ok(all)
    }

    fn loss(&mut self, report: &LengthReport) -> Result<Vec<LossAt>, MeasureError> {
        let Some(rate) = report.pdr.packets_per_second else { return Ok(Vec::new()) };
        let mut all: Vec<LossAt> = Vec::new();
        for part in LOSS_AT {
            let wanted = rate * part;
            if wanted > report.most_sent_per_second || !self.has_time() {
                break;
            }
            (self.observe)("loss against load");
            let outcome = self.device.trial(&self.shape.trial(wanted, self.plan.ndr.trial_s))?;
            let reordered_ratio = outcome.reordering.packets as f64 / outcome.received.max(1) as f64;
            let (packets_per_second, loss_ratio) = (outcome.sent_per_second, outcome.loss_ratio());
            all.push(LossAt { packets_per_second, loss_ratio, reordered_ratio });
        }
        Ok(all)
    }

    /// Whether several bursts in a row pass without loss.
    fn passes(&mut self, packets: u64, packets_per_second: f64) -> Result<bool, MeasureError> {
        (self.observe)("back-to-back bursts");
        let phases = vec![Phase::of_packets(packets, packets_per_second)];
        let trial = DeviceTrial { phases, lengths: self.shape.lengths, ways: self.shape.ways };
        for _ in 0..BURSTS {
            if self.device.trial(&trial)?.lost() > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn back_to_back(&mut self, report: &LengthReport) -> Result<Option<BackToBack>, MeasureError> {
        let rate = report.most_sent_per_second;
        let longest = ((rate * LONGEST_BURST_S) as u64).max(1);
        let (mut low, mut high) = (0, longest + 1);
        let mut next = 32.min(longest);
        while high - low > 1 && (low == 0 || (high - low) as f64 > BURST_WIDTH * low as f64) {
            if !self.has_time() {
                return Ok(None);
            }
            if self.passes(next, rate)? {
                low = next;
            } else {
                high = next;
            }
            // Doubles the length until a burst fails, then bisects.
            next = if high > longest { (low * 2).min(longest) } else { low + (high - low) / 2 };
            if low == longest {
                break;
            }
        }
        let carried = report.rate().unwrap_or(0.0);
        let buffer_s = low as f64 / rate * (1.0 - carried / rate).max(0.0);
        let found =
            BackToBack { packets_per_second: rate, packets: low, is_longest_tried: low == longest, buffer_s };
        Ok((low > 0).then_some(found))
    }

    fn recovery(&mut self, report: &LengthReport) -> Result<Option<Recovery>, MeasureError> {
        let Some(rate) = report.rate() else { return Ok(None) };
        let overload = (report.ndr.fails_at.unwrap_or(rate).max(rate)) * OVERLOAD;
        if overload > report.most_sent_per_second || !self.has_time() {
            return Ok(None);
        }
        (self.observe)("recovery after overload");
        let after = Phase { packets_per_second: overload * AFTERWARDS, seconds: self.plan.ndr.sum_s };
        let over = Phase { packets_per_second: overload, seconds: self.plan.overload_s };
        let trial =
            DeviceTrial { phases: vec![over, after], lengths: self.shape.lengths, ways: self.shape.ways };
        let outcome = self.device.trial(&trial)?;
        let [over, after] = outcome.phases[..] else { return Ok(None) };
        Ok(Some(Recovery {
            overload_packets_per_second: overload,
            overload_loss_ratio: over.lost as f64 / over.sent.max(1) as f64,
            seconds: after.last_lost_s.unwrap_or(0.0),
        }))
    }
}
