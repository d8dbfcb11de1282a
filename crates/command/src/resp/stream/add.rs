//! Commands that add entries to a stream, and that remove entries.

use super::{StreamError, given_id, put_id, whole_id};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, Effect};
use crate::resp::config_hints::{self, Hints};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices::{self, Slices};
use crate::resp::typed::{self, Edited};
use protocol::resp::{Args, reply};
use record::{Damaged, StreamEdit, StreamId, Streams};

/// The number of words of an entry that cost one operation.
const WORDS_AN_OP: usize = 8;
/// The settings of the maximum size of a group of entries.
const GROUP_ENTRIES: usize = config_hints::number_of("stream-node-max-entries");
const GROUP_BYTES: usize = config_hints::number_of("stream-node-max-bytes");
/// The maximum number of groups of entries that an approximate trim removes without `LIMIT`, as in Redis.
const GROUPS_A_TRIM: u64 = 100;
/// The numbers of entries that an approximate trim removes at most without `LIMIT`, as in Redis: if the size of groups
/// is not limited, and for groups of any size.
const TRIMMED_UNLIMITED: u64 = 10_000;
const TRIMMED_MAX: u64 = 1_000_000;

/// The entries that a trim retains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retained {
    /// This number of entries.
    Len(u64),
    /// The entries from this identifier on.
    From(StreamId),
}

/// A trim of a stream. An approximate one (`~`) removes whole groups of entries only, as Redis does, so that most calls
/// of `XADD` have nothing to remove:
///
/// ```text
///   entries ever added    1 ......... 100 | 101 ......... 200 | 201 ..... 250     groups of `stream-node-max-entries`
///   entries there                    ^ first                              ^ last
///   MAXLEN ~ 120                     └──────┘ goes: 150 remain
/// ```
///
/// Entries that were deleted from the middle shift the groups, and a stream that was emptied goes on in the same group.
#[derive(Clone, Copy, Debug)]
struct Trim {
    retained: Retained,
    /// The maximum number of entries that are removed.
    limit: u64,
    /// The number of entries of a group: 1 for an exact trim.
    group: u64,
}

impl Trim {
    /// Removes entries. Returns their number.
    fn apply(self, stream: &mut StreamEdit<'_>) -> Result<u64, Damaged> {
        let (len, added) = (stream.state().len, stream.state().added);
        let excess = match self.retained {
            Retained::Len(retained) => len.saturating_sub(retained),
            Retained::From(id) => stream.before(id)?,
        };
        let count = if excess == len && len <= self.limit {
            // The last group goes, complete or not.
            len
        } else {
            let gone = added.saturating_sub(len);
            let whole_groups = (gone + excess.min(self.limit)) / self.group * self.group;
            whole_groups.saturating_sub(gone)
        };
        stream.remove_first(count)?;
        Ok(count)
    }
}

/// The identifier of a new entry.
#[derive(Clone, Copy, Debug)]
enum NewId {
    /// The present time, or the next one after the last entry.
    Next,
    /// The given first number, with the next second number.
    Ms(u64),
    Given(StreamId),
}

impl NewId {
    /// Returns the identifier of an entry after `last`.
    fn after(self, last: StreamId, now_ms: u64) -> Result<StreamId, StreamError> {
        if last == StreamId::MAX {
            return Err(StreamError::Exhausted);
        }
        let id = match self {
            Self::Next if now_ms > last.ms => Some(StreamId { ms: now_ms, seq: 0 }),
            Self::Next => last.next(),
            Self::Ms(ms) if ms == last.ms => last.seq.checked_add(1).map(|seq| StreamId { ms, seq }),
            Self::Ms(ms) => Some(StreamId { ms, seq: 0 }),
            Self::Given(id) => Some(id),
        };
        id.filter(|id| *id > last).ok_or(StreamError::IdTooLow)
    }
}

/// The options of `XADD` and `XTRIM`.
#[derive(Clone, Copy, Debug, Default)]
struct TrimOptions {
    must_exist: bool,
    retained: Option<Retained>,
    is_approximate: bool,
    limit: Option<u64>,
}

impl TrimOptions {
    /// Parses the value of `MAXLEN` or `MINID`, after `=` or `~`. Returns the words behind it.
    fn read_retained<'c>(
        &mut self,
        mut args: Args<'c>,
        parse: impl FnOnce(&[u8]) -> Result<Retained, ErrorReply>,
    ) -> Result<Args<'c>, ErrorReply> {
        if self.retained.is_some() {
            return Err(ErrorReply::Stream(StreamError::TwoTrims));
        }
        let mut word = args.next().unwrap_or_default();
        self.is_approximate = word == b"~" && args.len() > 0;
        if self.is_approximate || word == b"=" && args.len() > 0 {
            word = args.next().unwrap_or_default();
        }
        self.retained = Some(parse(word)?);
        Ok(args)
    }

    /// Parses the options of `args`, up to a word that is no option. Returns the words from it on.
    fn read<'c>(mut args: Args<'c>, is_add: bool) -> Result<(Self, Args<'c>), ErrorReply> {
        let mut options = Self::default();
        loop {
            let left = args;
            let Some(word) = args.next() else { return Ok((options, left)) };
            let has_more = args.len() > 0;
            args = match &lower(word)[..] {
                b"maxlen" if has_more => options.read_retained(args, |word| {
                    let len = u64::try_from(integer(word)?).ok();
                    len.map(Retained::Len).ok_or(ErrorReply::Stream(StreamError::LenBelowZero))
                })?,
                b"minid" if has_more => options.read_retained(args, |word| Ok(Retained::From(whole_id(word)?)))?,
                b"limit" if has_more => {
                    let limit = integer(args.next().unwrap_or_default())?;
                    let limit = u64::try_from(limit).map_err(|_| ErrorReply::Stream(StreamError::LimitBelowZero))?;
                    options.limit = Some(limit);
                    args
                }
                b"nomkstream" if is_add => {
                    options.must_exist = true;
                    args
                }
                _ => return Ok((options, left)),
            };
        }
    }

    /// Returns the trim that the options describe, for a stream whose entries have about `entry_bytes` bytes.
    fn trim(&self, hints: &Hints, entry_bytes: usize) -> Result<Option<Trim>, ErrorReply> {
        let Some(retained) = self.retained else {
            return match self.limit {
                Some(1..) => Err(ErrorReply::Stream(StreamError::LimitWithoutTrim)),
                _ => Ok(None),
            };
        };
        if !self.is_approximate {
            return match self.limit {
                Some(_) => Err(ErrorReply::Stream(StreamError::LimitOfExactTrim)),
                None => Ok(Some(Trim { retained, limit: u64::MAX, group: 1 })),
            };
        }
        let (entries, bytes) = (hints.value(GROUP_ENTRIES), hints.value(GROUP_BYTES));
        let limit = match self.limit {
            Some(0) => u64::MAX,
            Some(limit) => limit,
            None if entries == 0 => TRIMMED_UNLIMITED,
            None => entries.saturating_mul(GROUPS_A_TRIM).min(TRIMMED_MAX),
        };
        // 0 is no limit.
        let most = |setting: u64, most: u64| if setting == 0 { TRIMMED_MAX } else { most.max(1) };
        let in_bytes = most(bytes, bytes / entry_bytes.max(1) as u64);
        Ok(Some(Trim { retained, limit, group: most(entries, entries).min(in_bytes) }))
    }
}

/// Parses the identifier of `XADD`.
fn new_id(word: &[u8]) -> Result<NewId, ErrorReply> {
    if word == b"*" {
        return Ok(NewId::Next);
    }
    let given = given_id(word, 0)?;
    Ok(if given.is_partial { NewId::Ms(given.id.ms) } else { NewId::Given(given.id) })
}

pub(in crate::resp) fn xadd<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let (options, mut rest) = TrimOptions::read(args.after_first(), true)?;
    let id = rest.next().map(new_id).transpose()?;
    let trim = options.trim(&call.ctx.shared.live.hints, rest.wire_bytes())?;
    let id = id.filter(|_| rest.len() >= 2 && rest.len().is_multiple_of(2)).ok_or(ErrorReply::Arity("xadd"))?;
    if matches!(id, NewId::Given(StreamId::MIN)) {
        return Err(ErrorReply::Stream(StreamError::IdZero).into());
    }
    if rest.wire_bytes() > call.guard.sizes().element_bytes_max() {
        return Err(ErrorReply::ElementTooLong.into());
    }
    let moment = call.moment();
    let now_ms = moment.to_wall(moment.now).0;
    typed::room_to_store(call, rest.wire_bytes() as u64)?;
    let (added, effect) = collection::change::<Streams, _>(call, key, &mut |old, stream| {
        if old.is_none() && options.must_exist {
            return Ok(Edited::Keep(None));
        }
        let id = id.after(stream.state().last, now_ms).map_err(ErrorReply::Stream)?;
        stream.append(id, rest)?;
        let trimmed = trim.map_or(Ok(0), |trim| trim.apply(stream))?;
        Ok(Edited::Store(Some((id, trimmed))))
    })?;
    call.ops += rest.len() / WORDS_AN_OP;
    let Some((id, trimmed)) = added else {
        call.null();
        return Ok(());
    };
    collection::notify(call, key, KeyEvent::XADD, effect);
    if trimmed > 0 {
        call.changed(KeyEvent::XTRIM, key);
    }
    put_id(call.out, id);
    Ok(())
}

pub(in crate::resp) fn xtrim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let (options, rest) = TrimOptions::read(args.after_first(), false)?;
    if rest.len() > 0 {
        return Err(ErrorReply::Syntax.into());
    }
    let trim = options.trim(&call.ctx.shared.live.hints, 0)?.ok_or(ErrorReply::Stream(StreamError::NoTrim))?;
    let trimmed = collection::change_and_notify::<Streams, _>(call, key, KeyEvent::XTRIM, &mut |old, stream| {
        if old.is_none() {
            return Ok(Edited::Keep(0));
        }
        let trimmed = trim.apply(stream)?;
        Ok(if trimmed > 0 { Edited::Store(trimmed) } else { Edited::Keep(0) })
    })?;
    call.int(trimmed as i64);
    Ok(())
}

pub(in crate::resp) fn xdel<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let ids = args.after_first();
    // The type of the value is checked before the identifiers.
    if collection::look::<Streams, _>(call, key, |_, stream| Ok(stream.is_none()))? && call.session.done == 0 {
        call.int(0);
        return Ok(());
    }
    slices::check_words(call, ids, |id| whole_id(id).map(drop))?;
    let mut slices = Slices::begin(call, ("xdel", args), key, (ids, 1), false)?;
    while let Some((ids, _)) = slices.next(call)? {
        let (deleted, effect) = collection::change::<Streams, _>(call, key, &mut |_, stream| {
            let mut deleted = 0;
            for id in ids {
                deleted += i64::from(stream.remove(whole_id(id)?)?);
            }
            Ok(if deleted > 0 { Edited::Store(deleted) } else { Edited::Keep(0) })
        })?;
        call.session.sum += deleted;
        let is_new = effect.is_changed && !std::mem::replace(&mut call.session.is_published, true);
        collection::notify(call, key, KeyEvent::XDEL, Effect { is_changed: is_new, ..effect });
    }
    call.int(call.session.sum);
    Ok(())
}

/// The arguments of `XSETID`.
struct NewState {
    last: StreamId,
    added: Option<u64>,
    deleted_max: StreamId,
}

impl NewState {
    fn read(mut args: Args<'_>) -> Result<Self, ErrorReply> {
        let last = whole_id(args.next().unwrap_or_default())?;
        let mut state = Self { last, added: None, deleted_max: StreamId::MIN };
        while let Some(word) = args.next() {
            let value = args.next().ok_or(ErrorReply::Syntax)?;
            match &lower(word)[..] {
                b"entriesadded" => {
                    let added = u64::try_from(integer(value)?).ok();
                    state.added = Some(added.ok_or(ErrorReply::Stream(StreamError::AddedBelowZero))?);
                }
                b"maxdeletedid" => {
                    state.deleted_max = whole_id(value)?;
                    if state.last < state.deleted_max {
                        return Err(ErrorReply::Stream(StreamError::BelowGivenDeleted));
                    }
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(state)
    }
}

pub(in crate::resp) fn xsetid<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let new = NewState::read(args.after_first())?;
    typed::room_to_store(call, 0)?;
    collection::change_and_notify::<Streams, _>(call, key, KeyEvent::XSETID, &mut |old, stream| {
        let old = old.ok_or(ErrorReply::NoKey)?;
        let state = old.state();
        if let Some(last) = old.last()? {
            if new.last < last.id {
                return Err(ErrorReply::Stream(StreamError::BelowLast));
            }
            if new.added.is_some_and(|added| added < state.len) {
                return Err(ErrorReply::Stream(StreamError::AddedBelowLen));
            }
        }
        let deleted_max = if new.deleted_max == StreamId::MIN { state.deleted_max } else { new.deleted_max };
        stream.set_state(new.last, deleted_max, new.added.unwrap_or(state.added));
        Ok(Edited::Store(()))
    })?;
    call.out.push(reply::OK);
    Ok(())
}
