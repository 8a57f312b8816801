//! `convoy unblock`: removes the routes and the guard by which a gateway that has ended still drops
//! packets.

use std::fmt;
use std::io;

use convoy_config::{GatewayIdentity, counted};
use convoy_kernel::Prefix;
use convoy_kernel::guard::{Guard, GuardError};
use convoy_kernel::route::{Removed, RouteError, keep_routes};

use crate::lock::{Lock, LockError};

/// Networks that messages name; of further ones they only give the number.
const NAMED: usize = 20;

/// Why nothing, or not all, was removed.
#[derive(Debug, thiserror::Error)]
pub enum UnblockError {
    /// A gateway is running: it would restore what is removed, and packets would leave in clear
    /// meanwhile.
    #[error("the gateway is running{}; stop it first", process(.0))]
    Running(Option<u32>),
    /// The lock could not be tried.
    #[error(transparent)]
    Lock(LockError),
    /// Another gateway uses the routes, or one that was killed left them on an interface that
    /// stays.
    #[error(
        "routing table {table} has routes to the interface with index {interface}, so a gateway with another control \
         socket may be using it: give its configuration with -c, or use --force if no gateway runs"
    )]
    InUse {
        /// The routing table.
        table: u32,
        /// The index of the interface.
        interface: u32,
    },
    /// There is no connection to the kernel.
    #[error("netlink: {0}")]
    Netlink(#[from] io::Error),
    /// The kernel refused.
    #[error(transparent)]
    Routes(#[from] RouteError),
    /// The kernel refused.
    #[error(transparent)]
    Guard(#[from] GuardError),
}

fn process(holder: &Option<u32>) -> String {
    holder.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unblocked {
    /// Routes and rules.
    pub routes: Removed,
    /// The nftables table, if there was one.
    pub guard: Option<String>,
}

/// Removes what a gateway of this identity left, unless one runs. `force` removes routes that lead
/// to an interface as well.
///
/// # Errors
/// [`UnblockError`].
pub fn unblock(identity: &GatewayIdentity, force: bool) -> Result<Unblocked, UnblockError> {
    // Held until the end, so that no gateway starts meanwhile.
    let _lock = Lock::take(&identity.control).map_err(|error| match error {
        LockError::Taken { holder, .. } => UnblockError::Running(holder),
        error => UnblockError::Lock(error),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (mut keeper, _events) = keep_routes()?;
        let routing = identity.routing;
        match keeper.in_use(routing).await? {
            Some(interface) if !force => Err(UnblockError::InUse { table: routing.table, interface }),
            _ => Ok(Unblocked {
                routes: keeper.remove_all(routing).await?,
                guard: Guard::remove_stale(routing.table)?,
            }),
        }
    })
}

impl fmt::Display for Unblocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Removed { networks, routes, rules } = &self.routes;
        let guard = self.guard.as_ref().map(|table| format!("the nftables table {table}"));
        let number = |count: usize, what| (count > 0).then(|| counted(count, what));
        let removed = [number(*routes, "route"), number(*rules, "routing rule"), guard];
        let removed: Vec<String> = removed.into_iter().flatten().collect();
        let Some((last, others)) = removed.split_last() else {
            return write!(f, "nothing to remove: no packets were being dropped");
        };
        let others = if others.is_empty() { String::new() } else { format!("{} and ", others.join(", ")) };
        write!(f, "removed {others}{last}")?;
        if networks.is_empty() {
            return Ok(());
        }
        let named = networks.iter().take(NAMED).map(|Prefix { address, bits }| format!("{address}/{bits}"));
        write!(
            f,
            "; packets to these networks are no longer dropped: {}",
            named.collect::<Vec<_>>().join(", ")
        )?;
        match networks.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {}", counted(more, "other network")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_runs_keeps_its_routes() {
        let folder = tempfile::tempdir().expect("a folder");
        let identity =
            GatewayIdentity { control: folder.path().join("control.sock"), ..GatewayIdentity::default() };
        let _gateway = Lock::take(&identity.control).expect("it is free");
        let error = unblock(&identity, true).expect_err("it runs");
        assert!(matches!(error, UnblockError::Running(Some(id)) if id == std::process::id()), "{error}");
    }

    #[test]
    fn networks_are_named_up_to_a_number() {
        let network = |third: u8| Prefix { address: [10, 0, third, 0].into(), bits: 24 };
        let reported = |count: u8| {
            let networks: Vec<Prefix> = (0..count).map(network).collect();
            let routes = networks.len();
            let routes = Removed { networks, routes, rules: 1 };
            Unblocked { routes, guard: None }.to_string()
        };
        assert_eq!(
            reported(1),
            "removed 1 route and 1 routing rule; packets to these networks are no longer dropped: 10.0.0.0/24"
        );
        assert!(reported(22).ends_with(", 10.0.19.0/24 and 2 other networks"), "{}", reported(22));
        let guard = Some("convoy_4500".to_owned());
        assert_eq!(
            Unblocked { guard, ..Unblocked::default() }.to_string(),
            "removed the nftables table convoy_4500"
        );
        assert!(Unblocked::default().to_string().starts_with("nothing to remove"));
    }
}
