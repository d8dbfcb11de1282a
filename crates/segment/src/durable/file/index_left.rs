//! A copy of an index in DRAM. A store that is closed cleanly passes it to the store that opens the same file next.
//! Without the copy, the next store has to rebuild its index, and items are misses until the rebuild finds them.
//!
//! ```text
//!   memfd: [ magic | openings of the file | groups | .. one page ][ slots of the groups .. ]
//! ```
//!
//! Invariants:
//! - A copy belongs to one opening of one file. The next opening of that file uses the copy if the file was closed
//!   cleanly. In any other case the index is rebuilt.
//! - The processes share no index memory, because each copies the slots. No client is served while an index is copied,
//!   so up to [`THREADS_MAX`] threads copy at once.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use arena::{Map, MapFile};

use super::held::Held;
use super::{Backing, PAGE};
use crate::index::{GROUP_BYTES, GROUP_SLOTS, Index};
use crate::layout::raw::{Array, Word64};

/// The first word of a copy.
const MAGIC: u64 = u64::from_le_bytes(*b"GANNETIX");
const HEAD_WORDS: usize = PAGE as usize / size_of::<Word64>();

/// The maximum number of threads that copy at once. More threads would only wait for the memory bandwidth.
const THREADS_MAX: usize = 8;
/// The minimum number of index groups that each thread copies: 256 KiB of slots.
const GROUPS_A_THREAD_MIN: usize = 64;

/// Calls `copy` from several threads, with ranges that cover `groups` groups.
fn copy_all(groups: usize, copy: impl Fn(Range<usize>) + Sync) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cpus.min(THREADS_MAX).min(groups / GROUPS_A_THREAD_MIN).max(1);
    let share = groups.div_ceil(threads);
    std::thread::scope(|scope| {
        for number in 1..threads {
            let copy = &copy;
            scope.spawn(move || copy(groups.min(number * share)..groups.min((number + 1) * share)));
        }
        copy(0..groups.min(share));
    });
}

/// Maps the words of a copy of `groups` groups.
fn words(file: &Arc<MapFile>, groups: usize) -> io::Result<Array<Word64>> {
    let bytes = PAGE as usize + groups * GROUP_BYTES;
    Ok(Array::of_map(Map::of_file(file, 0, bytes, false)?, bytes / size_of::<Word64>()))
}

/// Copies the index of a store that has closed the file `held`.
pub(crate) fn leave(index: &Index, held: &Held) -> io::Result<Arc<MapFile>> {
    let groups = index.groups_used();
    let file = Arc::new(MapFile::in_memory()?);
    file.set_bytes(PAGE + (groups * GROUP_BYTES) as u64)?;
    file.allocate(0, PAGE + (groups * GROUP_BYTES) as u64)?;
    let words = words(&file, groups)?;
    for (at, value) in [MAGIC, held.block.opened, groups as u64].into_iter().enumerate() {
        words.at(at).store(value, Relaxed);
    }
    copy_all(groups, |range| {
        let from = HEAD_WORDS + range.start * GROUP_SLOTS;
        for (at, slot) in index.words_used(range).enumerate() {
            words.at(from + at).store(slot.load(Relaxed), Relaxed);
        }
    });
    Ok(file)
}

/// Copies the slots of `left` into the index of the store that opens the file `held`. Returns false and changes nothing
/// if `left` is not a copy from the previous opening of this file, or if that opening did not end with a clean close.
pub(super) fn take(left: &Arc<MapFile>, held: &Held, ground: &Backing) -> io::Result<bool> {
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
    copy_all(groups, |range| {
        let from = HEAD_WORDS + range.start * GROUP_SLOTS;
        for (at, slot) in Index::words_in(&ground.buckets, range).enumerate() {
            slot.store(words.at(from + at).load(Relaxed), Relaxed);
        }
    });
    Ok(true)
}
