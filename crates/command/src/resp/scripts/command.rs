//! The command `SCRIPT`.

use super::cached;
use crate::keyspace::scripts::Kill;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::help::other_subcommand;
use protocol::resp::{Args, reply};

/// Executes `SCRIPT EXISTS digest ... | FLUSH [ASYNC | SYNC] | KILL | LOAD text | SHOW digest | DEBUG mode | HELP`.
pub(in crate::resp) fn script<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match &lower(topic)[..] {
        b"load" => load(call, args.next().unwrap_or_default()),
        b"exists" => exists(call, args),
        b"flush" => flush(call, args),
        b"kill" => kill(call, false),
        b"show" => show(call, args.next().unwrap_or_default()),
        b"debug" => {
            reply::error(call.out, b"ERR SCRIPT DEBUG is not supported: this server has no debugger of scripts");
            Ok(())
        }
        _ => other_subcommand(call, "script", topic),
    }
}

fn load(call: &mut Call<'_, '_>, text: &[u8]) -> Run {
    if let Some(cached) = cached::load(call, text, true)? {
        reply::bulk(call.out, &cached.script.digest);
    }
    Ok(())
}

/// Replies with the text of a cached script.
fn show(call: &mut Call<'_, '_>, digest: &[u8]) -> Run {
    let cached = cached::digest_in(digest).and_then(|digest| call.ctx.shared.scripts.find(&digest));
    let script = cached.ok_or(ErrorReply::NoSuchScript)?;
    let mut all = Vec::new();
    reply::bulk(&mut all, &script.script.text);
    aside::send_long_reply(call, all)
}

fn exists<'c>(call: &mut Call<'c, '_>, digests: Args<'c>) -> Run {
    if call.session.done == 0 {
        reply::array(call.out, digests.len() as u64);
    }
    call.each_key(digests, |call, word| {
        let exists = cached::digest_in(word).is_some_and(|digest| call.ctx.shared.scripts.find(&digest).is_some());
        call.int(exists.into());
        Ok(())
    })
}

fn flush<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    match args.next().map(lower) {
        None => {}
        Some(word) if args.len() == 0 && matches!(&word[..], b"async" | b"sync") => {}
        Some(_) => return Err(ErrorReply::FlushMode.into()),
    }
    call.ctx.shared.scripts.flush();
    call.out.push(reply::OK);
    Ok(())
}

/// Ends the scripts or functions in execution.
pub(super) fn kill(call: &mut Call<'_, '_>, of_functions: bool) -> Run {
    match call.ctx.shared.scripts.kill(of_functions) {
        Kill::Killed => {
            call.out.push(reply::OK);
            Ok(())
        }
        Kill::NotBusy => Err(ErrorReply::NotBusy.into()),
        Kill::Unkillable => Err(ErrorReply::Unkillable.into()),
    }
}
