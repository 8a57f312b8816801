//! `convoy check`.

use std::path::Path;

use convoy_gateway::Kinds;
use convoy_gateway::assemble;
use convoy_gateway::cluster::ConfigStore;
use convoy_gateway::config::inner_mtu::{inner_mtu, interface_mtu};
use convoy_gateway::config::{self, ClusterConfig, Config, Problem};
use convoy_gateway::guard;
use convoy_gateway::metrics;
use convoy_gateway::names;

use crate::Failure;
use crate::args::CheckArgs;

/// `convoy check`, in a program with these kinds of engine and port.
///
/// # Errors
/// The configuration's.
pub fn run(args: &CheckArgs, kinds: &'static Kinds) -> Result<(), Failure> {
    let mut config = load(&args.config, kinds)?;
    tell(&config.warnings);
    let unresolved = names::resolve(&mut config);
    for problem in &unresolved {
        eprintln!("{}: warning: {problem}; the tunnel stays down until it does", args.config.display());
    }
    let store = config.cluster.as_ref().and_then(store_warning);
    if let Some(warning) = &store {
        eprintln!("{}: warning: {warning}", args.config.display());
    }
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    println!(
        "{}: good: {}, {}, {}",
        args.config.display(),
        count(config.ports.len(), "port"),
        count(config.tunnels.len(), "tunnel"),
        count(config.warnings.len() + unresolved.len() + usize::from(store.is_some()), "warning")
    );
    match assemble::overview(&config) {
        Ok(engines) => println!("{engines}"),
        // The configuration may be for another machine.
        Err(error) => eprintln!("{}: warning: {error}", args.config.display()),
    }
    if config.ports.iter().any(|port| port.settings.routed_interface().is_some()) {
        println!("the inside MTU is {}", inner_mtu(&config));
    }
    for interface in &config.interfaces {
        println!("the MTU of {} is {}", interface.name, interface_mtu(&config, interface));
    }
    for overview in [guard::overview(&config), metrics::overview(&config)].into_iter().flatten() {
        println!("{overview}");
    }
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

fn tell(warnings: &[Problem]) {
    let (reported, rest) = config::reported(warnings);
    reported.into_iter().for_each(|warning| eprintln!("{warning}"));
    rest.into_iter().for_each(|rest| eprintln!("{rest}"));
}
