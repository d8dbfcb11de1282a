//! The calls of the service, by their paths. Each function decodes a request and returns its [`CallPlan`].
//!
//! Paths, numbers of fields and meanings are those of the public protocol of Momento, so that its clients work
//! unchanged. The documentation of a function names the fields by their numbers: `1 key` is the field 1.

mod common;
mod control;
mod dictionaries;
mod items;
mod lists;
mod sets;
mod sorted_sets;

use super::plan::{CallError, CallPlan, Commands, reply};
use crate::shared::Shared;
use protocol::grpc::PREFIX_BYTES;
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

impl Decode {
    /// Decodes a request, its prefix included.
    pub(super) fn plan(self, bytes: &[u8], shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
        let message = Message::parse(bytes.get(PREFIX_BYTES..).unwrap_or_default())?;
        match self {
            Items(decode) => decode(message),
            Caches(decode) => decode(message, shared),
        }
    }
}

/// A unary call, or a call with a stream of replies to one request.
#[derive(Debug)]
pub(super) struct Call {
    /// The path of its requests.
    pub(super) path: &'static str,
    pub(super) decode: Decode,
}

impl Call {
    /// Returns true if the call belongs to a service.
    fn is_of(&self, service: &[u8]) -> bool {
        self.path.as_bytes()[1..].strip_prefix(service).is_some_and(|rest| rest.starts_with(b"/"))
    }
}

/// All calls.
pub(super) const ALL: &[Call] = &[
    Call { path: "/cache_client.Scs/Get", decode: Items(items::get) },
    Call { path: "/cache_client.Scs/Set", decode: Items(items::set) },
    Call { path: "/cache_client.Scs/GetBatch", decode: Items(items::read_batch) },
    Call { path: "/cache_client.Scs/SetBatch", decode: Items(items::set_batch) },
    Call { path: "/cache_client.Scs/Delete", decode: Items(items::delete) },
    Call { path: "/cache_client.Scs/KeysExist", decode: Items(items::keys_exist) },
    Call { path: "/cache_client.Scs/Increment", decode: Items(items::increment) },
    Call { path: "/cache_client.Scs/GetWithHash", decode: Items(items::read_with_hash) },
    Call { path: "/cache_client.Scs/SetIf", decode: Items(items::set_if) },
    Call { path: "/cache_client.Scs/SetIfHash", decode: Items(items::set_if_hash) },
    Call { path: "/cache_client.Scs/SetIfNotExists", decode: Items(items::set_if_not_exists) },
    Call { path: "/cache_client.Scs/UpdateTtl", decode: Items(items::update_ttl) },
    Call { path: "/cache_client.Scs/ItemGetTtl", decode: Items(items::item_get_ttl) },
    Call { path: "/cache_client.Scs/ItemGetType", decode: Items(items::item_get_type) },
    Call { path: "/cache_client.Scs/DictionaryGet", decode: Items(dictionaries::get) },
    Call { path: "/cache_client.Scs/DictionaryFetch", decode: Items(dictionaries::fetch) },
    Call { path: "/cache_client.Scs/DictionarySet", decode: Items(dictionaries::set) },
    Call { path: "/cache_client.Scs/DictionaryIncrement", decode: Items(dictionaries::increment) },
    Call { path: "/cache_client.Scs/DictionaryDelete", decode: Items(dictionaries::delete) },
    Call { path: "/cache_client.Scs/DictionaryLength", decode: Items(dictionaries::length) },
    Call { path: "/cache_client.Scs/SetFetch", decode: Items(sets::fetch) },
    Call { path: "/cache_client.Scs/SetSample", decode: Items(sets::sample) },
    Call { path: "/cache_client.Scs/SetUnion", decode: Items(sets::union) },
    Call { path: "/cache_client.Scs/SetDifference", decode: Items(sets::difference) },
    Call { path: "/cache_client.Scs/SetContains", decode: Items(sets::contains) },
    Call { path: "/cache_client.Scs/SetLength", decode: Items(sets::length) },
    Call { path: "/cache_client.Scs/SetPop", decode: Items(sets::pop) },
    Call { path: "/cache_client.Scs/ListPushFront", decode: Items(lists::push_front) },
    Call { path: "/cache_client.Scs/ListPushBack", decode: Items(lists::push_back) },
    Call { path: "/cache_client.Scs/ListConcatenateFront", decode: Items(lists::concatenate_front) },
    Call { path: "/cache_client.Scs/ListConcatenateBack", decode: Items(lists::concatenate_back) },
    Call { path: "/cache_client.Scs/ListPopFront", decode: Items(lists::pop_front) },
    Call { path: "/cache_client.Scs/ListPopBack", decode: Items(lists::pop_back) },
    Call { path: "/cache_client.Scs/ListErase", decode: Items(lists::erase) },
    Call { path: "/cache_client.Scs/ListRemove", decode: Items(lists::remove) },
    Call { path: "/cache_client.Scs/ListFetch", decode: Items(lists::fetch) },
    Call { path: "/cache_client.Scs/ListRetain", decode: Items(lists::retain) },
    Call { path: "/cache_client.Scs/ListLength", decode: Items(lists::length) },
    Call { path: "/cache_client.Scs/SortedSetPut", decode: Items(sorted_sets::put) },
    Call { path: "/cache_client.Scs/SortedSetFetch", decode: Items(sorted_sets::fetch) },
    Call { path: "/cache_client.Scs/SortedSetGetScore", decode: Items(sorted_sets::read_scores) },
    Call { path: "/cache_client.Scs/SortedSetRemove", decode: Items(sorted_sets::remove) },
    Call { path: "/cache_client.Scs/SortedSetIncrement", decode: Items(sorted_sets::increment) },
    Call { path: "/cache_client.Scs/SortedSetGetRank", decode: Items(sorted_sets::read_rank) },
    Call { path: "/cache_client.Scs/SortedSetLength", decode: Items(sorted_sets::length) },
    Call { path: "/cache_client.Scs/SortedSetLengthByScore", decode: Items(sorted_sets::length_by_score) },
    Call { path: "/cache_client.Scs/SortedSetUnionStore", decode: Items(sorted_sets::union_store) },
    Call { path: "/cache_client.Ping/Ping", decode: Items(control::ping) },
    Call { path: "/control_client.ScsControl/CreateCache", decode: Caches(control::create_cache) },
    Call { path: "/control_client.ScsControl/DeleteCache", decode: Caches(control::delete_cache) },
    Call { path: "/control_client.ScsControl/FlushCache", decode: Caches(control::flush_cache) },
    Call { path: "/control_client.ScsControl/ListCaches", decode: Caches(control::list_caches) },
    Call { path: "/grpc.health.v1.Health/Check", decode: Items(check_health) },
];

/// Returns the call with a path.
pub(super) fn find(path: &[u8]) -> Option<&'static Call> {
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
