//! Restricts system calls with seccomp.
//!
//! A call that no list has, or whose arguments are not allowed, raises SIGSYS. The handler counts it and makes the call
//! return EPERM ([`io::signal::refused`]). The kernel remembers the calls that are allowed whatever their arguments, so
//! these cost no evaluation of the filter.

use super::Role;
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// The error of a filter.
type CallsError = seccompiler::Error;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Declares a list of system calls with their names.
macro_rules! calls {
    ($(#[$doc:meta])* $list:ident: $($name:ident)*) => {
        $(#[$doc])*
        const $list: &[(i64, &str)] = &[$((libc::$name as i64, stringify!($name))),*];
    };
}

calls! {
    /// The system calls that all threads may make, with any arguments. A thread that was given a descriptor may use it.
    ANY:
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
    SYS_close SYS_close_range SYS_dup SYS_dup3 SYS_lseek SYS_flock SYS_pipe2 SYS_eventfd2
    SYS_openat SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs SYS_faccessat SYS_faccessat2 SYS_readlinkat
    SYS_getdents64 SYS_getcwd SYS_unlinkat SYS_renameat SYS_renameat2 SYS_mkdirat SYS_umask
    SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync SYS_sync_file_range SYS_fadvise64
    SYS_munmap SYS_mremap SYS_madvise SYS_msync SYS_mincore SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall
    SYS_munlockall SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_memfd_create SYS_brk SYS_membarrier
    SYS_futex SYS_set_robust_list SYS_get_robust_list SYS_rseq SYS_set_tid_address SYS_exit SYS_exit_group
    SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigtimedwait SYS_sigaltstack SYS_restart_syscall
    SYS_getpid SYS_gettid SYS_getppid SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getrusage SYS_getrandom
    SYS_uname SYS_sysinfo SYS_times SYS_getcpu
    SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday
    SYS_sched_yield SYS_sched_getaffinity SYS_sched_getscheduler SYS_sched_getparam SYS_getpriority
    SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_ppoll SYS_pselect6
    SYS_bind SYS_listen SYS_accept4 SYS_accept SYS_connect SYS_getsockname SYS_getpeername SYS_setsockopt
    SYS_getsockopt SYS_sendto SYS_sendmsg SYS_sendmmsg SYS_recvfrom SYS_recvmsg SYS_recvmmsg
    SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
    SYS_seccomp SYS_clone3
}

#[cfg(target_arch = "x86_64")]
calls! {
    /// The older forms of calls in [`ANY`], which the C library still makes on this architecture.
    OLDER:
    SYS_open SYS_stat SYS_lstat SYS_access SYS_readlink SYS_unlink SYS_rename SYS_mkdir SYS_dup2 SYS_poll
    SYS_select SYS_epoll_wait SYS_epoll_create SYS_eventfd SYS_pipe SYS_time SYS_arch_prctl SYS_getrlimit
}

#[cfg(not(target_arch = "x86_64"))]
calls! { OLDER: }

calls! {
    /// The calls that only a start needs: it creates all sockets and rings, and sets the modes of Unix sockets. A start
    /// after a failed takeover first ends the other process.
    ONLY_AT_START:
    SYS_socket SYS_bind SYS_connect SYS_fchmodat SYS_fchmod SYS_io_uring_setup SYS_pidfd_send_signal
}

#[cfg(target_arch = "x86_64")]
calls! {
    /// The older forms of calls in [`ONLY_AT_START`].
    OLDER_ONLY_AT_START: SYS_chmod
}

#[cfg(not(target_arch = "x86_64"))]
calls! { OLDER_ONLY_AT_START: }

calls! {
    /// The calls that workers, which execute what clients send, may not make in addition.
    NOT_BY_WORKERS:
    SYS_socketpair SYS_listen SYS_clone SYS_unlinkat SYS_renameat SYS_renameat2 SYS_mkdirat SYS_prlimit64
    SYS_pidfd_open SYS_sched_setaffinity SYS_memfd_create
}

#[cfg(target_arch = "x86_64")]
calls! {
    /// The older forms of calls in [`NOT_BY_WORKERS`].
    OLDER_NOT_BY_WORKERS: SYS_unlink SYS_rename SYS_mkdir SYS_open
}

#[cfg(not(target_arch = "x86_64"))]
calls! { OLDER_NOT_BY_WORKERS: }

calls! {
    /// Calls that attackers make and no list allows, for the log.
    NEVER: SYS_execve SYS_execveat SYS_ptrace SYS_bpf SYS_process_vm_readv SYS_process_vm_writev SYS_mount SYS_keyctl
    SYS_userfaultfd SYS_perf_event_open SYS_unshare SYS_setns SYS_clone SYS_socket SYS_mmap SYS_mprotect SYS_prctl
    SYS_ioctl SYS_tgkill SYS_tkill SYS_kill SYS_prlimit64 SYS_setuid SYS_setresuid SYS_fcntl SYS_shutdown SYS_fchown
    SYS_fchownat SYS_setxattr SYS_fsetxattr SYS_setpriority
}

/// Returns the name of a system call that was refused.
pub(super) fn name_of(number: i64) -> &'static str {
    let at_start = ONLY_AT_START.iter().chain(OLDER_ONLY_AT_START);
    let mut known = NEVER.iter().chain(at_start).chain(NOT_BY_WORKERS).chain(OLDER_NOT_BY_WORKERS).chain(ANY);
    known.find(|(known, _)| *known == number).map_or("unknown", |(_, name)| name.trim_start_matches("SYS_"))
}

/// A condition that a 32-bit argument satisfies `op` with `value`.
fn condition(argument: u8, op: Op, value: u64) -> Result<SeccompCondition, CallsError> {
    SeccompCondition::new(argument, Len::Dword, op, value).map_err(seccompiler::Error::Backend)
}

/// A rule that matches if a 32-bit argument satisfies `op` with `value`.
fn rule(argument: u8, op: Op, value: u64) -> Result<SeccompRule, CallsError> {
    SeccompRule::new(vec![condition(argument, op, value)?]).map_err(seccompiler::Error::Backend)
}

/// Rules of which one must match: a 32-bit argument has one of the values.
fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, CallsError> {
    values.iter().map(|value| rule(argument, Op::Eq, *value)).collect()
}

/// Rules of which one must match: a 32-bit argument has one of the values of the C library's type.
fn one_of_ints(argument: u8, values: &[libc::c_int]) -> Result<Vec<SeccompRule>, CallsError> {
    values.iter().map(|value| rule(argument, Op::Eq, *value as u64)).collect()
}

/// Rules for `socket`: sockets of the Unix family, and TCP. The type's other bits are flags. Landlock restricts the
/// connections of TCP only, not those of MPTCP, UDP or raw sockets.
fn sockets() -> Result<Vec<SeccompRule>, CallsError> {
    const TYPE: u64 = 0xf;
    let unix = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET].map(|kind| (libc::AF_UNIX, kind, 0));
    let tcp = [libc::AF_INET, libc::AF_INET6]
        .into_iter()
        .flat_map(|family| [0, libc::IPPROTO_TCP].map(|protocol| (family, libc::SOCK_STREAM, protocol)));
    let rules = unix.into_iter().chain(tcp).map(|(family, kind, protocol)| {
        let conditions = vec![
            condition(0, Op::Eq, family as u64)?,
            condition(1, Op::MaskedEq(TYPE), kind as u64)?,
            condition(2, Op::Eq, protocol as u64)?,
        ];
        SeccompRule::new(conditions).map_err(seccompiler::Error::Backend)
    });
    rules.collect()
}

/// The calls that all threads may make only with some arguments.
fn with_arguments() -> Result<Rules, CallsError> {
    let own = u64::from(std::process::id());
    let no_exec = || Ok::<_, CallsError>(vec![rule(2, Op::MaskedEq(libc::PROT_EXEC as u64), 0)?]);
    // Modes that let a file be executed as another user.
    let no_set_id = |argument| Ok::<_, CallsError>(vec![rule(argument, Op::MaskedEq(0o7000), 0)?]);
    let thread = libc::CLONE_THREAD as u64;
    // The calling thread may give way to others.
    let own_thread = vec![condition(0, Op::Eq, libc::PRIO_PROCESS as u64)?, condition(1, Op::Eq, 0)?];
    let own_thread = SeccompRule::new(own_thread).map_err(seccompiler::Error::Backend)?;
    let mut rules = BTreeMap::from([
        (libc::SYS_clone, vec![rule(0, Op::MaskedEq(thread), thread)?]),
        (libc::SYS_socket, sockets()?),
        (libc::SYS_socketpair, one_of_ints(0, &[libc::AF_UNIX])?),
        // A listener that is shut down for reading could connect as a new socket.
        (libc::SYS_shutdown, one_of_ints(1, &[libc::SHUT_WR])?),
        (libc::SYS_mmap, no_exec()?),
        (libc::SYS_mprotect, no_exec()?),
        (libc::SYS_ioctl, one_of(1, &REQUESTS)?),
        (libc::SYS_fcntl, one_of_ints(1, &FILE_COMMANDS)?),
        (libc::SYS_prctl, one_of_ints(0, &PROCESS_OPTIONS)?),
        (libc::SYS_prlimit64, one_of(0, &[0, own])?),
        (libc::SYS_sched_setaffinity, one_of(0, &[0])?),
        (libc::SYS_setpriority, vec![own_thread]),
        (libc::SYS_tgkill, one_of(0, &[own])?),
        (libc::SYS_kill, one_of(0, &[own])?),
        (libc::SYS_pidfd_open, one_of(0, &[own])?),
        // The running server ends a new process that hangs during a takeover.
        (libc::SYS_pidfd_send_signal, one_of_ints(1, &[libc::SIGKILL])?),
        (libc::SYS_fchmod, no_set_id(1)?),
        (libc::SYS_fchmodat, no_set_id(2)?),
    ]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_chmod, no_set_id(1)?);
    Ok(rules)
}

/// The requests of `ioctl`.
const REQUESTS: [libc::Ioctl; 7] =
    [libc::FIONREAD, libc::FIONBIO, libc::FIOCLEX, libc::TCGETS, libc::TIOCGWINSZ, BLKSSZGET, BLKGETSIZE64];
/// The commands of `fcntl`. Those that make the kernel send signals to other processes are not among them.
const FILE_COMMANDS: [libc::c_int; 8] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];
/// The options of `prctl`.
const PROCESS_OPTIONS: [libc::c_int; 7] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_VMA,
    libc::PR_SET_TIMERSLACK,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_NO_NEW_PRIVS,
];
/// Requests for the size of the blocks and of a block device.
const BLKSSZGET: libc::Ioctl = 0x1268;
const BLKGETSIZE64: libc::Ioctl = 0x8008_1272u32 as libc::Ioctl;

/// The rules of calls with any arguments.
fn any<'c>(calls: impl IntoIterator<Item = &'c (i64, &'static str)>) -> Rules {
    calls.into_iter().map(|(number, _)| (*number, Vec::new())).collect()
}

/// Compiles and installs a filter for this thread, and those that it creates later.
fn install(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<(), CallsError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(seccompiler::Error::Backend)?;
    let filter = SeccompFilter::new(rules, otherwise, matched, arch).map_err(seccompiler::Error::Backend)?;
    let program = BpfProgram::try_from(filter).map_err(seccompiler::Error::Backend)?;
    apply_filter(&program)
}

/// Restricts the process, which must have one thread. Returns false if the kernel has no seccomp.
pub(super) fn restrict() -> Result<bool, CallsError> {
    if !std::path::Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        return Ok(false);
    }
    io::signal::refused::count_refused_calls().map_err(seccompiler::Error::Prctl)?;
    // Filters cannot read the flags of clone3, which are in memory. Without it, the C library calls clone.
    let clone3 = any([&(libc::SYS_clone3, "SYS_clone3")]);
    let absent = SeccompAction::Errno(Errno::NOSYS.raw_os_error() as u32);
    install(clone3, SeccompAction::Allow, absent)?;
    let mut rules = any(ANY.iter().chain(OLDER));
    rules.extend(with_arguments()?);
    install(rules, SeccompAction::Trap, SeccompAction::Allow)?;
    Ok(true)
}

/// Takes from this thread, and those that it creates later, the calls that it does not need, if the process is in a
/// sandbox.
///
/// # Errors
/// If the kernel refuses the filter.
pub(super) fn narrow(role: Role) -> Result<(), CallsError> {
    if !super::RESTRICTS_CALLS.load(Relaxed) {
        return Ok(());
    }
    if role == Role::Worker {
        let mut rules = any(NOT_BY_WORKERS.iter().chain(OLDER_NOT_BY_WORKERS));
        rules.insert(libc::SYS_openat, writes()?);
        return install(rules, SeccompAction::Allow, SeccompAction::Trap);
    }
    let mut rules = any(ONLY_AT_START.iter().chain(OLDER_ONLY_AT_START));
    let kept: &[i64] = match role {
        Role::Worker | Role::NewWorker | Role::Helper | Role::Main { may_resume: false } => &[],
        // The mode of a rewritten settings file is that of the earlier file.
        Role::Admin => &[libc::SYS_fchmod],
        Role::Main { may_resume: true } => &[libc::SYS_fchmod, libc::SYS_io_uring_setup, libc::SYS_pidfd_send_signal],
    };
    rules.retain(|number, _| !kept.contains(number));
    // The workers of a resumed server have the filter of its main thread.
    if !matches!(role, Role::NewWorker | Role::Main { may_resume: true }) {
        rules.extend(fast_open()?);
    }
    install(rules, SeccompAction::Allow, SeccompAction::Trap)
}

/// Rules for `openat` that match if a file may be created or changed.
fn writes() -> Result<Vec<SeccompRule>, CallsError> {
    let mode = Op::MaskedEq(libc::O_ACCMODE as u64);
    let create = libc::O_CREAT as u64;
    Ok(vec![
        rule(2, mode.clone(), libc::O_WRONLY as u64)?,
        rule(2, mode, libc::O_RDWR as u64)?,
        rule(2, Op::MaskedEq(create), create)?,
    ])
}

/// Rules for sends that would open a TCP connection, which Landlock does not notice. Workers have none, because a
/// filter that reads arguments is evaluated for each reply: after the start there is no unconnected TCP socket.
fn fast_open() -> Result<Rules, CallsError> {
    let flag = libc::MSG_FASTOPEN as u64;
    let rules = |argument| Ok::<_, CallsError>(vec![rule(argument, Op::MaskedEq(flag), flag)?]);
    Ok(BTreeMap::from([(libc::SYS_sendto, rules(3)?), (libc::SYS_sendmsg, rules(2)?), (libc::SYS_sendmmsg, rules(3)?)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily as Family, SocketFlags, SocketType as Type, ipproto, socket_with};

    /// Landlock does not restrict connections of the other protocols.
    #[test]
    fn start_can_create_only_unix_and_tcp_sockets() {
        // A filter holds for its thread and the later ones of that thread.
        let tried = std::thread::spawn(|| {
            if !restrict().expect("this kernel installs filters") {
                return eprintln!("skipped: this kernel has no seccomp");
            }
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            for (family, kind, protocol) in [
                (Family::UNIX, Type::STREAM, None),
                (Family::UNIX, Type::DGRAM, None),
                (Family::UNIX, Type::SEQPACKET, None),
                (Family::INET, Type::STREAM, None),
                (Family::INET, Type::STREAM, Some(ipproto::TCP)),
            ] {
                assert!(socket_with(family, kind, flags, protocol).is_ok(), "{family:?} {kind:?}");
            }
            for (family, kind, protocol) in [
                (Family::INET, Type::STREAM, Some(ipproto::MPTCP)),
                (Family::INET, Type::STREAM, Some(ipproto::SCTP)),
                (Family::INET, Type::DGRAM, None),
                (Family::INET6, Type::DGRAM, None),
                (Family::INET, Type::RAW, Some(ipproto::ICMP)),
                (Family::NETLINK, Type::RAW, None),
            ] {
                let refused = io::signal::refused::refused_calls();
                let made = socket_with(family, kind, flags, protocol).map(drop);
                assert_eq!(made, Err(Errno::PERM), "{family:?} {kind:?}");
                assert_eq!(io::signal::refused::refused_calls(), refused + 1, "the sandbox refused it");
            }
        });
        tried.join().expect("no panic");
    }
}
