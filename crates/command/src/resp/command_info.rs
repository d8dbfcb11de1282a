//! The command `COMMAND`, which returns the table of commands.

use super::catalog::{COMMANDS, CommandSpec, find, lower};
use super::help::other_subcommand;
use crate::resp::call::{Call, Interrupt, Run};
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Fixed;

/// Executes `COMMAND [COUNT | LIST | INFO name ... | DOCS name ...]`.
pub(super) fn command<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"", _) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Info),
        (b"count", 0) => {
            call.int(COMMANDS.len() as i64);
            Ok(())
        }
        (b"list", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Name),
        (b"info", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Info),
        (b"info", count) => {
            reply_commands(call, count, |number| find(args.into_iter().nth(number)?), CommandReply::Info)
        }
        (b"docs", 0) => reply_commands(call, COMMANDS.len(), |number| Some(&COMMANDS[number]), CommandReply::Docs),
        (b"docs", _) => {
            let known = args.filter_map(find).count();
            reply_commands(call, known, |number| args.filter_map(find).nth(number), CommandReply::Docs)
        }
        _ => other_subcommand(call, "command", topic),
    }
}

/// The part of a command's catalog entry that a reply to `COMMAND` contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandReply {
    Name,
    Info,
    Docs,
}

/// Replies with `count` commands. If they do not fit into the output buffer, later visits continue the reply.
fn reply_commands(
    call: &mut Call<'_, '_>,
    count: usize,
    entry: impl Fn(usize) -> Option<&'static CommandSpec>,
    telling: CommandReply,
) -> Run {
    let version = call.session.version;
    let mut next = call.session.done as usize;
    if next == 0 {
        match telling {
            CommandReply::Docs => reply::map(call.out, version, count as u64),
            _ => reply::array(call.out, count as u64),
        }
    }
    while next < count {
        if call.out.room() < 2 * LINE_ROOM {
            return Err(Interrupt::State(SessionWait::OutputFull { want: 2 * LINE_ROOM }));
        }
        match (entry(next), telling) {
            (None, _) => reply::null_array(call.out, version),
            (Some(entry), CommandReply::Name) => reply::bulk(call.out, entry.name.as_bytes()),
            (Some(entry), CommandReply::Info) => entry.put_info(call.out, version),
            (Some(entry), CommandReply::Docs) => entry.put_docs(call.out, version),
        }
        next += 1;
        call.session.done = next as u32;
    }
    Ok(())
}

impl CommandSpec {
    /// Writes the ten elements of a command's entry in `COMMAND INFO`, in less than 1 KiB.
    fn put_info(&self, out: &mut crate::visit::out::OutBuffer, version: Version) {
        reply::array(out, 10);
        reply::bulk(out, self.name.as_bytes());
        reply::int(out, self.arity.into());
        reply::set(out, version, self.flags.len() as u64);
        self.flags.iter().for_each(|flag| reply::simple(out, flag.name().as_bytes()));
        let (first, last, step) = self.keys;
        [first, last, step].into_iter().for_each(|number| reply::int(out, number.into()));
        reply::set(out, version, self.categories.len() as u64);
        for category in self.categories {
            let mut text = Fixed::<32>::new();
            protocol::sink::Sink::put(&mut text, b"@");
            protocol::sink::Sink::put(&mut text, category.as_bytes());
            reply::simple(out, text.as_slice());
        }
        // The last three elements are empty: tips, key specifications and subcommands.
        (0..3).for_each(|_| reply::array(out, 0));
    }

    /// Writes a command's name and its documentation for `COMMAND DOCS`, in less than 1 KiB.
    fn put_docs(&self, out: &mut crate::visit::out::OutBuffer, version: Version) {
        reply::bulk(out, self.name.as_bytes());
        reply::map(out, version, 4);
        for (name, text) in
            [("summary", self.summary), ("since", self.since), ("group", self.group), ("complexity", self.complexity)]
        {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, text.as_bytes());
        }
    }
}
