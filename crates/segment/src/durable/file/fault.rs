//! The reasons why a store cannot be opened in a file, each with its remedy.

use std::fmt;
use std::io;

use super::index_place::IndexPlace;

/// The reason why a store cannot be opened in a file. The file is unchanged, except with `Io`, `Space` and `UndoSpace`.
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
    /// The file system has no space for the part of an existing file's undo log that has none yet.
    UndoSpace {
        /// Bytes of the undo log.
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

/// The remedy by which a server may discard a file.
const RESET: &str = "discard the file's contents with --file-reset";

impl fmt::Display for FileFault {
    /// Writes the reason and the remedies of a server.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)?;
        match self {
            Self::Io(_) | Self::Space { .. } | Self::UndoSpace { .. } => Ok(()),
            Self::Damaged(_) => write!(f, "; {RESET}"),
            _ => write!(f, "; or {RESET}"),
        }
    }
}

impl FileFault {
    /// Returns the reason and the remedies of a command that only reads the file. They never discard it.
    pub fn for_reader(&self) -> String {
        let mut text = String::new();
        self.describe(&mut text).expect("a string takes all text");
        text
    }

    fn describe(&self, f: &mut impl fmt::Write) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Space { bytes, error } => write!(
                f,
                "cannot reserve {bytes} bytes there ({error}); free space, enlarge the file system, or pass a \
                 smaller --memory"
            ),
            Self::UndoSpace { bytes, error } => write!(
                f,
                "cannot reserve {} KiB for its undo log ({error}); free {} KiB on its file system",
                bytes >> 10,
                bytes >> 10
            ),
            Self::Foreign => {
                write!(f, "it is not a gannet memory file; name another path")
            }
            Self::Damaged(what) => write!(f, "it is damaged: {what}"),
            Self::Version { found, known } => {
                write!(f, "it has version {found}, but this build reads version {known}; use the build that created it")
            }
            Self::Layout => {
                write!(f, "a build with another memory layout created it; use that build")
            }
            Self::Memory { found, asked } => {
                write!(f, "it was created with --memory {found}B, not {asked}B; pass --memory {found}B")
            }
            Self::Segment { found, asked } => {
                write!(f, "its segments have {found} bytes, not {asked}; pass --segment {found}B")
            }
            Self::Index { found: IndexPlace::File } => {
                write!(f, "its index is in the file; pass --file-index file")
            }
            Self::Index { found: IndexPlace::Dram } => {
                write!(f, "its index is not in the file; pass --file-index dram")
            }
            Self::Flash { found: 0, .. } => write!(f, "it was created without --flash; remove --flash"),
            Self::Flash { found, asked: 0 } => write!(
                f,
                "some of its items are on flash of {found} bytes; pass the same --flash as before to the server, to \
                 `gannet file dump` or to `gannet file migrate`"
            ),
            Self::Flash { found, asked } => {
                write!(f, "some of its items are on flash of {found} bytes in total, not {asked}; pass that --flash")
            }
        }
    }
}

impl std::error::Error for FileFault {}

impl From<io::Error> for FileFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
