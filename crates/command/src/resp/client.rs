//! The command `CLIENT`: the dispatch to its subcommands, and the subcommands with which a client reads and sets the
//! attributes of its own connection.

use super::catalog::lower;
use super::error::ErrorReply;
use super::help::other_subcommand;
use crate::clients::client_info::ClientText;
use crate::resp::call::{Call, Run};
use crate::resp::clients;
use crate::resp::state::Answers;
use crate::resp::tracking;
use protocol::resp::{Args, reply};

/// Checks an attribute that a client sets for itself, and returns it. An attribute has no spaces and no control
/// characters, and at most 64 bytes.
pub(super) fn text(text: &[u8]) -> Result<ClientText, ErrorReply> {
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(ErrorReply::ClientText);
    }
    ClientText::try_from(text).map_err(|_| ErrorReply::ClientText)
}

/// Executes `CLIENT CAPA`. As in Valkey, unknown capabilities are ignored.
fn capabilities(call: &mut Call<'_, '_>, args: Args<'_>) {
    if args.into_iter().any(|word| word.eq_ignore_ascii_case(b"redirect")) {
        call.with_client_info(|client_info| client_info.can_redirect = true);
    }
    call.out.push(reply::OK);
}

/// Executes `CLIENT IMPORT-SOURCE`. The server has no mode in which it keeps expired keys for a client that imports
/// them.
fn import_source(call: &mut Call<'_, '_>, mut args: Args<'_>) {
    match &lower(args.next().unwrap_or_default())[..] {
        b"off" => call.out.push(reply::OK),
        _ => reply::error(call.out, b"ERR Server is not in import mode"),
    }
}

pub(super) fn client<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = args.next().unwrap_or_default();
    match (&lower(name)[..], args.len()) {
        (b"id", 0) => {
            let id = call.id();
            call.int(id as i64);
        }
        (b"getname", 0) => {
            let name = call.with_client_info(|client_info| client_info.name.clone()).unwrap_or_default();
            if name.is_empty() { call.null() } else { reply::bulk(call.out, &name) }
        }
        (b"setname", 1) => {
            let name = text(args.next().unwrap_or_default())?;
            call.with_client_info(|client_info| client_info.name = name);
            call.out.push(reply::OK);
        }
        (b"setinfo", 2) => {
            let (what, value) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
            let value = text(value)?;
            match &lower(what)[..] {
                b"lib-name" => call.with_client_info(|client_info| client_info.library = value),
                b"lib-ver" => call.with_client_info(|client_info| client_info.library_version = value),
                _ => {
                    reply::error(call.out, b"ERR Unrecognized option given to CLIENT SETINFO");
                    return Ok(());
                }
            };
            call.out.push(reply::OK);
        }
        (b"info", 0) => return clients::client_info(call, args),
        (b"list", _) => return clients::client_list(call, args),
        (b"kill", 1..) => return clients::client_kill(call, args),
        (b"pause", 1 | 2) => return clients::client_pause(call, args),
        (b"reply", 1) => {
            let answers = match &lower(args.next().unwrap_or_default())[..] {
                b"on" => Answers::All,
                b"off" => Answers::None,
                b"skip" if call.session.answers == Answers::None => Answers::None,
                b"skip" => Answers::SkipAfter,
                _ => return Err(ErrorReply::Syntax.into()),
            };
            if answers == Answers::All {
                call.out.push(reply::OK);
            }
            call.session.answers = answers;
        }
        (b"no-evict" | b"no-touch", 1) => match &lower(args.next().unwrap_or_default())[..] {
            b"on" | b"off" => call.out.push(reply::OK),
            _ => return Err(ErrorReply::Syntax.into()),
        },
        (b"capa", 1..) => capabilities(call, args),
        (b"import-source", 1) => import_source(call, args),
        (b"unpause", 0) => {
            call.ctx.shared.live.pause.end();
            call.out.push(reply::OK);
        }
        (b"unblock", 1 | 2) => return clients::client_unblock(call, args),
        (b"caching", 1) => return tracking::client_caching(call, args),
        (b"getredir", 0) => return tracking::client_getredir(call),
        (b"tracking", 1..) => return tracking::client_tracking(call, args),
        (b"trackinginfo", 0) => return tracking::client_trackinginfo(call),
        _ => return other_subcommand(call, "client", name),
    }
    Ok(())
}
