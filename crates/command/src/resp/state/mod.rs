//! What a session remembers of a request between two visits. Nothing here runs a command.

pub(super) mod aside;
pub(super) mod copying;
pub(super) mod listing;
pub(super) mod long;
pub mod transaction;
pub(super) mod walk;
