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
//! - It is a copy, so that neither process works on memory of the other. As nobody is served meanwhile, it is made by
//!   as many threads as there are CPUs, up to [`THREADS_MAX`].

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use arena::{Map, MapFile};

use super::held::Held;
use super::{Ground, PAGE};
use crate::index::{GROUP_BYTES, GROUP_SLOTS, Index};
use crate::raw::{Array, Word64};

/// What it begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"GANNETIX");
const HEAD_WORDS: usize = PAGE as usize / size_of::<Word64>();

/// Threads that copy at once: more wait for memory alone.
const THREADS_MAX: usize = 8;
/// Groups that are not worth a thread of their own: some 256 KiB of slots.
const GROUPS_A_THREAD_MIN: usize = 64;

/// Copies the slots of so many groups by `copy`, which is called with ranges of groups that have all of them.
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
    copy_all(groups, |range| {
        let from = HEAD_WORDS + range.start * GROUP_SLOTS;
        for (at, slot) in index.words_used(range).enumerate() {
            words.at(from + at).store(slot.load(Relaxed), Relaxed);
        }
    });
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
    copy_all(groups, |range| {
        let from = HEAD_WORDS + range.start * GROUP_SLOTS;
        for (at, slot) in Index::words_in(&ground.buckets, range).enumerate() {
            slot.store(words.at(from + at).load(Relaxed), Relaxed);
        }
    });
    Ok(true)
}
