//! The page of `gannet top` for the graph store of a server.
//!
//! ```text
//!   gannet 0.1 at 127.0.0.1:9555, up ...          head
//!   edges touched 12k/s  changed 3k/s   ...       summary, as many figures in a line as fit
//!   query            queries/s   share            kinds of queries
//! ```

use super::arrange::{PageParts, arrange};
use super::reading::ServerFigures;
use super::view::{Layout, Rates, Row, RowOrder, Section, bytes, count, head, hit_share};
use crate::screen::{ViewLine, Weight};

/// Returns true if the server has a graph.
pub fn has_graphs(now: &ServerFigures) -> bool {
    // Even a graph without edges has the record of its name.
    now.figure("gannet_graph_live_bytes", None) > 0.0
}

/// Formats the page of the server at `addr`: rates from `before` to `now`, and current values.
pub fn lines(now: &ServerFigures, before: Option<&ServerFigures>, addr: &str, layout: &Layout<'_>) -> Vec<ViewLine> {
    let rates = Rates { now, before };
    let head = head(now, addr, layout.order);
    if has_graphs(now) {
        let blocks = vec![queries(&rates, layout.order).block()];
        return arrange(PageParts { head, figures: summary(&rates), history: None, blocks }, layout.size);
    }
    let why = match now.figure("gannet_graph_memory_bytes", None) > 0.0 {
        true => "this server has no graph; a client creates one with G.TYPE",
        false => "this server has no graph store; start it with --graph-memory, as in 256MiB",
    };
    let lines = [(Weight::Head, head.as_str()), (Weight::Plain, why)].into_iter().take(layout.size.rows);
    lines.map(|(weight, text)| ViewLine::new(weight, text, layout.size.columns)).collect()
}

fn summary(rates: &Rates<'_>) -> Vec<String> {
    let now = |name: &str| rates.now.figure(&format!("gannet_graph_{name}"), None);
    let segments = |state: &str| count(rates.now.figure("gannet_graph_segments", Some(state)));
    let rate = |name: &str| rates.figure(&format!("gannet_graph_{name}_total"));
    let second_degree = |result: &str| rates.labelled("gannet_graph_second_degree_total", result);
    let queries = rates.rate(|reading| reading.sum("gannet_graph_queries_total"));
    let touched = rate("edges_touched");
    vec![
        format!("queries {}/s", count(queries)),
        format!("edges touched {}/s, {} a query", count(touched), share_text(touched, queries, count)),
        format!("partial {}", share_text(rate("partial") * 100.0, queries, |percent| format!("{percent:.2} %"))),
        format!("second degree {} hits", hit_share(second_degree("hit"), second_degree("miss"))),
        format!("edges changed {}/s", count(rate("edges_changed"))),
        format!("changes refused {}/s", count(rate("refused"))),
        format!("segments {} used, {} free, {} retired", segments("used"), segments("free"), segments("retired")),
        format!("reused {}/s", count(rate("segments_reused"))),
        format!("compaction debt {}", bytes(now("compaction_debt_bytes"))),
        format!("slices {}/s", count(rate("compaction_slices"))),
        format!("memory {} live of {}", bytes(now("live_bytes")), bytes(now("memory_bytes"))),
        format!("index {}", bytes(now("index_bytes"))),
    ]
}

/// Formats `part / whole`; `-` if the whole is 0.
fn share_text(part: f64, whole: f64, format: impl Fn(f64) -> String) -> String {
    if whole > 0.0 { format(part / whole) } else { "-".to_owned() }
}

/// Formats the rate of each kind of query since the last reading, and the number since the server's start.
fn queries(rates: &Rates<'_>, order: RowOrder) -> Section {
    const NAME: &str = "gannet_graph_queries_total";
    let all = rates.rate(|reading| reading.sum(NAME));
    let rows = rates.now.labels(NAME).into_iter().map(|kind| {
        let rate = rates.labelled(NAME, kind);
        let share = share_text(rate * 100.0, all, |percent| format!("{percent:.1} %"));
        let total = count(rates.now.figure(NAME, Some(kind)));
        let text = format!("{kind:<16}{:>12}{share:>10}{total:>14}", count(rate));
        Row { name: kind.to_owned(), rate, slowest_ns: rate, text }
    });
    let titles = format!("{:>16}{:>10}{:>14}", "queries/s", "of all", "since start");
    Section { name: "query", titles, rows: rows.collect() }.order(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Size;
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn reading(at: Instant, queries: u64) -> ServerFigures {
        let stats = json!({ "figures": {
            "gannet_build_info": { "9.9.9": 1 },
            "gannet_graph_queries_total": { "distance": queries * 3, "mutual": queries, "edge": 0, "count": 0,
                "page": 0, "sets": 0, "path": 0, "second_degree": 0, "suggest": 0, "node": 0 },
            "gannet_graph_edges_touched_total": queries * 400,
            "gannet_graph_partial_total": queries / 50,
            "gannet_graph_second_degree_total": { "hit": queries * 9, "miss": queries },
            "gannet_graph_edges_changed_total": queries,
            "gannet_graph_segments": { "free": 17, "retired": 1, "used": 7 },
            "gannet_graph_compaction_debt_bytes": 5u64 << 20,
            "gannet_graph_memory_bytes": 256u64 << 20,
            "gannet_graph_live_bytes": 65u64 << 20,
            "gannet_graph_index_bytes": 3u64 << 20,
        } });
        ServerFigures::of(at, stats, json!({}))
    }

    fn page(now: &ServerFigures, before: Option<&ServerFigures>, columns: usize, rows: usize) -> String {
        let layout = Layout { size: Size { columns, rows }, order: RowOrder::Rate, history: &[] };
        let lines = lines(now, before, "127.0.0.1:1", &layout);
        assert!(lines.len() <= rows && lines.iter().all(|line| line.text.chars().count() <= columns));
        lines.iter().map(|line| line.text.trim_end()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn page_shows_rates_of_graphs_in_a_small_terminal() {
        let start = Instant::now();
        let (first, second) = (reading(start, 100), reading(start + Duration::from_secs(2), 300));
        let page = page(&second, Some(&first), 80, 24);
        for part in [
            "gannet 9.9.9 at 127.0.0.1:1",
            "queries 400/s",
            "edges touched 40000/s, 100 a query",
            "partial 0.50 %",
            "second degree 90.0 % hits",
            "edges changed 100/s",
            "segments 7 used, 17 free, 1 retired",
            "compaction debt 5.0 MiB",
            "memory 65.0 MiB live of 256.0 MiB",
            "index 3.0 MiB",
            "\nquery              queries/s    of all   since start\n\
             distance                 300    75.0 %           900\n\
             mutual                   100    25.0 %           300",
        ] {
            assert!(page.contains(part), "{part:?} is not in\n{page}");
        }
        assert!(page.contains("\nsuggest") && page.contains("\nnode"), "every kind fits:\n{page}");
    }

    #[test]
    fn page_fits_every_terminal_and_counts_the_kinds_that_it_leaves_out() {
        let start = Instant::now();
        let (first, second) = (reading(start, 100), reading(start + Duration::from_secs(2), 300));
        (1..30).for_each(|rows| drop(page(&second, Some(&first), 80, rows)));
        let small = page(&second, Some(&first), 80, 10);
        assert!(small.contains("\nquery ") && small.contains(" of 10 "), "{small}");
        page(&second, None, 20, 10);
        let smallest = page(&second, Some(&first), 40, 6);
        assert!(smallest.contains("figures do not fit"), "{smallest}");
    }

    #[test]
    fn page_of_a_server_without_graphs_names_the_way_to_one() {
        let of = |stats| ServerFigures::of(Instant::now(), stats, json!({}));
        let none = page(&of(json!({})), None, 80, 24);
        assert!(none.contains("no graph store; start it with --graph-memory, as in 256MiB"), "{none}");
        let empty = json!({ "figures": { "gannet_graph_memory_bytes": 1, "gannet_graph_live_bytes": 0 } });
        let empty = page(&of(empty), None, 80, 24);
        assert!(empty.contains("no graph; a client creates one with G.TYPE"), "{empty}");
    }
}
