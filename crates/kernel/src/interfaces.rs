//! The network interfaces of this network namespace, as the kernel lists them.

use std::io;

use convoy_settings::Interface;
use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkLayerType, LinkMessage};
use rtnetlink::sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Buffer for the kernel's messages, in bytes.
const MESSAGE_BYTES: usize = 64 << 10;

/// The interfaces, without their addresses. It needs no privileges.
///
/// # Errors
/// The kernel does not list them.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut question = NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
    question.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    question.finalize();
    let mut buffer = vec![0; question.buffer_len()];
    question.serialize(&mut buffer);
    socket.send(&buffer, 0)?;
    let mut found = Vec::new();
    let mut answer = Vec::with_capacity(MESSAGE_BYTES);
    loop {
        answer.clear();
        // The kernel answers within the call that asks, and continues within each that reads.
        socket.recv(&mut answer, libc::MSG_DONTWAIT)?;
        if take(&answer, &mut found)? {
            return Ok(found);
        }
    }
}

/// Parses what was read at once; returns whether that was the last.
fn take(bytes: &[u8], found: &mut Vec<Interface>) -> io::Result<bool> {
    let mut rest = bytes;
    loop {
        let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => found.extend(interface(link)),
            NetlinkPayload::Done(_) => return Ok(true),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            _ => {}
        }
        let length = rest.first_chunk::<4>().map_or(0, |length| u32::from_ne_bytes(*length) as usize);
        rest = rest.get(length.max(16).next_multiple_of(4)..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
    }
}

fn interface(link: LinkMessage) -> Option<Interface> {
    // A TAP interface is of the kind "tun" too, and has Ethernet as its link layer.
    let has_no_link_layer = link.header.link_layer_type == LinkLayerType::None;
    let (mut name, mut mtu, mut is_kind_tun) = (None, 0, false);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = Some(text),
            LinkAttribute::Mtu(bytes) => mtu = bytes,
            LinkAttribute::LinkInfo(infos) => is_kind_tun = infos.contains(&LinkInfo::Kind(InfoKind::Tun)),
            _ => {}
        }
    }
    Some(Interface { name: name?, mtu, is_tun: is_kind_tun && has_no_link_layer, networks: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed_with_its_mtu_and_is_no_tun() {
        let found = interfaces().expect("the kernel lists them");
        let loopback = found.iter().find(|interface| interface.name == "lo").expect("every namespace has it");
        assert_eq!((loopback.mtu, loopback.is_tun), (65_536, false), "{found:?}");
    }
}
