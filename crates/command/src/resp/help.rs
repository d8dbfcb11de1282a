//! Replies to the subcommands that a container's function does not execute: `HELP`, subcommands that are not supported,
//! and those with too many arguments. [`super::admit`] has refused unknown subcommands before.

use super::error;
use super::subcommands::{find_subcommand, subcommands_of};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use protocol::resp::reply;

/// Replies to the subcommand `name` of `container`.
pub(super) fn other_subcommand(call: &mut Call<'_, '_>, container: &'static str, name: &[u8]) -> Run {
    match find_subcommand(container, name) {
        Some(_) if name.eq_ignore_ascii_case(b"help") => {
            let lines = |is_help: bool| {
                let parts = subcommands_of(container).filter(move |(_, part)| (part.names().1 == "help") == is_help);
                parts.flat_map(|(_, part)| part.help.iter().copied())
            };
            return reply_help(call, container, lines(false).chain(lines(true)));
        }
        Some((_, part)) if part.help.is_empty() => error::unsupported_part(call.out, part.name),
        _ => error::subcommand(call.out, container, name),
    }
    Ok(())
}

/// Replies with the help text of a command, as Redis does: one line about its form, then `lines`.
pub(super) fn reply_help(call: &mut Call<'_, '_>, container: &str, lines: impl Iterator<Item = &'static str>) -> Run {
    let lines: Vec<&str> = lines.collect();
    let name = container.to_ascii_uppercase();
    let mut all = Vec::new();
    reply::array(&mut all, lines.len() as u64 + 1);
    reply::simple(&mut all, format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:").as_bytes());
    lines.into_iter().for_each(|line| reply::simple(&mut all, line.as_bytes()));
    aside::send_long_reply(call, all)
}
