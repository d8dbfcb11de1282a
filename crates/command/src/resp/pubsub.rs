//! Publishing and subscribing: `SUBSCRIBE` and its variants, `PUBLISH`, `PUBSUB`, and `MONITOR`.
//!
//! Messages go through [`crate::push::outbox`]. A subscriber receives them in the order in which they were published.
//! The reply to `SUBSCRIBE` precedes all messages of the subscription, and the reply to `UNSUBSCRIBE` follows them. In
//! version 2 of the protocol, a subscriber may only execute a few commands. In version 3, messages are sent as push
//! messages between replies.

use super::catalog::{CommandSpec, Flag, lower};
use super::error::ErrorReply;
use super::help::other_subcommand;
use super::listing::LISTING_WORK;
use super::pattern::check;
use super::subcommands::{find_subcommand, full_name};
use crate::context::PUBLISH_WORK;
use crate::glob::{matches, steps_max};
use crate::push::outbox::{ChannelKind, ChannelName, Publishing, Refused, Subscriber};
use crate::resp::aside;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::listing;
use crate::resp::secrets::SecretArgs;
use crate::resp::session::CommandOrigin;
use crate::resp::state::aside::LONG_REPLY_BYTES_MAX;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use arrayvec::ArrayVec;
use protocol::resp::{Args, Version, reply};

/// The maximum length of a channel's name, in bytes. It suffices for the notification channel of a key with the maximum
/// length.
const NAME_BYTES_MAX: usize = (64 << 10) + 64;

/// The number of outboxes into which a message is written at the cost of one operation.
const WORK_AN_OP: usize = 16;

/// The cost of looking up a channel's name or subscribing to it. The unit is the cost of writing a message into one
/// outbox.
const WORK_A_NAME: usize = 4;

/// The maximum number of channel names that are copied for a list while the lock is held once.
const NAMES_A_LOCK: usize = 32;

/// The number of copied bytes, or of steps of a pattern match, that cost as much as examining one entry of a list.
const BYTES_AN_ENTRY: usize = 256;

/// The approximate maximum length of the line that monitoring clients receive for one command, in bytes. Longer
/// commands are truncated.
const MONITORED_BYTES_MAX: usize = 16 << 10;

/// Returns the first word of the reply to a subscription, or to the end of a subscription.
const fn word(kind: ChannelKind, subscribed: bool) -> &'static [u8] {
    match (kind, subscribed) {
        (ChannelKind::Channel, true) => b"subscribe",
        (ChannelKind::Channel, false) => b"unsubscribe",
        (ChannelKind::Pattern, true) => b"psubscribe",
        (ChannelKind::Pattern, false) => b"punsubscribe",
        (ChannelKind::Shard, true) => b"ssubscribe",
        (ChannelKind::Shard, false) => b"sunsubscribe",
    }
}

pub(super) fn subscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    subscribe_to(call, ChannelKind::Channel, args)
}

pub(super) fn psubscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    subscribe_to(call, ChannelKind::Pattern, args)
}

/// Executes `SSUBSCRIBE channel ...`. As in Redis, a transaction cannot contain it, unlike `SUBSCRIBE`.
pub(super) fn ssubscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !call.may_wait {
        return Err(ErrorReply::ShardChannelInMulti.into());
    }
    subscribe_to(call, ChannelKind::Shard, args)
}

pub(super) fn unsubscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    unsubscribe_from(call, ChannelKind::Channel, args)
}

pub(super) fn punsubscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    unsubscribe_from(call, ChannelKind::Pattern, args)
}

pub(super) fn sunsubscribe<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    unsubscribe_from(call, ChannelKind::Shard, args)
}

pub(super) fn publish<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    publish_to(call, ChannelKind::Channel, args)
}

pub(super) fn spublish<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    publish_to(call, ChannelKind::Shard, args)
}

/// Executes `PUBSUB CHANNELS [pattern] | NUMSUB name ... | NUMPAT | SHARDCHANNELS [pattern] | SHARDNUMSUB name ...`.
pub(super) fn pubsub<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"channels", 0 | 1) => reply_names(call, ChannelKind::Channel, args.next()),
        (b"shardchannels", 0 | 1) => reply_names(call, ChannelKind::Shard, args.next()),
        (b"numsub", _) => reply_subscribers(call, ChannelKind::Channel, args),
        (b"shardnumsub", _) => reply_subscribers(call, ChannelKind::Shard, args),
        (b"numpat", 0) => {
            let patterns = call.ctx.shared.channels.names(ChannelKind::Pattern);
            call.int(patterns as i64);
            Ok(())
        }
        _ => other_subcommand(call, "pubsub", topic),
    }
}

pub(super) fn monitor<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if !call.may_wait {
        return Err(ErrorReply::MonitorInMulti.into());
    }
    if !subscriber(call).monitor() {
        return Err(ErrorReply::TooManyMonitors.into());
    }
    note_subscriptions(call);
    call.out.push(reply::OK);
    Ok(())
}

/// Returns this connection's subscriber. If the connection has none, creates it, without subscriptions.
pub(super) fn subscriber<'s>(call: &'s mut Call<'_, '_>) -> &'s mut Subscriber {
    let (shared, worker, connection) = (&call.ctx.shared, call.ctx.worker, call.ctx.push.watch.connection);
    let aside = call.session.aside.get_or_insert_default();
    aside.subscriber.get_or_insert_with(|| Subscriber::new(&shared.channels, worker, connection))
}

/// Restores subscriptions and MONITOR mode. Returns false if client memory is used up.
pub(super) fn resubscribe(call: &mut Call<'_, '_>, subscriptions: &[(u8, Vec<u8>)], monitors: bool) -> bool {
    if subscriptions.is_empty() && !monitors {
        return true;
    }
    let subscriber = subscriber(call);
    let subscribed = subscriptions.iter().all(|(kind, name)| {
        let kind = ChannelKind::ALL.into_iter().find(|known| *known as u8 == *kind);
        kind.is_some_and(|kind| subscriber.subscribe(kind, name).is_ok())
    });
    let is_whole = subscribed && (!monitors || subscriber.monitor());
    note_subscriptions(call);
    is_whole
}

/// Removes the connection's subscriber if it has no subscriptions left, is not in MONITOR mode and receives no
/// invalidations.
pub(super) fn end_subscriber(call: &mut Call<'_, '_>) {
    if let Some(aside) = &mut call.session.aside
        && aside.subscriber.as_ref().is_some_and(Subscriber::is_idle)
    {
        aside.subscriber = None;
    }
}

/// Returns the number of subscriptions for the reply to a change: those to shard channels, or those to channels and
/// patterns together.
fn subscriptions(call: &Call<'_, '_>, kind: ChannelKind) -> i64 {
    let count = |kind| call.session.subscriber().map_or(0, |subscriber| subscriber.count(kind) as i64);
    if kind == ChannelKind::Shard { count(kind) } else { count(ChannelKind::Channel) + count(ChannelKind::Pattern) }
}

/// Replies with the change of a subscription and the number of subscriptions.
fn reply_subscription(call: &mut Call<'_, '_>, kind: ChannelKind, subscribed: bool, name: Option<&[u8]>) {
    let (version, count) = (call.session.version, subscriptions(call, kind));
    reply::push(call.out, version, 3);
    reply::bulk(call.out, word(kind, subscribed));
    match name {
        Some(name) => reply::bulk(call.out, name),
        None => reply::null(call.out, version),
    }
    call.int(count);
}

fn subscribe_to<'c>(call: &mut Call<'c, '_>, kind: ChannelKind, args: Args<'c>) -> Run {
    let subscribed = call.each_key(args, |call, name| {
        if name.len() > NAME_BYTES_MAX {
            return Err(ErrorReply::ChannelTooLong.into());
        }
        if kind == ChannelKind::Pattern {
            check(name)?;
        }
        call.room(name.len())?;
        subscriber(call).subscribe(kind, name).map_err(|refused| match refused {
            Refused::TooMany => ErrorReply::TooManySubscriptions,
            Refused::NoMemory => ErrorReply::NoMessageMemory,
        })?;
        reply_subscription(call, kind, true, Some(name));
        call.ctx.note_work(WORK_A_NAME);
        Ok(())
    });
    note_subscriptions(call);
    if !matches!(subscribed, Err(Interrupt::State(_))) {
        end_subscriber(call);
    }
    subscribed
}

/// Ends subscriptions. Each name takes two steps, which [`super::SessionState::done`] counts. The first step ends the
/// subscription in the channels, so that no further message is queued for it. The second step writes all queued
/// messages, and then the reply.
fn unsubscribe_from<'c>(call: &mut Call<'c, '_>, kind: ChannelKind, args: Args<'c>) -> Run {
    let named = args.len();
    let mut left = call.args_after(args, call.session.done / 2);
    loop {
        let mut next = left;
        let asked = next.next();
        if call.session.done.is_multiple_of(2) {
            let held = call.session.subscriber().filter(|_| named == 0).and_then(|held| held.some_name(kind));
            let name: &[u8] = match (asked, &held) {
                (Some(name), _) => name,
                (None, Some(name)) => name,
                (None, None) => break,
            };
            call.room(name.len())?;
            if call.ops >= OPS_A_BATCH {
                return Err(SessionWait::Yield.into());
            }
            if let Some(subscriber) = call.session.aside.as_mut().and_then(|aside| aside.subscriber.as_mut()) {
                subscriber.leave(kind, name);
            }
            call.session.done += 1;
        }
        let gone = call.session.subscriber().and_then(Subscriber::left);
        let Some(name) = asked.or(gone.as_deref()) else { break };
        aside::write_messages(call)?;
        call.room(name.len())?;
        if let Some(subscriber) = call.session.aside.as_mut().and_then(|aside| aside.subscriber.as_mut()) {
            subscriber.forget(kind);
        }
        reply_subscription(call, kind, false, Some(name));
        call.session.done += 1;
        left = next;
        call.record_position(args, left, call.session.done / 2);
        call.ctx.note_work(WORK_A_NAME);
        call.ops += 1;
    }
    if call.session.done == 0 {
        reply_subscription(call, kind, false, None);
    }
    end_subscriber(call);
    note_subscriptions(call);
    Ok(())
}

/// Records the connection's subscriptions in its client info.
fn note_subscriptions(call: &Call<'_, '_>) {
    let count = |kind| call.session.subscriber().map_or(0, |subscriber| subscriber.count(kind) as u32);
    let monitors = call.session.subscriber().is_some_and(Subscriber::monitors);
    call.with_client_info(|client_info| {
        (client_info.subscriptions, client_info.monitors) = (ChannelKind::ALL.map(count), monitors)
    });
}

/// Publishes a message. A message with many receivers, or that is matched against many patterns, takes several visits.
fn publish_to<'c>(call: &mut Call<'c, '_>, kind: ChannelKind, mut args: Args<'c>) -> Run {
    let message = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let (publishing, mut work) = (call.session.publishing.take(), PUBLISH_WORK);
    let mut publishing = publishing.map_or_else(Publishing::default, |publishing| *publishing);
    let namespace = call.session.namespace;
    let is_in_topic =
        kind != ChannelKind::Channel || call.ctx.publish_to_topic(&mut publishing.topic, namespace, message, &mut work);
    let replied = is_in_topic.then(|| call.ctx.publish_some(&mut publishing, kind, message, &mut work)).flatten();
    call.ops += (PUBLISH_WORK - work) / WORK_AN_OP;
    call.ctx.note_work(PUBLISH_WORK - work);
    let Some(replied) = replied else {
        call.session.publishing = Some(Box::new(publishing));
        call.session.done = 1;
        return Err(SessionWait::Yield.into());
    };
    call.int((replied + publishing.topic.receivers) as i64);
    Ok(())
}

fn reply_names(call: &mut Call<'_, '_>, kind: ChannelKind, pattern: Option<&[u8]>) -> Run {
    pattern.map_or(Ok(()), check)?;
    let (mut listing, mut work) = (listing::listing(call), LISTING_WORK);
    loop {
        let mut names = ArrayVec::<ChannelName, NAMES_A_LOCK>::new();
        let is_end = call.ctx.shared.channels.next_names(kind, &mut listing.names, &mut names);
        for name in names.iter().map(ChannelName::bytes) {
            work = work.saturating_sub(1 + name.len() / BYTES_AN_ENTRY);
            if let Some(pattern) = pattern {
                work = work.saturating_sub(steps_max(pattern, name) / BYTES_AN_ENTRY);
            }
            // Names that would exceed the maximum length of a reply are omitted.
            let fits = listing.len() + name.len() + 64 < LONG_REPLY_BYTES_MAX;
            if fits && pattern.is_none_or(|pattern| matches(pattern, name)) {
                reply::bulk(&mut listing.text, name);
                listing.count += 1;
            }
        }
        if is_end {
            return listing::reply_list(call, *listing);
        }
        if work == 0 {
            return listing::continue_later(call, listing);
        }
    }
}

fn reply_subscribers<'c>(call: &mut Call<'c, '_>, kind: ChannelKind, args: Args<'c>) -> Run {
    if call.session.done == 0 {
        reply::array(call.out, 2 * args.len() as u64);
    }
    call.each_key(args, |call, name| {
        call.room(name.len())?;
        reply::bulk(call.out, name);
        let mut subscribers = call.ctx.shared.channels.subscribers(kind, name) as u64;
        if matches!(kind, ChannelKind::Channel) {
            // The gRPC clients of this database receive the messages of the channel, too.
            subscribers += call.ctx.shared.topics.subscribers(call.session.namespace, name);
        }
        call.int(subscribers as i64);
        call.ctx.note_work(WORK_A_NAME);
        Ok(())
    })
}

/// Refuses the commands that a subscriber may not execute in version 2 of the protocol, in which a client cannot
/// distinguish replies from messages.
pub(super) fn may_while_subscribed(call: &Call<'_, '_>, entry: &CommandSpec) -> Result<(), ErrorReply> {
    let subscribed = is_subscribed_in_2(call);
    let may = matches!(
        entry.name,
        "subscribe"
            | "unsubscribe"
            | "psubscribe"
            | "punsubscribe"
            | "ssubscribe"
            | "sunsubscribe"
            | "ping"
            | "quit"
            | "reset"
    );
    if subscribed && !may { Err(ErrorReply::Subscribed(full_name(entry.name, call.session.last_part))) } else { Ok(()) }
}

/// Returns true if the client uses version 2 of the protocol and has a subscription.
pub(super) fn is_subscribed_in_2(call: &Call<'_, '_>) -> bool {
    call.session.version == Version::Resp2 && call.session.subscriber().is_some_and(Subscriber::is_subscribed)
}

/// Returns true if monitoring clients see requests of the command with the argument `first`. As in Redis, those of
/// operators are hidden.
fn is_monitored(entry: &CommandSpec, first: Option<&[u8]>) -> bool {
    let part = first.and_then(|first| find_subcommand(entry.name, first));
    !part.map_or(entry.has(Flag::Admin), |(_, part)| part.categories.contains(&"admin"))
}

/// Sends a command with its `words` to the monitoring clients, if they may see it. Secrets among the words are hidden.
#[cold]
pub(super) fn send_to_monitors<'w>(
    call: &mut Call<'_, '_>,
    entry: Option<&CommandSpec>,
    name: &'w [u8],
    words: impl Iterator<Item = &'w [u8]>,
) {
    let mut words = words.peekable();
    if !entry.is_some_and(|entry| is_monitored(entry, words.peek().copied())) {
        return;
    }
    let now_us = call.ctx.wall_us();
    let peer = match call.session.origin {
        CommandOrigin::Script => "lua".to_owned(),
        _ => {
            let peer = call.ctx.connection_table().peer(call.ctx.push.watch.connection);
            peer.map_or_else(|| "unix:".to_owned(), |peer| peer.to_string())
        }
    };
    let (secs, us) = (now_us / 1_000_000, now_us % 1_000_000);
    let mut line = format!("+{secs}.{us:06} [{} {peer}]", call.session.namespace.0).into_bytes();
    let mut secrets = SecretArgs::of(name);
    for word in std::iter::once(name).chain(words.map(|word| secrets.shown(word))) {
        line.extend_from_slice(b" \"");
        for &byte in word.iter().take(MONITORED_BYTES_MAX.saturating_sub(line.len())) {
            match byte {
                b'\\' | b'"' => line.extend_from_slice(&[b'\\', byte]),
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\t' => line.extend_from_slice(b"\\t"),
                7 => line.extend_from_slice(b"\\a"),
                8 => line.extend_from_slice(b"\\b"),
                b' '..=b'~' => line.push(byte),
                _ => {
                    const HEX: &[u8; 16] = b"0123456789abcdef";
                    let digits = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
                    line.extend_from_slice(&[b'\\', b'x', digits[0], digits[1]]);
                }
            }
        }
        line.push(b'"');
        if line.len() >= MONITORED_BYTES_MAX {
            line.extend_from_slice(b" \"...\"");
            break;
        }
    }
    line.extend_from_slice(b"\r\n");
    let work = call.ctx.send_to_monitors(&line) + line.len() / BYTES_AN_ENTRY;
    call.ops += work / WORK_AN_OP;
    call.ctx.note_work(work);
}
