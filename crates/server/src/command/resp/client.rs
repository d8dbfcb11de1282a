//! `CLIENT`: what a connection says of itself and is told of itself.

use super::error::{Fault, subcommand};
use super::table::lower;
use super::{Answers, Call, ClientText, Run};
use protocol::resp::{Args, reply};
use protocol::sink::{Fixed, Sink};

/// What a client says of itself: no space and no control character, 64 bytes at most.
pub(super) fn text(text: &[u8]) -> Result<ClientText, Fault> {
    if !text.iter().all(u8::is_ascii_graphic) {
        return Err(Fault::ClientText);
    }
    ClientText::try_from(text).map_err(|_| Fault::ClientText)
}

pub(super) fn client<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = args.next().unwrap_or_default();
    match (&lower(name)[..], args.len()) {
        (b"id", 0) => {
            let id = call.id();
            call.int(id as i64);
        }
        (b"getname", 0) => {
            let name = call.session.name.clone();
            if name.is_empty() { call.null() } else { reply::bulk(call.out, &name) }
        }
        (b"setname", 1) => {
            call.session.name = text(args.next().unwrap_or_default())?;
            call.out.push(reply::OK);
        }
        (b"setinfo", 2) => {
            let (what, value) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
            let place = match &lower(what)[..] {
                b"lib-name" => &mut call.session.library,
                b"lib-ver" => &mut call.session.library_version,
                _ => {
                    reply::error(call.out, b"ERR Unrecognized option given to CLIENT SETINFO");
                    return Ok(());
                }
            };
            *place = text(value)?;
            call.out.push(reply::OK);
        }
        (b"info" | b"list", 0) => {
            let mut line = Fixed::<512>::new();
            describe(call, &mut line);
            reply::verbatim(call.out, call.session.version, b"txt", line.as_slice());
        }
        (b"reply", 1) => {
            let answers = match &lower(args.next().unwrap_or_default())[..] {
                b"on" => Answers::All,
                b"off" => Answers::None,
                b"skip" if call.session.answers == Answers::None => Answers::None,
                b"skip" => Answers::SkipNext,
                _ => return Err(Fault::Syntax.into()),
            };
            if answers == Answers::All {
                call.out.push(reply::OK);
            }
            call.session.answers = answers;
        }
        (b"no-evict" | b"no-touch", 1) => match &lower(args.next().unwrap_or_default())[..] {
            b"on" | b"off" => call.out.push(reply::OK),
            _ => return Err(Fault::Syntax.into()),
        },
        (b"unpause", 0) => call.out.push(reply::OK),
        _ => subcommand(call.out, "CLIENT", name),
    }
    Ok(())
}

/// One line about this connection, in the form of Redis.
fn describe(call: &mut Call<'_, '_>, line: &mut Fixed<512>) {
    let id = call.id();
    let session = &call.session;
    let mut number = |name: &[u8], value: u64| {
        line.put(name);
        protocol::number::put_u64(line, value);
    };
    number(b"id=", id);
    number(b" db=", 0);
    number(b" resp=", if session.version == protocol::resp::Version::Resp3 { 3 } else { 2 });
    for (name, value) in
        [(&b" name="[..], &session.name), (b" lib-name=", &session.library), (b" lib-ver=", &session.library_version)]
    {
        line.put(name);
        line.put(value);
    }
    line.put(b" user=default\n");
}
