//! Puts a program for the kernel's machine together, instruction by instruction (RFC 9669).

use std::collections::HashMap;

use crate::sys::Instruction;

/// Registers: 0 is a function's result, 1 to 5 are its arguments, 6 to 9 outlive it, 10 is the end of the stack.
pub(super) const R0: u8 = 0;
pub(super) const R1: u8 = 1;
pub(super) const R2: u8 = 2;
pub(super) const R3: u8 = 3;
pub(super) const R4: u8 = 4;
pub(super) const R5: u8 = 5;
pub(super) const CONTEXT: u8 = 6;
pub(super) const DATA: u8 = 7;
pub(super) const END: u8 = 8;
pub(super) const STACK: u8 = 10;

/// Places that are jumped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Label {
    V4,
    V4Ours,
    V6,
    V6Ours,
    /// The next address of IPv6.
    Next(usize),
    Udp,
    Take,
    Pass,
}

/// Sizes of what is read, by their codes.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

#[derive(Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    labels: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn add(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, value });
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: u8, from: u8) {
        self.add(0xbf, to, from, 0, 0);
    }

    /// `to = value`.
    pub(super) fn set(&mut self, to: u8, value: i32) {
        self.add(0xb7, to, 0, 0, value);
    }

    /// `to += value`.
    pub(super) fn advance(&mut self, to: u8, value: i32) {
        self.add(0x07, to, 0, 0, value);
    }

    /// `to = *(from + offset)`.
    pub(super) fn load(&mut self, size: Size, to: u8, from: u8, offset: i16) {
        self.add(0x61 | size as u8, to, from, offset, 0);
    }

    /// A word onto the stack.
    pub(super) fn store(&mut self, from: u8, offset: i16) {
        self.add(0x63, STACK, from, offset, 0);
    }

    /// A map's address.
    pub(super) fn map(&mut self, to: u8, descriptor: i32) {
        const OF_A_MAP: u8 = 1;
        self.add(0x18, to, OF_A_MAP, 0, descriptor);
        self.add(0, 0, 0, 0, 0);
    }

    pub(super) fn call(&mut self, function: i32) {
        self.add(0x85, 0, 0, 0, function);
    }

    pub(super) fn jump(&mut self, code: u8, register: u8, other: u8, value: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.add(code, register, other, 0, value);
    }

    pub(super) fn goto(&mut self, to: Label) {
        self.jump(0x05, 0, 0, 0, to);
    }

    /// Jumps if the lower 32 bits are this value.
    pub(super) fn if_equal(&mut self, register: u8, value: u32, to: Label) {
        self.jump(0x16, register, 0, value as i32, to);
    }

    pub(super) fn unless_equal(&mut self, register: u8, value: u32, to: Label) {
        self.jump(0x56, register, 0, value as i32, to);
    }

    /// Passes the frame if it has not so many bytes from `start` on.
    pub(super) fn need(&mut self, start: u8, bytes: i32) {
        self.copy(R4, start);
        self.advance(R4, bytes);
        self.jump(0x2d, R4, END, 0, Label::Pass);
    }

    pub(super) fn here(&mut self, label: Label) {
        self.labels.insert(label, self.code.len());
    }

    pub(super) fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let to = self.labels[&label] as isize;
            let distance = to - at as isize - 1;
            self.code[at].offset = i16::try_from(distance).expect("a port has few addresses");
        }
        self.code
    }
}
