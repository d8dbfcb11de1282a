//! The state of a connection that is handed over to another process between two requests: the client's user,
//! transaction and subscriptions, received bytes that are not executed, and unsent replies.
//!
//! ```text
//!   a message with the heads of 32 connections ──> for each, the bytes of its input, output, queue and holdings (JSON)
//! ```

use arrayvec::ArrayVec;
use segment::{Expire, Namespace, Version};
use serde_json::{Value, json};

use crate::clients::auth::Auth;
use crate::clients::client_info::ClientText;
use crate::clients::endpoint::{Endpoint, Protocol};
use crate::push::outbox::ChannelKind;
use crate::resp::acl::Users;
use base::clock::UnixMillis;

/// The user that a client has authenticated as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HandoverUser {
    /// No user: the client has not authenticated.
    #[default]
    Anonymous,
    /// The user of the server's users file (`Auth`).
    OfFile,
    /// A user of the Redis access control list, with its name.
    Named(Vec<u8>),
}

/// The state of a connection, without its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverConnection {
    /// The connection's protocol, and the namespace of its listener.
    pub endpoint: Endpoint,
    /// The namespace that the connection currently uses.
    pub namespace: Namespace,
    /// True if the client has authenticated.
    pub known: bool,
    /// The user of the client.
    pub user: HandoverUser,
    /// True if the client uses version 3 of the Redis protocol.
    pub is_resp3: bool,
    /// True if the client has switched replies off (CLIENT REPLY OFF).
    pub wants_none: bool,
    /// True if the next reply must not be sent, because the client has called CLIENT REPLY SKIP.
    pub skips_next: bool,
    /// True if the client is on another host and protected mode refuses it.
    pub is_restricted: bool,
    /// The client's name, its library, the library's version, and its user, as in its client info.
    pub texts: [Vec<u8>; 4],
    /// Bytes that were received but not executed.
    pub input: Vec<u8>,
    /// Reply bytes that were not sent yet.
    pub output: Vec<u8>,
    /// The deadline of the blocking command at the beginning of `input`, if it has waited, in ms of the store's clock.
    pub waits_until: Option<u64>,
    /// The subscribed channels and patterns, each with the number of its
    /// [`ChannelKind`](crate::push::outbox::channels::ChannelKind).
    pub subscriptions: Vec<(u8, Vec<u8>)>,
    /// True if the connection is in MONITOR mode.
    pub monitors: bool,
    /// The tracking of keys, if the client caches values.
    pub tracking: Option<HandoverTracking>,
    /// The bits of the event kinds that a memcached client watches, as defined by [`crate::push::watch`].
    pub watches: u32,
    /// The transaction, if the client has called MULTI or WATCH.
    pub transaction: Option<HandoverTransaction>,
}

/// The tracking of keys by a client that caches values, without the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverTracking {
    /// The number of the choice of tracked reads.
    pub reads: u8,
    /// True if the client has called CLIENT CACHING for its next request.
    pub is_caching_given: bool,
    /// True if the client receives no invalidations because of its own changes.
    pub no_loop: bool,
    /// The prefixes of which the client receives all changes.
    pub prefixes: Vec<Vec<u8>>,
}

impl HandoverTracking {
    fn encode(&self) -> Value {
        json!([self.reads, self.is_caching_given, self.no_loop, self.prefixes])
    }

    fn decode(encoded: &Value) -> Option<Self> {
        Some(Self {
            reads: u8::try_from(encoded[0].as_u64()?).ok()?,
            is_caching_given: encoded[1].as_bool()?,
            no_loop: encoded[2].as_bool()?,
            prefixes: serde_json::from_value(encoded[3].clone()).ok()?,
        })
    }
}

/// A transaction before its EXEC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverTransaction {
    /// True if the client has called MULTI. If false, keys are only watched.
    pub is_queueing: bool,
    /// True if a queued request was refused, so that EXEC will abort.
    pub is_aborted: bool,
    /// The queued requests, as they were received.
    pub queue: Vec<u8>,
    /// The watched keys.
    pub watched: Vec<HandoverWatch>,
}

/// A watched key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoverWatch {
    /// The namespace of the key.
    pub namespace: Namespace,
    /// The key.
    pub key: Vec<u8>,
    /// The key's version when the client called WATCH. `None` if the key has changed since then.
    pub version: Option<Version>,
}

impl HandoverWatch {
    fn encode(&self) -> Value {
        let version = match self.version {
            None => json!("changed"),
            Some(Version::Absent(..)) => Value::Null,
            Some(Version::Item(token, Expire::Never)) => json!([token]),
            Some(Version::Item(token, Expire::At(end))) => json!([token, end.0]),
        };
        json!([self.namespace.0, self.key, version])
    }

    fn decode(encoded: &Value) -> Option<Self> {
        let version = match &encoded[2] {
            Value::Null => Some(Version::Absent(0, 0)),
            Value::Array(parts) => {
                let expire =
                    parts.get(1).map_or(Some(Expire::Never), |end| Some(Expire::At(UnixMillis(end.as_u64()?))));
                Some(Version::Item(parts.first()?.as_u64()?, expire?))
            }
            _ => None,
        };
        let key = serde_json::from_value(encoded[1].clone()).ok()?;
        Some(Self { namespace: namespace_of(&encoded[0])?, key, version })
    }
}

fn namespace_of(encoded: &Value) -> Option<Namespace> {
    let number = u8::try_from(encoded.as_u64()?).ok()?;
    (usize::from(number) < Namespace::MAX).then_some(Namespace(number))
}

/// The lengths in bytes of a connection's input, output, queued requests and holdings (subscriptions and transaction),
/// which follow the heads.
pub type Lengths = [usize; 4];

impl HandoverConnection {
    /// Creates the state of a new connection that was accepted at `endpoint`.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            namespace: endpoint.namespace,
            known: false,
            user: HandoverUser::Anonymous,
            is_resp3: false,
            wants_none: false,
            skips_next: false,
            is_restricted: false,
            texts: Default::default(),
            input: Vec::new(),
            output: Vec::new(),
            waits_until: None,
            subscriptions: Vec::new(),
            monitors: false,
            tracking: None,
            watches: 0,
            transaction: None,
        }
    }

    /// Returns the head as JSON, and the bytes that follow the heads.
    pub fn encode(&self) -> (Value, Vec<u8>) {
        let user = match &self.user {
            HandoverUser::Anonymous => Value::Null,
            HandoverUser::OfFile => json!(true),
            HandoverUser::Named(name) => json!(name),
        };
        let queue = self.transaction.as_ref().map_or(&[][..], |transaction| &transaction.queue);
        let holdings = self.holdings();
        let parts = [&self.input, &self.output, queue, &holdings];
        let head = json!({
            "resp": self.endpoint.protocol != Protocol::Memcache,
            "home": self.endpoint.namespace.0,
            "namespace": self.namespace.0,
            "known": self.known,
            "user": user,
            "speaks_3": self.is_resp3,
            "wants_none": self.wants_none,
            "skips_next": self.skips_next,
            "held_off": self.is_restricted,
            "texts": self.texts,
            "watches": self.watches,
            "waits_until": self.waits_until,
            "bytes": parts.map(<[u8]>::len),
        });
        (head, parts.concat())
    }

    /// Encodes the subscriptions and the transaction as JSON. Returns no bytes if the connection has neither and is not
    /// in MONITOR mode.
    fn holdings(&self) -> Vec<u8> {
        let has_none = self.subscriptions.is_empty() && !self.monitors && self.tracking.is_none();
        if has_none && self.transaction.is_none() {
            return Vec::new();
        }
        let transaction = self.transaction.as_ref().map(|transaction| {
            let watched: Vec<Value> = transaction.watched.iter().map(HandoverWatch::encode).collect();
            json!({"queueing": transaction.is_queueing, "spoilt": transaction.is_aborted, "watched": watched})
        });
        let holdings = json!({
            "subscriptions": self.subscriptions,
            "monitors": self.monitors,
            "tracking": self.tracking.as_ref().map(HandoverTracking::encode),
            "transaction": transaction,
        });
        holdings.to_string().into_bytes()
    }

    /// Decodes the bytes that follow the head. Returns `None` if they are malformed.
    pub fn decode_bytes(&mut self, bytes: &[u8], lengths: Lengths) -> Option<()> {
        let mut rest = bytes;
        let mut next = |length: usize| rest.split_off(..length);
        let [input, output, queue, holdings] = lengths;
        (self.input, self.output) = (next(input)?.to_vec(), next(output)?.to_vec());
        let (queue, holdings) = (next(queue)?, next(holdings)?);
        if holdings.is_empty() {
            return Some(());
        }
        let holdings: Value = serde_json::from_slice(holdings).ok()?;
        self.monitors = holdings["monitors"].as_bool()?;
        self.subscriptions = serde_json::from_value(holdings["subscriptions"].clone()).ok()?;
        let tracking = &holdings["tracking"];
        if !tracking.is_null() {
            self.tracking = Some(HandoverTracking::decode(tracking)?);
        }
        let is_kind = |(kind, _): &(u8, Vec<u8>)| usize::from(*kind) < ChannelKind::ALL.len();
        let transaction = &holdings["transaction"];
        if !transaction.is_null() {
            let watched =
                transaction["watched"].as_array()?.iter().map(HandoverWatch::decode).collect::<Option<_>>()?;
            self.transaction = Some(HandoverTransaction {
                is_queueing: transaction["queueing"].as_bool()?,
                is_aborted: transaction["spoilt"].as_bool()?,
                queue: queue.to_vec(),
                watched,
            });
        }
        self.subscriptions.iter().all(is_kind).then_some(())
    }

    /// Decodes a head. Returns the connection and the lengths of the bytes that follow. Returns `None` if the head is
    /// malformed.
    pub fn decode_head(head: &Value) -> Option<(Self, Lengths)> {
        let protocol = if head["resp"].as_bool()? { Protocol::Resp } else { Protocol::Memcache };
        let namespace = |name: &str| namespace_of(&head[name]);
        let user = match &head["user"] {
            Value::Null => HandoverUser::Anonymous,
            Value::Bool(true) => HandoverUser::OfFile,
            name => HandoverUser::Named(serde_json::from_value(name.clone()).ok()?),
        };
        let carried = Self {
            namespace: namespace("namespace")?,
            known: head["known"].as_bool()?,
            user,
            is_resp3: head["speaks_3"].as_bool()?,
            wants_none: head["wants_none"].as_bool()?,
            skips_next: head["skips_next"].as_bool()?,
            is_restricted: head["held_off"].as_bool()?,
            texts: serde_json::from_value(head["texts"].clone()).ok()?,
            watches: u32::try_from(head["watches"].as_u64()?).ok()?,
            waits_until: head["waits_until"].as_u64(),
            ..Self::new(Endpoint::new(protocol, namespace("home")?))
        };
        Some((carried, serde_json::from_value(head["bytes"].clone()).ok()?))
    }

    /// Returns true if the connection receives messages that are caused by other clients. The new process restores all
    /// such connections before it serves any request, so that no message is missed.
    pub fn listens(&self) -> bool {
        !self.subscriptions.is_empty() || self.monitors || self.watches != 0 || self.tracking.is_some()
    }

    /// Returns true if the client has no user, or if its user exists in this server.
    pub fn has_known_user(&self, auth: Option<&Auth>, users: &Users) -> bool {
        match &self.user {
            HandoverUser::Anonymous => true,
            HandoverUser::OfFile => auth.is_some(),
            HandoverUser::Named(name) => users.has(name),
        }
    }

    /// Returns the texts in the form in which client info stores them, truncated to its maximum length.
    pub fn client_texts(&self) -> [ClientText; 4] {
        self.texts.each_ref().map(|text| {
            text.iter().copied().take(crate::clients::client_info::CLIENT_TEXT_MAX).collect::<ArrayVec<_, _>>()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_state_round_trips() {
        let plain = HandoverConnection::new(Endpoint::new(Protocol::Memcache, Namespace(3)));
        let rich = HandoverConnection {
            namespace: Namespace(7),
            known: true,
            user: HandoverUser::Named(vec![0xFF, b'"', 0]),
            is_resp3: true,
            wants_none: true,
            skips_next: true,
            is_restricted: true,
            texts: [b"name".to_vec(), vec![200], Vec::new(), b"user".to_vec()],
            ..HandoverConnection::new(Protocol::Resp.into())
        };
        let watch = |version| HandoverWatch { namespace: Namespace(2), key: vec![0, 255], version };
        let ends = Expire::At(UnixMillis(1_900_000_000_123));
        let versions = [None, Some(Version::Absent(0, 0)), Some(Version::Item(u64::MAX, Expire::Never))];
        let versions = versions.into_iter().chain([Some(Version::Item(7, ends))]);
        let holding = HandoverConnection {
            input: b"in".to_vec(),
            output: vec![255; 3],
            subscriptions: vec![(0, b"news".to_vec()), (1, b"*\xFF".to_vec()), (2, Vec::new())],
            monitors: true,
            tracking: Some(HandoverTracking {
                reads: 3,
                is_caching_given: true,
                no_loop: true,
                prefixes: vec![vec![0, 255], Vec::new()],
            }),
            watches: 0x101,
            transaction: Some(HandoverTransaction {
                is_queueing: true,
                is_aborted: true,
                queue: b"*1\r\n$4\r\nPING\r\n".to_vec(),
                watched: versions.map(watch).collect(),
            }),
            ..plain.clone()
        };
        for carried in [plain.clone(), rich, holding, HandoverConnection { user: HandoverUser::OfFile, ..plain }] {
            let (head, bytes) = carried.encode();
            let text = serde_json::to_vec(&head).expect("text");
            let head: Value = serde_json::from_slice(&text).expect("the same");
            let (mut again, lengths) = HandoverConnection::decode_head(&head).expect("it is understood");
            again.decode_bytes(&bytes, lengths).expect("they are understood");
            assert_eq!(again, carried);
            assert_eq!(
                again.decode_bytes(&bytes[..bytes.len().saturating_sub(1)], [0, 0, 0, bytes.len().max(1)]),
                None
            );
        }
        assert_eq!(HandoverConnection::decode_head(&json!({"resp": true, "home": 200})), None);
        assert_eq!(HandoverConnection::decode_head(&json!([])), None);
    }
}
