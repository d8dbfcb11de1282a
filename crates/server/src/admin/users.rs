//! The users of requests that change something: HTTP Basic authentication (RFC 7617) against the users of the server.
//!
//! Invariant: no log line and no `Debug` text contains a password.

use base::clock::UnixMillis;
use base64::prelude::{BASE64_STANDARD, Engine};
use command::clients::source::ClientSource;
use command::resp::acl::{OperatorCheck, check_operator, requires_operator};

use super::http::Response;
use crate::shared::Shared;

/// The scheme of the `Authorization` header, with the space after it.
const SCHEME: &[u8] = b"basic ";

/// A user's name and password, as a request contains them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    name: Vec<u8>,
    password: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Returns the user's name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Parses the value of an `Authorization` header. Returns `None` if it has another scheme or is malformed.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (scheme, encoded) = value.trim_ascii().split_at_checked(SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        let pair = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
        let colon = pair.iter().position(|byte| *byte == b':')?;
        Some(Self { name: pair[..colon].to_vec(), password: pair[colon + 1..].to_vec() })
    }
}

/// Checks that the user of a request from `source` may change settings. If the server has no users, everyone may. After
/// failed attempts, further ones are refused for a time that grows, without a look at the password: the thread of the
/// admin port has other requests to answer.
///
/// # Errors
/// If the request is refused: the response.
pub fn permit(credentials: Option<&Credentials>, source: ClientSource, shared: &Shared) -> Result<(), Response> {
    if !requires_operator(shared) {
        return Ok(());
    }
    let Some(Credentials { name, password }) = credentials else {
        return Err(Response::text(401, "changes need a user of this server; try: curl --user NAME ...\n"));
    };
    let (delay, now) = (&shared.auth_delay, UnixMillis::now());
    let refused_ms = delay.refused_ms(source, now);
    if refused_ms > 0 {
        return Err(Response::text(429, format!("too many failed logins; try again in {refused_ms} ms\n")));
    }
    match check_operator(shared, name, password) {
        OperatorCheck::Admitted => {
            delay.succeed(source);
            Ok(())
        }
        OperatorCheck::Denied => {
            Err(Response::text(403, "this user may not change settings; allow +@admin, in all namespaces\n"))
        }
        OperatorCheck::Unknown => {
            delay.fail_admin(source, name, now);
            Err(Response::text(401, "the user or the password is wrong\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_a_name_and_a_password_in_base64() {
        let parsed = |text: &str| Credentials::parse(text.as_bytes()).map(|read| (read.name, read.password));
        let pair = |name: &str, password: &str| Some((name.as_bytes().to_vec(), password.as_bytes().to_vec()));
        // The examples of RFC 7617, sections 2 and 2.1.
        assert_eq!(parsed("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), pair("Aladdin", "open sesame"));
        assert_eq!(parsed(" basic  dGVzdDoxMjPCow== "), pair("test", "123\u{a3}"));
        assert_eq!(parsed("Basic YTpiOmM="), pair("a", "b:c"));
        assert_eq!(parsed("Basic Og=="), pair("", ""));
        for bad in ["", "Basic", "Basic ", "Basic YQ==", "Basic YTpi!", "Bearer YTpi", "BasicYTpi", "Digest username=a"]
        {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn debug_text_has_no_password() {
        let text = format!("{:?}", Credentials::parse(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(text.contains("Credentials") && !text.contains("sesame") && !text.contains("115"), "{text}");
    }
}
