//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use convoy_gateway::cluster::ServiceAddress;
use convoy_log::LogFormat;

use crate::import::ImportArgs;
use crate::init::InitArgs;

/// Where a gateway's configuration is, unless it is given.
const CONFIGURATION: &str = "/etc/convoy/convoy.toml";

/// An IPsec gateway in userspace that distributes packet cryptography over all crypto engines of a
/// machine.
#[derive(Parser)]
#[command(
    name = "convoy",
    version,
    about,
    arg_required_else_help = true,
    after_help = "demo, sim, bench, hdtv and nic are in the laboratory: package convoy-lab"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the engines of this machine
    ///
    /// Prints their algorithms and costs, and why others are unavailable.
    Engines(EnginesArgs),
    /// Run the gateway in the foreground
    ///
    /// SIGTERM drains and stops, SIGHUP reloads.
    Run(RunArgs),
    /// Have a running gateway reload its configuration
    ///
    /// A file with errors is refused and changes nothing.
    Reload(ReloadArgs),
    /// Hand this gateway's tunnels over to others before maintenance
    Drain(DrainArgs),
    /// Share a configuration in a cluster, or wait to lead it
    Cluster(ClusterArgs),
    /// Remove the routes by which a stopped gateway still drops packets
    Unblock(UnblockArgs),
    /// Show the state of a running gateway
    Show(ShowArgs),
    /// Say what a running gateway would do with a packet from the inside
    ///
    /// Also says why it would not arrive. Exits with 1 if the gateway would not send it.
    Explain(ExplainArgs),
    /// Follow packets of a running gateway through its stages
    ///
    /// Prints times and drop reasons.
    Trace(TraceArgs),
    /// Write the configurations of both ends of a tunnel
    ///
    /// Prints the next steps, and prompts for what the options leave open.
    Init(Box<InitArgs>),
    /// Write a configuration from that of strongSwan, libreswan, WireGuard or AWS
    ///
    /// Says line by line what was not taken, and what to do about it.
    Import(ImportArgs),
    /// Watch a running gateway on the whole terminal
    ///
    /// Shows tunnels by rate, engines, windows and drops.
    Top(TopArgs),
    /// Print a random key for a tunnel with static keys
    Genkey(GenkeyArgs),
    /// Check a configuration
    ///
    /// Reports errors with file, line and key.
    Check(CheckArgs),
    /// Send a capture through the gateway's pipeline
    ///
    /// Writes the resulting packets.
    Replay(ReplayArgs),
    /// The process that a gateway starts to manage its routes and to open its configuration
    #[command(hide = true)]
    Helper(HelperArgs),
    /// Print what may follow an unfinished command line, for the shells' completion
    #[command(hide = true)]
    Complete(CompleteArgs),
}

impl Command {
    /// How the log of a command is written.
    pub(crate) fn log_format(&self) -> LogFormat {
        match self {
            Self::Run(args) => args.log_format,
            Self::Helper(args) => args.log_format,
            _ => LogFormat::Text,
        }
    }
}

#[derive(Args)]
pub(crate) struct GenkeyArgs {
    /// The tunnel's proposal as in `esp_proposal`, for example aes128gcm16-esn
    pub(crate) proposal: String,
}

/// Arguments of `convoy check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION)]
    pub config: PathBuf,
    /// Fail, with status 1, if there are warnings
    #[arg(long)]
    pub deny_warnings: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Which way a capture goes.
#[derive(Clone, Copy, ValueEnum)]
pub enum CaptureDirection {
    /// Reads plaintext packets and writes protected ones
    Out,
    /// Reads protected packets and writes plaintext ones
    In,
}

/// Arguments of `convoy replay`.
#[derive(Args)]
pub struct ReplayArgs {
    /// The configuration file; its ports are not used
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION)]
    pub config: PathBuf,
    /// The direction in which the capture is processed
    #[arg(long)]
    pub direction: CaptureDirection,
    /// The capture to read: pcap or pcapng, Ethernet or raw IP
    #[arg(long = "in", value_name = "A.pcap")]
    pub input: PathBuf,
    /// The capture to write: raw IP
    #[arg(long = "out", value_name = "B.pcap")]
    pub output: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `convoy run`.
#[derive(Args)]
pub struct RunArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION)]
    pub config: PathBuf,
    /// The format of the log, and of any other message on standard error
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Arguments of `convoy helper`.
#[derive(Args)]
pub struct HelperArgs {
    /// The configuration that a reload reads
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// A socket whose file is removed when the gateway stops
    #[arg(long, value_name = "FILE")]
    pub socket: Vec<PathBuf>,
    /// An address that the gateway has while it leads its cluster
    #[arg(long, value_name = "ADDRESS")]
    pub address: Vec<ServiceAddress>,
    /// The format of the log, as the gateway's
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

/// Arguments of `convoy complete`.
#[derive(Args)]
pub struct CompleteArgs {
    /// The words behind the program's name; the last one is unfinished
    #[arg(last = true)]
    pub words: Vec<String>,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// Tunnels: a line for each peer, or with NAME its details with both directions side by side
    Tunnel,
    /// Security associations
    Sa,
    /// Policies in order of evaluation
    Policy,
    /// Engines: state, packets, failures and predicted times
    Engine,
    /// The window of each worker
    Scheduler,
    /// Ports
    Port,
    /// Peers given by name: addresses, and what does not resolve
    Name,
    /// The cluster: members, who leads which group of tunnels, lease, store, reserved numbers
    Cluster,
    /// Totals and drops; with --json, everything
    Stats,
    /// Recent events: tunnels up, rekeyed and down, engines out and back, reloads, warnings
    Events,
}

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

#[derive(Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
    /// The configuration of this gateway, whose `[cluster]` says where the store is
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION, global = true)]
    pub(crate) config: PathBuf,
}

#[derive(Subcommand)]
pub(crate) enum ClusterCommand {
    /// Wait until this gateway leads, however long that takes and even if it is not running yet;
    /// one that is in no cluster always leads
    Wait(WaitArgs),
    /// Check FILE together with this gateway's configuration, and have all gateways use it
    Put {
        /// Tunnels and bypasses in TOML
        file: PathBuf,
    },
    /// Print a version, by default the latest
    Get {
        /// Its number
        version: Option<u64>,
    },
    /// List all versions: number, time, and the gateway that stored it
    History,
    /// Have all gateways use an earlier version again, as a new one
    Rollback {
        /// Its number
        version: u64,
    },
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// Let this gateway lead again
    #[arg(long)]
    pub(crate) undo: bool,
    /// Drain it even if no other gateway may lead
    #[arg(long, conflicts_with = "undo")]
    pub(crate) force: bool,
    /// How long to wait for the others
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: f64,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

#[derive(Args)]
pub(crate) struct WaitArgs {
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

/// Arguments of `convoy unblock`.
#[derive(Args)]
pub struct UnblockArgs {
    /// The configuration of the gateway; without it, the default control socket and routing table
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Remove them even if there are still routes to an interface, as with a running gateway
    #[arg(long)]
    pub force: bool,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// What to show; without it, a summary with the rates of one second
    pub(crate) what: Option<Shown>,
    /// The tunnel whose details to show, with `tunnel`; charon's connection stands for all of its
    /// children
    #[arg(conflicts_with = "tunnel")]
    pub(crate) name: Option<String>,
    /// Show only the rows of this tunnel, with sa, tunnel, policy or events
    #[arg(long, value_name = "NAME")]
    pub(crate) tunnel: Option<String>,
    /// Show only the rows of this peer, with sa, tunnel or policy
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<IpAddr>,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
    /// Show all columns and digits; without it, tables fit 80 columns
    #[arg(long)]
    pub(crate) wide: bool,
    /// Repeat every SECONDS (default: 2), with rates per second; with --json, a line each time.
    /// Events are followed as they come
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    pub(crate) watch: Option<f64>,
    /// Print JSON
    #[arg(long, conflicts_with = "wide")]
    pub(crate) json: bool,
    /// Write the SAs with their keys into FILE, as Wireshark's table esp_sa; with `sa`, as root
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wide", "watch", "json"])]
    pub(crate) wireshark: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// The packet's source address
    pub(crate) source: std::net::IpAddr,
    /// Its destination address
    pub(crate) destination: std::net::IpAddr,
    /// Its protocol: tcp, udp, icmp, icmpv6, sctp, or a number
    #[arg(long, value_name = "PROTOCOL", default_value = "udp", value_parser = protocol)]
    pub(crate) proto: u8,
    /// Its source port; for ICMP its type, by default an echo request's
    #[arg(long, value_name = "PORT")]
    pub(crate) sport: Option<u16>,
    /// Its destination port; for ICMP its code
    #[arg(long, value_name = "PORT")]
    pub(crate) dport: Option<u16>,
    /// Its length in bytes, IP header included
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) length: usize,
    /// It must not be fragmented; routers never fragment IPv6 packets
    #[arg(long)]
    pub(crate) df: bool,
    /// The `[[interface]]` on which it arrives; default: where the kernel routes it
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

/// Parses the protocol of `convoy explain`.
fn protocol(text: &str) -> Result<u8, String> {
    Ok(match text {
        "icmp" => 1,
        "tcp" => 6,
        "udp" => 17,
        "icmpv6" => 58,
        "sctp" => 132,
        number => number
            .parse()
            .map_err(|_| "tcp, udp, icmp, icmpv6, sctp or a number from 0 to 255 is expected".to_owned())?,
    })
}

#[derive(Args)]
pub(crate) struct TraceArgs {
    /// Packets to trace
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,
    /// Trace only packets of this tunnel; with charon, CONNECTION or CONNECTION/CHILD
    #[arg(long, value_name = "NAME")]
    pub(crate) tunnel: Option<String>,
    /// Trace only packets from or to this address, in the inner or the outer header
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<std::net::IpAddr>,
    /// Trace only packets that are dropped
    #[arg(long)]
    pub(crate) dropped: bool,
    /// End after this time, even if there were fewer packets
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Print a JSON object for each packet
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the packets, unencrypted ones too, as a pcapng file with their traces as comments
    #[arg(long, value_name = "FILE")]
    pub(crate) pcapng: Option<PathBuf>,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

#[derive(Args)]
pub(crate) struct TopArgs {
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
    /// Time between two queries of the gateway, over which rates are computed
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) interval: f64,
}

/// Parses the interval of `convoy show --watch` and `convoy top`.
fn seconds(text: &str) -> Result<f64, String> {
    let expected = "a number of seconds from 0.1 to 3600 is expected";
    let seconds: f64 = text.parse().map_err(|_| expected.to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err(expected.to_owned()) }
}

/// Arguments of `convoy engines`.
#[derive(Args)]
pub struct EnginesArgs {
    /// Measure every engine and algorithm again
    #[arg(long)]
    pub calibrate: bool,
    /// List all algorithms, and the costs of all of them
    #[arg(long)]
    pub wide: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "wide")]
    pub json: bool,
}
