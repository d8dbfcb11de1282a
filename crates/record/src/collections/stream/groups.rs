//! Groups of consumers of a stream, and the entries that were delivered to consumers and not acknowledged (pending).
//!
//! ```text
//!   section 1 GROUPS      length | number | last id | entries read + 1 | name
//!   section 2 CONSUMERS   length | number | last seen | group 4 | name
//!   section 3 PENDING     group 4 | id 16 | consumer 4 | delivered 8 | deliveries 4
//!   section 4 OWNED       consumer 4 | id 16
//!   section 5 NAMES       length | consumer 4 | name
//! ```
//!
//! Groups and consumers are known by numbers, of which a stream never uses one twice.

use super::{CONSUMERS, GROUPS, NAMES, OWNED, PENDING};
use super::{Searches, StreamEdit, StreamId, StreamState, StreamValue};
use super::{id, number, put_id, put_number, with_len};
use crate::Damaged;

/// The numbers of pending entries that one step removes from a group that will be destroyed: one by one, or as whole
/// parts of the tree.
const ACKNOWLEDGED_A_STEP: usize = 8;
const CUT_A_STEP: usize = 256;
/// The length in bytes of an element of the sections of pending entries.
pub(super) const PENDING_BYTES: usize = 36;
pub(super) const OWNED_BYTES: usize = 20;

/// A group of consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGroup {
    /// Its number in the stream.
    pub number: u32,
    /// The identifier of the entry that was delivered last.
    pub last: StreamId,
    /// The number of entries that the group has read, if it is known.
    pub read: Option<u64>,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamConsumer {
    /// Its number in the stream.
    pub number: u32,
    /// The time of its last command, in milliseconds since 1970.
    pub seen_ms: u64,
}

/// The delivery of an entry that is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingEntry {
    /// The number of the consumer.
    pub consumer: u32,
    /// The time of the last delivery, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// The number of deliveries.
    pub deliveries: u32,
}

fn group_key(name: &[u8]) -> Vec<u8> {
    [&[GROUPS], name].concat()
}

fn consumer_key(group: u32, name: &[u8]) -> Vec<u8> {
    [&[CONSUMERS], &group.to_be_bytes()[..], name].concat()
}

fn name_key(consumer: u32) -> [u8; 5] {
    let mut key = [NAMES; 5];
    key[1..].copy_from_slice(&consumer.to_be_bytes());
    key
}

fn pending_key(group: u32, id: StreamId) -> [u8; 1 + OWNED_BYTES] {
    numbered_key(PENDING, group, id)
}

fn owned_key(consumer: u32, id: StreamId) -> [u8; 1 + OWNED_BYTES] {
    numbered_key(OWNED, consumer, id)
}

fn numbered_key(section: u8, number: u32, id: StreamId) -> [u8; 1 + OWNED_BYTES] {
    let mut key = [section; 1 + OWNED_BYTES];
    key[1..5].copy_from_slice(&number.to_be_bytes());
    key[5..].copy_from_slice(&id.bytes());
    key
}

fn number32(bytes: &[u8]) -> Result<u32, Damaged> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or(Damaged)
}

/// Returns the key of an element of one of the sections of groups, without the section.
pub(super) fn key_of(section: u8, element: &[u8]) -> Result<&[u8], Damaged> {
    match section {
        PENDING | OWNED => element.get(..OWNED_BYTES).ok_or(Damaged),
        NAMES => number(element)?.1.get(..4).ok_or(Damaged),
        GROUPS => Ok(decode_group(element)?.0),
        CONSUMERS => {
            let (_, body) = number(element)?;
            let (_, body) = number(body)?;
            Ok(number(body)?.1)
        }
        _ => Err(Damaged),
    }
}

fn decode_group(element: &[u8]) -> Result<(&[u8], StreamGroup), Damaged> {
    let (_, body) = number(element)?;
    let (group, body) = number(body)?;
    let (last, body) = id(body)?;
    let (read, name) = number(body)?;
    let number = u32::try_from(group).map_err(|_| Damaged)?;
    Ok((name, StreamGroup { number, last, read: read.checked_sub(1) }))
}

fn encode_group(name: &[u8], group: &StreamGroup) -> Vec<u8> {
    with_len(|body| {
        put_number(group.number.into(), body);
        put_id(group.last, body);
        put_number(group.read.map_or(0, |read| read.saturating_add(1)), body);
        body.extend_from_slice(name);
    })
}

fn decode_consumer(element: &[u8]) -> Result<(&[u8], StreamConsumer), Damaged> {
    let (_, body) = number(element)?;
    let (consumer, body) = number(body)?;
    let (seen_ms, body) = number(body)?;
    let number = u32::try_from(consumer).map_err(|_| Damaged)?;
    Ok((body.get(4..).ok_or(Damaged)?, StreamConsumer { number, seen_ms }))
}

fn encode_consumer(group: u32, name: &[u8], consumer: &StreamConsumer) -> Vec<u8> {
    with_len(|body| {
        put_number(consumer.number.into(), body);
        put_number(consumer.seen_ms, body);
        body.extend_from_slice(&group.to_be_bytes());
        body.extend_from_slice(name);
    })
}

fn decode_pending(element: &[u8]) -> Result<(StreamId, PendingEntry), Damaged> {
    let element: &[u8; PENDING_BYTES] = element.first_chunk().ok_or(Damaged)?;
    let id = StreamId::of(&element[4..20])?;
    let delivered_ms = u64::from_be_bytes(*element[24..].first_chunk().ok_or(Damaged)?);
    let (consumer, deliveries) = (number32(&element[20..])?, number32(&element[32..])?);
    Ok((id, PendingEntry { consumer, delivered_ms, deliveries }))
}

fn encode_pending(group: u32, id: StreamId, pending: &PendingEntry) -> [u8; PENDING_BYTES] {
    let mut element = [0; PENDING_BYTES];
    element[..4].copy_from_slice(&group.to_be_bytes());
    element[4..20].copy_from_slice(&id.bytes());
    element[20..24].copy_from_slice(&pending.consumer.to_be_bytes());
    element[24..32].copy_from_slice(&pending.delivered_ms.to_be_bytes());
    element[32..].copy_from_slice(&pending.deliveries.to_be_bytes());
    element
}

/// Returns true if a client has deleted an entry between `id` and the last entry, and not before all entries that are
/// left. `first` is the identifier of the first of these.
fn has_deleted_from(state: &StreamState, id: StreamId, first: StreamId) -> bool {
    state.len > 0 && state.deleted_max != StreamId::MIN && first <= state.deleted_max && id <= state.deleted_max
}

/// Returns the number of entries that were added up to an identifier, if it is known. `first` is the identifier of the
/// first entry.
fn added_until(state: &StreamState, id: StreamId, first: StreamId) -> Option<u64> {
    if state.added == 0 {
        return Some(0);
    }
    if state.len == 0 && id <= state.last || id == state.last {
        return Some(state.added);
    }
    if id > state.last || state.deleted_max != StreamId::MIN && state.deleted_max >= first {
        return None;
    }
    let before = state.added.checked_sub(state.len);
    match id.cmp(&first) {
        std::cmp::Ordering::Less => before,
        std::cmp::Ordering::Equal => before.map(|before| before + 1),
        std::cmp::Ordering::Greater => None,
    }
}

// The counter of the entries that a group has read is kept as in Redis.
impl StreamGroup {
    /// Returns the number of entries that a group has read whose last delivered entry has this identifier, if it is
    /// known. `first` is the identifier of the first entry of the stream.
    pub fn read_until(state: &StreamState, last: StreamId, first: StreamId) -> Option<u64> {
        added_until(state, last, first)
    }

    /// Returns the number of entries that the group has not read yet, if it is known. `first` is the identifier of the
    /// first entry of the stream.
    pub fn lag(&self, state: &StreamState, first: StreamId) -> Option<i64> {
        if state.added == 0 {
            return Some(0);
        }
        let read = self.read.filter(|_| !has_deleted_from(state, self.last, first));
        let read = read.or_else(|| added_until(state, self.last, first))?;
        Some(state.added as i64 - read as i64)
    }

    /// Records that an entry behind the last one of the group is delivered.
    pub fn advance(&mut self, state: &StreamState, id: StreamId, first: StreamId) {
        self.read = match self.read {
            Some(read) if !has_deleted_from(state, id, first) => Some(read.saturating_add(1)),
            read if state.added == 0 => read,
            _ => added_until(state, id, first),
        };
        self.last = id;
    }
}

/// The groups of a stored stream, with their consumers and pending entries.
#[derive(Clone, Copy, Debug)]
pub struct StreamGroups<'s> {
    pub(super) stream: &'s StreamValue<'s>,
}

impl<'s> StreamGroups<'s> {
    /// Returns the group with this name.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn group(self, name: &[u8]) -> Result<Option<StreamGroup>, Damaged> {
        self.stream.tree.get(&group_key(name))?.map(|element| Ok(decode_group(element)?.1)).transpose()
    }

    /// Returns the groups with their names, in the order of these.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn all(self) -> Result<impl Iterator<Item = Result<(&'s [u8], StreamGroup), Damaged>> + Clone, Damaged> {
        Ok(self.stream.elements([&[GROUPS], &[CONSUMERS]])?.map(|element| decode_group(element?)))
    }

    /// Returns the group with number `index` in the order of the names, with its name.
    ///
    /// # Errors
    /// [`Damaged`], also if there is no such group.
    pub fn at(self, index: u64) -> Result<(&'s [u8], StreamGroup), Damaged> {
        self.element(&[GROUPS], index, decode_group)
    }

    /// Returns the consumer of a group with number `index` in the order of the names, with its name.
    ///
    /// # Errors
    /// [`Damaged`], also if there is no such consumer.
    pub fn consumer_at(self, group: u32, index: u64) -> Result<(&'s [u8], StreamConsumer), Damaged> {
        self.element(&consumer_key(group, b""), index, decode_consumer)
    }

    /// Decodes the element with number `index` from a key on.
    fn element<T>(
        self,
        from: &[u8],
        index: u64,
        decode: impl Fn(&'s [u8]) -> Result<T, Damaged>,
    ) -> Result<T, Damaged> {
        let first = self.stream.tree.before_key(from)?.saturating_add(index);
        decode(self.stream.elements_between(first, first.saturating_add(1))?.next().ok_or(Damaged)??.bytes)
    }

    /// Returns a consumer of a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn consumer(self, group: u32, name: &[u8]) -> Result<Option<StreamConsumer>, Damaged> {
        self.stream.tree.get(&consumer_key(group, name))?.map(|element| Ok(decode_consumer(element)?.1)).transpose()
    }

    /// Returns the number of consumers of a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn consumer_count(self, group: u32) -> Result<u64, Damaged> {
        self.stream.tree.count_between(&consumer_key(group, b""), &consumer_key(group + 1, b""))
    }

    /// Returns the consumers of a group with their names, in the order of these.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn consumers(
        self,
        group: u32,
    ) -> Result<impl Iterator<Item = Result<(&'s [u8], StreamConsumer), Damaged>> + Clone, Damaged> {
        self.consumers_from(group, 0)
    }

    /// Returns the consumers of a group from number `index` on, as [`StreamGroups::consumers`] does.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn consumers_from(
        self,
        group: u32,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<(&'s [u8], StreamConsumer), Damaged>> + Clone, Damaged> {
        let tree = &self.stream.tree;
        let (first, end) =
            (tree.before_key(&consumer_key(group, b""))?, tree.before_key(&consumer_key(group + 1, b""))?);
        let elements = self.stream.elements_between(first.saturating_add(index), end)?;
        Ok(elements.map(|element| decode_consumer(element?.bytes)))
    }

    /// Returns the name of the consumer with this number.
    ///
    /// # Errors
    /// [`Damaged`], also if there is no such consumer.
    pub fn consumer_name(self, consumer: u32) -> Result<&'s [u8], Damaged> {
        let element = self.stream.tree.get(&name_key(consumer))?.ok_or(Damaged)?;
        number(element)?.1.get(4..).ok_or(Damaged)
    }

    /// Returns the number of pending entries of a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn pending_count(self, group: u32) -> Result<u64, Damaged> {
        self.stream.tree.count_between(&pending_key(group, StreamId::MIN), &pending_key(group + 1, StreamId::MIN))
    }

    /// Returns the pending entry of a group with an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn pending(self, group: u32, id: StreamId) -> Result<Option<PendingEntry>, Damaged> {
        self.stream.tree.get(&pending_key(group, id))?.map(|element| Ok(decode_pending(element)?.1)).transpose()
    }

    /// Returns the pending entries of a group from an identifier on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn pending_from(
        self,
        group: u32,
        from: StreamId,
    ) -> Result<impl Iterator<Item = Result<(StreamId, PendingEntry), Damaged>> + Clone, Damaged> {
        let elements = self.stream.elements([&pending_key(group, from), &pending_key(group + 1, StreamId::MIN)])?;
        Ok(elements.map(|element| decode_pending(element?)))
    }

    /// Returns the identifier of the last pending entry of a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn last_pending(self, group: u32) -> Result<Option<StreamId>, Damaged> {
        let (from, to) = (pending_key(group, StreamId::MIN), pending_key(group + 1, StreamId::MIN));
        let (first, end) = (self.stream.tree.before_key(&from)?, self.stream.tree.before_key(&to)?);
        if first == end {
            return Ok(None);
        }
        let last = self.stream.elements_between(end - 1, end)?.next().ok_or(Damaged)??;
        Ok(Some(decode_pending(last.bytes)?.0))
    }

    /// Returns the number of pending entries of a consumer.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn owned_count(self, consumer: u32) -> Result<u64, Damaged> {
        self.stream.tree.count_between(&owned_key(consumer, StreamId::MIN), &owned_key(consumer + 1, StreamId::MIN))
    }

    /// Returns the identifiers of the pending entries of a consumer, from one on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn owned_from(
        self,
        consumer: u32,
        from: StreamId,
    ) -> Result<impl Iterator<Item = Result<StreamId, Damaged>> + Clone, Damaged> {
        let elements = self.stream.elements([&owned_key(consumer, from), &owned_key(consumer + 1, StreamId::MIN)])?;
        Ok(elements.map(|element| StreamId::of(element?.get(4..).ok_or(Damaged)?)))
    }
}

/// The groups of a stream under change, with their consumers and pending entries.
#[derive(Debug)]
pub struct StreamGroupsEdit<'s, 'e> {
    pub(super) stream: &'s mut StreamEdit<'e>,
}

impl StreamGroupsEdit<'_, '_> {
    /// Returns the group with this name.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn group(&self, name: &[u8]) -> Result<Option<StreamGroup>, Damaged> {
        self.stream.tree.get(&group_key(name))?.map(|element| Ok(decode_group(element)?.1)).transpose()
    }

    /// Creates a group. Returns false if the stream has one with this name.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn create_group(&mut self, name: &[u8], last: StreamId, read: Option<u64>) -> Result<bool, Damaged> {
        if self.group(name)?.is_some() {
            return Ok(false);
        }
        let number = self.next_number()?;
        self.set_group(name, &StreamGroup { number, last, read })?;
        self.stream.state.groups += 1;
        Ok(true)
    }

    /// Returns a number for a group or a consumer.
    fn next_number(&mut self) -> Result<u32, Damaged> {
        // The number behind is an end of intervals.
        let number = u32::try_from(self.stream.state.next).ok().filter(|number| *number < u32::MAX).ok_or(Damaged)?;
        self.stream.state.next += 1;
        Ok(number)
    }

    /// Replaces a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set_group(&mut self, name: &[u8], group: &StreamGroup) -> Result<(), Damaged> {
        self.stream.put(&group_key(name), &encode_group(name, group))
    }

    /// Removes a group with its consumers and pending entries. Returns false if there is none with this name. `old` is
    /// the stream before the change, in which the group has the same consumers.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn destroy_group(&mut self, old: &StreamValue<'_>, name: &[u8]) -> Result<bool, Damaged> {
        let Some(group) = self.group(name)? else { return Ok(false) };
        let number = group.number;
        self.stream.clear_between(&pending_key(number, StreamId::MIN), &pending_key(number + 1, StreamId::MIN))?;
        for consumer in old.groups().consumers(number)? {
            let consumer = consumer?.1.number;
            self.stream.clear_between(&owned_key(consumer, StreamId::MIN), &owned_key(consumer + 1, StreamId::MIN))?;
            self.stream.clear_between(&name_key(consumer), &name_key(consumer + 1))?;
        }
        self.stream.clear_between(&consumer_key(number, b""), &consumer_key(number + 1, b""))?;
        self.stream.take(&group_key(name))?;
        self.stream.state.groups -= 1;
        Ok(true)
    }

    /// Removes pending entries of a group that will be destroyed, and the first consumer if `is_by_consumer` is true
    /// and it has none left. The group is whole afterwards: each pending entry has its consumer. `old` is the stream
    /// before the change.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn shrink_group(&mut self, old: &StreamValue<'_>, number: u32, is_by_consumer: bool) -> Result<(), Damaged> {
        let groups = old.groups();
        if is_by_consumer {
            let (name, consumer) = groups.consumer_at(number, 0)?;
            for id in groups.owned_from(consumer.number, StreamId::MIN)?.take(ACKNOWLEDGED_A_STEP) {
                self.acknowledge(number, id?)?;
            }
            if groups.owned_count(consumer.number)? <= ACKNOWLEDGED_A_STEP as u64 {
                self.remove_consumer(number, name)?;
            }
            return Ok(());
        }
        let Some(last) = groups.pending_from(number, StreamId::MIN)?.nth(CUT_A_STEP) else { return Ok(()) };
        let until = last?.0;
        for consumer in groups.consumers(number)? {
            let consumer = consumer?.1.number;
            self.stream.clear_between(&owned_key(consumer, StreamId::MIN), &owned_key(consumer, until))?;
        }
        self.stream.clear_between(&pending_key(number, StreamId::MIN), &pending_key(number, until))
    }

    /// Returns a consumer of a group.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn consumer(&self, group: u32, name: &[u8]) -> Result<Option<StreamConsumer>, Damaged> {
        self.stream.tree.get(&consumer_key(group, name))?.map(|element| Ok(decode_consumer(element)?.1)).transpose()
    }

    /// Records that a consumer was seen at `now_ms`. Creates it if the group does not have it. Returns it, and true if
    /// it is new.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn see_consumer(&mut self, group: u32, name: &[u8], now_ms: u64) -> Result<(StreamConsumer, bool), Damaged> {
        let old = self.consumer(group, name)?;
        let number = match old {
            Some(old) => old.number,
            None => self.next_number()?,
        };
        let consumer = StreamConsumer { number, seen_ms: now_ms };
        if old != Some(consumer) {
            self.stream.put(&consumer_key(group, name), &encode_consumer(group, name, &consumer))?;
        }
        if old.is_none() {
            let element = with_len(|body| {
                body.extend_from_slice(&number.to_be_bytes());
                body.extend_from_slice(name);
            });
            self.stream.put(&name_key(number), &element)?;
        }
        Ok((consumer, old.is_none()))
    }

    /// Removes a consumer, which has no pending entries.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove_consumer(&mut self, group: u32, name: &[u8]) -> Result<(), Damaged> {
        let Some(consumer) = self.consumer(group, name)? else { return Ok(()) };
        self.stream.take(&name_key(consumer.number))?;
        self.stream.take(&consumer_key(group, name))?;
        Ok(())
    }

    /// Returns the pending entry of a group with an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn pending(&self, group: u32, id: StreamId) -> Result<Option<PendingEntry>, Damaged> {
        self.stream.tree.get(&pending_key(group, id))?.map(|element| Ok(decode_pending(element)?.1)).transpose()
    }

    /// Records a delivery of an entry, in place of an earlier one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn deliver(&mut self, group: u32, id: StreamId, new: &PendingEntry) -> Result<(), Damaged> {
        let old = self.pending(group, id)?;
        if old == Some(*new) {
            return Ok(());
        }
        if old.is_none_or(|old| old.consumer != new.consumer) {
            if let Some(old) = old {
                self.stream.take(&owned_key(old.consumer, id))?;
            }
            let key = owned_key(new.consumer, id);
            self.stream.put(&key, &key[1..])?;
        }
        self.stream.put(&pending_key(group, id), &encode_pending(group, id, new))
    }

    /// Records that the consumers of pending entries got them again. `ids` are their identifiers in ascending order.
    ///
    /// # Errors
    /// [`Damaged`], also if one of the entries is not pending.
    pub fn deliver_once_more(&mut self, group: u32, ids: &[StreamId], now_ms: u64) -> Result<(), Damaged> {
        let mut left = ids;
        while let Some(first) = left.first() {
            let (count, key) = (left.len(), pending_key(group, *first));
            let path = self.stream.tree.leaf(&key)?.ok_or(Damaged)?.path;
            let (elements, _) = self.stream.tree.leaf_mut(&path)?.as_chunks_mut::<PENDING_BYTES>();
            let at = super::first_not_below(elements, &key[1..]);
            for element in &mut elements[at..] {
                let Some(id) = left.first() else { break };
                if element[..OWNED_BYTES] == pending_key(group, *id)[1..] {
                    let pending = decode_pending(element)?.1;
                    let deliveries = pending.deliveries.saturating_add(1);
                    *element =
                        encode_pending(group, *id, &PendingEntry { delivered_ms: now_ms, deliveries, ..pending });
                    left = &left[1..];
                }
            }
            if left.len() == count {
                return Err(Damaged);
            }
        }
        Ok(())
    }

    /// Removes a pending entry of a group. Returns false if there is none with this identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn acknowledge(&mut self, group: u32, id: StreamId) -> Result<bool, Damaged> {
        let Some(pending) = self.pending(group, id)? else { return Ok(false) };
        self.stream.take(&owned_key(pending.consumer, id))?;
        self.stream.take(&pending_key(group, id))?;
        Ok(true)
    }
}
