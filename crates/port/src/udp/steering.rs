//! Which of the sockets that share a port receives a packet of ESP: that of the worker that has the
//! packet's SA. A program at the sockets looks up the SPI in a table that the workers write. Of a
//! packet whose SPI is not there the kernel chooses the socket, by its addresses and ports.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::endpoint::Endpoint;
use crate::assembler::{Assembler, CONTEXT, JumpTarget, LOOK_UP, R0, R1, R2, R5, Reads, STACK, Size};
use crate::sys::{Instruction, ProgramKind, SharedWords, VerifiedProgram, attach_reuse_port};

/// Entries of the table, a power of two. Of SPIs with the same entry the last one set has it; the
/// packets of others may come to a worker that has to hand them over.
const ENTRIES: usize = 1 << 16;

/// The table: for each entry the number of a queue, plus one.
pub(super) struct SteeringTable(SharedWords);

impl SteeringTable {
    /// Packets of this SPI go to this queue from now on.
    fn set(&self, spi: u32, queue: usize) {
        self.0.set(entry(spi), queue as u32 + 1);
    }
}

/// The entry of an SPI, as the program computes it.
fn entry(spi: u32) -> usize {
    let loaded = u32::from_ne_bytes(spi.to_be_bytes());
    (loaded ^ loaded >> 16) as usize & (ENTRIES - 1)
}

/// One queue's end of the table.
pub(super) struct Steering {
    table: Arc<SteeringTable>,
    queue: usize,
}

impl Steering {
    /// Packets of this SPI come to this queue from now on.
    pub(super) fn take(&self, spi: u32) {
        self.table.set(spi, self.queue);
    }
}

/// Has packets come to the queue that takes their SPI, for sockets that share their ports with
/// these of the first queue, and are bound.
///
/// # Errors
/// The system's, before Linux 5.5 or without CAP_BPF.
pub(super) fn steer<'a>(
    first: impl Iterator<Item = &'a Endpoint>,
    queues: usize,
) -> io::Result<Vec<Steering>> {
    let table = SteeringTable(SharedWords::new(ENTRIES)?);
    let program = VerifiedProgram::load(ProgramKind::SocketFilter, &program(table.0.map().number()))?;
    for endpoint in first {
        attach_reuse_port(endpoint.socket.as_fd(), program.as_fd())?;
    }
    let table = Arc::new(table);
    Ok((0..queues).map(|queue| Steering { table: Arc::clone(&table), queue }).collect())
}

/// Returns the number of the socket, or one that no socket has. A datagram that is too short for an
/// SPI goes to the first.
fn program(table: i32) -> Vec<Instruction> {
    const KEY: i16 = -4;
    let mut asm = Assembler::new(Reads::ByInstruction);
    asm.copy(CONTEXT, R1);
    asm.field(Size::Word, 0);
    asm.copy(R1, R5);
    asm.shift_right(R1, 16);
    asm.toggle(R5, R1);
    asm.mask(R5, ENTRIES as u32 - 1);
    asm.store(R5, KEY);
    asm.copy(R2, STACK);
    asm.advance(R2, KEY.into());
    asm.map(R1, table);
    asm.call(LOOK_UP);
    asm.if_null(R0, JumpTarget::Pass);
    asm.load(Size::Word, R0, R0, 0);
    asm.advance(R0, -1);
    asm.exit();
    asm.here(JumpTarget::Pass);
    asm.set(R0, -1);
    asm.exit();
    asm.finish()
}
