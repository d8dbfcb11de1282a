//! Every error that a memcached client can receive, one to one with its wire text.

/// Why a request was not done. The texts are those of memcached where memcached has the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such command, or the wrong number of words.
    UnknownCommand,
    /// A word cannot be read, or the key is too long.
    BadFormat,
    /// A `delete` with something other than `0` and `noreply` behind the key.
    DeleteUsage,
    /// No line end within the longest line. The connection ends.
    LineTooLong,
    /// A request of the binary protocol. The connection ends.
    BinaryProtocol,
    /// A value without its `\r\n`.
    BadDataChunk,
    /// The delta of `incr` or `decr` is not an unsigned number of 64 bits.
    InvalidDelta,
    /// The value is not a number.
    NotNumber,
    /// The time of `touch`, `gat` or `flush_all` is not a number.
    InvalidExptime,
    /// A meta flag is given twice.
    DuplicateFlag,
    /// There is no such meta flag.
    InvalidFlag,
    /// Either of the two above, or a bad token, in `md` and `ma`.
    InvalidOrDuplicateFlag,
    /// The token of a meta flag cannot be read.
    BadToken,
    /// The opaque has more than 32 bytes.
    OpaqueTooLong,
    /// The token of `M` is not one character.
    ModeLength,
    /// There is no such mode of `ms`.
    StoreMode,
    /// There is no such mode of `ma`.
    ArithMode,
    /// The key is not base64.
    KeyEncoding,
    /// `stats detail` without `on`, `off` or `dump`.
    DetailUsage,
    /// `shutdown` with something other than `graceful`.
    ShutdownMode,
    /// `shutdown` while the server is not configured to allow it.
    ShutdownDisabled,
    /// A crawl of a class that does not exist.
    BadClass,
    /// An adjustment of slab classes or of an LRU: the store has neither.
    NoSlabs,
    /// `watch` of what the server cannot report.
    WatchUnavailable,
    /// `flush_all` while the server is configured to refuse it.
    FlushDisabled,
    /// `stats cachedump` while the server is configured to refuse it.
    CachedumpDisabled,
    /// `lru_crawler metadump` while the server is configured to refuse it.
    MetadumpDisabled,
    /// `lru_crawler mgdump` while the server is configured to refuse it.
    MgdumpDisabled,
    /// `watch` while the server is configured to refuse it.
    WatchDisabled,
    /// A client that has not authenticated, in a server that requires it.
    Unauthenticated,
    /// The client's credentials are not a user and a secret.
    AuthFormat,
    /// The client's credentials have no `\r\n` behind them.
    AuthTermination,
    /// There is no such user, or the secret is another.
    AuthFailure,
    /// `watch` while there are as many watchers as may be.
    TooManyWatchers,
    /// Key and value are more than the item maximum.
    TooLarge,
    /// The store cannot evict anything to make room.
    OutOfMemory,
    /// Large values being written or sent hold all the memory that may be held so.
    TooManyLarge,
    /// The server has as many connections as it may have.
    TooManyConnections,
    /// As many operations were done within a second as the namespace may have.
    TooManyOps,
}

impl Error {
    /// All of them, for tests and documents.
    pub const ALL: [Self; 39] = [
        Self::UnknownCommand,
        Self::BadFormat,
        Self::DeleteUsage,
        Self::LineTooLong,
        Self::BinaryProtocol,
        Self::BadDataChunk,
        Self::InvalidDelta,
        Self::NotNumber,
        Self::InvalidExptime,
        Self::DuplicateFlag,
        Self::InvalidFlag,
        Self::InvalidOrDuplicateFlag,
        Self::BadToken,
        Self::OpaqueTooLong,
        Self::ModeLength,
        Self::StoreMode,
        Self::ArithMode,
        Self::KeyEncoding,
        Self::DetailUsage,
        Self::ShutdownMode,
        Self::ShutdownDisabled,
        Self::BadClass,
        Self::NoSlabs,
        Self::WatchUnavailable,
        Self::FlushDisabled,
        Self::CachedumpDisabled,
        Self::MetadumpDisabled,
        Self::MgdumpDisabled,
        Self::WatchDisabled,
        Self::Unauthenticated,
        Self::AuthFormat,
        Self::AuthTermination,
        Self::AuthFailure,
        Self::TooManyWatchers,
        Self::TooLarge,
        Self::OutOfMemory,
        Self::TooManyLarge,
        Self::TooManyConnections,
        Self::TooManyOps,
    ];

    /// The line a client reads, its end included.
    pub const fn wire(self) -> &'static [u8] {
        match self {
            Self::UnknownCommand => b"ERROR\r\n",
            Self::TooManyOps => b"SERVER_ERROR too many operations a second for this namespace, try again later\r\n",
            Self::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Self::DeleteUsage => b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Self::BinaryProtocol => b"CLIENT_ERROR the binary protocol is not spoken here\r\n",
            Self::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Self::InvalidDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::NotNumber => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            Self::InvalidExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::ModeLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            Self::StoreMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::ArithMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::KeyEncoding => b"CLIENT_ERROR error decoding key\r\n",
            Self::DetailUsage => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
            Self::ShutdownMode => b"CLIENT_ERROR invalid shutdown mode\r\n",
            Self::ShutdownDisabled => b"ERROR: shutdown not enabled\r\n",
            Self::BadClass => b"BADCLASS invalid class id\r\n",
            Self::NoSlabs => b"CLIENT_ERROR the store has no slab classes and no LRU to adjust\r\n",
            Self::WatchUnavailable => {
                b"CLIENT_ERROR only fetchers, mutations, evictions and deletions can be watched\r\n"
            }
            Self::FlushDisabled => b"CLIENT_ERROR flush_all not allowed\r\n",
            Self::CachedumpDisabled => b"CLIENT_ERROR stats cachedump not allowed\r\n",
            Self::MetadumpDisabled => b"ERROR metadump not allowed\r\n",
            Self::MgdumpDisabled => b"ERROR mgdump not allowed\r\n",
            Self::WatchDisabled => b"CLIENT_ERROR watch commands not allowed\r\n",
            Self::Unauthenticated => b"CLIENT_ERROR unauthenticated\r\n",
            Self::AuthFormat => b"CLIENT_ERROR bad authentication token format\r\n",
            Self::AuthTermination => b"CLIENT_ERROR bad command line termination\r\n",
            Self::AuthFailure => b"CLIENT_ERROR authentication failure\r\n",
            Self::TooManyWatchers => b"WATCHER_TOO_MANY log watcher limit reached\r\n",
            Self::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
            Self::OutOfMemory => b"SERVER_ERROR out of memory storing object\r\n",
            Self::TooManyLarge => b"SERVER_ERROR too many large values in flight\r\n",
            Self::TooManyConnections => b"ERROR Too many open connections\r\n",
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(String::from_utf8_lossy(self.wire()).trim_end())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_one_line_of_its_own_that_clients_recognise() {
        let prefixes: [&[u8]; 6] =
            [b"ERROR", b"CLIENT_ERROR ", b"SERVER_ERROR ", b"BADCLASS ", b"MEMLIMIT_", b"WATCHER_TOO_MANY "];
        for (at, error) in Error::ALL.iter().enumerate() {
            let wire = error.wire();
            assert!(prefixes.iter().any(|prefix| wire.starts_with(prefix)), "{error}");
            assert!(wire.ends_with(b"\r\n") && !wire[..wire.len() - 2].contains(&b'\n'), "{error}");
            assert!(Error::ALL[..at].iter().all(|other| other.wire() != wire), "{error} is told twice");
        }
    }
}
