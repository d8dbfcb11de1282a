//! An array that grows without moving its elements, so that readers need no lock.
//!
//! ```text
//!   roots[r] ──> 2^r pages ──> 1,024 elements each; a page exists after the first write to one of its elements
//! ```

use std::sync::OnceLock;

/// The number of elements of a page.
pub(crate) const PAGE: usize = 1024;
/// The number of roots: 2^22 pages, hence 2^32 elements.
const ROOTS: usize = 23;

type PageSlot<T> = OnceLock<Box<[T]>>;

/// The array.
#[derive(Debug)]
pub(crate) struct Paged<T> {
    roots: [OnceLock<Box<[PageSlot<T>]>>; ROOTS],
}

impl<T: Default> Paged<T> {
    pub(crate) fn new() -> Self {
        Self { roots: [const { OnceLock::new() }; ROOTS] }
    }

    #[inline]
    fn place(page: usize) -> (usize, usize) {
        let root = (page + 1).ilog2() as usize;
        (root, page + 1 - (1 << root))
    }

    /// Returns a page, if it exists.
    #[inline]
    pub(crate) fn page(&self, page: usize) -> Option<&[T]> {
        let (root, at) = Self::place(page);
        Some(self.roots.get(root)?.get()?[at].get()?)
    }

    /// Returns a page, and creates it if necessary.
    pub(crate) fn create_page(&self, page: usize) -> &[T] {
        let (root, at) = Self::place(page);
        let pages = self.roots[root].get_or_init(|| (0..1 << root).map(|_| OnceLock::new()).collect());
        pages[at].get_or_init(|| (0..PAGE).map(|_| T::default()).collect())
    }

    /// Returns an element, if its page exists.
    #[inline]
    pub(crate) fn find(&self, index: u32) -> Option<&T> {
        self.page(index as usize / PAGE).map(|page| &page[index as usize % PAGE])
    }

    /// Returns an element, and creates its page if necessary.
    #[inline]
    pub(crate) fn create(&self, index: u32) -> &T {
        &self.create_page(index as usize / PAGE)[index as usize % PAGE]
    }

    /// Returns the number of bytes that the pages hold.
    pub(crate) fn bytes(&self) -> usize {
        let roots = self.roots.iter().filter_map(OnceLock::get);
        let full = |pages: &[PageSlot<T>]| pages.iter().filter(|page| page.get().is_some()).count();
        roots.map(|pages| size_of_val(&**pages) + full(pages) * PAGE * size_of::<T>()).sum()
    }
}
