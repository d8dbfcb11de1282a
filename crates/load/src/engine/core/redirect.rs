//! Redirects: the server's reply sends a request to another target, because a hash slot has moved or is moving.
//!
//! ```text
//!   sent ---> MOVED ---> waits for room at the other target ---> sent again ---> replied
//!   |<------------------------------- one request, one time ------------------------------>|
//! ```
//! A redirected request stays in flight while it waits, and is sent before newly due requests. A request that a server
//! has refused before it processed it waits in the same way, for any connection to the same target.

use super::connections::lose_request;
use super::{Core, Pacing};
use crate::engine::connection::InFlight;
use crate::engine::net::Net;
use crate::traffic::Traffic;

/// Highest number of redirects of one request; a server that exceeds it is faulty.
const REDIRECTS_MAX: u8 = 16;
/// Highest number of redirected requests that wait for room.
const WAITING_REDIRECTS_MAX: usize = 65_536;

/// Returns whether `request` may be sent again, while `waiting` other requests wait to be sent again.
pub(super) fn may_repeat(request: &InFlight, waiting: usize) -> bool {
    request.redirects < REDIRECTS_MAX && waiting < WAITING_REDIRECTS_MAX
}

impl<N: Net, T: Traffic> Core<'_, N, T> {
    /// Returns whether `request` may be redirected to `target`. If not, the redirect counts as the request's reply.
    pub(super) fn may_go(&self, request: &InFlight, target: usize) -> bool {
        self.settings.routed && target < self.redirected.len() && may_repeat(request, self.redirected_count)
    }

    /// Queues `request`, which stays in flight, for `target`.
    pub(super) fn send_redirected(&mut self, request: InFlight, target: usize) {
        self.recorder.redirected(request.intended_ns);
        self.redirected[target].push_back(InFlight { redirects: request.redirects + 1, ..request });
        self.redirected_count += 1;
    }

    /// Hands waiting requests to connections of their targets that have room.
    pub(super) fn repeat_redirected(&mut self) {
        for target in 0..self.redirected.len() {
            while !self.redirected[target].is_empty() {
                let Some(index) = self.take_ready(target, 1) else { break };
                let Some(mut request) = self.redirected[target].pop_front() else { break };
                self.redirected_count -= 1;
                let connection = &mut self.connections[index as usize];
                self.traffic.repeat(index as usize, &mut request.pending, &mut connection.out);
                connection.in_flight.push_back(request);
                self.hand_back(index, target, matches!(self.pacing, Pacing::Closed), false);
            }
        }
    }

    /// Counts the requests that still wait at the end as lost.
    pub(super) fn lose_redirected(&mut self, now_ns: u64) {
        for target in 0..self.redirected.len() {
            let waiting = std::mem::take(&mut self.redirected[target]);
            if !waiting.is_empty() {
                let (count, name) = (waiting.len(), &self.settings.names[target]);
                self.recorder.fault("unanswered-at-end", || {
                    format!("{name}: {count} requests redirected to this target got no reply")
                });
            }
            for request in waiting {
                self.in_flight -= 1;
                lose_request(&mut self.recorder, &request, now_ns);
            }
        }
        self.redirected_count = 0;
    }
}
