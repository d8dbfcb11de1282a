//! Items that are stored whole: reads, changes, walks, and items that are not published yet.
//!
//! ```text
//!   read ──> the item where it lies          receive ──> unpublished: a value received straight into its place
//!   write ──> unpublished: an item without a slot ──> published under the stripe lock
//!   walk ──> all items of the index, a few slots at a time
//! ```

pub(crate) mod read;
pub(crate) mod receive;
pub(crate) mod unpublished;
pub(crate) mod versions;
pub(crate) mod walk;
pub(crate) mod write;
