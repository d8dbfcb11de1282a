//! The rights of memcached clients: those of the users of `ACL`. A request needs the right to the Redis command that
//! does the same, to its keys, and to their namespaces. It takes one request of the user's quota.
//!
//! ```text
//!   visit ──> did users ever change?  no: execute, nothing is checked
//!              └─yes─> has the client's user all rights?  yes: execute
//!                       └─no─> each request: command ──> keys ──> namespaces ──> execute, or refuse and log
//! ```
//! A client that has not authenticated is the user `default`. A user of `listen.auth_file` has all rights.

use super::auth;
use super::call::Call;
use super::guarded;
use crate::clients::audit::AuditEvent;
use crate::clients::endpoint::Protocol;
use crate::context;
use crate::keyspace::namespaces::{LIMITED, Namespaces};
use crate::resp::acl::{DEFAULT, READ, Refusal, Rights, User, WRITE, name_of, number_named};
use protocol::memcache::meta::Meta;
use protocol::memcache::request::{Get, Stats};
use protocol::memcache::{KeyScratch, Request};
use std::sync::{Arc, LazyLock};

/// A right to a command.
#[derive(Clone, Copy)]
enum CommandRight {
    Get,
    GetAndTouch,
    Set,
    Delete,
    Increment,
    Decrement,
    Touch,
    Flush,
    Report,
    ResetReport,
    Configure,
    Watch,
    ListKeys,
}

/// The Redis commands that stand for the rights, in the order of [`CommandRight`].
const COMMANDS: [&str; 13] = [
    "get",
    "getex",
    "set",
    "del",
    "incrby",
    "decrby",
    "expire",
    "flushdb",
    "info",
    "config|resetstat",
    "config|set",
    "monitor",
    "keys",
];

/// The numbers of [`COMMANDS`].
static NUMBERS: LazyLock<[usize; COMMANDS.len()]> = LazyLock::new(|| COMMANDS.map(number_named));

/// Returns the command that a request needs a right to, and the access to its keys. Returns `None` if every client may
/// send the request.
fn needed(request: &Request<'_>) -> Option<(CommandRight, u8)> {
    let changes = |meta: &Meta<'_>| [b'T', b'N', b'R'].into_iter().any(|flag| meta.has(flag));
    Some(match request {
        Request::Get(Get { touch: None, .. }) | Request::MetaDebug(_) => (CommandRight::Get, READ),
        Request::Get(_) => (CommandRight::GetAndTouch, READ | WRITE),
        Request::MetaGet(meta) if changes(meta) => (CommandRight::GetAndTouch, READ | WRITE),
        Request::MetaGet(_) => (CommandRight::Get, READ),
        Request::Store(_) | Request::MetaStore(..) => (CommandRight::Set, WRITE),
        Request::Delete { .. } | Request::MetaDelete(_) => (CommandRight::Delete, WRITE),
        Request::Arith(arith) if arith.decrement => (CommandRight::Decrement, READ | WRITE),
        Request::Arith(_) | Request::MetaArith(_) => (CommandRight::Increment, READ | WRITE),
        Request::Touch { .. } => (CommandRight::Touch, WRITE),
        Request::FlushAll { .. } => (CommandRight::Flush, 0),
        Request::Stats(Stats::Reset | Stats::Detail(_)) => (CommandRight::ResetReport, 0),
        Request::Stats(Stats::Cachedump { .. }) | Request::Dump(_) => (CommandRight::ListKeys, 0),
        Request::Stats(_) => (CommandRight::Report, 0),
        Request::CacheMemlimit { .. } | Request::RefreshCerts | Request::Shutdown { .. } => {
            (CommandRight::Configure, 0)
        }
        Request::Watch(_) => (CommandRight::Watch, 0),
        Request::MetaNoop | Request::Version | Request::Verbosity { .. } | Request::CrawlerSetting | Request::Quit => {
            return None;
        }
    })
}

/// Looks up the client's user again if users have changed. Returns false if the user no longer exists, so that the
/// connection must be closed. Called in each visit after the first change of users.
#[cold]
pub(super) fn refresh(call: &mut Call<'_, '_>) -> bool {
    let guards = call.ctx.keys.guards & call.session.guards;
    if guards & LIMITED == 0 {
        return true;
    }
    let users = &call.ctx.shared.users;
    let found = match &call.session.user {
        Some(user) if !user.is_replaced() => None,
        Some(user) => match users.find(&user.name) {
            Some(user) => Some(user),
            None => return false,
        },
        None if call.session.known => None,
        None => users.find(DEFAULT),
    };
    if found.is_some() {
        call.session.user = found;
    }
    let is_limited = call.session.user.as_ref().is_some_and(|user| !user.rights.is_unrestricted());
    call.guarded = guards & !LIMITED != 0 || is_limited || auth::is_unauthenticated(call);
    true
}

/// Returns true if the client's user may execute the request, whose keys are in the namespaces `reached`, a set of
/// bits. If not, logs the refusal.
#[cold]
pub(super) fn permit(call: &mut Call<'_, '_>, request: &Request<'_>, reached: u32) -> bool {
    let Some(user) = call.session.user.clone() else { return true };
    let Some((right, access)) = needed(request) else { return true };
    let number = NUMBERS[right as usize];
    let denied = match () {
        () if !user.rights.allows(number) => Some(("command", name_of(number).as_bytes().to_vec())),
        () => denied_key(&user.rights, request, access).map(|key| ("key", key)),
    };
    let Some((reason, object)) = denied.or_else(|| denied_namespace(call, &user.rights, right, reached)) else {
        return true;
    };
    call.counters().note_denied(reason);
    log_refusal(call, &user, reason, object);
    false
}

/// Takes the request from the quota of requests per second of the client's user. Returns false if it is used up.
#[cold]
pub(super) fn take_op(call: &Call<'_, '_>, request: &Request<'_>) -> bool {
    let is_taken =
        matches!(request, Request::Quit) || call.session.user.as_ref().is_none_or(|user| user.take_op(call.ctx.now));
    call.counters().user_ops_refused.add(u64::from(!is_taken));
    is_taken
}

/// Records an event of a memcached client in the audit log. `detail` must return no secret.
#[cold]
pub(super) fn audit(call: &Call<'_, '_>, event: AuditEvent, detail: impl FnOnce() -> String) {
    let user =
        call.session.user.as_ref().map_or(if call.session.known { &b""[..] } else { DEFAULT }, |user| &user.name);
    context::audit(call.ctx, event, (user, Protocol::Memcache), detail);
}

/// Returns the first key of the request that the rights do not allow.
fn denied_key(rights: &Rights, request: &Request<'_>, access: u8) -> Option<Vec<u8>> {
    let mut scratch = KeyScratch::default();
    let key = match request {
        Request::Get(get) => {
            let mut keys = get.keys;
            return keys.find(|key| !rights.allows_key(key, access)).map(<[u8]>::to_vec);
        }
        Request::Store(header) => header.key,
        Request::Delete { key, .. } | Request::Touch { key, .. } => key,
        Request::Arith(arith) => arith.key,
        Request::MetaGet(meta) | Request::MetaDelete(meta) | Request::MetaArith(meta) => meta.key.bytes(&mut scratch),
        Request::MetaStore(meta, _) => meta.key.bytes(&mut scratch),
        Request::MetaDebug(key) => key.bytes(&mut scratch),
        _ => return None,
    };
    (!rights.allows_key(key, access)).then(|| key.to_vec())
}

/// Returns the name of the first namespace that the request uses and the rights do not allow.
fn denied_namespace(
    call: &Call<'_, '_>,
    rights: &Rights,
    right: CommandRight,
    reached: u32,
) -> Option<(&'static str, Vec<u8>)> {
    if rights.all_namespaces() {
        return None;
    }
    let used = match right {
        CommandRight::Flush | CommandRight::ListKeys => {
            guarded::namespaces_of_keys(call).fold(0, |used, namespace| used | 1 << namespace.0)
        }
        CommandRight::Get
        | CommandRight::GetAndTouch
        | CommandRight::Set
        | CommandRight::Delete
        | CommandRight::Increment
        | CommandRight::Decrement
        | CommandRight::Touch => reached,
        _ => 0,
    };
    let mut used = Namespaces::numbers().filter(|namespace| used & 1 << namespace.0 != 0);
    used.find_map(|namespace| {
        let name = call.ctx.shared.namespaces.name(namespace);
        (!rights.allows_namespace(namespace.0, &name)).then(|| ("namespace", name.as_bytes().to_vec()))
    })
}

fn log_refusal(call: &Call<'_, '_>, user: &Arc<User>, reason: &'static str, object: Vec<u8>) {
    let peer = call.ctx.connection_table().peer(call.ctx.push.watch.connection);
    let addr = peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
    let client = format!("addr={addr} user={} protocol=memcached", String::from_utf8_lossy(&user.name));
    let refusal = Refusal { reason, context: "toplevel", object, user: user.name.clone() };
    call.ctx.shared.users.refused(refusal, call.ctx.now, client);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_without_a_command_would_end_the_worker() {
        let named = NUMBERS.map(name_of);
        assert_eq!(named, COMMANDS);
        assert_eq!(COMMANDS[CommandRight::ListKeys as usize], "keys");
    }
}
