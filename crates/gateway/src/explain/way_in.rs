//! By which port a packet would come, and what the kernel does to it before, in words.

use convoy_config::{Config, HostEnvironment, ThisMachine};
use convoy_host::helper::Helper;
use convoy_kernel::route::{SystemRoute, system_route};

use super::{ExplainRequest, Explanation};

/// How the kernel hands a packet to the gateway.
pub(super) struct WayIn {
    /// The `[[interface]]` on which it arrives, if it is not the one that tunnels share.
    pub(super) interface: Option<String>,
    /// The kernel's route to its destination.
    route: Result<Option<SystemRoute>, String>,
}

/// The way of a packet into the gateway: by the interface that it names, or else by the one that
/// the kernel's routes have.
pub(super) fn of(config: &Config, request: &ExplainRequest) -> WayIn {
    let route = system_route(request.destination, None).map_err(|error| error.to_string());
    let is_routed_to =
        |name: &&str| matches!(&route, Ok(Some(route)) if !route.is_local && route.interface == **name);
    let routed = || config.interfaces.iter().map(|interface| &*interface.name).find(is_routed_to);
    let interface = request.interface.as_deref().or_else(routed).map(str::to_owned);
    WayIn { interface, route }
}

/// Says by which port the packet would come.
pub(super) fn tell(
    reported: &mut Explanation,
    config: &Config,
    request: &ExplainRequest,
    way_in: &WayIn,
    helper: Option<&Helper>,
) {
    let to = request.destination;
    let shared = config.ports.iter().find(|port| !port.is_outside);
    let device = match &way_in.interface {
        Some(name) => Some(name.as_str()),
        None => shared.and_then(|port| port.settings.routed_interface()),
    };
    reported.port = way_in.interface.clone().or_else(|| shared.map(|port| port.name.clone()));
    let Some(device) = device else {
        let name = shared.map_or("", |port| &port.name);
        return reported.step("port", format!("port {name} receives what is sent to it on the link"));
    };
    let elsewhere = match &way_in.route {
        Ok(Some(route)) if route.is_local => {
            format!("{to} is an address of this host, so the packet stays here")
        }
        Ok(Some(route)) if route.interface == device => {
            reported.step("port", format!("the system routes {to} to {device}, a port of the gateway"));
            return forwarded(reported, request, device, helper);
        }
        Ok(Some(route)) => format!(
            "the system routes {to} by {} and not by {device}: no route leads into the tunnels, or another one is \
             more specific",
            route.interface
        ),
        Ok(None) => format!("the system has no route to {to}, or one that drops the packet"),
        Err(error) => return reported.step("port", format!("the system's routes are unknown: {error}")),
    };
    reported.outcome = "elsewhere".to_owned();
    reported.fault("port", elsewhere);
}

/// Says what the kernel does to a packet of another host on its way to the device.
fn forwarded(reported: &mut Explanation, request: &ExplainRequest, device: &str, helper: Option<&Helper>) {
    let source = request.source;
    let Ok(Some(route)) = system_route(source, None) else { return };
    if route.is_local || route.interface == device {
        return;
    }
    if ThisMachine.forwards_from(&route.interface, source.is_ipv6()) == Some(false) {
        let setting = if source.is_ipv6() { "net.ipv6.conf.all.forwarding" } else { "net.ipv4.ip_forward" };
        reported.outcome = "elsewhere".to_owned();
        let text = format!(
            "the kernel forwards nothing that comes by {}, from where {source} is reached; run: sysctl -w {setting}=1",
            route.interface
        );
        reported.fault("port", text);
    }
    let chains = helper.and_then(|helper| helper.forward_chains(device).ok()).unwrap_or_default();
    chains.into_iter().for_each(|chain| reported.fault("port", chain));
}
