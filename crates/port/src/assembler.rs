//! Assembles a program for the kernel's BPF machine, instruction by instruction (RFC 9669).
//!
//! A program at a driver reads a frame in place, once it has checked its length; one behind the
//! driver reads it by special instructions, which end the program with 0 if the frame is too short.

use std::collections::HashMap;

use crate::sys::Instruction;

/// Registers: 0 is a function's result, 1 to 5 are its arguments, 6 to 9 are preserved by calls, 10
/// is the end of the stack.
pub(crate) const R0: u8 = 0;
pub(crate) const R1: u8 = 1;
pub(crate) const R2: u8 = 2;
pub(crate) const R3: u8 = 3;
pub(crate) const R4: u8 = 4;
pub(crate) const R5: u8 = 5;
pub(crate) const CONTEXT: u8 = 6;
/// The start and the end of the frame, if it is read in place.
pub(crate) const DATA: u8 = 7;
pub(crate) const END: u8 = 8;
/// The transport header: its address, or its offset in the frame.
pub(crate) const TRANSPORT: u8 = 9;
pub(crate) const STACK: u8 = 10;
/// The number of the kernel's function that looks up a map's entry.
pub(crate) const LOOK_UP: i32 = 1;

/// Jump targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JumpTarget {
    V4,
    V4Ours,
    V6,
    V6Ours,
    /// The next address of IPv6.
    Next(usize),
    Udp,
    /// No tag names another interface.
    Here,
    /// Behind a tag, at a driver.
    Tagged,
    /// Behind a tag that the kernel removed, or that was skipped, comes another.
    Inner,
    InnerV4,
    InnerV6,
    Take,
    /// The frame is dropped.
    Drop,
    Pass,
}

/// Sizes of loads, by their codes.
#[derive(Clone, Copy)]
pub(crate) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// How a program reads the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// In place, by addresses.
    InPlace,
    /// By special instructions (RFC 9669 section 5.4), which overwrite registers 0 to 5.
    ByInstruction,
}

pub(crate) struct Assembler {
    pub(crate) reads: Reads,
    code: Vec<Instruction>,
    labels: HashMap<JumpTarget, usize>,
    jumps: Vec<(usize, JumpTarget)>,
}

impl Assembler {
    pub(crate) fn new(reads: Reads) -> Self {
        Self { reads, code: Vec::new(), labels: HashMap::new(), jumps: Vec::new() }
    }

    pub(crate) fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    /// `to = from`.
    pub(crate) fn copy(&mut self, to: u8, from: u8) {
        self.add(0xbf, to, from, 0, 0);
    }

    /// `to = value`.
    pub(crate) fn set(&mut self, to: u8, value: i32) {
        self.add(0xb7, to, 0, 0, value);
    }

    /// `to += value`.
    pub(crate) fn advance(&mut self, to: u8, value: i32) {
        self.add(0x07, to, 0, 0, value);
    }

    /// `to = *(from + offset)`.
    pub(crate) fn load(&mut self, size: Size, to: u8, from: u8, offset: i16) {
        self.add(0x61 | size as u8, to, from, offset, 0);
    }

    /// Loads a field of the frame into register 5, in network byte order. If read in place, its
    /// bytes must be [checked](Self::need) before.
    pub(crate) fn field(&mut self, size: Size, offset: i16) {
        match self.reads {
            Reads::InPlace => self.load(size, R5, DATA, offset),
            Reads::ByInstruction => self.fetch(0x20, 0, size, offset),
        }
    }

    /// Loads a field into register 5, at an offset from the transport header.
    pub(crate) fn transport_field(&mut self, size: Size, offset: i16) {
        match self.reads {
            Reads::InPlace => self.load(size, R5, TRANSPORT, offset),
            Reads::ByInstruction => self.fetch(0x40, TRANSPORT, size, offset),
        }
    }

    /// These instructions convert to the host's byte order.
    fn fetch(&mut self, mode: u8, base: u8, size: Size, offset: i16) {
        self.add(mode | size as u8, 0, base, 0, offset.into());
        match size {
            Size::Byte => {}
            Size::Half => self.swap_order(R0, 16),
            Size::Word => self.swap_order(R0, 32),
        }
        self.copy(R5, R0);
    }

    /// Masks a register.
    pub(crate) fn mask(&mut self, register: u8, bits: u32) {
        self.add(0x57, register, 0, 0, bits as i32);
    }

    /// `to ^= from`.
    pub(crate) fn toggle(&mut self, to: u8, from: u8) {
        self.add(0xaf, to, from, 0, 0);
    }

    /// Shifts a register to the right.
    pub(crate) fn shift_right(&mut self, register: u8, bits: i32) {
        self.add(0x77, register, 0, 0, bits);
    }

    /// Jumps if a pointer is null.
    pub(crate) fn if_null(&mut self, register: u8, to: JumpTarget) {
        self.jump(0x15, register, 0, 0, to);
    }

    /// Ends the program with what register 0 has.
    pub(crate) fn exit(&mut self) {
        self.add(0x95, 0, 0, 0, 0);
    }

    /// Converts this many bits between host and network byte order.
    pub(crate) fn swap_order(&mut self, register: u8, bits: i32) {
        self.add(0xdc, register, 0, 0, bits);
    }

    /// Sets the transport header's offset from the frame's start.
    pub(crate) fn transport_at(&mut self, bytes: i32) {
        match self.reads {
            Reads::InPlace => self.copy(TRANSPORT, DATA),
            Reads::ByInstruction => self.set(TRANSPORT, 0),
        }
        self.advance(TRANSPORT, bytes);
    }

    /// Stores a word on the stack.
    pub(crate) fn store(&mut self, from: u8, offset: i16) {
        self.add(0x63, STACK, from, offset, 0);
    }

    /// Loads a map's address.
    pub(crate) fn map(&mut self, to: u8, descriptor: i32) {
        const OF_A_MAP: u8 = 1;
        self.add(0x18, to, OF_A_MAP, 0, descriptor);
        self.add(0, 0, 0, 0, 0);
    }

    /// Loads the address of the only value of a map.
    pub(crate) fn map_value(&mut self, to: u8, descriptor: i32) {
        const OF_A_VALUE: u8 = 2;
        self.add(0x18, to, OF_A_VALUE, 0, descriptor);
        self.add(0, 0, 0, 0, 0);
    }

    pub(crate) fn call(&mut self, function: i32) {
        self.add(0x85, 0, 0, 0, function);
    }

    pub(crate) fn jump(&mut self, code: u8, register: u8, other: u8, value: i32, to: JumpTarget) {
        self.jumps.push((self.code.len(), to));
        self.add(code, register, other, 0, value);
    }

    pub(crate) fn goto(&mut self, to: JumpTarget) {
        self.jump(0x05, 0, 0, 0, to);
    }

    /// Jumps if the lower 32 bits are this value.
    pub(crate) fn if_equal(&mut self, register: u8, value: u32, to: JumpTarget) {
        self.jump(0x16, register, 0, value as i32, to);
    }

    pub(crate) fn unless_equal(&mut self, register: u8, value: u32, to: JumpTarget) {
        self.jump(0x56, register, 0, value as i32, to);
    }

    /// Jumps unless the lower 32 bits of two registers are the same.
    pub(crate) fn unless_same(&mut self, register: u8, other: u8, to: JumpTarget) {
        self.jump(0x5e, register, other, 0, to);
    }

    /// Passes the frame if it is shorter than `bytes` from `start` on: otherwise these can be read.
    pub(crate) fn need(&mut self, start: u8, bytes: i32) {
        if self.reads == Reads::ByInstruction {
            return;
        }
        self.copy(R4, start);
        self.advance(R4, bytes);
        self.jump(0x2d, R4, END, 0, JumpTarget::Pass);
    }

    pub(crate) fn here(&mut self, label: JumpTarget) {
        self.labels.insert(label, self.code.len());
    }

    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let to = self.labels[&label] as isize;
            let distance = to - at as isize - 1;
            self.code[at].offset = i16::try_from(distance).expect("a port has few addresses");
        }
        self.code
    }
}
