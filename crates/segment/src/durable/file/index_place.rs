//! The place of a store's index.

/// The place of the index, for a store in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexPlace {
    /// In the file: the index is available as soon as the file is opened.
    #[default]
    File,
    /// In the process's own memory: the index is rebuilt from the segments while the store serves. This suits files on
    /// a medium that is slower than memory.
    Dram,
}
