//! Users and their rights: the command `ACL`, and the check whether a client's user may execute a request.
//!
//! ```text
//!   request ──> is there only the default user, unchanged?  yes: execute
//!                 └─no─> look up the client's user again if users changed ──> has the user all rights?  yes: execute
//!                          └─no─> check command ──> keys or channels ──> namespace ──> execute, or NOPERM, log entry
//! ```
//! Rights are checked when a request is executed or queued. A queued request is checked again when it is executed.
//! `crates/command/src/resp/admit.rs` calls the checks before a command is executed.
//! `crates/command/src/memcache/rights.rs` checks the rights of memcached clients.

use crate::resp::aside;
use crate::resp::clients;
use crate::resp::session::CommandOrigin;
mod client_user;
mod operator;
mod rights;
mod token_user;
mod users;
pub mod users_file;

pub(in crate::resp) use client_user::ClientUser;
pub use operator::{OperatorCheck, check_operator, requires_operator};
pub use rights::{NUMBER_COUNT, Rights};
pub(crate) use rights::{READ, WRITE, name_of, number_named};
pub(in crate::resp) use rights::{number_of, number_of_request};
pub(crate) use token_user::TokenUser;
pub use users::{FileError, User, Users};
pub(in crate::resp) use users::{FileWork, PasswordWork, WorkedPasswords};

use super::catalog::{COMMANDS, CommandSpec, Flag, find, lower};
use super::databases;
use super::error::{ErrorReply, Line, shown};
use super::help::other_subcommand;
use super::key_specs::{key_specs, only_gets_fields, set_reads};
use super::number::integer;
use crate::clients::audit::AuditEvent;
use crate::clients::client_info::{CLIENT_TEXT_MAX, ClientText};
use crate::clients::endpoint::Protocol;
use crate::config::PasswordHash;
use crate::context::{AuthWait, audit_redis};
use crate::resp::blocking;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::session::{OutsideWait, is_token, take_auth_wait, update_restriction};
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Limits, Parsed, Parser, Version, reply};
use protocol::sink::Sink;
use rights::{CATEGORIES, hex, numbers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub(crate) use users::{DEFAULT, Refusal};
use users::{FileResult, NAME_BYTES_MAX, NO_MEMORY, PasswordRules, is_name};

/// The keys of a request, as far as they are known when the client's rights to execute the request are checked.
#[derive(Clone, Copy)]
pub(super) enum KnownKeys<'k, 'c> {
    /// All keys are known, from these arguments of the request.
    All(Args<'c>),
    /// The request has only this key.
    One(&'k [u8]),
    /// The request has only this key. It reads and writes the value, whatever its command usually does.
    OneReadAndWritten(&'k [u8]),
    /// Not all keys have been received yet.
    Some,
    /// The keys are checked later, when all have been received.
    Later,
}

/// Returns the kinds of access, [`READ`] and [`WRITE`], that the command or subcommand `number` needs to its key number
/// `place`. Returns 0 for one that neither returns nor changes a value, such as `EXISTS`.
fn access(number: usize, place: usize, args: Option<Args<'_>>) -> u8 {
    match name_of(number) {
        "set" if !args.is_some_and(|args| set_reads(args.skip(2))) => WRITE,
        "delex" if args.is_some_and(|args| args.len() > 1) => READ | WRITE,
        // As in Redis, requests that only read need no right to write.
        "bitfield" if args.is_some_and(only_gets_fields) => READ,
        name if name.starts_with("rec.") && COMMANDS[number].has(Flag::Write) => READ | WRITE,
        name => {
            let specs = key_specs(name);
            let spec = if place == 0 { specs.first() } else { specs.last() };
            let flags = spec.map_or(&[][..], |spec| spec.flags);
            let writes = flags.iter().any(|flag| matches!(*flag, "insert" | "update" | "delete"));
            let reads = flags.contains(&"access");
            (READ * u8::from(reads)) | (WRITE * u8::from(writes))
        }
    }
}

/// The error reply for a refused request, the kind of right that is missing, and the name of the refused object.
struct Denied {
    fault: ErrorReply,
    reason: &'static str,
    object: Vec<u8>,
}

impl Denied {
    fn namespace(name: &str) -> Self {
        Self { fault: ErrorReply::NoNamespacePermission, reason: "namespace", object: name.into() }
    }
}

/// Returns the reason why `rights` refuse a request of the command or subcommand `number`, regardless of the namespace.
/// Returns `None` if they allow it.
fn denied(rights: &Rights, entry: &'static CommandSpec, number: usize, asked: KnownKeys<'_, '_>) -> Option<Denied> {
    if !rights.allows(number) {
        return Some(Denied {
            fault: ErrorReply::NoPermission(number),
            reason: "command",
            object: name_of(number).into(),
        });
    }
    let key = |object: &[u8]| Denied { fault: ErrorReply::NoKeyPermission, reason: "key", object: object.to_vec() };
    let channels = match (entry.name, asked) {
        ("publish" | "spublish", KnownKeys::All(args)) => Some((args, 1, false)),
        ("subscribe" | "ssubscribe", KnownKeys::All(args)) => Some((args, usize::MAX, false)),
        ("psubscribe", KnownKeys::All(args)) => Some((args, usize::MAX, true)),
        _ => None,
    };
    if let Some((mut args, count, is_pattern)) = channels {
        let name = args.by_ref().take(count).find(|name| !rights.allows_channel(name, is_pattern))?;
        return Some(Denied { fault: ErrorReply::NoChannelPermission, reason: "channel", object: name.to_vec() });
    }
    match asked {
        _ if entry.has(Flag::PubSub) => None,
        KnownKeys::All(args) if entry.name == "g.stats" && args.len() == 0 => {
            (!rights.reads_all_keys()).then(|| key(b""))
        }
        // A command on a whole record set accesses keys that are not in the request, so it requires access to all keys.
        _ if entry.keys.0 == 0 => {
            let may = if entry.has(Flag::ReadOnly) { rights.reads_all_keys() } else { rights.all_keys() };
            // The same holds for figures of all graphs.
            let is_covered = entry.name.starts_with("rec.") || entry.name.starts_with("g.");
            (is_covered && !may).then(|| key(b""))
        }
        KnownKeys::All(args) => {
            let mut keys = entry.keys_of(args).enumerate();
            let (_, name) = keys.find(|(place, name)| !rights.allows_key(name, access(number, *place, Some(args))))?;
            Some(key(name))
        }
        KnownKeys::One(name) => (!rights.allows_key(name, access(number, 0, None))).then(|| key(name)),
        KnownKeys::OneReadAndWritten(name) => (!rights.allows_key(name, READ | WRITE)).then(|| key(name)),
        KnownKeys::Some => (!rights.all_keys()).then(|| key(b"")),
        KnownKeys::Later => None,
    }
}

/// Refuses a request that the client's user may not execute. Called only while some user does not have all rights.
#[cold]
pub(super) fn permit(call: &mut Call<'_, '_>, entry: &'static CommandSpec, asked: KnownKeys<'_, '_>) -> Run {
    let changes = call.ctx.admission.user_changes;
    if call.session.seen_changes != changes && !refresh_user(call) {
        return Err(Interrupt::Quit);
    }
    let user = match &call.session.user {
        ClientUser::OfFile => {
            call.session.all_rights_at = changes;
            return Ok(());
        }
        ClientUser::User(user) => Arc::clone(user),
        ClientUser::Token(token) => Arc::clone(&token.user),
        ClientUser::Default => match call.ctx.shared.users.find(DEFAULT) {
            Some(user) => user,
            None => return Err(Interrupt::Quit),
        },
    };
    if user.rights.is_unrestricted() {
        call.session.all_rights_at = changes;
        return Ok(());
    }
    if is_always_allowed(call.session, entry) {
        return Ok(());
    }
    let first = if let KnownKeys::All(mut args) = asked { args.next() } else { None };
    let denied = denied(&user.rights, entry, number_of(entry, first), asked);
    let denied = denied.or_else(|| denied_namespace(call, &user.rights, entry, asked));
    let Some(denied) = denied else { return Ok(()) };
    call.counters().note_denied(denied.reason);
    log_refusal(call, denied.reason, denied.object, user.name.clone());
    Err(denied.fault.into())
}

/// Returns true if every user may execute the command: to authenticate, to reset the connection and to close it. The
/// commands by which a call of another protocol becomes a transaction are allowed too.
pub(super) fn is_always_allowed(session: &super::SessionState, entry: &CommandSpec) -> bool {
    matches!(entry.name, "auth" | "hello" | "quit" | "reset")
        || session.origin == CommandOrigin::Call && matches!(entry.name, "multi" | "exec" | "watch" | "unwatch")
}

/// Returns an error if the client's user has used up its quota of requests per second. Otherwise takes the request from
/// the quota.
pub(super) fn take_op(call: &Call<'_, '_>) -> Result<(), ErrorReply> {
    let take = |user: &User| if user.take_op(call.ctx.now) { Ok(()) } else { Err(ErrorReply::TooManyOpsOfUser) };
    match &call.session.user {
        ClientUser::OfFile | ClientUser::Token(_) => Ok(()),
        ClientUser::User(user) => take(user),
        ClientUser::Default => call.ctx.shared.users.find(DEFAULT).map_or(Ok(()), |user| take(&user)),
    }
}

/// Returns true if the client's user may read all keys.
pub(super) fn may_read_all_keys(call: &Call<'_, '_>) -> bool {
    has_right(call, Rights::reads_all_keys)
}

/// Returns the error of a client whose user may not execute the command `name`.
pub(super) fn refused_command(call: &Call<'_, '_>, name: &str) -> Option<ErrorReply> {
    let number = number_named(name);
    (!has_right(call, |rights| rights.allows(number))).then_some(ErrorReply::NoPermission(number))
}

fn has_right(call: &Call<'_, '_>, right: impl Fn(&Rights) -> bool) -> bool {
    if call.ctx.shared.users.changes() == 0 && !is_token(call.session) {
        return true;
    }
    match &call.session.user {
        ClientUser::OfFile => true,
        ClientUser::Token(token) => right(&token.user.rights),
        ClientUser::User(user) => right(&user.rights),
        ClientUser::Default => call.ctx.shared.users.find(DEFAULT).is_some_and(|user| right(&user.rights)),
    }
}

/// Returns the reason why `rights` refuse a request in the client's namespace, or in a namespace that the request
/// names. Returns `None` if they allow it.
fn denied_namespace(
    call: &Call<'_, '_>,
    rights: &Rights,
    entry: &CommandSpec,
    asked: KnownKeys<'_, '_>,
) -> Option<Denied> {
    if rights.all_namespaces() {
        return None;
    }
    let args = if let KnownKeys::All(args) = asked { Some(args) } else { None };
    let first = args.and_then(|mut args| args.next());
    let other =
        args.and_then(|args| databases::other((call.session.namespace, &call.ctx.shared.namespaces), entry, args));
    let namespaces = &call.ctx.shared.namespaces;
    let there = match entry.name {
        // If the namespace does not exist, the command itself refuses it.
        "select" => namespaces.find(first?)?,
        // Invalidations name the keys of the database.
        "client" if first?.eq_ignore_ascii_case(b"tracking") => call.session.namespace,
        // The topic of a gRPC call belongs to a cache.
        "publish" if call.session.origin == CommandOrigin::Call => call.session.namespace,
        "flushall" | "swapdb" => return Some(Denied::namespace("all")),
        name if name.starts_with("rec.") || entry.categories.contains(&"keyspace") => call.session.namespace,
        _ if entry.keys.0 != 0 && !entry.has(Flag::PubSub) => call.session.namespace,
        _ => return None,
    };
    [Some(there), other].into_iter().flatten().find_map(|there| {
        let name = namespaces.name(there);
        (!rights.allows_namespace(there.0, &name)).then(|| Denied::namespace(&name))
    })
}

/// Returns true if the client may lack the rights to a request: if users have changed, or if it has a signed token.
pub(super) fn has_limits(call: &Call<'_, '_>) -> bool {
    call.ctx.shared.users.changes() != 0 || is_token(call.session)
}

/// Checks the client's rights to a queued request again, because users may have changed since it was queued, even by an
/// earlier request of the same transaction.
pub(super) fn permit_queued(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    args: Args<'_>,
) -> Result<(), ErrorReply> {
    if !has_limits(call) {
        return Ok(());
    }
    call.ctx.admission.user_changes = call.ctx.shared.users.changes();
    let reason = match permit(call, entry, KnownKeys::All(args)) {
        Ok(()) => return Ok(()),
        Err(Interrupt::Fault(ErrorReply::NoPermission(_))) => "no permission to execute the command or subcommand",
        Err(Interrupt::Fault(ErrorReply::NoKeyPermission)) => "no permission to touch the specified keys",
        Err(Interrupt::Fault(ErrorReply::NoChannelPermission)) => {
            "no permission to access one of the channels used as arguments"
        }
        Err(Interrupt::Fault(ErrorReply::NoNamespacePermission)) => "no permission to use keys of this database",
        Err(_) => "no permission",
    };
    Err(ErrorReply::PermissionRevoked(reason))
}

/// Looks up the client's user again, because users have changed. Returns false if the user no longer exists.
fn refresh_user(call: &mut Call<'_, '_>) -> bool {
    if let ClientUser::User(user) = &call.session.user {
        match call.ctx.shared.users.find(&user.name) {
            Some(user) => call.session.user = ClientUser::User(user),
            None => return false,
        }
    }
    call.session.seen_changes = call.ctx.admission.user_changes;
    true
}

fn log_refusal(call: &mut Call<'_, '_>, reason: &'static str, object: Vec<u8>, user: Vec<u8>) {
    let context = match () {
        () if call.session.origin == CommandOrigin::Script => "lua",
        () if call.session.is_queueing() || call.collects_replies => "multi",
        () => "toplevel",
    };
    let client = clients::client_line(call);
    call.ctx.shared.users.refused(Refusal { reason, context, object, user }, call.ctx.now, client);
}

/// Authenticates the client as the user `name` if the password is right. Otherwise, logs the refusal and returns an
/// error.
pub(super) fn authenticate(call: &mut Call<'_, '_>, name: &[u8], password: &[u8], has_name: bool) -> Run {
    let shared = &call.ctx.shared;
    if !has_name && shared.auth.is_none() && shared.users.find(DEFAULT).is_some_and(|user| user.no_password) {
        take_auth_wait(call.session).abandon(call.ctx);
        return Err(ErrorReply::NoUsers.into());
    }
    let mut wait = wait_after_failures(call)?;
    let mut admitted = admitted_user(call, name, password);
    if admitted.is_none() {
        wait = check_password(call, wait, name, password)?;
        admitted = admitted_user(call, name, password);
    }
    let protocol = if call.session.origin == CommandOrigin::Call { Protocol::Grpc } else { Protocol::Resp };
    wait.end(call.ctx, (name, protocol), admitted.is_some());
    call.counters().auth_cmds.add(1);
    let Some(user) = admitted else {
        call.counters().auth_errors.add(1);
        let command = command_name(call).to_vec();
        log_refusal(call, "auth", command, name.iter().take(NAME_BYTES_MAX).copied().collect());
        return Err(ErrorReply::WrongPassword.into());
    };
    call.session.user = user;
    (call.session.known, call.session.all_rights_at) = (true, 0);
    update_restriction(call.session);
    call.session.seen_changes = call.ctx.admission.user_changes;
    let user: ClientText = name.iter().take(CLIENT_TEXT_MAX).copied().collect();
    call.with_client_info(|client_info| client_info.user = user);
    Ok(())
}

/// Returns the name of the command that authenticates, as the client wrote it.
fn command_name<'c>(call: &Call<'c, '_>) -> &'c [u8] {
    let rest = call.buf.get(call.at..).unwrap_or_default();
    match Parser::new().parse(rest, &Limits::REDIS) {
        Parsed::Request { mut args, .. } => args.next().filter(|name| is_login(name)).unwrap_or(b"AUTH"),
        _ => b"AUTH",
    }
}

/// Returns true for the names of the commands with which a client authenticates.
fn is_login(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"auth") || name.eq_ignore_ascii_case(b"hello")
}

/// Delays an attempt because of earlier failures from the same source. Returns the wait that has ended.
fn wait_after_failures(call: &mut Call<'_, '_>) -> Result<AuthWait, Interrupt> {
    let mut wait = take_auth_wait(call.session);
    let is_first = !wait.is_waiting();
    if !wait.must_wait(call.ctx) {
        return Ok(wait);
    }
    let is_delayed = is_first && wait.was_delayed();
    call.counters().auth_delayed.add(u64::from(is_delayed));
    Err(rest(call, wait))
}

/// Lets another thread check the password against Argon2id hashes, unless it has done so. Returns the wait that has
/// ended.
fn check_password(
    call: &mut Call<'_, '_>,
    mut wait: AuthWait,
    name: &[u8],
    password: &[u8],
) -> Result<AuthWait, Interrupt> {
    let hashes = call.ctx.shared.users.hashes_to_check(name, password);
    if hashes.is_empty() {
        return Ok(wait);
    }
    if !blocking::may_wait(call) || wait.must_check(call.ctx, password, hashes) {
        return Err(rest(call, wait));
    }
    Ok(wait)
}

/// Returns the state in which the connection rests, with the request in its input. A connection rests only without
/// unsent output. If it has some, the worker visits it again. A transaction cannot wait, because it holds locks, so an
/// attempt in a transaction is refused instead.
fn rest(call: &mut Call<'_, '_>, wait: AuthWait) -> Interrupt {
    if !blocking::may_wait(call) {
        wait.abandon(call.ctx);
        return ErrorReply::AuthDelayed.into();
    }
    call.session.outside = Some(Box::new(OutsideWait::Auth(wait)));
    let want = LINE_ROOM;
    if call.out.is_empty() { SessionWait::Blocked.into() } else { SessionWait::OutputFull { want }.into() }
}

/// Returns the user with this name, if the password is right, as far as that is known without Argon2id.
fn admitted_user(call: &Call<'_, '_>, name: &[u8], password: &[u8]) -> Option<ClientUser> {
    let (shared, file) = (&call.ctx.shared, call.ctx.shared.auth.as_ref());
    match shared.users.admits(name, password) {
        Some(user) => Some(ClientUser::User(user)),
        None => file.filter(|file| file.admits(name, password)).map(|_| ClientUser::OfFile),
    }
}

/// Returns the name of the user as whom the client is authenticated.
fn user_name(call: &Call<'_, '_>) -> Vec<u8> {
    match &call.session.user {
        ClientUser::User(user) => user.name.clone(),
        ClientUser::Token(token) => token.user.name.clone(),
        ClientUser::Default => DEFAULT.to_vec(),
        ClientUser::OfFile => call.with_client_info(|client_info| client_info.user.to_vec()).unwrap_or_default(),
    }
}

/// Executes `ACL CAT | DELUSER | DRYRUN | GENPASS | GETUSER | LIST | LOAD | LOG | SAVE | SETUSER | USERS | WHOAMI`.
pub(super) fn acl<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"whoami", 0) => {
            let name = user_name(call);
            reply::bulk(call.out, &name);
            Ok(())
        }
        (b"users", 0) => reply_users(call, |user| user.name.clone()),
        (b"list", 0) => reply_users(call, User::line),
        (b"getuser", 1) => reply_user(call, args.next().unwrap_or_default()),
        (b"setuser", 1..) => set_user(call, args),
        (b"deluser", 1..) => remove_users(call, args),
        (b"cat", 0) => reply_texts(call, CATEGORIES.iter().map(|category| category.as_bytes().to_vec()).collect()),
        (b"cat", 1) => reply_category(call, args.next().unwrap_or_default()),
        (b"genpass", 0 | 1) => reply_password(call, args.next()),
        (b"log", 0 | 1) => reply_log(call, args.next()),
        (b"dryrun", 2..) => dry_run(call, args),
        (b"load", 0) => {
            let read = work_on_file(call, |users| users.read().map(Some))?;
            let before = call.ctx.shared.users.all();
            file_done(call, read);
            disconnect_after_change(call, &before)
        }
        (b"save", 0) => {
            let saved = work_on_file(call, |users| users.save().map(|()| None))?;
            file_done(call, saved);
            Ok(())
        }
        _ => other_subcommand(call, "acl", topic),
    }
}

fn reply_users(call: &mut Call<'_, '_>, text: impl Fn(&User) -> Vec<u8>) -> Run {
    let (users, mut all) = (call.ctx.shared.users.all(), aside::long_reply(call));
    reply::array(&mut all, users.len() as u64);
    users.values().for_each(|user| reply::bulk(&mut all, &text(user)));
    aside::send_reply(call, all)
}

fn reply_texts(call: &mut Call<'_, '_>, texts: Vec<Vec<u8>>) -> Run {
    let mut all = Vec::new();
    reply::array(&mut all, texts.len() as u64);
    texts.iter().for_each(|text| reply::bulk(&mut all, text));
    aside::send_long_reply(call, all)
}

fn reply_user(call: &mut Call<'_, '_>, name: &[u8]) -> Run {
    let version = call.session.version;
    let Some(user) = call.ctx.shared.users.find(name) else {
        reply::null(call.out, version);
        return Ok(());
    };
    let mut all = aside::long_reply(call);
    let out = &mut all;
    let namespaces = (!user.rights.all_namespaces()).then(|| user.rights.namespaces_text());
    let ops_max = user.rights.ops_max();
    reply::map(out, version, 6 + u64::from(namespaces.is_some()) + u64::from(ops_max > 0));
    reply::bulk(out, b"flags");
    reply::set(out, version, user.flags().len() as u64);
    user.flags().iter().for_each(|flag| reply::bulk(out, flag.as_bytes()));
    reply::bulk(out, b"passwords");
    reply::array(out, user.stored_passwords().count() as u64);
    user.stored_passwords().for_each(|password| reply::bulk(out, password.as_bytes()));
    let texts = [user.rights.commands_text().into_bytes(), user.rights.keys_text(), user.rights.channels_text()];
    for (name, text) in ["commands", "keys", "channels"].into_iter().zip(texts) {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, &text);
    }
    reply::bulk(out, b"selectors");
    reply::array(out, 0);
    if let Some(text) = namespaces {
        reply::bulk(out, b"namespaces");
        reply::bulk(out, &text);
    }
    if ops_max > 0 {
        reply::bulk(out, b"ops");
        reply::int(out, ops_max as i64);
    }
    aside::send_reply(call, all)
}

fn set_user<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = args.next().unwrap_or_default();
    if !is_name(name) {
        reply::error(call.out, b"ERR Usernames can't contain spaces or null characters");
        return Ok(());
    }
    if name.len() > NAME_BYTES_MAX {
        reply::error(call.out, b"ERR the name of a user has at most 64 bytes");
        return Ok(());
    }
    let rules = args.collect::<Vec<&[u8]>>();
    let worked = hash_passwords(call, name, &rules)?;
    let before = call.ctx.shared.users.all();
    if let Err((number, wrong)) = call.ctx.shared.users.set(name, &rules, worked) {
        if wrong == NO_MEMORY {
            return Err(ErrorReply::ClientMemory.into());
        }
        let mut line = Line::new();
        line.put(b"ERR Error in ACL SETUSER modifier '");
        // As in Redis, the reply quotes the rule, but no new password. Only the client that sent the rule gets it.
        let rule = rules.get(number).copied().unwrap_or_default();
        shown(&mut line, if rule.starts_with(b">") { b">" } else { rule }, 128);
        line.put(b"': ");
        line.put(wrong.as_bytes());
        reply::error(call.out, line.as_slice());
        return Ok(());
    }
    audit_redis(call.ctx, AuditEvent::Acl, || shown_rules(name, &rules));
    call.out.push(reply::OK);
    disconnect_after_change(call, &before)
}

/// Returns the rules of `ACL SETUSER` for the audit log, without passwords and hashes.
fn shown_rules(name: &[u8], rules: &[&[u8]]) -> String {
    // A rule in the place of a forgotten name may be a password.
    let is_secret = |rule: &[u8]| matches!(rule, [b'>' | b'<' | b'#' | b'!' | b'$', ..]);
    let name = if is_secret(name) { "(redacted)".into() } else { String::from_utf8_lossy(name) };
    let mut text = format!("SETUSER {name}");
    for rule in rules {
        let is_secret = is_secret(rule);
        text.push(' ');
        text.push_str(&String::from_utf8_lossy(if is_secret { &rule[..1] } else { rule }));
        text.push_str(if is_secret { "(redacted)" } else { "" });
    }
    text
}

/// Lets another thread hash the passwords in `rules`, if they need Argon2id. The request is parked until that is done.
fn hash_passwords(call: &mut Call<'_, '_>, name: &[u8], rules: &[&[u8]]) -> Result<WorkedPasswords, Interrupt> {
    if let Some(OutsideWait::Passwords(begun)) = call.session.outside.take().map(|outside| *outside) {
        return match Arc::try_unwrap(begun) {
            Ok(ended) => ended.into_inner().ok_or_else(|| ErrorReply::Stopping.into()),
            Err(begun) => {
                call.session.outside = Some(Box::new(OutsideWait::Passwords(begun)));
                Err(SessionWait::Parked.into())
            }
        };
    }
    let shared = &call.ctx.shared;
    let hashes_new = shared.config.password_hash == PasswordHash::Argon2id;
    let rules = match PasswordRules::of(&shared.users, name, rules, hashes_new) {
        Ok(Some(rules)) => rules,
        Ok(None) => return Ok(WorkedPasswords::new()),
        Err(_) => return Err(ErrorReply::TooManyPasswords.into()),
    };
    let (result, worker, shared) = (PasswordWork::default(), call.ctx.worker, Arc::clone(shared));
    call.session.outside = Some(Box::new(OutsideWait::Passwords(Arc::clone(&result))));
    let job = Box::new(move || {
        let _ = result.set(rules.work());
        drop(result);
        shared.host.wake_worker(worker);
    });
    call.ctx.shared.host.hash_aside(job, None);
    Err(SessionWait::Parked.into())
}

/// Returns the rules that make `password` the only password of the default user. If it is empty, the user needs none.
fn default_password_rules(password: &[u8]) -> [Vec<u8>; 2] {
    [b"resetpass".to_vec(), if password.is_empty() { b"nopass".to_vec() } else { [b">", password].concat() }]
}

/// Lets another thread hash a new password of the default user. The request is parked until that is done.
pub(super) fn hash_default_password(call: &mut Call<'_, '_>, password: &[u8]) -> Result<WorkedPasswords, Interrupt> {
    hash_passwords(call, DEFAULT, &default_password_rules(password).each_ref().map(|rule| &rule[..]))
}

/// Sets the only password of the default user. `worked` is the result of [`hash_default_password`].
///
/// # Errors
/// If client memory is used up.
pub(super) fn set_default_password(
    call: &mut Call<'_, '_>,
    password: Vec<u8>,
    worked: WorkedPasswords,
) -> Result<(), &'static str> {
    let rules = default_password_rules(&password);
    let set = call.ctx.shared.users.set(DEFAULT, &rules.each_ref().map(|rule| &rule[..]), worked);
    set.map_err(|(_, wrong)| wrong)?;
    call.ctx.shared.live.set_password(password);
    Ok(())
}

/// Applies a change of users to the connected clients: closes the connections of removed users, and makes the workers
/// check the subscriptions of clients whose users lost rights to channels ([`ClientUser::check_channels`]). `before`
/// has the users before the change.
fn disconnect_after_change(call: &mut Call<'_, '_>, before: &BTreeMap<Vec<u8>, Arc<User>>) -> Run {
    let after = call.ctx.shared.users.all();
    let (mut ended, mut narrowed) = (BTreeSet::new(), BTreeSet::new());
    for (name, old) in before {
        match after.get(name) {
            None => ended.insert(&name[..]),
            Some(new) if Arc::ptr_eq(old, new) => false,
            Some(new) => !new.rights.includes_channels_of(&old.rights) && narrowed.insert(&name[..]),
        };
    }
    disconnect(call, &ended, &narrowed)
}

fn disconnect(call: &mut Call<'_, '_>, ended: &BTreeSet<&[u8]>, narrowed: &BTreeSet<&[u8]>) -> Run {
    let is_unchanged = ended.is_empty() && narrowed.is_empty();
    match !is_unchanged && clients::end_or_visit(call, ended, narrowed) {
        true => Err(Interrupt::Quit),
        false => Ok(()),
    }
}

/// Removes users, and closes the connections of their clients.
fn remove_users<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.into_iter().any(|name| name == DEFAULT) {
        reply::error(call.out, b"ERR The 'default' user cannot be removed");
        return Ok(());
    }
    let removed = call.ctx.shared.users.remove(args);
    let names = || removed.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join(" ");
    audit_redis(call.ctx, AuditEvent::Acl, || format!("DELUSER {}", names()));
    call.int(removed.len() as i64);
    let ended = removed.iter().map(|name| &name[..]).collect();
    disconnect(call, &ended, &BTreeSet::new())
}

fn reply_category(call: &mut Call<'_, '_>, category: &[u8]) -> Run {
    let Some(known) = CATEGORIES.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(category)) else {
        super::error::word(call.out, "ERR Unknown category", category);
        return Ok(());
    };
    let names = numbers().filter(|(_, _, categories)| categories.contains(&known));
    reply_texts(call, names.map(|(_, name, _)| name.as_bytes().to_vec()).collect())
}

fn reply_password(call: &mut Call<'_, '_>, bits: Option<&[u8]>) -> Run {
    let bits = bits.map_or(Ok(256), integer)?;
    if !(1..=4096).contains(&bits) {
        let text = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
                    up to 4096";
        reply::error(call.out, text.as_bytes());
        return Ok(());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = [0; 512];
    let mut got = 0;
    while got < digits.div_ceil(2) {
        let flags = rustix::rand::GetRandomFlags::empty();
        got += rustix::rand::getrandom(&mut bytes[got..], flags).map_err(|_| ErrorReply::OutOfRange)?;
    }
    call.room(digits)?;
    reply::bulk(call.out, &hex(&bytes).as_bytes()[..digits]);
    Ok(())
}

fn reply_log(call: &mut Call<'_, '_>, what: Option<&[u8]>) -> Run {
    if what.is_some_and(|what| what.eq_ignore_ascii_case(b"reset")) {
        call.ctx.shared.users.clear_log();
        call.out.push(reply::OK);
        return Ok(());
    }
    let count = what.map_or(Ok(10), integer)?;
    let entries = call.ctx.shared.users.logged(usize::try_from(count).unwrap_or(0));
    let (version, now): (Version, _) = (call.session.version, call.ctx.now);
    let mut all = Vec::new();
    let out = &mut all;
    reply::array(out, entries.len() as u64);
    for entry in entries {
        reply::map(out, version, 10);
        reply::bulk(out, b"count");
        reply::int(out, entry.count as i64);
        let refusal = &entry.refusal;
        for (name, text) in [
            ("reason", refusal.reason.as_bytes()),
            ("context", refusal.context.as_bytes()),
            ("object", &refusal.object),
            ("username", &refusal.user),
        ] {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, text);
        }
        reply::bulk(out, b"age-seconds");
        reply::bulk(out, format!("{:.3}", now.ms_since(entry.created) as f64 / 1000.0).as_bytes());
        reply::bulk(out, b"client-info");
        reply::bulk(out, entry.client.trim_end().as_bytes());
        for (name, number) in [
            ("entry-id", entry.number),
            ("timestamp-created", entry.created.0),
            ("timestamp-last-updated", entry.updated.0),
        ] {
            reply::bulk(out, name.as_bytes());
            reply::int(out, number as i64);
        }
    }
    aside::send_long_reply(call, all)
}

/// Executes `ACL DRYRUN`: replies whether a named user may execute a request in the namespace of this
/// connection.
fn dry_run<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, command) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let Some(user) = call.ctx.shared.users.find(name) else {
        return error_about(call, b"ERR User '", name, b"' not found");
    };
    let Some(entry) = find(command) else {
        return error_about(call, b"ERR Command '", command, b"' not found");
    };
    if !entry.accepts_words(args.len() + 1) {
        return Err(ErrorReply::Arity(entry.name).into());
    }
    let (first, mut line) = (args.into_iter().next(), Line::new());
    let denied = match entry.has(Flag::NoAuth) {
        // Every user may execute these, whatever the rights.
        true => None,
        false => denied(&user.rights, entry, number_of(entry, first), KnownKeys::All(args)),
    };
    match denied.or_else(|| denied_namespace(call, &user.rights, entry, KnownKeys::All(args))) {
        None => {
            call.out.push(reply::OK);
            return Ok(());
        }
        Some(Denied { reason: "command", object, .. }) => {
            line.put(b"This user has no permissions to run the '");
            shown(&mut line, &object, 128);
            line.put(b"' command");
        }
        Some(Denied { reason, object, .. }) => {
            line.put(b"This user has no permissions to access the '");
            shown(&mut line, &object, 128);
            line.put(b"' ");
            line.put(reason.as_bytes());
        }
    }
    reply::bulk(call.out, line.as_slice());
    Ok(())
}

fn error_about(call: &mut Call<'_, '_>, before: &[u8], name: &[u8], behind: &[u8]) -> Run {
    let mut line = Line::new();
    line.put(before);
    shown(&mut line, name, 128);
    line.put(behind);
    reply::error(call.out, line.as_slice());
    Ok(())
}

/// Does `work` on the file of users in another thread, because a disk may take long. The request is parked until the
/// result is there.
fn work_on_file(call: &mut Call<'_, '_>, work: fn(&Users) -> FileResult) -> Result<FileResult, Interrupt> {
    if let Some(OutsideWait::File(begun)) = call.session.outside.take().map(|outside| *outside) {
        match Arc::try_unwrap(begun) {
            Ok(ended) => return Ok(ended.into_inner().unwrap_or(Err(FileError::Stopped))),
            Err(begun) => call.session.outside = Some(Box::new(OutsideWait::File(begun))),
        }
    } else {
        let (result, worker, shared) = (FileWork::default(), call.ctx.worker, Arc::clone(&call.ctx.shared));
        call.session.outside = Some(Box::new(OutsideWait::File(Arc::clone(&result))));
        call.ctx.shared.host.run_aside(Box::new(move || {
            let _ = result.set(work(&shared.users));
            drop(result);
            shared.host.wake_worker(worker);
        }));
    }
    Err(SessionWait::Parked.into())
}

/// Adopts the users that were read, if any, and replies.
fn file_done(call: &mut Call<'_, '_>, done: FileResult) {
    match done {
        Ok(read) => {
            audit_redis(call.ctx, AuditEvent::Acl, || if read.is_some() { "LOAD" } else { "SAVE" }.to_owned());
            if let Some(read) = read {
                call.ctx.shared.users.adopt(read, false);
            }
            call.out.push(reply::OK);
        }
        Err(error) => {
            let line = format!("ERR {error}");
            let hint = call.ctx.shared.host.sandbox_hint(&line);
            reply::error(call.out, format!("{line}{hint}").as_bytes());
        }
    }
}
