//! Handles Ctrl-C and SIGTERM: they end the run, and its results so far are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use io::signal::Signals;
use load::session::RunControl;

use crate::Failure;

/// Ends the session of `run_control` at a signal.
pub fn run_control(run_control: &Arc<RunControl>) -> Result<(), Failure> {
    let run_control = run_control.clone();
    at_each(move || run_control.stop())
}

/// Returns a flag that a signal sets.
pub fn switch() -> Result<Arc<AtomicBool>, Failure> {
    let switch = Arc::new(AtomicBool::new(false));
    let set = switch.clone();
    at_each(move || set.store(true, Ordering::Relaxed))?;
    Ok(switch)
}

/// Calls `act` at each signal, in a separate thread that lives as long as the program.
fn at_each(act: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let system = |error: std::io::Error| Failure::Failed(vec![format!("cannot watch signals: {error}")]);
    let mut signals = Signals::take_over().map_err(system)?;
    let watcher = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        while signals.wait().is_some() {
            act();
        }
    });
    watcher.map(drop).map_err(system)
}
