//! The requests of clients, as plain values that borrow from the receive buffer.

use super::error::Error;
use super::key::{Keys, MetaKey};
use super::meta::Meta;

/// The maximum length of a value that a command line can announce, in bytes. A longer value cannot be discarded in
/// reasonable time, so it ends the connection. The store has its own, smaller limit.
pub const VALUE_BYTES_MAX: u32 = i32::MAX as u32 - 2;

/// The result of parsing the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'b> {
    /// The command line is not complete yet.
    Incomplete,
    /// A request. The value of a storage command follows after `consumed`.
    Request {
        /// The parsed request.
        request: Request<'b>,
        /// The length of the command line, in bytes, including its end.
        consumed: usize,
    },
    /// A line that is not a valid request. The connection continues.
    Bad {
        /// The error to send to the client.
        error: Error,
        /// The length of the command line, in bytes, including its end.
        consumed: usize,
        /// The number of bytes after the line that belong to the request (a value and its `\r\n`) and must be
        /// discarded.
        swallow: u64,
        /// True if the client requested no reply: do not send the error.
        quiet: bool,
    },
    /// The rest of the stream cannot be parsed: send the error to the client and close the connection.
    Fatal(Error),
}

/// The value after a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'b> {
    /// The value or its `\r\n` is not complete yet.
    Incomplete,
    /// The value. With its `\r\n`, it takes 2 bytes more than its length.
    Value(&'b [u8]),
    /// No `\r\n` follows the value. The caller must discard `len` + 2 bytes.
    BadTerminator,
}

/// One parsed request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Request<'b> {
    /// `get`, `gets`, `gat`, `gats`.
    Get(Get<'b>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`: a value follows.
    Store(Store<'b>),
    /// `delete`.
    Delete {
        /// The key.
        key: &'b [u8],
        /// True if the client wants no reply.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arith(Arith<'b>),
    /// `touch`.
    Touch {
        /// The key.
        key: &'b [u8],
        /// Expiry time in the protocol's seconds: 0 means never, negative is in the past, above 30 days is absolute.
        exptime: i64,
        /// True if the client wants no reply.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// The delay, in the protocol's seconds as for `exptime`; 0 or less means now.
        delay: i64,
        /// True if the client wants no reply.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// True if the client wants no reply.
        noreply: bool,
    },
    /// `quit`.
    Quit,
    /// `shutdown`.
    Shutdown {
        /// False if the command has an unknown mode.
        is_valid: bool,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The requested limit, in MiB.
        mib: u32,
        /// True if the client wants no reply.
        noreply: bool,
    },
    /// `refresh_certs`.
    RefreshCerts,
    /// `stats`.
    Stats(Stats),
    /// `watch`.
    Watch(Watch),
    /// `lru_crawler metadump` and `mgdump`.
    Dump(Dump),
    /// An `lru_crawler` command without any effect on this server, which replies `OK`.
    CrawlerSetting,
    /// `mg`.
    MetaGet(Meta<'b>),
    /// `ms`: a value of this length in bytes follows.
    MetaStore(Meta<'b>, u32),
    /// `md`.
    MetaDelete(Meta<'b>),
    /// `ma`.
    MetaArith(Meta<'b>),
    /// `mn`.
    MetaNoop,
    /// `me`.
    MetaDebug(MetaKey<'b>),
}

/// `get`, `gets`, `gat` and `gats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'b> {
    /// The keys to look up, in order.
    pub keys: Keys<'b>,
    /// True if the reply must include CAS tokens.
    pub with_cas: bool,
    /// The new expiry time of every item found, as for `exptime`.
    pub touch: Option<i64>,
}

/// The condition and effect of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Stores the value in any case.
    Set,
    /// Stores the value only if no item exists.
    Add,
    /// Stores the value only if an item exists.
    Replace,
    /// Appends to the existing value.
    Append,
    /// Prepends to the existing value.
    Prepend,
}

/// The header of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'b> {
    /// The effect on an existing item. `cas` is `Set` with `compare`.
    pub mode: StoreMode,
    /// The key.
    pub key: &'b [u8],
    /// Flags that are opaque to the server.
    pub client_flags: u32,
    /// Expiry time in the protocol's seconds: 0 means never, negative is in the past, above 30 days is absolute.
    pub exptime: i64,
    /// The length of the value that follows, in bytes, without its `\r\n`.
    pub value_len: u32,
    /// The CAS token that the existing item must have; `None` for commands other than `cas`.
    pub compare: Option<u64>,
    /// True if the client wants no reply.
    pub noreply: bool,
}

/// `incr` and `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arith<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The number to add or to subtract.
    pub delta: u64,
    /// True to subtract instead of adding.
    pub decrement: bool,
    /// True if the client wants no reply.
    pub noreply: bool,
}

/// The topic of a `stats` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// General statistics.
    General,
    /// Figures of the items, by slab class. The server reports all items in one class.
    Items,
    /// The memory of items, by slab class. The server reports all memory in one class.
    Slabs,
    /// The server's settings.
    Settings,
    /// A histogram of item sizes. The server reports that it is disabled.
    Sizes,
    /// The list of connections.
    Conns,
    /// Figures of external storage.
    Extstore,
    /// Resets the counters to 0.
    Reset,
    /// Starts or stops collecting statistics by key prefix.
    Detail(bool),
    /// Statistics by key prefix.
    DetailDump,
    /// Contents and activity of namespaces.
    Namespaces,
    /// Keys of one slab class.
    Cachedump {
        /// The class.
        class: u32,
        /// The maximum number of keys; 0 means no limit.
        limit: u32,
    },
}

/// The events that a watcher receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Every lookup of a key.
    pub fetchers: bool,
    /// Every store.
    pub mutations: bool,
    /// Every eviction.
    pub evictions: bool,
    /// Every deletion of an item by a client.
    pub deletions: bool,
    /// Every connection that opens or closes.
    pub connections: bool,
}

/// The form in which a dump writes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// `key=... exp=...` lines.
    Metadump,
    /// `mg KEY` lines.
    Mgdump,
}
