//! `CLIENT LIST`, `INFO`, `KILL` and `PAUSE`: list, close and pause the connections of Redis clients on all workers.
//!
//! For a connection of another worker, a command reports the data that the other worker last recorded in its connection
//! table. Names and subscriptions are current. The last command and the time of the last received bytes are at most two
//! seconds out of date.

use super::catalog::lower;
use super::error::ErrorReply;
use super::listing::LISTING_WORK;
use super::number::integer;
use super::subcommands::full_name;
use crate::clients::audit::AuditEvent;
use crate::clients::client_info::{ClientInfo, ClientMemory, Unblock};
use crate::clients::connection_table::Connection;
use crate::context::INPUT_BYTES;
use crate::context::audit_redis;
use crate::push::outbox::Outbox;
use crate::resp::aside;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::collection::words;
use crate::resp::listing;
use crate::resp::state::aside::LONG_REPLY_BYTES_MAX;
use crate::resp::state::listing::Listing;
use crate::shared::Pause;
use protocol::resp::{Args, reply};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of arguments of a request whose lengths are added up for its own line.
const ARGS_SUMMED_MAX: usize = 64;

/// The cost of writing one line of a list, relative to the cost of examining one entry of a connection table.
const WORK_A_LINE: usize = 7;

/// The maximum duration of a pause, one day, in ms. A longer pause ends after this time.
const PAUSE_MS_MAX: u64 = 86_400_000;

/// The type of a client, as the option `TYPE` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    PubSub,
    /// A replica or a primary. This server has no such clients.
    Replication,
}

impl ClientType {
    fn read(word: &[u8]) -> Option<Self> {
        match &lower(word)[..] {
            b"normal" => Some(Self::Normal),
            b"pubsub" => Some(Self::PubSub),
            b"master" | b"slave" | b"replica" => Some(Self::Replication),
            _ => None,
        }
    }

    fn of(client_info: &ClientInfo) -> Self {
        if client_info.is_subscribed() { Self::PubSub } else { Self::Normal }
    }
}

/// A filter that selects connections. A connection must meet all conditions that are set.
#[derive(Clone, Copy, Debug, Default)]
struct Filter<'c> {
    ids: Option<&'c BTreeSet<u64>>,
    id: Option<u64>,
    addr: Option<&'c [u8]>,
    laddr: Option<&'c [u8]>,
    kind: Option<ClientType>,
    user: Option<&'c [u8]>,
    age_secs_min: u64,
    /// True if the calling client is excluded.
    skip_me: bool,
}

impl Filter<'_> {
    fn takes(&self, connection: &Connection, client_info: &ClientInfo, me: u64, now_secs: u64) -> bool {
        let is = |wanted: &[u8], addr| shown(addr).as_bytes() == wanted;
        self.ids.is_none_or(|ids| ids.contains(&client_info.id))
            && self.id.is_none_or(|id| id == client_info.id)
            && self.addr.is_none_or(|addr| is(addr, connection.peer))
            && self.laddr.is_none_or(|addr| is(addr, client_info.local))
            && self.kind.is_none_or(|kind| kind == ClientType::of(client_info))
            && self.user.is_none_or(|user| user == name_of(client_info))
            && now_secs.saturating_sub(client_info.since_secs) >= self.age_secs_min
            && !(self.skip_me && client_info.id == me)
    }
}

fn shown(addr: Option<std::net::SocketAddr>) -> String {
    addr.map_or_else(|| "unix:0".to_owned(), |addr| addr.to_string())
}

/// Returns the name of the connection's user: `default` if the client info has none.
fn name_of(client_info: &ClientInfo) -> &[u8] {
    if client_info.user.is_empty() { b"default" } else { &client_info.user }
}

/// Returns the flags of a connection, as Redis's `CLIENT LIST` shows them.
fn flags(connection: &Connection, client_info: &ClientInfo, pause: Option<u64>) -> String {
    let tracking = client_info.tracking.as_deref();
    let set = [
        (client_info.monitors, 'O'),
        (client_info.is_subscribed(), 'P'),
        (client_info.memory.queued.is_some(), 'x'),
        (client_info.is_waiting || pause == Some(client_info.paused_in), 'b'),
        (tracking.is_some(), 't'),
        (tracking.is_some_and(|tracking| tracking.is_broken.load(Relaxed)), 'R'),
        (tracking.is_some_and(|tracking| tracking.broadcasts.load(Relaxed)), 'B'),
        (connection.peer.is_none(), 'U'),
    ];
    let flags: String = set.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

/// The data that the lines of all connections have in common.
#[derive(Clone, Copy)]
struct Listed {
    now_secs: u64,
    /// The number of the calling client.
    me: u64,
    /// The number of the current pause; `None` if clients are not paused.
    pause: Option<u64>,
}

impl Listed {
    fn of(call: &Call<'_, '_>) -> Self {
        let (pause, now) = (&call.ctx.shared.live.pause, call.ctx.now);
        let number = (pause.now(now) != Pause::None).then(|| pause.number());
        Self { now_secs: now.secs(), me: call.id(), pause: number }
    }
}

/// Writes a connection's line in the form of Redis's `CLIENT LIST`.
fn line(connection: &Connection, client_info: &ClientInfo, listed: Listed, text: &mut impl std::fmt::Write) {
    let word = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let Listed { now_secs, me, pause } = listed;
    let [channels, patterns, shards] = client_info.subscriptions;
    let memory = &client_info.memory;
    let idle_secs = if client_info.id == me { 0 } else { now_secs.saturating_sub(connection.received_secs) };
    let written = writeln!(
        text,
        "id={} addr={} laddr={} fd={} name={} age={} idle={idle_secs} flags={} db={} sub={channels} psub={patterns} \
         ssub={shards} multi={} qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs={} rbp=0 obl={} oll={} omem={} \
         tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
        client_info.id,
        shown(connection.peer),
        shown(client_info.local),
        connection.number,
        word(&client_info.name),
        now_secs.saturating_sub(client_info.since_secs),
        flags(connection, client_info, pause),
        client_info.database,
        memory.queued.map_or(-1, i64::from),
        memory.query_bytes,
        memory.query_free_bytes,
        memory.args_bytes,
        memory.queue_bytes,
        memory.reply_capacity,
        memory.reply_bytes,
        u8::from(memory.held_bytes > 0),
        memory.held_bytes,
        memory.total_bytes(),
        if memory.is_sending { "rw" } else { "r" },
        if client_info.command.is_empty() { "NULL" } else { client_info.command },
        word(name_of(client_info)),
        client_info.tracking.as_ref().map_or(-1, |tracking| tracking.redirect.load(Relaxed) as i64),
        if client_info.is_resp3 { 3 } else { 2 },
        word(&client_info.library),
        word(&client_info.library_version),
    );
    written.expect("a string takes all text");
}

/// Records the current request, with the arguments `args` after its subcommand, in the connection's client info.
fn note_self<'c>(call: &Call<'c, '_>, args: Args<'c>) {
    let name = full_name("client", call.session.last_part);
    let args_bytes = name.len() - 1 + args.take(ARGS_SUMMED_MAX).map(<[u8]>::len).sum::<usize>();
    let query_bytes = call.rest().len();
    let memory = ClientMemory {
        query_bytes,
        query_free_bytes: INPUT_BYTES.saturating_sub(query_bytes),
        args_bytes,
        reply_bytes: call.out.unsent(),
        reply_capacity: call.out.capacity(),
        ..call.session.activity().1
    };
    call.with_client_info(|client_info| (client_info.command, client_info.memory) = (name, memory));
}

/// Calls `each` for the connections that `filter` selects, from the position `(worker, number)` on. One call examines
/// at most [`LISTING_WORK`] entries of connection tables. `each` returns the additional cost of a selected connection,
/// in entries. Returns true if no connections are left.
fn next_clients(
    call: &Call<'_, '_>,
    filter: &Filter<'_>,
    (worker, number): &mut (usize, usize),
    mut each: impl FnMut(usize, &Connection, &ClientInfo) -> usize,
) -> bool {
    let (me, now_secs, mut work) = (call.id(), call.ctx.now.secs(), LISTING_WORK);
    while let Some(shared) = call.ctx.shared.workers.get(*worker) {
        while *number < shared.connection_table.capacity() {
            if work == 0 {
                return false;
            }
            work -= 1;
            shared.connection_table.clients(*number..*number + 1, |connection, client_info| {
                if filter.takes(connection, client_info, me, now_secs) {
                    work = work.saturating_sub(each(*worker, connection, client_info));
                }
            });
            *number += 1;
        }
        (*worker, *number) = (*worker + 1, 0);
    }
    true
}

/// Executes `CLIENT LIST [TYPE kind | ID id ...]`.
pub(super) fn client_list<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let mut filter = Filter::default();
    let all = args;
    match (args.next().map(lower), args.len()) {
        (None, _) => {}
        (Some(word), 1) if &word[..] == b"type" => {
            let kind = args.next().unwrap_or_default();
            let Some(read) = ClientType::read(kind) else { return no_kind(call, kind) };
            filter.kind = Some(read);
        }
        (Some(word), 1..) if &word[..] == b"id" => read_ids(call, all)?,
        _ => return Err(ErrorReply::Syntax.into()),
    }
    note_self(call, all);
    let (listed, mut listing) = (Listed::of(call), listing::listing(call));
    let Listing { text, connection, ids, .. } = &mut *listing;
    filter.ids = (!ids.is_empty()).then_some(ids);
    let mut written = String::new();
    let is_end = next_clients(call, &filter, connection, |_, connection, client_info| {
        // Lines that would exceed the maximum length of a reply are omitted.
        if text.len() + written.len() + 1024 < LONG_REPLY_BYTES_MAX {
            line(connection, client_info, listed, &mut written);
        }
        WORK_A_LINE
    });
    text.extend_from_slice(written.as_bytes());
    if is_end { listing::reply_list_text(call, *listing) } else { listing::continue_later(call, listing) }
}

/// Parses the client numbers in `args`, except the first word, and inserts them into the listing's sorted set.
fn read_ids<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if call.session.done == 0 {
        // Skips the first word, which is not a number.
        call.session.done = 1;
    }
    let mut listing = listing::listing(call);
    let read = call.each_key(args, |_, id| {
        // No client has a number of 0 or less, but as in Redis, such a number is no error.
        let id = integer(id).map_err(|_| ErrorReply::ClientId)?;
        listing.ids.insert(id as u64);
        Ok(())
    });
    if !matches!(read, Err(Interrupt::Fault(_))) {
        listing::retain_listing(call, listing)?;
    }
    read
}

/// Executes `CLIENT INFO`.
pub(super) fn client_info<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    note_self(call, args);
    let text = client_line(call);
    reply_text(call, &text)
}

/// Returns this client's line in the form of `CLIENT INFO`.
pub(super) fn client_line(call: &Call<'_, '_>) -> String {
    let (listed, mut text) = (Listed::of(call), String::new());
    let number = call.ctx.push.watch.connection as usize;
    call.ctx
        .connection_table()
        .clients(number..number + 1, |connection, client_info| line(connection, client_info, listed, &mut text));
    text
}

/// Closes the connections of the users `ended`, and makes the workers visit those of the users `narrowed`, as if
/// messages were queued for them. Returns true if the calling client's own connection must be closed. One pass over the
/// tables serves any number of users.
pub(super) fn end_or_visit(call: &mut Call<'_, '_>, ended: &BTreeSet<&[u8]>, narrowed: &BTreeSet<&[u8]>) -> bool {
    let (me, mut place, mut closes_me, mut selected) = (call.id(), (0, 0), false, Vec::new());
    while !next_clients(call, &Filter::default(), &mut place, |worker, connection, client_info| {
        let (user, number) = (name_of(client_info), connection.number as u32);
        let ends = ended.contains(user);
        closes_me |= ends && client_info.id == me;
        if narrowed.contains(user) || ends && client_info.id != me {
            selected.push((worker, number, ends.then_some(client_info.id)));
        }
        1
    }) {}
    for (worker, number, killed) in selected {
        if killed.is_none_or(|id| call.ctx.shared.workers[worker].connection_table.kill(number, id)) {
            call.ctx.mark_messages_queued(worker, number);
        }
    }
    closes_me
}

/// Closes selected connections, from the position in `listing` on, and counts them in `listing`. If the calling
/// client's own connection is selected, only sets [`Listing::closes_me`], and the caller must close it. Returns true if
/// no connections are left.
fn kill_clients(call: &mut Call<'_, '_>, filter: &Filter<'_>, listing: &mut Listing) -> bool {
    let me = call.id();
    let mut killed = Vec::new();
    let Listing { connection, closes_me, count, .. } = listing;
    let is_end = next_clients(call, filter, connection, |worker, connection, client_info| {
        *count += 1;
        if client_info.id == me {
            *closes_me = true;
        } else {
            killed.push((worker, connection.number as u32, client_info.id));
        }
        1
    });
    if !killed.is_empty() {
        audit_redis(call.ctx, AuditEvent::Command, || format!("CLIENT KILL of {} connections", killed.len()));
    }
    for (worker, number, id) in killed {
        if call.ctx.shared.workers[worker].connection_table.kill(number, id) {
            call.ctx.mark_messages_queued(worker, number);
        }
    }
    is_end
}

fn reply_text(call: &mut Call<'_, '_>, text: &str) -> Run {
    let mut all = Vec::with_capacity(text.len() + 32);
    reply::verbatim(&mut all, call.session.version, b"txt", text.as_bytes());
    aside::send_long_reply(call, all)
}

fn no_kind(call: &mut Call<'_, '_>, word: &[u8]) -> Run {
    super::error::word(call.out, "ERR Unknown client type", word);
    Ok(())
}

/// Executes `CLIENT KILL addr:port`, or `CLIENT KILL` with conditions for the connections to close.
pub(super) fn client_kill<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let old_form = args.len() == 1;
    let mut filter = Filter { skip_me: !old_form, ..Filter::default() };
    if old_form {
        filter.addr = args.next();
    }
    while let Some(word) = args.next() {
        let value = args.next().ok_or(ErrorReply::Syntax)?;
        match &lower(word)[..] {
            b"id" => {
                let id = integer(value).ok().filter(|id| *id > 0).ok_or(ErrorReply::ClientIdAbove0)?;
                filter.id = Some(id as u64);
            }
            b"addr" => filter.addr = Some(value),
            b"laddr" => filter.laddr = Some(value),
            b"user" if !call.ctx.shared.users.has(value) => {
                super::error::word(call.out, "ERR No such user", value);
                return Ok(());
            }
            b"user" => filter.user = Some(value),
            b"type" => match ClientType::read(value) {
                Some(kind) => filter.kind = Some(kind),
                None => return no_kind(call, value),
            },
            b"maxage" => filter.age_secs_min = u64::try_from(integer(value)?).map_err(|_| ErrorReply::NotInteger)?,
            b"skipme" => match &lower(value)[..] {
                b"yes" => filter.skip_me = true,
                b"no" => filter.skip_me = false,
                _ => return Err(ErrorReply::Syntax.into()),
            },
            _ => return Err(ErrorReply::Syntax.into()),
        }
    }
    let mut listing = listing::listing(call);
    if !kill_clients(call, &filter, &mut listing) {
        return listing::continue_later(call, listing);
    }
    let (count, dies) = (listing.count, listing.closes_me);
    match (old_form, count) {
        (true, 0) => return Err(ErrorReply::NoSuchClient.into()),
        (true, _) => call.out.push(reply::OK),
        (false, _) => call.int(count as i64),
    }
    if dies { Err(Interrupt::Quit) } else { Ok(()) }
}

/// Executes `CLIENT UNBLOCK id [TIMEOUT | ERROR]`. Replies 1 if the client waited in a blocking command.
pub(super) fn client_unblock<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [id, reason] = words(args);
    let unblock = match &lower(reason)[..] {
        b"timeout" => Unblock::Timeout,
        b"" if args.len() == 1 => Unblock::Timeout,
        b"error" => Unblock::Error,
        _ => {
            reply::error(call.out, b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
            return Ok(());
        }
    };
    let id = integer(id)?;
    let mut listing = listing::listing(call);
    let filter = Filter { id: Some(id as u64), ..Filter::default() };
    let mut found = None;
    let is_end = next_clients(call, &filter, &mut listing.connection, |worker, connection, _| {
        found = Some((worker, connection.number as u32));
        1
    });
    if let Some((worker, number)) = found {
        let is_unblocked = call.ctx.shared.workers[worker].connection_table.client_info(number, |client_info| {
            let waits = client_info.id == id as u64 && client_info.is_waiting && client_info.unblocked.is_none();
            if waits {
                client_info.unblocked = Some(unblock);
            }
            waits
        });
        let is_unblocked = is_unblocked.unwrap_or(false);
        if is_unblocked {
            call.ctx.mark_messages_queued(worker, number);
        }
        call.int(is_unblocked.into());
        return Ok(());
    }
    if !is_end {
        return listing::continue_later(call, listing);
    }
    call.int(0);
    Ok(())
}

/// Returns the outbox of the client `id`, to which other clients' messages are redirected. Returns `None` if there is
/// no such client.
pub(super) fn outbox_of(call: &mut Call<'_, '_>, id: u64) -> Result<Option<Arc<Outbox>>, Interrupt> {
    let (mut listing, mut found) = (listing::listing(call), None);
    let filter = Filter { id: Some(id), ..Filter::default() };
    let is_end = next_clients(call, &filter, &mut listing.connection, |worker, connection, _| {
        found = Some((worker, connection.number as u32));
        1
    });
    if let Some((worker, number)) = found {
        let shared = &call.ctx.shared;
        let outbox = shared.workers[worker].connection_table.client_info(number, |client_info| {
            let is_there = client_info.id == id && !client_info.is_ending;
            is_there.then(|| shared.channels.outbox(worker, number))
        });
        return Ok(outbox.flatten());
    }
    if is_end {
        return Ok(None);
    }
    listing::continue_later(call, listing)?;
    Ok(None)
}

/// Executes `CLIENT PAUSE ms [WRITE | ALL]`.
pub(super) fn client_pause<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let ms = args.next().unwrap_or_default();
    let all = match args.next().map(lower) {
        None => true,
        Some(word) if &word[..] == b"all" => true,
        Some(word) if &word[..] == b"write" => false,
        Some(_) => return Err(ErrorReply::PauseMode.into()),
    };
    let ms = integer(ms).map_err(|_| ErrorReply::Timeout)?;
    let ms = u64::try_from(ms).map_err(|_| ErrorReply::TimeoutBelowZero)?;
    // In Redis, the end of so long a pause overflows and is in the past.
    let ms = if call.ctx.now.0.saturating_add(ms) > i64::MAX as u64 { 0 } else { ms };
    call.ctx.shared.live.pause.set(call.ctx.now, call.ctx.now.plus_ms(ms.min(PAUSE_MS_MAX)), all);
    call.out.push(reply::OK);
    Ok(())
}
