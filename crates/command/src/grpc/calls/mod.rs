//! The calls by their services. Each function decodes a request and returns its [`CallPlan`].
//!
//! Calls that Momento's public protocol has too use its names, numbers of fields and meanings, so that its clients work
//! unchanged. `proto/gannet/v1/` describes all calls. The documentation of a function names the fields by their
//! numbers: `1 key` is the field 1.

pub(super) mod common;
mod control;
mod dictionaries;
mod graphs;
mod items;
mod leaderboards;
mod leases;
mod lists;
mod records;
mod reflection;
mod sets;
mod sorted_sets;
mod tokens;
mod topics;

use super::plan::{Access, CallError, CallPlan, Commands, Flow, StreamRequest, add_message, reply, too_many_steps};
use crate::shared::Shared;
use protocol::grpc::Status;
use protocol::grpc::protobuf::{FieldBudget, Message};
use std::sync::Arc;

/// The function that decodes a request for a token. The last argument is the address.
pub(super) type IssueToken = for<'b> fn(Message<'b>, &Arc<Shared>, &[u8]) -> Result<CallPlan, CallError>;

/// The function that decodes a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decode {
    /// A call that depends on its message alone.
    Items(for<'b> fn(Message<'b>) -> Result<CallPlan, CallError>),
    /// A call that reads or changes the namespaces of the server.
    Caches(for<'b> fn(Message<'b>, &Arc<Shared>) -> Result<CallPlan, CallError>),
    /// A call on graphs, which are in no cache. Its header names the cache whose limits count it.
    Graphs(for<'b> fn(Message<'b>) -> Result<CallPlan, CallError>),
    /// A call on a topic of the cache that its message or its header names.
    Topics(for<'b> fn(Message<'b>, &Arc<Shared>) -> Result<CallPlan, CallError>),
    /// A call that issues a token for the address under which the client knows the server, and the number of the field
    /// with the caller's token; 0 if the call needs none.
    Tokens(IssueToken, u32),
}
use Decode::{Caches, Graphs, Items, Tokens, Topics};
pub(super) use items::plain_item;
pub(super) use topics::add_heartbeat;

impl Decode {
    /// Decodes the message of a request, in a number of steps that its length does not raise.
    pub(super) fn plan(self, bytes: &[u8], shared: &Arc<Shared>, authority: &[u8]) -> Result<CallPlan, CallError> {
        let budget = FieldBudget::default();
        let message = Message::parse_within(bytes, &budget)?;
        let plan = match self {
            Tokens(decode, _) => decode(message, shared, authority),
            Items(decode) | Graphs(decode) => decode(message),
            Caches(decode) | Topics(decode) => decode(message, shared),
        };
        // What a decoder has read of the message then is not all of it.
        if budget.is_used_up() { Err(too_many_steps()) } else { plan }
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
    pub(super) access: Access,
    pub(super) decode: Decode,
    /// The kind of a call that is executed together with others.
    pub(super) plain: Option<PlainCall>,
    /// True if a request has any number of messages, each of which is executed when it is complete.
    pub(super) is_streaming: bool,
    /// True if a call that has begun ends when its client cancels it, and at its deadline. It changes nothing.
    pub(super) may_end_early: bool,
}

const fn call(name: &'static str, access: Access, decode: Decode) -> Method {
    Method { name, access, decode, plain: None, is_streaming: false, may_end_early: false }
}

const fn read(name: &'static str, decode: Decode) -> Method {
    call(name, Access::Read, decode)
}

const fn graph_query(name: &'static str, decode: for<'b> fn(Message<'b>) -> Result<CallPlan, CallError>) -> Method {
    Method { may_end_early: true, ..read(name, Graphs(decode)) }
}

const fn write(name: &'static str, decode: Decode) -> Method {
    call(name, Access::Write, decode)
}

const fn change(name: &'static str, decode: Decode) -> Method {
    call(name, Access::Change, decode)
}

const fn control(name: &'static str, decode: Decode) -> Method {
    call(name, Access::Control, decode)
}

const fn free(name: &'static str, decode: Decode) -> Method {
    call(name, Access::Free, decode)
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
    Service { name: "gannet.v1.Leases", methods: &[&LEASES] },
    Service { name: "gannet.v1.Records", methods: &[&RECORDS] },
    Service { name: "gannet.v1.Graph", methods: &[&GRAPHS] },
    Service { name: "gannet.v1.Caches", methods: &[&CACHES] },
    Service { name: "gannet.v1.Topics", methods: &[&TOPICS] },
    Service { name: "gannet.v1.Invalidations", methods: &[&INVALIDATIONS] },
    Service { name: "gannet.v1.Leaderboards", methods: &[&LEADERBOARDS] },
    Service { name: "cache_client.Scs", methods: &[&ITEMS, &ITEMS_OF_MOMENTO] },
    Service { name: "control_client.ScsControl", methods: &[&CACHES] },
    Service { name: "cache_client.pubsub.Pubsub", methods: &[&TOPICS_OF_MOMENTO, &TOPICS] },
    Service { name: "leaderboard.Leaderboard", methods: &[&LEADERBOARDS] },
    Service { name: "gannet.v1.Tokens", methods: &[&TOKENS] },
    Service { name: "auth.Auth", methods: &[&TOKENS] },
    Service { name: "token.Token", methods: &[&TOKENS] },
    Service { name: "cache_client.Ping", methods: &[&PING] },
    Service { name: "grpc.health.v1.Health", methods: &[&HEALTH] },
    Service { name: "grpc.reflection.v1.ServerReflection", methods: &[&REFLECTION] },
    Service { name: "grpc.reflection.v1alpha.ServerReflection", methods: &[&REFLECTION] },
];

/// Calls on items.
static ITEMS: &[Method] = &[
    read("Get", Items(items::get)).plain(PlainCall::Get),
    write("Set", Items(items::set)).plain(PlainCall::Set),
    read("GetBatch", Items(items::read_batch)),
    write("SetBatch", Items(items::set_batch)),
    write("Delete", Items(items::delete)),
    read("KeysExist", Items(items::keys_exist)),
    change("Increment", Items(items::increment)),
    read("GetWithHash", Items(items::read_with_hash)),
    change("SetIf", Items(items::set_if)),
    change("SetIfHash", Items(items::set_if_hash)),
    change("UpdateTtl", Items(items::update_ttl)),
    read("ItemGetTtl", Items(items::item_get_ttl)),
    read("ItemGetType", Items(items::item_get_type)),
    read("DictionaryGet", Items(dictionaries::get)),
    read("DictionaryFetch", Items(dictionaries::fetch)),
    write("DictionarySet", Items(dictionaries::set)),
    change("DictionaryIncrement", Items(dictionaries::increment)),
    write("DictionaryDelete", Items(dictionaries::delete)),
    read("DictionaryLength", Items(dictionaries::length)),
    read("SetFetch", Items(sets::fetch)),
    read("SetSample", Items(sets::sample)),
    write("SetUnion", Items(sets::union)),
    change("SetDifference", Items(sets::difference)),
    read("SetContains", Items(sets::contains)),
    read("SetLength", Items(sets::length)),
    change("SetPop", Items(sets::pop)),
    write("ListPushFront", Items(lists::push_front)),
    write("ListPushBack", Items(lists::push_back)),
    write("ListConcatenateFront", Items(lists::concatenate_front)),
    write("ListConcatenateBack", Items(lists::concatenate_back)),
    change("ListPopFront", Items(lists::pop_front)),
    change("ListPopBack", Items(lists::pop_back)),
    write("ListRemove", Items(lists::remove)),
    read("ListFetch", Items(lists::fetch)),
    write("ListRetain", Items(lists::retain)),
    read("ListLength", Items(lists::length)),
    write("SortedSetPut", Items(sorted_sets::put)),
    read("SortedSetFetch", Items(sorted_sets::fetch)),
    read("SortedSetGetScore", Items(sorted_sets::read_scores)),
    write("SortedSetRemove", Items(sorted_sets::remove)),
    change("SortedSetIncrement", Items(sorted_sets::increment)),
    read("SortedSetGetRank", Items(sorted_sets::read_rank)),
    read("SortedSetLength", Items(sorted_sets::length)),
];

/// Calls on items that only Momento's protocol has.
static ITEMS_OF_MOMENTO: &[Method] = &[
    change("SetIfNotExists", Items(items::set_if_not_exists)),
    write("ListErase", Items(lists::erase)),
    read("SortedSetLengthByScore", Items(sorted_sets::length_by_score)),
    change("SortedSetUnionStore", Items(sorted_sets::union_store)),
];

/// Calls by which one client fills a value.
static LEASES: &[Method] = &[
    change("LeaseGet", Items(leases::read)),
    change("LeaseSet", Items(leases::fill)),
    change("LeaseStale", Items(leases::make_stale)),
];

/// Calls on records.
static RECORDS: &[Method] = &[
    read("RecordGet", Items(records::read)),
    change("RecordPut", Items(records::put)),
    change("RecordAdd", Items(records::add)),
    change("RecordAppend", Items(records::append)),
    change("RecordTouch", Items(records::touch)),
    change("RecordDelete", Items(records::delete)),
    read("RecordScan", Items(records::scan)),
    read("RecordQuery", Items(records::query)),
];

/// Calls on graphs.
static GRAPHS: &[Method] = &[
    change("DeclareType", Graphs(graphs::declare_type)),
    change("Change", Graphs(graphs::change)),
    graph_query("GetEdges", graphs::edges),
    graph_query("Count", graphs::count),
    graph_query("Range", graphs::range),
    graph_query("Mutual", graphs::mutual),
    graph_query("Combine", graphs::combine),
    graph_query("Distance", graphs::distance),
    graph_query("Path", graphs::path),
    graph_query("SecondDegree", graphs::second_degree),
    graph_query("Suggest", graphs::suggest),
    read("GetNode", Graphs(graphs::node_object)),
    change("SetNode", Graphs(graphs::set_node)),
    change("RemoveNode", Graphs(graphs::remove_node)),
    change("MarkNode", Graphs(graphs::mark_node)),
    graph_query("Query", graphs::query),
    read("Stats", Graphs(graphs::stats)),
];

/// Calls on caches.
static CACHES: &[Method] = &[
    control("CreateCache", Caches(control::create_cache)),
    control("DeleteCache", Caches(control::delete_cache)),
    control("FlushCache", Caches(control::flush_cache)),
    control("ListCaches", Caches(control::list_caches)),
];

/// Calls on topics.
static TOPICS: &[Method] = &[
    call("Publish", Access::Publish, Topics(topics::publish)),
    call("Subscribe", Access::Subscribe, Topics(topics::subscribe)),
];

/// The calls on topics that differ in Momento's schema. They precede those of [`TOPICS`], and count as these.
static TOPICS_OF_MOMENTO: &[Method] = &[call("Subscribe", Access::Subscribe, Topics(topics::subscribe_of_momento))];

/// Calls on changes of keys.
static INVALIDATIONS: &[Method] = &[read("WatchKeys", Topics(topics::watch_keys))];

/// Calls on leaderboards.
static LEADERBOARDS: &[Method] = &[
    write("DeleteLeaderboard", Items(leaderboards::delete)),
    write("UpsertElements", Items(leaderboards::upsert)),
    write("RemoveElements", Items(leaderboards::remove)),
    read("GetLeaderboardLength", Items(leaderboards::length)),
    read("GetByRank", Items(leaderboards::read_by_rank)),
    read("GetRank", Items(leaderboards::read_rank)),
    read("GetByScore", Items(leaderboards::read_by_score)),
    read("GetCompetitionRank", Items(leaderboards::read_competition_rank)),
];

/// Calls that issue tokens.
static TOKENS: &[Method] = &[
    control("GenerateApiToken", Tokens(tokens::generate, 3)),
    control("GenerateDisposableToken", Tokens(tokens::generate_disposable, 2)),
    free("RefreshApiToken", Tokens(tokens::refresh, 0)),
];

/// A call without effect.
static PING: &[Method] = &[free("Ping", Items(control::ping))];

/// The standard calls on health.
static HEALTH: &[Method] = &[free("Check", Items(check_health)), free("Watch", Items(watch_health))];

/// The standard call by which tools read the schemas.
static REFLECTION: &[Method] = &[free("ServerReflectionInfo", Items(reflection::reflect)).streaming()];

/// All methods. A method's number is its place among them.
static METHODS: [&&[Method]; 13] = [
    &ITEMS,
    &ITEMS_OF_MOMENTO,
    &LEASES,
    &RECORDS,
    &GRAPHS,
    &CACHES,
    &TOPICS,
    &INVALIDATIONS,
    &LEADERBOARDS,
    &TOKENS,
    &PING,
    &HEALTH,
    &REFLECTION,
];

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
        assert!(std::ptr::eq(self, &raw const TOPICS_OF_MOMENTO[0]), "every other method is in one of the arrays");
        TOPICS[1].number()
    }
}

/// Returns the service with a name.
pub(super) fn service(name: &[u8]) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.name.as_bytes() == name)
}

/// Decodes 1 service; empty for the whole server. Replies 1 status (1: serving, 3: unknown service), and keeps the
/// stream open until the server leaves: the status does not change before.
fn watch_health(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = message.bytes(1);
    let status = if name.is_empty() || service(name).is_some() { 1 } else { 3 };
    let plan = CallPlan::new(Commands::default(), move |_| {
        let mut messages = Vec::new();
        add_message(&mut messages, |out| {
            out.uint(1, status);
        });
        Ok(Flow::Subscribe(StreamRequest::Health, messages))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_method_are_counted_under_its_own_name() {
        let names: Vec<_> = method_names().collect();
        let mut seen = 0;
        for service in SERVICES {
            for method in service.methods.iter().flat_map(|methods| methods.iter()) {
                assert_eq!(names[method.number()], method.name, "{}", service.name);
                seen += 1;
            }
        }
        assert!(seen > names.len(), "some methods belong to several services");
    }
}
