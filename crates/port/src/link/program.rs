//! A port's BPF program, which decides which frames are the gateway's. It is assembled here, by
//! [`crate::assembler`], since it depends on the port's addresses and is short; a library would
//! need an object file and a compiler for it.

use std::io;
use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP, FRAGMENT, UDP};
use convoy_packet::{MacAddress, ethernet, ipv4, ipv6, udp};

use super::{Beside, LinkTakes, Networks};
use crate::assembler::{
    Assembler, CONTEXT, DATA, END, JumpTarget, LOOK_UP, R0, R1, R2, R3, R5, Reads, STACK, Size, TRANSPORT,
};
use crate::sys::{Instruction, Map, MapKind};

/// The hook of a program, which determines what it does with a frame that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// At the driver, or right behind it: the frame goes to the socket that a map, given by its
    /// descriptor, has for its queue, or to the kernel if there is none. Inside, packets must be
    /// addressed to `station`, which maps have, too.
    Xdp {
        /// The map.
        sockets: i32,
        /// The first four bytes of the interface's own address, and the last two.
        station: [i32; 2],
    },
    /// At a packet socket: the socket gets a copy of the frame.
    Socket,
    /// At the ingress of the kernel's network stack, behind all packet sockets: the stack does not
    /// get the frame.
    Ingress,
}

/// `XDP_PASS`: the kernel gets the frame. `XDP_DROP`: it is dropped.
const XDP_PASS: i32 = 2;
const XDP_DROP: i32 = 1;
/// Verdicts of a filter: the whole frame, or nothing.
const ALL: i32 = -1;
const NOTHING: i32 = 0;
/// `TCX_DROP`, and `TCX_NEXT`: other programs decide about the frame.
const TCX_DROP: i32 = 2;
const TCX_NEXT: i32 = -1;
/// Offsets of fields of `struct xdp_md`.
const XDP_DATA: i16 = 0;
const XDP_END: i16 = 4;
const XDP_QUEUE: i16 = 16;
/// Offsets of fields of `struct __sk_buff`.
const SKB_PACKET_TYPE: i16 = 4;
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_VLAN_TCI: i16 = 24;
/// `PACKET_HOST`: to this host's own address on the link.
const TO_THIS_HOST: u32 = 0;
/// The number of the kernel's function that gives a frame to a socket.
const REDIRECT: i32 = 51;
/// Offsets of fields in a frame.
const IP: i16 = ethernet::HEADER_BYTES as i16;
const ETHERTYPE: i16 = ethernet::ETHERTYPE_AT as i16;
const V4_END: i32 = (ethernet::HEADER_BYTES + ipv4::HEADER_BYTES) as i32;
const V6_END: i32 = (ethernet::HEADER_BYTES + ipv6::HEADER_BYTES) as i32;
/// The ethertypes before a VLAN tag: 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// A tag's length, in bytes, with the ethertype before it.
pub(crate) const TAG_BYTES: usize = 4;
const BEHIND_TAG: i16 = TAG_BYTES as i16;
/// A tag's two bytes, behind its ethertype, and the VLAN number in them. A frame of VLAN 0 only has
/// a priority (IEEE 802.1Q section 9.6): to the kernel it is untagged.
const TAG: i16 = ETHERTYPE + 2;
const VLAN: u16 = 0x0fff;
/// More fragments, and the offset, of an IPv4 header's sixteen bits.
const FRAGMENT_BITS: u16 = 0x3fff;
/// A UDP header and the SPI behind it, in bytes; a keep-alive is shorter.
const ESP_IN_UDP: i32 = 12;

/// Whether an ethertype is that of a VLAN tag.
pub(crate) fn is_tag(ethertype: &[u8]) -> bool {
    TAGS.iter().any(|tag| tag.to_be_bytes() == ethertype)
}

/// Sixteen bits of a frame as loaded.
fn half(value: u16) -> u32 {
    u32::from(value.to_be())
}

/// Thirty-two bits of a frame as loaded.
fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

fn words(bytes: [u8; 16]) -> [u32; 4] {
    let (four, _) = bytes.as_chunks::<4>();
    [0, 1, 2, 3].map(|at| word(four[at]))
}

/// An interface's own address, as maps that a program reads, since an interface that comes back may
/// have another one.
pub(crate) struct Station([Map; 2]);

impl Station {
    /// No address yet.
    ///
    /// # Errors
    /// What the system refused: it needs CAP_BPF.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self([Map::new(MapKind::Words, 4, 1)?, Map::new(MapKind::Words, 4, 1)?]))
    }

    /// Sets the address. It needs no capability.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn set(&self, MacAddress([a, b, c, d, e, f]): MacAddress) -> io::Result<()> {
        let key = 0_u32.to_ne_bytes();
        self.0[0].set(&key, word([a, b, c, d]))?;
        self.0[1].set(&key, half(u16::from_be_bytes([e, f])))
    }

    /// The maps' descriptors, as programs name them.
    pub(crate) fn numbers(&self) -> [i32; 2] {
        self.0.each_ref().map(Map::number)
    }
}

impl Hook {
    /// Loads what this hook knows of a frame beside its bytes, and passes packets that are not for
    /// this host.
    fn begin(self, asm: &mut Assembler, takes: &LinkTakes) {
        asm.copy(CONTEXT, R1);
        match self {
            Self::Xdp { station, .. } => {
                asm.load(Size::Word, DATA, CONTEXT, XDP_DATA);
                asm.load(Size::Word, END, CONTEXT, XDP_END);
                asm.need(DATA, V4_END);
                if matches!(takes, LinkTakes::Plaintext { .. }) {
                    for (map, (size, offset)) in station.into_iter().zip([(Size::Word, 0), (Size::Half, 4)]) {
                        asm.field(size, offset);
                        asm.map_value(R1, map);
                        asm.load(Size::Word, R1, R1, 0);
                        asm.unless_same(R5, R1, JumpTarget::Pass);
                    }
                }
            }
            Self::Socket | Self::Ingress => {
                asm.load(Size::Word, R5, CONTEXT, SKB_PACKET_TYPE);
                asm.unless_equal(R5, TO_THIS_HOST, JumpTarget::Pass);
                // The kernel has removed the first tag from the frame. Its VLAN is another
                // interface, unless it is 0.
                asm.load(Size::Word, R5, CONTEXT, SKB_VLAN_PRESENT);
                asm.if_equal(R5, 0, JumpTarget::Here);
                asm.load(Size::Word, R5, CONTEXT, SKB_VLAN_TCI);
                asm.mask(R5, VLAN.into());
                asm.unless_equal(R5, 0, JumpTarget::Pass);
                asm.here(JumpTarget::Here);
            }
        }
    }

    /// Skips a first tag of VLAN 0 that the frame still has, at a driver, so that everything behind
    /// it is read as if it were untagged. Frames with another tag are the kernel's.
    fn skip_tag(self, asm: &mut Assembler, inner: JumpTarget) {
        if !matches!(self, Self::Xdp { .. }) {
            return if_tagged(asm, inner);
        }
        if_tagged(asm, JumpTarget::Tagged);
        asm.goto(JumpTarget::Pass);
        asm.here(JumpTarget::Tagged);
        asm.need(DATA, V4_END + i32::from(BEHIND_TAG));
        unless_vlan_0(asm);
        asm.advance(DATA, BEHIND_TAG.into());
        asm.field(Size::Half, ETHERTYPE);
        asm.if_equal(R5, half(ethernet::IPV4), JumpTarget::V4);
        asm.if_equal(R5, half(ethernet::IPV6), JumpTarget::V6);
        if_tagged(asm, inner);
    }

    const fn reads(self) -> Reads {
        match self {
            Self::Xdp { .. } => Reads::InPlace,
            Self::Socket | Self::Ingress => Reads::ByInstruction,
        }
    }

    /// The verdict, in register 0, for a frame of the kernel's.
    const fn pass(self) -> i32 {
        match self {
            Self::Xdp { .. } => XDP_PASS,
            Self::Socket => NOTHING,
            Self::Ingress => TCX_NEXT,
        }
    }

    /// The verdict for a frame to be dropped. At a socket other programs decide that.
    const fn dropped(self) -> Option<i32> {
        match self {
            Self::Xdp { .. } => Some(XDP_DROP),
            Self::Socket => None,
            Self::Ingress => Some(TCX_DROP),
        }
    }

    /// Takes a frame of the gateway's, and leaves the verdict in register 0.
    fn take(self, asm: &mut Assembler) {
        match self {
            Self::Xdp { sockets, .. } => {
                asm.map(R1, sockets);
                asm.load(Size::Word, R2, CONTEXT, XDP_QUEUE);
                asm.set(R3, XDP_PASS);
                asm.call(REDIRECT);
            }
            Self::Socket => asm.set(R0, ALL),
            Self::Ingress => asm.set(R0, TCX_DROP),
        }
    }
}

/// The program of a port for a hook. `networks` are those of an inside port.
pub(crate) fn program(takes: &LinkTakes, networks: &Networks, hook: Hook) -> Vec<Instruction> {
    classify(takes, networks, hook, |asm| hook.take(asm))
}

/// A program that executes `take`, which leaves a verdict in register 0, for frames of the
/// gateway's.
fn classify(
    takes: &LinkTakes,
    networks: &Networks,
    hook: Hook,
    take: impl FnOnce(&mut Assembler),
) -> Vec<Instruction> {
    let mut asm = Assembler::new(hook.reads());
    hook.begin(&mut asm, takes);
    asm.field(Size::Half, ETHERTYPE);
    asm.if_equal(R5, half(ethernet::IPV4), JumpTarget::V4);
    asm.if_equal(R5, half(ethernet::IPV6), JumpTarget::V6);
    // What the kernel would forward unencrypted is dropped if the gateway does not read it.
    let dropped = hook.dropped().filter(|_| matches!(takes, LinkTakes::Plaintext { .. }));
    hook.skip_tag(&mut asm, if dropped.is_some() { JumpTarget::Inner } else { JumpTarget::Pass });
    asm.goto(JumpTarget::Pass);
    match takes {
        LinkTakes::Protected { addresses, udp_port, beside } => {
            addressed(&mut asm, addresses, Wants::Ipsec);
            esp_in_udp(&mut asm, *udp_port, *beside);
        }
        LinkTakes::Datagrams { to } => {
            addressed(&mut asm, &[to.ip()], Wants::Udp);
            datagrams(&mut asm, to.port());
        }
        LinkTakes::Plaintext { .. } => {
            asm.here(JumpTarget::V4);
            look_up_v4(&mut asm, networks, IP, JumpTarget::Take);
            asm.here(JumpTarget::V6);
            asm.need(DATA, V6_END);
            look_up_v6(&mut asm, networks, IP, JumpTarget::Take);
        }
    }
    if let Some(verdict) = dropped {
        two_tags(&mut asm, networks);
        asm.here(JumpTarget::Drop);
        asm.set(R0, verdict);
        asm.exit();
    }
    asm.here(JumpTarget::Pass);
    asm.set(R0, hook.pass());
    asm.exit();
    asm.here(JumpTarget::Take);
    take(&mut asm);
    asm.exit();
    asm.finish()
}

/// The relevant packets to an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    /// Only UDP.
    Udp,
    /// UDP, ESP and AH.
    Ipsec,
}

/// Takes ESP and AH to these addresses, if wanted, and continues with UDP to them.
fn addressed(asm: &mut Assembler, addresses: &[IpAddr], wants: Wants) {
    // The kernel rejects unreachable instructions.
    for is_v4 in [true, false] {
        let addresses: Vec<IpAddr> = addresses.iter().copied().filter(|it| it.is_ipv4() == is_v4).collect();
        asm.here(if is_v4 { JumpTarget::V4 } else { JumpTarget::V6 });
        match (addresses.is_empty(), is_v4) {
            (true, _) => asm.goto(JumpTarget::Pass),
            (_, true) => addressed_v4(asm, &addresses, wants),
            (_, false) => addressed_v6(asm, &addresses, wants),
        }
    }
}

/// Takes ESP in a UDP datagram to this port and, if it is the gateway's, IKE on either port.
fn esp_in_udp(asm: &mut Assembler, udp_port: u16, beside: Beside) {
    asm.here(JumpTarget::Udp);
    asm.need(TRANSPORT, ESP_IN_UDP);
    asm.transport_field(Size::Half, 2);
    if let Beside::Ike(ike_port) = beside {
        asm.if_equal(R5, half(ike_port), JumpTarget::Take);
    }
    asm.unless_equal(R5, half(udp_port), JumpTarget::Pass);
    // The length in host byte order: less is a keep-alive, whatever pads the frame.
    asm.transport_field(Size::Half, 4);
    asm.swap_order(R5, 16);
    asm.jump(0xa5, R5, 0, ESP_IN_UDP, JumpTarget::Pass);
    if !matches!(beside, Beside::Ike(_)) {
        asm.transport_field(Size::Word, 8);
        // The marker of IKE (RFC 3948 section 2.2).
        asm.if_equal(R5, 0, JumpTarget::Pass);
    }
    asm.goto(JumpTarget::Take);
}

/// Takes a UDP datagram to this port.
fn datagrams(asm: &mut Assembler, udp_port: u16) {
    asm.here(JumpTarget::Udp);
    asm.need(TRANSPORT, udp::HEADER_BYTES as i32);
    asm.transport_field(Size::Half, 2);
    asm.unless_equal(R5, half(udp_port), JumpTarget::Pass);
    asm.goto(JumpTarget::Take);
}

/// Takes a packet whose protocol is in register 5 if that is ESP or AH, and these are wanted.
fn take_ipsec(asm: &mut Assembler, wants: Wants) {
    if wants == Wants::Udp {
        return;
    }
    for protocol in [ESP, AH] {
        asm.if_equal(R5, protocol.into(), JumpTarget::Take);
    }
}

fn addressed_v4(asm: &mut Assembler, addresses: &[IpAddr], wants: Wants) {
    asm.field(Size::Word, IP + 16);
    for address in addresses {
        if let IpAddr::V4(address) = address {
            asm.if_equal(R5, word(address.octets()), JumpTarget::V4Ours);
        }
    }
    asm.goto(JumpTarget::Pass);
    asm.here(JumpTarget::V4Ours);
    asm.field(Size::Byte, IP + 9);
    take_ipsec(asm, wants);
    asm.unless_equal(R5, UDP.into(), JumpTarget::Pass);
    // Only the first fragment of a datagram shows its port, and the kernel needs all of them.
    asm.field(Size::Half, IP + 6);
    asm.add(0x57, R5, 0, 0, half(FRAGMENT_BITS) as i32);
    asm.unless_equal(R5, 0, JumpTarget::Pass);
    // The header's length is the lower half of its first byte, in words.
    asm.field(Size::Byte, IP);
    asm.add(0x57, R5, 0, 0, 0x0f);
    asm.add(0x67, R5, 0, 0, 2);
    asm.transport_at(i32::from(IP));
    asm.add(0x0f, TRANSPORT, R5, 0, 0);
    asm.goto(JumpTarget::Udp);
}

fn addressed_v6(asm: &mut Assembler, addresses: &[IpAddr], wants: Wants) {
    asm.need(DATA, V6_END);
    for (at, address) in addresses.iter().enumerate() {
        let IpAddr::V6(address) = address else { continue };
        for (place, value) in (IP + 24..).step_by(4).zip(words(address.octets())) {
            asm.field(Size::Word, place);
            asm.unless_equal(R5, value, JumpTarget::Next(at));
        }
        asm.goto(JumpTarget::V6Ours);
        asm.here(JumpTarget::Next(at));
    }
    asm.goto(JumpTarget::Pass);
    asm.here(JumpTarget::V6Ours);
    asm.field(Size::Byte, IP + 6);
    take_ipsec(asm, wants);
    asm.transport_at(V6_END);
    asm.if_equal(R5, UDP.into(), JumpTarget::Udp);
    if wants == Wants::Ipsec {
        asm.unless_equal(R5, FRAGMENT.into(), JumpTarget::Pass);
        asm.need(TRANSPORT, 1);
        asm.transport_field(Size::Byte, 0);
        take_ipsec(asm, wants);
    }
    asm.goto(JumpTarget::Pass);
}

/// Jumps if the ethertype in register 5 is that of a tag.
fn if_tagged(asm: &mut Assembler, to: JumpTarget) {
    for ethertype in TAGS {
        asm.if_equal(R5, half(ethertype), to);
    }
}

/// Passes a frame whose first tag has a VLAN other than 0.
fn unless_vlan_0(asm: &mut Assembler) {
    asm.field(Size::Half, TAG);
    asm.mask(R5, half(VLAN));
    asm.unless_equal(R5, 0, JumpTarget::Pass);
}

/// Drops frames with a second tag of VLAN 0 to the networks, and frames with a third tag: the
/// kernel removes all tags, and would forward them.
fn two_tags(asm: &mut Assembler, networks: &Networks) {
    asm.here(JumpTarget::Inner);
    asm.need(DATA, V4_END + i32::from(BEHIND_TAG));
    unless_vlan_0(asm);
    asm.field(Size::Half, ETHERTYPE + BEHIND_TAG);
    asm.if_equal(R5, half(ethernet::IPV4), JumpTarget::InnerV4);
    asm.if_equal(R5, half(ethernet::IPV6), JumpTarget::InnerV6);
    if_tagged(asm, JumpTarget::Drop);
    asm.goto(JumpTarget::Pass);
    asm.here(JumpTarget::InnerV4);
    look_up_v4(asm, networks, IP + BEHIND_TAG, JumpTarget::Drop);
    asm.here(JumpTarget::InnerV6);
    asm.need(DATA, V6_END + i32::from(BEHIND_TAG));
    look_up_v6(asm, networks, IP + BEHIND_TAG, JumpTarget::Drop);
}

/// Jumps if a packet's destination is in the networks, and passes it otherwise. A key is the prefix
/// length and the address.
fn look_up_v4(asm: &mut Assembler, networks: &Networks, ip: i16, found: JumpTarget) {
    const KEY: i16 = -8;
    asm.field(Size::Word, ip + 16);
    asm.store(R5, KEY + 4);
    look_up(asm, networks.numbers()[0], LookUpKey { at: KEY, bits: 32 }, found);
}

fn look_up_v6(asm: &mut Assembler, networks: &Networks, ip: i16, found: JumpTarget) {
    const KEY: i16 = -20;
    for word in 0..4 {
        asm.field(Size::Word, ip + 24 + 4 * word);
        asm.store(R5, KEY + 4 + 4 * word);
    }
    look_up(asm, networks.numbers()[1], LookUpKey { at: KEY, bits: 128 }, found);
}

/// A key on the stack: at this offset, a prefix of so many bits.
struct LookUpKey {
    at: i16,
    bits: i32,
}

fn look_up(asm: &mut Assembler, map: i32, key: LookUpKey, found: JumpTarget) {
    asm.set(R5, key.bits);
    asm.store(R5, key.at);
    asm.map(R1, map);
    asm.copy(R2, STACK);
    asm.advance(R2, key.at.into());
    asm.call(LOOK_UP);
    asm.jump(0x55, R0, 0, 0, found);
    asm.goto(JumpTarget::Pass);
}

#[cfg(test)]
mod tests;
