//! What `COMMAND` reports about commands and subcommands besides the catalog: where their keys are and how they are
//! accessed (key specifications), and hints for clients and proxies (tips), as in Redis.

use super::catalog::{COUNTED, STREAMED, lower};
use protocol::resp::Args;

/// A place of keys in a request, and the access to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeySpec {
    /// A remark on the flags. Empty for none.
    pub(super) notes: &'static str,
    /// The access: `RO`, `RW`, `OW` (overwrites) or `RM`, and details.
    pub(super) flags: &'static [&'static str],
    /// The way to find the first key.
    pub(super) begin: Begin,
    /// The position of the first key, or of the first word that may be the keyword. The command's name has the position
    /// 0.
    pub(super) first: u8,
    /// The position of the last key: from the first key if it is not negative, otherwise from the end of the request.
    /// If it is [`COUNTED`], the argument before the first key is the number of keys. If it is [`STREAMED`], the keys
    /// are behind the word `STREAMS`, which is searched from the position `first` on.
    pub(super) last: i8,
    /// The number of arguments from one key to the next. 0 if it depends on the arguments.
    pub(super) step: u8,
}

/// The way to find the first key of a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The first key has a fixed position.
    Index,
    /// The key is behind this word.
    Keyword(&'static str),
    /// The specification does not tell.
    Unknown,
}

const fn spec(flags: &'static [&'static str], first: u8, last: i8, step: u8) -> KeySpec {
    KeySpec { notes: "", flags, begin: Begin::Index, first, last, step }
}

const fn noted(notes: &'static str, spec: KeySpec) -> KeySpec {
    KeySpec { notes, ..spec }
}

const fn behind(word: &'static str, first: u8) -> KeySpec {
    KeySpec { begin: Begin::Keyword(word), ..spec(&["OW", "update"], first, 0, 1) }
}

const fn unknown(notes: &'static str, flags: &'static [&'static str]) -> KeySpec {
    KeySpec { notes, begin: Begin::Unknown, ..spec(flags, 0, 0, 0) }
}

/// The sorted key of `SORT`, and the keys that its patterns name.
const SORTED: KeySpec = spec(&["RO", "access"], 1, 0, 1);
const SORTED_BY: KeySpec = unknown(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key \
     we sort",
    &["RO", "access"],
);

impl KeySpec {
    /// Returns false if the arguments at the place are names of channels.
    pub(super) fn has_keys(&self) -> bool {
        !self.flags.contains(&"not_key")
    }
}

/// Remarks on the keys of scripts, as in Redis.
const ANY_WRITE: &str = "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const ANY_READ: &str = "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

/// Returns the key specifications of a command or subcommand with this full name.
pub(super) fn key_specs(name: &str) -> &'static [KeySpec] {
    match name {
        "append" | "g.add" | "g.load" | "hsetnx" | "linsert" | "lpush" | "lpushx" | "pfadd" | "rpush" | "rpushx"
        | "sadd" => const { &[spec(&["RW", "insert"], 1, 0, 1)] },
        "bitcount" | "bitfield_ro" | "g.count" | "g.deg2" | "g.diff" | "g.dist" | "g.get" | "g.inter" | "g.mutual"
        | "g.path" | "g.query" | "g.range" | "g.stats" | "g.suggest" | "g.union" | "bitpos" | "cas.get" | "digest"
        | "dump" | "expiretime" | "geodist" | "geohash" | "geopos" | "geosearch" | "get" | "getbit" | "getrange"
        | "hexpiretime" | "hget" | "hgetall" | "hkeys" | "hmget" | "hpexpiretime" | "hpttl" | "hrandfield"
        | "hscan" | "httl" | "hvals" | "lindex" | "lpos" | "lrange" | "pexpiretime" | "pttl" | "rec.get"
        | "smembers" | "smismember" | "srandmember" | "sscan" | "substr" | "ttl" | "zcount" | "zlexcount"
        | "zmscore" | "zrandmember" | "zrange" | "zrangebylex" | "zrangebyscore" | "zrank" | "zrevrange"
        | "zrevrangebylex" | "zrevrangebyscore" | "zrevrank" | "zscan" | "zscore" | "xpending" | "xrange"
        | "xrevrange" => const { &[spec(&["RO", "access"], 1, 0, 1)] },
        "bitfield" => {
            const {
                &[noted(
                    "This command allows both access and modification of the key",
                    spec(&["RW", "access", "update", "variable_flags"], 1, 0, 1),
                )]
            }
        }
        "bitop" => const { &[spec(&["OW", "update"], 2, 0, 1), spec(&["RO", "access"], 3, -1, 1)] },
        "cas.set" | "lease.set" | "psetex" | "restore" | "setex" => const { &[spec(&["OW", "update"], 1, 0, 1)] },
        "copy" => const { &[spec(&["RO", "access"], 1, 0, 1), spec(&["OW", "update"], 2, 0, 1)] },
        "decr" | "decrby" | "getset" | "hgetex" | "hincrby" | "hincrbyfloat" | "incr" | "incrby" | "incrbyfloat"
        | "lease.get" | "move" | "rec.operate" | "setbit" | "zincrby" => {
            const { &[spec(&["RW", "access", "update"], 1, 0, 1)] }
        }
        "del" | "unlink" => const { &[spec(&["RM", "delete"], 1, -1, 1)] },
        "g.drop" => const { &[spec(&["RM", "delete"], 1, 0, 1)] },
        "eval" | "fcall" => const { &[noted(ANY_WRITE, spec(&["RW", "access", "update"], 3, COUNTED, 1))] },
        "eval_ro" | "fcall_ro" => const { &[noted(ANY_READ, spec(&["RO", "access"], 3, COUNTED, 1))] },
        "blmpop" | "bzmpop" => const { &[spec(&["RW", "access", "delete"], 3, COUNTED, 1)] },
        "blpop" | "brpop" | "bzpopmax" | "bzpopmin" => const { &[spec(&["RW", "access", "delete"], 1, -2, 1)] },
        "lmpop" | "zmpop" => const { &[spec(&["RW", "access", "delete"], 2, COUNTED, 1)] },
        "sintercard" | "zdiff" | "zinter" | "zintercard" | "zunion" => {
            const { &[spec(&["RO", "access"], 2, COUNTED, 1)] }
        }
        "evalsha" => const { &[spec(&["RW", "access", "update"], 3, COUNTED, 1)] },
        "evalsha_ro" => const { &[spec(&["RO", "access"], 3, COUNTED, 1)] },
        "exists" | "touch" | "watch" => const { &[spec(&["RO"], 1, -1, 1)] },
        "expire" | "expireat" | "g.archive" | "g.restore" | "g.type" | "geoadd" | "hexpire" | "hexpireat" | "hmset"
        | "hpersist" | "hpexpire" | "hpexpireat" | "hset" | "hsetex" | "lease.stale" | "lset" | "persist"
        | "pexpire" | "pexpireat" | "rec.add" | "rec.append" | "rec.put" | "rec.touch" | "setrange" | "xack"
        | "xclaim" | "xsetid" | "zadd" => const { &[spec(&["RW", "update"], 1, 0, 1)] },
        "getdel" | "hgetdel" | "lpop" | "rpop" | "spop" | "zpopmax" | "zpopmin" => {
            const { &[spec(&["RW", "access", "delete"], 1, 0, 1)] }
        }
        "getex" => {
            const { &[noted("RW and UPDATE because it changes the TTL", spec(&["RW", "access", "update"], 1, 0, 1))] }
        }
        "g.del" | "hdel" | "lrem" | "ltrim" | "srem" | "xautoclaim" | "xdel" | "xtrim" | "zrem" | "zremrangebylex"
        | "zremrangebyrank" | "zremrangebyscore" => const { &[spec(&["RW", "delete"], 1, 0, 1)] },
        "hexists" | "hlen" | "hstrlen" | "llen" | "scard" | "sismember" | "rec.exists" | "strlen" | "type" | "xlen"
        | "zcard" => const { &[spec(&["RO"], 1, 0, 1)] },
        "g.node|archive" | "g.node|restore" | "g.node|set" | "xgroup|setid" => {
            const { &[spec(&["RW", "update"], 2, 0, 1)] }
        }
        "memory|usage" | "object|encoding" | "object|freq" | "object|idletime" | "object|refcount" => {
            const { &[spec(&["RO"], 2, 0, 1)] }
        }
        "xadd" => {
            const {
                &[noted(
                    "UPDATE instead of INSERT because of the optional trimming feature",
                    spec(&["RW", "update"], 1, 0, 1),
                )]
            }
        }
        "xread" => const { &[spec(&["RO", "access"], 1, STREAMED, 1)] },
        "xreadgroup" => const { &[spec(&["RO", "access"], 4, STREAMED, 1)] },
        "g.node|get" | "xinfo|consumers" | "xinfo|groups" | "xinfo|stream" => {
            const { &[spec(&["RO", "access"], 2, 0, 1)] }
        }
        "xgroup|create" | "xgroup|createconsumer" => const { &[spec(&["RW", "insert"], 2, 0, 1)] },
        "g.node|del" | "xgroup|delconsumer" | "xgroup|destroy" => const { &[spec(&["RW", "delete"], 2, 0, 1)] },
        "blmove" | "brpoplpush" | "lmove" | "rpoplpush" | "smove" => {
            const { &[spec(&["RW", "access", "delete"], 1, 0, 1), spec(&["RW", "insert"], 2, 0, 1)] }
        }
        "sdiff" | "sinter" | "sunion" => const { &[spec(&["RO", "access"], 1, -1, 1)] },
        "sdiffstore" | "sunionstore" => {
            const { &[spec(&["OW", "update"], 1, 0, 1), spec(&["RO", "access"], 2, -1, 1)] }
        }
        "geosearchstore" | "zrangestore" => {
            const { &[spec(&["OW", "update"], 1, 0, 1), spec(&["RO", "access"], 2, 0, 1)] }
        }
        "zdiffstore" | "zinterstore" | "zunionstore" => {
            const { &[spec(&["OW", "update"], 1, 0, 1), spec(&["RO", "access"], 3, COUNTED, 1)] }
        }
        "sinterstore" => const { &[spec(&["RW", "update"], 1, 0, 1), spec(&["RO", "access"], 2, -1, 1)] },
        "georadius" => const { &[SORTED, behind("STORE", 6), behind("STOREDIST", 6)] },
        "georadiusbymember" => const { &[SORTED, behind("STORE", 5), behind("STOREDIST", 5)] },
        "georadius_ro" | "georadiusbymember_ro" => &[SORTED],
        "sort_ro" => &[SORTED, SORTED_BY],
        "sort" => {
            const {
                let note = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
                            anywhere in the argument array";
                &[SORTED, SORTED_BY, unknown(note, &["OW", "update"])]
            }
        }
        "mget" => const { &[spec(&["RO", "access"], 1, -1, 1)] },
        "mset" => const { &[spec(&["OW", "update"], 1, -1, 2)] },
        "msetex" => const { &[spec(&["OW", "update"], 2, COUNTED, 2)] },
        "msetnx" => const { &[spec(&["OW", "insert"], 1, -1, 2)] },
        "pfcount" => {
            const {
                &[noted(
                    "RW because it may change the internal representation of the key, and propagate to replicas",
                    spec(&["RW", "access"], 1, -1, 1),
                )]
            }
        }
        "pfdebug" => const { &[spec(&["RW", "access"], 2, 0, 1)] },
        "pfmerge" => const { &[spec(&["RW", "access", "insert"], 1, 0, 1), spec(&["RO", "access"], 2, -1, 1)] },
        "lcs" => const { &[spec(&["RO", "access"], 1, 1, 1)] },
        "delex" => const { &[spec(&["RW", "delete", "variable_flags"], 1, 0, 1)] },
        "delifeq" | "rec.del" => const { &[spec(&["RM", "delete"], 1, 0, 1)] },
        "rec.mget" => const { &[spec(&["RO", "access"], 2, -1, 1)] },
        "rec.mput" => const { &[spec(&["RW", "update", "incomplete"], 2, 0, 0)] },
        "rename" => const { &[spec(&["RW", "access", "delete"], 1, 0, 1), spec(&["OW", "update"], 2, 0, 1)] },
        "renamenx" => const { &[spec(&["RW", "access", "delete"], 1, 0, 1), spec(&["OW", "insert"], 2, 0, 1)] },
        "set" => {
            const {
                &[noted(
                    "RW and ACCESS due to the optional `GET` argument",
                    spec(&["RW", "access", "update", "variable_flags"], 1, 0, 1),
                )]
            }
        }
        "setnx" => const { &[spec(&["OW", "insert"], 1, 0, 1)] },
        "spublish" => const { &[spec(&["not_key"], 1, 0, 1)] },
        "ssubscribe" | "sunsubscribe" => const { &[spec(&["not_key"], 1, -1, 1)] },
        _ => &[],
    }
}

/// Returns true if a request of `SET` with the arguments `args` reads the value of its key.
pub(super) fn set_reads<'w>(mut options: impl Iterator<Item = &'w [u8]>) -> bool {
    let reads = |word: &[u8]| matches!(&lower(word)[..], b"get" | b"ifeq" | b"ifne" | b"ifdeq" | b"ifdne");
    options.any(reads)
}

/// Returns true if a request of `BITFIELD` with the arguments `args` only reads. An invalid request counts as one that
/// writes.
pub(super) fn only_gets_fields(mut args: Args<'_>) -> bool {
    args.next();
    while let Some(word) = args.next() {
        let words = match &word.to_ascii_lowercase()[..] {
            b"get" => 2,
            b"overflow" => 1,
            _ => return false,
        };
        if args.nth(words - 1).is_none() {
            return false;
        }
    }
    true
}

/// Returns the tips of a command or subcommand with this full name.
pub(super) fn tips(name: &str) -> &'static [&'static str] {
    match name {
        "client|info" | "client|list" | "dump" | "hrandfield" | "hscan" | "lastsave" | "spop" | "srandmember"
        | "sscan" | "object|encoding" | "object|freq" | "object|idletime" | "object|refcount" | "pttl" | "time"
        | "ttl" | "zrandmember" | "zscan" | "xadd" | "xautoclaim" | "xclaim" | "xinfo|consumers" | "xpending"
        | "xtrim" => &["nondeterministic_output"],
        "command" | "command|docs" | "command|info" | "command|list" | "hgetall" | "hkeys" | "hvals" | "sdiff"
        | "module|list" | "sinter" | "smembers" | "sunion" => &["nondeterministic_output_order"],
        "commandlog|reset" | "config|set" | "latency|reset" | "slowlog|reset" => {
            &["request_policy:all_nodes", "response_policy:all_succeeded"]
        }
        "dbsize" => &["request_policy:all_shards", "response_policy:agg_sum"],
        "del" | "exists" | "touch" | "unlink" => &["request_policy:multi_shard", "response_policy:agg_sum"],
        "flushall" | "flushdb" | "memory|purge" | "ping" => {
            &["request_policy:all_shards", "response_policy:all_succeeded"]
        }
        "info" | "memory|doctor" | "memory|malloc-stats" | "memory|stats" => {
            &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"]
        }
        "keys" => &["request_policy:all_shards", "nondeterministic_output_order"],
        "latency|doctor" | "latency|graph" | "latency|histogram" | "latency|history" | "latency|latest" => {
            &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"]
        }
        "mget" => &["request_policy:multi_shard"],
        "mset" | "msetex" => &["request_policy:multi_shard", "response_policy:all_succeeded"],
        "msetnx" => &["request_policy:multi_shard", "response_policy:agg_min"],
        "randomkey" => &["request_policy:all_shards", "nondeterministic_output"],
        "scan" => &["nondeterministic_output", "request_policy:special"],
        "script|exists" => &["request_policy:all_shards", "response_policy:agg_logical_and"],
        "function|delete" | "function|flush" | "function|load" | "function|restore" => {
            &["request_policy:all_shards", "response_policy:all_succeeded"]
        }
        "function|kill" | "script|kill" => &["request_policy:all_shards", "response_policy:one_succeeded"],
        "function|list" => &["nondeterministic_output_order"],
        "function|stats" => &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        "script|flush" | "script|load" => &["request_policy:all_nodes", "response_policy:all_succeeded"],
        "commandlog|get" | "slowlog|get" => &["request_policy:all_nodes", "nondeterministic_output"],
        "commandlog|len" | "slowlog|len" => {
            &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"]
        }
        "wait" | "waitaof" => &["request_policy:all_shards", "response_policy:agg_min"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::catalog::COMMANDS;

    #[test]
    fn key_specifications_name_the_keys_of_the_catalog() {
        for entry in COMMANDS.iter().filter(|entry| !entry.is_container()) {
            let specs = key_specs(entry.name);
            assert_eq!(specs.is_empty(), entry.keys.0 == 0, "{}", entry.name);
            let Some(first) = specs.first() else { continue };
            assert_eq!(i32::from(first.first), i32::from(entry.keys.0), "{}", entry.name);
            assert_eq!(first.step, u8::try_from(entry.keys.2).unwrap_or(0), "{}", entry.name);
        }
    }
}
