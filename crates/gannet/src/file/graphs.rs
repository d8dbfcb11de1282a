//! `gannet file` for files of graphs: `stats`, `check` and `dump`.

use std::fmt::Write;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::Path;

use graph::{
    Direction, EdgeState, FAULTS_MAX, ListCheck, ListFault, MemoryFault, MemoryFaultKind, RestartReport, TypeId,
};
use server::offline::graphs::{FileBoot, GraphFile, csv_line, put_field, state_name, types_of};

use super::{FileFigures, print_figures};
use crate::{Failure, print, warn};

/// The bytes before the first segment of a file.
const HEADER_BYTES: u64 = 4096;

/// Opens a file of graphs for reading.
fn open(path: &Path) -> Result<GraphFile, Failure> {
    GraphFile::open(path).map_err(|what| failed(path, &what))
}

fn failed(path: &Path, what: &str) -> Failure {
    Failure::Failed(vec![format!("{}: {what}", path.display())])
}

/// The check of one type of one graph.
struct TypeCheck {
    graph: String,
    name: String,
    is_inverse: bool,
    check: ListCheck,
}

/// Checks the lists of all types.
fn check_types(file: &GraphFile) -> Vec<TypeCheck> {
    let mut reader = file.store.reader().expect("no other reader exists");
    let guard = reader.enter();
    let mut checks = Vec::new();
    for graph in file.store.graphs() {
        for (name, ty) in types_of(&graph) {
            let check = guard.view(&graph).check_lists(ty).expect("a listed type is declared");
            let is_inverse = is_inverse(&graph, ty);
            checks.push(TypeCheck { graph: graph.name().to_owned(), name, is_inverse, check });
        }
    }
    checks
}

/// Returns true if the edges of a type are those of another type, reversed.
fn is_inverse(graph: &graph::Graph, ty: TypeId) -> bool {
    graph.type_config(ty).is_ok_and(|config| matches!(config.direction, Direction::InverseOf(_)))
}

/// Prints figures of a file.
pub fn stats(path: &Path, is_json: bool) -> Result<(), Failure> {
    let file = open(path)?;
    let checks = check_types(&file);
    let edges_in = |state: EdgeState| -> u64 {
        checks.iter().filter(|one| !one.is_inverse).map(|one| one.check.edges[state as usize]).sum()
    };
    let (store, mut figures) = (file.store.stats(), FileFigures::default());
    figures.text("kind", "graphs");
    figures.number("file_bytes", file.bytes);
    figures.text("boot", &boot_text(file.boot));
    figures.number("graphs", file.restart.graphs as u64);
    figures.number("edge_types", checks.len() as u64);
    figures.number("nodes", file.restart.nodes as u64);
    figures.number("lists", checks.iter().map(|one| one.check.lists).sum());
    for state in [EdgeState::Live, EdgeState::Negative, EdgeState::Archived, EdgeState::Removed] {
        figures.number(&format!("edges_{}", state_name(state)), edges_in(state));
    }
    figures.number("segment_bytes", store.segment_bytes as u64);
    figures.number("segments", file.memory.segments as u64);
    figures.number("segments_used", file.memory.segments_used as u64);
    figures.number("records", file.memory.records);
    figures.number("record_bytes", file.memory.record_bytes);
    figures.number("live_bytes", store.live_bytes as u64);
    figures.number("compaction_debt_bytes", file.memory.record_bytes.saturating_sub(store.live_bytes as u64));
    let stored: u64 = [EdgeState::Live, EdgeState::Negative, EdgeState::Archived].into_iter().map(edges_in).sum();
    if stored > 0 {
        figures.decimal("bytes_per_edge", store.live_bytes as f64 / stored as f64);
    }
    figures.number("index_bytes", store.index_bytes as u64);
    figures.number("faults", faults_count(&file, &checks));
    print_figures(&figures, is_json)
}

fn boot_text(boot: FileBoot) -> String {
    match boot {
        FileBoot::Current => "this".to_owned(),
        FileBoot::Committed(number) => format!("earlier: these are the graphs of commit {number}"),
        FileBoot::Discarded => "earlier: a server discards the graphs".to_owned(),
    }
}

fn faults_count(file: &GraphFile, checks: &[TypeCheck]) -> u64 {
    let lists: u64 = checks.iter().map(|one| one.check.faults_count).sum();
    let restart =
        (file.restart.records_orphaned + file.restart.nodes_lost + file.restart.types_lost + file.restart.graphs_lost)
            as u64;
    u64::from(file.stated_bytes.is_some()) + file.memory.faults_count + restart + lists
}

/// Checks a whole file, and prints the result.
pub fn check(path: &Path) -> Result<(), Failure> {
    let file = open(path)?;
    let checks = check_types(&file);
    let mut text = String::new();
    match file.boot {
        FileBoot::Current => {}
        FileBoot::Committed(number) => {
            let _ = writeln!(text, "written before the last boot: these are the graphs of commit {number}");
        }
        FileBoot::Discarded => {
            let what = "a server discards these graphs; `gannet file dump` saves them";
            let _ = writeln!(text, "written before the last boot: {what}");
        }
    }
    let memory = &file.memory;
    let _ = writeln!(
        text,
        "segments: {} of {} in use, whole records: {}, {} bytes",
        memory.segments_used, memory.segments, memory.records, memory.record_bytes
    );
    for TypeCheck { graph, name, is_inverse, check } in &checks {
        let [live, negative, archived, removed] = check.edges;
        let lists = check.lists;
        let _ = match is_inverse {
            true => writeln!(text, "{graph} {name}: {lists} lists of the reversed edges of another type"),
            false => writeln!(
                text,
                "{graph} {name}: {lists} lists, {live} live edges, {negative} negative, {archived} archived, {removed} \
                 removed"
            ),
        };
    }
    let (count, mut faults) = (faults_count(&file, &checks), Vec::new());
    if count == 0 {
        text.push_str("no fault\n");
        return print(&text);
    }
    if let Some(stated) = file.stated_bytes {
        let bytes = file.bytes;
        faults.push(format!("the file has {bytes} of {stated} bytes, so edges at its end are lost"));
    }
    faults.extend(memory.faults.iter().map(memory_fault));
    faults.extend(restart_faults(&file.restart));
    for TypeCheck { graph, name, check, .. } in &checks {
        faults.extend(check.faults.iter().map(|fault| format!("{graph} {name}: {}", list_fault(*fault))));
    }
    faults.truncate(FAULTS_MAX);
    if count > faults.len() as u64 {
        faults.push(format!("{count} faults in all"));
    }
    faults.push(
        "edges of these records are missing or have an earlier state, and all others are intact; save them with \
         `gannet file dump`, or restore a copy of the file if there is one"
            .to_owned(),
    );
    print(&text).and(Err(Failure::Failed(faults)))
}

/// Describes the records whose graph, node or edge type has no record of its own.
fn restart_faults(restart: &RestartReport) -> Vec<String> {
    let fault = |count: usize, text: &str| (count > 0).then(|| format!("{count} {text}"));
    let faults = [
        fault(restart.records_orphaned, "records name a node or type whose own record is missing, and are ignored"),
        fault(restart.nodes_lost, "nodes have no record although others name them; their edges are hidden"),
        fault(restart.graphs_lost, "graphs have no record of their names; they are named lost:NUMBER"),
        fault(restart.types_lost, "edge types have no record although others name them; they are named lost:NUMBER"),
    ];
    faults.into_iter().flatten().collect()
}

/// Describes a fault of the memory, with its position in the file.
fn memory_fault(fault: &MemoryFault) -> String {
    let (offset, segment) = (HEADER_BYTES + fault.offset, fault.segment);
    let what = match fault.kind {
        MemoryFaultKind::Header => "the header is wrong, so the records of the segment are not read".to_owned(),
        MemoryFaultKind::Length => "the header states more bytes than the segment has".to_owned(),
        MemoryFaultKind::Record(rest) => {
            format!("the checksum or form of a record is wrong, so {rest} bytes up to the next record are not read")
        }
        _ => "unknown fault".to_owned(),
    };
    format!("byte {offset}, segment {segment}: {what}")
}

fn list_fault(fault: ListFault) -> String {
    match fault {
        ListFault::OneDirection(a, b) => {
            format!("the edge of {a} and {b} is in the list of {a}; the list of {b} lacks it or has another value")
        }
        ListFault::UnknownNode(node, number) => {
            format!("the list of {node} names node number {number}, whose record is missing")
        }
        ListFault::Degree(node, degree, live) => format!("node {node} has degree {degree} and {live} live edges"),
        ListFault::Order(node) => format!("the list of {node} is not in order"),
        _ => "unknown fault".to_owned(),
    }
}

/// The selection of one edge type, whose live edges are written as CSV.
pub struct EdgeSelection<'a> {
    /// The name of the graph.
    pub graph: &'a str,
    /// The name of the type.
    pub edge_type: &'a str,
}

/// Writes all graphs to standard output as lines of JSON, or the live edges of one type as CSV.
pub fn dump(path: &Path, selection: Option<EdgeSelection<'_>>) -> Result<(), Failure> {
    let file = open(path)?;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let written = match &selection {
        Some(selection) => {
            let (graph, ty) = selected(path, &file, selection)?;
            dump_csv(&file, &graph, ty, &mut out)
        }
        None => file.dump(&mut |line| writeln!(out, "{line}")).map(|counts| (counts.edges, 0)),
    };
    let faults = faults_count(&file, &check_types(&file));
    match written.and_then(|counts| out.flush().map(|()| counts)) {
        Ok((edges, 0)) if faults == 0 => {
            warn(&format!("gannet: {edges} edges"));
            Ok(())
        }
        Ok((edges, refused)) => {
            let mut left = vec![format!("{edges} edges were written")];
            if refused > 0 {
                left.push(format!(
                    "{refused} edges have an attribute with a line feed, which CSV cannot hold; dump without --type"
                ));
            }
            if faults > 0 {
                left.push(format!("the file has {faults} faults, so edges may be missing; see `gannet file check`"));
            }
            Err(Failure::Failed(left))
        }
        // The reader may have closed the pipe, as `| head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::Failed(vec![format!("cannot write to standard output: {error}; check its destination")]))
        }
    }
}

/// Returns the selected type.
fn selected(path: &Path, file: &GraphFile, selection: &EdgeSelection<'_>) -> Result<(graph::Graph, TypeId), Failure> {
    let EdgeSelection { graph: name, edge_type } = selection;
    let names = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let graph = file.store.graph(name).ok_or_else(|| {
        let there = names(file.store.graphs().map(|graph| graph.name().to_owned()).collect());
        failed(path, &format!("it has no graph '{name}'; choose one of: {there}"))
    })?;
    let ty = graph.edge_type(edge_type).map_err(|_| {
        let there = names(graph.edge_types());
        failed(path, &format!("the graph '{name}' has no edge type '{edge_type}'; choose one of: {there}"))
    })?;
    Ok((graph, ty))
}

/// Writes the live edges of one type as CSV. Returns their number, and the number of edges that CSV cannot hold.
fn dump_csv(
    file: &GraphFile,
    graph: &graph::Graph,
    ty: TypeId,
    out: &mut impl std::io::Write,
) -> std::io::Result<(u64, u64)> {
    let schema = graph.type_config(ty).expect("the type was found").schema;
    let mut header = b"source,destination,time_ms".to_vec();
    for name in &schema {
        header.push(b',');
        put_field(&mut header, name.as_bytes());
    }
    header.push(b'\n');
    out.write_all(&header)?;
    let (mut edges, mut refused) = (0, 0);
    file.each_edge(graph, ty, &mut |edge| {
        if edge.edge.state != EdgeState::Live {
            return Ok(());
        }
        let Some(mut line) = csv_line(edge, &schema) else {
            refused += 1;
            return Ok(());
        };
        edges += 1;
        line.push(b'\n');
        out.write_all(&line)
    })?;
    Ok((edges, refused))
}
