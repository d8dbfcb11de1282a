//! The options of `SORT`.

use super::Pattern;
use crate::resp::acl;
use crate::resp::call::Call;
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use protocol::resp::Args;

/// The order of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SortOrder {
    /// That of the value.
    Unsorted,
    Numbers,
    Texts,
}

/// The options of a request.
pub(super) struct SortOptions<'c> {
    pub(super) by: Option<Pattern<'c>>,
    pub(super) gets: Vec<Pattern<'c>>,
    is_alpha: bool,
    pub(super) is_descending: bool,
    /// The number of elements that are skipped, and the maximum number of the others, if it is not negative.
    pub(super) limit: (i64, i64),
    pub(super) store: Option<&'c [u8]>,
}

impl<'c> SortOptions<'c> {
    /// Parses options. `STORE` is one of them if `may_store`.
    pub(super) fn read(call: &mut Call<'c, '_>, mut args: Args<'c>, may_store: bool) -> Result<Self, ErrorReply> {
        let mut options =
            Self { by: None, gets: Vec::new(), is_alpha: false, is_descending: false, limit: (0, -1), store: None };
        while let Some(word) = args.next() {
            match (&lower(word)[..], args.len()) {
                (b"asc", _) => options.is_descending = false,
                (b"desc", _) => options.is_descending = true,
                (b"alpha", _) => options.is_alpha = true,
                (b"limit", 2..) => {
                    let mut number = || integer(args.next().unwrap_or_default());
                    options.limit = (number()?, number()?);
                }
                (b"store", 1..) if may_store => options.store = args.next(),
                (b"by", 1..) => {
                    let by = Pattern::of(args.next().unwrap_or_default());
                    if by.has_star() && !acl::may_read_all_keys(call) {
                        return Err(ErrorReply::SortDenied("BY"));
                    }
                    options.by = Some(by);
                }
                (b"get", 1..) => {
                    if !acl::may_read_all_keys(call) {
                        return Err(ErrorReply::SortDenied("GET"));
                    }
                    options.gets.push(Pattern::of(args.next().unwrap_or_default()));
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(options)
    }

    pub(super) fn order(&self) -> SortOrder {
        match &self.by {
            Some(by) if !by.has_star() => SortOrder::Unsorted,
            _ if self.is_alpha => SortOrder::Texts,
            _ => SortOrder::Numbers,
        }
    }
}
