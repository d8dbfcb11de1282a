//! The plan of a call: the Redis commands that it executes, and the message that it makes of their replies.
//!
//! ```text
//!   CallPlan { commands, next }
//!     commands ── executed ──> replies ──> next(replies) ──┬─> Flow::Execute: further commands
//!         ^                                                │
//!         └────────────────────────────────────────────────┤
//!                                                          └─> Flow::Reply: the messages of the call's reply
//! ```
//!
//! A call therefore has the rights, limits, events and metrics of its commands, on the same items. A call that must not
//! be interrupted executes its commands in a transaction ([`CallPlan::transaction`]). A call that decides by what it
//! reads watches the key, and starts over if another client changes it meanwhile ([`CallPlan::watched`]).
//!
//! A transaction of a call ends at its first error: the commands after it are not executed. A call that fails therefore
//! leaves no later step, and the first step of a change is the one that may be refused.

use super::graph_errors::graph_error;
use super::item_replies::{ItemForm, ItemReply};
use crate::push::topics::TopicPosition;
use protocol::grpc::protobuf::{DecodeError, Encoder};
use protocol::grpc::{MessageError, Status, message_prefix};
use protocol::number::Decimal;
use protocol::resp::client::Value;
use segment::Namespace;
use std::sync::Arc;

/// The maximum number of times that a call starts over because other clients change its key.
const TRIES_MAX: usize = 1_000;

/// The maximum number of bytes beside a word in a request: its length and the ends of two lines.
const WORD_BYTES: usize = 25;

/// The name of the limit of a request's size in the metadata `err`.
const REQUEST_SIZE_LIMIT: &str = "request_size_limit_exceeded";

/// The most room for further commands that a buffer gets, in bytes.
const SLACK_BYTES_MAX: usize = 64 << 10;

/// The error of a call.
#[derive(Debug)]
pub(super) struct CallError {
    pub(super) status: Status,
    pub(super) text: String,
    /// A field of metadata that goes with the error: the limit that was exceeded, in `err`, or what the server accepts.
    pub(super) metadata: Option<(&'static str, &'static str)>,
}

impl CallError {
    pub(super) fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), metadata: None }
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, text)
    }

    /// Returns the error of a call that needs a token.
    pub(super) fn no_token() -> Self {
        Self::new(Status::Unauthenticated, "the call has no token, but the server requires one")
    }

    /// Returns the error of a call with several messages whose method takes one. Its status is that of gRPC's table of
    /// status codes for a wrong number of messages.
    pub(super) fn second_message() -> Self {
        Self::new(Status::Unimplemented, "the call has more than one request message; send one")
    }

    /// Returns the error of a call without a message. See [`CallError::second_message`].
    pub(super) fn no_message() -> Self {
        Self::new(Status::Unimplemented, "the call has no request message; send one")
    }

    /// Returns the error with the limit that was exceeded, by which published clients explain it.
    pub(super) fn beyond(self, limit: &'static str) -> Self {
        Self { metadata: Some(("err", limit)), ..self }
    }

    /// Returns the error of a call whose messages have an encoding that is not one of `encodings`.
    pub(super) fn accepting(self, encodings: &'static str) -> Self {
        Self { metadata: Some(("grpc-accept-encoding", encodings)), ..self }
    }

    /// Returns the error of a call in a cache that does not exist.
    pub(super) fn no_cache(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Self::new(Status::NotFound, format!("the cache {name} does not exist; create it first"))
    }

    /// Returns the error of a stream of events to which the user has no right.
    pub(super) fn stream_denied() -> Self {
        Self::new(Status::PermissionDenied, "the user may not subscribe to this topic or these keys")
    }

    /// Returns the error of a call whose namespace admits no more connections.
    pub(super) fn namespace_full() -> Self {
        let text = "the cache has its maximum number of connections (maxconns of its namespace)";
        Self::new(Status::ResourceExhausted, text)
    }

    /// Returns the error of a call whose commands ended without a reply.
    pub(super) fn not_executed() -> Self {
        Self::new(Status::Internal, "the commands of the call were not executed")
    }

    /// Returns the error of a command whose reply is of a type that it never has.
    pub(super) fn unexpected() -> Self {
        Self::new(Status::Internal, "a command replied with another type than expected")
    }
}

impl From<DecodeError> for CallError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Malformed { .. } => Self::invalid(error.to_string()),
            DecodeError::TooManyFields { .. } => {
                Self::new(Status::ResourceExhausted, error.to_string()).beyond(REQUEST_SIZE_LIMIT)
            }
        }
    }
}

/// Redis commands, as their client sends them.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    pub(super) request: Vec<u8>,
    /// The number of commands, which is the number of their replies.
    pub(super) count: usize,
    /// The length of the first commands if the others must not be executed when one of them fails; otherwise 0.
    pub(super) opening_bytes: usize,
}

impl Commands {
    pub(super) fn one(words: &[&[u8]]) -> Self {
        let mut commands = Self::default();
        commands.add(words);
        commands
    }

    /// Adds a command with its words.
    pub(super) fn add(&mut self, words: &[&[u8]]) {
        self.add_words(words, std::iter::empty());
    }

    /// Adds a command with its first words and `more` words.
    pub(super) fn add_words<'w>(&mut self, words: &[&'w [u8]], more: impl Iterator<Item = &'w [u8]> + Clone) {
        let count = words.len() + more.clone().count();
        let bytes: usize = words.iter().copied().chain(more.clone()).map(|word| word.len() + WORD_BYTES).sum();
        self.reserve(bytes + WORD_BYTES);
        add_command(&mut self.request, count, words.iter().copied().chain(more));
        self.count += 1;
    }

    /// Adds a command with the words that `write` adds.
    pub(super) fn add_written<E>(&mut self, write: impl FnOnce(&mut CommandWriter) -> Result<(), E>) -> Result<(), E> {
        let mut writer = CommandWriter::default();
        write(&mut writer)?;
        self.reserve(writer.words.len() + WORD_BYTES);
        add_number(&mut self.request, b'*', writer.count);
        self.request.extend_from_slice(&writer.words);
        self.count += 1;
        Ok(())
    }

    /// Makes room for `bytes` further bytes: no more than these if they are many, because all room counts as client
    /// memory, and more if they are few, so that thousands of commands do not move the buffer each.
    fn reserve(&mut self, bytes: usize) {
        if self.request.capacity() - self.request.len() < bytes {
            self.request.reserve_exact(bytes.max(self.request.len().min(SLACK_BYTES_MAX)));
        }
    }

    /// Returns the commands in a transaction. If it cannot begin, none of them is executed.
    fn in_transaction(&self) -> Self {
        let mut all = Self::one(&[b"MULTI"]);
        all.opening_bytes = all.request.len();
        all.append(self);
        all.add(&[b"EXEC"]);
        all
    }

    /// Adds all commands of `other`.
    pub(super) fn append(&mut self, other: &Self) {
        self.request.extend_from_slice(&other.request);
        self.count += other.count;
    }
}

/// Appends a command of `count` words.
pub(super) fn add_command<'w>(request: &mut Vec<u8>, count: usize, words: impl Iterator<Item = &'w [u8]>) {
    add_number(request, b'*', count);
    words.for_each(|word| add_word(request, word));
}

fn add_word(request: &mut Vec<u8>, word: &[u8]) {
    add_number(request, b'$', word.len());
    request.extend_from_slice(word);
    request.extend_from_slice(b"\r\n");
}

/// The words of a command whose number is not known before. It stores them in one piece.
#[derive(Debug, Default)]
pub(super) struct CommandWriter {
    words: Vec<u8>,
    count: usize,
}

impl CommandWriter {
    /// Adds a word.
    pub(super) fn word(&mut self, word: &[u8]) -> &mut Self {
        add_word(&mut self.words, word);
        self.count += 1;
        self
    }

    /// Adds a number.
    pub(super) fn number(&mut self, number: u64) -> &mut Self {
        self.word(Decimal::new(number).as_slice())
    }

    /// Adds an option and its value, unless that is 0.
    pub(super) fn option(&mut self, name: &str, number: u64) -> &mut Self {
        if number == 0 { self } else { self.word(name.as_bytes()).number(number) }
    }
}

fn add_number(request: &mut Vec<u8>, kind: u8, number: usize) {
    request.push(kind);
    request.extend_from_slice(Decimal::new(number as u64).as_slice());
    request.extend_from_slice(b"\r\n");
}

/// The next step of a call after the replies of its commands.
pub(super) enum Flow {
    /// The call executes these commands.
    Execute(Commands),
    /// The call is done. The messages, each with its prefix, are its reply.
    Reply(Vec<u8>),
    /// The call continues with its user, which is authenticated now.
    WithCaller(Box<dyn FnOnce(Caller) -> Next + Send>),
    /// The call continues if its user may delete all items of a namespace; `None` for one that does not exist.
    IfMayFlush(Option<Namespace>, Box<dyn FnOnce() -> Next + Send>),
    /// The call fails because the cache of this name does not exist, if its user may learn that.
    MissingCache(Arc<[u8]>),
    /// The call begins a stream of events. The messages are its first ones.
    Subscribe(StreamRequest, Vec<u8>),
}

/// The result of a step.
pub(super) type Next = Result<Flow, CallError>;

/// The function that continues a call with the replies of its commands.
type Continue = Box<dyn FnMut(&[Value<'_>]) -> Next + Send>;

/// A request for a subscription.
#[derive(Clone, Debug)]
pub(super) struct TopicRequest {
    /// The cache that the request names; `None` if it names none.
    pub(super) cache: Option<Arc<[u8]>>,
    pub(super) topic: Arc<[u8]>,
    /// The position from which the client continues.
    pub(super) from: TopicPosition,
    /// True if heartbeats name the position of the next message.
    pub(super) has_positions: bool,
}

/// The events for which a call subscribes.
#[derive(Clone, Debug)]
pub(super) enum StreamRequest {
    /// The messages of a topic.
    Topic(TopicRequest),
    /// The changes of keys with these prefixes, none of which is a prefix of another one.
    Keys {
        /// The cache that the header fields name; `None` if they name none.
        cache: Option<Arc<[u8]>>,
        prefixes: Vec<Box<[u8]>>,
    },
    /// The server's health.
    Health,
}

impl StreamRequest {
    /// Returns the request with the cache that its header fields name, unless its message names one.
    pub(super) fn within(mut self, cache: Option<Arc<[u8]>>) -> Self {
        if let Self::Topic(TopicRequest { cache: own, .. }) | Self::Keys { cache: own, .. } = &mut self {
            *own = own.take().or(cache.filter(|cache| !cache.is_empty()));
        }
        self
    }
}

/// The user of a call that issues tokens.
#[derive(Debug)]
pub(super) struct Caller {
    /// The name of the user, if that has all rights. That of a token's user is its issuer's. An error if the client
    /// must authenticate.
    pub(super) unrestricted: Result<Option<Vec<u8>>, CallError>,
    pub(super) now_secs: u64,
}

/// The kinds of access that a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// None.
    Free,
    /// It reads items.
    Read,
    /// It changes items, and its reply does not depend on them.
    Write,
    /// It changes items, and its effect or reply depends on them.
    Change,
    /// It creates and deletes caches, or issues tokens.
    Control,
    /// It publishes messages.
    Publish,
    /// It receives messages.
    Subscribe,
}

/// A property of the message that a call publishes with the command `PUBLISH`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Publication {
    /// True if the client calls the message a text.
    pub(super) is_text: bool,
}

/// A call that is decoded and not complete.
pub(super) struct CallPlan {
    pub(super) commands: Commands,
    pub(super) next: Continue,
    /// The namespace of the commands, if it is not the cache that the request's headers name.
    pub(super) namespace: Option<Namespace>,
    /// The memory that `next` holds, in bytes: commands that wait for a condition.
    pub(super) held_bytes: u64,
    /// True if the call may end while the session watches its key.
    pub(super) watches: bool,
    /// True if the stream stays open after the messages of the reply, until the client ends it.
    pub(super) stays_open: bool,
    /// True if the replies must tell the types of values: the commands are executed in version 3 of the protocol.
    pub(super) has_types: bool,
    /// True if `next` gets error replies too. Otherwise the first of them is the error of the call.
    pub(super) takes_errors: bool,
    /// The message that the commands publish, if they publish one.
    pub(super) publication: Option<Publication>,
    /// The reply of the only command, if it is encoded as it arrives.
    pub(super) items: Option<ItemReply>,
    /// The name of the call's cache, if that does not exist.
    pub(super) missing_cache: Option<Arc<[u8]>>,
}

impl CallPlan {
    /// Creates the plan of a call that executes commands one after another. `next` gets a reply for each.
    pub(super) fn new(commands: Commands, next: impl FnMut(&[Value<'_>]) -> Next + Send + 'static) -> Self {
        Self {
            commands,
            next: Box::new(next),
            namespace: None,
            held_bytes: 0,
            watches: false,
            stays_open: false,
            has_types: false,
            takes_errors: false,
            publication: None,
            items: None,
            missing_cache: None,
        }
    }

    /// Creates the plan of a call in a cache that does not exist. The command needs no right, but a client that must
    /// authenticate may not execute it.
    pub(super) fn missing_cache(name: &[u8]) -> Self {
        let name: Arc<[u8]> = name.into();
        let missing = Arc::clone(&name);
        let plan = Self::one(&[b"UNWATCH"], move |_| Ok(Flow::MissingCache(Arc::clone(&missing))));
        Self { missing_cache: Some(name), ..plan }
    }

    /// Returns the plan with another namespace for its commands.
    pub(super) fn within(self, namespace: Namespace) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// Returns the plan of a call whose replies tell the types of values.
    pub(super) fn with_types(self) -> Self {
        Self { has_types: true, ..self }
    }

    /// Returns the plan of a call that replies although some of its commands fail.
    pub(super) fn taking_errors(self) -> Self {
        Self { takes_errors: true, ..self }
    }

    /// Returns the plan of a call that publishes a message.
    pub(super) fn publishing(self, publication: Publication) -> Self {
        Self { publication: Some(publication), ..self }
    }

    /// Returns the plan of a call whose stream stays open.
    pub(super) fn staying_open(self) -> Self {
        Self { stays_open: true, ..self }
    }

    /// Returns the plan with the memory that its functions hold.
    pub(super) fn holding(self, bytes: usize) -> Self {
        Self { held_bytes: bytes as u64, ..self }
    }

    /// Creates the plan of a call that executes one command.
    pub(super) fn one(words: &[&[u8]], mut next: impl FnMut(Value<'_>) -> Next + Send + 'static) -> Self {
        Self::new(Commands::one(words), move |replies| next(replies[0]))
    }

    /// Creates the plan of a call that executes one command, and replies with the items of its array.
    pub(super) fn items(words: &[&[u8]], form: ItemForm) -> Self {
        let plan = Self::new(Commands::one(words), |_| Err(CallError::unexpected()));
        Self { items: Some(ItemReply::new(form)), ..plan }
    }

    /// Creates the plan of a call that executes commands in a transaction. `next` gets a reply for each.
    pub(super) fn transaction(
        commands: &Commands,
        mut next: impl FnMut(&[Value<'_>]) -> Next + Send + 'static,
    ) -> Self {
        Self::new(commands.in_transaction(), move |replies| next(&results(replies).ok_or_else(CallError::unexpected)?))
    }

    /// Creates the plan of a call that executes `probe`, decides by its replies, and executes what was decided unless
    /// `key` has changed since. `decide` returns the reply, or the commands of the transaction; `next` gets their
    /// replies.
    pub(super) fn watched(
        key: &[u8],
        probe: &Commands,
        mut decide: impl FnMut(&[Value<'_>]) -> Next + Send + 'static,
        mut next: impl FnMut(&[Value<'_>]) -> Next + Send + 'static,
    ) -> Self {
        let mut first = Commands::one(&[b"WATCH", key]);
        first.append(probe);
        let again = first.clone();
        let (mut is_probed, mut tries) = (true, 0);
        let plan = Self::new(first, move |replies| {
            if std::mem::take(&mut is_probed) {
                return match decide(&replies[1..])? {
                    Flow::Execute(commands) => Ok(Flow::Execute(commands.in_transaction())),
                    reply => Ok(reply),
                };
            }
            if let Some(results) = results(replies) {
                return next(&results);
            }
            (is_probed, tries) = (true, tries + 1);
            if tries == TRIES_MAX {
                return Err(CallError::new(Status::Aborted, "other clients change the key all the time; call again"));
            }
            Ok(Flow::Execute(again.clone()))
        });
        Self { watches: true, ..plan }
    }
}

/// Returns the replies of a transaction; `None` if it was not executed, because a watched key had changed.
fn results<'b>(replies: &[Value<'b>]) -> Option<Vec<Value<'b>>> {
    match replies.last() {
        Some(Value::Array(items)) => Some(items.collect()),
        _ => None,
    }
}

/// Returns the reply of a call with one message.
pub(super) fn reply(write: impl FnOnce(&mut Encoder)) -> Next {
    let mut messages = Vec::new();
    add_message(&mut messages, write);
    Ok(Flow::Reply(messages))
}

/// Appends a message with its prefix.
pub(super) fn add_message(messages: &mut Vec<u8>, write: impl FnOnce(&mut Encoder)) {
    let mut encoder = Encoder::new();
    write(&mut encoder);
    let message = encoder.as_slice();
    messages.extend_from_slice(&message_prefix(message.len() as u32));
    messages.extend_from_slice(message);
}

/// Returns the error of a call whose request is not one message.
pub(super) fn message_error(error: MessageError) -> CallError {
    match error {
        MessageError::TooLong => {
            let error =
                CallError::new(Status::ResourceExhausted, "the message is longer than 10 MiB; send less in one call");
            error.beyond(REQUEST_SIZE_LIMIT)
        }
        MessageError::Flag => CallError::new(Status::Internal, "the prefix of the message is malformed"),
        MessageError::Truncated => CallError::new(Status::Internal, "the request ended within its message"),
    }
}

/// Returns the error of a request whose fields take too long to decode.
pub(super) fn too_many_steps() -> CallError {
    let text = "the message has too many fields for this call; send less in one call";
    CallError::new(Status::ResourceExhausted, text).beyond(REQUEST_SIZE_LIMIT)
}

/// Returns the error of a call for which client memory is used up.
pub(super) fn no_memory() -> CallError {
    CallError::new(Status::ResourceExhausted, "client memory is used up (limits.client_memory); call again later")
}

/// Returns the integer of a reply.
pub(super) fn integer(value: Value<'_>) -> Result<i64, CallError> {
    match value {
        Value::Int(number) => Ok(number),
        _ => Err(CallError::unexpected()),
    }
}

/// The starts of error replies to arguments that have no meaning.
const INVALID: [&[u8]; 7] = [
    b"ERR increment",
    b"ERR invalid filter",
    b"ERR syntax",
    b"ERR invalid cursor",
    b"ERR wrong number",
    b"ERR value is out of range",
    b"ERR the name of a record set",
];

/// The start of the error reply to an increment that subtracts infinity from infinity.
const NOT_A_NUMBER: &[u8] = b"ERR resulting score is not a number";

/// The start of an error reply about a limit, the name by which Momento's clients know the limit, and a text with that
/// name. Some clients look for it in the text alone.
const LIMITS: [(&[u8], &str, &str); 6] = [
    (
        b"ERR the request is too long",
        REQUEST_SIZE_LIMIT,
        "request limit exceeded: the message is too long for this call; send less at once",
    ),
    (
        b"ERR string exceeds",
        "item_size_limit_exceeded",
        "item size limit exceeded: the key or the value is longer than an item may be (store.item_max)",
    ),
    (
        b"ERR an element would be longer",
        "element_size_limit_exceeded",
        "element size limit exceeded: an element is longer than an item may be (store.item_max)",
    ),
    (
        b"ERR a field with its value would be longer",
        "element_size_limit_exceeded",
        "element size limit exceeded: a field with its value is longer than an item may be (store.item_max)",
    ),
    (
        b"ERR too many operations",
        "operations_rate_limit_exceeded",
        "operations rate limit exceeded: the cache has used up its operations (ops_max of its namespace); call later",
    ),
    (
        b"ERR too many requests a second",
        "operations_rate_limit_exceeded",
        "operations rate limit exceeded: the user has used up its operations (rule ops= of its user); call later",
    ),
];

/// Returns the error of a call for the error reply of a command.
pub(super) fn error_of(reply: &[u8]) -> CallError {
    let code = reply.split(|byte| *byte == b' ').next().unwrap_or_default();
    if let Some((_, limit, text)) = LIMITS.iter().find(|(start, ..)| reply.starts_with(start)) {
        return CallError::new(Status::ResourceExhausted, *text).beyond(limit);
    }
    if let Some((status, text)) = graph_error(reply) {
        return CallError::new(status, text);
    }
    if reply.starts_with(NOT_A_NUMBER) {
        let text = "the score and the amount are infinite with opposite signs, so that their sum is not a number; give \
                    a finite amount, or put the score";
        return CallError::invalid(text);
    }
    let status = match code {
        b"WRONGTYPE" | b"RECORDSET" | b"FILTERED" | b"BINTYPE" | b"NOINDEX" => Status::FailedPrecondition,
        b"NOTFOUND" => Status::NotFound,
        b"EXISTS" => Status::AlreadyExists,
        b"REVISION" => Status::Aborted,
        b"BINRANGE" => Status::OutOfRange,
        b"BINVALUE" | b"BINNAME" => Status::InvalidArgument,
        b"OOM" | b"INDEXFULL" => Status::ResourceExhausted,
        b"NOAUTH" => return CallError::no_token(),
        b"WRONGPASS" => Status::Unauthenticated,
        b"NOPERM" => Status::PermissionDenied,
        b"BUSY" | b"LOADING" | b"DENIED" | b"BUILDING" => Status::Unavailable,
        _ if reply.starts_with(b"ERR value is not") || reply.starts_with(b"ERR hash value is not") => {
            Status::FailedPrecondition
        }
        _ if INVALID.iter().any(|start| reply.starts_with(start)) => Status::InvalidArgument,
        _ => Status::Unknown,
    };
    CallError::new(status, String::from_utf8_lossy(reply))
}
