//! Safe bindings to the C++ shim around the verilated card.

#![allow(unsafe_code)]

use std::ptr::NonNull;

#[repr(C)]
struct RawCard {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn convoy_card_new(model: u32) -> *mut RawCard;
    fn convoy_card_free(card: *mut RawCard);
    fn convoy_card_bus(card: *mut RawCard, clocks: u32, cycles: u32);
    fn convoy_card_line(card: *mut RawCard, clocks: u32, cycles: u32);
    fn convoy_card_write(card: *mut RawCard, memory: *const RawMemory, address: u8, value: u32);
    fn convoy_card_read(card: *mut RawCard, memory: *const RawMemory, address: u8) -> u32;
    fn convoy_card_run(card: *mut RawCard, memory: *const RawMemory, cycles: u64) -> i32;
    fn convoy_card_line_offer(card: *mut RawCard, frame: *const u8, len: usize) -> i32;
    fn convoy_card_line_take(card: *mut RawCard, frame: *mut u8, room: usize) -> isize;
}

/// Bus address of the first span of [`Memory`].
pub(crate) const MAPPED: u32 = 1 << 31;
/// The distance of two spans on the bus is this power of two, in bytes.
pub(crate) const SPAN_SHIFT: u32 = 16;

/// A piece of the host's memory outside the window.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    bytes: *mut u8,
    len: usize,
}

// SAFETY: a span is only an address; its memory may be used from whichever thread runs the card, as
// anyone who makes one guarantees.
unsafe impl Send for Span {}

impl Span {
    /// A span of no bytes.
    pub(crate) const NOTHING: Self = Self { bytes: std::ptr::null_mut(), len: 0 };

    /// A span that the card may read and write.
    ///
    /// # Safety
    /// While a card runs with a [`Memory`] that has this span, the memory is alive and nothing else
    /// accesses it, also if the thread is another one.
    pub(crate) unsafe fn new(bytes: *mut u8, len: usize) -> Self {
        Self { bytes, len }
    }

    /// A copy of its first bytes; `None` if it has fewer.
    pub(crate) fn start<const BYTES: usize>(&self) -> Option<[u8; BYTES]> {
        // SAFETY: so many bytes are there, alive, and no card runs that could write them.
        (self.len >= BYTES).then(|| unsafe { self.bytes.cast::<[u8; BYTES]>().read_unaligned() })
    }
}

/// What a card's bus reaches: the window from address 0 on, and the span `n` at [`MAPPED`] + `n` <<
/// [`SPAN_SHIFT`], plus the lowest three bits of its address in the host.
pub(crate) struct Memory<'a> {
    pub(crate) window: &'a mut [u8],
    pub(crate) spans: &'a [Span],
}

#[repr(C)]
struct RawMemory {
    window: Span,
    spans: *const Span,
    count: usize,
    mapped: u32,
    shift: u32,
}

impl Memory<'_> {
    fn raw(&mut self) -> RawMemory {
        RawMemory {
            window: Span { bytes: self.window.as_mut_ptr(), len: self.window.len() },
            spans: self.spans.as_ptr(),
            count: self.spans.len(),
            mapped: MAPPED,
            shift: SPAN_SHIFT,
        }
    }
}

/// A card after reset. Its time only advances in these calls; `memory` is what its bus master can
/// access.
pub(crate) struct Card(NonNull<RawCard>);

// SAFETY: the model keeps its state in its own object and context, and `&mut` limits its use to one
// thread at a time.
unsafe impl Send for Card {}

/// Result of a run.
pub(crate) enum Ran {
    Interrupt,
    OutOfCycles,
    /// A burst went beyond the memory that the bus reaches.
    Strayed,
}

/// What the card has sent on the line.
pub(crate) enum Sent<'a> {
    Nothing,
    Frame(&'a [u8]),
    /// A wrong preamble or FCS, or a frame that is too long.
    Broken,
}

impl Card {
    /// A card of the model with this number; `None` if there is no such model, or memory is
    /// exhausted.
    pub(crate) fn new(model: u32) -> Option<Self> {
        // SAFETY: no preconditions; the result is null on failure.
        NonNull::new(unsafe { convoy_card_new(model) }).map(Self)
    }

    /// Sets the bus clock: `clocks` in `cycles` of the card, at most one in each cycle; both are at
    /// least 1.
    pub(crate) fn bus(&mut self, clocks: u32, cycles: u32) {
        // SAFETY: the card is alive and exclusively borrowed.
        unsafe { convoy_card_bus(self.0.as_ptr(), clocks.clamp(1, cycles.max(1)), cycles.max(1)) }
    }

    /// Sets the line's clock, with a byte in each: `clocks` in `cycles` of the card; both are at
    /// least 1.
    pub(crate) fn line_clock(&mut self, clocks: u32, cycles: u32) {
        // SAFETY: the card is alive and exclusively borrowed.
        unsafe { convoy_card_line(self.0.as_ptr(), clocks.max(1), cycles.max(1)) }
    }

    pub(crate) fn write(&mut self, mut memory: Memory<'_>, address: u8, value: u32) {
        // SAFETY: the card is alive and exclusively borrowed; the shim stays within the window and
        // the spans, whose makers guarantee that they are alive and not accessed otherwise, and
        // keeps no pointer.
        unsafe { convoy_card_write(self.0.as_ptr(), &memory.raw(), address, value) }
    }

    pub(crate) fn read(&mut self, mut memory: Memory<'_>, address: u8) -> u32 {
        // SAFETY: as for `write`.
        unsafe { convoy_card_read(self.0.as_ptr(), &memory.raw(), address) }
    }

    pub(crate) fn run(&mut self, mut memory: Memory<'_>, cycles: u64) -> Ran {
        // SAFETY: as for `write`.
        match unsafe { convoy_card_run(self.0.as_ptr(), &memory.raw(), cycles) } {
            0 => Ran::OutOfCycles,
            1 => Ran::Interrupt,
            _ => Ran::Strayed,
        }
    }

    /// Queues a frame without FCS on the line to the card; `false` if the queue is full.
    pub(crate) fn offer(&mut self, frame: &[u8]) -> bool {
        // SAFETY: the card is alive and exclusively borrowed; the shim reads `len` bytes and keeps
        // no pointer.
        unsafe { convoy_card_line_offer(self.0.as_ptr(), frame.as_ptr(), frame.len()) != 0 }
    }

    /// The next frame that the card has sent, without FCS.
    pub(crate) fn take<'a>(&mut self, room: &'a mut [u8]) -> Sent<'a> {
        // SAFETY: as for `offer`; the shim writes at most `room` bytes.
        let len = unsafe { convoy_card_line_take(self.0.as_ptr(), room.as_mut_ptr(), room.len()) };
        match usize::try_from(len) {
            Ok(0) => Sent::Nothing,
            Ok(len) => room.get(..len).map_or(Sent::Broken, Sent::Frame),
            Err(_) => Sent::Broken,
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `convoy_card_new` and is not used again.
        unsafe { convoy_card_free(self.0.as_ptr()) }
    }
}
