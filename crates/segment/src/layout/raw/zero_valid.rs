//! The types of the crate that an array in mapped memory may hold. This module uses types of higher layers, and no
//! other module uses it.

use super::array::ZeroValid;

// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment 128.
unsafe impl ZeroValid for crate::layout::header::SegmentHeader {}
// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment 64.
unsafe impl ZeroValid for crate::index::Bucket {}
// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment 4.
unsafe impl ZeroValid for crate::index::Stripe {}
// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment a page.
unsafe impl ZeroValid for crate::layout::persistent::PersistentHeader {}
// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment a page.
unsafe impl ZeroValid for crate::durable::file::superblock::Page {}
// SAFETY: 1. all words are zero-valid; 2. all fields are shared words; 3. no Drop; 4. alignment 4.
unsafe impl ZeroValid for crate::tier::flash_keys::Region {}
// SAFETY: 1. all words are zero-valid; 2. it is a shared word; 3. no Drop; 4. alignment 8.
unsafe impl ZeroValid for super::Word64 {}
