//! The properties of a request of `INFO` on which its sections depend.

use segment::Namespace;

/// The properties of a request on which a section depends.
#[derive(Clone, Copy)]
pub(super) struct InfoRequest {
    /// The current time, in seconds since the Unix epoch.
    pub(super) now_secs: u64,
    /// The namespace of the client.
    pub(super) namespace: Namespace,
}
