//! Monitors of tunnels: probes through a tunnel, and what their answers say of it.
//!
//! A probe is a ping to a host behind the peer, or an encrypted ESP echo to the peer itself. One
//! worker sends a monitor's probes; whichever worker an answer comes to notes it. The answer to a
//! ping is taken out of the packets to the inside, as no host there has asked for it.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use convoy_ipsec::{AssumedPath, EchoAnswer, TunnelId};
use convoy_packet::icmp::{self, HEADER_BYTES, v4, v6};
use convoy_packet::protocol::{ICMP, ICMP_V6};
use convoy_packet::{Frame, FramePool, FrameSize, Icmp, IpHeader, Layout, checksum, ip};

use crate::path_probe::{PathProbe, ProbeStep};

/// Bytes behind the ICMP header: the monitor's mark.
const MARK_BYTES: usize = 8;
/// Probes over which loss is counted.
const LAST: usize = 64;
/// The share of a new round trip in the average, as a shift (RFC 6298: an eighth).
const SHIFT: u32 = 3;

/// By what a tunnel is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Pings to a host behind the peer.
    Ping {
        /// Their source.
        source: IpAddr,
        /// The host, with an address of the same family.
        target: IpAddr,
    },
    /// Encrypted ESP echoes to the peer.
    Echo,
}

/// What a monitor sends, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The tunnel's name.
    pub tunnel: String,
    /// The inside interface of the tunnel; 0 is the shared one.
    pub interface: u16,
    /// By what it is probed.
    pub means: Means,
    /// Time between two probes, in ns.
    pub interval_ns: u64,
    /// The tunnel counts as lost if there was no answer for so long, in ns.
    pub lost_after_ns: u64,
}

/// What the answers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MonitorVerdict {
    /// There was neither an answer nor time for one yet.
    #[default]
    Unknown,
    /// Probes are answered.
    Answered,
    /// There was no answer for too long.
    Lost,
}

/// How a monitor stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorState {
    /// What the answers say.
    pub verdict: MonitorVerdict,
    /// When the last answer came, in ns.
    pub answered_ns: Option<u64>,
    /// The average round trip, in ns.
    pub round_trip_ns: Option<u64>,
    /// Of the last probes, how many there was time to answer.
    pub recent: usize,
    /// How many of those had no answer.
    pub unanswered: usize,
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct SentProbe {
    sequence: u16,
    at_ns: u64,
    is_answered: bool,
}

#[derive(Debug, Default)]
struct MonitorProgress {
    verdict: MonitorVerdict,
    /// When probes began, or when one was answered, whichever is later, in ns.
    waits_since_ns: Option<u64>,
    answered_ns: Option<u64>,
    round_trip_ns: Option<u64>,
    due_ns: u64,
    sequence: u16,
    /// The tunnel by which the last echo left.
    echoed_by: Option<TunnelId>,
    /// What padded echoes find out of the path.
    path: PathProbe,
    path_steps: Vec<ProbeStep>,
    sent: VecDeque<SentProbe>,
}

/// A monitor, shared by all workers.
#[derive(Debug)]
pub struct Monitor {
    probe: Probe,
    /// What tells its answers from those to other probes.
    mark: [u8; MARK_BYTES],
    progress: Mutex<MonitorProgress>,
}

impl Monitor {
    /// A monitor that has sent nothing yet. `mark` is random.
    pub fn new(probe: Probe, mark: u64) -> Self {
        Self { probe, mark: mark.to_be_bytes(), progress: Mutex::default() }
    }

    /// What it sends.
    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    /// How it stands.
    pub fn state(&self, now_ns: u64) -> MonitorState {
        let progress = self.lock();
        let is_over = |sent: &&SentProbe| {
            sent.is_answered || now_ns.saturating_sub(sent.at_ns) >= self.probe.lost_after_ns
        };
        let (mut recent, mut unanswered) = (0, 0);
        for sent in progress.sent.iter().filter(is_over) {
            recent += 1;
            unanswered += usize::from(!sent.is_answered);
        }
        let MonitorProgress { verdict, answered_ns, round_trip_ns, .. } = *progress;
        MonitorState { verdict, answered_ns, round_trip_ns, recent, unanswered }
    }

    /// Forgets what it knows: its tunnel is not here, so that nothing is sent.
    pub fn rest(&self) {
        let mut progress = self.lock();
        if progress.waits_since_ns.is_some() {
            let sequence = progress.sequence;
            *progress = MonitorProgress { sequence, ..MonitorProgress::default() };
        }
    }

    /// When it is to be looked at again, in ns: a probe is due, or it counts as lost.
    pub fn next_ns(&self) -> u64 {
        let progress = self.lock();
        let lost_ns = match progress.verdict {
            MonitorVerdict::Lost => None,
            _ => progress.waits_since_ns.map(|since_ns| since_ns.saturating_add(self.probe.lost_after_ns)),
        };
        progress.due_ns.min(lost_ns.unwrap_or(u64::MAX)).min(progress.path.next_ns(progress.round_trip_ns))
    }

    /// Looks at the time; returns the verdict if it has changed.
    pub fn look(&self, now_ns: u64) -> Option<MonitorVerdict> {
        let mut progress = self.lock();
        let since_ns = progress.waits_since_ns?;
        let verdict = match now_ns.saturating_sub(since_ns) >= self.probe.lost_after_ns {
            true => MonitorVerdict::Lost,
            false if progress.answered_ns.is_some() => MonitorVerdict::Answered,
            false => MonitorVerdict::Unknown,
        };
        let before = std::mem::replace(&mut progress.verdict, verdict);
        (before != verdict).then_some(verdict)
    }

    /// The number of the next probe, if it is due; it counts as sent.
    pub fn next(&self, now_ns: u64) -> Option<u16> {
        let mut progress = self.lock();
        if now_ns < progress.due_ns {
            return None;
        }
        // From when it was due, so that intervals do not grow by what a worker is late.
        let next_ns = progress.due_ns.saturating_add(self.probe.interval_ns);
        progress.due_ns = if next_ns > now_ns { next_ns } else { now_ns + self.probe.interval_ns };
        let sequence = progress.sequence.wrapping_add(1);
        progress.sequence = sequence;
        progress.waits_since_ns.get_or_insert(now_ns);
        if progress.sent.len() == LAST {
            progress.sent.pop_front();
        }
        progress.sent.push_back(SentProbe { sequence, at_ns: now_ns, is_answered: false });
        Some(sequence)
    }

    /// The id of its echoes.
    pub(crate) fn echo_id(&self) -> u16 {
        u16::from_be_bytes([self.mark[6], self.mark[7]])
    }

    /// The id of those that are padded to find out what the path carries.
    pub(crate) fn path_id(&self) -> u16 {
        !self.echo_id()
    }

    /// Notes by which tunnel's SA its echoes leave, and so by which their answers come.
    pub(crate) fn note_echoed_by(&self, tunnel: TunnelId) {
        self.lock().echoed_by = Some(tunnel);
    }

    /// Whether a packet to the inside answers one of its pings, which is noted.
    fn is_answered_by(&self, packet: &[u8], layout: &Layout, now_ns: u64) -> bool {
        let Means::Ping { source, target } = self.probe.means else { return false };
        let body = layout.body(packet);
        let Ok(message) = Icmp::parse(body) else { return false };
        let (kind, pseudo) = if layout.is_v6 {
            (v6::ECHO_REPLY, checksum::pseudo_header(packet, ICMP_V6, body.len()))
        } else {
            (v4::ECHO_REPLY, 0)
        };
        let is_own = message.message_type() == kind
            && message.body() == self.mark
            && layout.fragment.is_none()
            && layout.addresses(packet) == (target, source)
            && message.is_checksum_valid(pseudo);
        if is_own {
            self.note(message.rest_of_header() as u16, now_ns);
        }
        is_own
    }

    /// What there is to do to find out whether the path carries what is assumed.
    pub(crate) fn path_steps(&self, now_ns: u64, assumed: &AssumedPath) -> Vec<ProbeStep> {
        let mut progress = self.lock();
        if progress.verdict != MonitorVerdict::Answered {
            progress.path.stop();
            return Vec::new();
        }
        let round_trip_ns = progress.round_trip_ns.unwrap_or_default();
        let next = progress.path.step(now_ns, assumed, round_trip_ns);
        progress.path_steps.extend(next);
        std::mem::take(&mut progress.path_steps)
    }

    fn take_echo_answer(&self, answer: &EchoAnswer, now_ns: u64) {
        let mut progress = self.lock();
        if progress.echoed_by != Some(answer.tunnel) {
            return;
        }
        if answer.number.id == self.path_id() {
            let next = progress.path.answered(now_ns, answer.number.sequence);
            progress.path_steps.extend(next);
        } else {
            drop(progress);
            self.note(answer.number.sequence, now_ns);
        }
    }

    /// Notes the answer to a probe. What comes twice is an answer once.
    fn note(&self, sequence: u16, now_ns: u64) {
        let mut progress = self.lock();
        let open = progress.sent.iter_mut().rev().find(|sent| sent.sequence == sequence && !sent.is_answered);
        let Some(sent) = open else { return };
        sent.is_answered = true;
        let trip_ns = now_ns.saturating_sub(sent.at_ns);
        let average_ns = progress.round_trip_ns.unwrap_or(trip_ns);
        progress.round_trip_ns = Some(average_ns - (average_ns >> SHIFT) + (trip_ns >> SHIFT));
        progress.answered_ns = Some(now_ns);
        progress.waits_since_ns = Some(now_ns);
    }

    /// The ping of this number, as it would come from the inside; none without a free frame.
    pub(crate) fn ping(&self, sequence: u16, pool: &mut FramePool) -> Option<Frame> {
        let Means::Ping { source, target } = self.probe.means else { return None };
        let is_v6 = source.is_ipv6();
        let protocol = if is_v6 { ICMP_V6 } else { ICMP };
        let header = IpHeader::new(protocol, source, target);
        let (at, len) = (header.header_len(), HEADER_BYTES + MARK_BYTES);
        let mut frame = pool.take(FrameSize::Small)?;
        if frame.append(at + len).is_err() {
            pool.give_back(frame);
            return None;
        }
        frame[at + HEADER_BYTES..].copy_from_slice(&self.mark);
        header.write(&mut frame);
        let pseudo = if is_v6 { checksum::pseudo_header(&frame, ICMP_V6, len) } else { 0 };
        let kind = if is_v6 { v6::ECHO } else { v4::ECHO };
        icmp::write(&mut frame[at..], kind, 0, u32::from(sequence), pseudo);
        frame.set_interface(self.probe.interface);
        Some(frame)
    }

    fn lock(&self) -> MutexGuard<'_, MonitorProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All monitors of a gateway, each to be found by its answers; clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Monitors(Arc<Lists>);

#[derive(Debug, Default)]
struct Lists {
    all: Vec<Arc<Monitor>>,
    by_target: HashMap<IpAddr, Vec<Arc<Monitor>>>,
    by_echo_id: HashMap<u16, Vec<Arc<Monitor>>>,
}

impl Monitors {
    /// These monitors.
    pub fn new(monitors: impl IntoIterator<Item = Arc<Monitor>>) -> Self {
        let mut lists = Lists { all: monitors.into_iter().collect(), ..Lists::default() };
        for monitor in &lists.all {
            match monitor.probe.means {
                Means::Ping { target, .. } => {
                    lists.by_target.entry(target).or_default().push(Arc::clone(monitor));
                }
                Means::Echo => {
                    for id in [monitor.echo_id(), monitor.path_id()] {
                        lists.by_echo_id.entry(id).or_default().push(Arc::clone(monitor));
                    }
                }
            }
        }
        Self(Arc::new(lists))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Monitor>> {
        self.0.all.iter()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.all.is_empty()
    }

    /// Notes the answers to echoes.
    pub(crate) fn take_echo_answers(&self, now_ns: u64, answers: &[EchoAnswer]) {
        for answer in answers {
            let monitors = self.0.by_echo_id.get(&answer.number.id).into_iter().flatten();
            monitors.for_each(|monitor| monitor.take_echo_answer(answer, now_ns));
        }
    }

    /// Takes the answers to pings out of packets to the inside.
    pub(crate) fn take_answers(&self, now_ns: u64, frames: &mut Vec<Frame>, pool: &mut FramePool) {
        if self.0.by_target.is_empty() {
            return;
        }
        let is_answer = |frame: &mut Frame| {
            // Nearly all packets are of another protocol, which costs two bytes to see.
            if !matches!(ip::first_protocol(frame), Some(ICMP | ICMP_V6)) {
                return false;
            }
            let Ok(layout) = Layout::parse(frame) else { return false };
            let monitors = self.0.by_target.get(&layout.addresses(frame).0).into_iter().flatten();
            monitors.into_iter().any(|monitor| monitor.is_answered_by(frame, &layout, now_ns))
        };
        frames.extract_if(.., is_answer).for_each(|frame| pool.give_back(frame));
    }
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::EchoNumber;

    use super::*;

    const MS: u64 = 1_000_000;

    fn monitor(is_v6: bool) -> Monitor {
        let ends: [IpAddr; 2] = if is_v6 {
            [[1; 16].into(), [2; 16].into()]
        } else {
            [[10, 1, 0, 1].into(), [10, 2, 0, 1].into()]
        };
        let probe = Probe {
            tunnel: "site-b".to_owned(),
            interface: 3,
            means: Means::Ping { source: ends[0], target: ends[1] },
            interval_ns: 100 * MS,
            lost_after_ns: 300 * MS,
        };
        Monitor::new(probe, 7)
    }

    /// What the pinged host would send back.
    fn answer(ping: &[u8], pool: &mut FramePool) -> Frame {
        let layout = Layout::parse(ping).expect("well-formed");
        let (source, target) = layout.addresses(ping);
        let mut frame = pool.take_filled(ping, 0).expect("a frame");
        IpHeader::new(layout.protocol, target, source).write(&mut frame);
        let len = frame.len() - layout.payload;
        let sequence = Icmp::parse(layout.body(ping)).expect("whole").rest_of_header();
        let (kind, pseudo) = if layout.is_v6 {
            (v6::ECHO_REPLY, checksum::pseudo_header(&frame, ICMP_V6, len))
        } else {
            (v4::ECHO_REPLY, 0)
        };
        icmp::write(&mut frame[layout.payload..], kind, 0, sequence, pseudo);
        frame
    }

    #[test]
    fn an_answered_ping_gives_round_trip_and_verdict_and_its_answer_is_taken_out() {
        for is_v6 in [false, true] {
            let (shared, mut pool) = (Arc::new(monitor(is_v6)), FramePool::new(8, 0));
            let monitors = Monitors::new([Arc::clone(&shared)]);
            let sequence = shared.next(MS).expect("the first is due at once");
            let ping = shared.ping(sequence, &mut pool).expect("a frame");
            assert_eq!(ping.interface(), 3);
            assert_eq!((shared.look(MS), shared.state(MS).verdict), (None, MonitorVerdict::Unknown));
            let mut inside = vec![answer(&ping, &mut pool), pool.take_filled(&ping, 0).expect("a frame")];
            monitors.take_answers(5 * MS, &mut inside, &mut pool);
            assert_eq!(inside.len(), 1, "another packet goes on");
            assert_eq!(shared.look(5 * MS), Some(MonitorVerdict::Answered));
            let state = shared.state(5 * MS);
            assert_eq!((state.round_trip_ns, state.answered_ns), (Some(4 * MS), Some(5 * MS)));
            assert_eq!((state.recent, state.unanswered), (1, 0));
            inside.push(ping);
            pool.give_back_burst(&mut inside);
            assert_eq!(pool.available(FrameSize::Small), pool.total(FrameSize::Small), "no frame is lost");
        }
    }

    #[test]
    fn answers_to_other_pings_and_forged_ones_are_not_taken() {
        let (shared, mut pool) = (Arc::new(monitor(false)), FramePool::new(16, 0));
        let monitors = Monitors::new([Arc::clone(&shared)]);
        let ping = shared.ping(shared.next(0).expect("it is due"), &mut pool).expect("a frame");
        let whole = answer(&ping, &mut pool);
        for at in [15, 19, 20, 21, 28, 35] {
            let mut changed = pool.take_filled(&whole, 0).expect("a frame");
            changed[at] ^= 1;
            let mut inside = vec![changed];
            monitors.take_answers(MS, &mut inside, &mut pool);
            assert_eq!(inside.len(), 1, "byte {at}");
            pool.give_back_burst(&mut inside);
        }
        assert_eq!(shared.state(MS).answered_ns, None);
    }

    #[test]
    fn a_tunnel_without_answers_is_lost_and_the_next_answer_brings_it_back() {
        let monitor = monitor(false);
        let mut changes = Vec::new();
        for now_ms in (0..2_000).step_by(50) {
            let now_ns = now_ms * MS;
            if let Some(sequence) = monitor.next(now_ns)
                && !(500..1_200).contains(&now_ms)
            {
                monitor.note(sequence, now_ns + MS);
            }
            changes.extend(monitor.look(now_ns + 2 * MS).map(|verdict| (now_ms, verdict)));
        }
        assert_eq!(
            changes,
            [(0, MonitorVerdict::Answered), (700, MonitorVerdict::Lost), (1_200, MonitorVerdict::Answered)]
        );
        let state = monitor.state(2_000 * MS);
        assert_eq!((state.recent, state.unanswered), (20, 7));
    }

    #[test]
    fn a_monitor_that_rests_knows_nothing_and_begins_again() {
        let monitor = monitor(false);
        monitor.next(0).expect("it is due");
        assert_eq!(monitor.look(300 * MS), Some(MonitorVerdict::Lost));
        monitor.rest();
        assert_eq!((monitor.look(900 * MS), monitor.state(900 * MS)), (None, MonitorState::default()));
        assert!(monitor.next(900 * MS).is_some());
    }

    #[test]
    fn a_late_worker_sends_one_probe_and_none_that_it_missed() {
        let monitor = monitor(false);
        let is_sent = [0, 99, 130, 199, 200, 950, 960, 1_050].map(|at_ms| monitor.next(at_ms * MS).is_some());
        assert_eq!(is_sent, [true, false, true, false, true, true, false, true]);
    }

    #[test]
    fn an_echo_is_answered_by_its_own_tunnel_and_id_alone() {
        let probe = Probe { means: Means::Echo, ..monitor(false).probe };
        let shared = Arc::new(Monitor::new(probe, 0x1234));
        let monitors = Monitors::new([Arc::clone(&shared)]);
        let sequence = shared.next(0).expect("it is due");
        let answer =
            |tunnel, id| EchoAnswer { tunnel: TunnelId(tunnel), number: EchoNumber { id, sequence } };
        monitors.take_echo_answers(MS, &[answer(7, 0x1234)]);
        shared.note_echoed_by(TunnelId(7));
        monitors.take_echo_answers(MS, &[answer(8, 0x1234), answer(7, 0x1235)]);
        assert_eq!(shared.state(MS).answered_ns, None);
        monitors.take_echo_answers(MS, &[answer(7, 0x1234)]);
        assert_eq!(shared.state(MS).answered_ns, Some(MS));
    }
}
