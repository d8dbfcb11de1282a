//! The run in slices of equal length. What has ended is in the slice in which it ended, so that a stall shows as a
//! slice without answers and then one with the long times.

use super::{Fate, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;

/// Counts of one verb.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerbCounts {
    /// Requests ended, by [`Fate`].
    pub ended: [u64; Fate::ALL.len()],
    /// Their response times.
    pub response: Histogram,
}

impl VerbCounts {
    /// Adds each of `other` to the one of the same verb.
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
    /// Requests sent.
    pub sent: u64,
    /// Requests ended, by [`Fate`].
    pub ended: [u64; Fate::ALL.len()],
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Requests that were sent late.
    pub late: u64,
    /// Connections made.
    pub connects: u64,
    /// Things that went wrong.
    pub faults: u64,
    /// Age of the oldest request that was due and not sent at the end of the slice, in nanoseconds.
    pub behind_ns: u64,
    /// Requests in flight at the end of the slice.
    pub in_flight: u64,
    /// Connections that were up at the end of the slice.
    pub connections: u64,
    /// The rate asked for at the end of the slice, all threads together.
    pub rate_per_s: f64,
    /// Response times of what ended.
    pub response: Histogram,
    /// The same of each verb, where that is asked for; else empty.
    pub verbs: Vec<VerbCounts>,
}

impl RawSlice {
    /// A request of verb number `verb` ended after `response_ns`.
    pub fn end(&mut self, verb: u8, fate: Fate, response_ns: u64) {
        self.ended[fate as usize] += 1;
        self.response.record(response_ns);
        if let Some(counts) = self.verbs.get_mut(usize::from(verb)) {
            counts.ended[fate as usize] += 1;
            counts.response.record(response_ns);
        }
    }

    /// The next slice, empty, with as many verbs. This one is handed out.
    pub fn hand_out(&mut self) -> Self {
        let verbs = self.verbs.iter().map(|_| VerbCounts::default()).collect();
        let next = Self { number: self.number + 1, verbs, ..Self::default() };
        std::mem::replace(self, next)
    }

    /// Adds another thread's slice of the same number.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.number, other.number, "slices of one time");
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

    /// Forgets everything and begins slice `number`. The histogram's memory stays.
    pub fn restart(&mut self, number: u64) {
        let mut response = std::mem::take(&mut self.response);
        response.clear();
        *self = Self { number, response, ..Self::default() };
    }

    const fn of(&self, fate: Fate) -> u64 {
        self.ended[fate as usize]
    }
}

/// Counts of all threads in one slice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Beginning, in nanoseconds from the start of the run.
    pub begin_ns: u64,
    /// Length in nanoseconds.
    pub length_ns: u64,
    /// True if it lies in the measured part: neither in the warm-up nor behind the end.
    pub measured: bool,
    /// Requests sent.
    pub sent: u64,
    /// Requests answered.
    pub answered: u64,
    /// Found or done.
    pub hits: u64,
    /// Not found, or the condition did not hold.
    pub misses: u64,
    /// Answered with an error.
    pub errors: u64,
    /// Answered with another value than was expected.
    pub wrong: u64,
    /// Given up without an answer.
    pub lost: u64,
    /// Sent more than a millisecond late.
    pub late: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Connections made.
    pub connects: u64,
    /// Things that went wrong.
    pub faults: u64,
    /// Age of the oldest request that was due and not sent at its end, in nanoseconds; 0: none was.
    pub behind_ns: u64,
    /// Requests in flight at its end.
    pub in_flight: u64,
    /// Connections that were up at its end.
    pub connections: u64,
    /// The rate asked for at its end, in requests a second; 0 where there is none.
    pub rate_per_s: f64,
    /// Response time in nanoseconds that half of what ended did not exceed.
    pub p50_ns: u64,
    /// As above, for 90 %.
    pub p90_ns: u64,
    /// As above, for 99 %.
    pub p99_ns: u64,
    /// As above, for 99.9 %.
    pub p999_ns: u64,
    /// The longest.
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

    /// Joins the slice of another host. Percentiles cannot be joined: the worse one is taken.
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

/// Joins two hosts' timelines of slices of equal length.
pub(super) fn join(mine: &mut Vec<Slice>, theirs: &[Slice]) {
    for (index, slice) in theirs.iter().enumerate() {
        match mine.get_mut(index) {
            Some(place) => place.join(slice),
            None => mine.push(slice.clone()),
        }
    }
}

/// Slices that are kept open for threads that have not handed theirs over.
const OPEN_MAX: usize = 16;

/// Joins the threads' slices as they come in, and keeps what the run had so far.
#[derive(Debug)]
pub struct Timeline {
    slice_ns: u64,
    begin_ns: u64,
    end_ns: u64,
    threads: usize,
    /// Slices under way, by number, with how many threads have handed theirs over.
    open: VecDeque<(RawSlice, usize)>,
    slices: Vec<Slice>,
    response: Histogram,
    verbs: Vec<VerbCounts>,
    /// Slices whose memory is used again.
    spare: Vec<RawSlice>,
    /// Receiver of every slice that is whole.
    tap: Option<SyncSender<RawSlice>>,
}

impl Timeline {
    /// Of `threads` threads, with slices of `slice_ns`, measured from `begin_ns` to `end_ns` after the start.
    pub fn new(threads: usize, slice_ns: u64, begin_ns: u64, end_ns: u64) -> Self {
        let (open, slices) = (VecDeque::with_capacity(OPEN_MAX), Vec::new());
        let (response, verbs, spare) = (Histogram::new(), Vec::new(), Vec::new());
        Self { slice_ns, begin_ns, end_ns, threads, open, slices, response, verbs, spare, tap: None }
    }

    /// The same, with every slice shown to `tap` when it is whole, as far as it has room.
    pub fn shown_to(self, tap: Option<SyncSender<RawSlice>>) -> Self {
        Self { tap, ..self }
    }

    /// Takes one thread's slice. Each thread hands over every number at most once, ascending. A slice that comes after
    /// sixteen later ones were begun is left out.
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

    /// Closes what is open.
    pub fn finish(mut self) -> Vec<Slice> {
        while !self.open.is_empty() {
            self.close_first();
        }
        self.slices
    }

    /// The slices that are whole.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Response times of everything that ended in measured slices that are whole.
    pub const fn response(&self) -> &Histogram {
        &self.response
    }

    /// Returns the counts of each verb in all slices that are whole, measured or not; empty if they are not asked for.
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
