//! The unsafe ring: shared words and bytes in mapped memory.
//!
//! Everything above this module is safe code that names memory by offsets. What makes it sound are four rules, kept
//! by the crate as a whole and stated here because the compiler cannot see them:
//!
//! 1. **Words** (item header, expiry, META, CAS field, integer, index slot) are only ever read and written as
//!    atomics of one width, through [`Word32`] and [`Word64`].
//! 2. **Bytes** (key and value) are written once, through a [`Reserved`] that its handle alone holds, before the index
//!    slot that names the item is stored with `Release`. After that they are frozen. A segment is not drained while a
//!    reservation in it outlives its guard (`SegmentHeader::arrivals`).
//! 3. A reader loads a slot with `Acquire` inside an epoch, and lets go of every byte slice when the epoch ends (the
//!    `Guard`'s lifetime) or holds a pin on the segment.
//! 4. A segment becomes `Free`, hence writable again, only after every slot that named it was cleared, two epochs
//!    have passed and its pins are gone.

mod array;
mod chunk;
mod heap;
mod words;
mod zero_valid;

pub(crate) use array::Array;
pub use chunk::TierChunk;
pub(crate) use heap::{Heap, Reserved, prefetch_line_of};
pub(crate) use words::{Mutex, MutexGuard, Word32, Word64, fence};
