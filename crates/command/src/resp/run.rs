//! Plain `GET` and `SET`: those that follow one another are looked up together.
//!
//! ```text
//!   collect   find the keys, hash them, ask for their index buckets      at most PROBES_MAX of them
//!   look      find their slots, ask for their items
//!   answer    in order: compare and copy into the output, or store
//!   account   counters and times, once for all that are alike
//! ```
//!
//! Each stage's waits for memory overlap, since none needs what another key's brings. What was found ahead is a place
//! to begin with and no more, so a `GET` may follow a `SET` of its own key. The first two stages are gone through for
//! the first requests of all sessions of a batch before any of them is served ([`crate::ahead`]).

use super::{Answers, Call, LINE_ROOM, SessionState, Step, Stop};
use crate::context::{OPS_A_BATCH, State};
use crate::flash;
use crate::large::ARRIVING_BYTES_MIN;
use crate::metrics::Command;
use crate::out::{OPS_TOGETHER_MAX, PINNED_BYTES_MIN};
use crate::session::ReadHead;
use arrayvec::ArrayVec;
use protocol::number::Decimal;
use protocol::resp::{Lone, lone, reply};
use segment::{Ahead, Expire, Hit, Key, PutMode, Value};

/// Keys that are looked up together. Sixteen hide most of the memory's latency; more would push each other out.
pub(super) const PROBES_MAX: usize = OPS_TOGETHER_MAX;

/// One request of a run.
#[derive(Clone, Copy)]
struct Probe<'b> {
    key: Key<'b>,
    /// Value to store; `None`: a `GET`.
    value: Option<&'b [u8]>,
    /// End of the request, in bytes from the start of the buffer.
    end: usize,
}

impl Probe<'_> {
    fn command(&self) -> Command {
        if self.value.is_some() { Command::Set } else { Command::Get }
    }
}

type Run<'b> = ArrayVec<Probe<'b>, PROBES_MAX>;

/// The key of the first request in what a session has received and the request's bytes, if it is a plain one.
#[inline]
pub(crate) fn head_key<'b>(buf: &'b [u8], session: &SessionState) -> Option<(&'b [u8], usize)> {
    if !session.is_plain() {
        return None;
    }
    lone(buf, ARRIVING_BYTES_MIN).map(|(lone, consumed)| (lone.key(), consumed))
}

impl SessionState {
    /// Nothing is half done or out of the ordinary: plain requests may be answered in runs.
    #[inline(always)]
    fn is_plain(&self) -> bool {
        let whole = self.long.is_none() && self.parser.is_at_start() && self.done == 0;
        let alone = self.aside.is_none() && self.transaction.is_none() && self.under_way.is_none();
        whole && alone && self.answers == Answers::All
    }
}

impl<'c> Call<'c, '_> {
    /// The plain request that the input begins with, and those that follow; `None` if it begins with no such.
    #[inline]
    pub(super) fn run_of_plain(&mut self) -> Option<Step> {
        if !self.session.is_plain() || !self.runs_plain() {
            return None;
        }
        let (first, consumed) = lone(self.rest(), ARRIVING_BYTES_MIN)?;
        let key = self.key(first.key());
        Some(self.run_from(first, key, consumed, Ahead::default()))
    }

    /// The request that a head was made of, and those that follow.
    #[inline]
    pub(super) fn head_run(&mut self, head: ReadHead<'_>) -> Step {
        let Some((first, consumed)) = lone(self.rest(), ARRIVING_BYTES_MIN) else { return Ok(()) };
        debug_assert!(consumed == head.consumed && first.key().len() == head.key_len, "the head of other bytes");
        self.run_from(first, head.key.key(first.key()), consumed, head.ahead)
    }

    #[inline(always)]
    fn run_from(&mut self, first: Lone<'c>, key: Key<'c>, consumed: usize, ahead: Ahead<'_>) -> Step {
        let mut run = Run::new();
        let mut end = self.at + consumed;
        run.push(probe(first, key, end));
        let run_max = PROBES_MAX.min(OPS_A_BATCH - self.ops);
        while run.len() < run_max {
            let Some((next, consumed)) = lone(&self.buf[end..], ARRIVING_BYTES_MIN) else { break };
            let key = self.key(next.key());
            self.guard.items().prefetch(&key);
            end += consumed;
            run.push(probe(next, key, end));
        }
        self.answer_run(&run, ahead)
    }

    /// Looks the keys up, the first one where `first` says, and answers them in order.
    fn answer_run(&mut self, run: &Run<'c>, first: Ahead<'_>) -> Step {
        let mut ahead = ArrayVec::<Ahead<'_>, PROBES_MAX>::new();
        ahead.push(first);
        ahead.extend(run[1..].iter().map(|probe| self.guard.items().prefetch_item(probe.key.key_hash())));
        let (mut gets, mut hits, mut tally) = (0, 0, Tally { line_at: self.at, requests: 0, command: Command::Get });
        let mut step = Ok(());
        let mut done = 0;
        for (probe, ahead) in run.iter().zip(ahead) {
            if self.guard.locks().is_locked_by_other(&probe.key) {
                self.ctx.hurries = true;
                step = Err(State::Parked);
                break;
            }
            let answered = match probe.value {
                None => self.answer_get(&probe.key, ahead).inspect(|hit| {
                    gets += 1;
                    hits += u64::from(*hit);
                }),
                Some(value) => self.answer_set(&probe.key, value),
            };
            if let Err(state) = answered {
                if state == State::Parked && self.guard.is_tiered() {
                    let behind = run[done as usize + 1..].iter().filter(|probe| probe.value.is_none());
                    behind.for_each(|probe| self.guard.tier().request(&probe.key));
                }
                step = Err(state);
                break;
            }
            if tally.requests > 0 && tally.command != probe.command() {
                self.account(&mut tally);
            }
            tally.command = probe.command();
            tally.requests += 1;
            self.at = probe.end;
            done += 1;
        }
        self.account(&mut tally);
        if self.ctx.sampler.takes(done) {
            self.sample_run(run, done);
        }
        let counters = self.counters();
        counters.cmd_get.add(gets);
        counters.get_hits.add(hits);
        counters.get_misses.add(gets - hits);
        step
    }

    /// Looks at those of the first `keys` of a run that are sampled.
    #[cold]
    #[inline(never)]
    fn sample_run(&mut self, run: &Run<'c>, keys: u32) {
        let mut from = 0;
        while let Some(place) = self.ctx.sampler.next(from, keys) {
            let probe = &run[place as usize];
            self.ctx.sample(self.guard, &probe.key, probe.value.is_none());
            from = place + 1;
        }
    }

    /// Accounts for the requests that are done.
    fn account(&mut self, tally: &mut Tally) {
        if tally.requests == 0 {
            return;
        }
        self.ops += tally.requests;
        self.session.last = tally.command.name();
        // A secret may stand in what a stranger sends.
        let line = if self.ctx.asks { &[][..] } else { &self.buf[tally.line_at..] };
        self.ctx.ops_done(self.out, tally.command, tally.requests, line);
        *tally = Tally { line_at: self.at, requests: 0, command: tally.command };
    }

    /// Answers a `GET`; says whether the key was there.
    #[inline(always)]
    fn answer_get(&mut self, key: &Key<'_>, ahead: Ahead<'_>) -> Result<bool, State> {
        match self.answer_short(key, ahead)? {
            Some(hit) => Ok(hit),
            None => self.answer_long(key),
        }
    }

    /// Answers with a value that is copied, or null; says whether the key was there. `None`: it is a value that is sent
    /// from the store, or none that `GET` reads, and nothing is answered.
    #[inline(always)]
    pub(super) fn answer_short(&mut self, key: &Key<'_>, ahead: Ahead<'_>) -> Result<Option<bool>, State> {
        match self.guard.items().read(key, ahead) {
            Some(Hit { value: Value::Bytes(bytes), .. }) if bytes.len() < PINNED_BYTES_MIN => {
                self.room(bytes.len())?;
                let written = reply::write_bulk(self.out.spare(), bytes);
                self.out.advance(written);
                Ok(Some(true))
            }
            None if self.guard.is_tiered() => self.short_from_flash(key).map(Some),
            None => {
                self.room(0)?;
                self.null();
                Ok(Some(false))
            }
            Some(Hit { value: Value::Integer(number), .. }) => {
                self.room(0)?;
                let written = reply::write_bulk(self.out.spare(), Decimal::new(number).as_slice());
                self.out.advance(written);
                Ok(Some(true))
            }
            Some(_) => Ok(None),
        }
    }

    /// Answers with the value of a key that is not in memory, or null; says whether it was there.
    #[cold]
    #[inline(never)]
    fn short_from_flash(&mut self, key: &Key<'_>) -> Result<bool, State> {
        let out = &mut *self.out;
        let told = flash::tell(self.guard, key, |value, _| {
            let mut digits = None;
            let bytes = flash::text(value, &mut digits);
            let want = LINE_ROOM + bytes.len();
            if out.room() < want {
                return Err(State::OutputFull { want });
            }
            let written = reply::write_bulk(out.spare(), bytes);
            out.advance(written);
            Ok(())
        })?;
        if !told {
            self.room(0)?;
            self.null();
        }
        Ok(told)
    }

    /// The same for a value that is sent from the store, or is none that `GET` reads.
    #[cold]
    fn answer_long(&mut self, key: &Key<'_>) -> Result<bool, State> {
        self.room(0)?;
        let mark = self.out.mark();
        match self.value_of(key.bytes()) {
            Ok(hit) => Ok(hit),
            Err(Stop::State(state)) => {
                self.out.truncate(mark);
                Err(state)
            }
            Err(Stop::Fault(fault)) => {
                self.out.truncate(mark);
                self.fault(fault);
                Ok(true)
            }
            Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => unreachable!("no value ends a connection"),
        }
    }

    /// Stores a value, and answers.
    #[inline(always)]
    fn answer_set(&mut self, key: &Key<'_>, value: &[u8]) -> Result<bool, State> {
        if self.out.room() < LINE_ROOM {
            return Err(State::OutputFull { want: LINE_ROOM });
        }
        match self.store_key(key, value, PutMode::Set, Expire::Never) {
            Ok(_) => self.out.push(reply::OK),
            Err(Stop::State(state)) => return Err(state),
            Err(Stop::Fault(fault)) => self.fault(fault),
            Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => unreachable!("no value ends a connection"),
        }
        Ok(true)
    }
}

#[inline(always)]
fn probe<'b>(lone: Lone<'b>, key: Key<'b>, end: usize) -> Probe<'b> {
    let value = if let Lone::Set { value, .. } = lone { Some(value) } else { None };
    Probe { key, value, end }
}

/// Work of a run that is done and not yet counted.
struct Tally {
    /// Start of the first of these requests.
    line_at: usize,
    requests: usize,
    command: Command,
}
