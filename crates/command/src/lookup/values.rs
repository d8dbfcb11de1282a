//! Writing a value to the output, for both protocols. The value is copied, or pinned and sent from its place in the
//! store.

use crate::context::WorkerContext;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::{OutBuffer, PINNED_BYTES_MIN};
use crate::visit::progress::SessionWait;
use segment::{Item, Pinned, Value};

/// The identity of a value, by which a later lookup detects that the value was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    token: u64,
    /// The value, if it is a number. A number is changed in place and keeps its token.
    number: Option<u64>,
}

impl Identity {
    pub(crate) fn of(item: &Item<'_>) -> Self {
        let number = match item.value {
            Value::Integer(number) => Some(number),
            _ => None,
        };
        Self { token: item.token, number }
    }
}

/// Pins a long value and returns the pin. Returns `None` if the caller must copy the value. The output then has room
/// for the copy and a line.
#[inline(always)]
pub(crate) fn pin_or_room(out: &OutBuffer, ctx: &WorkerContext, value: &[u8]) -> Result<Option<Pinned>, SessionWait> {
    if value.len() >= PINNED_BYTES_MIN {
        return pin_long_or_room(out, ctx, value);
    }
    let want = LINE_ROOM + value.len();
    if out.room() < want { Err(SessionWait::OutputFull { want }) } else { Ok(None) }
}

#[cold]
fn pin_long_or_room(out: &OutBuffer, ctx: &WorkerContext, value: &[u8]) -> Result<Option<Pinned>, SessionWait> {
    if !out.has_pin_room_for(value.len()) {
        // The request is retried after the pinned values were sent. It may then pin this value instead of copying it.
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    let pinned = ctx.pin(value);
    let want = LINE_ROOM + value.len();
    if pinned.is_none() && out.room() < want { Err(SessionWait::OutputFull { want }) } else { Ok(pinned) }
}
