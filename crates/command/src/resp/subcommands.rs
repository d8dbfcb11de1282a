//! The subcommands of commands whose first argument is a subcommand (the containers), as in the catalog of Redis.

/// A subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Subcommand {
    /// The name of the container and of the subcommand, in lower case, such as `config|get`.
    pub name: &'static str,
    /// The number of words, including both names. A negative number -n means n words or more.
    pub arity: i8,
    /// The access categories.
    pub categories: &'static [&'static str],
    /// The lines about the subcommand in the reply to `HELP`. None if the subcommand is not supported.
    pub help: &'static [&'static str],
}

impl Subcommand {
    /// Returns the names of the container and of the subcommand.
    pub(super) fn names(&self) -> (&'static str, &'static str) {
        self.name.split_once('|').expect("every name has two parts")
    }

    /// Returns true if a request of the subcommand may have `words` words, including both names.
    pub(super) fn accepts_words(&self, words: usize) -> bool {
        accepts(self.arity, words)
    }
}

const fn part(
    name: &'static str,
    arity: i8,
    categories: &'static [&'static str],
    help: &'static [&'static str],
) -> Subcommand {
    Subcommand { name, arity, categories, help }
}

/// Returns true if a request of a command with this arity may have `words` words.
#[inline(always)]
pub(super) const fn accepts(arity: i8, words: usize) -> bool {
    let count = arity.unsigned_abs() as usize;
    if arity < 0 { words >= count } else { words == count }
}

/// Returns the subcommands of a container; none if the command `container` is none.
pub(super) fn subcommands_of(container: &str) -> impl Iterator<Item = (usize, &'static Subcommand)> {
    SUBCOMMANDS.iter().enumerate().filter(move |(_, part)| part.names().0 == container)
}

/// Returns the subcommand of `container` with this name, in upper or lower case, and its place in [`SUBCOMMANDS`].
pub(super) fn find_subcommand(container: &str, name: &[u8]) -> Option<(usize, &'static Subcommand)> {
    subcommands_of(container).find(|(_, part)| part.names().1.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the name of the command `name` and of its subcommand, if the last subcommand that was called, `last`, is one
/// of this command.
pub(super) fn full_name(name: &'static str, last: Option<&'static Subcommand>) -> &'static str {
    last.filter(|part| part.names().0 == name).map_or(name, |part| part.name)
}

/// Returns true if the command `name` is a container.
pub(super) const fn is_container(name: &str) -> bool {
    let mut at = 0;
    while at < SUBCOMMANDS.len() {
        if begins_with(SUBCOMMANDS[at].name.as_bytes(), name.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// Returns true if the first part of `full`, which ends at a bar, is `container`.
const fn begins_with(full: &[u8], container: &[u8]) -> bool {
    let mut at = 0;
    while at < container.len() && at < full.len() && full[at] == container[at] {
        at += 1;
    }
    at == container.len() && at < full.len() && full[at] == b'|'
}

/// All subcommands, in the order of their names.
#[rustfmt::skip]
pub const SUBCOMMANDS: &[Subcommand] = &[
    part("acl|cat", -2, &["slow"], &["CAT [<category>]", "    Lists the categories, or the commands of one category."]),
    part(
        "acl|deluser",
        -3,
        &["admin", "dangerous", "slow"],
        &[
            "DELUSER <username> [<username> ...]",
            "    Removes users, and closes the connections of their clients.",
        ],
    ),
    part(
        "acl|dryrun",
        -4,
        &["admin", "dangerous", "slow"],
        &[
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether a user may execute a command, without executing it.",
        ],
    ),
    part(
        "acl|genpass",
        -2,
        &["slow"],
        &[
            "GENPASS [<bits>]",
            "    Returns a random password of 256 bits, or of another number of bits.",
        ],
    ),
    part(
        "acl|getuser",
        3,
        &["admin", "dangerous", "slow"],
        &[
            "GETUSER <username>",
            "    Returns the rights of a user.",
        ],
    ),
    part("acl|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "acl|list",
        2,
        &["admin", "dangerous", "slow"],
        &[
            "LIST",
            "    Lists the users in the format of the ACL file.",
        ],
    ),
    part("acl|load", 2, &["admin", "dangerous", "slow"], &["LOAD", "    Reads the users from the ACL file again."]),
    part(
        "acl|log",
        -2,
        &["admin", "dangerous", "slow"],
        &[
            "LOG [<count> | RESET]",
            "    Lists refused requests, or clears the list.",
        ],
    ),
    part("acl|save", 2, &["admin", "dangerous", "slow"], &["SAVE", "    Writes the users to the ACL file."]),
    part(
        "acl|setuser",
        -3,
        &["admin", "dangerous", "slow"],
        &[
            "SETUSER <username> [<rule> ...]",
            "    Creates or changes a user.",
        ],
    ),
    part("acl|users", 2, &["admin", "dangerous", "slow"], &["USERS", "    Lists the names of the users."]),
    part("acl|whoami", 2, &["slow"], &["WHOAMI", "    Returns the name of the connection's user."]),
    part(
        "client|caching",
        3,
        &["connection", "slow"],
        &[
            "CACHING (YES|NO)",
            "    Tracks the keys of the next request, or does not track them.",
        ],
    ),
    part(
        "client|capa",
        -3,
        &["connection", "slow"],
        &[
            "CAPA <capability> [<capability> ...]",
            "    States what the client can do. REDIRECT: it follows redirections, which this server never sends.",
        ],
    ),
    part("client|getname", 2, &["connection", "slow"], &["GETNAME", "    Returns the name of the connection."]),
    part(
        "client|getredir",
        2,
        &["connection", "slow"],
        &[
            "GETREDIR",
            "    Returns the ID of the client that receives the invalidations of this connection.",
        ],
    ),
    part("client|help", 2, &["connection", "slow"], &["HELP", "    Prints this help."]),
    part("client|id", 2, &["connection", "slow"], &["ID", "    Returns the number of the connection."]),
    part(
        "client|import-source",
        3,
        &["connection", "slow"],
        &[
            "IMPORT-SOURCE (ON|OFF)",
            "    Has no effect: expired keys are not kept for clients that import them.",
        ],
    ),
    part("client|info", 2, &["connection", "slow"], &["INFO", "    Describes the connection."]),
    part(
        "client|kill",
        -3,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "KILL <ip:port>",
            "    Closes the connection from an address.",
            "KILL <option> <value> [<option> <value> ...]",
            "    Closes the connections that meet all conditions: ID <id> [<id> ...], ADDR, LADDR, IP,",
            "    TYPE, USER, NAME, LIB-NAME, LIB-VER, FLAGS, DB, CAPA, MAXAGE and IDLE (both in seconds).",
            "    NOT- before an option, except the last two, inverts it. SKIPME no includes the connection itself.",
        ],
    ),
    part(
        "client|list",
        -2,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "LIST [<option> <value> ...]",
            "    Describes all connections, or those that meet all conditions: the options of KILL.",
        ],
    ),
    part(
        "client|no-evict",
        3,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "NO-EVICT (ON|OFF)",
            "    Has no effect: connections are not evicted.",
        ],
    ),
    part("client|no-touch", 3, &["connection", "slow"], &["NO-TOUCH (ON|OFF)", "    Has no effect."]),
    part(
        "client|pause",
        -3,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "PAUSE <timeout> [WRITE|ALL]",
            "    Makes all clients, or those that write, wait for some milliseconds.",
        ],
    ),
    part(
        "client|reply",
        3,
        &["connection", "slow"],
        &[
            "REPLY (ON|OFF|SKIP)",
            "    Switches the replies to this connection on or off, or skips the next one.",
        ],
    ),
    part(
        "client|setinfo",
        4,
        &["connection", "slow"],
        &[
            "SETINFO (LIB-NAME|LIB-VER) <value>",
            "    Sets the name or the version of the client library.",
        ],
    ),
    part("client|setname", 3, &["connection", "slow"], &["SETNAME <name>", "    Sets the name of the connection."]),
    part(
        "client|tracking",
        -3,
        &["connection", "slow"],
        &[
            "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]]",
            "         [OPTIN] [OPTOUT] [NOLOOP]",
            "    Switches on or off that the server reports changes of keys that this connection reads.",
        ],
    ),
    part(
        "client|trackinginfo",
        2,
        &["connection", "slow"],
        &[
            "TRACKINGINFO",
            "    Describes how this connection tracks keys.",
        ],
    ),
    part(
        "client|unblock",
        -3,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "UNBLOCK <clientid> [TIMEOUT|ERROR]",
            "    Ends the wait of a client in a blocking command: as at its time, or with an error.",
        ],
    ),
    part(
        "client|unpause",
        2,
        &["admin", "connection", "dangerous", "slow"],
        &[
            "UNPAUSE",
            "    Ends the wait of paused clients.",
        ],
    ),
    part("command|count", 2, &["connection", "slow"], &["COUNT", "    Returns the number of commands."]),
    part(
        "command|docs",
        -2,
        &["connection", "slow"],
        &[
            "DOCS [<command-name> ...]",
            "    Returns documentation of all or some commands.",
        ],
    ),
    part(
        "command|getkeys",
        -4,
        &["connection", "slow"],
        &[
            "GETKEYS <full-command>",
            "    Returns the keys of a request.",
        ],
    ),
    part(
        "command|getkeysandflags",
        -4,
        &["connection", "slow"],
        &[
            "GETKEYSANDFLAGS <full-command>",
            "    Returns the keys of a request, and the access to each.",
        ],
    ),
    part("command|help", 2, &["connection", "slow"], &["HELP", "    Prints this help."]),
    part(
        "command|info",
        -2,
        &["connection", "slow"],
        &[
            "INFO [<command-name> ...]",
            "    Describes all or some commands.",
        ],
    ),
    part("command|list", -2, &["connection", "slow"], &["LIST", "    Lists the names of all commands."]),
    part(
        "commandlog|get",
        4,
        &["admin", "dangerous", "slow"],
        &[
            "GET <count> (SLOW|LARGE-REQUEST|LARGE-REPLY)",
            "    Returns the latest entries of a log (-1 for all).",
        ],
    ),
    part("commandlog|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "commandlog|len",
        3,
        &["admin", "dangerous", "slow"],
        &[
            "LEN (SLOW|LARGE-REQUEST|LARGE-REPLY)",
            "    Returns the number of entries of a log.",
        ],
    ),
    part(
        "commandlog|reset",
        3,
        &["admin", "dangerous", "slow"],
        &[
            "RESET (SLOW|LARGE-REQUEST|LARGE-REPLY)",
            "    Removes the entries of a log.",
        ],
    ),
    part(
        "config|get",
        -3,
        &["admin", "dangerous", "slow"],
        &[
            "GET <pattern> [<pattern> ...]",
            "    Returns the parameters whose names match a pattern.",
        ],
    ),
    part("config|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part("config|resetstat", 2, &["admin", "dangerous", "slow"], &["RESETSTAT", "    Resets the statistics of INFO."]),
    part(
        "config|rewrite",
        2,
        &["admin", "dangerous", "slow"],
        &[
            "REWRITE",
            "    Returns an error: the configuration file is never written.",
        ],
    ),
    part(
        "config|set",
        -4,
        &["admin", "dangerous", "slow"],
        &[
            "SET <parameter> <value> [<parameter> <value> ...]",
            "    Sets parameters until the server stops.",
        ],
    ),
    part(
        "function|delete",
        3,
        &["write", "slow", "scripting"],
        &["DELETE <LIBRARY NAME>", "    Removes a library with its functions."],
    ),
    part("function|dump", 2, &["slow", "scripting"], &["DUMP", "    Returns all libraries, for RESTORE."]),
    part(
        "function|flush",
        -2,
        &["write", "slow", "scripting"],
        &["FLUSH [ASYNC|SYNC]", "    Removes all libraries."],
    ),
    part("function|help", 2, &["slow", "scripting"], &["HELP", "    Prints this help."]),
    part(
        "function|kill",
        2,
        &["slow", "scripting"],
        &["KILL", "    Ends the function in execution, unless it has written."],
    ),
    part(
        "function|list",
        -2,
        &["slow", "scripting"],
        &["LIST [LIBRARYNAME PATTERN] [WITHCODE]", "    Describes the libraries and their functions."],
    ),
    part(
        "function|load",
        -3,
        &["write", "slow", "scripting"],
        &["LOAD [REPLACE] <FUNCTION CODE>", "    Creates a library, or replaces it."],
    ),
    part(
        "function|restore",
        -3,
        &["write", "slow", "scripting"],
        &["RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]", "    Creates the libraries that DUMP has returned."],
    ),
    part(
        "function|stats",
        2,
        &["slow", "scripting"],
        &["STATS", "    Returns the function in execution, and the numbers of libraries and functions."],
    ),
    part(
        "g.node|archive",
        -4,
        &["write", "graph", "slow"],
        &["ARCHIVE <graph> <id> [TS <ms>]", "    Hides all edges of a node."],
    ),
    part(
        "g.node|del",
        -4,
        &["write", "graph", "slow"],
        &["DEL <graph> <id> [TS <ms>]", "    Removes the object of a node."],
    ),
    part(
        "g.node|get",
        4,
        &["read", "graph", "slow"],
        &["GET <graph> <id>", "    Returns the type and the bins of a node."],
    ),
    part("g.node|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "g.node|restore",
        -4,
        &["write", "graph", "slow"],
        &["RESTORE <graph> <id> [TS <ms>]", "    Shows all edges of an archived node again."],
    ),
    part(
        "g.node|set",
        -5,
        &["write", "graph", "slow"],
        &["SET <graph> <id> <type> [<name> <value> ..] [TS <ms>]", "    Stores the object of a node."],
    ),
    part(
        "latency|doctor",
        2,
        &["admin", "dangerous", "slow"],
        &[
            "DOCTOR",
            "    Reports the causes of slow requests, with remedies.",
        ],
    ),
    part(
        "latency|explain",
        -2,
        &["admin", "dangerous", "slow"],
        &[
            "EXPLAIN [<command> ...]",
            "    Returns quantiles of waiting, execution and sending, by kind of request.",
        ],
    ),
    part(
        "latency|graph",
        3,
        &["admin", "dangerous", "slow"],
        &["GRAPH <event>", "    Returns a picture of the times of slow requests."],
    ),
    part("latency|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "latency|histogram",
        -2,
        &["admin", "dangerous", "slow"],
        &[
            "HISTOGRAM [<command> ...]",
            "    Returns histograms of execution times.",
        ],
    ),
    part(
        "latency|history",
        3,
        &["admin", "dangerous", "slow"],
        &[
            "HISTORY <event>",
            "    Returns the slow requests, with their times in milliseconds.",
        ],
    ),
    part(
        "latency|latest",
        2,
        &["admin", "dangerous", "slow"],
        &[
            "LATEST",
            "    Returns the latest slow request of each event.",
        ],
    ),
    part(
        "latency|reset",
        -2,
        &["admin", "dangerous", "slow"],
        &[
            "RESET [<event> ...]",
            "    Forgets the slow requests of all or some events.",
        ],
    ),
    part("memory|doctor", 2, &["slow"], &["DOCTOR", "    Reports problems with the memory."]),
    part("memory|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "memory|malloc-stats",
        2,
        &["slow"],
        &["MALLOC-STATS", "    Replies that the allocator has no statistics."],
    ),
    part("memory|purge", 2, &["slow"], &["PURGE", "    Has no effect: the memory for items stays reserved."]),
    part("memory|stats", 2, &["slow"], &["STATS", "    Returns figures of the memory."]),
    part(
        "memory|usage",
        -3,
        &["read", "slow"],
        &[
            "USAGE <key> [SAMPLES <count>]",
            "    Returns the number of bytes that a key takes.",
        ],
    ),
    part("module|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "module|list",
        2,
        &["admin", "dangerous", "slow"],
        &["LIST", "    Returns an empty list: the server has no modules."],
    ),
    part("module|load", -3, &["admin", "dangerous", "slow"], &[]),
    part("module|loadex", -3, &["admin", "dangerous", "slow"], &[]),
    part("module|unload", 3, &["admin", "dangerous", "slow"], &[]),
    part(
        "object|encoding",
        3,
        &["keyspace", "read", "slow"],
        &[
            "ENCODING <key>",
            "    Returns the representation of a key's value.",
        ],
    ),
    part(
        "object|freq",
        3,
        &["keyspace", "read", "slow"],
        &[
            "FREQ <key>",
            "    Returns the access frequency of a key, if the eviction policy records it.",
        ],
    ),
    part("object|help", 2, &["keyspace", "slow"], &["HELP", "    Prints this help."]),
    part(
        "object|idletime",
        3,
        &["keyspace", "read", "slow"],
        &[
            "IDLETIME <key>",
            "    Returns the seconds since the last access to a key, unless the eviction policy",
            "    records access frequencies.",
        ],
    ),
    part(
        "object|refcount",
        3,
        &["keyspace", "read", "slow"],
        &[
            "REFCOUNT <key>",
            "    Returns 1, or 2147483647 for a number from 0 to 9999 that is never evicted.",
        ],
    ),
    part(
        "pubsub|channels",
        -2,
        &["pubsub", "slow"],
        &[
            "CHANNELS [<pattern>]",
            "    Lists the channels that have subscribers.",
        ],
    ),
    part("pubsub|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part(
        "pubsub|numpat",
        2,
        &["pubsub", "slow"],
        &[
            "NUMPAT",
            "    Returns the number of patterns that have subscribers.",
        ],
    ),
    part(
        "pubsub|numsub",
        -2,
        &["pubsub", "slow"],
        &[
            "NUMSUB [<channel> ...]",
            "    Returns the numbers of subscribers of channels.",
        ],
    ),
    part(
        "pubsub|shardchannels",
        -2,
        &["pubsub", "slow"],
        &[
            "SHARDCHANNELS [<pattern>]",
            "    Lists the shard channels that have subscribers.",
        ],
    ),
    part(
        "pubsub|shardnumsub",
        -2,
        &["pubsub", "slow"],
        &[
            "SHARDNUMSUB [<shardchannel> ...]",
            "    Returns the numbers of subscribers of shard channels.",
        ],
    ),
    part("script|debug", 3, &["slow", "scripting"], &[]),
    part(
        "script|exists",
        -3,
        &["slow", "scripting"],
        &[
            "EXISTS <sha1> [<sha1> ...]",
            "    Returns which of the digests belong to cached scripts.",
        ],
    ),
    part(
        "script|flush",
        -2,
        &["slow", "scripting"],
        &[
            "FLUSH [ASYNC|SYNC]",
            "    Removes all scripts from the cache.",
        ],
    ),
    part("script|help", 2, &["slow", "scripting"], &["HELP", "    Prints this help."]),
    part(
        "script|kill",
        2,
        &["slow", "scripting"],
        &[
            "KILL",
            "    Ends the script in execution, unless it has written.",
        ],
    ),
    part(
        "script|load",
        3,
        &["slow", "scripting"],
        &[
            "LOAD <script>",
            "    Caches a script without executing it.",
        ],
    ),
    part(
        "script|show",
        3,
        &["slow", "scripting"],
        &[
            "SHOW <sha1>",
            "    Returns the text of a cached script.",
        ],
    ),
    part(
        "slowlog|get",
        -2,
        &["admin", "dangerous", "slow"],
        &[
            "GET [<count>]",
            "    Returns the latest slow requests (10; -1 for all).",
        ],
    ),
    part("slowlog|help", 2, &["slow"], &["HELP", "    Prints this help."]),
    part("slowlog|len", 2, &["admin", "dangerous", "slow"], &["LEN", "    Returns the number of slow requests."]),
    part("slowlog|reset", 2, &["admin", "dangerous", "slow"], &["RESET", "    Forgets the slow requests."]),
    part(
        "xgroup|create",
        -5,
        &["slow", "stream", "write"],
        &[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Creates a group. The options are MKSTREAM, which creates the key if it does",
            "    not exist, and ENTRIESREAD <entries_read>, the number of entries read before.",
        ],
    ),
    part(
        "xgroup|createconsumer",
        5,
        &["slow", "stream", "write"],
        &["CREATECONSUMER <key> <groupname> <consumer>", "    Creates a consumer of a group."],
    ),
    part(
        "xgroup|delconsumer",
        5,
        &["slow", "stream", "write"],
        &["DELCONSUMER <key> <groupname> <consumer>", "    Removes a consumer, and its pending entries."],
    ),
    part(
        "xgroup|destroy",
        4,
        &["slow", "stream", "write"],
        &["DESTROY <key> <groupname>", "    Removes a group."],
    ),
    part(
        "xgroup|help",
        2,
        &["slow", "stream"],
        &["HELP", "    Prints this help."],
    ),
    part(
        "xgroup|setid",
        -5,
        &["slow", "stream", "write"],
        &[
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Sets the last entry that was delivered to a group.",
        ],
    ),
    part(
        "xinfo|consumers",
        4,
        &["read", "slow", "stream"],
        &["CONSUMERS <key> <groupname>", "    Describes the consumers of a group."],
    ),
    part(
        "xinfo|groups",
        3,
        &["read", "slow", "stream"],
        &["GROUPS <key>", "    Describes the groups of a stream."],
    ),
    part(
        "xinfo|help",
        2,
        &["slow", "stream"],
        &["HELP", "    Prints this help."],
    ),
    part(
        "xinfo|stream",
        -3,
        &["read", "slow", "stream"],
        &[
            "STREAM <key> [FULL [COUNT <count>]",
            "    Describes a stream.",
        ],
    ),
];
