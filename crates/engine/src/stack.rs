//! Keeps keys that functions leave on the stack out of reach, and wipes them.

use std::hint::black_box;
use std::mem::MaybeUninit;

use zeroize::Zeroize;

/// More than any engine's `install_key` uses, with its distance and room for its caller, in bytes.
const DEPTH: usize = 256 << 10;
/// Wiped at once, in bytes: each write is one that the compiler may not combine with others.
const WORD: usize = size_of::<u128>();
/// More than what runs between a call of [`far_below`] and that of [`wipe_stack`] uses, in bytes.
const DISTANCE: usize = 64 << 10;

/// Overwrites what functions that returned have left below on this thread's stack: engines expand
/// keys there. Call it where no caller's frame has keys; functions that handle them must therefore
/// not be inlined.
#[inline(never)]
pub fn wipe_stack() {
    let mut stack = [u128::MAX; DEPTH / WORD];
    black_box(&mut stack).zeroize();
    black_box(&stack);
}

/// Calls a function that expands or hashes keys, with its frame so far below the caller's that what
/// runs until [`wipe_stack`] does not meet what it leaves there. Otherwise pieces of keys could
/// reach the heap: values are moved there with their padding and unused variants, which have
/// whatever the stack had.
#[inline(never)]
pub fn far_below<R>(expand: impl FnOnce() -> R) -> R {
    let mut distance = [MaybeUninit::<u8>::uninit(); DISTANCE];
    black_box(&mut distance);
    let done = called(expand);
    black_box(&mut distance);
    done
}

#[inline(never)]
fn called<R>(expand: impl FnOnce() -> R) -> R {
    expand()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of a variable of the caller's callee.
    #[inline(never)]
    fn place() -> usize {
        let here = 0_u8;
        black_box(&raw const here).addr()
    }

    #[test]
    fn keys_are_expanded_below_everything_else_and_above_the_end_of_what_is_wiped() {
        let (near, far) = (place(), far_below(place));
        let distance = near - far;
        assert!((DISTANCE..DEPTH / 2).contains(&distance), "{distance} bytes");
    }
}
