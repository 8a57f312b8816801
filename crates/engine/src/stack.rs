//! Wipes what functions that had keys leave on the stack.

use zeroize::Zeroize;

/// More than any engine's `install_key` uses, with room for its caller, in bytes.
const DEPTH: usize = 256 << 10;

/// Overwrites what functions that returned have left below on this thread's stack: engines expand
/// keys there. Call it where no caller's frame has keys; functions that handle them must therefore
/// not be inlined.
#[inline(never)]
pub fn wipe_stack() {
    let mut stack = [0xa5_u8; DEPTH];
    std::hint::black_box(&mut stack).zeroize();
    std::hint::black_box(&stack);
}
