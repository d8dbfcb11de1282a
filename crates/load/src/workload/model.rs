//! The fields of a workload: plain data that a file, a preset or a program fills in.

use std::path::PathBuf;

use base::units::TimeSpan;

use super::units::Share;
use link::tls;

/// Connections of one run at most.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Threads at most.
pub const THREADS_MAX: u32 = 1024;
/// Requests in flight on one connection, and requests that are sent together, at most.
pub const DEPTH_MAX: u32 = 65_536;
/// Key spaces at most.
pub const KEY_SPACES_MAX: usize = 64;
/// Commands of all key spaces together at most.
pub const COMMANDS_MAX: usize = 48;
/// Keys of one key space at most.
pub const KEYS_MAX: u64 = 1 << 40;
/// Keys of one multi-get at most.
pub const MULTI_KEYS_MAX: u32 = 4096;
/// Fields of a hash at most.
pub const FIELDS_MAX: u32 = 1024;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: u64 = 1 << 30;
/// Weights of one distribution at most.
pub const STEPS_MAX: usize = 1 << 20;

/// Requests to a server, the connections that send them, and their times.
///
/// [`Workload::default`] is a whole workload: uniform reads of a million keys of 16 bytes over memcached's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name under which results are filed.
    pub name: String,
    /// A sentence on what it stands for.
    pub about: String,
    /// Protocol of the server.
    pub protocol: Protocol,
    /// The servers; empty if they are named elsewhere.
    pub targets: Vec<Target>,
    /// Security of connections to targets that are reached by TCP; `None`: they are not secured.
    pub tls: Option<tls::TlsSettings>,
    /// Which target a key belongs to.
    pub placement: Placement,
    /// User and password that a new connection sends.
    pub auth: Option<Auth>,
    /// The database that a RESP connection selects; 0 needs no selection.
    pub database: u32,
    /// Name that a RESP connection gives itself, as `CLIENT LIST` shows it; empty: none.
    pub client_name: String,
    /// Connections in all, over all threads and targets.
    pub connections: u32,
    /// Threads that they are spread over.
    pub threads: u32,
    /// The CPU of each thread; empty: the kernel places them.
    pub pin: Vec<usize>,
    /// Requests in flight on one connection at most.
    pub depth: u32,
    /// Requests that are due at the same instant and sent together.
    pub batch: u32,
    /// Connections that are closed and reopened, a second.
    pub reconnect_per_s: f64,
    /// Time from one storm, in which all connections are closed and reopened at once, to the next.
    pub storm_every: Option<TimeSpan>,
    /// Answers are thrown away unread, as long as they come: nothing is timed or checked.
    pub blind: bool,
    /// Times at which requests are due.
    pub pace: Pace,
    /// Key spaces of the requests; each request draws one of them by weight.
    pub keys: Vec<KeySpace>,
    /// Every key is stored once before the run.
    pub prefill: bool,
    /// A read that misses is followed by a store of its key (look-aside).
    pub fill_on_miss: bool,
    /// Every value that is read is checked byte by byte.
    pub verify: bool,
    /// Everything that is drawn follows from it.
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
    /// memcached's text commands.
    #[default]
    Memcache,
    /// memcached's meta commands: `get` is sent as `mg`, `set` as `ms` and so on.
    Meta,
    /// RESP2, which every Redis and Valkey speaks.
    Resp,
    /// RESP3: a connection begins with `HELLO 3`.
    Resp3,
    /// `PING` lines answered with `PONG`, as echo servers speak it.
    Ping,
}

impl Protocol {
    /// Each with its name.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("memcache", Self::Memcache),
        ("meta", Self::Meta),
        ("resp", Self::Resp),
        ("resp3", Self::Resp3),
        ("ping", Self::Ping),
    ];

    /// As in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }

    /// Sent as lines of memcached's: text or meta.
    pub fn is_memcached(self) -> bool {
        matches!(self, Self::Memcache | Self::Meta)
    }

    /// Sent as arrays of strings: RESP2 or RESP3.
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
    /// Its share of the keys with [`Placement::Ketama`], against the others'.
    pub weight: u32,
}

/// Which of several targets a key belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Every target is asked for every key, in turn.
    #[default]
    Any,
    /// Consistent hashing on a ring with 160 points a target (ketama with weights, as libmemcached does it).
    Ketama,
    /// 16384 slots by CRC-16 of the key (Redis Cluster's): at first in equal runs, in the order of the targets, then as
    /// the servers' redirects say.
    Slots,
}

impl Placement {
    /// Each with its name.
    pub const NAMES: [(&'static str, Self); 3] = [("any", Self::Any), ("ketama", Self::Ketama), ("slots", Self::Slots)];

    /// As in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }
}

/// User and password of a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Auth {
    /// The user; empty for RESP's password alone.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Auth {
    /// Without the password: results and logs show workloads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Times at which requests are due.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Pace {
    /// After an answer: closed loop, [`Workload::depth`] in flight on every connection.
    #[default]
    Closed,
    /// At instants that do not wait for answers: open loop.
    Open {
        /// Requests a second, over all threads; with [`Arrivals::Ramp`] at its beginning.
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
    /// With exponential gaps: what many independent users do.
    #[default]
    Poisson,
    /// Poisson for a while, then none for a while. The rate is the mean over both.
    OnOff {
        /// The time with requests.
        on: TimeSpan,
        /// The time without.
        off: TimeSpan,
    },
    /// Poisson at a rate that goes evenly to another.
    Ramp {
        /// Requests a second at the end.
        to_per_s: f64,
        /// Duration of the ramp; the rate stays at `to_per_s` afterwards.
        over: TimeSpan,
    },
    /// Poisson at a rate that swings around the mean.
    Sine {
        /// Amplitude to either side, as a part of the mean.
        swing: Share,
        /// The length of one wave.
        period: TimeSpan,
    },
    /// At the instants of a trace file.
    Trace {
        /// The file.
        path: PathBuf,
        /// Factor by which the replay is faster than the recording.
        speed: f64,
    },
}

/// Keys that belong together, what is done to them, and what their values are like.
///
/// Everything about a key follows from its number: its text, the length of its value, its time to live. So every run,
/// thread and server sees the same.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySpace {
    /// Relative frequency of requests for this space, against the others.
    pub weight: f64,
    /// Keys in it.
    pub count: u64,
    /// Text with which every key begins.
    pub prefix: String,
    /// Length of a whole key in bytes, prefix included.
    pub key_bytes: Sizes,
    /// Which key is next.
    pub order: Order,
    /// Part of the requests that are for a key which is not requested again.
    pub once: Share,
    /// Commands on the keys, by weight.
    pub verbs: Vec<KeyCommand>,
    /// Length of a value in bytes; with hashes, of each field's.
    pub value_bytes: Sizes,
    /// Part of a value that a compressor can take away.
    pub compressible: Share,
    /// Times to live with their weights; empty, or 0: for ever.
    pub ttl: Vec<(TimeSpan, f64)>,
    /// Fields of a hash.
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
    /// Its values are hashes.
    pub fn is_hash(&self) -> bool {
        self.verbs.iter().any(|command| command.verb.is_hash())
    }

    /// Its values are numbers, since they are counted up and down.
    pub fn is_counter(&self) -> bool {
        self.verbs.iter().any(|command| matches!(command.verb, Verb::Incr | Verb::Decr | Verb::MetaArith))
    }
}

/// Which key of a space is next.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// Any, equally often.
    #[default]
    Uniform,
    /// The key of rank r (from 1) as often as r^-exponent says. Ranks are scattered over the numbers.
    Zipf {
        /// 0 is uniform; any number that is not negative.
        exponent: f64,
    },
    /// Some keys get most of the requests, each part uniform in itself.
    Hot {
        /// The part of the keys that is hot.
        keys: Share,
        /// The part of the requests that is for them.
        requests: Share,
    },
    /// Writes go to ever new keys, in a ring of the space's count; reads are Zipf by age, the newest first.
    Latest {
        /// As in [`Order::Zipf`].
        exponent: f64,
    },
    /// One after the other, round and round; with several threads each takes its own part.
    Sequential,
    /// Runs of keys that follow one another, each from a key drawn uniformly.
    Scan {
        /// Keys in a run.
        length: u64,
    },
    /// Groups of equally popular keys: so many keys, with the weight of the whole group. Scaled to the space's count.
    Groups(Vec<(u64, f64)>),
}

/// Lengths in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(u64),
    /// From the first to the second, both included, equally often.
    Range(u64, u64),
    /// Ranges with weights.
    Steps(Vec<LengthStep>),
}

/// Lengths from `from` to `to`, both included, with the weight of all of them together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthStep {
    /// The shortest, in bytes.
    pub from: u64,
    /// The longest, in bytes.
    pub to: u64,
    /// Relative frequency, against the others.
    pub weight: f64,
}

impl Sizes {
    /// The shortest and the longest, in bytes. (0, 0) if there is none.
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

    /// The mean in bytes; 0 if there is none.
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

/// One thing that is done to the keys of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyCommand {
    /// Operation of the command.
    pub verb: Verb,
    /// Relative frequency, against the space's others.
    pub weight: f64,
    /// Keys in one request; more than 1 only with [`Verb::Get`] and [`Verb::Gets`].
    pub keys: u32,
    /// Amount that [`Verb::Incr`], [`Verb::Decr`] and their kin of hashes add and take away.
    pub delta: u64,
    /// Fields that a hash verb names; 0: all of the space's.
    pub fields: u32,
    /// The flags of a meta verb, as they are written; the text of [`Verb::Raw`].
    pub text: String,
}

impl KeyCommand {
    /// `verb` with its usual arguments and weight 1.
    pub fn new(verb: Verb) -> Self {
        let text = if verb == Verb::MetaGet { "v".into() } else { String::new() };
        Self { verb, weight: 1.0, keys: 1, delta: 1, fields: 0, text }
    }

    /// `verb` with its usual arguments.
    pub fn weighted(verb: Verb, weight: f64) -> Self {
        Self { weight, ..Self::new(verb) }
    }
}

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one key or several.
    Get,
    /// Reads with the CAS token.
    Gets,
    /// Stores.
    Set,
    /// Stores if nothing is there.
    Add,
    /// Stores if something is there.
    Replace,
    /// Appends to the value.
    Append,
    /// Prepends to the value.
    Prepend,
    /// Reads with the token, then stores if no other client stored meanwhile: two requests.
    Cas,
    /// Counts up.
    Incr,
    /// Counts down.
    Decr,
    /// Removes.
    Delete,
    /// Gives a new time to live.
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
    /// Reads all fields, then counts up a field of its own, which no store names: two requests.
    HashIncr,
    /// As [`Verb::HashIncr`], down.
    HashDecr,
    /// Asks whether the server is there.
    Ping,
    /// Sends a text in which `__key__`, `__length__` and `__data__` are replaced.
    Raw,
}

impl Verb {
    /// Each with its name.
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

    /// As in files.
    pub fn name(self) -> &'static str {
        named(&Self::NAMES, self)
    }

    /// Returns whether servers that speak `protocol` have it.
    pub fn is_in(self, protocol: Protocol) -> bool {
        use Verb::{Add, Append, Decr, Delete, Get, Incr, Raw, Replace, Set, Touch};
        match (protocol, self) {
            (Protocol::Ping, verb) => verb == Self::Ping,
            (_, Get | Set | Add | Replace | Append | Incr | Decr | Delete | Touch | Raw) => true,
            (Protocol::Resp | Protocol::Resp3, Self::Ping) => true,
            (Protocol::Resp | Protocol::Resp3, verb) => verb.is_hash(),
            (Protocol::Memcache | Protocol::Meta, verb) => !verb.is_hash() && verb != Self::Ping,
        }
    }

    /// Is done to a hash.
    pub const fn is_hash(self) -> bool {
        matches!(self, Self::HashSet | Self::HashGet | Self::HashMultiGet | Self::HashGetAll | Self::HashDelete)
            || self.modifies_hash()
    }

    /// Reads a hash and then changes it.
    pub const fn modifies_hash(self) -> bool {
        matches!(self, Self::HashUpdate | Self::HashIncr | Self::HashDecr)
    }

    /// Is two requests, of which the second follows the first one's answer.
    pub const fn is_two(self) -> bool {
        matches!(self, Self::Cas) || self.modifies_hash()
    }

    /// Leaves something else in the store than the value which belongs to the key: a longer one, or a number.
    pub const fn alters(self) -> bool {
        matches!(self, Self::Append | Self::Prepend | Self::Incr | Self::Decr | Self::MetaArith | Self::Raw)
            || matches!(self, Self::HashIncr | Self::HashDecr)
    }

    /// Reads a value that can be filled in after a miss.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::MetaGet | Self::HashGet | Self::HashMultiGet | Self::HashGetAll)
            || self.modifies_hash()
    }

    /// Stores the key's whole value.
    pub const fn stores(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas | Self::MetaSet | Self::HashSet)
    }
}
