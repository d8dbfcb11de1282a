//! The user as whom a client is authenticated.

use super::users::{User, Users};
use crate::handover::HandoverUser;
use std::sync::Arc;

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
}

impl ClientUser {
    /// Returns the user in the form in which it is handed over to another process.
    pub(in crate::resp) fn to_handover(&self) -> HandoverUser {
        match self {
            Self::Default => HandoverUser::Anonymous,
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
}
