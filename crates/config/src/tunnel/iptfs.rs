//! `[tunnel.iptfs]`.

use convoy_ipsec::{IptfsConfig, Mode};
use convoy_settings::Checker;
use toml::Spanned;

use super::is_set;
use crate::file;

/// The least outer packet, in bytes: what every host on an IPv4 path takes (RFC 791).
const LEAST_PACKET: u16 = 576;
/// Outer packets a second at a constant rate, at most: more than a worker can send.
const HIGHEST_RATE: u32 = 10_000_000;
/// Payloads behind a missing one, at most: each is a frame of the worker's that waits.
const MOST_REORDERED: u16 = 256;

/// Checks it. Times are in microseconds, as Linux and strongSwan have them.
pub(super) fn iptfs(c: &mut Checker<'_>, file: &file::Tunnel, mode: Option<Mode>) -> IptfsConfig {
    let default = IptfsConfig::default();
    let Some(keys) = &file.iptfs else { return default };
    if mode.is_some_and(|mode| mode != Mode::Iptfs) {
        c.add(&keys.at.span, "tunnel.iptfs", "it is only for mode = \"iptfs\"");
    }
    let time_ns = |us: &Option<Spanned<u32>>, default_ns| {
        us.as_ref().map_or(default_ns, |us| u64::from(*us.get_ref()) * 1_000)
    };
    let pkt_size = c.in_range(keys.pkt_size.as_ref(), "tunnel.iptfs.pkt_size", 0, 0..=u16::MAX);
    if let Some(text) = keys.pkt_size.as_ref().filter(|_| (1..LEAST_PACKET).contains(&pkt_size)) {
        let what = format!("it must be 0 (the path MTU) or at least {LEAST_PACKET} bytes");
        c.add(&text.span(), "tunnel.iptfs.pkt_size", what);
    }
    let rate = (keys.packet_rate.as_ref(), "tunnel.iptfs.packet_rate");
    let packet_rate = c.in_range(rate.0, rate.1, 0, 0..=HIGHEST_RATE);
    let is_paced = packet_rate > 0;
    c.only(
        keys.init_delay.as_ref(),
        !is_paced,
        "tunnel.iptfs.init_delay",
        "it has no effect at a constant rate (packet_rate), which sets when packets leave",
    );
    c.only(
        keys.max_queue_size.as_ref(),
        is_paced,
        "tunnel.iptfs.max_queue_size",
        "it is only for a constant rate (packet_rate), at which packets are queued",
    );
    let reorder = (keys.reorder_window.as_ref(), "tunnel.iptfs.reorder_window");
    IptfsConfig {
        drop_time_ns: time_ns(&keys.drop_time, default.drop_time_ns),
        reorder_window: c.in_range(reorder.0, reorder.1, default.reorder_window, 0..=MOST_REORDERED),
        init_delay_ns: time_ns(&keys.init_delay, default.init_delay_ns),
        max_queue_size: keys.max_queue_size.as_ref().map_or(default.max_queue_size, |size| *size.get_ref()),
        dont_frag: is_set(keys.dont_frag.as_ref(), default.dont_frag),
        pkt_size,
        packet_rate,
    }
}
