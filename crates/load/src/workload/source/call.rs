//! The properties of a gRPC call that are the same for each request of a route.

use protocol::grpc::client::CallFields;

use super::super::model::{KeyCommand, Verb, Workload};

/// The text by which the generator names itself to servers.
const USER_AGENT: &str = concat!("gannet-load/", env!("CARGO_PKG_VERSION"));

/// A call, prepared for sending.
#[derive(Clone, Debug)]
pub struct GrpcCall {
    /// The operation.
    pub verb: Verb,
    /// The header block, which is the same for each call.
    pub block: Box<[u8]>,
}

impl GrpcCall {
    /// Creates the call of `command`.
    pub fn new(workload: &Workload, command: &KeyCommand) -> Self {
        let (verb, several) = (command.verb, command.keys > 1);
        let authorization = workload.auth.as_ref().map_or(String::new(), |auth| match auth.user.as_str() {
            "" => auth.password.clone(),
            user => format!("{user}:{}", auth.password),
        });
        let authority = workload.targets.first().map_or("localhost", |target| match target.address.as_str() {
            path if path.starts_with("unix:") => "localhost",
            address => address,
        });
        let fields = CallFields {
            path: path(verb, several),
            authority,
            is_secure: workload.tls.is_some(),
            user_agent: USER_AGENT,
            authorization: &authorization,
            cache: &workload.cache,
            timeout_ns: Some(workload.timeout.as_ns()),
        };
        Self { verb, block: fields.block().into() }
    }

    /// Returns whether the call names a drawn field of a dictionary.
    pub const fn names_field(&self) -> bool {
        matches!(self.verb, Verb::HashGet | Verb::HashMultiGet | Verb::HashDelete)
    }
}

const fn path(verb: Verb, several: bool) -> &'static str {
    match verb {
        Verb::Get if several => "/gannet.v1.Cache/GetBatch",
        Verb::Get => "/gannet.v1.Cache/Get",
        Verb::Set if several => "/gannet.v1.Cache/SetBatch",
        Verb::Add | Verb::Replace => "/gannet.v1.Cache/SetIf",
        Verb::Incr | Verb::Decr => "/gannet.v1.Cache/Increment",
        Verb::Delete => "/gannet.v1.Cache/Delete",
        Verb::Touch => "/gannet.v1.Cache/UpdateTtl",
        Verb::HashSet => "/gannet.v1.Cache/DictionarySet",
        Verb::HashGet | Verb::HashMultiGet => "/gannet.v1.Cache/DictionaryGet",
        Verb::HashGetAll => "/gannet.v1.Cache/DictionaryFetch",
        Verb::HashDelete => "/gannet.v1.Cache/DictionaryDelete",
        Verb::HashIncr | Verb::HashDecr => "/gannet.v1.Cache/DictionaryIncrement",
        Verb::Ping => "/grpc.health.v1.Health/Check",
        _ => "/gannet.v1.Cache/Set",
    }
}
