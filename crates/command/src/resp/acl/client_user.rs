//! The identity of a client.

use super::users::{User, Users};
use crate::handover::CarriedUser;
use std::sync::Arc;

/// The identity of a client.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) enum ClientUser {
    /// The default user: the client has not authenticated.
    #[default]
    Default,
    /// A user of `listen.auth_file`, with all rights.
    OfFile,
    /// A user with rights of its own.
    User(Arc<User>),
}

impl ClientUser {
    /// Returns the user in the form in which it moves to another process.
    pub(in crate::resp) fn carried(&self) -> CarriedUser {
        match self {
            Self::Default => CarriedUser::Anonymous,
            Self::OfFile => CarriedUser::OfFile,
            Self::User(user) => CarriedUser::Named(user.name.clone()),
        }
    }

    /// Returns the session's user in this process. A user that was deleted meanwhile becomes the default user.
    pub(in crate::resp) fn of(carried: &CarriedUser, users: &Users) -> Self {
        match carried {
            CarriedUser::Anonymous => Self::Default,
            CarriedUser::OfFile => Self::OfFile,
            CarriedUser::Named(name) => users.find(name).map_or(Self::Default, Self::User),
        }
    }
}
