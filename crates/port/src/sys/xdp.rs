//! AF_XDP: sockets of one queue of an interface, and the four rings that each shares with the
//! kernel. The memory that the kernel reads and writes is the process's packet memory; a frame in a
//! ring is on loan to the kernel.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use convoy_packet::{CHUNK_BYTES, Frame, FramePool, FrameSize, Loans, Region};

use super::ring::{RING, Ring};

/// Bytes before a received frame in its chunk, which the kernel keeps for the program
/// (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: usize = 256;
/// The longest frame that a chunk takes in, in bytes.
pub(crate) const LONGEST_FRAME: usize = CHUNK_BYTES - KERNEL_HEADROOM;
/// How long a queue of an interface may take to become free after another program, or this one,
/// left it.
const BUSY: Duration = Duration::from_secs(2);
/// Entries that must be free before the kernel is given frames again.
const REFILL: u32 = RING / 16;

/// The counters of a queue's socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct XdpStatistics {
    /// Packets for which the ring had no room, or that the kernel lost for another reason.
    pub(crate) dropped: u64,
    /// Packets for which there was no frame.
    pub(crate) no_frame: u64,
}

/// A socket of AF_XDP at one queue of an interface.
pub(crate) struct XdpSocket {
    descriptor: Option<OwnedFd>,
    fill: Ring<u64>,
    completion: Ring<u64>,
    receive: Ring<libc::xdp_desc>,
    transmit: Ring<libc::xdp_desc>,
    /// Frames into which the kernel may write received packets.
    to_receive: Loans,
    /// Frames that are being sent.
    to_send: Loans,
    is_zero_copy: bool,
}

impl XdpSocket {
    /// A socket for a queue of any interface. The first of an interface has the packet memory.
    ///
    /// # Errors
    /// What the system refused: it needs CAP_NET_RAW, and the right to lock as much memory as the
    /// [`Region`] has.
    pub(crate) fn prepare(is_first: bool) -> io::Result<OwnedFd> {
        let descriptor = socket()?;
        if is_first {
            register_packet_memory(descriptor.as_fd())?;
        }
        Ok(descriptor)
    }

    /// Takes such a socket to this queue, with no copy where the driver can do so. `first` is
    /// another socket of the same interface. It needs no privileges.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn open(
        descriptor: OwnedFd,
        interface: u32,
        queue: u32,
        first: Option<&Self>,
    ) -> io::Result<Self> {
        let fd = descriptor.as_fd();
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            // SAFETY: the option is a number, which sets how many entries the ring has.
            unsafe { set(fd, ring, &RING) }?;
        }
        let offsets = offsets(fd)?;
        let (fill, completion) = (libc::XDP_UMEM_PGOFF_FILL_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING);
        let mut socket = Self {
            fill: Ring::map(fd, &offsets.fr, fill as i64)?,
            completion: Ring::map(fd, &offsets.cr, completion as i64)?,
            receive: Ring::map(fd, &offsets.rx, libc::XDP_PGOFF_RX_RING)?,
            transmit: Ring::map(fd, &offsets.tx, libc::XDP_PGOFF_TX_RING)?,
            to_receive: Loans::new(),
            to_send: Loans::new(),
            is_zero_copy: false,
            descriptor: Some(descriptor),
        };
        bind_patiently(socket.as_fd(), interface, queue, first.map(AsFd::as_fd))?;
        socket.is_zero_copy = is_zero_copy(socket.as_fd());
        Ok(socket)
    }

    /// Whether the device itself reads and writes the frames.
    pub(crate) fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Whether a received frame is at hand.
    pub(crate) fn has_received(&self) -> bool {
        self.receive.is_filled()
    }

    /// Appends up to `limit` received frames, each with what the interface received from its first
    /// byte on; the number of system calls.
    pub(crate) fn receive(&mut self, pool: &mut FramePool, limit: usize, burst: &mut Vec<Frame>) -> u64 {
        let count = self.receive.filled().min(u32::try_from(limit).unwrap_or(u32::MAX));
        for _ in 0..count {
            let entry = self.receive.take();
            // The kernel names what it was lent; a chunk of anybody else's would be its fault, and
            // stays theirs.
            burst.extend(self.to_receive.take_back(entry.addr as usize, entry.len as usize));
        }
        self.receive.publish_taken();
        self.refill(pool)
    }

    /// Gives the kernel frames to receive into; the number of system calls.
    fn refill(&mut self, pool: &mut FramePool) -> u64 {
        let room = self.fill.room(RING);
        if room >= REFILL {
            for _ in 0..room {
                let Some(frame) = pool.take(FrameSize::Small) else { break };
                let Ok(offset) = self.to_receive.lend(frame) else { break };
                self.fill.put(offset as u64);
            }
            self.fill.publish_put();
        }
        if !self.fill.needs_wakeup() || self.to_receive.is_empty() {
            return 0;
        }
        // SAFETY: it receives nothing, so writes nothing; the descriptor is borrowed, so open.
        let _ = unsafe {
            libc::recvfrom(
                self.number(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        1
    }

    /// How many frames can leave now.
    pub(crate) fn room(&mut self) -> usize {
        self.transmit.room(RING) as usize
    }

    /// Queues a frame for the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// The frame, if there is no room now, or if it is larger than a chunk.
    pub(crate) fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.transmit.room(1) == 0 {
            return Err(frame);
        }
        let len = frame.len() as u32;
        let addr = self.to_send.lend(frame)? as u64;
        self.transmit.put(libc::xdp_desc { addr, len, options: 0 });
        Ok(())
    }

    /// Whether frames are being sent that the kernel has not returned.
    pub(crate) fn is_sending(&self) -> bool {
        !self.to_send.is_empty()
    }

    /// Gives back frames that have left.
    pub(crate) fn reap(&mut self, pool: &mut FramePool) {
        for _ in 0..self.completion.filled() {
            let offset = self.completion.take() as usize;
            if let Some(frame) = self.to_send.take_back(offset, 0) {
                pool.give_back(frame);
            }
        }
        self.completion.publish_taken();
    }

    /// Notifies the kernel of frames to be sent; returns the number of system calls.
    ///
    /// # Errors
    /// The interface is gone.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        /// In copy mode the kernel sends 32 frames a call.
        const CALLS: u64 = RING as u64 / 32;
        self.transmit.publish_put();
        let mut calls = 0;
        while calls < CALLS && self.transmit.room(RING) < RING && self.must_call() {
            calls += 1;
            // SAFETY: it sends nothing of its own; the descriptor is borrowed, so open.
            let result = unsafe {
                libc::sendto(self.number(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
            };
            if result >= 0 {
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => {}
                // No room at the device, or an interface that is down: what is in the ring stays
                // there.
                Some(libc::EBUSY | libc::ENOBUFS | libc::ENETDOWN) => break,
                _ => return Err(error),
            }
        }
        Ok(calls)
    }

    /// Unless the device reads the ring by itself, only a call sends.
    fn must_call(&self) -> bool {
        !self.is_zero_copy || self.transmit.needs_wakeup()
    }

    /// Its counters.
    pub(crate) fn statistics(&self) -> XdpStatistics {
        let mut counted = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        if get(self.as_fd(), libc::XDP_STATISTICS, &mut counted).is_err() {
            return XdpStatistics::default();
        }
        XdpStatistics {
            dropped: counted.rx_dropped + counted.rx_ring_full,
            no_frame: counted.rx_fill_ring_empty_descs,
        }
    }

    fn number(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_ref().expect("it is closed by the drop alone").as_fd()
    }
}

impl Drop for XdpSocket {
    fn drop(&mut self) {
        // Closed first: the kernel then no longer writes into any frame.
        drop(self.descriptor.take());
        drop((self.to_receive.recall(), self.to_send.recall()));
    }
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointer is given; a descriptor that comes is new, so it has no other owner.
    unsafe {
        let descriptor = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(descriptor)) }
    }
}

/// Gives the kernel the process's packet memory: this and all sockets of the interface receive into
/// it from now on.
fn register_packet_memory(socket: BorrowedFd<'_>) -> io::Result<()> {
    let region = Region::of_process();
    let memory = libc::xdp_umem_reg {
        addr: region.base().as_ptr().expose_provenance() as u64,
        len: region.bytes() as u64,
        chunk_size: CHUNK_BYTES as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: from now on the kernel may write to the Region, which stays mapped until the process
    // ends. It writes only to chunks that stand in the fill ring, and those are on loan:
    // `to_receive` has their frames, whose bytes nothing can refer to until the kernel has named
    // them in the receive ring, or the socket is closed.
    unsafe { set(socket, libc::XDP_UMEM_REG, &memory) }
}

/// # Safety
/// What the option lets the kernel write to from now on must be memory to which there is no
/// reference meanwhile.
unsafe fn set<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    let (from, len) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
    // descriptor is borrowed, so open. The caller answers for what the option does.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, from, len) })
}

/// Reads an option that is made of integers; the kernel may know fewer of them, and leaves the
/// rest.
fn get<T>(socket: BorrowedFd<'_>, option: i32, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as libc::socklen_t;
    let to = (&raw mut *value).cast();
    // SAFETY: the pointer and length are of `value`, which lives until the call returns; the
    // descriptor is borrowed, so open.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, to, &raw mut len) })
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    let none = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let mut offsets = libc::xdp_mmap_offsets { rx: none(), tx: none(), fr: none(), cr: none() };
    get(socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    Ok(offsets)
}

fn is_zero_copy(socket: BorrowedFd<'_>) -> bool {
    let mut options = libc::xdp_options { flags: 0 };
    get(socket, libc::XDP_OPTIONS, &mut options).is_ok() && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0
}

/// The kernel frees the queue of a closed socket some time later.
fn bind_patiently(
    socket: BorrowedFd<'_>,
    interface: u32,
    queue: u32,
    first: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let begin = Instant::now();
    loop {
        match bind(socket, interface, queue, first) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => return bound,
        }
    }
}

/// With neither way asked for the kernel takes the one without copies where it can. Sockets of one
/// interface share what the first has.
fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32, first: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let flags = if first.is_some() { libc::XDP_SHARED_UMEM } else { libc::XDP_USE_NEED_WAKEUP };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: first.map_or(0, |first| first.as_raw_fd() as u32),
    };
    let (from, len) = ((&raw const address).cast(), size_of::<libc::sockaddr_xdp>() as libc::socklen_t);
    // SAFETY: the pointer and length are of `address`, which lives until the call returns; the
    // descriptor is borrowed, so open.
    done(unsafe { libc::bind(socket.as_raw_fd(), from, len) })
}
