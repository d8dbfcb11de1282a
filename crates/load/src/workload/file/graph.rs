//! The section `graph` of a workload file.

use toml::de::DeValue;

use super::reader::{DocumentReader, Section, put};
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
