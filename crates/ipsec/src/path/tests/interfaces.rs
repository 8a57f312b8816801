//! Tunnels with an inside interface of their own, whose networks may be the same.

use super::*;

const INTERFACES: [u16; 2] = [1, 2];

/// A tunnel from anywhere to anywhere on each interface; tunnel and SPI are known by its number.
fn gateway(end: usize, mode: Mode) -> Gateway {
    let link = Link { mode, ..Link::default() };
    let mut gateway = Gateway::new(link.config(end));
    let mut policies = Vec::new();
    for interface in INTERFACES {
        let tunnel = TunnelId(interface.into());
        for direction in [SaDirection::Outbound, SaDirection::Inbound] {
            let sa = link.sa(end, direction);
            gateway.install(SaConfig { spi: sa.spi + 0x100 * u32::from(interface), tunnel, ..sa });
        }
        for all in ["0.0.0.0/0", "::/0"] {
            policies.push(Policy { interface, ..policy(all, all, Action::Protect(tunnel)) });
        }
    }
    gateway.ipsec.set_policies(policies);
    gateway
}

/// Has packets come by an interface; returns those that are sealed.
fn send_on(gateway: &mut Gateway, interface: u16, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames = gateway.frames(packets);
    frames.iter_mut().for_each(|frame| frame.set_interface(interface));
    let mut random = |bytes: &mut [u8]| bytes.fill(0x5a);
    let Gateway { ipsec, pool, now_ns, outbound, .. } = gateway;
    ipsec.outbound.classify(&mut ipsec.tables, *now_ns, &mut random, pool, &mut frames, outbound);
    ipsec.outbound.close_payloads(&mut ipsec.tables, *now_ns, false, pool, &mut outbound.protect);
    let mut packets = std::mem::take(&mut gateway.outbound.protect);
    gateway.ipsec.tables.lay_out(gateway.now_ns, &mut packets, &mut random);
    gateway.seal(packets)
}

/// Receives packets; returns each inner one with the interface by which it leaves.
fn receive_with_interface(gateway: &mut Gateway, outer: &[Vec<u8>]) -> Vec<(u16, Vec<u8>)> {
    let mut frames = gateway.frames(outer);
    gateway.classify_inbound(&mut frames);
    let mut open = std::mem::take(&mut gateway.inbound.open);
    gateway.ipsec.tables.lay_out(gateway.now_ns, &mut open, &mut |_| {});
    let mut out = Vec::new();
    for mut packet in open {
        run(&gateway.keys[&packet.sa], Direction::Open, &mut packet);
        gateway.finish_inbound(&mut vec![packet], &mut out);
    }
    let found = out.iter().map(|frame| (frame.interface(), frame.to_vec())).collect();
    gateway.pool.give_back_burst(&mut out);
    found
}

#[test]
fn the_same_packet_takes_the_tunnel_of_its_interface_both_ways() {
    for mode in [Mode::Tunnel, Mode::Iptfs] {
        let (mut a, mut b) = (gateway(0, mode), gateway(1, mode));
        for is_v6 in [false, true] {
            let packet = Link::default().packet(is_v6, 100);
            for interface in INTERFACES {
                let outer = send_on(&mut a, interface, std::slice::from_ref(&packet));
                assert_eq!(outer[0][22], 0x10 + interface as u8, "the SPI of the tunnel");
                assert_eq!(receive_with_interface(&mut b, &outer), [(interface, packet.clone())]);
            }
            assert!(send_on(&mut a, 0, std::slice::from_ref(&packet)).is_empty());
        }
        assert_eq!(a.drops(DropReason::OutboundNoPolicy), 2);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn anyone_who_sent_too_much_is_reported_on_its_interface() {
    let mut gateway = gateway(0, Mode::Tunnel);
    let packet = Link::default().packet(true, 1_500);
    assert!(send_on(&mut gateway, 2, &[packet]).is_empty());
    let reported: Vec<u16> = gateway.outbound.to_inside.iter().map(Frame::interface).collect();
    assert_eq!(reported, [2]);
    gateway.assert_no_leak();
}

#[test]
fn a_frame_is_used_again_without_its_interface() {
    let mut gateway = gateway(0, Mode::Tunnel);
    let packet = Link::default().packet(false, 100);
    for _ in 0..FRAMES[0] {
        send_on(&mut gateway, 1, std::slice::from_ref(&packet));
    }
    let frames = gateway.frames(&vec![packet; FRAMES[0]]);
    assert!(frames.iter().all(|frame| frame.interface() == 0));
}
