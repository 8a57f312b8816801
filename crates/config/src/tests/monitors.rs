use std::time::Duration;

use convoy_dataplane::monitor::Means;

use super::*;

/// The valid configuration with a monitor of these lines.
fn monitored(lines: &str) -> String {
    changed("[tunnel.manual]", &format!("[tunnel.monitor]\n{lines}\n[tunnel.manual]"))
}

fn means(text: &str) -> MonitorConfig {
    let config = Config::parse("site-a.toml", text).expect("good");
    let [monitor] = &config.monitors[..] else { panic!("one monitor") };
    monitor.clone()
}

fn first_error(lines: &str) -> String {
    errors(&monitored(lines)).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn pings_come_from_the_address_inside_that_the_tunnel_takes() {
    let monitor = means(&monitored("ping = \"10.2.0.9\""));
    let (target, source) = ([10, 2, 0, 9].into(), [10, 1, 0, 1].into());
    assert_eq!(monitor.means, Means::Ping { target, source });
    assert_eq!((monitor.interval, monitor.lost_after), (Duration::from_secs(1), Duration::from_secs(3)));
    let monitor = means(&monitored("ping = \"10.2.0.9\"\nsource = \"10.1.0.77\"\ninterval_ms = 100"));
    assert_eq!(monitor.means, Means::Ping { target, source: [10, 1, 0, 77].into() });
    assert_eq!(monitor.lost_after, Duration::from_millis(300));
    let text = include_str!("monitored.toml");
    assert_eq!(means(text).tunnel, "site-b");
}

#[test]
fn echoes_need_no_addresses() {
    let monitor = means(&monitored("echo = true\nlost_after_ms = 2000"));
    assert_eq!((monitor.means, monitor.lost_after), (Means::Echo, Duration::from_secs(2)));
}

#[test]
fn what_cannot_be_probed_is_an_error_that_says_what_to_write() {
    for (lines, wanted) in [
        ("interval_ms = 500", "tunnel.monitor.ping: it is missing; add ping = \"10.2.0.1\""),
        ("ping = \"10.9.0.1\"", "no ping to 10.9.0.1 passes the tunnel's remote_ts"),
        ("ping = \"10.2.0.1\"\nsource = \"10.7.0.1\"", "no ping from 10.7.0.1 to 10.2.0.1 passes"),
        ("ping = \"10.2.0.1\"\necho = true", "tunnel.monitor.ping: the tunnel is probed by ESP echoes"),
        ("echo = true\nsource = \"10.1.0.1\"", "tunnel.monitor.source: it is only for pings"),
        ("ping = \"10.2.0.1\"\ninterval_ms = 50", "50 is out of range; it must be 100 to 60000"),
        ("ping = \"10.2.0.1\"\nlost_after_ms = 1999", "1999 is out of range; it must be 2000 to 600000"),
    ] {
        let error = first_error(lines);
        assert!(error.contains(wanted), "{lines}: {error}");
    }
    let elsewhere = monitored("ping = \"10.2.0.1\"")
        .replace("address = [\"10.1.0.1/24\"]", "address = [\"10.7.0.1/24\"]");
    assert!(errors(&elsewhere).contains("no address of an inside port is in the tunnel's local_ts"));
    let iptfs = monitored("echo = true").replace("encap = \"udp\"", "mode = \"iptfs\"");
    Config::parse("a.toml", &iptfs).expect("echoes pass between payloads");
    let paced = iptfs.replace("[tunnel.manual]", "[tunnel.iptfs]\npacket_rate = 100\n[tunnel.manual]");
    assert!(errors(&paced).contains("echoes between the packets of a constant rate"));
    let transport = monitored("echo = true").replace("encap = \"udp\"", "mode = \"transport\"");
    assert!(errors(&transport).contains("ESP echoes are only for ESP in mode = \"tunnel\" and \"iptfs\""));
}
