//! Topics of gRPC clients: the rights of a subscription, and the properties of a message that a call publishes.

use super::acl::{ClientUser, DEFAULT, User, number_named};
use super::session::SessionState;
use crate::push::topics::TopicPublishing;
use crate::shared::Shared;
use segment::Namespace;
use std::sync::Arc;

/// The user of a call, which a subscription keeps beyond the call.
#[derive(Clone, Debug)]
pub(crate) struct CallUser(ClientUser);

/// Whether a user may subscribe to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicRight {
    /// The user may.
    Granted,
    /// The user lacks a right to the command `SUBSCRIBE`, to the channel of this name or to the namespace.
    Denied,
    /// The user was removed, or clients must authenticate now.
    Unknown,
}

/// Returns the user of the session's last request.
pub(crate) fn call_user(session: &SessionState) -> CallUser {
    CallUser(session.user.clone())
}

/// Returns whether `user` may subscribe to a topic. Users may have changed since the user was authenticated.
pub(crate) fn topic_right(user: &CallUser, shared: &Shared, namespace: Namespace, topic: &[u8]) -> TopicRight {
    let user: Arc<User> = match &user.0 {
        ClientUser::OfFile => return TopicRight::Granted,
        ClientUser::Default if shared.requires_authentication() => return TopicRight::Unknown,
        ClientUser::Default if shared.users.changes() == 0 => return TopicRight::Granted,
        ClientUser::Default => match shared.users.find(DEFAULT) {
            Some(user) => user,
            None => return TopicRight::Unknown,
        },
        ClientUser::User(user) => match shared.users.find_enabled(&user.name) {
            Some(user) => user,
            None => return TopicRight::Unknown,
        },
    };
    let rights = &user.rights;
    let may_enter = || {
        rights.all_namespaces() || rights.allows_namespace(namespace.0, &shared.namespaces.name(namespace))
    };
    let is_allowed = rights.allows(number_named("subscribe")) && rights.allows_channel(topic, false) && may_enter();
    if is_allowed { TopicRight::Granted } else { TopicRight::Denied }
}

/// Sets the properties of the message that the session's next command, `PUBLISH`, publishes.
pub(crate) fn prepare_publication(session: &mut SessionState, is_text: bool) {
    let mut publishing = session.publishing.take().unwrap_or_default();
    publishing.topic = TopicPublishing::of(is_text);
    session.publishing = Some(publishing);
}
