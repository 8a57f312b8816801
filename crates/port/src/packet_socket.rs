//! Packet sockets and what belongs to them, for ports and programs outside of this crate that read
//! whole Ethernet frames from an interface of the kernel's.

use std::io;
use std::os::fd::OwnedFd;

use crate::sys::{Instruction, ProgramKind, VerifiedProgram};

pub use crate::sys::{OFFLOAD_HEADER_BYTES, begin_offload_headers, ignore_outgoing, interface_mtu, take_all};

/// At an interface's ingress, behind packet sockets: the kernel drops the frame. Register 0 is set
/// to TCX_DROP, and the program ends.
const DROP: [Instruction; 2] = [
    Instruction { code: 0xb7, registers: 0, offset: 0, value: 2 },
    Instruction { code: 0x95, registers: 0, offset: 0, value: 0 },
];

/// Keeps the kernel from receiving what comes to an interface, for as long as the result is kept;
/// packet sockets go on receiving it.
///
/// # Errors
/// The system's: this needs Linux 6.6, CAP_BPF and CAP_NET_ADMIN.
pub fn drop_ingress(interface: u32) -> io::Result<OwnedFd> {
    VerifiedProgram::load(ProgramKind::Ingress, &DROP)?.attach_ingress(interface)
}
