//! System calls and socket options that the safe libraries lack.
//!
//! All of this crate's `unsafe` is here. What the kernel reads and writes as bytes (addresses,
//! ancillary data) is laid out by safe code in [`control`] and [`name`]; the system calls
//! themselves are in [`messages`], [`option`], [`bpf`], [`words`], [`xdp`], [`ring`], [`tun`] and
//! [`packet`].

mod bpf;
mod buffer;
mod control;
mod messages;
mod name;
mod option;
mod packet;
mod ring;
mod tun;
mod words;
mod xdp;

pub(crate) use bpf::{Instruction, Map, MapKind, ProgramKind, VerifiedProgram, XdpMode};
pub(crate) use control::{Control, number};
pub(crate) use messages::{MessageRoom, OutgoingMessage, ReceivedMessage, Sender};
pub(crate) use name::Name;
pub(crate) use option::{
    attach_reuse_port, borrow, mtu_of_refusal, receive_beside, set_carrier, set_dont_fragment,
};
pub use packet::{OFFLOAD_HEADER_BYTES, begin_offload_headers, ignore_outgoing, interface_mtu, take_all};
pub(crate) use packet::{filter, share, take_lost};
pub(crate) use tun::{attach_tun, set_tun_offloads};
pub(crate) use words::SharedWords;
pub(crate) use xdp::{LONGEST_FRAME, XdpSocket, XdpStatistics};
