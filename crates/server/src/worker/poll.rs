//! Waits for events: first by busy polling if it is configured, then in a sleep.

use crate::handover::ReceivedConnection;
use crate::worker::core::Core;
use command::clients::endpoint::Protocol;
use command::memcache::report_connection;
use io::Backend;
use std::time::Duration;

/// The maximum number of connections that an iteration admits. Each admission takes about 2 us, so a burst of
/// connections delays a request no more than one batch does.
const ADMISSIONS_PER_ITERATION: usize = 64;
/// The time that a worker sleeps after a failed wait for its sockets.
const WAIT_FAILED_REST: Duration = Duration::from_millis(10);

/// Waits until there is work, for at most `timeout`.
pub(super) fn wait<B: Backend>(core: &mut Core<B>, timeout: Duration) {
    let busy = core.shared.config.busy_poll.min(timeout);
    if busy > Duration::ZERO && poll(core, busy) {
        core.ctx.counters().turns_polled.add(1);
        return;
    }
    wait_for_events(core, timeout.saturating_sub(busy));
}

/// Polls for work for at most `busy`. Returns false if no work was found.
fn poll<B: Backend>(core: &mut Core<B>, busy: Duration) -> bool {
    let (begun, busy_ns) = (core.ctx.clock.ticks(), busy.as_nanos() as u64);
    loop {
        wait_for_events(core, Duration::ZERO);
        read_clocks(core);
        // If the waker was rung, the wait ends without an event. Check for each possible reason.
        let admitted = admit_new(core);
        if admitted || !core.events.is_empty() || core.shared.threads.stop.is_off() {
            return true;
        }
        if core.ctx.clock.ns_between(begun, core.iteration_ticks) >= busy_ns {
            return false;
        }
        std::hint::spin_loop();
    }
}

fn wait_for_events<B: Backend>(core: &mut Core<B>, timeout: Duration) {
    if let Err(error) = core.io.wait(Some(timeout), &mut core.events) {
        // The kernel may be temporarily short of memory. No other cause of this error is known.
        tracing::error!(worker = core.ctx.worker, %error, "waiting for sockets failed; trying again");
        std::thread::sleep(WAIT_FAILED_REST);
    }
}

/// Reads the clocks. The worker uses this time until the next reading.
pub(super) fn read_clocks<B: Backend>(core: &mut Core<B>) {
    core.iteration_ticks = core.ctx.clock.ticks();
    core.now_ns = core.ctx.clock.ns_between(core.born, core.iteration_ticks);
    core.ctx.now = core.unix.at(&core.ctx.clock, core.now_ns);
    core.ctx.wall_lead_ms = core.ctx.shared.wall_ahead_ms();
}

/// Admits connections from the acceptor, at most [`ADMISSIONS_PER_ITERATION`]. Returns false if no new connection was
/// waiting.
pub(super) fn admit_new<B: Backend>(core: &mut Core<B>) -> bool {
    core.intake_left = false;
    for number in 0..ADMISSIONS_PER_ITERATION {
        let Ok(arrival) = core.intake.try_recv() else { return number > 0 };
        admit(core, arrival);
    }
    core.intake_left = true;
    true
}

/// Adds a new connection to the table.
fn admit<B: Backend>(core: &mut Core<B>, arrival: ReceivedConnection<B::Stream>) {
    let ReceivedConnection { stream, endpoint, carried, entry } = arrival;
    if !endpoint.is_counted {
        core.ctx.shared.namespaces.count_in(endpoint.namespace);
    }
    let attached = match core.sessions.next_token() {
        Some(token) => core.io.attach(&stream, token),
        // The acceptor gives no worker more connections than its table holds.
        None => Err(std::io::ErrorKind::QuotaExceeded.into()),
    };
    if attached.is_ok() {
        let (peer, descriptor) = (B::peer(&stream), B::descriptor(&stream));
        let index = core.sessions.insert(stream, endpoint, core.now_ns);
        core.sessions.at(index).entry = entry;
        core.ctx.connection_table().open(index, descriptor.unwrap_or(index), peer, core.ctx.now.secs());
        if endpoint.protocol == Protocol::Memcache && carried.is_none() {
            report_connection(&mut core.ctx, index, None);
        }
        core.introduce(index, peer, endpoint);
        match carried {
            // The connection is counted once it is restored.
            Some(carried) => core.taken_over.push((index, carried)),
            None => core.ctx.counters().connections_total.add(1),
        }
        if core.stop_deadline_ns.is_some() {
            core.sessions.at(index).readable = true;
            core.make_ready(index);
        }
    } else {
        core.ctx.counters().connections_total.add(1);
        core.ctx.counters().connections_closed.add(1);
        core.ctx.shared.namespaces.leave(endpoint.namespace);
        core.io.close(stream);
    }
}
