//! The support of each Redis command: supported, with its differences from Redis, or not supported, with the reason.
//! [`super::catalog`] describes the supported commands. The table in `docs/protocol/resp.md` is generated from both
//! modules.

use super::catalog::{COMMANDS, CommandSpec};
use std::fmt::Write as _;

/// The degree to which a Redis command is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Supported, as in Redis.
    Yes,
    /// Supported, with this difference.
    Differs(&'static str),
    /// Not supported yet, because this feature is missing.
    NotYet(&'static str),
    /// Not supported, for this reason.
    No(&'static str),
}

use Support::{No, NotYet};

/// The missing feature of the commands for clusters. They have an error reply of their own.
pub(super) const CLUSTERS: &str = "clusters";

/// A Redis command that is not supported.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of words of a request, including the command's name. A negative number -n means n words or more.
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
    /// Returns the support of this command, which includes its difference from the Redis command, if there is one.
    pub fn support(&self) -> Support {
        let found = DIFFERENT.binary_search_by_key(&self.name, |(name, _)| name);
        found.map_or(Support::Yes, |at| Support::Differs(DIFFERENT[at].1))
    }
}

/// Returns the unsupported Redis command with this name, in upper or lower case.
pub(super) fn absent_of(name: &[u8]) -> Option<&'static Absent> {
    ABSENT.iter().find(|absent| absent.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns a table of commands as Markdown, in the order of their names: all supported commands, and the commands of
/// Redis 7.2 that are not supported.
pub fn page() -> String {
    let mut rows: Vec<(&str, i8, &str, &str, Support)> =
        COMMANDS.iter().map(|entry| (entry.name, entry.arity, entry.group, entry.summary, entry.support())).collect();
    rows.extend(ABSENT.iter().map(|absent| (absent.name, absent.arity, absent.group, "", absent.why)));
    rows.sort_unstable_by_key(|row| row.0);
    let mut page = String::from("| command | words | group | summary | support |\n|---|---|---|---|---|\n");
    for (name, arity, group, summary, support) in rows {
        let name = name.to_ascii_uppercase();
        let (word, text) = match support {
            Support::Yes => ("yes", ""),
            Support::Differs(how) => ("differs: ", how),
            NotYet(what) => ("not yet: ", what),
            No(why) => ("no: ", why),
        };
        // A bar would end the cell, even within a code span.
        let text = text.replace('|', "\\|");
        writeln!(page, "| `{name}` | {arity} | {group} | {summary} | {word}{text} |")
            .expect("text takes what is written");
    }
    page
}

const DUMPED: &str = "the payload is not compressed, and packed only if it is that of a stream; it has at most \
                      64 MiB; that of a hash whose fields expire is in the format of Redis 7.4";
const RESTORED: &str = "no values of modules; the request, and the value without compression unless it is a stream, \
                        have at most 64 MiB; `IDLETIME` and `FREQ` have no effect";

/// The precision of expiry times.
const LONG_TIMES: &str = "an expiry more than 24 days ahead is rounded down to 10 ms, and to a second above 388 days";

/// Differences of supported commands from Redis, in the order of the commands' names.
#[rustfmt::skip]
const DIFFERENT: &[(&str, &str)] = &[
    (
        "acl",
        "no selectors, and no rules on a first argument (`+select|0`); a user's command rules are \
         listed in the order in which they were given; the numbers of users, passwords and rules are limited; \
         `ns=NAME` and `allns` limit a user to namespaces, and `ops=N` to N requests per second",
    ),
    ("auth", "authenticates users of `ACL` and of `listen.auth_file`"),
    ("bitcount", "accepts a start without an end, as Valkey 8.1 does"),
    ("blmpop", "waits for at most 4096 keys"),
    ("blpop", "waits for at most 4096 keys"),
    ("brpop", "waits for at most 4096 keys"),
    ("bzmpop", "waits for at most 4096 keys"),
    ("bzpopmax", "waits for at most 4096 keys"),
    ("bzpopmin", "waits for at most 4096 keys"),
    ("cas.get", "not in Redis; see below"),
    ("cas.set", "not in Redis; see below"),
    (
        "client",
        "covers Redis clients only; `LIST` and `KILL` accept the filters of Valkey 9, of at most 1024 words; `CAPA` \
         and `IMPORT-SOURCE` have no effect; `TRACKING` reports changes in the databases that the client has used; \
         names have at most 64 bytes; \
         a `PAUSE` lasts a day at most; `cmd`, `idle` and the sizes of buffers of \
         other clients are at most two seconds old; after `REPLY OFF`, a `REPLY ON` in a transaction takes effect \
         after it",
    ),
    ("command", "`DOCS` has no history, and its texts are those of this table"),
    (
        "commandlog",
        "as in Valkey 8.1, with the entries of `SLOWLOG`; large requests and replies are not recorded, so their logs \
         are empty",
    ),
    (
        "config",
        "only `GET` and `SET`, for the parameters listed below, and `RESETSTAT`; `REWRITE` returns an error with \
         an alternative",
    ),
    ("copy", "`DB` also accepts the name of a namespace; a record of a set stays in its database"),
    ("dbsize", "includes keys stored by other protocols"),
    ("debug", "only `SLEEP`, if `commands.debug` is set; it delays no other client"),
    ("delex", "replies and errors are those of Redis 8.4; the request must fit into a buffer"),
    ("delifeq", "as in Valkey 9; the request must fit into a buffer"),
    ("dump", DUMPED),
    ("eval", "see [Scripts](#scripts)"),
    ("eval_ro", "see [Scripts](#scripts)"),
    ("evalsha", "see [Scripts](#scripts)"),
    ("evalsha_ro", "see [Scripts](#scripts)"),
    ("exec", "if a reply would bring the total above 64 MiB, its command is not executed and its reply is an error"),
    ("expire", LONG_TIMES),
    ("fcall", "see [Scripts](#scripts)"),
    ("fcall_ro", "see [Scripts](#scripts)"),
    ("flushall", "deletes at once with `SYNC` and `ASYNC` alike; replies after the current slice of background work"),
    ("flushdb", "as `FLUSHALL`"),
    (
        "function",
        "libraries have at most 1 MiB together; while a library is loaded, all globals exist, as in Redis 7.2",
    ),
    ("g.add", "not in Redis; see `docs/graph/README.md`"),
    ("g.archive", "not in Redis; see `docs/graph/README.md`"),
    ("g.compact", "not in Redis; see `docs/graph/README.md`"),
    ("g.count", "not in Redis; see `docs/graph/README.md`"),
    ("g.deg2", "not in Redis; see `docs/graph/README.md`"),
    ("g.del", "not in Redis; see `docs/graph/README.md`"),
    ("g.diff", "not in Redis; see `docs/graph/README.md`"),
    ("g.dist", "not in Redis; see `docs/graph/README.md`"),
    ("g.drop", "not in Redis; see `docs/graph/README.md`"),
    ("g.get", "not in Redis; see `docs/graph/README.md`"),
    ("g.inter", "not in Redis; see `docs/graph/README.md`"),
    ("g.load", "not in Redis; see `docs/graph/README.md`"),
    ("g.mutual", "not in Redis; see `docs/graph/README.md`"),
    ("g.node", "not in Redis; see `docs/graph/README.md`"),
    ("g.path", "not in Redis; see `docs/graph/README.md`"),
    ("g.query", "not in Redis; see `docs/graph/README.md`"),
    ("g.range", "not in Redis; see `docs/graph/README.md`"),
    ("g.restore", "not in Redis; see `docs/graph/README.md`"),
    ("g.segments", "not in Redis; see `docs/graph/README.md`"),
    ("g.snapshot", "not in Redis; see `docs/graph/README.md`"),
    ("g.stats", "not in Redis; see `docs/graph/README.md`"),
    ("g.suggest", "not in Redis; see `docs/graph/README.md`"),
    ("g.type", "not in Redis; see `docs/graph/README.md`"),
    ("g.union", "not in Redis; see `docs/graph/README.md`"),
    (
        "geosearch",
        "also accepts `BYPOLYGON` of Valkey 9, with at most 1024 corners and edges that are straight on a map from \
         -180 to 180 degrees",
    ),
    ("geosearchstore", "as `GEOSEARCH`"),
    ("hexpire", "replies and errors are those of Redis 7.4"),
    ("hexpireat", "as `HEXPIRE`"),
    ("hexpiretime", "as `HEXPIRE`"),
    ("hgetall", "a reply longer than 64 MiB is an error; read parts with `HSCAN`"),
    ("hgetdel", "as `HEXPIRE`"),
    ("hgetex", "as `HEXPIRE`"),
    ("hincrbyfloat", "as `INCRBYFLOAT`"),
    (
        "hotkeys",
        "not in Redis: `HOTKEYS [keys | big | missed | prefixes | missed-prefixes] [COUNT n] [MINUTES n]`; covers \
         the last `MINUTES` full minutes (default 1) and the current one; returns `COUNT` entries per kind \
         (default 10), each with its amount and namespace; see `docs/admin.md`",
    ),
    ("hpersist", "as `HEXPIRE`"),
    ("hpexpire", "as `HEXPIRE`"),
    ("hpexpireat", "as `HEXPIRE`"),
    ("hpexpiretime", "as `HEXPIRE`"),
    ("hpttl", "as `HEXPIRE`"),
    ("hrandfield", "several distinct fields are returned in the hash's order"),
    ("hscan", "fields of large hashes are returned in the order of their names' hash values"),
    ("hsetex", "as `HEXPIRE`, with `NX` and `XX` of Valkey 9.1"),
    ("httl", "as `HEXPIRE`"),
    (
        "incrbyfloat",
        "computes with 64-bit floating point instead of 80-bit; returns the shortest decimal that identifies the \
         result",
    ),
    (
        "info",
        "fields of features that the server lacks have the value that Redis reports while they are unused; no \
         `expired_stale_perc`: expired items leave with their segment, and are not sampled; figures of \
         the process and rates are up to one second old; also the sections Graph and Namespaces",
    ),
    (
        "keys",
        "other clients are served meanwhile, so the result is not a snapshot; returns at most 1,048,576 keys and \
         64 MiB",
    ),
    ("lastsave", "replies the time of the server's start, because nothing is saved to RDB files"),
    (
        "latency",
        "`EXPLAIN` returns p50, p99, p999 and the maximum of waiting, execution and sending; the quantiles of \
         `HISTOGRAM` and of `INFO latencystats` are exact to an eighth; `LATEST`, `HISTORY` and `RESET` know one \
         event, `command`: the requests of `SLOWLOG`",
    ),
    ("lease.get", "not in Redis; see below"),
    ("lease.set", "not in Redis; see below"),
    ("lease.stale", "not in Redis; see below"),
    (
        "memory",
        "`MALLOC-STATS` replies as Redis with an allocator without statistics; `USAGE` includes the slot in the index; \
         `STATS` also has `pubsub.bytes` and `maxmemory`",
    ),
    ("module", "`LIST` is empty, and there is no `LOAD`: modules are written for the Redis server"),
    (
        "monitor",
        "shows commands of Redis clients only, with the names of waiting commands and of those for scripts in lower \
         case; at most 64 monitors",
    ),
    ("move", "as `COPY`; copies the value, and needs room for the copy"),
    ("msetex", "replies and errors are those of Valkey 9.1; the request must fit into a buffer"),
    ("multi", "queues at most 64 MiB per connection, within `limits.client_memory`"),
    (
        "object",
        "`FREQ` counts up to 7 reads, and is greater for the hot keys of the last minute; `IDLETIME` records the \
         accesses to a key from its first call for the key on: before, it is the age of the key's segment; `ENCODING` \
         returns the encoding that Redis 7.0 gives to a new value of this content with its default limits: a hash \
         that was large and has become small is `listpack` again, and a short string that `APPEND` changed is `embstr`",
    ),
    ("pexpire", LONG_TIMES),
    ("pexpireat", LONG_TIMES),
    ("psetex", LONG_TIMES),
    ("rec.add", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.append", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.del", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.exists", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.get", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.index", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.mget", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.mput", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.operate", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.put", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.query", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.scan", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.sets", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.touch", "not in Redis; see `docs/protocol/records.md`"),
    ("rec.truncate", "not in Redis; see `docs/protocol/records.md`"),
    ("replicaof", "accepts `NO ONE` only, because there are no replicas"),
    ("restore", RESTORED),
    ("role", "reports no replicas; the role never changes"),
    (
        "scan",
        "a cursor is a position in the order of hashes: keys that exist throughout are returned, even if the index \
         grows",
    ),
    (
        "script",
        "`KILL` ends scripts at any time of their execution, unless they have written; no `DEBUG`; the cache has the \
         500 scripts of `EVAL` that were used last, and at most 10,000 scripts of `LOAD` with 64 MiB; `SHOW` as in \
         Valkey 8",
    ),
    ("select", "accepts 0 to 15, and names of namespaces"),
    ("set", "also accepts `IFEQ` of Valkey 8.1, and `IFNE`, `IFDEQ` and `IFDNE` of Redis 8.4"),
    (
        "setbit",
        "copies the value, or the piece with the bit if the value is stored in pieces (above a sixteenth of a \
         segment); such a value is copied when it grows, and in transactions with `--file`",
    ),
    ("slaveof", "accepts `NO ONE` only, because there are no replicas"),
    (
        "slowlog",
        "covers requests of all protocols, the last 128 per worker; the last \
         argument of an entry gives the times of waiting, execution and sending; the arguments before it are cut \
         to 48 bytes in all",
    ),
    (
        "sort",
        "reads the keys that `BY` and `GET` name one after another: other clients may change some of them meanwhile",
    ),
    ("sort_ro", "as `SORT`"),
    ("spublish", "all slots belong to this server"),
    ("ssubscribe", "all slots belong to this server"),
    ("subscribe", "a client may subscribe to at most 100,000 names"),
    ("sunsubscribe", "all slots belong to this server"),
    ("swapdb", "exchanges the numbers of two namespaces, see `docs/namespaces.md`; not in scripts"),
    ("unlink", "as `DEL`, which also frees memory in the background"),
    (
        "waitaof",
        "replies 0 and 0, after the timeout if replicas are requested; a wait for the own file is refused as in Redis \
         without an append-only file",
    ),
    ("watch", "at most 4096 keys; for missing keys see [consistency.md](consistency.md)"),
    ("xadd", "as `XTRIM`"),
    ("xinfo", "`radix-tree-keys` and `radix-tree-nodes` are computed from the number of entries"),
    ("xread", "`+` stands for the last entry, as in Redis 7.4"),
    ("xreadgroup", "delivers at most 32 MiB"),
    ("xtrim", "with `~`, removes whole groups of `stream-node-max-entries` entries, counted from the first ever added"),
];

/// The reason why no command saves data.
const NO_SAVES: &str = "there are no RDB and AOF files; with `--file` every acknowledged write is in that file, and \
                        `--checkpoint` flushes it to its disk";

/// The commands of Redis 7.2 that are not supported, in the order of their names.
#[rustfmt::skip]
pub const ABSENT: &[Absent] = &[
    absent("asking", 1, "cluster", NotYet(CLUSTERS)),
    absent("bgrewriteaof", 1, "server", No(NO_SAVES)),
    absent("bgsave", -1, "server", No(NO_SAVES)),
    absent("cluster", -2, "cluster", NotYet(CLUSTERS)),
    absent("clusterscan", -2, "cluster", NotYet(CLUSTERS)),
    absent("failover", -1, "server", No("there are no replicas")),
    absent("lolwut", -1, "server", No("it only draws pictures")),
    absent("migrate", -6, "generic", NotYet("connections to other servers")),
    absent("psync", -3, "server", No("there are no replicas")),
    absent("readonly", 1, "cluster", NotYet(CLUSTERS)),
    absent("readwrite", 1, "cluster", NotYet(CLUSTERS)),
    absent("replconf", -1, "server", No("there are no replicas")),
    absent("restore-asking", -4, "server", NotYet(CLUSTERS)),
    absent("save", 1, "server", No(NO_SAVES)),
    absent("shutdown", -1, "server", No("stop the server with a signal or through the admin port")),
    absent("sync", 1, "server", No("there are no replicas")),
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
        // Redis 7.2 has 241 commands. Commands of later versions, and commands that Redis does not have, are not
        // counted.
        let later = ["7.4.0", "8.0.0", "8.1.0", "8.4.0", "9.0.0", ""];
        let here = COMMANDS.iter().filter(|entry| !later.contains(&entry.since)).count();
        let later = ABSENT.iter().filter(|absent| absent.name == "clusterscan").count();
        assert_eq!(here + ABSENT.len() - later, 241);
    }
}
