//! `SORT` and `SORT_RO`: the elements of a list, set or sorted set in the order of numbers or texts, which are the
//! elements themselves or are found under other keys.
//!
//! ```text
//!   element ──BY──> number or text ──> place in the order ──> collected elements ──GET──> results ──> reply, or a list
//! ```
//!
//! The collected elements are in client memory. With `LIMIT`, only those up to its end are kept. The elements are read
//! at one instant: in one look at the value, or with the sorted key locked if there are many. The keys of patterns are
//! read one after another.

mod options;
mod pattern;

use super::call::{Call, Interrupt, Run};
use super::catalog::words;
use super::collection;
use super::error::ErrorReply;
use super::found::{self, STEP_BYTES};
use super::number::float;
use super::session::CommandOrigin;
use super::state::walk::{Walk, order_of};
use super::stored::{self, Destination};
use super::typed::{KeyParts, live};
use crate::push::notify::KeyEvent;
use options::{SortOptions, SortOrder};
use pattern::{Lookup, Pattern};
use protocol::resp::{Args, reply};
use record::{Damaged, Digits, ListValue, Lists, SetValue, SortedSetValue, SortedSets, TextSets, Value};
use segment::Item;

/// The number of elements that one step collects, and the number of those that one visit sorts at most.
const ELEMENTS_A_STEP: u64 = 32;
const ELEMENTS_A_VISIT: u64 = 128;
/// The number of elements that are collected for the cost of one operation.
const ELEMENTS_AN_OP: usize = 4;
/// The number of bytes of results that cost one operation.
const BYTES_AN_OP: usize = 4096;

/// The sorted value.
enum SortedValue<'v> {
    List(ListValue<'v>),
    Set(SetValue<'v>),
    Scored(SortedSetValue<'v>),
}

impl<'v> SortedValue<'v> {
    fn of(item: Option<&Item<'v>>, parts: &'v KeyParts<'_>) -> Result<Option<Self>, ErrorReply> {
        if let Ok(found) = collection::opened::<Lists>(item, parts) {
            return Ok(found.map(Self::List));
        }
        match collection::opened::<SortedSets>(item, parts) {
            Err(ErrorReply::WrongType) => Ok(collection::opened::<TextSets>(item, parts)?.map(Self::Set)),
            found => Ok(found?.map(Self::Scored)),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::List(list) => list.len(),
            Self::Set(set) => set.len(),
            Self::Scored(set) => set.len(),
        }
    }

    /// Returns up to `most` elements from number `index` on, counted from the end if `is_reverse`. Sets have no order,
    /// and ignore it.
    fn elements(&self, index: u64, most: u64, is_reverse: bool) -> Result<Vec<Vec<u8>>, Damaged> {
        fn texts<'v>(values: impl Iterator<Item = Result<Value<'v>, Damaged>>) -> Result<Vec<Vec<u8>>, Damaged> {
            values.map(|value| Ok(value?.text(&mut Digits::new()).to_vec())).collect()
        }
        let (most, last) = (most as usize, self.len().saturating_sub(index + 1));
        match self {
            Self::List(list) if is_reverse => texts(list.back_from(last)?.take(most)),
            Self::List(list) => texts(list.from(index)?.take(most)),
            Self::Set(set) => texts(set.from(index)?.take(most)),
            Self::Scored(set) if is_reverse => {
                texts(set.back_from(last)?.take(most).map(|element| element.map(|(_, value)| value)))
            }
            Self::Scored(set) => texts(set.from(index)?.take(most).map(|element| element.map(|(_, value)| value))),
        }
    }
}

/// Calls `look` with the value under the sorted key.
fn with_source<T>(
    call: &Call<'_, '_>,
    key: &[u8],
    look: impl FnOnce(Option<&SortedValue<'_>>) -> Result<T, ErrorReply>,
) -> Result<T, ErrorReply> {
    let (key, view) = (call.key(key), call.ctx.view());
    let item = live(call.guard.items().get(&key), view);
    let parts = KeyParts::new(call.guard, key);
    look(SortedValue::of(item.as_ref(), &parts)?.as_ref())
}

/// Parses a number as the C function `strtod` does.
fn number(text: &[u8]) -> Result<f64, ErrorReply> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Ok(0.0);
    }
    let number = float(text).map_err(|_| ErrorReply::SortNumber)?;
    let is_infinity = || text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    if number.is_infinite() && !is_infinity() { Err(ErrorReply::SortNumber) } else { Ok(number) }
}

/// A function that appends a result, if there is one, to those of a step.
type Put<'p> = dyn Fn(&mut Vec<u8>, Option<&[u8]>) + 'p;

/// A request of `SORT` for a present value.
struct Sort<'c> {
    key: &'c [u8],
    options: SortOptions<'c>,
    order: SortOrder,
    /// The number of elements of the value.
    len: u64,
    /// The number of sorted elements that are skipped, and of those that follow them in the result.
    skipped: u64,
    wanted: u64,
    /// The elements to collect, if they were read together with the number of elements. Otherwise, the key is locked,
    /// and a step reads those that it collects.
    elements: Option<Vec<Vec<u8>>>,
}

impl<'c> Sort<'c> {
    /// Parses a request, and looks up the key.
    fn read(call: &mut Call<'c, '_>, args: Args<'c>, may_store: bool) -> Result<Self, Interrupt> {
        let [key] = words(args);
        let options = SortOptions::read(call, args.after_first(), may_store)?;
        // The key is not locked, so another client may change the value after this look.
        let reads_elements = !call.collects_replies && options.store.is_none();
        // The order of a set is arbitrary. A stored list and a script get a definite one, as in Redis.
        let is_ordered = options.store.is_some() || call.session.origin == CommandOrigin::Script;
        let sort = with_source(call, key, |source| {
            let mut sort = Self::of(key, options, is_ordered, source);
            if let Some(source) = source.filter(|_| reads_elements && !sort.is_long()) {
                let (first, count) = sort.collected();
                sort.elements = Some(source.elements(first, count, sort.is_reverse())?);
            }
            Ok(sort)
        })?;
        if call.session.walk.is_none() {
            call.count_read(sort.len > 0);
        }
        Ok(sort)
    }

    /// Returns a request for the value `source`. If `is_ordered`, the elements of a set are sorted even if `BY` names
    /// no key. Reads no elements.
    fn of(key: &'c [u8], options: SortOptions<'c>, is_ordered: bool, source: Option<&SortedValue<'_>>) -> Self {
        let (len, mut order) = (source.map_or(0, SortedValue::len), options.order());
        let is_set = matches!(source, Some(SortedValue::Set(_)));
        if is_set && order == SortOrder::Unsorted && is_ordered {
            order = SortOrder::Texts;
        }
        let (skipped, most) = options.limit;
        let skipped = u64::try_from(skipped).unwrap_or(0).min(len);
        let wanted = u64::try_from(most).unwrap_or(u64::MAX).min(len - skipped);
        Self { key, options, order, len, skipped, wanted, elements: None }
    }

    /// Returns the number of the first element to collect, and the number of those to collect.
    fn collected(&self) -> (u64, u64) {
        // Without an order, only the elements of the result are read.
        if self.order == SortOrder::Unsorted { (self.skipped, self.wanted) } else { (0, self.len) }
    }

    /// Returns true if elements are collected from the last one of the value on.
    fn is_reverse(&self) -> bool {
        self.order == SortOrder::Unsorted && self.options.is_descending
    }

    /// Returns up to `most` elements to collect, behind the first `done`.
    fn elements_from(&self, call: &Call<'_, '_>, done: u64, most: u64) -> Result<Vec<Vec<u8>>, ErrorReply> {
        match &self.elements {
            Some(elements) => Ok(elements.iter().skip(done as usize).take(most as usize).cloned().collect()),
            None => with_source(call, self.key, |source| match source {
                Some(source) if most > 0 => Ok(source.elements(self.collected().0 + done, most, self.is_reverse())?),
                _ => Ok(Vec::new()),
            }),
        }
    }

    /// Returns the number of results.
    fn results(&self) -> u64 {
        self.wanted * self.options.gets.len().max(1) as u64
    }

    /// Returns the place of an element in the order.
    fn place(&self, lookup: &mut Lookup<'_>, element: &[u8]) -> Result<Vec<u8>, Interrupt> {
        // In the order of texts, the prefix puts an element with an empty text behind those without a text.
        let mut weight = if self.order == SortOrder::Texts { b"+".to_vec() } else { Vec::new() };
        let found = match &self.options.by {
            Some(by) if self.order != SortOrder::Unsorted && by.has_star() => lookup.find(by, element, &mut weight)?,
            _ => {
                weight.extend_from_slice(element);
                true
            }
        };
        Ok(match self.order {
            SortOrder::Unsorted => Vec::new(),
            SortOrder::Texts if found => weight,
            SortOrder::Texts => Vec::new(),
            SortOrder::Numbers => {
                let number = if found { number(&weight)? } else { 0.0 };
                [&order_of(number).to_be_bytes()[..], element].concat()
            }
        })
    }

    /// Collects up to `most` further elements. Returns true after the last one.
    fn collect(&self, call: &mut Call<'_, '_>, walk: &mut Walk, most: u64) -> Result<bool, Interrupt> {
        let (is_unsorted, (_, count)) = (self.order == SortOrder::Unsorted, self.collected());
        // A locked key may expire between two visits.
        let most = most.min(count.saturating_sub(walk.cursor));
        let elements = self.elements_from(call, walk.cursor, most)?;
        let is_empty = elements.is_empty();
        let mut lookup = Lookup::new(call.guard, call.ctx.view(), call.session.namespace);
        if let Some(by) = self.options.by.as_ref().filter(|_| !is_unsorted) {
            lookup.fetch(by, &elements)?;
        }
        let (mut places, mut bytes) = (Vec::new(), 0);
        let read: Run = elements.iter().try_for_each(|element| {
            // The texts may be as long as values: a later step reads the others.
            if bytes <= STEP_BYTES {
                let place = self.place(&mut lookup, element)?;
                bytes += place.len();
                places.push(place);
            }
            Ok(())
        });
        let broken = lookup.broken();
        read.map_err(|stop| pattern::retry_broken(call, broken, stop))?;
        for (place, element) in places.into_iter().zip(elements) {
            // In descending order, elements with the same place are in their order in the value too.
            let number = if self.is_last_first() { u64::MAX - walk.cursor } else { walk.cursor };
            walk.sorted.add(place, number, element);
            walk.cursor += 1;
            if !is_unsorted && walk.sorted.len() as u64 > self.skipped + self.wanted {
                walk.sorted.pop(!self.is_last_first());
            }
        }
        call.ops += 1 + most as usize / ELEMENTS_AN_OP + bytes / BYTES_AN_OP;
        Ok(is_empty || walk.cursor >= count)
    }

    /// Returns true if the last of the collected elements is the first of the result.
    fn is_last_first(&self) -> bool {
        self.options.is_descending && self.order != SortOrder::Unsorted
    }

    /// Advances by one step: collects elements, or appends the results for some of them to `found` with `put`. Returns
    /// true after the last one. `walk.has_wrapped` is set when all elements are collected. `walk.left` of them are
    /// done, and `walk.steps` results of the next one.
    fn step(
        &self,
        call: &mut Call<'_, '_>,
        walk: &mut Walk,
        found: &mut Vec<u8>,
        put: &Put<'_>,
    ) -> Result<bool, Interrupt> {
        if !walk.has_wrapped {
            walk.has_wrapped = self.collect(call, walk, ELEMENTS_A_STEP)?;
            return Ok(false);
        }
        let skipped = if self.order == SortOrder::Unsorted { 0 } else { self.skipped };
        let before = found.len();
        for _ in 0..ELEMENTS_A_STEP {
            if walk.left >= skipped + self.wanted {
                return Ok(true);
            }
            let Some(element) = walk.sorted.peek(self.is_last_first()) else { return Ok(true) };
            if walk.left >= skipped {
                let results = self.look_up(call, element, walk.steps)?;
                results.iter().for_each(|text| put(found, text.as_deref()));
                walk.wanted += results.len() as u64;
                call.ops += results.len();
                walk.steps += results.len();
                if walk.steps < self.options.gets.len() {
                    break;
                }
                walk.steps = 0;
            }
            walk.sorted.pop(self.is_last_first());
            walk.left += 1;
            if found.len() - before > STEP_BYTES {
                break;
            }
        }
        call.ops += 1 + (found.len() - before) / BYTES_AN_OP;
        Ok(false)
    }

    /// Returns results for an element of the sorted value, from number `done` on: as many as one step appends.
    fn look_up(&self, call: &mut Call<'_, '_>, element: &[u8], done: usize) -> Result<Vec<Option<Vec<u8>>>, Interrupt> {
        if self.options.gets.is_empty() {
            return Ok(vec![Some(element.to_vec())]);
        }
        let mut lookup = Lookup::new(call.guard, call.ctx.view(), call.session.namespace);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let read: Run = self.options.gets[done..].iter().try_for_each(|get| {
            if bytes <= STEP_BYTES {
                let mut value = Vec::new();
                let is_there = lookup.find(get, element, &mut value)?;
                bytes += value.len();
                found.push(is_there.then_some(value));
            }
            Ok(())
        });
        let broken = lookup.broken();
        read.map_err(|stop| pattern::retry_broken(call, broken, stop))?;
        Ok(found)
    }

    /// Returns true if the command takes several visits.
    fn is_long(&self) -> bool {
        self.len > ELEMENTS_A_VISIT || self.results() > ELEMENTS_A_VISIT
    }

    /// Stores the results as a list. The sorted key is the first of `args`.
    fn store(&self, call: &mut Call<'_, '_>, to: &[u8], args: Args<'_>) -> Run {
        // What `GET` names may be in the destination.
        let is_apart = to != self.key && self.options.gets.iter().all(Pattern::is_element);
        let (sources, _) = args.split(1);
        let to = Destination { key: to, sources, is_apart, event: KeyEvent::SORTSTORE };
        stored::store::<Lists>(call, to, (self.results(), self.is_long()), &mut |call, walk, found| {
            self.step(call, walk, found, &|found, text| stored::collect(found, 0.0, text.unwrap_or_default()))
        })
    }
}

fn run<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, may_store: bool) -> Run {
    let (sort, version) = (Sort::read(call, args, may_store)?, call.session.version);
    if let Some(to) = sort.options.store {
        return sort.store(call, to, args);
    }
    found::reply(call, (name, args), (sort.key, sort.is_long()), &mut |call, walk, found| {
        sort.step(call, walk, found, &|found, text| match text {
            Some(text) => reply::bulk(found, text),
            None => reply::null(found, version),
        })
    })
}

pub(super) fn sort<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "sort", args, true)
}

pub(super) fn sort_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, "sort_ro", args, false)
}
