//! `convoy unblock`.

use convoy_config::GatewayIdentity;
use convoy_config::Kinds;
use convoy_host::unblock::unblock;

use crate::Failure;
use crate::args::UnblockArgs;
use crate::check::load;

/// `convoy unblock`, in a program with these kinds of engine and port.
///
/// # Errors
/// The configuration's, or why the routes cannot be removed.
pub fn run(args: &UnblockArgs, kinds: &'static Kinds) -> Result<(), Failure> {
    let identity = match &args.config {
        Some(path) => load(path, kinds)?.identity(),
        None => GatewayIdentity::default(),
    };
    let removed = unblock(&identity, args.force).map_err(|error| Failure::Failed(error.to_string()))?;
    println!("{removed}");
    Ok(())
}
