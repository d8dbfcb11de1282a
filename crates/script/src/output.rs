//! The limit on what Rust functions collect for a script outside of the Lua heap: texts, results and requests. A script
//! may refer to one long string many times, so an output may be far longer than the heap.

use crate::HEAP_BYTES_MAX;
use crate::failure::plain;

/// Returns the error that Lua raises if the heap is full.
pub(crate) fn not_enough_memory() -> mlua::Error {
    plain("not enough memory")
}

/// Returns an error if an output with `more` bytes would be longer than the heap may be.
pub(crate) fn check_room(out: &[u8], more: usize) -> mlua::Result<()> {
    if out.len().saturating_add(more) <= HEAP_BYTES_MAX { Ok(()) } else { Err(not_enough_memory()) }
}

/// Appends bytes to an output.
///
/// # Errors
/// If the output would be longer than the heap may be.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) -> mlua::Result<()> {
    check_room(out, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}
