//! The guard's table in the kernel, in a separate network namespace. Needs root.

use std::process::Command;

use convoy_kernel::guard::{FlowSide, Guard, GuardedFlow, InsideInterface};
use convoy_kernel::{GuardCounts, GuardPlan, Prefix};

use convoy_kernel::testing::Namespace;

const TABLE: u32 = 4500;

fn prefix(text: &str) -> Prefix {
    let (address, bits) = text.split_once('/').expect("a prefix");
    Prefix { address: address.parse().expect("an address"), bits: bits.parse().expect("a length") }
}

fn plan(remote: &[&str]) -> GuardPlan {
    let side = |text: &str, ports| {
        let Prefix { address, .. } = prefix(text);
        FlowSide { first: address, last: address, protocol: Some(6), ports }
    };
    GuardPlan {
        mark: 4500,
        inside: vec![InsideInterface { name: "convoy0".to_owned(), is_tunnels: true }],
        remote: remote.iter().map(|text| prefix(text)).collect(),
        here: vec![prefix("10.1.0.0/24")],
        outer: vec!["192.0.2.1".parse().expect("an address")],
        peers: vec!["198.51.100.1".parse().expect("an address")],
        udp_ports: vec![500, 4500],
        transport: Vec::new(),
        transport_mark: 0,
        bypass: vec![GuardedFlow {
            local: side("10.1.0.9/32", Some((22, 22))),
            remote: side("10.2.0.9/32", None),
        }],
    }
}

fn nft(words: &str) -> String {
    let output = Command::new("nft").args(words.split(' ')).output().expect("nft is installed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn list() -> String {
    nft("list table inet convoy_4500")
}

#[test]
fn the_table_is_as_nft_reads_it() {
    Namespace::create().inside(|| {
        let mut guard = Guard::open(TABLE).expect("nfnetlink");
        assert_eq!(Guard::remove_stale(TABLE).expect("readable"), None);
        guard.set(plan(&["10.0.0.0/8", "fd00:2::/64"]), vec![prefix("10.7.0.0/16")]).expect("set");
        let table = list();
        for line in [
            "elements = { 10.0.0.0/16, 10.1.1.0-10.6.255.255,",
            "elements = { fd00:2::/64 }",
            "type filter hook input priority raw - 10; policy accept;",
            "type filter hook forward priority raw - 10; policy accept;",
            "iifname \"convoy0\" accept",
            "ip saddr @remote4 jump from_remote",
            "ip6 saddr @remote6 jump from_remote",
            "meta l4proto esp accept",
            "udp dport 4500 accept",
            "type filter hook postrouting priority raw - 10; policy accept;",
            "oifname \"lo\" accept",
            "ip daddr @remote4 jump to_remote",
            "meta mark 0x00001194 accept",
            "ip daddr 10.1.0.9-10.1.0.9 ip saddr 10.2.0.9-10.2.0.9 tcp dport 22-22 accept",
            "counter packets 0 bytes 0 drop",
        ] {
            assert!(table.contains(line), "no {line:?} in {table}");
        }
        assert_eq!(guard.counts().expect("readable"), GuardCounts::default());
        assert_eq!(Guard::remove_stale(TABLE).expect("removed").as_deref(), Some("convoy_4500"));
        assert_eq!(list(), "");
        guard.remove().expect("no error where there is none");
    });
}

#[test]
fn a_default_route_is_guarded_for_this_side_alone() {
    Namespace::create().inside(|| {
        let mut guard = Guard::open(TABLE).expect("nfnetlink");
        guard.set(plan(&["0.0.0.0/0"]), vec![prefix("192.168.7.0/24")]).expect("set");
        let table = list();
        assert!(table.contains("ip daddr @here4 ip saddr != @near4 jump from_remote"), "{table}");
        assert!(table.contains("ip saddr @here4 ip daddr != @near4 jump to_remote"), "{table}");
        assert!(table.contains("192.168.7.0/24") && !table.contains("remote4"), "{table}");
    });
}

#[test]
fn what_somebody_changes_is_set_again_and_nothing_else() {
    Namespace::create().inside(|| {
        let mut guard = Guard::open(TABLE).expect("nfnetlink");
        guard.set(plan(&["10.2.0.0/24"]), Vec::new()).expect("set");
        assert!(!guard.restore(None).expect("whole"));
        let before = list();
        for change in ["flush ruleset", "flush chain inet convoy_4500 forward"] {
            nft(change);
            assert!(guard.restore(None).expect("set again"), "{change}");
            assert_eq!(list(), before, "{change}");
        }
        assert!(
            !guard.restore(Some(vec![prefix("10.2.0.64/26")])).expect("set again"),
            "by no other program"
        );
        assert!(list().contains("10.2.0.0/26"), "{}", list());
    });
}

#[test]
fn ten_thousand_networks_of_either_family_are_one_change() {
    Namespace::create().inside(|| {
        let mut guard = Guard::open(TABLE).expect("nfnetlink");
        // Every second network, so that the kernel cannot merge neighbours.
        let v4 = (0..10_000_u32).map(|number| format!("11.{}.{}.0/25", number >> 8, number & 255));
        let v6 = (0..10_000_u32).map(|number| format!("fd00:{:x}::/64", number));
        let networks: Vec<String> = v4.chain(v6).collect();
        let networks: Vec<&str> = networks.iter().map(String::as_str).collect();
        guard.set(plan(&networks), Vec::new()).expect("set");
        let table = list();
        for network in ["11.0.0.0/25", "11.39.15.0/25", "fd00:270f::/64"] {
            assert!(table.contains(network), "{network}");
        }
        guard.set(plan(&["10.2.0.0/24"]), Vec::new()).expect("set");
        assert!(list().len() < 4_000);
    });
}
