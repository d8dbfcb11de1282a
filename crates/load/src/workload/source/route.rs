//! The route of a request: all properties of a command that are the same for each request.

use protocol::memcache::client::Expect;
use protocol::memcache::request::StoreMode;

use super::super::graph::GraphQuery;
use super::super::model::{KeyCommand, KeySpace, Protocol, Verb, Workload};
use super::call::GrpcCall;
use super::graph::{GraphRequest, GraphRoute};
use super::template::Template;

/// One kind of request, prepared for drawing.
#[derive(Clone, Debug)]
pub struct Route {
    /// Index of the key space; 0 if no key is needed.
    pub space: usize,
    /// Index of the name under which replies are recorded.
    pub name: u8,
    /// Number of keys in one request.
    pub keys: u32,
    /// Number of fields that a hash verb names; 0 for all.
    pub fields: u32,
    /// Amount by which a RESP counter changes.
    pub delta: u64,
    /// The form of the request.
    pub wire: RequestForm,
    /// The expected kind of reply in memcached's protocols.
    pub expect: Expect,
    /// True if a missing key is stored.
    pub fills: bool,
    /// True if the key's whole value is stored; an order with new keys then uses a new key.
    pub stores: bool,
    /// Route of the change that follows a read: a store with the token, or a change of a hash.
    pub swap: Option<usize>,
    /// True if the change follows whether or not the key exists, without a token.
    pub swaps_always: bool,
}

/// The form of a request.
#[derive(Clone, Debug)]
pub enum RequestForm {
    /// `get` and `gets`.
    Get {
        /// True to request the CAS token.
        cas: bool,
    },
    /// `set` and similar commands; with `compare` it is `cas`.
    Store {
        /// Condition on an existing item.
        mode: StoreMode,
        /// True to send the token that was read.
        compare: bool,
    },
    /// `incr` and `decr`.
    Arith {
        /// Amount of the change.
        delta: u64,
        /// True for a decrement.
        decrement: bool,
    },
    /// `delete`.
    Delete,
    /// `touch`.
    Touch,
    /// `mg` with flags.
    MetaGet(Flags),
    /// Several `mg`, followed by `mn`.
    MetaMany(Flags),
    /// `ms` with flags.
    MetaStore {
        /// The flags in addition to the time to live.
        flags: Flags,
        /// True to send the token that was read.
        compare: bool,
    },
    /// `md` with flags.
    MetaDelete(Flags),
    /// `ma` with flags.
    MetaArith(Flags),
    /// `mg` that sets a new time to live.
    MetaTouch,
    /// A raw line.
    Line(Template),
    /// memcached's first command on a connection with a user.
    Authenticate,
    /// A RESP command, by its verb.
    Resp(Verb),
    /// A raw RESP command, word by word.
    RespWords(Vec<Template>),
    /// `AUTH`.
    RespAuth,
    /// `HELLO 3`, with user, password and name.
    RespHello,
    /// `CLIENT SETNAME`.
    RespName,
    /// `SELECT`.
    RespSelect,
    /// An inline `PING`.
    Ping,
    /// A gRPC call.
    Grpc(GrpcCall),
    /// A command of the graph store.
    Graph(Box<GraphRoute>),
}

impl Route {
    /// Returns whether the route adds edges beside the queries of a graph.
    pub fn is_write_beside(&self) -> bool {
        matches!(&self.wire, RequestForm::Graph(graph) if graph.is_write())
    }

    /// Returns whether the reply of a gRPC call is a stream of one message for each key.
    pub const fn is_stream(&self) -> bool {
        self.keys > 1
    }
}

/// Flags of a meta command: letters with their tokens.
pub type Flags = Vec<(u8, Box<[u8]>)>;

fn flags(text: &str) -> Flags {
    text.split_ascii_whitespace().map(|flag| (flag.as_bytes()[0], flag.as_bytes()[1..].into())).collect()
}

/// Returns the kind of reply to a raw memcached line, by its first words. Returns `None` if no line marks the end of
/// the reply.
pub fn expect_of(line: &str) -> Option<Expect> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let second = words.next();
    if line.split_ascii_whitespace().any(|word| word == "noreply") {
        return None;
    }
    Some(match first {
        "get" | "gets" | "gat" | "gats" => Expect::Values,
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => Expect::Store,
        "delete" => Expect::Delete,
        "incr" | "decr" => Expect::Arith,
        "touch" => Expect::Touch,
        "flush_all" | "verbosity" | "cache_memlimit" => Expect::Ok,
        "version" => Expect::Version,
        "stats" => Expect::Stats,
        "mg" | "ms" | "md" | "ma" if !line.split_ascii_whitespace().any(|word| word == "q") => Expect::Meta,
        "me" => Expect::MetaDebug,
        "lru_crawler" if second == Some("metadump") => Expect::Metadump,
        "lru_crawler" if second == Some("mgdump") => Expect::Mgdump,
        _ => return None,
    })
}

/// The names under which replies are recorded, without duplicates.
#[derive(Debug, Default)]
pub struct AnswerNames(pub Vec<String>);

impl AnswerNames {
    fn number(&mut self, name: &str) -> u8 {
        let at = self.0.iter().position(|known| known == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        u8::try_from(at).expect("a workload has at most 48 commands")
    }
}

/// All routes of a workload.
#[derive(Debug)]
pub struct Routes {
    /// The commands of all spaces in order, followed by the routes of follow-ups and greetings.
    pub all: Vec<Route>,
    /// The weights of the workload's commands.
    pub weights: Vec<f64>,
    /// For each space, the route that stores a missed key.
    pub fill: Vec<usize>,
    /// Routes of the requests that a new connection sends first, in order.
    pub greet: Vec<usize>,
    /// The names under which replies are recorded.
    pub names: AnswerNames,
}

impl Routes {
    /// Creates the routes of `workload`, which must have been validated.
    pub fn new(workload: &Workload) -> Self {
        let mut names = AnswerNames::default();
        let (mut all, mut weights) = (Vec::new(), Vec::new());
        let graph = |request| {
            let load = workload.graph.as_ref().expect("only a graph has such requests");
            Box::new(GraphRoute::new(request, load, workload.seed))
        };
        let graph_route = |request, names: &mut AnswerNames| {
            let graph = graph(request);
            plain(0, RequestForm::Graph(graph.clone()), Expect::Ok, names.number(graph.name()))
        };
        for (query, weight) in workload.graph.iter().flat_map(|graph| &graph.queries) {
            all.push(graph_route(GraphRequest::Query(*query), &mut names));
            weights.push(*weight);
        }
        let spaces = if workload.graph.is_some() { &[][..] } else { &workload.keys[..] };
        for (at, space) in spaces.iter().enumerate() {
            let sum: f64 = space.verbs.iter().map(|command| command.weight).sum();
            for command in &space.verbs {
                all.push(route(workload, at, command, &mut names));
                weights.push(space.weight * command.weight / sum);
            }
        }
        let mut extra = |route: Route| {
            all.push(route);
            all.len() - 1
        };
        let (mut fill, mut swaps, mut greet) = (Vec::new(), Vec::new(), Vec::new());
        if workload.graph.is_some() {
            fill.push(extra(graph_route(GraphRequest::Fill, &mut names)));
            extra(graph_route(GraphRequest::Query(GraphQuery::Add), &mut names));
        }
        for (at, space) in spaces.iter().enumerate() {
            fill.push(extra(fill_route(workload, at, space, &mut names)));
            for (number, command) in space.verbs.iter().enumerate().filter(|(_, command)| command.verb.is_two()) {
                swaps.push((at, number, extra(swap_route(workload, at, command, &mut names))));
            }
        }
        let mut greeting = |wire, name, names: &mut AnswerNames| {
            greet.push(extra(plain(0, wire, Expect::Store, names.number(name))));
        };
        match (workload.protocol, workload.auth.is_some()) {
            (Protocol::Resp3, _) => greeting(RequestForm::RespHello, "hello", &mut names),
            (Protocol::Resp, true) => greeting(RequestForm::RespAuth, "auth", &mut names),
            // Each call has its own credential.
            (Protocol::Grpc, _) => {}
            (_, true) => greeting(RequestForm::Authenticate, "auth", &mut names),
            (_, false) => {}
        }
        if workload.protocol == Protocol::Resp && !workload.client_name.is_empty() {
            greeting(RequestForm::RespName, "client setname", &mut names);
        }
        if workload.database != 0 {
            greeting(RequestForm::RespSelect, "select", &mut names);
        }
        if workload.graph.is_some() {
            greet.push(extra(graph_route(GraphRequest::Declare, &mut names)));
        }
        for (space, number, swap) in swaps {
            let before: usize = workload.keys[..space].iter().map(|space| space.verbs.len()).sum();
            all[before + number].swap = Some(swap);
        }
        Self { all, weights, fill, greet, names }
    }
}

fn plain(space: usize, wire: RequestForm, expect: Expect, name: u8) -> Route {
    Route {
        space,
        name,
        keys: 1,
        fields: 0,
        delta: 1,
        wire,
        expect,
        fills: false,
        stores: false,
        swap: None,
        swaps_always: false,
    }
}

fn fill_route(workload: &Workload, at: usize, space: &KeySpace, names: &mut AnswerNames) -> Route {
    let verb = if space.is_hash() { Verb::HashSet } else { Verb::Set };
    let verb = if workload.protocol == Protocol::Ping { Verb::Ping } else { verb };
    let (wire, expect) = wire(workload, &KeyCommand::new(verb));
    plain(at, wire, expect, names.number("fill"))
}

/// Returns the second request of `command`.
fn swap_route(workload: &Workload, at: usize, command: &KeyCommand, names: &mut AnswerNames) -> Route {
    let grpc = |verb| RequestForm::Grpc(GrpcCall::new(workload, &KeyCommand::new(verb)));
    let (name, wire, expect) = match (command.verb, workload.protocol) {
        (Verb::HashUpdate, Protocol::Grpc) => ("hset", grpc(Verb::HashSet), Expect::Ok),
        (verb @ (Verb::HashIncr | Verb::HashDecr), Protocol::Grpc) => ("hincrby", grpc(verb), Expect::Ok),
        (Verb::HashUpdate, _) => ("hset", RequestForm::Resp(Verb::HashSet), Expect::Ok),
        (verb @ (Verb::HashIncr | Verb::HashDecr), _) => ("hincrby", RequestForm::Resp(verb), Expect::Ok),
        (_, Protocol::Meta) => ("cas", RequestForm::MetaStore { flags: Flags::new(), compare: true }, Expect::Meta),
        _ => ("cas", RequestForm::Store { mode: StoreMode::Set, compare: true }, Expect::Store),
    };
    Route { delta: command.delta, ..plain(at, wire, expect, names.number(name)) }
}

fn route(workload: &Workload, space: usize, command: &KeyCommand, names: &mut AnswerNames) -> Route {
    let (wire, expect) = wire(workload, command);
    let name = match command.verb {
        Verb::Cas => "gets".to_owned(),
        verb if verb.modifies_hash() => "hgetall".to_owned(),
        Verb::Raw => command.text.split_ascii_whitespace().next().unwrap_or("raw").to_ascii_lowercase(),
        verb if command.keys > 1 => format!("{} of {}", verb.name(), command.keys),
        verb => verb.name().to_owned(),
    };
    Route {
        keys: command.keys,
        fields: if command.verb == Verb::HashGet { 1 } else { command.fields },
        delta: command.delta,
        fills: workload.fill_on_miss && command.verb.reads(),
        stores: command.verb.stores() && command.verb != Verb::Cas,
        swaps_always: command.verb.modifies_hash(),
        ..plain(space, wire, expect, names.number(&name))
    }
}

/// Returns the form of `command` and the expected kind of reply. (RESP and `PING` ignore the latter.)
fn wire(workload: &Workload, command: &KeyCommand) -> (RequestForm, Expect) {
    let raw = || Template::new(&command.text);
    match (workload.protocol, command.verb) {
        (Protocol::Grpc, verb) => {
            // A read of the whole dictionary comes before its change.
            let verb = if verb.modifies_hash() { Verb::HashGetAll } else { verb };
            (RequestForm::Grpc(GrpcCall::new(workload, &KeyCommand { verb, ..command.clone() })), Expect::Ok)
        }
        (Protocol::Ping, _) => (RequestForm::Ping, Expect::Ok),
        (Protocol::Resp | Protocol::Resp3, Verb::Raw) => {
            (RequestForm::RespWords(command.text.split_ascii_whitespace().map(Template::new).collect()), Expect::Ok)
        }
        (Protocol::Resp | Protocol::Resp3, verb) if verb.modifies_hash() => {
            (RequestForm::Resp(Verb::HashGetAll), Expect::Ok)
        }
        (Protocol::Resp | Protocol::Resp3, verb) => (RequestForm::Resp(verb), Expect::Ok),
        (_, Verb::Raw) => (RequestForm::Line(raw()), expect_of(&command.text).unwrap_or(Expect::Ok)),
        (_, Verb::MetaGet) => (RequestForm::MetaGet(flags(&command.text)), Expect::Meta),
        (_, Verb::MetaSet) => (RequestForm::MetaStore { flags: flags(&command.text), compare: false }, Expect::Meta),
        (_, Verb::MetaDelete) => (RequestForm::MetaDelete(flags(&command.text)), Expect::Meta),
        (_, Verb::MetaArith) => (RequestForm::MetaArith(flags(&command.text)), Expect::Meta),
        (Protocol::Memcache, verb) => text_wire(verb, command),
        (Protocol::Meta, verb) => {
            let store = |mode| (RequestForm::MetaStore { flags: flags(mode), compare: false }, Expect::Meta);
            match verb {
                Verb::Get if command.keys > 1 => (RequestForm::MetaMany(flags("v k q")), Expect::UntilNoop),
                Verb::Gets if command.keys > 1 => (RequestForm::MetaMany(flags("v k c q")), Expect::UntilNoop),
                Verb::Get => (RequestForm::MetaGet(flags("v")), Expect::Meta),
                Verb::Gets | Verb::Cas => (RequestForm::MetaGet(flags("c v")), Expect::Meta),
                Verb::Add => store("ME"),
                Verb::Replace => store("MR"),
                Verb::Append => store("MA"),
                Verb::Prepend => store("MP"),
                Verb::Incr => (RequestForm::MetaArith(flags(&format!("D{}", command.delta))), Expect::Meta),
                Verb::Decr => (RequestForm::MetaArith(flags(&format!("MD D{}", command.delta))), Expect::Meta),
                Verb::Delete => (RequestForm::MetaDelete(Flags::new()), Expect::Meta),
                Verb::Touch => (RequestForm::MetaTouch, Expect::Meta),
                _ => store(""),
            }
        }
    }
}

fn text_wire(verb: Verb, command: &KeyCommand) -> (RequestForm, Expect) {
    let store = |mode| (RequestForm::Store { mode, compare: false }, Expect::Store);
    match verb {
        Verb::Get => (RequestForm::Get { cas: false }, Expect::Values),
        Verb::Gets | Verb::Cas => (RequestForm::Get { cas: true }, Expect::Values),
        Verb::Add => store(StoreMode::Add),
        Verb::Replace => store(StoreMode::Replace),
        Verb::Append => store(StoreMode::Append),
        Verb::Prepend => store(StoreMode::Prepend),
        Verb::Incr | Verb::Decr => {
            (RequestForm::Arith { delta: command.delta, decrement: verb == Verb::Decr }, Expect::Arith)
        }
        Verb::Delete => (RequestForm::Delete, Expect::Delete),
        Verb::Touch => (RequestForm::Touch, Expect::Touch),
        _ => store(StoreMode::Set),
    }
}
