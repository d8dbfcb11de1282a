//! The user as whom a client is authenticated.

use super::token_user::TokenUser;
use super::users::{DEFAULT, User, Users};
use crate::handover::HandoverUser;
use crate::push::outbox::{ChannelKind, Subscriber};
use std::sync::Arc;

/// The maximum number of subscriptions that one visit checks. Each is compared with all patterns of the user.
const CHANNEL_CHECKS_MAX: usize = 32;

/// The user as whom a client is authenticated.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) enum ClientUser {
    /// The default user, whose rights a client has before it authenticates.
    #[default]
    Default,
    /// A user of `listen.auth_file`, with all rights.
    OfFile,
    /// A user with rights of its own.
    User(Arc<User>),
    /// The user of a signed token.
    Token(Arc<TokenUser>),
}

impl ClientUser {
    /// Returns the user in the form in which it is handed over to another process.
    pub(in crate::resp) fn to_handover(&self) -> HandoverUser {
        match self {
            // Connections with signed tokens do not move.
            Self::Default | Self::Token(_) => HandoverUser::Anonymous,
            Self::OfFile => HandoverUser::OfFile,
            Self::User(user) => HandoverUser::Named(user.name.clone()),
        }
    }

    /// Returns this process's user for a session that was handed over. If the user no longer exists, returns the
    /// default user.
    pub(in crate::resp) fn of(carried: &HandoverUser, users: &Users) -> Self {
        match carried {
            HandoverUser::Anonymous => Self::Default,
            HandoverUser::OfFile => Self::OfFile,
            HandoverUser::Named(name) => users.find(name).map_or(Self::Default, Self::User),
        }
    }

    /// Checks whether a client of this user may still have its subscriptions, after users have changed. Returns false
    /// if it must be disconnected, as in Redis, and `None` if the check continues at the next visit.
    #[cold]
    pub(in crate::resp) fn check_channels(&self, users: &Users, subscriber: &mut Subscriber) -> Option<bool> {
        let changes = users.changes();
        let user = match self {
            Self::OfFile | Self::Token(_) => return subscriber.check(changes, usize::MAX, |_, _| true),
            Self::Default => users.find(DEFAULT),
            Self::User(user) => users.find(&user.name),
        };
        let Some(user) = user else { return Some(false) };
        subscriber.check(changes, CHANNEL_CHECKS_MAX, |kind, name| {
            user.rights.allows_channel(name, kind == ChannelKind::Pattern)
        })
    }
}
