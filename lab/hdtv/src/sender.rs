//! The sender: one thread makes frames, another sends them, spread over the frame period.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as Channel, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use crate::format::{CLOCK_HZ, Format};
use crate::group::GroupError;
use crate::layout::{DatagramLimit, Layout, LayoutError, burst_limits};
use crate::rtcp::{self, SenderInfo};
use crate::snapshot::{Snapshot, SnapshotWriter};
use crate::source::{SourceError, VideoSource};
use crate::transmit::{Route, bursts, send};
use crate::usage::CpuSeconds;

/// Frames that are prepared ahead of time.
const FRAMES_AHEAD: usize = 3;
/// Bytes of a UDP header.
const UDP_HEADER_BYTES: usize = 8;
const EMSGSIZE: i32 = nix::errno::Errno::EMSGSIZE as i32;
const EINVAL: i32 = nix::errno::Errno::EINVAL as i32;
/// How long the sender waits for a frame before it checks whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Settings of a sender.
pub struct SendConfig {
    /// Where packets go.
    pub route: Route,
    /// The video format as sent.
    pub format: Format,
    /// The longest IP packet in bytes. Datagrams also keep to [`DatagramLimit::of_mtu`].
    pub mtu: usize,
    /// Largest burst, in packets.
    pub burst: usize,
    /// Frames to send; `None` for no limit.
    pub frames: Option<u64>,
    /// RTP timestamp of the first frame; `None` for that of the system's clock, as SMPTE ST 2110-10
    /// section 7 has it (in 1/90,000 s since 1970).
    pub first_timestamp: Option<u32>,
    /// Frames to save as pictures as they are sent.
    pub snapshots: Vec<Snapshot>,
    /// Receives a line per frame: its RTP timestamp and the CRC-32 of its bytes.
    pub digests: Option<Box<dyn io::Write + Send>>,
    /// Whether the sending thread gets real-time priority.
    pub is_real_time: bool,
    /// Name in RTCP reports (CNAME).
    pub name: String,
}

impl SendConfig {
    fn ip_header_bytes(&self) -> usize {
        if self.route.to.is_ipv4() { 20 } else { 40 }
    }

    /// The limit of the datagrams that the stream is sent in.
    pub(crate) fn datagram_limit(&self) -> DatagramLimit {
        DatagramLimit::of_mtu(self.mtu, self.ip_header_bytes())
    }
}

/// Why sending failed.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The video source failed.
    #[error("the video source: {0}")]
    Source(#[from] SourceError),
    /// The interface or the address cannot be used.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The MTU does not fit the format.
    #[error("the MTU does not fit: {0}")]
    Layout(#[from] LayoutError),
    /// The kernel refuses packets of this length.
    #[error(
        "packets of {0} bytes exceed the MTU of the path; set --mtu to the MTU of the outgoing interface"
    )]
    TooLong(usize),
    /// The user lacks the permission for real-time priority.
    #[error(
        "cannot have real-time priority: {0}; run as root, or with CAP_SYS_NICE or a limit RLIMIT_RTPRIO of 1 (`ulimit -r 1`)"
    )]
    RealTime(io::Error),
    /// A socket or a thread failed.
    #[error("cannot send: {0}")]
    Io(#[from] io::Error),
}

/// The receiver's last report.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Feedback {
    /// Packets lost since the start.
    pub lost: i64,
    /// Fraction of the packets lost since the previous report, 0 to 1.
    pub fraction_lost: f64,
    /// Interarrival jitter in milliseconds.
    pub jitter_ms: f64,
    /// Round-trip time in milliseconds.
    pub round_trip_ms: Option<f64>,
}

/// Result of sending.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SendReport {
    /// Frames sent.
    pub frames: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets per frame.
    pub packets_per_frame: usize,
    /// Length of the longest IP packet in bytes.
    pub packet_bytes: usize,
    /// Burst size used, and the limits of SMPTE ST 2110-21's narrow and wide senders, in packets.
    pub burst: (usize, usize, usize),
    /// Seconds from the first packet to the end of the last frame's period.
    pub seconds: f64,
    /// Rate of the video data in Mbit/s.
    pub video_mbps: f64,
    /// Rate including RTP, UDP and IP headers, in Mbit/s.
    pub ip_mbps: f64,
    /// Frames that started more than a frame period late. They were sent completely, so none of
    /// them is lost.
    pub late_frames: u64,
    /// Late frames that the source had not made in time. The others waited for a processor or for
    /// room in the socket.
    pub late_from_source: u64,
    /// Largest delay of a burst behind its schedule, in microseconds.
    pub latest_us: u64,
    /// Packets that the receiver's host refused, as ICMP reported.
    pub refused: u64,
    /// The last receiver report.
    pub feedback: Option<Feedback>,
    /// Seconds from the start of both threads to their end, over which the processor times were
    /// counted.
    pub busy_seconds: f64,
    /// Processor time of the thread that makes frames.
    pub source_cpu: CpuSeconds,
    /// Processor time of the sending thread.
    pub packet_cpu: CpuSeconds,
}

/// A frame and its number.
type Numbered = (u64, Vec<u8>);

/// Sends until the source ends, the requested number of frames is reached, or `stop` is set. Calls
/// `progress` once per second.
///
/// # Errors
/// See [`SendError`].
pub fn send_video(
    config: SendConfig,
    source: VideoSource,
    stop: &AtomicBool,
    progress: impl FnMut(&SendReport),
) -> Result<SendReport, SendError> {
    let (full_tx, full_rx) = sync_channel(FRAMES_AHEAD);
    let (empty_tx, empty_rx) = channel();
    for _ in 0..=FRAMES_AHEAD {
        let _ = empty_tx.send(vec![0; config.format.frame_bytes()]);
    }
    let wanted = config.frames.unwrap_or(u64::MAX);
    let ssrc = rand::random();
    let layout = Layout::new(&config.format, config.datagram_limit().packet_bytes(), ssrc)?;
    let mut transmission = Transmission::open(config, layout, ssrc)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let maker = thread::Builder::new()
            .name("video".to_owned())
            .spawn_scoped(scope, move || make_frames(source, wanted, &empty_rx, &full_tx))?;
        let sent = transmission.run(&full_rx, &empty_tx, stop, progress);
        // Closing the channels ends a source thread that waits for room or for memory.
        drop((full_rx, empty_tx));
        let made = maker.join().map_err(|_| io::Error::other("the thread of the video source failed"))?;
        let mut report = sent?;
        report.source_cpu = made?;
        report.busy_seconds = start.elapsed().as_secs_f64();
        Ok(report)
    })
}

fn make_frames(
    mut source: VideoSource,
    wanted: u64,
    empty: &Receiver<Vec<u8>>,
    full: &SyncSender<Numbered>,
) -> Result<CpuSeconds, SourceError> {
    for number in 0..wanted {
        let Ok(mut frame) = empty.recv() else { break };
        if !source.next(number, &mut frame)? || full.send((number, frame)).is_err() {
            break;
        }
    }
    Ok(CpuSeconds::of_thread())
}

/// State of the sending thread.
struct Transmission {
    config: SendConfig,
    snapshot_writer: SnapshotWriter,
    layout: Layout,
    bursts: Vec<std::ops::Range<usize>>,
    video: UdpSocket,
    control: UdpSocket,
    control_to: SocketAddr,
    ssrc: u32,
    first_timestamp: u32,
    sequence: u32,
    headers: usize,
    report: SendReport,
    payload_bytes: u64,
    ip_bytes: u64,
    next_report: Instant,
}

impl Transmission {
    fn open(mut config: SendConfig, layout: Layout, ssrc: u32) -> Result<Self, SendError> {
        let video = config.route.connect()?;
        let (control, control_to) = config.route.open_control()?;
        let headers = config.ip_header_bytes() + UDP_HEADER_BYTES;
        let bursts = bursts(&layout, config.burst);
        let longest = bursts.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
        let limits = burst_limits(&config.format, layout.packets().len());
        let report = SendReport {
            packets_per_frame: layout.packets().len(),
            packet_bytes: layout.packet_bytes() + headers,
            burst: (longest, limits.0, limits.1),
            ..SendReport::default()
        };
        let first_timestamp = config.first_timestamp.unwrap_or(0);
        let next_report = Instant::now();
        let sequence = rand::random();
        let snapshot_writer = SnapshotWriter::new(config.format, std::mem::take(&mut config.snapshots));
        Ok(Self {
            config,
            snapshot_writer,
            layout,
            bursts,
            video,
            control,
            control_to,
            ssrc,
            first_timestamp,
            sequence,
            headers,
            report,
            payload_bytes: 0,
            ip_bytes: 0,
            next_report,
        })
    }

    fn run(
        &mut self,
        full: &Receiver<Numbered>,
        empty: &Channel<Vec<u8>>,
        stop: &AtomicBool,
        mut progress: impl FnMut(&SendReport),
    ) -> Result<SendReport, SendError> {
        if self.config.is_real_time {
            crate::priority::real_time().map_err(SendError::RealTime)?;
        }
        let mut origin = None;
        let mut shown = Instant::now();
        let mut ready = Instant::now();
        while let Some((number, frame)) = next_frame(full, stop) {
            let origin = *origin.get_or_insert_with(|| self.begin());
            self.note_lateness(number, origin, ready);
            self.send_frame(number, &frame, origin)?;
            ready = Instant::now();
            let _ = empty.send(frame);
            self.report.seconds =
                Duration::from_nanos(self.config.format.frame_start_ns(number + 1)).as_secs_f64();
            self.report.video_mbps = self.payload_bytes as f64 * 8.0 / 1e6 / self.report.seconds;
            self.report.ip_mbps = self.ip_bytes as f64 * 8.0 / 1e6 / self.report.seconds;
            self.control(origin, false);
            if shown.elapsed() >= Duration::from_secs(1) {
                shown = Instant::now();
                progress(&self.report);
            }
        }
        if let Some(origin) = origin {
            self.control(origin, true);
        }
        if let Some(digests) = &mut self.config.digests {
            digests.flush()?;
        }
        self.snapshot_writer.finish()?;
        self.report.packet_cpu = CpuSeconds::of_thread();
        Ok(self.report.clone())
    }

    /// Starts the stream's time with its first frame.
    fn begin(&mut self) -> Instant {
        self.first_timestamp = self.config.first_timestamp.unwrap_or_else(|| clock_ticks(SystemTime::now()));
        Instant::now()
    }

    /// Sends a frame's bursts, spread over the frame period.
    fn send_frame(&mut self, number: u64, frame: &[u8], origin: Instant) -> Result<(), SendError> {
        let format = self.config.format;
        let time = |field| self.first_timestamp.wrapping_add(format.ticks(number, field) as u32);
        let packets = self.layout.packets().len();
        self.layout.number(0..packets, self.sequence, [time(0), time(1)]);
        self.sequence = self.sequence.wrapping_add(packets as u32);
        self.note(number, time(0), frame)?;
        let begin_ns = format.frame_start_ns(number);
        let interval_ns = format.frame_start_ns(number + 1) - begin_ns;
        let begin = origin + Duration::from_nanos(begin_ns);
        for at in 0..self.bursts.len() {
            let due = begin + Duration::from_nanos(interval_ns * at as u64 / self.bursts.len() as u64);
            let now = Instant::now();
            match due.checked_duration_since(now) {
                Some(wait) => thread::sleep(wait),
                None => self.report.latest_us = self.report.latest_us.max((now - due).as_micros() as u64),
            }
            self.send_burst(at, frame)?;
        }
        self.report.frames += 1;
        self.report.packets += packets as u64;
        self.payload_bytes += format.frame_bytes() as u64;
        let bytes: usize =
            self.layout.packets().iter().map(|plan| self.layout.len_of(plan) + self.headers).sum();
        self.ip_bytes += bytes as u64;
        Ok(())
    }

    /// Counts a frame that starts late. `ready` is when the thread was free for it: if that was in
    /// time, the source was late.
    fn note_lateness(&mut self, number: u64, origin: Instant, ready: Instant) {
        let latest = origin + Duration::from_nanos(self.config.format.frame_start_ns(number + 1));
        let is_late = Instant::now() > latest;
        self.report.late_frames += u64::from(is_late);
        self.report.late_from_source += u64::from(is_late && ready <= latest);
    }

    fn send_burst(&mut self, at: usize, frame: &[u8]) -> Result<(), SendError> {
        let packets = &self.bursts[at];
        match send(&self.video, &self.layout, packets, frame) {
            Ok(()) => Ok(()),
            // ICMP's answer to an earlier packet: the destination has no listener, or not yet.
            // The rest of the burst was not sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                self.report.refused += packets.len() as u64;
                Ok(())
            }
            Err(error) => Err(match error.raw_os_error() {
                // Linux reports EINVAL for segments that are too long for the interface.
                Some(EMSGSIZE | EINVAL) => SendError::TooLong(self.report.packet_bytes),
                _ => error.into(),
            }),
        }
    }

    fn note(&mut self, number: u64, timestamp: u32, frame: &[u8]) -> io::Result<()> {
        if let Some(digests) = &mut self.config.digests {
            writeln!(digests, "{timestamp} {:08x}", crc32fast::hash(frame))?;
        }
        self.snapshot_writer.offer(number, frame)
    }

    /// Reads receivers' RTCP reports, and sends one when it is due.
    fn control(&mut self, origin: Instant, is_end: bool) {
        let mut bytes = [0; 1500];
        while let Ok(len) = self.control.recv(&mut bytes) {
            if let Some(control) = rtcp::read(&bytes[..len]) {
                self.take_feedback(&control);
            }
        }
        if !is_end && Instant::now() < self.next_report {
            return;
        }
        self.next_report = Instant::now() + rtcp::next_interval();
        let ticks = origin.elapsed().as_nanos() * u128::from(CLOCK_HZ) / 1_000_000_000;
        let sent = SenderInfo {
            ntp: rtcp::ntp(SystemTime::now()),
            timestamp: self.first_timestamp.wrapping_add(ticks as u32),
            packets: self.report.packets as u32,
            bytes: self.payload_bytes as u32,
        };
        if let Ok(packet) = rtcp::sender_report(self.ssrc, &sent, &self.config.name, is_end) {
            // RTCP tolerates lost reports, so a failed send counts as one.
            let _ = self.control.send_to(&packet, self.control_to);
        }
    }

    fn take_feedback(&mut self, control: &rtcp::Control) {
        for heard in control.heard.iter().filter(|heard| heard.source == self.ssrc) {
            let now = rtcp::middle(rtcp::ntp(SystemTime::now()));
            let round_trip = now.wrapping_sub(heard.last_report).wrapping_sub(heard.since_report);
            let is_known = heard.last_report != 0 && round_trip < u32::MAX / 2;
            self.report.feedback = Some(Feedback {
                lost: heard.reception.lost,
                fraction_lost: f64::from(heard.reception.fraction_lost) / 256.0,
                jitter_ms: f64::from(heard.reception.jitter) * 1000.0 / CLOCK_HZ as f64,
                round_trip_ms: is_known.then(|| f64::from(round_trip) * 1000.0 / 65_536.0),
            });
        }
    }
}

/// A time in ticks of the RTP clock since 1970.
fn clock_ticks(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_nanos() * u128::from(CLOCK_HZ) / 1_000_000_000) as u32
}

fn next_frame(full: &Receiver<Numbered>, stop: &AtomicBool) -> Option<Numbered> {
    while !stop.load(Ordering::Relaxed) {
        match full.recv_timeout(STOP_CHECK_INTERVAL) {
            Ok(frame) => return Some(frame),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}
