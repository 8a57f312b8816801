//! The command line of `convoy-lab sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use convoy_scheduler::SchedulingPolicy;
use convoy_sim::{Pattern, Setting};

#[derive(Args)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(super) command: SimCommand,
}

#[derive(Subcommand)]
pub(super) enum SimCommand {
    /// Simulate one run: shares of the engines, throughput, latency
    Run(Box<RunArgs>),
    /// Find the highest rate without loss by binary search (RFC 2544)
    Ndr(Box<NdrArgs>),
    /// Simulate a grid of runs on all cores and write the results to a file; an interrupted sweep
    /// is resumed
    Sweep(SweepArgs),
    /// Reproduce the figures of a paper and check its claims
    Figures(FiguresArgs),
    /// Predict how this machine's engines would process a capture: the best window, and the benefit
    /// of each engine
    Plan(PlanArgs),
}

#[derive(Args)]
pub(super) struct PlanArgs {
    /// The gateway's configuration: its engines and policies
    #[arg(short, long, value_name = "GATEWAY.toml")]
    pub(super) config: PathBuf,
    /// A capture of the plaintext side: pcap or pcapng
    #[arg(long, value_name = "FILE.pcap")]
    pub(super) trace: PathBuf,
    /// Number of packets of the capture to use
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(super) packets: usize,
    /// Rate at which packets arrive [default: a packet is always waiting]
    #[arg(long, value_name = "R")]
    pub(super) rate_mbps: Option<f64>,
    /// Also predict what the accelerators of this platform would bring beside the configured
    /// engines: a file or a built-in platform, for example connectx-7, bluefield-3 or qat-gen4; can
    /// be repeated
    #[arg(long = "card", value_name = "PLATFORM")]
    pub(super) cards: Vec<String>,
    /// Also send the capture through the gateway itself this many times and compare the prediction
    /// with it
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "30")]
    pub(super) measure: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct SweepArgs {
    /// The sweep; see examples/sweep.toml
    #[arg(value_name = "FILE.toml")]
    pub(super) file: PathBuf,
    /// File for the results, one line of JSON per point; a table is written beside it [default:
    /// FILE.jsonl]
    #[arg(long, value_name = "FILE.jsonl")]
    pub(super) out: Option<PathBuf>,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
}

#[derive(Args)]
pub(crate) struct FiguresArgs {
    /// The paper
    #[arg(long, value_name = "NAME", default_value = "small-packets")]
    pub(super) paper: PaperName,
    /// Folder for the figures, the tables and the page; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// With small-packets: a trace in place of the synthetic one, with the six columns of the
    /// Internet Traffic Archive or a capture; the SA of a packet is its destination
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Packets per run or trial behind a figure [default: 500,000 for small-packets and
    /// aggregation, 100,000 for accelerators, 4,000 with each seed for referee, 20,000 for the
    /// others]
    #[arg(long, value_name = "N")]
    pub(super) packets: Option<u64>,
    /// Packets per run over the parameters that the paper leaves open [default: 30,000, 20,000,
    /// 3,000 or 500, at most --packets]
    #[arg(long, value_name = "N")]
    pub(super) range_packets: Option<u64>,
    /// Number of threads [default: all cores]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Print claims and files as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args)]
pub(super) struct NdrArgs {
    /// A file, or the name of a built-in platform
    #[arg(value_name = "PLATFORM.toml")]
    pub(super) platform: String,
    /// exponential, uniform, trace, imix, or a payload size in bytes
    #[arg(long, value_name = "NAME", default_value = "trace")]
    pub(super) pattern: Pattern,
    /// Packets per trial; a queue of N packets hides an overload of less than N packets per trial
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(super) packets: u64,
    /// Number of SAs [default: 100]
    #[arg(long, value_name = "N")]
    pub(super) sas: Option<u32>,
    /// Line rate in Mbit/s, the upper limit of the offered rate [default: the platform's]
    #[arg(long, value_name = "MBPS")]
    pub(super) rate_mbps: Option<f64>,
    /// Fraction of the packets that may be lost
    #[arg(long, value_name = "RATIO", default_value_t = 0.0)]
    pub(super) loss_ratio: f64,
    /// Relative distance between the result and a rate that loses more
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
    /// ConnectX-7, BlueField-3 and QAT: what was published about them, and the hybrid of card and
    /// CPU
    Accelerators,
    /// Figures 6, 7 and 12 of small-packets with and without aggregation on the wire
    Aggregation,
    /// The scheduler's policies, their rivals from the literature, and bounds
    Referee,
}

/// Which SA a captured packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SaBy {
    /// One SA for each destination address
    Destination,
    /// The tunnels of --config; packets that none protects are left out
    Policies,
}

/// What the length of a captured packet is.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Length {
    /// The TCP or UDP payload, to which the platform adds its header
    Payload,
    /// The whole IP packet
    Packet,
}

#[derive(Args)]
pub(super) struct RunArgs {
    /// A file, or the name of a built-in platform: bluefield-3, connectx-7, grip, grip-inline,
    /// ixp425, pci-accelerators, pentium3, qat-gen4
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
    /// exponential, uniform, trace (synthetic, fitted to the paper's), imix, or a payload size in
    /// bytes
    #[arg(long, value_name = "NAME", conflicts_with = "trace", default_value = "trace")]
    pub(super) pattern: Pattern,
    /// A capture (pcap, pcapng) or a text trace with the six columns of the Internet Traffic
    /// Archive, detected by content
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Number of packets [default: 500,000 of a pattern, or the whole trace]
    #[arg(long, value_name = "N")]
    pub(super) packets: Option<u64>,
    /// Number of SAs of a pattern [default: 100]
    #[arg(long, value_name = "N", conflicts_with = "trace")]
    pub(super) sas: Option<u32>,
    /// Exponent of the Zipf distribution of a pattern's SAs; 0 makes all equally likely [default:
    /// 0]
    #[arg(long, value_name = "S", conflicts_with = "trace")]
    pub(super) popularity: Option<f64>,
    /// Probability that a packet of a pattern has the same SA as the one before [default: 0; 0.56,
    /// fitted, for trace]
    #[arg(long, value_name = "P", conflicts_with = "trace")]
    pub(super) locality: Option<f64>,
    /// Share of a pattern's SAs in each traffic class, highest class first, such as 0.1,0.9
    /// [default: one class]
    #[arg(long, value_name = "SHARES", value_delimiter = ',', conflicts_with = "trace")]
    pub(super) class_shares: Option<Vec<f64>>,
    /// Which SA a captured packet belongs to
    #[arg(long, value_name = "WHAT", requires = "trace", default_value = "destination")]
    pub(super) sa_by: SaBy,
    /// The gateway's configuration, for --sa-by policies
    #[arg(long, value_name = "GATEWAY.toml", required_if_eq("sa_by", "policies"))]
    pub(super) config: Option<PathBuf>,
    /// What the length of a captured packet is
    #[arg(long, value_name = "WHAT", requires = "trace", default_value = "payload")]
    pub(super) length: Length,
}

#[derive(Args)]
#[command(next_help_heading = "Arrivals (default: back to back)")]
pub(super) struct ArrivalArgs {
    /// Line rate at which packets arrive back to back, in Mbit/s
    #[arg(long, value_name = "MBPS")]
    pub(super) rate_mbps: Option<f64>,
    /// Packets per second, evenly spaced
    #[arg(long, value_name = "N", conflicts_with = "as_captured")]
    pub(super) rate_pps: Option<f64>,
    /// With --rate-pps: arrivals are a Poisson process
    #[arg(long, requires = "rate_pps")]
    pub(super) poisson: bool,
    /// Use the timestamps of the trace
    #[arg(long, requires = "trace")]
    pub(super) as_captured: bool,
}

#[derive(Args)]
#[command(next_help_heading = "Changes to the platform")]
pub(super) struct ChangeArgs {
    /// A variant that the platform file defines; join several with `+`
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Size of an ingress queue in packets; packets that find it full are dropped, and the source
    /// never waits
    #[arg(long, value_name = "N")]
    queue_packets: Option<usize>,
    /// Size of an ingress queue in bytes, including the platform's header
    #[arg(long, value_name = "BYTES")]
    queue_bytes: Option<u64>,
    /// Window in packets; 1 disables grouping
    #[arg(long, value_name = "W")]
    window: Option<usize>,
    /// Number of accelerators
    #[arg(long, value_name = "A")]
    accelerators: Option<usize>,
    /// Ratio of the CPU's set-up time to the accelerator's
    #[arg(long, value_name = "R")]
    init_ratio: Option<f64>,
    /// Ratio of the CPU's time per block to the accelerator's
    #[arg(long, value_name = "R")]
    enc_ratio: Option<f64>,
    /// Queue depth of each processor
    #[arg(long, value_name = "D")]
    depth: Option<usize>,
    /// The accelerator's set-up time, in microseconds
    #[arg(long, value_name = "US")]
    t_init_us: Option<f64>,
    #[arg(long, value_name = "P", help = format!("Scheduling policy: {}; or a rival: {}", SchedulingPolicy::names(), convoy_sim::policy::rivals()))]
    policy: Option<String>,
    /// If the queue of the best processor is full: wait for it, or skip that processor
    #[arg(long, value_name = "wait|skip")]
    full_queue: Option<String>,
    /// What --depth counts: multi-packets, packets or bytes
    #[arg(long, value_name = "UNIT")]
    depth_unit: Option<String>,
    /// With policy sufferage: how many others may pass a multi-packet [default: twice as many
    /// as the window has packets]
    #[arg(long, value_name = "N")]
    ageing: Option<usize>,
    /// Maximum number of multi-packets at a processor [default: as its depth allows]
    #[arg(long, value_name = "N")]
    credits: Option<usize>,
    /// Number of traffic classes [default: one for each of --class-shares or --weights]
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
    /// Weight of each class, highest class first, such as 8,1 [default: strict priority]
    #[arg(long, value_name = "WEIGHTS", value_delimiter = ',')]
    weights: Option<Vec<u32>>,
    /// Maximum number of multi-packets of a class and those below it at a processor; the highest
    /// class has no such bound [default: no bound]
    #[arg(long, value_name = "N")]
    class_credits: Option<usize>,
    /// Maximum number of packets at all processors together [default: as their depths allow]
    #[arg(long, value_name = "N")]
    pool: Option<usize>,
    /// How often a multi-packet crosses an accelerator's bus: 2 (in and out) or 1
    #[arg(long, value_name = "1|2")]
    transfers: Option<u32>,
    /// The scheduler expects the time of these transfers
    #[arg(long)]
    predicts_transfers: bool,
    /// Maximum size of a multi-packet in bytes
    #[arg(long, value_name = "BYTES")]
    byte_limit: Option<u32>,
    /// Size of the window in bytes; it is full when either this or --window is reached
    #[arg(long, value_name = "BYTES")]
    window_bytes: Option<u64>,
    /// Aggregate the packets of a multi-packet into outer ESP packets of at most this path MTU, in
    /// bytes (RFC 9347) [default: each packet by itself]
    #[arg(long, value_name = "MTU")]
    aggregation: Option<u32>,
    /// Maximum time that a packet is held in the window, in microseconds
    #[arg(long, value_name = "US")]
    max_wait_us: Option<f64>,
    /// Accelerators read the next input while they compute
    #[arg(long)]
    prefetch: bool,
    /// Accelerators write the last output while they compute
    #[arg(long)]
    write_buffer: bool,
}

impl RunArgs {
    /// The changes to the platform, and the traffic pattern.
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
            class_shares: traffic.class_shares.clone(),
            rate_mbps: self.arrivals.rate_mbps,
            ..self.changes.setting()
        }
    }
}

impl ChangeArgs {
    /// The changes to the platform only.
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
            ageing: self.ageing,
            credits: self.credits,
            classes: self.classes,
            weights: self.weights.clone(),
            class_credits: self.class_credits,
            pool: self.pool,
            transfers: self.transfers,
            predicts_transfers: self.predicts_transfers.then_some(true),
            byte_limit: self.byte_limit,
            window_bytes: self.window_bytes,
            aggregation: self.aggregation,
            max_wait_us: self.max_wait_us,
            prefetch: self.prefetch.then_some(true),
            write_buffer: self.write_buffer.then_some(true),
            ..Setting::default()
        }
    }
}
