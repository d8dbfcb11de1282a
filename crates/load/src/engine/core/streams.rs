//! Matches replies with their requests by the streams of a multiplexed connection.
//!
//! Invariant: a request past its time limit ends as an error, whether its reply arrives late or never. The connection
//! and its other requests continue.

use super::Core;
use super::answers::Unread;
use super::redirect::may_repeat;
use crate::engine::connection::{ConnectionState, InFlight};
use crate::engine::net::Net;
use crate::measure::{EndedRequest, Fate};
use crate::traffic::{ReplyOutcome, StreamProgress, Traffic};

/// Name of the fault of a request whose reply was not there within its time limit.
const LATE: &str = "grpc-deadline-exceeded";

/// Returns how many of `bytes` were handled. The error has the offset and the reason of invalid bytes.
pub(super) fn match_streams<N: Net, T: Traffic>(
    core: &mut Core<'_, N, T>,
    index: usize,
    bytes: &[u8],
    now_ns: u64,
) -> Result<usize, Unread> {
    let mut used = 0;
    loop {
        let connection = &mut core.connections[index];
        let (taken, progress) = core.traffic.arrived(index, &bytes[used..], &mut connection.out);
        used += taken;
        match progress {
            StreamProgress::More => break,
            StreamProgress::Ready => {
                follow_limits(core, index);
                core.is_up(index, now_ns);
            }
            StreamProgress::Done { stream, outcome, value_bytes } => {
                if let Some(request) = connection.take_stream(stream) {
                    core.in_flight -= 1;
                    end_stream(core, index, &request, outcome, value_bytes, now_ns);
                }
            }
            StreamProgress::Again { stream } => {
                if let Some(request) = connection.take_stream(stream) {
                    refused(core, index, request, now_ns);
                }
            }
            StreamProgress::Garbage(what) => return Err(Unread::Garbage(used - taken, what)),
        }
    }
    follow_limits(core, index);
    mark_unsent(core, index);
    Ok(used)
}

/// Applies the limits that the server has set for the connection.
fn follow_limits<N: Net, T: Traffic>(core: &mut Core<'_, N, T>, index: usize) {
    let connection = &mut core.connections[index];
    match core.traffic.streams_max(index) {
        Some(streams_max) => connection.streams_max = streams_max,
        None => connection.closing = connection.state == ConnectionState::Up,
    }
}

/// Marks the bytes of a connection for sending, if there are any.
fn mark_unsent<N: Net, T: Traffic>(core: &mut Core<'_, N, T>, index: usize) {
    let connection = &mut core.connections[index];
    if connection.unsent_bytes() > 0 && !connection.dirty {
        connection.dirty = true;
        core.dirty.push(index as u32);
    }
}

/// Records the reply to `request`; a late one is an error.
fn end_stream<N: Net, T: Traffic>(
    core: &mut Core<'_, N, T>,
    index: usize,
    request: &InFlight,
    outcome: ReplyOutcome,
    value_bytes: u64,
    now_ns: u64,
) {
    let name = &core.settings.names[core.connections[index].target];
    let waited_ns = now_ns.saturating_sub(request.sent_ns);
    let is_late = waited_ns > core.settings.timeout_ns;
    if is_late {
        let waited_ms = waited_ns / 1_000_000;
        core.recorder
            .fault(LATE, || format!("{name}: no reply within the time limit, {waited_ms} ms after the request"));
    } else if outcome == ReplyOutcome::Error {
        let kind = core.traffic.error_name();
        core.recorder.fault(kind, || format!("{name}: {}", core.traffic.refusal()));
    }
    core.recorder.end(&EndedRequest {
        verb: request.pending.verb,
        fate: if is_late { Fate::Error } else { Fate::from(outcome) },
        read_bytes: value_bytes,
        written_bytes: request.pending.value_bytes,
        intended_ns: request.intended_ns,
        sent_ns: request.sent_ns,
        ended_ns: now_ns,
    });
}

/// Handles a request that the server has not processed: it is sent again, unless that happened too often.
fn refused<N: Net, T: Traffic>(core: &mut Core<'_, N, T>, index: usize, request: InFlight, now_ns: u64) {
    if may_repeat(&request, core.redirected_count) {
        let list = if core.settings.routed { core.connections[index].target } else { 0 };
        core.redirected[list].push_back(InFlight { redirects: request.redirects + 1, ..request });
        core.redirected_count += 1;
        return;
    }
    core.in_flight -= 1;
    end_stream(core, index, &request, ReplyOutcome::Error, 0, now_ns);
}

/// Ends the requests of a connection whose time limit is past.
pub(super) fn expire_streams<N: Net, T: Traffic>(core: &mut Core<'_, N, T>, index: usize, now_ns: u64) {
    let timeout_ns = core.settings.timeout_ns;
    let is_past = |request: &InFlight| now_ns.saturating_sub(request.sent_ns) > timeout_ns;
    let mut any = false;
    loop {
        let connection = &mut core.connections[index];
        let oldest = connection.in_flight.front().filter(|oldest| connection.stamped > 0 && is_past(oldest));
        let Some(stream) = oldest.map(|oldest| oldest.pending.stream) else { break };
        core.traffic.expire(index, stream, &mut connection.out);
        if let Some(request) = connection.take_stream(stream) {
            core.in_flight -= 1;
            end_stream(core, index, &request, ReplyOutcome::Error, 0, now_ns);
        }
        any = true;
    }
    if any {
        mark_unsent(core, index);
        core.answered(index, now_ns);
    }
}
