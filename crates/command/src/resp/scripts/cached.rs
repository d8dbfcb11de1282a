//! Looks up scripts by their digests and texts, and compiles new ones.

use crate::keyspace::scripts::CachedScript;
use crate::resp::call::{Call, Interrupt};
use crate::resp::error::ErrorReply;
use protocol::resp::reply;
use script::{Digest, Header, Input, Machine, MachineEvent, Script};
use std::sync::Arc;

/// The maximum length of a script in bytes. A script is compiled in one visit.
const SCRIPT_BYTES_MAX: usize = 256 << 10;

/// Returns the cached script with this digest, in upper or lower case.
pub(super) fn by_digest(call: &mut Call<'_, '_>, word: &[u8]) -> Result<Arc<CachedScript>, ErrorReply> {
    let digest = digest_in(word).ok_or(ErrorReply::NoScript)?;
    let shared = &call.ctx.shared;
    let cached = call.ctx.scripts.find(&digest, &shared.scripts).ok_or(ErrorReply::NoScript)?;
    if cached.use_at(call.ctx.now) {
        return Ok(cached);
    }
    call.ctx.scripts.forget(&cached);
    call.ctx.scripts.find(&digest, &shared.scripts).ok_or(ErrorReply::NoScript)
}

/// Returns the digest that a word contains.
pub(super) fn digest_in(word: &[u8]) -> Option<Digest> {
    Digest::try_from(&word.to_ascii_lowercase()[..]).ok()
}

/// Returns the cached script with this text. Compiles and caches the script if it is new. Returns `None`, after an
/// error reply, if it does not compile.
pub(super) fn by_text(call: &mut Call<'_, '_>, text: &[u8]) -> Result<Option<Arc<CachedScript>>, Interrupt> {
    if let Some(last) = call.ctx.scripts.last_with_text(text)
        && last.use_at(call.ctx.now)
    {
        return Ok(Some(last));
    }
    let hash = call.key(text).hash();
    if let Some(cached) = call.ctx.scripts.find_text(hash, text) {
        if cached.use_at(call.ctx.now) {
            return Ok(Some(cached));
        }
        call.ctx.scripts.forget(&cached);
    }
    let Some(cached) = load(call, text, false)? else { return Ok(None) };
    call.ctx.scripts.note(&cached, Some(hash));
    Ok(Some(cached))
}

/// Returns the cached script with this text. Compiles and caches it if it is new, for `SCRIPT LOAD` if `is_loaded` is
/// true. Returns `None`, after an error reply, if it does not compile.
pub(super) fn load(
    call: &mut Call<'_, '_>,
    text: &[u8],
    is_loaded: bool,
) -> Result<Option<Arc<CachedScript>>, Interrupt> {
    let shared = Arc::clone(&call.ctx.shared);
    let script = match shared.scripts.find(&script::digest_of(text)) {
        Some(cached) => Arc::clone(&cached.script),
        None if text.len() > SCRIPT_BYTES_MAX => return Err(ErrorReply::ScriptTooLong.into()),
        None => {
            let header = match Header::read(text) {
                Ok(header) => header,
                Err(error) => {
                    reply::error(call.out, &error.message());
                    return Ok(None);
                }
            };
            let script = shared.scripts.create(text, header);
            if !compiles(call, &script)? {
                return Ok(None);
            }
            script
        }
    };
    let cached = shared.scripts.insert(script, is_loaded, call.ctx.now).ok_or(ErrorReply::TooManyScripts)?;
    Ok(Some(cached))
}

/// Compiles a script. Returns false, after an error reply, if it does not compile.
fn compiles(call: &mut Call<'_, '_>, script: &Arc<Script>) -> Result<bool, Interrupt> {
    let mut machine = take_machine(call)?;
    let before = machine.heap_bytes() as u64;
    machine.begin(Arc::clone(script), std::iter::empty(), 0, false);
    let mut event = machine.step(Input::Compile);
    while event != MachineEvent::Done {
        event = machine.step(Input::Continue);
    }
    let compiles = !machine.is_uncompiled();
    if !compiles {
        let most = call.out.room().min(crate::visit::out::LINE_ROOM);
        machine.with_result(|result| {
            let line = result.strip_prefix(b"-").and_then(|line| line.strip_suffix(b"\r\n")).unwrap_or(result);
            reply::error(call.out, &line[..line.len().min(most.saturating_sub(8))]);
        });
    }
    call.ctx.scripts.return_machine(machine, &call.ctx.shared.scripts, before);
    Ok(compiles)
}

/// Returns an idle Lua state.
pub(super) fn take_machine(call: &mut Call<'_, '_>) -> Result<Machine, ErrorReply> {
    call.ctx.scripts.take_machine().map_err(|_| ErrorReply::NoScriptMemory)
}
