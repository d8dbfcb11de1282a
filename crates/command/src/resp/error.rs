//! Error replies to requests that cannot be executed. They have the same text as in Redis if Redis has such an error,
//! because clients compare the texts.

use super::catalog;
use super::stream_error::StreamError;
use super::support::{Absent, CLUSTERS, Support, absent_of};
use crate::visit::out::OutBuffer;
use base::nearest::nearest;
use protocol::resp::{Args, reply};
use protocol::sink::{Fixed, Sink};

/// The reasons for an error reply. After such a reply, the connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorReply {
    /// The wrong number of arguments for this command.
    Arity(&'static str),
    /// The container with this name has no such subcommand. The error line quotes the word ([`unknown_part`]).
    UnknownPart(&'static str),
    /// The client has not authenticated.
    NoAuth,
    /// The name or the password is wrong.
    WrongPassword,
    /// The client's user may not run the command or subcommand with this number.
    NoPermission(usize),
    /// The client's user may not read or write one of the keys.
    NoKeyPermission,
    /// The client's user may not use one of the channels.
    NoChannelPermission,
    /// The client's user may not use keys of this namespace.
    NoNamespacePermission,
    /// The client's user had the right to execute the request when it was queued, but has lost it since. The text names
    /// the missing right.
    PermissionRevoked(&'static str),
    /// An authentication attempt in a transaction would have to wait.
    AuthDelayed,
    /// A request has too many passwords to hash.
    TooManyPasswords,
    /// The server stops before it could execute the request.
    Stopping,
    /// No users are configured.
    NoUsers,
    /// Options that the command does not have, or that exclude each other.
    Syntax,
    /// An argument is not an integer, which the command requires.
    NotInteger,
    /// An argument is not a floating-point number, which the command requires.
    NotFloat,
    /// The result of an increment or decrement does not fit into a signed 64-bit integer.
    Overflow,
    /// The decrement cannot be negated.
    NotNegatable,
    /// The result of a floating-point increment is not finite.
    NotFinite,
    /// The number of keys is not a positive number of 32 bits.
    KeyCountRange,
    /// A digest does not have 16 characters.
    Digest,
    /// `DELEX` with an unknown condition.
    Condition,
    /// `DELEX` with a condition on a key whose value is no string.
    NotStringForCondition,
    /// An invalid time to live, for this command.
    ExpireTime(&'static str),
    /// A value or key that is longer than an item may be.
    TooLong,
    /// A request that is longer than a buffer, for a command that does not support such requests.
    RequestTooLong,
    /// The limit on long keys whose values are being received is reached.
    LongKeys,
    /// No item can be evicted to make room.
    OutOfMemory,
    /// The database does not exist.
    Database,
    /// The first or the second argument of `SWAPDB` is no number of a database.
    FirstDatabase,
    SecondDatabase,
    /// A script calls `SWAPDB`.
    SwapInScript,
    /// The number of a database exceeds 32 bits.
    DatabaseNumber,
    /// The target of a copy is in another database.
    OtherDatabase,
    /// The connection limit of the database is reached.
    DatabaseFull,
    /// The namespace's quota of operations per second is used up.
    TooManyOps,
    TooManyOpsOfUser,
    /// `HELLO` requests a version of the protocol that is not supported.
    Version,
    /// `HELLO` requests a version that is not an integer.
    VersionNotInteger,
    /// A negative offset.
    Offset,
    /// A cursor that the server did not return.
    Cursor,
    /// A client name or attribute contains a space or a line end, or is too long.
    ClientText,
    /// Options of `EXPIRE` that exclude each other.
    ExpireOptions,
    /// `GT` and `LT` together.
    ExpireOrder,
    /// A subscriber that uses version 2 of the protocol may not call this command.
    Subscribed(&'static str),
    /// The name of a channel is too long.
    ChannelTooLong,
    /// Too many patterns for one `CONFIG GET`.
    TooManyPatterns,
    /// A pattern would take too many steps to match.
    PatternTooLong,
    /// The client has the maximum number of subscriptions.
    TooManySubscriptions,
    /// The memory for subscriptions and messages of all clients is used up.
    NoMessageMemory,
    /// The limit on clients that monitor is reached.
    TooManyMonitors,
    /// `SSUBSCRIBE` in a transaction.
    ShardChannelInMulti,
    /// `MONITOR` in a transaction.
    MonitorInMulti,
    /// The client is on another host, and the server does not require authentication (protected mode).
    Protected,
    /// A word that is not a mode of `CLIENT PAUSE`.
    PauseMode,
    /// A word in a list of client numbers that is not a client number.
    ClientId,
    /// A word that is not a client number above 0.
    ClientIdAbove0,
    /// No client is connected from that address.
    NoSuchClient,
    /// A number of own files that is neither 0 nor 1.
    LocalFiles,
    /// A wait for an append-only file, which does not exist.
    NoAppendFile,
    /// A log that `COMMANDLOG` does not have.
    CommandLog,
    /// A number of entries of a log below -1.
    LogCount,
    /// A filter of clients with too many words.
    TooManyFilterWords,
    /// A timeout that is not an integer, or is out of range.
    Timeout,
    /// The configuration disables the command.
    Disabled(&'static str),
    /// The key holds a value of another type.
    WrongType,
    /// The field's value is not an integer.
    FieldNotInteger,
    /// The field's value is not a number.
    FieldNotFloat,
    /// The increment of a field is not a finite number.
    InfiniteDelta,
    /// A count out of range.
    OutOfRange,
    /// A count that cannot be negated.
    NoOppositeCount,
    /// A negative time where none is allowed.
    ExpireBelowZero,
    /// The word `FIELDS` or the number of fields is missing, or in the wrong place.
    FieldsMissing,
    /// A number of fields below 1.
    FieldsCount,
    /// The number of fields differs from the number that the request states.
    FieldCountDiffers,
    /// A bin would not fit into one item.
    RecordTooLarge,
    /// A position outside a list.
    IndexOutOfRange,
    /// No keys are given to this command.
    NoInputKey(&'static str),
    /// A weight that is not a number.
    WeightNotFloat,
    /// An end of an interval of scores that is not a score.
    ScoreInterval,
    /// An end of an interval of texts that does not say whether it is included.
    TextInterval,
    /// `LIMIT` for an interval by rank.
    LimitOfRanks,
    /// An element of `SORT`, or what `BY` names for it, is not a number.
    SortNumber,
    /// The client's user may not use this option of `SORT`, which reads any keys.
    SortDenied(&'static str),
    /// A position outside of the map: the bits of its longitude and latitude in degrees.
    Coordinates([u64; 2]),
    /// A unit of length that does not exist.
    Unit,
    /// This size of an area is not a number.
    NotNumeric(&'static str),
    /// This size of an area is negative.
    NegativeSize(&'static str),
    /// The element around which to search is not there.
    NoPosition,
    /// A `COUNT` of a search for positions that is not positive.
    GeoCount,
    /// Options that exclude a stored result, for this command.
    NotStorable(&'static str),
    /// No position or element to search around, for this command.
    NoCenter(&'static str),
    /// No area to search in, for this command.
    NoShape(&'static str),
    /// The number of corners of a polygon is not a number.
    CornerCount,
    /// A polygon with fewer than three corners, or with fewer than the request states.
    TooFewCorners,
    /// A polygon with too many corners.
    TooManyCorners,
    /// `ANY` without `COUNT`.
    AnyWithoutCount,
    /// `WITHSCORES` for an interval by text.
    ScoresOfTexts,
    /// `NX` and `XX` together.
    NewAndOld,
    /// More than one of `NX`, `GT` and `LT`.
    AboveAndBelow,
    /// `ZADD` with `INCR` for several elements.
    OneIncrement,
    /// The sum of two infinite scores.
    NotANumber,
    /// A count that is negative or not a number.
    NotPositive,
    /// A command on streams.
    Stream(StreamError),
    /// `RANK 0` of `LPOS`.
    RankZero,
    /// A rank of `LPOS` whose sign cannot be changed.
    RankOutOfRange,
    /// A number of keys that is not positive.
    KeyCount,
    /// More keys than there are words.
    KeyCountTooHigh,
    /// A count that is not positive.
    CountNotPositive,
    /// A negative number of this option.
    NegativeOption(&'static str),
    /// An element of a list, set or sorted set that is longer than the maximum.
    ElementTooLong,
    /// A reply that is longer than the maximum.
    AnswerTooLong,
    /// A value whose bytes are damaged.
    Damaged,
    /// A command that takes several visits has lost keys too often.
    KeysLost,
    /// The limit on the number of sets is reached.
    TooManySets,
    /// The name of a set is empty or too long.
    SetName,
    /// `MULTI` after `MULTI`.
    NestedMulti,
    /// `WATCH` after `MULTI`.
    WatchInMulti,
    /// This command requires an earlier `MULTI`.
    WithoutMulti(&'static str),
    /// A request of the transaction was refused instead of being queued.
    ExecAbort,
    /// The connection's limit of queued requests or watched keys is reached.
    QueueTooLong,
    /// Client memory is used up.
    ClientMemory,
    /// The key does not exist.
    NoKey,
    /// Source and target are the same key.
    SameKey,
    /// More keys match the pattern than one reply may list.
    TooManyKeys,
    /// A reply, or all replies that wait for the client, would exceed the limit on replies.
    RepliesTooLong,
    /// A negative time to wait.
    TimeoutBelowZero,
    /// The timeout of a blocking command is not a number.
    TimeoutNotFloat,
    /// A blocking command has more keys than a client may wait for.
    TooManyWaitedKeys,
    /// The offset of a bit is not a number, or out of range.
    BitOffset,
    /// The new value of a bit is neither 0 nor 1.
    BitValue,
    /// The requested bit is neither 0 nor 1.
    BitArgument,
    /// The type of a field is invalid.
    FieldType,
    /// The handling of numbers that do not fit is unknown.
    OverflowType,
    /// `BITFIELD_RO` with an operation that writes.
    OnlyGet,
    /// `BITOP NOT` with several sources.
    NotOfSeveral,
    /// `BITOP` with too few sources, for this operation.
    TooFewSources(&'static str),
    /// `RESTORE` of a key that exists.
    BusyKey,
    /// `RESTORE` with a time to live below 0.
    RestoreTtl,
    /// `RESTORE` with an idle time below 0.
    IdleTime,
    /// `RESTORE` with a frequency that is out of range.
    Frequency,
    /// The version or the checksum of a payload is wrong.
    DumpFooter,
    /// The value of a payload is invalid.
    BadDump,
    /// The value of a payload has a type that this server does not have.
    DumpType,
    /// The value of a payload is too long.
    DumpTooLong,
    /// `LCS` of a value that is not a string.
    NotStrings,
    /// `LCS` with `LEN` and `IDX`.
    LengthAndRanges,
    /// The table of `LCS` would be too large.
    TableTooLarge,
    /// The string is not a HyperLogLog.
    NotHyperLogLog,
    /// The runs of a sparse HyperLogLog are invalid.
    InvalidHyperLogLog,
    /// `PFDEBUG` on a key that does not exist.
    NoSuchHyperLogLog,
    /// `PFDEBUG DECODE` of a dense HyperLogLog.
    NotSparse,
    /// `PFSELFTEST` has found a fault.
    SelfTestFailed,
    /// No cached script has this digest.
    NoScript,
    /// `SCRIPT SHOW` of a script that is not cached.
    NoSuchScript,
    /// A negative number of keys.
    KeysBelowZero,
    /// A number of keys above the number of arguments.
    KeysTooMany,
    /// The limits on scripts that `SCRIPT LOAD` caches are reached.
    TooManyScripts,
    /// A script that was not executed before has too many bytes.
    ScriptTooLong,
    /// No memory for the stack of a script.
    NoScriptMemory,
    /// An option of `SCRIPT FLUSH` that does not exist.
    FlushMode,
    /// No script is in execution.
    NotBusy,
    /// The script in execution has written.
    Unkillable,
    /// A script has been in execution for too long.
    Busy,
    /// No library has this name.
    NoLibrary,
    /// `LIBRARYNAME` without a name.
    NoLibraryName,
    /// A policy of `FUNCTION RESTORE` that does not exist.
    RestorePolicy,
    /// A dump that is damaged, or of another version.
    DumpDamaged,
    /// An option of `FUNCTION FLUSH` that does not exist.
    FunctionFlushMode,
    /// No library has a function with this name.
    NoFunction,
    /// The number of keys of a function is not a number.
    FunctionKeys,
    /// The server shall follow another one.
    NoReplicas,
}

impl ErrorReply {
    /// Returns the error line, in parts.
    fn parts(self) -> [&'static str; 3] {
        let whole = match self {
            Self::Arity(name) => return ["ERR wrong number of arguments for '", name, "' command"],
            Self::UnknownPart(_) => "ERR unknown subcommand",
            Self::ExpireTime(name) => return ["ERR invalid expire time in '", name, "' command"],
            Self::Subscribed(name) => {
                let may = "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
                return ["ERR Can't execute '", name, may];
            }
            Self::TooFewSources(name) => return ["ERR BITOP ", name, " must be called with at least two source keys."],
            Self::Disabled(name) => return ["ERR ", name, " is disabled by this server's configuration"],
            Self::WithoutMulti(name) => return ["ERR ", name, " without MULTI"],
            Self::PermissionRevoked(reason) => {
                let changed = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
                               EXEC call. This command is no longer allowed for the following reason: ";
                return [changed, reason, ""];
            }
            Self::NestedMulti => "ERR MULTI calls can not be nested",
            Self::WatchInMulti => "ERR WATCH inside MULTI is not allowed",
            Self::ExecAbort => "EXECABORT Transaction discarded because of previous errors.",
            Self::QueueTooLong => "ERR the transaction exceeds this server's limit of queued requests or watched keys",
            Self::ClientMemory => {
                "OOM client memory is used up: read replies, end transactions or subscriptions, or raise \
                 limits.client_memory"
            }
            Self::SortNumber => "ERR One or more scores can't be converted into double",
            Self::SortDenied(option) => {
                return ["ERR ", option, " option of SORT denied due to insufficient ACL permissions."];
            }
            Self::Coordinates(_) => "ERR invalid longitude,latitude pair",
            Self::Unit => "ERR unsupported unit provided. please use M, KM, FT, MI",
            Self::NotNumeric(size) => return ["ERR need numeric ", size, ""],
            Self::NegativeSize(size) => return ["ERR ", size, " cannot be negative"],
            Self::NoPosition => "ERR could not decode requested zset member",
            Self::GeoCount => "ERR COUNT must be > 0",
            Self::NotStorable(name) => {
                return ["ERR ", name, " is not compatible with WITHDIST, WITHHASH and WITHCOORD options"];
            }
            Self::NoCenter(name) => {
                return ["ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ", name, ""];
            }
            Self::NoShape(name) => return ["ERR exactly one of BYRADIUS and BYBOX can be specified for ", name, ""],
            Self::CornerCount => "ERR invalid number of vertices",
            Self::TooFewCorners => "ERR GEOSEARCH BYPOLYGON must have at least 3 vertices",
            Self::TooManyCorners => "ERR GEOSEARCH BYPOLYGON must have at most 1024 vertices",
            Self::AnyWithoutCount => "ERR the ANY argument requires COUNT argument",
            Self::NegativeOption(name) => return ["ERR ", name, " can't be negative"],
            Self::KeyCount => "ERR numkeys should be greater than 0",
            Self::KeyCountTooHigh => "ERR Number of keys can't be greater than number of args",
            Self::CountNotPositive => "ERR count should be greater than 0",
            Self::IndexOutOfRange => "ERR index out of range",
            Self::NoInputKey(name) => return ["ERR at least 1 input key is needed for '", name, "' command"],
            Self::WeightNotFloat => "ERR weight value is not a float",
            Self::ScoreInterval => "ERR min or max is not a float",
            Self::TextInterval => "ERR min or max not valid string range item",
            Self::LimitOfRanks => {
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX"
            }
            Self::ScoresOfTexts => "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            Self::NewAndOld => "ERR XX and NX options at the same time are not compatible",
            Self::AboveAndBelow => "ERR GT, LT, and/or NX options at the same time are not compatible",
            Self::OneIncrement => "ERR INCR option supports a single increment-element pair",
            Self::NotANumber => "ERR resulting score is not a number (NaN)",
            Self::NotPositive => "ERR value is out of range, must be positive",
            Self::Stream(error) => error.text(),
            Self::RankZero => {
                "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                 start from the end of the list"
            }
            Self::RankOutOfRange => {
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
            }
            Self::NoKey => "ERR no such key",
            Self::SameKey => "ERR source and destination objects are the same",
            Self::TooManyKeys => "ERR too many matching keys for one reply: iterate over them with SCAN",
            Self::RepliesTooLong => "ERR the reply exceeds this server's limit: request less at once",
            Self::TimeoutBelowZero => "ERR timeout is negative",
            Self::TimeoutNotFloat => "ERR timeout is not a float or out of range",
            Self::TooManyWaitedKeys => "ERR too many keys; a client can wait for at most 4096",
            Self::BitOffset => "ERR bit offset is not an integer or out of range",
            Self::BitValue => "ERR bit is not an integer or out of range",
            Self::BitArgument => "ERR The bit argument must be 1 or 0.",
            Self::FieldType => {
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is."
            }
            Self::OverflowType => "ERR Invalid OVERFLOW type specified",
            Self::OnlyGet => "ERR BITFIELD_RO only supports the GET subcommand",
            Self::NotOfSeveral => "ERR BITOP NOT must be called with a single source key.",
            Self::BusyKey => "BUSYKEY Target key name already exists.",
            Self::RestoreTtl => "ERR Invalid TTL value, must be >= 0",
            Self::IdleTime => "ERR Invalid IDLETIME value, must be >= 0",
            Self::Frequency => "ERR Invalid FREQ value, must be >= 0 and <= 255",
            Self::DumpFooter => "ERR DUMP payload version or checksum are wrong",
            Self::BadDump => "ERR Bad data format",
            Self::DumpType => "ERR this server cannot restore values of modules",
            Self::DumpTooLong => "ERR the value of the payload is longer than 64 MiB, the maximum",
            Self::NotStrings => "ERR The specified keys must contain string values",
            Self::LengthAndRanges => "ERR If you want both the length and indexes, please just use IDX.",
            Self::TableTooLarge => "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            Self::NotHyperLogLog => "WRONGTYPE Key is not a valid HyperLogLog string value.",
            Self::InvalidHyperLogLog => "INVALIDOBJ Corrupted HLL object detected",
            Self::NoSuchHyperLogLog => "ERR The specified key does not exist",
            Self::NotSparse => "ERR HLL encoding is not sparse",
            Self::SelfTestFailed => "ERR TESTFAILED a HyperLogLog has wrong registers or a wrong count",
            Self::NoPermission(_) => "NOPERM this user has no permissions to run the command",
            Self::NoKeyPermission => "NOPERM this user has no permissions to access one of the keys used as arguments",
            Self::NoChannelPermission => {
                "NOPERM this user has no permissions to access one of the channels used as arguments"
            }
            Self::NoNamespacePermission => "NOPERM this user has no permissions to use keys of this database",
            Self::NoAuth => "NOAUTH Authentication required.",
            Self::WrongPassword => "WRONGPASS invalid username-password pair or user is disabled.",
            Self::AuthDelayed => {
                "ERR cannot authenticate in a transaction: the attempt must wait; send AUTH outside MULTI"
            }
            Self::TooManyPasswords => "ERR a request can add or remove 8 passwords at most; send several requests",
            Self::Stopping => "ERR the server stops",
            Self::NoUsers => {
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?"
            }
            Self::Syntax => "ERR syntax error",
            Self::NotInteger => "ERR value is not an integer or out of range",
            Self::NotFloat => "ERR value is not a valid float",
            Self::Overflow => "ERR increment or decrement would overflow",
            Self::NotNegatable => "ERR decrement would overflow",
            Self::KeyCountRange => "ERR invalid numkeys value or out of range",
            Self::Digest => "ERR must be exactly 16 hexadecimal characters",
            Self::Condition => "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
            Self::NotStringForCondition => "ERR Key should be of string type if conditions are specified",
            Self::NotFinite => "ERR increment would produce NaN or Infinity",
            Self::TooLong => "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
            Self::RequestTooLong => "ERR the request is too long for this command",
            Self::LongKeys => "ERR too many long values with keys of more than 250 bytes are being received",
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::Database => "ERR DB index is out of range",
            Self::FirstDatabase => "ERR invalid first DB index",
            Self::SecondDatabase => "ERR invalid second DB index",
            Self::SwapInScript => "ERR SWAPDB is not allowed from scripts",
            Self::DatabaseNumber => "ERR value is out of range, value must between -2147483648 and 2147483647",
            Self::OtherDatabase => "ERR cannot copy or move a record of a set to another database",
            Self::DatabaseFull => "ERR max number of clients of this database reached",
            Self::TooManyOps => "ERR too many operations a second for this database, try again later",
            Self::TooManyOpsOfUser => {
                "ERR too many requests a second for this user (rule ops= of ACL SETUSER), try again later"
            }
            Self::Version => "NOPROTO unsupported protocol version",
            Self::VersionNotInteger => "ERR Protocol version is not an integer or out of range",
            Self::Offset => "ERR offset is out of range",
            Self::Cursor => "ERR invalid cursor",
            Self::ClientText => "ERR Client names cannot contain spaces, newlines or special characters.",
            Self::Protected => {
                "DENIED The user default needs no password, so clients on other hosts may only call PING, HELLO, AUTH \
                 and QUIT until they authenticate as another user. Add one with ACL SETUSER, --acl-file or \
                 --auth-file, or connect over loopback or a unix socket. If the network is trusted, start the server \
                 with protected = false in [listen] of its configuration."
            }
            Self::PauseMode => "ERR CLIENT PAUSE mode must be WRITE or ALL",
            Self::ClientId => "ERR Invalid client ID",
            Self::ClientIdAbove0 => "ERR client-id should be greater than 0",
            Self::NoSuchClient => "ERR No such client",
            Self::LocalFiles => "ERR value is out of range, value must between 0 and 1",
            Self::NoAppendFile => "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
            Self::CommandLog => "ERR type should be one of the following: slow, large-request, large-reply",
            Self::LogCount => "ERR count should be greater than or equal to -1",
            Self::TooManyFilterWords => {
                "ERR a filter has at most 1024 words, unless it is CLIENT LIST ID id ...; send several requests"
            }
            Self::Timeout => "ERR timeout is not an integer or out of range",
            Self::ChannelTooLong => "ERR the name of a channel has at most 65600 bytes",
            Self::TooManyPatterns => "ERR CONFIG GET takes at most 256 patterns: use several commands",
            Self::PatternTooLong => {
                "ERR pattern too complex: more than 512 bytes between its first and its last *; shorten it"
            }
            Self::TooManySubscriptions => "ERR a client has at most 100000 subscriptions: unsubscribe from some first",
            Self::NoMessageMemory => {
                "OOM names of channels and waiting messages have reached their memory limit: subscribe to fewer names, \
                 or give the server more memory"
            }
            Self::ShardChannelInMulti => "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client",
            Self::MonitorInMulti => "ERR MONITOR isn't allowed for DENY BLOCKING client",
            Self::TooManyMonitors => "ERR at most 64 clients can monitor: close one of them first",
            Self::ExpireOptions => "ERR NX and XX, GT or LT options at the same time are not compatible",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::FieldNotInteger => "ERR hash value is not an integer",
            Self::FieldNotFloat => "ERR hash value is not a float",
            Self::InfiniteDelta => "ERR value is NaN or Infinity",
            Self::OutOfRange => "ERR value is out of range",
            Self::NoOppositeCount => {
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
            }
            Self::ExpireBelowZero => "ERR invalid expire time, must be >= 0",
            Self::FieldsMissing => "ERR Mandatory argument FIELDS is missing or not at the right position",
            Self::FieldsCount => "ERR Number of fields must be a positive integer",
            Self::FieldCountDiffers => "ERR The `numfields` parameter must match the number of arguments",
            Self::ElementTooLong => "ERR an element would be longer than an item may be: raise `store.item_max`",
            Self::RecordTooLarge => {
                "ERR a field with its value would be longer than an item may be: raise `store.item_max`"
            }
            Self::AnswerTooLong => {
                "ERR the answer is longer than the maximum: request a part, as with HSCAN, HMGET or LRANGE"
            }
            Self::TooManySets => "ERR the maximum of 1023 record sets is reached",
            Self::SetName => "ERR the name of a record set has 1 to 63 bytes",
            Self::KeysLost => {
                "ERR cannot complete the command: keys expired or were evicted while it ran; send it again"
            }
            Self::Damaged => "ERR the value is damaged: delete the key",
            Self::NoLibrary => "ERR Library not found",
            Self::NoLibraryName => "ERR library name argument was not given",
            Self::RestorePolicy => "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            Self::DumpDamaged => "ERR DUMP payload version or checksum are wrong",
            Self::FunctionFlushMode => "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
            Self::NoFunction => "ERR Function not found",
            Self::NoReplicas => "ERR REPLICAOF accepts NO ONE only: this server cannot follow another one",
            Self::FunctionKeys => "ERR Bad number of keys provided",
            Self::NoScript => "NOSCRIPT No matching script. Please use EVAL.",
            Self::NoSuchScript => "NOSCRIPT No matching script.",
            Self::KeysBelowZero => "ERR Number of keys can't be negative",
            Self::KeysTooMany => "ERR Number of keys can't be greater than number of args",
            Self::TooManyScripts => "ERR the limit of 10000 loaded scripts or 64 MiB is reached: call SCRIPT FLUSH",
            Self::ScriptTooLong => "ERR a script has at most 256 KiB",
            Self::NoScriptMemory => "OOM cannot allocate the stack of a script",
            Self::FlushMode => "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
            Self::NotBusy => "NOTBUSY No scripts in execution right now.",
            Self::Unkillable => {
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait \
                 the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
            }
            Self::Busy => "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            Self::ExpireOrder => "ERR GT and LT options at the same time are not compatible",
        };
        [whole, "", ""]
    }

    /// Writes the error line.
    #[cold]
    pub(super) fn write(self, out: &mut OutBuffer) {
        reply::error(out, self.line().as_slice());
    }

    /// Writes the error line for `EXEC`, if this is the reason why it was refused.
    pub(super) fn write_for_exec(self, out: &mut OutBuffer) {
        let (line, mut whole) = (self.line(), Line::new());
        whole.put(b"EXECABORT Transaction discarded because of: ");
        whole.put(line.as_slice().strip_prefix(b"ERR ").unwrap_or(line.as_slice()));
        reply::error(out, whole.as_slice());
    }

    /// Returns the error line.
    pub(super) fn line(self) -> Line {
        let mut line = Line::new();
        match self {
            Self::NoPermission(number) => {
                line.put(b"NOPERM this user has no permissions to run the '");
                line.put(super::acl::name_of(number).as_bytes());
                line.put(b"' command");
            }
            Self::Coordinates(pair) => {
                let [longitude, latitude] = pair.map(f64::from_bits);
                line.put(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}").as_bytes());
            }
            _ => self.parts().into_iter().for_each(|part| line.put(part.as_bytes())),
        }
        line
    }
}

pub(super) type Line = Fixed<512>;

/// The maximum number of bytes of one word that an error reply quotes. It is also the maximum for all quoted arguments
/// together.
const SHOWN_MAX: usize = 128;
/// The number of bytes around a quoted word: two quotes and a space.
const QUOTES_BYTES: usize = 3;
/// The maximum offset, in bytes, at which the quoted words of a request end in the error line of [`unknown`]. The line
/// has enough room for the text after them.
const ARGS_END_MAX: usize = 384;

/// Writes at most `most` bytes of a word, with spaces in place of control characters.
pub(super) fn shown(line: &mut Line, word: &[u8], most: usize) {
    for byte in word.iter().take(most) {
        line.push(if byte.is_ascii_control() { b' ' } else { *byte });
    }
}

/// The cost of the reply to an unknown command, in operations. To find the nearest command, the letters of the name are
/// compared with those of all commands, which takes 20,000 instructions (case `resp-unknown` of `xtask gate`), and the
/// name itself with those that have similar letters, which takes up to several times as many.
pub const UNKNOWN_OPS: usize = 24;

/// Replies to a command that this server does not have.
#[cold]
pub(super) fn unknown(out: &mut OutBuffer, name: &[u8], args: Args<'_>) {
    match absent_of(name) {
        Some(absent) => not_supported(out, absent),
        None => unknown_name(out, name, args),
    }
}

/// Replies to a Redis command that this server does not support, with the reason. The text does not contain "unknown
/// command": client libraries infer from these words that the server is an old Redis, and send the request again in
/// another form, some of them for ever.
fn not_supported(out: &mut OutBuffer, absent: &Absent) {
    let mut line = Line::new();
    match absent.why {
        // The text of a Redis server without cluster mode, which client libraries recognise.
        Support::NotYet(CLUSTERS) => line.put(b"ERR This instance has cluster support disabled"),
        Support::NotYet(what) => line_about(&mut line, absent.name, ["it has no ", what, " yet"]),
        Support::No(why) => line_about(&mut line, absent.name, [why, "", ""]),
        Support::Yes | Support::Differs(_) => unreachable!("an absent command is not supported"),
    }
    reply::error(out, line.as_slice());
}

/// Writes the error line for an unsupported command.
fn line_about(line: &mut Line, name: &str, why: [&str; 3]) {
    line.put(b"ERR command '");
    line.put(name.to_ascii_uppercase().as_bytes());
    line.put(b"' is not supported by this server: ");
    why.into_iter().for_each(|part| line.put(part.as_bytes()));
}

/// Replies to a name that is no Redis command. Suggests the nearest command, if there is one.
fn unknown_name(out: &mut OutBuffer, name: &[u8], args: Args<'_>) {
    let mut line = Line::new();
    line.put(b"ERR unknown command '");
    shown(&mut line, name, SHOWN_MAX);
    line.put(b"', with args beginning with: ");
    let mut left = SHOWN_MAX;
    for word in args {
        let part = word.len().min(left);
        if left == 0 || line.as_slice().len() + part + QUOTES_BYTES > ARGS_END_MAX {
            break;
        }
        line.put(b"'");
        shown(&mut line, word, part);
        line.put(b"' ");
        left = left.saturating_sub(word.len().max(1));
    }
    let names = catalog::COMMANDS.iter().map(|entry| entry.name);
    if let Some(near) = std::str::from_utf8(name).ok().and_then(|name| nearest(name, names)) {
        line.put(b"(did you mean '");
        line.put(near.as_bytes());
        line.put(b"'?)");
    }
    reply::error(out, line.as_slice());
}

/// Replies with an error about an invalid word: `text`, followed by the word in quotes.
#[cold]
pub(super) fn word(out: &mut OutBuffer, text: &'static str, word: &[u8]) {
    let mut line = Line::new();
    line.put(text.as_bytes());
    line.put(b" '");
    shown(&mut line, word, SHOWN_MAX);
    line.put(b"'");
    reply::error(out, line.as_slice());
}

/// Replies with an error about two names: the first is written between the first two parts of `text`, and the second
/// between the last two.
#[cold]
pub(super) fn quoted(out: &mut OutBuffer, names: [&[u8]; 2], text: &[&str; 3]) {
    let mut line = Line::new();
    line.put(text[0].as_bytes());
    for (name, part) in names.into_iter().zip(&text[1..]) {
        shown(&mut line, name, SHOWN_MAX);
        line.put(part.as_bytes());
    }
    reply::error(out, line.as_slice());
}

/// Replies with an error about an option that the command does not support.
#[cold]
pub(super) fn option(out: &mut OutBuffer, word: &[u8]) {
    let mut line = Line::new();
    line.put(b"ERR Unsupported option ");
    shown(&mut line, word, SHOWN_MAX);
    reply::error(out, line.as_slice());
}

/// Replies with an error about a subcommand that the container `command` does not have.
#[cold]
pub(super) fn unknown_part(out: &mut OutBuffer, command: &str, name: &[u8]) {
    about_part(out, "ERR unknown subcommand '", command, name);
}

/// Replies to a subcommand that the command does not have, or that has other arguments.
#[cold]
pub(super) fn subcommand(out: &mut OutBuffer, command: &str, name: &[u8]) {
    about_part(out, "ERR unknown subcommand or wrong number of arguments for '", command, name);
}

fn about_part(out: &mut OutBuffer, text: &str, command: &str, name: &[u8]) {
    let mut line = Line::new();
    line.put(text.as_bytes());
    shown(&mut line, name, SHOWN_MAX);
    line.put(b"'. Try ");
    line.put(command.to_ascii_uppercase().as_bytes());
    line.put(b" HELP.");
    reply::error(out, line.as_slice());
}

/// Replies to the subcommand `name`, such as `memory|malloc-stats`, which Redis has and this server does not support.
#[cold]
pub(super) fn unsupported_part(out: &mut OutBuffer, name: &str) {
    let mut line = Line::new();
    line.put(b"ERR command '");
    line.put(name.to_ascii_uppercase().as_bytes());
    line.put(b"' is not supported by this server");
    reply::error(out, line.as_slice());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::support::ABSENT;
    use protocol::resp::{Limits, Parsed, Parser};

    /// Returns the length of the reply of [`unknown`] to a request of these words.
    fn answered(words: &[&[u8]]) -> usize {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        words.iter().for_each(|word| reply::bulk(&mut bytes, word));
        let Parsed::Request { mut args, .. } = Parser::new().parse(&bytes, &Limits::REDIS) else {
            panic!("a request of {} words", words.len());
        };
        let name = args.next().unwrap_or_default();
        let mut out = OutBuffer::new(vec![0; 1024].into_boxed_slice());
        unknown(&mut out, name, args);
        assert!(out.since(0).starts_with(b"-ERR ") && out.since(0).ends_with(b"\r\n"));
        out.mark()
    }

    #[test]
    fn an_error_fits_its_line_whatever_words_it_repeats() {
        let long = [b'x'; 300];
        let misspelled = catalog::COMMANDS.iter().map(|entry| format!("{}x", entry.name));
        let names = ABSENT.iter().map(|absent| absent.name.to_owned()).chain(misspelled).chain(["x".repeat(200)]);
        let mut longest = 0;
        for name in names {
            for (empties, others) in (0..140).step_by(7).flat_map(|empties| [(empties, 0), (empties, 1), (empties, 9)])
            {
                let mut words = vec![name.as_bytes()];
                words.extend(std::iter::repeat_n(&b""[..], empties));
                words.extend(std::iter::repeat_n(&long[..], others));
                longest = longest.max(answered(&words));
            }
        }
        assert!(longest > 400, "{longest} bytes are too few to prove anything");
    }
}
