//! Keeps the table in the kernel, by netlink.

use std::ffi::CString;
use std::future::poll_fn;
use std::io;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBufForce, SndBufForce};
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use rtnetlink::sys::{AsyncSocket as _, Socket, SocketAddr, TokioSocket};

use super::message::{self, HEADER_BYTES};
use super::rules::ruleset;
use super::{GuardCounts, GuardPlan, guard_table};
use crate::Prefix;

/// Maximum size of one change, in bytes: the networks of 100,000 tunnels. The kernel only takes
/// what is used.
const CHANGE_BYTES: usize = 32 << 20;
/// Buffer for the kernel's messages, in bytes.
const ANSWER_BYTES: usize = 64 << 10;
/// The multicast group of all changes of nftables, as a mask (`NFNLGRP_NFTABLES`).
const CHANGES: u32 = 1 << (7 - 1);
/// `NLM_F_DUMP_INTR`: the list changed while it was dumped.
const INTERRUPTED: u16 = 0x10;
/// How often a list is requested if it changes meanwhile.
const ATTEMPTS: usize = 5;

/// Why the table could not be set, read or removed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot {action} the nftables table {table}, which drops unprotected packets from and to the tunnels' \
     networks: {source}{}", hint(.source)
)]
pub struct GuardError {
    table: String,
    action: &'static str,
    source: io::Error,
}

impl GuardError {
    /// Whether the kernel does not support nftables.
    fn is_unsupported(&self) -> bool {
        is_unsupported(&self.source)
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    const UNSUPPORTED: [i32; 5] =
        [libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT, libc::EOPNOTSUPP, libc::EINVAL, libc::ENOENT];
    error.raw_os_error().is_some_and(|code| UNSUPPORTED.contains(&code))
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => " (it needs CAP_NET_ADMIN)",
        _ if is_unsupported(error) => {
            " (the kernel needs nf_tables with tables of family inet; with guard = false in [gateway], your own \
             firewall must drop these packets)"
        }
        _ => "",
    }
}

/// Keeps the table of one gateway.
pub struct Guard {
    socket: Socket,
    table: CString,
    kept: Option<GuardState>,
    /// What previous tables have dropped.
    before: GuardCounts,
}

/// The state in the kernel.
struct GuardState {
    plan: GuardPlan,
    connected: Vec<Prefix>,
    rules: usize,
}

impl Guard {
    /// For the gateway with this routing table. Later changes need CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The system has no such sockets.
    pub fn open(number: u32) -> Result<Self, GuardError> {
        let table = message::text(&guard_table(number));
        let refused = |source| GuardError { table: guard_table(number), action: "open a socket for", source };
        let socket = open_socket().map_err(refused)?;
        Ok(Self { socket, table, kept: None, before: GuardCounts::default() })
    }

    /// Sets the table to a plan, in one step. `connected` are the networks on the host's other
    /// interfaces.
    ///
    /// # Errors
    /// What the kernel refused; the table is unchanged then.
    pub fn set(&mut self, plan: GuardPlan, connected: Vec<Prefix>) -> Result<(), GuardError> {
        let content = ruleset(&plan, &connected);
        // A new table's counters start at 0.
        let before = if self.kept.is_some() { self.counts()? } else { self.before };
        let changed = self.change(&message::replace(&self.table, &content));
        changed.map_err(self.refused("set"))?;
        let rules = content.chains.iter().map(|chain| chain.rules.len()).sum();
        (self.kept, self.before) = (Some(GuardState { plan, connected, rules }), before);
        Ok(())
    }

    /// Sets the table again if something else changed it, or if the host's other interfaces have
    /// other networks (`None`: those are unknown); returns whether something else had changed it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn restore(&mut self, connected: Option<Vec<Prefix>>) -> Result<bool, GuardError> {
        let Some(kept) = &self.kept else { return Ok(false) };
        let is_whole = self.list().map_err(self.refused("read"))?.0 == kept.rules;
        let connected = connected.unwrap_or_else(|| kept.connected.clone());
        if !is_whole || connected != kept.connected {
            let plan = kept.plan.clone();
            self.set(plan, connected)?;
        }
        Ok(!is_whole)
    }

    /// Removes the table, no matter who has set it.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn remove(&mut self) -> Result<(), GuardError> {
        self.kept = None;
        self.change(&message::remove(&self.table)).map_err(self.refused("remove"))
    }

    /// Removes the table of an earlier gateway with this routing table; returns its name, if there
    /// was one. A kernel without nftables has none.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn remove_stale(number: u32) -> Result<Option<String>, GuardError> {
        let listed = Self::open(number).and_then(|guard| {
            let (rules, _) = guard.list().map_err(guard.refused("read"))?;
            Ok((guard, rules))
        });
        match listed {
            Ok((_, 0)) => Ok(None),
            Ok((mut guard, _)) => guard.remove().map(|()| Some(guard_table(number))),
            Err(error) if error.is_unsupported() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Packets dropped since this guard was opened.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn counts(&self) -> Result<GuardCounts, GuardError> {
        let (_, now) = self.list().map_err(self.refused("read"))?;
        let GuardCounts { inbound, outbound } = self.before;
        Ok(GuardCounts { inbound: inbound + now.inbound, outbound: outbound + now.outbound })
    }

    fn refused(&self, action: &'static str) -> impl Fn(io::Error) -> GuardError + use<> {
        let table = self.table.to_string_lossy().into_owned();
        move |source| GuardError { table: table.clone(), action, source }
    }

    /// Applies a change. The kernel answers within the call that sends it.
    fn change(&self, change: &[u8]) -> io::Result<()> {
        self.socket.send(change, 0)?;
        let mut is_done = false;
        while let Some(answer) = receive(&self.socket)? {
            for (header, content) in messages(&answer) {
                is_done |= header.kind == libc::NLMSG_ERROR as u16;
                error_of(header, content)?;
            }
        }
        if is_done { Ok(()) } else { Err(io::Error::other("the kernel does not answer")) }
    }

    /// The number of rules in the table, and what they have dropped; 0 without a table.
    fn list(&self) -> io::Result<(usize, GuardCounts)> {
        for _ in 0..ATTEMPTS {
            if let Some(listed) = self.list_once()? {
                return Ok(listed);
            }
        }
        Err(io::Error::other("its rules change faster than they can be read"))
    }

    fn list_once(&self) -> io::Result<Option<(usize, GuardCounts)>> {
        let (mut rules, mut counts) = (0, GuardCounts::default());
        let is_whole = dump(&self.socket, &message::question(&self.table), &mut |rule| {
            rules += 1;
            message::count(rule, &mut counts);
        })?;
        Ok(is_whole.then_some((rules, counts)))
    }
}

/// Requests a list and hands out its entries; returns whether it stayed as it was meanwhile. What
/// does not exist has no entries.
pub(super) fn dump(socket: &Socket, request: &[u8], entry: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
    socket.send(request, 0)?;
    let mut is_whole = true;
    while let Some(answer) = receive(socket)? {
        for (header, content) in messages(&answer) {
            is_whole &= header.flags & INTERRUPTED == 0;
            match i32::from(header.kind) {
                libc::NLMSG_DONE => {}
                libc::NLMSG_ERROR => match error_of(header, content) {
                    Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                    result => result?,
                },
                _ => entry(content),
            }
        }
    }
    Ok(is_whole)
}

fn receive(socket: &Socket) -> io::Result<Option<Vec<u8>>> {
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    match socket.recv(&mut answer, libc::MSG_DONTWAIT) {
        Ok(_) => Ok(Some(answer)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_socket() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_NETFILTER)?;
    socket.bind_auto()?;
    setsockopt(&socket, SndBufForce, &CHANGE_BYTES)?;
    setsockopt(&socket, RcvBufForce, &CHANGE_BYTES)?;
    Ok(socket)
}

/// Events for changes of nftables by anybody.
pub struct GuardEvents(TokioSocket);

impl GuardEvents {
    /// Subscribes to changes. Call it in a tokio runtime.
    ///
    /// # Errors
    /// What the system refused.
    pub fn open() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_NETFILTER)?;
        socket.socket_mut().bind(&SocketAddr::new(0, CHANGES))?;
        Ok(Self(socket))
    }

    /// Waits for the next change; simultaneous ones count once.
    ///
    /// # Errors
    /// The system sends no more events.
    pub async fn next(&mut self) -> io::Result<()> {
        let mut message = Vec::with_capacity(ANSWER_BYTES);
        match poll_fn(|context| self.0.poll_recv(context, &mut message)).await {
            // The buffer overflowed: something has changed.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            result => result?,
        }
        loop {
            message.clear();
            match self.0.socket_ref().recv(&mut message, libc::MSG_DONTWAIT) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Header {
    kind: u16,
    flags: u16,
}

/// The messages of an answer, each with its payload.
fn messages(mut answer: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(answer.first_chunk().copied()?) as usize;
        let message = answer.get(..len)?;
        let content = message.get(HEADER_BYTES..)?;
        let half = |at: usize| u16::from_ne_bytes([message[at], message[at + 1]]);
        answer = answer.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((Header { kind: half(4), flags: half(6) }, content))
    })
}

/// The failure that a message reports, if any.
fn error_of(header: Header, content: &[u8]) -> io::Result<()> {
    let is_error = header.kind == libc::NLMSG_ERROR as u16;
    match content.first_chunk().map(|code| i32::from_ne_bytes(*code)) {
        Some(code) if is_error && code != 0 => Err(io::Error::from_raw_os_error(code.saturating_abs())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_cut_short_end_the_answer() {
        let whole = [20_u32.to_ne_bytes(), [2, 0, 0, 0], [0; 4], [0; 4], (-2_i32).to_ne_bytes()].concat();
        let two = [whole.clone(), whole.clone()].concat();
        assert_eq!(messages(&two).count(), 2);
        assert_eq!(messages(&two[..30]).count(), 1);
        for len in [0, 3, 15] {
            assert_eq!(messages(&whole[..len]).count(), 0, "{len} bytes");
        }
        assert_eq!(messages(&[0; 64]).count(), 0, "a length of none");
        let (header, content) = messages(&whole).next().expect("one");
        let error = error_of(header, content).expect_err("it is one");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
