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
use crate::resp::catalog::words;
use crate::resp::listing;
use crate::resp::state::aside::LONG_REPLY_BYTES_MAX;
use crate::resp::state::listing::Listing;
use crate::shared::Pause;
use protocol::resp::{Args, reply};
use segment::Namespace;
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
            b"master" | b"primary" | b"slave" | b"replica" => Some(Self::Replication),
            _ => None,
        }
    }

    fn of(client_info: &ClientInfo) -> Self {
        if client_info.is_subscribed() { Self::PubSub } else { Self::Normal }
    }
}

/// The flags of clients that Redis and Valkey know. Clients of this server have some of them.
const FLAGS: &[u8] = b"AbBcdeEiIMNOPrRStTuUx";

/// The letter of the capability `redirect`, the only one.
const CAPABILITY: u8 = b'r';

/// The maximum number of letters that an error shows.
const LETTERS_SHOWN_MAX: usize = 64;

/// The maximum number of words of a filter. Each visit of a command parses them.
const FILTER_WORDS_MAX: usize = 1024;

/// A condition on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ClientCondition<'c> {
    /// The client has one of these numbers.
    Ids(Vec<u64>),
    Addr(&'c [u8]),
    LocalAddr(&'c [u8]),
    Ip(&'c [u8]),
    Type(ClientType),
    User(&'c [u8]),
    Name(&'c [u8]),
    Library(&'c [u8]),
    LibraryVersion(&'c [u8]),
    /// The client has all of these flags.
    Flags(&'c [u8]),
    /// The client has all of these capabilities.
    Capabilities(&'c [u8]),
    Database(u8),
    AgeSecs(u64),
    IdleSecs(u64),
}

impl ClientCondition<'_> {
    fn is_met(&self, connection: &Connection, client_info: &ClientInfo, listed: Listed) -> bool {
        let is = |wanted: &[u8], addr| shown(addr).as_bytes() == wanted;
        match self {
            Self::Ids(ids) => ids.contains(&client_info.id),
            Self::Addr(addr) => is(addr, connection.peer),
            Self::LocalAddr(addr) => is(addr, client_info.local),
            Self::Ip(ip) => connection.peer.is_some_and(|peer| peer.ip().to_string().as_bytes() == *ip),
            Self::Type(kind) => *kind == ClientType::of(client_info),
            Self::User(user) => *user == name_of(client_info),
            // A client without a name does not match an empty one.
            Self::Name(name) => !name.is_empty() && *name == &client_info.name[..],
            Self::Library(name) => !name.is_empty() && *name == &client_info.library[..],
            Self::LibraryVersion(version) => !version.is_empty() && *version == &client_info.library_version[..],
            Self::Flags(wanted) => {
                let flags = flags(connection, client_info, listed.pause);
                wanted.iter().all(|flag| flags.as_bytes().contains(flag))
            }
            Self::Capabilities(wanted) => wanted.is_empty() || client_info.can_redirect,
            Self::Database(number) => client_info.database == *number,
            Self::AgeSecs(secs) => listed.now_secs.saturating_sub(client_info.since_secs) >= *secs,
            Self::IdleSecs(secs) => idle_secs(connection, client_info, listed) >= *secs,
        }
    }
}

/// A filter that selects connections. A connection must meet all conditions.
#[derive(Clone, Debug, Default)]
struct Filter<'c> {
    /// The numbers of clients of a long list.
    ids: Option<&'c BTreeSet<u64>>,
    /// Conditions that a connection must meet.
    wanted: Vec<ClientCondition<'c>>,
    /// Conditions that a connection must not meet.
    unwanted: Vec<ClientCondition<'c>>,
    /// True if the calling client is excluded.
    skip_me: bool,
}

impl<'c> Filter<'c> {
    /// Returns the filter that selects the client with this number.
    fn of_id(id: u64) -> Self {
        Self { wanted: vec![ClientCondition::Ids(vec![id])], ..Self::default() }
    }

    fn takes(&self, connection: &Connection, client_info: &ClientInfo, listed: Listed) -> bool {
        let is_met = |condition: &ClientCondition<'_>| condition.is_met(connection, client_info, listed);
        self.ids.is_none_or(|ids| ids.contains(&client_info.id))
            && !(self.skip_me && client_info.id == listed.me)
            && self.wanted.iter().all(is_met)
            && !self.unwanted.iter().any(is_met)
    }

    /// Adds a condition. It replaces an earlier one of its kind; numbers of clients are added to earlier ones.
    fn add(&mut self, condition: ClientCondition<'c>, is_wanted: bool) {
        let conditions = if is_wanted { &mut self.wanted } else { &mut self.unwanted };
        let kind = std::mem::discriminant(&condition);
        let known = conditions.iter_mut().find(|known| std::mem::discriminant(*known) == kind);
        match (known, condition) {
            (Some(ClientCondition::Ids(known)), ClientCondition::Ids(ids)) => known.extend(ids),
            (Some(known), condition) => *known = condition,
            (None, condition) => conditions.push(condition),
        }
    }

    /// Parses the options of `CLIENT LIST` and `CLIENT KILL`. `least_id` is the lowest number of a client that is
    /// accepted, and `bad_id` the error for a word that is no number. Returns `None` after an error reply.
    fn read(
        mut self,
        call: &mut Call<'c, '_>,
        mut args: Args<'c>,
        (least_id, bad_id): (i64, ErrorReply),
    ) -> Result<Option<Self>, ErrorReply> {
        if args.len() > FILTER_WORDS_MAX {
            return Err(ErrorReply::TooManyFilterWords);
        }
        while let Some(word) = args.next() {
            let (option, value) = (lower(word), args.next().ok_or(ErrorReply::Syntax)?);
            let (option, is_wanted) = match option.strip_prefix(b"not-") {
                Some(option) if !matches!(option, b"idle" | b"maxage" | b"skipme") => (option, false),
                _ => (&option[..], true),
            };
            let negated = if is_wanted { "" } else { "NOT-" };
            let condition = match option {
                b"id" => ClientCondition::Ids(client_numbers(value, &mut args, least_id).ok_or(bad_id)?),
                b"addr" => ClientCondition::Addr(value),
                b"laddr" => ClientCondition::LocalAddr(value),
                b"ip" => ClientCondition::Ip(value),
                b"type" => match ClientType::read(value).map(ClientCondition::Type) {
                    Some(condition) => condition,
                    None => return no_kind(call, value),
                },
                b"user" if !call.ctx.shared.users.has(value) => {
                    super::error::word(call.out, "ERR No such user", value);
                    return Ok(None);
                }
                b"user" => ClientCondition::User(value),
                b"name" => ClientCondition::Name(value),
                b"lib-name" => ClientCondition::Library(value),
                b"lib-ver" => ClientCondition::LibraryVersion(value),
                b"flags" if !value.iter().all(|flag| FLAGS.contains(flag)) => {
                    return unknown_letters(call, "flags", if is_wanted { "" } else { "NOT-FLAGS" }, value);
                }
                b"flags" => ClientCondition::Flags(value),
                b"capa" if !value.iter().all(|letter| *letter == CAPABILITY) => {
                    return unknown_letters(call, "capa", if is_wanted { "" } else { "NOT-CAPA" }, value);
                }
                b"capa" => ClientCondition::Capabilities(value),
                b"db" => match integer(value) {
                    Ok(number @ 0..DATABASES) => ClientCondition::Database(number as u8),
                    Ok(_) => {
                        let last = DATABASES - 1;
                        return refuse(call, format_args!("{negated}DB number should be between 0 and {last}"));
                    }
                    Err(_) => return refuse(call, format_args!("{negated}DB is not an integer or out of range")),
                },
                b"maxage" => {
                    ClientCondition::AgeSecs(u64::try_from(integer(value)?).map_err(|_| ErrorReply::NotInteger)?)
                }
                b"idle" => match integer(value) {
                    Ok(secs @ 1..) => ClientCondition::IdleSecs(secs as u64),
                    Ok(_) => return refuse(call, format_args!("idle should be greater than 0")),
                    Err(_) => return refuse(call, format_args!("idle is not an integer or out of range")),
                },
                b"skipme" => {
                    self.skip_me = yes_or_no(value)?;
                    continue;
                }
                _ => return Err(ErrorReply::Syntax),
            };
            self.add(condition, is_wanted);
        }
        Ok(Some(self))
    }
}

/// Parses `first` and as many of the words behind it as are numbers of clients. Returns `None` if `first` is none.
fn client_numbers<'c>(first: &[u8], behind: &mut Args<'c>, least: i64) -> Option<Vec<u64>> {
    let number = |word| integer(word).ok().filter(|id| *id >= least).map(|id| id as u64);
    let mut ids = vec![number(first)?];
    let mut rest = *behind;
    while let Some(id) = rest.next().and_then(number) {
        ids.push(id);
        *behind = rest;
    }
    Some(ids)
}

fn yes_or_no(word: &[u8]) -> Result<bool, ErrorReply> {
    match &lower(word)[..] {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(ErrorReply::Syntax),
    }
}

/// The number of databases.
const DATABASES: i64 = Namespace::MAX as i64;

/// Replies with an error about an option of a filter.
fn refuse<T>(call: &mut Call<'_, '_>, text: std::fmt::Arguments<'_>) -> Result<Option<T>, ErrorReply> {
    reply::error(call.out, format!("ERR {text}").as_bytes());
    Ok(None)
}

/// Replies with an error about letters of a filter that name nothing. `option` is the option, or empty for the plain
/// one.
fn unknown_letters<T>(
    call: &mut Call<'_, '_>,
    what: &str,
    option: &str,
    letters: &[u8],
) -> Result<Option<T>, ErrorReply> {
    let filter = if option.is_empty() { "provided" } else { option };
    let shown = letters[..letters.len().min(LETTERS_SHOWN_MAX)].escape_ascii();
    refuse(call, format_args!("Unknown {what} found in the {filter} filter: {shown}"))
}

/// Returns the time since the last bytes of a client, in seconds.
fn idle_secs(connection: &Connection, client_info: &ClientInfo, listed: Listed) -> u64 {
    if client_info.id == listed.me { 0 } else { listed.now_secs.saturating_sub(connection.received_secs) }
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
    let Listed { now_secs, pause, .. } = listed;
    let [channels, patterns, shards] = client_info.subscriptions;
    let memory = &client_info.memory;
    let idle_secs = idle_secs(connection, client_info, listed);
    let capabilities = if client_info.can_redirect { " capa=r" } else { "" };
    let written = writeln!(
        text,
        "id={} addr={} laddr={} fd={} name={} age={} idle={idle_secs} flags={}{capabilities} db={} sub={channels} \
         psub={patterns} ssub={shards} multi={} qbuf={} qbuf-free={} argv-mem={} multi-mem={} rbs={} rbp=0 obl={} \
         oll={} omem={} tot-mem={} events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={}",
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
    let (listed, mut work) = (Listed::of(call), LISTING_WORK);
    while let Some(shared) = call.ctx.shared.workers.get(*worker) {
        while *number < shared.connection_table.capacity() {
            if work == 0 {
                return false;
            }
            work -= 1;
            shared.connection_table.clients(*number..*number + 1, |connection, client_info| {
                if filter.takes(connection, client_info, listed) {
                    work = work.saturating_sub(each(*worker, connection, client_info));
                }
            });
            *number += 1;
        }
        (*worker, *number) = (*worker + 1, 0);
    }
    true
}

/// Executes `CLIENT LIST`, with options that select connections.
pub(super) fn client_list<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let [first] = words(all);
    let filter = if all.len() > FILTER_WORDS_MAX && first.eq_ignore_ascii_case(b"id") {
        read_ids(call, all)?;
        Filter::default()
    } else {
        match Filter::default().read(call, all, (i64::MIN, ErrorReply::ClientId))? {
            Some(filter) => filter,
            None => return Ok(()),
        }
    };
    note_self(call, all);
    let (listed, mut listing) = (Listed::of(call), listing::listing(call));
    let Listing { text, connection, ids, .. } = &mut *listing;
    let filter = Filter { ids: (!ids.is_empty()).then_some(ids), ..filter };
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

/// Closes the connections of the users `ended`, except those of gRPC, whose calls and streams end one by one. Makes the
/// workers visit these, and those of the users `narrowed`, as if messages were queued for them. Returns true if the
/// calling client's own connection must be closed. One pass over the tables serves any number of users.
pub(super) fn end_or_visit(call: &mut Call<'_, '_>, ended: &BTreeSet<&[u8]>, narrowed: &BTreeSet<&[u8]>) -> bool {
    let (me, mut place, mut closes_me, mut selected) = (call.id(), (0, 0), false, Vec::new());
    while !next_clients(call, &Filter::default(), &mut place, |worker, connection, client_info| {
        let (user, number) = (name_of(client_info), connection.number as u32);
        let ends = ended.contains(user) && !client_info.is_grpc;
        closes_me |= ends && client_info.id == me;
        let is_visited = narrowed.contains(user) || client_info.is_grpc && ended.contains(user);
        if is_visited || ends && client_info.id != me {
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

fn no_kind<T>(call: &mut Call<'_, '_>, word: &[u8]) -> Result<Option<T>, ErrorReply> {
    super::error::word(call.out, "ERR Unknown client type", word);
    Ok(None)
}

/// Executes `CLIENT KILL addr:port`, or `CLIENT KILL` with conditions for the connections to close.
pub(super) fn client_kill<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let old_form = args.len() == 1;
    let mut filter = Filter { skip_me: !old_form, ..Filter::default() };
    if old_form {
        filter.add(ClientCondition::Addr(args.next().unwrap_or_default()), true);
    }
    let Some(filter) = filter.read(call, args, (1, ErrorReply::ClientIdAbove0))? else { return Ok(()) };
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
    let filter = Filter::of_id(id as u64);
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
    let filter = Filter::of_id(id);
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
