//! The command `HOTKEYS`, which lists the keys with the most requests, the longest values or the most misses, and the
//! key prefixes with the most requests or misses.

use super::catalog::lower;
use super::error::ErrorReply;
use super::number::integer;
use crate::keyspace::namespace_config::NAME_BYTES_MAX as NAMESPACE_BYTES_MAX;
use crate::metrics::hot_keys::{HotKeyList, LEADERS_MAX, MINUTES_MAX, NAME_BYTES_MAX, NAMES_PER_LIST, SAMPLED_ONE_IN};
use crate::resp::call::{Call, Run};
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::REPORT_OPS;
use protocol::resp::{Args, reply};

/// Executes `HOTKEYS [keys | big | missed | prefixes | missed-prefixes] [COUNT n] [MINUTES n]`.
pub(super) fn hotkeys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (mut wanted, mut count, mut minutes) = (None, NAMES_PER_LIST, 1);
    while let Some(word) = args.next() {
        let name = lower(word);
        let mut number = |most: usize| -> Result<usize, ErrorReply> {
            let number = integer(args.next().ok_or(ErrorReply::Syntax)?)?;
            usize::try_from(number).ok().filter(|number| *number <= most).ok_or(ErrorReply::OutOfRange)
        };
        match &name[..] {
            b"count" => count = number(LEADERS_MAX)?,
            b"minutes" => minutes = number(MINUTES_MAX)?,
            name => {
                let list = HotKeyList::ALL.into_iter().find(|list| list.name().as_bytes() == name);
                wanted = Some(list.filter(|_| wanted.is_none()).ok_or(ErrorReply::Syntax)?);
            }
        }
    }
    let lists = if wanted.is_some() { 1 } else { HotKeyList::ALL.len() };
    call.room(lists * count * (NAME_BYTES_MAX + NAMESPACE_BYTES_MAX + 64) + LINE_ROOM)?;
    call.ops += REPORT_OPS;
    let hot = call.ctx.shared.hot_keys(minutes, count);
    let (out, version, namespaces) = (&mut *call.out, call.session.version, &call.ctx.shared.namespaces);
    reply::map(out, version, lists as u64 + 2);
    for (name, number) in [("from", hot.from.secs()), ("sampled-one-in", SAMPLED_ONE_IN)] {
        reply::bulk(out, name.as_bytes());
        reply::int(out, number as i64);
    }
    for list in HotKeyList::ALL.into_iter().filter(|list| wanted.is_none_or(|wanted| wanted == *list)) {
        reply::bulk(out, list.name().as_bytes());
        reply::array(out, hot.list(list).len() as u64);
        for leader in hot.list(list) {
            reply::array(out, 3);
            reply::bulk(out, &leader.name.bytes);
            reply::int(out, leader.amount as i64);
            reply::bulk(out, namespaces.name(leader.name.namespace).as_bytes());
        }
    }
    Ok(())
}
