//! The helper's state in the kernel: routes into the tunnels, and the guard of the tunnels'
//! networks.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use convoy_kernel::guard::{Guard, GuardError, GuardEvents};
use convoy_kernel::route::{RouteError, RouteEvents, RouteKeeper, keep_routes};
use convoy_kernel::service::{ServiceAddress, ServiceError, ServiceInterfaces};
use convoy_kernel::{GuardCounts, GuardPlan, RoutePlan};
use convoy_port::TunDevice;

/// Why something is not in the kernel as required.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error("{0}")]
    Fixed(&'static str),
    #[error("{0}")]
    Device(io::Error),
    #[error("netlink: {0}")]
    Events(#[from] io::Error),
}

pub(super) struct HelperState {
    routes: RouteKeeper,
    guard: Option<Guarded>,
    interfaces: ServiceInterfaces,
    addresses: Vec<ServiceAddress>,
    devices: Option<Vec<TunDevice>>,
}

struct Guarded {
    number: u32,
    guard: Guard,
    /// The TUN device among the inside interfaces: its own networks belong to no other interface.
    device: Option<String>,
    events: GuardEvents,
}

impl HelperState {
    /// Nothing is kept yet; also returns the events of interfaces and routing rules.
    pub(super) fn new(
        interfaces: ServiceInterfaces,
        addresses: Vec<ServiceAddress>,
    ) -> io::Result<(Self, RouteEvents)> {
        let (routes, events) = keep_routes()?;
        Ok((Self { routes, guard: None, interfaces, addresses, devices: None }, events))
    }

    /// Learns the TUN interfaces of the gateway's ports.
    pub(super) fn know_devices(&mut self, devices: Vec<TunDevice>) -> Result<(), KeepError> {
        if self.devices.is_some() {
            return Err(KeepError::Fixed("the interfaces of ports are fixed at the start"));
        }
        self.devices = Some(devices);
        Ok(())
    }

    /// Creates one of them again for these files of its queues.
    pub(super) async fn attach(
        &self,
        name: &str,
        files: &[OwnedFd],
        has_link: bool,
    ) -> Result<(), KeepError> {
        let device = self.devices.iter().flatten().find(|device| device.name == name);
        let device = device.ok_or(KeepError::Fixed("the interfaces of ports are fixed at the start"))?;
        device.attach(self.routes.handle(), files, has_link).await.map_err(KeepError::Device)
    }

    /// Gives this host these service addresses for this long, and tells others if wanted. All are
    /// tried; the first error is returned.
    pub(super) async fn hold_addresses(
        &mut self,
        addresses: &[ServiceAddress],
        lifetime_s: u32,
        announce: bool,
    ) -> Result<(), KeepError> {
        self.expect_known(addresses)?;
        let lifetime = Duration::from_secs(lifetime_s.into());
        let mut result = Ok(());
        for address in addresses {
            let mut held = self.interfaces.hold(self.routes.handle(), address, lifetime).await;
            if held.is_ok() && announce {
                held = self.interfaces.announce(address);
            }
            result = result.and(held);
        }
        Ok(result?)
    }

    /// Takes these away. All are tried; the first error is returned.
    pub(super) async fn release_addresses(&mut self, addresses: &[ServiceAddress]) -> Result<(), KeepError> {
        self.expect_known(addresses)?;
        let mut result = Ok(());
        for address in addresses {
            result = result.and(self.interfaces.release(self.routes.handle(), address).await);
        }
        Ok(result?)
    }

    /// Takes all of them away.
    pub(super) async fn release_all(&mut self) -> Result<(), KeepError> {
        let all = self.addresses.clone();
        self.release_addresses(&all).await
    }

    /// The interfaces of service addresses that have no carrier.
    pub(super) async fn without_carrier(&self) -> Vec<String> {
        self.interfaces.without_carrier(self.routes.handle()).await
    }

    fn expect_known(&self, addresses: &[ServiceAddress]) -> Result<(), KeepError> {
        let are_known = addresses.iter().all(|address| self.addresses.contains(address));
        if are_known { Ok(()) } else { Err(KeepError::Fixed("service addresses are fixed at the start")) }
    }

    /// Applies a plan. The interface and the numbers are those of the first, received before the
    /// gateway read any packet.
    pub(super) async fn route(&mut self, plan: RoutePlan) -> Result<(), KeepError> {
        if let Some(first) = self.routes.plan()
            && (&first.device, first.routing) != (&plan.device, plan.routing)
        {
            return Err(KeepError::Fixed(
                "the interface, table, priority and mark of routes are fixed at the start",
            ));
        }
        Ok(self.routes.set(plan).await?)
    }

    /// Sets the guard, or removes it without a plan.
    pub(super) async fn guard(&mut self, number: u32, plan: Option<GuardPlan>) -> Result<(), KeepError> {
        if self.guard.as_ref().is_some_and(|guarded| guarded.number != number) {
            return Err(KeepError::Fixed("the name of the guard's table is fixed at the start"));
        }
        let Some(plan) = plan else {
            self.guard = None;
            return Ok(Guard::remove_stale(number).map(drop)?);
        };
        let tunnels = plan.inside.iter().find(|inside| inside.is_tunnels);
        let device = tunnels.map(|inside| inside.name.clone());
        let networks = self.routes.networks_beside(device.as_deref()).await?;
        if let Some(guarded) = &mut self.guard {
            return Ok(guarded.guard.set(plan, networks)?);
        }
        let (mut guard, events) = (Guard::open(number)?, GuardEvents::open()?);
        guard.set(plan, networks)?;
        self.guard = Some(Guarded { number, guard, device, events });
        Ok(())
    }

    /// The guard's counters of dropped packets.
    pub(super) fn counts(&self) -> Result<GuardCounts, KeepError> {
        Ok(self.guard.as_ref().map_or(Ok(GuardCounts::default()), |guarded| guarded.guard.counts())?)
    }

    /// Restores what is missing of routes and guard, and logs it.
    pub(super) async fn restore(&mut self) {
        match self.routes.restore().await {
            Ok(0) => {}
            Ok(changes) => {
                tracing::warn!("an interface, rule or route changed; routes and rules restored: {changes}")
            }
            Err(error) => tracing::warn!("cannot restore the routes into the tunnels: {error}"),
        }
        self.restore_guard().await;
    }

    /// Restores the guard if it is missing or the host has other networks.
    pub(super) async fn restore_guard(&mut self) {
        let Some(guarded) = &mut self.guard else { return };
        // If they cannot be read, the known ones are kept.
        let networks = self.routes.networks_beside(guarded.device.as_deref()).await.ok();
        match guarded.guard.restore(networks) {
            Ok(false) => {}
            Ok(true) => tracing::warn!(
                "the nftables table that guards the tunnels' networks was removed or changed, and has been restored"
            ),
            Err(error) => tracing::error!("{error}"),
        }
    }

    /// Waits for a change of nftables; without a guard, forever.
    pub(super) async fn tables_change(&mut self) {
        match &mut self.guard {
            Some(guarded) => {
                if let Err(error) = guarded.events.next().await {
                    tracing::warn!("changes of nftables are no longer monitored: {error}");
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Leaves what drops packets: the guard, and the blackhole routes.
    pub(super) async fn block(&mut self) -> Result<(), KeepError> {
        Ok(self.routes.block().await?)
    }

    /// Removes everything.
    pub(super) async fn undo(&mut self) -> Result<(), KeepError> {
        let routes = self.routes.undo().await;
        if let Some(mut guarded) = self.guard.take() {
            guarded.guard.remove()?;
        }
        Ok(routes?)
    }
}
