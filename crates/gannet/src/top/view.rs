//! Formats the differences of two readings as lines, so that they fit the terminal.
//!
//! ```text
//!   gannet 0.1 at 127.0.0.1:9555, up ...          head
//!   requests 12k/s   lookups 9k/s   ...           summary, as many figures in a line as fit
//!   history ▁▂▅█▇▆ ...                            requests per second of the last readings
//!   command 3 of 9     requests/s  wait p99 ...   tables, which share the remaining rows; a title counts its rows
//! ```
//! `arrange` divides the rows among these parts.

use super::arrange::{Block, PageParts, arrange};
use super::reading::{Leader, Of, ServerFigures};
use crate::screen::{Size, ViewLine, Weight, cut};
use command::keyspace::namespaces::DEFAULT_NAME;

/// The lists of hot keys: each list's name in the server's reply, and its title in the view.
const LISTS: [(&str, &str); 5] = [
    ("keys", "hot keys"),
    ("big", "longest values"),
    ("missed", "missed keys"),
    ("prefixes", "hot prefixes"),
    ("missed-prefixes", "missed prefixes"),
];
/// Number of entries shown in a list before rows are left over.
const NAMES: usize = 8;
/// Minimum number of columns of a list.
const LIST_COLUMNS_MIN: usize = 24;
/// Number of columns from which the p50 of each part of a request is shown.
const WIDE: usize = 96;
/// The heights of a history's bars.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The order of commands, namespaces and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The busiest first.
    Rate,
    /// The slowest first, by the p999 of the execution.
    Slowest,
    /// By name.
    Name,
}

impl RowOrder {
    /// Returns the name of the column by which rows are ordered.
    const fn name(self) -> &'static str {
        match self {
            Self::Rate => "requests/s",
            Self::Slowest => "execute p999",
            Self::Name => "name",
        }
    }

    /// Returns the order after this one.
    pub const fn next(self) -> Self {
        match self {
            Self::Rate => Self::Slowest,
            Self::Slowest => Self::Name,
            Self::Name => Self::Rate,
        }
    }
}

/// The way in which a view is formatted.
pub struct Layout<'h> {
    pub size: Size,
    pub order: RowOrder,
    /// Requests per second of the last readings, the oldest first.
    pub history: &'h [f64],
}

impl Layout<'_> {
    const fn is_wide(&self) -> bool {
        self.size.columns >= WIDE
    }
}

/// Two readings, from which rates are computed.
pub(super) struct Rates<'r> {
    pub(super) now: &'r ServerFigures,
    pub(super) before: Option<&'r ServerFigures>,
}

impl Rates<'_> {
    pub(super) fn rate(&self, of: impl Fn(&ServerFigures) -> f64) -> f64 {
        // The counters of a restarted server begin at 0.
        self.before.map_or(0.0, |before| (of(self.now) - of(before)).max(0.0) / self.now.seconds_since(before))
    }

    pub(super) fn figure(&self, name: &str) -> f64 {
        self.rate(|reading| reading.figure(name, None))
    }

    pub(super) fn labelled(&self, name: &str, label: &str) -> f64 {
        self.rate(|reading| reading.figure(name, Some(label)))
    }
}

/// A table of the view.
pub(super) struct Section {
    /// The title of the first column.
    pub(super) name: &'static str,
    /// The titles of the other columns.
    pub(super) titles: String,
    pub(super) rows: Vec<Row>,
}

/// A row of a table, with the values by which rows are ordered.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) rate: f64,
    pub(super) slowest_ns: f64,
    pub(super) text: String,
}

impl Section {
    /// Converts the section to a block of the page. Its title reports how many of its rows are shown.
    pub(super) fn block(self) -> Block<'static> {
        let (name, rows) = (self.name.to_owned(), self.rows.len());
        Block { name, rows, rows_max: rows, lines: Box::new(move |shown| self.lines(shown)) }
    }

    /// Formats the title and the first `shown` rows.
    fn lines(&self, shown: usize) -> Vec<(Weight, String)> {
        let all = self.rows.len();
        let title = if all > shown { format!("{} {shown} of {all}", self.name) } else { self.name.to_owned() };
        let rows = self.rows.iter().take(shown).map(|row| (Weight::Plain, row.text.clone()));
        let titles = without_spaces(&self.titles, title.chars().count().saturating_sub(12));
        std::iter::once((Weight::Head, format!("{title:<12}{titles}"))).chain(rows).collect()
    }

    pub(super) fn order(mut self, order: RowOrder) -> Self {
        match order {
            RowOrder::Rate => self.rows.sort_by(|a, b| b.rate.total_cmp(&a.rate)),
            RowOrder::Slowest => self.rows.sort_by(|a, b| b.slowest_ns.total_cmp(&a.slowest_ns)),
            RowOrder::Name => self.rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        self
    }
}

/// Removes up to `most` spaces from the titles of columns, so that they make room for a longer first title. Leaves a
/// space between two titles.
fn without_spaces(titles: &str, most: usize) -> String {
    let (mut left, mut kept) = (most, String::new());
    let mut chars = titles.chars().peekable();
    while let Some(char) = chars.next() {
        if left > 0 && char == ' ' && chars.peek() == Some(&' ') {
            left -= 1;
        } else {
            kept.push(char);
        }
    }
    kept
}

/// Returns the requests per second between two readings.
pub fn requests_per_s(now: &ServerFigures, before: Option<&ServerFigures>) -> f64 {
    Rates { now, before }.rate(|reading| reading.sum("gannet_worker_ops_total"))
}

/// Formats the whole view of the server at `addr`: rates from `before` to `now`, and current values.
pub fn lines(now: &ServerFigures, before: Option<&ServerFigures>, addr: &str, layout: &Layout<'_>) -> Vec<ViewLine> {
    let (rates, columns) = (Rates { now, before }, layout.size.columns);
    let sections =
        [commands(&rates, layout)].into_iter().chain(namespaces(&rates, layout)).chain([workers(&rates, layout)]);
    let page = PageParts {
        head: head(now, addr, layout.order),
        figures: summary(&rates),
        history: history(layout.history, columns),
        blocks: sections.map(Section::block).chain(lists(now, columns)).collect(),
    };
    arrange(page, layout.size)
}

/// Formats the latest rates as bars, the highest of them at full height; `None` if there are fewer than two.
fn history(rates: &[f64], columns: usize) -> Option<String> {
    let most = rates.iter().copied().fold(0.0, f64::max);
    let (title, end) = ("requests/s ", format!(" max {}", count(most)));
    let width = columns.saturating_sub(title.len() + end.len());
    if rates.len() < 2 || width == 0 {
        return None;
    }
    let bar = |rate: &f64| BARS[((rate / most.max(1e-9) * 7.0).round() as usize).min(7)];
    let bars: String = rates[rates.len().saturating_sub(width)..].iter().map(bar).collect();
    Some(format!("{title}{bars}{end}"))
}

pub(super) fn head(now: &ServerFigures, addr: &str, order: RowOrder) -> String {
    let version = now.labels("gannet_build_info").into_iter().next().unwrap_or("?").to_owned();
    let up = now.figure("gannet_uptime_seconds", None) as u64;
    let (days, hours, minutes, seconds) = (up / 86_400, up / 3600 % 24, up / 60 % 60, up % 60);
    let order = if order == RowOrder::Rate { String::new() } else { format!(", by {}", order.name()) };
    format!("gannet {version} at {addr}, up {days}d {hours:02}:{minutes:02}:{seconds:02}{order}")
}

fn summary(rates: &Rates<'_>) -> Vec<String> {
    let now = |name| rates.now.figure(name, None);
    let requests = rates.rate(|reading| reading.sum("gannet_worker_ops_total"));
    let (hits, misses) =
        (rates.labelled("gannet_lookups_total", "hit"), rates.labelled("gannet_lookups_total", "miss"));
    let per_s = |name: &str, figure: &str| format!("{name} {}/s", count(rates.figure(figure)));
    vec![
        format!("requests {}/s", count(requests)),
        format!("lookups {}/s, {} hits", count(hits + misses), hit_share(hits, misses)),
        format!("CPU {:.0} %", rates.figure("gannet_cpu_seconds_total") * 100.0),
        format!("received {}/s", bytes(rates.figure("gannet_received_bytes_total"))),
        format!("sent {}/s", bytes(rates.figure("gannet_sent_bytes_total"))),
        format!("connections {} of {}", count(now("gannet_connections")), count(now("gannet_connections_max"))),
        per_s("accepted", "gannet_connections_accepted_total"),
        per_s("slow", "gannet_slow_requests_total"),
        per_s("protocol errors", "gannet_protocol_errors_total"),
        format!(
            "memory {} used of {}",
            // The store reserves its whole memory at the start; only segments with items and the index are in use.
            bytes(now("gannet_heap_bytes") + now("gannet_index_bytes")),
            bytes(now("gannet_memory_bytes")),
        ),
        format!("process {}", bytes(now("gannet_resident_bytes"))),
        format!("dead {}", bytes(now("gannet_dead_bytes"))),
        format!("items {}", count(now("gannet_items"))),
        per_s("stored", "gannet_stored_total"),
        format!(
            "evicted {}/s, unread {}/s",
            count(rates.figure("gannet_evicted_total")),
            count(rates.figure("gannet_evicted_unread_total"))
        ),
        per_s("expired", "gannet_expired_total"),
        format!("refused {}/s", count(rates.rate(|reading| reading.sum("gannet_stores_refused_total")))),
    ]
}

/// Formats the share of hits; `-` without lookups.
pub(super) fn hit_share(hits: f64, misses: f64) -> String {
    if hits + misses > 0.0 { format!("{:.1} %", hits / (hits + misses) * 100.0) } else { "-".to_owned() }
}

/// Returns the titles of a table with the times of requests, after the first column.
fn time_titles(layout: &Layout<'_>) -> String {
    match layout.is_wide() {
        true => format!(
            "{:>12}  {:>22}  {:>22}  {:>22}",
            "requests/s", "wait p50  p99  p999", "execute p50  p99  p999", "send p50  p99  p999"
        ),
        false => format!(
            "{:>12}  {:>16}  {:>16}  {:>16}",
            "requests/s", "wait p99  p999", "execute p99 p999", "send p99  p999"
        ),
    }
}

fn commands(rates: &Rates<'_>, layout: &Layout<'_>) -> Section {
    let rows = rates.now.commands().into_iter().map(|command| timed(rates, command, Of::Command(command), layout));
    Section { name: "command", titles: time_titles(layout), rows: rows.collect() }.order(layout.order)
}

/// Formats the rate and the times of a group of requests.
fn timed(rates: &Rates<'_>, name: &str, of: Of<'_>, layout: &Layout<'_>) -> Row {
    let rate = rates.rate(|reading| reading.count(of));
    let parts = ["wait", "execute", "send"].map(|part| {
        let quantile = |name| time(rates.now.minute_ns(of, part, name));
        match layout.is_wide() {
            true => format!("{:>7}{:>7}{:>8}", quantile("p50_ns"), quantile("p99_ns"), quantile("p999_ns")),
            false => format!("{:>8}{:>8}", quantile("p99_ns"), quantile("p999_ns")),
        }
    });
    let [wait, execute, send] = parts;
    Row {
        name: name.to_owned(),
        rate,
        slowest_ns: rates.now.minute_ns(of, "execute", "p999_ns").unwrap_or(0.0),
        text: format!("{:<12}{:>12}  {wait}  {execute}  {send}", cut(name, 12), count(rate)),
    }
}

/// Formats the load and the memory of each namespace, if there are several.
fn namespaces(rates: &Rates<'_>, layout: &Layout<'_>) -> Vec<Section> {
    let names = rates.now.labels("gannet_namespace_items");
    if names.len() < 2 {
        return Vec::new();
    }
    let times: Vec<Row> = names.iter().map(|name| timed(rates, name, Of::Namespace(name), layout)).collect();
    let has = names.iter().zip(&times).map(|(name, timed)| {
        let now = |figure: &str| rates.now.figure(&format!("gannet_namespace_{figure}"), Some(name));
        let rate = |figure: &str| rates.labelled(&format!("gannet_namespace_{figure}_total"), name);
        let (hits, misses) = (rate("hits"), rate("misses"));
        let text = format!(
            "{:<12}{:>10}{:>8}{:>9}{:>10}{:>11}{:>11}{:>8}",
            cut(name, 12),
            count(hits + misses),
            hit_share(hits, misses),
            count(rate("stored")),
            count(rate("evicted")),
            bytes(now("heap_bytes")),
            bytes(now("heap_bytes_max")),
            count(now("items")),
        );
        let text = if layout.is_wide() { format!("{text}{:>13}", count(now("connections"))) } else { text };
        Row { name: (*name).to_owned(), rate: timed.rate, slowest_ns: timed.slowest_ns, text }
    });
    let has: Vec<Row> = has.collect();
    let titles = format!(
        "{:>10}{:>8}{:>9}{:>10}{:>11}{:>11}{:>8}",
        "lookups/s", "hits", "stored/s", "evicted/s", "memory", "of", "items"
    );
    let titles = if layout.is_wide() { format!("{titles}{:>13}", "connections") } else { titles };
    let section = |titles, rows| Section { name: "namespace", titles, rows }.order(layout.order);
    vec![section(time_titles(layout), times), section(titles, has)]
}

fn workers(rates: &Rates<'_>, layout: &Layout<'_>) -> Section {
    let titles = format!(
        "{:>12}{:>14}{:>14}{:>13}{:>11}",
        "requests/s", "iterations/s", "requests/each", "connections", "parked/s"
    );
    let row = |worker: &str| {
        let (requests, turns) =
            (rates.labelled("gannet_worker_ops_total", worker), rates.labelled("gannet_worker_turns_total", worker));
        let text = format!(
            "{worker:<12}{:>12}{:>14}{:>14.1}{:>13}{:>11}",
            count(requests),
            count(turns),
            if turns > 0.0 { requests / turns } else { 0.0 },
            count(rates.now.figure("gannet_worker_connections", Some(worker))),
            count(rates.labelled("gannet_worker_parked_total", worker)),
        );
        // Names that are ordered as numbers.
        Row { name: format!("{worker:>6}"), rate: requests, slowest_ns: requests, text }
    };
    let rows = rates.now.labels("gannet_worker_ops_total").into_iter().map(row).collect();
    Section { name: "worker", titles, rows }.order(layout.order)
}

/// A list of hot keys: its name in the server's reply, its title, and its entries.
type TitledList = (&'static str, &'static str, Vec<Leader>);

/// Formats the lists of hot keys that have entries, as many side by side as fit. Lists side by side are one block.
fn lists(now: &ServerFigures, columns: usize) -> Vec<Block<'static>> {
    let mut filled: Vec<TitledList> = LISTS
        .iter()
        .map(|(list, title)| (*list, *title, now.leaders(list)))
        .filter(|(_, _, leaders)| !leaders.is_empty())
        .collect();
    let beside = (columns / LIST_COLUMNS_MIN).clamp(1, filled.len().max(1));
    let (width, sampled_one_in) = (columns / beside, now.sampled_one_in());
    let mut blocks = Vec::new();
    while !filled.is_empty() {
        let rest = filled.split_off(beside.min(filled.len()));
        let row = std::mem::replace(&mut filled, rest);
        let longest = row.iter().map(|(_, _, leaders)| leaders.len()).max().unwrap_or(0);
        blocks.push(Block {
            name: row.iter().map(|(_, title, _)| *title).collect::<Vec<_>>().join(", "),
            rows: longest.min(NAMES),
            rows_max: longest,
            lines: Box::new(move |shown| beside_each_other(&row, width, shown, sampled_one_in)),
        });
    }
    blocks
}

/// Formats the titles and the first `shown` entries of lists, each in `width` columns.
fn beside_each_other(row: &[TitledList], width: usize, shown: usize, sampled_one_in: f64) -> Vec<(Weight, String)> {
    let mut lines = Vec::new();
    let mut place = |weight, text: &dyn Fn(&TitledList) -> String| {
        let cells = row.iter().map(|list| format!("{:<width$}", cut(&text(list), width - 1)));
        lines.push((weight, cells.collect::<String>()));
    };
    place(Weight::Head, &|(_, title, leaders)| match leaders.len() {
        all if all > shown => format!("{title} {shown} of {all}"),
        _ => (*title).to_owned(),
    });
    for line in 0..shown {
        place(Weight::Plain, &|(list, _, leaders)| {
            let Some(leader) = leaders.get(line) else { return String::new() };
            let amount = leader.amount as f64;
            let amount = if *list == "big" { bytes(amount) } else { estimate(amount, sampled_one_in) };
            match leader.namespace.as_str() {
                "" | DEFAULT_NAME => format!("{amount:>9} {}", leader.name),
                namespace => format!("{amount:>9} {namespace}/{}", leader.name),
            }
        });
    }
    lines
}

/// Formats a number of requests that was computed from samples of one request in `sampled_one_in`. The number is
/// rounded to the power of ten that its standard error reaches: other digits would be noise.
fn estimate(number: f64, sampled_one_in: f64) -> String {
    let error = (sampled_one_in * number).sqrt();
    if error < 1.0 {
        return count(number);
    }
    let step = 10f64.powf(error.log10().floor());
    format!("~{}", count((number / step).round() * step))
}

/// Formats a number in at most six characters.
pub(super) fn count(number: f64) -> String {
    match number {
        n if n < 10.0 && n.fract() > 0.05 => format!("{n:.1}"),
        n if n < 100_000.0 => format!("{n:.0}"),
        n if n < 1e8 => format!("{:.1}k", n / 1e3),
        n => format!("{:.1}M", n / 1e6),
    }
}

pub(super) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut rest = bytes;
    let mut unit = 0;
    while rest >= 1024.0 && unit + 1 < UNITS.len() {
        rest /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{rest:.0} B") } else { format!("{rest:.1} {}", UNITS[unit]) }
}

/// Formats a time with its unit; `-` for none.
fn time(ns: Option<f64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns < 1e3 => format!("{ns:.0}ns"),
        Some(ns) if ns < 99.95e3 => format!("{:.1}us", ns / 1e3),
        Some(ns) if ns < 1e6 => format!("{:.0}us", ns / 1e3),
        Some(ns) if ns < 1e9 => format!("{:.1}ms", ns / 1e6),
        Some(ns) => format!("{:.1}s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    fn reading(at: Instant, ops: u64, hits: u64) -> ServerFigures {
        let part = |ns: u64| json!({ "count": ops, "p50_ns": ns, "p99_ns": ns * 2, "p999_ns": ns * 3 });
        let times = json!({ "wait": part(1000), "execute": part(500), "send": part(2_000_000) });
        let stats = json!({
            "figures": {
                "gannet_build_info": { "9.9.9": 1 },
                "gannet_uptime_seconds": 90_061.0,
                "gannet_worker_ops_total": { "0": ops, "1": ops, "10": 0 },
                "gannet_worker_turns_total": { "0": ops / 4, "1": ops, "10": 0 },
                "gannet_lookups_total": { "hit": hits, "miss": hits },
                "gannet_memory_bytes": 1u64 << 30,
                "gannet_memory_held_bytes": 1u64 << 30,
                "gannet_heap_bytes": 2u64 << 20,
                "gannet_index_bytes": 1u64 << 20,
                "gannet_evicted_total": ops / 10,
                "gannet_namespace_items": { "default": 7, "shop": 9 },
                "gannet_namespace_heap_bytes": { "default": 0, "shop": 3u64 << 20 },
                "gannet_namespace_heap_bytes_max": { "default": 1u64 << 29, "shop": 4u64 << 20 },
                "gannet_namespace_hits_total": { "default": hits, "shop": 0 },
                "gannet_namespace_misses_total": { "default": 0, "shop": hits },
                "gannet_namespace_evicted_total": { "default": 0, "shop": ops },
            },
            "latency": {
                "start": { "get": times },
                "minute": { "get": times },
                "namespaces": {
                    "start": { "default": times, "shop": times },
                    "minute": { "default": times, "shop": { "wait": { "count": 0, "p50_ns": 0 } } },
                },
            },
        });
        let names: Vec<_> = (0..20).map(|n| json!({ "name": format!("user:{n}"), "amount": 6400 - n })).collect();
        let big = json!([
            { "name": "b", "amount": 2048, "namespace": "default" },
            { "name": "c", "amount": 1024, "namespace": "shop" },
        ]);
        ServerFigures::of(at, stats, json!({ "sampled_one_in": 128, "lists": { "keys": names, "big": big } }))
    }

    fn layout(columns: usize, rows: usize, order: RowOrder) -> Layout<'static> {
        Layout { size: Size { columns, rows }, order, history: &[0.0, 50.0, 200.0] }
    }

    fn sized(columns: usize, rows: usize, order: RowOrder) -> String {
        let start = Instant::now();
        let (first, second) = (reading(start, 100, 0), reading(start + Duration::from_secs(2), 300, 50));
        let lines = lines(&second, Some(&first), "127.0.0.1:1", &layout(columns, rows, order));
        assert!(lines.iter().all(|line| line.text.chars().count() <= columns));
        assert!(lines.len() <= rows, "{} lines", lines.len());
        lines.iter().map(|line| line.text.trim_end()).collect::<Vec<_>>().join("\n")
    }

    fn view(columns: usize) -> String {
        sized(columns, usize::MAX, RowOrder::Rate)
    }

    #[test]
    fn top_shows_rates_between_two_readings() {
        let view = view(120);
        for part in [
            "gannet 9.9.9 at 127.0.0.1:1, up 1d 01:01:01",
            "requests 200/s  lookups 50/s, 50.0 % hits",
            "memory 3.0 MiB used of 1.0 GiB",
            "evicted 10/s",
            "requests/s ▁▃█ max 200",
            "get                  100    1.0us  2.0us   3.0us    500ns  1.0us   1.5us    2.0ms  4.0ms   6.0ms",
            "0                    100            25           4.0",
            "\nhot keys ",
            "    ~6400 user:0",
            "    ~6400 user:19",
            " 2.0 KiB b",
            " 1.0 KiB shop/c",
            "namespace     requests/s",
            "default              100    1.0us  2.0us   3.0us    500ns  1.0us   1.5us    2.0ms  4.0ms   6.0ms",
            "shop                 100        -      -       -",
            "default             25 100.0 %        0         0        0 B  512.0 MiB       7            0",
            "shop                25   0.0 %        0       100    3.0 MiB    4.0 MiB       9            0",
        ] {
            assert!(view.contains(part), "{part:?} is not in\n{view}");
        }
        assert!(!view.contains(" of 20") && !view.contains("longest values 2 of"), "only what was cut is counted");
    }

    #[test]
    fn small_terminal_shows_every_section_and_counts_what_it_leaves_out() {
        let view = sized(80, 24, RowOrder::Rate);
        for part in [
            "requests 200/s",
            "memory 3.0 MiB used of 1.0 GiB",
            "refused 0/s",
            "max 200",
            "\ncommand       requests/s    wait p99  p999",
            "\nget                  100     2.0us   3.0us     1.0us   1.5us     4.0ms   6.0ms",
            "\nnamespace",
            "\nshop ",
            "\nworker ",
            "\nhot keys 5 of 20",
            "    ~6400 user:0",
        ] {
            assert!(view.contains(part), "{part:?} is not in\n{view}");
        }
        assert!(!view.contains('…'), "nothing is wider than the terminal:\n{view}");
        let smaller = sized(80, 18, RowOrder::Rate);
        assert!(smaller.contains("\nworker 1 of 3") && smaller.contains("\nhot keys 1 of 20"), "{smaller}");
        (1..40).for_each(|rows| drop(sized(80, rows, RowOrder::Rate)));
    }

    #[test]
    fn terminal_of_twelve_rows_shows_tables_and_names_those_that_do_not_fit() {
        let view = sized(40, 12, RowOrder::Rate);
        assert!(view.contains("\ncommand ") && view.contains("\nget "), "{view}");
        let last = view.lines().last().unwrap();
        assert!(last.starts_with("… 3 tables and 12 figures do not fit: "), "{view}");
        let wider = sized(80, 12, RowOrder::Rate);
        assert!(wider.ends_with("do not fit: worker, hot keys, longest values"), "{wider}");
        assert_eq!(wider.lines().count(), 12);
    }

    #[test]
    fn rows_that_are_left_over_show_more_hot_keys() {
        let view = sized(120, 40, RowOrder::Rate);
        assert!(!view.contains("hot keys 8 of 20") && view.contains("user:15"), "{view}");
        assert!(view.lines().count() >= 39 || view.contains("user:19"), "{view}");
        let medium = sized(120, 34, RowOrder::Rate);
        assert!(medium.lines().count() == 34 && medium.contains("\nhot keys 1"), "{medium}");
    }

    #[test]
    fn estimate_has_no_digits_below_its_error() {
        for (number, text) in
            [(128.0, "~100"), (256.0, "~300"), (6400.0, "~6400"), (12_345.0, "~12000"), (12_345_678.0, "~12350.0k")]
        {
            assert_eq!(estimate(number, 128.0), text);
        }
        assert_eq!((estimate(7.0, 0.0), estimate(0.0, 128.0)), ("7".to_owned(), "0".to_owned()));
    }

    #[test]
    fn rows_are_ordered_by_rate_by_slowness_or_by_name() {
        let names = |order| -> Vec<String> {
            let view = sized(120, usize::MAX, order);
            let rows = view.lines().skip_while(|line| !line.starts_with("worker")).skip(1).take(3);
            rows.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
        };
        assert_eq!(names(RowOrder::Name), ["0", "1", "10"], "in the order of their numbers");
        assert_eq!(names(RowOrder::Rate)[2], "10");
        let view = sized(120, usize::MAX, RowOrder::Slowest);
        assert!(view.contains(", by execute p999\n"), "{view}");
        let namespaces = view.lines().skip_while(|line| !line.starts_with("namespace")).nth(1).unwrap();
        assert!(namespaces.starts_with("default"), "shop has no times: {view}");
    }

    #[test]
    fn empty_store_does_not_seem_full() {
        let held = json!({ "figures": { "gannet_memory_held_bytes": 1u64 << 32, "gannet_memory_bytes": 1u64 << 32 } });
        let empty = ServerFigures::of(Instant::now(), held, json!({}));
        let lines = lines(&empty, None, "x", &layout(80, 24, RowOrder::Rate));
        let text: String = lines.iter().map(|line| line.text.as_str()).collect();
        assert!(text.contains("memory 0 B used of 4.0 GiB"), "{text}");
    }

    #[test]
    fn longer_first_title_takes_spaces_and_no_letters_of_the_others() {
        let row = |name: &str| Row { name: name.into(), rate: 0.0, slowest_ns: 0.0, text: name.into() };
        let titles = "  requests/s        wait p99".to_owned();
        let section = Section { name: "command", titles, rows: ["a", "b", "c"].map(row).into() };
        assert_eq!(section.lines(3)[0].1, "command       requests/s        wait p99");
        assert_eq!(section.lines(2)[0].1, "command 2 of 3 requests/s       wait p99");
    }

    #[test]
    fn history_shows_the_latest_rates_that_fit() {
        let rates: Vec<f64> = (0..100).map(f64::from).collect();
        let line = history(&rates, 40).unwrap();
        assert!(line.chars().count() == 40 && line.ends_with("█ max 99") && !line.contains('▁'), "{line}");
        assert_eq!((history(&[1.0], 40), history(&rates, 5)), (None, None));
        assert!(history(&[0.0, 0.0], 40).unwrap().contains("▁▁ max 0"));
    }

    #[test]
    fn a_narrow_terminal_has_the_lists_below_each_other_and_nothing_beyond_its_edge() {
        let view = view(40);
        assert!(view.contains("\nhot keys\n    ~6400 user:0\n"), "{view}");
        assert!(view.contains("\nlongest values\n") && view.contains('…'), "{view}");
    }

    #[test]
    fn top_renders_a_view_for_a_server_without_statistics() {
        let empty = ServerFigures::of(Instant::now(), json!({}), json!({}));
        assert!(!lines(&empty, None, "x", &layout(80, 24, RowOrder::Rate)).is_empty());
    }
}
