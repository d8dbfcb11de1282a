//! Authentication of memcached clients, if the user `default` needs a password, if there is a `listen.auth_file`, or if
//! the client is on another host and the listener is protected (no `listen.unprotected`). A client authenticates as a
//! user of `ACL` or of that file, by a `set` whose value is `user secret`.
//!
//! The key, flags and expiry of that `set` are ignored. Any other request gets an error, and the connection stays open.
//! If a line or the value is longer than [`UNAUTHENTICATED_BYTES_MAX`], the server closes the connection, so an
//! unauthenticated client holds little memory. A line of HTTP also closes it.

use super::LINE_ROOM;
use super::call::{Call, Step};
use super::rights;
use super::session::log_in;
use crate::clients::client_info::{CLIENT_TEXT_MAX, ClientText};
use crate::clients::endpoint::Protocol;
use crate::context::AuthWait;
use crate::metrics::Command;
use crate::resp::acl::User;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::memcache::{Error, reply};
use protocol::number::parse_u32;
use std::sync::Arc;

/// The maximum length of a line or a value of an unauthenticated client, in bytes. It exceeds the longest user and
/// the longest secret together.
const UNAUTHENTICATED_BYTES_MAX: usize = 2048;
/// The minimum number of words of a `set`: its name, key, flags, expiry and length.
const SET_WORDS_MIN: usize = 5;

/// Returns true if the client of this connection must still authenticate.
#[inline]
pub(super) fn is_unauthenticated(call: &Call<'_, '_>) -> bool {
    !call.session.known && (call.session.is_distant || call.ctx.admission.requires_authentication)
}

/// Returns true if the next bytes of the input are a request, which may be a login.
pub(super) fn is_at_request(call: &Call<'_, '_>) -> bool {
    let session = &call.session;
    session.is_between_requests() && session.retrieval.is_none() && session.discard_bytes == 0
}

/// Executes requests until the client has authenticated.
#[cold]
pub(super) fn authenticate(call: &mut Call<'_, '_>) -> Step {
    while is_unauthenticated(call) {
        if call.ops >= OPS_A_BATCH {
            call.counters().yields.add(1);
            return Err(SessionWait::Yield);
        }
        call.room(LINE_ROOM)?;
        admit_one(call)?;
    }
    Ok(())
}

fn admit_one(call: &mut Call<'_, '_>) -> Step {
    let rest = call.rest();
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return if rest.len() > UNAUTHENTICATED_BYTES_MAX {
            Err(SessionWait::Close)
        } else {
            Err(SessionWait::NeedInput { want: 0 })
        };
    };
    let Some(len) = set_len(&rest[..end]) else {
        if protocol::http::is_http(&rest[..end]) {
            reply::error(call.out, Error::Http);
            return Err(SessionWait::Close);
        }
        let is_open = !call.ctx.admission.requires_authentication;
        let error = if is_open { Error::Protected } else { Error::Unauthenticated };
        return refuse_unauthenticated(call, error, end + 1);
    };
    if len > UNAUTHENTICATED_BYTES_MAX {
        reply::error(call.out, Error::AuthFormat);
        return Err(SessionWait::Close);
    }
    let whole = end + 1 + len + 2;
    if rest.len() < whole {
        return Err(SessionWait::NeedInput { want: whole });
    }
    let (value, line_end) = rest[end + 1..whole].split_at(len);
    if line_end != b"\r\n" {
        return refuse_unauthenticated(call, Error::AuthTermination, whole);
    }
    let mut words = value.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (Some(user), Some(secret)) = (words.next(), words.next()) else {
        return refuse_unauthenticated(call, Error::AuthFormat, whole);
    };
    let mut wait = wait_after_failures(call)?;
    let mut admitted = admitted_user(call, user, secret);
    if admitted.is_none() {
        wait = check_password(call, wait, (user, secret))?;
        admitted = admitted_user(call, user, secret);
    }
    wait.end(call.ctx, (user, Protocol::Memcache), admitted.is_some());
    call.counters().auth_cmds.add(1);
    let Some(admitted) = admitted else {
        call.counters().auth_errors.add(1);
        return refuse_unauthenticated(call, Error::AuthFailure, whole);
    };
    log_in(call.session, admitted);
    if !rights::refresh(call) {
        return Err(SessionWait::Close);
    }
    let text: ClientText = user.iter().take(CLIENT_TEXT_MAX).copied().collect();
    let connection = call.ctx.push.watch.connection;
    call.ctx.connection_table().client_info(connection, |client_info| client_info.user = text);
    call.out.push(reply::STORED);
    end_unauthenticated(call, whole);
    Ok(())
}

/// Delays an attempt because of earlier failures from the same source. Returns the wait that has ended.
fn wait_after_failures(call: &mut Call<'_, '_>) -> Result<AuthWait, SessionWait> {
    let mut wait = call.session.auth_wait.take().map_or_else(AuthWait::default, |wait| *wait);
    let is_first = !wait.is_waiting();
    if !wait.must_wait(call.ctx) {
        return Ok(wait);
    }
    let is_delayed = is_first && wait.was_delayed();
    call.counters().auth_delayed.add(u64::from(is_delayed));
    Err(rest(call, wait))
}

/// Returns the user with this name, if the password is right, as far as that is known without Argon2id. The user is
/// `Some(None)` if it is one of `listen.auth_file`.
#[expect(clippy::option_option, reason = "a session has the same form")]
fn admitted_user(call: &Call<'_, '_>, name: &[u8], secret: &[u8]) -> Option<Option<Arc<User>>> {
    let shared = &call.ctx.shared;
    match shared.users.admits(name, secret) {
        // On a protected listener, a user without a password proves nothing.
        Some(user) if call.session.is_distant && user.no_password => None,
        Some(user) => Some(Some(user)),
        None => shared.auth.as_ref().filter(|auth| auth.admits(name, secret)).map(|_| None),
    }
}

/// Lets another thread check the secret against Argon2id hashes, unless it has done so. Returns the wait that has
/// ended.
fn check_password(
    call: &mut Call<'_, '_>,
    mut wait: AuthWait,
    (user, secret): (&[u8], &[u8]),
) -> Result<AuthWait, SessionWait> {
    let hashes = call.ctx.shared.users.hashes_to_check(user, secret);
    if !hashes.is_empty() && wait.must_check(call.ctx, secret, hashes) { Err(rest(call, wait)) } else { Ok(wait) }
}

/// Returns the state in which the connection rests, with the request in its input. A connection rests only without
/// unsent output. If it has some, the worker visits it again.
fn rest(call: &mut Call<'_, '_>, wait: AuthWait) -> SessionWait {
    call.session.auth_wait = Some(Box::new(wait));
    if call.out.is_empty() { SessionWait::Blocked } else { SessionWait::OutputFull { want: LINE_ROOM } }
}

fn refuse_unauthenticated(call: &mut Call<'_, '_>, error: Error, consumed: usize) -> Step {
    reply::error(call.out, error);
    end_unauthenticated(call, consumed);
    Ok(())
}

/// Completes a request. Its line is not recorded as slow, because a secret may be in the place of a command.
fn end_unauthenticated(call: &mut Call<'_, '_>, consumed: usize) {
    call.at += consumed;
    call.ops += 1;
    call.ctx.ops_done(call.out, call.session.namespace, (Command::Other, 1), b"");
}

/// Returns the length of the value that follows `line` if `line` is a `set`, in bytes. A number that is too large for
/// any value is also a length.
fn set_len(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    if words.next() != Some(b"set") {
        return None;
    }
    let len = words.nth(SET_WORDS_MIN - 2)?;
    len.iter().all(u8::is_ascii_digit).then(|| parse_u32(len).map_or(usize::MAX, |len| len as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auth_length_is_the_fifth_word_of_the_set_line() {
        assert_eq!(set_len(b"set a 0 0 12\r"), Some(12));
        assert_eq!(set_len(b"  set  a x  y 12 noreply more"), Some(12));
        assert_eq!(set_len(b"set a 0 0 99999999999999999999\r"), Some(usize::MAX));
        for line in ["set a 0 0", "set a 0 0 x", "set a 0 0 -1", "SET a 0 0 1", "add a 0 0 1", "", "sets a 0 0 1"] {
            assert_eq!(set_len(line.as_bytes()), None, "{line}");
        }
    }
}
