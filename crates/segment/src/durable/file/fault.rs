//! The reasons why a store cannot be opened in a file, each with its remedy.

use std::fmt;
use std::io;

use super::index_place::IndexPlace;

/// The reason why a store cannot be opened in a file. The file is unchanged, except with `Io` and `Space`.
#[derive(Debug)]
pub enum FileFault {
    /// The operating system's reason.
    Io(io::Error),
    /// The file system has no space for the file.
    Space {
        /// Bytes of the whole file.
        bytes: u64,
        /// The operating system's reason.
        error: io::Error,
    },
    /// The file holds something else than a store's memory.
    Foreign,
    /// Neither copy of its superblock is intact, its length differs from the superblock, or its contents are
    /// inconsistent.
    Damaged(String),
    /// The file has another version.
    Version {
        /// Which.
        found: u64,
        /// The one that this build reads.
        known: u64,
    },
    /// The file has this version, but is from a build with another layout.
    Layout,
    /// The file was created for another memory size.
    Memory {
        /// In bytes.
        found: u64,
        /// Requested size, in bytes.
        asked: u64,
    },
    /// The file's segments have another size.
    Segment {
        /// In bytes.
        found: u64,
        /// Requested size, in bytes.
        asked: u64,
    },
    /// The place of its index differs from the requested one.
    Index {
        /// Place of the index in the file's store.
        found: IndexPlace,
    },
    /// Its second tier has another size; 0: it has none.
    Flash {
        /// In bytes.
        found: u64,
        /// Requested size, in bytes.
        asked: u64,
    },
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RESET: &str = "--file-reset discards its contents";
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Space { bytes, error } => write!(
                f,
                "cannot reserve {bytes} bytes there ({error}); make room, enlarge the file system, or give less \
                 --memory"
            ),
            Self::Foreign => {
                write!(f, "it holds something that is no memory of gannet; name another path; {RESET}")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}; {RESET}"),
            Self::Version { found, known } => write!(
                f,
                "it is of version {found} and this build reads version {known}; start it with the build that made it; \
                 {RESET}"
            ),
            Self::Layout => {
                write!(f, "a build made it that lays memory out otherwise; start it with that build; {RESET}")
            }
            Self::Memory { found, asked } => {
                write!(f, "it was made for a memory of {found} bytes, not of {asked}; give that --memory; {RESET}")
            }
            Self::Segment { found, asked } => {
                write!(f, "its segments have {found} bytes, not {asked}; give that --segment; {RESET}")
            }
            Self::Index { found: IndexPlace::File } => {
                write!(f, "it was made with its index in the file; give --file-index file; {RESET}")
            }
            Self::Index { found: IndexPlace::Dram } => {
                write!(f, "it was made without its index; give --file-index dram; {RESET}")
            }
            Self::Flash { found: 0, .. } => write!(f, "it was made without --flash; start it without; {RESET}"),
            Self::Flash { found, asked: 0 } => write!(
                f,
                "a part of its items is on flash of {found} bytes; give a server the --flash that it was made with, or \
                 `gannet file dump` or `migrate`; {RESET}"
            ),
            Self::Flash { found, asked } => write!(
                f,
                "a part of its items is on flash of {found} bytes in all, not {asked}; give that --flash; {RESET}"
            ),
        }
    }
}

impl std::error::Error for FileFault {}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
