//! The types that hold the state of a request between two visits. Other modules execute the requests.

pub(super) mod absent;
pub(super) mod aside;
pub(super) mod claim_work;
pub(super) mod copying;
pub(super) mod dump_work;
pub(super) mod graph_work;
pub(super) mod listing;
pub(super) mod long;
pub(super) mod name_hashes;
pub mod script;
pub(super) mod stream_intake;
pub(super) mod string_work;
pub(super) mod tracking;
pub mod transaction;
pub(super) mod waits;
pub(super) mod walk;

/// The requests that a client wants replies to (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum Answers {
    #[default]
    All,
    /// The client wants replies to all requests except the current one, or except the next one if none is in
    /// execution.
    SkipNext,
    /// As [`Answers::SkipNext`], set by the current request, for the request after it.
    SkipAfter,
    None,
}

impl Answers {
    /// Returns true if the client wants the reply to the current request.
    pub(in crate::resp) fn wants_reply(self) -> bool {
        matches!(self, Self::All | Self::SkipAfter)
    }
}
