//! MTUs of the other gateway's that convoy's tunnels may not carry: its ESP can be in UDP.

use super::convoy_file;
use super::findings::Finding;
use super::gateway::{ImportedGateway, Number};
use crate::Config;
use crate::inner_mtu::{InnerMtu, inner_mtu, interface_mtu};

/// Leaves those MTUs to the gateway that are more than its tunnels carry, and with them the MSS,
/// which the gateway then chooses lower.
pub(super) fn fit(gateway: &mut ImportedGateway, left: &mut Vec<Finding>) {
    let inside = gateway.inside_mtu.take();
    let own: Vec<Option<Number>> =
        gateway.interfaces.iter_mut().map(|interface| interface.mtu.take()).collect();
    // A configuration with errors is refused by the check that follows.
    let config = Config::parse("convoy.toml", &convoy_file::text(gateway, "")).ok();
    let least = config.as_ref().map(inner_mtu);
    gateway.inside_mtu = fitting(inside, least.as_ref(), left);
    let had_mtus = own.iter().flatten().count();
    for (at, mtu) in own.into_iter().enumerate() {
        let least =
            config.as_ref().and_then(|config| Some(interface_mtu(config, config.interfaces.get(at)?)));
        gateway.interfaces[at].mtu = fitting(mtu, least.as_ref(), left);
    }
    if gateway.interfaces.iter().filter(|interface| interface.mtu.is_some()).count() < had_mtus {
        gateway.mss_clamp = None;
    }
}

fn fitting(mtu: Option<Number>, least: Option<&InnerMtu>, left: &mut Vec<Finding>) -> Option<Number> {
    let mtu = mtu?;
    match least.filter(|least| least.bytes < mtu.value) {
        None => Some(mtu),
        Some(least) => {
            left.push(mtu.entry.finding(format!(
                "it is more than a tunnel carries whole, so that the gateway has its own, {least}; write mtu and mss_clamp \
                 to set others"
            )));
            None
        }
    }
}
