//! The support of each Redis command: supported, with its differences from Redis, or not supported, with the reason.
//! [`super::catalog`] describes the supported ones. The table of `docs/protocol/resp.md` is generated from this module.

use super::catalog::{COMMANDS, CommandSpec};
use std::fmt::Write as _;

/// The support of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// As in Redis.
    Yes,
    /// Supported, with this difference.
    Differs(&'static str),
    /// Not supported yet: this feature is missing.
    NotYet(&'static str),
    /// Not supported, for this reason.
    No(&'static str),
}

use Support::{No, NotYet};

/// A Redis command that is not supported.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words, its name included; negative: at least this number.
    pub arity: i8,
    /// The group of the command.
    pub group: &'static str,
    /// The reason why it is not supported.
    pub why: Support,
}

const fn absent(name: &'static str, arity: i8, group: &'static str, why: Support) -> Absent {
    Absent { name, arity, group, why }
}

impl CommandSpec {
    /// Returns its difference from the Redis command, if there is one.
    pub fn support(&self) -> Support {
        let found = DIFFERENT.binary_search_by_key(&self.name, |(name, _)| name);
        found.map_or(Support::Yes, |at| Support::Differs(DIFFERENT[at].1))
    }
}

/// Returns the unsupported Redis command with this name, in any case.
pub(super) fn absent_of(name: &[u8]) -> Option<&'static Absent> {
    ABSENT.iter().find(|absent| absent.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the table of all commands as Markdown, by name: the supported ones, and those of Redis 7.2 that are not.
pub fn page() -> String {
    let mut rows: Vec<(&str, i8, &str, &str, Support)> =
        COMMANDS.iter().map(|entry| (entry.name, entry.arity, entry.group, entry.summary, entry.support())).collect();
    rows.extend(ABSENT.iter().map(|absent| (absent.name, absent.arity, absent.group, "", absent.why)));
    rows.sort_unstable_by_key(|row| row.0);
    let mut page = String::from("| command | words | group | what it does | here |\n|---|---|---|---|---|\n");
    for (name, arity, group, summary, support) in rows {
        let name = name.to_ascii_uppercase();
        let (word, text) = match support {
            Support::Yes => ("yes", ""),
            Support::Differs(how) => ("differs: ", how),
            NotYet(what) => ("not yet: ", what),
            No(why) => ("no: ", why),
        };
        writeln!(page, "| `{name}` | {arity} | {group} | {summary} | {word}{text} |")
            .expect("text takes what is written");
    }
    page
}

/// Differences of supported commands from Redis, by name.
#[rustfmt::skip]
const DIFFERENT: &[(&str, &str)] = &[
    (
        "acl",
        "no selectors and no first arguments (`+select|0`); a user's rules of commands are listed in their order; no \
         `HELP`; users, passwords and rules have a maximum; `ns=NAME` and `allns` bound whose keys may be used",
    ),
    ("auth", "users of `ACL` and of `listen.auth_file`"),
    ("cas.get", "not in Redis: see below"),
    ("cas.set", "not in Redis: see below"),
    (
        "client",
        "`ID`, `GETNAME`, `SETNAME`, `SETINFO`, `INFO`, `LIST`, `KILL`, `PAUSE`, `UNPAUSE`, `REPLY`, \
         `NO-EVICT`, `NO-TOUCH`, `UNBLOCK`, `GETREDIR`, for clients of Redis; names have 64 bytes at most; \
         `PAUSE` lets `CLIENT` through",
    ),
    ("command", "`COUNT`, `LIST`, `INFO`, `DOCS`; no tips, key specifications and subcommands"),
    ("config", "`GET` and `SET` of what is said below, `RESETSTAT`; `REWRITE` says what to do instead"),
    ("copy", "`DB` of its own database alone"),
    ("dbsize", "of the database, by all protocols"),
    ("debug", "`SLEEP`, which delays no other client, with `commands.debug`"),
    (
        "exec",
        "an answer that would bring all of them above 64 MiB is an error in its place, and its command is not executed",
    ),
    ("expire", "times above 24 days to the second"),
    ("flushall", "at once, whatever the option; answers after the running background slice"),
    ("flushdb", "as `FLUSHALL`"),
    ("hexpire", "of no version compared with: the words of Redis 7.4"),
    ("hexpireat", "as `HEXPIRE`"),
    ("hexpiretime", "as `HEXPIRE`"),
    ("hgetall", "an answer longer than 64 MiB is refused: ask for a part"),
    ("hgetdel", "as `HEXPIRE`"),
    ("hgetex", "as `HEXPIRE`"),
    ("hincrbyfloat", "as `INCRBYFLOAT`"),
    (
        "hotkeys",
        "not in Redis: `HOTKEYS [keys | big | missed | prefixes | missed-prefixes] [COUNT n] [MINUTES n]`, of the last \
         so many whole minutes and the one that is not over; 1 and 10 of each unless said; each with its amount and \
         its namespace; see `docs/admin.md`",
    ),
    ("hpersist", "as `HEXPIRE`"),
    ("hpexpire", "as `HEXPIRE`"),
    ("hpexpireat", "as `HEXPIRE`"),
    ("hpexpiretime", "as `HEXPIRE`"),
    ("hpttl", "as `HEXPIRE`"),
    ("hrandfield", "several different ones come in their order"),
    ("hscan", "hashes of more than 128 fields are returned in the order of the names' hashes"),
    ("hset", "a field and its value have an eighth of a segment at most"),
    ("hsetex", "as `HEXPIRE`"),
    ("httl", "as `HEXPIRE`"),
    ("incrbyfloat", "sums of 64-bit doubles, in the fewest digits that tell them apart; Redis has 80 bits"),
    ("info", "the sections Server, Clients, Memory, Stats, Replication, Keyspace, and where asked for Namespaces"),
    ("keys", "others are served meanwhile, so it is no picture of one instant; 1,048,576 keys and 64 MiB at most"),
    (
        "latency",
        "`EXPLAIN` too: p50, p99, p999 and the maximum of waiting, execution and sending; `HISTOGRAM` by \
         kind of request, as in the metrics; the one event of `LATEST`, `HISTORY` and `RESET` is \
         `command`, what `SLOWLOG` has; `DOCTOR`",
    ),
    ("lease.get", "not in Redis: see below"),
    ("lease.set", "not in Redis: see below"),
    ("lease.stale", "not in Redis: see below"),
    ("memory", "`USAGE`, with its slot in the index, `STATS`, `DOCTOR`, `PURGE`"),
    ("monitor", "commands of clients of Redis, to the millisecond; those with secrets are left out; 64 at once"),
    ("multi", "at most 64 MiB a connection, and what client memory has for all"),
    ("object", "`ENCODING`, `IDLETIME`, `REFCOUNT`"),
    ("pexpire", "times above 24 days to the second"),
    ("pexpireat", "times above 24 days to the second"),
    ("psetex", "times above 24 days to the second"),
    ("pubsub", "no `HELP`"),
    ("rec.add", "not in Redis: `docs/protocol/records.md`"),
    ("rec.append", "not in Redis: `docs/protocol/records.md`"),
    ("rec.del", "not in Redis: `docs/protocol/records.md`"),
    ("rec.exists", "not in Redis: `docs/protocol/records.md`"),
    ("rec.get", "not in Redis: `docs/protocol/records.md`"),
    ("rec.index", "not in Redis: `docs/protocol/records.md`"),
    ("rec.mget", "not in Redis: `docs/protocol/records.md`"),
    ("rec.mput", "not in Redis: `docs/protocol/records.md`"),
    ("rec.operate", "not in Redis: `docs/protocol/records.md`"),
    ("rec.put", "not in Redis: `docs/protocol/records.md`"),
    ("rec.query", "not in Redis: `docs/protocol/records.md`"),
    ("rec.scan", "not in Redis: `docs/protocol/records.md`"),
    ("rec.sets", "not in Redis: `docs/protocol/records.md`"),
    ("rec.touch", "not in Redis: `docs/protocol/records.md`"),
    ("rec.truncate", "not in Redis: `docs/protocol/records.md`"),
    ("role", "a first without replicas"),
    ("scan", "a cursor is a place in the order of hashes: keys that remain are returned, whatever the index does"),
    ("select", "0 to 15, and the names of namespaces"),
    ("set", "with `IFEQ value` too"),
    (
        "slowlog",
        "`GET`, `LEN`, `RESET`; requests of all protocols, the last 64 of each worker; the last word of an \
         entry says how long it waited, was executed and took to send; 48 bytes of the words before that",
    ),
    ("spublish", "one node has all slots"),
    ("ssubscribe", "one node has all slots"),
    ("subscribe", "a client may be subscribed to 100,000 names"),
    ("sunsubscribe", "one node has all slots"),
    ("unlink", "as `DEL`: a value is never freed while a client waits"),
    ("wait", "0 at once: there are none"),
    ("watch", "4096 keys at most; see [consistency.md](consistency.md) on keys that are not there"),
];

/// The commands of Redis 7.2 that are not supported, by name.
#[rustfmt::skip]
pub const ABSENT: &[Absent] = &[
    absent("asking", 1, "cluster", NotYet("clusters")),
    absent("bgrewriteaof", 1, "server", No("nothing is written to a disk")),
    absent("bgsave", -1, "server", No("nothing is written to a disk")),
    absent("bitcount", -2, "bitmap", NotYet("bitmaps")),
    absent("bitfield", -2, "bitmap", NotYet("bitmaps")),
    absent("bitfield_ro", -2, "bitmap", NotYet("bitmaps")),
    absent("bitop", -4, "bitmap", NotYet("bitmaps")),
    absent("bitpos", -3, "bitmap", NotYet("bitmaps")),
    absent("blmove", 6, "list", NotYet("lists")),
    absent("blmpop", -5, "list", NotYet("lists")),
    absent("blpop", -3, "list", NotYet("lists")),
    absent("brpop", -3, "list", NotYet("lists")),
    absent("brpoplpush", 4, "list", NotYet("lists")),
    absent("bzmpop", -5, "sorted-set", NotYet("sorted sets")),
    absent("bzpopmax", -3, "sorted-set", NotYet("sorted sets")),
    absent("bzpopmin", -3, "sorted-set", NotYet("sorted sets")),
    absent("cluster", -2, "cluster", NotYet("clusters")),
    absent("dump", 2, "generic", NotYet("values in the format of Redis")),
    absent("eval", -3, "scripting", NotYet("scripts")),
    absent("eval_ro", -3, "scripting", NotYet("scripts")),
    absent("evalsha", -3, "scripting", NotYet("scripts")),
    absent("evalsha_ro", -3, "scripting", NotYet("scripts")),
    absent("failover", -1, "server", No("there are no replicas")),
    absent("fcall", -3, "scripting", NotYet("scripts")),
    absent("fcall_ro", -3, "scripting", NotYet("scripts")),
    absent("function", -2, "scripting", NotYet("scripts")),
    absent("geoadd", -5, "geo", NotYet("sorted sets")),
    absent("geodist", -4, "geo", NotYet("sorted sets")),
    absent("geohash", -2, "geo", NotYet("sorted sets")),
    absent("geopos", -2, "geo", NotYet("sorted sets")),
    absent("georadius", -6, "geo", NotYet("sorted sets")),
    absent("georadius_ro", -6, "geo", NotYet("sorted sets")),
    absent("georadiusbymember", -5, "geo", NotYet("sorted sets")),
    absent("georadiusbymember_ro", -5, "geo", NotYet("sorted sets")),
    absent("geosearch", -7, "geo", NotYet("sorted sets")),
    absent("geosearchstore", -8, "geo", NotYet("sorted sets")),
    absent("getbit", 3, "bitmap", NotYet("bitmaps")),
    absent("lastsave", 1, "server", No("nothing is written to a disk")),
    absent("lcs", -3, "string", NotYet("the longest common part of two values")),
    absent("lindex", 3, "list", NotYet("lists")),
    absent("linsert", 5, "list", NotYet("lists")),
    absent("llen", 2, "list", NotYet("lists")),
    absent("lmove", 5, "list", NotYet("lists")),
    absent("lmpop", -4, "list", NotYet("lists")),
    absent("lolwut", -1, "server", No("it draws pictures")),
    absent("lpop", -2, "list", NotYet("lists")),
    absent("lpos", -3, "list", NotYet("lists")),
    absent("lpush", -3, "list", NotYet("lists")),
    absent("lpushx", -3, "list", NotYet("lists")),
    absent("lrange", 4, "list", NotYet("lists")),
    absent("lrem", 4, "list", NotYet("lists")),
    absent("lset", 4, "list", NotYet("lists")),
    absent("ltrim", 4, "list", NotYet("lists")),
    absent("migrate", -6, "generic", NotYet("values in the format of Redis")),
    absent("module", -2, "server", No("modules are code of another server")),
    absent("move", 3, "generic", No("databases have their memory apart")),
    absent("pfadd", -2, "hyperloglog", NotYet("HyperLogLog")),
    absent("pfcount", -2, "hyperloglog", NotYet("HyperLogLog")),
    absent("pfdebug", 3, "hyperloglog", No("it looks into the insides of another server")),
    absent("pfmerge", -2, "hyperloglog", NotYet("HyperLogLog")),
    absent("pfselftest", 1, "hyperloglog", No("it tests another server")),
    absent("psync", -3, "server", No("there are no replicas")),
    absent("readonly", 1, "cluster", NotYet("clusters")),
    absent("readwrite", 1, "cluster", NotYet("clusters")),
    absent("replconf", -1, "server", No("there are no replicas")),
    absent("replicaof", 3, "server", No("there are no replicas")),
    absent("restore", -4, "generic", NotYet("values in the format of Redis")),
    absent("restore-asking", -4, "server", NotYet("clusters")),
    absent("rpop", -2, "list", NotYet("lists")),
    absent("rpoplpush", 3, "list", NotYet("lists")),
    absent("rpush", -3, "list", NotYet("lists")),
    absent("rpushx", -3, "list", NotYet("lists")),
    absent("sadd", -3, "set", NotYet("sets")),
    absent("save", 1, "server", No("nothing is written to a disk")),
    absent("scard", 2, "set", NotYet("sets")),
    absent("script", -2, "scripting", NotYet("scripts")),
    absent("sdiff", -2, "set", NotYet("sets")),
    absent("sdiffstore", -3, "set", NotYet("sets")),
    absent("setbit", 4, "bitmap", NotYet("bitmaps")),
    absent("shutdown", -1, "server", No("a signal or the admin port ends the server")),
    absent("sinter", -2, "set", NotYet("sets")),
    absent("sintercard", -3, "set", NotYet("sets")),
    absent("sinterstore", -3, "set", NotYet("sets")),
    absent("sismember", 3, "set", NotYet("sets")),
    absent("slaveof", 3, "server", No("there are no replicas")),
    absent("smembers", 2, "set", NotYet("sets")),
    absent("smismember", -3, "set", NotYet("sets")),
    absent("smove", 4, "set", NotYet("sets")),
    absent("sort", -2, "generic", NotYet("lists")),
    absent("sort_ro", -2, "generic", NotYet("lists")),
    absent("spop", -2, "set", NotYet("sets")),
    absent("srandmember", -2, "set", NotYet("sets")),
    absent("srem", -3, "set", NotYet("sets")),
    absent("sscan", -3, "set", NotYet("sets")),
    absent("substr", 4, "string", No("`GETRANGE` is its later name")),
    absent("sunion", -2, "set", NotYet("sets")),
    absent("sunionstore", -3, "set", NotYet("sets")),
    absent("swapdb", 3, "server", No("databases have their memory apart")),
    absent("sync", 1, "server", No("there are no replicas")),
    absent("waitaof", 4, "generic", No("nothing is written to a disk")),
    absent("xack", -4, "stream", NotYet("streams")),
    absent("xadd", -5, "stream", NotYet("streams")),
    absent("xautoclaim", -6, "stream", NotYet("streams")),
    absent("xclaim", -6, "stream", NotYet("streams")),
    absent("xdel", -3, "stream", NotYet("streams")),
    absent("xgroup", -2, "stream", NotYet("streams")),
    absent("xinfo", -2, "stream", NotYet("streams")),
    absent("xlen", 2, "stream", NotYet("streams")),
    absent("xpending", -3, "stream", NotYet("streams")),
    absent("xrange", -4, "stream", NotYet("streams")),
    absent("xread", -4, "stream", NotYet("streams")),
    absent("xreadgroup", -7, "stream", NotYet("streams")),
    absent("xrevrange", -4, "stream", NotYet("streams")),
    absent("xsetid", -3, "stream", NotYet("streams")),
    absent("xtrim", -4, "stream", NotYet("streams")),
    absent("zadd", -4, "sorted-set", NotYet("sorted sets")),
    absent("zcard", 2, "sorted-set", NotYet("sorted sets")),
    absent("zcount", 4, "sorted-set", NotYet("sorted sets")),
    absent("zdiff", -3, "sorted-set", NotYet("sorted sets")),
    absent("zdiffstore", -4, "sorted-set", NotYet("sorted sets")),
    absent("zincrby", 4, "sorted-set", NotYet("sorted sets")),
    absent("zinter", -3, "sorted-set", NotYet("sorted sets")),
    absent("zintercard", -3, "sorted-set", NotYet("sorted sets")),
    absent("zinterstore", -4, "sorted-set", NotYet("sorted sets")),
    absent("zlexcount", 4, "sorted-set", NotYet("sorted sets")),
    absent("zmpop", -4, "sorted-set", NotYet("sorted sets")),
    absent("zmscore", -3, "sorted-set", NotYet("sorted sets")),
    absent("zpopmax", -2, "sorted-set", NotYet("sorted sets")),
    absent("zpopmin", -2, "sorted-set", NotYet("sorted sets")),
    absent("zrandmember", -2, "sorted-set", NotYet("sorted sets")),
    absent("zrange", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrangebylex", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrangebyscore", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrangestore", -5, "sorted-set", NotYet("sorted sets")),
    absent("zrank", 3, "sorted-set", NotYet("sorted sets")),
    absent("zrem", -3, "sorted-set", NotYet("sorted sets")),
    absent("zremrangebylex", 4, "sorted-set", NotYet("sorted sets")),
    absent("zremrangebyrank", 4, "sorted-set", NotYet("sorted sets")),
    absent("zremrangebyscore", 4, "sorted-set", NotYet("sorted sets")),
    absent("zrevrange", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrevrangebylex", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrevrangebyscore", -4, "sorted-set", NotYet("sorted sets")),
    absent("zrevrank", 3, "sorted-set", NotYet("sorted sets")),
    absent("zscan", -3, "sorted-set", NotYet("sorted sets")),
    absent("zscore", 3, "sorted-set", NotYet("sorted sets")),
    absent("zunion", -3, "sorted-set", NotYet("sorted sets")),
    absent("zunionstore", -4, "sorted-set", NotYet("sorted sets")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::catalog::find;

    #[test]
    fn commands_are_supported_or_absent_and_differences_are_of_supported_ones() {
        assert!(ABSENT.is_sorted_by(|a, b| a.name < b.name) && DIFFERENT.is_sorted_by(|a, b| a.0 < b.0));
        for absent in ABSENT {
            assert!(find(absent.name.as_bytes()).is_none(), "{}", absent.name);
            assert!(matches!(absent.why, NotYet(_) | No(_)), "{}", absent.name);
        }
        for (name, _) in DIFFERENT {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn every_command_of_redis_7_2_has_its_row() {
        // 7.2 has 241 commands. Commands of later versions and those that Redis does not have are not counted.
        let later = ["7.4.0", "8.0.0", ""];
        let here = COMMANDS.iter().filter(|entry| !later.contains(&entry.since)).count();
        assert_eq!(here + ABSENT.len(), 241);
    }
}
