//! Values in parts for tests: leaves that repeat one byte, under a head with one or two levels.

use std::ops::Range;

use crate::core::op::{Expire, OpError};
use crate::index::Hash;
use crate::{Attempts, ENTRY_BYTES, Guard, KIND_IN_PARTS, Key, Loaded, Parts, Replaced, Replacement};

const KIND: u8 = KIND_IN_PARTS | 1;
/// The number of leaves of one page.
const A_PAGE: usize = 3;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

fn entries(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(ENTRY_BYTES).map(|entry| word(&entry[4..])).collect()
}

fn entry(part: u64) -> Vec<u8> {
    [&[0; 4][..], &part.to_le_bytes(), &[0; 6]].concat()
}

/// Returns all leaves of a value concatenated, or `None` if a leaf is missing.
pub(super) fn read(guard: &Guard<'_>, key: &Key<'_>, head: &[u8]) -> Option<Vec<u8>> {
    let count = u32::from_le_bytes(head[9..13].try_into().expect("four bytes")) as usize;
    let root = entries(&head[13..13 + ENTRY_BYTES * count]);
    let leaves = match head[8] {
        1 => root,
        _ => root
            .iter()
            .map(|page| Some(entries(&guard.parts().part(key, word(head), *page)?.joined())))
            .collect::<Option<Vec<_>>>()?
            .concat(),
    };
    let part = |part: &u64| Some(guard.parts().part(key, word(head), *part)?.joined());
    let parts: Option<Vec<_>> = leaves.iter().map(part).collect();
    Some(parts?.concat())
}

/// Changes the key's present item. Returns [`OpError::Parked`] if another thread changed the item meanwhile.
pub(super) fn replace(guard: &mut Guard<'_>, key: &Key<'_>, new: Replacement<'_>) -> Result<(), OpError> {
    let Loaded { version, .. } = guard.items().load(key, &mut Attempts::default())?;
    match guard.items_mut().replace(key, &version, new)? {
        Replaced::Done => Ok(()),
        Replaced::Stale => Err(OpError::Parked),
    }
}

fn add(guard: &Guard<'_>, parts: &mut Parts, bytes: &[u8]) -> u64 {
    let (number, from): (u64, usize) = (guard.parts().part_number(), parts.bytes.len());
    parts.bytes.extend_from_slice(bytes);
    let place: Range<usize> = from..parts.bytes.len();
    parts.new.push((number, place));
    number
}

/// Stores a value of `leaves` leaves of 20 bytes, as a new object.
pub(super) fn put(guard: &mut Guard<'_>, key: &Key<'_>, leaves: usize, fill: u8) -> Result<(), OpError> {
    let (mut head, mut parts) = (Vec::new(), Parts::default());
    let numbers: Vec<u64> = (0..leaves).map(|_| add(guard, &mut parts, &[fill; 20])).collect();
    let pages = leaves > A_PAGE;
    let root: Vec<u64> = match pages {
        false => numbers,
        true => numbers
            .chunks(A_PAGE)
            .map(|page| add(guard, &mut parts, &page.iter().flat_map(|part| entry(*part)).collect::<Vec<_>>()))
            .collect(),
    };
    write_head(&mut head, guard.parts().part_number(), 1 + u8::from(pages), &root);
    replace(guard, key, Replacement::Typed { kind: KIND, bytes: &head, parts: Some(&parts), expire: Expire::Never })
}

/// Replaces the first leaf of a value with one level. The object stays the same.
pub(super) fn change_first(guard: &mut Guard<'_>, key: &Key<'_>, fill: u8) -> Result<(), OpError> {
    let Loaded { item, version } = guard.items().load(key, &mut Attempts::default())?;
    let Some(crate::Value::Typed { bytes, .. }) = item.map(|item| item.value) else { panic!("it is there") };
    assert_eq!(bytes[8], 1, "one level");
    let (mut head, mut parts, mut root) = (Vec::new(), Parts::default(), entries(&bytes[13..]));
    parts.gone.push(root[0]);
    root[0] = add(guard, &mut parts, &[fill; 20]);
    write_head(&mut head, word(bytes), 1, &root);
    let new = Replacement::Typed { kind: KIND, bytes: &head, parts: Some(&parts), expire: Expire::Never };
    match guard.items_mut().replace(key, &version, new)? {
        Replaced::Done => Ok(()),
        Replaced::Stale => Err(OpError::Parked),
    }
}

/// Returns the hash of the hidden key of the first leaf of a value with one level.
pub(super) fn first_part(guard: &Guard<'_>, key: &Key<'_>) -> Hash {
    let hit = guard.items().read(key, guard.items().prefetch_item(key.key_hash())).expect("it is there");
    let crate::Value::Typed { bytes, .. } = hit.value else { panic!("it has parts") };
    guard
        .store
        .hasher
        .piece(key.namespace, &crate::layout::hidden_key::name(entries(&bytes[13..])[0], word(bytes)))
        .hash
}

fn write_head(to: &mut Vec<u8>, object: u64, levels: u8, root: &[u64]) {
    to.extend_from_slice(&object.to_le_bytes());
    to.push(levels);
    to.extend_from_slice(&(root.len() as u32).to_le_bytes());
    root.iter().for_each(|part| to.extend(entry(*part)));
}
