//! bpf(2): maps, programs, and their links to an interface.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `enum bpf_cmd`.
mod command {
    pub(super) const MAP_CREATE: i32 = 0;
    pub(super) const MAP_UPDATE_ELEM: i32 = 2;
    pub(super) const MAP_DELETE_ELEM: i32 = 3;
    pub(super) const PROG_LOAD: i32 = 5;
    #[cfg(test)]
    pub(super) const PROG_TEST_RUN: i32 = 10;
    pub(super) const LINK_CREATE: i32 = 28;
}
/// Attachment types: `BPF_XDP`, and `BPF_TCX_INGRESS` of Linux 6.6.
const ATTACH_XDP: u32 = 37;
const ATTACH_INGRESS: u32 = 46;
/// `BPF_F_BEFORE`: before all programs that are there.
const BEFORE: u32 = 1 << 3;
/// The maximum length of a verifier's complaint, in bytes.
const LOG_BYTES: usize = 64 << 10;

/// One instruction as the kernel reads it (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    /// The source register in the upper four bits, the destination in the lower.
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) value: i32,
}

/// The kinds of map that are used here (`enum bpf_map_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    /// Values by index, which processes can map into their memory (Linux 5.5).
    Words = 2,
    /// The longest prefix that matches.
    LongestPrefix = 11,
    /// Sockets of AF_XDP by queue.
    Sockets = 17,
}

/// The kinds of program that are used here (`enum bpf_prog_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
    /// At a socket.
    SocketFilter = 1,
    /// The ingress of the kernel's network stack.
    Ingress = 3,
    /// At an interface's driver, or right behind it.
    Xdp = 6,
}

/// How an XDP program is attached: by the interface's driver, or behind it, where every interface
/// can do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum XdpMode {
    /// `XDP_FLAGS_DRV_MODE`.
    Driver = 1 << 2,
    /// `XDP_FLAGS_SKB_MODE`.
    Generic = 1 << 1,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    most_entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instructions: u32,
    first: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
    /// Beside which program: none.
    relative: u32,
    padding: u32,
    revision: u64,
}

#[cfg(test)]
#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// # Safety
/// `attributes` is what the kernel has for this command (`union bpf_attr`), and what it points to
/// lives until the call returns and is as long as it says.
unsafe fn bpf<T>(command: i32, attributes: &mut T) -> io::Result<i32> {
    let attributes = &raw mut *attributes;
    // SAFETY: the kernel reads and writes as many bytes there as the call says; the rest is the
    // caller's.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
/// As [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_descriptor<T>(command: i32, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller says; the descriptor is new, so it has no other owner.
    unsafe { Ok(OwnedFd::from_raw_fd(bpf(command, attributes)?)) }
}

fn number(descriptor: BorrowedFd<'_>) -> u32 {
    descriptor.as_raw_fd() as u32
}

/// A map of the kernel's.
pub(crate) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
}

impl Map {
    /// A map with values of 4 bytes.
    pub(crate) fn new(kind: MapKind, key_bytes: usize, most_entries: usize) -> io::Result<Self> {
        /// `BPF_F_NO_PREALLOC`, without which no map of prefixes is made.
        const NO_PREALLOCATION: u32 = 1;
        /// `BPF_F_MMAPABLE`.
        const CAN_BE_MAPPED: u32 = 1 << 10;
        let flags = match kind {
            MapKind::LongestPrefix => NO_PREALLOCATION,
            MapKind::Words => CAN_BE_MAPPED,
            MapKind::Sockets => 0,
        };
        let mut attributes = MapCreate {
            kind: kind as u32,
            key_bytes: key_bytes as u32,
            value_bytes: 4,
            most_entries: most_entries.max(1) as u32,
            flags,
        };
        // SAFETY: a map's attributes, without pointers.
        let descriptor = unsafe { bpf_descriptor(command::MAP_CREATE, &mut attributes)? };
        Ok(Self { descriptor, key_bytes })
    }

    pub(crate) fn set(&self, key: &[u8], value: u32) -> io::Result<()> {
        assert_eq!(key.len(), self.key_bytes, "a key is as long as the map's");
        let mut attributes = MapUpdate {
            map: number(self.as_fd()),
            key: key.as_ptr().expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            ..MapUpdate::default()
        };
        // SAFETY: key and value live until the call returns, and have the lengths that the map was
        // made with.
        unsafe { bpf(command::MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert_eq!(key.len(), self.key_bytes, "a key is as long as the map's");
        let mut attributes = MapUpdate {
            map: number(self.as_fd()),
            key: key.as_ptr().expose_provenance() as u64,
            ..MapUpdate::default()
        };
        // SAFETY: the key lives until the call returns, and has the length that the map was made
        // with.
        match unsafe { bpf(command::MAP_DELETE_ELEM, &mut attributes) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Lets packets of a queue go to a socket.
    pub(crate) fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.set(&queue.to_ne_bytes(), number(socket))
    }

    /// Its descriptor's number, as instructions name it.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A program that the kernel has verified.
pub(crate) struct VerifiedProgram(OwnedFd);

impl VerifiedProgram {
    /// Loads a program. The maps that it names are kept by it.
    ///
    /// # Errors
    /// What the system refused, with the end of what the verifier said.
    pub(crate) fn load(kind: ProgramKind, instructions: &[Instruction]) -> io::Result<Self> {
        let error = match Self::try_load(kind, instructions, &mut []) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        // These are the verifier's; EPERM is that of a process without the right.
        if !matches!(error.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
            return Err(error);
        }
        let mut log = vec![0; LOG_BYTES];
        let again = Self::try_load(kind, instructions, &mut log);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let words = String::from_utf8_lossy(&log[..end]);
        let last = words.trim_end().rsplit('\n').take(3).collect::<Vec<_>>().join("; ");
        again.map_err(|_| io::Error::new(error.kind(), format!("{error}: {last}")))
    }

    fn try_load(kind: ProgramKind, instructions: &[Instruction], log: &mut [u8]) -> io::Result<Self> {
        let licence = c"Dual MIT/GPL";
        let mut name = [0; 16];
        name[..6].copy_from_slice(b"convoy");
        let mut attributes = ProgramLoad {
            kind: kind as u32,
            instructions: instructions.len() as u32,
            first: instructions.as_ptr().expose_provenance() as u64,
            licence: licence.as_ptr().expose_provenance() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
            name,
            ..ProgramLoad::default()
        };
        // SAFETY: instructions, licence and log live until the call returns, and have the lengths
        // that are reported.
        unsafe { bpf_descriptor(command::PROG_LOAD, &mut attributes) }.map(Self)
    }

    /// Attaches an XDP program to an interface for as long as the result is kept, or this process
    /// lives.
    pub(crate) fn attach_xdp(&self, interface: u32, mode: XdpMode) -> io::Result<OwnedFd> {
        self.attach(interface, ATTACH_XDP, mode as u32)
    }

    /// Attaches a program to an interface's ingress, before all others there, for as long as the
    /// result is kept, or this process lives. It needs Linux 6.6.
    pub(crate) fn attach_ingress(&self, interface: u32) -> io::Result<OwnedFd> {
        self.attach(interface, ATTACH_INGRESS, BEFORE)
    }

    fn attach(&self, interface: u32, attach: u32, flags: u32) -> io::Result<OwnedFd> {
        let program = self.0.as_raw_fd() as u32;
        let mut attributes = LinkCreate { program, interface, attach, flags, ..LinkCreate::default() };
        // SAFETY: a link's attributes, without pointers.
        unsafe { bpf_descriptor(command::LINK_CREATE, &mut attributes) }
    }

    /// Its verdict on a frame.
    #[cfg(test)]
    pub(crate) fn test(&self, frame: &[u8]) -> io::Result<u32> {
        let mut attributes = TestRun {
            program: self.0.as_raw_fd() as u32,
            bytes_in: frame.len() as u32,
            data_in: frame.as_ptr().expose_provenance() as u64,
            repeat: 1,
            ..TestRun::default()
        };
        // SAFETY: the frame lives until the call returns, and is as long as the call says.
        unsafe { bpf(command::PROG_TEST_RUN, &mut attributes)? };
        Ok(attributes.verdict)
    }
}

impl AsFd for VerifiedProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
