//! The types that hold the state of a request between two visits. Other modules execute the requests.

pub(super) mod aside;
pub(super) mod copying;
pub(super) mod listing;
pub(super) mod long;
pub mod transaction;
pub(super) mod walk;

/// The requests that a client wants replies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum Answers {
    #[default]
    All,
    /// The client wants replies to all requests except the next.
    SkipNext,
    None,
}
