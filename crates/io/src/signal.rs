//! The signals a server listens to, as a blocking queue for a thread of their own.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
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
