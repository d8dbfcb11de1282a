//! A buffer of a worker in which a command builds the new value of a key before it stores it.
//!
//! A worker has one buffer and reuses it, so that a change of a record allocates nothing. The buffer keeps at most the
//! room for a value in one piece.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A worker's buffer, empty at first. It goes back to the worker when it is dropped. A second one taken meanwhile is a
/// new allocation.
pub(crate) struct Scratch<'w> {
    home: &'w Cell<Vec<u8>>,
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl<'w> Scratch<'w> {
    /// Takes the buffer out of `home`. When it goes back, it releases its room beyond `bytes_max`.
    pub(crate) fn take(home: &'w Cell<Vec<u8>>, bytes_max: usize) -> Self {
        Self { home, bytes: home.take(), bytes_max }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        bytes.shrink_to(self.bytes_max);
        self.home.set(bytes);
    }
}

impl Deref for Scratch<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Scratch<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_buffer_is_empty_with_its_capacity_up_to_the_limit() {
        let home = Cell::new(Vec::new());
        Scratch::take(&home, 100).extend_from_slice(&[1; 80]);
        let first = Scratch::take(&home, 100);
        assert!(first.is_empty() && first.capacity() >= 80);
        drop(first);
        Scratch::take(&home, 100).extend_from_slice(&[1; 1000]);
        assert!(Scratch::take(&home, 100).capacity() < 1000);
    }
}
