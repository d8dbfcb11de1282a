//! The state of a command on strings or graphs, of `DUMP` and `RESTORE`, or of a claim of entries, that takes several
//! visits.

use crate::memory::budget::Grant;
use crate::resp::state::claim_work::ClaimWork;
use crate::resp::state::dump_work::{DumpWork, RestoreWork};
use crate::resp::state::graph_work::{GraphWork, LoadWork};
use record::hyperloglog::Registers;
use segment::LargeWriter;
use xxhash_rust::xxh3::Xxh3;

/// The state of a command on strings between two visits. Only a command in a transaction has such a state.
pub(in crate::resp) enum StringWork {
    /// The merged registers of the HyperLogLogs that are done.
    Merge(Registers),
    Fields(FieldsWork),
    Combine(CombineWork),
    Lcs(LcsWork),
    Dump(Box<DumpWork>),
    Restore(Box<RestoreWork>),
    Claim(Box<ClaimWork>),
    /// The digest of the bytes that were read.
    Digest(Box<Xxh3>),
    Graph(Box<GraphWork>),
    Load(Box<LoadWork>),
}

/// The handling of a number that does not fit into its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum Overflow {
    /// Keep the low bits.
    #[default]
    Wrap,
    /// Store the nearest number that fits.
    Saturate,
    /// Store nothing.
    Fail,
}

/// The state of `BITFIELD`.
#[derive(Debug, Default)]
pub(in crate::resp) struct FieldsWork {
    /// True if all operations were parsed, and all are valid.
    pub(in crate::resp) is_checked: bool,
    /// The number of operations.
    pub(in crate::resp) count: u32,
    /// The number of executed operations.
    pub(in crate::resp) done: u32,
    /// The length in bytes that the value has at least after the request; 0 if no operation writes.
    pub(in crate::resp) bytes_min: u64,
    /// The handling of numbers that do not fit, from the next operation on.
    pub(in crate::resp) overflow: Overflow,
}

/// The state of `BITOP`.
#[derive(Default)]
pub(in crate::resp) struct CombineWork {
    /// The length of the longest source, in bytes.
    pub(in crate::resp) bytes: u64,
    /// True if the lengths of all sources are known.
    pub(in crate::resp) is_measured: bool,
    /// The start and the length of the part of the result that is being computed.
    pub(in crate::resp) at: u64,
    pub(in crate::resp) part_bytes: usize,
    /// The number of sources that are done: whose lengths are known, or that are combined in the current part.
    pub(in crate::resp) sources: usize,
    /// The current part of the result.
    pub(in crate::resp) part: Vec<u8>,
    /// True if the part ends at `at` and is not stored.
    pub(in crate::resp) is_combined: bool,
    /// Other bits that the operation needs for each bit of the current part.
    pub(in crate::resp) second: Vec<u8>,
    /// The number of sources that existed when their lengths were read.
    pub(in crate::resp) found: u64,
    /// The number of times that the command has started over because it has lost a source.
    pub(in crate::resp) restarts: u32,
    /// The parts that are complete, if the result is stored in pieces.
    pub(in crate::resp) writer: Option<LargeWriter>,
    /// The share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}

/// The state of `LCS`.
#[derive(Default)]
pub(in crate::resp) struct LcsWork {
    /// The lengths of both strings. Both are 0 if one of the strings is empty.
    pub(in crate::resp) lens: [usize; 2],
    /// The parts of both strings that are copied.
    pub(in crate::resp) values: [Vec<u8>; 2],
    /// The number of rows of the table that are complete.
    pub(in crate::resp) rows: usize,
    /// The last complete row.
    pub(in crate::resp) row: Vec<u32>,
    /// A bit for each cell: 1 if the way back goes to a shorter prefix of the first string.
    pub(in crate::resp) ups: Vec<u64>,
    /// The number of computed cells whose cost is not charged yet.
    pub(in crate::resp) cells_unpaid: usize,
    /// The current cell of the way back: the lengths of both prefixes.
    pub(in crate::resp) place: (usize, usize),
    /// The common subsequence, from its end on.
    pub(in crate::resp) text: Vec<u8>,
    /// The first and last positions of the current range in both strings, and its length; 0 if there is none.
    pub(in crate::resp) range_start: (usize, usize),
    pub(in crate::resp) range_end: (usize, usize),
    pub(in crate::resp) range_len: u32,
    /// The complete ranges in the form of the reply, and their number.
    pub(in crate::resp) ranges: Vec<u8>,
    pub(in crate::resp) range_count: u64,
    /// The share of client memory; `None` if the request was not checked yet.
    pub(in crate::resp) grant: Option<Grant>,
}
