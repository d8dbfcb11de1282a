//! Scripts and functions: the commands `EVAL`, `EVALSHA`, `EVAL_RO`, `EVALSHA_RO`, `SCRIPT`, `FCALL`, `FCALL_RO` and
//! `FUNCTION`.
//!
//! ```text
//!   EVAL ──> find or compile the script ──> a transaction over its keys ──> run: the script's commands, one by one
//!                                                  ^      a key that it did not name      │
//!                                                  └──────── extends its key lock set <───┘
//! ```
//!
//! A script is a single-command transaction, or a command of `MULTI`. So its effects are atomic, and it may take
//! several visits. Between two visits, other clients are served; its keys stay locked.

mod cached;
mod command;
mod functions;
mod run;

pub(super) use command::script;
pub(super) use functions::function;
pub use functions::load_persisted;

use super::catalog::entry;
use super::error::ErrorReply;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::own_transaction;
use crate::resp::pubsub;
use crate::resp::state::script::ScriptLimits;
use crate::resp::state::transaction::Stage;
use protocol::resp::{Args, reply};
use script::{Script, ScriptFlags};
use std::sync::Arc;

/// The way in which a request names its script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Text,
    Digest,
    Function,
}

/// Executes `EVAL text numkeys [key ...] [argument ...]`.
pub(super) fn eval<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "eval", Named::Text, args)
}

/// Executes `EVAL_RO`: as `EVAL`, but the script must not write.
pub(super) fn eval_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "eval_ro", Named::Text, args)
}

/// Executes `EVALSHA digest numkeys [key ...] [argument ...]`.
pub(super) fn evalsha<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "evalsha", Named::Digest, args)
}

/// Executes `EVALSHA_RO`: as `EVALSHA`, but the script must not write.
pub(super) fn evalsha_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "evalsha_ro", Named::Digest, args)
}

/// Executes `FCALL name numkeys [key ...] [argument ...]`.
pub(super) fn fcall<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "fcall", Named::Function, args)
}

/// Executes `FCALL_RO`: as `FCALL`, but the function must be declared not to write.
pub(super) fn fcall_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    evaluate(call, "fcall_ro", Named::Function, args)
}

fn evaluate<'c>(call: &mut Call<'c, '_>, name: &'static str, named: Named, args: Args<'c>) -> Run {
    if let Some(running) = call.session.script.take() {
        return run::continue_script(call, running, (name, args));
    }
    if named == Named::Function {
        return call_function(call, name, args);
    }
    let word = args.into_iter().next().unwrap_or_default();
    if named == Named::Digest && word.len() != size_of::<script::Digest>() {
        return Err(ErrorReply::NoScript.into());
    }
    let (mut words, keys) = check_keys(args)?;
    words.next();
    let cached = match named {
        Named::Digest => cached::by_digest(call, word)?,
        _ => match cached::by_text(call, word)? {
            Some(cached) => cached,
            None => return Ok(()),
        },
    };
    if !call.collects_replies {
        return begin(call, name, args);
    }
    let is_read_only = name.ends_with("_ro");
    words.next();
    let flags = cached.script.header.flags;
    start(call, (name, args), (Arc::clone(&cached.script), None), (flags, is_read_only), (words, keys))
}

/// Calls a function of a library.
fn call_function<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>) -> Run {
    let word = args.into_iter().next().unwrap_or_default();
    let libraries = call.ctx.scripts.libraries(&call.ctx.shared.scripts.libraries);
    let (library, function) = libraries.function(word).ok_or(ErrorReply::NoFunction)?;
    let (mut words, keys) = check_keys(args).map_err(|error| match error {
        ErrorReply::NotInteger => ErrorReply::FunctionKeys,
        other => other,
    })?;
    if !call.collects_replies {
        return begin(call, name, args);
    }
    words.next();
    words.next();
    let (script, flags) = ((Arc::clone(&library.script), Some(function.name.clone())), Some(function.flags));
    start(call, (name, args), script, (flags, name == "fcall_ro"), (words, keys))
}

/// Returns true if the request of a command executes a script or function with the flag `no-writes`. `word` is the
/// script's text or digest, or the function's name.
pub(super) fn is_declared_not_to_write(call: &mut Call<'_, '_>, name: &str, word: Option<&[u8]>) -> bool {
    let Some(word) = word else { return false };
    let flags = match name {
        "eval" => script::Header::read(word).ok().and_then(|header| header.flags),
        "evalsha" => cached::digest_in(word)
            .and_then(|digest| call.ctx.scripts.find(&digest, &call.ctx.shared.scripts))
            .and_then(|cached| cached.script.header.flags),
        "fcall" => {
            let libraries = call.ctx.scripts.libraries(&call.ctx.shared.scripts.libraries);
            libraries.function(word).map(|(_, function)| function.flags)
        }
        _ => None,
    };
    flags.is_some_and(|flags| flags.no_writes)
}

/// Checks the number of keys. Returns the arguments and that number.
fn check_keys(args: Args<'_>) -> Result<(Args<'_>, usize), ErrorReply> {
    let count = super::number::integer(args.into_iter().nth(1).unwrap_or_default())?;
    let most = args.len() as i64 - 2;
    match count {
        ..0 => Err(ErrorReply::KeysBelowZero),
        _ if count > most => Err(ErrorReply::KeysTooMany),
        _ => Ok((args, count as usize)),
    }
}

/// Turns the request into a transaction over the keys that it names.
fn begin<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>) -> Run {
    let entry = entry(name);
    let mut one = own_transaction::take_empty(call);
    entry.keys_of(args).for_each(|key| one.key_locks.add(&call.key(key)));
    if !one.set_single_request(entry, args, false) {
        own_transaction::recycle(one, call.ctx);
        return Err(ErrorReply::ClientMemory.into());
    }
    (one.stage, one.has_script) = (Stage::Obtaining, true);
    own_transaction::begin(call, one);
    Err(Interrupt::UnderWay)
}

/// Starts a script or a function with the keys and arguments `words`, of which the first `keys` are keys.
fn start<'c>(
    call: &mut Call<'c, '_>,
    request: (&'static str, Args<'c>),
    script: (Arc<Script>, Option<Box<[u8]>>),
    (flags, is_read_only): (Option<ScriptFlags>, bool),
    (words, keys): (Args<'c>, usize),
) -> Run {
    let (no_writes, allow_oom) = flags.map_or((false, true), |flags| (flags.no_writes, flags.allow_oom));
    if !allow_oom && !no_writes && call.ctx.check_room(call.session.namespace, 1).is_err() {
        let text = b"OOM allow-oom flag is not set on the script, can \
                     not run it when used memory > 'maxmemory'";
        reply::error(call.out, text);
        return Ok(());
    }
    if is_read_only && flags.is_some() && !no_writes {
        reply::error(
            call.out,
            b"ERR Can \
            not execute a script with write flag using *_ro command.",
        );
        return Ok(());
    }
    let limits = ScriptLimits { is_read_only: is_read_only || no_writes };
    let running = run::create(call, script, limits, words, keys)?;
    // Monitoring clients see the script before its commands.
    if call.ctx.push.watch.watched.has_monitors() {
        let (name, args) = request;
        pubsub::send_to_monitors(call, Some(entry(name)), name.as_bytes(), args);
    }
    run::continue_script(call, running, request)
}
