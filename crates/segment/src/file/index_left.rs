//! The index in DRAM of a store that has ended in order, for the store that goes on in the same file: without it that
//! one would make its index anew, and miss for so long what it has not found yet.
//!
//! ```text
//!   memory that has no name: [ magic | openings of the file | groups | .. one page ][ slots of the groups .. ]
//! ```
//!
//! Invariants:
//! - It is of one opening of one file: the store that takes it is the next to open that file, which was left in order.
//!   Whoever finds anything else makes the index anew.
//! - It is a copy, so that neither process works on memory of the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use arena::{Map, MapFile};

use super::held::Held;
use super::{Ground, PAGE};
use crate::index::{GROUP_BYTES, Index};
use crate::raw::{Array, Word64};

/// What it begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"GANNETIX");
const HEAD_WORDS: usize = PAGE as usize / size_of::<Word64>();

/// The words of such memory, with room for so many groups.
fn words(file: &Arc<MapFile>, groups: usize) -> io::Result<Array<Word64>> {
    let bytes = PAGE as usize + groups * GROUP_BYTES;
    Ok(Array::of_map(Map::of_file(file, 0, bytes, false)?, bytes / size_of::<Word64>()))
}

/// A copy of the index of the store that has the file `held` and has left it.
pub(crate) fn leave(index: &Index, held: &Held) -> io::Result<Arc<MapFile>> {
    let groups = index.groups_used();
    let file = Arc::new(MapFile::in_memory()?);
    file.set_bytes(PAGE + (groups * GROUP_BYTES) as u64)?;
    file.allocate(0, PAGE + (groups * GROUP_BYTES) as u64)?;
    let words = words(&file, groups)?;
    for (at, value) in [MAGIC, held.block.opened, groups as u64].into_iter().enumerate() {
        words.at(at).store(value, Relaxed);
    }
    for (at, slot) in index.words_used(groups).enumerate() {
        words.at(HEAD_WORDS + at).store(slot.load(Relaxed), Relaxed);
    }
    Ok(file)
}

/// Puts the slots of `left` into the index of the store that opens the file `held`, if they are of the opening before
/// this one; false if they are not, and nothing was done.
pub(super) fn take(left: &Arc<MapFile>, held: &Held, ground: &Ground) -> io::Result<bool> {
    let groups = Index::groups_kept(&ground.kept);
    let is_clean = held.left.is_some_and(|how| how.clean) && ground.kept.rebuilding.load(Acquire) == 0;
    if !is_clean || left.bytes()? != PAGE + (groups * GROUP_BYTES) as u64 {
        return Ok(false);
    }
    let words = words(left, groups)?;
    let head = [0, 1, 2].map(|at| words.at(at).load(Relaxed));
    if head != [MAGIC, held.block.opened - 1, groups as u64] {
        return Ok(false);
    }
    for (at, slot) in Index::words_in(&ground.buckets, groups).enumerate() {
        slot.store(words.at(HEAD_WORDS + at).load(Relaxed), Relaxed);
    }
    Ok(true)
}
