//! The fields of a workload, as plain data.

use std::path::PathBuf;

use base::units::TimeSpan;

use super::graph::GraphLoad;
use super::units::Share;
use link::tls;

/// Highest number of connections of one run.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Highest number of threads.
pub const THREADS_MAX: u32 = 1024;
/// Highest number of requests in flight on one connection, and of requests sent together.
pub const DEPTH_MAX: u32 = 65_536;
/// Time limit for a reply, if the workload has none.
pub const TIMEOUT_DEFAULT: TimeSpan = TimeSpan::secs(10);
/// Highest number of key spaces.
pub const KEY_SPACES_MAX: usize = 64;
/// Highest number of commands in all key spaces together.
pub const COMMANDS_MAX: usize = 48;
/// Highest number of keys in one key space.
pub const KEYS_MAX: u64 = 1 << 40;
/// Highest number of keys in one multi-get.
pub const MULTI_KEYS_MAX: u32 = 4096;
/// Highest number of fields of a hash.
pub const FIELDS_MAX: u32 = 1024;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Highest number of weights in one distribution.
pub const STEPS_MAX: usize = 1 << 20;

/// A workload: requests to servers, the connections that send them, and their times.
///
/// [`Workload::default`] is complete: uniform reads of a million keys of 16 bytes over memcached's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name of the workload in results.
    pub name: String,
    /// A sentence that describes the workload.
    pub about: String,
    /// Protocol of the server.
    pub protocol: Protocol,
    /// The servers; empty if they are given elsewhere.
    pub targets: Vec<Target>,
    /// TLS settings for targets that are reached by TCP; `None` disables TLS.
    pub tls: Option<tls::TlsSettings>,
    /// The rule that assigns keys to targets.
    pub placement: Placement,
    /// User and password that a new connection sends.
    pub auth: Option<Auth>,
    /// The database that a RESP connection selects; 0 needs no selection.
    pub database: u32,
    /// The cache of gRPC calls: a namespace of the server; empty for that of the listener.
    pub cache: String,
    /// Time limit for a reply. A gRPC call has it as its deadline.
    pub timeout: TimeSpan,
    /// Name of a RESP connection in `CLIENT LIST`; empty for none.
    pub client_name: String,
    /// Number of connections over all threads and targets.
    pub connections: u32,
    /// Number of threads that share the connections.
    pub threads: u32,
    /// The CPU of each thread. If empty, the kernel places the threads.
    pub pin: Vec<usize>,
    /// Highest number of requests in flight on one connection.
    pub depth: u32,
    /// Number of requests that are due at the same instant and sent together.
    pub batch: u32,
    /// Number of connections that are closed and reopened per second.
    pub reconnect_per_s: f64,
    /// Time between two storms, in which all connections are closed and reopened at once.
    pub storm_every: Option<TimeSpan>,
    /// True if replies are discarded without parsing: nothing is timed or checked.
    pub blind: bool,
    /// Times at which requests are due.
    pub pace: Pace,
    /// Key spaces of the requests; each request draws one of them by weight.
    pub keys: Vec<KeySpace>,
    /// A graph, whose requests replace those of the key spaces.
    pub graph: Option<GraphLoad>,
    /// True if every key is stored once before the run, or every edge of the graph.
    pub prefill: bool,
    /// True if a read that misses is followed by a store of its key (look-aside).
    pub fill_on_miss: bool,
    /// True if every value that is read is checked byte by byte.
    pub verify: bool,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            name: "reads".into(),
            about: String::new(),
            protocol: Protocol::Memcache,
            targets: Vec::new(),
            tls: None,
            placement: Placement::Any,
            auth: None,
            database: 0,
            cache: String::new(),
            timeout: TIMEOUT_DEFAULT,
            client_name: String::new(),
            connections: 1,
            threads: 1,
            pin: Vec::new(),
            depth: 1,
            batch: 1,
            reconnect_per_s: 0.0,
            storm_every: None,
            blind: false,
            pace: Pace::Closed,
            keys: vec![KeySpace::default()],
            graph: None,
            prefill: false,
            fill_on_miss: false,
            verify: false,
            seed: 1,
        }
    }
}

/// A wire protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// memcached's text protocol.
    #[default]
    Memcache,
    /// memcached's meta commands: `get` is sent as `mg`, `set` as `ms`, and so on.
    Meta,
    /// RESP2, which every Redis and Valkey server speaks.
    Resp,
    /// RESP3: a connection begins with `HELLO 3`.
    Resp3,
    /// `PING` lines with `PONG` as reply, as echo servers use.
    Ping,
    /// gRPC over HTTP/2: the service `gannet.v1.Cache`.
    Grpc,
}

impl Protocol {
    /// All protocols with their names.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("memcache", Self::Memcache),
        ("meta", Self::Meta),
        ("resp", Self::Resp),
        ("resp3", Self::Resp3),
        ("ping", Self::Ping),
        ("grpc", Self::Grpc),
    ];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }

    /// Returns whether requests are lines of memcached's protocols: text or meta.
    pub fn is_memcached(self) -> bool {
        matches!(self, Self::Memcache | Self::Meta)
    }

    /// Returns whether requests are RESP arrays: RESP2 or RESP3.
    pub const fn is_resp(self) -> bool {
        matches!(self, Self::Resp | Self::Resp3)
    }
}

fn named<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `HOST:PORT` or `unix:PATH`.
    pub address: String,
    /// Relative share of the keys with [`Placement::Ketama`].
    pub weight: u32,
}

/// The rule that assigns a key to one of several targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Every target gets requests for every key, in rotation.
    #[default]
    Any,
    /// Consistent hashing on a ring with 160 points per target (ketama with weights, as in libmemcached).
    Ketama,
    /// Redis Cluster's 16384 slots by CRC-16 of the key. Initially each target has an equal range of slots, in the
    /// order of the targets; redirects of the servers change that.
    Slots,
}

impl Placement {
    /// All placements with their names.
    pub const NAMES: [(&'static str, Self); 3] = [("any", Self::Any), ("ketama", Self::Ketama), ("slots", Self::Slots)];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }
}

/// User and password of a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// The user; empty if RESP uses only a password.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Auth {
    /// Omits the password, because results and logs contain workloads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Times at which requests are due.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pace {
    /// Closed loop: a reply triggers the next request, with [`Workload::depth`] in flight on every connection.
    #[default]
    Closed,
    /// Open loop: at instants that do not depend on replies.
    Open {
        /// Requests per second over all threads; with [`Arrivals::Ramp`] at its beginning.
        rate_per_s: f64,
        /// Distribution of the instants.
        arrivals: Arrivals,
    },
}

/// Distribution of the instants of an open loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// Evenly spaced.
    Constant,
    /// With exponentially distributed gaps, as from many independent users.
    #[default]
    Poisson,
    /// Poisson arrivals for a period, then a pause. The rate is the mean over both.
    OnOff {
        /// Length of the period with requests.
        on: TimeSpan,
        /// Length of the pause.
        off: TimeSpan,
    },
    /// Poisson arrivals at a rate that changes linearly to another rate.
    Ramp {
        /// Requests per second at the end of the ramp.
        to_per_s: f64,
        /// Duration of the ramp; the rate stays at `to_per_s` afterwards.
        over: TimeSpan,
    },
    /// Poisson arrivals at a rate that follows a sine wave around the mean.
    Sine {
        /// Amplitude, as a share of the mean.
        swing: Share,
        /// Period of the wave.
        period: TimeSpan,
    },
    /// The instants of a trace file.
    Trace {
        /// The trace file.
        path: PathBuf,
        /// Factor by which the replay is faster than the recording.
        speed: f64,
    },
}

/// A key space: keys with common properties, the commands on them, and their values.
///
/// All properties of a key follow from its number: its text, the length of its value, its time to live. So every run,
/// thread and server uses the same.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySpace {
    /// Relative frequency of requests for this space.
    pub weight: f64,
    /// Number of keys.
    pub count: u64,
    /// Text with which every key begins.
    pub prefix: String,
    /// Length of a whole key in bytes, prefix included.
    pub key_bytes: Sizes,
    /// The order in which keys are requested.
    pub order: Order,
    /// Share of the requests for keys that are requested only once.
    pub once: Share,
    /// Commands on the keys, with weights.
    pub verbs: Vec<KeyCommand>,
    /// Length of a value in bytes; for hashes, of each field.
    pub value_bytes: Sizes,
    /// Share of a value that a compressor can remove.
    pub compressible: Share,
    /// Times to live with their weights; empty or 0 for no expiry.
    pub ttl: Vec<(TimeSpan, f64)>,
    /// Number of fields of a hash.
    pub fields: u32,
}

impl Default for KeySpace {
    fn default() -> Self {
        Self {
            weight: 1.0,
            count: 1_000_000,
            prefix: String::new(),
            key_bytes: Sizes::Fixed(16),
            order: Order::Uniform,
            once: Share(0.0),
            verbs: vec![KeyCommand::new(Verb::Get)],
            value_bytes: Sizes::Fixed(256),
            compressible: Share(0.0),
            ttl: Vec::new(),
            fields: 10,
        }
    }
}

impl KeySpace {
    /// Returns whether the values are hashes.
    pub fn is_hash(&self) -> bool {
        self.verbs.iter().any(|command| command.verb.is_hash())
    }

    /// Returns whether the values are numbers, because commands increment or decrement them.
    pub fn is_counter(&self) -> bool {
        self.verbs.iter().any(|command| matches!(command.verb, Verb::Incr | Verb::Decr | Verb::MetaArith))
    }
}

/// The order in which the keys of a space are requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// Any key, with equal frequency.
    #[default]
    Uniform,
    /// Zipf: the key of rank r (from 1) with a frequency proportional to r^-exponent. Ranks are scattered over the
    /// numbers.
    Zipf {
        /// The exponent, at least 0; 0 is uniform.
        exponent: f64,
    },
    /// Some keys get most of the requests; both groups are uniform.
    Hot {
        /// Share of the keys that is hot.
        keys: Share,
        /// Share of the requests for hot keys.
        requests: Share,
    },
    /// Writes use new keys, in a ring of the space's count. Reads are Zipf-distributed by age, the newest first.
    Latest {
        /// The exponent, as in [`Order::Zipf`].
        exponent: f64,
    },
    /// One key after the other, repeatedly; each thread has its own part.
    Sequential,
    /// Ranges of consecutive keys, each from a uniformly drawn start.
    Scan {
        /// Number of keys in a range.
        length: u64,
    },
    /// Groups of equally popular keys: the number of keys, and the weight of the whole group. Scaled to the space's
    /// count.
    Groups(Vec<(u64, f64)>),
}

/// A distribution of lengths in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// A fixed length.
    Fixed(u64),
    /// From the first to the second length, inclusive, uniformly.
    Range(u64, u64),
    /// Ranges with weights.
    Steps(Vec<LengthStep>),
}

/// Lengths from `from` to `to`, inclusive, with the weight of all of them together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthStep {
    /// The shortest length in bytes.
    pub from: u64,
    /// The longest length in bytes.
    pub to: u64,
    /// Relative frequency of the range.
    pub weight: f64,
}

impl Sizes {
    /// Returns the shortest and the longest length in bytes; (0, 0) if there is none.
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Fixed(bytes) => (*bytes, *bytes),
            Self::Range(from, to) => (*from, *to),
            Self::Steps(steps) => {
                let used = || steps.iter().filter(|step| step.weight > 0.0);
                let least = used().map(|step| step.from).min().unwrap_or(0);
                (least, used().map(|step| step.to).max().unwrap_or(0))
            }
        }
    }

    /// Returns the mean length in bytes; 0 if there is none.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes as f64,
            Self::Range(from, to) => (*from as f64 + *to as f64) / 2.0,
            Self::Steps(steps) => {
                let weight: f64 = steps.iter().map(|step| step.weight).sum();
                let bytes: f64 = steps.iter().map(|s| s.weight * (s.from as f64 + s.to as f64) / 2.0).sum();
                if weight > 0.0 { bytes / weight } else { 0.0 }
            }
        }
    }
}

/// A command on the keys of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCommand {
    /// Operation of the command.
    pub verb: Verb,
    /// Relative frequency among the space's commands.
    pub weight: f64,
    /// Number of keys in one request; more than 1 only with [`Verb::Get`] and [`Verb::Gets`].
    pub keys: u32,
    /// Amount by which [`Verb::Incr`], [`Verb::Decr`] and the hash counterparts change a number.
    pub delta: u64,
    /// Number of fields that a hash verb names; 0 for all fields of the space.
    pub fields: u32,
    /// The flags of a meta verb in wire form, or the text of [`Verb::Raw`].
    pub text: String,
}

impl KeyCommand {
    /// Creates a command for `verb` with its usual arguments and weight 1.
    pub fn new(verb: Verb) -> Self {
        let text = if verb == Verb::MetaGet { "v".into() } else { String::new() };
        Self { verb, weight: 1.0, keys: 1, delta: 1, fields: 0, text }
    }

    /// Creates a command for `verb` with its usual arguments.
    pub fn weighted(verb: Verb, weight: f64) -> Self {
        Self { weight, ..Self::new(verb) }
    }
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one or several keys.
    Get,
    /// Reads with CAS tokens.
    Gets,
    /// Stores.
    Set,
    /// Stores if the key does not exist.
    Add,
    /// Stores if the key exists.
    Replace,
    /// Appends to the value.
    Append,
    /// Prepends to the value.
    Prepend,
    /// Reads with the token, then stores if no other client stored in between: two requests.
    Cas,
    /// Increments a number.
    Incr,
    /// Decrements a number.
    Decr,
    /// Deletes a key.
    Delete,
    /// Sets a new time to live.
    Touch,
    /// `mg` with flags.
    MetaGet,
    /// `ms` with flags.
    MetaSet,
    /// `md` with flags.
    MetaDelete,
    /// `ma` with flags.
    MetaArith,
    /// Stores fields of a hash.
    HashSet,
    /// Reads one field.
    HashGet,
    /// Reads several fields.
    HashMultiGet,
    /// Reads all fields.
    HashGetAll,
    /// Removes fields.
    HashDelete,
    /// Reads all fields, then stores them: two requests.
    HashUpdate,
    /// Reads all fields, then increments a separate field that stores never write: two requests.
    HashIncr,
    /// As [`Verb::HashIncr`], with a decrement.
    HashDecr,
    /// Sends a `PING`.
    Ping,
    /// Sends a text in which `__key__`, `__length__` and `__data__` are replaced.
    Raw,
}

impl Verb {
    /// All verbs with their names.
    pub const NAMES: [(&'static str, Self); 26] = [
        ("get", Self::Get),
        ("gets", Self::Gets),
        ("set", Self::Set),
        ("add", Self::Add),
        ("replace", Self::Replace),
        ("append", Self::Append),
        ("prepend", Self::Prepend),
        ("cas", Self::Cas),
        ("incr", Self::Incr),
        ("decr", Self::Decr),
        ("delete", Self::Delete),
        ("touch", Self::Touch),
        ("mg", Self::MetaGet),
        ("ms", Self::MetaSet),
        ("md", Self::MetaDelete),
        ("ma", Self::MetaArith),
        ("hset", Self::HashSet),
        ("hget", Self::HashGet),
        ("hmget", Self::HashMultiGet),
        ("hgetall", Self::HashGetAll),
        ("hdel", Self::HashDelete),
        ("hupdate", Self::HashUpdate),
        ("hincr", Self::HashIncr),
        ("hdecr", Self::HashDecr),
        ("ping", Self::Ping),
        ("raw", Self::Raw),
    ];

    /// Returns the name in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }

    /// Returns whether servers that speak `protocol` support the verb.
    pub fn is_in(self, protocol: Protocol) -> bool {
        use Verb::{Add, Append, Decr, Delete, Get, Incr, Raw, Replace, Set, Touch};
        match (protocol, self) {
            (Protocol::Ping, verb) => verb == Self::Ping,
            (Protocol::Grpc, Append | Raw) => false,
            (Protocol::Grpc, Get | Set | Add | Replace | Incr | Decr | Delete | Touch) => true,
            (Protocol::Grpc, verb) => verb == Self::Ping || verb.is_hash(),
            (_, Get | Set | Add | Replace | Append | Incr | Decr | Delete | Touch | Raw) => true,
            (Protocol::Resp | Protocol::Resp3, Self::Ping) => true,
            (Protocol::Resp | Protocol::Resp3, verb) => verb.is_hash(),
            (Protocol::Memcache | Protocol::Meta, verb) => !verb.is_hash() && verb != Self::Ping,
        }
    }

    /// Returns whether the verb operates on a hash.
    pub const fn is_hash(self) -> bool {
        matches!(self, Self::HashSet | Self::HashGet | Self::HashMultiGet | Self::HashGetAll | Self::HashDelete)
            || self.modifies_hash()
    }

    /// Returns whether the verb reads a hash and then changes it.
    pub const fn modifies_hash(self) -> bool {
        matches!(self, Self::HashUpdate | Self::HashIncr | Self::HashDecr)
    }

    /// Returns whether the verb sends two requests, the second after the first one's reply.
    pub const fn is_two(self) -> bool {
        matches!(self, Self::Cas) || self.modifies_hash()
    }

    /// Returns whether the verb leaves a value in the store that differs from the key's generated value: a longer one,
    /// or a number.
    pub const fn alters(self) -> bool {
        matches!(self, Self::Append | Self::Prepend | Self::Incr | Self::Decr | Self::MetaArith | Self::Raw)
            || matches!(self, Self::HashIncr | Self::HashDecr)
    }

    /// Returns whether the verb reads a value that can be filled in after a miss.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::MetaGet | Self::HashGet | Self::HashMultiGet | Self::HashGetAll)
            || self.modifies_hash()
    }

    /// Returns whether the verb stores the key's whole value.
    pub const fn stores(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas | Self::MetaSet | Self::HashSet)
    }
}
