//! Commands on the connection itself: `PING`, `ECHO`, `QUIT`, `SELECT`, `AUTH`, `HELLO` and `RESET`.

use super::REDIS_VERSION;
use super::catalog::lower;
use super::error::ErrorReply;
use crate::clients::client_info::ClientInfo;
use crate::context::WorkerContext;
use crate::resp::acl;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::pubsub;
use crate::resp::session::CommandOrigin;
use crate::resp::session::{DatabaseNumbers, SessionState};
use crate::resp::state::Answers;
use crate::resp::transaction;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Args, Version, reply};
use segment::Namespace;

pub(super) fn ping<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if pubsub::is_subscribed_in_2(call) && args.len() <= 1 {
        // A subscriber that uses version 2 of the protocol receives the reply in the form of a message.
        let text = args.next().unwrap_or_default();
        call.room(text.len())?;
        reply::array(call.out, 2);
        reply::bulk(call.out, b"pong");
        reply::bulk(call.out, text);
        return Ok(());
    }
    match (args.next(), args.len()) {
        (None, _) => call.out.push(reply::PONG),
        (Some(text), 0) => {
            call.room(text.len())?;
            reply::bulk(call.out, text);
        }
        _ => return Err(ErrorReply::Arity("ping").into()),
    }
    Ok(())
}

pub(super) fn echo<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let text = args.next().unwrap_or_default();
    call.room(text.len())?;
    reply::bulk(call.out, text);
    Ok(())
}

pub(super) fn quit<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    call.out.push(reply::OK);
    Err(Interrupt::Quit)
}

pub(super) fn select<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (from, to) = (call.session.namespace, database(call, args.next().unwrap_or_default())?);
    let namespaces = &call.ctx.shared.namespaces;
    if call.session.origin == CommandOrigin::Script {
        // The connection stays in its namespace when the script ends.
        call.session.namespace = to;
    } else if to != from {
        if !namespaces.enter(to) {
            return Err(ErrorReply::DatabaseFull.into());
        }
        namespaces.leave(from);
        move_to(call.session, call.ctx, to);
    }
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn auth<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let first = args.next().unwrap_or_default();
    // A single word is the password of the default user.
    let (user, secret, has_name) = match args.next() {
        Some(secret) => (first, secret, true),
        None => (&b"default"[..], first, false),
    };
    if args.len() > 0 {
        return Err(ErrorReply::Syntax.into());
    }
    acl::authenticate(call, user, secret, has_name)?;
    call.out.push(reply::OK);
    Ok(())
}

/// Executes `HELLO [version [AUTH user secret] [SETNAME name]]`. As in Redis, the last of several logins counts.
pub(super) fn hello<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let version = match args.next() {
        None => None,
        Some(b"2") => Some(Version::Resp2),
        Some(b"3") => Some(Version::Resp3),
        Some(text) => {
            super::number::integer(text).map_err(|_| ErrorReply::VersionNotInteger)?;
            return Err(ErrorReply::Version.into());
        }
    };
    let (mut name, mut login) = (None, None);
    while let Some(word) = args.next() {
        match &lower(word)[..] {
            b"auth" => {
                let (Some(user), Some(secret)) = (args.next(), args.next()) else {
                    return no_hello_option(call, word);
                };
                login = Some((user, secret));
            }
            b"setname" => {
                let Some(given) = args.next() else { return no_hello_option(call, word) };
                name = Some(super::client::text(given)?);
            }
            _ => return no_hello_option(call, word),
        }
    }
    if let Some((user, secret)) = login {
        acl::authenticate(call, user, secret, true)?;
    }
    if call.is_unauthenticated() {
        return Err(ErrorReply::NoAuth.into());
    }
    call.session.version = version.unwrap_or(call.session.version);
    let speaks_3 = call.session.version == Version::Resp3;
    call.with_client_info(|client_info| {
        client_info.is_resp3 = speaks_3;
        client_info.name = name.unwrap_or_else(|| client_info.name.clone());
    });
    let (version, id) = (call.session.version, call.id());
    let out = &mut *call.out;
    reply::map(out, version, 7);
    for (name, text) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, text.as_bytes());
    }
    reply::bulk(out, b"proto");
    reply::int(out, if version == Version::Resp3 { 3 } else { 2 });
    reply::bulk(out, b"id");
    reply::int(out, id as i64);
    for (name, text) in [("mode", "standalone"), ("role", "master")] {
        reply::bulk(out, name.as_bytes());
        reply::bulk(out, text.as_bytes());
    }
    reply::bulk(out, b"modules");
    reply::array(out, 0);
    Ok(())
}

/// Replies that `HELLO` does not have this option, or not with these arguments.
fn no_hello_option(call: &mut Call<'_, '_>, option: &[u8]) -> Run {
    super::error::word(call.out, "ERR Syntax error in HELLO option", option);
    Ok(())
}

pub(super) fn reset<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    // The client no longer receives invalidations, and drops its copies.
    if let Some(aside) = &mut call.session.aside {
        aside.tracking = None;
    }
    if !call.session.end_some_subscriptions() {
        call.ops = OPS_A_BATCH;
        call.ctx.note_work(1024);
        return Err(SessionWait::Yield.into());
    }
    transaction::discard_all(call);
    let (is_distant, from) = (call.session.is_distant, call.session.namespace);
    let home = call.ctx.shared.namespaces.databases().namespace(call.session.numbers.home());
    if from != home {
        // The connection was accepted in this namespace, so it may return to the namespace even if the connection limit
        // was reached meanwhile.
        call.ctx.shared.namespaces.count_in(home);
        call.ctx.shared.namespaces.leave(from);
        move_to(call.session, call.ctx, home);
    }
    // If the reply to this request is to be skipped, it is.
    let answers = if call.session.answers == Answers::SkipNext { Answers::SkipNext } else { Answers::All };
    let known = !call.ctx.shared.requires_authentication();
    *call.session = super::SessionState {
        known,
        is_restricted: is_distant,
        is_distant,
        origin: call.session.origin,
        answers,
        ..super::SessionState::of(Namespace(call.session.numbers.home()))
    };
    call.session.namespace = home;
    call.with_client_info(|client_info| {
        // As in Redis, the library is retained: it is still the one behind the connection.
        *client_info = ClientInfo {
            id: client_info.id,
            local: client_info.local,
            since_secs: client_info.since_secs,
            is_grpc: client_info.is_grpc,
            database: client_info.database,
            library: std::mem::take(&mut client_info.library),
            library_version: std::mem::take(&mut client_info.library_version),
            ..ClientInfo::default()
        };
    });
    reply::simple(call.out, b"RESET");
    Ok(())
}

/// Returns the namespace with the name `text`, or of the database with this number.
pub(super) fn database(call: &Call<'_, '_>, text: &[u8]) -> Result<Namespace, ErrorReply> {
    call.ctx.shared.namespaces.find(text).ok_or_else(|| match super::number::integer(text) {
        Ok(number) if i32::try_from(number).is_err() => ErrorReply::DatabaseNumber,
        Ok(_) => ErrorReply::Database,
        Err(fault) => fault,
    })
}

/// Sets the namespace in which the connection's later requests access keys.
fn move_to(session: &mut SessionState, ctx: &WorkerContext, namespace: Namespace) {
    let database = ctx.shared.namespaces.databases().database(namespace);
    session.namespace = namespace;
    session.numbers = DatabaseNumbers::new(database, session.numbers.home());
    ctx.connection_table().client_info(ctx.push.watch.connection, |client_info| client_info.database = database);
}

/// Moves the connection of a client of another protocol to a namespace, or to that of its listener. Returns false if
/// the namespace has its maximum number of connections.
pub(crate) fn enter_namespace(session: &mut SessionState, ctx: &WorkerContext, to: Option<Namespace>) -> bool {
    let namespaces = &ctx.shared.namespaces;
    let from = session.namespace;
    let to = to.unwrap_or_else(|| namespaces.databases().namespace(session.numbers.home()));
    if to == from {
        // `SWAPDB` may have given the namespace another database.
        session.numbers = DatabaseNumbers::new(namespaces.databases().database(to), session.numbers.home());
        return true;
    }
    if !namespaces.enter(to) {
        return false;
    }
    namespaces.leave(from);
    move_to(session, ctx, to);
    true
}
