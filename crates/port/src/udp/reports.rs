//! What routers say of datagrams that were too big. The sockets of the datagrams are not told: an error queue there would let
//! ICMP from anywhere fail their calls. Raw sockets beside them hear it, and it is handed up as it came.

use std::net::IpAddr;
use std::os::fd::AsFd;

use convoy_packet::{Frame, FramePool};

use crate::PortCounters;
use crate::raw::{PACKET_BYTES, RawSocket};

/// Calls of `receive` that bring something between two looks. A call that brings nothing looks as well.
const CALLS: u32 = 64;

/// One socket for each address.
pub(super) struct Reports {
    sockets: Vec<RawSocket>,
    buffer: Vec<u8>,
    calls: u32,
}

impl Reports {
    /// Sockets that hear of paths from `addresses`. They need CAP_NET_RAW.
    pub(super) fn open(addresses: &[IpAddr]) -> std::io::Result<Self> {
        let sockets = addresses.iter().map(|address| RawSocket::of_reports(*address));
        Ok(Self { sockets: sockets.collect::<Result<_, _>>()?, buffer: vec![0; PACKET_BYTES], calls: 0 })
    }

    /// What becomes readable when there is a report.
    pub(super) fn sockets(&self) -> impl Iterator<Item = impl AsFd> {
        self.sockets.iter()
    }

    /// Appends reports to `burst`, up to `limit` frames in it, if it is time to look: a busy port pays a system call for them in
    /// 64 rounds.
    pub(super) fn receive(
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
        for socket in &self.sockets {
            while burst.len() < limit {
                let Some(frame) = socket.receive(&mut self.buffer, counters, pool)? else { break };
                burst.push(frame);
            }
        }
        Ok(())
    }
}
