//! `convoy-lab hdtv receive`.

use std::fs::File;
use std::io::{Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use convoy_hdtv::{
    Concealment, Container, Depth, Description, Format, ListenAddress, Output, PAYLOAD_TYPE, Rate,
    ReceiveConfig, ReceiveReport, View, receive_video,
};

use super::{
    Components, CountedFrom, SnapshotArg, cpu, depth, end_progress_line, failed, format, interface, is_pipe,
    is_y4m, lines_to, rate, wrong,
};
use super::{progress_line, stop_on_signals};
use convoy_cli::Failure;

/// How missing parts of a frame are filled.
#[derive(Clone, Copy, ValueEnum)]
enum Fill {
    /// The same part of the previous frame
    Previous,
    /// The lines above and below
    Interpolate,
    /// Zeros
    None,
}

#[derive(Args)]
pub(crate) struct ReceiveArgs {
    /// The description of the stream (SDP), for example from `convoy-lab hdtv send --sdp`. Without
    /// it, --listen and --format describe the stream
    #[arg(long, value_name = "FILE")]
    sdp: Option<PathBuf>,
    /// Address and port for RTP; RTCP uses the next port. A multicast group is joined. [default:
    /// the group of the SDP file, else its port, else 5004, on every address]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The network interface to receive by and to join the group on. [default: every interface; the
    /// routes choose that of a group]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// A source of the group: only packets from it are received (source-specific multicast); may be
    /// given more than once. [default: those of the SDP file, else any]
    #[arg(long, value_name = "ADDRESS")]
    from: Vec<IpAddr>,
    /// Frames per second, where the SDP file has none or a wrong one
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "sdp")]
    rate: Option<Rate>,
    /// Size, scan and rate, as for `convoy-lab hdtv send`
    #[arg(long, default_value = "720p60", value_parser = format, conflicts_with = "sdp")]
    format: Format,
    /// The components of a pixel
    #[arg(long, value_enum, default_value = "ycbcr", conflicts_with = "sdp")]
    sampling: Components,
    /// Bits of a component
    #[arg(long, value_name = "8|10|12", default_value = "8", value_parser = depth, conflicts_with = "sdp")]
    depth: Depth,
    /// How packets count the lines of an interlaced picture
    #[arg(long, value_enum, default_value = "field", value_name = "FROM")]
    line_numbers: CountedFrom,
    /// The payload type of the video
    #[arg(long, value_name = "NUMBER", default_value_t = PAYLOAD_TYPE, conflicts_with = "sdp")]
    payload_type: u8,
    /// Where frames are written: a .y4m file, a file of raw frames, or - for a pipe, for ffplay or
    /// GStreamer
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write Y4M, whatever the file's name
    #[arg(long, requires = "output")]
    y4m: bool,
    /// The jitter buffer: how late packets may be, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 40)]
    delay_ms: u64,
    /// How missing parts of a frame are filled
    #[arg(long, value_enum, default_value = "previous")]
    conceal: Fill,
    /// Stop after this number of frames
    #[arg(long)]
    frames: Option<u64>,
    /// The RTP timestamp of frame 0, as given to the sender. [default: that of the first received
    /// frame]
    #[arg(long, value_name = "NUMBER")]
    first_timestamp: Option<u32>,
    /// Compare frames with the moving test picture and report the PSNR
    #[arg(long)]
    compare: bool,
    /// Write the frame of this number as a PNG; may be given more than once
    #[arg(long, value_name = "NUMBER:FILE")]
    snapshot: Vec<SnapshotArg>,
    /// Write a line for each frame: its RTP timestamp and the CRC-32 of its bytes
    #[arg(long, value_name = "FILE")]
    digests: Option<PathBuf>,
    /// Run the packet thread with real-time priority (SCHED_RR; needs root, CAP_SYS_NICE or
    /// RLIMIT_RTPRIO)
    #[arg(long)]
    real_time: bool,
    /// Print the report as JSON, on standard error if the video is written to a pipe
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ReceiveArgs) -> Result<(), Failure> {
    let config = configure(&args)?;
    let view = View {
        output: open(&args, config.format)?,
        snapshots: args.snapshot.iter().map(|snapshot| snapshot.0.clone()).collect(),
        digests: lines_to(args.digests.as_ref())?,
        compares: args.compare,
        first_timestamp: args.first_timestamp,
    };
    let stop = stop_on_signals()?;
    let format = config.format;
    let report = receive_video(config, view, &stop, |report| {
        let counts = &report.counts;
        progress_line(format_args!(
            "{} frames, {:.0} Mbit/s of video, {} packets lost, jitter {:.2} ms",
            counts.frames, report.video_mbps, counts.lost, report.jitter_ms
        ));
    });
    end_progress_line();
    let report = report.map_err(failed)?;
    let text = if args.json {
        serde_json::to_string_pretty(&report).map_err(failed)?
    } else {
        describe(&format, &report).join("\n")
    };
    if args.output.as_deref().is_some_and(is_pipe) {
        eprintln!("{text}");
    } else {
        println!("{text}");
    }
    Ok(())
}

fn configure(args: &ReceiveArgs) -> Result<ReceiveConfig, Failure> {
    let described = args.sdp.as_ref().map(|path| read_description(path, args.rate)).transpose()?;
    let own = args.format.with_sampling(args.sampling.sampling()).with_depth(args.depth);
    let (format, payload_type) = match &described {
        Some(described) => (described.format, described.payload_type),
        None => (own.checked().map_err(|error| wrong(error.to_string()))?, args.payload_type),
    };
    let concealment = match args.conceal {
        Fill::Previous => Concealment::Previous,
        Fill::Interpolate => Concealment::Interpolate,
        Fill::None => Concealment::None,
    };
    Ok(ReceiveConfig {
        listen: listen_address(args, described.as_ref())?,
        format: format.with_line_numbers(args.line_numbers.line_numbers()),
        payload_type,
        delay: Duration::from_millis(args.delay_ms.min(10_000)),
        concealment,
        frames: args.frames,
        is_real_time: args.real_time,
        name: convoy_hdtv::rtcp::random_name(),
    })
}

fn read_description(path: &Path, rate: Option<Rate>) -> Result<Description, Failure> {
    let of_file = |error: &dyn std::fmt::Display| wrong(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| of_file(&error))?;
    Description::read(&text, rate).map_err(|error| of_file(&error))
}

/// Where the stream arrives. A described address that is no group is the one that the sender sends
/// to, so its port is used, at any address of this host.
fn listen_address(args: &ReceiveArgs, described: Option<&Description>) -> Result<ListenAddress, Failure> {
    let any = |of: IpAddr| if of.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
    let mut sources = args.from.clone();
    let address = match (args.listen, described) {
        (Some(address), _) => address,
        (None, None) => SocketAddr::new([0; 4].into(), 5004),
        (None, Some(described)) if described.to.ip().is_multicast() => described.to,
        (None, Some(described)) => SocketAddr::new(any(described.to.ip()), described.to.port()),
    };
    if let Some(described) = described.filter(|_| sources.is_empty()) {
        if described.to.ip() == address.ip() && address.ip().is_multicast() {
            sources.clone_from(&described.sources);
        } else if !described.sources.is_empty() {
            eprintln!(
                "warning: the SDP file's a=source-filter applies to its group only; packets of any source are accepted"
            );
        }
    }
    let address = ListenAddress { address, interface: interface(args.interface.as_ref())?, sources };
    address.checked().map_err(|error| wrong(error.to_string()))
}

fn open(args: &ReceiveArgs, format: Format) -> Result<Option<Output>, Failure> {
    let Some(path) = &args.output else { return Ok(None) };
    let of_file = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let writer: Box<dyn Write + Send> = if is_pipe(path) {
        Box::new(stdout())
    } else {
        Box::new(File::create(path).map_err(|error| of_file(&error))?)
    };
    let container = if args.y4m || is_y4m(path) { Container::Y4m } else { Container::Raw };
    Output::new(writer, container, format).map(Some).map_err(|error| of_file(&error))
}

fn describe(format: &Format, report: &ReceiveReport) -> Vec<String> {
    let counts = &report.counts;
    let mut lines = vec![
        format!(
            "{} frames of {format}, {} complete, {} missing between them; {:.1} Mbit/s of video in {:.1} s",
            counts.frames, counts.whole_frames, counts.missing_frames, report.video_mbps, report.seconds
        ),
        format!(
            "{} packets, {} lost, {} reordered, {} duplicated, {} late; jitter {:.3} ms",
            counts.packets, counts.lost, counts.reordered, counts.duplicates, counts.late, report.jitter_ms
        ),
    ];
    let pixels = counts.in_place_bytes + counts.copied_bytes;
    if pixels > 0 && report.receive_calls > 0 {
        lines.push(format!(
            "{:.2} % of the pixels received directly into the frame, {:.1} packets per system call",
            100.0 * counts.in_place_bytes as f64 / pixels as f64,
            counts.packets as f64 / report.receive_calls as f64
        ));
    }
    let odd = [
        (counts.malformed, "packets were not RTP or did not fit the format"),
        (counts.foreign, "packets were of other streams"),
        (counts.scrap_frames, "frames were not shown, since less than a tenth of each arrived"),
        (counts.no_memory, "packets found no free frame memory"),
        (report.skipped_frames, "frames were skipped, since earlier ones took too long to show or to write"),
    ];
    lines.extend(odd.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    if report.compared_frames > 0 {
        let psnr = report.psnr_db.map_or_else(|| "infinite".to_owned(), |psnr| format!("{psnr:.2} dB"));
        let equal = report.equal_frames;
        lines.push(format!("{equal} of {} frames bit for bit as sent, PSNR {psnr}", report.compared_frames));
    }
    // Without a packet there is no time in which they could have been busy.
    let busy_seconds = report.busy_seconds;
    if busy_seconds > 0.0 {
        lines.push(format!(
            "{}; {}",
            cpu("packets", report.packet_cpu, busy_seconds),
            cpu("video", report.view_cpu, busy_seconds)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use convoy_hdtv::{Counts, CpuSeconds};

    use super::*;

    fn lines(report: &ReceiveReport) -> Vec<String> {
        describe(&"720p60".parse().expect("a name"), report)
    }

    #[test]
    fn a_report_without_packets_has_no_ratios() {
        let view_cpu = CpuSeconds { user: 0.013, ..CpuSeconds::default() };
        let text = lines(&ReceiveReport { view_cpu, ..ReceiveReport::default() }).join("\n");
        assert!(text.starts_with("0 frames") && !text.contains('%') && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn processor_times_are_relative_to_the_time_over_which_they_were_counted() {
        let counts = Counts { packets: 2, scrap_frames: 2, copied_bytes: 16, ..Counts::default() };
        let packet_cpu = CpuSeconds { user: 0.5, ..CpuSeconds::default() };
        let report = ReceiveReport {
            counts,
            packet_cpu,
            seconds: 0.001,
            busy_seconds: 2.0,
            receive_calls: 2,
            ..ReceiveReport::default()
        };
        let text = lines(&report).join("\n");
        assert!(text.contains("packets 25.0 % of a core"), "{text}");
        assert!(text.contains("2 frames were not shown"), "{text}");
    }
}
