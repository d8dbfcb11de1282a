//! What is carried over of a connection: little, since only those move that are between two requests.

use std::sync::Arc;

use arrayvec::ArrayVec;
use serde_json::{Value, json};

use crate::card::ClientText;
use crate::command::{Door, Protocol};
use crate::shared::Shared;
use segment::Namespace;

/// Who a client said that it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CarriedUser {
    /// It has not said.
    #[default]
    Nobody,
    /// One of the file of users.
    OfFile,
    /// A user with rights.
    Named(Vec<u8>),
}

/// A connection without its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// What it speaks, and the namespace of its listener.
    pub door: Door,
    /// The namespace that it is in.
    pub namespace: Namespace,
    /// Its client has said who it is.
    pub known: bool,
    /// Who that is, of a client of Redis.
    pub user: CarriedUser,
    /// It speaks version 3 of the protocol of Redis.
    pub speaks_3: bool,
    /// It wants no answers.
    pub wants_none: bool,
    /// It is on another host and could be anyone.
    pub held_off: bool,
    /// The name that it gave itself, its library, the version of that, its user: as its card has them.
    pub texts: [Vec<u8>; 4],
    /// Bytes that were received and are no whole request.
    pub input: Vec<u8>,
}

impl Carried {
    /// One of which nothing is known but where it came in.
    pub(crate) fn new(door: Door) -> Self {
        Self {
            door,
            namespace: door.namespace,
            known: false,
            user: CarriedUser::Nobody,
            speaks_3: false,
            wants_none: false,
            held_off: false,
            texts: Default::default(),
            input: Vec::new(),
        }
    }

    /// All but the input, of which only the length is told.
    pub(super) fn told(&self) -> Value {
        let user = match &self.user {
            CarriedUser::Nobody => Value::Null,
            CarriedUser::OfFile => json!(true),
            CarriedUser::Named(name) => json!(name),
        };
        json!({
            "resp": self.door.protocol == Protocol::Resp,
            "home": self.door.namespace.0,
            "namespace": self.namespace.0,
            "known": self.known,
            "user": user,
            "speaks_3": self.speaks_3,
            "wants_none": self.wants_none,
            "held_off": self.held_off,
            "texts": self.texts,
            "input": self.input.len(),
        })
    }

    /// What was told, and how long its input is.
    pub(super) fn of(told: &Value) -> Option<(Self, usize)> {
        let protocol = if told["resp"].as_bool()? { Protocol::Resp } else { Protocol::Memcache };
        let namespace = |name: &str| {
            let number = u8::try_from(told[name].as_u64()?).ok()?;
            (usize::from(number) < Namespace::MAX).then_some(Namespace(number))
        };
        let user = match &told["user"] {
            Value::Null => CarriedUser::Nobody,
            Value::Bool(true) => CarriedUser::OfFile,
            name => CarriedUser::Named(serde_json::from_value(name.clone()).ok()?),
        };
        let carried = Self {
            namespace: namespace("namespace")?,
            known: told["known"].as_bool()?,
            user,
            speaks_3: told["speaks_3"].as_bool()?,
            wants_none: told["wants_none"].as_bool()?,
            held_off: told["held_off"].as_bool()?,
            texts: serde_json::from_value(told["texts"].clone()).ok()?,
            ..Self::new(Door::new(protocol, namespace("home")?))
        };
        Some((carried, told["input"].as_u64()? as usize))
    }

    /// Its user is one that this server knows too, if it has one.
    pub(crate) fn is_welcome(&self, shared: &Shared) -> bool {
        match &self.user {
            CarriedUser::Nobody => true,
            CarriedUser::OfFile => shared.auth.is_some(),
            CarriedUser::Named(name) => shared.users.has(name),
        }
    }

    /// Its texts, as a card has them.
    pub(crate) fn card_texts(&self) -> [ClientText; 4] {
        self.texts
            .each_ref()
            .map(|text| text.iter().copied().take(crate::card::CLIENT_TEXT_MAX).collect::<ArrayVec<_, _>>())
    }
}

/// A connection on its way to a worker.
#[derive(Debug)]
pub struct Arrival<S> {
    /// Its socket.
    pub stream: S,
    /// Where it came in.
    pub door: Door,
    /// What another worker or process left of it.
    pub carried: Option<Arc<Carried>>,
}

impl<S> From<(S, Door)> for Arrival<S> {
    fn from((stream, door): (S, Door)) -> Self {
        Self { stream, door, carried: None }
    }
}

/// A connection that has left its worker.
#[derive(Debug)]
pub struct Moved<S> {
    /// Its socket, open, of no reactor.
    pub stream: S,
    /// What its worker left of it.
    pub carried: Arc<Carried>,
}

/// Bytes that came before a connection moved, to be received before those of its socket.
#[derive(Debug)]
pub(crate) struct Early {
    carried: Arc<Carried>,
    taken: usize,
}

impl Early {
    /// The input of a carried connection; `None`: there is none.
    pub(crate) fn of(carried: &Arc<Carried>) -> Option<Box<Self>> {
        (!carried.input.is_empty()).then(|| Box::new(Self { carried: Arc::clone(carried), taken: 0 }))
    }

    /// What is not taken.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.carried.input[self.taken..]
    }

    /// Moves what fits into `into`; says how many bytes that was.
    pub(crate) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = self.rest().len().min(into.len());
        into[..count].copy_from_slice(&self.rest()[..count]);
        self.taken += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_connection_is_what_it_was() {
        let plain = Carried::new(Door::new(Protocol::Memcache, Namespace(3)));
        let rich = Carried {
            namespace: Namespace(7),
            known: true,
            user: CarriedUser::Named(vec![0xFF, b'"', 0]),
            speaks_3: true,
            wants_none: true,
            held_off: true,
            texts: [b"name".to_vec(), vec![200], Vec::new(), b"user".to_vec()],
            ..Carried::new(Protocol::Resp.into())
        };
        for carried in [plain.clone(), rich, Carried { user: CarriedUser::OfFile, ..plain }] {
            let text = serde_json::to_vec(&carried.told()).expect("text");
            let told: Value = serde_json::from_slice(&text).expect("the same");
            assert_eq!(Carried::of(&told), Some((carried, 0)));
        }
        assert_eq!(Carried::of(&json!({"resp": true, "home": 200})), None);
        assert_eq!(Carried::of(&json!([])), None);
    }

    #[test]
    fn early_bytes_are_taken_once_and_in_order() {
        let carried = Carried { input: b"abcde".to_vec(), ..Carried::new(Protocol::Resp.into()) };
        let mut early = Early::of(&Arc::new(carried)).expect("there are some");
        let mut room = [0; 3];
        assert_eq!((early.take(&mut room), room), (3, *b"abc"));
        assert_eq!((early.take(&mut room), &room[..2], early.rest().len()), (2, &b"de"[..], 0));
    }
}
