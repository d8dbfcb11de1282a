//! A typed array over zeroed mapped memory.

use std::io;
use std::marker::PhantomData;

use arena::Map;

/// Types for which all-zero bytes are a valid value, and which threads share without a lock.
///
/// # Safety
/// 1. All-zero bytes must be a valid value. 2. The type must be `Sync` through atomics alone, made of nothing but
///    shared words, so that any bytes are a valid value. 3. It must not need `Drop`. 4. Its alignment must divide a
///    page.
pub(crate) unsafe trait ZeroValid: Sync {}

/// `len` values of `T` in a separate memory map. The whole address range is reserved; only touched pages use memory.
#[derive(Debug)]
pub(crate) struct Array<T> {
    map: Map,
    len: usize,
    of: PhantomData<T>,
}

impl<T: ZeroValid> Array<T> {
    /// Reserves `len` zero values.
    pub(crate) fn reserve(len: usize, huge_pages: bool) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= arena::PAGE_BYTES && !std::mem::needs_drop::<T>()) };
        Ok(Self { map: Map::reserve(len * size_of::<T>(), huge_pages)?, len, of: PhantomData })
    }

    /// Creates an array in an existing map. The map's bytes have to be zero, or values of `T` that this or another
    /// process has written. Every bit pattern of shared words is valid.
    pub(crate) fn of_map(map: Map, len: usize) -> Self {
        const { assert!(align_of::<T>() <= arena::PAGE_BYTES && !std::mem::needs_drop::<T>()) };
        assert!(len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= map.bytes()), "{len} in too small a map");
        Self { map, len, of: PhantomData }
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the value at `index`; panics outside the array, as a slice does.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> &T {
        assert!(index < self.len, "index {index} of {}", self.len);
        // SAFETY: 1. index < len, and the map holds len values; 2. a new map is zero, and a map of a file holds shared
        // words that were written earlier; both are valid values (ZeroValid 1, 2); 3. only shared references are ever
        // made, and T is Sync through atomics (ZeroValid 2); 4. the map's start is aligned to a page (ZeroValid 4); 5.
        // the reference cannot outlive the map that self owns.
        unsafe { &*self.map.start().as_ptr().cast::<T>().add(index) }
    }

    /// Returns the value at `index`, if there is one.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index < self.len { Some(self.at(index)) } else { None }
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Prefetches the cache line of the value at `index`. The call is only a hint, so any index is allowed.
    #[inline(always)]
    pub(crate) fn prefetch(&self, index: usize) {
        super::heap::prefetch(self.map.start().as_ptr().cast::<T>().wrapping_add(index).cast());
    }
}
