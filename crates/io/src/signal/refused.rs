//! The handler for SIGSYS, which a seccomp filter raises in place of a system call that it refuses. The handler counts
//! the call, and makes it return EPERM.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The number of refused calls.
static REFUSED: AtomicU64 = AtomicU64::new(0);
/// The number of the first refused call in the kernel's table; -1 if none was refused.
static FIRST: AtomicI64 = AtomicI64::new(-1);

/// Returns the number of system calls that were refused.
pub fn refused_calls() -> u64 {
    REFUSED.load(Relaxed)
}

/// Returns the number, in the kernel's table, of the first system call that was refused.
pub fn first_refused_call() -> Option<i64> {
    u64::try_from(FIRST.load(Relaxed)).ok().map(|number| number as i64)
}

/// Installs the handler. Without it, a refused call ends the process.
///
/// # Errors
/// If `sigaction` fails.
#[allow(unsafe_code)]
pub fn count_refused_calls() -> io::Result<()> {
    // SAFETY: 1. the value is plain numbers, for which zero is valid; 2. the handler has the signature that SA_SIGINFO
    // requires, is async-signal-safe (see there) and exists as long as the process.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            on_refused_call as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The offset of the call's number in the kernel's `siginfo_t` for SIGSYS, in bytes: after the common fields and the
/// address of the instruction.
const NUMBER_AT: usize = 24;

/// Counts a call and sets its result. Takes no lock and allocates nothing.
#[allow(unsafe_code)]
extern "C" fn on_refused_call(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: 1. the kernel calls the handler with valid pointers to a `siginfo_t` of 128 bytes and to the context of
    // the interrupted thread (SA_SIGINFO), which nothing else accesses meanwhile; 2. for SIGSYS by seccomp, the number
    // is an aligned `int` at this offset; 3. the register of the result is restored from the context when the handler
    // returns, and a program expects that a system call changes it.
    let number = unsafe {
        let context = context.cast::<libc::ucontext_t>();
        *result_register(&raw mut (*context).uc_mcontext) = -i64::from(libc::EPERM);
        info.cast::<u8>().add(NUMBER_AT).cast::<libc::c_int>().read()
    };
    let _ = FIRST.compare_exchange(-1, number.into(), Relaxed, Relaxed);
    REFUSED.fetch_add(1, Relaxed);
}

/// Returns the register in which a system call returns its result.
///
/// # Safety
/// 1. `context` must be valid for writes.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
unsafe fn result_register(context: *mut libc::mcontext_t) -> *mut i64 {
    // SAFETY: by the contract; the index is one of the registers of this architecture.
    unsafe { &raw mut (*context).gregs[libc::REG_RAX as usize] }
}

/// Returns the register in which a system call returns its result.
///
/// # Safety
/// 1. `context` must be valid for writes.
#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
unsafe fn result_register(context: *mut libc::mcontext_t) -> *mut i64 {
    // SAFETY: by the contract; `i64` and `u64` have the same layout.
    unsafe { (&raw mut (*context).regs[0]).cast() }
}
