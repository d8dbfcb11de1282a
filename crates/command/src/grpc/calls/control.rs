//! Calls on caches, which are namespaces, and calls that say whether the server serves.

use super::common;
use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, reply};
use crate::keyspace::namespace_config::{NAME_BYTES_MAX, NamespaceConfig};
use crate::keyspace::namespaces::{DEFAULT_NAME, Namespaces};
use crate::shared::Shared;
use protocol::grpc::Status;
use protocol::grpc::protobuf::Message;
use segment::Namespace;
use std::sync::{Arc, PoisonError};

/// Returns the plan of a call that needs the right to change settings. The command reads a setting, and is refused to
/// users without that right.
fn privileged(run: impl Fn() -> Next + Send + 'static) -> CallPlan {
    CallPlan::one(&[b"CONFIG", b"GET", b"maxmemory"], move |_| run())
}

/// Returns the name or the number in the field 1.
fn name_or_number(message: Message<'_>) -> Result<String, CallError> {
    let name = String::from_utf8_lossy(message.bytes(1)).into_owned();
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_valid) {
        return Err(invalid_name());
    }
    Ok(name)
}

/// Returns the name in the field 1.
fn name(message: Message<'_>) -> Result<String, CallError> {
    let name = name_or_number(message)?;
    if name.parse::<i64>().is_ok() { Err(invalid_name()) } else { Ok(name) }
}

fn invalid_name() -> CallError {
    CallError::invalid("the name of a cache has 1 to 63 letters, digits, '-', '_' and '.', and is not only a number")
}

/// Decodes 1 name.
pub(super) fn create_cache(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let (name, shared) = (name(message)?, Arc::clone(shared));
    Ok(privileged(move || {
        // Two calls must not choose the same free number.
        let _one = shared.cache_creation.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.namespaces.find(name.as_bytes()).is_some() {
            return Err(CallError::new(Status::AlreadyExists, format!("the cache {name} exists already")));
        }
        let named = shared.namespaces.named();
        let is_free =
            |number: &Namespace| *number != Namespace::DEFAULT && named.iter().all(|of| of.number != number.0);
        let Some(number) = Namespaces::numbers().find(is_free) else {
            let text = format!("all {} caches exist; delete one first", Namespace::MAX);
            return Err(CallError::new(Status::ResourceExhausted, text));
        };
        let evicts = !shared.store.keeps(Namespace::DEFAULT);
        let config = NamespaceConfig { name: name.clone(), ..NamespaceConfig::plain(number.0, evicts) };
        let set = shared.namespaces.set(&shared.store, &config);
        set.map_err(|error| CallError::new(Status::ResourceExhausted, format!("cannot create {name}: {error}")))?;
        shared.host.wake_background();
        common::done()
    }))
}

/// Decodes 1 name. The items of the cache are deleted too. A caller learns whether the cache exists only if it may
/// delete the items.
pub(super) fn delete_cache(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let (name, shared) = (name(message)?, Arc::clone(shared));
    if name == DEFAULT_NAME {
        return Err(CallError::invalid("the default cache cannot be deleted; flush it"));
    }
    let cache = shared.namespaces.find(name.as_bytes());
    let mut is_permitted = false;
    let plan = CallPlan::new(Commands::one(&[b"CONFIG", b"GET", b"maxmemory"]), move |_| {
        if std::mem::replace(&mut is_permitted, true) {
            return remove_cache(&name, cache, &shared);
        }
        let (name, listeners) = (name.clone(), shared.config.listener_namespaces);
        let flush = move || match cache {
            None => Err(CallError::no_cache(name.as_bytes())),
            Some(cache) if listeners & 1 << cache.0 != 0 => {
                let text = "has listeners; remove them from the configuration file first, or flush it";
                Err(CallError::new(Status::FailedPrecondition, format!("the cache {name} {text}")))
            }
            Some(_) => Ok(Flow::Execute(Commands::one(&[b"FLUSHDB"]))),
        };
        Ok(Flow::IfMayFlush(cache, Box::new(flush)))
    });
    Ok(match cache {
        Some(cache) => plan.within(cache),
        None => plan,
    })
}

/// Removes a cache whose items are deleted.
fn remove_cache(name: &str, cache: Option<Namespace>, shared: &Shared) -> Next {
    let _one = shared.cache_creation.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = cache.filter(|cache| shared.namespaces.find(name.as_bytes()) == Some(*cache));
    let cache = cache.ok_or_else(|| CallError::no_cache(name.as_bytes()))?;
    shared.topics.end_namespace(cache);
    shared.namespaces.unset(&shared.store, cache, !shared.store.keeps(Namespace::DEFAULT));
    shared.host.wake_background();
    common::done()
}

/// Decodes 1 name or number. A caller learns whether the cache exists only if it may delete the items.
pub(super) fn flush_cache(message: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let name = name_or_number(message)?;
    let Some(cache) = shared.namespaces.find(name.as_bytes()) else {
        // The command needs no right, but a client that must authenticate may not execute it.
        return Ok(CallPlan::one(&[b"UNWATCH"], move |_| {
            let name = name.clone();
            Ok(Flow::IfMayFlush(None, Box::new(move || Err(CallError::no_cache(name.as_bytes())))))
        }));
    };
    Ok(CallPlan::one(&[b"FLUSHDB"], |_| common::done()).within(cache))
}

/// Replies 1 caches (1 name), all in one reply.
pub(super) fn list_caches(_: Message<'_>, shared: &Arc<Shared>) -> Result<CallPlan, CallError> {
    let shared = Arc::clone(shared);
    Ok(CallPlan::one(&[b"PING"], move |_| {
        let mut names: Vec<String> = shared.namespaces.named().into_iter().map(|config| config.name).collect();
        if !names.iter().any(|name| name == DEFAULT_NAME) {
            names.insert(0, DEFAULT_NAME.to_owned());
        }
        reply(|out| {
            for name in &names {
                out.message(1, |cache| {
                    cache.bytes(1, name.as_bytes());
                });
            }
        })
    }))
}

/// Replies an empty message.
pub(super) fn ping(_: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::new(Commands::default(), |_| common::done()))
}
