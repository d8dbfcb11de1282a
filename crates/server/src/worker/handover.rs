//! A handover: connections move from this worker to another process. Their clients do not notice.
//!
//! ```text
//!   requested ──> each iteration: connections between two requests move with their sockets
//!                 the others are served until they are between two requests: for GRACE_NS if they wait
//!                 for their peer, and LONG_GRACE_NS longer if they do not
//!             ──> then the remaining connections are closed, and the worker ends
//! ```
//!
//! Connections with TLS cannot move, because their keys are in this process. They are closed between two requests, with
//! a close_notify, and their clients connect again.
//!
//! Received bytes of unexecuted requests move with the connection. Unsent replies move as a copy, at most
//! [`OUTPUT_BYTES_MAX`] for each connection and [`OUTPUTS_BYTES_MAX`] for a worker. Subscriptions, watched keys and
//! transactions before their EXEC move too. A connection in any other state is closed at the end, as when the server
//! stops. Examples are an in-place receive, or a peer that does not read a reply of many megabytes. No request of such
//! a connection is executed without its reply.

use crate::handover::{EarlyInput, HandoverConnection, ReleasedConnection};
use crate::session::{Phase, Session, SessionPlace};
use crate::threads::Drain;
use crate::worker::core::Core;
use crate::worker::output;
use crate::worker::poll;
use crate::worker::upkeep;
use command::clients::endpoint::Protocol;
use io::{Backend, Detached};
use segment::{Guard, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// The time for which connections that cannot move yet are still served. Connections that have moved are not served
/// meanwhile.
const GRACE_NS: u64 = 20_000_000;
/// The further time, after [`GRACE_NS`], for which a connection is still served if its request has been received
/// completely and its execution does not wait for the peer.
const LONG_GRACE_NS: u64 = 500_000_000;
/// The maximum number of unsent bytes with which a connection may move.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// The maximum number of unsent bytes with which all connections of a worker may move.
pub(super) const OUTPUTS_BYTES_MAX: u64 = 64 << 20;

/// Reports the number of values that are being received in place, once for each round of [`Drain`].
#[cold]
pub(super) fn report_arriving<B: Backend>(core: &mut Core<B>) {
    let round = core.shared.threads.drain.round();
    if std::mem::replace(&mut core.drain_round, round) == round {
        return;
    }
    let is_arriving = |session: &Session<B::Stream>| session.phase == Phase::Open && session.state.is_taking_in();
    let sessions = (0..core.sessions.used_high()).filter_map(|index| core.sessions.peek(index));
    let arriving = sessions.filter(|session| is_arriving(session)).count() as u32;
    core.shared.threads.workers[core.ctx.worker].arriving.store(Drain::report(round, arriving), Release);
}

/// Moves out the connections that can move, and closes the others at their deadline.
pub(super) fn move_out<B: Backend>(core: &mut Core<B>) {
    let deadline_ns = match core.stop_deadline_ns {
        Some(deadline_ns) => deadline_ns,
        None => {
            // The acceptor has ended: the connections in the intake are the last.
            while poll::admit_new(core) {}
            *core.stop_deadline_ns.insert(core.now_ns + GRACE_NS)
        }
    };
    if core.taken_over.is_empty() {
        release_ready(core);
    }
    // The deadline is checked after the last attempt to move connections, because moving many connections can take
    // longer than the whole grace time.
    if core.now_ns >= deadline_ns + LONG_GRACE_NS {
        upkeep::kill_all(core);
    } else if core.now_ns >= deadline_ns {
        close_waiting(core);
    }
}

/// Moves out the connections that are between two requests now.
fn release_ready<B: Backend>(core: &mut Core<B>) {
    let (mut indexes, mut carried, mut streams) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..core.sessions.used_high() as u32 {
        let Some(session) = core.sessions.peek_mut(index) else { continue };
        let is_grpc = session.state.protocol() == Protocol::Grpc;
        if is_grpc || session.stream.as_ref().is_some_and(|stream| !B::is_movable(stream)) {
            drain(core, index);
            continue;
        }
        if let Some(one) = handover_of(session, &core.ctx.shared.store, &mut core.output_left)
            && let Some(stream) = session.stream.take()
        {
            indexes.push(index);
            carried.push((one, session.state.take_subscriber()));
            streams.push(stream);
        }
    }
    let detached = core.io.detach(streams);
    for ((index, (mut one, subscriber)), detached) in indexes.into_iter().zip(carried).zip(detached) {
        if one.endpoint.protocol == Protocol::Resp {
            let client_info = core.ctx.connection_table().client_info(index, |client_info| {
                [&client_info.name, &client_info.library, &client_info.library_version, &client_info.user]
                    .map(|text| text.to_vec())
            });
            one.texts = client_info.unwrap_or_default();
        }
        if let Some(Detached { stream, received, mut unsent }) = detached {
            one.input.extend(received);
            unsent.append(&mut one.output);
            one.output = unsent;
            core.moved.push(ReleasedConnection { stream, carried: Arc::new(one), subscriber });
        }
        // The stream was moved. The rest of the session is released as if the session were closed.
        output::kill(core, index);
    }
}

/// Closes a connection whose state of TLS or HTTP/2 cannot move, once it is between two requests.
fn drain<B: Backend>(core: &mut Core<B>, index: u32) {
    let session = core.sessions.at(index);
    command::session::leave(&mut session.state);
    let rests = session.phase == Phase::Open && session.place == SessionPlace::Idle && session.out.is_none();
    if rests && session.input.is_none() && !session.state.is_receiving() && !session.has_work() {
        core.drained += 1;
        output::farewell(core, index);
        output::kill(core, index);
    }
}

/// Closes the connections that wait for their peers and therefore cannot move.
fn close_waiting<B: Backend>(core: &mut Core<B>) {
    for index in 0..core.sessions.used_high() {
        let waits = |session: &Session<B::Stream>| match session.phase {
            Phase::Open => session.blocked || session.place == SessionPlace::Idle && !session.has_work(),
            Phase::Finishing | Phase::Lingering => true,
            Phase::Dead => false,
        };
        if core.sessions.peek(index).is_some_and(waits) {
            if core.sessions.peek(index).is_some_and(|session| session.out.is_none()) {
                output::farewell(core, index as u32);
            }
            output::kill(core, index as u32);
        }
    }
}

/// Restores the connections that were taken over from another process.
#[cold]
pub(super) fn set_up_taken_over<B: Backend>(core: &mut Core<B>, guard: &mut Guard<'_>) {
    for (index, carried) in std::mem::take(&mut core.taken_over) {
        if core.sessions.peek(index as usize).is_some_and(|session| session.phase == Phase::Open) {
            restore_connection(core, index, &carried, guard);
        }
        // The acceptor waits for this count before it hands over connections that could publish.
        core.ctx.counters().connections_total.add(1);
    }
}

/// Restores the state that a connection had in the other process.
fn restore_connection<B: Backend>(
    core: &mut Core<B>,
    index: u32,
    carried: &Arc<HandoverConnection>,
    guard: &mut Guard<'_>,
) {
    if !carried.has_known_user(core.ctx.shared.auth.as_deref(), &core.ctx.shared.users) {
        return output::kill(core, index);
    }
    let session = core.sessions.at(index);
    session.state.resume_as(carried, &core.ctx.shared);
    session.early = EarlyInput::of(carried);
    if carried.endpoint.protocol == Protocol::Resp {
        let texts = carried.client_texts();
        core.ctx.connection_table().client_info(index, |client_info| {
            [client_info.name, client_info.library, client_info.library_version, client_info.user] = texts;
            (client_info.is_resp3, client_info.database) = (carried.is_resp3, carried.namespace.0);
            client_info.waits_until = carried.waits_until;
        });
    }
    core.ctx.push.watch.connection = index;
    if !core.sessions.at(index).state.restore(carried, guard, &mut core.ctx) {
        tracing::warn!("cannot restore the subscriptions or transaction of a connection: no memory; closing it");
        return output::kill(core, index);
    }
    if !carried.output.is_empty() {
        let Some(out) = core.buffers.output_of(&carried.output) else {
            tracing::warn!("cannot restore the unsent answers of a connection: no memory; closing it");
            return output::kill(core, index);
        };
        let session = core.sessions.at(index);
        session.out = Some(out);
        (session.blocked, session.sending) = (true, true);
        core.holders.note_output(index, core.now_ns);
    }
    let session = core.sessions.at(index);
    session.readable |= session.early.is_some();
    if session.has_work() {
        core.make_ready(index);
    }
}

/// Returns the state of a session that can move now, or `None` if the session cannot move. Subtracts its unsent bytes
/// from `output_left`.
fn handover_of<S>(session: &mut Session<S>, store: &Store, output_left: &mut u64) -> Option<HandoverConnection> {
    let is_free = session.phase == Phase::Open
        && (session.out.is_none() || session.blocked)
        && !session.ended
        && session.place != SessionPlace::Batch;
    let unsent = session.out.as_ref().map_or(0, |out| out.unsent());
    if !is_free || unsent > OUTPUT_BYTES_MAX.min(*output_left) {
        return None;
    }
    let held = session.input.as_ref().map_or(&[][..], |input| input.bytes());
    let mut carried = session.state.to_handover(held)?;
    *output_left -= unsent;
    let mut output = session.out.as_mut().map_or_else(Vec::new, |out| out.take_unsent(store));
    output.append(&mut carried.output);
    if carried.watches != 0 {
        // A subscriber's messages are collected after the last worker has ended, but a watcher's lines are collected
        // now.
        let mut part = [0; 4096];
        while let bytes @ 1.. = session.state.take_messages(&mut part) {
            output.extend_from_slice(&part[..bytes]);
        }
    }
    carried.output = output;
    carried.input.extend_from_slice(session.early.as_ref().map_or(&[][..], |early| early.rest()));
    Some(carried)
}
