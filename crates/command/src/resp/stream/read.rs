//! Commands that read the entries of several streams behind given identifiers.

use super::{StreamError, put_entries, put_id, whole_id};
use crate::push::waiters::WaitKind;
use crate::resp::blocking;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, ELEMENTS_A_VISIT, ReplyShape};
use crate::resp::error::{self, ErrorReply};
use crate::resp::number::integer;
use crate::resp::session::CommandOrigin;
use crate::resp::slices;
use crate::resp::state::waits::{TimeoutReply, WaitedKeys};
use crate::resp::state::walk::Walk;
use crate::resp::typed::answer_fits;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::resp::{Args, Limits, Parsed, Parser, Version};
use protocol::sink::{Fixed, Sink};
use record::{StreamId, StreamValue, Streams};

/// The number of entries that cost one operation.
const ENTRIES_AN_OP: usize = 4;
/// The number of copied bytes that cost one operation.
const BYTES_AN_OP: usize = 4096;

/// A request of `XREAD` or `XREADGROUP`.
#[derive(Clone, Copy)]
pub(super) struct StreamsRequest<'c> {
    /// The maximum number of entries of each stream.
    pub(super) most: u64,
    /// For a request that waits if there are no entries: its deadline, or `None` to wait for ever.
    waits: Option<Option<UnixMillis>>,
    /// The names of the group and the consumer.
    pub(super) group: Option<(&'c [u8], &'c [u8])>,
    /// The number of arguments before the name of the group.
    group_at: Option<u32>,
    /// True if delivered entries count as acknowledged.
    pub(super) no_ack: bool,
    pub(super) keys: Args<'c>,
    pub(super) ids: Args<'c>,
}

impl<'c> StreamsRequest<'c> {
    fn parse(call: &Call<'c, '_>, mut args: Args<'c>, has_group: bool) -> Result<Self, ErrorReply> {
        let (mut most, mut waits, mut group, mut group_at, mut no_ack) = (u64::MAX, None, None, None, false);
        let words_count = args.len() as u32;
        while let Some(word) = args.next() {
            let has_more = args.len() > 0;
            match &lower(word)[..] {
                b"count" if has_more => {
                    let count = integer(args.next().unwrap_or_default())?.max(0) as u64;
                    most = if count == 0 { u64::MAX } else { count };
                }
                b"block" if has_more && call.session.origin == CommandOrigin::Script => {
                    return Err(ErrorReply::Stream(StreamError::WaitsInScript));
                }
                b"block" if has_more => {
                    waits = Some(blocking::deadline_ms(call, args.next().unwrap_or_default())?);
                }
                b"streams" if has_more => {
                    if !args.len().is_multiple_of(2) {
                        return Err(ErrorReply::Stream(StreamError::Unbalanced));
                    }
                    let (keys, ids) = args.split(args.len() as u32 / 2);
                    if has_group && group.is_none() {
                        return Err(ErrorReply::Stream(StreamError::NoGroupGiven));
                    }
                    return Ok(Self { most, waits, group, group_at, no_ack, keys, ids });
                }
                b"group" if args.len() >= 2 => {
                    if !has_group {
                        return Err(ErrorReply::Stream(StreamError::GroupOfRead));
                    }
                    group_at = Some(words_count - args.len() as u32);
                    group = args.next().zip(args.next());
                }
                b"noack" if !has_group => return Err(ErrorReply::Stream(StreamError::NoAckOfRead)),
                b"noack" => no_ack = true,
                _ => break,
            }
        }
        Err(ErrorReply::Syntax)
    }

    /// Parses a request. Returns `None` if it has replied with an error.
    pub(super) fn read(call: &mut Call<'c, '_>, args: Args<'c>, has_group: bool) -> Result<Option<Self>, ErrorReply> {
        match Self::parse(call, args, has_group) {
            Err(ErrorReply::Stream(StreamError::WaitsInScript)) => {
                // The error has the name of the command as the script has written it.
                let limits = Limits { long_bytes_min: u32::MAX, request_bytes_max: usize::MAX, ..Limits::REDIS };
                let name = match Parser::new().parse(call.buf, &limits) {
                    Parsed::Request { mut args, .. } => args.next().unwrap_or_default(),
                    _ => b"",
                };
                let text = ["ERR ", " command is not allowed with BLOCK option from scripts", ""];
                error::quoted(call.out, [name, b""], &text);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Returns true if the client waits if the request finds no entries.
    pub(super) fn may_wait(&self, call: &Call<'_, '_>) -> bool {
        self.waits.is_some() && blocking::may_wait(call)
    }

    /// Returns the keys for which the client waits. `args` are all arguments of the request.
    pub(super) fn waited(&self, args: Args<'c>) -> WaitedKeys {
        let count = self.keys.len() as u32;
        let kind = if self.group.is_some() { WaitKind::Group } else { WaitKind::Entries };
        WaitedKeys { kind, first: args.len() as u32 - 2 * count, count, group: self.group_at }
    }

    /// Returns the identifier that belongs to a key.
    pub(super) fn id(&self, number: u32) -> &'c [u8] {
        self.ids.split(number).1.next().unwrap_or_default()
    }
}

/// The entries of one stream that a request reads: those from number `first` on, behind the identifier `id`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WantedEntries<'c> {
    key: &'c [u8],
    id: &'c [u8],
    first: u64,
    count: u64,
}

/// Finds up to `most` entries of a stream behind an identifier. Returns `None` if there are none.
fn find_in<'c>(
    stream: Option<&StreamValue<'_>>,
    most: u64,
    (key, id): (&'c [u8], &'c [u8]),
) -> Result<Option<WantedEntries<'c>>, Interrupt> {
    let behind = match id {
        b"$" => None,
        b"+" => {
            // As in Redis 7.4, this is the last entry, whatever the maximum number.
            let first = stream.and_then(|stream| stream.len().checked_sub(1));
            return Ok(first.map(|first| WantedEntries { key, id, first, count: 1 }));
        }
        b">" => return Err(ErrorReply::Stream(StreamError::NewOfRead).into()),
        id => whole_id(id)?.next(),
    };
    let (Some(stream), Some(behind)) = (stream, behind) else { return Ok(None) };
    let first = stream.before(behind)?;
    let count = (stream.len() - first).min(most);
    Ok((count > 0).then_some(WantedEntries { key, id, first, count }))
}

/// Finds the entries of a stream behind an identifier. Returns `None` if there are none. A client that waits does not
/// fail because of a value of another type, but waits on.
fn find<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    words: (&'c [u8], &'c [u8]),
) -> Result<Option<WantedEntries<'c>>, Interrupt> {
    let found = collection::look::<Streams, _>(call, words.0, |_, stream| find_in(stream, request.most, words));
    match found {
        Err(Interrupt::Fault(ErrorReply::WrongType)) if blocking::is_turn(call) => Ok(None),
        found => found,
    }
}

/// Begins a reply over several visits. Returns `None` if the client may wait and there are no entries. In its turn, a
/// client gets the entries of one stream: the first that was announced and has some.
fn begin_walk<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    args: Args<'c>,
) -> Result<Option<Box<Walk>>, Interrupt> {
    if !request.may_wait(call) {
        return Ok(Some(Box::default()));
    }
    if blocking::is_turn(call) {
        for (number, key) in blocking::candidates(call, request.waited(args), args) {
            if find(call, request, (key, request.id(number)))?.is_some() {
                return Ok(Some(Box::new(Walk { left: number.into(), ..Walk::default() })));
            }
        }
        return Ok(None);
    }
    for words in request.keys.into_iter().zip(request.ids) {
        if find(call, request, words)?.is_some() {
            return Ok(Some(Box::default()));
        }
    }
    Ok(None)
}

/// Writes the line before the streams.
pub(super) fn put_head(to: &mut impl Sink, version: Version, streams: u64) {
    match (streams, version) {
        (0, _) => reply::null_array(to, version),
        (_, Version::Resp2) => reply::array(to, streams),
        (_, Version::Resp3) => reply::map(to, version, streams),
    }
}

/// Writes the lines before the entries of a stream.
fn put_stream_head(call: &mut Call<'_, '_>, wanted: WantedEntries<'_>) {
    if call.session.version == Version::Resp2 {
        reply::array(call.out, 2);
    }
    reply::bulk(call.out, wanted.key);
    reply::array(call.out, wanted.count);
}

/// Writes entries of a stream, of which `done` are written. Returns the number of entries and of bytes written; `None`
/// if the stream no longer exists.
fn put_some(
    call: &mut Call<'_, '_>,
    wanted: WantedEntries<'_>,
    done: u64,
    shape: ReplyShape,
) -> Result<Option<(u64, usize)>, Interrupt> {
    collection::look::<Streams, _>(call, wanted.key, |out, stream| {
        let Some(stream) = stream else { return Ok(None) };
        let most = (wanted.count - done).min(ELEMENTS_A_VISIT) as usize;
        put_entries(out, stream.from(wanted.first + done)?.take(most), shape).map(Some)
    })
}

/// Replies to a request that has found no entries, or makes the client wait for them. The identifier `$` then stands
/// for the last entry at this time.
pub(super) fn reply_nothing<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    request: StreamsRequest<'c>,
) -> Run {
    let Some(deadline) = request.waits.filter(|_| request.may_wait(call)) else {
        reply::null_array(call.out, call.session.version);
        return Ok(());
    };
    let mut words = Vec::with_capacity(args.wire_bytes());
    words.extend_from_slice(args.split((args.len() - request.ids.len()) as u32).0.wire());
    for (key, id) in request.keys.into_iter().zip(request.ids) {
        match id {
            b"$" if !blocking::is_turn(call) => put_id(&mut words, last_id(call, key)?),
            id => reply::bulk(&mut words, id),
        }
    }
    let waited = request.waited(args);
    blocking::wait(
        call,
        (name, Args::resumed(&words, args.len() as u32)),
        Some(waited),
        deadline,
        TimeoutReply::NullArray,
    )
}

/// Returns the last identifier of a stream.
fn last_id(call: &mut Call<'_, '_>, key: &[u8]) -> Result<StreamId, Interrupt> {
    collection::look::<Streams, _>(
        call,
        key,
        |_, stream| Ok(stream.map_or(StreamId::MIN, |stream| stream.state().last)),
    )
}

/// Replies in one visit. Returns false, with a part of the reply written, if the reply is too long for that, or if
/// another client has changed a stream after its entries were found: the key of a single stream is not locked.
fn reply_at_once(call: &mut Call<'_, '_>, most: u64, all: &[WantedEntries<'_>]) -> Result<bool, Interrupt> {
    let shape = ReplyShape::of(call);
    put_head(call.out, call.session.version, all.len() as u64);
    for wanted in all {
        answer_fits(call, wanted.key.len() + 3 * NUMBER_LINE_BYTES_MAX)?;
        put_stream_head(call, *wanted);
        let is_whole = collection::look::<Streams, _>(call, wanted.key, |out, stream| {
            let found = find_in(stream, most, (wanted.key, wanted.id))?;
            let Some(stream) = stream.filter(|_| found == Some(*wanted)) else { return Ok(false) };
            let (written, _) = put_entries(out, stream.from(wanted.first)?.take(wanted.count as usize), shape)?;
            Ok(written == wanted.count)
        })?;
        if !is_whole {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(in crate::resp) fn xread<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let Some(request) = StreamsRequest::read(call, args, false)? else { return Ok(()) };
    if call.collects_replies {
        let walk = match call.session.walk.take() {
            Some(walk) => Some(walk),
            None => begin_walk(call, request, args)?,
        };
        let Some(mut walk) = walk else { return reply_nothing(call, ("xread", args), request) };
        let ran = reply_over_visits(call, request, &mut walk);
        return slices::end_visit(call, walk, ran);
    }
    let mut all = Vec::new();
    for words in request.keys.into_iter().zip(request.ids) {
        all.extend(find(call, request, words)?);
    }
    call.ops += request.keys.len();
    if all.is_empty() {
        return reply_nothing(call, ("xread", args), request);
    }
    let mark = call.out.mark();
    let entries: u64 = all.iter().map(|wanted| wanted.count).sum();
    let ran = if entries > ELEMENTS_A_VISIT { Ok(false) } else { reply_at_once(call, request.most, &all) };
    match ran {
        Ok(true) => {
            call.ops += entries as usize / ENTRIES_AN_OP;
            return Ok(());
        }
        // The room that an entry asks for would not be enough for those before it.
        Ok(false)
        | Err(Interrupt::Fault(ErrorReply::AnswerTooLong) | Interrupt::State(SessionWait::OutputFull { .. })) => {}
        Err(stop) => {
            call.out.truncate(mark);
            return Err(stop);
        }
    }
    call.out.truncate(mark);
    let [key] = words(request.keys);
    Err(collection::take_visits(call, "xread", args, key))
}

/// Replies over several visits, with the streams locked: `walk.left` streams are done, of which `walk.keys` are in the
/// reply. Of the next one, `walk.cursor` entries are written. If `walk.wanted` is not 0, its head is written, too: it
/// has so many entries in the reply, from number `walk.start` on.
fn reply_over_visits<'c>(call: &mut Call<'c, '_>, request: StreamsRequest<'c>, walk: &mut Walk) -> Run {
    walk.reading.allow_changes();
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let shape = ReplyShape::of(call);
    for (key, id) in request.keys.into_iter().zip(request.ids).skip(walk.left as usize) {
        if walk.wanted == 0 {
            slices::collect_room(call.out, key.len() + 3 * NUMBER_LINE_BYTES_MAX)?;
            if let Some(wanted) = find(call, request, (key, id))? {
                put_stream_head(call, wanted);
                (walk.start, walk.wanted, walk.cursor) = (wanted.first, wanted.count, 0);
                walk.keys += 1;
            }
        }
        let wanted = WantedEntries { key, id, first: walk.start, count: walk.wanted };
        while walk.cursor < walk.wanted {
            let Some((count, bytes)) = put_some(call, wanted, walk.cursor, shape)? else {
                return Err(slices::restart(call.session, call.guard, &mut walk.reading));
            };
            walk.cursor += count;
            call.ops += 1 + count as usize / ENTRIES_AN_OP + bytes / BYTES_AN_OP;
            if call.is_slice_used() && walk.cursor < walk.wanted {
                return Err(SessionWait::Yield.into());
            }
        }
        (walk.left, walk.wanted, walk.cursor) = (walk.left + 1, 0, 0);
        call.ops += 1;
        if blocking::is_turn(call) {
            break;
        }
        if call.is_slice_used() && (walk.left as usize) < request.keys.len() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    put_head(&mut line, call.session.version, walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}
