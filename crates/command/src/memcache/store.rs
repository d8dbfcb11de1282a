//! Storage commands whose whole value is in the input: `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms`.

use super::call::{Call, Step};
use super::state::{Answer, MetaAnswer, Plan};
use super::watch::WatchedLookup;
use super::{LINE_ROOM, exptime};
use crate::keyspace::prefixes::Count;
use crate::lookup::ahead::NextSet;
use crate::memcache::get;
use crate::memcache::large;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::resp;
use crate::visit::clock::Moment;
use crate::visit::progress::SessionWait;
use protocol::memcache::key::{KEY_BASE64_BYTES_MAX, encode};
use protocol::memcache::meta::{Meta, MetaStoreMode, OPAQUE_BYTES_MAX};
use protocol::memcache::request::{Store, StoreMode};
use protocol::memcache::{Body, Error, KeyScratch, body, reply, set_key};
use segment::{Delete, DeleteOutcome, Expire, OpError, Put, PutMode, PutOutcome};

impl MetaAnswer {
    fn new(meta: &Meta<'_>) -> Self {
        let mut answer = Self {
            quiet: meta.has(b'q'),
            encoded: meta.key.is_encoded(),
            order: [0; 4],
            opaque: [0; OPAQUE_BYTES_MAX],
            opaque_len: 0,
        };
        let mut at = 0;
        for word in meta.in_order() {
            if word[0] == b'O' {
                answer.opaque[..word.len() - 1].copy_from_slice(&word[1..]);
                answer.opaque_len = (word.len() - 1) as u8;
            }
            if matches!(word[0], b'O' | b'k' | b'c' | b's') {
                answer.order[at] = word[0];
                at += 1;
            }
        }
        answer
    }

    fn write(&self, out: &mut crate::visit::out::OutBuffer, code: &[u8; 2], key: &[u8], token: u64, value_len: u64) {
        let mut line = reply::MetaLine::new(out, code);
        for letter in self.order.into_iter().take_while(|letter| *letter != 0) {
            match letter {
                b'O' => line.token(b'O', &self.opaque[..usize::from(self.opaque_len)]),
                b'c' => line.number(b'c', token),
                b's' => line.number(b's', value_len),
                _ if self.encoded => {
                    let mut base64 = [0; KEY_BASE64_BYTES_MAX];
                    let len = encode(key, &mut base64);
                    line.token(b'k', &base64[..len]);
                    line.mark(b'b');
                }
                _ => line.token(b'k', key),
            }
        }
        line.finish();
    }
}

impl Plan {
    fn text(header: &Store<'_>, moment: Moment) -> Self {
        let (mode, command) = match header.mode {
            StoreMode::Set if header.compare.is_some() => (PutMode::Set, Command::Cas),
            StoreMode::Set => (PutMode::Set, Command::Set),
            StoreMode::Add => (PutMode::Add, Command::Add),
            StoreMode::Replace => (PutMode::Replace, Command::Replace),
            StoreMode::Append => (PutMode::Append, Command::Append),
            StoreMode::Prepend => (PutMode::Prepend, Command::Prepend),
        };
        let put = Put {
            mode,
            client_flags: header.client_flags,
            expire: exptime::expire(header.exptime, moment),
            compare: header.compare,
            ..Put::set(b"")
        };
        Self { put, answer: Answer::Text { noreply: header.noreply }, command }
    }

    fn meta(meta: &Meta<'_>, moment: Moment) -> Self {
        let mode = match meta.store_mode() {
            MetaStoreMode::Set => PutMode::Set,
            MetaStoreMode::Add => PutMode::Add,
            MetaStoreMode::Replace => PutMode::Replace,
            MetaStoreMode::Append => PutMode::Append,
            MetaStoreMode::Prepend => PutMode::Prepend,
        };
        let answer = MetaAnswer::new(meta);
        let put = Put {
            mode,
            value: b"",
            client_flags: meta.client_flags(),
            expire: meta.expire().map_or(Expire::Never, |exptime| exptime::expire(exptime, moment)),
            // An `add` has no item to compare with.
            compare: meta.compare().filter(|_| mode != PutMode::Add),
            invalidate: meta.has(b'I'),
            token: meta.token(),
            vivify: meta.vivify().map(|exptime| exptime::expire(exptime, moment)),
            want_token: answer.order.contains(&b'c'),
        };
        Self { put, answer: Answer::Meta(answer), command: Command::MetaSet }
    }

    /// Returns the operation for the store, with `value`.
    pub(super) fn put<'v>(&self, value: &'v [u8]) -> Put<'v> {
        Put { value, ..self.put }
    }

    /// Returns the expiry of the pieces of a large value. An appended or prepended value gets the expiry of the
    /// existing item, so its pieces only have to exist until then.
    pub(super) fn pieces_end(&self) -> Expire {
        match self.put.mode {
            PutMode::Append | PutMode::Prepend => self.put.vivify.unwrap_or(Expire::Never),
            _ => self.put.expire,
        }
    }

    /// Returns the command's name in watchers' lines: `cas` for a command that compares the token of an existing item.
    pub(super) fn watched_name(&self) -> &'static str {
        match self.put.mode {
            PutMode::Set | PutMode::Replace if self.put.compare.is_some() => "cas",
            PutMode::Set => "set",
            PutMode::Add => "add",
            PutMode::Replace => "replace",
            PutMode::Append => "append",
            PutMode::Prepend => "prepend",
        }
    }

    /// Returns true if the client asked for no reply, not even for errors. A quiet meta command hides only expected
    /// outcomes.
    pub(super) fn hides_errors(&self) -> bool {
        matches!(self.answer, Answer::Text { noreply: true })
    }

    /// Returns true if the command stores unconditionally. If such a command fails, the older value must not remain
    /// readable.
    pub(super) fn replaces(&self) -> bool {
        self.put.is_unconditional()
    }
}

/// Executes a text storage command.
pub(super) fn store<'c>(call: &mut Call<'c, '_>, header: Store<'c>, consumed: usize) -> Step {
    watch::count_prefix(call, header.key, Count::Set);
    call.sample(header.key, false);
    let mut plan = Plan::text(&header, call.ctx.moment());
    if plan.put.compare.is_some() && !call.ctx.shared.config.cas {
        plan.put.compare = Some(u64::MAX);
    }
    store_planned(call, plan, header.key, header.value_len, consumed)
}

/// Executes an `ms`.
pub(super) fn meta_store<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, value_len: u32, consumed: usize) -> Step {
    let plan = Plan::meta(meta, call.ctx.moment());
    let mut scratch = KeyScratch::default();
    call.sample_meta(meta, false);
    store_planned(call, plan, meta.key.bytes(&mut scratch), value_len, consumed)
}

fn store_planned(call: &mut Call<'_, '_>, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
    if let Err(error) = call.ctx.check_room(call.session.namespace, value_len.into()) {
        return store_full(call, &plan, key, value_len, consumed, error);
    }
    if u64::from(value_len) > call.guard.sizes().large_threshold() {
        return large::large_begin(call, plan, key, value_len, consumed);
    }
    let whole = consumed + value_len as usize + 2;
    let value = match body(&call.rest()[consumed..], value_len) {
        Body::Incomplete if large::whole_begin(call, &plan, key, value_len, consumed) => {
            return Err(SessionWait::NeedInput { want: 1 });
        }
        Body::Incomplete => return Err(SessionWait::NeedInput { want: whole }),
        Body::Value(value) => value,
        Body::BadTerminator => {
            call.at += whole;
            refuse(call, &plan, Error::BadDataChunk);
            return Ok(());
        }
    };
    let known = call.next_set.take().and_then(|set| set.key(call.guard, call.at, key));
    let key = known.unwrap_or_else(|| call.guard.key(call.session.namespace, key));
    prefetch_next(call, call.at + whole);
    if plan.put.mode == PutMode::Replace || plan.put.invalidate {
        resp::remove_ended(call.guard, call.ctx, &key)?;
    }
    let before = watch::look_up_watched(call, &key);
    let mut outcome = call.guard.items_mut().put(&key, &plan.put(value));
    if matches!(outcome, Ok(PutOutcome::NotStored | PutOutcome::WrongType | PutOutcome::Exists))
        && resp::remove_ended(call.guard, call.ctx, &key)?
    {
        outcome = call.guard.items_mut().put(&key, &plan.put(value));
    }
    match outcome {
        Ok(outcome) => stored(call, &plan, key.bytes(), before, outcome, value_len.into()),
        Err(error) => not_stored(call, &plan, key.bytes(), error)?,
    }
    call.at += whole;
    call.done(plan.command);
    Ok(())
}

/// Prefetches the index buckets of the request at position `at` of the input, if that request is a `set`, while the
/// previous `set` is executed.
#[inline]
fn prefetch_next(call: &mut Call<'_, '_>, at: usize) {
    // If keys are routed to several namespaces, the namespace of the next key is not known yet.
    if !call.guarded {
        let next = set_key(&call.buf[at..]);
        call.next_set = next.map(|key| NextSet::prefetch_keys(call.guard, call.session.namespace, at, key));
    }
}

/// Refuses and discards a value for which the store has no room and cannot evict enough items. If the operation is
/// parked, the request is retried later instead.
#[cold]
fn store_full(
    call: &mut Call<'_, '_>,
    plan: &Plan,
    key: &[u8],
    value_len: u32,
    consumed: usize,
    error: OpError,
) -> Step {
    not_stored(call, plan, key, error)?;
    call.at += consumed;
    call.session.discard_bytes = u64::from(value_len) + 2;
    call.done(plan.command);
    Ok(())
}

/// Handles a value that was not stored. Reports the error. If the command would have replaced an older item, deletes
/// that item, so that clients do not read an outdated value.
pub(super) fn not_stored(call: &mut Call<'_, '_>, plan: &Plan, key: &[u8], error: OpError) -> Step {
    if error != OpError::Parked {
        let mut before = None;
        if plan.replaces() {
            let key = call.guard.key(call.session.namespace, key);
            before = watch::look_up_watched(call, &key);
            match call.guard.items_mut().delete(&key, &Delete::default()) {
                Err(OpError::Parked) => return Err(SessionWait::Parked),
                Ok(DeleteOutcome::Expired) => watch::report_expired(call, key.bytes()),
                _ => {}
            }
        }
        watch::report_refused(call, plan, key, error, before);
    }
    get::op_error(call, error, plan.hides_errors())
}

/// Replies with an error to a request whose value cannot be stored.
pub(super) fn refuse(call: &mut Call<'_, '_>, plan: &Plan, error: Error) {
    call.counters().protocol_errors.add(1);
    if !plan.hides_errors() {
        reply::error(call.out, error);
    }
    call.done(plan.command);
}

/// Completes a store whose outcome is known: counts it, reports it to watchers, and replies. `before` is the item that
/// existed before, if there are watchers.
pub(super) fn stored(
    call: &mut Call<'_, '_>,
    plan: &Plan,
    key: &[u8],
    before: Option<WatchedLookup>,
    outcome: PutOutcome,
    value_len: u64,
) {
    // An append or prepend needs an existing item whose type permits it.
    let outcome = match outcome {
        PutOutcome::WrongType => PutOutcome::NotStored,
        PutOutcome::NotFound if matches!(plan.put.mode, PutMode::Append | PutMode::Prepend) => PutOutcome::NotStored,
        outcome => outcome,
    };
    watch::report_stored(call, plan, key, before, outcome, value_len);
    if matches!(outcome, PutOutcome::Stored { .. }) {
        call.ctx.note_length(call.session.namespace, key, value_len);
    }
    let counters = call.counters();
    counters.cmd_set.add(1);
    match outcome {
        PutOutcome::Stored { .. } => {
            counters.items_stored.add(1);
            if plan.put.compare.is_some() {
                counters.cas_hits.add(1);
            }
        }
        PutOutcome::Exists => counters.cas_badval.add(1),
        PutOutcome::NotFound => counters.cas_misses.add(1),
        PutOutcome::NotStored | PutOutcome::WrongType => {}
    }
    match &plan.answer {
        Answer::Text { noreply: true } => {}
        Answer::Text { noreply: false } => call.out.push(match outcome {
            PutOutcome::Stored { .. } => reply::STORED,
            PutOutcome::NotStored | PutOutcome::WrongType => reply::NOT_STORED,
            PutOutcome::Exists => reply::EXISTS,
            PutOutcome::NotFound => reply::NOT_FOUND,
        }),
        Answer::Meta(answer) => {
            counters.cmd_meta.add(1);
            let (code, token) = match outcome {
                PutOutcome::Stored { token, .. } => (b"HD", call.ctx.client_token(token)),
                PutOutcome::NotStored | PutOutcome::WrongType => (b"NS", 0),
                PutOutcome::Exists => (b"EX", 0),
                PutOutcome::NotFound => (b"NF", 0),
            };
            if !(answer.quiet && code == b"HD") {
                answer.write(call.out, code, key, token, value_len);
            }
        }
    }
}

const _: () = assert!(KEY_BASE64_BYTES_MAX + OPAQUE_BYTES_MAX + 64 <= LINE_ROOM);
