//! All errors that a memcached client can receive, each with its own wire text.

/// The reason why a request was not executed. If memcached has the same error, the text is memcached's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such command, or the wrong number of words.
    UnknownCommand,
    /// A word cannot be parsed, or the key is too long.
    BadFormat,
    /// A `delete` with words other than `0` and `noreply` after the key.
    DeleteUsage,
    /// No line end within the maximum line length. The server closes the connection.
    LineTooLong,
    /// A request of the binary protocol. The server closes the connection.
    BinaryProtocol,
    /// A line of an HTTP request ([`crate::http`]).
    Http,
    /// A value without `\r\n` after it.
    BadDataChunk,
    /// The delta of `incr` or `decr` is not an unsigned 64-bit number.
    InvalidDelta,
    /// The stored value is not a number.
    NotNumber,
    /// The time of `touch`, `gat` or `flush_all` is not a number.
    InvalidExptime,
    /// A meta flag occurs twice.
    DuplicateFlag,
    /// An unknown meta flag.
    InvalidFlag,
    /// Either of the two errors above, or an invalid token, in `md` and `ma`.
    InvalidOrDuplicateFlag,
    /// The token of a meta flag cannot be parsed.
    BadToken,
    /// The initial value of an `ma` (`J`) is not an unsigned 64-bit number.
    InvalidInitial,
    /// The delta of an `ma` (`D`) is not an unsigned 64-bit number.
    InvalidMetaDelta,
    /// The opaque has more than 32 bytes.
    OpaqueTooLong,
    /// The token of `M` is not one character.
    ModeLength,
    /// An unknown mode of `ms`.
    StoreMode,
    /// An unknown mode of `ma`.
    ArithMode,
    /// The key is not valid base64.
    KeyEncoding,
    /// `stats detail` without `on`, `off` or `dump`.
    DetailUsage,
    /// `stats cachedump` without a class and a limit.
    CachedumpUsage,
    /// `stats cachedump` of a class that memcached cannot have.
    IllegalClass,
    /// `shutdown` with a word other than `graceful`.
    ShutdownMode,
    /// `shutdown`, although the server is not configured to allow it.
    ShutdownDisabled,
    /// A crawl of a class that does not exist.
    BadClass,
    /// A command that adjusts slab classes or an LRU: the store has neither.
    NoSlabs,
    /// `watch` for events that the server cannot report.
    WatchUnavailable,
    /// `flush_all`, although the server is configured to refuse it.
    FlushDisabled,
    /// `stats cachedump`, although the server is configured to refuse it.
    CachedumpDisabled,
    /// `lru_crawler metadump`, although the server is configured to refuse it.
    MetadumpDisabled,
    /// `lru_crawler mgdump`, although the server is configured to refuse it.
    MgdumpDisabled,
    /// `watch`, although the server is configured to refuse it.
    WatchDisabled,
    /// A request of a client that has not authenticated, on a server that requires it.
    Unauthenticated,
    /// The client must authenticate, because it is on another host and the listener is protected.
    Protected,
    /// The client's credentials are not a user name and a secret.
    AuthFormat,
    /// The client's credentials have no `\r\n` after them.
    AuthTermination,
    /// The user is unknown, or the secret is wrong.
    AuthFailure,
    /// The client's user lacks a right to the command, a key or a namespace.
    NoPermission,
    /// `watch`, although the maximum number of watchers is reached.
    TooManyWatchers,
    /// Key and value together exceed the maximum item size.
    TooLarge,
    /// The store cannot evict anything to make room.
    OutOfMemory,
    /// The memory allowed for large values in transfer is used up.
    TooManyLarge,
    /// The server has reached its maximum number of connections.
    TooManyConnections,
    /// The namespace has reached its maximum number of operations per second.
    TooManyOps,
    /// The client's user has used up its quota of requests per second.
    TooManyOpsOfUser,
}

impl Error {
    /// All variants, for tests and documentation.
    pub const ALL: [Self; 47] = [
        Self::UnknownCommand,
        Self::BadFormat,
        Self::DeleteUsage,
        Self::LineTooLong,
        Self::BinaryProtocol,
        Self::Http,
        Self::BadDataChunk,
        Self::InvalidDelta,
        Self::NotNumber,
        Self::InvalidExptime,
        Self::DuplicateFlag,
        Self::InvalidFlag,
        Self::InvalidOrDuplicateFlag,
        Self::BadToken,
        Self::InvalidInitial,
        Self::InvalidMetaDelta,
        Self::OpaqueTooLong,
        Self::ModeLength,
        Self::StoreMode,
        Self::ArithMode,
        Self::KeyEncoding,
        Self::DetailUsage,
        Self::CachedumpUsage,
        Self::IllegalClass,
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
        Self::Protected,
        Self::AuthFormat,
        Self::AuthTermination,
        Self::AuthFailure,
        Self::NoPermission,
        Self::TooManyWatchers,
        Self::TooLarge,
        Self::OutOfMemory,
        Self::TooManyLarge,
        Self::TooManyConnections,
        Self::TooManyOps,
        Self::TooManyOpsOfUser,
    ];

    /// Returns the line that the client receives, including its end.
    pub const fn wire(self) -> &'static [u8] {
        match self {
            Self::UnknownCommand => b"ERROR\r\n",
            Self::TooManyOps => b"SERVER_ERROR too many operations a second for this namespace, try again later\r\n",
            Self::TooManyOpsOfUser => {
                b"SERVER_ERROR too many requests a second for this user (rule ops=), try again later\r\n"
            }
            Self::BadFormat => b"CLIENT_ERROR bad command line format\r\n",
            Self::DeleteUsage => b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Self::BinaryProtocol => b"CLIENT_ERROR the binary protocol is not spoken here\r\n",
            Self::Http => b"CLIENT_ERROR this port does not serve HTTP\r\n",
            Self::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Self::InvalidDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::NotNumber => b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n",
            Self::InvalidExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::InvalidOrDuplicateFlag => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::InvalidInitial => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::InvalidMetaDelta => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::OpaqueTooLong => b"CLIENT_ERROR opaque token too long\r\n",
            Self::ModeLength => b"CLIENT_ERROR incorrect length for M token\r\n",
            Self::StoreMode => b"CLIENT_ERROR invalid mode for ms M token\r\n",
            Self::ArithMode => b"CLIENT_ERROR invalid mode for ma M token\r\n",
            Self::KeyEncoding => b"CLIENT_ERROR error decoding key\r\n",
            Self::DetailUsage => b"CLIENT_ERROR usage: stats detail on|off|dump\r\n",
            Self::CachedumpUsage => b"CLIENT_ERROR bad command line\r\n",
            Self::IllegalClass => b"CLIENT_ERROR Illegal slab id\r\n",
            Self::ShutdownMode => b"CLIENT_ERROR invalid shutdown mode\r\n",
            Self::ShutdownDisabled => b"ERROR: shutdown not enabled\r\n",
            Self::BadClass => b"BADCLASS invalid class id\r\n",
            Self::NoSlabs => b"CLIENT_ERROR the store has no slab classes and no LRU to adjust\r\n",
            Self::WatchUnavailable => {
                b"CLIENT_ERROR only fetchers, mutations, evictions, deletions and connevents can be watched\r\n"
            }
            Self::FlushDisabled => b"CLIENT_ERROR flush_all not allowed\r\n",
            Self::CachedumpDisabled => b"CLIENT_ERROR stats cachedump not allowed\r\n",
            Self::MetadumpDisabled => b"ERROR metadump not allowed\r\n",
            Self::MgdumpDisabled => b"ERROR mgdump not allowed\r\n",
            Self::WatchDisabled => b"CLIENT_ERROR watch commands not allowed\r\n",
            Self::NoPermission => b"CLIENT_ERROR no permission\r\n",
            Self::Unauthenticated => b"CLIENT_ERROR unauthenticated\r\n",
            Self::Protected => {
                b"CLIENT_ERROR unauthenticated: clients on other hosts must log in (listen.unprotected)\r\n"
            }
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
    fn each_error_is_a_distinct_line_with_known_prefix() {
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
