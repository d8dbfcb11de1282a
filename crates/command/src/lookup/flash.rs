//! Plain reads of keys that are on flash and not in memory.

use protocol::number::Decimal;
use segment::{FromFlash, Guard, Key, Value};

use crate::visit::out::PINNED_BYTES_MIN;
use crate::visit::progress::SessionWait;

/// Reads the value of a key that is not in memory. Passes the value and its client flags to `tell`, which writes them
/// to the output. Returns false if the key is not on flash either. If the value is long, or of a type that plain reads
/// do not support, the store moves the value back to memory, and the request parks until then.
///
/// # Errors
/// If the value has not been read from flash yet, or the output has no room for it: the state in which the request
/// waits. The caller retries the request later.
pub(crate) fn read(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    tell: impl FnOnce(Value<'_>, u32) -> Result<(), SessionWait>,
) -> Result<bool, SessionWait> {
    let hit = match guard.tier().read(key) {
        FromFlash::Nowhere => return Ok(false),
        FromFlash::Coming => return Err(SessionWait::Parked),
        FromFlash::Here(hit) => hit,
    };
    let is_short = match hit.value() {
        Value::Bytes(bytes) => bytes.len() < PINNED_BYTES_MIN,
        Value::Integer(_) => true,
        Value::Large(_) | Value::Typed { .. } => false,
    };
    if !is_short {
        guard.tier().put_back(hit, true);
        return Err(SessionWait::Parked);
    }
    match tell(hit.value(), hit.client_flags()) {
        Ok(()) => {
            guard.tier_mut().served(key, hit);
            Ok(true)
        }
        Err(state) => {
            guard.tier().put_back(hit, false);
            Err(state)
        }
    }
}

/// Returns the value as text for the reply. Writes a number into `digits`.
pub(crate) fn text<'v>(value: Value<'v>, digits: &'v mut Option<Decimal>) -> &'v [u8] {
    match value {
        Value::Integer(number) => digits.insert(Decimal::new(number)).as_slice(),
        Value::Bytes(bytes) => bytes,
        Value::Large(_) | Value::Typed { .. } => unreachable!("only short values are returned as text"),
    }
}
