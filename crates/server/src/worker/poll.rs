//! Waiting for events: with a sleep, or first by busy polling if that is configured.

use super::Core;
use io::Backend;
use std::time::Duration;

/// The maximum number of connections that an iteration admits. Each takes about 2 us, so a burst of connections delays
/// no request by more than one batch does.
const ADMITTED_A_TURN: usize = 64;
/// The time that a worker sleeps after a failed wait for its sockets.
const WAIT_FAILED_REST: Duration = Duration::from_millis(10);

impl<B: Backend> Core<B> {
    /// Waits until there is something to do, for at most `timeout`.
    pub(super) fn wait(&mut self, timeout: Duration) {
        let busy = self.shared.config.busy_poll.min(timeout);
        if busy > Duration::ZERO && self.poll(busy) {
            self.ctx.counters().turns_polled.add(1);
            return;
        }
        self.wait_for_events(timeout.saturating_sub(busy));
    }

    /// Polls for work for up to `busy`. Returns false if there was none.
    fn poll(&mut self, busy: Duration) -> bool {
        let (begun, busy_ns) = (self.ctx.clock.ticks(), busy.as_nanos() as u64);
        loop {
            self.wait_for_events(Duration::ZERO);
            self.read_clocks();
            // A waker that was rung ends a wait without an event. This checks for what it may have been rung for.
            let admitted = self.admit_new();
            if admitted || !self.events.is_empty() || self.shared.threads.stop.is_off() {
                return true;
            }
            if self.ctx.clock.ns_between(begun, self.turn_ticks) >= busy_ns {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    fn wait_for_events(&mut self, timeout: Duration) {
        if let Err(error) = self.io.wait(Some(timeout), &mut self.events) {
            // The kernel may be out of memory for a moment. No other error is known here.
            tracing::error!(worker = self.ctx.worker, %error, "waiting for sockets failed; trying again");
            std::thread::sleep(WAIT_FAILED_REST);
        }
    }

    /// Reads the clocks, which set the time for all that follows.
    pub(super) fn read_clocks(&mut self) {
        self.turn_ticks = self.ctx.clock.ticks();
        self.now_ns = self.ctx.clock.ns_between(self.born, self.turn_ticks);
        self.ctx.now = self.unix.at(&self.ctx.clock, self.now_ns);
        self.ctx.ahead_ms = self.ctx.shared.wall_ahead_ms();
    }

    /// Admits connections from the acceptor, at most [`ADMITTED_A_TURN`]. Returns false if there were none.
    pub(super) fn admit_new(&mut self) -> bool {
        self.intake_left = false;
        for number in 0..ADMITTED_A_TURN {
            let Ok(arrival) = self.intake.try_recv() else { return number > 0 };
            self.admit(arrival);
        }
        self.intake_left = true;
        true
    }
}
