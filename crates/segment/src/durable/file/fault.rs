//! The reasons why a store cannot be opened in a file, each with its remedy.

use std::fmt;
use std::io;

use super::index_place::IndexPlace;

/// The reason why a store cannot be opened in a file. The file is unchanged, except with `Io` and `Space`.
#[derive(Debug)]
pub enum FileFault {
    /// The error of the operating system.
    Io(io::Error),
    /// The file system has no space for the file.
    Space {
        /// Bytes of the whole file.
        bytes: u64,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The file does not hold a store's memory.
    Foreign,
    /// The file is damaged: neither copy of its superblock is intact, its length differs from that in the superblock,
    /// or its contents are inconsistent. The text describes the damage.
    Damaged(String),
    /// The file has another format version.
    Version {
        /// The version of the file.
        found: u64,
        /// The version that this build reads.
        known: u64,
    },
    /// The file has this build's format version, but was created by a build with another memory layout.
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
    /// The file's index is not at the requested place.
    Index {
        /// The place of the index for which the file was created.
        found: IndexPlace,
    },
    /// The file's store has flash of another size. A size of 0 stands for no flash.
    Flash {
        /// In bytes.
        found: u64,
        /// Requested size, in bytes.
        asked: u64,
    },
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RESET: &str = "discard the file's contents with --file-reset";
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Space { bytes, error } => write!(
                f,
                "cannot reserve {bytes} bytes there ({error}); free space, enlarge the file system, or pass a \
                 smaller --memory"
            ),
            Self::Foreign => {
                write!(f, "it is not a gannet memory file; name another path; or {RESET}")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}; {RESET}"),
            Self::Version { found, known } => write!(
                f,
                "it has version {found}, but this build reads version {known}; use the build that created it; \
                 or {RESET}"
            ),
            Self::Layout => {
                write!(f, "a build with another memory layout created it; use that build; or {RESET}")
            }
            Self::Memory { found, asked } => {
                write!(f, "it was created with --memory {found}B, not {asked}B; pass --memory {found}B; or {RESET}")
            }
            Self::Segment { found, asked } => {
                write!(f, "its segments have {found} bytes, not {asked}; pass --segment {found}B; or {RESET}")
            }
            Self::Index { found: IndexPlace::File } => {
                write!(f, "its index is in the file; pass --file-index file; or {RESET}")
            }
            Self::Index { found: IndexPlace::Dram } => {
                write!(f, "its index is not in the file; pass --file-index dram; or {RESET}")
            }
            Self::Flash { found: 0, .. } => write!(f, "it was created without --flash; remove --flash; or {RESET}"),
            Self::Flash { found, asked: 0 } => write!(
                f,
                "some of its items are on flash of {found} bytes; pass the same --flash as before to the server, to \
                 `gannet file dump` or to `gannet file migrate`; or {RESET}"
            ),
            Self::Flash { found, asked } => write!(
                f,
                "some of its items are on flash of {found} bytes in total, not {asked}; pass that --flash; or {RESET}"
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
