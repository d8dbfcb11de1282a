//! Scripts: the commands `EVAL`, `EVALSHA`, `EVAL_RO`, `EVALSHA_RO` and `SCRIPT`.
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
mod run;

pub(super) use command::script;

use super::catalog::entry;
use super::error::ErrorReply;
use crate::keyspace::scripts::CachedScript;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::own_transaction;
use crate::resp::state::script::ScriptLimits;
use crate::resp::state::transaction::Stage;
use protocol::resp::{Args, reply};
use std::sync::Arc;

/// The way in which a request names its script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Text,
    Digest,
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

fn evaluate<'c>(call: &mut Call<'c, '_>, name: &'static str, named: Named, args: Args<'c>) -> Run {
    if let Some(running) = call.session.script.take() {
        return run::continue_script(call, running);
    }
    let word = args.into_iter().next().unwrap_or_default();
    if named == Named::Digest && word.len() != size_of::<script::Digest>() {
        return Err(ErrorReply::NoScript.into());
    }
    let (mut words, keys) = check_keys(args)?;
    words.next();
    let cached = match named {
        Named::Digest => cached::by_digest(call, word)?,
        Named::Text => match cached::by_text(call, word)? {
            Some(cached) => cached,
            None => return Ok(()),
        },
    };
    if !call.collects_replies {
        return begin(call, name, args);
    }
    let is_read_only = name.ends_with("_ro");
    words.next();
    start(call, &cached, is_read_only, words, keys)
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

/// Starts a script with the keys and arguments `words`.
fn start<'c>(
    call: &mut Call<'c, '_>,
    cached: &Arc<CachedScript>,
    is_read_only: bool,
    words: Args<'c>,
    keys: usize,
) -> Run {
    let flags = cached.script.header.flags;
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
    let running = run::create(call, Arc::clone(&cached.script), limits, words, keys)?;
    run::continue_script(call, running)
}
