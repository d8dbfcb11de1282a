//! Counted trees: the elements of a collection that is too large for one item, in order, with their number below
//! each entry.
//!
//! ```text
//!   head    object 8 | levels 1 | bytes of the root 4 | entry ... | salt 8
//!   page    entry ...                                      (with two levels and more)
//!   entry   part 8 | elements 6 | length of the key 2 | key     the elements with keys at or above `key`, below the
//!                                                               key of the next entry
//!   leaf    element element ...                            encoded by the type of the collection ([`Codec`])
//!
//!   key     section 1 | bytes of the type                  compared as bytes
//! ```
//!
//! - Leaves and pages are parts ([`crate::Source`]), as those of large records are. A change writes new parts and a new
//!   head. Only parts to which the head leads are valid.
//! - A position is found by its key or by the number of elements before it, in one descent. The keys of a list's
//!   entries have no bytes after the section, since a list has positions only.
//! - A type may store its elements several times, in different orders: each order is a section. A leaf has elements
//!   of one section. The sections follow each other in the order of their numbers.
//! - The salt keys the hashes in the keys of sets and sorted sets ([`Salt`]). Others have none.
//! - The key of a page's entry is the key of the page's first entry, when the page was written.
//! - A key that lies below the key of its leaf's entry may exist in that leaf: its former leaf became empty. A search
//!   finds it, because it takes the last entry whose key is not greater, or the first entry, and goes on to the next
//!   leaf while the section is lower. Such a leaf is the first one of its section. If it is divided below the key of
//!   its entry, that key becomes the lowest of the section, so that the keys of entries ascend.
//!
//! Limits: a leaf has at most [`LEAF_BYTES_MAX`] bytes, or the elements that the type does not divide; a page at most
//! [`PAGE_BYTES_MAX`] bytes or [`PAGE_ENTRIES_LONG`] entries; a tree at most [`LEVELS_MAX`] levels. A division leaves
//! at least [`PAGE_ENTRIES_MIN`] entries in each page, whatever their keys are, so that the number of levels is at most
//! proportional to the logarithm of the number of leaves. The root has at most [`ROOT_BYTES_MAX`] bytes. The root of a
//! tree with all levels grows without a limit.

mod edit;
mod finish;
mod node;
mod root;
mod seek;
mod walk;

pub(super) use edit::CountedEdit;
pub(super) use finish::{Finished, finish};
pub(super) use seek::{CountedTree, FoundLeaf, Nodes};
pub(super) use walk::{Element, Elements, ElementsBack};

use crate::Damaged;
use crate::coding::hash::Salt;
use std::ops::Range;

/// Maximum length in bytes of a leaf that its type can divide.
const LEAF_BYTES_MAX: usize = 1024;
/// The number of bytes of a full leaf that remain unused when elements are added only at one end of the tree, so that
/// a later change within the leaf does not divide it again.
const SPARE: usize = 64;
/// Length in bytes of the leaves of a tree to which elements are added only at one end.
pub(super) const LEAF_BYTES_FULL: usize = LEAF_BYTES_MAX - SPARE;
/// A changed leaf or page below this length, in bytes, is joined to the previous one if both are short enough.
const BYTES_MIN: usize = 256;
/// Maximum length in bytes of two leaves or pages that are joined.
const JOINED_BYTES_MAX: usize = 768;
/// Maximum length of a page in bytes, if it has more than [`PAGE_ENTRIES_LONG`] entries.
const PAGE_BYTES_MAX: usize = 1024;
/// The minimum number of entries of each page into which a page is divided.
const PAGE_ENTRIES_MIN: usize = 3;
/// The maximum number of entries of a page with longer keys than [`PAGE_BYTES_MAX`] has room for.
const PAGE_ENTRIES_LONG: usize = 2 * PAGE_ENTRIES_MIN;
/// Maximum length in bytes of the root. A longer one is moved into a page, to which the new root has one entry: the
/// head must fit into one item, and a part need not.
const ROOT_BYTES_MAX: usize = 2 * PAGE_BYTES_MAX;
/// Maximum number of levels of entries above the leaves. Each level multiplies the leaves by at least three.
const LEVELS_MAX: usize = 12;
/// The bit in the `levels` of a head that marks a counted tree. The store reads it, too.
const COUNTED: u8 = 0x80;

/// The encoding of the elements of a type.
pub(crate) trait Codec {
    /// Returns the length in bytes of the element at the start of `bytes`, which is not empty.
    fn len(&self, section: u8, bytes: &[u8]) -> Result<usize, Damaged>;

    /// Appends a key to `to` that is greater than the key of the element `before`, and not greater than that of
    /// `after`. Returns false if the two must stay in one leaf.
    fn separator(&self, section: u8, before: &[u8], after: &[u8], to: &mut Vec<u8>) -> Result<bool, Damaged>;

    /// Returns the sections of a plain value that becomes a tree, each with the number of its elements and the
    /// elements.
    fn sections(&self, count: u64, body: Vec<u8>) -> Result<Vec<(u8, u64, Vec<u8>)>, Damaged> {
        Ok(vec![(0, count, body)])
    }

    /// Returns true if the element at the start of `bytes` does not depend on one before it in its leaf. The elements
    /// from such a one on, up to the next, are a run. `separator` never divides a run.
    fn begins_run(&self, _section: u8, _bytes: &[u8]) -> bool {
        true
    }

    /// Returns what replaces the elements `gone` of a leaf, and the elements behind them up to the returned offset.
    fn without(&self, _section: u8, _leaf: &[u8], gone: Range<usize>) -> Result<(Vec<u8>, usize), Damaged> {
        Ok((Vec::new(), gone.end))
    }

    /// Returns true if a small value may be plain: its elements are those of the lowest section.
    fn may_be_plain(&self) -> bool {
        true
    }

    /// Sorts the elements of a leaf that is about to be divided, if the type does not keep them sorted.
    fn arrange(&self, _section: u8, body: Vec<u8>) -> Result<Vec<u8>, Damaged> {
        Ok(body)
    }
}
