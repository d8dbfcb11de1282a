//! `CLIENT TRACKING` and its relatives: a client learns which of the values that it has read have changed.
//!
//! The tables and the order of all steps are in [`crate::push::tracking`]. This module has the commands, and enters the
//! keys of a tracking client's requests into the table.

use super::catalog::{CommandSpec, Flag, lower};
use super::error::ErrorReply;
use super::number::integer;
use crate::handover::HandoverTracking;
use crate::push::outbox::Outbox;
use crate::push::tracking::{
    KEYS_A_REQUEST_MAX, PREFIX_BYTES_MAX, PREFIXES_MAX, PrefixRefused, Tracking, TrackingClient,
};
use crate::resp::call::{Call, Run};
use crate::resp::clients;
use crate::resp::pubsub;
use crate::resp::session::{SessionState, tracking_of as present};
use crate::resp::state::tracking::{SessionTracking, TrackedReads};
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The cost of entering a key into the table, relative to that of putting a message into an outbox.
const WORK_A_KEY: usize = 2;

/// The options of `CLIENT TRACKING`.
#[derive(Default)]
struct TrackingOptions<'c> {
    redirect: Option<u64>,
    broadcasts: bool,
    opts_in: bool,
    opts_out: bool,
    no_loop: bool,
    prefixes: Vec<&'c [u8]>,
}

/// An error reply as Redis words it.
type Refusal = String;

fn refuse(text: &str) -> Refusal {
    format!("ERR {text}")
}

impl<'c> TrackingOptions<'c> {
    /// Parses the options up to the first error. Returns the options before it, too, because a redirection is checked
    /// first.
    fn read(args: Args<'c>) -> (Self, Result<(), Refusal>) {
        let mut options = Self::default();
        let read = options.read_all(args);
        (options, read)
    }

    fn read_all(&mut self, mut args: Args<'c>) -> Result<(), Refusal> {
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"redirect" if args.len() > 0 => {
                    if self.redirect.is_some_and(|id| id != 0) {
                        return Err(refuse("A client can only redirect to a single other client"));
                    }
                    let id = integer(args.next().unwrap_or_default());
                    let id = id.map_err(|_| refuse("value is not an integer or out of range"))?;
                    self.redirect = Some(u64::try_from(id).unwrap_or(0));
                }
                b"bcast" => self.broadcasts = true,
                b"optin" => self.opts_in = true,
                b"optout" => self.opts_out = true,
                b"noloop" => self.no_loop = true,
                b"prefix" if args.len() > 0 => self.prefixes.push(args.next().unwrap_or_default()),
                _ => return Err(refuse("syntax error")),
            }
        }
        Ok(())
    }

    /// Returns an error if the options contradict each other, or the present tracking of the client.
    fn check(&self, present: Option<&SessionTracking>) -> Result<(), Refusal> {
        const SWITCH: &str =
            "before disabling tracking for this client, and then re-enabling it with a different mode.";
        if !self.broadcasts && !self.prefixes.is_empty() {
            return Err(refuse("PREFIX option requires BCAST mode to be enabled"));
        }
        let reads = present.map(|present| present.reads);
        if reads.is_some_and(|reads| (reads == TrackedReads::Broadcast) != self.broadcasts) {
            return Err(refuse(&format!("You can't switch BCAST mode on/off {SWITCH}")));
        }
        if self.broadcasts && (self.opts_in || self.opts_out) {
            return Err(refuse("OPTIN and OPTOUT are not compatible with BCAST"));
        }
        if self.opts_in && self.opts_out {
            return Err(refuse("You can't specify both OPTIN mode and OPTOUT mode"));
        }
        if self.opts_in && reads == Some(TrackedReads::OptOut) || self.opts_out && reads == Some(TrackedReads::OptIn) {
            return Err(refuse(&format!("You can't switch OPTIN/OPTOUT mode {SWITCH}")));
        }
        if self.broadcasts { self.check_prefixes(present) } else { Ok(()) }
    }

    fn check_prefixes(&self, present: Option<&SessionTracking>) -> Result<(), Refusal> {
        const NOT: &str = "Prefixes for a single client must not overlap.";
        let shown = |prefix: &[u8]| String::from_utf8_lossy(prefix).into_owned();
        let present = present.map_or(&[][..], |present| &present.prefixes);
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let overlaps = |other: &&[u8]| other.starts_with(prefix) || prefix.starts_with(other);
            if let Some(other) = present.iter().map(|other| &other[..]).find(overlaps) {
                let (prefix, other) = (shown(prefix), shown(other));
                return Err(refuse(&format!("Prefix '{prefix}' overlaps with an existing prefix '{other}'. {NOT}")));
            }
            if let Some(other) = self.prefixes[at + 1..].iter().find(|other| overlaps(other)) {
                let (prefix, other) = (shown(prefix), shown(other));
                return Err(refuse(&format!(
                    "Prefix '{prefix}' overlaps with another provided prefix '{other}'. {NOT}"
                )));
            }
        }
        if self.prefixes.iter().any(|prefix| prefix.len() > PREFIX_BYTES_MAX) {
            return Err(refuse(&format!("a prefix has at most {PREFIX_BYTES_MAX} bytes")));
        }
        if present.len() + self.prefixes.len() > PREFIXES_MAX {
            return Err(refuse(&format!("a client has at most {PREFIXES_MAX} prefixes")));
        }
        Ok(())
    }

    fn reads(&self) -> TrackedReads {
        match self {
            Self { broadcasts: true, .. } => TrackedReads::Broadcast,
            Self { opts_in: true, .. } => TrackedReads::OptIn,
            Self { opts_out: true, .. } => TrackedReads::OptOut,
            _ => TrackedReads::All,
        }
    }
}

/// Executes `CLIENT TRACKING ON | OFF [REDIRECT id] [PREFIX text ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`.
pub(super) fn client_tracking<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if present(call.session).is_some_and(|present| present.awaits.is_some()) {
        return begin(call);
    }
    let mode = args.next().unwrap_or_default();
    if args.len() > 2 * PREFIXES_MAX + 16 {
        return reply_refusal(call, &refuse(&format!("a client has at most {PREFIXES_MAX} prefixes")));
    }
    let (options, read) = TrackingOptions::read(args);
    let target = match options.redirect {
        Some(id) => clients::outbox_of(call, id)?.map(|outbox| (id, outbox)),
        None => None,
    };
    if options.redirect.is_some() && target.is_none() {
        return reply_refusal(call, &refuse("The client ID you want redirect to does not exist"));
    }
    let checked = read.and_then(|()| match &lower(mode)[..] {
        b"on" => options.check(present(call.session)).map(|()| true),
        b"off" => Ok(false),
        _ => Err(refuse("syntax error")),
    });
    match checked {
        Err(text) => reply_refusal(call, &text),
        Ok(true) => switch_on(call, &options, target),
        Ok(false) => {
            end(call);
            call.out.push(reply::OK);
            Ok(())
        }
    }
}

fn reply_refusal(call: &mut Call<'_, '_>, text: &str) -> Run {
    reply::error(call.out, text.as_bytes());
    Ok(())
}

fn present_mut(session: &mut SessionState) -> Option<&mut SessionTracking> {
    session.aside.as_mut()?.tracking.as_deref_mut()
}

/// Returns the tracking of the client. Creates it if there is none.
fn begun<'s>(call: &'s mut Call<'_, '_>) -> &'s mut SessionTracking {
    let (id, tracking) = (call.id(), Arc::clone(&call.ctx.shared.tracking));
    let subscriber = pubsub::subscriber(call);
    subscriber.set_tracking(true);
    let outbox = Arc::clone(subscriber.outbox());
    let awaits = || Some(call.guard.locks().meet_guards());
    call.session.aside.get_or_insert_default().tracking.get_or_insert_with(|| {
        let client = TrackingClient::new(id, &outbox);
        tracking.begin(&client);
        Box::new(SessionTracking {
            tracking,
            client,
            reads: TrackedReads::All,
            is_caching_given: false,
            prefixes: Vec::new(),
            awaits: awaits(),
        })
    })
}

fn switch_on(call: &mut Call<'_, '_>, options: &TrackingOptions<'_>, target: Option<(u64, Arc<Outbox>)>) -> Run {
    let namespace = call.session.namespace;
    let present = begun(call);
    present.reads = options.reads();
    present.client.set(target, options.broadcasts, options.no_loop);
    present.client.note_namespace(namespace);
    let all = [&b""[..]];
    let prefixes = if options.broadcasts && options.prefixes.is_empty() { &all[..] } else { &options.prefixes };
    for prefix in prefixes {
        let Err(at) = present.prefixes.binary_search_by(|other| (**other).cmp(prefix)) else { continue };
        if let Err(refused) = present.tracking.add_prefix(prefix, &present.client) {
            end(call);
            return Err(match refused {
                PrefixRefused::TooMany => ErrorReply::TooManySubscriptions.into(),
                PrefixRefused::NoMemory => ErrorReply::NoMessageMemory.into(),
            });
        }
        present.prefixes.insert(at, (*prefix).into());
    }
    let flags = Arc::clone(&present.client.flags);
    call.with_client_info(|client_info| client_info.tracking = Some(flags));
    begin(call)
}

/// Replies when each guard that does not report its changes yet has ended.
fn begin(call: &mut Call<'_, '_>) -> Run {
    // Later requests of this batch must report their changes, too.
    call.ctx.push.watch.watched = call.ctx.shared.watch.watched();
    let Some(present) = call.session.aside.as_mut().and_then(|aside| aside.tracking.as_mut()) else { return Ok(()) };
    if let Some(met) = &mut present.awaits
        && !call.guard.locks().have_ended(met)
    {
        call.session.done = 1;
        call.ctx.retry_at_once = true;
        return Err(SessionWait::Parked.into());
    }
    present.awaits = None;
    call.out.push(reply::OK);
    Ok(())
}

/// Ends the tracking of the client.
fn end(call: &mut Call<'_, '_>) {
    if let Some(aside) = &mut call.session.aside {
        aside.tracking = None;
        if let Some(subscriber) = &mut aside.subscriber {
            subscriber.set_tracking(false);
        }
        pubsub::end_subscriber(call);
    }
    call.with_client_info(|client_info| client_info.tracking = None);
}

/// Executes `CLIENT CACHING YES | NO`.
pub(super) fn client_caching<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let Some(present) = present_mut(call.session) else {
        let text = "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
                    enabled";
        return reply_refusal(call, &refuse(text));
    };
    let (reads, mode) = match &lower(args.next().unwrap_or_default())[..] {
        b"yes" => (TrackedReads::OptIn, "YES is only valid when tracking is enabled in OPTIN mode."),
        b"no" => (TrackedReads::OptOut, "NO is only valid when tracking is enabled in OPTOUT mode."),
        _ => return Err(ErrorReply::Syntax.into()),
    };
    if present.reads != reads {
        return reply_refusal(call, &refuse(&format!("CLIENT CACHING {mode}")));
    }
    present.is_caching_given = true;
    call.out.push(reply::OK);
    Ok(())
}

/// Executes `CLIENT GETREDIR`.
pub(super) fn client_getredir(call: &mut Call<'_, '_>) -> Run {
    let redirect = redirect(call.session);
    call.int(redirect);
    Ok(())
}

/// Returns the id of the client to which invalidations are redirected: 0 for none, and -1 without tracking.
fn redirect(session: &SessionState) -> i64 {
    present(session).map_or(-1, |present| present.client.flags.redirect.load(Relaxed) as i64)
}

/// Executes `CLIENT TRACKINGINFO`.
pub(super) fn client_trackinginfo(call: &mut Call<'_, '_>) -> Run {
    let (mut flags, mut prefixes) = (vec!["off"], &[][..]);
    let redirect = redirect(call.session);
    if let Some(present) = present(call.session) {
        let (reads, given) = (present.reads, present.is_caching_given);
        let set = [
            (reads == TrackedReads::Broadcast, "bcast"),
            (reads == TrackedReads::OptIn, "optin"),
            (reads == TrackedReads::OptIn && given, "caching-yes"),
            (reads == TrackedReads::OptOut, "optout"),
            (reads == TrackedReads::OptOut && given, "caching-no"),
            (present.client.is_no_loop(), "noloop"),
            (present.client.flags.is_broken.load(Relaxed), "broken_redirect"),
        ];
        flags = vec!["on"];
        flags.extend(set.into_iter().filter_map(|(is_set, flag)| is_set.then_some(flag)));
        prefixes = &present.prefixes;
    }
    let mut all = Vec::new();
    reply::map(&mut all, call.session.version, 3);
    reply::bulk(&mut all, b"flags");
    reply::set(&mut all, call.session.version, flags.len() as u64);
    flags.iter().for_each(|flag| reply::bulk(&mut all, flag.as_bytes()));
    reply::bulk(&mut all, b"redirect");
    reply::int(&mut all, redirect);
    reply::bulk(&mut all, b"prefixes");
    reply::array(&mut all, prefixes.len() as u64);
    prefixes.iter().for_each(|prefix| reply::bulk(&mut all, prefix));
    crate::resp::aside::send_long_reply(call, all)
}

/// Enters the keys of a request that reads into the table, if the client tracks them. The caller then executes the
/// request.
#[inline]
pub(super) fn track<'c>(call: &mut Call<'c, '_>, entry: &CommandSpec, args: Args<'c>) {
    if call.session.aside.is_some() {
        track_request(call, entry, args);
    }
}

#[cold]
fn track_request<'c>(call: &mut Call<'c, '_>, entry: &CommandSpec, args: Args<'c>) {
    let namespace = call.session.namespace;
    let Some(present) = present(call.session) else { return };
    present.client.note_namespace(namespace);
    // A script's commands are inspected one by one.
    if entry.has(Flag::ReadOnly) && !entry.runs_script() && !entry.has(Flag::PubSub) {
        track_keys(call, entry, args);
    }
}

/// Enters the keys of a request into the table, if the client tracks them.
pub(super) fn track_keys<'c>(call: &mut Call<'c, '_>, entry: &CommandSpec, args: Args<'c>) {
    let Some(present) = present(call.session).filter(|present| present.tracks_request()) else { return };
    let (client, tracking) = (Arc::clone(&present.client), Arc::clone(&present.tracking));
    let (namespace, keys) = (call.session.namespace, entry.key_count(args));
    if keys > KEYS_A_REQUEST_MAX {
        return call.ctx.queue_invalidation(Tracking::invalidate_all_of(&client));
    }
    for key in entry.keys_of(args) {
        for invalidation in tracking.track(namespace, key, &client) {
            call.ctx.queue_invalidation(invalidation);
        }
    }
    call.ctx.note_work(keys * WORK_A_KEY);
}

/// Restores the tracking of a client that was handed over. All its copies are invalidated, because changes may have
/// been missed. Returns false if client memory is used up.
pub(super) fn restore(call: &mut Call<'_, '_>, carried: &HandoverTracking) -> bool {
    let namespace = call.session.namespace;
    let present = begun(call);
    // The server executes no request before all these connections are restored.
    present.awaits = None;
    present.reads = TrackedReads::ALL.get(usize::from(carried.reads)).copied().unwrap_or_default();
    present.is_caching_given = carried.is_caching_given;
    let client = Arc::clone(&present.client);
    client.set(None, present.reads == TrackedReads::Broadcast, carried.no_loop);
    client.note_namespace(namespace);
    for prefix in &carried.prefixes {
        if present.tracking.add_prefix(prefix, &client).is_err() {
            return false;
        }
        present.prefixes.push(prefix[..].into());
    }
    call.with_client_info(|client_info| client_info.tracking = Some(Arc::clone(&client.flags)));
    call.ctx.queue_invalidation(Tracking::invalidate_all_of(&client));
    true
}

/// Records that a request is complete: `CLIENT CACHING` applies to one request, or to one transaction.
#[inline]
pub(super) fn request_done(session: &mut SessionState, entry: Option<&CommandSpec>) {
    if session.aside.is_some() {
        end_caching(session, entry);
    }
}

#[cold]
fn end_caching(session: &mut SessionState, entry: Option<&CommandSpec>) {
    let is_queueing = session.is_queueing();
    if let Some(present) = present_mut(session)
        && !is_queueing
        && entry.is_none_or(|entry| entry.name != "client")
    {
        present.is_caching_given = false;
    }
}

impl SessionTracking {
    /// Returns the state to hand over to another process. Returns `None` if the invalidations are redirected: the other
    /// process does not know the client to which they go.
    pub(super) fn to_handover(&self) -> Option<HandoverTracking> {
        (self.client.flags.redirect.load(Relaxed) == 0).then(|| HandoverTracking {
            reads: self.reads as u8,
            is_caching_given: self.is_caching_given,
            no_loop: self.client.is_no_loop(),
            prefixes: self.prefixes.iter().map(|prefix| prefix.to_vec()).collect(),
        })
    }
}
