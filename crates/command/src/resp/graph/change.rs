//! Changes of graphs: `G.TYPE`, `G.ADD`, `G.DEL`, `G.ARCHIVE` and `G.RESTORE`.
//!
//! A request may change many edges. All of them are checked before the first is changed, so bad input changes nothing.
//! Then each visit applies as many as fit in its slice. The store merges changes by their times, so a client may repeat
//! a request whose reply it did not get.
//!
//! The attributes of an edge are stored as one after another: number of the name in the schema, length, bytes.

use super::fault::GraphFault;
use super::run::{graph_named, take_work};
use super::syntax;
use super::words::{RequestWords, is_reserved_attribute};
use crate::keyspace::graph_commits::GraphSync;
use crate::keyspace::graphs::GraphCounters;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::slices;
use crate::resp::state::graph_work::GraphWork;
use crate::resp::state::string_work::StringWork;
use crate::visit::progress::SessionWait;
use graph::limits::{ATTRIBUTE_BYTES_MAX, SCHEMA_NAMES_MAX};
use graph::{Direction, EdgeAction, EdgeChange, EdgeTypeConfig, Graph, GraphError, ListOrder, TypeId};
use protocol::resp::{Args, reply};

/// The number of changes that are applied between two checks of the slice. One takes 1 to 3 us.
const STEP_CHANGES: usize = 8;
/// The number of parts that are done while a request waits for its commit, whose number is in the session's `passed`.
const AWAITS_COMMIT: u32 = u32::MAX;
/// The number of changes whose check costs one operation.
const CHECKS_AN_OP: usize = 8;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChangeKind {
    Add,
    Remove,
    Archive,
    Restore,
}

impl ChangeKind {
    fn syntax(self) -> &'static str {
        match self {
            Self::Add => syntax::ADD,
            Self::Remove => syntax::DEL,
            Self::Archive => syntax::ARCHIVE,
            Self::Restore => syntax::RESTORE,
        }
    }
}

/// A parsed change.
struct Parsed {
    source: u64,
    edge_type: TypeId,
    destination: u64,
    time_ms: Option<u64>,
    is_negative: bool,
    attributes: Vec<u8>,
}

impl Parsed {
    /// Parses `src type dst [TS ms] [NEGATIVE] [ATTR name value ..]`.
    fn read<'a, W: Iterator<Item = &'a [u8]> + Clone>(
        words: &mut RequestWords<W>,
        graph: &Graph,
        kind: ChangeKind,
    ) -> Result<Self, GraphFault> {
        let source = words.node()?;
        let edge_type = words.edge_type(graph)?;
        let destination = words.node()?;
        let (mut time_ms, mut is_negative, mut values) = (None, false, None::<AttributeValues<'_>>);
        loop {
            if words.skip(b"ts") {
                if time_ms.replace(words.time_ms()?).is_some() {
                    return Err(GraphFault::Twice(b"TS".to_vec()));
                }
            } else if kind == ChangeKind::Add && words.skip(b"negative") {
                is_negative = true;
            } else if kind == ChangeKind::Add && words.skip(b"attr") {
                values.get_or_insert_default().read(words, graph.schema(edge_type)?)?;
            } else {
                break;
            }
        }
        if words.peek().is_some() && !words.is_number() {
            words.end()?;
        }
        let attributes = values.map_or(Ok(Vec::new()), |values| values.encode())?;
        Ok(Self { source, edge_type, destination, time_ms, is_negative, attributes })
    }

    fn change(&self, kind: ChangeKind, now_ms: u64) -> EdgeChange<'_> {
        let action = match kind {
            ChangeKind::Add if self.is_negative => EdgeAction::AddNegative(&self.attributes),
            ChangeKind::Add => EdgeAction::Add(&self.attributes),
            ChangeKind::Remove => EdgeAction::Remove,
            ChangeKind::Archive => EdgeAction::Archive,
            ChangeKind::Restore => EdgeAction::Restore,
        };
        let Self { source, edge_type, destination, time_ms, .. } = *self;
        EdgeChange { source, edge_type, destination, time_ms: time_ms.unwrap_or(now_ms), action }
    }
}

/// The values of the attributes of one edge, by the numbers of their names in the schema. They may be given in several
/// groups `ATTR name value ..`.
#[derive(Default)]
struct AttributeValues<'a>([Option<&'a [u8]>; SCHEMA_NAMES_MAX]);

impl<'a> AttributeValues<'a> {
    /// Parses pairs of a name and a value, as long as a name of the schema follows.
    fn read<W: Iterator<Item = &'a [u8]> + Clone>(
        &mut self,
        words: &mut RequestWords<W>,
        schema: &[String],
    ) -> Result<(), GraphFault> {
        if schema.is_empty() {
            return Err(GraphError::NoSchema.into());
        }
        let place = |word: &[u8]| schema.iter().position(|name| name.as_bytes() == word);
        let mut has_some = false;
        while let Some(number) = words.peek().and_then(place) {
            let name = words.next("an attribute")?;
            if self.0[number].replace(words.next("the value of an attribute")?).is_some() {
                return Err(GraphFault::Twice(name.to_vec()));
            }
            has_some = true;
        }
        if !has_some {
            let word = words.next("an attribute")?;
            return Err(GraphFault::NotInSchema(word.to_vec()));
        }
        Ok(())
    }

    /// Encodes the attributes in the order of the schema, in which the same attributes have the same bytes.
    fn encode(&self) -> Result<Vec<u8>, GraphFault> {
        let given = || (0..).zip(&self.0).filter_map(|(number, value)| Some((number, (*value)?)));
        let total = given().map(|(_, value)| value.len() + 2).sum::<usize>();
        if total > ATTRIBUTE_BYTES_MAX {
            return Err(GraphError::AttributesTooLong(total).into());
        }
        let mut bytes = Vec::with_capacity(total);
        for (number, value) in given() {
            bytes.extend([number, value.len() as u8]);
            bytes.extend(value);
        }
        Ok(bytes)
    }
}

/// Executes `G.ADD graph src type dst [TS ms] [NEGATIVE] [ATTR name value ..] [src type dst ..]`.
pub(in crate::resp) fn add<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, args, ChangeKind::Add)
}

/// Executes `G.DEL graph src type dst [TS ms] [src type dst ..]`.
pub(in crate::resp) fn del<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, args, ChangeKind::Remove)
}

/// Executes `G.ARCHIVE graph src type dst [TS ms] [src type dst ..]`.
pub(in crate::resp) fn archive<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, args, ChangeKind::Archive)
}

/// Executes `G.RESTORE graph src type dst [TS ms] [src type dst ..]`.
pub(in crate::resp) fn restore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    run(call, args, ChangeKind::Restore)
}

fn run<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, kind: ChangeKind) -> Run {
    if awaits_commit(call) {
        return acknowledge(call, kind.syntax());
    }
    let name = args.next().unwrap_or_default();
    // Another client may have dropped the graph since the last visit, and declared one of the same name. A dropped
    // graph refuses changes.
    let work = match take_work(call) {
        Some(work) => work,
        None => match graph_named(call, name) {
            Ok(graph) => Box::new(GraphWork::of(graph)),
            Err(fault) => return fault.reply(call, 0, kind.syntax()),
        },
    };
    let visited = check_and_apply(call, args, &work.graph, kind);
    if matches!(visited, Err(Interrupt::State(_))) && !awaits_commit(call) {
        slices::retain_work(call, StringWork::Graph(work));
    }
    visited
}

fn check_and_apply<'c>(call: &mut Call<'c, '_>, args: Args<'c>, graph: &Graph, kind: ChangeKind) -> Run {
    if !call.session.fits {
        match check(call, args, graph, kind) {
            Ok(true) => {}
            Ok(false) => return Err(SessionWait::Yield.into()),
            Err(fault) => return fault.reply(call, 0, kind.syntax()),
        }
        (call.session.done, call.session.passed, call.session.fits) = (0, (0, 0), true);
    }
    apply(call, args, graph, kind)
}

/// Parses and checks all changes of a request, from the position of the last visit on. Returns false if the slice is
/// used up.
fn check<'c>(call: &mut Call<'c, '_>, args: Args<'c>, graph: &Graph, kind: ChangeKind) -> Result<bool, GraphFault> {
    let (mut words, now_ms) = (RequestWords(call.args_after(args, call.session.done)), wall_ms(call));
    while words.peek().is_some() {
        let before = words.0.len();
        for _ in 0..CHECKS_AN_OP {
            if words.peek().is_some() {
                graph.check(&Parsed::read(&mut words, graph, kind)?.change(kind, now_ms))?;
            }
        }
        call.session.done += (before - words.0.len()) as u32;
        call.record_position(args, words.0, call.session.done);
        call.ops += 1;
        if words.peek().is_some() && call.is_slice_used() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Applies the changes from the position of the last visit on. `sum` of the session has the number of changed edges.
fn apply<'c>(call: &mut Call<'c, '_>, args: Args<'c>, graph: &Graph, kind: ChangeKind) -> Run {
    if call.ctx.shared.graphs.commits.has_failed() {
        return GraphFault::Disk.reply(call, 0, kind.syntax());
    }
    let mut words = RequestWords(call.args_after(args, call.session.done));
    let now_ms = wall_ms(call);
    while words.peek().is_some() {
        let Some(mut writer) = graph.try_writer() else { return Err(wait(call)) };
        for _ in 0..STEP_CHANGES {
            if words.peek().is_none() {
                break;
            }
            let before = words.0.len();
            let applied = Parsed::read(&mut words, graph, kind).and_then(|parsed| {
                let change = parsed.change(kind, now_ms);
                let applied = if parsed.time_ms.is_some() { writer.apply(&change) } else { writer.apply_now(&change) };
                applied.map_err(GraphFault::from)
            });
            match applied {
                Ok(has_changed) => call.session.sum += i64::from(has_changed),
                Err(GraphFault::Engine(GraphError::NoSpace)) if call.ctx.shared.graphs.may_get_room() => {
                    return Err(wait(call));
                }
                Err(fault) => {
                    drop(writer);
                    let changed = call.session.sum;
                    let is_full = fault.is_full();
                    counters(call).refused.add(u64::from(is_full));
                    return fault.reply(call, changed, kind.syntax());
                }
            }
            call.session.done += (before - words.0.len()) as u32;
            call.record_position(args, words.0, call.session.done);
            call.ops += 1;
        }
        drop(writer);
        if words.peek().is_some() && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    counters(call).changed.add(call.session.sum as u64);
    acknowledge(call, kind.syntax())
}

/// Replies to changes with the session's `sum`, once a commit that the configuration asks for has ended.
///
/// # Errors
/// A wait for the commit, or an error reply if the disk refused it.
pub(super) fn acknowledge(call: &mut Call<'_, '_>, syntax: &str) -> Run {
    let commits = &call.ctx.shared.graphs.commits;
    if commits.sync() == GraphSync::Always
        && let Some(fault) = await_commit(call)?
    {
        return fault.reply(call, 0, syntax);
    }
    let changed = call.session.sum;
    call.session.end_request();
    call.int(changed);
    Ok(())
}

/// Waits for a commit that began after the session's changes. Returns the error if the disk refused it.
///
/// # Errors
/// The wait.
pub(super) fn await_commit(call: &mut Call<'_, '_>) -> Result<Option<GraphFault>, Interrupt> {
    let commits = &call.ctx.shared.graphs.commits;
    let number = if awaits_commit(call) {
        u64::from(call.session.passed.0) | u64::from(call.session.passed.1) << 32
    } else {
        commits.ask()
    };
    if commits.has_failed() {
        (call.session.done, call.session.passed) = (0, (0, 0));
        return Ok(Some(GraphFault::Disk));
    }
    if !commits.has_ended(number) {
        (call.session.done, call.session.passed) = (AWAITS_COMMIT, (number as u32, (number >> 32) as u32));
        return Err(SessionWait::Parked.into());
    }
    (call.session.done, call.session.passed) = (0, (0, 0));
    Ok(None)
}

/// Returns true if the current request has made its changes and waits for their commit.
pub(super) fn awaits_commit(call: &Call<'_, '_>) -> bool {
    call.session.done == AWAITS_COMMIT
}

/// Returns the wall clock's time, in milliseconds since the epoch.
pub(super) fn wall_ms(call: &Call<'_, '_>) -> u64 {
    let moment = call.moment();
    moment.to_wall(moment.now).0
}

/// Returns the wait of a request until another thread has released the writer, or compaction has freed a segment.
pub(super) fn wait(call: &Call<'_, '_>) -> Interrupt {
    if call.session.done > 0 { SessionWait::Yield.into() } else { SessionWait::Parked.into() }
}

pub(super) fn counters<'x>(call: &'x Call<'_, '_>) -> &'x GraphCounters {
    &call.ctx.shared.workers[call.ctx.worker].graph
}

/// Executes `G.TYPE graph name [UNDIRECTED | INVERSE other] [SORT ID | TIME] [CAP n] [SCHEMA name ..]`.
pub(in crate::resp) fn declare<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let graph = args.next().unwrap_or_default();
    // A declaration may be repeated, so a request that waits for its commit makes it once more.
    match declare_type(call, graph, RequestWords(args)) {
        Ok(true) => {
            if call.ctx.shared.graphs.commits.sync() == GraphSync::Always
                && let Some(fault) = await_commit(call)?
            {
                return fault.reply(call, 0, syntax::TYPE);
            }
            reply::simple(call.out, b"OK");
            Ok(())
        }
        Ok(false) => Err(wait(call)),
        Err(fault) => fault.reply(call, 0, syntax::TYPE),
    }
}

/// Declares a type. Returns false if another thread has the graph's writer.
fn declare_type<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    call: &Call<'_, '_>,
    graph: &[u8],
    mut words: RequestWords<W>,
) -> Result<bool, GraphFault> {
    let store = call.ctx.shared.graphs.store().ok_or(GraphFault::NoStore)?;
    let (graph, name) = (text(graph)?, text(words.next("the name of an edge type")?)?);
    let config = type_config(&mut words)?;
    if call.ctx.shared.graphs.commits.has_failed() {
        return Err(GraphFault::Disk);
    }
    let graph = match store.graph(&graph) {
        Some(graph) => graph,
        // A refused declaration must leave no graph behind.
        None if matches!(config.direction, Direction::InverseOf(_)) => return Err(GraphError::UnknownType.into()),
        None => {
            config.check(&name)?;
            store.create_graph(&graph)?
        }
    };
    let Some(mut writer) = graph.try_writer() else { return Ok(false) };
    writer.declare_type(&name, &config)?;
    Ok(true)
}

fn text(word: &[u8]) -> Result<String, GraphFault> {
    std::str::from_utf8(word).map(str::to_owned).map_err(|_| GraphFault::NotText(word.to_vec()))
}

/// The properties of an edge type.
const EDGE_TYPE_SYNTAX: &str = "[UNDIRECTED | INVERSE other] [SORT ID | TIME] [CAP n] [SCHEMA name ..]";

/// Reads the properties of an edge type, as `G.TYPE` has them after the name of the type.
///
/// # Errors
/// The text of the error reply to such a command.
pub fn parse_edge_type(options: &str) -> Result<EdgeTypeConfig, String> {
    let mut words = RequestWords(options.split_ascii_whitespace().map(str::as_bytes));
    type_config(&mut words).map_err(|fault| fault.text(EDGE_TYPE_SYNTAX))
}

fn type_config<'a, W: Iterator<Item = &'a [u8]> + Clone>(
    words: &mut RequestWords<W>,
) -> Result<EdgeTypeConfig, GraphFault> {
    let mut config = EdgeTypeConfig::default();
    while words.peek().is_some() {
        if words.skip(b"undirected") {
            config.direction = Direction::Undirected;
        } else if words.skip(b"inverse") {
            config.direction = Direction::InverseOf(text(words.next("the name of the other type")?)?);
        } else if words.skip(b"sort") {
            config.order = if words.skip(b"time") {
                ListOrder::Time
            } else if words.skip(b"id") {
                ListOrder::Id
            } else {
                let word = words.next("ID or TIME")?;
                return Err(GraphFault::Unexpected(word.to_vec()));
            };
        } else if words.skip(b"cap") {
            config.cap = words.number("CAP", u32::MAX.into())? as u32;
        } else if words.skip(b"schema") {
            let is_option =
                |word: &[u8]| matches!(&lower(word)[..], b"undirected" | b"inverse" | b"sort" | b"cap" | b"schema");
            let before = config.schema.len();
            while words.peek().is_some_and(|word| !is_option(word)) {
                let name = words.next("a name")?;
                if is_reserved_attribute(name) {
                    return Err(GraphFault::ReservedAttribute(name.to_vec()));
                }
                config.schema.push(text(name)?);
            }
            if config.schema.len() == before {
                return Err(GraphFault::Missing("the names of attributes"));
            }
        } else {
            words.end()?;
        }
    }
    Ok(config)
}
