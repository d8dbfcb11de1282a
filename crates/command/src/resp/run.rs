//! Plain `GET` and `SET`: those that follow one another are looked up together, by [`crate::run`].

use super::{Answers, Call, LINE_ROOM, SessionState, Step, Stop};
use crate::context::WorkerContext;
use crate::lookup::flash;
use crate::lookup::large::ARRIVING_BYTES_MIN;
use crate::lookup::run::{self, PROBES_MAX};
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::session::ReadHead;
use crate::visit::out::PINNED_BYTES_MIN;
use crate::visit::progress::{OPS_A_BATCH, State};
use protocol::number::Decimal;
use protocol::resp::{Lone, lone, reply};
use segment::{Ahead, Expire, Guard, Hit, Key, PutMode, Value};

/// One request of a run.
#[derive(Clone, Copy)]
pub(super) struct RunRequest<'b> {
    key: Key<'b>,
    /// Value to store; `None`: a `GET`.
    value: Option<&'b [u8]>,
    /// End of the request, in bytes from the start of the buffer.
    end: usize,
}

impl<'b> run::Probe<'b> for RunRequest<'b> {
    #[inline(always)]
    fn key(&self) -> &Key<'b> {
        &self.key
    }

    #[inline(always)]
    fn command(&self) -> Command {
        if self.value.is_some() { Command::Set } else { Command::Get }
    }

    #[inline(always)]
    fn is_read(&self) -> bool {
        self.value.is_none()
    }

    #[inline(always)]
    fn ends(&self) -> bool {
        true
    }
}

/// A run of requests.
type Run<'b> = run::Run<RunRequest<'b>>;

impl<'c, 'l> run::Visit<'c, 'l> for Call<'c, 'l> {
    type Probe = RunRequest<'c>;

    #[inline(always)]
    fn guard(&self) -> &Guard<'l> {
        self.guard
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut WorkerContext, &Guard<'l>) {
        (self.ctx, self.guard)
    }

    #[inline(always)]
    fn counters(&self) -> &CommandCounters {
        Call::counters(self)
    }

    #[inline(always)]
    fn answer(&mut self, probe: &RunRequest<'c>, ahead: Ahead<'_>) -> Result<bool, State> {
        if self.guard.locks().is_locked_by_other(&probe.key) {
            self.ctx.hurries = true;
            return Err(State::Parked);
        }
        match probe.value {
            None => self.answer_get(&probe.key, ahead),
            Some(value) => self.answer_set(&probe.key, value),
        }
    }

    #[inline(always)]
    fn answered(&mut self, probe: &RunRequest<'c>) {
        self.at = probe.end;
    }

    fn stopped_at(&mut self, _: &RunRequest<'c>) {}

    #[inline(always)]
    fn account(&mut self, command: Command, requests: usize) {
        self.ops += requests;
        self.session.last = command.name();
        // A client that has not authenticated may have sent a secret.
        let line = if self.ctx.asks { &[][..] } else { &self.buf[self.line_at..] };
        self.ctx.ops_done(self.out, command, requests, line);
        self.line_at = self.at;
    }
}

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

impl<'c, 'l> Call<'c, 'l> {
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
    pub(super) fn head_run(&mut self, head: ReadHead<'l>) -> Step {
        let Some((first, consumed)) = lone(self.rest(), ARRIVING_BYTES_MIN) else { return Ok(()) };
        debug_assert!(consumed == head.consumed && first.key().len() == head.key_len, "the head of other bytes");
        self.run_from(first, head.key.key(first.key()), consumed, head.ahead)
    }

    #[inline(always)]
    fn run_from(&mut self, first: Lone<'c>, key: Key<'c>, consumed: usize, ahead: Ahead<'l>) -> Step {
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
    fn answer_run(&mut self, run: &Run<'c>, first: Ahead<'l>) -> Step {
        // The line of the requests that are not accounted for yet.
        self.line_at = self.at;
        run::answer(self, run, first)
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
fn probe<'b>(lone: Lone<'b>, key: Key<'b>, end: usize) -> RunRequest<'b> {
    let value = if let Lone::Set { value, .. } = lone { Some(value) } else { None };
    RunRequest { key, value, end }
}
