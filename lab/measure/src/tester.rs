//! The tester: sends a trial's packets from one port and counts them at another.

use std::ops::RangeInclusive;
use std::time::Duration;

use convoy_dataplane::clock::{Clock, VirtualTime};
use convoy_packet::{Frame, FramePool, Region};
use convoy_port::Port;

use crate::device::{DeviceOutcome, DeviceTrial, DeviceUnderTest, MeasureError, Ways};
use crate::flow::{Flow, Packets};
use crate::lengths::Lengths;
use crate::schedule::{Phase, Schedule};
use crate::stamp::Stamp;
use crate::stream::{Reads, Stream, outcome};

/// Frames per end: small and jumbo ones.
const FRAMES: (usize, usize) = (16_384, 2_048);
/// Packets sent or received at a time.
const BURST: usize = 32;
/// Room after each packet, in bytes.
const TAIL: usize = 64;
/// If the tester was held up for longer than this (a time slice of the kernel's), in ns, and owes
/// more than a burst, it shifts its schedule instead of sending all at once.
const MOST_LATE_NS: u64 = 4_000_000;
/// A trial ends once nothing has arrived for this long after the last packet was sent, or for a
/// twentieth of it if every packet has arrived.
const QUIET: Duration = Duration::from_millis(200);
/// Longest wait after the last packet was sent (RFC 2544 section 23 waits two seconds).
const MOST_WAIT_NS: u64 = 2_000_000_000;
/// Limit on the bursts of an earlier trial that are discarded before the next one: more than any
/// queue holds, and it stops the tester from reading for ever if a device repeats packets.
const MOST_LEFT: usize = 100_000;
/// How long learning packets are sent where none arrives, in ns.
const LEARNING_NS: u64 = 3_000_000_000;
/// Limit on the packets of a trial in each direction; one bit is kept for each.
const MOST_PACKETS: u64 = 4_000_000_000;
/// Virtual time per round, in ns.
const ROUND_NS: u64 = 1_000;

/// One end of the tester.
pub struct End {
    /// The port, whose peer is the device's port.
    pub port: Box<dyn Port>,
    /// Frames for sending, and for ports that copy.
    pub pool: FramePool,
    /// How arriving packets are identified.
    pub reads: Reads,
}

impl End {
    /// An end with enough frames to fill the device's queues without running out.
    ///
    /// # Errors
    /// [`MeasureError::Invalid`] if the process has no memory for frames.
    pub fn new(port: Box<dyn Port>) -> Result<Self, MeasureError> {
        let pool = FramePool::in_region(FRAMES.0, FRAMES.1, 0);
        let pool = pool.map_err(|error| MeasureError::Invalid(error.to_string()))?;
        Ok(Self { port, pool, reads: Reads::Stamps })
    }

    /// Allocates the process's packet memory for this many ends, unless it exists already. AF_XDP
    /// locks all of it in memory, so it should not be larger than needed.
    ///
    /// # Errors
    /// [`MeasureError::Invalid`] if the system refuses, or if existing memory is too small.
    pub fn make_memory(ends: usize) -> Result<(), MeasureError> {
        let made = Region::make(ends * FramePool::chunks(FRAMES.0, FRAMES.1, 0));
        made.map(|_| ()).map_err(|error| MeasureError::Invalid(error.to_string()))
    }

    /// Sets how arriving packets are identified.
    #[must_use]
    pub fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }
}

/// The tester's clock.
pub enum Time {
    /// Real time.
    Machine(Clock),
    /// Virtual time, which advances by a microsecond or more per round, so that the machine's speed
    /// has no effect.
    Virtual(VirtualTime),
}

impl Time {
    /// The machine's clock.
    pub fn machine() -> Self {
        Self::Machine(Clock::start())
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Machine(clock) => clock.now_ns(),
            Self::Virtual(time) => time.now_ns(),
        }
    }

    /// Advances virtual time by a round; packets last moved at `moved_ns`. A round takes longer the
    /// longer nothing has moved, so that the end of a trial takes few rounds, and times stay exact
    /// to 1/256.
    fn pass_round(&self, moved_ns: u64) {
        if let Self::Virtual(time) = self {
            let now_ns = time.now_ns();
            time.advance_to(now_ns + ROUND_NS.max((now_ns - moved_ns) / 256));
        }
    }
}

/// Work done in each round beside the tester's own.
type Drive = Box<dyn FnMut() -> Result<(), MeasureError>>;

/// Two ends with a device between them.
pub struct Tester {
    ends: [End; 2],
    flow: Flow,
    time: Time,
    trials: u32,
    quiet_ns: u64,
    drive: Drive,
    burst: Vec<Frame>,
}

impl Tester {
    /// A tester whose first end sends `flow`, and whose second end sends the reverse.
    pub fn new(ends: [End; 2], flow: Flow, time: Time) -> Self {
        let (drive, burst) = (Box::new(|| Ok(())), Vec::with_capacity(BURST));
        Self { ends, flow, time, trials: 0, quiet_ns: QUIET.as_nanos() as u64, drive, burst }
    }

    /// Sets how long to wait for packets in flight at the end of a trial, for devices known to be
    /// fast.
    #[must_use]
    pub fn waiting(self, quiet: Duration) -> Self {
        Self { quiet_ns: quiet.as_nanos() as u64, ..self }
    }

    /// Adds work to each round, for a device without threads of its own.
    #[must_use]
    pub fn driving(self, drive: impl FnMut() -> Result<(), MeasureError> + 'static) -> Self {
        Self { drive: Box::new(drive), ..self }
    }

    /// Longest packet that both ports take, in bytes.
    fn mtu(&self) -> usize {
        self.ends.iter().map(|end| end.port.description().mtu).min().unwrap_or(0)
    }

    /// Sends packets in both directions until one has arrived in each, so that hosts and devices
    /// learn neighbours and flows before a trial (RFC 2544 section 23: learning frames). Returns
    /// whether both arrived within about three seconds.
    ///
    /// # Errors
    /// [`MeasureError`] if a port failed.
    pub fn learn(&mut self) -> Result<bool, MeasureError> {
        let (phases, lengths) = (vec![Phase::of_packets(1, 1.0)], Lengths::All(*self.packet_bytes().start()));
        let trial = DeviceTrial { phases, lengths, ways: Ways::Both };
        let most = LEARNING_NS / self.quiet_ns.max(1);
        for _ in 0..most {
            if self.trial(&trial)?.lost() == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Packets that the ports have dropped for lack of room so far.
    fn missed(&self) -> u64 {
        self.ends.iter().map(|end| end.port.counters().receive_dropped).sum()
    }

    fn check(&self, lengths: Lengths) -> Result<(), MeasureError> {
        let (range, family) = (self.packet_bytes(), self.flow.family());
        let what = if lengths.longest() > *range.end() {
            format!(
                "packets of {} bytes do not fit the device's MTU of {} bytes",
                lengths.longest(),
                range.end()
            )
        } else if lengths.shortest() < *range.start() {
            let (shortest, least) = (lengths.shortest(), range.start());
            format!(
                "packets of {shortest} bytes do not hold {family}, UDP and a stamp, which take {least} bytes"
            )
        } else {
            return Ok(());
        };
        Err(MeasureError::Invalid(what))
    }

    fn streams(&mut self, trial: &DeviceTrial, packets: u64) -> Vec<Stream> {
        self.trials = self.trials.wrapping_add(1);
        let begin_ns = self.time.now_ns();
        let (flow, lengths) = (self.flow, trial.lengths);
        let stream = |way: usize| {
            let way_flow = if way == 0 { flow } else { flow.reversed() };
            let id = (self.trials << 1) | way as u32;
            Stream::new(id, Packets::new(way_flow, lengths), packets, begin_ns)
        };
        (0..trial.ways.count()).map(stream).collect()
    }

    /// Sends the packets of one direction that are due, at most a burst. Packets that the port does
    /// not take are lost, as on a link.
    fn send(&mut self, way: usize, stream: &mut Stream, schedule: &Schedule) -> Result<bool, MeasureError> {
        let now_ns = self.time.now_ns();
        if now_ns.saturating_sub(stream.first_begin_ns) > schedule.most_ns() {
            stream.wanted = stream.sent;
        }
        let mut due = schedule.due(now_ns.saturating_sub(stream.begin_ns)).min(stream.wanted);
        if due == stream.sent {
            return Ok(false);
        }
        let late_ns = now_ns.saturating_sub(stream.begin_ns + schedule.time_of(stream.sent));
        if late_ns > MOST_LATE_NS && due - stream.sent > BURST as u64 {
            stream.begin_ns += late_ns;
            due = schedule.due(now_ns - stream.begin_ns).min(stream.wanted);
        }
        let End { port, pool, .. } = &mut self.ends[way];
        let until = due.min(stream.sent + BURST as u64);
        for sequence in stream.sent..until {
            if let Some(mut frame) = pool.take_filled(stream.packets.of(sequence), TAIL) {
                Stamp { stream: stream.id, sequence, sent_ns: now_ns }.write(&mut frame);
                self.burst.push(frame);
            }
        }
        stream.sent = until;
        port.send(pool, &mut self.burst)?;
        pool.give_back_burst(&mut self.burst);
        Ok(true)
    }

    /// Receives at an end; `streams` are those that arrive there.
    fn receive(
        &mut self,
        end: usize,
        stream: Option<&mut Stream>,
        is_sending: bool,
    ) -> Result<bool, MeasureError> {
        let End { port, pool, reads } = &mut self.ends[end];
        port.receive(pool, BURST, &mut self.burst)?;
        if self.burst.is_empty() {
            return Ok(false);
        }
        let now_ns = self.time.now_ns();
        if let Some(stream) = stream {
            for frame in &self.burst {
                stream.arrive(*reads, frame, now_ns, is_sending);
            }
        }
        pool.give_back_burst(&mut self.burst);
        Ok(true)
    }

    /// Discards packets of an earlier trial: ESP sequence numbers continue, so they would be
    /// counted for this one.
    fn empty(&mut self) -> Result<(), MeasureError> {
        for end in [0, 1] {
            for _ in 0..MOST_LEFT {
                if !self.receive(end, None, false)? {
                    break;
                }
            }
        }
        Ok(())
    }

    fn run(&mut self, streams: &mut [Stream], schedule: &Schedule) -> Result<(), MeasureError> {
        let (mut end_ns, mut moved_ns) = (None, self.time.now_ns());
        loop {
            let (mut is_sending, mut moved) = (false, false);
            for (way, stream) in streams.iter_mut().enumerate() {
                moved |= self.send(way, stream, schedule)?;
                is_sending |= stream.sent < stream.wanted;
            }
            (self.drive)()?;
            for end in [1, 0] {
                moved |= self.receive(end, streams.get_mut(1 - end), is_sending)?;
            }
            let now_ns = self.time.now_ns();
            if moved {
                moved_ns = now_ns;
            }
            self.time.pass_round(moved_ns);
            if is_sending {
                continue;
            }
            let end_ns = *end_ns.get_or_insert(now_ns);
            let quiet_ns = now_ns.saturating_sub(moved_ns);
            let is_complete = streams.iter().all(Stream::is_complete);
            // Duplicates may still follow the last packet.
            let is_over = quiet_ns > self.quiet_ns || (is_complete && quiet_ns > self.quiet_ns / 20);
            if is_over || now_ns - end_ns > MOST_WAIT_NS {
                return Ok(());
            }
        }
    }
}

impl DeviceUnderTest for Tester {
    fn trial(&mut self, trial: &DeviceTrial) -> Result<DeviceOutcome, MeasureError> {
        self.check(trial.lengths)?;
        let schedule = Schedule::new(&trial.phases);
        let packets = schedule.packets();
        if packets > MOST_PACKETS {
            let what = format!(
                "a trial has {packets} packets, but at most {MOST_PACKETS} are possible; make trials shorter"
            );
            return Err(MeasureError::Invalid(what));
        }
        self.empty()?;
        let mut streams = self.streams(trial, packets);
        let missed_before = self.missed();
        self.run(&mut streams, &schedule)?;
        let missed_by_tester = self.missed() - missed_before;
        Ok(DeviceOutcome { missed_by_tester, ..outcome(&streams, &schedule) })
    }

    fn packet_bytes(&self) -> RangeInclusive<u16> {
        let mtu = u16::try_from(self.mtu()).unwrap_or(u16::MAX);
        self.flow.family().least_length()..=mtu
    }
}
