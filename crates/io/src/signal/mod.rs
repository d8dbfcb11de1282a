//! The signals that a server handles, as a blocking queue for a dedicated thread. Also the handler for SIGBUS, which
//! ends the process if mapped memory has no storage behind it.

pub mod refused;

use std::io;
use std::sync::OnceLock;

use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals as Queue};

/// A request of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT or SIGUSR1: stop gracefully.
    Stop,
    /// SIGHUP: reload what may be reloaded.
    Reload,
}

/// The signals that this process has received since the queue was created.
pub struct Signals {
    queue: Queue,
}

/// A handle with which another thread ends a [`Signals::wait`].
#[derive(Clone, Debug)]
pub struct SignalsHandle(Handle);

impl SignalsHandle {
    /// Makes the wait in progress, and all later waits, return `None`.
    pub fn close(&self) {
        self.0.close();
    }
}

/// The line to write, and the exit code, if a bus error ends the process.
static BUS_ERROR: OnceLock<(Vec<u8>, i32)> = OnceLock::new();

/// Installs a handler for SIGBUS: the process writes `line` to standard error and ends with exit code `code`. SIGBUS
/// occurs if mapped memory has no storage behind it (a hole without space, an I/O error, a truncated file). Only the
/// first call sets line and code.
///
/// # Errors
/// If `sigaction` fails.
#[allow(unsafe_code)]
pub fn end_on_bus_error(line: &str, code: i32) -> io::Result<()> {
    let _ = BUS_ERROR.set((format!("{line}\n").into_bytes(), code));
    // Does not use a queue of handlers, which would first call the handler of Rust's runtime. After that handler, the
    // next SIGBUS ends the process at once. It could occur on another thread before this thread has written its line.
    //
    // SAFETY: 1. the value is plain numbers, for which zero is valid; 2. the handler has the signature of a handler
    // without SA_SIGINFO, is async-signal-safe (see there) and exists as long as the process.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes prepared bytes once and calls `_exit`. It takes no lock and allocates nothing. It does not return, so the
/// failed access is not repeated.
extern "C" fn on_bus_error(_: libc::c_int) {
    let code = BUS_ERROR.get().map_or(1, |(line, code)| {
        // If the line cannot be written, nothing more can be done.
        let _ = rustix::io::write(rustix::stdio::stderr(), line);
        *code
    });
    signal_hook::low_level::exit(code);
}

impl Signals {
    /// Takes over SIGTERM, SIGINT, SIGUSR1 and SIGHUP. Fails if the process has no file descriptor left.
    pub fn take_over() -> io::Result<Self> {
        Ok(Self { queue: Queue::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])? })
    }

    /// Returns a handle that ends the wait.
    pub fn handle(&self) -> SignalsHandle {
        SignalsHandle(self.queue.handle())
    }

    /// Waits for the next signal; returns `None` after the handle was closed.
    pub fn wait(&mut self) -> Option<Signal> {
        self.queue.forever().next().map(|number| if number == SIGHUP { Signal::Reload } else { Signal::Stop })
    }
}
