//! `convoy unblock`.

use convoy_gateway::config::Identity;
use convoy_gateway::unblock::unblock;

use crate::Failure;
use crate::args::UnblockArgs;
use crate::check::load;

pub(crate) fn run(args: &UnblockArgs) -> Result<(), Failure> {
    let identity = match &args.config {
        Some(path) => load(path)?.identity(),
        None => Identity::default(),
    };
    let removed = unblock(&identity, args.force).map_err(|error| Failure::Failed(error.to_string()))?;
    println!("{removed}");
    Ok(())
}
