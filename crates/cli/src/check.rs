//! `convoy check`.

use std::path::Path;

use convoy_assembly::assemble;
use convoy_config::Kinds;
use convoy_config::inner_mtu::{self, InnerMtu, inner_mtu, interface_mtu};
use convoy_config::{self, ClusterConfig, Config, ConfigErrors, Problem, Severity, counted};
use convoy_gateway::cluster::ConfigStore;
use convoy_host::guard;

use serde::Serialize;

use crate::Failure;
use crate::args::CheckArgs;

/// What a configuration is found to be, as `--json` prints it.
#[derive(Debug, Default, Serialize)]
struct Checked {
    /// The file.
    file: String,
    /// What keeps a gateway from starting with it.
    errors: Vec<CheckFinding>,
    /// What is probably a mistake, in the file or on this machine.
    warnings: Vec<CheckFinding>,
    ports: usize,
    tunnels: usize,
    /// The engines and what they cost, in words, if they are those of this machine.
    engines: Option<String>,
    /// The MTU of the inside interface, if tunnels share one.
    inside_mtu: Option<InnerMtu>,
    interfaces: Vec<InterfaceMtu>,
    /// What else is worth knowing, in words.
    notes: Vec<String>,
}

/// The MTU of an `[[interface]]`.
#[derive(Debug, Serialize)]
struct InterfaceMtu {
    name: String,
    #[serde(flatten)]
    mtu: InnerMtu,
}

/// An error or a warning.
#[derive(Debug, Default, Serialize)]
struct CheckFinding {
    /// The file, if it is in one.
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    /// The configuration's key.
    key: Option<String>,
    message: String,
}

impl CheckFinding {
    /// A warning about the machine or the network.
    fn about(message: impl ToString) -> Self {
        Self { message: message.to_string(), ..Self::default() }
    }
}

impl From<&Problem> for CheckFinding {
    fn from(problem: &Problem) -> Self {
        Self {
            file: Some(problem.file.clone()),
            line: problem.position.map(|position| position.line),
            column: problem.position.map(|position| position.column),
            key: Some(problem.key.clone()).filter(|key| !key.is_empty()),
            message: problem.what.clone(),
        }
    }
}

/// `convoy check`, in a program with these kinds of engine and port.
///
/// # Errors
/// The configuration's, and its warnings if they are denied.
pub fn run(args: &CheckArgs, kinds: &'static Kinds) -> Result<(), Failure> {
    let file = args.config.display().to_string();
    let mut config = match load(&args.config, kinds) {
        Ok(config) => config,
        Err(failure) => {
            if let (Failure::Problems(errors), true) = (&failure, args.json) {
                print_json(&refused(file, errors))?;
            }
            return Err(failure);
        }
    };
    let (problems, rest) = convoy_config::reported(&config.warnings);
    if !args.json {
        problems.iter().map(ToString::to_string).chain(rest).for_each(|warning| eprintln!("{warning}"));
    }
    let about_file = config.warnings.iter().map(CheckFinding::from).collect();
    let checked = checked(file, &mut config, about_file);
    if args.json {
        print_json(&checked)?;
    } else {
        print(&checked);
    }
    match checked.warnings.len() {
        denied @ 1.. if args.deny_warnings => {
            Err(Failure::Failed(format!("{}, and --deny-warnings is given", counted(denied, "warning"))))
        }
        _ => Ok(()),
    }
}

/// A configuration that cannot be used.
fn refused(file: String, errors: &ConfigErrors) -> Checked {
    let (errors, warnings): (Vec<&Problem>, Vec<&Problem>) =
        errors.0.iter().partition(|problem| problem.severity == Severity::Error);
    let findings = |problems: Vec<&Problem>| problems.into_iter().map(CheckFinding::from).collect();
    Checked { file, errors: findings(errors), warnings: findings(warnings), ..Checked::default() }
}

/// A configuration that can be used, with the `warnings` about its file.
fn checked(file: String, config: &mut Config, mut warnings: Vec<CheckFinding>) -> Checked {
    let unresolved = convoy_names::resolve(config);
    let stays_down = |problem| format!("{problem}; the tunnel stays down until it does");
    warnings.extend(unresolved.into_iter().map(stays_down).map(CheckFinding::about));
    warnings.extend(config.cluster.as_ref().and_then(store_warning).map(CheckFinding::about));
    warnings.extend(inner_mtu::too_wide(config).into_iter().map(CheckFinding::about));
    // The configuration may be for another machine.
    let engines = assemble::overview(config).map_err(|error| warnings.push(CheckFinding::about(error))).ok();
    let has_shared = config.ports.iter().any(|port| port.settings.routed_interface().is_some());
    let mtu = |interface: &convoy_config::InterfaceConfig| InterfaceMtu {
        name: interface.name.clone(),
        mtu: interface_mtu(config, interface),
    };
    let notes = [guard::overview(config), convoy_metrics::overview(config)].into_iter().flatten().collect();
    Checked {
        file,
        errors: Vec::new(),
        warnings,
        ports: config.ports.len(),
        tunnels: config.tunnels.len(),
        engines,
        inside_mtu: has_shared.then(|| inner_mtu(config)),
        interfaces: config.interfaces.iter().map(mtu).collect(),
        notes,
    }
}

/// Prints what is found, without the warnings about the file itself, which are printed before.
fn print(checked: &Checked) {
    let Checked { file, warnings, ports, tunnels, engines, inside_mtu, interfaces, notes, .. } = checked;
    for warning in warnings.iter().filter(|warning| warning.file.is_none()) {
        eprintln!("{file}: warning: {}", warning.message);
    }
    println!(
        "{file}: OK: {}, {}, {}",
        counted(*ports, "port"),
        counted(*tunnels, "tunnel"),
        counted(warnings.len(), "warning")
    );
    if let Some(engines) = engines {
        println!("{engines}");
    }
    if let Some(mtu) = inside_mtu {
        println!("the inside MTU is {mtu}");
    }
    for InterfaceMtu { name, mtu } in interfaces {
        println!("the MTU of {name} is {mtu}");
    }
    notes.iter().for_each(|note| println!("{note}"));
}

fn print_json(checked: &Checked) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(checked).map_err(|error| Failure::Failed(error.to_string()))?;
    println!("{text}");
    Ok(())
}

/// What is wrong with the store of a cluster, where this machine and this user can ask it.
fn store_warning(cluster: &ClusterConfig) -> Option<String> {
    if std::fs::File::open(&cluster.secret).is_err() {
        return None;
    }
    match ConfigStore::open(cluster).and_then(|store| store.version_warning()) {
        Ok(warning) => warning.map(|warning| format!("cluster: {warning}")),
        Err(error) => Some(error.to_string()),
    }
}

/// Loads the configuration of a gateway that is to start on this machine.
///
/// # Errors
/// The configuration's.
pub fn load(path: &Path, kinds: &'static Kinds) -> Result<Config, Failure> {
    Config::load(path, kinds).map_err(Failure::Problems)
}

/// Loads a configuration for a command that opens none of its ports.
///
/// # Errors
/// The configuration's.
pub fn load_for_any_machine(path: &Path, kinds: &'static Kinds) -> Result<Config, Failure> {
    Config::load_for_any_machine(path, kinds).map_err(Failure::Problems)
}
