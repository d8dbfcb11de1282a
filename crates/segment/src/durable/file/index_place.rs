//! The place of a store's index.

/// The place of the index, for a store in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexPlace {
    /// In the file: it is available as soon as the file is opened.
    #[default]
    File,
    /// In the process's own memory: it is rebuilt from the segments while the store serves. For files that lie on a
    /// medium slower than memory.
    Dram,
}
