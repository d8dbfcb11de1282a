//! The signals a server listens to, as a blocking queue for a thread of their own; and the one that ends it, when
//! nothing stands behind mapped memory.

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

/// Signals of this process from the moment it is made.
pub struct Signals {
    queue: Queue,
}

/// Ends a [`Signals::wait`] from another thread.
#[derive(Clone, Debug)]
pub struct SignalsHandle(Handle);

impl SignalsHandle {
    /// Lets the wait in progress, and all later ones, return `None`.
    pub fn close(&self) {
        self.0.close();
    }
}

/// The line that is written and the exit code when a bus error ends the process.
static BUS_ERROR: OnceLock<(Vec<u8>, i32)> = OnceLock::new();

/// From here on the process ends with exit code `code` when it touches mapped memory behind which there is nothing
/// (SIGBUS: a hole without space, an I/O error, a file that was cut short), and says `line` on standard error. The
/// first call counts.
///
/// # Errors
/// If `sigaction` fails.
#[allow(unsafe_code)]
pub fn end_on_bus_error(line: &str, code: i32) -> io::Result<()> {
    let _ = BUS_ERROR.set((format!("{line}\n").into_bytes(), code));
    // Not through a queue of handlers, which first calls the one of Rust's runtime: that one has the next such signal
    // end the process at once, and another thread may have it before this one has said its line.
    //
    // SAFETY: 1. the value is plain numbers, of which zero is one; 2. the handler has the signature that a handler
    // without SA_SIGINFO has, is async-signal-safe (see there) and stays for as long as the process.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_bus_error as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(SIGBUS, &raw const action, std::ptr::null_mut())
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One write of bytes that were made before, and `_exit`: no lock is taken and nothing allocated. It does not return,
/// so the access that raised the signal is not done again.
extern "C" fn on_bus_error(_: libc::c_int) {
    let code = BUS_ERROR.get().map_or(1, |(line, code)| {
        // Nothing can be done about a line that is not taken.
        let _ = rustix::io::write(rustix::stdio::stderr(), line);
        *code
    });
    signal_hook::low_level::exit(code);
}

impl Signals {
    /// Takes SIGTERM, SIGINT, SIGUSR1 and SIGHUP over. Fails when the process has no descriptor left.
    pub fn take_over() -> io::Result<Self> {
        Ok(Self { queue: Queue::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP])? })
    }

    /// A handle that ends the wait.
    pub fn handle(&self) -> SignalsHandle {
        SignalsHandle(self.queue.handle())
    }

    /// Waits for the next signal; `None` once the handle was closed.
    pub fn wait(&mut self) -> Option<Signal> {
        self.queue.forever().next().map(|number| if number == SIGHUP { Signal::Reload } else { Signal::Stop })
    }
}
