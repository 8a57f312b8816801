//! `convoy check`.

use convoy_gateway::config::Config;

use crate::Failure;
use crate::args::CheckArgs;

pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let config = load(&args.config)?;
    println!(
        "{}: good: {} engines, {} ports, {} tunnels",
        args.config.display(),
        config.engines.len().max(1),
        config.ports.len(),
        config.tunnels.len()
    );
    Ok(())
}

/// Reads a configuration for any command.
pub(crate) fn load(path: &std::path::Path) -> Result<Config, Failure> {
    Config::load(path).map_err(|errors| Failure::Config(errors.to_string()))
}
