//! Controls callgrind from within the program by valgrind's client requests: an instruction
//! sequence that has no effect on a real processor and that valgrind recognises (`valgrind.h`,
//! `callgrind.h`). On anything but x86-64 under valgrind, requests do nothing and return 0.
#![allow(unsafe_code)]

use std::ffi::CStr;

const RUNNING_ON_VALGRIND: usize = 0x1001;
/// "CT" in the upper two bytes: the base of callgrind's request codes.
const CALLGRIND: usize = 0x4354_0000;
const TOGGLE_COLLECT: usize = CALLGRIND + 2;
const DUMP_STATS_AT: usize = CALLGRIND + 3;
const START_INSTRUMENTATION: usize = CALLGRIND + 4;
const STOP_INSTRUMENTATION: usize = CALLGRIND + 5;

/// Whether this program runs under valgrind.
pub(crate) fn is_there() -> bool {
    request(RUNNING_ON_VALGRIND, 0) > 0
}

/// Starts instrumentation. Without it the program runs about ten times as fast.
pub(crate) fn start_instrumentation() {
    request(START_INSTRUMENTATION, 0);
}

/// Stops instrumentation.
pub(crate) fn stop_instrumentation() {
    request(STOP_INSTRUMENTATION, 0);
}

/// Runs `work`, and counts its instructions if `collect` is set.
pub(crate) fn counted<T>(collect: bool, work: impl FnOnce() -> T) -> T {
    if collect {
        request(TOGGLE_COLLECT, 0);
    }
    let result = work();
    if collect {
        request(TOGGLE_COLLECT, 0);
    }
    result
}

/// Writes the counts since the last dump to a file of their own under this name, and resets them.
pub(crate) fn dump(name: &CStr) {
    request(DUMP_STATS_AT, name.as_ptr() as usize);
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, argument: usize) -> usize {
    let arguments = [code, argument, 0, 0, 0, 0];
    let result: usize;
    // SAFETY: the four rotations add up to 128 bits and leave rdi as it was, and rbx is exchanged
    // with itself. valgrind reads the six words at rax, which live until after the block, and the
    // string that `dump` passes, and writes rdx alone.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inlateout("rdx") 0usize => result,
            options(nostack)
        );
    }
    result
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_code: usize, _argument: usize) -> usize {
    0
}
