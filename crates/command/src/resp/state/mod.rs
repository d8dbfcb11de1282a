//! What a session remembers of a request between two visits. Nothing here runs a command.

pub(super) mod aside;
pub(super) mod copying;
pub(super) mod listing;
pub(super) mod long;
pub mod transaction;
pub(super) mod walk;

/// Which requests a client wants to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum Answers {
    #[default]
    All,
    /// All but the next one.
    SkipNext,
    None,
}
