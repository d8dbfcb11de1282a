//! Calls on graphs. Each executes one command `G.*`, and `Query` one for each of its queries, so that all of them have
//! the rights, budgets and slices of those commands.

use super::common::{done, missing};
use crate::grpc::plan::{CallError, CallPlan, CommandWriter, Commands, Next, error_of, integer, reply};
use crate::resp::{LIMIT_MAX, PARTS_MAX, is_reserved_attribute};
use protocol::grpc::Status;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::number::parse_u64;
use protocol::resp::client::Value;

/// The maximum number of edges that one call changes. Its message is decoded in one piece.
const CHANGES_MAX: usize = 4096;
/// The distance of a node that was not found.
const UNREACHED: u64 = 255;
/// The commands of a change, by the numbers of `Action`.
const ACTIONS: [&[u8]; 4] = [b"G.ADD", b"G.DEL", b"G.ARCHIVE", b"G.RESTORE"];
/// The commands on sets, by the numbers of `Operation`.
const OPERATIONS: [&[u8]; 3] = [b"G.INTER", b"G.UNION", b"G.DIFF"];
/// The names of states, by the numbers of `EdgeState`. The first is that of no edge.
const STATES: [&[u8]; 5] = [b"", b"live", b"negative", b"archived", b"removed"];

/// A query: its command, and the message of its reply.
struct Query {
    /// Its number in the messages `GraphQuery` and `GraphQueryResult`.
    number: u32,
    command: fn(Message<'_>, &[u8], &mut CommandWriter) -> Result<(), CallError>,
    write: fn(Value<'_>, &mut Encoder) -> Result<(), CallError>,
}

static GET_EDGES: Query = Query { number: 1, command: edges_command, write: write_edges };
static COUNT: Query = Query { number: 2, command: count_command, write: write_count };
static RANGE: Query = Query { number: 3, command: range_command, write: write_neighbours };
static MUTUAL: Query = Query { number: 4, command: mutual_command, write: write_mutual };
static COMBINE: Query = Query { number: 5, command: combine_command, write: write_page };
static DISTANCE: Query = Query { number: 6, command: distance_command, write: write_distances };
static PATH: Query = Query { number: 7, command: path_command, write: write_paths };
static SECOND_DEGREE: Query = Query { number: 8, command: second_degree_command, write: write_second_degree };
static SUGGEST: Query = Query { number: 9, command: suggest_command, write: write_suggestions };

/// All queries, in the order of their numbers.
static QUERIES: [&Query; 9] =
    [&GET_EDGES, &COUNT, &RANGE, &MUTUAL, &COMBINE, &DISTANCE, &PATH, &SECOND_DEGREE, &SUGGEST];

impl Query {
    /// Returns the plan of a call that is this query alone.
    fn alone(&'static self, message: Message<'_>) -> Result<CallPlan, CallError> {
        let mut commands = Commands::default();
        commands.add_written(|out| (self.command)(message, message.bytes(1), out))?;
        Ok(CallPlan::new(commands, |replies| {
            let mut encoder = Encoder::new();
            (self.write)(replies[0], &mut encoder)?;
            reply(|out| {
                out.append(&encoder);
            })
        }))
    }
}

/// Returns the nodes in the field 4, which are the destinations of a query.
fn destinations(message: Message<'_>) -> Result<Vec<u64>, CallError> {
    let most = LIMIT_MAX as usize;
    let nodes = message.uints(4, most)?;
    match nodes.len() {
        0 => Err(CallError::invalid("the request has no destinations; name at least one node")),
        count if count > most => {
            Err(CallError::invalid(format!("the request has more than {most} destinations; send less at once")))
        }
        _ => Ok(nodes),
    }
}

/// Begins a command with the graph, a node in the field 2 and an edge type in a field.
fn begin<'w>(
    out: &'w mut CommandWriter,
    command: &[u8],
    (graph, message): (&[u8], Message<'_>),
    edge_type: u32,
) -> &'w mut CommandWriter {
    out.word(command).word(graph).number(message.uint(2)).word(message.bytes(edge_type))
}

/// Adds the cursor in a field, unless it is that of the first page.
fn add_cursor(out: &mut CommandWriter, cursor: &[u8]) {
    if !cursor.is_empty() {
        out.word(b"CURSOR").word(cursor);
    }
}

/// Decodes 2 source, 3 type, 4 destinations.
fn edges_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.GET", (graph, message), 3);
    destinations(message)?.into_iter().for_each(|node| {
        out.number(node);
    });
    Ok(())
}

/// Decodes 2 node, 3 type.
fn count_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.COUNT", (graph, message), 3);
    Ok(())
}

/// Decodes 2 node, 3 type, 4 cursor, 5 limit, 6 times (1 first, 2 last), 7 reverse, 8 with attributes, 9 state.
fn range_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.RANGE", (graph, message), 3);
    add_cursor(out, message.bytes(4));
    out.option("LIMIT", message.uint(5));
    if let Some(times) = message.message(6)? {
        out.word(b"BYTIME").number(times.uint(1)).number(times.uint(2));
    }
    for (number, option) in [(7, &b"REV"[..]), (8, b"WITHATTR")] {
        if message.uint(number) != 0 {
            out.word(option);
        }
    }
    match usize::try_from(message.uint(9)).ok().and_then(|state| STATES.get(state).copied()) {
        Some(b"") => {}
        Some(state) => {
            out.word(b"STATE").word(state);
        }
        None => return Err(unknown("state", message.uint(9))),
    }
    Ok(())
}

/// Decodes 2 first and 3 second node, 4 type, 5 limit, 6 count only, 7 budget.
fn mutual_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    out.word(b"G.MUTUAL").word(graph).number(message.uint(2)).number(message.uint(3)).word(message.bytes(4));
    out.option("LIMIT", message.uint(5)).option("BUDGET", message.uint(7));
    if message.uint(6) != 0 {
        out.word(b"COUNT");
    }
    Ok(())
}

/// Decodes 2 operation, 3 lists (2 type, 1 node), 4 cursor, 5 limit.
fn combine_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    let operation = usize::try_from(message.uint(2)).ok().and_then(|operation| OPERATIONS.get(operation));
    out.word(operation.ok_or_else(|| unknown("operation", message.uint(2)))?).word(graph);
    let most = graph::limits::SETS_MAX;
    let lists = message.all(3).take(most + 1).count();
    if !(1..=most).contains(&lists) {
        return Err(CallError::invalid(format!("cannot combine these lists: give 1 to {most} of them")));
    }
    for list in message.all(3) {
        let list = message.part(list)?;
        out.number(list.uint(1)).word(list.bytes(2));
    }
    add_cursor(out, message.bytes(4));
    out.option("LIMIT", message.uint(5));
    Ok(())
}

/// Decodes 2 source, 3 type, 4 destinations, 5 maximum, 6 budget.
fn distance_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.DIST", (graph, message), 3);
    destinations(message)?.into_iter().for_each(|node| {
        out.number(node);
    });
    out.option("MAX", message.uint(5)).option("BUDGET", message.uint(6));
    Ok(())
}

/// Decodes 2 source, 3 destination, 4 type, 5 maximum, 6 k, 7 budget.
fn path_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    out.word(b"G.PATH").word(graph).number(message.uint(2)).number(message.uint(3)).word(message.bytes(4));
    out.option("MAX", message.uint(5)).option("K", message.uint(6)).option("BUDGET", message.uint(7));
    Ok(())
}

/// Decodes 2 node, 3 type, 4 count only, 5 cursor, 6 limit, 7 budget, 8 stale.
fn second_degree_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.DEG2", (graph, message), 3);
    if message.uint(4) != 0 {
        out.word(b"COUNT");
    }
    add_cursor(out, message.bytes(5));
    out.option("LIMIT", message.uint(6)).option("BUDGET", message.uint(7)).option("STALE", message.uint(8));
    Ok(())
}

/// Decodes 2 node, 3 type, 4 k, 5 budget.
fn suggest_command(message: Message<'_>, graph: &[u8], out: &mut CommandWriter) -> Result<(), CallError> {
    begin(out, b"G.SUGGEST", (graph, message), 3);
    out.option("K", message.uint(4)).option("BUDGET", message.uint(5));
    Ok(())
}

fn unknown(what: &str, number: u64) -> CallError {
    CallError::invalid(format!("the {what} {number} is unknown; use one of the schema"))
}

/// Returns the identifier of a node: an integer, or a text if it is too large for one.
fn node(value: Value<'_>) -> Result<u64, CallError> {
    let node = match value {
        Value::Int(node) => u64::try_from(node).ok(),
        value => value.text().and_then(parse_u64),
    };
    node.ok_or_else(CallError::unexpected)
}

fn nodes(value: Value<'_>) -> Result<Vec<u64>, CallError> {
    value.items().map(node).collect()
}

/// Returns the parts of a reply that has a fixed number of them.
fn parts<'b, const COUNT: usize>(value: Value<'b>) -> Result<[Value<'b>; COUNT], CallError> {
    let parts: Vec<Value<'_>> = value.items().collect();
    parts.try_into().map_err(|_| CallError::unexpected())
}

/// Adds 1 partial, and returns the result.
fn partial<'b>(value: Value<'b>, out: &mut Encoder) -> Result<Value<'b>, CallError> {
    let [partial, result] = parts(value)?;
    out.int(1, integer(partial)?);
    Ok(result)
}

/// Adds 1 cursor, which is empty after the last page, and returns the page.
fn page<'b>(value: Value<'b>, cursor: u32, out: &mut Encoder) -> Result<Value<'b>, CallError> {
    let [next, page] = parts(value)?;
    out.bytes(cursor, next.text().filter(|next| *next != b"0").unwrap_or_default());
    Ok(page)
}

/// Adds 2 the time and 3 the attributes (1 name, 2 value) of an edge.
fn add_properties(out: &mut Encoder, time_ms: Value<'_>, attributes: Value<'_>) -> Result<(), CallError> {
    out.int(2, integer(time_ms)?);
    let words: Vec<Value<'_>> = attributes.items().collect();
    for pair in words.chunks_exact(2) {
        out.message(3, |out| {
            out.bytes(1, pair[0].text().unwrap_or_default()).bytes(2, pair[1].text().unwrap_or_default());
        });
    }
    Ok(())
}

/// Adds 1 edges (1 state, 2 time, 3 attributes).
fn write_edges(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    for edge in value.items() {
        let mut written = Encoder::new();
        if edge != Value::Null {
            let [state, time_ms, attributes] = parts(edge)?;
            let number = STATES.iter().position(|name| state.text() == Some(name)).ok_or_else(CallError::unexpected)?;
            written.uint(1, number as u64);
            add_properties(&mut written, time_ms, attributes)?;
        }
        out.item(1, written.as_slice());
    }
    Ok(())
}

/// Adds 1 count.
fn write_count(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    out.int(1, integer(value)?);
    Ok(())
}

/// Adds 1 cursor, and 2 nodes or 3 neighbours (1 node, 2 time, 3 attributes).
fn write_neighbours(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    let page = page(value, 1, out)?;
    if !matches!(page.items().next(), Some(Value::Array(_))) {
        out.packed_uints(2, nodes(page)?.into_iter());
        return Ok(());
    }
    for neighbour in page.items() {
        let [of, time_ms, attributes] = parts(neighbour)?;
        let mut written = Encoder::new();
        written.uint(1, node(of)?);
        add_properties(&mut written, time_ms, attributes)?;
        out.item(3, written.as_slice());
    }
    Ok(())
}

/// Adds 1 partial, and 2 count or 3 nodes.
fn write_mutual(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    match partial(value, out)? {
        Value::Int(count) => out.int(2, count),
        found => out.packed_uints(3, nodes(found)?.into_iter()),
    };
    Ok(())
}

/// Adds 1 cursor, 2 nodes.
fn write_page(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    let page = page(value, 1, out)?;
    out.packed_uints(2, nodes(page)?.into_iter());
    Ok(())
}

/// Adds 1 partial, 2 distances.
fn write_distances(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    let distances = partial(value, out)?.items().map(|distance| match distance {
        Value::Null => Ok(UNREACHED),
        distance => integer(distance).map(i64::cast_unsigned),
    });
    let distances: Vec<u64> = distances.collect::<Result<_, _>>()?;
    out.packed_uints(2, distances.into_iter());
    Ok(())
}

/// Adds 1 partial, 2 paths (1 nodes).
fn write_paths(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    for path in partial(value, out)?.items() {
        let nodes = nodes(path)?;
        out.message(2, |out| {
            out.packed_uints(1, nodes.into_iter());
        });
    }
    Ok(())
}

/// Adds 1 partial, and 2 count, or 3 cursor and 4 nodes.
fn write_second_degree(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    match partial(value, out)? {
        Value::Int(count) => out.int(2, count),
        found => {
            let page = page(found, 3, out)?;
            out.packed_uints(4, nodes(page)?.into_iter())
        }
    };
    Ok(())
}

/// Adds 1 partial, 2 suggestions (1 node, 2 number of common neighbours).
fn write_suggestions(value: Value<'_>, out: &mut Encoder) -> Result<(), CallError> {
    for suggestion in partial(value, out)?.items() {
        let [of, common] = parts(suggestion)?;
        let (of, common) = (node(of)?, integer(common)?);
        out.message(2, |out| {
            out.uint(1, of).int(2, common);
        });
    }
    Ok(())
}

/// See [`edges_command`] and [`write_edges`].
pub(super) fn edges(message: Message<'_>) -> Result<CallPlan, CallError> {
    GET_EDGES.alone(message)
}

/// See [`count_command`] and [`write_count`].
pub(super) fn count(message: Message<'_>) -> Result<CallPlan, CallError> {
    COUNT.alone(message)
}

/// See [`range_command`] and [`write_neighbours`].
pub(super) fn range(message: Message<'_>) -> Result<CallPlan, CallError> {
    RANGE.alone(message)
}

/// See [`mutual_command`] and [`write_mutual`].
pub(super) fn mutual(message: Message<'_>) -> Result<CallPlan, CallError> {
    MUTUAL.alone(message)
}

/// See [`combine_command`] and [`write_page`].
pub(super) fn combine(message: Message<'_>) -> Result<CallPlan, CallError> {
    COMBINE.alone(message)
}

/// See [`distance_command`] and [`write_distances`].
pub(super) fn distance(message: Message<'_>) -> Result<CallPlan, CallError> {
    DISTANCE.alone(message)
}

/// See [`path_command`] and [`write_paths`].
pub(super) fn path(message: Message<'_>) -> Result<CallPlan, CallError> {
    PATH.alone(message)
}

/// See [`second_degree_command`] and [`write_second_degree`].
pub(super) fn second_degree(message: Message<'_>) -> Result<CallPlan, CallError> {
    SECOND_DEGREE.alone(message)
}

/// See [`suggest_command`] and [`write_suggestions`].
pub(super) fn suggest(message: Message<'_>) -> Result<CallPlan, CallError> {
    SUGGEST.alone(message)
}

/// Decodes 1 graph, 2 queries: each is one of [`QUERIES`] in the field of its number, with 1 its graph unless that is
/// the one of the request. Replies 1 results: each is the reply of its query in the same field, or 10 an error (1 code,
/// 2 message).
pub(super) fn query(message: Message<'_>) -> Result<CallPlan, CallError> {
    let parts = message.all(2).take(PARTS_MAX + 1).count();
    if !(1..=PARTS_MAX).contains(&parts) {
        return Err(CallError::invalid(format!("cannot execute these queries: give 1 to {PARTS_MAX} of them")));
    }
    let (mut commands, mut queries) = (Commands::default(), Vec::with_capacity(parts));
    for part in message.all(2) {
        let part = message.part(part)?;
        let (mut last, mut found) = (None, None);
        for query in QUERIES {
            if let Some(fields) = part.message(query.number)? {
                (last, found) = (Some(query), Some(fields));
            }
        }
        let (Some(query), Some(fields)) = (last, found) else {
            let text = format!("query {} is empty or unknown; use one of the schema", queries.len() + 1);
            return Err(CallError::invalid(text));
        };
        let graph = fields.try_bytes(1).filter(|graph| !graph.is_empty()).unwrap_or(message.bytes(1));
        commands.add_written(|out| (query.command)(fields, graph, out))?;
        queries.push(query);
    }
    let plan = CallPlan::new(commands, move |replies| {
        let mut results = Encoder::new();
        for (query, value) in queries.iter().zip(replies) {
            let mut result = Encoder::new();
            match value {
                Value::Error(text) => {
                    let CallError { status, text, .. } = error_of(text);
                    if matches!(status, Status::Unauthenticated | Status::PermissionDenied) {
                        return Err(CallError::new(status, text));
                    }
                    result.message(10, |out| {
                        out.uint(1, status as u64).bytes(2, text.as_bytes());
                    });
                }
                value => {
                    let mut written = Encoder::new();
                    (query.write)(*value, &mut written)?;
                    result.item(query.number, written.as_slice());
                }
            }
            results.item(1, result.as_slice());
        }
        reply(|out| {
            out.append(&results);
        })
    });
    Ok(plan.taking_errors())
}

/// Decodes 1 graph, 2 type, 3 undirected, 4 inverse of, 5 sorted by time, 6 cap, 7 attributes.
pub(super) fn declare_type(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    commands.add_written(|out| {
        out.word(b"G.TYPE").word(message.bytes(1)).word(message.bytes(2));
        let inverse = message.bytes(4);
        match (message.uint(3) != 0, inverse.is_empty()) {
            (true, true) => out.word(b"UNDIRECTED"),
            (false, false) => out.word(b"INVERSE").word(inverse),
            (false, true) => out,
            (true, false) => {
                let text = "a type is undirected or the inverse of another one; give one of both";
                return Err(CallError::invalid(text));
            }
        };
        if message.uint(5) != 0 {
            out.word(b"SORT").word(b"TIME");
        }
        out.option("CAP", message.uint(6));
        let names = message.all(7).take(graph::limits::SCHEMA_NAMES_MAX + 1);
        for (place, name) in names.enumerate() {
            check_attribute(name)?;
            if place == 0 {
                out.word(b"SCHEMA");
            }
            out.word(name);
        }
        Ok(())
    })?;
    Ok(CallPlan::new(commands, |_| done()))
}

fn check_attribute(name: &[u8]) -> Result<(), CallError> {
    if is_reserved_attribute(name) {
        let name = String::from_utf8_lossy(name);
        let text = format!("cannot name an attribute '{name}': it is a number or an option; use another name");
        return Err(CallError::invalid(text));
    }
    Ok(())
}

/// Decodes 1 graph, 2 action, 3 type, 4 edges (1 source, 2 type, 3 destination, 4 time, 5 negative, 6 attributes: 1
/// name, 2 value). Replies 1 changed.
pub(super) fn change(message: Message<'_>) -> Result<CallPlan, CallError> {
    let action = usize::try_from(message.uint(2)).ok().and_then(|action| ACTIONS.get(action));
    let command = action.ok_or_else(|| unknown("action", message.uint(2)))?;
    let edges = message.all(4).take(CHANGES_MAX + 1).count();
    if !(1..=CHANGES_MAX).contains(&edges) {
        return Err(CallError::invalid(format!("cannot change these edges: give 1 to {CHANGES_MAX} in one call")));
    }
    let mut commands = Commands::default();
    commands.add_written(|out| {
        out.word(command).word(message.bytes(1));
        let of_all = message.bytes(3);
        for edge in message.all(4) {
            let edge = message.part(edge)?;
            let of_edge = edge.try_bytes(2).filter(|name| !name.is_empty());
            out.number(edge.uint(1)).word(of_edge.unwrap_or(of_all)).number(edge.uint(3));
            if let Some(time_ms) = edge.try_uint(4) {
                out.word(b"TS").number(time_ms);
            }
            let has_attributes = edge.all(6).next().is_some();
            let is_negative = edge.uint(5) != 0;
            if (has_attributes || is_negative) && *command != ACTIONS[0] {
                let text = "only added edges have attributes or the negative state; use the action ADD";
                return Err(CallError::invalid(text));
            }
            if is_negative {
                out.word(b"NEGATIVE");
            }
            if has_attributes {
                out.word(b"ATTR");
            }
            // Each attribute takes at least two bytes.
            let most = graph::limits::ATTRIBUTE_BYTES_MAX / 2;
            if edge.all(6).take(most + 1).count() > most {
                return Err(CallError::invalid(format!("an edge has more than {most} attributes; give less")));
            }
            for attribute in edge.all(6) {
                let attribute = edge.part(attribute)?;
                check_attribute(attribute.bytes(1))?;
                out.word(attribute.bytes(1)).word(attribute.bytes(2));
            }
        }
        Ok(())
    })?;
    Ok(CallPlan::new(commands, |replies| {
        let changed = integer(replies[0])?;
        reply(|out| {
            out.int(1, changed);
        })
    }))
}

/// Decodes 1 graph, 2 node. Replies 1 found (1 type, 2 bins: 1 name, 2 value) or 2 missing.
pub(super) fn node_object(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    commands.add_written(|out| {
        out.word(b"G.NODE").word(b"GET").word(message.bytes(1)).number(message.uint(2));
        Ok::<_, CallError>(())
    })?;
    Ok(CallPlan::new(commands, |replies| {
        if replies[0] == Value::Null {
            return missing();
        }
        let [kind, bins] = parts(replies[0])?;
        let words: Vec<Value<'_>> = bins.items().collect();
        reply(|out| {
            out.message(1, |node| {
                node.bytes(1, kind.text().unwrap_or_default());
                for bin in words.chunks_exact(2) {
                    node.message(2, |out| {
                        out.bytes(1, bin[0].text().unwrap_or_default()).bytes(2, bin[1].text().unwrap_or_default());
                    });
                }
            });
        })
    }))
}

/// Returns the plan of a change of a node: 1 graph, 2 node, 3 time. Replies 1 changed.
fn change_node(
    message: Message<'_>,
    part: &[u8],
    add: impl FnOnce(&mut CommandWriter) -> Result<(), CallError>,
) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    commands.add_written(|out| {
        out.word(b"G.NODE").word(part).word(message.bytes(1)).number(message.uint(2));
        add(out)?;
        if let Some(time_ms) = message.try_uint(3) {
            out.word(b"TS").number(time_ms);
        }
        Ok::<_, CallError>(())
    })?;
    Ok(CallPlan::new(commands, |replies| {
        let changed = integer(replies[0])?;
        reply(|out| {
            out.int(1, changed);
        })
    }))
}

/// Decodes beside the fields of [`change_node`]: 4 value (1 type, 2 bins: 1 name, 2 value).
pub(super) fn set_node(message: Message<'_>) -> Result<CallPlan, CallError> {
    let value = message.message(4)?.ok_or_else(|| CallError::invalid("the request has no value; give a type"))?;
    change_node(message, b"SET", |out| {
        out.word(value.bytes(1));
        // The name and the value of a bin take at least four bytes.
        let most = graph::limits::OBJECT_BYTES_MAX / 4;
        if value.all(2).take(most + 1).count() > most {
            return Err(CallError::invalid(format!("a node has more than {most} bins; give less")));
        }
        for bin in value.all(2) {
            let bin = value.part(bin)?;
            if bin.bytes(1).eq_ignore_ascii_case(b"TS") {
                return Err(CallError::invalid("cannot name a bin TS: it is an option; use another name"));
            }
            out.word(bin.bytes(1)).word(bin.bytes(2));
        }
        Ok(())
    })
}

/// See [`change_node`].
pub(super) fn remove_node(message: Message<'_>) -> Result<CallPlan, CallError> {
    change_node(message, b"DEL", |_| Ok(()))
}

/// Decodes beside the fields of [`change_node`]: 4 archived.
pub(super) fn mark_node(message: Message<'_>) -> Result<CallPlan, CallError> {
    change_node(message, if message.uint(4) != 0 { b"ARCHIVE" } else { b"RESTORE" }, |_| Ok(()))
}

/// Decodes 1 graph; empty for the whole store. Replies 1 figures (1 name, 2 value), 2 graphs, 3 types.
pub(super) fn stats(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut words: Vec<&[u8]> = vec![b"G.STATS"];
    words.extend(message.try_bytes(1).filter(|graph| !graph.is_empty()));
    Ok(CallPlan::one(&words, stats_reply))
}

fn stats_reply(value: Value<'_>) -> Next {
    let words: Vec<Value<'_>> = value.items().collect();
    let mut out = Encoder::new();
    for entry in words.chunks_exact(2) {
        let name = entry[0].text().unwrap_or_default();
        match (name, entry[1]) {
            (_, Value::Int(figure)) => {
                out.message(1, |out| {
                    out.bytes(1, name).int(2, figure);
                });
            }
            (name, texts) => texts.items().filter_map(|text| text.text()).for_each(|text| {
                out.item(if name == b"graphs" { 2 } else { 3 }, text);
            }),
        }
    }
    reply(|message| {
        message.append(&out);
    })
}
