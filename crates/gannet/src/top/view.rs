//! Formats the differences of two readings as lines.

use super::reading::{Of, ServerFigures};
use crate::screen::{ViewLine, Weight};
use command::keyspace::namespaces::DEFAULT_NAME;

/// The lists of hot keys: each list's name in the server's reply, and its title in the view.
const LISTS: [(&str, &str); 5] = [
    ("keys", "hot keys"),
    ("big", "longest values"),
    ("missed", "missed keys"),
    ("prefixes", "hot prefixes"),
    ("missed-prefixes", "missed prefixes"),
];
/// Maximum number of entries shown in a list.
const NAMES: usize = 8;
/// Minimum number of columns of a list.
const LIST_COLUMNS_MIN: usize = 24;

/// Two readings, from which rates are computed.
struct Rates<'r> {
    now: &'r ServerFigures,
    before: Option<&'r ServerFigures>,
}

impl Rates<'_> {
    fn rate(&self, of: impl Fn(&ServerFigures) -> f64) -> f64 {
        // The counters of a restarted server begin at 0.
        self.before.map_or(0.0, |before| (of(self.now) - of(before)).max(0.0) / self.now.seconds_since(before))
    }

    fn figure(&self, name: &str) -> f64 {
        self.rate(|reading| reading.figure(name, None))
    }

    fn labelled(&self, name: &str, label: &str) -> f64 {
        self.rate(|reading| reading.figure(name, Some(label)))
    }
}

/// Formats the whole view of the server at `addr`: rates from `before` to `now`, and current values.
pub fn lines(now: &ServerFigures, before: Option<&ServerFigures>, addr: &str, columns: usize) -> Vec<ViewLine> {
    let rates = Rates { now, before };
    let mut lines = Vec::new();
    let mut put = |weight, text: String| lines.push(ViewLine::new(weight, &text, columns));
    put(Weight::Head, head(now, addr));
    for line in summary(&rates) {
        put(Weight::Plain, line);
    }
    put(Weight::Plain, String::new());
    let (commands, titles) = commands(&rates);
    put(Weight::Head, titles);
    commands.into_iter().for_each(|line| put(Weight::Plain, line));
    put(Weight::Plain, String::new());
    for (weight, line) in namespaces(&rates) {
        put(weight, line);
    }
    let (workers, titles) = workers(&rates);
    put(Weight::Head, titles);
    workers.into_iter().for_each(|line| put(Weight::Plain, line));
    put(Weight::Plain, String::new());
    for (weight, line) in lists(now, columns) {
        put(weight, line);
    }
    lines
}

fn head(now: &ServerFigures, addr: &str) -> String {
    let version = now.labels("gannet_build_info").into_iter().next().unwrap_or("?").to_owned();
    let up = now.figure("gannet_uptime_seconds", None) as u64;
    let (days, hours, minutes, seconds) = (up / 86_400, up / 3600 % 24, up / 60 % 60, up % 60);
    format!("gannet {version} at {addr}, up {days}d {hours:02}:{minutes:02}:{seconds:02}")
}

fn summary(rates: &Rates<'_>) -> [String; 4] {
    let now = |name| rates.now.figure(name, None);
    let requests = rates.rate(|reading| reading.sum("gannet_worker_ops_total"));
    let (hits, misses) =
        (rates.labelled("gannet_lookups_total", "hit"), rates.labelled("gannet_lookups_total", "miss"));
    let hit_percent = if hits + misses > 0.0 { hits / (hits + misses) * 100.0 } else { 0.0 };
    [
        format!(
            "requests {}/s   lookups {}/s, {hit_percent:.1} % hits   received {}/s   sent {}/s   CPU {:.0} %",
            count(requests),
            count(hits + misses),
            bytes(rates.figure("gannet_received_bytes_total")),
            bytes(rates.figure("gannet_sent_bytes_total")),
            rates.figure("gannet_cpu_seconds_total") * 100.0,
        ),
        format!(
            "connections {} of {}   accepted {}/s   slow requests {}/s   protocol errors {}/s",
            count(now("gannet_connections")),
            count(now("gannet_connections_max")),
            count(rates.figure("gannet_connections_accepted_total")),
            count(rates.figure("gannet_slow_requests_total")),
            count(rates.figure("gannet_protocol_errors_total")),
        ),
        format!(
            "memory {} held of {}   process {}   index {}   dead {}   items {}",
            bytes(now("gannet_memory_held_bytes")),
            bytes(now("gannet_memory_bytes")),
            bytes(now("gannet_resident_bytes")),
            bytes(now("gannet_index_bytes")),
            bytes(now("gannet_dead_bytes")),
            count(now("gannet_items")),
        ),
        format!(
            "stored {}/s   evicted {}/s, unread {}/s   expired {}/s   refused {}/s",
            count(rates.figure("gannet_stored_total")),
            count(rates.figure("gannet_evicted_total")),
            count(rates.figure("gannet_evicted_unread_total")),
            count(rates.figure("gannet_expired_total")),
            count(rates.rate(|reading| reading.sum("gannet_stores_refused_total"))),
        ),
    ]
}

fn commands(rates: &Rates<'_>) -> (Vec<String>, String) {
    let titles = format!(
        "{:<12}{:>12}  {:>22}  {:>22}  {:>22}",
        "command", "requests/s", "wait p50  p99  p999", "execute p50  p99  p999", "send p50  p99  p999"
    );
    let row = |command| timed(rates, command, Of::Command(command));
    (busiest_first(rates.now.commands().into_iter().map(row).collect()), titles)
}

/// Returns the rate of a group of requests, and a line with the group's `name`, its rate and its times.
fn timed(rates: &Rates<'_>, name: &str, of: Of<'_>) -> (f64, String) {
    let rate = rates.rate(|reading| reading.count(of));
    let parts = ["wait", "execute", "send"].map(|part| {
        let quantile = |name| time(rates.now.minute_ns(of, part, name));
        format!("{:>7}{:>7}{:>8}", quantile("p50_ns"), quantile("p99_ns"), quantile("p999_ns"))
    });
    let [wait, execute, send] = parts;
    (rate, format!("{:<12}{:>12}  {wait}  {execute}  {send}", cut(name, 12), count(rate)))
}

fn busiest_first(mut rows: Vec<(f64, String)>) -> Vec<String> {
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Formats the load and the memory of each namespace, if there are several.
fn namespaces(rates: &Rates<'_>) -> Vec<(Weight, String)> {
    let names = rates.now.labels("gannet_namespace_items");
    if names.len() < 2 {
        return Vec::new();
    }
    let times = names.iter().copied().map(|name| timed(rates, name, Of::Namespace(name))).collect();
    let has = names.iter().copied().map(|name| {
        let now = |figure: &str| rates.now.figure(&format!("gannet_namespace_{figure}"), Some(name));
        let rate = |figure: &str| rates.labelled(&format!("gannet_namespace_{figure}_total"), name);
        let (hits, misses) = (rate("hits"), rate("misses"));
        let hit_percent = if hits + misses > 0.0 { hits / (hits + misses) * 100.0 } else { 0.0 };
        let line = format!(
            "{:<12}{:>12}{:>9.1}{:>10}{:>10}{:>12}{:>12}{:>9}{:>13}",
            cut(name, 12),
            count(hits + misses),
            hit_percent,
            count(rate("stored")),
            count(rate("evicted")),
            bytes(now("heap_bytes")),
            bytes(now("heap_bytes_max")),
            count(now("items")),
            count(now("connections")),
        );
        (rates.rate(|reading| reading.count(Of::Namespace(name))), line)
    });
    let head = |text: String| (Weight::Head, text);
    let plain = |lines: Vec<String>| lines.into_iter().map(|line| (Weight::Plain, line)).collect::<Vec<_>>();
    let mut lines = vec![head(format!(
        "{:<12}{:>12}  {:>22}  {:>22}  {:>22}",
        "namespace", "requests/s", "wait p50  p99  p999", "execute p50  p99  p999", "send p50  p99  p999"
    ))];
    lines.extend(plain(busiest_first(times)));
    lines.push(head(format!(
        "{:<12}{:>12}{:>9}{:>10}{:>10}{:>12}{:>12}{:>9}{:>13}",
        "", "lookups/s", "% hits", "stored/s", "evicted/s", "memory", "of", "items", "connections"
    )));
    lines.extend(plain(busiest_first(has.collect())));
    lines.push((Weight::Plain, String::new()));
    lines
}

fn workers(rates: &Rates<'_>) -> (Vec<String>, String) {
    let titles = format!(
        "{:<12}{:>12}{:>12}{:>14}{:>14}{:>12}",
        "worker", "requests/s", "turns/s", "requests/turn", "connections", "parked/s"
    );
    let mut workers: Vec<&str> = rates.now.labels("gannet_worker_ops_total");
    workers.sort_by_key(|worker| worker.parse::<usize>().unwrap_or(usize::MAX));
    let row = |worker: &str| {
        let (requests, turns) =
            (rates.labelled("gannet_worker_ops_total", worker), rates.labelled("gannet_worker_turns_total", worker));
        format!(
            "{worker:<12}{:>12}{:>12}{:>14.1}{:>14}{:>12}",
            count(requests),
            count(turns),
            if turns > 0.0 { requests / turns } else { 0.0 },
            count(rates.now.figure("gannet_worker_connections", Some(worker))),
            count(rates.labelled("gannet_worker_parked_total", worker)),
        )
    };
    (workers.into_iter().map(row).collect(), titles)
}

/// Formats the lists of hot keys, as many side by side as fit.
fn lists(now: &ServerFigures, columns: usize) -> Vec<(Weight, String)> {
    let beside = (columns / LIST_COLUMNS_MIN).clamp(1, LISTS.len());
    let width = columns / beside;
    let mut lines = Vec::new();
    for row in LISTS.chunks(beside) {
        let mut place = |weight, text: &dyn Fn(usize) -> String| {
            let cells = (0..row.len()).map(|at| format!("{:<width$}", cut(&text(at), width - 1)));
            lines.push((weight, cells.collect::<String>()));
        };
        place(Weight::Head, &|at| row[at].1.to_owned());
        let leaders: Vec<_> = row.iter().map(|(list, _)| now.leaders(list)).collect();
        for line in 0..leaders.iter().map(Vec::len).max().unwrap_or(0).min(NAMES) {
            place(Weight::Plain, &|at| {
                let Some(leader) = leaders[at].get(line) else { return String::new() };
                let amount = leader.amount as f64;
                let amount = if row[at].0 == "big" { bytes(amount) } else { count(amount) };
                match leader.namespace.as_str() {
                    "" | DEFAULT_NAME => format!("{amount:>9} {}", leader.name),
                    namespace => format!("{amount:>9} {namespace}/{}", leader.name),
                }
            });
        }
    }
    lines
}

/// Cuts `text` to at most this number of characters.
fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns).collect()
}

/// Formats a number in at most six characters.
fn count(number: f64) -> String {
    match number {
        n if n < 10.0 && n.fract() > 0.05 => format!("{n:.1}"),
        n if n < 100_000.0 => format!("{n:.0}"),
        n if n < 1e8 => format!("{:.1}k", n / 1e3),
        n => format!("{:.1}M", n / 1e6),
    }
}

fn bytes(bytes: f64) -> String {
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
        ServerFigures::of(at, stats, json!({ "lists": { "keys": names, "big": big } }))
    }

    fn view(columns: usize) -> String {
        let start = Instant::now();
        let (first, second) = (reading(start, 100, 0), reading(start + Duration::from_secs(2), 300, 50));
        let lines = lines(&second, Some(&first), "127.0.0.1:1", columns);
        assert!(lines.iter().all(|line| line.text.chars().count() <= columns));
        lines.iter().map(|line| line.text.trim_end()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn top_shows_rates_between_two_readings() {
        let view = view(120);
        for part in [
            "gannet 9.9.9 at 127.0.0.1:1, up 1d 01:01:01",
            "requests 200/s   lookups 50/s, 50.0 % hits",
            "held of 1.0 GiB",
            "evicted 10/s",
            "get                  100    1.0us  2.0us   3.0us    500ns  1.0us   1.5us    2.0ms  4.0ms   6.0ms",
            "0                    100          25           4.0",
            "hot keys                longest values",
            "     6400 user:0          2.0 KiB b",
            "     6399 user:1          1.0 KiB shop/c",
            "namespace     requests/s",
            "default              100    1.0us  2.0us   3.0us    500ns  1.0us   1.5us    2.0ms  4.0ms   6.0ms",
            "shop                 100        -      -       -",
            "default               25    100.0         0         0         0 B   512.0 MiB        7            0",
            "shop                  25      0.0         0       100     3.0 MiB     4.0 MiB        9            0",
        ] {
            assert!(view.contains(part), "{part:?} is not in\n{view}");
        }
        let workers: Vec<&str> = view.lines().skip_while(|line| !line.starts_with("worker")).skip(1).take(3).collect();
        assert!(workers[2].starts_with("10 "), "in the order of their numbers");
    }

    #[test]
    fn a_narrow_terminal_has_the_lists_below_each_other_and_nothing_beyond_its_edge() {
        let view = view(40);
        assert!(view.contains("\nhot keys\n     6400 user:0\n"), "{view}");
        assert!(view.contains("\nlongest values\n"), "{view}");
    }

    #[test]
    fn top_renders_a_view_for_a_server_without_statistics() {
        let empty = ServerFigures::of(Instant::now(), json!({}), json!({}));
        assert!(!lines(&empty, None, "x", 80).is_empty());
    }
}
