//! Computes the cost of a node's memory from a list of modules. A node is written as `2xdram:16+2xpmem:128`.

use std::fmt::Write as _;

use super::machines::{columns, plot};
use super::table::{CostTable, number};
use crate::report::tables;
use page::words::grouped;
use page::{escape, section, whole};

/// Highest number of modules of one kind in a node.
const MODULES_MAX: u64 = 1024;

/// A memory module.
#[derive(Clone, Debug, PartialEq)]
struct Module {
    kind: String,
    gb: f64,
    usd_per_gb: f64,
}

/// A node with its memory size and its price.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The node as the user wrote it.
    pub text: String,
    /// Total memory in gigabytes.
    pub gb: f64,
    /// Price of the node's memory in dollars.
    pub usd: f64,
}

/// Computes the price of each of `nodes` from the list of modules `text`, the content of the file `name`.
///
/// # Errors
/// The fault with its line or node, and the remedy.
pub fn nodes(name: &str, text: &str, nodes: &[String]) -> Result<Vec<Node>, String> {
    let table = CostTable::parse(name, text)?;
    let column = |wanted: &str| {
        table
            .column(wanted)
            .ok_or_else(|| format!("{name}: there is no column {wanted}; use the columns kind,module_gb,usd_per_gb"))
    };
    let (kind, gb, usd) = (column("kind")?, column("module_gb")?, column("usd_per_gb")?);
    let mut modules = Vec::new();
    for (line, row) in &table.rows {
        modules.push(Module {
            kind: row[kind].clone(),
            gb: number(name, *line, "module_gb", &row[gb])?,
            usd_per_gb: number(name, *line, "usd_per_gb", &row[usd])?,
        });
    }
    nodes.iter().map(|text| node(name, &modules, text)).collect()
}

fn node(name: &str, modules: &[Module], text: &str) -> Result<Node, String> {
    let mut node = Node { text: text.to_owned(), gb: 0.0, usd: 0.0 };
    for part in text.split('+') {
        let wrong = || format!("node {text:?}: {part:?} is not a number of modules; write it as in 8xdram:32");
        let (count, module) = part.trim().split_once('x').ok_or_else(wrong)?;
        let (kind, gb) = module.split_once(':').ok_or_else(wrong)?;
        let count: u64 = count.parse().ok().filter(|count| (1..=MODULES_MAX).contains(count)).ok_or_else(wrong)?;
        let gb: f64 = gb.parse().map_err(|_| wrong())?;
        let found = modules.iter().find(|module| module.kind == kind && module.gb == gb).ok_or_else(|| {
            let known: Vec<String> = modules.iter().map(|module| format!("{}:{}", module.kind, module.gb)).collect();
            format!("node {text:?}: {name} has no module {kind}:{gb}; it has {}", known.join(", "))
        })?;
        node.gb += count as f64 * gb;
        node.usd += count as f64 * gb * found.usd_per_gb;
    }
    Ok(node)
}

fn rows(nodes: &[Node]) -> Vec<Vec<String>> {
    let row = |node: &Node| {
        let against = node.usd / node.gb / (nodes[0].usd / nodes[0].gb);
        vec![
            node.text.clone(),
            grouped(node.gb),
            grouped(node.usd),
            format!("{:.2}", node.usd / node.gb),
            format!("x {against:.2}"),
        ]
    };
    nodes.iter().map(row).collect()
}

const HEADS: [&str; 5] = ["node", "GB", "$", "$ per GB", "relative to the first"];

/// Returns the table as text.
pub fn text(nodes: &[Node]) -> String {
    let heads = HEADS.map(str::to_owned).to_vec();
    columns(&std::iter::once(heads).chain(rows(nodes)).collect::<Vec<_>>())
}

/// Returns the table and a plot as an HTML page.
pub fn html(nodes: &[Node]) -> String {
    let bars: Vec<(String, f64)> = nodes.iter().map(|node| (node.text.clone(), node.usd / node.gb)).collect();
    let cheapest = nodes.iter().min_by(|a, b| (a.usd / a.gb).total_cmp(&(b.usd / b.gb)));
    let verdict = cheapest.map_or(String::new(), |node| format!("{}: {:.2} $ per GB", node.text, node.usd / node.gb));
    let mut body =
        format!("<div class=\"card verdict\"><div class=\"what\">cost</div><h1>{}</h1></div>", escape(&verdict));
    let _ = write!(body, "<div class=\"card\">{}</div>", plot("Dollars per gigabyte of memory", &bars));
    let table: Vec<_> = rows(nodes).into_iter().map(|row| ("", row)).collect();
    section(&mut body, &escape("By node"), &tables::table(&HEADS, &table));
    whole("Cost of memory", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULES: &str = include_str!("../../../../data/prices/memory-prices-2019.csv");

    fn priced(wanted: &[&str]) -> Result<Vec<Node>, String> {
        let wanted: Vec<String> = wanted.iter().map(|text| (*text).to_owned()).collect();
        nodes("memory-prices-2019.csv", MODULES, &wanted)
    }

    #[test]
    fn the_published_nodes_have_their_published_prices() {
        let nodes = priced(&["8xdram:32", "2xdram:16+2xpmem:128"]).unwrap();
        let prices: Vec<f64> = nodes.iter().map(|node| node.usd).collect();
        assert_eq!(prices, [1792.0, 1392.0]);
        assert_eq!((nodes[0].gb, nodes[1].gb), (256.0, 288.0));
        let table = text(&nodes);
        assert!(table.contains("1,792") && table.contains("x 0.69"), "{table}");
        assert!(html(&nodes).contains("8xdram:32"));
    }

    #[test]
    fn a_node_that_can_not_be_built_is_refused() {
        for (wanted, part) in [
            ("8dram:32", "8xdram:32"),
            ("0xdram:32", "not a number of modules"),
            ("8xdram:48", "it has dram:16, dram:32"),
            ("8xhbm:32", "no module hbm:32"),
        ] {
            let error = priced(&[wanted]).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
