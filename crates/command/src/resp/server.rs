//! Commands that report on the server itself: `ROLE`, `WAIT`, `TIME`; and `DEBUG`.

use super::error::{ErrorReply, subcommand};
use super::help::{other_subcommand, reply_help};
use crate::clients::audit::AuditEvent;
use crate::context::audit_redis;
use crate::resp::blocking;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::words;
use crate::resp::session::CommandOrigin;
use crate::resp::state::waits::TimeoutReply;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use protocol::sink::Sink;

/// Executes `ROLE`: replies that the server is a primary without replicas.
pub(super) fn role<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    reply::array(call.out, 3);
    reply::bulk(call.out, b"master");
    call.int(0);
    reply::array(call.out, 0);
    Ok(())
}

/// Executes `LASTSAVE`. As `INFO` reports it, the last save was at the server's start: nothing is saved to RDB files.
pub(super) fn lastsave<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    call.int(call.ctx.shared.started.secs() as i64);
    Ok(())
}

/// Executes `REPLICAOF host port` and `SLAVEOF host port`: accepts `NO ONE`, because the server is a primary.
pub(super) fn replicaof<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [host, port] = words(args);
    if host.eq_ignore_ascii_case(b"no") && port.eq_ignore_ascii_case(b"one") {
        reply::simple(call.out, b"OK");
        return Ok(());
    }
    Err(ErrorReply::NoReplicas.into())
}

/// Executes `WAIT replicas timeout`. There are no replicas, so a client that requires any waits until the timeout.
/// Replies 0.
pub(super) fn wait<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [replicas, timeout] = words(args);
    let replicas = super::number::integer(replicas)?;
    let deadline = blocking::deadline_ms(call, timeout)?;
    if replicas > 0 && blocking::may_wait(call) {
        return blocking::wait(call, ("wait", args), None, deadline, TimeoutReply::Zero);
    }
    call.int(0);
    Ok(())
}

/// Executes `WAITAOF local replicas timeout`. There is no append-only file, and there are no replicas, so a client that
/// requires any waits until the timeout. Replies twice 0.
pub(super) fn waitaof<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [local, replicas, timeout] = words(args);
    let local = super::number::integer(local)?;
    if !(0..=1).contains(&local) {
        return Err(ErrorReply::LocalFiles.into());
    }
    let replicas = super::number::integer(replicas)?;
    if replicas < 0 {
        return Err(ErrorReply::OutOfRange.into());
    }
    let deadline = blocking::deadline_ms(call, timeout)?;
    if local > 0 {
        return Err(ErrorReply::NoAppendFile.into());
    }
    if replicas > 0 && blocking::may_wait(call) {
        return blocking::wait(call, ("waitaof", args), None, deadline, TimeoutReply::Zeros);
    }
    put_zeros(call.out);
    Ok(())
}

/// Writes the reply of `WAITAOF`.
pub(super) fn put_zeros(out: &mut impl Sink) {
    reply::array(out, 2);
    reply::int(out, 0);
    reply::int(out, 0);
}

/// Executes `MODULE LIST`: replies with an empty list, because clients send it to find the modules of a server.
pub(super) fn module<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    if !topic.eq_ignore_ascii_case(b"list") {
        return other_subcommand(call, "module", topic);
    }
    reply::array(call.out, 0);
    Ok(())
}

/// Executes `TIME`: replies with the Unix time, in seconds and microseconds. For a script, no time passes.
pub(super) fn time<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let micros = if call.session.origin == CommandOrigin::Script {
        let moment = call.moment();
        moment.to_wall(moment.now).0 * 1000
    } else {
        call.ctx.wall_us()
    };
    reply::array(call.out, 2);
    for number in [micros / 1_000_000, micros % 1_000_000] {
        reply::bulk(call.out, protocol::number::Decimal::new(number).as_slice());
    }
    Ok(())
}

/// Executes `DEBUG SLEEP seconds`, for tests. Only this client waits.
pub(super) fn debug<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if !call.ctx.shared.config.debug_command {
        reply::error(call.out, b"ERR DEBUG command not allowed. Start the server with debug = true in [commands].");
        return Ok(());
    }
    let topic = args.next().unwrap_or_default();
    if topic.eq_ignore_ascii_case(b"help") && args.len() == 0 {
        let lines =
            ["SLEEP <seconds>", "    Makes this client wait. Decimals are allowed.", "HELP", "    Prints this help."];
        return reply_help(call, "debug", lines.into_iter());
    }
    if !topic.eq_ignore_ascii_case(b"sleep") || args.len() != 1 {
        subcommand(call.out, "DEBUG", topic);
        return Ok(());
    }
    let now_ms = call.ctx.now.0 as i64;
    if call.session.sum == 0 {
        let secs = super::number::float(args.next().unwrap_or_default())?.clamp(0.0, 3600.0);
        audit_redis(call.ctx, AuditEvent::Command, || format!("DEBUG SLEEP {secs}"));
        call.session.sum = now_ms + (secs * 1000.0) as i64;
    }
    if now_ms < call.session.sum {
        return Err(SessionWait::Parked.into());
    }
    call.out.push(reply::OK);
    Ok(())
}
