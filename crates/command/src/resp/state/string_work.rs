//! The state of a command on strings that takes several visits.

use crate::memory::budget::Grant;
use record::hyperloglog::Registers;
use segment::LargeWriter;

/// The state of a command on strings between two visits. Only a command in a transaction has such a state.
pub(in crate::resp) enum StringWork {
    /// The merged registers of the HyperLogLogs that are done.
    Merge(Registers),
    Fields(FieldsWork),
    Combine(CombineWork),
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
    /// Other bits that the operation needs for each bit of the current part.
    pub(in crate::resp) second: Vec<u8>,
    /// The parts that are complete, if the result is stored in pieces.
    pub(in crate::resp) writer: Option<LargeWriter>,
    /// The share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}
