//! Opens, greets and closes connections, and handles connections that fail.

use super::Core;
use crate::engine::connection::{ConnectionState, InFlight};
use crate::engine::net::{Connecting, Net};
use crate::measure::{EndedRequest, Fate, Recorder};
use crate::traffic::Traffic;
use link::tls::Failure;
use std::cmp::Reverse;

impl<N: Net, T: Traffic> Core<'_, N, T> {
    pub(super) fn make_connections(&mut self, now_ns: u64) {
        while self.storming || self.connecting < self.settings.connects_at_once_max {
            match self.to_make.peek() {
                Some(Reverse((from_ns, _))) if *from_ns <= now_ns => {}
                _ => break,
            }
            let Some(Reverse((_, index))) = self.to_make.pop() else { break };
            self.make(index as usize, now_ns);
        }
        self.storming &= self.up < self.connections.len();
    }

    pub(super) fn make(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        debug_assert_eq!(connection.state, ConnectionState::Waiting, "only a closed connection is opened");
        connection.state = ConnectionState::Connecting;
        connection.since_ns = now_ns;
        self.connecting += 1;
        let made = self.net.connect(index, connection.target);
        self.connect_went(index, made, now_ns);
    }

    pub(super) fn connect_went(&mut self, index: usize, made: Connecting, now_ns: u64) {
        match made {
            Connecting::UnderWay => {}
            Connecting::Failed(error) => {
                let name = match Failure::in_error(&error) {
                    Some(failure) => failure.name,
                    None if error.kind() == std::io::ErrorKind::ConnectionRefused => "connect-refused",
                    None => "connect-failed",
                };
                self.lose(index, now_ns, name, &error.to_string());
            }
            Connecting::Done => {
                if let Some(secured) = self.net.secured(index) {
                    self.recorder.secured(&secured);
                }
                let connection = &mut self.connections[index];
                connection.state = ConnectionState::Greeting;
                let greeting = self.traffic.greet(index, &mut connection.out);
                for pending in greeting {
                    let request =
                        InFlight { pending, intended_ns: now_ns, room_ns: now_ns, sent_ns: now_ns, redirects: 0 };
                    connection.in_flight.push_back(request);
                    self.in_flight += 1;
                }
                if connection.in_flight.is_empty() && !self.traffic.is_multiplexed() {
                    self.is_up(index, now_ns);
                }
                self.send(index);
            }
        }
    }

    pub(super) fn is_up(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        connection.state = ConnectionState::Up;
        self.connecting -= 1;
        self.up += 1;
        self.recorder.connected(now_ns.saturating_sub(connection.since_ns));
        self.queue(index, now_ns);
    }

    /// Closes a connection and allows a new attempt from `from_ns` on.
    pub(super) fn take_down(&mut self, index: usize, from_ns: u64) {
        let connection = &mut self.connections[index];
        match connection.state {
            ConnectionState::Waiting => return,
            ConnectionState::Connecting | ConnectionState::Greeting => self.connecting -= 1,
            ConnectionState::Up => self.up -= 1,
        }
        connection.reset();
        self.net.close(index);
        self.to_make.push(Reverse((from_ns, index as u32)));
    }

    pub(super) fn close_on_purpose(&mut self, index: usize, now_ns: u64) {
        self.take_down(index, now_ns);
    }

    /// Handles a failed connection: its requests in flight count as lost, with the time that they have waited.
    pub(super) fn lose(&mut self, index: usize, now_ns: u64, name: &str, what: &str) {
        let connection = &mut self.connections[index];
        let target = &self.settings.names[connection.target];
        self.recorder.fault(name, || format!("{target}: {what}"));
        self.lose_in_flight(index, now_ns);
        self.take_down(index, now_ns.saturating_add(self.settings.pause_ns).max(1));
    }

    pub(super) fn lose_in_flight(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        let is_up = connection.state == ConnectionState::Up;
        for (at, mut request) in connection.in_flight.drain(..).enumerate() {
            self.in_flight -= 1;
            if !is_up {
                continue;
            }
            if at >= connection.stamped && request.redirects == 0 {
                self.recorder.send(request.intended_ns, request.room_ns, now_ns);
                request.sent_ns = now_ns;
            }
            lose_request(&mut self.recorder, &request, now_ns);
        }
        connection.stamped = 0;
    }
}

/// Records a sent request that will get no reply.
pub(super) fn lose_request(recorder: &mut Recorder, request: &InFlight, now_ns: u64) {
    recorder.end(&EndedRequest {
        verb: request.pending.verb,
        fate: Fate::Lost,
        read_bytes: 0,
        written_bytes: request.pending.value_bytes,
        intended_ns: request.intended_ns,
        sent_ns: request.sent_ns,
        ended_ns: now_ns,
    });
}
