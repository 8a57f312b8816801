//! The command line of `convoy sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use convoy_sim::{Pattern, Setting};

#[derive(Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(super) command: SimCommand,
}

#[derive(Subcommand)]
pub(super) enum SimCommand {
    /// One run: what share goes where, what throughput, what latency
    Run(Box<RunArgs>),
    /// The highest rate without loss, by binary search (RFC 2544)
    Ndr(Box<NdrArgs>),
    /// A grid of runs over all cores, into a file of results; goes on where it was interrupted
    Sweep(SweepArgs),
    /// A paper's figures, and what becomes of its claims
    Figures(FiguresArgs),
    /// What this machine's engines would do with a capture: the best window, and what each engine brings
    Plan(PlanArgs),
}

#[derive(Args)]
pub(super) struct PlanArgs {
    /// The gateway's configuration: its engines and policies
    #[arg(short, long, value_name = "GATEWAY.toml")]
    pub(super) config: PathBuf,
    /// A capture of the inside: pcap or pcapng
    #[arg(long, value_name = "FILE.pcap")]
    pub(super) trace: PathBuf,
    /// Packets of the capture that count
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(super) packets: usize,
    /// Rate at which packets arrive [default: there are always more]
    #[arg(long, value_name = "R")]
    pub(super) rate_mbps: Option<f64>,
    /// Also send the capture through the gateway itself so often, and hold the prediction against it
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "30")]
    pub(super) measure: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct SweepArgs {
    /// The sweep: examples/sweep.toml is one
    #[arg(value_name = "FILE.toml")]
    pub(super) file: PathBuf,
    /// File of results, one line of JSON a point; a table goes beside it [default: FILE.jsonl]
    #[arg(long, value_name = "FILE.jsonl")]
    pub(super) out: Option<PathBuf>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
}

#[derive(Args)]
pub(super) struct FiguresArgs {
    /// Whose figures
    #[arg(long, value_name = "NAME", default_value = "small-packets")]
    pub(super) paper: PaperName,
    /// Folder of the figures, tables and the report; it is made where it is not there
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Packets of each run or trial behind a figure [default: 500,000 of small-packets, 20,000 of the others]
    #[arg(long, value_name = "N")]
    pub(super) packets: Option<u64>,
    /// The same over what the paper leaves open [default: 30,000 or 3,000, at most those of --packets]
    #[arg(long, value_name = "N")]
    pub(super) range_packets: Option<u64>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Print claims and files as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct NdrArgs {
    /// A file, or the name of a platform that comes with the program
    #[arg(value_name = "PLATFORM.toml")]
    pub(super) platform: String,
    /// exponential, uniform, trace, imix, or a payload size in bytes
    #[arg(long, value_name = "NAME", default_value = "trace")]
    pub(super) pattern: Pattern,
    /// Packets of each trial; a queue of N hides an overload of less than N over them
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(super) packets: u64,
    /// SAs [default: 100]
    #[arg(long, value_name = "N")]
    pub(super) sas: Option<u32>,
    /// Rate of the line, above which nothing is offered, in Mbit/s [default: the platform's]
    #[arg(long, value_name = "MBPS")]
    pub(super) rate_mbps: Option<f64>,
    /// Part of the packets that may be lost
    #[arg(long, value_name = "RATIO", default_value_t = 0.0)]
    pub(super) loss_ratio: f64,
    /// How near the result is to a rate that loses more, as a part of it
    #[arg(long, value_name = "PART", default_value_t = 0.001)]
    pub(super) resolution: f64,
    /// Packets arrive as a Poisson process, not evenly spaced
    #[arg(long)]
    pub(super) poisson: bool,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    /// Seed of sizes, SAs and random arrivals
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Print the result and every trial as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A paper whose figures can be made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PaperName {
    /// Scheduling Small Packets in IPSec Multi-accelerator Based Systems: figures 3 to 15
    SmallPackets,
    /// VPN Gateways over Network Processors: figures 6 and 8 to 15
    Ixp425,
    /// The two GRIP papers: the MTU sweep (figure 1) and the profile (figure 3)
    Grip,
}

/// Which SA a captured packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SaBy {
    /// One SA for each destination address
    Destination,
    /// The tunnels of --config; what none protects is left out
    Policies,
}

/// What counts as a captured packet's length.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Length {
    /// What TCP or UDP carries, to which the platform adds its header
    Payload,
    /// The whole IP packet
    Packet,
}

#[derive(Args)]
pub(super) struct RunArgs {
    /// A file, or the name of a platform that comes with the program: grip, grip-inline, ixp425, pci-accelerators, pentium3
    #[arg(value_name = "PLATFORM.toml")]
    pub(super) platform: String,
    #[command(flatten)]
    pub(super) traffic: TrafficArgs,
    #[command(flatten)]
    pub(super) arrivals: ArrivalArgs,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
    /// Seed of sizes, SAs and random arrivals
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Traffic")]
pub(super) struct TrafficArgs {
    /// exponential, uniform, trace (synthetic, fitted to the paper's), imix, or a payload size in bytes
    #[arg(long, value_name = "NAME", conflicts_with = "trace", default_value = "trace")]
    pub(super) pattern: Pattern,
    /// A capture (pcap, pcapng) or the six columns of the Internet Traffic Archive, told apart by content
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Packets, 500,000 of a pattern and all of a trace without
    #[arg(long, value_name = "N")]
    pub(super) packets: Option<u64>,
    /// SAs of a pattern [default: 100]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(super) sas: Option<u32>,
    /// Exponent of Zipf's law by which a pattern's SAs are chosen; 0 makes them equiprobable [default: 0]
    #[arg(long, value_name = "S", conflicts_with = "trace")]
    pub(super) popularity: Option<f64>,
    /// Chance that a packet of a pattern has the SA of the one before [default: 0; 0.56, fitted, for trace]
    #[arg(long, value_name = "P", conflicts_with = "trace")]
    pub(super) locality: Option<f64>,
    /// Which SA a captured packet belongs to
    #[arg(long, value_name = "WHAT", requires = "trace", default_value = "destination")]
    pub(super) sa_by: SaBy,
    /// The gateway's configuration, for --sa-by policies
    #[arg(long, value_name = "GATEWAY.toml", required_if_eq("sa_by", "policies"))]
    pub(super) config: Option<PathBuf>,
    /// What counts as a captured packet's length
    #[arg(long, value_name = "WHAT", requires = "trace", default_value = "payload")]
    pub(super) length: Length,
}

#[derive(Args)]
#[command(next_help_heading = "Arrivals (back to back without)")]
pub(super) struct ArrivalArgs {
    /// Rate of the line on which packets come back to back, in Mbit/s
    #[arg(long, value_name = "MBPS")]
    pub(super) rate_mbps: Option<f64>,
    /// So many packets a second, evenly spaced
    #[arg(long, value_name = "N", conflicts_with = "as_captured")]
    pub(super) rate_pps: Option<f64>,
    /// With --rate-pps: as a Poisson process
    #[arg(long, requires = "rate_pps")]
    pub(super) poisson: bool,
    /// As the trace's timestamps say
    #[arg(long, requires = "trace")]
    pub(super) as_captured: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Changes to the platform")]
pub(super) struct ChangeArgs {
    /// The platform in another of the settings that its file names, `+` between several
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Packets that an ingress queue holds; what finds it full is dropped, and the source never waits
    #[arg(long, value_name = "N")]
    queue_packets: Option<usize>,
    /// The same in bytes, with the platform's header
    #[arg(long, value_name = "BYTES")]
    queue_bytes: Option<u64>,
    /// The window, in packets; 1 switches bundling off
    #[arg(long, value_name = "W")]
    window: Option<usize>,
    /// How many accelerators there are
    #[arg(long, value_name = "A")]
    accelerators: Option<usize>,
    /// The CPU's time to begin, over the accelerator's
    #[arg(long, value_name = "R")]
    init_ratio: Option<f64>,
    /// The CPU's time for a block, over the accelerator's
    #[arg(long, value_name = "R")]
    enc_ratio: Option<f64>,
    /// How many may wait for each processor
    #[arg(long, value_name = "D")]
    depth: Option<usize>,
    /// The accelerator's time to begin, in microseconds
    #[arg(long, value_name = "US")]
    t_init_us: Option<f64>,
    /// finishing-time, cpu-only, round-robin, packet-size, first-capable, least-loaded
    #[arg(long, value_name = "P")]
    policy: Option<String>,
    /// Where the processor with the lowest finishing time has a full queue: wait for it, or skip it
    #[arg(long, value_name = "wait|skip")]
    full_queue: Option<String>,
    /// What --depth counts: multi-packets or packets
    #[arg(long, value_name = "UNIT")]
    depth_unit: Option<String>,
    /// Multi-packets of other SAs pass one that waits for a full queue
    #[arg(long)]
    overtake: bool,
    /// Bytes at which a multi-packet is closed
    #[arg(long, value_name = "BYTES")]
    byte_limit: Option<u32>,
    /// Time after which the window is closed, in microseconds
    #[arg(long, value_name = "US")]
    max_wait_us: Option<f64>,
    /// Accelerators move the next input in while they compute
    #[arg(long)]
    prefetch: bool,
    /// Accelerators move the last output out while they compute
    #[arg(long)]
    write_buffer: bool,
}

impl RunArgs {
    /// What is changed in the platform, and the pattern.
    pub(super) fn setting(&self) -> Setting {
        let traffic = &self.traffic;
        let pattern = traffic.trace.is_none();
        Setting {
            pattern: pattern.then(|| traffic.pattern.to_string()),
            packets: traffic.packets,
            seed: Some(self.seed),
            sas: traffic.sas,
            popularity: traffic.popularity,
            locality: traffic.locality,
            rate_mbps: self.arrivals.rate_mbps,
            ..self.changes.setting()
        }
    }
}

impl ChangeArgs {
    /// What is changed in the platform, and nothing of the traffic.
    pub(super) fn setting(&self) -> Setting {
        Setting {
            variant: self.variant.clone(),
            queue_packets: self.queue_packets,
            queue_bytes: self.queue_bytes,
            window: self.window,
            accelerators: self.accelerators,
            init_ratio: self.init_ratio,
            enc_ratio: self.enc_ratio,
            depth: self.depth,
            t_init_us: self.t_init_us,
            policy: self.policy.clone(),
            full_queue: self.full_queue.clone(),
            depth_unit: self.depth_unit.clone(),
            overtake: self.overtake.then_some(true),
            byte_limit: self.byte_limit,
            max_wait_us: self.max_wait_us,
            prefetch: self.prefetch.then_some(true),
            write_buffer: self.write_buffer.then_some(true),
            ..Setting::default()
        }
    }
}
