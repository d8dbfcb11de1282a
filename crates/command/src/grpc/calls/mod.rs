//! The calls by their services. Each function decodes a request and returns its [`CallPlan`].
//!
//! Names, numbers of fields and meanings are those of the public protocol of Momento, so that its clients work
//! unchanged. `proto/gannet/v1/` describes the same calls. The documentation of a function names the fields by their
//! numbers: `1 key` is the field 1.

pub(super) mod common;
mod control;
mod dictionaries;
mod items;
mod leaderboards;
mod lists;
mod reflection;
mod sets;
mod sorted_sets;
mod topics;

use super::plan::{CallError, CallPlan, Commands, reply};
use crate::shared::Shared;
use protocol::grpc::Status;
use protocol::grpc::protobuf::Message;
use std::sync::Arc;

/// The function that decodes a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decode {
    /// A call that depends on its message alone.
    Items(for<'b> fn(Message<'b>) -> Result<CallPlan, CallError>),
    /// A call that reads or changes the namespaces of the server.
    Caches(for<'b> fn(Message<'b>, &Arc<Shared>) -> Result<CallPlan, CallError>),
    /// A call on a topic of the cache that its message or its header names.
    Topics(for<'b> fn(Message<'b>, &Arc<Shared>) -> Result<CallPlan, CallError>),
}
use Decode::{Caches, Items, Topics};
pub(super) use items::plain_item;

impl Decode {
    /// Decodes the message of a request.
    pub(super) fn plan(self, bytes: &[u8], shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
        let message = Message::parse(bytes)?;
        match self {
            Items(decode) => decode(message),
            Caches(decode) | Topics(decode) => decode(message, shared),
        }
    }
}

/// A kind of call that is executed together with others of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainCall {
    /// The value of a key.
    Get,
    /// A new value of a key, with a time to live.
    Set,
}

/// A unary call, or a call with a stream of replies to one request.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    pub(super) decode: Decode,
    /// The kind of a call that is executed together with others.
    pub(super) plain: Option<PlainCall>,
    /// True if a request has any number of messages, each of which is executed when it is complete.
    pub(super) is_streaming: bool,
}

const fn call(name: &'static str, decode: Decode) -> Method {
    Method { name, decode, plain: None, is_streaming: false }
}

impl Method {
    const fn plain(self, kind: PlainCall) -> Self {
        Self { plain: Some(kind), ..self }
    }

    const fn streaming(self) -> Self {
        Self { is_streaming: true, ..self }
    }
}

/// A service: its full name, and its methods, which several services may share.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: &'static str,
    methods: &'static [&'static &'static [Method]],
}

impl Service {
    /// Returns the method with a name.
    pub(super) fn method(&self, name: &[u8]) -> Option<&'static Method> {
        self.methods.iter().flat_map(|methods| methods.iter()).find(|method| method.name.as_bytes() == name)
    }
}

/// All services. The services of `gannet.v1` and those of Momento's protocol have the same methods and messages.
static SERVICES: &[Service] = &[
    Service { name: "gannet.v1.Cache", methods: &[&ITEMS] },
    Service { name: "gannet.v1.Caches", methods: &[&CACHES] },
    Service { name: "gannet.v1.Topics", methods: &[&TOPICS] },
    Service { name: "gannet.v1.Leaderboards", methods: &[&LEADERBOARDS] },
    Service { name: "cache_client.Scs", methods: &[&ITEMS, &ITEMS_OF_MOMENTO] },
    Service { name: "control_client.ScsControl", methods: &[&CACHES] },
    Service { name: "cache_client.pubsub.Pubsub", methods: &[&TOPICS] },
    Service { name: "leaderboard.Leaderboard", methods: &[&LEADERBOARDS] },
    Service { name: "cache_client.Ping", methods: &[&PING] },
    Service { name: "grpc.health.v1.Health", methods: &[&HEALTH] },
    Service { name: "grpc.reflection.v1.ServerReflection", methods: &[&REFLECTION] },
    Service { name: "grpc.reflection.v1alpha.ServerReflection", methods: &[&REFLECTION] },
];

/// Calls on items.
static ITEMS: &[Method] = &[
    call("Get", Items(items::get)).plain(PlainCall::Get),
    call("Set", Items(items::set)).plain(PlainCall::Set),
    call("GetBatch", Items(items::read_batch)),
    call("SetBatch", Items(items::set_batch)),
    call("Delete", Items(items::delete)),
    call("KeysExist", Items(items::keys_exist)),
    call("Increment", Items(items::increment)),
    call("GetWithHash", Items(items::read_with_hash)),
    call("SetIf", Items(items::set_if)),
    call("SetIfHash", Items(items::set_if_hash)),
    call("UpdateTtl", Items(items::update_ttl)),
    call("ItemGetTtl", Items(items::item_get_ttl)),
    call("ItemGetType", Items(items::item_get_type)),
    call("DictionaryGet", Items(dictionaries::get)),
    call("DictionaryFetch", Items(dictionaries::fetch)),
    call("DictionarySet", Items(dictionaries::set)),
    call("DictionaryIncrement", Items(dictionaries::increment)),
    call("DictionaryDelete", Items(dictionaries::delete)),
    call("DictionaryLength", Items(dictionaries::length)),
    call("SetFetch", Items(sets::fetch)),
    call("SetSample", Items(sets::sample)),
    call("SetUnion", Items(sets::union)),
    call("SetDifference", Items(sets::difference)),
    call("SetContains", Items(sets::contains)),
    call("SetLength", Items(sets::length)),
    call("SetPop", Items(sets::pop)),
    call("ListPushFront", Items(lists::push_front)),
    call("ListPushBack", Items(lists::push_back)),
    call("ListConcatenateFront", Items(lists::concatenate_front)),
    call("ListConcatenateBack", Items(lists::concatenate_back)),
    call("ListPopFront", Items(lists::pop_front)),
    call("ListPopBack", Items(lists::pop_back)),
    call("ListRemove", Items(lists::remove)),
    call("ListFetch", Items(lists::fetch)),
    call("ListRetain", Items(lists::retain)),
    call("ListLength", Items(lists::length)),
    call("SortedSetPut", Items(sorted_sets::put)),
    call("SortedSetFetch", Items(sorted_sets::fetch)),
    call("SortedSetGetScore", Items(sorted_sets::read_scores)),
    call("SortedSetRemove", Items(sorted_sets::remove)),
    call("SortedSetIncrement", Items(sorted_sets::increment)),
    call("SortedSetGetRank", Items(sorted_sets::read_rank)),
    call("SortedSetLength", Items(sorted_sets::length)),
];

/// Calls on items that only Momento's protocol has.
static ITEMS_OF_MOMENTO: &[Method] = &[
    call("SetIfNotExists", Items(items::set_if_not_exists)),
    call("ListErase", Items(lists::erase)),
    call("SortedSetLengthByScore", Items(sorted_sets::length_by_score)),
    call("SortedSetUnionStore", Items(sorted_sets::union_store)),
];

/// Calls on caches.
static CACHES: &[Method] = &[
    call("CreateCache", Caches(control::create_cache)),
    call("DeleteCache", Caches(control::delete_cache)),
    call("FlushCache", Caches(control::flush_cache)),
    call("ListCaches", Caches(control::list_caches)),
];

/// Calls on topics.
static TOPICS: &[Method] =
    &[call("Publish", Topics(topics::publish)), call("Subscribe", Topics(topics::subscribe))];

/// Calls on leaderboards.
static LEADERBOARDS: &[Method] = &[
    call("DeleteLeaderboard", Items(leaderboards::delete)),
    call("UpsertElements", Items(leaderboards::upsert)),
    call("RemoveElements", Items(leaderboards::remove)),
    call("GetLeaderboardLength", Items(leaderboards::length)),
    call("GetByRank", Items(leaderboards::read_by_rank)),
    call("GetRank", Items(leaderboards::read_rank)),
    call("GetByScore", Items(leaderboards::read_by_score)),
    call("GetCompetitionRank", Items(leaderboards::read_competition_rank)),
];

/// A call without effect.
static PING: &[Method] = &[call("Ping", Items(control::ping))];

/// The standard calls on health.
static HEALTH: &[Method] = &[call("Check", Items(check_health)), call("Watch", Items(watch_health))];

/// The standard call by which tools read the schemas.
static REFLECTION: &[Method] = &[call("ServerReflectionInfo", Items(reflection::reflect)).streaming()];

/// All methods. A method's number is its place among them.
static METHODS: [&&[Method]; 8] =
    [&ITEMS, &ITEMS_OF_MOMENTO, &CACHES, &TOPICS, &LEADERBOARDS, &PING, &HEALTH, &REFLECTION];

/// Returns the names of all methods, by their numbers.
pub(super) fn method_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().flat_map(|methods| methods.iter().map(|method| method.name))
}

impl Method {
    /// Returns the number of the method.
    #[inline]
    pub(super) fn number(&'static self) -> usize {
        let mut first = 0;
        for methods in METHODS {
            let bytes = std::ptr::from_ref(self).addr().wrapping_sub(methods.as_ptr().addr());
            if bytes < size_of_val(*methods) {
                return first + bytes / size_of::<Self>();
            }
            first += methods.len();
        }
        unreachable!("every method is in one of the arrays")
    }
}

/// Returns the service with a name.
pub(super) fn service(name: &[u8]) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.name.as_bytes() == name)
}

/// Decodes 1 service; empty for the whole server. Replies 1 status (1: serving, 3: unknown service), and keeps the
/// stream open: the status changes only by the end of the connection.
fn watch_health(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = message.bytes(1);
    let status = if name.is_empty() || service(name).is_some() { 1 } else { 3 };
    let plan = CallPlan::new(Commands::default(), move |_| {
        reply(|out| {
            out.uint(1, status);
        })
    });
    Ok(plan.staying_open())
}

/// Decodes 1 service; empty for the whole server. Replies 1 status (1: serving).
fn check_health(message: Message<'_>) -> Result<CallPlan, CallError> {
    let service = message.bytes(1);
    let is_known = service.is_empty() || self::service(service).is_some();
    if !is_known {
        return Err(CallError::new(Status::NotFound, "this server has no such service"));
    }
    Ok(CallPlan::new(Commands::default(), |_| {
        reply(|out| {
            out.uint(1, 1);
        })
    }))
}
