//! Chooses connections for due requests and sends their bytes.

use super::{BLIND_BYTES_MAX, Core, Pacing, fault_name};
use crate::engine::connection::{ConnectionState, InFlight};
use crate::engine::net::Net;
use crate::traffic::Traffic;
use link::Moved;

impl<N: Net, T: Traffic> Core<'_, N, T> {
    pub(super) fn let_out(&mut self, now_ns: u64) {
        if now_ns < self.start_ns {
            return;
        }
        if self.control.is_stopped() && now_ns < self.end_ns {
            self.end_ns = now_ns;
            self.recorder.cut(now_ns);
        }
        self.follow_rate(now_ns);
        if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
            intents.poll();
        }
        self.is_stuck = false;
        if self.redirected_count > 0 {
            self.repeat_redirected();
        }
        while self.traffic.has_follow_up() && self.let_one_out(now_ns, now_ns, 1) {}
        match self.pacing {
            Pacing::Open(_) | Pacing::Blind(Some(_)) => {
                while self.left > 0 && !self.traffic.is_exhausted() {
                    let due_ns = self.next_due_ns();
                    if due_ns > now_ns || !self.let_batch_out(due_ns, now_ns) {
                        break;
                    }
                    if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
                        intents.take_ns();
                    }
                }
            }
            Pacing::Closed | Pacing::Blind(None) => {
                while now_ns < self.end_ns
                    && self.left > 0
                    && !self.traffic.is_exhausted()
                    && self.let_batch_out(now_ns, now_ns)
                {}
            }
        }
    }

    pub(super) fn follow_rate(&mut self, now_ns: u64) {
        let bits = self.control.rate_per_s().to_bits();
        if bits == self.rate_bits || !self.settings.follows_control {
            return;
        }
        self.rate_bits = bits;
        if let Pacing::Open(intents) | Pacing::Blind(Some(intents)) = &mut self.pacing {
            let batches_per_s = f64::from_bits(bits) / self.settings.batch as f64;
            intents.change_rate(now_ns.saturating_sub(self.start_ns), batches_per_s);
        }
    }

    /// Hands the requests of one instant to connections with room. Returns false if some of the requests still wait for
    /// room.
    fn let_batch_out(&mut self, intended_ns: u64, now_ns: u64) -> bool {
        if self.batch_left == 0 {
            self.batch += 1;
            self.batch_left = self.left.min(self.settings.batch as u64) as usize;
        }
        while self.batch_left > 0 && !self.traffic.is_exhausted() {
            if !self.let_one_out(intended_ns, now_ns, self.batch_left) {
                self.is_stuck = true;
                return false;
            }
            self.left -= 1;
            self.batch_left -= 1;
        }
        self.batch_left = 0;
        true
    }

    /// Hands the next request to a connection that has begun this batch or has room for `requests`. Returns false if
    /// there is none.
    pub(super) fn let_one_out(&mut self, intended_ns: u64, now_ns: u64, requests: usize) -> bool {
        let list = if self.settings.routed { self.traffic.target() } else { 0 };
        let Some(index) = self.take_ready(list, requests) else { return false };
        let connection = &mut self.connections[index as usize];
        let pending = self.traffic.next(index as usize, &mut connection.out);
        let room_ns = self.room_ns[list];
        if matches!(self.pacing, Pacing::Blind(_)) {
            self.recorder.send(intended_ns, room_ns, now_ns);
            connection.blocked = requests <= 1 && connection.unsent_bytes() >= BLIND_BYTES_MAX;
        } else {
            connection.in_flight.push_back(InFlight { pending, intended_ns, room_ns, sent_ns: 0, redirects: 0 });
            self.in_flight += 1;
        }
        // A closed loop fills one connection before the next; a scheduled run rotates through them.
        self.hand_back(index, list, matches!(self.pacing, Pacing::Closed), requests > 1);
        true
    }

    /// Removes and returns the connection of `list` that has had room for the longest, among those that have begun this
    /// batch or have room for `requests`.
    pub(super) fn take_ready(&mut self, list: usize, requests: usize) -> Option<u32> {
        loop {
            let index = self.ready[list].pop_front()?;
            let connection = &mut self.connections[index as usize];
            connection.queued = false;
            let wanted = if connection.batch == self.batch { 1 } else { requests };
            if connection.has_room(wanted, self.settings.depth) {
                return Some(index);
            }
        }
    }

    /// Puts a connection that was handed a request back into its list, if it has room: at the front if `in_front`,
    /// otherwise at the back. If its batch continues (`goes_on`), the connection is put at the front even without room.
    /// Marks its bytes for sending.
    pub(super) fn hand_back(&mut self, index: u32, list: usize, in_front: bool, goes_on: bool) {
        let connection = &mut self.connections[index as usize];
        if goes_on {
            connection.batch = self.batch;
        }
        if goes_on || connection.has_room(self.settings.batch, self.settings.depth) {
            connection.queued = true;
            if goes_on || in_front {
                self.ready[list].push_front(index);
            } else {
                self.ready[list].push_back(index);
            }
        }
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Adds a connection with room to its list.
    pub(super) fn queue(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.queued || !connection.has_room(self.settings.batch, self.settings.depth) {
            return;
        }
        connection.queued = true;
        self.is_stuck = false;
        let list = if self.settings.routed { connection.target } else { 0 };
        if self.ready[list].is_empty() {
            self.room_ns[list] = now_ns;
        }
        self.ready[list].push_back(index as u32);
    }

    pub(super) fn flush(&mut self) {
        while let Some(index) = self.dirty.pop() {
            self.connections[index as usize].dirty = false;
            self.send(index as usize);
        }
    }

    pub(super) fn send(&mut self, index: usize) {
        let now_ns = self.net.now_ns();
        let connection = &mut self.connections[index];
        if !matches!(connection.state, ConnectionState::Up | ConnectionState::Greeting)
            || connection.unsent_bytes() == 0
        {
            return;
        }
        let is_up = connection.state == ConnectionState::Up;
        let closed = matches!(self.pacing, Pacing::Closed);
        for request in connection.in_flight.range_mut(connection.stamped..) {
            if request.redirects > 0 {
                continue;
            }
            request.sent_ns = now_ns;
            if is_up {
                if closed {
                    (request.intended_ns, request.room_ns) = (now_ns, now_ns);
                }
                self.recorder.send(request.intended_ns, request.room_ns, now_ns);
            }
        }
        connection.stamped = connection.in_flight.len();
        match self.net.send(index, &connection.out[connection.out_begin..]) {
            Moved::Bytes(bytes) => {
                connection.sent(bytes);
                connection.blocked = connection.unsent_bytes() > 0;
                self.recorder.bytes_out(now_ns, bytes as u64);
                self.queue(index, now_ns);
            }
            Moved::Blocked => connection.blocked = true,
            Moved::Closed => {
                self.lose(index, now_ns, "closed-by-server", "the connection closed while requests were being sent")
            }
            Moved::Broken(error) => self.lose(index, now_ns, fault_name(&error), &error.to_string()),
        }
    }
}
