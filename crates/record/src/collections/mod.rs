//! Lists, sets, sorted sets and streams. Each is read from a typed value, changed, and written again.
//!
//! ```text
//!   plain    number of elements | element element ...        up to 4 KiB
//!   large    the head of a tree of parts                     [`counted`]
//! ```

mod counted;
mod list;
mod set;
mod sorted_set;
mod stream;

pub use list::{ListEdit, ListEnd, ListValue};
pub use set::{SetEdit, SetSearch, SetValue};
pub use sorted_set::{Bound, ScoredHashes, SortedSetEdit, SortedSetValue};
pub use stream::{
    EntrySearch, PendingEntry, StreamConsumer, StreamEdit, StreamEntry, StreamGroup, StreamGroups, StreamGroupsEdit,
    StreamId, StreamState, StreamValue, entry_bytes_max,
};

use crate::{Damaged, Kind, Parts, Source};

/// A type of collection.
pub trait Collection: 'static {
    /// A stored collection.
    type Value<'r>;
    /// A collection under change.
    type Edit<'e>;

    /// Returns true if values of this type are collections of this type.
    fn has(kind: Kind) -> bool;

    /// Reads the head of a collection.
    ///
    /// # Errors
    /// [`Damaged`]. Bytes after the head are checked when they are read.
    fn open<'r>(kind: Kind, bytes: &'r [u8], source: &'r dyn Source) -> Result<Self::Value<'r>, Damaged>;

    /// Begins a change of `old`, or a new collection.
    fn edit<'e>(old: Option<&Self::Value<'e>>, source: &'e dyn Source) -> Self::Edit<'e>;

    /// Completes a change: writes the head into `to` and new parts into `parts`. Returns the type of the head, or
    /// `None` if no elements are left.
    ///
    /// # Errors
    /// [`Damaged`].
    fn finish(edit: Self::Edit<'_>, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged>;

    /// Returns a number that differs if the elements differ, with near certainty.
    fn identity(value: &Self::Value<'_>) -> (u64, u64);

    /// Returns the number of elements.
    fn len(value: &Self::Value<'_>) -> u64;
}

macro_rules! collection {
    ($name:ident $doc:literal $value:ident $edit:ident $small:ident $large:ident) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl Collection for $name {
            type Value<'r> = $value<'r>;
            type Edit<'e> = $edit<'e>;

            fn has(kind: Kind) -> bool {
                matches!(kind, Kind::$small | Kind::$large)
            }

            fn open<'r>(kind: Kind, bytes: &'r [u8], source: &'r dyn Source) -> Result<$value<'r>, Damaged> {
                $value::open(kind, bytes, source)
            }

            fn edit<'e>(old: Option<&$value<'e>>, source: &'e dyn Source) -> $edit<'e> {
                $edit::of(old, source)
            }

            fn finish(edit: $edit<'_>, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
                edit.finish(parts, to)
            }

            fn identity(value: &$value<'_>) -> (u64, u64) {
                value.identity()
            }

            fn len(value: &$value<'_>) -> u64 {
                value.len()
            }
        }
    };
}

collection!(Lists "Lists." ListValue ListEdit List LargeList);
collection!(TextSets "Sets of texts." SetValue SetEdit Set LargeSet);
collection!(SortedSets "Sorted sets." SortedSetValue SortedSetEdit SortedSet LargeSortedSet);
collection!(Streams "Streams." StreamValue StreamEdit Stream LargeStream);
