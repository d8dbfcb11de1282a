//! Ctrl-C and SIGTERM: end the run, and keep its results so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io::signal::Signals;
use load::session::Desk;

use crate::Failure;

/// Ends a session.
pub fn desk(desk: &Arc<Desk>) -> Result<(), Failure> {
    let desk = desk.clone();
    at_each(move || desk.stop())
}

/// A switch that is set.
pub fn switch() -> Result<Arc<AtomicBool>, Failure> {
    let switch = Arc::new(AtomicBool::new(false));
    let set = switch.clone();
    at_each(move || set.store(true, Ordering::Relaxed))?;
    Ok(switch)
}

/// Calls `act` at each signal, on a thread of its own that lives as long as the program.
fn at_each(act: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let system = |error: std::io::Error| Failure::Failed(vec![format!("signals cannot be watched: {error}")]);
    let mut signals = Signals::take_over().map_err(system)?;
    let watcher = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while signals.wait().is_some() {
            act();
        }
    });
    watcher.map(drop).map_err(system)
}
