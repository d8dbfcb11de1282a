//! Bytes in a separate memory map, which have one owner.

use arena::Map;

/// Page-aligned bytes, which their owner reads and writes like those of a `Vec`. If they lie in a memory file, they
/// outlive the process.
#[derive(Debug)]
pub struct TierChunk {
    map: Map,
}

impl TierChunk {
    /// Creates a chunk. `map` must be the only map of these bytes: private memory, or a part of a file that only this
    /// process uses and that no other code maps.
    pub(crate) fn of_map(map: Map) -> Self {
        Self { map }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: 1. the map has this many bytes, and lives as long as self; 2. u8 has no invalid values, and a map is
        // initialised (zero, or a file's contents); 3. no other code has the map (contract of `of_map`), and a writer
        // has `&mut self`.
        unsafe { std::slice::from_raw_parts(self.map.start().as_ptr(), self.map.bytes()) }
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: 1. the map has this many bytes, and lives as long as self; 2. u8 has no invalid values, and a map is
        // initialised; 3. no other code has the map (contract of `of_map`), and self is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.map.start().as_ptr(), self.map.bytes()) }
    }
}
