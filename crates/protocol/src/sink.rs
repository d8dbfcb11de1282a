//! Destinations of reply bytes.

/// A destination that receives bytes in order. Each implementation limits its own length. A writer of this crate never
/// puts more than the documented `*_BYTES_MAX` bytes, so a caller that has ensured room for them loses no bytes.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends `len` bytes, at most [`FILL_BYTES_MAX`]. `write` must fill all `len` bytes in place. A sink with memory
    /// of its own passes that memory to `write`.
    fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let mut bytes = [0; FILL_BYTES_MAX];
        write(&mut bytes[..len]);
        self.put(&bytes[..len]);
    }
}

/// The maximum number of bytes that one [`Sink::fill`] appends.
pub const FILL_BYTES_MAX: usize = 512;

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    #[inline]
    fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let from = self.len();
        self.resize(from + len, 0);
        write(&mut self[from..]);
    }
}

/// A sink on the stack, in which a reply line is assembled from parts before it is passed on as a whole.
#[derive(Debug)]
pub struct Fixed<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Fixed<N> {
    /// Creates an empty sink with room for `N` bytes.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Returns the bytes put so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends one byte.
    pub fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

impl<const N: usize> Default for Fixed<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Sink for Fixed<N> {
    /// # Panics
    /// If more than `N` bytes are put in total, which means that the documented maximum of a writer is wrong.
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        assert!(end <= N, "a reply line is longer than its stated maximum of {N} bytes");
        self.bytes[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        write(&mut self.bytes[self.len..self.len + len]);
        self.len += len;
    }
}

/// Writes the text of `value` without allocating memory.
pub fn put_display(sink: &mut impl Sink, value: &impl std::fmt::Display) {
    struct Adapter<'s, S>(&'s mut S);
    impl<S: Sink> std::fmt::Write for Adapter<'_, S> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.put(text.as_bytes());
            Ok(())
        }
    }
    use std::fmt::Write;
    // Writing by the adapter never fails.
    let _ = write!(Adapter(sink), "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "stated maximum")]
    fn a_line_beyond_its_maximum_is_a_bug_and_not_a_cut_reply() {
        let mut sink = Fixed::<4>::new();
        sink.put(b"abc");
        sink.put(b"de");
    }
}
