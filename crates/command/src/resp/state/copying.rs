//! A value that is copied into a reply over several visits.

use crate::visit::out::HeadPlace;

/// A value that is copied into a reply over several visits.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct Copying {
    /// The number that identifies the value ([`segment::LargeRef::identity`]).
    pub(in crate::resp) value: u64,
    pub(in crate::resp) head: HeadPlace,
    /// The position of the next byte in the value.
    pub(in crate::resp) at: u64,
}
