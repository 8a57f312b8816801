//! The tables that an operator sees, with realistic long values.

use convoy_report::snapshot::{
    Buckets, CharonRow, ConfiguredRow, EngineRow, GuardRow, MemoryRow, PolicyRow, PortRow, SaRow,
    SchedulerRow, TunnelRow,
};

use super::*;

const ALL: [Option<Shown>; 8] = [
    None,
    Some(Shown::Tunnel),
    Some(Shown::Sa),
    Some(Shown::Policy),
    Some(Shown::Engine),
    Some(Shown::Scheduler),
    Some(Shown::Port),
    Some(Shown::Stats),
];

fn sa(tunnel: &str, direction: &str, spi: u32, remote: &str) -> SaRow {
    SaRow {
        tunnel: tunnel.to_owned(),
        tunnel_id: u32::from(tunnel == "site-b"),
        child: "net".to_owned(),
        worker: 3,
        spi,
        direction: direction.to_owned(),
        protocol: "esp".to_owned(),
        mode: "tunnel".to_owned(),
        local: "192.0.2.1".to_owned(),
        local_port: Some(4500),
        remote: remote.to_owned(),
        remote_port: Some(61_234),
        encap: "udp".to_owned(),
        transform: "aes256ctr-sha256".to_owned(),
        esn: true,
        replay_window: (direction == "inbound").then_some(65_536),
        packets: 9_876_543_210,
        bytes: 14_814_814_815_000,
        sequence: 9_876_543_210,
        path_mtu: Some(1400),
        age_s: 12_345.0,
        last_used_s: Some(0.25),
        has_ended: false,
        inline_by: String::new(),
        iptfs: None,
        lifetime_part: None,
        drops: [("replayed".to_owned(), 1_234_567_890), ("integrity_failed".to_owned(), 2)].into(),
    }
}

fn policy(name: &str, local: &str, remote: &str) -> PolicyRow {
    PolicyRow {
        name: name.to_owned(),
        child: String::new(),
        others: Vec::new(),
        tunnel_id: (name != "bypass").then_some(0),
        priority: 4_294_967_295,
        local: local.to_owned(),
        remote: remote.to_owned(),
        action: "protect".to_owned(),
        packets: 9_876_543_210,
        bytes: 14_814_814_815_000,
    }
}

fn engine(name: &str, kind: &str, down: &str) -> EngineRow {
    EngineRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        is_model: kind == "card",
        down: down.to_owned(),
        packets: 9_876_543_210,
        multi_packets: 1_234_567_890,
        queued: 10,
        failures: 3,
        retried_packets: 96,
        predicted_ns: 12_345.6,
        prediction_error_ns: 789.0,
        ..EngineRow::default()
    }
}

fn configured(name: &str) -> ConfiguredRow {
    ConfiguredRow {
        name: name.to_owned(),
        has_static_keys: true,
        remote: "198.51.100.7".to_owned(),
        ..ConfiguredRow::default()
    }
}

/// The totals of site-b, which had SAs before the present ones.
fn total(direction: &str) -> TunnelRow {
    TunnelRow {
        tunnel: "site-b".to_owned(),
        direction: direction.to_owned(),
        packets: 19_876_543_210,
        bytes: 24_814_814_815_000,
        drops: [("replayed".to_owned(), 2_234_567_890)].into(),
        last_used_s: None,
    }
}

/// A busy gateway with long names, addresses and counters.
fn busy() -> Snapshot {
    let port = |name: &str, kind: &str| PortRow {
        name: name.to_owned(),
        kind: kind.to_owned(),
        mtu: 9400,
        mtu_reason: "tunnel site-b: aes128gcm16 in UDP over IPv4, in 1500 bytes outside".to_owned(),
        received_packets: 9_876_543_210,
        received_bytes: 14_814_814_815_000,
        sent_packets: 9_876_543_210,
        sent_bytes: 14_814_814_815_000,
        receive_dropped: 1_234_567_890,
        system_calls: 1_234_567_890,
        device: [("encrypted".to_owned(), 9_876_543_210), ("wrong_icv".to_owned(), 0)].into(),
        ..PortRow::default()
    };
    Snapshot {
        version: "0.1.0".to_owned(),
        started_s: 1_700_000_000.0,
        uptime_s: 1_000_000.0,
        taken_s: 1_701_000_000.0,
        configuration: "/etc/convoy/convoy.toml".to_owned(),
        configured_s: 1_700_990_000.0,
        workers: 2,
        configured: vec![configured("branch-c"), configured("site-b")],
        tunnels: vec![total("outbound"), total("inbound")],
        sas: vec![
            sa(
                "headquarters-to-branch-office/servers",
                "outbound",
                0xc001_d00d,
                "2001:db8:1111:2222:3333:4444:5555:6666",
            ),
            sa("site-b", "inbound", 0x1001, "192.0.2.2"),
            sa("site-b", "outbound", 0x1002, "192.0.2.2"),
        ],
        policies: vec![
            policy("bypass", "192.0.2.1[tcp/22]", "0.0.0.0/0"),
            policy(
                "headquarters-to-branch-office/servers",
                "2001:db8:1111:2222::/64[udp/5000-5999]",
                "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff[tcp/443]",
            ),
        ],
        engines: vec![
            engine("software0", "software", ""),
            engine("the crypto card in slot 2", "card", "it did not answer before its deadline"),
        ],
        schedulers: vec![SchedulerRow {
            worker: 1,
            window: 1024,
            waiting: 12,
            wait_ns: Buckets { buckets: vec![(Some(512), 9_876_543_210)], sum: 9_876_543_210_000 },
            ..SchedulerRow::default()
        }],
        ports: vec![port("inside", "tun"), port("outside towards the provider", "udp")],
        drops: [("replayed".to_owned(), 1_234_567_890), ("integrity_failed".to_owned(), 2)].into(),
        protected: 9_876_543_210,
        decrypted: 9_876_543_210,
        handed_over: 1_234_567_890,
        silent_workers: vec![7],
        guard: Some(GuardRow { table: "convoy_4500".to_owned(), dropped_inbound: 12, dropped_outbound: 0 }),
        memory: Some(MemoryRow { bytes: 56 << 20, pages: "transparent huge pages".to_owned() }),
        charon: Some(CharonRow { is_connected: true, acquires: 1_234_567_890, ..CharonRow::default() }),
        ..Snapshot::default()
    }
}

fn shown(what: Option<Shown>, now: &Snapshot, before: Option<&Snapshot>, is_wide: bool) -> String {
    detailed(what, None, now, before, is_wide)
}

fn detailed(
    what: Option<Shown>,
    name: Option<&str>,
    now: &Snapshot,
    before: Option<&Snapshot>,
    is_wide: bool,
) -> String {
    let interval = before.and_then(|before| RunInterval::between(before, now));
    let view = ShownSnapshot { now, interval, has_rates: before.is_some(), is_wide };
    let filter = Filter { tunnel: name, peer: None };
    match table(what, name.is_some(), &view, &filter) {
        Ok(text) => text,
        Err(failure) => panic!("{failure}"),
    }
}

fn name_of(what: Option<Shown>) -> String {
    what.map_or_else(|| "summary".to_owned(), |what| format!("{what:?}").to_lowercase())
}

/// [`busy`], some seconds earlier.
fn earlier(seconds: f64) -> Snapshot {
    let mut before = busy();
    before.uptime_s -= seconds;
    before.sas.remove(1);
    before.sas[1].bytes -= 5_000;
    before.tunnels[0].bytes -= 6_000;
    before.sas[0].packets -= 2_000_000;
    before.sas[0].bytes -= 3_000_000_000;
    before.ports[0].received_packets -= 100;
    before.policies[1].bytes -= 1_000;
    before.engines[0].packets -= 1_000;
    before.protected -= 50;
    before.drops.insert("replayed".to_owned(), 1_234_567_880);
    before
}

#[test]
fn every_table_fits_80_columns_whatever_is_in_it() {
    let (now, before) = (busy(), earlier(2.0));
    for what in ALL {
        for before in [None, Some(&before)] {
            let text = shown(what, &now, before, false);
            for line in text.lines() {
                assert!(line.chars().count() <= 80, "{} characters:\n{text}", line.chars().count());
            }
        }
    }
}

#[test]
fn nothing_is_left_out_of_wide_tables() {
    let text = shown(Some(Shown::Sa), &busy(), None, true);
    for word in [
        "headquarters-to-branch-office/servers",
        "0xc001d00d",
        "[2001:db8:1111:2222:3333:4444:5555:6666]:61234",
        "192.0.2.1:4500",
        "aes256ctr-sha256",
        "65536",
        "9876543210",
        "14814814815000",
        "replayed 1234567890",
    ] {
        assert!(text.lines().any(|line| line.contains(word)), "{word} is missing in\n{text}");
    }
}

#[test]
fn tables() {
    let now = busy();
    for what in ALL {
        insta::assert_snapshot!(name_of(what), shown(what, &now, None, false));
    }
}

#[test]
fn tables_with_rates() {
    let (now, before) = (busy(), earlier(2.0));
    for what in ALL {
        let name = format!("{}_rates", name_of(what));
        insta::assert_snapshot!(name, shown(what, &now, Some(&before), false));
    }
}

#[test]
fn a_tunnel_in_detail() {
    let (now, before) = (busy(), earlier(2.0));
    let text = detailed(Some(Shown::Tunnel), Some("site-b"), &now, Some(&before), false);
    insta::assert_snapshot!("tunnel_site_b", text);
    let text = detailed(Some(Shown::Tunnel), Some("headquarters-to-branch-office"), &now, None, false);
    insta::assert_snapshot!("tunnel_headquarters", text);
}

/// Two hundred tunnels with a peer each, of IPv4 and IPv6 in turn.
fn many() -> Snapshot {
    let tunnel = |number: u32| {
        let name = format!("branch-office-number-{number}");
        let remote = match number % 2 {
            0 => format!("198.51.100.{number}"),
            _ => format!("2001:db8:1111:2222:3333:4444:5555:{number:x}"),
        };
        ["outbound", "inbound"].map(|way| SaRow { tunnel_id: number, ..sa(&name, way, number, &remote) })
    };
    Snapshot { sas: (0..200).flat_map(tunnel).collect(), ..busy() }
}

#[test]
fn two_hundred_tunnels_have_a_line_each_of_at_most_80_columns() {
    let now = many();
    for before in [None, Some(&now)] {
        let text = shown(Some(Shown::Tunnel), &now, before, false);
        let lines: Vec<&str> = text.lines().collect();
        // Beside them the header, two of the configuration, and one of a policy.
        assert_eq!(lines.len(), 204, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let number = |line: &&str| line.contains(" up ") && line.starts_with("branch-");
        let rows: std::collections::BTreeSet<&str> =
            lines.iter().filter(|line| number(line)).copied().collect();
        assert_eq!(rows.len(), 200, "each is distinguished from the others:\n{text}");
    }
}

#[test]
fn json_has_numbers_as_numbers_and_drops_as_an_object() {
    let text = text(&busy().sas, false).expect("JSON");
    let sas: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let first = &sas[0];
    assert_eq!(first["spi"], 0xc001_d00d_u32);
    assert_eq!(first["drops"]["replayed"], 1_234_567_890);
    assert_eq!((&first["local_port"], &first["remote_port"]), (&4500.into(), &61_234.into()));
    assert!(first["replay_window"].is_null() && sas[1]["replay_window"] == 65_536);
}

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_who_leaves_early_is_no_error_and_a_full_disk_is() {
    assert!(matches!(print(&mut Broken(io::ErrorKind::BrokenPipe), "all"), Ok(false)));
    assert!(print(&mut Broken(io::ErrorKind::StorageFull), "all").is_err());
    assert!(matches!(print(&mut Vec::new(), "all"), Ok(true)));
}
