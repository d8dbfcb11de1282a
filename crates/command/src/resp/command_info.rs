//! The command `COMMAND`, which returns the table of commands, and the keys of a request.

use super::catalog::{COMMANDS, COUNTED, CommandSpec, Flag, STORED, STREAMED, counted_place, find, lower};
use super::error::ErrorReply;
use super::help::other_subcommand;
use super::key_specs::{Begin, KeySpec, key_specs, only_gets_fields, set_reads, tips};
use super::subcommands::{Subcommand, accepts, find_subcommand, subcommands_of};
use super::syntax::syntax_of;
use crate::glob::matches;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::pattern::check;
use crate::visit::out::OutBuffer;
use protocol::resp::{Args, Version, reply};

/// A command or a subcommand.
#[derive(Clone, Copy)]
enum Described {
    Command(&'static CommandSpec),
    Part(&'static CommandSpec, &'static Subcommand),
}

use Described::{Command, Part};

/// Executes `COMMAND [COUNT | LIST [FILTERBY ...] | INFO name ... | DOCS name ... | GETKEYS request |
/// GETKEYSANDFLAGS request]`.
pub(super) fn command<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"", _) | (b"info", 0) => reply_all(call, |out, _, count| reply::array(out, count), Described::put_info),
        (b"count", 0) => {
            call.int(COMMANDS.len() as i64);
            Ok(())
        }
        (b"list", _) => list(call, args),
        (b"info", _) => reply_infos(call, args),
        (b"docs", 0) => reply_all(call, reply::map, Described::put_docs),
        (b"docs", _) => reply_docs(call, args),
        (b"getkeys", 2..) => reply_keys(call, args, false),
        (b"getkeysandflags", 2..) => reply_keys(call, args, true),
        _ => other_subcommand(call, "command", topic),
    }
}

/// Replies with all commands. The reply takes several visits if it does not fit into the output buffer.
fn reply_all(
    call: &mut Call<'_, '_>,
    put_head: fn(&mut OutBuffer, Version, u64),
    put: fn(&Described, &mut Vec<u8>, Version),
) -> Run {
    let version = call.session.version;
    if call.session.done == 0 {
        put_head(call.out, version, COMMANDS.len() as u64);
    }
    let mut text = Vec::new();
    while let Some(entry) = COMMANDS.get(call.session.done as usize) {
        text.clear();
        put(&Command(entry), &mut text, version);
        push(call, &text)?;
        call.session.done += 1;
    }
    Ok(())
}

/// Replies with the entries of the commands and subcommands that `args` name.
fn reply_infos<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let version = call.session.version;
    if call.session.done == 0 {
        reply::array(call.out, args.len() as u64);
    }
    let mut text = Vec::new();
    call.each_key(args, |call, name| {
        text.clear();
        match Described::find(name) {
            Some(found) => found.put_info(&mut text, version),
            None => reply::null(&mut text, version),
        }
        push(call, &text)
    })
}

/// Replies with the documentation of the commands and subcommands that `args` name. Omits unknown ones.
fn reply_docs<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let version = call.session.version;
    if call.session.done == 0 {
        reply::map(call.out, version, args.filter_map(Described::find).count() as u64);
    }
    let mut text = Vec::new();
    call.each_key(args, |call, name| {
        text.clear();
        if let Some(found) = Described::find(name) {
            found.put_docs(&mut text, version);
        }
        push(call, &text)
    })
}

fn push(call: &mut Call<'_, '_>, text: &[u8]) -> Run {
    call.room(text.len())?;
    call.out.push(text);
    Ok(())
}

/// Executes `COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`.
fn list<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (head, count) = (args.next(), args.len());
    let (kind, word) = (args.next().map(lower).unwrap_or_default(), args.next().unwrap_or_default());
    let pattern = word.to_ascii_lowercase();
    let is_filter = head.is_some_and(|head| head.eq_ignore_ascii_case(b"filterby")) && count == 2;
    let takes: Box<dyn Fn(&Described) -> bool> = match (head, &kind[..]) {
        (None, _) => Box::new(|_| true),
        // There are no modules.
        (_, b"module") if is_filter => Box::new(|_| false),
        (_, b"aclcat") if is_filter => {
            Box::new(move |one| one.categories().iter().any(|category| category.as_bytes() == pattern))
        }
        (_, b"pattern") if is_filter => {
            check(word)?;
            Box::new(move |one| matches(&pattern, one.name().as_bytes()))
        }
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let commands = COMMANDS.iter().flat_map(|entry| [Command(entry)].into_iter().chain(Described::parts(entry)));
    let names: Vec<&str> = commands.filter(|one| takes(one)).map(|one| one.name()).collect();
    let mut all = Vec::new();
    reply::array(&mut all, names.len() as u64);
    names.into_iter().for_each(|name| reply::bulk(&mut all, name.as_bytes()));
    aside::send_long_reply(call, all)
}

/// Executes `COMMAND GETKEYS` and `COMMAND GETKEYSANDFLAGS`: replies with the keys of the request in `args`.
fn reply_keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, with_flags: bool) -> Run {
    let words = args.len();
    let found = args.next().and_then(find).and_then(|entry| {
        let part = || args.into_iter().next().and_then(|name| Described::part(entry, name));
        if entry.is_container() { part() } else { Some(Command(entry)) }
    });
    let Some(found) = found else {
        reply::error(call.out, b"ERR Invalid command specified");
        return Ok(());
    };
    let specs = || key_specs(found.name()).iter().filter(|spec| spec.has_keys());
    if specs().next().is_none() {
        reply::error(call.out, b"ERR The command has no key arguments");
        return Ok(());
    }
    if !accepts(found.arity(), words) {
        reply::error(call.out, b"ERR Invalid number of arguments specified for command");
        return Ok(());
    }
    let may_have_none = found.entry().has(Flag::NoMandatoryKeys);
    if !may_have_none && specs().any(|spec| spec.begin == Begin::Index && keys_at(spec, found.entry(), args).is_empty())
    {
        reply::error(call.out, b"ERR Invalid arguments specified for command");
        return Ok(());
    }
    let keys: Vec<(&[u8], &KeySpec)> =
        specs().flat_map(|spec| keys_at(spec, found.entry(), args).into_iter().map(move |key| (key, spec))).collect();
    let (mut all, version) = (Vec::new(), call.session.version);
    reply::array(&mut all, keys.len() as u64);
    for (key, spec) in keys {
        if with_flags {
            reply::array(&mut all, 2);
        }
        reply::bulk(&mut all, key);
        if with_flags {
            put_flags(&mut all, version, access(found.name(), spec, args));
        }
    }
    aside::send_long_reply(call, all)
}

/// Returns the keys of a request of `entry` that a specification names. `args` are the request's arguments.
fn keys_at<'c>(spec: &KeySpec, entry: &CommandSpec, args: Args<'c>) -> Vec<&'c [u8]> {
    match spec.begin {
        // The catalog has the position of the destination key.
        Begin::Unknown if spec.flags.contains(&"OW") => return entry.keys_of(args).skip(1).collect(),
        Begin::Unknown => return Vec::new(),
        Begin::Keyword(word) => {
            let mut left = args.skip(usize::from(spec.first) - 1);
            let is_there = left.any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
            return left.next().filter(|_| is_there).into_iter().collect();
        }
        Begin::Index if spec.step == 0 || spec.last == STREAMED => return entry.keys_of(args).collect(),
        Begin::Index => {}
    }
    if spec.last == COUNTED {
        let (before, count) = counted_place(usize::from(spec.first) - 1, args, spec.step.into());
        return args.skip(before).take(count).step_by(spec.step.into()).collect();
    }
    let before = usize::from(spec.first) - 1;
    let count = match spec.last {
        0.. => usize::from(spec.last.unsigned_abs()) + 1,
        last => (args.len() + 1 - usize::from(last.unsigned_abs())).saturating_sub(before),
    };
    args.skip(before).take(count).step_by(spec.step.into()).collect()
}

/// Returns the flags of the keys of a request of the command `name` with the arguments `args`.
fn access(name: &str, spec: &KeySpec, args: Args<'_>) -> &'static [&'static str] {
    match spec.flags.contains(&"variable_flags") {
        true if name == "bitfield" && only_gets_fields(args) => &["RO", "access"],
        true if name == "bitfield" => &["RW", "access", "update"],
        true if name == "delex" && args.len() > 1 => &["RW", "access", "delete"],
        true if name == "delex" => &["RM", "delete"],
        true if set_reads(args.skip(2)) => &["RW", "access", "update"],
        true => &["OW", "update"],
        false => spec.flags,
    }
}

fn put_flags(out: &mut Vec<u8>, version: Version, flags: &[&str]) {
    reply::set(out, version, flags.len() as u64);
    flags.iter().for_each(|flag| reply::simple(out, flag.as_bytes()));
}

impl Described {
    /// Returns the command or subcommand with this name, such as `get` or `config|get`.
    fn find(name: &[u8]) -> Option<Self> {
        let mut names = name.splitn(2, |byte| *byte == b'|');
        let entry = names.next().and_then(find)?;
        names.next().map_or(Some(Command(entry)), |part| Self::part(entry, part))
    }

    /// Returns the subcommand of a container with this name.
    fn part(entry: &'static CommandSpec, name: &[u8]) -> Option<Self> {
        find_subcommand(entry.name, name).filter(|(_, part)| !part.help.is_empty()).map(|(_, part)| Part(entry, part))
    }

    /// Returns the supported subcommands of a command.
    fn parts(entry: &'static CommandSpec) -> impl Iterator<Item = Self> {
        let supported = subcommands_of(entry.name).filter(|(_, part)| !part.help.is_empty());
        supported.map(move |(_, part)| Part(entry, part))
    }

    fn entry(&self) -> &'static CommandSpec {
        match self {
            Command(entry) | Part(entry, _) => entry,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Command(entry) => entry.name,
            Part(_, part) => part.name,
        }
    }

    fn arity(&self) -> i8 {
        match self {
            Command(entry) => entry.arity,
            Part(_, part) => part.arity,
        }
    }

    fn categories(&self) -> &'static [&'static str] {
        match self {
            Command(entry) => entry.categories,
            Part(_, part) => part.categories,
        }
    }

    /// Returns true for a command that cannot be called without a subcommand. It has no properties of its own.
    fn is_only_container(&self) -> bool {
        matches!(self, Command(entry) if entry.is_container() && entry.arity != -1)
    }

    fn flags(&self) -> Vec<Flag> {
        let Part(entry, part) = self else {
            return if self.is_only_container() { Vec::new() } else { self.entry().flags.to_vec() };
        };
        let is_help = part.names().1 == "help";
        let admin = part.categories.contains(&"admin").then_some(Flag::Admin).into_iter();
        let own: &[Flag] = match entry.name {
            _ if is_help => &[Flag::Loading, Flag::Stale],
            "acl" | "client" | "config" | "latency" => &[Flag::NoScript, Flag::Loading, Flag::Stale],
            "module" => &[Flag::NoScript],
            "pubsub" => &[Flag::PubSub, Flag::Loading, Flag::Stale],
            "object" | "xinfo" => &[Flag::ReadOnly],
            "xgroup" if part.names().1.starts_with("create") => &[Flag::Write, Flag::DenyOom],
            "xgroup" => &[Flag::Write],
            "function" if matches!(part.names().1, "load" | "restore") => &[Flag::Write, Flag::DenyOom, Flag::NoScript],
            "function" if part.categories.contains(&"write") => &[Flag::Write, Flag::NoScript],
            "script" | "function" if matches!(part.names().1, "kill" | "stats") => &[Flag::NoScript, Flag::AllowBusy],
            "script" if part.names().1 == "load" => &[Flag::NoScript, Flag::Stale],
            "script" | "function" => &[Flag::NoScript],
            "memory" if part.categories.contains(&"read") => &[Flag::ReadOnly],
            "memory" => &[],
            _ => &[Flag::Loading, Flag::Stale],
        };
        admin.chain(own.iter().copied()).collect()
    }

    /// Returns the positions of the first and the last key, and the step between keys.
    fn key_range(&self) -> [i64; 3] {
        let specs = key_specs(self.name());
        match (self, specs.first()) {
            (_, None) => [0; 3],
            (_, Some(spec)) if matches!(spec.last, COUNTED | STREAMED) => [0; 3],
            (Command(entry), _) if !matches!(entry.keys.1, COUNTED | STORED) => {
                [entry.keys.0.into(), entry.keys.1.into(), entry.keys.2.into()]
            }
            (_, Some(spec)) => [i64::from(spec.first), i64::from(spec.first) + i64::from(spec.last), spec.step.into()],
        }
    }

    /// Writes the ten elements of an entry of `COMMAND INFO`.
    fn put_info(&self, out: &mut Vec<u8>, version: Version) {
        let (flags, specs, tips) = (self.flags(), key_specs(self.name()), tips(self.name()));
        reply::array(out, 10);
        reply::bulk(out, self.name().as_bytes());
        reply::int(out, self.arity().into());
        put_flags(out, version, &flags.iter().map(|flag| flag.name()).collect::<Vec<_>>());
        self.key_range().into_iter().for_each(|number| reply::int(out, number));
        reply::set(out, version, self.categories().len() as u64);
        self.categories().iter().for_each(|category| reply::simple(out, format!("@{category}").as_bytes()));
        reply::set(out, version, tips.len() as u64);
        tips.iter().for_each(|tip| reply::bulk(out, tip.as_bytes()));
        reply::set(out, version, specs.len() as u64);
        specs.iter().for_each(|spec| put_spec(out, version, spec));
        let parts: Vec<Self> = if let Command(entry) = self { Self::parts(entry).collect() } else { Vec::new() };
        match parts.len() as u64 {
            0 => reply::set(out, version, 0),
            count => reply::array(out, count),
        }
        parts.iter().for_each(|part| part.put_info(out, version));
    }

    /// Writes a name and its documentation for `COMMAND DOCS`.
    fn put_docs(&self, out: &mut Vec<u8>, version: Version) {
        let entry = self.entry();
        let parts: Vec<Self> = if let Command(entry) = self { Self::parts(entry).collect() } else { Vec::new() };
        let syntax = syntax_of(self.name());
        let has_arguments = syntax.is_some_and(|syntax| syntax.has_arguments());
        let lines: Vec<(&str, &str)> = match self {
            Command(_) => vec![
                ("summary", entry.summary),
                ("since", entry.since),
                ("group", entry.group),
                ("complexity", entry.complexity),
            ],
            Part(_, part) => {
                let since = syntax.map_or("", |syntax| syntax.since);
                let summary = part.help.get(1).map_or("", |line| line.trim());
                vec![("summary", summary), ("since", since), ("group", entry.group)]
            }
        };
        reply::bulk(out, self.name().as_bytes());
        let count = lines.len() as u64 + u64::from(has_arguments) + u64::from(!parts.is_empty());
        reply::map(out, version, count);
        for (name, text) in lines {
            reply::bulk(out, name.as_bytes());
            reply::bulk(out, text.as_bytes());
        }
        if let Some(syntax) = syntax.filter(|_| has_arguments) {
            reply::bulk(out, b"arguments");
            syntax.put_arguments(out, version);
        }
        if !parts.is_empty() {
            reply::bulk(out, b"subcommands");
            reply::map(out, version, parts.len() as u64);
            parts.iter().for_each(|part| part.put_docs(out, version));
        }
    }
}

/// Writes a key specification.
fn put_spec(out: &mut Vec<u8>, version: Version, spec: &KeySpec) {
    reply::map(out, version, 3 + u64::from(!spec.notes.is_empty()));
    if !spec.notes.is_empty() {
        reply::bulk(out, b"notes");
        reply::bulk(out, spec.notes.as_bytes());
    }
    reply::bulk(out, b"flags");
    put_flags(out, version, spec.flags);
    // The number of keys is before the first key.
    let index = i64::from(spec.first) - i64::from(spec.last == COUNTED);
    if spec.last == STREAMED {
        return put_streams_search(out, version, spec);
    }
    match spec.begin {
        Begin::Index => put_search(out, version, ("begin_search", "index"), &[("index", Spec::Number(index))]),
        Begin::Keyword(word) => {
            let words = [("keyword", Spec::Text(word)), ("startfrom", Spec::Number(index))];
            put_search(out, version, ("begin_search", "keyword"), &words);
        }
        Begin::Unknown => put_search(out, version, ("begin_search", "unknown"), &[]),
    }
    let number = |number: i8| Spec::Number(number.into());
    let step = Spec::Number(spec.step.into());
    let range = [("lastkey", number(spec.last)), ("keystep", step), ("limit", number(0))];
    let counted = [("keynumidx", number(0)), ("firstkey", number(1)), ("keystep", step)];
    match spec.step {
        _ if spec.last == COUNTED => put_search(out, version, ("find_keys", "keynum"), &counted),
        0 => put_search(out, version, ("find_keys", "unknown"), &[]),
        _ => put_search(out, version, ("find_keys", "range"), &range),
    }
}

/// Writes the search for the keys behind the word `STREAMS`: the first half of the arguments.
fn put_streams_search(out: &mut Vec<u8>, version: Version, spec: &KeySpec) {
    let words = [("keyword", Spec::Text("STREAMS")), ("startfrom", Spec::Number(spec.first.into()))];
    put_search(out, version, ("begin_search", "keyword"), &words);
    let range = [("lastkey", -1), ("keystep", 1), ("limit", 2)].map(|(name, number)| (name, Spec::Number(number)));
    put_search(out, version, ("find_keys", "range"), &range);
}

/// A part of a key specification.
#[derive(Clone, Copy)]
enum Spec {
    Number(i64),
    Text(&'static str),
}

fn put_search(out: &mut Vec<u8>, version: Version, (name, kind): (&str, &str), parts: &[(&str, Spec)]) {
    reply::bulk(out, name.as_bytes());
    reply::map(out, version, 2);
    reply::bulk(out, b"type");
    reply::bulk(out, kind.as_bytes());
    reply::bulk(out, b"spec");
    reply::map(out, version, parts.len() as u64);
    for (name, part) in parts {
        reply::bulk(out, name.as_bytes());
        match part {
            Spec::Number(number) => reply::int(out, *number),
            Spec::Text(text) => reply::bulk(out, text.as_bytes()),
        }
    }
}
