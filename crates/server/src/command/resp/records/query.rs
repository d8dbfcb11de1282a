//! Secondary indexes on the wire: `REC.INDEX` and `REC.QUERY`; and what keeps them while records change.

use super::read::Telling;
use super::walk::record_of_set;
use super::{Bad, bin_name, set_name};
use crate::command::resp::error::{self, Fault};
use crate::command::resp::number::integer;
use crate::command::resp::table::lower;
use crate::command::resp::typed::{self, KeyParts, View};
use crate::command::resp::{Call, NAMESPACE, Run, Stop};
use crate::context::{OPS_A_BATCH, State};
use crate::indexes::{IndexFault, IndexState, Indexes, Moves, SetIndex};
use protocol::number::parse_u64;
use protocol::resp::{Args, reply};
use record::{Entry, IndexType, Name, Record, Value};
use segment::Turn;

/// Records that a call tells if no limit is given.
const LIMIT: i64 = 100;
/// Records that a call tells at most.
const LIMIT_MAX: i64 = 4096;
/// Keys looked at that count as one operation.
const KEYS_AN_OP: usize = 16;
/// The part of the memory that an index gets if nothing is said.
const MEMORY_PART: u64 = 32;
/// The least memory of an index, in bytes.
const MEMORY_MIN: u64 = 64 << 10;

/// `REC.INDEX CREATE set bin INT|STR [MEMORY bytes]`, `REC.INDEX DROP set bin`, `REC.INDEX LIST`
pub(in super::super) fn index<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut words = args;
    let topic = words.next().unwrap_or_default();
    match (&lower(topic)[..], words.len()) {
        (b"create", 3 | 5) if !call.beside => call.run_beside("rec.index", args),
        (b"create", 3 | 5) => create(call, words),
        (b"drop", 2) => drop_index(call, words),
        (b"list", 0) => list(call),
        _ => {
            error::subcommand(call.out, "REC.INDEX", topic);
            Ok(())
        }
    }
}

fn create<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    if let Err(refusal) = bin_name(bin) {
        return call.bad(b"", Bad::Refusal(refusal));
    }
    let kind = match &lower(args.next().unwrap_or_default())[..] {
        b"int" => IndexType::Integer,
        b"str" => IndexType::Text,
        _ => return Err(Fault::Syntax.into()),
    };
    let shared = std::sync::Arc::clone(&call.ctx.shared);
    let mut bytes = (shared.store.memory_bytes() / MEMORY_PART).max(MEMORY_MIN);
    if let Some(word) = args.next() {
        if !word.eq_ignore_ascii_case(b"memory") {
            return Err(Fault::Syntax.into());
        }
        bytes =
            parse_u64(args.next().unwrap_or_default()).filter(|bytes| *bytes >= MEMORY_MIN).ok_or(Fault::OutOfRange)?;
    }
    let set = shared.sets.make(NAMESPACE.0, name).map_err(|_| Fault::TooManySets)?.number();
    let walk = call.session.walk.take();
    let index = match &walk {
        Some(_) => shared.indexes.find(set, bin),
        None => {
            let whole = shared.store.memory_bytes() + shared.indexes.bytes();
            let resize = |bytes: u64| whole > bytes && shared.resize_store(whole - bytes).is_ok();
            match shared.indexes.create(set, bin, kind, bytes, resize) {
                Ok(index) => Some(index),
                Err(fault) => {
                    reply::error(
                        call.out,
                        match fault {
                            IndexFault::Exists => b"EXISTS this index is there".as_slice(),
                            IndexFault::TooMany => b"ERR there are 64 indexes, and no room for another",
                            IndexFault::NoMemory => b"OOM the store cannot go on with so much less memory: give less",
                        },
                    );
                    return Ok(());
                }
            }
        }
    };
    // Somebody may have dropped it meanwhile.
    let Some(index) = index else {
        call.out.push(reply::OK);
        return Ok(());
    };
    let mut walk = walk.unwrap_or_default();
    loop {
        let (mut keys, mut looked) = (Vec::new(), 0);
        let view = call.ctx.view();
        let next = call.turn.scan(walk.cursor, &mut |item| {
            looked += 1;
            if record_of_set(item, view) == Some(set) {
                keys.push(item.key.to_vec());
            }
        });
        for key in keys {
            if let Err(stop) = call.enter(&key, &index) {
                call.session.done = 1;
                call.session.walk = Some(walk);
                return Err(stop);
            }
        }
        call.ops += looked / KEYS_AN_OP + 1;
        let Some(at) = next else { break };
        walk.cursor = at;
        if call.ops >= OPS_A_BATCH {
            call.session.done = 1;
            call.session.walk = Some(walk);
            return Err(State::Yield.into());
        }
    }
    index.built();
    call.out.push(reply::OK);
    Ok(())
}

fn drop_index<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = std::sync::Arc::clone(&call.ctx.shared);
    let whole = shared.store.memory_bytes() + shared.indexes.bytes();
    let dropped = shared.sets.find(NAMESPACE.0, name).is_some_and(|set| {
        // More memory than it had before the index the store can always have.
        shared.indexes.drop_index(set.number(), bin, |bytes| drop(shared.resize_store(whole - bytes)))
    });
    call.int(dropped.into());
    Ok(())
}

fn list(call: &mut Call<'_, '_>) -> Run {
    let (mut told, shared) = (Vec::new(), &call.ctx.shared);
    let all = shared.indexes.all();
    for index in &all {
        reply::array(&mut told, 6);
        reply::bulk(&mut told, shared.sets.of(index.set).map_or(b"", |set| set.name()));
        reply::bulk(&mut told, &index.bin);
        reply::bulk(&mut told, if index.kind == IndexType::Integer { b"INT" } else { b"STR" });
        reply::bulk(
            &mut told,
            match index.state() {
                IndexState::Building => b"building".as_slice(),
                IndexState::Ready => b"ready",
                IndexState::Full => b"full",
            },
        );
        reply::int(&mut told, index.len() as i64);
        reply::int(&mut told, index.bytes as i64);
    }
    call.answer_room(told.len() + reply::NUMBER_LINE_BYTES_MAX)?;
    reply::array(call.out, all.len() as u64);
    call.out.push(&told);
    Ok(())
}

/// What values are asked for, both ends with them.
struct Range<'c> {
    low: Value<'c>,
    high: Value<'c>,
}

impl<'c> Range<'c> {
    fn read(kind: IndexType, args: &mut Args<'c>) -> Result<Self, Fault> {
        let value = |word: Option<&'c [u8]>| {
            let word = word.ok_or(Fault::Syntax)?;
            Ok::<_, Fault>(match kind {
                IndexType::Integer => Value::Integer(integer(word)?),
                IndexType::Text => Value::Text(word),
            })
        };
        match &lower(args.next().ok_or(Fault::Syntax)?)[..] {
            b"eq" => {
                let value = value(args.next())?;
                Ok(Self { low: value, high: value })
            }
            b"between" => Ok(Self { low: value(args.next())?, high: value(args.next())? }),
            _ => Err(Fault::Syntax),
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

/// A place behind which a query goes on: order, what tells texts apart and key, in hexadecimal digits.
fn cursor(word: &[u8]) -> Option<Entry> {
    let text = std::str::from_utf8(word).ok().filter(|text| text.len() == 48 && text.is_ascii())?;
    let number = |at: usize| u64::from_str_radix(&text[at..at + 16], 16).ok();
    Some(Entry { order: number(0)?, more: number(16)?, key: number(32)? })
}

/// `REC.QUERY set bin EQ value|BETWEEN low high [LIMIT n] [AFTER cursor] [TYPED] [FILTER filter] [BINS name ...]`
pub(in super::super) fn query<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = std::sync::Arc::clone(&call.ctx.shared);
    let set = shared.sets.find(NAMESPACE.0, name).map(record::Set::number);
    let Some((set, index)) = set.and_then(|set| Some((set, shared.indexes.find(set, bin)?))) else {
        reply::error(call.out, b"NOINDEX there is no such index: make it with REC.INDEX CREATE");
        return Ok(());
    };
    let range = Range::read(index.kind, &mut args)?;
    let (mut limit, mut after) = (LIMIT, None);
    let telling = Telling::read(args, |word, args| {
        let value = args.next().ok_or(Fault::Syntax)?;
        match word {
            b"limit" => limit = integer(value).ok().filter(|limit| *limit > 0).ok_or(Fault::Syntax)?.min(LIMIT_MAX),
            b"after" if value == b"0" => {}
            b"after" => after = Some(cursor(value).ok_or(Fault::Cursor)?),
            _ => return Err(Fault::Syntax),
        }
        Ok(())
    });
    let telling = match telling {
        Ok(telling) => telling,
        Err(bad) => return call.bad(b"", bad),
    };
    match index.state() {
        IndexState::Ready => {}
        IndexState::Building => {
            reply::error(call.out, b"BUILDING the index is not there yet: ask again");
            return Ok(());
        }
        IndexState::Full => {
            reply::error(call.out, b"INDEXFULL the index has no room: drop it, and create it with more MEMORY");
            return Ok(());
        }
    }
    let (version, view) = (call.session.version, call.ctx.view());
    let bytes_max = call.ctx.request_bytes_max / 2;
    let (mut told, mut count, mut looked) = (Vec::new(), 0, 0);
    let (mut from, to) = index.kind.range(&range.low, &range.high).expect("values of its type");
    from = from.max(after.unwrap_or_default());
    let entries = index.range(from, to, limit as usize + 1);
    let is_all = entries.len() <= limit as usize;
    let (mut last, mut broken) = (None, None);
    for entry in entries.into_iter().filter(|entry| Some(*entry) != after) {
        if count >= limit as usize || told.len() > bytes_max {
            break;
        }
        (looked, last) = (looked + 1, Some(entry));
        let Some(item) = call.turn.by_hash(NAMESPACE, entry.key) else { continue };
        if record_of_set(&item, view) != Some(set) {
            continue;
        }
        let parts = KeyParts::new(call.turn, call.key(item.key));
        let begun = told.len();
        let mut tell = || {
            let Some(record) = typed::record(Some(&item), view, &parts)? else { return Ok(false) };
            let value = record.find(&Name::new(bin), view.now_ms)?.map(|bin| bin.value);
            if value.is_none_or(|value| !range.has(&value)) || !telling.takes(&record, view.now_ms)? {
                return Ok(false);
            }
            reply::array(&mut told, 4);
            reply::bulk(&mut told, item.key);
            telling.put(&mut told, version, &record, item.expire, view.now_ms)?;
            Ok::<_, Fault>(true)
        };
        match tell() {
            Ok(is_told) => count += usize::from(is_told),
            Err(fault) => {
                told.truncate(begun);
                broken = Some((item.key.to_vec(), fault));
                break;
            }
        }
    }
    if let Some((key, fault)) = broken {
        return Err(match call.turn.takes_lost() {
            true => call.look_again(std::iter::once(&key[..])).into(),
            false => fault.into(),
        });
    }
    let ended = is_all && last.is_none_or(|last| index.range(last, to, 2).len() < 2);
    typed::answer_room(call.out, call.ctx.request_bytes_max, told.len() + 128)?;
    reply::array(call.out, 2);
    match last.filter(|_| !ended) {
        Some(Entry { order, more, key }) => {
            reply::bulk(call.out, format!("{order:016x}{more:016x}{key:016x}").as_bytes());
        }
        None => reply::bulk(call.out, b"0"),
    }
    reply::array(call.out, count as u64);
    call.out.push(&told);
    call.ops += (looked / KEYS_AN_OP).min(OPS_A_BATCH);
    Ok(())
}

/// The places that the bins of a record have in the indexes of its set.
pub(in super::super) fn places_of(
    indexes: &[std::sync::Arc<SetIndex>],
    record: Option<&Record<'_>>,
    now_ms: u64,
) -> Result<Vec<Option<(u64, u64)>>, record::Damaged> {
    let Some(record) = record else { return Ok(vec![None; indexes.len()]) };
    indexes
        .iter()
        .map(|index| {
            let bin = record.find(&Name::new(&index.bin), now_ms)?;
            Ok(bin.and_then(|bin| index.kind.place(&bin.value)))
        })
        .collect()
}

/// Takes entries out that stand for nothing, as far as nobody changes their records now.
pub(in super::super) fn sweep(
    indexes: &Indexes,
    turn: &Turn<'_>,
    view: View<'_>,
    looked: Vec<(std::sync::Arc<SetIndex>, Entry)>,
    held: u64,
) {
    for (index, entry) in looked {
        if entry.key == held {
            continue;
        }
        let Some(_stripe) = indexes.stripe(entry.key) else { continue };
        let place = turn.by_hash(NAMESPACE, entry.key).and_then(|item| {
            if record_of_set(&item, view) != Some(index.set) {
                return None;
            }
            let parts = KeyParts::new(turn, turn.key(NAMESPACE, item.key));
            let record = typed::record(Some(&item), view, &parts).ok()??;
            // What cannot be read now is looked at another time.
            let bin = record.find(&Name::new(&index.bin), view.now_ms);
            bin.map_or(Some((entry.order, entry.more)), |bin| index.kind.place(&bin?.value))
        });
        if place != Some((entry.order, entry.more)) {
            index.remove(&entry);
        }
    }
    turn.takes_lost();
}

impl Call<'_, '_> {
    /// Enters the record under a key in an index that it was there before.
    fn enter(&mut self, bytes: &[u8], index: &std::sync::Arc<SetIndex>) -> Result<(), Stop> {
        let shared = std::sync::Arc::clone(&self.ctx.shared);
        let key = self.key(bytes);
        let Some(_stripe) = shared.indexes.stripe(key.hash()) else { return Err(State::Parked.into()) };
        match self
            .enter_in(bytes, &mut |set| if set == index.set { vec![std::sync::Arc::clone(index)] } else { Vec::new() })
        {
            Err(Fault::Damaged) if self.turn.takes_lost() => Err(self.look_again(std::iter::once(bytes)).into()),
            entered => Ok(entered?),
        }
    }

    /// Enters the record under a key, whose stripe is had, in the indexes that `of` gives for its set.
    pub(in super::super) fn enter_in(
        &self,
        bytes: &[u8],
        of: &mut dyn FnMut(u16) -> Vec<std::sync::Arc<SetIndex>>,
    ) -> Result<(), Fault> {
        let (key, view) = (self.key(bytes), self.ctx.view());
        let item = self.turn.peek(&key);
        let parts = KeyParts::new(self.turn, key);
        let Some(set) = item.as_ref().and_then(|item| record_of_set(item, view)) else { return Ok(()) };
        let Some(record) = typed::record(item.as_ref(), view, &parts)? else { return Ok(()) };
        for index in of(set) {
            let bin = record.find(&Name::new(&index.bin), view.now_ms)?;
            if let Some(place) = bin.and_then(|bin| index.kind.place(&bin.value)) {
                view.indexes.enter(&index, place, key.hash());
            }
        }
        Ok(())
    }
}
