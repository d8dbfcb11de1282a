//! The check of an operator, who changes settings from outside the Redis protocol: at the admin port.

use super::users::{DEFAULT, Users};
use crate::shared::Shared;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The category of commands that an operator must be allowed to execute.
const CATEGORY: &str = "admin";

/// The maximum time that a check of an operator waits for Argon2id.
const CHECK_TIME_MAX: Duration = Duration::from_secs(4);

/// The result of checking a user's name and password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorCheck {
    /// The user may change settings.
    Admitted,
    /// The password is right, but the user lacks rights: to all commands of `@admin`, in all namespaces.
    Denied,
    /// The user is unknown or disabled, has no password, or the password is wrong.
    Unknown,
}

/// Returns true if changes of settings require a user. Returns false if every client may execute every command without
/// a password: there is no `listen.auth_file`, and the only Redis user is `default`, with all rights and no password.
pub fn requires_operator(shared: &Shared) -> bool {
    shared.auth.is_some() || !is_open(&shared.users)
}

fn is_open(users: &Users) -> bool {
    let all = users.all();
    all.len() == 1 && all.get(DEFAULT).is_some_and(|user| user.is_on && user.no_password && user.rights.is_all())
}

/// Checks a user of `listen.auth_file`, who has all rights, or a Redis user. A user without a password is never
/// admitted. The time of the check does not depend on which users exist, or on how many bytes of the password are
/// right.
///
/// May wait for another thread, which checks the password against Argon2id hashes. Only threads that serve no clients
/// may call this function.
pub fn check_operator(shared: &Shared, name: &[u8], password: &[u8]) -> OperatorCheck {
    match check_known(shared, name, password) {
        OperatorCheck::Unknown if compute_hashes(shared, name, password) => check_known(shared, name, password),
        result => result,
    }
}

/// Lets another thread check the password against Argon2id hashes. Returns false if there are none, or the check takes
/// too long.
fn compute_hashes(shared: &Shared, name: &[u8], password: &[u8]) -> bool {
    let hashes = shared.users.hashes_to_check(name, password);
    let (done, result) = sync_channel(1);
    let password = password.to_vec();
    if hashes.is_empty() {
        return false;
    }
    let job = move || {
        hashes.iter().for_each(|hash| _ = hash.verify(&password));
        let _ = done.send(());
    };
    shared.host.hash_aside(Box::new(job), None) && result.recv_timeout(CHECK_TIME_MAX).is_ok()
}

/// Checks a user as far as that is possible without Argon2id.
fn check_known(shared: &Shared, name: &[u8], password: &[u8]) -> OperatorCheck {
    let in_file = shared.auth.as_ref().is_some_and(|auth| auth.admits(name, password));
    let user = shared.users.admits(name, password).filter(|user| !user.no_password);
    match user {
        _ if in_file => OperatorCheck::Admitted,
        Some(user) if user.rights.allows_category(CATEGORY) && user.rights.all_namespaces() => OperatorCheck::Admitted,
        Some(_) => OperatorCheck::Denied,
        None => OperatorCheck::Unknown,
    }
}
