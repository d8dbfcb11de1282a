//! The credentials of calls: passwords of users, and signed tokens.
//!
//! ```text
//!   authorization ──┬─ PASSWORD, USER:PASSWORD ──> AUTH, once a connection and token
//!                   └─ gannet1... ──> claims, verified once ──> a user with the rights of the call's cache
//! ```
//!
//! The user of a signed token exists for one connection, and has the rights that the token grants in one cache.

use super::plan::{Access, CallError, Caller};
use crate::clients::access::{READ, WRITE};
use crate::clients::tokens::{Claims, PREFIX, TokenKind};
use crate::context::WorkerContext;
use crate::resp::{self, TokenUser};
use crate::shared::Shared;
use protocol::grpc::Status;
use segment::Namespace;
use std::sync::Arc;

/// The conditions under which a token's user is used again: the namespace, the needed access, whether the call is on
/// graphs, and the number of changes of namespaces.
type UserKey = (Namespace, u8, bool, u64);

/// The signed token of a connection's last call with one.
pub(super) struct SignedToken {
    token: Arc<[u8]>,
    pub(super) claims: Arc<Claims>,
    /// The number of changes of users at which the issuer existed.
    checked_at: u64,
    /// The user with the rights in a namespace, for calls that need some bits of access, on graphs or not, at a number
    /// of changes of namespaces.
    user: Option<(UserKey, Arc<TokenUser>)>,
    /// True if the session has that user. A call that was refused leaves the session with an earlier one.
    has_entered: bool,
}

/// Returns true for a signed token.
pub(super) fn is_signed(token: &[u8]) -> bool {
    token.starts_with(PREFIX)
}

/// Returns the bits of access to keys or topics that a kind of call needs.
fn needed(access: Access) -> u8 {
    match access {
        Access::Free | Access::Control => 0,
        Access::Read | Access::Subscribe => READ,
        Access::Write | Access::Publish => WRITE,
        Access::Change => READ | WRITE,
    }
}

/// Returns the time of the wall clock, in seconds since 1970.
pub(super) fn now_secs(ctx: &WorkerContext) -> u64 {
    ctx.now.0.saturating_add_signed(ctx.wall_lead_ms) / 1000
}

/// Returns an error if the client must authenticate.
pub(super) fn check_login(session: &resp::SessionState, ctx: &WorkerContext) -> Result<(), CallError> {
    if resp::needs_login(session, &ctx.shared) {
        return Err(CallError::no_token());
    }
    Ok(())
}

/// Returns an error if the issuer of a token no longer exists, or no longer has all rights.
pub(super) fn check_issuer(claims: &Claims, shared: &Shared) -> Result<(), CallError> {
    let is_known = claims.issuer.is_empty()
        || shared.users.find_enabled(&claims.issuer).is_some_and(|user| user.rights.is_unrestricted())
        || shared.auth.as_ref().is_some_and(|auth| auth.has_user(&claims.issuer));
    if is_known {
        return Ok(());
    }
    Err(CallError::new(
        Status::Unauthenticated,
        "the user that issued the token was removed or limited; get a new token",
    ))
}

/// Returns the user of the Redis session that executes a call.
pub(super) fn caller(session: &resp::SessionState, ctx: &WorkerContext) -> Caller {
    let unrestricted = check_login(session, ctx).map(|()| resp::unrestricted_user(session, ctx));
    Caller { unrestricted, now_secs: now_secs(ctx) }
}

/// Returns an error if the user of a token lacks the kind of access that a method needs.
fn check_access(user: &TokenUser, (name, access, is_on_graphs): (&str, Access, bool)) -> Result<(), CallError> {
    let is_permitted = match access {
        Access::Free => true,
        Access::Read => user.keys & READ != 0,
        Access::Write => user.keys & WRITE != 0,
        Access::Change => user.keys == READ | WRITE,
        Access::Publish => user.topics & WRITE != 0,
        Access::Subscribe => user.topics & READ != 0,
        Access::Control => user.is_superuser(),
    };
    if is_permitted {
        return Ok(());
    }
    let what = if is_on_graphs { "graphs; get one with a permission for all caches" } else { "this cache" };
    let text = format!("the token does not permit {name} on {what}");
    Err(CallError::new(Status::PermissionDenied, text))
}

impl SignedToken {
    /// Verifies a token. Uses `last` if that is the same one.
    ///
    /// # Errors
    /// If it is not valid now.
    pub(super) fn of(last: Option<Self>, token: &Arc<[u8]>, ctx: &WorkerContext) -> Result<Self, CallError> {
        let refused = |text: String| CallError::new(Status::Unauthenticated, text);
        let now_secs = now_secs(ctx);
        let mut signed = match last.filter(|last| last.token == *token && !last.claims.is_expired(now_secs)) {
            Some(last) => last,
            None => {
                let claims =
                    ctx.shared.token_key.verify(token, now_secs).map_err(|error| refused(error.to_string()))?;
                if claims.kind != TokenKind::Access {
                    return Err(refused("this is a refresh token; pass the token itself".into()));
                }
                let (token, claims) = (Arc::clone(token), Arc::new(claims));
                Self { token, claims, checked_at: u64::MAX, user: None, has_entered: false }
            }
        };
        let changes = ctx.shared.users.changes();
        if signed.checked_at != changes {
            check_issuer(&signed.claims, &ctx.shared)?;
            signed.checked_at = changes;
        }
        Ok(signed)
    }

    /// Returns true if the session's user is that of calls with `token` in a namespace that need `access`.
    pub(super) fn covers(&self, token: &[u8], access: Access, namespace: Namespace, ctx: &WorkerContext) -> bool {
        let is_valid = *self.token == *token
            && !self.claims.is_expired(now_secs(ctx))
            && self.checked_at == ctx.shared.users.changes();
        let key = (namespace, needed(access), false, ctx.shared.namespaces.changes());
        is_valid && self.has_entered && matches!(&self.user, Some((of, _)) if *of == key)
    }

    /// Records whether the session gets the user of the last call.
    pub(super) fn enter(&mut self, enters: bool) {
        self.has_entered = enters;
    }

    /// Returns the user with the rights that the token grants to a call in a namespace: its name, the access that it
    /// needs, and true if it is on graphs.
    ///
    /// # Errors
    /// If the token does not grant the kind of access that the method needs.
    pub(super) fn user(
        &mut self,
        (name, access, is_on_graphs): (&str, Access, bool),
        namespace: Namespace,
        ctx: &WorkerContext,
    ) -> Result<Arc<TokenUser>, CallError> {
        let key = (namespace, needed(access), is_on_graphs, ctx.shared.namespaces.changes());
        self.has_entered = false;
        let user = match &self.user {
            Some((of, user)) if *of == key => Arc::clone(user),
            _ => {
                // Graphs are in no cache: only permissions for all caches cover them.
                let cache = if is_on_graphs { "".into() } else { ctx.shared.namespaces.name(namespace) };
                let user = Arc::new(TokenUser::of(&self.claims, (namespace, cache.as_bytes()), key.1));
                self.user = Some((key, Arc::clone(&user)));
                user
            }
        };
        check_access(&user, (name, access, is_on_graphs))?;
        Ok(user)
    }

    /// Checks that the token would permit a call in a cache that does not exist. The session keeps its user.
    ///
    /// # Errors
    /// If the token would not grant the kind of access that the method needs.
    pub(super) fn permits_in_missing(
        &self,
        (name, access, is_on_graphs): (&str, Access, bool),
        cache: &[u8],
    ) -> Result<(), CallError> {
        let cache = if is_on_graphs { &b""[..] } else { cache };
        let user = TokenUser::of(&self.claims, (Namespace::DEFAULT, cache), needed(access));
        check_access(&user, (name, access, is_on_graphs))
    }

    /// Returns the memory of the token, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + 4 * self.token.len()
    }
}
