//! Calls that issue signed tokens. The caller must have all rights.

use crate::clients::tokens::{Claims, ID_BYTES_MAX, TokenKind, check_permissions, random_id};
use crate::grpc::credentials::check_issuer;
use crate::grpc::plan::{CallError, CallPlan, Caller, Commands, Flow, Next, reply};
use crate::shared::Shared;
use protocol::grpc::Status;
use protocol::grpc::protobuf::Message;
use std::sync::Arc;

/// The longest time for which a token may be valid, in seconds: ten years.
const VALID_SECS_MAX: u64 = 3_653 * 86_400;

/// Returns the plan of a call that needs to know its user.
fn with_caller(next: impl FnOnce(Caller) -> Next + Send + 'static) -> CallPlan {
    let mut next = Some(Box::new(next));
    CallPlan::new(Commands::default(), move |_| {
        next.take().map(|next| Flow::WithCaller(next as _)).ok_or_else(CallError::unexpected)
    })
}

/// Returns the name of the caller if it may issue tokens.
fn issuer(caller: &Caller) -> Result<Vec<u8>, CallError> {
    let Ok(unrestricted) = &caller.unrestricted else { return Err(CallError::no_token()) };
    unrestricted.clone().ok_or_else(|| {
        let text = "only a user with all rights, or a token of one without limits, may issue tokens";
        CallError::new(Status::PermissionDenied, text)
    })
}

/// A request for a token.
struct TokenRequest {
    permissions: Vec<u8>,
    id: String,
    /// The time for which it is valid, in seconds; 0 for ever.
    valid_secs: u64,
}

impl TokenRequest {
    /// Reads the permissions and the id from two fields.
    fn of(message: Message<'_>, permissions: u32, id: u32, valid_secs: u64) -> Result<Self, CallError> {
        let permissions = message.bytes(permissions).to_vec();
        check_permissions(&permissions).map_err(CallError::invalid)?;
        if valid_secs > VALID_SECS_MAX {
            return Err(CallError::invalid(format!("the token would be valid for more than {VALID_SECS_MAX} seconds")));
        }
        let id = String::from_utf8_lossy(message.bytes(id)).into_owned();
        if id.len() > ID_BYTES_MAX {
            return Err(CallError::invalid(format!("the id of the token is longer than {ID_BYTES_MAX} bytes")));
        }
        Ok(Self { permissions, id, valid_secs })
    }

    fn claims(self, issuer: Vec<u8>, issued_secs: u64) -> Claims {
        let Self { permissions, id, valid_secs } = self;
        let expires_secs = if valid_secs == 0 { 0 } else { issued_secs + valid_secs };
        Claims { id, issuer, issued_secs, expires_secs, valid_secs, kind: TokenKind::Access, permissions }
    }
}

fn sign(claims: &Claims, shared: &Shared) -> Result<String, CallError> {
    shared.token_key.sign(claims).ok_or_else(|| CallError::invalid("the token has too many permissions; give fewer"))
}

/// Returns the reply with a pair of tokens: 1 the access token, 2 the refresh token, 3 the endpoint, 4 the instant at
/// which the access token expires.
fn pair(mut claims: Claims, endpoint: &[u8], shared: &Shared) -> Next {
    if claims.id.is_empty() {
        claims.id = random_id();
    }
    let access = sign(&claims, shared)?;
    let refresh = sign(&Claims { kind: TokenKind::Refresh, ..claims.clone() }, shared)?;
    reply(|out| {
        out.bytes(1, access.as_bytes()).bytes(2, refresh.as_bytes()).bytes(3, endpoint).uint(4, claims.expires_secs);
    })
}

/// Decodes 1 never, or 2 the time (1 seconds), 4 permissions, 5 id.
pub(super) fn generate(message: Message<'_>, shared: &Arc<Shared>, endpoint: &[u8]) -> Result<CallPlan, CallError> {
    let valid_secs = match (message.message(1)?, message.message(2)?) {
        (Some(_), None) => 0,
        (None, Some(expires)) if expires.uint(1) > 0 => expires.uint(1),
        _ => return Err(CallError::invalid("say for how many seconds the token is valid, or that it never expires")),
    };
    let (bytes, shared, endpoint) = (message.as_bytes().to_vec(), Arc::clone(shared), endpoint.to_vec());
    // A caller without rights learns nothing of the permissions.
    Ok(with_caller(move |caller| {
        let issuer = issuer(&caller)?;
        let request = TokenRequest::of(Message::parse(&bytes)?, 4, 5, valid_secs)?;
        pair(request.claims(issuer, caller.now_secs), &endpoint, &shared)
    }))
}

/// Decodes 1 time (1 seconds), 3 permissions, 4 id. Replies 1 token, 2 endpoint, 3 the instant at which it expires.
pub(super) fn generate_disposable(
    message: Message<'_>,
    shared: &Arc<Shared>,
    endpoint: &[u8],
) -> Result<CallPlan, CallError> {
    let valid_secs = message.message(1)?.map_or(0, |expires| expires.uint(1));
    if valid_secs == 0 {
        return Err(CallError::invalid("say for how many seconds the token is valid; give at least 1"));
    }
    let (bytes, shared, endpoint) = (message.as_bytes().to_vec(), Arc::clone(shared), endpoint.to_vec());
    Ok(with_caller(move |caller| {
        let issuer = issuer(&caller)?;
        let request = TokenRequest::of(Message::parse(&bytes)?, 3, 4, valid_secs)?;
        let claims = request.claims(issuer, caller.now_secs);
        let token = sign(&claims, &shared)?;
        reply(|out| {
            out.bytes(1, token.as_bytes()).bytes(2, &endpoint).uint(3, claims.expires_secs);
        })
    }))
}

/// Decodes 1 the access token and 2 its refresh token, which authenticate the call and end at the same instant. Replies
/// as [`generate`].
pub(super) fn refresh(message: Message<'_>, shared: &Arc<Shared>, endpoint: &[u8]) -> Result<CallPlan, CallError> {
    let (access, refresh) = (message.bytes(1).to_vec(), message.bytes(2).to_vec());
    let (shared, endpoint) = (Arc::clone(shared), endpoint.to_vec());
    Ok(with_caller(move |caller| {
        let refused = |text: String| CallError::new(Status::Unauthenticated, text);
        let verified = |token: &[u8], name: &str| match token {
            b"" => Err(refused(format!("the request has no {name}; pass the token and its refresh token"))),
            token => {
                let claims = shared.token_key.verify(token, caller.now_secs);
                claims.map_err(|error| refused(error.text_for(&format!("the {name}"))))
            }
        };
        let (access, refresh) = (verified(&access, "token")?, verified(&refresh, "refresh token")?);
        if (access.kind, refresh.kind) != (TokenKind::Access, TokenKind::Refresh) || access.id != refresh.id {
            return Err(refused("the refresh token does not belong to the token; pass the pair of one reply".into()));
        }
        check_issuer(&refresh, &shared)?;
        let issued_secs = caller.now_secs;
        let expires_secs = if refresh.valid_secs == 0 { 0 } else { issued_secs + refresh.valid_secs };
        pair(Claims { issued_secs, expires_secs, kind: TokenKind::Access, ..refresh }, &endpoint, &shared)
    }))
}
