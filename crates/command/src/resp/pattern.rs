//! The check of patterns in requests: a pattern is refused if matching it may take too long.

use super::error::ErrorReply;
use crate::glob::is_bounded;

/// Returns an error if matching `pattern` may take too many steps (see [`crate::glob`]).
pub(super) fn check(pattern: &[u8]) -> Result<(), ErrorReply> {
    if is_bounded(pattern) { Ok(()) } else { Err(ErrorReply::PatternTooLong) }
}
