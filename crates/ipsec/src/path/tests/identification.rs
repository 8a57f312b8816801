//! IPv4's identification where several SAs send to one address.

use super::held::lengths;
use super::*;

/// A gateway with two SAs of the link's kind, one to each of two networks.
fn two_sas(link: &Link, end: usize) -> Gateway {
    let mut gateway = link.gateway(end);
    for direction in [SaDirection::Outbound, SaDirection::Inbound] {
        let mut sa = link.sa(end, direction);
        (sa.spi, sa.tunnel) = (sa.spi + 0x1000, TunnelId(8));
        gateway.install(sa);
    }
    let mut policies = link.policies(end);
    let networks = [("10.1.0.0/16", "10.3.0.0/16"), ("10.3.0.0/16", "10.1.0.0/16")];
    policies.push(policy(networks[end].0, networks[end].1, Action::Protect(TunnelId(8))));
    gateway.ipsec.set_policies(policies);
    gateway
}

fn to(destination: &str, len: usize) -> Vec<u8> {
    udp(["10.1.0.5", destination].map(|text| text.parse().expect(text)), len)
}

#[test]
fn packets_of_two_sas_that_a_router_cuts_are_put_together_though_their_pieces_mix() {
    for (protocol, encap) in [(SaProtocol::Esp, None), (SaProtocol::Esp, Some(ENCAP)), (SaProtocol::Ah, None)]
    {
        let transform = if protocol == SaProtocol::Ah { NULL_SHA1 } else { GCM };
        let link = Link { protocol, encap, transform, ..Link::default() };
        let [mut a, mut b] = [0, 1].map(|end| two_sas(&link, end));
        let sent: Vec<_> =
            (0..4).flat_map(|n| [to("10.2.0.9", 1_000 + n), to("10.3.0.9", 1_100 + n)]).collect();
        let outer = a.send(&sent);
        let pieces = a.cut(&outer, 600);
        let parts: Vec<Vec<_>> = pieces.chunks(2).map(<[_]>::to_vec).collect();
        let first = parts.iter().map(|parts| parts[0].clone());
        let mixed: Vec<_> = first.chain(parts.iter().map(|parts| parts[1].clone())).collect();
        let received = b.receive(&mixed);
        assert_eq!(lengths(&received), lengths(&sent), "{protocol:?}, {encap:?}");
        assert!(received == sent, "{protocol:?}, {encap:?}");
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn a_packet_that_an_engine_failed_with_keeps_its_identification() {
    let link = Link::default();
    let mut a = two_sas(&link, 0);
    let mut packets = a.classify(&[to("10.2.0.9", 100), to("10.2.0.9", 100)]);
    let begun = |packets: &[CryptoPacket]| {
        packets.iter().map(|packet| packet.context.identification).collect::<Vec<_>>()
    };
    let mut templates = Vec::new();
    a.ipsec.tables.begin(a.now_ns, &mut packets, &mut templates);
    let before = begun(&packets);
    a.send(&[to("10.3.0.9", 100)]);
    a.ipsec.tables.lay_out(a.now_ns, &mut packets, &mut |_| {});
    assert_eq!(begun(&packets), before);
    for (packet, id) in packets.iter().zip(&before) {
        assert_eq!(packet.frame[4..6], id.to_be_bytes());
    }
    a.seal(packets);
    a.assert_no_leak();
}
