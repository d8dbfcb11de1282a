//! The facets of a guard: borrowed views of the guard, each with the methods of one kind of operation.
//!
//! ```text
//!   shared access       items, walks, pieces, parts, tier, locks, sizes
//!   exclusive access    items_mut, numbers, versions, receiver, large, parts_mut, renames, tier_mut, locks_mut
//! ```
//!
//! A facet only borrows the guard, so it has no cost at run time. Code that holds a shared facet cannot obtain an
//! exclusive facet from it. The facets' methods are implemented in the modules that use this module.

use crate::core::handle::Guard;

macro_rules! shared_facets {
    ($($(#[$doc:meta])* $visibility:vis $name:ident $accessor:ident)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $visibility struct $name<'g, 'l> {
            pub(crate) guard: &'g Guard<'l>,
        })*

        impl<'l> Guard<'l> {
            $($(#[$doc])*
            #[inline(always)]
            $visibility fn $accessor(&self) -> $name<'_, 'l> {
                $name { guard: self }
            })*
        }
    };
}

macro_rules! exclusive_facets {
    ($($(#[$doc:meta])* $visibility:vis $name:ident $accessor:ident)*) => {
        $($(#[$doc])*
        #[derive(Debug)]
        $visibility struct $name<'g, 'l> {
            pub(crate) guard: &'g mut Guard<'l>,
        })*

        impl<'l> Guard<'l> {
            $($(#[$doc])*
            #[inline(always)]
            $visibility fn $accessor(&mut self) -> $name<'_, 'l> {
                $name { guard: self }
            })*
        }
    };
}

shared_facets! {
    /// Reads of items by their keys.
    pub Items items
    /// Reads of items by position: walks over a namespace, and lookups by a key's hash.
    pub Walks walks
    /// Reads of values in pieces.
    pub Pieces pieces
    /// Reads of parts of records.
    pub PartReads parts
    /// Reads of items on the second tier.
    pub TierReads tier
    /// Checks of the locks of keys, and snapshots of several keys.
    pub LockChecks locks
    /// Limits of the lengths of keys, values and pieces.
    pub Sizes sizes
}

exclusive_facets! {
    /// Writes and deletions of items.
    pub ItemsMut items_mut
    /// Increments and decrements of numbers.
    pub Numbers numbers
    /// Reads that return a CAS token. Later writes to the item then change its token.
    pub Versions versions
    /// In-place receives: values are received directly into the store.
    pub Receiver receiver
    /// Large values: writing, joining, copying and pinning their pieces.
    pub LargeValues large
    /// Changes of records in parts.
    pub PartWrites parts_mut
    /// Renames and copies of values in pieces or parts.
    pub Renames renames
    /// Moves of items from the second tier back to memory.
    pub TierMoves tier_mut
    /// Key lock sets that the guard acquires, and operations under them.
    pub LockHolds locks_mut
    /// Steps of a change: snapshot, unpublished item, lock, publication.
    pub(crate) Commits commits
}
