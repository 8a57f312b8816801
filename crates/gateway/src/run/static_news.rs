//! What a reload tells of tunnels with static keys.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use convoy_config::TunnelConfig;
use convoy_report::events::{Events, SaNews};

/// Tunnels of which one reload tells; it counts all of them.
const TOLD: usize = 100;

/// Tells of tunnels that a reload to `new` has added, changed or removed, without those whose names
/// are in `refused`.
pub(super) fn tell(events: &Events, old: &[TunnelConfig], new: &[TunnelConfig], refused: &HashSet<String>) {
    let mut gone: HashMap<&str, &TunnelConfig> =
        old.iter().map(|tunnel| (tunnel.name.as_str(), tunnel)).collect();
    let mut left = TOLD;
    for tunnel in new.iter().filter(|tunnel| !refused.contains(&tunnel.name)) {
        let before = gone.remove(tunnel.name.as_str());
        let Some(news) = news(tunnel).filter(|_| left > 0 && before != Some(tunnel)) else { continue };
        left -= 1;
        match before {
            Some(before) if before.has_static_keys() => events.sa_rekeyed(news),
            _ => events.sa_up(news),
        }
    }
    let mut gone: Vec<SaNews> = gone.into_values().filter_map(news).collect();
    gone.sort_by(|one, other| one.tunnel.cmp(&other.tunnel));
    gone.into_iter().take(left).for_each(|news| events.sa_down(news));
}

fn news(tunnel: &TunnelConfig) -> Option<SaNews> {
    let keys = tunnel.manual.first()?;
    let peer = SocketAddr::new(tunnel.remote, tunnel.remote_port);
    Some(SaNews {
        tunnel: tunnel.name.clone(),
        child: String::new(),
        peer: if tunnel.is_encapsulated { peer.to_string() } else { peer.ip().to_string() },
        spi_out: keys.spi_out,
        spi_in: Some(keys.spi_in),
        algorithms: tunnel.proposal.transform.to_string(),
    })
}
