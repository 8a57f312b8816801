//! Requirements that the machine does not meet.

use std::net::IpAddr;

use convoy_settings::Interface;

use super::{GOOD, changed};
use crate::PRODUCT;
use crate::{Basis, Config, HostEnvironment, ThisMachine};

/// A machine with two cores, a link with an MTU of 1,500 bytes, an open TUN interface and the usual
/// user.
struct Router;

impl HostEnvironment for Router {
    fn interfaces(&self) -> Option<Vec<Interface>> {
        let interface = |name: &str, mtu, is_tun, network: &str| Interface {
            name: name.to_owned(),
            mtu,
            is_tun,
            networks: vec![network.parse().expect("a network")],
        };
        Some(vec![
            interface("lo", 65_536, false, "127.0.0.1/8"),
            interface("wan0", 1500, false, "192.0.2.1/24"),
            interface("convoy0", 1438, true, "10.1.0.1/24"),
        ])
    }

    fn has_address(&self, address: IpAddr) -> Option<bool> {
        Some(["192.0.2.1", "10.1.0.1"].map(|it| it.parse().expect("an address")).contains(&address))
    }

    fn cores(&self) -> Option<Vec<usize>> {
        Some(vec![0, 1])
    }

    fn disables_v6(&self, interface: &str) -> Option<String> {
        (interface == "off0").then(|| "net.ipv6.conf.default.disable_ipv6".to_owned())
    }

    fn has_user(&self, name: &str) -> Option<bool> {
        Some(name == "convoy")
    }
}

fn reported(text: &str) -> String {
    let config = Config::parse_at("a.toml", text, &Basis { kinds: &PRODUCT, machine: &Router })
        .expect("good but for warnings");
    config.warnings.iter().map(|warning| format!("{}\n", warning.in_one_line())).collect()
}

fn refusal(text: &str) -> String {
    Config::parse("a.toml", text).expect("nothing is known of another machine");
    Config::parse_at("a.toml", text, &Basis { kinds: &PRODUCT, machine: &Router })
        .expect_err("this one lacks it")
        .0[0]
        .in_one_line()
}

#[test]
fn what_the_machine_has_is_not_warned_of() {
    assert_eq!(reported(GOOD), "");
    assert_eq!(reported(&changed("kind = \"software\"", "kind = \"software\"\ncore = 1")), "");
    assert_eq!(reported(&changed("[gateway]\n", "[gateway]\nuser = \"convoy\"\nmtu = 1500\n")), "");
}

#[test]
fn a_core_that_the_machine_lacks_is_an_error() {
    for kind in ["software", "multibuffer"] {
        let text = changed("kind = \"software\"", &format!("kind = \"{kind}\"\ncore = 99"));
        let what = "a.toml:6:8: engine.core: there is no core 99; this machine has cores 0-1";
        assert_eq!(refusal(&text), what);
    }
}

#[test]
fn an_unknown_user_is_an_error() {
    let text = changed("[gateway]\n", "[gateway]\ncharon_user = \"ike\"\n");
    let what = "a.toml:2:15: gateway.charon_user: there is no user \"ike\"; run: useradd --system";
    assert!(refusal(&text).starts_with(what), "{}", refusal(&text));
    let text = changed("[gateway]\n", "[gateway]\nuser = \"convoi\"\n");
    let what = "a.toml:2:8: gateway.user: there is no user \"convoi\"; run: useradd --system";
    assert!(refusal(&text).starts_with(what), "{}", refusal(&text));
}

#[test]
fn a_device_for_the_tun_that_is_another_interface_is_an_error() {
    let text = refusal(&changed("\"convoy0\"", "\"wan0\""));
    let what = "a.toml:10:10: port.device: the interface \"wan0\" exists and is not a TUN interface";
    assert!(text.starts_with(what) && text.contains("convoy0"), "{text}");
}

#[test]
fn v6_address_where_the_kernel_has_none_is_an_error() {
    let device =
        |name: &str| changed("\"convoy0\"", &format!("\"{name}\"")).replace("10.1.0.1/24", "fd00::1/64");
    assert_eq!(reported(&device("convoy1")), "");
    let what = "a.toml:11:12: port.address: net.ipv6.conf.default.disable_ipv6 = 1, so that the kernel gives the \
                interface no IPv6 address; run: sysctl -w net.ipv6.conf.default.disable_ipv6=0, or remove the address";
    assert_eq!(refusal(&device("off0")), what);
    let own = format!("{}[[interface]]\nname = \"off0\"\naddress = [\"fd00:9::1/64\"]\n", GOOD);
    assert!(
        refusal(&own).contains("interface.address: net.ipv6.conf.default.disable_ipv6 = 1"),
        "{}",
        refusal(&own)
    );
}

#[test]
fn link_local_address_outside_is_an_error_and_inside_is_none() {
    let outside =
        |address: &str| GOOD.replace("192.0.2.1\"", &format!("{address}\"")).replace("192.0.2.2", "fe80::2");
    let errors = Config::parse("a.toml", &outside("fe80::1")).expect_err("no scope").0;
    let lines: Vec<String> = errors.iter().map(|problem| problem.in_one_line()).collect();
    let found = |key: &str, address: &str| {
        lines
            .iter()
            .any(|line| line.contains(&format!("{key}: {address} is a link-local address, which means")))
    };
    assert!(found("port.address", "fe80::1") && found("tunnel.local", "fe80::1"), "{lines:?}");
    assert!(found("tunnel.remote", "fe80::2"), "{lines:?}");
    assert_eq!(reported(&GOOD.replace("\"10.1.0.1/24\"", "\"10.1.0.1/24\", \"fe80::1/64\"")), "");
}

#[test]
fn a_link_that_is_narrower_than_the_mtu_is_warned_of() {
    let text = reported(&changed("[gateway]\n", "[gateway]\nmtu = 9000\n"));
    let what = "a.toml:2:7: gateway.mtu: protected packets of up to 9000 bytes exceed the MTU of interface wan0, which is \
                1500; write mtu = 1500 in [gateway], or run: ip link set wan0 mtu 9000\n";
    assert_eq!(text, what);
    let any = changed("[gateway]\n", "[gateway]\nmtu = 9000\n").replace("[\"192.0.2.1\"]", "[\"0.0.0.0\"]");
    assert_eq!(reported(&any), what, "found by the tunnels' local address");
    let link = "kind = \"af_packet\"\ninterface = \"wan0\"\n";
    let link = changed("kind = \"udp\"\n", link).replace("[gateway]\n", "[gateway]\nmtu = 9000\n");
    assert_eq!(reported(&link), what, "named");
}

#[test]
fn an_interface_that_may_come_later_is_warned_of() {
    let text = reported(&changed("kind = \"udp\"", "kind = \"af_packet\"\ninterface = \"wan1\""));
    let what = "a.toml:16:13: port.interface: there is no interface \"wan1\", and `convoy run` waits for it; this \
                machine has wan0, convoy0\n";
    assert_eq!(text, what);
}

#[test]
fn an_address_that_may_come_later_is_warned_of() {
    let text = reported(&GOOD.replace("192.0.2.1\"", "192.0.2.7\""));
    let what = "port.address: no interface of this machine has the address 192.0.2.7";
    assert!(text.lines().count() == 1 && text.starts_with("a.toml:16:12: ") && text.contains(what), "{text}");
    let any = GOOD
        .replace("192.0.2.1\"", "192.0.2.7\"")
        .replace("address = [\"192.0.2.7\"]", "address = [\"0.0.0.0\"]");
    let text = reported(&any);
    assert!(
        text.lines().count() == 1
            && text.starts_with("a.toml:20:9: tunnel.local: no interface of this machine has"),
        "{text}"
    );
}

#[test]
fn this_machine_says_what_it_has() {
    let cores = ThisMachine.cores().expect("a thread has one");
    assert!(!cores.is_empty() && !cores.contains(&1023), "{cores:?}");
    let [here, elsewhere] = ["127.0.0.1", "192.0.2.99"].map(|it| it.parse().expect("an address"));
    assert_eq!([here, elsewhere].map(|it| ThisMachine.has_address(it)), [Some(true), Some(false)]);
    assert_eq!(["root", "no-such-user"].map(|it| ThisMachine.has_user(it)), [Some(true), Some(false)]);
    let interfaces = ThisMachine.interfaces().expect("listed");
    let loopback = interfaces.iter().find(|it| it.name == "lo").expect("every machine has it");
    assert!(loopback.networks.iter().any(|it| it.addr() == here), "{loopback:?}");
}
