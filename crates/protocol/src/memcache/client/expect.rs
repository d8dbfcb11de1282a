//! Which replies answer which request.

use super::reply::{MetaCode, Reply};

/// The replies that answer a request, and the reply that ends its answer.
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
/// An error is the last reply of everything but `UntilNoop`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Expect {
    /// Of `get`, `gets`, `gat`, `gats`.
    Values,
    /// Of a storage command, and of authentication.
    Store,
    /// Of `delete`.
    Delete,
    /// Of `incr` and `decr`.
    Arith,
    /// Of `touch`.
    Touch,
    /// Of `flush_all`, `verbosity`, `cache_memlimit`.
    Ok,
    /// Of `version`.
    Version,
    /// Of `stats` and all its topics.
    Stats,
    /// Of one `mg`, `ms`, `md` or `ma` without `q`.
    Meta,
    /// Of one `me`.
    MetaDebug,
    /// Of `mn` and all meta commands with `q` since the last answer.
    UntilNoop,
    /// Of `lru_crawler metadump`.
    Metadump,
    /// Of `lru_crawler mgdump`.
    Mgdump,
}

/// The place of a reply in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// More of the answer follows.
    Before,
    /// The answer ends with it, or with the value behind it.
    Last,
    /// It is no part of the answer.
    Foreign,
}

impl Expect {
    /// All of them, in the order of their numbers.
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

    /// The one whose number (`expect as u8`) this is.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the place of `reply` in the answer.
    #[inline]
    pub fn place(self, reply: &Reply<'_>) -> Place {
        use Place::{Before, Foreign, Last};
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
