//! The replies that each request can get.

use super::reply::{MetaCode, Reply};

/// The possible replies to a request, and the reply that ends the response.
///
/// | expected | replies before the last | last reply |
/// |---|---|---|
/// | `Values` | `VALUE` | `END` |
/// | `Store` | | `STORED NOT_STORED EXISTS NOT_FOUND` |
/// | `Delete` | | `DELETED NOT_FOUND` |
/// | `Arith` | | a number, `NOT_FOUND` |
/// | `Touch` | | `TOUCHED NOT_FOUND` |
/// | `Ok` | | `OK` |
/// | `Version` | | `VERSION` |
/// | `Stats` | `STAT`, `ITEM`, `PREFIX` | `END OK RESET` |
/// | `Meta` | | `HD VA EN NS EX NF` |
/// | `MetaDebug` | | `ME EN` |
/// | `UntilNoop` | any of the meta replies, errors too | `MN` |
/// | `Metadump` | `key=` | `END` |
/// | `Mgdump` | `mg` | `EN` |
///
/// An error ends every response except `UntilNoop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Expect {
    /// For `get`, `gets`, `gat`, `gats`.
    Values,
    /// For a storage command, and for authentication.
    Store,
    /// For `delete`.
    Delete,
    /// For `incr` and `decr`.
    Arith,
    /// For `touch`.
    Touch,
    /// For `flush_all`, `verbosity`, `cache_memlimit`.
    Ok,
    /// For `version`.
    Version,
    /// For `stats` with any topic.
    Stats,
    /// For one `mg`, `ms`, `md` or `ma` without `q`.
    Meta,
    /// For one `me`.
    MetaDebug,
    /// For `mn` and all meta commands with `q` since the previous response.
    UntilNoop,
    /// For `lru_crawler metadump`.
    Metadump,
    /// For `lru_crawler mgdump`.
    Mgdump,
}

/// The position of a reply in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyPosition {
    /// More replies follow.
    Before,
    /// The response ends with this reply, or with the value after it.
    Last,
    /// The reply does not belong to the response.
    Foreign,
}

impl Expect {
    /// All variants, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Values,
        Self::Store,
        Self::Delete,
        Self::Arith,
        Self::Touch,
        Self::Ok,
        Self::Version,
        Self::Stats,
        Self::Meta,
        Self::MetaDebug,
        Self::UntilNoop,
        Self::Metadump,
        Self::Mgdump,
    ];

    /// Returns the variant with this number (`expect as u8`).
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the position of `reply` in the response.
    #[inline]
    pub fn place(self, reply: &Reply<'_>) -> ReplyPosition {
        use ReplyPosition::{Before, Foreign, Last};
        let one_of = |fits: bool| if fits { Last } else { Foreign };
        match (self, reply) {
            (Self::Values, Reply::Value(_)) => Before,
            (Self::Values | Self::Metadump, Reply::End) => Last,
            (Self::UntilNoop, Reply::Error(_)) => Before,
            (_, Reply::Error(_)) => Last,
            (Self::Values, _) => Foreign,
            (Self::Store, reply) => {
                one_of(matches!(reply, Reply::Stored | Reply::NotStored | Reply::Exists | Reply::NotFound))
            }
            (Self::Delete, reply) => one_of(matches!(reply, Reply::Deleted | Reply::NotFound)),
            (Self::Arith, reply) => one_of(matches!(reply, Reply::Number(_) | Reply::NotFound)),
            (Self::Touch, reply) => one_of(matches!(reply, Reply::Touched | Reply::NotFound)),
            (Self::Ok, reply) => one_of(matches!(reply, Reply::Ok)),
            (Self::Version, reply) => one_of(matches!(reply, Reply::Version(_))),
            (Self::Stats, Reply::Stat { .. } | Reply::Listed(_)) => Before,
            (Self::Stats, reply) => one_of(matches!(reply, Reply::End | Reply::Ok | Reply::Reset)),
            (Self::Meta, reply) => one_of(matches!(reply, Reply::Meta { .. } | Reply::MetaValue { .. })),
            (Self::MetaDebug, reply) => {
                one_of(matches!(reply, Reply::MetaDebug { .. } | Reply::Meta { code: MetaCode::Miss, .. }))
            }
            (Self::UntilNoop, Reply::Meta { .. } | Reply::MetaValue { .. } | Reply::MetaDebug { .. }) => Before,
            (Self::UntilNoop, reply) => one_of(matches!(reply, Reply::MetaNoop)),
            (Self::Metadump, Reply::Metadump(_)) | (Self::Mgdump, Reply::Mgdump(_)) => Before,
            (Self::Metadump, _) => Foreign,
            (Self::Mgdump, reply) => one_of(matches!(reply, Reply::Meta { code: MetaCode::Miss, .. })),
        }
    }
}
