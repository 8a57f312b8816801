//! Cost of ESP beside its ciphers: a burst of packets out of one gateway and into its peer, IPv4 in
//! UDP over IPv4 and IPv6 in IPv6. The crypto jobs count as done, so "encrypted" bytes stay as they
//! are.

use std::net::IpAddr;

use convoy_ipsec::{
    Action, CryptoStatus, InboundBurst, Ipsec, IpsecConfig, KeyMaterial, OutboundBurst, Policy,
    PolicyDirection, Proposal, SaConfig, SaDirection, Selector, TunnelId, UdpEncap,
};
use convoy_packet::protocol::UDP;
use convoy_packet::{Frame, FramePool, IpHeader, udp};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const BURST: u32 = 64;
const PACKET_BYTES: usize = 256;

/// One side: seals packets from `inside` for the other gateway, and opens what arrives from there.
fn gateway([local, remote]: [IpAddr; 2], direction: SaDirection, inside: [&str; 2], in_udp: bool) -> Ipsec {
    let mut ipsec = Ipsec::new(IpsecConfig { seed: 7, ..IpsecConfig::default() });
    let proposal: Proposal = "aes128gcm16".parse().expect("known words");
    let keys = vec![7; proposal.transform.key_material_len()];
    let keys = KeyMaterial::new(proposal.transform, keys).expect("its own length");
    ipsec
        .install(SaConfig {
            encap: in_udp.then_some(UdpEncap { local_port: 4500, remote_port: 4500 }),
            tunnel: TunnelId(1),
            esn: true,
            ..SaConfig::new(0x1001, direction, local, remote, keys)
        })
        .expect("a good SA");
    let [ours, theirs] = inside.map(|network| network.parse().expect("a network"));
    ipsec.set_policies(vec![Policy {
        interface: 0,
        name: "site".to_owned(),
        priority: 10,
        direction: PolicyDirection::Both,
        selector: Selector { local: ours, remote: theirs },
        action: Action::Protect(TunnelId(1)),
    }]);
    ipsec
}

fn packet(is_v6: bool) -> Vec<u8> {
    let ends = if is_v6 { ["fd00:1::9", "fd00:2::9"] } else { ["10.1.0.1", "10.2.0.9"] };
    let [source, destination] = ends.map(|text| text.parse().expect("an address"));
    let header = IpHeader::new(UDP, source, destination);
    let mut packet = vec![0; PACKET_BYTES];
    header.write(&mut packet);
    udp::write(&mut packet[header.header_len()..], 0x1234, 53);
    packet
}

fn tunnel(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tunnel");
    group.throughput(Throughput::Elements(BURST.into()));
    let addresses = |texts: [&str; 2]| texts.map(|text| text.parse::<IpAddr>().expect("an address"));
    let v4 = ("IPv4 in UDP", false, addresses(["192.0.2.1", "192.0.2.2"]), ["10.1.0.0/16", "10.2.0.0/16"]);
    let v6 = ("IPv6", true, addresses(["2001:db8::1", "2001:db8::2"]), ["fd00:1::/32", "fd00:2::/32"]);
    for (name, is_v6, [here, there], [ours, theirs]) in [v4, v6] {
        let mut sender = gateway([here, there], SaDirection::Outbound, [ours, theirs], !is_v6);
        let mut receiver = gateway([there, here], SaDirection::Inbound, [theirs, ours], !is_v6);
        let mut pool = FramePool::new(2 * BURST as usize, 0);
        let (mut sealed, mut opened) = (OutboundBurst::default(), InboundBurst::default());
        let (mut frames, mut arrived) = (Vec::<Frame>::new(), Vec::new());
        let packet = packet(is_v6);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                frames.extend((0..BURST).map(|_| pool.take_filled(&packet, 64).expect("a frame")));
                sender.outbound.classify(
                    &mut sender.tables,
                    1,
                    &mut |_| {},
                    &mut pool,
                    &mut frames,
                    &mut sealed,
                );
                sender.tables.lay_out(1, &mut sealed.protect, &mut |_| {});
                sealed.protect.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
                sender.outbound.finish(&mut sender.tables, &mut pool, &mut sealed.protect, &mut frames);
                receiver.inbound.classify(&mut receiver.tables, 1, &mut pool, &mut frames, &mut opened);
                receiver.tables.lay_out(1, &mut opened.open, &mut |_| {});
                opened.open.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
                receiver.inbound.finish(&mut receiver.tables, 1, &mut pool, &mut opened.open, &mut arrived);
                assert_eq!(arrived.len(), BURST as usize);
                pool.give_back_burst(&mut arrived);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, tunnel);
criterion_main!(benches);
