//! The tester: it sends a trial's packets by one port and counts them at another.

use std::ops::RangeInclusive;
use std::time::Duration;

use convoy_dataplane::clock::{Clock, VirtualTime};
use convoy_packet::{Frame, FramePool, Region};
use convoy_port::Port;

use crate::device::{DeviceUnderTest, MeasureError, Outcome, Trial, Ways};
use crate::flow::{Flow, Packets};
use crate::lengths::Lengths;
use crate::schedule::{Phase, Schedule};
use crate::stamp::Stamp;
use crate::stream::{Reads, Stream, outcome};

/// Frames of an end: small ones and jumbo ones.
const FRAMES: (usize, usize) = (16_384, 2_048);
/// Packets sent or received at a time.
const BURST: usize = 32;
/// Room behind each packet, in bytes.
const TAIL: usize = 64;
/// A tester that could not send for longer than this, a time slice of the kernel's, and owes more
/// than a burst does not make up for it in one go, in ns.
const MOST_LATE_NS: u64 = 4_000_000;
/// The trial is over once nothing has arrived for so long after the last packet was sent, or
/// everything has.
const QUIET: Duration = Duration::from_millis(200);
/// It is over at any rate so long after (RFC 2544, section 23, waits two seconds).
const MOST_WAIT_NS: u64 = 2_000_000_000;
/// Bursts of an earlier trial that are taken before the next one: more than any queue holds, so
/// that a device that repeats packets for ever does not keep the tester here.
const MOST_LEFT: usize = 100_000;
/// How long packets are sent to learn a way where none arrives, in ns.
const LEARNING_NS: u64 = 3_000_000_000;
/// Packets of a trial, each way: what is kept of each is a bit.
const MOST_PACKETS: u64 = 4_000_000_000;
/// What a round takes of virtual time, in ns.
const ROUND_NS: u64 = 1_000;

/// Where packets are sent and received.
pub struct End {
    /// The device's port on this side is its other end.
    pub port: Box<dyn Port>,
    /// Frames for what is sent, and for what a port copies.
    pub pool: FramePool,
    /// How what comes is told apart.
    pub reads: Reads,
}

impl End {
    /// An end with so many frames that trials do not run out of them before the device's queues are
    /// full.
    ///
    /// # Errors
    /// [`MeasureError::Invalid`] if the process has no memory for frames.
    pub fn new(port: Box<dyn Port>) -> Result<Self, MeasureError> {
        let pool = FramePool::in_region(FRAMES.0, FRAMES.1, 0);
        let pool = pool.map_err(|error| MeasureError::Invalid(error.to_string()))?;
        Ok(Self { port, pool, reads: Reads::Stamps })
    }

    /// Makes the process's packet memory with room for so many ends and no more, if there is none
    /// yet: AF_XDP has the kernel keep all of it in place.
    ///
    /// # Errors
    /// [`MeasureError::Invalid`] if the system refuses, or there is one already and it is smaller.
    pub fn make_memory(ends: usize) -> Result<(), MeasureError> {
        let made = Region::make(ends * FramePool::chunks(FRAMES.0, FRAMES.1, 0));
        made.map(|_| ()).map_err(|error| MeasureError::Invalid(error.to_string()))
    }

    /// The same end where ESP comes.
    #[must_use]
    pub fn reading(self, reads: Reads) -> Self {
        Self { reads, ..self }
    }
}

/// How time passes for a tester.
pub enum Time {
    /// As the machine's clock says.
    Machine(Clock),
    /// By a microsecond or more in each round, so that a slow or busy machine changes nothing.
    Virtual(VirtualTime),
}

impl Time {
    /// The machine's.
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

    /// Passes a round in which something moved last at this time. The longer that is ago the longer
    /// a round takes, so that waiting for the end of a trial takes few rounds, and times are still
    /// exact to a part in 256.
    fn pass_round(&self, moved_ns: u64) {
        if let Self::Virtual(time) = self {
            let now_ns = time.now_ns();
            time.advance_to(now_ns + ROUND_NS.max((now_ns - moved_ns) / 256));
        }
    }
}

/// What is done in each round beside the tester's own part.
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
    /// A tester whose first end sends `flow` and whose second sends it back.
    pub fn new(ends: [End; 2], flow: Flow, time: Time) -> Self {
        let (drive, burst) = (Box::new(|| Ok(())), Vec::with_capacity(BURST));
        Self { ends, flow, time, trials: 0, quiet_ns: QUIET.as_nanos() as u64, drive, burst }
    }

    /// The same tester, which waits so long for packets that are still on their way when a trial
    /// has ended: for a device that is known to be quick.
    #[must_use]
    pub fn waiting(self, quiet: Duration) -> Self {
        Self { quiet_ns: quiet.as_nanos() as u64, ..self }
    }

    /// The same tester, which does something in each of its rounds: for a device without threads of
    /// its own.
    #[must_use]
    pub fn driving(self, drive: impl FnMut() -> Result<(), MeasureError> + 'static) -> Self {
        Self { drive: Box::new(drive), ..self }
    }

    /// The longest packet that both of its ports take, in bytes.
    fn mtu(&self) -> usize {
        self.ends.iter().map(|end| end.port.description().mtu).min().unwrap_or(0)
    }

    /// Sends a packet each way, again and again, until one has arrived each way: what hosts and
    /// devices have to learn first, neighbours and flows, is no part of a trial (RFC 2544, section
    /// 23, calls them learning frames). Returns whether they arrived within three seconds or so.
    ///
    /// # Errors
    /// [`MeasureError`] if a port failed.
    pub fn learn(&mut self) -> Result<bool, MeasureError> {
        let (phases, lengths) = (vec![Phase::of_packets(1, 1.0)], Lengths::All(*self.packet_bytes().start()));
        let trial = Trial { phases, lengths, ways: Ways::Both };
        let most = LEARNING_NS / self.quiet_ns.max(1);
        for _ in 0..most {
            if self.trial(&trial)?.lost() == 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Packets that its ports had no room for so far.
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

    fn streams(&mut self, trial: &Trial, packets: u64) -> Vec<Stream> {
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

    /// Sends what is due of one way, a burst at most. What the device's port has no room for is
    /// lost, as on a wire.
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

    /// Takes what has arrived at an end; `streams` is what goes there.
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

    /// Takes what is left of an earlier trial: the numbers of ESP count on, so that it would be
    /// taken for this one's.
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
            // Duplicates may follow what is complete.
            let is_over = quiet_ns > self.quiet_ns || (is_complete && quiet_ns > self.quiet_ns / 20);
            if is_over || now_ns - end_ns > MOST_WAIT_NS {
                return Ok(());
            }
        }
    }
}

impl DeviceUnderTest for Tester {
    fn trial(&mut self, trial: &Trial) -> Result<Outcome, MeasureError> {
        self.check(trial.lengths)?;
        let schedule = Schedule::new(&trial.phases);
        let packets = schedule.packets();
        if packets > MOST_PACKETS {
            let what =
                format!("a trial of {packets} packets; there may be {MOST_PACKETS}: make trials shorter");
            return Err(MeasureError::Invalid(what));
        }
        self.empty()?;
        let mut streams = self.streams(trial, packets);
        let missed_before = self.missed();
        self.run(&mut streams, &schedule)?;
        let missed_by_tester = self.missed() - missed_before;
        Ok(Outcome { missed_by_tester, ..outcome(&streams, &schedule) })
    }

    fn packet_bytes(&self) -> RangeInclusive<u16> {
        let mtu = u16::try_from(self.mtu()).unwrap_or(u16::MAX);
        self.flow.family().least_length()..=mtu
    }
}
