//! Many messages in one system call: `sendmmsg(2)` and `recvmmsg(2)`.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use convoy_packet::Frame;
use libc::{iovec, mmsghdr};

use super::{Control, Name};

/// One message: the bytes of some frames, one after the other, without the first `skip` bytes of
/// each.
#[derive(Clone)]
pub(crate) struct OutgoingMessage {
    pub(crate) frames: Range<usize>,
    pub(crate) skip: usize,
    pub(crate) to: Name,
    pub(crate) control: Control,
}

fn empty_header() -> mmsghdr {
    // SAFETY: integers and pointers only, for which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// Sends many messages in one call. Keeps its room between calls.
#[derive(Default)]
pub(crate) struct Sender {
    headers: Vec<mmsghdr>,
    slices: Vec<iovec>,
    /// Parts of each message.
    counts: Vec<usize>,
}

// SAFETY: the pointers inside are written again in each `send` and not looked at after it.
unsafe impl Send for Sender {}

impl Sender {
    /// Sends `messages` from the first on and returns how many left; an error is about the first
    /// one. Does not wait.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        frames: &[Frame],
        messages: &[OutgoingMessage],
    ) -> io::Result<usize> {
        self.slices.clear();
        self.headers.clear();
        for message in messages {
            self.slices.extend(frames[message.frames.clone()].iter().map(|frame| {
                let bytes = &frame[message.skip..];
                iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            }));
        }
        self.begin_messages(messages.iter().map(|message| message.frames.len()));
        for (header, message) in self.headers.iter_mut().zip(messages) {
            header.msg_hdr.msg_name = message.to.as_ptr().cast_mut().cast();
            header.msg_hdr.msg_namelen = message.to.len() as libc::socklen_t;
            if message.control.len() > 0 {
                header.msg_hdr.msg_control = message.control.as_ptr().cast_mut().cast();
                header.msg_hdr.msg_controllen = message.control.len() as _;
            }
        }
        // SAFETY: every pointer is into `frames`, `messages` or `self.slices`, which are borrowed
        // until the call returns, with its length beside it.
        unsafe { self.transmit(socket) }
    }

    /// Sends messages that are made of these parts, which come in the order of their messages, each
    /// with its message's number, to whom the socket is bound to; the rest is as in
    /// [`send`](Self::send).
    pub(crate) fn send_parts<'a>(
        &mut self,
        socket: BorrowedFd<'_>,
        parts: impl Iterator<Item = (usize, &'a [u8])>,
    ) -> io::Result<usize> {
        self.slices.clear();
        self.headers.clear();
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        for (message, part) in parts {
            counts.resize(message + 1, 0);
            counts[message] += 1;
            self.slices.push(iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        }
        self.begin_messages(counts.iter().copied());
        self.counts = counts;
        // SAFETY: every pointer is into what the parts are borrowed from, or `self.slices`, for
        // longer than this call, with its length beside it.
        unsafe { self.transmit(socket) }
    }

    /// A header for each message, with its number of slices.
    fn begin_messages(&mut self, counts: impl Iterator<Item = usize>) {
        let mut slices = self.slices.as_mut_slice();
        for count in counts {
            let (own, rest) = slices.split_at_mut(count);
            slices = rest;
            let mut header = empty_header();
            header.msg_hdr.msg_iov = own.as_mut_ptr();
            header.msg_hdr.msg_iovlen = own.len() as _;
            self.headers.push(header);
        }
    }

    /// # Safety
    /// What the headers and slices point to can be read until the call returns, as far as the
    /// lengths beside them say.
    unsafe fn transmit(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        // SAFETY: the kernel only reads what the headers point at, which the caller answers for,
        // and writes `msg_len` in `headers`.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Room for many messages, and what the last call received.
pub(crate) struct MessageRoom {
    memory: Vec<u8>,
    message_bytes: usize,
    stride: usize,
    headers: Vec<mmsghdr>,
    slices: Vec<iovec>,
    names: Vec<Name>,
    controls: Vec<Control>,
    count: usize,
}

// SAFETY: the pointers inside are written again in each `receive` and not looked at after it.
unsafe impl Send for MessageRoom {}

/// One received message.
pub(crate) struct ReceivedMessage<'a> {
    /// Its content.
    pub(crate) bytes: &'a [u8],
    /// Its sender.
    pub(crate) from: Option<std::net::SocketAddr>,
    /// Its ancillary data.
    pub(crate) control: &'a Control,
    /// Whether it was truncated.
    pub(crate) is_cut: bool,
}

impl MessageRoom {
    /// Room for `messages` messages of up to `message_bytes` bytes.
    pub(crate) fn new(messages: usize, message_bytes: usize) -> Self {
        // A stride that is no power of two: messages then do not fall on the same lines of a cache.
        let stride = message_bytes.next_multiple_of(64) + 2_112;
        Self {
            memory: vec![0; messages * stride],
            message_bytes,
            stride,
            headers: vec![empty_header(); messages],
            slices: vec![iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; messages],
            names: vec![Name::EMPTY; messages],
            controls: vec![Control::EMPTY; messages],
            count: 0,
        }
    }

    /// Receives pending messages, over those received before, and returns how many. Does not block.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.count = 0;
        let memories = self.memory.chunks_exact_mut(self.stride);
        let places = self.slices.iter_mut().zip(&mut self.names).zip(&mut self.controls).zip(memories);
        for (header, (((slice, name), control), memory)) in self.headers.iter_mut().zip(places) {
            *slice = iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: self.message_bytes };
            *header = empty_header();
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = Name::capacity() as libc::socklen_t;
            header.msg_hdr.msg_iov = slice;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = Control::capacity() as _;
        }
        // SAFETY: every pointer is into a vector of `self`, which is borrowed until the call
        // returns, with a length that lies inside: `message_bytes <= stride`, and names and
        // ancillary data have the capacity that the call says.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        self.count = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for at in 0..self.count {
            let header = &self.headers[at].msg_hdr;
            self.names[at].set_len(header.msg_namelen as usize);
            self.controls[at].set_len(header.msg_controllen as _);
        }
        Ok(self.count)
    }

    /// The bytes of one of the messages that the last call received, to be changed; `None` also of
    /// one that was cut.
    pub(crate) fn bytes_mut(&mut self, at: usize) -> Option<&mut [u8]> {
        let header = self.headers[..self.count].get(at)?;
        let (start, len) = (at * self.stride, header.msg_len as usize);
        let is_cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || len > self.message_bytes;
        (!is_cut).then(|| &mut self.memory[start..start + len])
    }

    /// One of the messages that the last call received.
    pub(crate) fn message(&self, at: usize) -> Option<ReceivedMessage<'_>> {
        if at >= self.count {
            return None;
        }
        let header = &self.headers[at];
        let start = at * self.stride;
        let len = (header.msg_len as usize).min(self.message_bytes);
        Some(ReceivedMessage {
            bytes: &self.memory[start..start + len],
            from: self.names[at].address(),
            control: &self.controls[at],
            is_cut: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        })
    }
}
