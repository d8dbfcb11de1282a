//! The identity of a client.

use super::users::{User, Users};
use crate::handover::CarriedUser;
use std::sync::Arc;

/// The identity of a client.
#[derive(Clone, Debug, Default)]
pub(in crate::resp) enum ClientUser {
    /// It has not said: the default user.
    #[default]
    Default,
    /// One of the users of `listen.auth_file`, who may do everything.
    OfFile,
    /// This one.
    User(Arc<User>),
}

impl ClientUser {
    /// Returns the form for the server that continues with the connection.
    pub(in crate::resp) fn carried(&self) -> CarriedUser {
        match self {
            Self::Default => CarriedUser::Anonymous,
            Self::OfFile => CarriedUser::OfFile,
            Self::User(user) => CarriedUser::Named(user.name.clone()),
        }
    }

    /// Returns the session's user here. A user that was deleted meanwhile becomes the default one.
    pub(in crate::resp) fn of(carried: &CarriedUser, users: &Users) -> Self {
        match carried {
            CarriedUser::Anonymous => Self::Default,
            CarriedUser::OfFile => Self::OfFile,
            CarriedUser::Named(name) => users.find(name).map_or(Self::Default, Self::User),
        }
    }
}
