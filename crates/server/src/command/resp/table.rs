//! Every command that is answered: how it is called, what it does to keys, who runs it, and what is said of it.

use super::{
    Call, Run, acl, client, config, connection, expire, hash, hotkeys, info, keys, lease, mget, pair, pubsub, records,
    scan, slowlog, string, transaction, walk,
};
use crate::metrics::Command;
use arrayvec::ArrayVec;
use protocol::resp::Args;

/// What a command is like, as `COMMAND INFO` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// It changes keys.
    Write,
    /// It reads keys.
    ReadOnly,
    /// It may be refused for want of memory.
    DenyOom,
    /// It takes a time that does not grow.
    Fast,
    /// It is for operators.
    Admin,
    /// Who has not said who it is may call it.
    NoAuth,
    /// It is answered while the server starts.
    Loading,
    /// It is answered by a replica that is behind.
    Stale,
    /// It publishes, or it subscribes.
    PubSub,
    /// No script may call it.
    NoScript,
}

impl Flag {
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::ReadOnly => "readonly",
            Self::DenyOom => "denyoom",
            Self::Fast => "fast",
            Self::Admin => "admin",
            Self::NoAuth => "no_auth",
            Self::Loading => "loading",
            Self::Stale => "stale",
            Self::PubSub => "pubsub",
            Self::NoScript => "noscript",
        }
    }
}

/// A command.
pub struct Entry {
    /// In small letters.
    pub name: &'static str,
    /// Words, its name included; below 0: so many or more.
    pub arity: i8,
    /// What it is like.
    pub flags: &'static [Flag],
    /// The first and last word that is a key, from 1, and the step between them; below 0: counted from the end; 0:
    /// none. A step below 0 is one for each bin that the first argument names, and one.
    pub keys: (i8, i8, i8),
    /// The access categories that it is in.
    pub categories: &'static [&'static str],
    /// The version of Redis that had it first; empty: it is none of Redis's.
    pub since: &'static str,
    /// What it is about.
    pub group: &'static str,
    /// How its time grows.
    pub complexity: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What its latency counts for.
    pub(super) kind: Command,
    pub(super) run: for<'c, 'l, 'x> fn(&'x mut Call<'c, 'l>, Args<'c>) -> Run,
}

impl Entry {
    /// Whether it may have so many words, its name included.
    pub(super) fn takes(&self, words: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= arity } else { words == arity }
    }

    /// Where its keys are among so many arguments: how many come before, how many are from the first key to the last.
    fn keys_place(&self, args: usize) -> (usize, usize) {
        let (first, last, _) = self.keys;
        if first <= 0 {
            return (0, 0);
        }
        let behind =
            if last < 0 { (args + 2).saturating_sub(usize::from(last.unsigned_abs())) } else { last as usize + 1 };
        (first as usize - 1, behind.min(args + 1).saturating_sub(first as usize))
    }

    /// Those of its arguments that are keys.
    pub(super) fn keys_of<'c>(&self, args: Args<'c>) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        let (before, count) = self.keys_place(args.len());
        args.skip(before).take(count).step_by(self.step(args))
    }

    /// How many of the arguments are keys.
    pub(super) fn key_count(&self, args: Args<'_>) -> usize {
        self.keys_place(args.len()).1.div_ceil(self.step(args))
    }

    fn step(&self, mut args: Args<'_>) -> usize {
        if self.keys.2 >= 0 {
            return self.keys.2.max(1) as usize;
        }
        args.next().unwrap_or_default().iter().filter(|byte| **byte == b',').count() + 2
    }

    /// A secret may stand in its arguments.
    pub(super) fn has_secret(&self) -> bool {
        self.kind == Command::Other && matches!(self.name, "acl" | "auth" | "hello")
    }

    pub(super) fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }
}

/// The longest name of a command or an option, in bytes.
const NAME_MAX: usize = 16;

/// A word in small letters; an empty one if it is too long to be a name.
pub(super) fn lower(word: &[u8]) -> ArrayVec<u8, NAME_MAX> {
    let mut lower = ArrayVec::new();
    if word.len() <= NAME_MAX {
        lower.extend(word.iter().map(u8::to_ascii_lowercase));
    }
    lower
}

/// A name of at most [`NAME_MAX`] bytes as a number: its letters in order, so that numbers are ordered as names are.
const fn packed(name: &[u8]) -> u128 {
    let mut word = [0; NAME_MAX];
    word.split_at_mut(name.len()).0.copy_from_slice(name);
    word.make_ascii_lowercase();
    u128::from_be_bytes(word)
}

/// The names of all commands, in the order of [`COMMANDS`].
static PACKED: [u128; COMMANDS.len()] = {
    let mut all = [0; COMMANDS.len()];
    let mut at = 0;
    while at < COMMANDS.len() {
        assert!(COMMANDS[at].name.len() <= NAME_MAX);
        all[at] = packed(COMMANDS[at].name.as_bytes());
        assert!(at == 0 || all[at - 1] < all[at], "commands are in the order of their names");
        at += 1;
    }
    all
};

/// The hash table of names: at the hash of a name, or in one of the next places, its index in [`COMMANDS`] plus one.
/// 0 is an empty place. At most half of the places are taken, so that a search ends at an empty one.
static PLACES: [u8; PLACE_COUNT] = {
    assert!(COMMANDS.len() <= PLACE_COUNT / 2 && COMMANDS.len() < u8::MAX as usize);
    let mut places = [0; PLACE_COUNT];
    let mut number = 0;
    while number < COMMANDS.len() {
        let mut place = first_place(packed(COMMANDS[number].name.as_bytes()));
        while places[place] != 0 {
            place = (place + 1) % PLACE_COUNT;
        }
        number += 1;
        places[place] = number as u8;
    }
    places
};

const PLACE_COUNT: usize = 512;

/// The place at which a search for a name begins: the upper bits of a product with 2^64 divided by the golden ratio
/// (Knuth, The Art of Computer Programming, volume 3, 6.4).
#[inline]
const fn first_place(packed: u128) -> usize {
    let folded = (packed >> 64) as u64 ^ packed as u64;
    (folded.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PLACE_COUNT.trailing_zeros())) as usize
}

/// The command of a name that is one.
pub(super) fn entry(name: &'static str) -> &'static Entry {
    find(name.as_bytes()).expect("a command of the table")
}

/// The command of this name, in letters of any size.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Entry> {
    if name.len() > NAME_MAX || name.is_empty() {
        return None;
    }
    let packed = packed(name);
    let mut place = first_place(packed);
    loop {
        let at = usize::from(PLACES[place]).checked_sub(1)?;
        if PACKED[at] == packed {
            // A NUL behind a name would be nothing in its number.
            return Some(&COMMANDS[at]).filter(|entry| entry.name.len() == name.len());
        }
        place = (place + 1) % PLACE_COUNT;
    }
}

use Flag::{Admin, DenyOom, Fast, Loading, NoAuth, NoScript, PubSub, ReadOnly, Stale, Write};

macro_rules! entry {
    ($name:literal $arity:literal [$($flag:ident)*] ($first:literal $last:literal $step:literal) [$($category:literal)*]
     $since:literal $group:literal $complexity:literal $kind:ident $run:expr, $summary:literal) => {
        Entry {
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
            run: $run,
        }
    };
}

/// All of them, by name.
#[rustfmt::skip]
pub const COMMANDS: &[Entry] = &[
    entry!("acl" -2 [Admin NoScript Loading Stale] (0 0 0) ["slow"]
           "6.0.0" "server" "O(N) over the users" Other acl::acl,
           "Says who there is, who may do what, and what was refused"),
    entry!("append" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "2.0.0" "string" "O(N) over the value" Append string::append,
           "Puts bytes behind a value, and makes one where none is"),
    entry!("auth" -2 [NoAuth Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(N) over the users" Other connection::auth,
           "Says who the client is"),
    entry!("cas.get" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "" "string" "O(1)" Gets lease::cas_get,
           "Reads a value and its CAS token"),
    entry!("cas.set" -4 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Cas lease::cas_set,
           "Stores a value where the CAS token is the one that was read"),
    entry!("client" -2 [Loading Stale] (0 0 0) ["slow" "connection"]
           "2.4.0" "connection" "O(1)" Other client::client,
           "Asks for and says what a connection is"),
    entry!("command" -1 [Loading Stale] (0 0 0) ["slow" "connection"]
           "2.8.13" "server" "O(N) over the commands" Other info::command,
           "Tells what commands there are"),
    entry!("config" -2 [Admin Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "2.0.0" "server" "O(N) over the settings" Other config::config,
           "Tells how the server is set up"),
    entry!("copy" -3 [Write DenyOom] (1 2 1) ["keyspace" "write" "slow"]
           "6.2.0" "generic" "O(N) over the value" Set pair::copy,
           "Stores a key's value under another key"),
    entry!("dbsize" 1 [ReadOnly Fast] (0 0 0) ["keyspace" "read" "fast"]
           "1.0.0" "server" "O(1)" Other keys::dbsize,
           "Counts the keys"),
    entry!("debug" -2 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other info::debug,
           "Helps to test, where the server allows it"),
    entry!("decr" 2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Decr string::decr,
           "Takes one from a counter"),
    entry!("decrby" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Decr string::decrby,
           "Takes a number from a counter"),
    entry!("del" -2 [Write] (1 -1 1) ["keyspace" "write" "slow"]
           "1.0.0" "generic" "O(N) over the keys" Delete keys::del,
           "Deletes keys"),
    entry!("discard" 1 [Loading Stale Fast] (0 0 0) ["fast" "transaction"]
           "2.0.0" "transactions" "O(N) over what is queued" Other transaction::discard,
           "Forgets what is queued and watched"),
    entry!("echo" 2 [Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other connection::echo,
           "Answers with what it is given"),
    entry!("exec" 1 [Loading Stale] (0 0 0) ["slow" "transaction"]
           "1.2.0" "transactions" "as what is queued" Other transaction::exec,
           "Executes what is queued, as one"),
    entry!("exists" -2 [ReadOnly Fast] (1 -1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(N) over the keys" Get keys::exists,
           "Counts those of the keys that are there"),
    entry!("expire" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "1.0.0" "generic" "O(1)" Touch expire::seconds,
           "Has a key end in so many seconds"),
    entry!("expireat" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "1.2.0" "generic" "O(1)" Touch expire::at,
           "Has a key end at a time in Unix seconds"),
    entry!("expiretime" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "7.0.0" "generic" "O(1)" Other expire::expiretime,
           "Tells when a key ends, in Unix seconds"),
    entry!("flushall" -1 [Write] (0 0 0) ["keyspace" "write" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Flush keys::flushall,
           "Ends all keys of all databases"),
    entry!("flushdb" -1 [Write] (0 0 0) ["keyspace" "write" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Flush keys::flushdb,
           "Ends all keys of the database"),
    entry!("get" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "1.0.0" "string" "O(1)" Get string::get,
           "Reads a value"),
    entry!("getdel" 2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "6.2.0" "string" "O(1)" Delete string::getdel,
           "Reads a value and deletes its key"),
    entry!("getex" -2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "6.2.0" "string" "O(1)" Gat string::getex,
           "Reads a value and says when its key ends"),
    entry!("getrange" 4 [ReadOnly] (1 1 1) ["read" "string" "slow"]
           "2.4.0" "string" "O(N) over the part" Get string::getrange,
           "Reads a part of a value"),
    entry!("getset" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Set string::getset,
           "Stores a value and answers with the one before"),
    entry!("hdel" -3 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Delete hash::hdel,
           "Deletes fields of a hash"),
    entry!("hello" -1 [NoAuth Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "6.0.0" "connection" "O(1)" Other connection::hello,
           "Chooses the protocol's version and says who the client is"),
    entry!("hexists" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Get hash::hexists,
           "Tells whether a field is there"),
    entry!("hexpire" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Touch hash::hexpire,
           "Has fields end in so many seconds"),
    entry!("hexpireat" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Touch hash::hexpireat,
           "Has fields end at a time in Unix seconds"),
    entry!("hexpiretime" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Other hash::hexpiretime,
           "Tells when fields end, in Unix seconds"),
    entry!("hget" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Get hash::hget,
           "Reads a field"),
    entry!("hgetall" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) over the record" MultiGet hash::hgetall,
           "Reads all fields with their names"),
    entry!("hgetdel" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) over the fields named" Delete hash::hgetdel,
           "Reads fields and deletes them"),
    entry!("hgetex" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) over the fields named" Gat hash::hgetex,
           "Reads fields and says when they end"),
    entry!("hincrby" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Incr hash::hincrby,
           "Adds a number to a field"),
    entry!("hincrbyfloat" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.6.0" "hash" "O(N) over the fields named" Incr hash::hincrbyfloat,
           "Adds a number with a point to a field"),
    entry!("hkeys" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) over the record" MultiGet hash::hkeys,
           "Tells the names of all fields"),
    entry!("hlen" 2 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(1)" Get hash::hlen,
           "Counts the fields"),
    entry!("hmget" -3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" MultiGet hash::hmget,
           "Reads fields"),
    entry!("hmset" -4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Set hash::hmset,
           "Stores fields"),
    entry!("hotkeys" -1 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "" "server" "O(N) over the minutes" Other hotkeys::hotkeys,
           "Tells which keys and prefixes are asked for most, are longest, or are missed"),
    entry!("hpersist" -5 [Write Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Touch hash::hpersist,
           "Has fields stay"),
    entry!("hpexpire" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Touch hash::hpexpire,
           "Has fields end in so many milliseconds"),
    entry!("hpexpireat" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Touch hash::hpexpireat,
           "Has fields end at a time in Unix milliseconds"),
    entry!("hpexpiretime" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Other hash::hpexpiretime,
           "Tells when fields end, in Unix milliseconds"),
    entry!("hpttl" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Other hash::hpttl,
           "Tells in how many milliseconds fields end"),
    entry!("hrandfield" -2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "6.2.0" "hash" "O(N) over the record" Get hash::hrandfield,
           "Tells some fields"),
    entry!("hscan" -3 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.8.0" "hash" "O(N) over the record" Other hash::hscan,
           "Walks over the fields"),
    entry!("hset" -4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Set hash::hset,
           "Stores fields, and counts the new ones"),
    entry!("hsetex" -6 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "8.0.0" "hash" "O(N) over the fields named" Set hash::hsetex,
           "Stores fields that end"),
    entry!("hsetnx" 4 [Write DenyOom Fast] (1 1 1) ["write" "hash" "fast"]
           "2.0.0" "hash" "O(N) over the fields named" Add hash::hsetnx,
           "Stores a field where none is"),
    entry!("hstrlen" 3 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "3.2.0" "hash" "O(N) over the fields named" Get hash::hstrlen,
           "Tells how long a field is"),
    entry!("httl" -5 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "7.4.0" "hash" "O(N) over the fields named" Other hash::httl,
           "Tells in how many seconds fields end"),
    entry!("hvals" 2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "2.0.0" "hash" "O(N) over the record" MultiGet hash::hvals,
           "Reads all fields without their names"),
    entry!("incr" 2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Incr string::incr,
           "Adds one to a counter"),
    entry!("incrby" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Incr string::incrby,
           "Adds a number to a counter"),
    entry!("incrbyfloat" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "2.6.0" "string" "O(1)" Incr string::incrbyfloat,
           "Adds a number with a point to a value"),
    entry!("info" -1 [Loading Stale] (0 0 0) ["slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other info::info,
           "Tells how the server is"),
    entry!("keys" 2 [ReadOnly] (0 0 0) ["keyspace" "read" "slow" "dangerous"]
           "1.0.0" "generic" "O(N) over all keys" Other walk::keys,
           "Tells all keys that match a pattern"),
    entry!("latency" -2 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "2.8.13" "server" "O(N) over the entries" Other slowlog::latency,
           "Tells how long requests take, and which part of them"),
    entry!("lease.get" -2 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Gets lease::lease_get,
           "Reads a value, or wins the right to fill it"),
    entry!("lease.set" -4 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Cas lease::lease_set,
           "Fills a value by the right that was won"),
    entry!("lease.stale" -2 [Write Fast] (1 1 1) ["write" "string" "fast"]
           "" "string" "O(1)" Delete lease::lease_stale,
           "Has a value be read until somebody has refilled it"),
    entry!("memory" -2 [ReadOnly] (2 2 1) ["read" "slow"]
           "4.0.0" "server" "O(1)" Other slowlog::memory,
           "Tells what keys and the server take of the memory"),
    entry!("mget" -2 [ReadOnly Fast] (1 -1 1) ["read" "string" "fast"]
           "1.0.0" "string" "O(N) over the keys" MultiGet mget::mget,
           "Reads values"),
    entry!("monitor" 1 [Admin NoScript Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "1.0.0" "server" "O(1)" Other pubsub::monitor,
           "Has every command be told as it is done"),
    entry!("mset" -3 [Write DenyOom] (1 -1 2) ["write" "string" "slow"]
           "1.0.1" "string" "O(N) over the keys" Set pair::mset,
           "Stores values"),
    entry!("msetnx" -3 [Write DenyOom] (1 -1 2) ["write" "string" "slow"]
           "1.0.1" "string" "O(N) over the keys" Add pair::msetnx,
           "Stores values where none of the keys is there"),
    entry!("multi" 1 [Loading Stale Fast] (0 0 0) ["fast" "transaction"]
           "1.2.0" "transactions" "O(1)" Other transaction::multi,
           "Has what follows be queued until it is executed"),
    entry!("object" -2 [ReadOnly] (2 2 1) ["keyspace" "read" "slow"]
           "2.2.3" "generic" "O(1)" Other keys::object,
           "Tells how a value is kept"),
    entry!("persist" 2 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.2.0" "generic" "O(1)" Touch expire::persist,
           "Has a key stay"),
    entry!("pexpire" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.6.0" "generic" "O(1)" Touch expire::millis,
           "Has a key end in so many milliseconds"),
    entry!("pexpireat" -3 [Write Fast] (1 1 1) ["keyspace" "write" "fast"]
           "2.6.0" "generic" "O(1)" Touch expire::at_millis,
           "Has a key end at a time in Unix milliseconds"),
    entry!("pexpiretime" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "7.0.0" "generic" "O(1)" Other expire::pexpiretime,
           "Tells when a key ends, in Unix milliseconds"),
    entry!("ping" -1 [Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other connection::ping,
           "Answers, so that a client knows that someone is there"),
    entry!("psetex" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.6.0" "string" "O(1)" Set string::psetex,
           "Stores a value that ends in so many milliseconds"),
    entry!("psubscribe" -2 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) over the patterns" Other pubsub::psubscribe,
           "Has messages of all channels come whose names match"),
    entry!("pttl" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "2.6.0" "generic" "O(1)" Other expire::pttl,
           "Tells in how many milliseconds a key ends"),
    entry!("publish" 3 [PubSub Loading Stale Fast] (0 0 0) ["pubsub" "fast"]
           "2.0.0" "pubsub" "O(N+M) over subscribers and patterns" Other pubsub::publish,
           "Tells those that are subscribed to a channel"),
    entry!("pubsub" -2 [PubSub Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.8.0" "pubsub" "O(N) over the channels" Other pubsub::pubsub,
           "Tells who is subscribed to what"),
    entry!("punsubscribe" -1 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) over the patterns" Other pubsub::punsubscribe,
           "Ends subscriptions to patterns"),
    entry!("quit" -1 [NoAuth Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other connection::quit,
           "Ends the connection"),
    entry!("randomkey" 1 [ReadOnly] (0 0 0) ["keyspace" "read" "slow"]
           "1.0.0" "generic" "O(1)" Other scan::randomkey,
           "Tells some key"),
    entry!("rec.add" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Incr records::add,
           "Adds to numbers of a record"),
    entry!("rec.append" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Append records::append,
           "Puts parts behind texts of a record"),
    entry!("rec.del" -2 [Write] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Delete records::del,
           "Deletes a record"),
    entry!("rec.exists" 2 [ReadOnly Fast] (1 1 1) ["read" "hash" "fast"]
           "" "hash" "O(N) over the record" Get records::exists,
           "Tells a record's revision, or 0"),
    entry!("rec.get" -2 [ReadOnly] (1 1 1) ["read" "hash" "slow"]
           "" "hash" "O(N) over the record" Get records::get,
           "Reads a record or some of its bins"),
    entry!("rec.index" -2 [Write] (0 0 0) ["write" "hash" "slow" "dangerous"]
           "" "hash" "O(N) over the keys" Other records::index,
           "Makes, drops and tells secondary indexes of sets"),
    entry!("rec.mget" -3 [ReadOnly] (2 -1 1) ["read" "hash" "slow"]
           "" "hash" "O(N) over the keys and bins" MultiGet records::mget,
           "Reads records or some of their bins as one"),
    entry!("rec.mput" -4 [Write DenyOom] (2 -1 -1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the keys and bins" Set records::mput,
           "Stores the same bins of several records as one"),
    entry!("rec.operate" -5 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Set records::operate,
           "Does several things to the bins of a record at once"),
    entry!("rec.put" -6 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Set records::put,
           "Stores bins of a record"),
    entry!("rec.query" -5 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(log N) over the index, and O(N) over the records told" Other records::query,
           "Tells the records of a set by the value of an indexed bin"),
    entry!("rec.scan" -3 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(N) over the keys looked at" Other records::scan,
           "Walks over the records of a set"),
    entry!("rec.sets" 1 [ReadOnly] (0 0 0) ["read" "hash" "slow"]
           "" "hash" "O(N) over the sets and their bins" Other records::sets,
           "Tells which sets there are, and their bins"),
    entry!("rec.touch" -2 [Write DenyOom] (1 1 1) ["write" "hash" "slow"]
           "" "hash" "O(N) over the record" Touch records::touch,
           "Says when a record ends"),
    entry!("rec.truncate" 2 [Write] (0 0 0) ["write" "hash" "slow" "dangerous"]
           "" "hash" "O(1), then O(N) over the keys in the background" Flush records::truncate,
           "Ends all records of a set at once"),
    entry!("rename" 3 [Write] (1 2 1) ["keyspace" "write" "slow"]
           "1.0.0" "generic" "O(N) over the value" Set pair::rename,
           "Has a key's value be under another key"),
    entry!("renamenx" 3 [Write Fast] (1 2 1) ["keyspace" "write" "fast"]
           "1.0.0" "generic" "O(N) over the value" Set pair::renamenx,
           "Has a key's value be under another key, if that is not there"),
    entry!("reset" 1 [NoAuth Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "6.2.0" "connection" "O(1)" Other connection::reset,
           "Has the connection be as it was at its beginning"),
    entry!("role" 1 [Admin Loading Stale Fast] (0 0 0) ["admin" "fast" "dangerous"]
           "2.8.12" "server" "O(1)" Other info::role,
           "Tells what the server is to others"),
    entry!("scan" -2 [ReadOnly] (0 0 0) ["keyspace" "read" "slow"]
           "2.8.0" "generic" "O(1) a call" Other scan::scan,
           "Walks over the keys"),
    entry!("select" 2 [Loading Stale Fast] (0 0 0) ["fast" "connection"]
           "1.0.0" "connection" "O(1)" Other connection::select,
           "Chooses a database, by number or name"),
    entry!("set" -3 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "1.0.0" "string" "O(1)" Set string::set,
           "Stores a value"),
    entry!("setex" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.0.0" "string" "O(1)" Set string::setex,
           "Stores a value that ends in so many seconds"),
    entry!("setnx" 3 [Write DenyOom Fast] (1 1 1) ["write" "string" "fast"]
           "1.0.0" "string" "O(1)" Add string::setnx,
           "Stores a value where none is"),
    entry!("setrange" 4 [Write DenyOom] (1 1 1) ["write" "string" "slow"]
           "2.2.0" "string" "O(N) over the value" Set string::setrange,
           "Stores a part of a value"),
    entry!("slowlog" -2 [Admin Loading Stale] (0 0 0) ["admin" "slow" "dangerous"]
           "2.2.12" "server" "O(N) over the entries" Other slowlog::slowlog,
           "Tells which requests took long"),
    entry!("spublish" 3 [PubSub Loading Stale Fast] (1 1 1) ["pubsub" "fast"]
           "7.0.0" "pubsub" "O(N) over subscribers" Other pubsub::spublish,
           "Tells those that are subscribed to a shard channel"),
    entry!("ssubscribe" -2 [PubSub NoScript Loading Stale] (1 -1 1) ["pubsub" "slow"]
           "7.0.0" "pubsub" "O(N) over the channels" Other pubsub::ssubscribe,
           "Has messages of shard channels come"),
    entry!("strlen" 2 [ReadOnly Fast] (1 1 1) ["read" "string" "fast"]
           "2.2.0" "string" "O(1)" Get string::strlen,
           "Tells how long a value is"),
    entry!("subscribe" -2 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) over the channels" Other pubsub::subscribe,
           "Has messages of channels come"),
    entry!("sunsubscribe" -1 [PubSub NoScript Loading Stale] (1 -1 1) ["pubsub" "slow"]
           "7.0.0" "pubsub" "O(N) over the channels" Other pubsub::sunsubscribe,
           "Ends subscriptions to shard channels"),
    entry!("time" 1 [Loading Stale Fast] (0 0 0) ["fast"]
           "2.6.0" "server" "O(1)" Other info::time,
           "Tells the time"),
    entry!("touch" -2 [ReadOnly Fast] (1 -1 1) ["keyspace" "read" "fast"]
           "3.2.1" "generic" "O(N) over the keys" Touch keys::touch,
           "Counts those of the keys that are there, as a read of them"),
    entry!("ttl" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(1)" Other expire::ttl,
           "Tells in how many seconds a key ends"),
    entry!("type" 2 [ReadOnly Fast] (1 1 1) ["keyspace" "read" "fast"]
           "1.0.0" "generic" "O(1)" Other keys::kind,
           "Tells what a key is"),
    entry!("unlink" -2 [Write Fast] (1 -1 1) ["keyspace" "write" "fast"]
           "4.0.0" "generic" "O(N) over the keys" Delete keys::del,
           "Deletes keys"),
    entry!("unsubscribe" -1 [PubSub NoScript Loading Stale] (0 0 0) ["pubsub" "slow"]
           "2.0.0" "pubsub" "O(N) over the channels" Other pubsub::unsubscribe,
           "Ends subscriptions to channels"),
    entry!("unwatch" 1 [Loading Stale Fast] (0 0 0) ["fast" "transaction"]
           "2.2.0" "transactions" "O(1)" Other transaction::unwatch,
           "Forgets what is watched"),
    entry!("wait" 3 [] (0 0 0) ["slow" "connection"]
           "3.0.0" "generic" "O(1)" Other info::wait,
           "Counts the replicas that have what was written"),
    entry!("watch" -2 [Loading Stale Fast] (1 -1 1) ["fast" "transaction"]
           "2.2.0" "transactions" "O(1) a key" Other transaction::watch,
           "Has the next transaction end if one of the keys is changed before"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_letters_of_any_size() {
        for entry in COMMANDS {
            for name in [entry.name.to_owned(), entry.name.to_uppercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(entry.name));
            }
            assert!(find(&entry.name.as_bytes()[1..]).is_none_or(|found| found.name != entry.name));
        }
        for none in ["", "getx", "a-command-that-is-too-long", "get\0"] {
            assert!(find(none.as_bytes()).is_none(), "{none}");
        }
    }

    #[test]
    fn a_search_for_a_name_that_no_command_has_ends_within_eight_places() {
        let full = PLACES.split(|place| *place == 0).map(<[u8]>::len).max();
        assert!(full.is_some_and(|longest| longest < 8), "{full:?}");
        // A run of taken places that begins at the last one goes on at the first.
        assert!(PLACES[0] == 0 || PLACES[PLACE_COUNT - 1] == 0);
    }

    #[test]
    fn a_command_is_in_the_categories_that_its_flags_say() {
        for entry in COMMANDS {
            assert_eq!(entry.has(Write), entry.categories.contains(&"write"), "{}", entry.name);
            assert_eq!(entry.has(ReadOnly), entry.categories.contains(&"read"), "{}", entry.name);
            assert_ne!(entry.categories.contains(&"fast"), entry.categories.contains(&"slow"), "{}", entry.name);
            assert_eq!(entry.has(Fast), entry.categories.contains(&"fast"), "{}", entry.name);
        }
    }
}
