//! The section `graph` of a workload file.

use toml::de::DeValue;

use super::put;
use super::reader::{DocumentReader, Section};
use super::write::{number, put as put_line, rate, text};
use crate::workload::fault::WorkloadFault;
use crate::workload::graph::{EdgeFile, EdgeOrigin, Endpoints, GraphLoad, GraphQuery};

/// Reads the section.
pub fn graph<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> GraphLoad {
    let mut load = GraphLoad::default();
    put(&mut load.name, reader.text(&mut section, "name"));
    put(&mut load.edge_type, reader.text(&mut section, "type"));
    if let EdgeOrigin::Rmat { scale, edges_per_node } = &mut load.origin {
        put(scale, reader.small(&mut section, "scale"));
        put(edges_per_node, reader.small(&mut section, "edges_per_node"));
    }
    if let Some(file) = reader.text(&mut section, "file") {
        match EdgeFile::read(&reader.folder().join(file)) {
            Ok(file) => load.origin = EdgeOrigin::File(file),
            Err(fault) => {
                let fault =
                    WorkloadFault::new("graph.file", format!("{}: {}", place(&fault), fault.what), fault.remedy);
                reader.located(vec![fault]);
            }
        }
        if section.has("scale") || section.has("edges_per_node") {
            let what = "a graph from a file has no scale";
            reader.located(vec![WorkloadFault::new("graph.file", what, "remove scale and edges_per_node, or file")]);
        }
    }
    put(&mut load.endpoints, reader.word(&mut section, "endpoints", &Endpoints::NAMES));
    let remedy = "write [10, 50]: the lowest and the highest number";
    if let Some(bounds) = reader.list(&mut section, "targets", remedy) {
        let bounds: Vec<Option<u32>> = bounds
            .iter()
            .map(|(_, bound)| match bound.get_ref() {
                DeValue::Integer(bound) => bound.as_str().parse().ok(),
                _ => None,
            })
            .collect();
        match bounds[..] {
            [Some(least), Some(most)] => load.targets = (least, most),
            _ => reader.located(vec![WorkloadFault::new("graph.targets", "these are not two whole numbers", remedy)]),
        }
    }
    put(&mut load.page, reader.small(&mut section, "page"));
    put(&mut load.hops, reader.small(&mut section, "hops"));
    load.budget = reader.small(&mut section, "budget");
    put(&mut load.writes_per_s, reader.rate(&mut section, "writes"));
    put(&mut load.write_edges, reader.small(&mut section, "write_edges"));
    let remedy = "write queries = [{ query = \"dist\", weight = 9 }, { query = \"page\", weight = 1 }]";
    let queries = reader.list(&mut section, "queries", remedy);
    for (at, (path, value)) in queries.iter().flatten().enumerate() {
        if at == 0 {
            load.queries.clear();
        }
        match value.get_ref().as_table() {
            Some(table) => load.queries.extend(query(reader, Section::new(path.clone(), table))),
            None => reader.misshapen(path, value, "a table", remedy),
        }
    }
    reader.end(section);
    load
}

/// Returns the file and the line of a fault.
fn place(fault: &WorkloadFault) -> String {
    match &fault.place {
        crate::workload::FaultPlace::File { path, line } => format!("{}:{line}", path.display()),
        crate::workload::FaultPlace::Given => String::new(),
    }
}

fn query<'t>(reader: &mut DocumentReader<'t>, mut section: Section<'_, 't>) -> Option<(GraphQuery, f64)> {
    let query = reader.word(&mut section, "query", &GraphQuery::NAMES);
    let weight = reader.number(&mut section, "weight").unwrap_or(1.0);
    if query.is_none() && !section.has("query") {
        let remedy = "write { query = \"dist\", weight = 1 }";
        reader.located(vec![WorkloadFault::new(section.path.clone(), "the query is missing", remedy)]);
        return None;
    }
    reader.end(section);
    query.map(|query| (query, weight))
}

/// Writes the section.
pub fn put_graph(out: &mut String, load: &GraphLoad) {
    out.push_str("\n[graph]\n");
    put_line(out, "name", &text(&load.name));
    put_line(out, "type", &text(&load.edge_type));
    match &load.origin {
        EdgeOrigin::Rmat { scale, edges_per_node } => {
            put_line(out, "scale", &scale.to_string());
            put_line(out, "edges_per_node", &edges_per_node.to_string());
        }
        EdgeOrigin::File(file) => {
            let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
            put_line(out, "file", &text(&path.to_string_lossy()));
        }
    }
    put_line(out, "endpoints", &text(load.endpoints.name()));
    put_line(out, "targets", &format!("[{}, {}]", load.targets.0, load.targets.1));
    put_line(out, "page", &load.page.to_string());
    put_line(out, "hops", &load.hops.to_string());
    if let Some(budget) = load.budget {
        put_line(out, "budget", &budget.to_string());
    }
    if load.writes_per_s > 0.0 {
        put_line(out, "writes", &rate(load.writes_per_s));
    }
    put_line(out, "write_edges", &load.write_edges.to_string());
    let query = |(query, weight): &(GraphQuery, f64)| {
        format!("{{ query = {}, weight = {} }}", text(query.name()), number(*weight))
    };
    let queries: Vec<String> = load.queries.iter().map(query).collect();
    put_line(out, "queries", &format!("[{}]", queries.join(", ")));
}
