//! A whole test at one packet length: rates, latency, loss against load, bursts, and recovery.

use std::time::Instant;

use serde::Serialize;

use crate::device::Ways;
use crate::device::{DeviceUnderTest, MeasureError, Trial};
use crate::latency::Latency;
use crate::lengths::Lengths;
use crate::schedule::Phase;
use crate::search::{Found, Goal, Rates, Searched, Shape, search};

/// Parts of the rate found at which latency is measured, as RFC 8219 and CSIT do.
const LATENCY_AT: [f64; 3] = [0.1, 0.5, 0.9];
/// Parts of the PDR at which loss is measured.
const LOSS_AT: [f64; 10] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0];
/// RFC 2544, section 26.5: overload, and half of it.
const OVERLOAD: f64 = 1.1;
const AFTERWARDS: f64 = 0.5;
/// RFC 2544, section 26.4: a burst takes two seconds at most.
const LONGEST_BURST_S: f64 = 2.0;
/// How exactly the longest burst is found, as a part of it.
const BURST_WIDTH: f64 = 0.02;
/// Bursts that must pass in a row for one to count.
const BURSTS: usize = 3;

/// What is tested.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Packet lengths, one test for each.
    pub lengths: Vec<Lengths>,
    /// Which ways packets go.
    pub ways: Ways,
    /// Rates between which is searched.
    pub rates: Rates,
    /// The rate without loss.
    pub ndr: Goal,
    /// The rate with little loss.
    pub pdr: Goal,
    /// Whether latency, loss against load, bursts and recovery are measured too.
    pub is_whole: bool,
    /// How long an overload lasts, in seconds; RFC 2544 asks for 60.
    pub overload_s: f64,
}

/// Latency at a part of the rate found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyAt {
    /// The part.
    pub part: f64,
    /// The rate each way, in packets per second.
    pub packets_per_second: f64,
    /// Packets lost meanwhile, as a part.
    pub loss_ratio: f64,
    /// What it was.
    pub latency: Latency,
}

/// Loss at a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LossAt {
    /// What was sent each way, in packets per second.
    pub packets_per_second: f64,
    /// Packets lost, as a part.
    pub loss_ratio: f64,
    /// Packets that were reordered, as a part of those that arrived.
    pub reordered_ratio: f64,
}

/// RFC 2544's back-to-back frames, with RFC 9004's correction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BackToBack {
    /// The rate at which bursts are sent, in packets per second.
    pub packets_per_second: f64,
    /// The longest burst of which nothing is lost, in packets.
    pub packets: u64,
    /// Whether longer ones were not tried.
    pub is_longest_tried: bool,
    /// What of it waits in buffers, in seconds at the rate of bursts: without what the device
    /// carries meanwhile (RFC 9004, section 6.4).
    pub buffer_s: f64,
}

/// RFC 2544's system recovery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// The overload, in packets per second each way.
    pub overload_packets_per_second: f64,
    /// What was lost under it, as a part.
    pub overload_loss_ratio: f64,
    /// From the end of the overload to the last packet that was lost, in seconds; 0 where none was
    /// lost any more.
    pub seconds: f64,
}

/// What was found at one packet length.
#[derive(Clone, Debug, Serialize)]
pub struct LengthReport {
    /// The lengths of plaintext IP packets.
    pub lengths: Lengths,
    /// Their mean, in bytes.
    pub mean_bytes: f64,
    /// Which ways packets went.
    pub ways: Ways,
    /// The highest rate without loss.
    pub ndr: Found,
    /// The highest rate with little loss.
    pub pdr: Found,
    /// What arrived each way under the highest rate tried, in packets per second.
    pub most_received_per_second: f64,
    /// That rate.
    pub most_sent_per_second: f64,
    /// Trials of the search.
    pub trials: usize,
    /// Latency at parts of the rate found.
    pub latency: Vec<LatencyAt>,
    /// Loss against load.
    pub loss: Vec<LossAt>,
    /// The longest burst; nothing where even short ones are lost, or it was not to be measured.
    pub back_to_back: Option<BackToBack>,
    /// Recovery after overload; nothing where there is no way to overload the device, or it was not
    /// to be measured.
    pub recovery: Option<Recovery>,
    /// Whether time was up before all of this was measured.
    pub is_cut_short: bool,
}

impl LengthReport {
    /// A rate of packets in Mbit/s of plaintext IP packets, each way.
    pub fn mbps(&self, packets_per_second: f64) -> f64 {
        packets_per_second * self.mean_bytes * 8e-6
    }

    /// The rate at which latency is measured: without loss, or else with little.
    pub fn rate(&self) -> Option<f64> {
        self.ndr.packets_per_second.or(self.pdr.packets_per_second)
    }
}

/// Part of a test's time that its search may take at most.
const SEARCH_PART: f64 = 0.6;

/// Holds the test at one packet length. `observe` hears what is going on, before each trial of its
/// own. After `until` no trial begins any more; the report then has what was measured by then.
///
/// # Errors
/// [`MeasureError`] if a trial could not be held.
pub fn test(
    device: &mut dyn DeviceUnderTest,
    plan: &Plan,
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

fn report_of(searched: &Searched, Shape { lengths, ways }: Shape) -> LengthReport {
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

/// What follows the search.
struct Rest<'a> {
    device: &'a mut dyn DeviceUnderTest,
    plan: &'a Plan,
    shape: Shape,
    until: Option<Instant>,
    is_cut_short: bool,
    observe: &'a mut dyn FnMut(&str),
}

impl Rest<'_> {
    /// Whether there is time for another trial; takes down if there is not.
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

    /// Whether nothing of a burst is lost, several times in a row.
    fn passes(&mut self, packets: u64, packets_per_second: f64) -> Result<bool, MeasureError> {
        (self.observe)("back-to-back bursts");
        let phases = vec![Phase::of_packets(packets, packets_per_second)];
        let trial = Trial { phases, lengths: self.shape.lengths, ways: self.shape.ways };
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
            // Doubling until one fails, then halving.
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
        let trial = Trial { phases: vec![over, after], lengths: self.shape.lengths, ways: self.shape.ways };
        let outcome = self.device.trial(&trial)?;
        let [over, after] = outcome.phases[..] else { return Ok(None) };
        Ok(Some(Recovery {
            overload_packets_per_second: overload,
            overload_loss_ratio: over.lost as f64 / over.sent.max(1) as f64,
            seconds: after.last_lost_s.unwrap_or(0.0),
        }))
    }
}
