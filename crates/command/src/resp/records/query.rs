//! The command `REC.QUERY`, which finds the records of a set by the value of an indexed bin, in memory and on flash.
//!
//! ```text
//!   index ──entries from the cursor on──> examine the record of each entry, under the lock of its key's stripe if free
//!                           │ a record on flash: the request parks during the read, and later records are read ahead
//!                           ├─ has the entry's value ──filter──> returned
//!                           ├─ has another value, and is being or was just changed ──range, filter──> returned
//!                           └─ otherwise (another value, or no record of the set) ──> the entry is removed
//! ```
//!
//! - An index entry is only a hint, so the query checks the record of each entry. A record is returned with the values
//!   that it had when the query read it. One command returns each record at most once.
//! - If a record's indexed value changes during a query, but stays within the queried range, the record is returned for
//!   its old entry, because the query may have passed the new entry already.
//! - Results are retained between the visits of a command (in [`QueryProgress`]). Their size is bounded by the maximum
//!   number of returned records and by the maximum length of a reply.

use super::read::ReadOptions;
use super::{Bad, set_name};
use crate::keyspace::indexes::{IndexState, SetIndex};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::index_places::record_of_set;
use crate::resp::number::integer;
use crate::resp::records;
use crate::resp::state::walk::QueryProgress;
use crate::resp::typed::{self, KeyParts};
use crate::resp::walk;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use record::{IndexPosting, IndexType, Name, Value};
use segment::Item;
use std::sync::Arc;

/// The default of `LIMIT`: the maximum number of records that one command returns.
const LIMIT: i64 = 100;
/// The maximum of `LIMIT`, in records.
const LIMIT_MAX: i64 = 4096;
/// The maximum number of times that one command fetches more index entries to replace stale ones.
const REFILLS_MAX: usize = 16;

/// The queried range of values, both ends included.
struct Range<'c> {
    low: Value<'c>,
    high: Value<'c>,
}

impl<'c> Range<'c> {
    fn read(kind: IndexType, args: &mut Args<'c>) -> Result<Self, ErrorReply> {
        let value = |word: Option<&'c [u8]>| {
            let word = word.ok_or(ErrorReply::Syntax)?;
            Ok::<_, ErrorReply>(match kind {
                IndexType::Integer => Value::Integer(integer(word)?),
                IndexType::Text => Value::Text(word),
            })
        };
        match &lower(args.next().ok_or(ErrorReply::Syntax)?)[..] {
            b"eq" => {
                let value = value(args.next())?;
                Ok(Self { low: value, high: value })
            }
            b"between" => Ok(Self { low: value(args.next())?, high: value(args.next())? }),
            _ => Err(ErrorReply::Syntax),
        }
    }

    fn has(&self, value: &Value<'_>) -> bool {
        match (&self.low, value, &self.high) {
            (Value::Integer(low), Value::Integer(value), Value::Integer(high)) => (low..=high).contains(&value),
            (Value::Text(low), Value::Text(value), Value::Text(high)) => (low..=high).contains(&value),
            _ => false,
        }
    }
}

/// Parses a cursor. A cursor is the last index entry that the previous command examined, written as three numbers of 16
/// hexadecimal digits each (see [`IndexPosting`]).
fn cursor(word: &[u8]) -> Option<IndexPosting> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() == 48 && text.is_ascii())?;
    let number = |at: usize| u64::from_str_radix(&text[at..at + 16], 16).ok();
    Some(IndexPosting { order: number(0)?, more: number(16)?, key: number(32)? })
}

/// The arguments of one `REC.QUERY` command.
struct Query<'c> {
    set: u16,
    bin: &'c [u8],
    range: Range<'c>,
    limit: usize,
    after: Option<IndexPosting>,
    telling: ReadOptions<'c>,
}

/// The result of examining the record of an index entry.
enum RecordLookup {
    Replied,
    /// The record does not match the query's filter, or is already in the reply.
    Left,
    /// The entry is stale: no record of the set with this key has the entry's value.
    Elsewhere,
}

impl<'c> Query<'c> {
    fn read(set: u16, bin: &'c [u8], kind: IndexType, mut args: Args<'c>) -> Result<Self, Bad<'c>> {
        let range = Range::read(kind, &mut args)?;
        let (mut limit, mut after) = (LIMIT, None);
        let telling = ReadOptions::read(args, |word, args| {
            let value = args.next().ok_or(ErrorReply::Syntax)?;
            match word {
                b"limit" => {
                    limit = integer(value).ok().filter(|limit| *limit > 0).ok_or(ErrorReply::Syntax)?.min(LIMIT_MAX)
                }
                b"after" if value == b"0" => {}
                b"after" => after = Some(cursor(value).ok_or(ErrorReply::Cursor)?),
                _ => return Err(ErrorReply::Syntax),
            }
            Ok(())
        })?;
        Ok(Self { set, bin, range, limit: limit as usize, after, telling })
    }

    /// Fetches more index entries if all fetched entries have been examined. Returns false if the command has no more
    /// entries to examine.
    fn fill(&self, index: &SetIndex, going: &mut QueryProgress) -> bool {
        let most = if going.fills == 0 { self.limit } else { going.swept };
        if going.at < going.entries.len() {
            return true;
        }
        if most == 0 || going.fills > REFILLS_MAX {
            return false;
        }
        let behind = going.last.or(self.after);
        let (from, to) = self.bounds(index);
        going.entries = index.range(from.max(behind.unwrap_or_default()), to, most + 1);
        going.entries.retain(|entry| Some(*entry) != behind);
        (going.at, going.swept, going.fills) = (0, 0, going.fills + 1);
        !going.entries.is_empty()
    }

    fn bounds(&self, index: &SetIndex) -> (IndexPosting, IndexPosting) {
        index.kind.range(&self.range.low, &self.range.high).expect("the values have the index's type")
    }

    /// Collects the records of the range. Returns the index entry after which the client's next command continues, or
    /// `None` at the end of the range.
    fn run(
        &self,
        index: &SetIndex,
        call: &mut Call<'_, '_>,
        going: &mut QueryProgress,
    ) -> Result<Option<IndexPosting>, Interrupt> {
        let bytes_max = call.ctx.request_bytes_max / 2;
        while !going.is_whole {
            let is_enough = going.replied.len() >= self.limit || going.bytes.len() > bytes_max;
            if is_enough || !self.fill(index, going) {
                going.is_whole = true;
                break;
            }
            self.look(index, call, going)?;
            going.last = Some(going.entries[going.at]);
            going.at += 1;
            call.ops += 1;
            if call.is_slice_used() {
                return Err(SessionWait::Yield.into());
            }
        }
        let (_, to) = self.bounds(index);
        let is_more = |last: &IndexPosting| index.range(*last, to, 2).iter().any(|entry| entry != last);
        Ok(going.last.filter(is_more))
    }

    /// Examines the record of the next entry. Removes the entry from the index if it is stale.
    fn look(&self, index: &SetIndex, call: &mut Call<'_, '_>, going: &mut QueryProgress) -> Result<(), Interrupt> {
        let shared = Arc::clone(&call.ctx.shared);
        let QueryProgress { entries, at, swept, replied, bytes, .. } = going;
        let (entry, more) = (entries[*at], &entries[*at + 1..]);
        // With a filter, it is unknown how many records must be read to reach the limit, so the records of all fetched
        // entries are read ahead.
        let wanted = if self.telling.filter.is_some() { more.len() } else { self.limit - replied.len() - 1 };
        let ahead = more.iter().take(wanted).map(|entry| entry.key);
        // While this thread holds the lock of the key's stripe, no client can change the record or its index entries.
        let stripe = shared.indexes.stripe(entry.key);
        let is_moving = || stripe.is_none() || !index.has(&entry);
        let (begun, mut looked, mut broken) = (bytes.len(), Ok(RecordLookup::Elsewhere), None);
        let namespace = call.session.namespace;
        call.guard.walks().visit_hash(namespace, entry.key, ahead, &mut |item| {
            looked = match replied.contains(&entry.key) {
                true => Ok(RecordLookup::Left),
                false => self.reply_records(index, item, entry, &is_moving, call, bytes),
            };
            broken = looked.is_err().then(|| item.key.to_vec());
        })?;
        match looked {
            Ok(RecordLookup::Replied) => drop(replied.insert(entry.key)),
            Ok(RecordLookup::Left) => {}
            Ok(RecordLookup::Elsewhere) if stripe.is_some() => {
                index.remove(&entry);
                *swept += 1;
            }
            Ok(RecordLookup::Elsewhere) => {}
            Err(fault) => {
                bytes.truncate(begun);
                drop(stripe);
                return Err(match broken.filter(|_| fault == ErrorReply::Damaged && call.guard.parts().take_lost()) {
                    Some(key) => call.retry_after_lost_part(std::iter::once(&key[..])).into(),
                    None => fault.into(),
                });
            }
        }
        Ok(())
    }

    /// Writes the record of an item to `bytes` if the record matches the query. `is_moving` returns true if another
    /// thread is changing the record, or has just changed it.
    fn reply_records(
        &self,
        index: &SetIndex,
        item: &Item<'_>,
        entry: IndexPosting,
        is_moving: &dyn Fn() -> bool,
        call: &Call<'_, '_>,
        bytes: &mut Vec<u8>,
    ) -> Result<RecordLookup, ErrorReply> {
        let view = call.ctx.view();
        if record_of_set(item, view) != Some(self.set) {
            return Ok(RecordLookup::Elsewhere);
        }
        let parts = KeyParts::new(call.guard, call.key(item.key));
        let Some(record) = typed::record(Some(item), view, &parts)? else { return Ok(RecordLookup::Elsewhere) };
        let value = record.find(&Name::new(self.bin), view.now_ms)?.map(|bin| bin.value);
        let place = value.as_ref().and_then(|value| index.kind.place(value));
        if place != Some((entry.order, entry.more)) && !is_moving() {
            return Ok(RecordLookup::Elsewhere);
        }
        if value.is_none_or(|value| !self.range.has(&value)) || !self.telling.takes(&record, view.now_ms)? {
            return Ok(RecordLookup::Left);
        }
        self.telling.put_with_key(bytes, call.session.version, &record, item, view.now_ms)?;
        Ok(RecordLookup::Replied)
    }
}

/// Executes a query:
/// `REC.QUERY set bin EQ value|BETWEEN low high [LIMIT n] [AFTER cursor] [TYPED] [FILTER filter] [BINS name ...]`.
pub(in super::super) fn query<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = Arc::clone(&call.ctx.shared);
    let set = shared.sets.find(call.session.namespace.0, name).map(record::Set::number);
    let Some((set, index)) = set.and_then(|set| Some((set, shared.indexes.find(set, bin)?))) else {
        reply::error(call.out, b"NOINDEX the index does not exist: create it with REC.INDEX CREATE");
        return Ok(());
    };
    let query = match Query::read(set, bin, index.kind, args) {
        Ok(query) => query,
        Err(bad) => return records::bad(call, b"", bad),
    };
    match index.state() {
        IndexState::Ready => {}
        IndexState::Building => {
            reply::error(call.out, b"BUILDING the index is not complete yet: retry later");
            return Ok(());
        }
        IndexState::Full => {
            reply::error(call.out, b"INDEXFULL the index is full: drop it and create it with more MEMORY");
            return Ok(());
        }
    }
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_default();
    let ran = query.run(&index, call, &mut walk.query).and_then(|next| {
        let bytes = walk.query.bytes.len() + 128;
        typed::answer_room(call.out, call.ctx.request_bytes_max, bytes).map(|()| next)
    });
    let next = match ran {
        Ok(next) => next,
        Err(stop) => return walk::suspend(call, walk, stop),
    };
    reply::array(call.out, 2);
    match next {
        Some(IndexPosting { order, more, key }) => {
            reply::bulk(call.out, format!("{order:016x}{more:016x}{key:016x}").as_bytes());
        }
        None => reply::bulk(call.out, b"0"),
    }
    reply::array(call.out, walk.query.replied.len() as u64);
    call.out.push(&walk.query.bytes);
    Ok(())
}
