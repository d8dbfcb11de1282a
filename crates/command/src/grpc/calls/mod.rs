//! The calls of the service, by their paths. Each function decodes a request and returns its [`CallPlan`].
//!
//! Paths, numbers of fields and meanings are those of the public protocol of Momento, so that its clients work
//! unchanged. The documentation of a function names the fields by their numbers: `1 key` is the field 1.

pub(super) mod common;
mod control;
mod dictionaries;
mod items;
mod lists;
mod sets;
mod sorted_sets;

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
}
use Decode::{Caches, Items};
pub(super) use items::plain_item;

impl Decode {
    /// Decodes the message of a request.
    pub(super) fn plan(self, bytes: &[u8], shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
        let message = Message::parse(bytes)?;
        match self {
            Items(decode) => decode(message),
            Caches(decode) => decode(message, shared),
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
    /// The path of its requests.
    pub(super) path: &'static str,
    pub(super) decode: Decode,
    /// The kind of a call that is executed together with others.
    pub(super) plain: Option<PlainCall>,
}

const fn call(path: &'static str, decode: Decode) -> Method {
    Method { path, decode, plain: None }
}

impl Method {
    const fn plain(self, kind: PlainCall) -> Self {
        Self { plain: Some(kind), ..self }
    }

    /// Returns true if the call belongs to a service.
    fn is_of(&self, service: &[u8]) -> bool {
        self.path.as_bytes()[1..].strip_prefix(service).is_some_and(|rest| rest.starts_with(b"/"))
    }
}

/// All calls.
pub(super) const ALL: &[Method] = &[
    call("/cache_client.Scs/Get", Items(items::get)).plain(PlainCall::Get),
    call("/cache_client.Scs/Set", Items(items::set)).plain(PlainCall::Set),
    call("/cache_client.Scs/GetBatch", Items(items::read_batch)),
    call("/cache_client.Scs/SetBatch", Items(items::set_batch)),
    call("/cache_client.Scs/Delete", Items(items::delete)),
    call("/cache_client.Scs/KeysExist", Items(items::keys_exist)),
    call("/cache_client.Scs/Increment", Items(items::increment)),
    call("/cache_client.Scs/GetWithHash", Items(items::read_with_hash)),
    call("/cache_client.Scs/SetIf", Items(items::set_if)),
    call("/cache_client.Scs/SetIfHash", Items(items::set_if_hash)),
    call("/cache_client.Scs/SetIfNotExists", Items(items::set_if_not_exists)),
    call("/cache_client.Scs/UpdateTtl", Items(items::update_ttl)),
    call("/cache_client.Scs/ItemGetTtl", Items(items::item_get_ttl)),
    call("/cache_client.Scs/ItemGetType", Items(items::item_get_type)),
    call("/cache_client.Scs/DictionaryGet", Items(dictionaries::get)),
    call("/cache_client.Scs/DictionaryFetch", Items(dictionaries::fetch)),
    call("/cache_client.Scs/DictionarySet", Items(dictionaries::set)),
    call("/cache_client.Scs/DictionaryIncrement", Items(dictionaries::increment)),
    call("/cache_client.Scs/DictionaryDelete", Items(dictionaries::delete)),
    call("/cache_client.Scs/DictionaryLength", Items(dictionaries::length)),
    call("/cache_client.Scs/SetFetch", Items(sets::fetch)),
    call("/cache_client.Scs/SetSample", Items(sets::sample)),
    call("/cache_client.Scs/SetUnion", Items(sets::union)),
    call("/cache_client.Scs/SetDifference", Items(sets::difference)),
    call("/cache_client.Scs/SetContains", Items(sets::contains)),
    call("/cache_client.Scs/SetLength", Items(sets::length)),
    call("/cache_client.Scs/SetPop", Items(sets::pop)),
    call("/cache_client.Scs/ListPushFront", Items(lists::push_front)),
    call("/cache_client.Scs/ListPushBack", Items(lists::push_back)),
    call("/cache_client.Scs/ListConcatenateFront", Items(lists::concatenate_front)),
    call("/cache_client.Scs/ListConcatenateBack", Items(lists::concatenate_back)),
    call("/cache_client.Scs/ListPopFront", Items(lists::pop_front)),
    call("/cache_client.Scs/ListPopBack", Items(lists::pop_back)),
    call("/cache_client.Scs/ListErase", Items(lists::erase)),
    call("/cache_client.Scs/ListRemove", Items(lists::remove)),
    call("/cache_client.Scs/ListFetch", Items(lists::fetch)),
    call("/cache_client.Scs/ListRetain", Items(lists::retain)),
    call("/cache_client.Scs/ListLength", Items(lists::length)),
    call("/cache_client.Scs/SortedSetPut", Items(sorted_sets::put)),
    call("/cache_client.Scs/SortedSetFetch", Items(sorted_sets::fetch)),
    call("/cache_client.Scs/SortedSetGetScore", Items(sorted_sets::read_scores)),
    call("/cache_client.Scs/SortedSetRemove", Items(sorted_sets::remove)),
    call("/cache_client.Scs/SortedSetIncrement", Items(sorted_sets::increment)),
    call("/cache_client.Scs/SortedSetGetRank", Items(sorted_sets::read_rank)),
    call("/cache_client.Scs/SortedSetLength", Items(sorted_sets::length)),
    call("/cache_client.Scs/SortedSetLengthByScore", Items(sorted_sets::length_by_score)),
    call("/cache_client.Scs/SortedSetUnionStore", Items(sorted_sets::union_store)),
    call("/cache_client.Ping/Ping", Items(control::ping)),
    call("/control_client.ScsControl/CreateCache", Caches(control::create_cache)),
    call("/control_client.ScsControl/DeleteCache", Caches(control::delete_cache)),
    call("/control_client.ScsControl/FlushCache", Caches(control::flush_cache)),
    call("/control_client.ScsControl/ListCaches", Caches(control::list_caches)),
    call("/grpc.health.v1.Health/Check", Items(check_health)),
];

/// Returns the method with a path.
pub(super) fn find(path: &[u8]) -> Option<&'static Method> {
    ALL.iter().find(|call| call.path.as_bytes() == path)
}

/// Decodes 1 service; empty for the whole server. Replies 1 status (1: serving).
fn check_health(message: Message<'_>) -> Result<CallPlan, CallError> {
    let service = message.bytes(1);
    let is_known = service.is_empty() || ALL.iter().any(|call| call.is_of(service));
    if !is_known {
        return Err(CallError::new(Status::NotFound, "this server has no such service"));
    }
    Ok(CallPlan::new(Commands::default(), |_| {
        reply(|out| {
            out.uint(1, 1);
        })
    }))
}
