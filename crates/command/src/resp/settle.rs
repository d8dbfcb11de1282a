//! Sessions after `SWAPDB`: each moves to the namespace that its database has now, before its next request.

use super::session::SessionState;
use crate::keyspace::namespaces::Namespaces;

/// Returns true if the session is in the namespace that its database has now.
pub(super) fn is_settled(session: &SessionState, namespaces: &Namespaces) -> bool {
    namespaces.databases().namespace(session.numbers.database()) == session.namespace
}

/// Moves the session to the namespace that its database has now.
#[cold]
pub(super) fn settle(session: &mut SessionState, namespaces: &Namespaces) {
    let namespace = namespaces.databases().namespace(session.numbers.database());
    if namespace != session.namespace {
        // The connection is not refused: it was accepted in its database.
        namespaces.count_in(namespace);
        namespaces.leave(session.namespace);
        session.namespace = namespace;
    }
}

/// Moves the session to the namespace that its database has now, unless a request has begun in another one.
#[cold]
pub(super) fn settle_between_requests(session: &mut SessionState, namespaces: &Namespaces) {
    let is_begun =
        session.is_long() || session.is_answered_in_part() || session.long.is_some() || session.copy.is_some();
    if !is_begun {
        settle(session, namespaces);
    }
}
