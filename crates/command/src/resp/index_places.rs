//! The positions of records in secondary indexes, and the removal of index entries without a record.

use crate::keyspace::indexes::Indexes;
use crate::keyspace::indexes::SetIndex;
use crate::resp::typed;
use crate::resp::typed::KeyParts;
use crate::resp::typed::View;
use record::IndexPosting;
use record::Kind;
use record::Name;
use record::NoParts;
use record::Record;
use segment::Guard;
use segment::Item;
use segment::Namespace;
use segment::Value;
use std::sync::Arc;
/// Returns the position of a record in each index of its set. A position is `None` if the record has no value for that
/// index.
pub(super) fn places_of(
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

/// Removes each index entry in `looked` whose record no longer exists, or has another position in the index now. Skips
/// an entry if another thread is changing its record. The caller must not hold the lock of a stripe of the indexes.
pub(super) fn sweep(
    indexes: &Indexes,
    guard: &Guard<'_>,
    view: View<'_>,
    looked: impl Iterator<Item = (Arc<SetIndex>, IndexPosting)>,
) {
    for (index, entry) in looked {
        let Some(_stripe) = indexes.stripe(entry.key) else { continue };
        if place_now(&index, guard, view, entry) != Some((entry.order, entry.more)) {
            index.remove(&entry);
        }
    }
    guard.parts().take_lost();
}

/// Returns the position that the record of `entry` should have in the index now, or `None` if it should have none. If
/// the record cannot be read now, returns the position of the entry itself.
fn place_now(index: &SetIndex, guard: &Guard<'_>, view: View<'_>, entry: IndexPosting) -> Option<(u64, u64)> {
    let namespace = Namespace(view.sets.of(index.set)?.namespace());
    let Some(item) = guard.walks().by_hash(namespace, entry.key) else {
        return guard.walks().hash_may_be_on_flash(entry.key).then_some((entry.order, entry.more));
    };
    if record_of_set(&item, view) != Some(index.set) {
        return None;
    }
    let parts = KeyParts::new(guard, guard.key(namespace, item.key));
    let found = typed::record(Some(&item), view, &parts).and_then(|record| {
        let bin = record.map(|record| record.find(&Name::new(&index.bin), view.now_ms)).transpose()?;
        Ok(bin.flatten().and_then(|bin| index.kind.place(&bin.value)))
    });
    found.unwrap_or(Some((entry.order, entry.more)))
}

/// Returns the number of the set to which an item's record belongs, even if the set no longer exists.
pub(super) fn record_of_set(item: &Item<'_>, view: View<'_>) -> Option<u16> {
    let Value::Typed { kind, bytes } = item.value else { return None };
    Some(Record::of(Kind::of(kind)?, bytes, view.sets, &NoParts).ok()??.set()?.set().number())
}
