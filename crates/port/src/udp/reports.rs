//! ICMP "too big" of routers about datagrams. The datagrams' sockets do not receive it: an error
//! queue there would let ICMP from anywhere fail their calls. Raw sockets beside them do, and it is
//! handed up as received.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use convoy_packet::{Frame, FramePool};

use crate::PortCounters;
use crate::raw::{RawReceiver, RawSocket};

/// Calls of `receive` that return something between two looks. A call that returns nothing looks as
/// well.
const CALLS: u32 = 64;
/// Reports received at once.
const MESSAGES: usize = 4;

/// One socket for each address.
pub(crate) struct Reports {
    sockets: Vec<RawSocket>,
    receiver: RawReceiver,
    calls: u32,
}

impl Reports {
    /// Sockets that receive reports of paths from `addresses`. They need CAP_NET_RAW.
    pub(crate) fn open(addresses: &[IpAddr]) -> std::io::Result<Self> {
        let sockets = addresses.iter().map(|address| RawSocket::of_reports(*address));
        let sockets = sockets.collect::<Result<_, _>>()?;
        Ok(Self { sockets, receiver: RawReceiver::new(MESSAGES), calls: 0 })
    }

    /// Becomes readable when there is a report.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Whether received reports wait to be handed out.
    pub(crate) fn has_waiting(&self) -> bool {
        self.receiver.has_waiting()
    }

    /// Appends reports to `burst`, up to `limit` frames in it, if it is time to look: a busy port
    /// pays one system call for them in 64 rounds.
    pub(crate) fn receive(
        &mut self,
        was_idle: bool,
        counters: &mut PortCounters,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> std::io::Result<()> {
        self.calls += 1;
        if !was_idle && self.calls < CALLS {
            return Ok(());
        }
        self.calls = 0;
        let mut has_room = self.receiver.hand_out(counters, pool, limit, burst);
        for socket in &self.sockets {
            let mut may_have_more = true;
            while has_room && may_have_more {
                may_have_more = self.receiver.fill(socket, counters)?;
                has_room = self.receiver.hand_out(counters, pool, limit, burst);
            }
        }
        Ok(())
    }
}
