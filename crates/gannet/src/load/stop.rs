//! Handles Ctrl-C and SIGTERM: they end the run, and its results so far are written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io::signal::Signals;
use load::session::RunControl;

use crate::Failure;

/// The time within which processes of a group handle a signal to all of them.
const STOP_LAG_MAX: Duration = Duration::from_millis(300);

/// Ends the session of `run_control` at a signal.
pub fn run_control(run_control: &Arc<RunControl>) -> Result<(), Failure> {
    let run_control = run_control.clone();
    at_each(move || run_control.stop())
}

/// Returns whether a stop explains that a run failed. A signal to a process group may end a server before this process
/// has handled the signal, so this function waits for a moment.
pub fn explains_failure(run_control: &RunControl) -> bool {
    let begun = Instant::now();
    while !run_control.is_stopped() && begun.elapsed() < STOP_LAG_MAX {
        std::thread::sleep(Duration::from_millis(5));
    }
    run_control.is_stopped()
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
