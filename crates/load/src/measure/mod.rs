//! What a run measured: times by verb, fate and size, counts, a timeline, and what went wrong.
//!
//! ```text
//!   thread   Recorder  -- a slice a second -->  timeline        every thread files into its own memory;
//!            Recorder  -- at the end -------->  Snapshot        only slices are handed over while it runs
//!
//!   intended        sent            answered
//!      |--- held up --|---- service ----|        response = from intended to answered
//!      |------------ response ----------|        service  = from sent to answered
//! ```
//!
//! A request belongs to the figures when its intended instant lies behind the warm-up and before the end. Each of them
//! is in [`Snapshot::response`] exactly once, whatever became of it: one without an answer counts with the time that it
//! had waited when it was given up, which is less than the answer would have taken.

mod histogram;
mod kinds;
mod recorder;
mod timeline;

pub use histogram::{Histogram, TIME_NS_MAX};
pub use kinds::{Fate, SizeClass};
pub use recorder::{EndedRequest, Recorder};
pub use timeline::{RawSlice, Slice, Timeline, VerbCounts};

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A request is late when it is sent so many nanoseconds behind its intended instant.
pub const LATE_NS: u64 = 1_000_000;
/// Cells of one snapshot at most, whichever host has written it.
const CELLS_MAX: usize = 4096;

/// The times of one verb, fate and size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index into [`Snapshot::verbs`].
    pub verb: usize,
    /// The outcome of the requests.
    pub fate: Fate,
    /// The size of their values.
    pub size: SizeClass,
    /// From the intended instant.
    pub response: Histogram,
    /// From the send.
    pub service: Histogram,
}

/// A failure, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFailure {
    /// A short name that does not change: `connect-refused`, `closed-by-server`, `garbage`, `timeout` ...
    pub name: String,
    /// Number of times.
    pub count: u64,
    /// The first one in full: to whom, and what was seen.
    pub first: String,
}

/// Counts of a run's measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that were due between the warm-up and the end.
    pub due: u64,
    /// Of these: sent.
    pub sent: u64,
    /// Of these: answered, in time or behind the end.
    pub answered: u64,
    /// Of these: found or done.
    pub hits: u64,
    /// Of these: not found, or the condition did not hold.
    pub misses: u64,
    /// Of these: answered with an error.
    pub errors: u64,
    /// Of these: answered with another value than was expected.
    pub wrong: u64,
    /// Sent, and never answered.
    pub lost: u64,
    /// Due, and never sent.
    pub unsent: u64,
    /// Sent more than [`LATE_NS`] behind the intended instant because no connection had room.
    pub late_for_room: u64,
    /// Sent more than [`LATE_NS`] behind the intended instant although there was room: the generator was late.
    pub late_by_generator: u64,
    /// Bytes sent in the measured part, protocol included.
    pub bytes_sent: u64,
    /// Bytes received in the measured part.
    pub bytes_received: u64,
    /// Bytes of value read.
    pub value_bytes_read: u64,
    /// Bytes of value written.
    pub value_bytes_written: u64,
    /// Requests whose intended instant lay within the warm-up.
    pub warm_up: u64,
    /// Connections that were made, the first ones included.
    pub connects: u64,
    /// Answers that sent a request to another target; it is one request still.
    #[serde(default)]
    pub redirects: u64,
}

impl Totals {
    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Self) {
        self.due += other.due;
        self.sent += other.sent;
        self.answered += other.answered;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.unsent += other.unsent;
        self.late_for_room += other.late_for_room;
        self.late_by_generator += other.late_by_generator;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.value_bytes_read += other.value_bytes_read;
        self.value_bytes_written += other.value_bytes_written;
        self.warm_up += other.warm_up;
        self.connects += other.connects;
        self.redirects += other.redirects;
    }

    /// Requests that an objective on errors counts, as a share of those that were due: from 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let failed = self.errors + self.wrong + self.lost + self.unsent;
        if self.due == 0 { 0.0 } else { failed as f64 / self.due as f64 }
    }
}

/// Connections that were secured in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsUse {
    /// The protocol and its version, as `TLS 1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// Whole handshakes.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// Everything that one stream of requests measured, all threads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The verbs' names.
    pub verbs: Vec<String>,
    /// Length of the measured part in nanoseconds; shorter than asked for when the run was stopped.
    pub measured_ns: u64,
    /// Counts.
    pub totals: Totals,
    /// Every request that was due, from its intended instant.
    pub response: Histogram,
    /// Every request that was sent, from its send.
    pub service: Histogram,
    /// By verb, fate and size class; empty ones are left out. Unsent requests are in no cell: they have no verb.
    #[serde(deserialize_with = "cells")]
    pub cells: Vec<Cell>,
    /// Lateness of the generator itself: from the intended instant, or from when there was room for the
    /// request if that was later, to the send.
    pub lateness: Histogram,
    /// Time for which requests waited for room on a connection.
    pub held_up: Histogram,
    /// Time that opening a connection took, handshake and greeting included.
    pub connect: Histogram,
    /// Time that the handshakes of secured connections took.
    pub handshake: Histogram,
    /// Security of the connections; none: they were not secured.
    pub tls: Vec<TlsUse>,
    /// The run in slices, warm-up included.
    pub timeline: Vec<Slice>,
    /// Failures, the most frequent first.
    pub faults: Vec<NamedFailure>,
}

/// Cells that were written: each takes half a megabyte, so that more than there can be are refused.
fn cells<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Cell>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Cell>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {CELLS_MAX} cells")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<Cell>, A::Error> {
            let mut cells = Vec::new();
            while let Some(cell) = entries.next_element()? {
                if cells.len() == CELLS_MAX {
                    return Err(A::Error::invalid_length(CELLS_MAX + 1, &self));
                }
                cells.push(cell);
            }
            Ok(cells)
        }
    }
    deserializer.deserialize_seq(Bounded)
}

impl Snapshot {
    /// Answers a second in the measured part.
    pub fn answered_per_s(&self) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { self.totals.answered as f64 * 1e9 / self.measured_ns as f64 }
    }

    /// Adds another thread's or host's figures, of the same verbs and the same length. Timelines are joined by number.
    pub fn merge(&mut self, other: &Self) {
        if self.verbs.is_empty() {
            self.verbs.clone_from(&other.verbs);
        }
        self.measured_ns = self.measured_ns.max(other.measured_ns);
        self.totals.merge(&other.totals);
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.held_up.merge(&other.held_up);
        self.connect.merge(&other.connect);
        self.handshake.merge(&other.handshake);
        for used in &other.tls {
            match self.tls.iter_mut().find(|mine| (&mine.version, &mine.cipher) == (&used.version, &used.cipher)) {
                Some(mine) => {
                    mine.full += used.full;
                    mine.resumed += used.resumed;
                }
                None => self.tls.push(used.clone()),
            }
        }
        for cell in &other.cells {
            let same = |mine: &&mut Cell| (mine.verb, mine.fate, mine.size) == (cell.verb, cell.fate, cell.size);
            match self.cells.iter_mut().find(same) {
                Some(mine) => {
                    mine.response.merge(&cell.response);
                    mine.service.merge(&cell.service);
                }
                None => self.cells.push(cell.clone()),
            }
        }
        self.cells.sort_by_key(|cell| (cell.verb, cell.fate, cell.size));
        timeline::join(&mut self.timeline, &other.timeline);
        for fault in &other.faults {
            match self.faults.iter_mut().find(|mine| mine.name == fault.name) {
                Some(mine) => mine.count += fault.count,
                None => self.faults.push(fault.clone()),
            }
        }
        self.faults.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    }
}

#[cfg(test)]
mod tests;
