//! `convoy init`.

mod add;
mod ask;
mod steps;

use std::io::{self, IsTerminal};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Args;
use convoy_config::genkey::GenkeyError;
use convoy_config::init::{self, Draft, Existing, Field, Secrets, SiteSide, Tree, TwoSites, WriteError};
use convoy_config::{HostEnvironment, Nowhere, ThisMachine};

use crate::Failure;

/// Arguments of `convoy init`.
#[derive(Args)]
pub(crate) struct InitArgs {
    /// Where keys come from: `no` writes static keys into both files, `psk` also writes files for
    /// swanctl, by which strongSwan negotiates keys [default: no]
    #[arg(long, value_name = "no|psk")]
    ike: Option<String>,
    /// The outside address of this gateway [default: the one from which it reaches the other]
    #[arg(long, value_name = "ADDRESS")]
    local: Option<String>,
    /// The outside address of the other gateway, or a name that resolves to it
    #[arg(long, value_name = "ADDRESS|NAME")]
    remote: Option<String>,
    /// The networks behind this gateway, IPv4 and IPv6, or addresses of hosts
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    local_ts: Vec<String>,
    /// The networks behind the other gateway
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    remote_ts: Vec<String>,
    /// The addresses of this gateway's inside interface, convoy0, each in one of its networks
    /// [default: those that it has there, or the first of each network]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    local_inside: Vec<String>,
    /// The addresses of the other gateway's inside interface [default: the first of each network]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    remote_inside: Vec<String>,
    /// Where the other gateway reaches this one, if not at its own address: a name, or the address
    /// of a NAT and with static keys its UDP port; `any` if it is not known, with --ike psk
    #[arg(long, value_name = "ADDRESS|NAME[:PORT]")]
    local_public: Option<String>,
    /// Where this gateway reaches the other one, if not at that gateway's own address
    #[arg(long, value_name = "ADDRESS|NAME[:PORT]")]
    remote_public: Option<String>,
    /// The other gateway moves or is behind a NAT: this one follows the source of its packets, and
    /// does not need its address
    #[arg(long)]
    roaming: bool,
    /// The ESP proposal of both, as `esp_proposal` has it [default: aes128gcm16-esn, and
    /// aes256gcm16-x25519-esn with --ike psk, where each rekeying has a key exchange of its own]
    #[arg(long, value_name = "PROPOSAL")]
    proposal: Option<String>,
    /// The UDP port of both gateways with static keys [default: 4500]
    #[arg(long, value_name = "PORT")]
    udp_port: Option<String>,
    /// The name of this site [default: site-a]
    #[arg(long, value_name = "NAME")]
    local_name: Option<String>,
    /// The name of the other site [default: site-b]
    #[arg(long, value_name = "NAME")]
    remote_name: Option<String>,
    /// Write the files of both sites into this folder, below the names of the sites; without it,
    /// those of this site go to their places in /etc, and the other's below the current folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Append a tunnel to the gateway NAME to /etc/convoy/convoy.toml, and write the files of that
    /// gateway below the current folder
    #[arg(long, value_name = "NAME", conflicts_with_all = ["remote_name", "out", "udp_port"])]
    add: Option<String>,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

impl InitArgs {
    /// What an option says of a field.
    fn said(&self, field: Field) -> Option<String> {
        let list = |values: &[String]| Some(values.join(",")).filter(|_| !values.is_empty());
        match field {
            Field::Ike => self.ike.clone(),
            Field::Name(SiteSide::Local) => self.local_name.clone(),
            Field::Name(SiteSide::Remote) => self.remote_name.clone().or_else(|| self.add.clone()),
            Field::Outside(SiteSide::Local) => self.local.clone(),
            Field::Outside(SiteSide::Remote) => self.remote.clone(),
            Field::Networks(SiteSide::Local) => list(&self.local_ts),
            Field::Networks(SiteSide::Remote) => list(&self.remote_ts),
            Field::Inside(SiteSide::Local) => list(&self.local_inside),
            Field::Inside(SiteSide::Remote) => list(&self.remote_inside),
            Field::Reached(SiteSide::Local) => self.local_public.clone(),
            Field::Reached(SiteSide::Remote) => self.remote_public.clone(),
            Field::Proposal => self.proposal.clone(),
            Field::UdpPort => self.udp_port.clone(),
        }
    }
}

pub(crate) fn run(args: &InitArgs) -> Result<(), Failure> {
    if let Some(name) = &args.add {
        return add::run(args, name);
    }
    // Files for other hosts are not held against this one.
    let environment: &dyn HostEnvironment = if args.out.is_some() { &Nowhere } else { &ThisMachine };
    let plan = plan(args, environment, None)?;
    let secrets = secrets(&plan)?;
    let trees = trees(&plan, &secrets, args.out.as_deref())?;
    for (tree, environment) in trees.iter().zip([environment, &Nowhere]) {
        let warnings = init::check(tree, environment).map_err(Failure::Problems)?;
        warnings.iter().for_each(|warning| eprintln!("{warning}"));
    }
    plan.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    init::write(&trees, args.force).map_err(failed)?;
    print!("{}", steps::text(&plan, &trees));
    Ok(())
}

fn secrets(plan: &TwoSites) -> Result<Secrets, Failure> {
    Secrets::random(plan).map_err(|error| match error {
        GenkeyError::Proposal(_) => Failure::Config(format!("--proposal: {error}")),
        GenkeyError::Random(_) => Failure::Failed(error.to_string()),
    })
}

fn failed(error: WriteError) -> Failure {
    match error {
        WriteError::Exists(_) => {
            Failure::Failed(format!("{error}; --force replaces, --out FOLDER writes elsewhere"))
        }
        WriteError::Failed { .. } => Failure::Failed(error.to_string()),
    }
}

/// The addresses of a name, as the system resolves it.
fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// By the options, and by the configuration that is there, if they suffice; otherwise the rest is
/// asked for.
fn plan(
    args: &InitArgs,
    environment: &dyn HostEnvironment,
    existing: Option<&Existing>,
) -> Result<TwoSites, Failure> {
    let mut draft = Draft::new(environment, &addresses);
    if args.roaming {
        draft.set_roaming();
    }
    for field in Field::ALL {
        let of_file = || existing.and_then(|existing| existing.value_of(field, &draft));
        if let Some(text) = args.said(field).or_else(of_file) {
            draft.set(field, &text).map_err(|refusal| Failure::Config(refusal.to_string()))?;
        }
    }
    if draft.needs_more() && io::stdin().is_terminal() && io::stdout().is_terminal() {
        ask::ask(&mut draft, &mut io::stdin().lock(), &mut io::stdout())
            .map_err(|error| Failure::Failed(format!("{error}; nothing was written")))?;
    }
    let plan = draft.finish().map_err(|refusal| Failure::Config(refusal.to_string()))?;
    plan.map_err(|incomplete| Failure::Config(incomplete.to_string()))
}

/// The files of each site with the root of its file system.
fn trees(plan: &TwoSites, secrets: &Secrets, out: Option<&Path>) -> Result<[Tree; 2], Failure> {
    let here = std::env::current_dir();
    let here = here.map_err(|error| Failure::Failed(format!("the current folder: {error}")))?;
    let [local, remote] = init::files(plan, secrets);
    let [local_root, remote_root] = match out {
        Some(out) => SiteSide::BOTH.map(|side| here.join(out).join(&plan.site(side).name)),
        None => [PathBuf::from("/"), here.join(&plan.site(SiteSide::Remote).name)],
    };
    Ok([Tree { root: local_root, files: local }, Tree { root: remote_root, files: remote }])
}
