//! The kinds of outcomes.

use crate::traffic::ReplyOutcome;
use serde::{Deserialize, Serialize};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// A read that found its key, or a write that succeeded.
    Hit,
    /// A read that did not find its key, or a write whose condition did not hold.
    Miss,
    /// A query whose budget did not suffice for the whole answer.
    Partial,
    /// The server answered with an error.
    Error,
    /// The value in the reply differed from the value expected for its key and version.
    Wrong,
    /// The request was sent and got no reply: timeout, closed connection, invalid bytes or end of the run.
    Lost,
    /// The request was due and never sent, because no connection had room until the end of the run.
    Unsent,
}

impl Fate {
    /// All fates, in the order in which they are shown.
    pub const ALL: [Self; 7] =
        [Self::Hit, Self::Miss, Self::Partial, Self::Error, Self::Wrong, Self::Lost, Self::Unsent];

    /// Returns the displayed name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Partial => "partial",
            Self::Error => "error",
            Self::Wrong => "wrong",
            Self::Lost => "lost",
            Self::Unsent => "unsent",
        }
    }

    /// Returns the displayed name for a request that reads or, if `is_read` is false, writes: a write is never a hit.
    pub const fn name_for(self, is_read: bool) -> &'static str {
        match (self, is_read) {
            (Self::Hit, false) => "done",
            (Self::Miss, false) => "not done",
            _ => self.name(),
        }
    }

    /// Returns whether an objective on errors counts this fate.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Hit | Self::Miss | Self::Partial)
    }
}

impl From<ReplyOutcome> for Fate {
    fn from(outcome: ReplyOutcome) -> Self {
        match outcome {
            ReplyOutcome::Hit => Self::Hit,
            ReplyOutcome::Miss => Self::Miss,
            ReplyOutcome::Partial => Self::Partial,
            ReplyOutcome::Error => Self::Error,
            ReplyOutcome::Wrong => Self::Wrong,
        }
    }
}

/// A class of the size of the value in a request or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SizeClass {
    /// No value: misses, deletes.
    #[serde(rename = "none")]
    None,
    /// 1 to 128 bytes.
    #[serde(rename = "<=128B")]
    To128,
    /// 129 bytes to 1 KiB.
    #[serde(rename = "<=1KiB")]
    To1Ki,
    /// Up to 8 KiB.
    #[serde(rename = "<=8KiB")]
    To8Ki,
    /// Up to 64 KiB.
    #[serde(rename = "<=64KiB")]
    To64Ki,
    /// More than 64 KiB.
    #[serde(rename = ">64KiB")]
    Larger,
    /// Any size: the limit of separate cells was reached.
    #[serde(rename = "any")]
    Any,
}

impl SizeClass {
    /// Number of size classes.
    pub const COUNT: usize = 7;

    /// Returns the class of a value of `bytes` bytes.
    pub const fn of(bytes: u64) -> Self {
        match bytes {
            0 => Self::None,
            1..=128 => Self::To128,
            129..=1024 => Self::To1Ki,
            1025..=8192 => Self::To8Ki,
            8193..=65_536 => Self::To64Ki,
            _ => Self::Larger,
        }
    }

    /// Returns the displayed name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::To128 => "<=128B",
            Self::To1Ki => "<=1KiB",
            Self::To8Ki => "<=8KiB",
            Self::To64Ki => "<=64KiB",
            Self::Larger => ">64KiB",
            Self::Any => "any",
        }
    }
}
