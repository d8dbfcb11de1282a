//! The users of gRPC calls: their rights to topics, and the users of signed tokens.

use super::acl::{ClientUser, DEFAULT, Rights, TokenUser, User, number_named};
use super::error::ErrorReply;
use super::session::SessionState;
use crate::clients::client_info::ClientInfo;
use crate::context::WorkerContext;
use crate::push::topics::TopicPublishing;
use crate::shared::Shared;
use protocol::resp::Version;
use segment::Namespace;
use std::sync::Arc;

/// A number that no namespace has.
const NO_NAMESPACE: u8 = u8::MAX;

/// The user of a call, which a subscription keeps beyond the call.
#[derive(Clone, Debug)]
pub(crate) struct CallUser(ClientUser);

/// Gives the session the user of a signed token.
pub(crate) fn enter_as_token(session: &mut SessionState, user: &Arc<TokenUser>) {
    session.user = ClientUser::Token(Arc::clone(user));
    (session.known, session.is_restricted, session.all_rights_at) = (true, false, 0);
}

/// The right of a user to a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamRight {
    /// The user may.
    Granted,
    /// The user lacks a right to the command, to the channel or keys, or to the namespace.
    Denied,
    /// The user was removed, or clients must authenticate now.
    Unknown,
}

/// Returns the user of the session's last request.
pub(crate) fn call_user(session: &SessionState) -> CallUser {
    CallUser(session.user.clone())
}

/// Returns whether `user` may subscribe to a topic. Users may have changed since the user was authenticated.
pub(crate) fn topic_right(user: &CallUser, shared: &Shared, namespace: Namespace, topic: &[u8]) -> StreamRight {
    right(user, shared, namespace, |rights| {
        rights.allows(number_named("subscribe")) && rights.allows_channel(topic, false)
    })
}

/// Returns whether `user` may learn of all changes of keys with these prefixes.
pub(crate) fn watch_right(
    user: &CallUser,
    shared: &Shared,
    namespace: Namespace,
    prefixes: &[Box<[u8]>],
) -> StreamRight {
    right(user, shared, namespace, |rights| {
        rights.allows(number_named("client|tracking")) && prefixes.iter().all(|prefix| rights.reads_prefix(prefix))
    })
}

fn right(
    user: &CallUser,
    shared: &Shared,
    namespace: Namespace,
    is_allowed: impl FnOnce(&Rights) -> bool,
) -> StreamRight {
    let Some(user) = current(&user.0, shared) else { return StreamRight::Unknown };
    let Some(user) = user else { return StreamRight::Granted };
    let rights = &user.rights;
    let may_enter =
        || rights.all_namespaces() || rights.allows_namespace(namespace.0, &shared.namespaces.name(namespace));
    if is_allowed(rights) && may_enter() { StreamRight::Granted } else { StreamRight::Denied }
}

/// Returns the present version of a client's user. Returns `None` if there is none any more, and `Some(None)` for a
/// user with all rights.
fn current(user: &ClientUser, shared: &Shared) -> Option<Option<Arc<User>>> {
    match user {
        ClientUser::OfFile => Some(None),
        ClientUser::Token(token) => Some(Some(Arc::clone(&token.user))),
        ClientUser::User(user) => shared.users.find_enabled(&user.name).map(Some),
        ClientUser::Default if shared.requires_authentication() => None,
        ClientUser::Default if shared.users.changes() == 0 => Some(None),
        ClientUser::Default => shared.users.find(DEFAULT).map(Some),
    }
}

/// Returns the name of the session's user, if that has all rights. The name of a token's user is that of its issuer.
pub(crate) fn unrestricted_user(session: &SessionState, ctx: &WorkerContext) -> Option<Vec<u8>> {
    if session.is_restricted || super::needs_login(session, &ctx.shared) {
        return None;
    }
    let user = current(&session.user, &ctx.shared)?;
    if user.is_some_and(|user| !user.rights.is_unrestricted()) {
        return None;
    }
    Some(match &session.user {
        ClientUser::Default => DEFAULT.to_vec(),
        ClientUser::User(user) => user.name.clone(),
        ClientUser::Token(token) => token.claims.issuer.clone(),
        ClientUser::OfFile => {
            let user = |info: &mut ClientInfo| info.user.to_vec();
            ctx.connection_table().client_info(ctx.push.watch.connection, user).unwrap_or_default()
        }
    })
}

/// Returns the error line of a `FLUSHDB` that the session's user may not execute in a namespace; `None` if the user
/// may. Only a user of all namespaces may flush one that does not exist (`None`), so that others do not learn which
/// exist.
pub(crate) fn flush_refusal(session: &SessionState, shared: &Shared, namespace: Option<Namespace>) -> Option<Vec<u8>> {
    let number = number_named("flushdb");
    let refusal = match current(&session.user, shared) {
        None => ErrorReply::NoPermission(number),
        Some(user) => {
            let user = user?;
            let rights = &user.rights;
            let may_use = |of: Namespace| rights.allows_namespace(of.0, &shared.namespaces.name(of));
            if !rights.allows(number) {
                ErrorReply::NoPermission(number)
            } else if rights.all_namespaces() || namespace.is_some_and(may_use) {
                return None;
            } else {
                ErrorReply::NoNamespacePermission
            }
        }
    };
    Some(refusal.line().as_slice().to_vec())
}

/// Returns the error line of a call in a cache that does not exist. Returns `None` if the session's user may learn
/// that, because the user might use a cache of this name.
pub(crate) fn cache_refusal(session: &SessionState, shared: &Shared, cache: &[u8]) -> Option<Vec<u8>> {
    let may_use = |user: Arc<User>| user.rights.allows_namespace(NO_NAMESPACE, &String::from_utf8_lossy(cache));
    let is_allowed = current(&session.user, shared).is_some_and(|user| user.is_none_or(may_use));
    (!is_allowed).then(|| ErrorReply::NoNamespacePermission.line().as_slice().to_vec())
}

/// Selects the version of the protocol for the session's next command: 3, or 2.
#[inline]
pub(crate) fn speak_version_3(session: &mut SessionState, is_3: bool) {
    session.version = if is_3 { Version::Resp3 } else { Version::Resp2 };
}

/// Returns the namespace of the session's listener.
pub(crate) fn home_namespace(session: &SessionState, ctx: &WorkerContext) -> Namespace {
    ctx.shared.namespaces.databases().namespace(session.numbers.home())
}

/// Abandons the session's unfinished request, which only reads, so that it can execute others. Returns false if its
/// words are still being collected, or it is a part of a transaction; it must be completed then.
pub(crate) fn abandon_query(session: &mut SessionState) -> bool {
    let is_free = session.long.is_none() && !session.is_under_way();
    if is_free {
        session.abandon_request();
    }
    is_free
}

/// Sets the properties of the message that the session's next command, `PUBLISH`, publishes.
pub(crate) fn prepare_publication(session: &mut SessionState, is_text: bool) {
    let publisher = match &session.user {
        ClientUser::Token(token) => token.claims.id.as_bytes().into(),
        _ => Arc::default(),
    };
    let mut publishing = session.publishing.take().unwrap_or_default();
    publishing.topic = TopicPublishing::of(is_text, publisher);
    session.publishing = Some(publishing);
}
