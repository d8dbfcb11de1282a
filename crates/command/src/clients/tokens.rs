//! Signed tokens: credentials that carry their own rights, for gRPC clients.
//!
//! ```text
//!   gannet1.CLAIMS.MAC      CLAIMS: base64url of a message    MAC: base64url of HMAC-SHA-256 over "gannet1.CLAIMS"
//! ```
//!
//! The claims are a message of Protocol Buffers: 1 id, 2 issuer, 3 issued at, 4 expires at (seconds since 1970; 0:
//! never), 5 kind ([`TokenKind`]), 6 permissions (message `Permissions` of `proto/gannet/v1/cache.proto`), 7 the time
//! for which it is valid, in seconds, 8 random bytes, so that two tokens of one second differ.
//!
//! Invariants:
//! - Rights come only from claims whose MAC was verified, in constant time.
//! - A token never grants more than its issuer may: only users with all rights issue tokens.
//! - The key, the tokens and the MACs are in no log line and in no `Debug` text.
//!
//! Bounds: a token has at most [`TOKEN_BYTES_MAX`] bytes, so that its permissions are few.

use super::access::{READ, WRITE};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use protocol::grpc::protobuf::{Encoder, Message};
use sha2::Sha256;
use std::fmt;
use std::path::Path;

/// The start of every signed token. Passwords and names of users do not begin with it.
pub const PREFIX: &[u8] = b"gannet1.";
/// The maximum length of a token, in bytes: it must fit into the header fields of a request.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The least length of a key, in bytes.
pub const KEY_BYTES_MIN: usize = 32;
/// The length of a MAC, in bytes.
const MAC_BYTES: usize = 32;
/// The maximum length of a token's id, in bytes.
pub const ID_BYTES_MAX: usize = 64;

/// The key that signs tokens.
#[derive(Clone)]
pub struct TokenKey(Hmac<Sha256>);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// The reason why a file has no key.
#[derive(Debug)]
pub enum KeyError {
    /// It cannot be read.
    Read(std::io::Error),
    /// It is shorter than [`KEY_BYTES_MIN`].
    TooShort,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "{error}"),
            Self::TooShort => write!(
                f,
                "the key has fewer than {KEY_BYTES_MIN} bytes; remove the file, and gannet user token creates one"
            ),
        }
    }
}

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is no token, or was signed with another key.
    Signature,
    /// Its time is over.
    Expired,
    /// Its claims are malformed. The key signed them, so an older or newer program did.
    Claims,
}

impl TokenError {
    /// Returns the text of the error for a token that the reader knows as `name`.
    pub(crate) fn text_for(self, name: &str) -> String {
        let cause = match self {
            Self::Signature => "was not signed with this server's key (listen.token_key)",
            Self::Expired => "has expired",
            Self::Claims => "is of another version of the server",
        };
        format!("{name} {cause}; get a new token")
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text_for("the token"))
    }
}

/// The use of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// It authenticates calls.
    Access,
    /// It gets a new pair of tokens in exchange for the access token with the same id.
    Refresh,
}

/// What a token claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The identity that messages of topics carry, and that pairs an access token with its refresh token.
    pub id: String,
    /// The user that issued the token; empty if an operator with the key did.
    pub issuer: Vec<u8>,
    /// The instants at which it was issued and expires, in seconds since 1970; it never expires at 0.
    pub issued_secs: u64,
    /// See `issued_secs`.
    pub expires_secs: u64,
    /// The time for which it and its successors are valid, in seconds; 0 for ever.
    pub valid_secs: u64,
    /// The use of the token.
    pub kind: TokenKind,
    /// The encoded permissions.
    pub permissions: Vec<u8>,
}

/// The patterns of keys and topics of one cache to which a token grants access.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheGrants {
    /// Patterns of keys, each with bits of access.
    pub(crate) keys: Vec<(u8, Vec<u8>)>,
    /// Patterns of topics, each with bits of access: reading is subscribing, and writing is publishing.
    pub(crate) topics: Vec<(u8, Vec<u8>)>,
}

impl TokenKey {
    /// Creates a key of secret bytes. Returns `None` if they are fewer than [`KEY_BYTES_MIN`].
    pub fn new(secret: &[u8]) -> Option<Self> {
        let mac = Hmac::new_from_slice(secret).ok()?;
        (secret.len() >= KEY_BYTES_MIN).then_some(Self(mac))
    }

    /// Reads the key in a file. White space around it does not count.
    ///
    /// # Errors
    /// If the file cannot be read, or is too short.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let bytes = std::fs::read(path).map_err(KeyError::Read)?;
        Self::new(bytes.trim_ascii()).ok_or(KeyError::TooShort)
    }

    /// Creates a random key, which only this process has.
    pub fn random() -> Self {
        let mut secret = [0; KEY_BYTES_MIN];
        super::argon2id::fill_with_random(&mut secret);
        Self(Hmac::new_from_slice(&secret).expect("any length of key is valid"))
    }

    fn mac(&self, signed: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(signed);
        mac
    }

    /// Returns a token with these claims, which differs from all others. Returns `None` if it would be too long.
    pub fn sign(&self, claims: &Claims) -> Option<String> {
        let mut out = Encoder::new();
        out.bytes(1, claims.id.as_bytes()).bytes(2, &claims.issuer).uint(3, claims.issued_secs);
        out.uint(4, claims.expires_secs).uint(5, u64::from(claims.kind == TokenKind::Refresh));
        let mut unique = [0; 8];
        super::argon2id::fill_with_random(&mut unique);
        out.bytes(6, &claims.permissions).uint(7, claims.valid_secs).bytes(8, &unique);
        let mut token = String::from_utf8_lossy(PREFIX).into_owned();
        token.push_str(&URL_SAFE_NO_PAD.encode(out.as_slice()));
        let mac = self.mac(token.as_bytes()).finalize().into_bytes();
        token.push('.');
        token.push_str(&URL_SAFE_NO_PAD.encode(mac));
        (token.len() <= TOKEN_BYTES_MAX).then_some(token)
    }

    /// Returns the claims of a token at the instant `now_secs`.
    ///
    /// # Errors
    /// If it was not signed with this key, or has expired.
    pub fn verify(&self, token: &[u8], now_secs: u64) -> Result<Claims, TokenError> {
        let dot = token.iter().rposition(|byte| *byte == b'.').ok_or(TokenError::Signature)?;
        let mac = URL_SAFE_NO_PAD.decode(&token[dot + 1..]).map_err(|_| TokenError::Signature)?;
        let signed = &token[..dot];
        if token.len() > TOKEN_BYTES_MAX || mac.len() != MAC_BYTES {
            return Err(TokenError::Signature);
        }
        let claims = signed.strip_prefix(PREFIX).ok_or(TokenError::Signature)?;
        self.mac(signed).verify_slice(&mac).map_err(|_| TokenError::Signature)?;
        let bytes = URL_SAFE_NO_PAD.decode(claims).map_err(|_| TokenError::Claims)?;
        let claims = Claims::decode(&bytes).ok_or(TokenError::Claims)?;
        if claims.is_expired(now_secs) { Err(TokenError::Expired) } else { Ok(claims) }
    }
}

impl Claims {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let message = Message::parse(bytes).ok()?;
        let kind = match message.uint(5) {
            0 => TokenKind::Access,
            1 => TokenKind::Refresh,
            _ => return None,
        };
        let permissions = message.bytes(6).to_vec();
        check_permissions(&permissions).ok()?;
        Some(Self {
            id: String::from_utf8(message.bytes(1).to_vec()).ok()?,
            issuer: message.bytes(2).to_vec(),
            issued_secs: message.uint(3),
            expires_secs: message.uint(4),
            valid_secs: message.uint(7),
            kind,
            permissions,
        })
    }

    /// Returns true if the time of the token is over.
    pub fn is_expired(&self, now_secs: u64) -> bool {
        self.expires_secs != 0 && now_secs >= self.expires_secs
    }

    /// Returns true if the token grants everything.
    pub(crate) fn is_superuser(&self) -> bool {
        Message::parse(&self.permissions).is_ok_and(|permissions| permissions.try_uint(1).is_some())
    }

    /// Returns what the token grants in a cache.
    pub(crate) fn grants(&self, cache: &[u8]) -> CacheGrants {
        let mut grants = CacheGrants::default();
        let Ok(permissions) = Message::parse(&self.permissions) else { return grants };
        let Ok(Some(explicit)) = permissions.message(2) else { return grants };
        for one in explicit.all(1).filter_map(|one| Message::parse(one).ok()) {
            for (number, patterns) in [(1, &mut grants.keys), (2, &mut grants.topics)] {
                if let Ok(Some(permission)) = one.message(number)
                    && let Ok(Some(grant)) = grant(permission, cache)
                {
                    patterns.push(grant);
                }
            }
        }
        grants
    }
}

/// Returns the access that one permission grants in a cache: 1 role, 2 all caches or 3 one (1 name), 4 everything or 5
/// a part (1 exact, 2 prefix). Returns `None` if it grants nothing there.
///
/// # Errors
/// If the permission has no meaning.
fn grant(permission: Message<'_>, cache: &[u8]) -> Result<Option<(u8, Vec<u8>)>, &'static str> {
    const MALFORMED: &str = "a permission is malformed";
    let part = |number| permission.message(number).map_err(|_| MALFORMED);
    let access = match permission.uint(1) {
        0 => 0,
        1 => READ | WRITE,
        2 => READ,
        3 => WRITE,
        _ => return Err("a permission has an unknown role"),
    };
    let is_here = match (part(2)?, part(3)?.map(|selector| selector.bytes(1))) {
        (Some(_), _) => true,
        (None, Some(name)) if !name.is_empty() => name == cache,
        _ => return Err("a permission names no cache"),
    };
    let pattern = match (part(4)?, part(5)?) {
        // Published clients leave out the selector of all items.
        (Some(_), _) | (None, None) => b"*".to_vec(),
        (None, Some(selector)) => match (selector.try_bytes(1), selector.try_bytes(2)) {
            (Some(exact), None) => escaped(exact),
            (None, Some(prefix)) => [&escaped(prefix)[..], b"*"].concat(),
            _ => return Err("a permission selects neither a name nor a prefix"),
        },
    };
    Ok((is_here && access != 0).then_some((access, pattern)))
}

/// Returns the pattern that matches exactly these bytes.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    let special = |byte: u8| matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^' | b'-');
    bytes.iter().flat_map(|byte| special(*byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}

/// The access that a permission grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRole {
    /// Reading and writing.
    ReadWrite = 1,
    /// Reading; subscribing to topics.
    Read = 2,
    /// Writing; publishing to topics.
    Write = 3,
}

/// A permission of a new token.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The access.
    pub role: TokenRole,
    /// The only cache; `None` for all.
    pub cache: Option<String>,
    /// The start of the only keys, or of the only topics; `None` for all.
    pub prefix: Option<String>,
}

impl Grant {
    fn encode(&self, out: &mut Encoder) {
        out.uint(1, self.role as u64);
        match &self.cache {
            None => out.message(2, |_| {}),
            Some(cache) => out.message(3, |selector| {
                selector.item(1, cache.as_bytes());
            }),
        };
        match &self.prefix {
            None => out.message(4, |_| {}),
            Some(prefix) => out.message(5, |selector| {
                selector.item(2, prefix.as_bytes());
            }),
        };
    }
}

/// Encodes permissions for items and for topics; `None` for all permissions.
pub fn permissions(grants: Option<(Option<Grant>, Option<Grant>)>) -> Vec<u8> {
    let mut out = Encoder::new();
    match grants {
        None => out.one_of_uint(1, 0),
        Some((items, topics)) => out.message(2, |explicit| {
            for (number, grant) in [(1, items), (2, topics)] {
                if let Some(grant) = grant {
                    explicit.message(1, |one| {
                        one.message(number, |out| grant.encode(out));
                    });
                }
            }
        }),
    };
    out.as_slice().to_vec()
}

/// Returns a random id.
pub(crate) fn random_id() -> String {
    let mut bytes = [0; 12];
    super::argon2id::fill_with_random(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Checks permissions: 1 superuser, or 2 explicit ones (1 each: 1 of keys, or 2 of topics).
///
/// # Errors
/// The reason why they are refused.
pub fn check_permissions(permissions: &[u8]) -> Result<(), &'static str> {
    let malformed = |_| "the permissions are malformed";
    let permissions = Message::parse(permissions).map_err(malformed)?;
    if permissions.try_uint(1).is_some() {
        return Ok(());
    }
    let explicit =
        permissions.message(2).map_err(malformed)?.ok_or("the token has no permissions; give at least one")?;
    let mut is_empty = true;
    for one in explicit.all(1) {
        let one = Message::parse(one).map_err(malformed)?;
        for permission in [one.message(1), one.message(2)] {
            if let Some(permission) = permission.map_err(malformed)? {
                grant(permission, b"")?;
                is_empty = false;
            }
        }
    }
    if is_empty { Err("the token has no permissions; give at least one") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(role: u64, cache: &str, prefix: Option<&[u8]>) -> Vec<u8> {
        let mut out = Encoder::new();
        out.message(2, |explicit| {
            explicit.message(1, |one| {
                one.message(1, |permission| {
                    permission.uint(1, role);
                    match cache {
                        "" => permission.message(2, |_| {}),
                        name => permission.message(3, |selector| {
                            selector.bytes(1, name.as_bytes());
                        }),
                    };
                    match prefix {
                        None => permission.message(4, |_| {}),
                        Some(prefix) => permission.message(5, |selector| {
                            selector.bytes(2, prefix);
                        }),
                    };
                });
            });
        });
        out.as_slice().to_vec()
    }

    fn claims(permissions: Vec<u8>) -> Claims {
        Claims {
            id: "ann".into(),
            issuer: b"admin".to_vec(),
            issued_secs: 1_000,
            expires_secs: 2_000,
            valid_secs: 1_000,
            kind: TokenKind::Access,
            permissions,
        }
    }

    #[test]
    fn token_is_accepted_with_its_key_until_it_expires() {
        let (key, other) = (TokenKey::random(), TokenKey::random());
        let claims = claims(permission(1, "", None));
        let token = key.sign(&claims).expect("it is short");
        assert_eq!(key.verify(token.as_bytes(), 1_999), Ok(claims));
        assert_eq!(key.verify(token.as_bytes(), 2_000), Err(TokenError::Expired));
        assert_eq!(other.verify(token.as_bytes(), 1_999), Err(TokenError::Signature));
        assert!(!token.contains(':'), "a token is not a user with a password");
    }

    #[test]
    fn pair_that_is_replaced_twice_in_one_second_differs_each_time() {
        let (key, claims) = (TokenKey::random(), claims(permission(1, "", None)));
        let [first, second] = [0; 2].map(|_| key.sign(&claims).expect("it is short"));
        assert_ne!(first, second);
        assert_eq!(key.verify(first.as_bytes(), 1_500), key.verify(second.as_bytes(), 1_500));
    }

    #[test]
    fn token_with_any_changed_byte_is_refused() {
        let key = TokenKey::random();
        let token = key.sign(&claims(permission(1, "", None))).expect("it is short").into_bytes();
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            // The last digit of base64 has bits without meaning.
            if at + 1 < token.len() {
                assert!(key.verify(&changed, 1_500).is_err(), "{at}");
            }
            assert!(key.verify(&token[..at], 1_500).is_err(), "{at}");
        }
    }

    #[test]
    fn grants_are_those_of_the_cache_and_patterns_are_literal() {
        let all = claims(permission(2, "", None)).grants(b"any");
        assert_eq!(all.keys, [(READ, b"*".to_vec())]);
        let one = claims(permission(1, "shop", Some(b"a*b")));
        assert_eq!(one.grants(b"shop").keys, [(READ | WRITE, b"a\\*b*".to_vec())]);
        assert_eq!(one.grants(b"other"), CacheGrants::default());
        assert_eq!(claims(permission(0, "", None)).grants(b"any"), CacheGrants::default());
    }

    #[test]
    fn permissions_without_meaning_are_refused_when_the_token_is_issued() {
        assert!(check_permissions(&permission(3, "a", None)).is_ok());
        assert!(check_permissions(&[0x08, 0]).is_ok(), "a superuser");
        for bad in [&[][..], &[0x12, 0], &permission(9, "a", None), &[0x12, 0x02, 0x0a, 0x00], &[0xff]] {
            assert!(check_permissions(bad).is_err(), "{bad:?}");
        }
    }
}
