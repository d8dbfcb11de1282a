//! Secondary indexes on the wire: `REC.INDEX` and `REC.QUERY`; and what keeps them while records change.

use super::read::Telling;
use super::walk::record_of_set;
use super::{Bad, bin_name, set_name};
use crate::clock::Clock;
use crate::command::resp::error::{self, Fault};
use crate::command::resp::number::integer;
use crate::command::resp::table::lower;
use crate::command::resp::typed::{self, KeyParts, View};
use crate::command::resp::walk::Walk;
use crate::command::resp::{Call, Run, Stop};
use crate::context::{OPS_A_BATCH, State};
use crate::indexes::{IndexFault, IndexState, Indexes, SetIndex};
use crate::kept::{KeptIndex, Notes};
use crate::shared::Shared;
use protocol::number::parse_u64;
use protocol::resp::{Args, reply};
use record::{Entry, IndexType, Name, Record, Value};
use segment::{Item, Key, Lane, Namespace, OnFlash, OpError, Stride, Turn};
use std::sync::Arc;
use std::time::Duration;

/// Records that a call tells if no limit is given.
const LIMIT: i64 = 100;
/// Records that a call tells at most.
const LIMIT_MAX: i64 = 4096;
/// Keys looked at that count as one operation.
const KEYS_AN_OP: usize = 16;
/// How often a call takes entries out that stand for nothing before it tells what is left.
const SWEEPS_MAX: usize = 16;
/// The part of the memory that an index gets if nothing is said.
const MEMORY_PART: u64 = 32;
/// The least memory of an index, in bytes.
const MEMORY_MIN: u64 = 64 << 10;
/// How long who is to enter all records rests while they are still being found.
const FOUND_SLEEP: Duration = Duration::from_millis(10);
/// Between two looks at what is read from flash.
const READ_SLEEP: Duration = Duration::from_micros(200);

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
    let shared = Arc::clone(&call.ctx.shared);
    let mut bytes = (shared.store.memory_bytes() / MEMORY_PART).max(MEMORY_MIN);
    if let Some(word) = args.next() {
        if !word.eq_ignore_ascii_case(b"memory") {
            return Err(Fault::Syntax.into());
        }
        bytes =
            parse_u64(args.next().unwrap_or_default()).filter(|bytes| *bytes >= MEMORY_MIN).ok_or(Fault::OutOfRange)?;
    }
    let set = shared.sets.make(call.session.namespace.0, name).map_err(|_| Fault::TooManySets)?.number();
    let walk = call.session.walk.take();
    let index = match &walk {
        Some(_) => shared.indexes.find(set, bin),
        None => {
            let whole = shared.store.memory_bytes() + shared.indexes.bytes();
            let resize = |bytes: u64| whole > bytes && shared.resize_store(whole - bytes).is_ok();
            match shared.indexes.create(set, bin, kind, bytes, resize) {
                Ok(index) => {
                    let kept = KeptIndex { set, kind, bytes, bin: bin.into() };
                    if Notes::of(&shared.store).index(&kept).is_err() {
                        drop_from(&shared, set, bin);
                        return Err(OpError::OutOfMemory.into());
                    }
                    Some(index)
                }
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
    if let Some(index) = index {
        build(call, &index, walk.unwrap_or_default())?;
        index.built();
    }
    call.out.push(reply::OK);
    Ok(())
}

/// Enters all records that are there.
fn build(call: &mut Call<'_, '_>, index: &Arc<SetIndex>, mut walk: Box<Walk>) -> Run {
    if call.ctx.shared.store.is_finding() {
        // Not all that is there is found yet.
        return call.put_off(walk, OpError::Parked.into());
    }
    loop {
        let (mut keys, mut looked) = (Vec::new(), 0);
        let (view, namespace) = (call.ctx.view(), call.session.namespace);
        let of_set = &mut |set| if set == index.set { vec![Arc::clone(index)] } else { Vec::new() };
        let stepped = call.turn.walk_tiers(namespace, walk.cursor, &mut walk.stride, &mut |item, place| {
            looked += 1;
            let entered = |place| enter_on_flash(call.turn, view, namespace, (item, place), &mut *of_set);
            if record_of_set(item, view) == Some(index.set) && !place.is_some_and(entered) {
                keys.push(item.key.to_vec());
            }
        });
        for key in keys {
            if let Err(stop) = call.enter(&key, index) {
                // What is left of the step is met once more.
                walk.stride = Stride::default();
                return call.put_off(walk, stop);
            }
        }
        call.ops += looked / KEYS_AN_OP + 1;
        let next = match stepped {
            Ok(next) => next,
            Err(error) => return call.put_off(walk, error.into()),
        };
        let Some(at) = next else { return Ok(()) };
        walk.cursor = at;
        if call.ops >= OPS_A_BATCH {
            return call.put_off(walk, State::Yield.into());
        }
    }
}

fn drop_index<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = Arc::clone(&call.ctx.shared);
    let Some(set) = shared.sets.find(call.session.namespace.0, name).map(|set| set.number()) else {
        call.int(0);
        return Ok(());
    };
    if shared.indexes.find(set, bin).is_some() && Notes::of(&shared.store).index_gone(set, bin).is_err() {
        return Err(OpError::OutOfMemory.into());
    }
    let dropped = drop_from(&shared, set, bin);
    call.int(dropped.into());
    Ok(())
}

fn drop_from(shared: &Shared, set: u16, bin: &[u8]) -> bool {
    let whole = shared.store.memory_bytes() + shared.indexes.bytes();
    // More memory than it had before the index the store can always have.
    shared.indexes.drop_index(set, bin, |bytes| {
        let _ = shared.resize_store(whole - bytes);
    })
}

/// Makes the indexes again that there were; what is in them is to be entered ([`enter_kept`]).
pub(crate) fn make_kept(shared: &Shared, kept: &[KeptIndex]) {
    let whole = shared.store.memory_bytes();
    for KeptIndex { set, kind, bytes, bin } in kept {
        let resize = |bytes: u64| whole > bytes && shared.resize_store(whole - bytes).is_ok();
        if let Err(fault) = shared.indexes.create(*set, bin, *kind, *bytes, resize) {
            let (name, bin) = (shared.sets.of(*set).map_or(&b""[..], |set| set.name()), &bin[..]);
            let [name, bin] = [name, bin].map(String::from_utf8_lossy);
            tracing::error!("the index of {bin} of the set {name} is not made again: {fault:?}");
        }
    }
}

/// Enters the records of all namespaces in the indexes that were made again, a few at a time. Returns when all are
/// entered, or the server is to stop.
pub(crate) fn enter_kept(shared: &Shared, lane: &mut Lane, clock: &Clock) {
    while shared.store.is_finding() {
        if shared.stop.is_off() {
            return;
        }
        std::thread::sleep(FOUND_SLEEP);
    }
    let (mut cursor, mut stride, mut left) = (Some(0), Stride::default(), Vec::new());
    while cursor.is_some() || !left.is_empty() {
        if shared.stop.is_off() {
            return;
        }
        let mut turn = lane.turn(clock.unix());
        let (view, mut is_parked) = (View::at(shared, turn.now()), false);
        if let Some(at) = cursor.filter(|_| left.is_empty()) {
            let stepped = turn.walk_all(at, &mut stride, &mut |namespace, item, place| {
                let is_indexed = record_of_set(item, view).is_some_and(|set| !shared.indexes.of(set).is_empty());
                let of = &mut |set| shared.indexes.of(set);
                let entered = |place| enter_on_flash(&turn, view, namespace, (item, place), of);
                if is_indexed && !place.is_some_and(entered) {
                    left.push((namespace, item.key.to_vec()));
                }
            });
            is_parked = stepped.is_err();
            cursor = stepped.unwrap_or(cursor);
        }
        left.retain(|(namespace, bytes)| !enter_one(&mut turn, shared, *namespace, bytes));
        drop(turn);
        if is_parked {
            // What is on flash is being read.
            std::thread::sleep(READ_SLEEP);
        } else {
            std::thread::yield_now();
        }
    }
    shared.indexes.all().iter().for_each(|index| index.built());
}

/// Enters one record in the indexes of its set; false if it has to be tried again in a later turn.
fn enter_one(turn: &mut Turn<'_>, shared: &Shared, namespace: Namespace, bytes: &[u8]) -> bool {
    let key = turn.key(namespace, bytes);
    let Some(_stripe) = shared.indexes.stripe(key.hash()) else { return false };
    if turn.is_kept_away(&key) || turn.is_on_flash(&key) {
        return false;
    }
    let entered = enter_record(turn, View::at(shared, turn.now()), key, &mut |set| shared.indexes.of(set));
    // One that has lost a part is gone; one that was changed meanwhile is looked at again.
    entered.is_ok() || !turn.takes_lost() || turn.end_broken(&key).is_ok_and(|ended| ended)
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

/// One call of `REC.QUERY`.
struct Query<'c> {
    set: u16,
    bin: &'c [u8],
    range: Range<'c>,
    limit: usize,
    after: Option<Entry>,
    telling: Telling<'c>,
}

impl<'c> Query<'c> {
    fn read(set: u16, bin: &'c [u8], kind: IndexType, mut args: Args<'c>) -> Result<Self, Bad<'c>> {
        let range = Range::read(kind, &mut args)?;
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
        })?;
        Ok(Self { set, bin, range, limit: limit as usize, after, telling })
    }

    /// Puts the record of an item, if it is one that is asked for.
    fn tell(&self, item: &Item<'_>, call: &Call<'_, '_>, told: &mut Vec<u8>) -> Result<bool, Fault> {
        let view = call.ctx.view();
        if record_of_set(item, view) != Some(self.set) {
            return Ok(false);
        }
        let parts = KeyParts::new(call.turn, call.key(item.key));
        let Some(record) = typed::record(Some(item), view, &parts)? else { return Ok(false) };
        let value = record.find(&Name::new(self.bin), view.now_ms)?.map(|bin| bin.value);
        if value.is_none_or(|value| !self.range.has(&value)) || !self.telling.takes(&record, view.now_ms)? {
            return Ok(false);
        }
        reply::array(told, 4);
        reply::bulk(told, item.key);
        self.telling.put(told, call.session.version, &record, item.expire, view.now_ms)?;
        Ok(true)
    }

    /// Tells what its entries stand for; gives how many, and the entry to go on behind.
    fn run(
        &self,
        index: &Arc<SetIndex>,
        call: &mut Call<'_, '_>,
        told: &mut Vec<u8>,
    ) -> Result<(usize, Option<Entry>), Stop> {
        let bytes_max = call.ctx.request_bytes_max / 2;
        let (from, to) = index.kind.range(&self.range.low, &self.range.high).expect("values of its type");
        let from = from.max(self.after.unwrap_or_default());
        let (mut count, mut looked, mut last) = (0, 0, None);
        // What stands for nothing goes first. What is then not where its entry says is changed right now: it is told if
        // its value is asked for, so that it is not missed between two places.
        let view = call.ctx.view();
        for _ in 0..SWEEPS_MAX {
            let mut stale = index.range(from, to, self.limit + 1);
            stale.retain(|entry| place_now(index, call.turn, view, *entry) != Some((entry.order, entry.more)));
            if stale.is_empty() {
                break;
            }
            sweep(view.indexes, call.turn, view, stale.into_iter().map(|entry| (Arc::clone(index), entry)));
        }
        for entry in index.range(from, to, self.limit + 1).into_iter().filter(|entry| Some(*entry) != self.after) {
            if count >= self.limit || told.len() > bytes_max {
                break;
            }
            (looked, last) = (looked + 1, Some(entry));
            let begun = told.len();
            let Some(item) = call.turn.by_hash(call.session.namespace, entry.key) else { continue };
            match self.tell(&item, call, told) {
                Ok(is_told) => count += usize::from(is_told),
                Err(Fault::Damaged) if call.turn.takes_lost() => {
                    told.truncate(begun);
                    let key = item.key.to_vec();
                    return Err(call.look_again(std::iter::once(&key[..])).into());
                }
                Err(fault) => return Err(fault.into()),
            }
        }
        call.ops += (looked / KEYS_AN_OP).min(OPS_A_BATCH);
        Ok((count, last.filter(|last| index.range(*last, to, 2).len() == 2)))
    }
}

/// `REC.QUERY set bin EQ value|BETWEEN low high [LIMIT n] [AFTER cursor] [TYPED] [FILTER filter] [BINS name ...]`
pub(in super::super) fn query<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = Arc::clone(&call.ctx.shared);
    let set = shared.sets.find(call.session.namespace.0, name).map(record::Set::number);
    let Some((set, index)) = set.and_then(|set| Some((set, shared.indexes.find(set, bin)?))) else {
        reply::error(call.out, b"NOINDEX there is no such index: make it with REC.INDEX CREATE");
        return Ok(());
    };
    let query = match Query::read(set, bin, index.kind, args) {
        Ok(query) => query,
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
    let mut told = Vec::new();
    let (count, next) = query.run(&index, call, &mut told)?;
    typed::answer_room(call.out, call.ctx.request_bytes_max, told.len() + 128)?;
    reply::array(call.out, 2);
    match next {
        Some(Entry { order, more, key }) => {
            reply::bulk(call.out, format!("{order:016x}{more:016x}{key:016x}").as_bytes());
        }
        None => reply::bulk(call.out, b"0"),
    }
    reply::array(call.out, count as u64);
    call.out.push(&told);
    Ok(())
}

/// The places that the bins of a record have in the indexes of its set.
pub(in super::super) fn places_of(
    indexes: &[Arc<SetIndex>],
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

/// Where the record that an entry is of has its value now. What cannot be read now is where the entry says.
fn place_now(index: &SetIndex, turn: &Turn<'_>, view: View<'_>, entry: Entry) -> Option<(u64, u64)> {
    let namespace = Namespace(view.sets.of(index.set)?.namespace());
    let Some(item) = turn.by_hash(namespace, entry.key) else {
        return turn.hash_may_be_on_flash(entry.key).then_some((entry.order, entry.more));
    };
    if record_of_set(&item, view) != Some(index.set) {
        return None;
    }
    let parts = KeyParts::new(turn, turn.key(namespace, item.key));
    let found = typed::record(Some(&item), view, &parts).and_then(|record| {
        let bin = record.map(|record| record.find(&Name::new(&index.bin), view.now_ms)).transpose()?;
        Ok(bin.flatten().and_then(|bin| index.kind.place(&bin.value)))
    });
    found.unwrap_or(Some((entry.order, entry.more)))
}

/// Takes those of the entries out that stand for nothing, as far as nobody changes their records now. No stripe is had.
pub(in super::super) fn sweep(
    indexes: &Indexes,
    turn: &Turn<'_>,
    view: View<'_>,
    looked: impl Iterator<Item = (Arc<SetIndex>, Entry)>,
) {
    for (index, entry) in looked {
        let Some(_stripe) = indexes.stripe(entry.key) else { continue };
        if place_now(&index, turn, view, entry) != Some((entry.order, entry.more)) {
            index.remove(&entry);
        }
    }
    turn.takes_lost();
}

impl Call<'_, '_> {
    /// Enters the record under a key in an index that it was there before.
    fn enter(&mut self, bytes: &[u8], index: &Arc<SetIndex>) -> Result<(), Stop> {
        let shared = Arc::clone(&self.ctx.shared);
        let key = self.key(bytes);
        let Some(_stripe) = shared.indexes.stripe(key.hash()) else { return Err(State::Parked.into()) };
        if self.turn.is_on_flash(&key) {
            return Err(State::Parked.into());
        }
        match self.enter_in(bytes, &mut |set| if set == index.set { vec![Arc::clone(index)] } else { Vec::new() }) {
            Err(Fault::Damaged) if self.turn.takes_lost() => Err(self.look_again(std::iter::once(bytes)).into()),
            entered => Ok(entered?),
        }
    }

    /// Enters the record under a key, whose stripe is had, in the indexes that `of` gives for its set.
    pub(in super::super) fn enter_in(
        &self,
        bytes: &[u8],
        of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
    ) -> Result<(), Fault> {
        enter_record(self.turn, self.ctx.view(), self.key(bytes), of)
    }
}

/// The same, for who has no call.
fn enter_record(
    turn: &Turn<'_>,
    view: View<'_>,
    key: Key<'_>,
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> Result<(), Fault> {
    enter_item(turn, view, key, turn.peek(&key), of)
}

/// Enters a record that is on flash, as it was read; false if it is not there any more, or changed just now.
fn enter_on_flash(
    turn: &Turn<'_>,
    view: View<'_>,
    namespace: Namespace,
    (item, place): (&Item<'_>, OnFlash),
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> bool {
    let key = turn.key(namespace, item.key);
    let Some(_stripe) = view.indexes.stripe(key.hash()) else { return false };
    // One that is damaged has no value to enter.
    turn.is_still(&key, place) && enter_item(turn, view, key, Some(*item), of).is_ok()
}

/// Enters what an item is.
fn enter_item(
    turn: &Turn<'_>,
    view: View<'_>,
    key: Key<'_>,
    item: Option<Item<'_>>,
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> Result<(), Fault> {
    let parts = KeyParts::new(turn, key);
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
