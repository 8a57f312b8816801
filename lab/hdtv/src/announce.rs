//! The description (SDP) of the stream that a sender is about to send.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;

use crate::layout::{Layout, PAYLOAD_TYPE, burst_limits};
use crate::sdp::{Announcement, Description, TrafficProfile};
use crate::sender::{SendConfig, SendError};
use crate::transmit::bursts;

/// Describes the stream of a sender as SMPTE ST 2110-10 and ST 2110-20 have it. `number`
/// distinguishes this session from others of the same host.
///
/// # Errors
/// If the stream cannot be sent so: see [`SendError`].
pub fn describe(config: &SendConfig, number: u64) -> Result<String, SendError> {
    let to = config.route.to;
    let from = config.route.source_address()?;
    let limit = config.datagram_limit();
    let layout = Layout::new(&config.format, limit.packet_bytes(), 0)?;
    let description = Description {
        to,
        ttl: config.route.group_ttl().filter(|_| to.is_ipv4()),
        sources: if to.ip().is_multicast() { vec![from] } else { Vec::new() },
        payload_type: PAYLOAD_TYPE,
        format: config.format,
    };
    let announcement = Announcement {
        from,
        number,
        hardware_address: hardware_address(from),
        is_clocked: config.first_timestamp.is_none(),
        max_udp_bytes: limit.is_extended.then_some(limit.udp_bytes),
        profile: profile(config, &layout),
    };
    Ok(description.write(&announcement))
}

/// The sender type that the bursts are small enough for.
fn profile(config: &SendConfig, layout: &Layout) -> Option<TrafficProfile> {
    let longest = bursts(layout, config.burst).iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let (narrow, wide) = burst_limits(&config.format, layout.packets().len());
    match longest {
        _ if longest <= narrow => Some(TrafficProfile::NarrowLinear),
        _ if longest <= wide => Some(TrafficProfile::Wide),
        _ => None,
    }
}

/// The hardware address of the interface that has an address; `None` if it has none of six bytes,
/// such as loopback and TUN interfaces.
fn hardware_address(of: IpAddr) -> Option<[u8; 6]> {
    let all: Vec<_> = getifaddrs().ok()?.collect();
    let has_address = |found: &&nix::ifaddrs::InterfaceAddress| {
        let Some(address) = &found.address else { return false };
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))) == Some(of)
    };
    let name = &all.iter().find(has_address)?.interface_name;
    let links = all.iter().filter(|found| found.interface_name == *name);
    let hardware = links.filter_map(|found| found.address.as_ref()?.as_link_addr()?.addr());
    hardware.into_iter().find(|address| *address != [0; 6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::transmit::Route;

    fn config(to: &str, mtu: usize, burst: usize) -> SendConfig {
        let format: Format = "1080p50".parse().expect("a name");
        SendConfig {
            route: Route { to: to.parse().expect("an address"), interface: None, ttl: None },
            format,
            mtu,
            burst,
            frames: None,
            first_timestamp: None,
            snapshots: Vec::new(),
            digests: None,
            is_real_time: false,
            name: "test".to_owned(),
        }
    }

    #[test]
    fn a_stream_to_the_loopback_interface_has_no_clock_of_an_address() {
        let text = describe(&config("127.0.0.1:5004", 1500, 16), 1).expect("loopback");
        assert!(text.contains("c=IN IP4 127.0.0.1\r\n"), "{text}");
        assert!(text.contains("a=ts-refclk:local\r\n") && text.contains("a=mediaclk:direct=0\r\n"), "{text}");
        assert!(!text.contains("MAXUDP") && !text.contains("source-filter"), "{text}");
    }

    #[test]
    fn datagrams_and_bursts_are_described() {
        let text = |mtu, burst| describe(&config("127.0.0.1:5004", mtu, burst), 1).expect("loopback");
        assert!(text(9000, 16).contains("; MAXUDP=8960") && text(2000, 16).contains("; MAXUDP=1980"));
        assert!(text(1500, 16).contains("; TP=2110TPW") && text(1500, 4).contains("; TP=2110TPNL"));
        assert!(!text(1500, 60).contains("TP=2110"));
    }
}
