//! What a client can ask for, as plain values that borrow from the receive buffer.

use super::error::Error;
use super::key::{Keys, MetaKey};
use super::meta::Meta;

/// The longest value that a command line can announce, in bytes. A longer one cannot be swallowed in reasonable time,
/// so it ends the connection. What the store takes is its own, smaller, limit.
pub const VALUE_BYTES_MAX: u32 = i32::MAX as u32 - 2;

/// The beginning of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'b> {
    /// Not a whole command line yet.
    Incomplete,
    /// A request; a storage command's value follows behind `consumed`.
    Request {
        /// The request in the line.
        request: Request<'b>,
        /// Bytes of the command line, its end included.
        consumed: usize,
    },
    /// A line that is no request. The connection goes on.
    Bad {
        /// The error to send to the client.
        error: Error,
        /// Bytes of the command line, its end included.
        consumed: usize,
        /// Bytes behind the line that belong to it (a value and its `\r\n`) and are to be discarded.
        swallow: u64,
        /// The client asked for no reply: do not send the error.
        quiet: bool,
    },
    /// The stream cannot be followed any more: send the error to the client and close.
    Fatal(Error),
}

/// A value behind a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'b> {
    /// Not all of it and its `\r\n` is there.
    Incomplete,
    /// The value. It and its `\r\n` take its length plus 2 bytes.
    Value(&'b [u8]),
    /// No `\r\n` behind the value. The length plus 2 bytes are to be dropped.
    BadTerminator,
}

/// One request.
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
        /// No reply is wanted.
        noreply: bool,
    },
    /// `incr`, `decr`.
    Arith(Arith<'b>),
    /// `touch`.
    Touch {
        /// The key.
        key: &'b [u8],
        /// Seconds as the protocol counts them: 0 never, negative past, above 30 days absolute.
        exptime: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `flush_all`.
    FlushAll {
        /// Seconds as for `exptime`; 0 or less: now.
        delay: i64,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `version`.
    Version,
    /// `verbosity`.
    Verbosity {
        /// No reply is wanted.
        noreply: bool,
    },
    /// `quit`.
    Quit,
    /// `shutdown`.
    Shutdown {
        /// Finish what is in flight first.
        graceful: bool,
    },
    /// `cache_memlimit`.
    CacheMemlimit {
        /// The limit asked for, in MiB.
        mib: u32,
        /// No reply is wanted.
        noreply: bool,
    },
    /// `stats`.
    Stats(Stats),
    /// `watch`.
    Watch(Watch),
    /// `lru_crawler metadump` and `mgdump`.
    Dump(Dump),
    /// An `lru_crawler` command that has nothing to change here and is answered `OK`.
    CrawlerSetting,
    /// `mg`.
    MetaGet(Meta<'b>),
    /// `ms`: a value of this many bytes follows.
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

/// `get` and its kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'b> {
    /// The keys to look up, in order.
    pub keys: Keys<'b>,
    /// Report CAS tokens.
    pub with_cas: bool,
    /// The new expiry of every item found, as for `exptime`.
    pub touch: Option<i64>,
}

/// The effect of a storage command on the item that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Store whatever is there.
    Set,
    /// Store only if nothing is there.
    Add,
    /// Store only if something is there.
    Replace,
    /// Behind the value that is there.
    Append,
    /// Before the value that is there.
    Prepend,
}

/// The header of a storage command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'b> {
    /// The effect on the item that is there. `cas` is `Set` with `compare`.
    pub mode: StoreMode,
    /// The key.
    pub key: &'b [u8],
    /// Opaque to the server.
    pub client_flags: u32,
    /// Seconds as the protocol counts them: 0 never, negative past, above 30 days absolute.
    pub exptime: i64,
    /// Bytes of the value that follows, without its `\r\n`.
    pub value_len: u32,
    /// Store only if the item has this CAS token.
    pub compare: Option<u64>,
    /// No reply is wanted.
    pub noreply: bool,
}

/// `incr` and `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arith<'b> {
    /// The key.
    pub key: &'b [u8],
    /// The number to add or to subtract.
    pub delta: u64,
    /// Take away instead of adding.
    pub decrement: bool,
    /// No reply is wanted.
    pub noreply: bool,
}

/// The subject of a `stats` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// Everything general.
    General,
    /// Items by TTL class.
    Items,
    /// Memory by TTL class.
    Slabs,
    /// The server's settings.
    Settings,
    /// A histogram of item sizes.
    Sizes,
    /// Connections.
    Conns,
    /// Set the counters to 0.
    Reset,
    /// Collect statistics by key prefix, or stop.
    Detail(bool),
    /// Statistics by key prefix.
    DetailDump,
    /// Contents and activity of namespaces.
    Namespaces,
    /// Keys of one class.
    Cachedump {
        /// The class.
        class: u32,
        /// At most so many keys; 0: as many as one answer holds.
        limit: u32,
    },
}

/// The events that are reported to a watcher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Every lookup of a key.
    pub fetchers: bool,
    /// Every store.
    pub mutations: bool,
    /// Every eviction.
    pub evictions: bool,
    /// Every item that a client removes.
    pub deletions: bool,
}

/// The form in which a dump writes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    /// `key=... exp=...` lines.
    Metadump,
    /// `mg KEY` lines.
    Mgdump,
}
