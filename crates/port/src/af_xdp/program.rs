//! The XDP program of a port: which frames it takes from the kernel. It is put together here, by [`super::assembler`],
//! since it depends on the port's addresses and is short; a library would need an object file and a compiler for it.

use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP, FRAGMENT, UDP};
use convoy_packet::{MacAddress, ethernet, ipv4, ipv6};

use super::assembler::{Assembler, CONTEXT, DATA, END, Label, R0, R1, R2, R3, R5, STACK, Size};
use crate::sys::Instruction;

/// What a program takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Takes<'a> {
    /// ESP and AH to these addresses, and ESP in UDP to this port of theirs (RFC 3948).
    Protected {
        /// The port's addresses.
        addresses: &'a [IpAddr],
        /// The port of UDP.
        udp_port: u16,
    },
    /// Packets to this mac whose destination is in one of two maps of prefixes, IPv4 and IPv6, by their descriptors.
    Plaintext {
        /// The interface's own address.
        mac: MacAddress,
        /// The maps.
        maps: [i32; 2],
    },
}

/// `XDP_PASS`: the kernel gets the frame.
const PASS: i32 = 2;
/// Where fields of `struct xdp_md` stand.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;
/// Numbers of the kernel's functions.
const LOOK_UP: i32 = 1;
const REDIRECT: i32 = 51;
/// Where fields stand in a frame.
const IP: i16 = ethernet::HEADER_BYTES as i16;
const ETHERTYPE: i16 = ethernet::ETHERTYPE_AT as i16;
const V4_END: i32 = (ethernet::HEADER_BYTES + ipv4::HEADER_BYTES) as i32;
const V6_END: i32 = (ethernet::HEADER_BYTES + ipv6::HEADER_BYTES) as i32;
/// More fragments, and the offset, of an IPv4 header's sixteen bits.
const FRAGMENT_BITS: u16 = 0x3fff;
/// A UDP header and the SPI behind it, in bytes; a keep-alive is shorter.
const ESP_IN_UDP: i32 = 12;

/// Sixteen bits of a frame as a load finds them.
fn half(value: u16) -> u32 {
    u32::from(value.to_be())
}

/// Thirty-two bits of a frame as a load finds them.
fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

fn words(bytes: [u8; 16]) -> [u32; 4] {
    let (four, _) = bytes.as_chunks::<4>();
    [0, 1, 2, 3].map(|at| word(four[at]))
}

/// The program of a port. Frames that it takes go to the socket that `sockets`, a map by its descriptor, has for their queue, or to the
/// kernel where it has none.
pub(super) fn program(takes: &Takes<'_>, sockets: i32) -> Vec<Instruction> {
    classify(takes, |asm| {
        asm.map(R1, sockets);
        asm.load(Size::Word, R2, CONTEXT, CONTEXT_QUEUE);
        asm.set(R3, PASS);
        asm.call(REDIRECT);
    })
}

/// A program that does `take`, which leaves a verdict in register 0, with what it takes.
fn classify(takes: &Takes<'_>, take: impl FnOnce(&mut Assembler)) -> Vec<Instruction> {
    let mut asm = Assembler::default();
    asm.copy(CONTEXT, R1);
    asm.load(Size::Word, DATA, CONTEXT, CONTEXT_DATA);
    asm.load(Size::Word, END, CONTEXT, CONTEXT_END);
    asm.need(DATA, V4_END);
    if let Takes::Plaintext { mac: MacAddress([a, b, c, d, e, f]), .. } = *takes {
        asm.load(Size::Word, R5, DATA, 0);
        asm.unless_equal(R5, word([a, b, c, d]), Label::Pass);
        asm.load(Size::Half, R5, DATA, 4);
        asm.unless_equal(R5, half(u16::from_be_bytes([e, f])), Label::Pass);
    }
    asm.load(Size::Half, R5, DATA, ETHERTYPE);
    asm.if_equal(R5, half(ethernet::IPV4), Label::V4);
    asm.if_equal(R5, half(ethernet::IPV6), Label::V6);
    asm.goto(Label::Pass);
    match takes {
        Takes::Protected { addresses, udp_port } => protected(&mut asm, addresses, *udp_port),
        Takes::Plaintext { maps, .. } => plaintext(&mut asm, *maps),
    }
    asm.here(Label::Pass);
    asm.set(R0, PASS);
    asm.add(0x95, 0, 0, 0, 0);
    asm.here(Label::Take);
    take(&mut asm);
    asm.add(0x95, 0, 0, 0, 0);
    asm.finish()
}

fn protected(asm: &mut Assembler, addresses: &[IpAddr], udp_port: u16) {
    // The kernel refuses instructions that are never reached.
    for is_v4 in [true, false] {
        let addresses: Vec<IpAddr> = addresses.iter().copied().filter(|it| it.is_ipv4() == is_v4).collect();
        asm.here(if is_v4 { Label::V4 } else { Label::V6 });
        match (addresses.is_empty(), is_v4) {
            (true, _) => asm.goto(Label::Pass),
            (_, true) => protected_v4(asm, &addresses),
            (_, false) => protected_v6(asm, &addresses),
        }
    }
    asm.here(Label::Udp);
    asm.need(R2, ESP_IN_UDP);
    asm.load(Size::Half, R5, R2, 2);
    asm.unless_equal(R5, half(udp_port), Label::Pass);
    // The length in the host's order: less is a keep-alive, whatever pads the frame.
    asm.load(Size::Half, R5, R2, 4);
    asm.add(0xdc, R5, 0, 0, 16);
    asm.jump(0xa5, R5, 0, ESP_IN_UDP, Label::Pass);
    asm.load(Size::Word, R5, R2, 8);
    // The marker of IKE (RFC 3948 section 2.2).
    asm.if_equal(R5, 0, Label::Pass);
    asm.goto(Label::Take);
}

/// Takes a packet whose protocol is in register 5 if that is ESP or AH.
fn take_ipsec(asm: &mut Assembler) {
    for protocol in [ESP, AH] {
        asm.if_equal(R5, protocol.into(), Label::Take);
    }
}

/// Leaves the place of a UDP header in register 2.
fn protected_v4(asm: &mut Assembler, addresses: &[IpAddr]) {
    asm.load(Size::Word, R5, DATA, IP + 16);
    for address in addresses {
        if let IpAddr::V4(address) = address {
            asm.if_equal(R5, word(address.octets()), Label::V4Ours);
        }
    }
    asm.goto(Label::Pass);
    asm.here(Label::V4Ours);
    asm.load(Size::Byte, R5, DATA, IP + 9);
    take_ipsec(asm);
    asm.unless_equal(R5, UDP.into(), Label::Pass);
    // Of a datagram in fragments only the first tells its port, and the kernel needs all of IKE's.
    asm.load(Size::Half, R5, DATA, IP + 6);
    asm.add(0x57, R5, 0, 0, half(FRAGMENT_BITS) as i32);
    asm.unless_equal(R5, 0, Label::Pass);
    // The header's length is the lower half of its first byte, in words.
    asm.load(Size::Byte, R5, DATA, IP);
    asm.add(0x57, R5, 0, 0, 0x0f);
    asm.add(0x67, R5, 0, 0, 2);
    asm.copy(R2, DATA);
    asm.add(0x0f, R2, R5, 0, 0);
    asm.advance(R2, i32::from(IP));
    asm.goto(Label::Udp);
}

/// Leaves the place of a UDP header in register 2.
fn protected_v6(asm: &mut Assembler, addresses: &[IpAddr]) {
    asm.need(DATA, V6_END);
    for (at, address) in addresses.iter().enumerate() {
        let IpAddr::V6(address) = address else { continue };
        for (place, value) in (IP + 24..).step_by(4).zip(words(address.octets())) {
            asm.load(Size::Word, R5, DATA, place);
            asm.unless_equal(R5, value, Label::Next(at));
        }
        asm.goto(Label::V6Ours);
        asm.here(Label::Next(at));
    }
    asm.goto(Label::Pass);
    asm.here(Label::V6Ours);
    asm.load(Size::Byte, R5, DATA, IP + 6);
    take_ipsec(asm);
    asm.copy(R2, DATA);
    asm.advance(R2, V6_END);
    asm.if_equal(R5, UDP.into(), Label::Udp);
    asm.unless_equal(R5, FRAGMENT.into(), Label::Pass);
    asm.need(R2, 1);
    asm.load(Size::Byte, R5, R2, 0);
    take_ipsec(asm);
    asm.goto(Label::Pass);
}

fn plaintext(asm: &mut Assembler, [v4, v6]: [i32; 2]) {
    /// A key is the length of the prefix and the address.
    const V4_KEY: i16 = -8;
    const V6_KEY: i16 = -20;
    let look_up = |asm: &mut Assembler, map: i32, key: i16, bits: i32| {
        asm.set(R5, bits);
        asm.store(R5, key);
        asm.map(R1, map);
        asm.copy(R2, STACK);
        asm.advance(R2, key.into());
        asm.call(LOOK_UP);
        asm.jump(0x55, R0, 0, 0, Label::Take);
        asm.goto(Label::Pass);
    };
    asm.here(Label::V4);
    asm.load(Size::Word, R5, DATA, IP + 16);
    asm.store(R5, V4_KEY + 4);
    look_up(asm, v4, V4_KEY, 32);
    asm.here(Label::V6);
    asm.need(DATA, V6_END);
    for word in 0..4 {
        asm.load(Size::Word, R5, DATA, IP + 24 + 4 * word);
        asm.store(R5, V6_KEY + 4 + 4 * word);
    }
    look_up(asm, v6, V6_KEY, 128);
}

#[cfg(test)]
mod tests;
