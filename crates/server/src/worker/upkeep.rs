//! Work outside requests: timeouts, slow readers that hold the store's memory, a stop in progress, and releasing ended
//! connections.

use super::Core;
use super::batch::COPIED_BYTES_MAX;
use super::output::LINGER_NS;
use crate::buffers::Input;
use crate::session::{Phase, Place, Table};
use command::visit::clock::Ticks;
use io::Backend;
use segment::Guard;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The time in which the whole table is checked once, a slice in each iteration.
const SWEEP_NS: u64 = 1_000_000_000;
/// The maximum number of ended connections that one iteration releases, and of those that remain unfinished after a
/// step.
pub(super) const GRAVES_A_TURN: usize = 64;
const UNFINISHED_A_TURN: usize = 2;
/// The time that a reader may hold pinned values while others wait for memory to pin.
const PIN_GRACE_NS: u64 = 1_000_000_000;
/// The time that a blocked reader holds its values pinned before they are copied, if they fit into a big block.
const COPY_OUT_NS: u64 = 100_000_000;
/// The time that a reader may take nothing of a retained reply while client memory is short.
const READ_GRACE_NS: u64 = 100_000_000;
/// The interval at which blocked readers with pins, and refused pins, are checked.
pub(super) const PIN_CHECK: Duration = Duration::from_millis(25);

/// Blocked sessions with pinned values, each once.
pub(super) struct Pinners {
    pub(super) sessions: Vec<u32>,
    /// The instant since which each session is in the list, in ns of the worker's life. 0: not in the list.
    since_ns: Vec<u64>,
}

impl Pinners {
    pub(super) fn new(sessions_max: usize) -> Self {
        Self { sessions: Vec::with_capacity(sessions_max), since_ns: vec![0; sessions_max] }
    }
}

impl<B: Backend> Core<B> {
    /// Ends an iteration.
    pub(super) fn upkeep(&mut self) {
        if self.shared.threads.drain.is_on() {
            self.report_arriving();
        }
        if self.shared.threads.stop.is_shut() {
            if self.shared.threads.stop.hands_over() { self.move_out() } else { self.stop() }
        }
        if self.holders.is_busy {
            self.relieve_holders();
        }
        let elapsed_ns = self.now_ns - self.swept_ns;
        let due = (self.sessions.used_high() as u64 * elapsed_ns.min(SWEEP_NS) / SWEEP_NS) as usize;
        if due > 0 {
            self.swept_ns = self.now_ns;
            self.sweep(due);
        } else if elapsed_ns > SWEEP_NS {
            self.swept_ns = self.now_ns;
        }
        if self.now_ns - self.pins_checked_ns >= PIN_CHECK.as_nanos() as u64 {
            self.pins_checked_ns = self.now_ns;
            self.relieve_pinners();
            if self.ctx.shared.pins.take_wanted() {
                self.drop_slowest_pinner();
            }
            let sessions = &self.sessions;
            self.keepers.retain(|index| holds_reply(sessions, *index).is_some());
            if self.ctx.shared.budget.is_short() {
                self.drop_oldest_readers();
            }
        }
    }

    /// Adds a session that has just been blocked with pinned values.
    pub(super) fn note_pinner(&mut self, index: u32) {
        let Pinners { sessions, since_ns } = &mut self.pinners;
        if std::mem::replace(&mut since_ns[index as usize], self.now_ns.max(1)) == 0 {
            sessions.push(index);
        }
    }

    /// Copies what slow readers hold pinned, if it fits and a block is free. Other values stay pinned until the reader
    /// takes them, another session waits for a pin, or the stall timeout is over.
    fn relieve_pinners(&mut self) {
        let mut at = 0;
        while let Some(index) = self.pinners.sessions.get(at).copied() {
            let pinned_ns = self.now_ns.saturating_sub(self.pinners.since_ns[index as usize]);
            if !pins(&self.sessions, index) || (pinned_ns >= COPY_OUT_NS && self.copy_out(index)) {
                self.pinners.sessions.swap_remove(at);
                self.pinners.since_ns[index as usize] = 0;
            } else {
                at += 1;
            }
        }
    }

    /// Copies one session's pinned values. Returns false if they are too long, or if no block is free.
    fn copy_out(&mut self, index: u32) -> bool {
        let Some(out) = &mut self.sessions.at(index).out else { return true };
        if out.unsent() > self.buffers.big_bytes() as u64 {
            return false;
        }
        let Some(block) = self.buffers.take_spare_big_out() else { return false };
        if let Some(block) = out.copy_out(&self.ctx.shared.store, block, |pinned| self.ctx.unpin(pinned)) {
            self.buffers.put_big_out(block);
        }
        self.ctx.counters().copied_out.add(1);
        true
    }

    /// Checks the next `count` slots of the table for timeouts.
    fn sweep(&mut self, count: usize) {
        let live = &self.ctx.shared.live;
        let idle_ns = live.idle_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
        let stall_ns = live.stall_timeout_ms.load(Relaxed).saturating_mul(1_000_000);
        let wanted = self.waiting.iter().any(|list| !list.is_empty());
        for _ in 0..count {
            self.sweep_at = (self.sweep_at + 1) % self.sessions.used_high();
            let Some(session) = self.sessions.peek(self.sweep_at) else {
                continue;
            };
            let unmoved_ns = self.now_ns.saturating_sub(session.moved_ns);
            let silent_ns = self.now_ns.saturating_sub(session.received_ns);
            let held_ns = self.now_ns.saturating_sub(session.held_ns);
            let received_secs = self.ctx.now.secs().saturating_sub(silent_ns / 1_000_000_000);
            self.ctx.connection_table().seen(self.sweep_at as u32, received_secs, session.state.watches());
            if let Some(command) = session.state.last_command() {
                self.ctx
                    .connection_table()
                    .client_info(self.sweep_at as u32, |client_info| client_info.command = command);
            }
            let counters = self.ctx.counters();
            let end = match session.phase {
                Phase::Dead => None,
                // A watcher sends nothing and may read at any time, as long as its peer is connected.
                Phase::Open if session.state.watches() && !session.hangup => None,
                Phase::Lingering => (unmoved_ns >= LINGER_NS).then_some(None),
                _ if session.blocked => (unmoved_ns >= stall_ns).then_some(Some(&counters.slow_readers_dropped)),
                _ if session.place != Place::Idle => None,
                _ if wanted && session.input.as_ref().is_some_and(Input::is_lent) && held_ns >= stall_ns => {
                    Some(Some(&counters.slow_senders_dropped))
                }
                _ if session.state.listens() => None,
                _ => (idle_ns > 0 && silent_ns >= idle_ns).then_some(Some(&counters.idle_closed)),
            };
            if let Some(counter) = end {
                if let Some(counter) = counter {
                    counter.add(1);
                }
                self.kill(self.sweep_at as u32);
            }
        }
    }

    /// Closes the slowest of this worker's readers that have taken nothing for a while, because a value could not be
    /// pinned.
    fn drop_slowest_pinner(&mut self) {
        let slowest = (self.pinners.sessions.iter())
            .filter(|index| pins(&self.sessions, **index))
            .filter_map(|index| self.sessions.peek(*index as usize).map(|session| (*index, session.moved_ns)))
            .filter(|(_, moved_ns)| self.now_ns.saturating_sub(*moved_ns) >= PIN_GRACE_NS)
            .min_by_key(|(_, moved_ns)| *moved_ns);
        if let Some((index, _)) = slowest {
            self.ctx.counters().slow_readers_dropped.add(1);
            self.kill(index);
        }
    }

    /// Adds a session that has just been blocked with a reply that is retained outside the store.
    pub(super) fn note_keeper(&mut self, index: u32) {
        if self.keepers.contains(&index) {
            return;
        }
        if self.keepers.len() == self.keepers.capacity() {
            // Sessions that retain no reply any more leave first. Each session is in the list once, so the number of
            // sessions bounds it.
            let sessions = &self.sessions;
            self.keepers.retain(|index| holds_reply(sessions, *index).is_some());
        }
        self.keepers.push(index);
    }

    /// Closes readers that take nothing of their retained replies, those with the oldest replies first, until client
    /// memory is no longer short.
    fn drop_oldest_readers(&mut self) {
        let budget = std::sync::Arc::clone(&self.ctx.shared.budget);
        let enough = budget.used().saturating_sub(budget.bytes_max() / 4 * 3);
        let mut freed = 0;
        while freed < enough.max(1) {
            let oldest = (self.keepers.iter().enumerate())
                .filter(|(_, index)| is_slow(&self.sessions, **index, self.now_ns))
                .filter_map(|(place, index)| Some((place, *index, holds_reply(&self.sessions, *index)?)))
                .min_by_key(|(_, _, (since, _))| *since);
            let Some((place, index, (_, bytes))) = oldest else { return };
            self.keepers.swap_remove(place);
            self.ctx.counters().client_memory_dropped.add(1);
            self.kill(index);
            freed += bytes;
        }
    }

    /// Advances a stop: closes watchers at once, other connections between two requests, and all when the time is over.
    fn stop(&mut self) {
        match self.stop_deadline_ns {
            None => {
                self.stop_deadline_ns = Some(self.now_ns + self.shared.config.stop_timeout.as_nanos() as u64);
                for index in 0..self.sessions.used_high() {
                    let Some(session) = self.sessions.peek(index) else { continue };
                    if session.phase == Phase::Open && session.state.watches() {
                        self.kill(index as u32);
                    } else if session.phase == Phase::Open {
                        // One more receive shows whether a request is on its way.
                        self.sessions.at(index as u32).readable = true;
                        self.make_ready(index as u32);
                    }
                }
            }
            Some(deadline) if self.now_ns >= deadline => self.kill_all(),
            Some(_) => {}
        }
    }

    /// Closes every connection, with its unsent bytes.
    pub(super) fn kill_all(&mut self) {
        for index in 0..self.sessions.used_high() {
            if self.sessions.peek(index).is_some_and(|s| s.phase != Phase::Dead) {
                self.kill(index as u32);
            }
        }
        // The reads that they wait for may take long.
        self.call_back_coming(usize::MAX, |_| true);
    }

    /// Releases what ended connections held in the store: [`GRAVES_A_TURN`] of them, and few of those that held much.
    /// An unfinished connection is retried in the next iteration, behind the others.
    pub(super) fn release(&mut self, guard: &mut Guard<'_>) {
        let mut unfinished = 0;
        for number in 0..self.graves.len().min(GRAVES_A_TURN) {
            if number > 0 && self.is_over() {
                break;
            }
            let Some(index) = self.graves.pop_front() else { break };
            let session = self.sessions.at(index);
            guard.serve(session.token.0, COPIED_BYTES_MAX);
            if !session.state.release(guard, &mut self.ctx) {
                self.graves.push_back(index);
                unfinished += 1;
                if unfinished == UNFINISHED_A_TURN {
                    break;
                }
                continue;
            }
            let state = self.sessions.remove(index);
            self.ctx.shared.namespaces.leave(state.namespace());
            self.ctx.connection_table().close(index);
            self.ctx.counters().connections_closed.add(1);
        }
    }
}

/// Returns when a blocked session's retained reply was made, and its bytes.
fn holds_reply<S>(sessions: &Table<S>, index: u32) -> Option<(Ticks, u64)> {
    let session = sessions.peek(index as usize).filter(|session| session.blocked && session.phase != Phase::Dead)?;
    session.state.reply_held()
}

/// Returns true if a session takes nothing of its output.
fn is_slow<S>(sessions: &Table<S>, index: u32, now_ns: u64) -> bool {
    let moved_ns = sessions.peek(index as usize).map_or(now_ns, |session| session.moved_ns);
    now_ns.saturating_sub(moved_ns) >= READ_GRACE_NS
}

/// Returns true if a session is blocked and holds pinned values.
fn pins<S>(sessions: &Table<S>, index: u32) -> bool {
    let session = sessions.peek(index as usize);
    session.is_some_and(|s| s.blocked && s.out.as_ref().is_some_and(|out| out.pinned_bytes() > 0))
}
