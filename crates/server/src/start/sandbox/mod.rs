//! The sandbox: what the process may still do if an attacker executes code in it.
//!
//! ```text
//!   settings, files to open ──> enter ──> sockets, rings ──> threads start ──> main thread waits
//!                                │                            │                 │
//!     no new privileges          │         no new sockets,  <─┤ narrow          │ narrow: keeps what a resumed
//!     Landlock: named folders,   │         rings and modes    │                 └ server needs, if another process
//!       no TCP connections       │     worker: no threads,  <─┘                   can take over from it
//!     seccomp: calls of a server ┘     files only for reading
//!
//!   refused call ──> SIGSYS ──> counted, EPERM ──> one log line
//! ```
//!
//! All restrictions are inherited by the threads that start later and cannot be removed. They need no privileges. A
//! kernel without Landlock or seccomp is reported in the log, and the server runs with the restrictions that remain.
//!
//! Invariants:
//! - The process creates no process: `execve` and `clone` without `CLONE_THREAD` are refused. No memory becomes
//!   executable. It sends no signals to other processes, except as below.
//! - A file can be opened only below the folders of [`Folders`]. They follow from the settings at the start, so a
//!   reload that names a file in another folder fails, and says that a restart is needed. The same holds for a folder
//!   that was replaced.
//! - All sockets are created before the server serves. After that, no thread creates one, and none connects.
//! - io_uring executes its operations without seccomp. So each ring admits only the operations that its owner uses
//!   ([`io::uring`]), and none of them opens or changes files. All rings are created before the server serves.
//! - The main thread of a server that another process can take over is the exception: it may create rings, and kill
//!   processes of its user, because it ends a new process that hangs, and then starts its own threads again.

mod calls;
mod files;

use crate::start::ServerConfig;
pub use files::Folders;
use landlock::RulesetStatus;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle, ScopedJoinHandle};

/// True if the files of this process are restricted, at least in part.
static RESTRICTS_FILES: AtomicBool = AtomicBool::new(false);
/// True if its system calls are restricted.
static RESTRICTS_CALLS: AtomicBool = AtomicBool::new(false);

/// Returns the parts of the sandbox in which this process is, for figures: 0 none, 1 a part, 2 all.
pub fn parts() -> u64 {
    u64::from(RESTRICTS_FILES.load(Relaxed)) + u64::from(RESTRICTS_CALLS.load(Relaxed))
}

/// Restricts this process, which must have one thread. Its later threads are restricted, too. Returns a note for the
/// log for each part of the sandbox that this kernel does not have, or refuses.
pub fn enter(folders: &Folders) -> Vec<String> {
    let restricted = folders.restrict();
    RESTRICTS_FILES.store(matches!(&restricted, Ok(status) if *status != RulesetStatus::NotEnforced), Relaxed);
    let files = match restricted {
        Ok(RulesetStatus::FullyEnforced) => None,
        Ok(RulesetStatus::PartiallyEnforced) => {
            Some("this kernel is older than Linux 6.10 and restricts files and connections only in part".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            Some("this kernel has no Landlock, so files and connections are not restricted".to_owned())
        }
        Err(error) => Some(format!("files and connections are not restricted: {error}")),
    };
    let restricted = calls::restrict();
    RESTRICTS_CALLS.store(matches!(restricted, Ok(true)), Relaxed);
    let calls = match restricted {
        Ok(true) => None,
        Ok(false) => Some("this kernel has no seccomp, so system calls are not restricted".to_owned()),
        Err(error) => Some(format!("system calls are not restricted: {error}")),
    };
    files.into_iter().chain(calls).map(|note| format!("sandbox: {note}")).collect()
}

/// The part of a thread in the server, from which its system calls follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The main thread once the server serves.
    Main {
        /// True if it must be able to start the server again after a failed takeover.
        may_resume: bool,
    },
    /// A thread that executes what clients send, before it has chosen its CPU.
    NewWorker,
    /// A thread that executes what clients send. It was a [`Role::NewWorker`].
    Worker,
    /// The thread of the admin port.
    Admin,
    /// Any other thread.
    Helper,
}

/// Takes from this thread, and those that it creates later, the system calls that its role does not need. Without a
/// sandbox, does nothing.
pub fn narrow(role: Role) {
    if let Err(error) = calls::narrow(role) {
        tracing::warn!(?role, %error, "the thread has only the restrictions of the start");
    }
}

/// Starts a thread that has only the system calls of its role from its first instruction: a thread that has narrowed
/// itself creates it.
///
/// # Errors
/// If a thread cannot be created.
pub fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    role: Role,
    body: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let thread = Builder::new().name(name.into());
    if !RESTRICTS_CALLS.load(Relaxed) {
        return thread.spawn(body);
    }
    let create = || {
        narrow(role);
        thread.spawn(body)
    };
    let created = std::thread::scope(|scope| Builder::new().spawn_scoped(scope, create).map(ScopedJoinHandle::join));
    created?.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the end of a message about a file that cannot be read or written, if the sandbox may be the reason.
pub fn hint(message: &str) -> &'static str {
    if RESTRICTS_FILES.load(Relaxed) && message.contains("Permission denied") {
        "; the sandbox forbids files in folders that no setting named at the start, or that were replaced since: \
         restart the server"
    } else {
        ""
    }
}

/// Logs the first system call that the sandbox has refused.
pub(crate) fn log_refused() {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    if let Some(number) = io::signal::refused::first_refused_call()
        && !LOGGED.swap(true, Relaxed)
    {
        tracing::warn!(
            number,
            name = calls::name_of(number),
            "the sandbox refused a system call; the metric gannet_sandbox_refused_calls_total counts them. Please \
             report it, and pass --no-sandbox if something does not work"
        );
    }
}

/// Returns the folders that a server with these settings uses.
pub fn folders(config: &ServerConfig) -> Folders {
    let mut folders = Folders::default();
    for path in ["/proc", "/sys"] {
        folders.read(path.as_ref());
    }
    for path in ["/dev/null", "/dev/zero", "/dev/urandom"] {
        folders.change(path.as_ref());
    }
    match (&config.config_file, config.admin) {
        // The admin port rewrites the settings file when a namespace is changed.
        (Some(path), Some(_)) => {
            folders.change_beside(path);
            // The file may be a symbolic link, which stays one.
            if let Ok(target) = std::fs::canonicalize(path) {
                folders.change_beside(&target);
            }
        }
        (Some(path), None) => folders.read_beside(path),
        (None, _) => {}
    }
    config.acl_file.iter().chain(&config.file).chain(&config.graph_file).for_each(|path| folders.change_beside(path));
    config.audit.iter().for_each(|audit| folders.change_beside(&audit.path));
    config.auth_file.iter().chain(&config.token_key_file).for_each(|path| folders.read_beside(path));
    for place in &config.flash {
        folders.change_device(&place.path);
    }
    if let Some(tls) = &config.tls {
        tls.settings.paths().for_each(|path| folders.read_beside(path));
    }
    for addr in config.memcached.iter().chain(&config.resp).chain(config.endpoints.iter().map(|(_, addr)| addr)) {
        if let io::listen::ListenAddr::Unix { path, .. } = addr {
            folders.bind_beside(path);
        }
    }
    folders
}
