//! The tester's ends on real interfaces in network namespaces: each kind, over IPv4 and IPv6, finds
//! exactly the packets that a router between them drops. Needs root. It is alone in its executable
//! because it sets the size of the process's packet memory.

use convoy_kernel::testing::{Namespace, run, wait_until_delivered};
use convoy_measure::{
    DeviceOutcome, DeviceTrial, DeviceUnderTest, End, EndKind, EndSpec, Flow, Lengths, Phase, Tester, Time,
    Ways,
};

/// Packets per trial and direction: few enough for every queue on the path, so that a busy machine
/// loses none.
const PACKETS: u64 = 200;
/// The router drops one of this many packets, where it is ordered to.
const ONE_IN: u64 = 8;
/// Number of ends of all tests together.
const ENDS: usize = 6;

/// The ends to test: in the first host and in the second.
const ENDS_OF_KINDS: [[&str; 2]; 8] = [
    ["udp:10.1.0.10", "udp:10.2.0.10"],
    ["udp:fd00:1::10", "udp:fd00:2::10"],
    ["tun:t0=10.1.9.1/24", "tun:t0=10.2.9.1/24"],
    ["tun:t0=fd00:1:9::1/64", "tun:t0=fd00:2:9::1/64"],
    ["af_packet:eth0=10.1.0.10", "af_packet:eth0=10.2.0.10"],
    ["af_packet:eth0=fd00:1::10", "af_packet:eth0=fd00:2::10"],
    ["af_xdp:eth0=10.1.0.10", "af_xdp:eth0=10.2.0.10"],
    ["af_xdp:eth0=fd00:1::10", "af_xdp:eth0=fd00:2::10"],
];

/// Two hosts, each connected to a router by a veth pair. Behind each host is a network, 10.x.9.0/24
/// and fd00:x:9::/64.
struct Hosts {
    hosts: [Namespace; 2],
    router: Namespace,
}

fn forward() {
    for (key, value) in [
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        // IPv6 addresses are usable without waiting for duplicate address detection.
        ("ipv6/conf/default/accept_dad", "0"),
    ] {
        std::fs::write(format!("/proc/sys/net/{key}"), value).expect("root may set it");
    }
}

impl Hosts {
    fn new() -> Self {
        End::make_memory(ENDS).expect("memory for frames");
        let (hosts, router) = ([1, 2].map(|_| Namespace::create()), Namespace::create());
        for (own, host) in (1..).zip(&hosts) {
            let other = 3 - own;
            let [v4, v6] = [format!("10.{own}.0.10/24"), format!("fd00:{own}::10/64")];
            let [gate_v4, gate_v6] = [format!("10.{own}.0.1/24"), format!("fd00:{own}::1/64")];
            let device = format!("host{own}");
            host.link(&router, 1500, [("eth0", &[&v4, &v6]), (&device, &[&gate_v4, &gate_v6])]);
            host.inside(|| {
                forward();
                for network in [
                    format!("10.{other}.0.0/16 via 10.{own}.0.1"),
                    format!("fd00:{other}::/32 via fd00:{own}::1"),
                ] {
                    run(&format!("ip route add {network}"));
                }
            });
            router.inside(|| {
                forward();
                for network in [
                    format!("10.{own}.9.0/24 via 10.{own}.0.10"),
                    format!("fd00:{own}:9::/64 via fd00:{own}::10"),
                ] {
                    run(&format!("ip route add {network}"));
                }
            });
        }
        Self { hosts, router }
    }

    /// Makes the router drop one in [`ONE_IN`] of the tester's packets.
    fn lose_some(&self) {
        self.router.inside(|| {
            run("nft add table inet test");
            run("nft add chain inet test forward { type filter hook forward priority 0 ; }");
            run(&format!("nft add rule inet test forward udp dport 9000 numgen inc mod {ONE_IN} == 0 drop"));
        });
    }

    fn tester(&self, ends: [&str; 2]) -> Tester {
        let ends = ends.map(|text| text.parse::<EndSpec>().expect(text));
        let flow = Flow::between(ends[0].address(), ends[1].address()).expect("of one family");
        let open = |at: usize, peer| {
            let end = &ends[at];
            let port = self.hosts[at].inside(|| {
                let port = end.open(peer).unwrap_or_else(|error| panic!("{end}: {error}"));
                if let EndKind::Tun { address, .. } = &end.kind {
                    wait_until_delivered(&address.to_string());
                }
                port
            });
            End::new(port).expect("memory for frames")
        };
        let mut tester = Tester::new([open(0, flow.to), open(1, flow.from)], flow, Time::machine());
        assert!(tester.learn().expect("a router does not fail"), "nothing arrives at {}", ends[1]);
        tester
    }
}

/// Runs trials until the tester had enough processor time to send all packets.
fn send(tester: &mut Tester, lengths: Lengths, ways: Ways) -> DeviceOutcome {
    let trial = DeviceTrial { phases: vec![Phase::of_packets(PACKETS, 20_000.0)], lengths, ways };
    let mut trials = (0..100).map(|_| tester.trial(&trial).expect("a router does not fail"));
    let all = ways.count() as u64 * PACKETS;
    trials.find(|outcome| outcome.sent == all).expect("time to send some packets")
}

#[test]
fn packets_pass_between_ends_of_every_kind_over_either_family() {
    let hosts = Hosts::new();
    for ends in ENDS_OF_KINDS {
        let mut tester = hosts.tester(ends);
        let (least, most) = tester.packet_bytes().into_inner();
        // The veth pairs carry 1500 bytes, whatever the tester's own interface allows.
        for length in [least, 512, most.min(1500)] {
            let outcome = send(&mut tester, Lengths::All(length), Ways::Both);
            assert_eq!(outcome.lost(), 0, "{ends:?}, {length} bytes");
            assert_eq!((outcome.duplicated, outcome.reordering.packets), (0, 0), "{ends:?}");
            assert!(outcome.latency.p50_us > 0.0);
        }
    }
}

#[test]
fn ends_of_every_kind_find_what_a_router_loses_to_the_packet() {
    let hosts = Hosts::new();
    hosts.lose_some();
    for ends in ENDS_OF_KINDS {
        let mut tester = hosts.tester(ends);
        let outcome = send(&mut tester, Lengths::All(128), Ways::Both);
        assert_eq!(outcome.lost(), outcome.sent / ONE_IN, "{ends:?}");
    }
}

#[test]
fn an_interface_with_two_queues_is_none_for_af_xdp_and_it_says_what_to_run() {
    End::make_memory(ENDS).expect("memory for frames");
    Namespace::create().inside(|| {
        run("ip link add q0 numrxqueues 2 numtxqueues 2 type veth peer name q1");
        run("ip link set q0 up");
        run("ip link set q1 up");
        let end: EndSpec = "af_xdp:q0=192.0.2.1".parse().expect("good");
        let Err(error) = end.open(end.address()) else { panic!("packets of the second queue would be lost") };
        let error = error.to_string();
        assert!(error.contains("2 receive queues") && error.contains("ethtool -L q0 combined 1"), "{error}");
    });
}
