//! The table of the functions of all commands, in the order of the catalog ([`super::catalog`]).
//!
//! Some modules execute commands within another command, for example within a transaction. These modules obtain the
//! table from their [`super::call::Call`], so that they need not import this module, which imports every command.

use super::call::{CommandFunction, CommandFunctions};
use super::catalog::{COMMAND_COUNT, COMMANDS};
use super::{
    acl, client, config, connection, expire, hash, hotkeys, info, keys, lease, mget, pair, pubsub, records, scan,
    slowlog, string, transaction, walk,
};

/// The functions, indexed by [`super::catalog::CommandSpec::number`].
pub(super) static FUNCTIONS: CommandFunctions = {
    let mut functions: CommandFunctions = [ROWS[0].1; COMMAND_COUNT];
    let mut number = 0;
    while number < COMMAND_COUNT {
        assert!(is_same(ROWS[number].0, COMMANDS[number].name), "functions are in the order of the catalog");
        functions[number] = ROWS[number].1;
        number += 1;
    }
    functions
};

/// Returns true if two names are equal.
const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The functions of all commands, each with the name of its command.
#[rustfmt::skip]
const ROWS: [(&str, CommandFunction); COMMAND_COUNT] = [
    ("acl", acl::acl),
    ("append", string::append),
    ("auth", connection::auth),
    ("cas.get", lease::cas_get),
    ("cas.set", lease::cas_set),
    ("client", client::client),
    ("command", info::command),
    ("config", config::config),
    ("copy", pair::copy),
    ("dbsize", keys::dbsize),
    ("debug", info::debug),
    ("decr", string::decr),
    ("decrby", string::decrby),
    ("del", keys::del),
    ("discard", transaction::discard),
    ("echo", connection::echo),
    ("exec", transaction::exec),
    ("exists", keys::exists),
    ("expire", expire::seconds),
    ("expireat", expire::at),
    ("expiretime", expire::expiretime),
    ("flushall", keys::flushall),
    ("flushdb", keys::flushdb),
    ("get", string::get),
    ("getdel", string::getdel),
    ("getex", string::getex),
    ("getrange", string::getrange),
    ("getset", string::getset),
    ("hdel", hash::hdel),
    ("hello", connection::hello),
    ("hexists", hash::hexists),
    ("hexpire", hash::hexpire),
    ("hexpireat", hash::hexpireat),
    ("hexpiretime", hash::hexpiretime),
    ("hget", hash::hget),
    ("hgetall", hash::hgetall),
    ("hgetdel", hash::hgetdel),
    ("hgetex", hash::hgetex),
    ("hincrby", hash::hincrby),
    ("hincrbyfloat", hash::hincrbyfloat),
    ("hkeys", hash::hkeys),
    ("hlen", hash::hlen),
    ("hmget", hash::hmget),
    ("hmset", hash::hmset),
    ("hotkeys", hotkeys::hotkeys),
    ("hpersist", hash::hpersist),
    ("hpexpire", hash::hpexpire),
    ("hpexpireat", hash::hpexpireat),
    ("hpexpiretime", hash::hpexpiretime),
    ("hpttl", hash::hpttl),
    ("hrandfield", hash::hrandfield),
    ("hscan", hash::hscan),
    ("hset", hash::hset),
    ("hsetex", hash::hsetex),
    ("hsetnx", hash::hsetnx),
    ("hstrlen", hash::hstrlen),
    ("httl", hash::httl),
    ("hvals", hash::hvals),
    ("incr", string::incr),
    ("incrby", string::incrby),
    ("incrbyfloat", string::incrbyfloat),
    ("info", info::info),
    ("keys", walk::keys),
    ("latency", slowlog::latency),
    ("lease.get", lease::lease_get),
    ("lease.set", lease::lease_set),
    ("lease.stale", lease::lease_stale),
    ("memory", slowlog::memory),
    ("mget", mget::mget),
    ("monitor", pubsub::monitor),
    ("mset", pair::mset),
    ("msetnx", pair::msetnx),
    ("multi", transaction::multi),
    ("object", keys::object),
    ("persist", expire::persist),
    ("pexpire", expire::millis),
    ("pexpireat", expire::at_millis),
    ("pexpiretime", expire::pexpiretime),
    ("ping", connection::ping),
    ("psetex", string::psetex),
    ("psubscribe", pubsub::psubscribe),
    ("pttl", expire::pttl),
    ("publish", pubsub::publish),
    ("pubsub", pubsub::pubsub),
    ("punsubscribe", pubsub::punsubscribe),
    ("quit", connection::quit),
    ("randomkey", scan::randomkey),
    ("rec.add", records::add),
    ("rec.append", records::append),
    ("rec.del", records::del),
    ("rec.exists", records::exists),
    ("rec.get", records::get),
    ("rec.index", records::index),
    ("rec.mget", records::mget),
    ("rec.mput", records::mput),
    ("rec.operate", records::operate),
    ("rec.put", records::put),
    ("rec.query", records::query),
    ("rec.scan", records::scan),
    ("rec.sets", records::sets),
    ("rec.touch", records::touch),
    ("rec.truncate", records::truncate),
    ("rename", pair::rename),
    ("renamenx", pair::renamenx),
    ("reset", connection::reset),
    ("role", info::role),
    ("scan", scan::scan),
    ("select", connection::select),
    ("set", string::set),
    ("setex", string::setex),
    ("setnx", string::setnx),
    ("setrange", string::setrange),
    ("slowlog", slowlog::slowlog),
    ("spublish", pubsub::spublish),
    ("ssubscribe", pubsub::ssubscribe),
    ("strlen", string::strlen),
    ("subscribe", pubsub::subscribe),
    ("sunsubscribe", pubsub::sunsubscribe),
    ("time", info::time),
    ("touch", keys::touch),
    ("ttl", expire::ttl),
    ("type", keys::kind),
    ("unlink", keys::del),
    ("unsubscribe", pubsub::unsubscribe),
    ("unwatch", transaction::unwatch),
    ("wait", info::wait),
    ("watch", transaction::watch),
];
