//! Events of a file, and elements of a value.

use std::fmt;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// A string: one [`Element::Text`].
    String,
    /// A list: [`Element::Member`] in the list's order.
    List,
    /// A set: [`Element::Member`].
    Set,
    /// A sorted set: [`Element::Scored`].
    SortedSet,
    /// A hash: [`Element::Field`].
    Hash,
    /// A stream: [`Element::Entry`], each with its [`Element::Field`]s; then [`Element::Totals`]; then each
    /// [`Element::Group`] with [`Element::Pending`], [`Element::Consumer`] with [`Element::Owned`], and
    /// [`Element::Unowned`]; then the producers.
    Stream,
    /// A value of a module: one [`Element::Module`], because only the module understands the rest.
    Module,
}

impl ValueType {
    /// Returns the name, as in `TYPE`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
            Self::Module => "module",
        }
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A fact about the server that wrote the file, such as `redis-ver`.
    Aux {
        /// The fact's name.
        name: &'a [u8],
        /// The fact's value.
        value: &'a [u8],
    },
    /// The code of a function library.
    Function(&'a [u8]),
    /// Data of a module outside keys, which was skipped.
    ModuleAux(ModuleType),
    /// The number of keys of a database.
    Sizes {
        /// The number of the database.
        db: u32,
        /// Keys.
        keys: u64,
        /// Keys that expire.
        expiring: u64,
    },
    /// The number of keys of a cluster slot.
    Slot {
        /// The number of the slot.
        slot: u64,
        /// Keys.
        keys: u64,
        /// Keys that expire.
        expiring: u64,
    },
    /// The begin of a key. Its elements follow, then [`Event::KeyEnd`].
    Key(Key<'a>),
    /// An element of the current key.
    Element(Element<'a>),
    /// The end of the current key.
    KeyEnd,
}

/// A key without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The number of the database.
    pub db: u32,
    /// The key.
    pub name: &'a [u8],
    /// The type of the value.
    pub value_type: ValueType,
    /// Time at which the key expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// Time since the last access, in seconds, if the server evicts by it.
    pub idle_s: Option<u64>,
    /// Counter of accesses (logarithmic), if the server evicts by it.
    pub frequency: Option<u8>,
}

/// An element of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'a> {
    /// The bytes of a string.
    Text(&'a [u8]),
    /// A member of a list or a set.
    Member(&'a [u8]),
    /// A member of a sorted set.
    Scored {
        /// The member.
        member: &'a [u8],
        /// The score.
        score: f64,
    },
    /// A field of a hash, or of the current entry of a stream.
    Field {
        /// The field's name.
        name: &'a [u8],
        /// The field's value.
        value: &'a [u8],
        /// Time at which the field expires, in milliseconds since 1970.
        expire_at_ms: Option<u64>,
    },
    /// The begin of an entry of a stream.
    Entry(StreamId),
    /// Facts about the whole stream.
    Totals(StreamTotals),
    /// The begin of a consumer group.
    Group {
        /// The group's name.
        name: &'a [u8],
        /// The id of the last delivered entry.
        last_id: StreamId,
        /// The number of entries that the group has read, if known.
        entries_read: Option<u64>,
    },
    /// An entry that was delivered to a consumer of the group and not acknowledged.
    Pending {
        /// The entry.
        id: StreamId,
        /// Time of the last delivery, in milliseconds since 1970.
        delivered_at_ms: u64,
        /// The number of deliveries.
        deliveries: u64,
    },
    /// The begin of a consumer of the current group.
    Consumer {
        /// The consumer's name.
        name: &'a [u8],
        /// Time of the last request, in milliseconds since 1970.
        seen_at_ms: u64,
        /// Time of the last delivery or claim, in milliseconds since 1970, if known.
        active_at_ms: Option<u64>,
    },
    /// A pending entry of the current group that was delivered to the current consumer.
    Owned(StreamId),
    /// A pending entry of the current group that its consumer has rejected (`XNACK` of Redis 8.8).
    Unowned(StreamId),
    /// A producer whose entries are stored at most once (`XADD IDMP` of Redis 8.6).
    Producer(&'a [u8]),
    /// An entry of the current producer.
    Produced {
        /// The id that the producer gave the entry.
        name: &'a [u8],
        /// The id of the entry.
        id: StreamId,
    },
    /// The type of a module's value, which was skipped.
    Module(ModuleType),
}

/// The id of an entry of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Milliseconds since 1970, usually.
    pub ms: u64,
    /// The sequence number within the millisecond.
    pub seq: u64,
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Facts about a whole stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// The number of entries.
    pub length: u64,
    /// The id of the last entry that was ever added.
    pub last_id: StreamId,
    /// The id of the first entry, if the file has it.
    pub first_id: Option<StreamId>,
    /// The highest id of a deleted entry; 0-0 if unknown.
    pub max_deleted_id: StreamId,
    /// The number of entries ever added.
    pub entries_added: u64,
}

/// The type of a module's data: nine characters and a version, in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleType(pub u64);

impl fmt::Display for ModuleType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let letter = |at: u32| char::from(LETTERS[(self.0 >> (58 - 6 * at) & 63) as usize]);
        (0..9).try_for_each(|at| write!(f, "{}", letter(at)))
    }
}
