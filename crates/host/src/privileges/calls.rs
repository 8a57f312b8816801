//! The system calls that a running gateway, and its helper, may still make.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads,
};

use super::{PrivilegeError, refused};

/// Memory, threads, time and signals.
const PROCESS: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_sysinfo,
    libc::SYS_tgkill,
    libc::SYS_uname,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// Descriptors of any kind.
const DESCRIPTORS: &[i64] = &[
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_fstat,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statx,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Sockets.
const SOCKETS: &[i64] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

/// Older names of the above that other architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

/// A helper's additional calls: it removes the files of sockets.
const REMOVE: &[i64] = &[
    libc::SYS_unlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Flags of open(2) that write or create.
const WRITES: u64 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u64;
/// Families of sockets: those of ports and charon, and those for resolving names.
const FAMILIES: [i32; 4] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK];
/// The carrier of a TUN device: `_IOW('T', 226, int)`.
const TUNSETCARRIER: u64 = 0x4004_54e2;
/// Requests to terminals, sockets and TUN devices.
const REQUESTS: [u64; 6] =
    [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONBIO, libc::FIONREAD, TUNSETCARRIER, libc::SIOCGIFINDEX];
/// A helper's additional requests, by which it creates a TUN device again: `_IOW('T', 202, int)`
/// and `_IOW('T', 208, unsigned int)`.
const HELPER_REQUESTS: [u64; 2] = [0x4004_54ca, 0x4004_54d0];

/// Commands of bpf(2) if a port requires the call: updating and deleting entries of open maps, and
/// attaching a program that was loaded at the start to an interface that is back. No map and no
/// program can be created.
const BPF_COMMANDS: [u64; 3] = [2, 3, 28];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Gives up, for all threads, every system call but those of a running gateway, and `more` for its
/// ports and engines: no program can be run, no file opened for writing, no memory made executable,
/// no process traced.
///
/// # Errors
/// [`PrivilegeError`] if the kernel refuses: it was built without seccomp.
pub fn confine(more: &[i64]) -> Result<(), PrivilegeError> {
    apply(more, &[])
}

/// Like [`confine`], for a helper.
///
/// # Errors
/// Those of [`confine`].
pub fn confine_helper() -> Result<(), PrivilegeError> {
    apply(REMOVE, &HELPER_REQUESTS)
}

fn apply(more: &[i64], requests: &[u64]) -> Result<(), PrivilegeError> {
    let refused = refused("cannot give up system calls");
    let program = |rules, otherwise, matched| -> Result<BpfProgram, PrivilegeError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| refused(&error))?;
        let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(|error| refused(&error))?;
        filter.try_into().map_err(|error: seccompiler::BackendError| refused(&error))
    };
    let rules = allowed(more, requests).map_err(|error| refused(&error))?;
    let filters = [
        // Its flags are in memory, where no filter sees them; glibc falls back to clone(2).
        program(
            BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
            SeccompAction::Allow,
            SeccompAction::Errno(libc::ENOSYS as u32),
        )?,
        // The last, as it allows no further filter.
        program(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?,
    ];
    filters.iter().try_for_each(|filter| apply_filter_all_threads(filter).map_err(|error| refused(&error)))
}

fn allowed(more: &[i64], requests: &[u64]) -> Result<Rules, seccompiler::BackendError> {
    let plain = [PROCESS, DESCRIPTORS, SOCKETS, OLD, more].concat();
    let mut rules: Rules = plain.into_iter().map(|call| (call, Vec::new())).collect();
    // The other filter refuses it in its way.
    rules.insert(libc::SYS_clone3, Vec::new());
    let masked = |at, mask, value| {
        let is = SeccompCmpOp::MaskedEq(mask);
        SeccompRule::new(vec![SeccompCondition::new(at, SeccompCmpArgLen::Dword, is, value)?])
    };
    let equal = |at, value| {
        let is = SeccompCmpOp::Eq;
        SeccompRule::new(vec![SeccompCondition::new(at, SeccompCmpArgLen::Dword, is, value)?])
    };
    rules.insert(libc::SYS_openat, vec![masked(2, WRITES, libc::O_RDONLY as u64)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![masked(1, WRITES, libc::O_RDONLY as u64)?]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![masked(2, libc::PROT_EXEC as u64, 0)?]);
    }
    let thread = libc::CLONE_THREAD as u64;
    rules.insert(libc::SYS_clone, vec![masked(0, thread, thread)?]);
    let families = FAMILIES.into_iter().map(|family| equal(0, family as u64));
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>()?);
    rules.insert(libc::SYS_socketpair, vec![equal(0, libc::AF_UNIX as u64)?]);
    if let Some(rule) = rules.get_mut(&libc::SYS_bpf) {
        *rule = BPF_COMMANDS.into_iter().map(|command| equal(0, command)).collect::<Result<_, _>>()?;
    }
    let requests = REQUESTS.iter().chain(requests).map(|request| equal(1, *request));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    // A thread's name, and names for the allocator's memory.
    let prctls = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA].into_iter();
    rules.insert(libc::SYS_prctl, prctls.map(|what| equal(0, what as u64)).collect::<Result<_, _>>()?);
    // Limits may be read, not set.
    rules.insert(
        libc::SYS_prlimit64,
        vec![SeccompRule::new(vec![SeccompCondition::new(
            2,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::Eq,
            0,
        )?])?],
    );
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_port_or_an_engine_asks_for_is_allowed_beside_the_rest() {
        let rules = |more: &[i64]| allowed(more, &[]).expect("a filter");
        assert!(!rules(&[]).contains_key(&libc::SYS_ioprio_get));
        assert!(rules(&[libc::SYS_ioprio_get])[&libc::SYS_ioprio_get].is_empty(), "without conditions");
        assert!(rules(&[libc::SYS_ioprio_get]).contains_key(&libc::SYS_read));
        assert!(!rules(&[]).contains_key(&libc::SYS_bpf));
        assert_eq!(
            rules(&[libc::SYS_bpf])[&libc::SYS_bpf].len(),
            BPF_COMMANDS.len(),
            "its commands are conditions"
        );
    }
}
