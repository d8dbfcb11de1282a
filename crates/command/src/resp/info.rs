//! Commands that report on the server: `INFO`, `ROLE`, `WAIT`, `TIME` and `COMMAND`; and `DEBUG`.

use super::REDIS_VERSION;
use super::catalog::{COMMANDS, CommandSpec, find, lower};
use super::error::{ErrorReply, subcommand};
use super::help::{other_subcommand, reply_help};
use crate::keyspace::namespaces::Namespaces;
use crate::push::outbox::ChannelKind;
use crate::resp::call::{Call, Interrupt, Run};
use crate::shared::{Pause, Shared, WorkerShared};
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Fixed;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum length of a reply to `INFO` with all sections, in bytes.
const INFO_BYTES: usize = 12 << 10;

/// The text of an `INFO` reply, in a buffer of fixed size.
struct Text(Fixed<INFO_BYTES>);

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        protocol::sink::Sink::put(&mut self.0, text.as_bytes());
        Ok(())
    }
}

/// A function that writes a section of `INFO`. Its last argument is the current time, in seconds since the Unix epoch.
type Section = fn(&mut Text, &Shared, u64) -> std::fmt::Result;

/// The names and functions of the sections of `INFO`, in the order of the reply.
const SECTIONS: [(&str, Section); 7] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Stats", stats),
    ("Replication", replication),
    ("Keyspace", keyspace),
    (EXTRA, namespaces),
];

/// The section that `INFO` returns only if the client requests it by name, or requests all sections.
const EXTRA: &str = "Namespaces";

/// Executes `ROLE`: replies that the server is a primary without replicas.
pub(super) fn role<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    reply::array(call.out, 3);
    reply::bulk(call.out, b"master");
    call.int(0);
    reply::array(call.out, 0);
    Ok(())
}

/// Executes `WAIT replicas timeout`: replies 0, because there are no replicas.
pub(super) fn wait<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    super::number::integer(args.next().unwrap_or_default())?;
    let timeout = args.next().unwrap_or_default();
    match super::number::integer(timeout).map_err(|_| ErrorReply::Timeout)? {
        0.. => call.int(0),
        _ => return Err(ErrorReply::TimeoutBelowZero.into()),
    }
    Ok(())
}

/// Returns true if `is` returns true for one of the words.
fn any(mut words: Args<'_>, is: impl FnMut(&[u8]) -> bool) -> bool {
    words.any(is)
}

/// Executes `INFO [section ...]`.
pub(super) fn info<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.room(INFO_BYTES)?;
    let all = any(args, |word| matches!(&lower(word)[..], b"all" | b"everything"));
    let usual = args.len() == 0 || any(args, |word| word.eq_ignore_ascii_case(b"default"));
    let mut text = Text(Fixed::new());
    for (name, section) in SECTIONS {
        if all || usual && name != EXTRA || any(args, |word| word.eq_ignore_ascii_case(name.as_bytes())) {
            let blank = if text.0.as_slice().is_empty() { "" } else { "\r\n" };
            let written = write!(text, "{blank}# {name}\r\n")
                .and_then(|()| section(&mut text, &call.ctx.shared, call.ctx.now.secs()));
            written.expect("the text takes all sections");
        }
    }
    reply::verbatim(call.out, call.session.version, b"txt", text.0.as_slice());
    Ok(())
}

fn server(text: &mut Text, shared: &Shared, now_secs: u64) -> std::fmt::Result {
    let up_secs = now_secs.saturating_sub(shared.started.secs());
    write!(
        text,
        "redis_version:{REDIS_VERSION}\r\ngannet_version:{}\r\nredis_mode:standalone\r\nos:Linux\r\narch_bits:64\r\n\
         process_id:{}\r\nuptime_in_seconds:{up_secs}\r\nuptime_in_days:{}\r\nio_threads_active:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        up_secs / 86_400,
        shared.workers.len()
    )
}

fn clients(text: &mut Text, shared: &Shared, _: u64) -> std::fmt::Result {
    let most = shared.live.connections_max.load(Relaxed);
    let sum = |of: fn(&WorkerShared) -> u64| shared.workers.iter().map(of).sum::<u64>();
    write!(
        text,
        "connected_clients:{}\r\nmaxclients:{most}\r\nblocked_clients:{}\r\nbuffer_waits:{}\r\n\
         buffer_wait_us:{}\r\nbuffer_waiters:{}\r\nrequests_set_aside:{}\r\nreplies_set_aside:{}\r\n\
         bytes_set_aside:{}\r\n",
        shared.connections_open(),
        paused_clients(shared),
        sum(|worker| worker.counters.buffer_waits.value()),
        sum(|worker| worker.counters.buffer_wait_ns.value()) / 1000,
        sum(|worker| worker.counters.buffer_waiters.value()),
        sum(|worker| worker.aside.inputs()),
        sum(|worker| worker.aside.outputs()),
        sum(|worker| worker.aside.bytes()),
    )
}

/// Returns the number of clients whose requests wait because of `CLIENT PAUSE`.
fn paused_clients(shared: &Shared) -> u64 {
    let pause = &shared.live.pause;
    if pause.now(shared.now()) == Pause::None {
        return 0;
    }
    let workers = shared.workers.iter().map(|worker| &worker.counters);
    workers.filter(|counters| counters.paused_in.value() == pause.number()).map(|c| c.paused_clients.value()).sum()
}

fn memory(text: &mut Text, shared: &Shared, _: u64) -> std::fmt::Result {
    let stats = shared.store_stats();
    let policy = policy(shared);
    write!(
        text,
        "used_memory:{}\r\nused_memory_dataset:{}\r\nmaxmemory:{}\r\nmaxmemory_policy:{policy}\r\n\
         client_memory:{}\r\nclient_memory_max:{}\r\nclient_memory_refused:{}\r\n",
        stats.held_bytes,
        stats.item_bytes,
        stats.memory_bytes,
        shared.budget.used(),
        shared.budget.bytes_max(),
        shared.budget.refused()
    )
}

pub(super) fn policy(shared: &Shared) -> &'static str {
    if shared.config.evict { "allkeys-lfu" } else { "noeviction" }
}

fn stats(text: &mut Text, shared: &Shared, _: u64) -> std::fmt::Result {
    let (commands, store) = (shared.stats_since_reset(), shared.store_stats());
    let sum = |of: fn(&crate::metrics::counters::WorkerCounters) -> &crate::metrics::counters::Counter| -> u64 {
        shared.workers.iter().map(|worker| of(&worker.counters).value()).sum()
    };
    write!(
        text,
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_net_input_bytes:{}\r\n\
         rejected_connections:{}\r\nexpired_keys:{}\r\nevicted_keys:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\n\
         pubsub_channels:{}\r\npubsub_patterns:{}\r\npubsubshard_channels:{}\r\n\
         client_output_buffer_limit_disconnections:{}\r\n",
        sum(|counters| &counters.connections_total),
        sum(|counters| &counters.ops),
        sum(|counters| &counters.bytes_read),
        shared.acceptor.rejected.value(),
        store.expired,
        store.evicted,
        commands.get_hits,
        commands.get_misses,
        shared.channels.names(ChannelKind::Channel),
        shared.channels.names(ChannelKind::Pattern),
        shared.channels.names(ChannelKind::Shard),
        shared.channels.dropped.load(Relaxed)
    )
}

fn replication(text: &mut Text, _: &Shared, _: u64) -> std::fmt::Result {
    text.write_str("role:master\r\nconnected_slaves:0\r\n")
}

fn keyspace(text: &mut Text, shared: &Shared, _: u64) -> std::fmt::Result {
    for namespace in Namespaces::numbers() {
        let items = shared.store.keys(namespace);
        if items > 0 {
            write!(text, "db{}:keys={items},expires=0,avg_ttl=0\r\n", namespace.0)?;
        }
    }
    Ok(())
}

fn namespaces(text: &mut Text, shared: &Shared, _: u64) -> std::fmt::Result {
    for space in crate::keyspace::figures::figures(shared) {
        let (store, room, commands) = (space.store, space.room, space.commands);
        write!(
            text,
            "ns{}:name={},keys={},bytes={},heap={},heap_max={},evicted={},expired={},flushed={},hits={},misses={},\
             connections={},connections_refused={},ops_refused={}\r\n",
            space.namespace.0,
            space.name,
            store.items,
            store.item_bytes,
            store.heap_bytes,
            store.heap_bytes_max,
            store.evicted,
            store.expired,
            store.flushed,
            commands.get_hits,
            commands.get_misses,
            room.connections,
            room.connections_refused,
            room.ops_refused
        )?;
    }
    Ok(())
}

pub(super) fn time<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let millis = call.ctx.moment().to_wall(call.ctx.now).0;
    reply::array(call.out, 2);
    for number in [millis / 1000, millis % 1000 * 1000] {
        reply::bulk(call.out, protocol::number::Decimal::new(number).as_slice());
    }
    Ok(())
}

/// Executes `COMMAND [COUNT | LIST | INFO name ... | DOCS name ...]`.
pub(super) fn command<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"", _) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Info),
        (b"count", 0) => {
            call.int(COMMANDS.len() as i64);
            Ok(())
        }
        (b"list", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Name),
        (b"info", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Info),
        (b"info", count) => {
            reply_commands(call, count, |number| find(args.into_iter().nth(number)?), CommandReply::Info)
        }
        (b"docs", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Docs),
        (b"docs", _) => {
            let known = args.filter_map(find).count();
            reply_commands(call, known, |number| args.filter_map(find).nth(number), CommandReply::Docs)
        }
        _ => other_subcommand(call, "command", topic),
    }
}

/// The part of a command's catalog entry that a reply to `COMMAND` contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandReply {
    Name,
    Info,
    Docs,
}

/// Replies with `count` commands. If they do not fit into the output buffer, later visits continue the reply.
fn reply_commands(
    call: &mut Call<'_, '_>,
    count: usize,
    entry: impl Fn(usize) -> Option<&'static CommandSpec>,
    telling: CommandReply,
) -> Run {
    let version = call.session.version;
    let mut next = call.session.done as usize;
    if next == 0 {
        match telling {
            CommandReply::Docs => reply::map(call.out, version, count as u64),
            _ => reply::array(call.out, count as u64),
        }
    }
    while next < count {
        if call.out.room() < 2 * LINE_ROOM {
            return Err(Interrupt::State(SessionWait::OutputFull { want: 2 * LINE_ROOM }));
        }
        match (entry(next), telling) {
            (None, _) => reply::null_array(call.out, version),
            (Some(entry), CommandReply::Name) => reply::bulk(call.out, entry.name.as_bytes()),
            (Some(entry), CommandReply::Info) => entry.put_info(call.out, version),
            (Some(entry), CommandReply::Docs) => entry.put_docs(call.out, version),
        }
        next += 1;
        call.session.done = next as u32;
    }
    Ok(())
}

impl CommandSpec {
    /// Writes the ten elements of a command's entry in `COMMAND INFO`, in less than 1 KiB.
    fn put_info(&self, out: &mut crate::visit::out::OutBuffer, version: Version) {
        reply::array(out, 10);
        reply::bulk(out, self.name.as_bytes());
        reply::int(out, self.arity.into());
        reply::set(out, version, self.flags.len() as u64);
        self.flags.iter().for_each(|flag| reply::simple(out, flag.name().as_bytes()));
        let (first, last, step) = self.keys;
        [first, last, step].into_iter().for_each(|number| reply::int(out, number.into()));
        reply::set(out, version, self.categories.len() as u64);
        for category in self.categories {
            let mut text = Fixed::<32>::new();
            protocol::sink::Sink::put(&mut text, b"@");
            protocol::sink::Sink::put(&mut text, category.as_bytes());
            reply::simple(out, text.as_slice());
        }
        // The last three elements are empty: tips, key specifications and subcommands.
        (0..3).for_each(|_| reply::array(out, 0));
    }

    /// Writes a command's name and its documentation for `COMMAND DOCS`, in less than 1 KiB.
    fn put_docs(&self, out: &mut crate::visit::out::OutBuffer, version: Version) {
        reply::bulk(out, self.name.as_bytes());
        reply::map(out, version, 4);
        for (name, text) in
            [("summary", self.summary), ("since", self.since), ("group", self.group), ("complexity", self.complexity)]
        {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, text.as_bytes());
        }
    }
}

/// Executes `DEBUG SLEEP seconds`, for tests. Only this client waits.
pub(super) fn debug<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if !call.ctx.shared.config.debug_command {
        reply::error(call.out, b"ERR DEBUG command not allowed. Start the server with debug = true in [commands].");
        return Ok(());
    }
    let topic = args.next().unwrap_or_default();
    if topic.eq_ignore_ascii_case(b"help") && args.len() == 0 {
        let lines =
            ["SLEEP <seconds>", "    Makes this client wait. Decimals are allowed.", "HELP", "    Prints this help."];
        return reply_help(call, "debug", lines.into_iter());
    }
    if !topic.eq_ignore_ascii_case(b"sleep") || args.len() != 1 {
        subcommand(call.out, "DEBUG", topic);
        return Ok(());
    }
    let now_ms = call.ctx.now.0;
    if call.session.sleeps_until_ms == 0 {
        let secs = super::number::float(args.next().unwrap_or_default())?.clamp(0.0, 3600.0);
        call.session.sleeps_until_ms = now_ms + (secs * 1000.0) as u64;
    }
    if now_ms < call.session.sleeps_until_ms {
        return Err(SessionWait::Parked.into());
    }
    call.session.sleeps_until_ms = 0;
    call.out.push(reply::OK);
    Ok(())
}
