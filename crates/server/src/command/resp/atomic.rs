//! Several keys as one: a transaction, or one command over several keys, from its claim of the keys to its last answer.
//!
//! ```text
//!   EXEC, or a command over several keys that cannot be done at once
//!     obtain   the claim of all keys (park until it is had)                            segment::Claim
//!     run      the queued requests, in order, over as many visits as they take; answers go into a buffer of its own
//!     tell     the claim is let go; the answers go out as the client takes them
//! ```
//!
//! A command that only reads at most [`KEYS_UNCLAIMED_MAX`] keys does without: it reads, and is done if nobody changed
//! one of them meanwhile (segment::Snapshot).
//!
//! What is queued is told to those that monitor, counted and timed when it is run, command by command; `EXEC` behind
//! it, with the time of all.
//!
//! Invariants:
//! - No claim is held while a client is waited for: neither for its bytes, which are all there before, nor for its
//!   taking of answers, which begins after.
//! - What was begun is done: a connection that ends meanwhile keeps its slot until its requests are run.
//! - Bounds: see [`QUEUE_BYTES_MAX`], [`crate::shared::QueueBudget`], [`ANSWER_BYTES_MAX`], [`KEYS_AS_ONE_MAX`] and
//!   [`segment::CLAIMS_MAX`].

use super::error::Fault;
use super::transaction::{Stage, Transaction};
use super::{Answers, Call, Identity, Run, SessionState, Step, Stop, Told, reply, table};
use crate::clock::Ticks;
use crate::command::values::LINE_ROOM;
use crate::context::{OPS_A_BATCH, State, WorkerContext};
use crate::metrics::Command;
use crate::out::OutBuffer;
use arrayvec::ArrayVec;
use protocol::resp::{Args, Limits, Parsed, Parser, Version};
use segment::{Item, Key, KeyHash, Turn};

/// Keys that one command outside a transaction reads or changes as one. With more it does so one after another.
pub const KEYS_AS_ONE_MAX: usize = 4096;
/// Keys of a command that reads them as one without a claim.
const KEYS_UNCLAIMED_MAX: usize = 64;
/// Bytes of requests that one connection queues.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of answers that one transaction keeps until its client takes them, if no value is longer. The connection of
/// one that has more is closed when it is done.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes that the buffer for answers begins with.
const ANSWER_BYTES: usize = 16 << 10;
/// Transactions that a worker keeps at hand once they are done with, so that the next one allocates nothing.
const SPARE_MAX: usize = 4;

/// Transactions that are done with.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a connection has its transaction in the same box")]
pub(crate) struct Spares(Vec<Box<Transaction>>);

impl<'c> Call<'c, '_> {
    /// Whether the command names several keys, and not too many to be taken as one.
    pub(super) fn spans_keys(&self, entry: &table::Entry, args: Args<'c>) -> bool {
        (2..=KEYS_AS_ONE_MAX).contains(&entry.key_count(args)) && entry.name != "watch"
    }

    /// Another's claim keeps this call away from a key of the command.
    #[cold]
    pub(super) fn is_kept_away(&mut self, entry: &table::Entry, args: Args<'c>) -> bool {
        let away = entry.keys_of(args).any(|key| self.turn.is_claimed_by_other(&self.key(key)));
        self.ctx.hurries |= away;
        away
    }

    /// Keys of the command are on flash: they are asked for, and it waits until they are in memory. Commands that go
    /// key by key and wait for each themselves need not have all of them at once, nor those that only store.
    #[cold]
    pub(super) fn awaits_flash(&mut self, entry: &table::Entry, args: Args<'c>) -> bool {
        if matches!(entry.name, "get" | "mget" | "set" | "mset" | "del" | "unlink" | "exists" | "touch") {
            return false;
        }
        // All are asked for, and not one after another.
        let away = |waits, key| self.turn.is_on_flash(&self.key(key)) | waits;
        entry.keys_of(args).fold(false, away)
    }

    /// Runs a command that only reads several keys, if nobody changes one of them meanwhile: that costs two looks at
    /// each key's stripe, and a claim much more. `None`: somebody did, or may have, and nothing is answered.
    pub(super) fn run_unchanged(&mut self, entry: &'static table::Entry, args: Args<'c>) -> Option<Run> {
        if !entry.has(table::Flag::ReadOnly) || entry.key_count(args) > KEYS_UNCLAIMED_MAX {
            return None;
        }
        let mut keys = ArrayVec::<KeyHash, KEYS_UNCLAIMED_MAX>::new();
        entry.keys_of(args).for_each(|key| keys.push(self.key(key).key_hash()));
        let snapshot = self.turn.snapshot(&keys)?;
        let mark = self.out.mark();
        self.copies = true;
        let ran = (entry.run)(self, args);
        self.copies = false;
        let (reads, hits) = std::mem::take(&mut self.reads);
        if !matches!(ran, Err(Stop::State(_))) && self.turn.holds(&keys, snapshot) {
            self.note_reads(reads, hits);
            return Some(ran);
        }
        self.out.truncate(mark);
        (self.session.done, self.session.sum) = (0, 0);
        match ran {
            // It begins anew in an empty output, or in a longer one: that is less than a transaction of its own.
            Err(Stop::State(State::OutputFull { .. })) if !self.out.is_empty() || !self.out.is_lent() => {
                let want = if self.out.is_empty() { self.out.capacity() + 1 } else { LINE_ROOM };
                Some(Err(State::OutputFull { want }.into()))
            }
            _ => None,
        }
    }

    /// A transaction with room for answers, of which nothing is known yet.
    pub(super) fn spare_transaction(&mut self) -> Box<Transaction> {
        let spare = self.ctx.spares.0.pop();
        spare.unwrap_or_else(|| Box::new(Transaction::new(self.ctx.shared.store.claim())))
    }

    /// Runs a command over several keys as one: at once if that can be, else as a transaction of its own.
    pub(super) fn run_as_one(&mut self, entry: &'static table::Entry, args: Args<'c>) -> Run {
        let mut one = self.spare_transaction();
        entry.keys_of(args).for_each(|key| one.claim.add(&self.turn.key(self.session.namespace, key)));
        let mark = self.out.mark();
        let ran = match self.turn.obtain(&mut one.claim) {
            Ok(()) => {
                one.stage = Stage::Running;
                self.turn.act_for(&mut one.claim);
                let ran = (entry.run)(self, args);
                self.turn.act_for_none(&mut one.claim);
                ran
            }
            Err(error) => {
                one.stage = Stage::Obtaining;
                Err(error.into())
            }
        };
        match ran {
            Err(Stop::State(_)) => {
                // What is not done goes on from a copy, since the bytes go with the connection.
                one.hold(entry.name, args, entry.kind);
                if self.session.done > 0 {
                    one.keep_answer(self.out.since(mark));
                }
                self.out.truncate(mark);
                self.begin(one);
                Err(Stop::UnderWay)
            }
            ended => {
                one.put_away(self.ctx);
                ended
            }
        }
    }

    /// Has the command's answer put together beside the output, over as many visits as it takes. Nothing is claimed.
    pub(super) fn run_beside(&mut self, name: &'static str, args: Args<'c>) -> Run {
        let mut one = self.spare_transaction();
        one.hold(name, args, KIND);
        one.stage = Stage::Running;
        self.begin(one);
        Err(Stop::UnderWay)
    }

    /// From here on the session's transaction comes before any other request.
    pub(super) fn begin(&mut self, mut transaction: Box<Transaction>) {
        transaction.answers = self.session.answers;
        (transaction.ready, transaction.begun) = (self.ctx.ready, self.ctx.op_begun);
        if self.session.answers == Answers::SkipNext {
            self.session.answers = Answers::All;
        }
        self.session.under_way = Some(transaction);
    }

    /// Goes on with the session's transaction that is under way.
    pub(super) fn go_on_as_one(&mut self) -> Step {
        let mut transaction = self.session.under_way.take().expect("it is under way");
        let step = self.come_further(&mut transaction);
        match step {
            Ok(()) | Err(State::Close) => {
                let (kind, is_lone) = (transaction.kind, transaction.is_lone);
                let ready = std::mem::replace(&mut self.ctx.ready, transaction.ready);
                self.ctx.op_begun = transaction.begun;
                transaction.put_away(self.ctx);
                self.session.done = 0;
                self.session.sum = 0;
                if !is_lone && self.ctx.watch.watched.tells_commands() {
                    self.tell_monitors(b"exec", std::iter::empty());
                }
                self.done(kind, if is_lone { &b""[..] } else { b"EXEC" });
                self.ctx.ready = ready;
            }
            Err(_) => self.session.under_way = Some(transaction),
        }
        step
    }

    fn come_further(&mut self, transaction: &mut Transaction) -> Step {
        if transaction.stage == Stage::Obtaining {
            if self.turn.obtain(&mut transaction.claim).is_err() {
                self.ctx.hurries = true;
                return Err(State::Parked);
            }
            if transaction.out.room() < LINE_ROOM {
                transaction.out.grow(ANSWER_BYTES);
            }
            self.turn.act_for(&mut transaction.claim);
            let changed = transaction.is_watched_changed(self.turn);
            self.turn.act_for_none(&mut transaction.claim);
            let Ok(changed) = changed else { return Err(State::Parked) };
            transaction.stage = Stage::Running;
            transaction.begun = self.ctx.clock.ticks();
            if changed {
                transaction.queue.clear();
                reply::null_array(&mut transaction.out, self.session.version);
            } else if !transaction.is_lone {
                reply::array(&mut transaction.out, transaction.commands.into());
            }
        }
        if transaction.stage == Stage::Running {
            run(self.turn, transaction, self.session, self.ctx, &mut self.ops)?;
            self.ctx.shared.store.let_go(&mut transaction.claim);
            transaction.stage = Stage::Telling;
        }
        self.tell_answers(transaction)
    }

    /// Puts what there is room for of the answers.
    fn tell_answers(&mut self, transaction: &mut Transaction) -> Step {
        if transaction.is_cut {
            self.counters().store_too_large.add(1);
            return Err(State::Close);
        }
        if transaction.answers != Answers::All {
            return Ok(());
        }
        let answers = transaction.out.since(transaction.told);
        // An empty output may be exchanged for one that holds more.
        let want = LINE_ROOM + answers.len().min(self.ctx.request_bytes_max);
        if self.out.is_empty() && self.out.capacity() < want && !self.out.is_lent() && answers.len() > self.out.room() {
            return Err(State::OutputFull { want });
        }
        let part = answers.len().min(self.out.room());
        self.out.push(&answers[..part]);
        transaction.told += part;
        if part < answers.len() { Err(State::OutputFull { want: LINE_ROOM }) } else { Ok(()) }
    }
}

/// Puts a value in pieces whole, or null if it has lost one.
#[cold]
pub(super) fn tell_copied(
    turn: &Turn<'_>,
    out: &mut OutBuffer,
    version: Version,
    key: &Key<'_>,
    item: &Item<'_>,
) -> Result<Option<Told>, Stop> {
    let bytes = item.value_len();
    let want = LINE_ROOM + bytes as usize;
    if out.room() < want {
        return Err(State::OutputFull { want }.into());
    }
    let mark = out.mark();
    reply::bulk_head(out, bytes);
    if turn.copy_range(key, item.value, 0..bytes, &mut |part| out.push(part)) {
        return Ok(Some(Told { identity: Identity::of(item), pinned: None, tail: &b"\r\n"[..] }));
    }
    out.truncate(mark);
    reply::null(out, version);
    Ok(None)
}

/// Runs what is queued and not done. The claim is had.
pub(super) fn run(
    turn: &mut Turn<'_>,
    transaction: &mut Transaction,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
    ops: &mut usize,
) -> Step {
    let answer_bytes_max = ANSWER_BYTES_MAX.max(ctx.shared.config.item_bytes_max as usize + 2 * LINE_ROOM);
    let Transaction { queue, claim, out, at, is_cut, is_lone, ready, .. } = transaction;
    let from = (!*is_lone).then_some(*ready);
    ctx.op_begun = ctx.clock.ticks();
    if claim.is_begun() {
        turn.act_for(claim);
    }
    let ran = loop {
        let rest = &queue[*at..];
        if rest.is_empty() {
            break Ok(());
        }
        if *ops >= OPS_A_BATCH {
            break Err(State::Yield);
        }
        let Parsed::Request { args, consumed } =
            Parser::new().parse(rest, &Limits { long_bytes_min: u32::MAX, ..Limits::REDIS })
        else {
            unreachable!("what was queued was a request");
        };
        match run_one(turn, (rest, from), args, out, session, ctx, ops) {
            Ok(()) => {
                *at += consumed;
                (session.done, session.sum) = (0, 0);
                *ops += 1;
            }
            Err(State::OutputFull { want }) => {
                let bytes = out.mark() + want.max(ANSWER_BYTES);
                if bytes > answer_bytes_max && !claim.is_begun() {
                    // It reads alone, and is not worth its connection.
                    out.truncate(0);
                    Fault::KeysTooLong.say(out);
                    (session.done, session.sum, session.walk) = (0, 0, None);
                    (session.publishing, session.listing) = (None, None);
                    *at = queue.len();
                } else if bytes > answer_bytes_max {
                    assert!(out.mark() > 0, "an empty buffer is long enough for every answer");
                    *is_cut = true;
                    out.truncate(0);
                } else {
                    out.grow(bytes.max(2 * out.capacity()).min(answer_bytes_max));
                }
            }
            Err(state) => break Err(state),
        }
    };
    turn.act_for_none(claim);
    ran
}

/// Runs one request, its answer behind the others. `buf` begins with it; beside it stands when its `EXEC` had come,
/// if it was queued.
fn run_one<'c>(
    turn: &'c mut Turn<'_>,
    (buf, queued): (&'c [u8], Option<Ticks>),
    mut args: Args<'c>,
    out: &'c mut OutBuffer,
    session: &'c mut SessionState,
    ctx: &'c mut WorkerContext,
    ops: &mut usize,
) -> Step {
    let name = args.next().unwrap_or_default();
    let entry = table::find(name).expect("it was found when it was queued");
    let mark = out.mark();
    let mut call = Call { turn, buf, at: 0, out, session, ctx, ops: *ops, beside: true, copies: false, reads: (0, 0) };
    let ran = call.room(0).map_err(Stop::State).and_then(|()| match queued {
        Some(_) if call.session.done == 0 => call.permit_queued(entry, args).map_err(Stop::Fault),
        _ => Ok(()),
    });
    let ran = match ran {
        Ok(()) if call.turn.is_tiered() && call.awaits_flash(entry, args) => Err(State::Parked.into()),
        Ok(()) => (entry.run)(&mut call, args),
        refused => refused,
    };
    *ops = call.ops;
    match ran {
        Ok(()) | Err(Stop::Quit) => {
            call.queued_done(entry, (name, args), queued);
            Ok(())
        }
        Err(Stop::UnderWay | Stop::Queued) => unreachable!("what acts for a claim begins no other"),
        Err(Stop::Fault(Fault::Damaged)) if call.turn.takes_lost() => {
            if call.session.done == 0 {
                call.out.truncate(mark);
            }
            Err(call.look_again(entry.keys_of(args)))
        }
        Err(Stop::Fault(fault)) => {
            call.out.truncate(mark);
            call.fault(fault);
            if !matches!(fault, Fault::NoLonger(_)) {
                call.queued_done(entry, (name, args), queued);
            }
            Ok(())
        }
        Err(Stop::State(state)) => {
            if call.session.done == 0 {
                call.out.truncate(mark);
            }
            Err(state)
        }
    }
}

impl Call<'_, '_> {
    /// A request of a transaction was executed: tells those that monitor, and keeps the times of a queued one. Its
    /// answer is sent with those of all, so what that takes is told of `EXEC` alone.
    fn queued_done(&mut self, entry: &table::Entry, (name, args): (&[u8], Args<'_>), queued: Option<Ticks>) {
        if self.ctx.watch.watched.tells_commands() {
            self.tell_monitors(name, args);
        }
        let Some(ready) = queued else { return };
        let line = if self.ctx.asks || entry.has_secret() { &[][..] } else { self.buf };
        self.ctx.op_done_unsent(entry.kind, ready, line);
    }
}

impl Transaction {
    /// Holds one request alone.
    fn hold(&mut self, name: &str, args: Args<'_>, kind: Command) {
        let words = [name.as_bytes()].into_iter().chain(args);
        self.queue.extend_from_slice(format!("*{}\r\n", args.len() + 1).as_bytes());
        for word in words {
            self.queue.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.queue.extend_from_slice(word);
            self.queue.extend_from_slice(b"\r\n");
        }
        (self.commands, self.is_lone, self.kind) = (1, true, kind);
    }

    /// It is done with: gives its claim back, and itself to who comes next.
    pub(super) fn put_away(mut self: Box<Self>, ctx: &mut WorkerContext) {
        ctx.shared.store.let_go(&mut self.claim);
        ctx.shared.queued.release(self.charged);
        if ctx.spares.0.len() < SPARE_MAX {
            self.forget(ANSWER_BYTES);
            ctx.spares.0.push(self);
        }
    }

    /// The connection ends: runs what was begun, and gives the rest up. False if it has to be asked again, in a later
    /// turn.
    pub(super) fn end(
        mut self: Box<Self>,
        turn: &mut Turn<'_>,
        session: &mut SessionState,
        ctx: &mut WorkerContext,
    ) -> Option<Box<Self>> {
        while self.stage == Stage::Running {
            match run(turn, &mut self, session, ctx, &mut 0) {
                Ok(()) => self.stage = Stage::Telling,
                Err(State::Yield) => {}
                Err(_) => return Some(self),
            }
        }
        self.put_away(ctx);
        None
    }
}

/// What a request over several keys that has become a transaction counts for until it is known.
pub(super) const KIND: Command = Command::Other;
