//! The measurements of a run: times by verb, fate and size, counts, a timeline, and faults.
//!
//! ```text
//!   thread   Recorder  -- a slice per second ->  timeline       every thread records into its own memory;
//!            Recorder  -- at the end -------->  Snapshot        only slices are handed over while it runs
//!
//!   intended        sent            replied
//!      |--- held up --|---- service ----|        response = from intended to replied
//!      |------------ response ----------|        service  = from sent to replied
//! ```
//!
//! The figures include a request if its intended instant lies after the warm-up and before the end. Each such request
//! is in [`Snapshot::response`] exactly once. A request without a reply counts with the time until it was given up; its
//! reply would have taken longer.

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

/// Lateness from which a request counts as late, in nanoseconds after its intended instant.
pub const LATE_NS: u64 = 1_000_000;
/// Highest number of cells in one snapshot, including one from another host.
const CELLS_MAX: usize = 4096;

/// The times of one verb, fate and size class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Index into [`Snapshot::verbs`].
    pub verb: usize,
    /// The fate of the requests.
    pub fate: Fate,
    /// The size of their values.
    pub size: SizeClass,
    /// Response times, from the intended instant.
    pub response: Histogram,
    /// Service times, from the send.
    pub service: Histogram,
}

/// A failure, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFailure {
    /// A short, stable name: `connect-refused`, `closed-by-server`, `garbage`, `timeout` ...
    pub name: String,
    /// Number of times.
    pub count: u64,
    /// The first occurrence in full: the target and the observation.
    pub first: String,
}

/// Counts of a run's measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests that were due between the warm-up and the end.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests with a reply, before or after the end.
    pub answered: u64,
    /// Reads that found their key, and writes that succeeded.
    pub hits: u64,
    /// Reads that did not find their key, and writes whose condition failed.
    pub misses: u64,
    /// Requests that got an error as reply.
    pub errors: u64,
    /// Requests whose reply had another value than expected.
    pub wrong: u64,
    /// Requests that were sent and never got a reply.
    pub lost: u64,
    /// Requests that were due and never sent.
    pub unsent: u64,
    /// Requests sent more than [`LATE_NS`] after their intended instant because no connection had room.
    pub late_for_room: u64,
    /// Requests sent more than [`LATE_NS`] after their intended instant although there was room: the generator was
    /// late.
    pub late_by_generator: u64,
    /// Bytes sent in the measured part, protocol included.
    pub bytes_sent: u64,
    /// Bytes received in the measured part.
    pub bytes_received: u64,
    /// Bytes of values that were read.
    pub value_bytes_read: u64,
    /// Bytes of values that were written.
    pub value_bytes_written: u64,
    /// Requests whose intended instant lay within the warm-up.
    pub warm_up: u64,
    /// Connections that were opened, including the first ones.
    pub connects: u64,
    /// Redirects to another target; the redirected request counts once.
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

    /// Returns the share of due requests that an objective on errors counts, from 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let failed = self.errors + self.wrong + self.lost + self.unsent;
        if self.due == 0 { 0.0 } else { failed as f64 / self.due as f64 }
    }
}

/// Connections with the same TLS version and cipher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsUse {
    /// The protocol and its version, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// Number of full handshakes.
    pub full: u64,
    /// Number of handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// All measurements of one stream of requests, of all threads together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The names of the verbs.
    pub verbs: Vec<String>,
    /// Length of the measured part in nanoseconds; shorter than requested if the run was stopped.
    pub measured_ns: u64,
    /// Counts of requests, bytes and connections.
    pub totals: Totals,
    /// Response times of all due requests, from the intended instant.
    pub response: Histogram,
    /// Service times of all sent requests, from the send.
    pub service: Histogram,
    /// Times by verb, fate and size class, without empty cells. Unsent requests are in no cell, because they have no
    /// verb.
    #[serde(deserialize_with = "cells")]
    pub cells: Vec<Cell>,
    /// Lateness of the generator: from the intended instant, or from the instant at which a connection had room if that
    /// was later, to the send.
    pub lateness: Histogram,
    /// Time for which requests waited for room on a connection.
    pub held_up: Histogram,
    /// Time to open a connection, including handshake and greeting.
    pub connect: Histogram,
    /// Time of the TLS handshakes.
    pub handshake: Histogram,
    /// The TLS versions and ciphers of the connections; empty without TLS.
    pub tls: Vec<TlsUse>,
    /// The run in slices, including the warm-up.
    pub timeline: Vec<Slice>,
    /// Failures, the most frequent first.
    pub faults: Vec<NamedFailure>,
}

/// Deserialises cells. Each cell takes half a megabyte, so a result with more than [`CELLS_MAX`] cells is
/// refused.
fn cells<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Cell>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Cell>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "the result has more than {CELLS_MAX} cells")
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
    /// Returns the replies per second in the measured part.
    pub fn answered_per_s(&self) -> f64 {
        if self.measured_ns == 0 { 0.0 } else { self.totals.answered as f64 * 1e9 / self.measured_ns as f64 }
    }

    /// Adds the figures of another thread or host with the same verbs and the same length. Timelines are joined by
    /// slice number.
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
