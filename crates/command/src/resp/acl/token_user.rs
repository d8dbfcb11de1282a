//! The user of a signed token in one cache.

use super::rights::{READ, Rights, WRITE};
use super::users::User;
use crate::clients::tokens::{CacheGrants, Claims};
use segment::Namespace;
use std::sync::Arc;

/// The user of a signed token, with the rights that the token grants in one cache.
#[derive(Debug)]
pub(crate) struct TokenUser {
    pub(in crate::resp) user: Arc<User>,
    pub(crate) claims: Arc<Claims>,
    /// The bits of access that the token grants to any keys of the cache, and to any of its topics.
    pub(crate) keys: u8,
    /// See `keys`.
    pub(crate) topics: u8,
}

impl TokenUser {
    /// Creates the user of a token in a cache, for calls that need the bits of access `needed` to their keys or topics.
    /// Patterns that do not grant them are left out, because commands that tell no value, such as `EXISTS`, are
    /// permitted for any pattern.
    pub(crate) fn of(claims: &Arc<Claims>, (namespace, cache): (Namespace, &[u8]), needed: u8) -> Self {
        let name = [b"token:", claims.id.as_bytes()].concat();
        let claims = Arc::clone(claims);
        if claims.is_superuser() {
            return Self { user: User::of_token(&name, None), claims, keys: READ | WRITE, topics: READ | WRITE };
        }
        let CacheGrants { keys, topics } = claims.grants(cache);
        let sufficient = |grants: Vec<(u8, Vec<u8>)>| -> Vec<(u8, Vec<u8>)> {
            grants.into_iter().filter(|(access, _)| access & needed == needed).collect()
        };
        let (keys, topics) = (sufficient(keys), sufficient(topics));
        let union = |grants: &[(u8, Vec<u8>)]| grants.iter().fold(0, |all, (access, _)| all | access);
        let (of_keys, of_topics) = (union(&keys), union(&topics));
        let channels = topics.into_iter().map(|(_, pattern)| pattern).collect();
        let user = User::of_token(&name, Some(Rights::of_token(keys, channels, namespace.0)));
        Self { user, claims, keys: of_keys, topics: of_topics }
    }

    /// Returns true if the token grants everything.
    pub(crate) fn is_superuser(&self) -> bool {
        self.user.rights.is_unrestricted()
    }
}
