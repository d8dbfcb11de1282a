//! Records of the current connection in the audit log ([`crate::clients::audit`]).

use super::WorkerContext;
use crate::clients::audit::{AuditEvent, AuditOrigin};
use crate::clients::endpoint::Protocol;

/// Records an event of the current connection, whose user is `user`. `detail` must return no secret.
#[cold]
pub(crate) fn audit(
    ctx: &WorkerContext,
    event: AuditEvent,
    (user, protocol): (&[u8], Protocol),
    detail: impl FnOnce() -> String,
) {
    let peer = ctx.connection_table().peer(ctx.push.watch.connection);
    ctx.shared.audit.record(event, AuditOrigin::Client(peer, protocol), user, detail);
}

/// Records an event of the current connection, which is a Redis client's. `detail` must return no secret.
#[cold]
pub(crate) fn audit_redis(ctx: &WorkerContext, event: AuditEvent, detail: impl FnOnce() -> String) {
    let user = ctx.connection_table().client_info(ctx.push.watch.connection, |client_info| client_info.user.clone());
    let user = user.filter(|user| !user.is_empty());
    audit(ctx, event, (user.as_deref().unwrap_or(b"default"), Protocol::Resp), detail);
}
