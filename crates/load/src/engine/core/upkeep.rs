//! Work triggered by the clock: slices, timeouts and deliberate closes.

use super::streams::expire_streams;
use super::{Core, Pacing};
use crate::engine::connection::ConnectionState;
use crate::engine::net::Net;
use crate::traffic::Traffic;

impl<N: Net, T: Traffic> Core<'_, N, T> {
    pub(super) fn upkeep(&mut self, now_ns: u64) {
        while now_ns >= self.next_slice_ns {
            self.hand_over_slice(now_ns);
            self.next_slice_ns = self.next_slice_ns.saturating_add(self.settings.slice_ns);
        }
        if now_ns >= self.next_tick_ns {
            self.next_tick_ns = now_ns + self.tick_ns;
            self.expire_requests(now_ns);
        }
        if now_ns >= self.next_storm_ns && now_ns < self.end_ns {
            self.next_storm_ns = self.next_storm_ns.saturating_add(self.settings.storm_every_ns);
            self.storm(now_ns);
        }
        while now_ns >= self.next_reconnect_ns && now_ns < self.end_ns {
            self.next_reconnect_ns = self.next_reconnect_ns.saturating_add(self.settings.reconnect_every_ns);
            self.close_next(now_ns);
        }
        if now_ns < self.end_ns {
            self.make_connections(now_ns);
        }
    }

    pub(super) fn hand_over_slice(&mut self, now_ns: u64) {
        let due_ns = self.next_due_ns();
        let rate_per_s = match &self.pacing {
            Pacing::Open(intents) | Pacing::Blind(Some(intents)) => intents.rate_per_s() * self.settings.batch as f64,
            Pacing::Closed | Pacing::Blind(None) => 0.0,
        };
        let slice = &mut self.recorder.slice;
        slice.rate_per_s = rate_per_s;
        slice.behind_ns = if matches!(self.pacing, Pacing::Blind(None)) { 0 } else { now_ns.saturating_sub(due_ns) };
        slice.in_flight = self.in_flight as u64;
        slice.connections = self.up as u64;
        let whole = slice.hand_out();
        if let Some(slices) = &self.slices
            && slices.try_send(whole).is_err()
        {
            self.recorder
                .fault("slice-lost", || "a slice of the timeline was lost: the receiver was too slow".to_owned());
        }
    }

    pub(super) fn expire_requests(&mut self, now_ns: u64) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            match connection.state {
                ConnectionState::Waiting => {}
                ConnectionState::Connecting | ConnectionState::Greeting => {
                    if now_ns.saturating_sub(connection.since_ns) > self.settings.connect_timeout_ns {
                        let (name, what) = self.net.overdue(index);
                        self.lose(index, now_ns, name, what);
                    }
                }
                ConnectionState::Up if self.traffic.is_multiplexed() => expire_streams(self, index, now_ns),
                ConnectionState::Up => {
                    let oldest_ns = connection.in_flight.front().map_or(u64::MAX, |request| request.sent_ns);
                    if connection.stamped > 0 && now_ns.saturating_sub(oldest_ns) > self.settings.timeout_ns {
                        self.lose(index, now_ns, "timeout", "the server did not reply in time");
                    }
                }
            }
        }
    }

    pub(super) fn storm(&mut self, now_ns: u64) {
        self.storming = true;
        for index in 0..self.connections.len() {
            self.close_when_idle(index, now_ns);
        }
    }

    /// Closes the next connection that is up; connections are closed in rotation.
    pub(super) fn close_next(&mut self, now_ns: u64) {
        for _ in 0..self.connections.len() {
            let index = self.reconnect_at;
            self.reconnect_at = (index + 1) % self.connections.len();
            if self.connections[index].state == ConnectionState::Up && !self.connections[index].closing {
                return self.close_when_idle(index, now_ns);
            }
        }
    }

    pub(super) fn close_when_idle(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.state != ConnectionState::Up {
            return;
        }
        connection.closing = true;
        if connection.in_flight.is_empty() {
            self.close_on_purpose(index, now_ns);
        }
    }
}
