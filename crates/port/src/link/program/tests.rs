use std::net::{Ipv4Addr, Ipv6Addr};

use convoy_kernel::Prefix;
use convoy_packet::IpHeader;
use convoy_packet::protocol::{ICMP, ICMP_V6};

use super::*;
use crate::sys::{ProgramKind, VerifiedProgram};

/// The program under test returns `XDP_TX` for frames that it takes, since the kernel would turn a
/// redirect into a map without a socket into a pass.
const TAKEN: i32 = 3;
/// The address of the loopback interface, on which the kernel runs a program under test.
const HOST: MacAddress = MacAddress([0; 6]);
const OURS_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0xffff, 1);
const THEIRS: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

/// The programs of a port: at the driver and at an interface's ingress. Both take the same frames.
/// The program at a socket only differs from the latter in its verdicts.
struct Programs {
    xdp: VerifiedProgram,
    ingress: VerifiedProgram,
}

fn load(takes: &LinkTakes, networks: &Networks) -> Programs {
    let station = Station::new().expect("maps need root");
    station.set(HOST).expect("there is a place for it");
    let xdp = Hook::Xdp { sockets: 0, station: station.numbers() };
    let xdp = classify(takes, networks, xdp, |asm| asm.set(R0, TAKEN));
    let load = |kind, code: &[Instruction]| {
        VerifiedProgram::load(kind, code).expect("the verifier accepts it; loading needs root")
    };
    load(ProgramKind::SocketFilter, &program(takes, networks, Hook::Socket));
    let ingress = load(ProgramKind::Ingress, &program(takes, networks, Hook::Ingress));
    Programs { xdp: load(ProgramKind::Xdp, &xdp), ingress }
}

fn load_protected(addresses: &[IpAddr]) -> Programs {
    load_protected_beside(addresses, Beside::Others)
}

fn load_protected_beside(addresses: &[IpAddr], beside: Beside) -> Programs {
    let addresses = addresses.to_vec();
    let takes = LinkTakes::Protected { addresses, udp_port: 4500, beside };
    load(&takes, &Networks::of(&takes).expect("maps need root"))
}

/// A frame as a driver hands it to the program: padded to 60 bytes.
fn frame(to: MacAddress, header: IpHeader, payload: &[u8]) -> Vec<u8> {
    let at = header.header_len();
    let mut packet = vec![0; at + payload.len()];
    packet[at..].copy_from_slice(payload);
    header.write(&mut packet);
    let ethertype = if at == ipv6::HEADER_BYTES { ethernet::IPV6 } else { ethernet::IPV4 };
    let mut frame = [&ethernet::header(to, THEIRS, ethertype)[..], &packet].concat();
    frame.resize(frame.len().max(60), 0xaa);
    frame
}

fn header(protocol: u8, to: IpAddr) -> IpHeader {
    let from: IpAddr = if to.is_ipv4() { "192.0.2.2" } else { "2001:db8::2" }.parse().expect("an address");
    IpHeader::new(protocol, from, to)
}

/// A datagram to a port. Its payload begins with the SPI of ESP or the marker of IKE.
fn datagram(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 8 + payload.len()];
    datagram[8..].copy_from_slice(payload);
    convoy_packet::udp::write(&mut datagram, 4500, port);
    datagram
}

fn is_taken(programs: &Programs, frame: &[u8]) -> bool {
    let verdict = |program: &VerifiedProgram| program.test(frame).expect("a test run needs root") as i32;
    let at_driver = match verdict(&programs.xdp) {
        TAKEN => true,
        XDP_PASS => false,
        other => panic!("a verdict of {other}"),
    };
    // When testing a program at ingress, the kernel requires complete IP headers.
    if frame.len() < ethernet::HEADER_BYTES + ipv6::HEADER_BYTES {
        return at_driver;
    }
    let at_ingress = match verdict(&programs.ingress) {
        TCX_DROP => true,
        // `NOTHING` is returned if the frame ends too early.
        TCX_NEXT | NOTHING => false,
        other => panic!("a verdict of {other}"),
    };
    assert_eq!(at_driver, at_ingress, "{frame:x?}");
    at_driver
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn of_what_comes_outside_esp_and_ah_to_the_ports_addresses_are_taken() {
    let addresses = [OURS_V4.into(), Ipv4Addr::new(203, 0, 113, 200).into(), OURS_V6.into()];
    let program = load_protected(&addresses);
    for address in addresses {
        for protocol in [ESP, AH] {
            assert!(is_taken(&program, &frame(HOST, header(protocol, address), &[1; 40])), "{address}");
        }
        for other in [1, 6, 58] {
            assert!(!is_taken(&program, &frame(HOST, header(other, address), &[1; 40])), "{other}");
        }
    }
    let strangers: [IpAddr; 3] = [
        Ipv4Addr::new(192, 0, 2, 3).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0xffff, 2).into(),
        Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0xffff, 1).into(),
    ];
    for stranger in strangers {
        assert!(!is_taken(&program, &frame(HOST, header(ESP, stranger), &[1; 40])), "{stranger}");
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn of_udp_only_esp_to_its_port_is_taken_and_ike_and_keep_alives_are_the_kernels() {
    let addresses = [OURS_V4.into(), OURS_V6.into()];
    let program = load_protected(&addresses);
    for address in addresses {
        let taken = |datagram: &[u8]| is_taken(&program, &frame(HOST, header(UDP, address), datagram));
        assert!(taken(&datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1])));
        assert!(taken(&datagram(4500, &[0, 0, 0x10, 1])));
        assert!(!taken(&datagram(4500, &[0, 0, 0, 0, 9, 9, 9, 9])), "IKE");
        assert!(!taken(&datagram(4500, &[0xff])), "a keep-alive, in a frame that is padded");
        assert!(!taken(&datagram(4500, &[])));
        assert!(!taken(&datagram(500, &[0, 0, 0x10, 1, 0, 0, 0, 1])));
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn where_ike_is_the_gateways_it_is_taken_on_both_ports_and_keep_alives_are_the_kernels() {
    let strangers: [IpAddr; 2] = [Ipv4Addr::new(192, 0, 2, 3).into(), Ipv6Addr::LOCALHOST.into()];
    let program = load_protected_beside(&[OURS_V4.into(), OURS_V6.into()], Beside::Ike(500));
    let ike = [[0; 4], [9; 4], [9; 4], [9; 4], [9; 4], [9; 4], [9; 4]].concat();
    for (address, stranger) in [IpAddr::from(OURS_V4), OURS_V6.into()].into_iter().zip(strangers) {
        let to = |address, datagram: &[u8]| is_taken(&program, &frame(HOST, header(UDP, address), datagram));
        let taken = |datagram: &[u8]| to(address, datagram);
        assert!(taken(&datagram(500, &ike[4..])) && taken(&datagram(4500, &ike)));
        assert!(taken(&datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1])), "ESP");
        assert!(!taken(&datagram(501, &ike)) && !taken(&datagram(4501, &ike)), "another service's");
        assert!(!to(stranger, &datagram(500, &ike)), "another host's");
        assert!(!taken(&datagram(4500, &[0xff])), "a keep-alive, in a frame that is padded");
        let mut fragment = match address {
            IpAddr::V4(_) => frame(HOST, header(UDP, address), &datagram(500, &ike)),
            IpAddr::V6(_) => {
                let first = [&[UDP, 0, 0, 1, 0, 0, 0, 7][..], &datagram(500, &ike)].concat();
                frame(HOST, header(FRAGMENT, address), &first)
            }
        };
        if address.is_ipv4() {
            fragment[20] = 0x20;
        }
        assert!(!is_taken(&program, &fragment), "the kernel reassembles it");
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn fragments_of_esp_are_taken_and_those_of_udp_are_the_kernels() {
    let addresses = [OURS_V4.into(), OURS_V6.into()];
    let program = load_protected(&addresses);
    let esp_in_udp = datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1]);
    for (bits, is_first) in [(0x2000_u16, true), (0x0010, false), (0x2010, false)] {
        for (protocol, payload) in [(ESP, &[1; 40][..]), (UDP, &esp_in_udp)] {
            let mut v4 = frame(HOST, header(protocol, OURS_V4.into()), payload);
            v4[20..22].copy_from_slice(&bits.to_be_bytes());
            assert_eq!(is_taken(&program, &v4), protocol == ESP, "{bits:#x} {is_first}");
            let v6 = [&[protocol, 0, 0, 1, 0, 0, 0, 7][..], payload].concat();
            let v6 = frame(HOST, header(FRAGMENT, OURS_V6.into()), &v6);
            assert_eq!(is_taken(&program, &v6), protocol == ESP);
        }
    }
    let mut with_dont_fragment = frame(HOST, header(UDP, OURS_V4.into()), &esp_in_udp);
    with_dont_fragment[20] = 0x40;
    assert!(is_taken(&program, &with_dont_fragment));
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn options_of_ipv4_move_the_udp_header() {
    let addresses = [OURS_V4.into()];
    let program = load_protected(&addresses);
    let mut with_options =
        frame(HOST, header(UDP, OURS_V4.into()), &datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1]));
    assert!(is_taken(&program, &with_options));
    with_options[14] = 0x46;
    assert!(!is_taken(&program, &with_options));
    with_options.splice(34..34, [1; 4]);
    assert!(is_taken(&program, &with_options));
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn of_what_comes_inside_packets_to_this_station_and_the_networks_are_taken() {
    let prefix = |address: &str, bits| Prefix { address: address.parse().expect("an address"), bits };
    let [v4, host, v6] = [prefix("10.2.0.0", 24), prefix("198.51.100.7", 32), prefix("fd00:2::", 64)];
    let takes = LinkTakes::Plaintext { networks: vec![v4, host, v6] };
    let networks = Networks::of(&takes).expect("maps need root");
    let program = load(&takes, &networks);
    for (address, taken) in [
        ("10.2.0.1", true),
        ("10.2.0.255", true),
        ("10.2.1.1", false),
        ("198.51.100.7", true),
        ("198.51.100.8", false),
        ("fd00:2::1", true),
        ("fd00:3::1", false),
    ] {
        let to: IpAddr = address.parse().expect("an address");
        assert_eq!(is_taken(&program, &frame(HOST, header(UDP, to), &[7; 40])), taken, "{address}");
        assert!(!is_taken(&program, &frame(THEIRS, header(UDP, to), &[7; 40])), "{address} to another");
    }
    let mut arp = frame(HOST, header(UDP, "10.2.0.1".parse().expect("an address")), &[7; 40]);
    arp[12..14].copy_from_slice(&ethernet::ARP.to_be_bytes());
    assert!(!is_taken(&program, &arp));
    // A reload changes which frames are taken.
    networks.set(&[host, prefix("10.3.0.0", 16), prefix("fd00:3::", 64)].into()).expect("room");
    for (address, taken) in [
        ("10.2.0.1", false),
        ("10.3.9.9", true),
        ("198.51.100.7", true),
        ("fd00:2::1", false),
        ("fd00:3::1", true),
    ] {
        let to: IpAddr = address.parse().expect("an address");
        assert_eq!(
            is_taken(&program, &frame(HOST, header(UDP, to), &[7; 40])),
            taken,
            "{address} after a reload"
        );
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_host_takes_the_datagrams_to_its_address_and_port_alone() {
    for (ours, other) in [(IpAddr::from(OURS_V4), IpAddr::from(OURS_V6)), (OURS_V6.into(), OURS_V4.into())] {
        let takes = LinkTakes::Datagrams { to: (ours, 9000).into() };
        let programs = load(&takes, &Networks::of(&takes).expect("maps need root"));
        let taken =
            |protocol, to, payload: &[u8]| is_taken(&programs, &frame(HOST, header(protocol, to), payload));
        assert!(taken(UDP, ours, &datagram(9000, &[0; 40])));
        assert!(taken(UDP, ours, &datagram(9000, &[])));
        assert!(!taken(UDP, ours, &datagram(9001, &[0; 40])), "another port");
        assert!(!taken(UDP, other, &datagram(9000, &[0; 40])), "another address");
        for protocol in [ESP, ICMP, ICMP_V6] {
            assert!(!taken(protocol, ours, &datagram(9000, &[0; 40])), "protocol {protocol}");
        }
        let first_of_two = [&[UDP, 0, 0, 1, 0, 0, 0, 7][..], &datagram(9000, &[0; 40])].concat();
        assert!(!taken(FRAGMENT, ours, &first_of_two));
    }
    let mut arp = frame(HOST, header(UDP, OURS_V4.into()), &datagram(9000, &[0; 40]));
    arp[12..14].copy_from_slice(&ethernet::ARP.to_be_bytes());
    let takes = LinkTakes::Datagrams { to: (OURS_V4, 9000).into() };
    assert!(!is_taken(&load(&takes, &Networks::of(&takes).expect("maps need root")), &arp));
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn stumps_are_the_kernels() {
    let addresses = [OURS_V4.into(), OURS_V6.into()];
    let program = load_protected(&addresses);
    for address in addresses {
        let whole = frame(HOST, header(UDP, address), &datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1]));
        // When testing a program, the kernel requires at least a complete Ethernet header.
        for len in ethernet::HEADER_BYTES..whole.len() {
            let _ = is_taken(&program, &whole[..len]);
        }
        let headers = ethernet::HEADER_BYTES + if address.is_ipv4() { 20 } else { 40 };
        assert!(!is_taken(&program, &whole[..headers + 11]) && is_taken(&program, &whole[..headers + 12]));
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn a_port_of_either_family_alone_loads_and_takes_its_own() {
    for (ours, other) in [(IpAddr::from(OURS_V4), IpAddr::from(OURS_V6)), (OURS_V6.into(), OURS_V4.into())] {
        let program = load_protected(&[ours]);
        assert!(is_taken(&program, &frame(HOST, header(ESP, ours), &[1; 40])));
        assert!(!is_taken(&program, &frame(HOST, header(ESP, other), &[1; 40])));
    }
}

/// Adds tags for these VLANs, the outer one first, with the EtherTypes of 802.1Q and 802.1ad in
/// turn.
fn tagged(mut frame: Vec<u8>, vlans: &[u16]) -> Vec<u8> {
    for (at, vlan) in vlans.iter().enumerate().rev() {
        let tag = [TAGS[(at + 1) % 2].to_be_bytes(), (0xa000 | vlan).to_be_bytes()].concat();
        frame.splice(12..12, tag);
    }
    frame
}

/// The verdicts at the driver, where the frame contains all tags, and at ingress, where the kernel
/// has removed the first one.
fn verdicts(programs: &Programs, frame: &[u8], vlans: &[u16]) -> (i32, i32) {
    let verdict = |program: &VerifiedProgram, vlans| {
        program.test(&tagged(frame.to_vec(), vlans)).expect("a test run needs root") as i32
    };
    (verdict(&programs.xdp, vlans), verdict(&programs.ingress, &vlans[1..]))
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn frames_of_vlan_0_are_as_those_without_a_tag_and_other_vlans_are_the_kernels() {
    let prefix = |address: &str, bits| Prefix { address: address.parse().expect("an address"), bits };
    let takes = LinkTakes::Plaintext { networks: vec![prefix("10.2.0.0", 24), prefix("fd00:2::", 64)] };
    let programs = load(&takes, &Networks::of(&takes).expect("maps need root"));
    for (address, is_protected) in
        [("10.2.0.1", true), ("10.3.0.1", false), ("fd00:2::1", true), ("fd00:3::1", false)]
    {
        let frame = frame(HOST, header(UDP, address.parse().expect("an address")), &[7; 40]);
        let of = |vlans: &[u16]| verdicts(&programs, &frame, vlans);
        let passed = (XDP_PASS, TCX_NEXT);
        let dropped = (XDP_DROP, TCX_DROP);
        assert_eq!(of(&[0]), if is_protected { (TAKEN, TCX_DROP) } else { passed }, "{address}");
        assert_eq!(of(&[0, 0]), if is_protected { dropped } else { passed }, "{address} behind two tags");
        assert_eq!(of(&[0, 0, 0]), dropped, "the kernel takes them all out");
        assert_eq!(of(&[0, 7]), passed, "another interface's");
        assert_eq!(of(&[7]).0, XDP_PASS, "another interface's");
        assert_eq!(of(&[7, 0]).0, XDP_PASS, "another interface's");
    }
}

#[test]
#[ignore = "needs root; `make test` runs it"]
fn esp_in_frames_of_vlan_0_is_taken() {
    let addresses = [OURS_V4.into(), OURS_V6.into()];
    let programs = load_protected(&addresses);
    for address in addresses {
        let esp = frame(HOST, header(ESP, address), &[1; 40]);
        let in_udp = frame(HOST, header(UDP, address), &datagram(4500, &[0, 0, 0x10, 1, 0, 0, 0, 1]));
        for frame in [esp, in_udp] {
            assert_eq!(verdicts(&programs, &frame, &[0]), (TAKEN, TCX_DROP));
            assert_eq!(verdicts(&programs, &frame, &[0, 0]), (XDP_PASS, TCX_NEXT), "the kernel's");
        }
    }
}
