//! Streams tested against maps of the standard library: random changes of entries, groups and pending entries, and the
//! parts that are added and removed.

use super::{Stored, text};
use base::prng::Prng;
use gannet_record::{Kind, Parts, PendingEntry, StreamEdit, StreamId, StreamValue};
use std::collections::BTreeMap;

/// The pending entries of a group, by their identifiers: the name of the consumer and the number of deliveries.
type Pending = BTreeMap<StreamId, (String, u32)>;

#[derive(Default)]
struct TriedStream {
    stored: Stored,
    entries: BTreeMap<StreamId, Vec<Vec<u8>>>,
    groups: BTreeMap<String, Pending>,
    last: StreamId,
    most_entries: usize,
    most_pending: usize,
}

impl TriedStream {
    fn value(&self) -> Option<StreamValue<'_>> {
        let (kind, bytes) = self.stored.there.as_ref()?;
        Some(StreamValue::open(*kind, bytes, &self.stored.shelf).unwrap())
    }

    fn change(&mut self, change: impl FnOnce(Option<&StreamValue<'_>>, &mut StreamEdit<'_>)) {
        let (mut to, mut parts) = (Vec::new(), Parts::default());
        let old = self.value();
        let mut edit = StreamEdit::of(old.as_ref(), &self.stored.shelf);
        change(old.as_ref(), &mut edit);
        let kind = edit.finish(&mut parts, &mut to).unwrap();
        assert_eq!(kind == Some(Kind::LargeStream), kind.is_some_and(Kind::is_large));
        self.stored.put(kind, to, parts);
    }

    fn add(&mut self, random: &mut Prng, count: u64) {
        let mut added = Vec::new();
        for _ in 0..count {
            let step = if random.chance(1, 20) { random.below(5000) } else { random.below(3) };
            let ms = self.last.ms + step;
            self.last = StreamId { ms, seq: if step == 0 { self.last.seq + 1 } else { random.below(2) << 40 } };
            added.push((self.last, words(random)));
        }
        self.change(|_, edit| {
            for (id, words) in &added {
                edit.append(*id, words.iter().map(Vec::as_slice)).unwrap();
            }
        });
        self.entries.extend(added);
    }

    fn random_id(&self, random: &mut Prng) -> StreamId {
        let number = random.below(self.entries.len().max(1) as u64) as usize;
        let id = self.entries.keys().nth(number).copied().unwrap_or_default();
        if random.chance(1, 8) { StreamId { seq: id.seq + 7, ..id } } else { id }
    }

    fn delete(&mut self, random: &mut Prng, count: u64) {
        let ids: Vec<StreamId> = (0..count).map(|_| self.random_id(random)).collect();
        let mut there: Vec<bool> = Vec::new();
        self.change(|_, edit| there.extend(ids.iter().map(|id| edit.remove(*id).unwrap())));
        for (id, was_there) in ids.iter().zip(there) {
            assert_eq!(self.entries.remove(id).is_some(), was_there);
        }
    }

    fn deliver(&mut self, random: &mut Prng, group: &str, count: u64) {
        let ids: Vec<StreamId> = (0..count).map(|_| self.random_id(random)).collect();
        let consumer = format!("consumer-{}", random.below(4));
        let Some(pending) = self.groups.get(group).cloned() else { return };
        let mut pending = pending;
        self.change(|_, edit| {
            let number = edit.groups().group(group.as_bytes()).unwrap().unwrap().number;
            let (owner, _) = edit.groups().see_consumer(number, consumer.as_bytes(), 5).unwrap();
            for id in &ids {
                let deliveries = pending.get(id).map_or(0, |(_, deliveries)| *deliveries) + 1;
                let new = PendingEntry { consumer: owner.number, delivered_ms: 7, deliveries };
                edit.groups().deliver(number, *id, &new).unwrap();
                pending.insert(*id, (consumer.clone(), deliveries));
            }
        });
        self.groups.insert(group.to_owned(), pending);
    }

    fn acknowledge(&mut self, random: &mut Prng, group: &str, count: u64) {
        let ids: Vec<StreamId> = (0..count).map(|_| self.random_id(random)).collect();
        let Some(pending) = self.groups.get(group).cloned() else { return };
        let mut pending = pending;
        self.change(|_, edit| {
            let number = edit.groups().group(group.as_bytes()).unwrap().unwrap().number;
            for id in &ids {
                assert_eq!(edit.groups().acknowledge(number, *id).unwrap(), pending.remove(id).is_some());
            }
        });
        self.groups.insert(group.to_owned(), pending);
    }

    /// Delivers the entries with these numbers in their order to a consumer, as `XREADGROUP` does, or acknowledges
    /// them.
    fn deliver_in_order(&mut self, group: &str, consumer: Option<&str>, numbers: std::ops::Range<usize>) {
        let ids: Vec<StreamId> = self.entries.keys().copied().skip(numbers.start).take(numbers.len()).collect();
        let mut pending = self.groups[group].clone();
        self.change(|_, edit| {
            let number = edit.groups().group(group.as_bytes()).unwrap().unwrap().number;
            for id in &ids {
                let Some(consumer) = consumer else {
                    assert_eq!(edit.groups().acknowledge(number, *id).unwrap(), pending.remove(id).is_some());
                    continue;
                };
                let (owner, _) = edit.groups().see_consumer(number, consumer.as_bytes(), 5).unwrap();
                let deliveries = pending.get(id).map_or(0, |(_, deliveries)| *deliveries) + 1;
                let new = PendingEntry { consumer: owner.number, delivered_ms: 7, deliveries };
                edit.groups().deliver(number, *id, &new).unwrap();
                pending.insert(*id, (consumer.to_owned(), deliveries));
            }
        });
        self.groups.insert(group.to_owned(), pending);
    }

    fn step(&mut self, random: &mut Prng, most: u64) {
        let group = format!("group-{}", random.below(3));
        let many = [1, 3, 40][random.below(3) as usize];
        match random.below(40) {
            0 => self.change(|_, edit| {
                let is_new = !has_group(edit, &group);
                assert_eq!(edit.groups().create_group(group.as_bytes(), StreamId::MIN, None).unwrap(), is_new);
            }),
            1 if random.chance(1, 3) => {
                self.change(|old, edit| {
                    if let Some(old) = old {
                        edit.groups().destroy_group(old, group.as_bytes()).unwrap();
                    }
                });
                self.groups.remove(&group);
                return;
            }
            2 => {
                let gone = self.entries.len().saturating_sub(random.below(most) as usize);
                self.change(|_, edit| edit.remove_first(gone as u64).unwrap());
                (0..gone).for_each(|_| drop(self.entries.pop_first()));
            }
            3..12 => self.deliver(random, &group, many),
            12..18 => self.acknowledge(random, &group, many),
            18..25 => self.delete(random, many),
            _ => self.add(random, many),
        }
        let is_new = self.value().is_some_and(|value| value.groups().group(group.as_bytes()).unwrap().is_some());
        if is_new {
            self.groups.entry(group).or_default();
        }
    }

    fn check(&mut self, random: &mut Prng) {
        let Some(value) = self.value() else { return };
        assert_eq!((value.len(), value.state().groups), (self.entries.len() as u64, self.groups.len() as u64));
        let read = |entry: gannet_record::StreamEntry<'_>| {
            (entry.id, entry.words().map(|word| text(&word.unwrap())).collect::<Vec<_>>())
        };
        let from = self.random_id(random);
        let index = self.entries.range(..from).count() as u64;
        assert_eq!(value.before(from).unwrap(), index);
        let found: Vec<_> = value.from(index).unwrap().map(|entry| read(entry.unwrap())).collect();
        assert!(found.iter().map(|(id, words)| (id, words)).eq(self.entries.range(from..)), "from {from:?}");
        let back: Vec<_> = value.back_from(index).unwrap().map(|entry| read(entry.unwrap())).collect();
        let skipped = value.len().saturating_sub(index + 1) as usize;
        assert!(back.iter().map(|(id, words)| (id, words)).eq(self.entries.iter().rev().skip(skipped)));
        let found = value.entry(from).unwrap().map(read);
        assert_eq!(found.map(|(_, words)| words).as_ref(), self.entries.get(&from));
        for (name, pending) in &self.groups {
            let group = value.groups().group(name.as_bytes()).unwrap().unwrap();
            assert_eq!(value.groups().pending_count(group.number).unwrap(), pending.len() as u64, "{name}");
            let found = value.groups().pending_from(group.number, from).unwrap().map(|found| {
                let (id, found) = found.unwrap();
                let owner = value.groups().consumer_name(found.consumer).unwrap();
                (id, (String::from_utf8(owner.to_vec()).unwrap(), found.deliveries))
            });
            assert!(found.eq(pending.range(from..).map(|(id, found)| (*id, found.clone()))), "{name} from {from:?}");
            assert_eq!(value.groups().last_pending(group.number).unwrap(), pending.keys().next_back().copied());
            for consumer in value.groups().consumers(group.number).unwrap() {
                let (owner, consumer) = consumer.unwrap();
                let owned = pending.iter().filter(|(_, (other, _))| other.as_bytes() == owner).map(|(id, _)| *id);
                let found = value.groups().owned_from(consumer.number, StreamId::MIN).unwrap().map(Result::unwrap);
                assert_eq!(found.collect::<Vec<_>>(), owned.collect::<Vec<_>>());
            }
        }
        let most_pending = self.groups.values().map(BTreeMap::len).max().unwrap_or(0);
        (self.most_entries, self.most_pending) =
            (self.most_entries.max(self.entries.len()), self.most_pending.max(most_pending));
    }
}

/// Returns fields and values: in most cases, fields that many entries have.
fn words(random: &mut Prng) -> Vec<Vec<u8>> {
    let shape = random.below(5);
    let count = 1 + if shape > 1 { shape % 3 } else { random.below(3) };
    let field = |random: &mut Prng, number| match shape {
        0 | 1 => super::element(random, 500),
        _ => format!("field-{shape}-{number}").into_bytes(),
    };
    (0..count).flat_map(|number| [field(random, number), super::element(random, 50)]).collect()
}

fn has_group(edit: &mut StreamEdit<'_>, group: &str) -> bool {
    edit.groups().group(group.as_bytes()).unwrap().is_some()
}

#[test]
fn a_stream_with_groups_is_a_map_of_entries_and_maps_of_pending_ones() {
    for (seed, steps, most) in [(1, 3000, 40), (2, 3000, 400), (3, 4000, 3000), (4, 4000, 8000)] {
        let (mut random, mut stream) = (Prng::new(seed), TriedStream::default());
        for step in 0..steps {
            stream.step(&mut random, most);
            if step % 16 == 0 {
                stream.check(&mut random);
            }
        }
        stream.check(&mut random);
        if most > 1000 {
            let reached = (stream.most_entries, stream.most_pending, stream.stored.levels);
            assert!(reached.0 > 1000 && reached.1 > 100 && reached.2 > 1, "seed {seed}: {reached:?}");
        }
    }
}

/// Regression: consumers that acknowledge their oldest entries and receive further ones lost some of these, or entries
/// of others were counted as theirs.
#[test]
fn consumers_that_acknowledge_in_order_keep_their_pending_entries() {
    for seed in 0..8 {
        let (mut random, mut stream) = (Prng::new(seed), TriedStream::default());
        stream.add(&mut random, 3000);
        stream.change(|_, edit| assert!(edit.groups().create_group(b"g", StreamId::MIN, None).unwrap()));
        stream.groups.insert("g".to_owned(), BTreeMap::new());
        let (mut next, mut oldest) = (0, 0);
        for _ in 0..120 {
            let consumer = format!("consumer-{}", random.below(4));
            let count = random.below(120) as usize;
            if random.chance(1, 8) {
                // `XGROUP SETID` to an earlier entry: some are delivered again.
                next = random.below(next as u64 + 1) as usize;
            }
            stream.deliver_in_order("g", Some(&consumer), next..(next + count).min(3000));
            next = (next + count).min(3000);
            let until = oldest.max(next.saturating_sub(random.below(8) as usize));
            if random.chance(1, 2) {
                stream.deliver_in_order("g", None, oldest..until);
                oldest = until;
            }
            if random.chance(1, 10) {
                oldest = 0;
            }
            stream.check(&mut random);
        }
    }
}

#[test]
fn entries_that_share_their_fields_take_few_bytes_more_than_their_values() {
    let mut stream = TriedStream::default();
    let value = |number: u64| format!("value-{number:04}").into_bytes();
    for from in (0..10_000).step_by(100) {
        stream.change(|_, edit| {
            for number in from..from + 100 {
                let words = [b"the field".to_vec(), value(number)];
                let id = StreamId { ms: 1_700_000_000_000 + 2 * number, seq: 0 };
                edit.append(id, words.iter().map(Vec::as_slice)).unwrap();
            }
        });
    }
    let bytes: usize = stream.stored.shelf.parts.values().map(Vec::len).sum();
    let beyond = bytes as f64 / 10_000.0 - value(0).len() as f64;
    assert!((4.0..6.0).contains(&beyond), "{beyond:.2} bytes for each entry");
    let read = stream.value().unwrap();
    assert_eq!(read.from(0).unwrap().count(), 10_000);
}
