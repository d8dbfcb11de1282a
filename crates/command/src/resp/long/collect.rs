//! Requests that are collected in client memory, because they do not fit into a receive buffer and are executed whole.

use crate::resp::call::Call;
use crate::resp::catalog::{CommandSpec, Flag};
use crate::resp::error::ErrorReply;
use crate::resp::state::long::Collected;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Argument, Limits, ProtocolError, argument};
use std::sync::atomic::Ordering::Relaxed;

/// Returns true if a request of this command is collected: it accesses keys, or echoes a text.
pub(super) fn may_collect(call: &Call<'_, '_>, entry: &CommandSpec) -> bool {
    // A client that waits retains its request, which must be short.
    let waits = entry.has(Flag::Blocking) && !call.session.is_queueing();
    let has_keys = entry.keys.0 != 0 || entry.runs_script();
    (has_keys && !entry.has(Flag::PubSub) || matches!(entry.name, "echo" | "ping" | "publish" | "spublish")) && !waits
}

/// The number of arguments that cost one operation to receive.
const ARGS_AN_OP: usize = 32;

/// The reason why a request is not complete.
pub(super) enum CollectStop {
    /// More bytes are needed, or the visit is over.
    Waits(SessionWait),
    /// The request is refused. The rest of it, `bytes` bytes behind the next `consumed` bytes and then the arguments
    /// that are left, is to be discarded.
    Refused { fault: ErrorReply, consumed: usize, bytes: usize },
    /// The bytes are not a request.
    Fatal(ProtocolError),
}

/// The number of bytes by which an argument may be longer than an item. The command itself checks the exact length.
const BEYOND_ITEM_BYTES: usize = 64 << 10;

/// Returns the maximum length of an argument, and the error for a longer one. What a command may store is no longer
/// than an item, so that no command spends time on what it refuses.
fn longest(call: &Call<'_, '_>, entry: &CommandSpec) -> (usize, ErrorReply) {
    if entry.has(Flag::PubSub) {
        // Subscribers whose backlog is half empty are not disconnected by one message.
        let backlog = call.ctx.shared.channels.backlog_bytes_max.load(Relaxed);
        return (usize::try_from(backlog / 2).unwrap_or(usize::MAX), ErrorReply::RequestTooLong);
    }
    let stores = entry.has(Flag::DenyOom) && !matches!(entry.name, "restore" | "pfadd");
    let most =
        if stores { call.guard.sizes().element_bytes_max().saturating_add(BEYOND_ITEM_BYTES) } else { usize::MAX };
    let is_field = entry.name.starts_with('h') || entry.name.starts_with("rec.");
    (most, if is_field { ErrorReply::RecordTooLarge } else { ErrorReply::ElementTooLong })
}

/// Receives a request, of which `left` arguments have not begun.
pub(super) fn receive(
    call: &mut Call<'_, '_>,
    entry: &CommandSpec,
    left: &mut u32,
    collected: &mut Collected,
) -> Result<(), CollectStop> {
    let (longest, too_long) = longest(call, entry);
    let mut received = 0;
    while collected.bytes > 0 || *left > 0 {
        if call.ops + received / ARGS_AN_OP >= OPS_A_BATCH || call.ctx.is_slice_over() {
            call.ops += received / ARGS_AN_OP;
            return Err(CollectStop::Waits(SessionWait::Yield));
        }
        received += 1;
        if collected.bytes > 0 {
            receive_argument(call, collected)?;
            continue;
        }
        let refused = |fault, consumed, bytes| Err(CollectStop::Refused { fault, consumed, bytes });
        match argument(call.rest(), &Limits { long_bytes_min: 0, ..call.waiting_limits() }) {
            Argument::Long { len, consumed } => {
                let bytes = len as usize + 2;
                *left -= 1;
                if len as usize > longest {
                    return refused(too_long, consumed, bytes);
                }
                if !collected.may_have(consumed + bytes) {
                    return refused(ErrorReply::RequestTooLong, consumed, bytes);
                }
                if !collected.add(&call.rest()[..consumed]) {
                    return refused(ErrorReply::ClientMemory, consumed, bytes);
                }
                call.at += consumed;
                collected.bytes = bytes;
            }
            Argument::Incomplete { .. } => return Err(CollectStop::Waits(SessionWait::NeedInput { want: 0 })),
            Argument::Whole { .. } => unreachable!("all arguments are long here"),
            Argument::Fatal(error) => return Err(CollectStop::Fatal(error)),
        }
    }
    Ok(())
}

/// Receives the rest of an argument.
fn receive_argument(call: &mut Call<'_, '_>, collected: &mut Collected) -> Result<(), CollectStop> {
    let part = collected.bytes.min(call.rest().len());
    if !collected.add(&call.rest()[..part]) {
        return Err(CollectStop::Refused { fault: ErrorReply::ClientMemory, consumed: 0, bytes: collected.bytes });
    }
    call.at += part;
    collected.bytes -= part;
    match collected.bytes {
        0 if collected.request.ends_with(b"\r\n") => Ok(()),
        0 => Err(CollectStop::Fatal(ProtocolError::ArgumentEnd)),
        _ => Err(CollectStop::Waits(SessionWait::NeedInput { want: 1 })),
    }
}
