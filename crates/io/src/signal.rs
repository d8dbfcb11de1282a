//! The signals a server listens to, as a blocking queue for a thread of their own; and the one that ends it, when
//! nothing stands behind mapped memory.

use signal_hook::consts::{SIGBUS, SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals as Queue};

/// What the operator asks for.
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

/// From here on the process ends with exit code `code` when it touches mapped memory behind which there is nothing
/// (SIGBUS: a hole without space, an I/O error, a file that was cut short), and says `line` on standard error.
///
/// # Errors
/// What `sigaction` answers.
#[allow(unsafe_code)]
pub fn end_on_bus_error(line: &str, code: i32) -> std::io::Result<()> {
    let line: &'static [u8] = Vec::leak(format!("{line}\n").into_bytes());
    let action = move || {
        // Nothing can be done about a line that is not taken.
        let _ = rustix::io::write(rustix::stdio::stderr(), line);
        signal_hook::low_level::exit(code);
    };
    // SAFETY: 1. the action is async-signal-safe: one write(2) of bytes that were made before, and _exit(2); it takes
    // no lock and allocates nothing; 2. it does not return, so the access that raised the signal is not done again.
    unsafe { signal_hook::low_level::register(SIGBUS, action)? };
    Ok(())
}

impl Signals {
    /// Takes SIGTERM, SIGINT, SIGUSR1 and SIGHUP over. Fails when the process has no descriptor left.
    pub fn take_over() -> std::io::Result<Self> {
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
