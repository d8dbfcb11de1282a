//! Ends a run and gives up its outstanding requests.

use super::{Core, Pacing};
use crate::engine::connection::ConnectionState;
use crate::engine::net::Net;
use crate::measure::Snapshot;
use crate::traffic::Traffic;

impl<N: Net, T: Traffic> Core<'_, N, T> {
    pub(super) fn is_over(&self, now_ns: u64) -> bool {
        if !self.started {
            return false;
        }
        let nothing_left = self.is_exhausted();
        if now_ns < self.end_ns {
            return nothing_left && self.in_flight == 0 && !self.traffic.has_follow_up();
        }
        if matches!(self.pacing, Pacing::Blind(_)) {
            return true;
        }
        let behind = !nothing_left && self.next_due_ns() != u64::MAX;
        let idle = self.in_flight == 0 && !behind && !self.traffic.has_follow_up();
        idle || now_ns >= self.end_ns.saturating_add(self.settings.drain_ns)
    }

    /// Gives up outstanding requests and returns the figures, the traffic and the net.
    pub fn finish(mut self) -> (Snapshot, T, N) {
        let now_ns = self.net.now_ns();
        self.lose_redirected(now_ns);
        for index in 0..self.connections.len() {
            let waiting = self.connections[index].in_flight.len();
            if waiting > 0 && self.connections[index].state == ConnectionState::Up {
                let target = &self.settings.names[self.connections[index].target];
                self.recorder.fault("unanswered-at-end", || {
                    format!("{target}: {waiting} requests on a connection had no reply at the end")
                });
            }
            self.lose_in_flight(index, now_ns);
            if self.connections[index].state != ConnectionState::Waiting {
                self.net.close(index);
            }
        }
        if let Pacing::Open(_) | Pacing::Blind(Some(_)) = &self.pacing {
            self.give_up_what_is_due(now_ns);
        }
        if now_ns < self.end_ns {
            self.recorder.cut(now_ns);
        }
        if self.started {
            self.hand_over_slice(now_ns);
        }
        (self.recorder.finish(), self.traffic, self.net)
    }

    pub(super) fn give_up_what_is_due(&mut self, now_ns: u64) {
        while self.left > 0 && !self.traffic.is_exhausted() {
            let due_ns = self.next_due_ns();
            if due_ns >= now_ns {
                break;
            }
            if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
                intents.take_ns();
            }
            let batch = if self.batch_left > 0 { self.batch_left } else { self.settings.batch };
            let batch = self.left.min(batch as u64);
            for _ in 0..batch {
                self.recorder.abandon(due_ns, now_ns);
            }
            self.left -= batch;
            self.batch_left = 0;
        }
    }
}
