//! Creates a ring, or explains why the kernel has none.

use super::Uring;
use super::memory::{Inbound, Outbound};
use crate::waker::Waker;
use io_uring::register::Restriction;
use io_uring::squeue::Flags;
use io_uring::{IoUring, Probe, opcode};
use rustix::io::Errno;
use std::fmt;
use std::io;

/// Maximum number of entries that wait for submission. If the queue is full, the kernel is entered early.
const SQ_ENTRIES: u32 = 512;
/// Maximum number of unread completions in the ring. The kernel stores further completions in its own list.
const CQ_ENTRIES: u32 = 4096;
/// The operations of the reactor.
const OPERATIONS: [u8; 4] =
    [opcode::RecvMulti::CODE, opcode::Send::CODE, opcode::PollAdd::CODE, opcode::AsyncCancel::CODE];
/// The group ID of the provided buffers.
pub(super) const BUFFER_GROUP: u16 = 0;

/// A ring that can still move to the thread that will use it. It is disabled until then.
pub struct Opened {
    ring: IoUring,
    inbound: Inbound,
    outbound: Outbound,
    waker: Waker,
    streams_max: usize,
}

/// The reason why there is no ring.
#[derive(Debug)]
pub struct Unavailable {
    /// The step that failed.
    pub step: &'static str,
    /// The kernel's error.
    pub error: io::Error,
    /// The remedy, for the operator of the machine.
    pub remedy: &'static str,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.step, self.error, self.remedy)
    }
}

impl std::error::Error for Unavailable {}

const OLD_KERNEL: &str = "use Linux 6.1 or later";

impl Unavailable {
    pub(crate) fn new(step: &'static str, error: io::Error) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let remedy = match errno {
            Some(Errno::PERM | Errno::ACCESS) => {
                "allow it: kernel.io_uring_disabled=0 (sysctl), and the io_uring calls in the container's seccomp \
                 profile or the unit's SystemCallFilter"
            }
            Some(Errno::NOSYS) => "use a kernel with io_uring, and a seccomp profile that allows it",
            Some(Errno::NOMEM) => {
                "raise the limit of locked memory (ulimit -l, LimitMEMLOCK), or the control group's memory"
            }
            Some(Errno::MFILE | Errno::NFILE) => "raise the limit of open files (ulimit -n, LimitNOFILE)",
            _ => OLD_KERNEL,
        };
        Self { step, error, remedy }
    }
}

impl Opened {
    /// Creates a ring, with all its memory, for at most `streams_max` connections at a time. `waker` can wake it.
    ///
    /// # Errors
    /// If the kernel has no io_uring, refuses it or lacks an operation: the failed step, the kernel's error and a
    /// remedy.
    pub fn open(waker: &Waker, streams_max: usize) -> Result<Self, Unavailable> {
        assert!(streams_max > 0 && streams_max < u32::MAX as usize / 2, "streams_max {streams_max}");
        let memory = |error| Unavailable::new("cannot allocate io_uring buffers", error);
        let inbound = Inbound::new(streams_max).map_err(memory)?;
        let outbound = Outbound::new(streams_max).map_err(memory)?;
        let ring = build().map_err(|error| Unavailable::new("cannot create an io_uring", error))?;
        probe(&ring)?;
        let (address, entries) = inbound.ring();
        // SAFETY: 1. `address` is the page-aligned start of a map that holds `entries` entries; 2. the map is a field
        // beside the ring, here and in the reactor, and outlives it: it is dropped after it, or never.
        unsafe { ring.submitter().register_buf_ring_with_flags(address, entries, BUFFER_GROUP, 0) }
            .map_err(|error| Unavailable::new("cannot register a ring of io_uring buffers", error))?;
        restrict(&ring, &OPERATIONS, Flags::BUFFER_SELECT | Flags::SKIP_SUCCESS)?;
        Ok(Self { ring, inbound, outbound, waker: waker.clone(), streams_max })
    }

    /// Creates the reactor of the calling thread.
    ///
    /// # Panics
    /// If the kernel does not enable a ring that it has created.
    pub fn reactor(self) -> Uring {
        self.ring.submitter().register_enable_rings().expect("the kernel enables a ring that this process has created");
        Uring::new(self.ring, self.inbound, self.outbound, self.waker, self.streams_max)
    }
}

/// Creates a disabled ring that uses the cheapest way to run deferred work that the kernel supports.
fn build() -> io::Result<IoUring> {
    let mut deferred = IoUring::builder();
    deferred.setup_cqsize(CQ_ENTRIES).setup_submit_all().setup_r_disabled().dontfork();
    let mut cooperative = deferred.clone();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    match deferred.build(SQ_ENTRIES) {
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => cooperative.build(SQ_ENTRIES),
        result => result,
    }
}

/// Restricts a disabled ring to some operations, with some flags. System calls that a sandbox refuses would otherwise
/// be possible as operations of a ring. After it is enabled, nothing can be registered.
pub(crate) fn restrict(ring: &IoUring, operations: &[u8], flags: Flags) -> Result<(), Unavailable> {
    let allowed = operations.iter().map(|code| Restriction::sqe_op(*code));
    let mut all: Vec<_> = allowed.chain([Restriction::sqe_flags_allowed(flags.bits())]).collect();
    ring.submitter()
        .register_restrictions(&mut all)
        .map_err(|error| Unavailable::new("cannot restrict the operations of an io_uring", error))
}

/// Checks that the kernel supports every operation that is used.
fn probe(ring: &IoUring) -> Result<(), Unavailable> {
    let params = ring.params();
    let mut known = Probe::new();
    ring.submitter()
        .register_probe(&mut known)
        .map_err(|error| Unavailable::new("cannot query the io_uring operations of this kernel", error))?;
    // `SendZc` is not used. It appeared in the same kernel version as multishot receives, which cannot be queried.
    let mut codes = OPERATIONS.iter().chain([&opcode::SendZc::CODE]);
    let features = params.is_feature_ext_arg() && params.is_feature_nodrop() && params.is_feature_skip_cqe_on_success();
    if features && codes.all(|code| known.is_supported(*code)) {
        return Ok(());
    }
    let error = io::ErrorKind::Unsupported.into();
    Err(Unavailable { step: "cannot use io_uring: an operation is missing", error, remedy: OLD_KERNEL })
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::types;

    #[test]
    fn ring_refuses_operations_that_its_owner_does_not_use() {
        let Ok(mut ring) = build() else { return eprintln!("skipped: this kernel gives no io_uring") };
        restrict(&ring, &OPERATIONS, Flags::BUFFER_SELECT).expect("the kernel restricts a disabled ring");
        ring.submitter().register_enable_rings().expect("the kernel enables it");
        let (dir, poll) = (types::Fd(libc::AT_FDCWD), types::Fd(0));
        for (entry, code) in [
            (opcode::OpenAt::new(dir, c"/etc/passwd".as_ptr()).build(), -libc::EACCES),
            (opcode::UnlinkAt::new(dir, c"/none".as_ptr()).build(), -libc::EACCES),
            (opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).build(), -libc::EACCES),
            (opcode::PollAdd::new(poll, 0).build().flags(Flags::IO_LINK), -libc::EACCES),
            (opcode::AsyncCancel::new(1).build(), -libc::ENOENT),
        ] {
            // SAFETY: 1. the path is static; 2. no other entry has a pointer.
            #[allow(unsafe_code)]
            unsafe { ring.submission().push(&entry) }.expect("room");
            ring.submit_and_wait(1).expect("it completes");
            let result = ring.completion().next().map(|completion| completion.result());
            assert_eq!(result, Some(code));
        }
        assert!(ring.submitter().register_files(&[0]).is_err(), "nothing is registered any more");
    }

    #[test]
    fn every_refusal_names_its_own_remedy() {
        let remedy = |errno: Errno| Unavailable::new("cannot create an io_uring", errno.into()).to_string();
        assert!(remedy(Errno::PERM).contains("io_uring_disabled"));
        assert!(remedy(Errno::NOSYS).contains("seccomp"));
        assert!(remedy(Errno::NOMEM).contains("ulimit -l"));
        assert!(remedy(Errno::MFILE).contains("ulimit -n"));
        assert!(
            remedy(Errno::INVAL).starts_with("cannot create an io_uring: ") && remedy(Errno::INVAL).contains("6.1")
        );
    }
}
