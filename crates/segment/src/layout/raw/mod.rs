//! The only unsafe code of the crate: shared words and bytes in mapped memory.
//!
//! Everything above this module is safe code that names memory by offsets. Four rules make the unsafe code sound. The
//! whole crate follows them. The compiler cannot check them:
//!
//! 1. **Words** (item header, expiry, META, CAS field, integer, index slot) are only ever read and written as
//!    atomics of one width, through [`Word32`] and [`Word64`].
//! 2. **Bytes** (key and value) are written once, through a [`Reserved`] that only one handle holds, before the index
//!    slot that names the item is stored with `Release`. After that they are frozen. A segment is not drained while a
//!    reservation in it outlives its guard (`SegmentHeader::arrivals`).
//! 3. A reader loads a slot with `Acquire` inside an epoch, and uses no byte slice after the end of the epoch (the
//!    `Guard`'s lifetime), unless the reader holds a pin on the segment.
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
