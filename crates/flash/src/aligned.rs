//! Buffers that begin at a page boundary, so that data moves between a device and the buffer without an intermediate
//! copy.

/// Alignment that suits every device, in bytes.
pub(crate) const ALIGN: usize = 4096;

/// A byte buffer that begins at a multiple of [`ALIGN`].
#[derive(Debug)]
pub(crate) struct Aligned {
    all: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(len: usize) -> Self {
        let all = vec![0; len + ALIGN];
        let from = all.as_ptr().align_offset(ALIGN);
        assert!(from < ALIGN, "bytes can be aligned");
        Self { all, from, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.all[self.from..self.from + self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.from..self.from + self.len]
    }
}
