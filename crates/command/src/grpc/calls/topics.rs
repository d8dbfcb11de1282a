//! Calls with streams of events: on topics, which are the channels of Redis clients with sequence numbers, and on
//! changes of keys.

use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Publication, StreamRequest, TopicRequest, add_message};
use crate::push::topics::TopicPosition;
use crate::push::tracking::{PREFIX_BYTES_MAX, PREFIXES_MAX};
use crate::shared::Shared;
use protocol::grpc::protobuf::Message;
use segment::Namespace;
use std::sync::Arc;

/// The maximum length of a topic's name, in bytes.
const TOPIC_BYTES_MAX: usize = 1024;

/// The topic of a call, and the cache that the call names, with its namespace.
struct TopicNames<'b> {
    cache: Option<(&'b [u8], Namespace)>,
    topic: &'b [u8],
}

/// Returns the cache in the field 1 with its namespace, and the topic in the field 2. An empty name of a cache stands
/// for that of the header `cache`, or of the listener. Returns the name of a cache that does not exist as an error.
fn names<'b>(message: Message<'b>, shared: &Shared) -> Result<Result<TopicNames<'b>, &'b [u8]>, CallError> {
    let cache = match message.bytes(1) {
        b"" => None,
        name => {
            let Some(found) = shared.namespaces.find(name) else { return Ok(Err(name)) };
            Some((name, found))
        }
    };
    match message.bytes(2) {
        topic if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX => {
            Err(CallError::invalid(format!("the name of a topic has 1 to {TOPIC_BYTES_MAX} bytes")))
        }
        topic => Ok(Ok(TopicNames { cache, topic })),
    }
}

/// Decodes 1 cache, 2 topic, 3 value (1 text, 2 binary).
pub(super) fn publish(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let TopicNames { cache, topic } = match names(message, shared)? {
        Ok(names) => names,
        Err(missing) => return Ok(CallPlan::missing_cache(missing)),
    };
    let value = message.message(3)?.ok_or_else(|| CallError::invalid("the request has no value"))?;
    let (is_text, bytes) = match (value.try_bytes(1), value.try_bytes(2)) {
        (Some(text), None) if std::str::from_utf8(text).is_err() => {
            return Err(CallError::invalid("the text is not valid UTF-8; publish it as binary"));
        }
        (Some(text), None) => (true, text),
        (None, Some(binary)) => (false, binary),
        _ => return Err(CallError::invalid("the value is neither a text nor binary; give one of both")),
    };
    let plan = CallPlan::one(&[b"PUBLISH", topic, bytes], |_| super::common::done());
    let plan = plan.publishing(Publication { is_text });
    Ok(if let Some((_, namespace)) = cache { plan.within(namespace) } else { plan })
}

/// Decodes 1 cache, 2 topic, 3 sequence number of the first message (0: the next one that is published), 4 page. The
/// heartbeats name the position of the next message.
pub(super) fn subscribe(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    subscription(message, shared, true)
}

/// Decodes as [`subscribe`] does. The heartbeats are empty, as in Momento's schema.
pub(super) fn subscribe_of_momento(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    subscription(message, shared, false)
}

fn subscription(message: Message<'_>, shared: &Arc<Shared>, has_positions: bool) -> Result<CallPlan, CallError> {
    let TopicNames { cache, topic } = match names(message, shared)? {
        Ok(names) => names,
        Err(missing) => return Ok(CallPlan::missing_cache(missing).staying_open()),
    };
    let from = TopicPosition { sequence: message.uint(3), page: message.uint(4) };
    let namespace = cache.map(|(_, namespace)| namespace);
    let cache = cache.map(|(name, _)| name.into());
    let mut request = Some(TopicRequest { cache, topic: topic.into(), from, has_positions });
    let plan = CallPlan::new(Commands::default(), move |_| {
        let request = request.take().map(StreamRequest::Topic);
        request.map(|request| Flow::Subscribe(request, Vec::new())).ok_or_else(CallError::unexpected)
    });
    let plan = plan.staying_open();
    Ok(if let Some(namespace) = namespace { plan.within(namespace) } else { plan })
}

/// Decodes 1 prefixes; none for all keys.
pub(super) fn watch_keys(message: Message<'_>, _: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let mut sorted: Vec<&[u8]> = message.all(1).collect();
    if sorted.is_empty() {
        sorted.push(b"");
    }
    if sorted.len() > PREFIXES_MAX || sorted.iter().any(|prefix| prefix.len() > PREFIX_BYTES_MAX) {
        let text = format!("a stream has at most {PREFIXES_MAX} prefixes of at most {PREFIX_BYTES_MAX} bytes");
        return Err(CallError::invalid(text));
    }
    sorted.sort_unstable();
    // In this order, a prefix precedes all those that it includes.
    sorted.dedup_by(|next, before| next.starts_with(before));
    let mut prefixes = Some(sorted.into_iter().map(Box::from).collect());
    let plan = CallPlan::new(Commands::default(), move |_| {
        let request = prefixes.take().map(|prefixes| StreamRequest::Keys { cache: None, prefixes });
        request.map(|request| Flow::Subscribe(request, Vec::new())).ok_or_else(CallError::unexpected)
    });
    Ok(plan.staying_open())
}

/// Adds 3 a heartbeat (1 sequence number of the next message, 2 its page; both 0 if the position is not known).
pub(in crate::grpc) fn add_heartbeat(messages: &mut Vec<u8>, next: TopicPosition) {
    add_message(messages, |out| {
        out.message(3, |heartbeat| {
            heartbeat.uint(1, next.sequence).uint(2, next.page);
        });
    });
}
