//! The recorder of one thread.

use super::timeline::RawSlice;
use super::{Cell, Fate, Histogram, LATE_NS, NamedFailure, SizeClass, Snapshot, TlsUse, Totals, VerbCounts};
use link::Secured;

/// Highest number of cells that are separate by size; beyond it all sizes of a verb and fate share one cell.
const SIZED_CELLS_MAX: usize = 96;
const VERBS_MAX: usize = 64;
/// Highest number of kinds of failures with their own count; further kinds are counted as `other`.
const FAULTS_MAX: usize = 32;

/// Histograms of one verb, fate and size class.
#[derive(Debug)]
struct Times {
    response: Histogram,
    service: Histogram,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedRequest {
    /// Index of the request's verb.
    pub verb: u8,
    /// Fate of the request.
    pub fate: Fate,
    /// Bytes of the value in the reply.
    pub read_bytes: u64,
    /// Bytes of the value in the request.
    pub written_bytes: u64,
    /// Instant at which it was due, in nanoseconds.
    pub intended_ns: u64,
    /// Instant at which it was sent, in nanoseconds.
    pub sent_ns: u64,
    /// Instant at which it ended, in nanoseconds.
    pub ended_ns: u64,
}

/// The figures of one thread. Instants are nanoseconds of the run's clock.
#[derive(Debug)]
pub struct Recorder {
    verbs: Vec<String>,
    /// Beginning of the window; the figures include requests that are due within it.
    begin_ns: u64,
    end_ns: u64,
    /// Index into `times` plus one, by verb, fate and size class; 0 if there is none.
    places: Vec<u16>,
    times: Vec<(u8, Fate, SizeClass, Times)>,
    unsent: Histogram,
    lateness: Histogram,
    held_up: Histogram,
    connect: Histogram,
    handshake: Histogram,
    tls: Vec<TlsUse>,
    totals: Totals,
    faults: Vec<NamedFailure>,
    /// The current slice.
    pub slice: RawSlice,
}

impl Recorder {
    /// Creates an empty recorder for at most 64 verbs, for requests that are due from `begin_ns` to before `end_ns`.
    pub fn new(verbs: &[String], begin_ns: u64, end_ns: u64) -> Self {
        assert!(verbs.len() <= VERBS_MAX, "{} verbs", verbs.len());
        Self {
            verbs: verbs.to_vec(),
            begin_ns,
            end_ns,
            places: vec![0; verbs.len().max(1) * Fate::ALL.len() * SizeClass::COUNT],
            times: Vec::with_capacity(SIZED_CELLS_MAX),
            unsent: Histogram::new(),
            lateness: Histogram::new(),
            held_up: Histogram::new(),
            connect: Histogram::new(),
            handshake: Histogram::new(),
            tls: Vec::new(),
            totals: Totals::default(),
            faults: Vec::new(),
            slice: RawSlice::default(),
        }
    }

    /// Sets the window of the figures; must be called before any request is due.
    pub const fn set_window(&mut self, begin_ns: u64, end_ns: u64) {
        (self.begin_ns, self.end_ns) = (begin_ns, end_ns);
    }

    /// Ends the window at `end_ns`, because the run was stopped.
    pub fn cut(&mut self, end_ns: u64) {
        self.end_ns = self.end_ns.min(end_ns).max(self.begin_ns);
    }

    /// Returns the window of the figures.
    pub const fn window(&self) -> (u64, u64) {
        (self.begin_ns, self.end_ns)
    }

    /// Adds counts of each verb to the following slices.
    pub fn name_verbs(&mut self) {
        self.slice.verbs = self.verbs.iter().map(|_| VerbCounts::default()).collect();
    }

    /// Returns the counts so far.
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    const fn is_measured(&self, at_ns: u64) -> bool {
        self.begin_ns <= at_ns && at_ns < self.end_ns
    }

    /// Records the send of a request at `now_ns`. `room_ns` is the instant from which a connection had room for it.
    pub fn send(&mut self, intended_ns: u64, room_ns: u64, now_ns: u64) {
        self.slice.sent += 1;
        if !self.is_measured(intended_ns) {
            self.totals.warm_up += u64::from(intended_ns < self.begin_ns);
            return;
        }
        self.totals.due += 1;
        self.totals.sent += 1;
        let held_up_ns = room_ns.saturating_sub(intended_ns);
        let late_ns = now_ns.saturating_sub(intended_ns.max(room_ns));
        self.lateness.record(late_ns);
        self.held_up.record(held_up_ns);
        if late_ns > LATE_NS {
            self.totals.late_by_generator += 1;
            self.slice.late += 1;
        } else if held_up_ns > LATE_NS {
            self.totals.late_for_room += 1;
            self.slice.late += 1;
        }
    }

    /// Records the end of a sent request.
    pub fn end(&mut self, ended: &EndedRequest) {
        let response_ns = ended.ended_ns.saturating_sub(ended.intended_ns);
        self.slice.end(ended.verb, ended.fate, response_ns);
        // The first request of its kind allocates memory here, usually during the warm-up.
        let place = self.place(ended);
        if !self.is_measured(ended.intended_ns) {
            return;
        }
        let totals = &mut self.totals;
        let kind = match ended.fate {
            Fate::Hit | Fate::Partial => &mut totals.hits,
            Fate::Miss => &mut totals.misses,
            Fate::Error => &mut totals.errors,
            Fate::Wrong => &mut totals.wrong,
            Fate::Lost | Fate::Unsent => &mut totals.lost,
        };
        *kind += 1;
        if ended.fate != Fate::Lost {
            totals.answered += 1;
            totals.value_bytes_read += ended.read_bytes;
            totals.value_bytes_written += ended.written_bytes;
        }
        let times = &mut self.times[place].3;
        times.response.record(response_ns);
        times.service.record(ended.ended_ns.saturating_sub(ended.sent_ns));
    }

    /// Records that a request due at `intended_ns` was given up at `now_ns` without having been sent.
    pub fn abandon(&mut self, intended_ns: u64, now_ns: u64) {
        if self.is_measured(intended_ns) {
            self.totals.due += 1;
            self.totals.unsent += 1;
            self.unsent.record(now_ns.saturating_sub(intended_ns));
        }
    }

    /// Records bytes sent at `now_ns`.
    pub const fn bytes_out(&mut self, now_ns: u64, bytes: u64) {
        self.slice.bytes_sent += bytes;
        if self.is_measured(now_ns) {
            self.totals.bytes_sent += bytes;
        }
    }

    /// Records bytes received at `now_ns`.
    pub const fn bytes_in(&mut self, now_ns: u64, bytes: u64) {
        self.slice.bytes_received += bytes;
        if self.is_measured(now_ns) {
            self.totals.bytes_received += bytes;
        }
    }

    /// Records a connection that was opened and greeted in `took_ns`.
    pub fn connected(&mut self, took_ns: u64) {
        self.totals.connects += 1;
        self.slice.connects += 1;
        self.connect.record(took_ns);
    }

    /// Records the redirect of a request that was due at `intended_ns`.
    pub const fn redirected(&mut self, intended_ns: u64) {
        self.totals.redirects += self.is_measured(intended_ns) as u64;
    }

    /// Records the TLS parameters of a connection.
    pub fn secured(&mut self, secured: &Secured) {
        self.handshake.record(secured.took_ns);
        let alike = |used: &&mut TlsUse| used.version == secured.version && used.cipher == secured.cipher;
        if self.tls.iter_mut().find(alike).is_none() {
            let (version, cipher) = (secured.version.to_owned(), secured.cipher.to_owned());
            self.tls.push(TlsUse { version, cipher, ..TlsUse::default() });
        }
        if let Some(used) = self.tls.iter_mut().find(alike) {
            let count = if secured.resumed { &mut used.resumed } else { &mut used.full };
            *count += 1;
        }
    }

    /// Records a fault; `first` is called for its text at the first occurrence of `name`.
    pub fn fault(&mut self, name: &str, first: impl FnOnce() -> String) {
        self.slice.faults += 1;
        if let Some(fault) = self.faults.iter_mut().find(|fault| fault.name == name) {
            fault.count += 1;
        } else if self.faults.len() < FAULTS_MAX {
            self.faults.push(NamedFailure { name: name.to_owned(), count: 1, first: first() });
        } else if let Some(fault) = self.faults.last_mut() {
            "other".clone_into(&mut fault.name);
            fault.count += 1;
        }
    }

    /// Returns the faults so far.
    pub fn faults(&self) -> &[NamedFailure] {
        &self.faults
    }

    /// Returns the index of the histograms for an ended request; creates them if needed.
    fn place(&mut self, ended: &EndedRequest) -> usize {
        let size = SizeClass::of(ended.read_bytes.max(ended.written_bytes));
        let index = |size: SizeClass| {
            (usize::from(ended.verb) * Fate::ALL.len() + ended.fate as usize) * SizeClass::COUNT + size as usize
        };
        match self.places[index(size)] {
            0 => {}
            place => return usize::from(place - 1),
        }
        let size = if self.times.len() < SIZED_CELLS_MAX { size } else { SizeClass::Any };
        let place = &mut self.places[index(size)];
        if *place == 0 {
            let times = Times { response: Histogram::new(), service: Histogram::new() };
            self.times.push((ended.verb, ended.fate, size, times));
            *place = self.times.len() as u16;
        }
        usize::from(*place - 1)
    }

    /// Returns the figures of this thread, without a timeline.
    pub fn finish(self) -> Snapshot {
        let mut snapshot = Snapshot {
            verbs: self.verbs,
            measured_ns: self.end_ns.saturating_sub(self.begin_ns),
            totals: self.totals,
            lateness: self.lateness,
            held_up: self.held_up,
            connect: self.connect,
            handshake: self.handshake,
            tls: self.tls,
            faults: self.faults,
            ..Snapshot::default()
        };
        for (verb, fate, size, times) in self.times {
            if times.response.count() > 0 {
                snapshot.response.merge(&times.response);
                snapshot.service.merge(&times.service);
                let Times { response, service } = times;
                snapshot.cells.push(Cell { verb: usize::from(verb), fate, size, response, service });
            }
        }
        snapshot.response.merge(&self.unsent);
        snapshot.cells.sort_by_key(|cell| (cell.verb, cell.fate, cell.size));
        snapshot
    }
}
