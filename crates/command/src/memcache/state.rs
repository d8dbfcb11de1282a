//! The state of a request between two visits. This module executes no commands.

use crate::lookup::large::LargeSet;
use crate::metrics::Command;
use base::clock::UnixMillis;
use protocol::memcache::meta::OPAQUE_BYTES_MAX;
use segment::{Expire, Fetched, Item, Lease, Put, Stride};
/// The progress of a dump, which lists all items.
#[derive(Debug)]
pub(super) struct Dumping {
    pub(super) listed: u64,
    pub(super) cursor: u64,
    pub(super) stride: Stride,
    /// The lines that were not sent yet.
    pub(super) lines: Vec<u8>,
    pub(super) is_ended: bool,
}

impl Dumping {
    /// Creates the progress of a dump that begins at `cursor`.
    pub(super) fn from(cursor: u64) -> Box<Self> {
        Box::new(Self { listed: 0, cursor, stride: Stride::default(), lines: Vec::new(), is_ended: false })
    }
}

/// A storage command whose value is being received.
pub(super) struct Storing {
    pub(super) large: LargeSet,
    pub(super) plan: Plan,
}

/// A storage command without its value, as retained while a large value is received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The operation for the store, without its value.
    pub(super) put: Put<'static>,
    pub(super) answer: Answer,
    pub(super) command: Command,
}

/// The form of the reply to a storage command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Text { noreply: bool },
    Meta(MetaAnswer),
}

/// The parts of an `ms` request that its reply repeats or that determine the reply's form.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetaAnswer {
    pub(super) quiet: bool,
    pub(super) encoded: bool,
    /// Those of the flags `O`, `k`, `c` and `s` that the request contains, in the order of the request. Unused elements
    /// are 0.
    pub(super) order: [u8; 4],
    pub(super) opaque: [u8; OPAQUE_BYTES_MAX],
    pub(super) opaque_len: u8,
}

/// The result of a fetch's first execution. If the reply must wait for room, the fetch is executed again. The second
/// execution must still report the lease that the first one won, and must not count the first one as an earlier access.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstFetch {
    pub(super) won: bool,
    pub(super) vivified: bool,
    pub(super) fetched: bool,
    pub(super) last_access: UnixMillis,
    /// The item's expiry before this request.
    pub(super) expire_before: Expire,
}

impl FirstFetch {
    pub(super) fn of(found: &Fetched<'_>) -> Self {
        let Item { fetched, last_access, .. } = found.item;
        let (vivified, expire_before) = (found.vivified, found.expire_before);
        Self { won: found.lease == Lease::Won, vivified, fetched, last_access, expire_before }
    }

    pub(super) fn restore(self, found: &mut Fetched<'_>) {
        if self.won && found.lease == Lease::AlreadyWon {
            found.lease = Lease::Won;
        }
        found.vivified |= self.vivified;
        (found.item.fetched, found.item.last_access) = (self.fetched, self.last_access);
        found.expire_before = self.expire_before;
    }
}

/// A retrieval whose reply continues in a later call. The parsed part of its line is not parsed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retrieval {
    /// The length of the request line in bytes, line end included.
    pub(super) consumed: usize,
    /// The length of the unanswered keys at the end of the line, in bytes.
    pub(super) keys_left: usize,
    pub(super) with_cas: bool,
    pub(super) touch: Option<i64>,
}

impl Retrieval {
    /// Returns a request for the unanswered keys of `line`. Returns `None` if all keys are answered.
    pub(super) fn rest_of(&self, line: &[u8]) -> Option<Vec<u8>> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let keys = text[text.len() - self.keys_left..].trim_ascii();
        let name = match (self.touch.is_some(), self.with_cas) {
            (false, false) => "get",
            (false, true) => "gets",
            (true, false) => "gat",
            (true, true) => "gats",
        };
        let touch = self.touch.map_or_else(String::new, |exptime| format!(" {exptime}"));
        (!keys.is_empty()).then(|| [format!("{name}{touch} ").as_bytes(), keys, b"\r\n"].concat())
    }
}
