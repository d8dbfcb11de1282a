//! `XINFO`: the description of a stream.

use super::put_entry;
use super::{entry_bytes, put_id};
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::collection::{self, words};
use crate::resp::error::ErrorReply;
use crate::resp::help::other_subcommand;
use crate::resp::typed::{answer_bytes_max, answer_room};
use crate::visit::out::OutBuffer;
use protocol::resp::reply;
use protocol::resp::{Args, Version};
use record::{Damaged, StreamEntry, StreamId, StreamValue, Streams};

/// The number of entries of a node of Redis's radix tree, from which the reported numbers of keys and nodes follow.
const NODE_ENTRIES: u64 = 100;
/// The maximum length of the description without its entries, in bytes.
const FIXED_BYTES_MAX: usize = 1024;

pub(in crate::resp) fn xinfo<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [part, key] = words(args);
    match (&lower(part)[..], args.len()) {
        (b"stream", 2) => reply_stream(call, key),
        _ => other_subcommand(call, "xinfo", part),
    }
}

fn reply_stream(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let (version, bytes_max) = (call.session.version, answer_bytes_max(call));
    collection::look::<Streams, _>(call, key, |out, stream| {
        let stream = stream.ok_or(ErrorReply::NoKey)?;
        let (first, last) = (stream.first()?, stream.last()?);
        let bytes = |entry: &Option<StreamEntry<'_>>| entry.as_ref().map_or(Ok(0), entry_bytes);
        answer_room(out, bytes_max, FIXED_BYTES_MAX + bytes(&first)? + bytes(&last)?)?;
        put_stream(out, version, stream, [first, last])?;
        Ok(())
    })
}

fn put_stream(
    out: &mut OutBuffer,
    version: Version,
    stream: &StreamValue<'_>,
    [first, last]: [Option<StreamEntry<'_>>; 2],
) -> Result<(), Damaged> {
    let state = stream.state();
    reply::map(out, version, 10);
    let keys = state.len.div_ceil(NODE_ENTRIES);
    let nodes = keys + 1;
    for (name, number) in [("length", state.len), ("radix-tree-keys", keys), ("radix-tree-nodes", nodes)] {
        put_number(out, name, number);
    }
    reply::bulk(out, b"last-generated-id");
    put_id(out, state.last);
    reply::bulk(out, b"max-deleted-entry-id");
    put_id(out, state.deleted_max);
    put_number(out, "entries-added", state.added);
    reply::bulk(out, b"recorded-first-entry-id");
    put_id(out, first.map_or(StreamId::MIN, |first| first.id));
    put_number(out, "groups", 0);
    for (name, entry) in [(&b"first-entry"[..], first), (b"last-entry", last)] {
        reply::bulk(out, name);
        match entry {
            Some(entry) => put_entry(out, &entry)?,
            None => reply::null(out, version),
        }
    }
    Ok(())
}

fn put_number(out: &mut OutBuffer, name: &str, number: u64) {
    reply::bulk(out, name.as_bytes());
    reply::int(out, number as i64);
}
