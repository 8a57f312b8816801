//! `convoy-lab hdtv send`.

use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use convoy_hdtv::{Depth, Format, Route, SendConfig, SendReport, VideoSource, describe, send_video};

use super::{
    Components, CountedFrom, SnapshotArg, cpu, depth, end_progress_line, failed, format, interface, is_pipe,
    is_y4m, lines_to, wrong,
};
use super::{progress_line, stop_on_signals};
use convoy_cli::Failure;

#[derive(Args)]
pub(crate) struct SendArgs {
    /// Address and port of the receiver's RTP, or of a multicast group; RTCP uses the next port
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// The network interface to send by. [default: the routes choose]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// How many routers packets may pass (TTL or hop limit). [default: 64 to a group, else the
    /// system's]
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// The video: a .y4m file, a file of raw frames, or - for a pipe of Y4M (with --y4m) or raw
    /// frames. Without it, a moving test picture
    #[arg(long, value_name = "FILE")]
    source: Option<PathBuf>,
    /// The pipe or the file carries Y4M, whatever its name
    #[arg(long, requires = "source")]
    y4m: bool,
    /// Size, scan and rate: 720p50, 720p60, 1080i50 (fields), 1080p29.97, or WIDTHxHEIGHT instead
    /// of the lines. A Y4M source has its own
    #[arg(long, default_value = "720p60", value_parser = format)]
    format: Format,
    /// The components of a pixel, unless the source is Y4M
    #[arg(long, value_enum, default_value = "ycbcr")]
    sampling: Components,
    /// Bits of a component as sent. [default: those of the source]
    #[arg(long, value_name = "8|10|12", value_parser = depth)]
    depth: Option<Depth>,
    /// Bits of a component of the source, unless it is Y4M; 10 bits can be sent as 8
    #[arg(long, value_name = "8|10|12", default_value = "8", value_parser = depth)]
    source_depth: Depth,
    /// How packets count the lines of an interlaced picture
    #[arg(long, value_enum, default_value = "field", value_name = "FROM")]
    line_numbers: CountedFrom,
    /// The longest IP packet, in bytes. Datagrams have at most 1460 bytes, or 8960 where this is
    /// more than 1500, as SMPTE ST 2110-10 allows
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    mtu: usize,
    /// The largest number of packets sent at once; 1 spreads them evenly. The default is the limit
    /// of SMPTE ST 2110-21 for wide senders at these rates
    #[arg(long, value_name = "PACKETS", default_value_t = 16)]
    burst: usize,
    /// Stop after this number of frames
    #[arg(long)]
    frames: Option<u64>,
    /// The RTP timestamp of the first frame. [default: the system's clock, as SMPTE ST 2110-10 has
    /// it]
    #[arg(long, value_name = "NUMBER")]
    first_timestamp: Option<u32>,
    /// Write the description of the stream (SDP) for receivers, with the parameters of SMPTE ST
    /// 2110-20
    #[arg(long, value_name = "FILE")]
    sdp: Option<PathBuf>,
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
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: SendArgs) -> Result<(), Failure> {
    let (source, format) = open(&args)?;
    let format = format.with_line_numbers(args.line_numbers.line_numbers());
    let config = SendConfig {
        route: Route { to: args.to, interface: interface(args.interface.as_ref())?, ttl: args.ttl },
        format,
        mtu: args.mtu,
        burst: args.burst,
        frames: args.frames,
        first_timestamp: args.first_timestamp,
        snapshots: args.snapshot.iter().map(|snapshot| snapshot.0.clone()).collect(),
        digests: lines_to(args.digests.as_ref())?,
        is_real_time: args.real_time,
        name: convoy_hdtv::rtcp::random_name(),
    };
    if let Some(path) = &args.sdp {
        write_description(path, &config)?;
    }
    let stop = stop_on_signals()?;
    let report = send_video(config, source, &stop, |report| {
        progress_line(format_args!(
            "{} frames sent, {:.0} Mbit/s of video",
            report.frames, report.video_mbps
        ));
    });
    end_progress_line();
    let report = report.map_err(failed)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report).map_err(failed)?);
    } else {
        print(&format, &report);
    }
    Ok(())
}

fn open(args: &SendArgs) -> Result<(VideoSource, Format), Failure> {
    let format = args.format.with_sampling(args.sampling.sampling()).with_depth(args.source_depth);
    let format = format.checked().map_err(|error| wrong(error.to_string()))?;
    let sent = args.depth.unwrap_or(args.source_depth);
    let Some(path) = &args.source else {
        let source = VideoSource::generated(format, sent).map_err(|error| wrong(error.to_string()))?;
        return Ok((source, format.with_depth(sent)));
    };
    let of_file = |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    let input: Box<dyn BufRead + Send> = if is_pipe(path) {
        Box::new(BufReader::with_capacity(1 << 20, stdin()))
    } else {
        Box::new(BufReader::with_capacity(1 << 20, File::open(path).map_err(|error| of_file(&error))?))
    };
    if args.y4m || is_y4m(path) {
        let (source, format) = VideoSource::y4m(input, args.depth).map_err(|error| of_file(&error))?;
        return Ok((source, format.with_depth(args.depth.unwrap_or(format.depth))));
    }
    let source = VideoSource::raw(input, format, sent).map_err(|error| wrong(error.to_string()))?;
    Ok((source, format.with_depth(sent)))
}

fn write_description(path: &Path, config: &SendConfig) -> Result<(), Failure> {
    let number = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let text = describe(config, number).map_err(failed)?;
    std::fs::write(path, text).map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

fn print(format: &Format, report: &SendReport) {
    let SendReport { frames, packets, seconds, .. } = report;
    println!("{frames} frames of {format} in {packets} packets, {seconds:.1} s");
    println!("{:.1} Mbit/s of video, {:.1} Mbit/s with RTP, UDP and IP", report.video_mbps, report.ip_mbps);
    let (burst, narrow, wide) = report.burst;
    println!(
        "{} packets of {} bytes per frame, bursts of up to {burst} (ST 2110-21: narrow {narrow}, wide {wide}), at most {:.1} ms late",
        report.packets_per_frame,
        report.packet_bytes,
        report.latest_us as f64 / 1000.0
    );
    if report.late_frames > 0 {
        println!(
            "{} frames were sent late but complete, {} of them because the source was late",
            report.late_frames, report.late_from_source
        );
    }
    if report.refused > 0 {
        println!("{} packets were refused, since no program listened at the destination", report.refused);
    }
    match &report.feedback {
        None => println!("no receiver reported"),
        Some(feedback) => {
            let round_trip =
                feedback.round_trip_ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms:.2} ms"));
            println!(
                "the receiver reported {} packets lost ({:.2} % of the last second's), jitter {:.3} ms, round trip {round_trip}",
                feedback.lost,
                feedback.fraction_lost * 100.0,
                feedback.jitter_ms
            );
        }
    }
    let busy_seconds = report.busy_seconds;
    println!(
        "{}; {}",
        cpu("video", report.source_cpu, busy_seconds),
        cpu("packets", report.packet_cpu, busy_seconds)
    );
}
