//! A worker's buffer in which a command builds a new value before it stores the value. Each worker reuses one buffer,
//! so that a change of a record allocates no memory. Between two uses, the buffer retains at most enough capacity for a
//! value that is stored as one item.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// A worker's buffer, taken for one use and initially empty. When this struct is dropped, the buffer returns to the
/// worker. If a command takes a second buffer before that, the second buffer is a new allocation.
pub(crate) struct Scratch<'w> {
    home: &'w Cell<Vec<u8>>,
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl<'w> Scratch<'w> {
    /// Takes the buffer out of `home`. When the buffer returns, it frees its capacity above `bytes_max`.
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
