//! The run in slices of equal length. A request counts in the slice in which it ended, so a stall shows as slices
//! without replies, followed by a slice with long times.

use super::{Fate, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

/// Counts of one verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerbCounts {
    /// Number of ended requests, by [`Fate`].
    pub ended: [u64; Fate::ALL.len()],
    /// Response times of these requests.
    pub response: Histogram,
}

impl VerbCounts {
    /// Adds the counts of `other` to the same verbs.
    fn add_all(verbs: &mut Vec<Self>, other: &[Self]) {
        verbs.resize_with(verbs.len().max(other.len()), Self::default);
        for (mine, theirs) in verbs.iter_mut().zip(other) {
            for (mine, theirs) in mine.ended.iter_mut().zip(theirs.ended) {
                *mine += theirs;
            }
            mine.response.merge(&theirs.response);
        }
    }
}

/// Counts of one thread in one slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawSlice {
    /// Number of the slice, from 0 at the start of the run.
    pub number: u64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of ended requests, by [`Fate`].
    pub ended: [u64; Fate::ALL.len()],
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Number of requests that were sent late.
    pub late: u64,
    /// Number of connections opened.
    pub connects: u64,
    /// Number of faults.
    pub faults: u64,
    /// Age of the oldest request that was due and not sent at the end of the slice, in nanoseconds.
    pub behind_ns: u64,
    /// Requests in flight at the end of the slice.
    pub in_flight: u64,
    /// Connections that were up at the end of the slice.
    pub connections: u64,
    /// The requested rate at the end of the slice, over all threads, in requests per second.
    pub rate_per_s: f64,
    /// Response times of the requests that ended.
    pub response: Histogram,
    /// Counts of each verb, if requested; otherwise empty.
    pub verbs: Vec<VerbCounts>,
}

impl RawSlice {
    /// Records that a request of verb number `verb` ended after `response_ns`.
    pub fn end(&mut self, verb: u8, fate: Fate, response_ns: u64) {
        self.ended[fate as usize] += 1;
        self.response.record(response_ns);
        if let Some(counts) = self.verbs.get_mut(usize::from(verb)) {
            counts.ended[fate as usize] += 1;
            counts.response.record(response_ns);
        }
    }

    /// Returns this slice and replaces it by the next, empty slice with the same number of verbs.
    pub fn hand_out(&mut self) -> Self {
        let verbs = self.verbs.iter().map(|_| VerbCounts::default()).collect();
        let next = Self { number: self.number + 1, verbs, ..Self::default() };
        std::mem::replace(self, next)
    }

    /// Adds another thread's slice with the same number.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.number, other.number, "both slices have the same number");
        self.sent += other.sent;
        for (mine, theirs) in self.ended.iter_mut().zip(other.ended) {
            *mine += theirs;
        }
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.late += other.late;
        self.connects += other.connects;
        self.faults += other.faults;
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.in_flight += other.in_flight;
        self.connections += other.connections;
        self.rate_per_s = self.rate_per_s.max(other.rate_per_s);
        self.response.merge(&other.response);
        VerbCounts::add_all(&mut self.verbs, &other.verbs);
    }

    /// Clears the slice and begins slice `number`, reusing the histogram's memory.
    pub fn restart(&mut self, number: u64) {
        let mut response = std::mem::take(&mut self.response);
        response.clear();
        *self = Self { number, response, ..Self::default() };
    }

    const fn of(&self, fate: Fate) -> u64 {
        self.ended[fate as usize]
    }
}

/// The counts of all threads in one slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Beginning of the slice, in nanoseconds from the start of the run.
    pub begin_ns: u64,
    /// Length of the slice in nanoseconds.
    pub length_ns: u64,
    /// True if the slice lies in the measured part: neither in the warm-up nor after the end.
    pub measured: bool,
    /// Requests sent.
    pub sent: u64,
    /// Requests that got a reply.
    pub answered: u64,
    /// Reads that found their key, and writes that succeeded.
    pub hits: u64,
    /// Reads that did not find their key, and writes whose condition failed.
    pub misses: u64,
    /// Requests that got an error as reply.
    pub errors: u64,
    /// Requests whose reply had another value than expected.
    pub wrong: u64,
    /// Requests given up without a reply.
    pub lost: u64,
    /// Requests sent more than a millisecond late.
    pub late: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Connections opened.
    pub connects: u64,
    /// Number of faults.
    pub faults: u64,
    /// Age of the oldest request that was due and not sent at the end of the slice, in nanoseconds; 0 if there was
    /// none.
    pub behind_ns: u64,
    /// Requests in flight at the end of the slice.
    pub in_flight: u64,
    /// Connections that were up at the end of the slice.
    pub connections: u64,
    /// The requested rate at the end of the slice, in requests per second; 0 without a rate.
    pub rate_per_s: f64,
    /// Response time in nanoseconds that 50 % of the ended requests did not exceed.
    pub p50_ns: u64,
    /// Response time in nanoseconds that 90 % of the ended requests did not exceed.
    pub p90_ns: u64,
    /// Response time in nanoseconds that 99 % of the ended requests did not exceed.
    pub p99_ns: u64,
    /// Response time in nanoseconds that 99.9 % of the ended requests did not exceed.
    pub p999_ns: u64,
    /// The longest response time in nanoseconds.
    pub max_ns: u64,
}

impl Slice {
    fn new(raw: &RawSlice, length_ns: u64, measured: bool) -> Self {
        Self {
            begin_ns: raw.number * length_ns,
            length_ns,
            measured,
            sent: raw.sent,
            answered: raw.of(Fate::Hit) + raw.of(Fate::Miss) + raw.of(Fate::Error) + raw.of(Fate::Wrong),
            hits: raw.of(Fate::Hit),
            misses: raw.of(Fate::Miss),
            errors: raw.of(Fate::Error),
            wrong: raw.of(Fate::Wrong),
            lost: raw.of(Fate::Lost),
            late: raw.late,
            bytes_sent: raw.bytes_sent,
            bytes_received: raw.bytes_received,
            connects: raw.connects,
            faults: raw.faults,
            behind_ns: raw.behind_ns,
            in_flight: raw.in_flight,
            connections: raw.connections,
            rate_per_s: raw.rate_per_s,
            p50_ns: raw.response.quantile_ns(0.50),
            p90_ns: raw.response.quantile_ns(0.90),
            p99_ns: raw.response.quantile_ns(0.99),
            p999_ns: raw.response.quantile_ns(0.999),
            max_ns: raw.response.max_ns(),
        }
    }

    /// Joins the slice of another host. Percentiles cannot be joined, so the higher one counts.
    fn join(&mut self, other: &Self) {
        self.measured &= other.measured;
        self.sent += other.sent;
        self.answered += other.answered;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.late += other.late;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.connects += other.connects;
        self.faults += other.faults;
        self.behind_ns = self.behind_ns.max(other.behind_ns);
        self.in_flight += other.in_flight;
        self.connections += other.connections;
        self.rate_per_s += other.rate_per_s;
        self.p50_ns = self.p50_ns.max(other.p50_ns);
        self.p90_ns = self.p90_ns.max(other.p90_ns);
        self.p99_ns = self.p99_ns.max(other.p99_ns);
        self.p999_ns = self.p999_ns.max(other.p999_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Joins the timelines of two hosts; the slices have equal lengths.
pub(super) fn join(mine: &mut Vec<Slice>, theirs: &[Slice]) {
    for (index, slice) in theirs.iter().enumerate() {
        match mine.get_mut(index) {
            Some(place) => place.join(slice),
            None => mine.push(slice.clone()),
        }
    }
}

/// Highest number of slices that stay open for slow threads.
const OPEN_MAX: usize = 16;

/// Joins the threads' slices as they arrive, and stores the timeline of the run so far.
#[derive(Debug)]
pub struct Timeline {
    slice_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    threads: usize,
    /// Open slices by number, each with the number of threads that have handed theirs over.
    open: VecDeque<(RawSlice, usize)>,
    slices: Vec<Slice>,
    response: Histogram,
    verbs: Vec<VerbCounts>,
    /// Slices that are not in use; their memory is reused for later slices.
    spare: Vec<RawSlice>,
    /// Receives every complete slice.
    tap: Option<SyncSender<RawSlice>>,
}

impl Timeline {
    /// Creates a timeline of `threads` threads with slices of `slice_ns`. The measured part is from `begin_ns` to
    /// `end_ns` after the start.
    pub fn new(threads: usize, slice_ns: u64, begin_ns: u64, end_ns: u64) -> Self {
        let (open, slices) = (VecDeque::with_capacity(OPEN_MAX), Vec::new());
        let (response, verbs, spare) = (Histogram::new(), Vec::new(), Vec::new());
        Self { slice_ns, begin_ns, end_ns, threads, open, slices, response, verbs, spare, tap: None }
    }

    /// Returns the timeline with `tap` as the receiver of complete slices; slices are dropped while the channel is
    /// full.
    pub fn shown_to(self, tap: Option<SyncSender<RawSlice>>) -> Self {
        Self { tap, ..self }
    }

    /// Adds one thread's slice. Each thread hands over each number at most once, in ascending order. A slice is dropped
    /// if sixteen later ones have begun.
    pub fn add(&mut self, raw: RawSlice) {
        if raw.number >= self.slices.len() as u64 {
            while (self.slices.len() + self.open.len()) as u64 <= raw.number {
                let mut slice = self.spare.pop().unwrap_or_default();
                slice.restart((self.slices.len() + self.open.len()) as u64);
                self.open.push_back((slice, 0));
                if self.open.len() > OPEN_MAX {
                    self.close_first();
                }
            }
            let (slice, joined) = &mut self.open[raw.number as usize - self.slices.len()];
            slice.merge(&raw);
            *joined += 1;
        }
        if self.spare.len() < OPEN_MAX {
            self.spare.push(raw);
        }
        while self.open.front().is_some_and(|(_, joined)| *joined == self.threads) || self.open.len() > OPEN_MAX {
            self.close_first();
        }
    }

    /// Closes all open slices and returns the timeline.
    pub fn finish(mut self) -> Vec<Slice> {
        while !self.open.is_empty() {
            self.close_first();
        }
        self.slices
    }

    /// Returns the complete slices.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Returns the response times of all requests that ended in complete, measured slices.
    pub const fn response(&self) -> &Histogram {
        &self.response
    }

    /// Returns the counts of each verb in all complete slices, measured or not; empty if they were not requested.
    pub fn verbs(&self) -> &[VerbCounts] {
        &self.verbs
    }

    fn close_first(&mut self) {
        let Some((raw, _)) = self.open.pop_front() else { return };
        let begin_ns = raw.number * self.slice_ns;
        let measured = begin_ns >= self.begin_ns && begin_ns.saturating_add(self.slice_ns) <= self.end_ns;
        if measured {
            self.response.merge(&raw.response);
        }
        VerbCounts::add_all(&mut self.verbs, &raw.verbs);
        self.slices.push(Slice::new(&raw, self.slice_ns, measured));
        if let Some(tap) = &self.tap {
            let _ = tap.try_send(raw.clone());
        }
        if self.spare.len() < OPEN_MAX {
            self.spare.push(raw);
        }
    }
}
