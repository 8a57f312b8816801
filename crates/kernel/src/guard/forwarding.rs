//! Chains of other programs that drop what the kernel forwards between a network and the tunnels.

use std::ffi::{CStr, CString};
use std::io;

use netlink_bindings::nftables::{OpGetchainDump, OpGetsetDump, VerdictCode};
use netlink_bindings::traits::NetlinkRequest;
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;

use super::kernel::dump;
use super::message;

/// `NF_INET_FORWARD`.
const FORWARD: u32 = 2;
/// The type of a set's key by which nft(8) displays names of interfaces.
const INTERFACE_NAME: u32 = 41;

/// A chain of nftables, of nft(8) or of iptables, that drops what the kernel forwards unless one of
/// its rules accepts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardChain {
    family: u8,
    table: CString,
    name: CString,
}

impl ForwardChain {
    /// What the chain does to packets from and to an interface that its table does not name, and
    /// the commands that make it accept them.
    pub fn remedy(&self, interface: &str) -> String {
        let Self { family, table, name } = self;
        let (table, name) = (table.to_string_lossy(), name.to_string_lossy());
        let (word, iptables) = match i32::from(*family) {
            libc::NFPROTO_IPV4 => ("ip", Some("iptables")),
            libc::NFPROTO_IPV6 => ("ip6", Some("ip6tables")),
            _ => ("inet", None),
        };
        let insert = match iptables.filter(|_| table == "filter" && name == "FORWARD") {
            Some(command) => [("-i", command), ("-o", command)]
                .map(|(option, command)| format!("{command} -I {name} {option} {interface} -j ACCEPT")),
            None => ["iifname", "oifname"]
                .map(|of| format!("nft insert rule {word} {table} {name} {of} {interface} accept")),
        };
        format!(
            "chain {name} of table {word} {table} drops what is forwarded unless a rule accepts it, and no rule there \
             names {interface}; run: {}",
            insert.join("; ")
        )
    }
}

/// The chains that drop what the kernel forwards, but for what their rules accept, where none of
/// their table's rules and sets names this interface. What the rules say otherwise is not known.
/// Chains of the older iptables are not seen.
///
/// # Errors
/// What the kernel refuses: it needs CAP_NET_ADMIN and nftables.
pub fn forward_chains_without(interface: &str) -> io::Result<Vec<ForwardChain>> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    let mut chains = Vec::new();
    list(&socket, &message::chains_question(), &mut |chain| chains.extend(dropping(chain)))?;
    let mut without = Vec::new();
    for chain in chains {
        if !names(&socket, &chain, interface)? {
            without.push(chain);
        }
    }
    Ok(without)
}

/// Hands out the entries of a list. One that changes meanwhile is an error: what is missing in it
/// would be taken for what is not there.
fn list(socket: &Socket, request: &[u8], entry: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    if dump(socket, request, entry)? { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

/// Whether chains of a family see packets that are routed. Those of bridges and ARP do not,
/// although one of their hooks has the number of "forward".
fn sees_routed(family: u8) -> bool {
    [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6, libc::NFPROTO_INET].contains(&i32::from(family))
}

/// A chain if it is at the hook of forwarded packets and drops them by default.
fn dropping(chain: &[u8]) -> Option<ForwardChain> {
    let (header, attributes) = OpGetchainDump::decode_reply(chain);
    let is_at_hook = attributes.get_hook().ok()?.get_num().ok()? == FORWARD;
    let drops = attributes.get_policy().ok()? == VerdictCode::Drop as u32;
    let (table, name) = (attributes.get_table().ok()?, attributes.get_name().ok()?);
    (is_at_hook && drops && sees_routed(header.nfgen_family)).then(|| ForwardChain {
        family: header.nfgen_family,
        table: table.to_owned(),
        name: name.to_owned(),
    })
}

/// Whether a rule of the chain's table names an interface, or a set of interfaces may have it.
fn names(socket: &Socket, chain: &ForwardChain, interface: &str) -> io::Result<bool> {
    let ForwardChain { family, table, .. } = chain;
    let table: &CStr = table;
    let mut is_named = false;
    list(socket, &message::rules_question(*family, table), &mut |rule| {
        is_named |= rule.windows(interface.len()).any(|part| part == interface.as_bytes());
    })?;
    list(socket, &message::sets_question(*family, table), &mut |set| {
        let (_, attributes) = OpGetsetDump::decode_reply(set);
        is_named |= attributes.get_key_type().is_ok_and(|of_type| of_type == INTERFACE_NAME);
    })?;
    Ok(is_named)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs nft in the test's own network namespace.
    fn nft(rules: &str) {
        let status = Command::new("nft").arg(rules).status().expect("nft is installed");
        assert!(status.success(), "{rules}");
    }

    #[test]
    fn chains_of_bridges_and_arp_do_not_see_routed_packets() {
        let families = [libc::NFPROTO_IPV4, libc::NFPROTO_IPV6, libc::NFPROTO_INET];
        assert!(families.into_iter().all(|family| sees_routed(family as u8)));
        assert!(
            ![libc::NFPROTO_BRIDGE, libc::NFPROTO_ARP].into_iter().any(|family| sees_routed(family as u8))
        );
    }

    #[test]
    #[ignore = "needs root; `make test` runs it"]
    fn forward_chain_that_drops_is_found_until_a_rule_or_set_names_the_interface() {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("root");
        let found = || {
            let chains = forward_chains_without("convoy0").expect("root");
            chains.iter().map(|chain| chain.remedy("convoy0")).collect::<Vec<_>>()
        };
        assert!(found().is_empty());
        nft(
            "add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy accept; }",
        );
        nft("add chain ip filter INPUT { type filter hook input priority 0; policy drop; }");
        assert!(found().is_empty(), "it accepts, and the other is not for forwarded packets");
        nft("add chain ip filter FORWARD { policy drop; }");
        let [text] = &found()[..] else { panic!("one") };
        let wanted = "chain FORWARD of table ip filter drops what is forwarded unless a rule accepts it";
        assert!(text.starts_with(wanted), "{text}");
        let commands = "iptables -I FORWARD -i convoy0 -j ACCEPT; iptables -I FORWARD -o convoy0 -j ACCEPT";
        assert!(text.ends_with(commands), "{text}");
        nft("add rule ip filter FORWARD iifname lan0 accept");
        assert_eq!(found().len(), 1);
        nft("add rule ip filter FORWARD iifname convoy0 accept");
        assert!(found().is_empty());
        nft(
            "add table inet own; add chain inet own forward { type filter hook forward priority 0; policy drop; }",
        );
        let [text] = &found()[..] else { panic!("one") };
        assert!(text.contains("nft insert rule inet own forward iifname convoy0 accept; nft"), "{text}");
        nft("add rule inet own forward iifname { lan0, convoy0 } accept");
        assert!(found().is_empty(), "a set may have it");
    }
}
