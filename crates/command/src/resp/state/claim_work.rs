//! The state of `XCLAIM` and `XAUTOCLAIM` between two visits.

use crate::memory::budget::Grant;
use record::StreamId;

/// The options of a claim.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) struct ClaimOptions {
    pub(in crate::resp) min_idle_ms: i64,
    /// The time of the request, and the recorded time of the delivery, in milliseconds since 1970.
    pub(in crate::resp) now_ms: u64,
    pub(in crate::resp) delivered_ms: u64,
    /// The recorded number of deliveries.
    pub(in crate::resp) deliveries: Option<u32>,
    /// True if entries are claimed that are not pending.
    pub(in crate::resp) forces: bool,
    /// True if the reply has no fields, and the claims are no deliveries.
    pub(in crate::resp) only_ids: bool,
    /// The identifier that the last delivered one of the group has at least.
    pub(in crate::resp) last: StreamId,
}

/// The state of a claim.
pub(in crate::resp) struct ClaimWork {
    pub(in crate::resp) options: ClaimOptions,
    /// The number of identifiers in the request of `XCLAIM`, if it is known.
    pub(in crate::resp) ids: Option<u32>,
    /// The next pending entry that `XAUTOCLAIM` examines, and how many it may still return and examine.
    pub(in crate::resp) next: StreamId,
    pub(in crate::resp) count: u64,
    pub(in crate::resp) attempts: u64,
    /// The claimed entries as a reply, behind room for the lines before them, and their number.
    pub(in crate::resp) text: Vec<u8>,
    pub(in crate::resp) claimed: u64,
    /// The identifiers of deleted entries as a reply, and their number.
    pub(in crate::resp) deleted_text: Vec<u8>,
    pub(in crate::resp) deleted: u64,
    /// The share of client memory.
    pub(in crate::resp) grant: Grant,
}
