//! An array that grows without moving its elements, so that readers need no lock.
//!
//! ```text
//!   roots[r] ──> 2^r pages ──> N elements each; a page exists after the first write to one of its elements
//! ```
//!
//! The arrays of all graphs of a store are its index. Each counts its bytes in the store's [`IndexMemory`].

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use crate::error::GraphError;

/// The number of elements of a page, unless the array states another one.
pub(crate) const PAGE: usize = 1024;
/// The number of roots: 2^26 pages. Pages of 64 elements have 2^32 of them.
const ROOTS: usize = 27;

type PageSlot<T, const N: usize> = OnceLock<Box<[T; N]>>;

/// The bytes of the index of a store.
#[derive(Debug)]
pub(crate) struct IndexMemory {
    used: AtomicUsize,
    /// The number of bytes from which on additions are refused.
    max: usize,
}

impl IndexMemory {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max })
    }

    /// Returns an error unless the index may grow by `bytes` bytes.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), GraphError> {
        let has_room = self.used.load(Relaxed).saturating_add(bytes) <= self.max;
        if has_room { Ok(()) } else { Err(GraphError::IndexFull(self.max)) }
    }
}

/// The array, with pages of `N` elements.
#[derive(Debug)]
pub(crate) struct Paged<T, const N: usize = PAGE> {
    roots: [OnceLock<Box<[PageSlot<T, N>]>>; ROOTS],
    memory: Arc<IndexMemory>,
}

impl<T, const N: usize> Paged<T, N> {
    pub(crate) fn new(memory: &Arc<IndexMemory>) -> Self {
        Self { roots: [const { OnceLock::new() }; ROOTS], memory: Arc::clone(memory) }
    }

    #[inline]
    fn place(page: usize) -> (usize, usize) {
        let root = (page + 1).ilog2() as usize;
        (root, page + 1 - (1 << root))
    }

    /// Returns a page, if it exists.
    #[inline]
    pub(crate) fn page(&self, page: usize) -> Option<&[T; N]> {
        let (root, at) = Self::place(page);
        Some(self.roots.get(root)?.get()?[at].get()?)
    }

    /// Returns an element, if its page exists.
    #[inline]
    pub(crate) fn find(&self, index: u32) -> Option<&T> {
        self.page(index as usize / N).map(|page| &page[index as usize % N])
    }

    /// Returns the number of bytes that the pages hold.
    pub(crate) fn bytes(&self) -> usize {
        let roots = self.roots.iter().filter_map(OnceLock::get);
        let full = |pages: &[PageSlot<T, N>]| pages.iter().filter(|page| page.get().is_some()).count();
        roots.map(|pages| size_of_val(&**pages) + full(pages) * N * size_of::<T>()).sum()
    }
}

impl<T: Default, const N: usize> Paged<T, N> {
    /// Returns a page, and creates it if necessary.
    pub(crate) fn create_page(&self, page: usize) -> &[T; N] {
        let (root, at) = Self::place(page);
        let count = |bytes: usize| self.memory.used.fetch_add(bytes, Relaxed);
        let pages = self.roots[root].get_or_init(|| {
            count(size_of::<PageSlot<T, N>>() << root);
            (0..1 << root).map(|_| OnceLock::new()).collect()
        });
        pages[at].get_or_init(|| {
            count(N * size_of::<T>());
            let page: Box<[T]> = (0..N).map(|_| T::default()).collect();
            page.try_into().ok().expect("as many elements")
        })
    }

    /// Returns an element, and creates its page if necessary.
    #[inline]
    pub(crate) fn create(&self, index: u32) -> &T {
        &self.create_page(index as usize / N)[index as usize % N]
    }
}

impl<T, const N: usize> Drop for Paged<T, N> {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes(), Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::memory::AtomicU32;

    #[test]
    fn bytes_of_arrays_are_counted_until_they_are_dropped() {
        let memory = IndexMemory::new(100 << 10);
        let (wide, narrow) = (Paged::<AtomicU32>::new(&memory), Paged::<AtomicU32, 64>::new(&memory));
        for index in [0, 1023, 1024, 5_000_000] {
            wide.create(index).store(index, Relaxed);
            narrow.create(index).store(index, Relaxed);
        }
        for index in [0, 1023, 1024, 5_000_000] {
            let values = [wide.find(index), narrow.find(index)].map(|word| word.map(|word| word.load(Relaxed)));
            assert_eq!(values, [Some(index); 2]);
        }
        assert_eq!(memory.used.load(Relaxed), wide.bytes() + narrow.bytes());
        assert!(narrow.bytes() > 1 << 20 && memory.check(0).is_err());
        drop(narrow);
        assert_eq!(memory.used.load(Relaxed), wide.bytes());
        drop(wide);
        assert!(memory.check(100 << 10).is_ok() && memory.check((100 << 10) + 1).is_err());
    }
}
