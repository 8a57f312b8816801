//! Two hosts on a line in memory, each with a card; the tests are their kernels.

use std::time::{Duration, Instant};

use convoy_card::line::memory;
use convoy_card::nic::{Arrival, NicControl, NicPort, NicSettings, pair};
use convoy_config::Nowhere;
use convoy_ipsec::{DropReason, TunnelId};
use convoy_packet::{Ethernet, IpHeader, MacAddress, ethernet, protocol, udp};

use crate::NicConfig;
use crate::bump::{Bump, Departure, Fate, Towards};

const TIMEOUT: Duration = Duration::from_secs(60);
const MTU: u16 = 1_500;

/// The configuration of host `me`, 1 or 2: transport mode between the hosts but for UDP, tunnel
/// mode over IPv6 between their networks.
fn config(me: u8) -> NicConfig {
    let peer = 3 - me;
    let key = |of: u8, kind: u8| format!("{of:02x}{kind:02x}").repeat(10);
    let keys = |kind: u8| {
        format!(
            "esp_proposal = \"aes128gcm16\"\n[tunnel.manual]\nspi_in = {}\nspi_out = {}\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
            0x1000 * u32::from(kind) + u32::from(me),
            0x1000 * u32::from(kind) + u32::from(peer),
            key(me, kind),
            key(peer, kind),
        )
    };
    let text = format!(
        "[nic]\ninterface = \"eth1\"\n\
         [[bypass]]\nlocal_ts = \"192.0.2.{me}[udp]\"\nremote_ts = \"192.0.2.{peer}[udp]\"\n\
         [[tunnel]]\nname = \"host\"\nmode = \"transport\"\nencap = \"none\"\nlocal = \"192.0.2.{me}\"\n\
         remote = \"192.0.2.{peer}\"\nlocal_ts = [\"192.0.2.{me}\"]\nremote_ts = [\"192.0.2.{peer}\"]\n{}\
         [[tunnel]]\nname = \"nets\"\nlocal = \"2001:db8::{me}\"\nremote = \"2001:db8::{peer}\"\n\
         local_ts = [\"10.{me}.0.0/24\"]\nremote_ts = [\"10.{peer}.0.0/24\"]\n{}",
        keys(1),
        keys(2)
    );
    NicConfig::parse_at("nic.toml", &text, &Nowhere).expect("good")
}

struct Host {
    bump: Bump,
    port: NicPort,
    control: NicControl,
}

impl Host {
    fn pair() -> [Self; 2] {
        let (a, b) = memory(64).expect("descriptors");
        [(a, 1), (b, 2)].map(|(line, me)| {
            let (control, port) = pair(Box::new(line), &NicSettings::default()).expect("a card");
            let config = config(me);
            let mut bump = Bump::new(&config, MTU, control.clone());
            for (at, tunnel) in config.tunnels.iter().enumerate() {
                assert!(bump.install(TunnelId(at as u32), tunnel).expect("good"), "the card has it");
            }
            Self { bump, port, control }
        })
    }

    /// The kernel sends a frame; what it gets at once.
    fn send(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        if let Fate::Unchanged = self.bump.sent(frame, &mut out) {
            self.port.transmit_copy(&[frame]).expect("room");
        }
        self.depart(out)
    }

    fn depart(&mut self, out: Vec<Departure>) -> Vec<Vec<u8>> {
        let mut reported = Vec::new();
        for departure in out {
            let seal = departure.seal();
            let Departure { towards, head, mut packet } = departure;
            packet.prepend(head.len()).expect("headroom").copy_from_slice(&head);
            match towards {
                Towards::Line => self.port.transmit(packet, seal).expect("room"),
                Towards::Kernel => reported.push(packet.to_vec()),
            }
        }
        reported
    }

    fn arrival(&mut self) -> Arrival {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT {
            if let Some(arrival) = self.port.receive() {
                return arrival;
            }
            std::thread::yield_now();
        }
        panic!("nothing came: {:?}", self.control.counters());
    }

    /// What the kernel receives of an arrival.
    fn take(&mut self, arrival: &Arrival) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        match self.bump.received(arrival, &mut out) {
            Fate::Unchanged => vec![arrival.frame.to_vec()],
            Fate::Replaced => self.depart(out),
        }
    }

    fn dropped(&self) -> Vec<(DropReason, u64)> {
        self.bump.ipsec.tables.drops().met().collect()
    }
}

fn frame(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let (to, from) = (MacAddress([2, 0, 0, 0, 0, 2]), MacAddress([2, 0, 0, 0, 0, 1]));
    [&ethernet::header(to, from, ethertype)[..], packet].concat()
}

/// A frame with a packet of so many bytes behind its IP header.
fn packet(protocol: u8, from: &str, to: &str, bytes: usize) -> Vec<u8> {
    let header = IpHeader::new(protocol, from.parse().expect("good"), to.parse().expect("good"));
    let mut packet = vec![0x5a; header.header_len() + bytes];
    header.write(&mut packet);
    if protocol == protocol::UDP {
        udp::write(&mut packet[header.header_len()..], 500, 500);
    }
    frame(if from.contains(':') { ethernet::IPV6 } else { ethernet::IPV4 }, &packet)
}

#[test]
fn what_a_policy_protects_crosses_sealed_and_arrives_as_it_was() {
    let [mut a, mut b] = Host::pair();
    for (from, to) in [("192.0.2.1", "192.0.2.2"), ("10.1.0.1", "10.2.0.9")] {
        let sent = packet(protocol::TCP, from, to, 400);
        assert!(a.send(&sent).is_empty());
        let arrival = b.arrival();
        assert!(arrival.opened.is_some(), "the card has decrypted it");
        assert_eq!(b.take(&arrival), [sent]);
        // The same packet again is a replay.
        assert!(b.take(&arrival).is_empty());
    }
    assert_eq!(a.control.counters().sealed, 2);
    assert_eq!(b.dropped(), [(DropReason::Replayed, 2)]);
    assert_eq!((a.bump.engines.by_software, b.bump.engines.by_software), (0, 0));
}

#[test]
fn everything_else_passes_unchanged() {
    let [mut a, mut b] = Host::pair();
    let esp = |spi: u32| {
        let mut esp = packet(protocol::ESP, "192.0.2.77", "192.0.2.2", 60);
        esp[34..38].copy_from_slice(&spi.to_be_bytes());
        esp
    };
    for sent in [
        frame(ethernet::ARP, &[1; 46]),
        packet(protocol::UDP, "192.0.2.1", "192.0.2.2", 40),
        packet(protocol::TCP, "192.0.2.1", "198.51.100.1", 40),
        packet(protocol::ICMP_V6, "fe80::1", "ff02::1", 24),
        // An SA of the kernel's.
        esp(0xabcd),
    ] {
        assert!(a.send(&sent).is_empty());
        let arrival = b.arrival();
        assert_eq!(b.take(&arrival), [sent]);
    }
    assert_eq!(a.control.counters().sealed, 0);
    assert!(b.dropped().is_empty());
}

#[test]
fn what_a_tag_hides_from_the_policies_passes_neither_way() {
    let [mut a, mut b] = Host::pair();
    let inside = packet(protocol::TCP, "192.0.2.1", "192.0.2.2", 40);
    for tag in ethernet::TAGS {
        let tagged = frame(tag, &[&[0, 5][..], &inside[12..]].concat());
        let mut out = Vec::new();
        assert!(matches!(a.bump.sent(&tagged, &mut out), Fate::Replaced) && out.is_empty());
        a.port.transmit_copy(&[&tagged]).expect("room");
        let arrival = b.arrival();
        assert!(b.take(&arrival).is_empty());
    }
    assert_eq!((a.bump.tagged, b.bump.tagged), (3, 3));
}

#[test]
fn plaintext_that_should_have_been_protected_is_dropped() {
    let [mut a, mut b] = Host::pair();
    for (from, to) in [("192.0.2.1", "192.0.2.2"), ("10.1.0.1", "10.2.0.9")] {
        a.port.transmit_copy(&[&packet(protocol::TCP, from, to, 40)]).expect("room");
        let arrival = b.arrival();
        assert!(b.take(&arrival).is_empty());
    }
    let dropped: u64 = b.dropped().iter().map(|(_, count)| count).sum();
    assert_eq!(dropped, 2);
}

#[test]
fn a_packet_too_long_for_its_tunnel_is_reported_to_the_kernel() {
    let [mut a, _] = Host::pair();
    let header = IpHeader {
        dont_fragment: true,
        ..IpHeader::new(protocol::TCP, [10, 1, 0, 1].into(), [10, 2, 0, 9].into())
    };
    let mut packet = vec![0; MTU.into()];
    header.write(&mut packet);
    let long = frame(ethernet::IPV4, &packet);
    let reported = a.send(&long);
    assert_eq!(reported.len(), 1);
    let reported = Ethernet::parse(&reported[0]).expect("whole");
    assert_eq!(
        (reported.destination(), reported.source()),
        (MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]))
    );
    // ICMP, destination unreachable, fragmentation needed.
    assert_eq!((reported.payload()[9], reported.payload()[20], reported.payload()[21]), (1, 3, 4));
}
