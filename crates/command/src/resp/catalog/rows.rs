//! The rows of the catalog, in the order of their names.

use super::CommandSpec;
use super::Flag::{
    Admin, AllowBusy, Blocking, DenyOom, Fast, Loading, MovableKeys, NoAsyncLoading, NoAuth, NoMandatoryKeys, NoScript,
    PubSub, ReadOnly, SkipMonitor, SkipSlowlog, Stale, Write,
};
use crate::metrics::Command;
use crate::resp::subcommands::is_container;

macro_rules! entry {
    ($name:literal $arity:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal) [$($category:literal)*]
     $since:literal $group:literal $complexity:literal $kind:ident, $summary:literal) => {
        CommandSpec {
            name: $name,
            arity: $arity,
            flags: &[$($flag),*],
            keys: ($first, $last, $step),
            categories: &[$($category),*],
            since: $since,
            group: $group,
            complexity: $complexity,
            summary: $summary,
            kind: Command::$kind,
            number: 0,
            arity_without_part: if is_container($name) { 0 } else { $arity },
        }
    };
}

/// The number of commands.
pub(in crate::resp) const COMMAND_COUNT: usize = 288;

/// The rows of [`super::COMMANDS`].
#[rustfmt::skip]
pub(super) static ROWS: [CommandSpec; COMMAND_COUNT] = [
    entry!("acl" -2 [Admin NoScript Loading Stale] (0 0 0) ["slow"]
           "6.0.0" "server" "O(N) where N is the number of users" Other,
           "Manages users and their rights, and lists refused requests"),
    entry!("append" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "2.0.0" "string" "O(N) where N is the length of the value" Append,
           "Appends bytes to a value. Creates the key if it does not exist"),
    entry!("auth" -2 [NoScript NoAuth Loading Stale Fast AllowBusy] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(N) where N is the number of users" Other,
           "Authenticates the connection"),
    entry!("bitcount" -2 [ReadOnly] (1 1 1) ["read" "bitmap" "slow"]
           "2.6.0" "bitmap" "O(N) where N is the number of bytes" Get,
           "Counts the bits that are 1 in a string"),
    entry!("bitfield" -2 [Write DenyOom] (1 1 1) ["write" "bitmap" "slow"]
           "3.2.0" "bitmap" "O(1) for each operation" Set,
           "Reads, stores and increments integers of any width in a string"),
    entry!("bitfield_ro" -2 [ReadOnly Fast] (1 1 1) ["read" "bitmap" "fast"]
           "6.0.0" "bitmap" "O(1) for each operation" Get,
           "Reads integers of any width in a string"),
    entry!("bitop" -4 [Write DenyOom] (2 -1 1) ["write" "bitmap" "slow"]
           "2.6.0" "bitmap" "O(N) where N is the number of bytes" Set,
           "Combines the bits of strings, and stores the result"),
    entry!("bitpos" -3 [ReadOnly] (1 1 1) ["read" "bitmap" "slow"]
           "2.8.7" "bitmap" "O(N) where N is the number of bytes" Get,
           "Finds the first bit that is 0 or 1 in a string"),
    entry!("blmove" 6 [Write DenyOom NoScript Blocking] (1 2 1) ["write" "list" "slow" "blocking"]
           "6.2.0" "list" "O(1)" Set,
           "Moves an element from an end of one list to an end of another. Waits if there is none"),
    entry!("blmpop" -5 [Write Blocking MovableKeys] (3 -128 1) ["write" "list" "slow" "blocking"]
           "7.0.0" "list" "O(N+M) where N is the number of keys given and M that of returned elements" Delete,
           "Removes elements from the first of several lists that exists and returns them. Waits if none exists"),
    entry!("blpop" -3 [Write NoScript Blocking] (1 -2 1) ["write" "list" "slow" "blocking"]
           "2.0.0" "list" "O(N) where N is the number of keys" Delete,
           "Removes and returns the first element of the first list that exists. Waits if none exists"),
    entry!("brpop" -3 [Write NoScript Blocking] (1 -2 1) ["write" "list" "slow" "blocking"]
           "2.0.0" "list" "O(N) where N is the number of keys" Delete,
           "Removes and returns the last element of the first list that exists. Waits if none exists"),
    entry!("brpoplpush" 4 [Write DenyOom NoScript Blocking] (1 2 1) ["write" "list" "slow" "blocking"]
           "2.2.0" "list" "O(1)" Set,
           "Moves the last element of a list to the beginning of another. Waits if there is none"),
    entry!("bzmpop" -5 [Write Blocking MovableKeys] (3 -128 1) ["write" "sortedset" "slow" "blocking"]
           "7.0.0" "sorted-set" "O(K + M*log(N)) where K is the number of keys, N of elements, M of pops" Delete,
           "Removes elements from the first of several sorted sets that exists and returns them. Waits if none exists"),
    entry!("bzpopmax" -3 [Write NoScript Blocking Fast] (1 -2 1) ["write" "sortedset" "fast" "blocking"]
           "5.0.0" "sorted-set" "O(log(N)) where N is the number of elements" Delete,
           "Removes and returns the highest element of the first sorted set that exists. Waits if none exists"),
    entry!("bzpopmin" -3 [Write NoScript Blocking Fast] (1 -2 1) ["write" "sortedset" "fast" "blocking"]
           "5.0.0" "sorted-set" "O(log(N)) where N is the number of elements" Delete,
           "Removes and returns the lowest element of the first sorted set that exists. Waits if none exists"),
    entry!("cas.get" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "" "string" "O(1)" Gets,
           "Reads a value and its CAS token"),
    entry!("cas.set" -4 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Cas,
           "Stores a value if the given CAS token is current"),
    entry!("client" -2 [Loading Stale] (0 0 0) ["slow"]
           "2.4.0" "connection" "O(1)" Other,
           "Reports on client connections, and controls them"),
    entry!("command" -1 [Loading Stale] (0 0 0) ["slow" "connection"]
           "2.8.13" "server" "O(N) where N is the number of commands" Other,
           "Returns information about commands"),
    entry!("commandlog" -2 [Admin Loading Stale] (0 0 0) ["slow"]
           "8.1.0" "server" "O(N) where N is the number of entries" Other,
           "Returns the entries of a log of slow or large requests"),
    entry!("config" -2 [Admin Loading Stale] (0 0 0) ["slow"]
           "2.0.0" "server" "O(N) where N is the number of settings" Other,
           "Returns configuration parameters, and changes them"),
    entry!("copy" -3 [Write DenyOom] (1 2 1) ["keyspace" "write" "slow"]
           "6.2.0" "generic" "O(N) where N is the length of the value" Set,
           "Copies the value of a key to another key"),
    entry!("dbsize" 1 [ReadOnly Fast] (0 0 0) ["keyspace" "read" "fast"]
           "1.0.0" "server" "O(1)" Other,
           "Returns the number of keys in the database"),
    entry!("debug" -2 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other,
           "Helps to test the server, if a setting allows it"),
    entry!("decr" 2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Decr,
           "Decrements the integer value of a key by one"),
    entry!("decrby" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Decr,
           "Decrements the integer value of a key by a number"),
    entry!("del" -2 [Write] (1 -1 1) ["keyspace" "write" "slow"]
           "1.0.0" "generic" "O(N) where N is the number of keys" Delete,
           "Deletes keys"),
    entry!("delex" -2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "8.4.0" "string" "O(N) where N is the length of the value" Delete,
           "Deletes a key, optionally only if its value or the digest of its value meets a condition"),
    entry!("delifeq" 3 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "9.0.0" "string" "O(N) where N is the length of the value" Delete,
           "Deletes a key if it has the given value"),
    entry!("digest" 2 [ReadOnly] (1 1 1) ["read" "string" "slow"]
           "8.4.0" "string" "O(N) where N is the length of the value" Get,
           "Returns the XXH3 digest of a value in hexadecimal digits"),
    entry!("discard" 1 [NoScript Loading Stale Fast AllowBusy] (0 0 0) ["fast" "transaction"]
           "2.0.0" "transactions" "O(N) where N is the number of queued commands" Other,
           "Discards the queued commands of a transaction"),
    entry!("dump" 2 [ReadOnly] (1 1 1) ["keyspace" "read" "slow"]
           "2.6.0" "generic" "O(N) where N is the length of the value" Get,
           "Returns a serialised form of a value, which `RESTORE` stores"),
    entry!("echo" 2 [Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other,
           "Returns its argument"),
    entry!("eval" -3 [NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1) ["slow" "scripting"]
           "2.6.0" "scripting" "Depends on the script that is executed" Other,
           "Executes a Lua script"),
    entry!("eval_ro" -3 [ReadOnly NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1)
           ["slow" "scripting"]
           "7.0.0" "scripting" "Depends on the script that is executed" Other,
           "Executes a Lua script that does not write"),
    entry!("evalsha" -3 [NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1) ["slow" "scripting"]
           "2.6.0" "scripting" "Depends on the script that is executed" Other,
           "Executes a cached Lua script, named by its SHA-1 digest"),
    entry!("evalsha_ro" -3 [ReadOnly NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1)
           ["slow" "scripting"]
           "7.0.0" "scripting" "Depends on the script that is executed" Other,
           "Executes a cached Lua script that does not write, named by its SHA-1 digest"),
    entry!("exec" 1 [NoScript Loading Stale SkipSlowlog] (0 0 0) ["slow" "transaction"]
           "1.2.0" "transactions" "O(N) where N is the number of queued commands" Other,
           "Executes the queued commands of a transaction"),
    entry!("exists" -2 [ReadOnly Fast] (1 -1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(N) where N is the number of keys" Get,
           "Returns how many of the keys exist"),
    entry!("expire" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "1.0.0" "generic" "O(1)" Touch,
           "Sets the time to live of a key, in seconds"),
    entry!("expireat" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "1.2.0" "generic" "O(1)" Touch,
           "Sets the expiry time of a key, as a Unix timestamp in seconds"),
    entry!("expiretime" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "7.0.0" "generic" "O(1)" Other,
           "Returns the expiry time of a key, as a Unix timestamp in seconds"),
    entry!("fcall" -3 [NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1) ["slow" "scripting"]
           "7.0.0" "scripting" "Depends on the function that is executed" Other,
           "Calls a function"),
    entry!("fcall_ro" -3 [ReadOnly NoScript Stale SkipMonitor NoMandatoryKeys MovableKeys] (3 -128 1)
           ["slow" "scripting"]
           "7.0.0" "scripting" "Depends on the function that is executed" Other,
           "Calls a function that does not write"),
    entry!("flushall" -1 [Write] (0 0 0) ["keyspace" "write" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Flush,
           "Deletes all keys of all databases"),
    entry!("flushdb" -1 [Write] (0 0 0) ["keyspace" "write" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Flush,
           "Deletes all keys of the database"),
    entry!("function" -2 [] (0 0 0) ["slow"]
           "7.0.0" "scripting" "Depends on the subcommand" Other,
           "Loads and lists libraries of functions, and ends functions in execution"),
    entry!("g.add" -5 [Write DenyOom NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges" GraphChange,
           "Adds edges to a graph"),
    entry!("g.archive" -5 [Write DenyOom NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges" GraphChange,
           "Hides edges of a graph until they are restored"),
    entry!("g.compact" 1 [Admin NoScript] (0 0 0) ["admin" "graph" "slow" "dangerous"]
           "" "graph" "O(1); the work is done in the background" Other,
           "Copies live records of graphs together in the background"),
    entry!("g.count" 4 [ReadOnly Fast NoScript] (1 1 1) ["read" "graph" "fast"]
           "" "graph" "O(1)" GraphEdge,
           "Returns the number of edges of a node"),
    entry!("g.deg2" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of all neighbours, at most the budget" GraphSecond,
           "Returns the nodes at distance 2, or their number"),
    entry!("g.del" -5 [Write NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges" GraphChange,
           "Removes edges from a graph"),
    entry!("g.diff" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of all lists" GraphPage,
           "Returns neighbours that are in the first list only"),
    entry!("g.dist" -5 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges near the nodes, at most the budget" GraphDistance,
           "Returns the distance from a node to each of a list of nodes"),
    entry!("g.drop" 2 [Write NoScript] (1 1 1) ["write" "graph" "slow" "dangerous"]
           "" "graph" "O(N) where N is the number of segments; the index is freed in the background" GraphChange,
           "Drops a graph with all its edge types, nodes and edges"),
    entry!("g.get" -5 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of destinations" GraphEdge,
           "Returns the state, time and attributes of edges"),
    entry!("g.inter" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of all lists" GraphPage,
           "Returns neighbours that are in all lists"),
    entry!("g.load" -5 [Write DenyOom NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges" GraphChange,
           "Adds the edges of a text to a graph in bulk"),
    entry!("g.mutual" -5 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of the shorter list" GraphPage,
           "Returns the common neighbours of two nodes"),
    entry!("g.node" -2 [Write DenyOom NoScript] (2 2 1) ["slow"]
           "" "graph" "Depends on the subcommand" GraphEdge,
           "Stores objects of nodes, and archives nodes"),
    entry!("g.path" -5 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges near the nodes, at most the budget" GraphDistance,
           "Returns the shortest paths between two nodes"),
    entry!("g.query" -3 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "Depends on the queries" GraphPage,
           "Executes several queries of one graph"),
    entry!("g.range" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the length of the page; by time, of the list" GraphPage,
           "Returns a page of neighbours"),
    entry!("g.restore" -5 [Write DenyOom NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges" GraphChange,
           "Shows archived edges of a graph again"),
    entry!("g.segments" 1 [ReadOnly NoScript] (0 0 0) ["read" "admin" "graph" "slow" "dangerous"]
           "" "graph" "O(N) where N is the number of segments" Other,
           "Lists the segments of the graph store"),
    entry!("g.snapshot" 1 [Admin NoScript] (0 0 0) ["admin" "graph" "slow" "dangerous"]
           "" "graph" "O(N) where N is the number of changed pages" Other,
           "Waits until all changes of graphs are on the disk"),
    entry!("g.stats" -1 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of segments" Other,
           "Returns figures of the graph store, or of one graph"),
    entry!("g.suggest" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of all neighbours, at most the budget" GraphSecond,
           "Returns the nodes at distance 2 with the most common neighbours"),
    entry!("g.type" -3 [Write DenyOom NoScript] (1 1 1) ["write" "graph" "slow"]
           "" "graph" "O(1)" GraphChange,
           "Declares an edge type of a graph"),
    entry!("g.union" -4 [ReadOnly NoScript] (1 1 1) ["read" "graph" "slow"]
           "" "graph" "O(N) where N is the number of edges of all lists" GraphPage,
           "Returns neighbours that are in some list"),
    entry!("geoadd" -5 [Write DenyOom] (1 1 1) ["write" "geo" "slow"]
           "3.2.0" "geo" "O(log(N)) for each given element, where N is the number of elements" Set,
           "Adds elements with positions to a sorted set, or moves them"),
    entry!("geodist" -4 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "3.2.0" "geo" "O(1)" Get,
           "Returns the distance between two elements"),
    entry!("geohash" -2 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "3.2.0" "geo" "O(log(N)) for each given element, where N is the number of elements" MultiGet,
           "Returns the geohashes of elements as texts"),
    entry!("geopos" -2 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "3.2.0" "geo" "O(log(N)) for each given element, where N is the number of elements" MultiGet,
           "Returns the positions of elements"),
    entry!("georadius" -6 [Write DenyOom MovableKeys] (1 -127 1) ["write" "geo" "slow"]
           "3.2.0" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" Set,
           "Returns or stores the elements within a distance from a position"),
    entry!("georadius_ro" -6 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "3.2.10" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" MultiGet,
           "Returns the elements within a distance from a position"),
    entry!("georadiusbymember" -5 [Write DenyOom MovableKeys] (1 -127 1) ["write" "geo" "slow"]
           "3.2.0" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" Set,
           "Returns or stores the elements within a distance from an element"),
    entry!("georadiusbymember_ro" -5 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "3.2.10" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" MultiGet,
           "Returns the elements within a distance from an element"),
    entry!("geosearch" -7 [ReadOnly] (1 1 1) ["read" "geo" "slow"]
           "6.2.0" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" MultiGet,
           "Returns the elements in a circle or a box"),
    entry!("geosearchstore" -8 [Write DenyOom] (1 2 1) ["write" "geo" "slow"]
           "6.2.0" "geo" "O(N+log(M)) where N is the number of elements near the area and M that of all" Set,
           "Stores the elements in a circle or a box"),
    entry!("get" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "1.0.0" "string" "O(1)" Get,
           "Returns the value of a key"),
    entry!("getbit" 3 [ReadOnly Fast] (1 1 1) ["read" "bitmap" "fast"]
           "2.2.0" "bitmap" "O(1)" Get,
           "Returns a bit of a string"),
    entry!("getdel" 2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "6.2.0" "string" "O(1)" Delete,
           "Returns the value of a key and deletes the key"),
    entry!("getex" -2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "6.2.0" "string" "O(1)" Gat,
           "Returns the value of a key and sets its expiry time"),
    entry!("getrange" 4 [ReadOnly] (1 1 1) ["read" "string" "slow"]
           "2.4.0" "string" "O(N) where N is the length of the returned part" Get,
           "Returns a substring of a value"),
    entry!("getset" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Set,
           "Stores a value and returns the previous one"),
    entry!("hdel" -3 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Delete,
           "Deletes fields of a hash. Deletes the hash with its last field"),
    entry!("hello" -1 [NoScript NoAuth Loading Stale Fast AllowBusy] (0 0 0) ["fast" "connection"]
           "6.0.0" "connection" "O(1)" Other,
           "Selects the protocol version, and authenticates"),
    entry!("hexists" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Get,
           "Returns whether a field of a hash exists"),
    entry!("hexpire" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Touch,
           "Sets the time to live of hash fields, in seconds"),
    entry!("hexpireat" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Touch,
           "Sets the expiry time of hash fields, as a Unix timestamp in seconds"),
    entry!("hexpiretime" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Other,
           "Returns the expiry times of hash fields, as Unix timestamps in seconds"),
    entry!("hget" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Get,
           "Returns the value of a hash field"),
    entry!("hgetall" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) where N is the size of the hash" MultiGet,
           "Returns all fields and values of a hash"),
    entry!("hgetdel" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) where N is the number of fields given" Delete,
           "Returns the values of hash fields and deletes the fields"),
    entry!("hgetex" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) where N is the number of fields given" Gat,
           "Returns the values of hash fields and sets their expiry times"),
    entry!("hincrby" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Incr,
           "Increments the integer value of a hash field by a number"),
    entry!("hincrbyfloat" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.6.0" "hash" "O(N) where N is the number of fields given" Incr,
           "Increments the floating-point value of a hash field by a number"),
    entry!("hkeys" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) where N is the size of the hash" MultiGet,
           "Returns all field names of a hash"),
    entry!("hlen" 2 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(1)" Get,
           "Returns the number of fields of a hash"),
    entry!("hmget" -3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" MultiGet,
           "Returns the values of hash fields"),
    entry!("hmset" -4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Set,
           "Sets the values of hash fields"),
    entry!("hotkeys" -1 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "" "server" "O(N) where N is the number of minutes" Other,
           "Returns the keys and prefixes that are requested most, are largest, or miss most"),
    entry!("hpersist" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Touch,
           "Removes the expiry times of hash fields"),
    entry!("hpexpire" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Touch,
           "Sets the time to live of hash fields, in milliseconds"),
    entry!("hpexpireat" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Touch,
           "Sets the expiry time of hash fields, as a Unix timestamp in milliseconds"),
    entry!("hpexpiretime" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Other,
           "Returns the expiry times of hash fields, as Unix timestamps in milliseconds"),
    entry!("hpttl" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Other,
           "Returns the remaining times to live of hash fields, in milliseconds"),
    entry!("hrandfield" -2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "6.2.0" "hash" "O(N) where N is the size of the hash" Get,
           "Returns random fields of a hash"),
    entry!("hscan" -3 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.8.0" "hash" "O(N) where N is the size of the hash" Other,
           "Iterates over the fields and values of a hash"),
    entry!("hset" -4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Set,
           "Sets the values of hash fields, and returns the number of new fields"),
    entry!("hsetex" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) where N is the number of fields given" Set,
           "Sets the values of hash fields and their expiry times"),
    entry!("hsetnx" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) where N is the number of fields given" Add,
           "Sets the value of a hash field if the field does not exist"),
    entry!("hstrlen" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "3.2.0" "hash" "O(N) where N is the number of fields given" Get,
           "Returns the length of the value of a hash field"),
    entry!("httl" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) where N is the number of fields given" Other,
           "Returns the remaining times to live of hash fields, in seconds"),
    entry!("hvals" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) where N is the size of the hash" MultiGet,
           "Returns all values of a hash"),
    entry!("incr" 2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Incr,
           "Increments the integer value of a key by one"),
    entry!("incrby" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Incr,
           "Increments the integer value of a key by a number"),
    entry!("incrbyfloat" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "2.6.0" "string" "O(1)" Incr,
           "Increments the floating-point value of a key by a number"),
    entry!("info" -1 [Loading Stale] (0 0 0) ["slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other,
           "Returns information and statistics about the server"),
    entry!("keys" 2 [ReadOnly] (0 0 0) ["keyspace" "read" "slow" "dangerous"]
           "1.0.0" "generic" "O(N) where N is the number of keys" Other,
           "Returns all keys that match a pattern"),
    entry!("lastsave" 1 [Loading Stale Fast] (0 0 0) ["admin" "fast" "dangerous"]
           "1.0.0" "server" "O(1)" Other,
           "Returns the time of the last save, which is the server's start"),
    entry!("latency" -2 [Admin NoScript Loading Stale] (0 0 0) ["slow"]
           "2.8.13" "server" "O(N) where N is the number of entries" Other,
           "Returns the times of waiting, execution and sending of requests"),
    entry!("lcs" -3 [ReadOnly] (1 2 1) ["read" "string" "slow"]
           "7.0.0" "string" "O(N*M) where N and M are the lengths of the strings" Get,
           "Finds the longest common subsequence of two strings"),
    entry!("lease.get" -2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Gets,
           "Returns a value, or grants a lease to fill it"),
    entry!("lease.set" -4 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Cas,
           "Stores a value if the client holds the lease to fill it"),
    entry!("lease.stale" -2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Delete,
           "Marks a value stale: clients read it until one of them refills it"),
    entry!("lindex" 3 [ReadOnly] (1 1 1) ["read" "list" "slow"]
           "1.0.0" "list" "O(N) where N is the number of elements before the index" Get,
           "Returns the element at a position of a list"),
    entry!("linsert" 5 [Write DenyOom] (1 1 1) ["write" "list" "slow"]
           "2.2.0" "list" "O(N) where N is the number of elements before the pivot" Set,
           "Inserts an element before or after another one"),
    entry!("llen" 2 [ReadOnly Fast] (1 1 1) ["read" "list" "fast"]
           "1.0.0" "list" "O(1)" Get,
           "Returns the number of elements of a list"),
    entry!("lmove" 5 [Write DenyOom] (1 2 1) ["write" "list" "slow"]
           "6.2.0" "list" "O(1)" Set,
           "Moves an element from an end of one list to an end of another"),
    entry!("lmpop" -4 [Write MovableKeys] (2 -128 1) ["write" "list" "slow"]
           "7.0.0" "list" "O(N+M) where N is the number of keys given and M that of returned elements" Delete,
           "Removes elements from the first of several lists that exists and returns them"),
    entry!("lpop" -2 [Write Fast] (1 1 1) ["write" "list" "fast"]
           "1.0.0" "list" "O(N) where N is the number of returned elements" Delete,
           "Removes elements from the left end of a list and returns them"),
    entry!("lpos" -3 [ReadOnly] (1 1 1) ["read" "list" "slow"]
           "6.0.6" "list" "O(N) where N is the number of elements of the list" Get,
           "Returns the positions of equal elements in a list"),
    entry!("lpush" -3 [Write DenyOom Fast] (1 1 1) ["write" "list" "fast"]
           "1.0.0" "list" "O(N) where N is the number of elements given" Set,
           "Adds elements at the left end of a list"),
    entry!("lpushx" -3 [Write DenyOom Fast] (1 1 1) ["write" "list" "fast"]
           "2.2.0" "list" "O(N) where N is the number of elements given" Set,
           "Adds elements at the left end of a list that exists"),
    entry!("lrange" 4 [ReadOnly] (1 1 1) ["read" "list" "slow"]
           "1.0.0" "list" "O(log(S)+N) where S is the number of elements and N the number returned" MultiGet,
           "Returns a range of the elements of a list"),
    entry!("lrem" 4 [Write] (1 1 1) ["write" "list" "slow"]
           "1.0.0" "list" "O(N) where N is the number of elements of the list" Delete,
           "Removes equal elements from a list"),
    entry!("lset" 4 [Write DenyOom] (1 1 1) ["write" "list" "slow"]
           "1.0.0" "list" "O(log(N)) where N is the number of elements of the list" Set,
           "Replaces the element at a position of a list"),
    entry!("ltrim" 4 [Write] (1 1 1) ["write" "list" "slow"]
           "1.0.0" "list" "O(log(N)) where N is the number of elements of the list" Delete,
           "Removes all elements of a list outside a range"),
    entry!("memory" -2 [ReadOnly] (2 2 1) ["slow"]
           "4.0.0" "server" "O(1)" Other,
           "Reports memory usage of keys and of the server"),
    entry!("mget" -2 [ReadOnly Fast] (1 -1 1) ["read" "string" "fast"]
           "1.0.0" "string" "O(N) where N is the number of keys" MultiGet,
           "Returns the values of keys"),
    entry!("module" -2 [Admin NoScript] (0 0 0) ["slow"]
           "4.0.0" "server" "O(1)" Other,
           "Lists the modules, of which there are none"),
    entry!("monitor" 1 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other,
           "Streams every command as it is executed"),
    entry!("move" 3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "1.0.0" "generic" "O(N) where N is the length of the value" Set,
           "Moves a key to another database"),
    entry!("mset" -3 [Write DenyOom] (1 -1 2) ["write" "string" "slow"]
           "1.0.1" "string" "O(N) where N is the number of keys" Set,
           "Sets the values of keys"),
    entry!("msetex" -4 [Write DenyOom MovableKeys] (2 -128 2) ["write" "string" "slow"]
           "8.4.0" "string" "O(N) where N is the number of keys" Set,
           "Sets the values of several keys with one expiry time, if all of them exist or none does"),
    entry!("msetnx" -3 [Write DenyOom] (1 -1 2) ["write" "string" "slow"]
           "1.0.1" "string" "O(N) where N is the number of keys" Add,
           "Sets the values of keys if none of the keys exists"),
    entry!("multi" 1 [NoScript Loading Stale Fast AllowBusy] (0 0 0) ["fast" "transaction"]
           "1.2.0" "transactions" "O(1)" Other,
           "Starts a transaction: the commands that follow are queued"),
    entry!("object" -2 [ReadOnly] (2 2 1) ["slow"]
           "2.2.3" "generic" "O(1)" Other,
           "Reports how the value of a key is stored"),
    entry!("persist" 2 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.2.0" "generic" "O(1)" Touch,
           "Removes the expiry time of a key"),
    entry!("pexpire" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.6.0" "generic" "O(1)" Touch,
           "Sets the time to live of a key, in milliseconds"),
    entry!("pexpireat" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.6.0" "generic" "O(1)" Touch,
           "Sets the expiry time of a key, as a Unix timestamp in milliseconds"),
    entry!("pexpiretime" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "7.0.0" "generic" "O(1)" Other,
           "Returns the expiry time of a key, as a Unix timestamp in milliseconds"),
    entry!("pfadd" -2 [Write DenyOom Fast] (1 1 1) ["write" "hyperloglog" "fast"]
           "2.8.9" "hyperloglog" "O(1) for each element" Set,
           "Adds elements to a HyperLogLog. Creates the key if it does not exist"),
    entry!("pfcount" -2 [ReadOnly] (1 -1 1) ["read" "hyperloglog" "slow"]
           "2.8.9" "hyperloglog" "O(N) where N is the number of keys" Get,
           "Estimates the number of distinct elements of HyperLogLogs"),
    entry!("pfdebug" 3 [Write DenyOom Admin] (2 2 1) ["write" "hyperloglog" "admin" "slow" "dangerous"]
           "2.8.9" "hyperloglog" "O(1)" Other,
           "Shows the registers of a HyperLogLog, or converts them"),
    entry!("pfmerge" -2 [Write DenyOom] (1 -1 1) ["write" "hyperloglog" "slow"]
           "2.8.9" "hyperloglog" "O(N) where N is the number of keys" Set,
           "Merges HyperLogLogs into one"),
    entry!("pfselftest" 1 [Admin] (0 0 0) ["hyperloglog" "admin" "slow" "dangerous"]
           "2.8.9" "hyperloglog" "O(1)" Other,
           "Tests the implementation of HyperLogLogs"),
    entry!("ping" -1 [Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other,
           "Replies, so that a client can check the connection"),
    entry!("psetex" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.6.0" "string" "O(1)" Set,
           "Sets a key's value and its time to live, in milliseconds"),
    entry!("psubscribe" -2 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) where N is the number of patterns" Other,
           "Subscribes to channels whose names match a pattern"),
    entry!("pttl" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "2.6.0" "generic" "O(1)" Other,
           "Returns the remaining time to live of a key, in milliseconds"),
    entry!("publish" 3 [PubSub Loading Stale Fast] (0 0 0) ["pubsub" "fast"]
           "2.0.0" "pubsub" "O(N+M) where N is the number of subscribers and M of patterns" Other,
           "Publishes a message to a channel"),
    entry!("pubsub" -2 [PubSub Loading Stale] (0 0 0) ["slow"]
           "2.8.0" "pubsub" "O(N) where N is the number of channels" Other,
           "Reports channels and their numbers of subscribers"),
    entry!("punsubscribe" -1 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) where N is the number of patterns" Other,
           "Unsubscribes from patterns"),
    entry!("quit" -1 [NoScript NoAuth Loading Stale Fast AllowBusy] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other,
           "Closes the connection"),
    entry!("randomkey" 1 [ReadOnly] (0 0 0) ["keyspace" "read" "slow"]
           "1.0.0" "generic" "O(1)" Other,
           "Returns a random key"),
    entry!("rec.add" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Incr,
           "Increments numbers in bins of a record"),
    entry!("rec.append" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Append,
           "Appends bytes to bins of a record"),
    entry!("rec.del" -2 [Write] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Delete,
           "Deletes a record"),
    entry!("rec.exists" 2 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "" "hash" "O(N) where N is the size of the record" Get,
           "Returns the revision of a record, or 0 if it does not exist"),
    entry!("rec.get" -2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Get,
           "Returns a record, or some of its bins"),
    entry!("rec.index" -2 [Write] (0 0 0) ["write" "hash" "slow" "dangerous"]
           "" "hash" "O(N) where N is the number of keys" Other,
           "Creates, drops and lists secondary indexes of sets"),
    entry!("rec.mget" -3 [ReadOnly] (2 -1 1) ["read" "hash" "slow"]
           "" "hash" "O(N) where N is the number of keys and bins" MultiGet,
           "Returns records, or some of their bins, as one operation"),
    entry!("rec.mput" -4 [Write DenyOom] (2 -1 -1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the number of keys and bins" Set,
           "Sets bins of several records, as one operation"),
    entry!("rec.operate" -5 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Set,
           "Executes several operations on the bins of a record, as one operation"),
    entry!("rec.put" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Set,
           "Sets bins of a record"),
    entry!("rec.query" -5 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(log N + M) where N is the size of the index and M the number of records" Other,
           "Returns the records of a set whose indexed bin matches"),
    entry!("rec.scan" -3 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(N) where N is the number of keys visited" Other,
           "Iterates over the records of a set"),
    entry!("rec.sets" 1 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(N) where N is the number of sets and bins" Other,
           "Lists sets and their bins"),
    entry!("rec.touch" -2 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) where N is the size of the record" Touch,
           "Sets the time to live of a record"),
    entry!("rec.truncate" 2 [Write] (0 0 0) ["write" "hash" "slow" "dangerous"]
           "" "hash" "O(1); the records are deleted in the background" Flush,
           "Deletes all records of a record set"),
    entry!("rename" 3 [Write] (1 2 1) ["keyspace" "write" "slow"]
           "1.0.0" "generic" "O(N) where N is the length of the value" Set,
           "Renames a key, and overwrites the destination"),
    entry!("renamenx" 3 [Write Fast] (1 2 1) ["keyspace" "write" "fast"]
           "1.0.0" "generic" "O(N) where N is the length of the value" Set,
           "Renames a key if the destination does not exist"),
    entry!("replicaof" 3 [Admin NoScript Stale NoAsyncLoading] (0 0 0) ["admin" "slow" "dangerous"]
           "5.0.0" "server" "O(1)" Other,
           "Accepts `NO ONE` only, since the server is always a primary"),
    entry!("reset" 1 [NoScript NoAuth Loading Stale Fast AllowBusy] (0 0 0) ["fast" "connection"]
           "6.2.0" "connection" "O(1)" Other,
           "Resets the connection to its initial state"),
    entry!("restore" -4 [Write DenyOom] (1 1 1) ["keyspace" "write" "slow" "dangerous"]
           "2.6.0" "generic" "O(N) where N is the length of the value" Set,
           "Stores a value that `DUMP` has returned"),
    entry!("role" 1 [NoScript Loading Stale Fast] (0 0 0) ["admin" "fast" "dangerous"]
           "2.8.12" "server" "O(1)" Other,
           "Returns the replication role of the server"),
    entry!("rpop" -2 [Write Fast] (1 1 1) ["write" "list" "fast"]
           "1.0.0" "list" "O(N) where N is the number of returned elements" Delete,
           "Removes elements from the right end of a list and returns them"),
    entry!("rpoplpush" 3 [Write DenyOom] (1 2 1) ["write" "list" "slow"]
           "1.2.0" "list" "O(1)" Set,
           "Moves the last element of a list to the left end of another"),
    entry!("rpush" -3 [Write DenyOom Fast] (1 1 1) ["write" "list" "fast"]
           "1.0.0" "list" "O(N) where N is the number of elements given" Set,
           "Adds elements at the right end of a list"),
    entry!("rpushx" -3 [Write DenyOom Fast] (1 1 1) ["write" "list" "fast"]
           "2.2.0" "list" "O(N) where N is the number of elements given" Set,
           "Adds elements at the right end of a list that exists"),
    entry!("sadd" -3 [Write DenyOom Fast] (1 1 1) ["write" "set" "fast"]
           "1.0.0" "set" "O(N) where N is the number of elements given" Set,
           "Adds elements to a set"),
    entry!("scan" -2 [ReadOnly] (0 0 0) ["keyspace" "read" "slow"]
           "2.8.0" "generic" "O(1) per call" Other,
           "Iterates over the keys of the database"),
    entry!("scard" 2 [ReadOnly Fast] (1 1 1) ["read" "set" "fast"]
           "1.0.0" "set" "O(1)" Get,
           "Returns the number of elements of a set"),
    entry!("script" -2 [] (0 0 0) ["slow"]
           "2.6.0" "scripting" "Depends on the subcommand" Other,
           "Caches scripts, and ends scripts in execution"),
    entry!("sdiff" -2 [ReadOnly] (1 -1 1) ["read" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of elements of all sets" MultiGet,
           "Returns the elements of a set that no other set has"),
    entry!("sdiffstore" -3 [Write DenyOom] (1 -1 1) ["write" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of elements of all sets" Set,
           "Stores the elements of a set that no other set has"),
    entry!("select" 2 [Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other,
           "Selects a database, by number or by name"),
    entry!("set" -3 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "1.0.0" "string" "O(1)" Set,
           "Sets the value of a key"),
    entry!("setbit" 4 [Write DenyOom] (1 1 1) ["write" "bitmap" "slow"]
           "2.2.0" "bitmap" "O(N) where N is the length of the value" Set,
           "Sets or clears a bit of a string"),
    entry!("setex" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.0.0" "string" "O(1)" Set,
           "Sets a key's value and its time to live, in seconds"),
    entry!("setnx" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Add,
           "Sets the value of a key if the key does not exist"),
    entry!("setrange" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.2.0" "string" "O(N) where N is the length of the new value" Set,
           "Overwrites a part of a value from an offset on"),
    entry!("sinter" -2 [ReadOnly] (1 -1 1) ["read" "set" "slow"]
           "1.0.0" "set" "O(N*M) where N is the size of the smallest set and M the number of sets" MultiGet,
           "Returns the elements that all sets have"),
    entry!("sintercard" -3 [ReadOnly MovableKeys] (2 -128 1) ["read" "set" "slow"]
           "7.0.0" "set" "O(N*M) where N is the size of the smallest set and M the number of sets" Get,
           "Returns the number of elements that all sets have"),
    entry!("sinterstore" -3 [Write DenyOom] (1 -1 1) ["write" "set" "slow"]
           "1.0.0" "set" "O(N*M) where N is the size of the smallest set and M the number of sets" Set,
           "Stores the elements that all sets have"),
    entry!("sismember" 3 [ReadOnly Fast] (1 1 1) ["read" "set" "fast"]
           "1.0.0" "set" "O(1)" Get,
           "Returns whether a set has an element"),
    entry!("slaveof" 3 [Admin NoScript Stale NoAsyncLoading] (0 0 0) ["admin" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other,
           "Accepts `NO ONE` only, as `REPLICAOF` does"),
    entry!("slowlog" -2 [Admin Loading Stale] (0 0 0) ["slow"]
           "2.2.12" "server" "O(N) where N is the number of entries" Other,
           "Returns the slow log's entries"),
    entry!("smembers" 2 [ReadOnly] (1 1 1) ["read" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of elements" MultiGet,
           "Returns all elements of a set"),
    entry!("smismember" -3 [ReadOnly Fast] (1 1 1) ["read" "set" "fast"]
           "6.2.0" "set" "O(N) where N is the number of elements given" MultiGet,
           "Returns for each given element whether a set has it"),
    entry!("smove" 4 [Write Fast] (1 2 1) ["write" "set" "fast"]
           "1.0.0" "set" "O(1)" Set,
           "Moves an element from one set to another"),
    entry!("sort" -2 [Write DenyOom MovableKeys] (1 -127 1) ["write" "set" "sortedset" "list" "slow" "dangerous"]
           "1.0.0" "generic" "O(N*log(N)) where N is the number of elements" Set,
           "Sorts the elements of a list, set or sorted set, and returns or stores them"),
    entry!("sort_ro" -2 [ReadOnly MovableKeys] (1 1 1) ["read" "set" "sortedset" "list" "slow" "dangerous"]
           "7.0.0" "generic" "O(N*log(N)) where N is the number of elements" MultiGet,
           "Sorts the elements of a list, set or sorted set, and returns them"),
    entry!("spop" -2 [Write Fast] (1 1 1) ["write" "set" "fast"]
           "1.0.0" "set" "O(N) where N is the number of returned elements" Delete,
           "Removes elements that are chosen by chance from a set and returns them"),
    entry!("spublish" 3 [PubSub Loading Stale Fast] (1 1 1) ["pubsub" "fast"]
           "7.0.0" "pubsub" "O(N) where N is the number of subscribers" Other,
           "Publishes a message to a shard channel"),
    entry!("srandmember" -2 [ReadOnly] (1 1 1) ["read" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of returned elements" Get,
           "Returns elements of a set that are chosen by chance"),
    entry!("srem" -3 [Write Fast] (1 1 1) ["write" "set" "fast"]
           "1.0.0" "set" "O(N) where N is the number of elements given" Delete,
           "Removes elements from a set"),
    entry!("sscan" -3 [ReadOnly] (1 1 1) ["read" "set" "slow"]
           "2.8.0" "set" "O(1) per call" Other,
           "Iterates over the elements of a set"),
    entry!("ssubscribe" -2 [PubSub NoScript Loading Stale] (1 -1 1) ["pubsub" "slow"]
           "7.0.0" "pubsub" "O(N) where N is the number of channels" Other,
           "Subscribes to shard channels"),
    entry!("strlen" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "2.2.0" "string" "O(1)" Get,
           "Returns the length of a value"),
    entry!("subscribe" -2 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) where N is the number of channels" Other,
           "Subscribes to channels"),
    entry!("substr" 4 [ReadOnly] (1 1 1) ["read" "string" "slow"]
           "1.0.0" "string" "O(N) where N is the length of the returned part" Get,
           "Returns a substring of a value. GETRANGE replaces it"),
    entry!("sunion" -2 [ReadOnly] (1 -1 1) ["read" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of elements of all sets" MultiGet,
           "Returns the elements that at least one set has"),
    entry!("sunionstore" -3 [Write DenyOom] (1 -1 1) ["write" "set" "slow"]
           "1.0.0" "set" "O(N) where N is the number of elements of all sets" Set,
           "Stores the elements that at least one set has"),
    entry!("sunsubscribe" -1 [PubSub NoScript Loading Stale] (1 -1 1) ["pubsub" "slow"]
           "7.0.0" "pubsub" "O(N) where N is the number of channels" Other,
           "Unsubscribes from shard channels"),
    entry!("swapdb" 3 [Write Fast] (0 0 0) ["keyspace" "write" "fast" "dangerous"]
           "4.0.0" "server" "O(N) where N is the number of clients that wait in blocking commands" Other,
           "Exchanges the keys of two databases"),
    entry!("time" 1 [Loading Stale Fast] (0 0 0) ["fast"]
           "2.6.0" "server" "O(1)" Other,
           "Returns the server's time"),
    entry!("touch" -2 [ReadOnly Fast] (1 -1 1) ["keyspace" "read" "fast"]
           "3.2.1" "generic" "O(N) where N is the number of keys" Touch,
           "Returns how many of the keys exist, and counts as a read of them"),
    entry!("ttl" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(1)" Other,
           "Returns the remaining time to live of a key, in seconds"),
    entry!("type" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(1)" Other,
           "Returns the type of the value of a key"),
    entry!("unlink" -2 [Write Fast] (1 -1 1) ["keyspace" "write" "fast"]
           "4.0.0" "generic" "O(N) where N is the number of keys" Delete,
           "Deletes keys"),
    entry!("unsubscribe" -1 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) where N is the number of channels" Other,
           "Unsubscribes from channels"),
    entry!("unwatch" 1 [NoScript Loading Stale Fast AllowBusy] (0 0 0) ["fast" "transaction"]
           "2.2.0" "transactions" "O(1)" Other,
           "Discards the watched keys of the connection"),
    entry!("wait" 3 [NoScript] (0 0 0) ["slow" "connection"]
           "3.0.0" "generic" "O(1)" Other,
           "Returns the number of replicas that acknowledged earlier writes"),
    entry!("waitaof" 4 [Blocking] (0 0 0) ["slow" "blocking" "connection"]
           "7.2.0" "generic" "O(1)" Other,
           "Returns the numbers of servers whose files have earlier writes"),
    entry!("watch" -2 [NoScript Loading Stale Fast AllowBusy] (1 -1 1) ["fast" "transaction"]
           "2.2.0" "transactions" "O(1) per key" Other,
           "Watches keys: the next transaction is aborted if one of them changes"),
    entry!("xack" -4 [Write Fast] (1 1 1) ["write" "stream" "fast"]
           "5.0.0" "stream" "O(log(N)) for each identifier, where N is the number of pending entries" Delete,
           "Acknowledges entries that were delivered to a group"),
    entry!("xadd" -5 [Write DenyOom Fast] (1 1 1) ["write" "stream" "fast"]
           "5.0.0" "stream" "O(1) without a trim, else O(N) where N is the number of removed entries" Set,
           "Adds an entry to a stream. Creates the key if it does not exist"),
    entry!("xautoclaim" -6 [Write Fast] (1 1 1) ["write" "stream" "fast"]
           "6.2.0" "stream" "O(M*log(N)) where N is the number of pending entries and M the number examined" Set,
           "Gives pending entries that have waited for long to another consumer"),
    entry!("xclaim" -6 [Write Fast] (1 1 1) ["write" "stream" "fast"]
           "5.0.0" "stream" "O(log(N)) for each identifier, where N is the number of pending entries" Set,
           "Gives pending entries to another consumer"),
    entry!("xdel" -3 [Write Fast] (1 1 1) ["write" "stream" "fast"]
           "5.0.0" "stream" "O(log(N)) for each identifier, where N is the number of entries" Delete,
           "Deletes entries of a stream"),
    entry!("xgroup" -2 [Write] (2 2 1) ["slow"]
           "5.0.0" "stream" "O(1), or O(N) where N is the number of removed pending entries" Other,
           "Creates and removes groups of consumers"),
    entry!("xinfo" -2 [ReadOnly] (2 2 1) ["slow"]
           "5.0.0" "stream" "O(1)" Other,
           "Describes streams, their groups and consumers"),
    entry!("xlen" 2 [ReadOnly Fast] (1 1 1) ["read" "stream" "fast"]
           "5.0.0" "stream" "O(1)" Get,
           "Returns the number of entries of a stream"),
    entry!("xpending" -3 [ReadOnly] (1 1 1) ["read" "stream" "slow"]
           "5.0.0" "stream" "O(N) where N is the number of consumers or of examined entries" MultiGet,
           "Returns the entries that were delivered to a group and not acknowledged"),
    entry!("xrange" -4 [ReadOnly] (1 1 1) ["read" "stream" "slow"]
           "5.0.0" "stream" "O(log(N)+M) where N is the number of entries and M the number returned" MultiGet,
           "Returns the entries of a stream in an interval of identifiers"),
    entry!("xread" -4 [ReadOnly Blocking MovableKeys] (1 -126 1) ["read" "stream" "slow" "blocking"]
           "5.0.0" "stream" "O(log(N)+M) for each stream, where N is the number of entries and M the number returned"
           MultiGet, "Returns the entries of streams behind given identifiers"),
    entry!("xreadgroup" -7 [Write Blocking MovableKeys] (4 -126 1) ["write" "stream" "slow" "blocking"]
           "5.0.0" "stream" "O(M*log(N)) for each stream, where N is the number of entries and M the number returned"
           MultiGet, "Delivers entries of streams to a consumer of a group"),
    entry!("xrevrange" -4 [ReadOnly] (1 1 1) ["read" "stream" "slow"]
           "5.0.0" "stream" "O(log(N)+M) where N is the number of entries and M the number returned" MultiGet,
           "Returns the entries of a stream in an interval of identifiers, in reverse order"),
    entry!("xsetid" -3 [Write DenyOom Fast] (1 1 1) ["write" "stream" "fast"]
           "5.0.0" "stream" "O(1)" Set,
           "Sets the last identifier of a stream"),
    entry!("xtrim" -4 [Write] (1 1 1) ["write" "stream" "slow"]
           "5.0.0" "stream" "O(N) where N is the number of removed entries" Delete,
           "Removes the oldest entries of a stream"),
    entry!("zadd" -4 [Write DenyOom Fast] (1 1 1) ["write" "sortedset" "fast"]
           "1.2.0" "sorted-set" "O(log(N)) for each given element, where N is the number of elements" Set,
           "Adds elements to a sorted set, or changes their scores"),
    entry!("zcard" 2 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "1.2.0" "sorted-set" "O(1)" Get,
           "Returns the number of elements of a sorted set"),
    entry!("zcount" 4 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "2.0.0" "sorted-set" "O(log(N)) where N is the number of elements" Get,
           "Returns the number of elements of a sorted set with scores in an interval"),
    entry!("zdiff" -3 [ReadOnly MovableKeys] (2 -128 1) ["read" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(N*K*log(N)) where N is the length of the first of K sorted sets" MultiGet,
           "Returns the elements of a sorted set that others do not have"),
    entry!("zdiffstore" -4 [Write DenyOom MovableKeys] (1 -128 1) ["write" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(N*K*log(N)) where N is the length of the first of K sorted sets" Set,
           "Stores the elements of a sorted set that others do not have"),
    entry!("zincrby" 4 [Write DenyOom Fast] (1 1 1) ["write" "sortedset" "fast"]
           "1.2.0" "sorted-set" "O(log(N)) where N is the number of elements" Set,
           "Adds to the score of an element of a sorted set"),
    entry!("zinter" -3 [ReadOnly MovableKeys] (2 -128 1) ["read" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(N*K*log(N)) where N is the length of the smallest of K sorted sets" MultiGet,
           "Returns the elements that several sorted sets have in common"),
    entry!("zintercard" -3 [ReadOnly MovableKeys] (2 -128 1) ["read" "sortedset" "slow"]
           "7.0.0" "sorted-set" "O(N*K*log(N)) where N is the length of the smallest of K sorted sets" Get,
           "Returns the number of elements that several sorted sets have in common"),
    entry!("zinterstore" -4 [Write DenyOom MovableKeys] (1 -128 1) ["write" "sortedset" "slow"]
           "2.0.0" "sorted-set" "O(N*K*log(N)) where N is the length of the smallest of K sorted sets" Set,
           "Stores the elements that several sorted sets have in common"),
    entry!("zlexcount" 4 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "2.8.9" "sorted-set" "O(log(N)) where N is the number of elements" Get,
           "Returns the number of elements of a sorted set in an interval of texts"),
    entry!("zmpop" -4 [Write MovableKeys] (2 -128 1) ["write" "sortedset" "slow"]
           "7.0.0" "sorted-set" "O(K+M*log(N)) for K keys, N elements and M popped ones" Delete,
           "Removes elements of the first of several sorted sets that is not empty, and returns them"),
    entry!("zmscore" -3 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "6.2.0" "sorted-set" "O(M*log(N)) where N is the number of elements and M the number given" MultiGet,
           "Returns the scores of elements of a sorted set"),
    entry!("zpopmax" -2 [Write Fast] (1 1 1) ["write" "sortedset" "fast"]
           "5.0.0" "sorted-set" "O(log(N)*M) where N is the number of elements and M the number popped" Delete,
           "Removes the elements of a sorted set with the highest scores and returns them"),
    entry!("zpopmin" -2 [Write Fast] (1 1 1) ["write" "sortedset" "fast"]
           "5.0.0" "sorted-set" "O(log(N)*M) where N is the number of elements and M the number popped" Delete,
           "Removes the elements of a sorted set with the lowest scores and returns them"),
    entry!("zrandmember" -2 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(M*log(N)) where N is the number of elements and M the number returned" MultiGet,
           "Returns random elements of a sorted set"),
    entry!("zrange" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "1.2.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns the elements of a sorted set in an interval of positions, scores or texts"),
    entry!("zrangebylex" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "2.8.9" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns the elements of a sorted set in an interval of texts"),
    entry!("zrangebyscore" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "1.0.5" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns the elements of a sorted set with scores in an interval"),
    entry!("zrangestore" -5 [Write DenyOom] (1 2 1) ["write" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number stored" Set,
           "Stores the elements of a sorted set in an interval of positions, scores or texts"),
    entry!("zrank" -3 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "2.0.0" "sorted-set" "O(log(N)) where N is the number of elements" Get,
           "Returns the position of an element of a sorted set, in ascending order of scores"),
    entry!("zrem" -3 [Write Fast] (1 1 1) ["write" "sortedset" "fast"]
           "1.2.0" "sorted-set" "O(M*log(N)) where N is the number of elements and M the number given" Delete,
           "Removes elements of a sorted set"),
    entry!("zremrangebylex" 4 [Write] (1 1 1) ["write" "sortedset" "slow"]
           "2.8.9" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number removed" Delete,
           "Removes the elements of a sorted set in an interval of texts"),
    entry!("zremrangebyrank" 4 [Write] (1 1 1) ["write" "sortedset" "slow"]
           "2.0.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number removed" Delete,
           "Removes a range of the elements of a sorted set"),
    entry!("zremrangebyscore" 4 [Write] (1 1 1) ["write" "sortedset" "slow"]
           "1.2.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number removed" Delete,
           "Removes the elements of a sorted set with scores in an interval"),
    entry!("zrevrange" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "1.2.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns a range of the elements of a sorted set, in descending order"),
    entry!("zrevrangebylex" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "2.8.9" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns the elements of a sorted set in an interval of texts, in descending order"),
    entry!("zrevrangebyscore" -4 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "2.2.0" "sorted-set" "O(log(N)+M) where N is the number of elements and M the number returned" MultiGet,
           "Returns the elements of a sorted set with scores in an interval, in descending order"),
    entry!("zrevrank" -3 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "2.0.0" "sorted-set" "O(log(N)) where N is the number of elements" Get,
           "Returns the position of an element of a sorted set, in descending order of scores"),
    entry!("zscan" -3 [ReadOnly] (1 1 1) ["read" "sortedset" "slow"]
           "2.8.0" "sorted-set" "O(log(N)) per call, if few elements have the same score" MultiGet,
           "Iterates over the elements of a sorted set"),
    entry!("zscore" 3 [ReadOnly Fast] (1 1 1) ["read" "sortedset" "fast"]
           "1.2.0" "sorted-set" "O(log(N)) where N is the number of elements" Get,
           "Returns the score of an element of a sorted set"),
    entry!("zunion" -3 [ReadOnly MovableKeys] (2 -128 1) ["read" "sortedset" "slow"]
           "6.2.0" "sorted-set" "O(N*K*log(N)) where N is the number of elements of all K sorted sets" MultiGet,
           "Returns the elements that any of several sorted sets has"),
    entry!("zunionstore" -4 [Write DenyOom MovableKeys] (1 -128 1) ["write" "sortedset" "slow"]
           "2.0.0" "sorted-set" "O(N*K*log(N)) where N is the number of elements of all K sorted sets" Set,
           "Stores the elements that any of several sorted sets has"),
];
