//! The receiver: one thread receives packets, another one processes the frames. When the viewer is
//! slow, frames are skipped but no packets are lost.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender as Channel, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use crate::assembler::{Assembler, Counts, Finished};
use crate::conceal::Concealment;
use crate::format::{CLOCK_HZ, Format};
use crate::group::{GroupError, ListenAddress};
use crate::psnr::Difference;
use crate::rtcp::{self, ReceptionBlock, SenderInfo};
use crate::scatter::{Scatter, receiving_socket};
use crate::usage::CpuSeconds;
use crate::viewer::{View, Viewer};

/// Minimum length of the viewer's queue, in frames. It is longer where the jitter buffer is: the
/// viewer may then be late by as much.
const FRAMES_TO_VIEW: usize = 4;
/// How long packets gather in the socket before they are received together. This saves system
/// calls; the socket buffer holds far more.
const GATHER_TIME: Duration = Duration::from_micros(500);
/// How often the receiver checks whether it should stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How long the receiver waits for packets in flight after the sender has announced its end.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiveConfig {
    /// Where RTP arrives; RTCP uses the next port.
    pub listen: ListenAddress,
    /// The video format.
    pub format: Format,
    /// RTP payload type of the video.
    pub payload_type: u8,
    /// Depth of the jitter buffer: a frame is displayed this long after it should have been
    /// complete.
    pub delay: Duration,
    /// How holes are filled.
    pub concealment: Concealment,
    /// Frames to show; `None` for no limit.
    pub frames: Option<u64>,
    /// Whether the receiving thread gets real-time priority.
    pub is_real_time: bool,
    /// Name in RTCP reports (CNAME).
    pub name: String,
}

/// Why receiving failed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The address cannot be bound.
    #[error("cannot listen on UDP {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The interface or the group cannot be used.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The user lacks the permission for real-time priority.
    #[error(
        "cannot have real-time priority: {0}; run as root, or with CAP_SYS_NICE or a limit RLIMIT_RTPRIO of 1 (`ulimit -r 1`)"
    )]
    RealTime(io::Error),
    /// A socket or a thread failed.
    #[error("cannot receive: {0}")]
    Io(#[from] io::Error),
    /// Writing the frames failed.
    #[error("cannot write the video: {0}")]
    Output(io::Error),
}

/// Result of receiving.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReceiveReport {
    /// Counters of packets and frames.
    pub counts: Counts,
    /// Frames that were not displayed because the viewer was still busy.
    pub skipped_frames: u64,
    /// Seconds from the first packet to the last.
    pub seconds: f64,
    /// Rate of the video data in Mbit/s.
    pub video_mbps: f64,
    /// Interarrival jitter (RFC 3550) in milliseconds, measured on the first packets of frames.
    pub jitter_ms: f64,
    /// System calls that received packets.
    pub receive_calls: u64,
    /// Frames that were compared with the moving test picture; 0 without comparison.
    pub compared_frames: u64,
    /// Compared frames that were identical.
    pub equal_frames: u64,
    /// PSNR of all compared frames, in dB; `None` where nothing differs.
    pub psnr_db: Option<f64>,
    /// Seconds from the first packet until everything was received and viewed, over which the
    /// processor times were counted; 0 without a packet.
    pub busy_seconds: f64,
    /// Processor time of the receiving thread, from the first packet on.
    pub packet_cpu: CpuSeconds,
    /// Processor time of the viewer's thread.
    pub view_cpu: CpuSeconds,
}

/// Receives until the stream ends, the requested number of frames is reached, or `stop` is set.
/// Calls `progress` once per second.
///
/// # Errors
/// See [`ReceiveError`].
pub fn receive_video(
    config: ReceiveConfig,
    view: View,
    stop: &AtomicBool,
    progress: impl FnMut(&ReceiveReport),
) -> Result<ReceiveReport, ReceiveError> {
    let viewer = Viewer::new(config.format, config.concealment, view);
    let (due_tx, due_rx) = sync_channel(frames_to_view(&config));
    let (free_tx, free_rx) = channel();
    let mut reception = ReceivedStream::open(config)?;
    thread::scope(|scope| {
        let viewing = thread::Builder::new()
            .name("video".to_owned())
            .spawn_scoped(scope, move || view_frames(viewer, &due_rx, &free_tx))?;
        let received = reception.run(due_tx, &free_rx, stop, progress);
        let failed = || io::Error::other("the thread of the video failed");
        let (difference, view_cpu) = viewing.join().map_err(|_| failed())?.map_err(ReceiveError::Output)?;
        let mut report = received?;
        report.view_cpu = view_cpu;
        report.busy_seconds = reception.since_first_ns() as f64 / 1e9;
        (report.compared_frames, report.equal_frames) = (difference.frames(), difference.equal_frames());
        report.psnr_db = difference.psnr_db();
        Ok(report)
    })
}

fn frames_to_view(config: &ReceiveConfig) -> usize {
    FRAMES_TO_VIEW + (config.delay.as_secs_f64() * config.format.rate.hz()) as usize
}

fn view_frames(
    mut viewer: Viewer,
    due: &Receiver<Finished>,
    free: &Channel<Vec<u8>>,
) -> io::Result<(Difference, CpuSeconds)> {
    while let Ok(frame) = due.recv() {
        if let Some(bytes) = viewer.process(frame)? {
            let _ = free.send(bytes);
        }
    }
    Ok((viewer.finish()?, CpuSeconds::of_thread()))
}

/// Opens a socket for what arrives at this port of an address or a group.
fn listen(at: &ListenAddress, port: u16) -> Result<UdpSocket, ReceiveError> {
    let socket = receiving_socket(at.address)?;
    at.prepare(&socket)?;
    let address = at.bind_address(port);
    socket.bind(&address.into()).map_err(|error| ReceiveError::Listen { address, error })?;
    at.join(&socket)?;
    Ok(socket.into())
}

/// State of the receiving thread.
struct ReceivedStream {
    config: ReceiveConfig,
    video: UdpSocket,
    control: UdpSocket,
    assembler: Assembler,
    scatter: Scatter,
    start: Instant,
    ssrc: u32,
    report: ReceiveReport,
    first_ns: Option<u64>,
    /// Processor time of the receiving thread until the first packet.
    cpu_before: CpuSeconds,
    /// The sender's last report, when it arrived and from where.
    sent: Option<(SenderInfo, Instant, SocketAddr)>,
    next_report: Instant,
    ended: Option<Instant>,
}

impl ReceivedStream {
    fn open(config: ReceiveConfig) -> Result<Self, ReceiveError> {
        let port = config.listen.address.port();
        let video = listen(&config.listen, port)?;
        let control = listen(&config.listen, port.wrapping_add(1))?;
        let interval = Duration::from_nanos(config.format.frame_start_ns(1));
        // The packets of a frame are spread over its whole period.
        let delay = interval + config.delay;
        let waiting = delay.as_nanos().div_ceil(interval.as_nanos().max(1)) as usize + 2;
        let frames = waiting + frames_to_view(&config) + 3;
        let assembler = Assembler::new(
            config.format,
            config.payload_type,
            frames,
            delay.as_nanos().try_into().unwrap_or(u64::MAX),
        );
        let start = Instant::now();
        Ok(Self {
            config,
            video,
            control,
            assembler,
            scatter: Scatter::new(),
            start,
            ssrc: rand::random(),
            report: ReceiveReport::default(),
            first_ns: None,
            cpu_before: CpuSeconds::default(),
            sent: None,
            next_report: start + rtcp::next_interval(),
            ended: None,
        })
    }

    fn run(
        &mut self,
        due: SyncSender<Finished>,
        free: &Receiver<Vec<u8>>,
        stop: &AtomicBool,
        mut progress: impl FnMut(&ReceiveReport),
    ) -> Result<ReceiveReport, ReceiveError> {
        if self.config.is_real_time {
            crate::priority::real_time().map_err(ReceiveError::RealTime)?;
        }
        let mut shown = Instant::now();
        while !stop.load(Ordering::Relaxed) && !self.has_ended() {
            while let Ok(bytes) = free.try_recv() {
                self.assembler.give_back(bytes);
            }
            let may_have_more = self.receive()?;
            let now_ns = self.now_ns();
            while let Some(frame) = self.assembler.poll(now_ns) {
                if !self.hand_over(frame, &due) {
                    return self.finish();
                }
            }
            self.control();
            if shown.elapsed() >= Duration::from_secs(1) {
                shown = Instant::now();
                self.update_report();
                progress(&self.report);
            }
            if !may_have_more {
                self.wait(now_ns)?;
            }
        }
        while !self.has_enough()
            && let Some(frame) = self.assembler.flush()
            && due.send(frame).is_ok()
        {}
        self.finish()
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn receive(&mut self) -> io::Result<bool> {
        let now_ns = self.now_ns();
        let before = self.assembler.counts().packets;
        let may_have_more = self.scatter.receive(&self.video, &mut self.assembler, now_ns)?;
        if self.assembler.counts().packets > before {
            self.report.receive_calls += 1;
            if self.first_ns.is_none() {
                self.cpu_before = CpuSeconds::of_thread();
            }
            let first = *self.first_ns.get_or_insert(now_ns);
            self.report.seconds = (now_ns - first) as f64 / 1e9;
        }
        Ok(may_have_more)
    }

    /// Nanoseconds since the first packet; 0 without one.
    fn since_first_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first| self.now_ns() - first)
    }

    /// Passes a frame to the viewer. Returns `false` once the viewer has ended or enough frames
    /// were shown.
    fn hand_over(&mut self, frame: Finished, due: &SyncSender<Finished>) -> bool {
        match due.try_send(frame) {
            Ok(()) => {}
            Err(TrySendError::Full(frame)) => {
                self.report.skipped_frames += 1;
                self.assembler.give_back(frame.bytes);
            }
            Err(TrySendError::Disconnected(_)) => return false,
        }
        !self.has_enough()
    }

    fn has_enough(&self) -> bool {
        self.config.frames.is_some_and(|frames| self.assembler.counts().frames >= frames)
    }

    fn has_ended(&self) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() >= DRAIN_TIME)
    }

    /// Waits for packets, or until a frame is due.
    fn wait(&self, now_ns: u64) -> io::Result<()> {
        let until_due = self
            .assembler
            .next_due_ns()
            .map_or(STOP_CHECK_INTERVAL, |due| Duration::from_nanos(due.saturating_sub(now_ns)));
        let limit = PollTimeout::try_from(until_due.min(STOP_CHECK_INTERVAL).as_millis() as i32)
            .unwrap_or(PollTimeout::ZERO);
        let mut sockets = [PollFd::new(self.video.as_fd(), PollFlags::POLLIN)];
        match poll(&mut sockets, limit) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        thread::sleep(GATHER_TIME.min(until_due));
        Ok(())
    }

    /// Reads the sender's RTCP reports, and sends one when it is due.
    fn control(&mut self) {
        let mut bytes = [0; 1500];
        while let Ok((len, from)) = self.control.recv_from(&mut bytes) {
            let Some(control) = rtcp::read(&bytes[..len]) else { continue };
            let source = self.assembler.source();
            if let Some((_, sent)) = control.sent.filter(|(ssrc, _)| Some(*ssrc) == source) {
                self.sent = Some((sent, Instant::now(), from));
            }
            if source.is_some_and(|source| control.ended.contains(&source)) {
                self.ended.get_or_insert_with(Instant::now);
            }
        }
        if Instant::now() < self.next_report {
            return;
        }
        self.next_report = Instant::now() + rtcp::next_interval();
        let (Some((sent, at, to)), Some(source)) = (&self.sent, self.assembler.source()) else { return };
        let since_report = (at.elapsed().as_secs_f64() * 65_536.0) as u32;
        let reception = self.assembler.reception().report();
        let heard = ReceptionBlock { source, reception, last_report: rtcp::middle(sent.ntp), since_report };
        if let Ok(packet) = rtcp::receiver_report(self.ssrc, &heard, &self.config.name) {
            // RTCP tolerates lost reports, so a failed send counts as one.
            let _ = self.control.send_to(&packet, to);
        }
    }

    fn update_report(&mut self) {
        self.report.counts = self.assembler.counts();
        let pixels = self.report.counts.in_place_bytes + self.report.counts.copied_bytes;
        // A frame's packets are those of its period, however soon after one another they came.
        let period = self.config.format.frame_start_ns(1) as f64 / 1e9;
        self.report.video_mbps = pixels as f64 * 8.0 / 1e6 / self.report.seconds.max(period);
        self.report.jitter_ms = f64::from(self.assembler.reception().jitter()) * 1000.0 / CLOCK_HZ as f64;
    }

    fn finish(&mut self) -> Result<ReceiveReport, ReceiveError> {
        self.update_report();
        self.report.packet_cpu = CpuSeconds::of_thread() - self.cpu_before;
        Ok(self.report.clone())
    }
}
