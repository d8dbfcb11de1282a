//! Pins keep values in their place after the end of the guard that read them, so that the values can be sent without a
//! copy.
//!
//! ```text
//!   guard     find the value --> pins + 1 on each segment it lies in            (inside the epoch)
//!   later     send from the heap ... sent --> pins - 1
//!   meanwhile the item may be replaced, relocated or evicted: its segment waits in quarantine until its pins are gone
//! ```
//!
//! - A pin is created inside an epoch, on bytes that an index slot named in the same epoch. The background reads a
//!   segment's pin count only after two epochs have passed since the segment's last slot was cleared. By then no new
//!   pin can be created.
//! - Pinned bytes do not change: only whole values and pieces of large values are pinned, never a number that changes
//!   in place.
//! - A pin of a few bytes prevents the reuse of a whole segment. Therefore callers limit the pinned bytes.
//!   [`Store::pin_charge`] returns the bytes to count for a whole value, at least an eighth of a segment. If callers
//!   limit the counted bytes to 1/n of the memory, pins hold at most 8/n of the segments.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::core::store::Store;

/// A pinned value: its bytes, or the pieces of a large value, stay in memory until [`Store::unpin`].
#[derive(Debug)]
#[must_use = "pinned segments are not reused before they are unpinned"]
pub struct Pinned {
    places: Places,
    bytes: u64,
    charge: u64,
    released: bool,
}

/// The address and the length in bytes of each pinned piece. A value that is stored whole needs no allocation.
#[derive(Debug)]
enum Places {
    One(usize, u32),
    Many(Vec<(usize, u32)>),
}

impl Pinned {
    /// Creates the pin of a large value of `bytes` bytes in `pieces` pieces. The caller adds the pieces afterwards.
    pub(crate) fn of_large(bytes: u64, pieces: u32) -> Self {
        let places = Places::Many(Vec::with_capacity(pieces as usize));
        Self { places, bytes, charge: bytes, released: false }
    }

    /// Returns the length of all pieces together, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of bytes that callers count for this pin in their limit on pinned memory.
    pub fn charge(&self) -> u64 {
        self.charge
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        match &self.places {
            Places::One(..) => 1,
            Places::Many(places) => places.len(),
        }
    }

    fn place(&self, piece: usize) -> (usize, u32) {
        match &self.places {
            Places::One(address, bytes) => {
                assert!(piece == 0, "piece {piece} of one");
                (*address, *bytes)
            }
            Places::Many(places) => places[piece],
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        debug_assert!(self.released || std::thread::panicking(), "a pin was dropped without being released");
    }
}

impl Store {
    /// Returns the number of bytes that callers count for the pin of a whole value of `value_bytes` bytes.
    #[inline]
    pub fn pin_charge(&self, value_bytes: usize) -> u64 {
        value_bytes.max(self.geometry.value_whole_max) as u64
    }

    /// Pins a value that is stored whole. `value` is a slice of a [`crate::Value::Bytes`] whose guard has not ended.
    ///
    /// # Panics
    /// If the bytes are not in the store.
    pub fn pin(&self, value: &[u8]) -> Pinned {
        let address = self.segments.heap.offset_of(value);
        self.pins.fetch_add(1, Relaxed);
        self.segments.header_of(address).pins.fetch_add(1, AcqRel);
        let bytes = value.len();
        let places = Places::One(address, bytes as u32);
        Pinned { places, bytes: bytes as u64, charge: self.pin_charge(bytes), released: false }
    }

    /// Returns the bytes of one piece of a pinned value.
    pub fn pinned_bytes<'p>(&'p self, pin: &'p Pinned, piece: usize) -> &'p [u8] {
        let (address, bytes) = pin.place(piece);
        self.segments.heap.bytes(address, bytes as usize)
    }

    /// Releases a pin: its segments can be reused once no other pin holds them.
    pub fn unpin(&self, mut pin: Pinned) {
        for piece in 0..pin.pieces() {
            let before = self.segments.header_of(pin.place(piece).0).pins.fetch_sub(1, AcqRel);
            assert!(before > 0, "a pin is released once");
        }
        self.pins.fetch_sub(1, Relaxed);
        pin.released = true;
    }
}

/// Adds a piece that was found in this guard to the pin of its large value.
pub(crate) fn pin_piece(store: &Store, pin: &mut Pinned, address: usize, bytes: u32) {
    store.segments.header_of(address).pins.fetch_add(1, AcqRel);
    match &mut pin.places {
        Places::Many(places) => places.push((address, bytes)),
        Places::One(..) => unreachable!("a whole value has no pieces"),
    }
}
