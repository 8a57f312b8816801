//! The command line of `convoy-lab bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use convoy_measure::{
    EndSpec, Families, Family, GatewayPair, Goal, Lengths, LinkSpec, Rates, Service, ThroughputPlan, Ways,
};

#[derive(Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(super) command: BenchCommand,
}

#[derive(Subcommand)]
pub(super) enum BenchCommand {
    /// Search for the highest rates without loss (NDR) and with little loss (PDR), according to RFC
    /// 2544
    ///
    /// Without --near and --far or --link, two gateways in this process are measured, joined by a
    /// link in memory. Packet lengths are those of plaintext IP packets, without the overhead of
    /// ESP.
    Throughput(Box<ThroughputArgs>),
    /// Measure a gateway with packet I/O and cryptography on its worker's core or elsewhere: the
    /// IXP425 paper's four schemes
    Schemes(SchemesArgs),
    /// Measure where a gateway spends its time: by functional block, utilisation, turnaround of
    /// cryptography, and the bottleneck
    Inside(InsideArgs),
}

/// The ciphers that the paper measured, and one in use today.
const CIPHERS: [&str; 4] = ["des-sha1", "3des-sha1", "aes128-sha1", "aes128gcm16"];
/// Name of the service without a cipher.
const FORWARDING: &str = "forwarding";

/// Services by name.
fn services(names: &[String]) -> Vec<(String, Service)> {
    let service = |name: &String| match name.as_str() {
        FORWARDING => Service::Forward,
        _ => Service::Ipsec(name.clone()),
    };
    names.iter().map(|name| (name.clone(), service(name))).collect()
}

fn all_services() -> impl Iterator<Item = String> {
    std::iter::once(FORWARDING).chain(CIPHERS).map(str::to_owned)
}

/// Parses a duration in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let expected = "a number of seconds from 0.01 to 3600 is expected";
    let seconds: f64 = text.parse().map_err(|_| expected.to_owned())?;
    if (0.01..=3600.0).contains(&seconds) { Ok(seconds) } else { Err(expected.to_owned()) }
}

/// Parses the time limit of a whole measurement.
fn within(text: &str) -> Result<f64, String> {
    let expected = "a number of seconds from 1 to 1000000 is expected";
    let seconds: f64 = text.parse().map_err(|_| expected.to_owned())?;
    if (1.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err(expected.to_owned()) }
}

#[derive(Args)]
pub(super) struct SchemesArgs {
    /// ESP proposals, and forwarding for packets that pass unchanged
    #[arg(long, value_name = "SERVICES", value_delimiter = ',', default_values_t = all_services())]
    services: Vec<String>,
    /// Packet lengths in bytes
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', default_value = "64,256,512,1024,1450")]
    pub(super) lengths: Vec<Lengths>,
    /// Length of a trial in seconds; three of them judge a rate
    #[arg(long, value_name = "SECONDS", default_value = "0.2", value_parser = seconds)]
    pub(super) trial: f64,
    /// End the whole measurement after this time, even if searches are unfinished; by default, the
    /// expected time with a margin
    #[arg(long, value_name = "SECONDS", value_parser = within)]
    pub(super) within: Option<f64>,
    /// Relative resolution of the search: the distance between the rate found and one that fails
    #[arg(long, value_name = "PART", default_value_t = 0.02)]
    pub(super) resolution: f64,
    /// Fraction of the packets that may be lost
    #[arg(long, value_name = "PART", default_value_t = 0.0)]
    pub(super) loss: f64,
    /// Number of searches for each rate; figures are medians, with the lowest and the highest
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// The highest rate to try, in packets/s
    #[arg(long, value_name = "RATE", default_value_t = 3_000_000.0)]
    pub(super) most: f64,
    /// Also write the report with its figures as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl SchemesArgs {
    pub(super) fn services(&self) -> Vec<(String, Service)> {
        services(&self.services)
    }
}

#[derive(Args)]
pub(super) struct InsideArgs {
    /// ESP proposals, and forwarding for packets that pass unchanged
    #[arg(long, value_name = "SERVICES", value_delimiter = ',', default_values_t = all_services())]
    services: Vec<String>,
    /// Packet lengths in bytes
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', default_value = "64,512,1450")]
    pub(super) lengths: Vec<Lengths>,
    /// Length of a trial in seconds, for utilisation
    #[arg(long, value_name = "SECONDS", default_value = "0.3", value_parser = seconds)]
    pub(super) trial: f64,
    /// Number of measurements of utilisation at each load; figures are medians, with the lowest and
    /// the highest
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// End the whole measurement after this time, with fewer bursts and loads if necessary; by
    /// default, the expected time with a margin
    #[arg(long, value_name = "SECONDS", value_parser = within)]
    pub(super) within: Option<f64>,
    /// Also write the report with its figures as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl InsideArgs {
    pub(super) fn services(&self) -> Vec<(String, Service)> {
        services(&self.services)
    }
}

/// What the two gateways do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ServiceArg {
    /// ESP in tunnel mode
    Ipsec,
    /// Packets pass unchanged
    Forward,
}

/// Options that apply only to the two gateways in this process.
const OF_THE_PAIR: [&str; 5] = ["service", "proposal", "tunnels", "inner", "outer"];

#[derive(Args)]
pub(super) struct ThroughputArgs {
    /// What the two gateways in this process do
    #[arg(long, value_enum, default_value = "ipsec")]
    service: ServiceArg,
    /// Their ESP proposal
    #[arg(long, value_name = "PROPOSAL", default_value = "aes128gcm16")]
    proposal: String,
    /// Their tunnels, one for each host, and as many SAs each way
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=4096))]
    tunnels: u16,
    /// The family of their plaintext packets: ipv4 or ipv6
    #[arg(long, value_name = "FAMILY", default_value_t)]
    inner: Family,
    /// The family of their tunnels' packets: ipv4 or ipv6
    #[arg(long, value_name = "FAMILY", default_value_t)]
    outer: Family,
    /// One end of another device, IPv4 or IPv6: udp:ADDRESS, tun:DEVICE=ADDRESS/PREFIX,
    /// af_packet:DEVICE=ADDRESS or af_xdp:DEVICE=ADDRESS; NAMESPACE/ before the address or the
    /// device names its network namespace
    #[arg(long, value_name = "END", requires = "far", conflicts_with_all = OF_THE_PAIR)]
    pub(super) near: Option<EndSpec>,
    /// Its other end, of the same family
    #[arg(long, value_name = "END", requires = "near")]
    pub(super) far: Option<EndSpec>,
    /// Test the tester against a link with known properties, such as
    /// rate=100000,queue=64,delay_us=500,loss=0.01,reorder=0.001,extent=5
    #[arg(long, value_name = "PROPERTIES", conflicts_with_all = OF_THE_PAIR, conflicts_with_all = ["near", "far"])]
    pub(super) link: Option<LinkSpec>,
    /// Packet lengths in bytes, 52 (of IPv6: 72) to 9000, or imix (seven of 64, four of 570, one of
    /// 1518)
    #[arg(long, value_name = "LENGTHS", value_delimiter = ',', default_values_t = Lengths::USUAL.iter().copied())]
    lengths: Vec<Lengths>,
    /// Send in both directions at once, each at the given or found rate
    #[arg(long)]
    both_ways: bool,
    /// Length of a trial in seconds; RFC 2544 asks for 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    trial: f64,
    /// Number of trials that judge a rate
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    trials: u32,
    /// Fraction of these trials that may lose more, because other programs can disturb some; 0 is
    /// RFC 2544's rule
    #[arg(long, value_name = "PART", default_value_t = 0.5)]
    exceed: f64,
    /// Relative resolution of the search: the distance between the rate found and one that fails
    #[arg(long, value_name = "PART", default_value_t = 0.01)]
    resolution: f64,
    /// Fraction of the packets that the PDR may lose
    #[arg(long, value_name = "PART", default_value_t = 0.005)]
    pdr: f64,
    /// The lowest rate to try, in packets/s each way
    #[arg(long, value_name = "RATE", default_value_t = 1_000.0)]
    least: f64,
    /// The highest rate to try, in packets/s each way; less where the tester cannot send as fast
    #[arg(long, value_name = "RATE", default_value_t = 20_000_000.0)]
    most: f64,
    /// Search for rates only: no latency, loss against load, bursts or recovery
    #[arg(long)]
    quick: bool,
    /// Length of the overload before recovery, in seconds; RFC 2544 asks for 60
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    overload: f64,
    /// Number of repetitions of the whole test; tables then show the median, minimum and maximum
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) rounds: u32,
    /// End the whole measurement after this time, even if searches are unfinished; by default, the
    /// expected time with a margin
    #[arg(long, value_name = "SECONDS", value_parser = within)]
    pub(super) within: Option<f64>,
    /// Also write the report with its figures as one HTML page
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl ThroughputArgs {
    /// The gateways in this process.
    pub(super) fn pair(&self) -> GatewayPair {
        let service = match self.service {
            ServiceArg::Ipsec => Service::Ipsec(self.proposal.clone()),
            ServiceArg::Forward => Service::Forward,
        };
        let families = Families { inner: self.inner, outer: self.outer };
        GatewayPair { tunnels: self.tunnels, families, ..GatewayPair::of(service) }
    }

    /// The plan of the test, from the options.
    pub(super) fn plan(&self) -> Result<ThroughputPlan, String> {
        let part = |name: &str, value: f64, range: std::ops::Range<f64>| {
            if range.contains(&value) {
                return Ok(value);
            }
            Err(format!("--{name} {value}: at least {} and below {}", range.start, range.end))
        };
        let trial_s = part("trial", self.trial, 0.001..3600.0)?;
        let ndr = Goal {
            loss_ratio: 0.0,
            width: part("resolution", self.resolution, 1e-5..0.5)?,
            trial_s,
            sum_s: trial_s * f64::from(self.trials),
            exceed_ratio: part("exceed", self.exceed, 0.0..1.0)?,
        };
        Ok(ThroughputPlan {
            lengths: self.lengths.clone(),
            ways: if self.both_ways { Ways::Both } else { Ways::One },
            rates: Rates { least: self.least, most: self.most },
            ndr,
            pdr: Goal { loss_ratio: part("pdr", self.pdr, 0.0..1.0)?, ..ndr },
            is_whole: !self.quick,
            overload_s: part("overload", self.overload, 0.001..3600.0)?,
        })
    }
}
