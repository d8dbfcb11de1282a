//! The tables of a report, as HTML.

use super::charts::FlatFigure;
use crate::result::{Latencies, Machine, RunResult};
use page::escape;
use page::words::{duration, grouped};

/// Highest number of trials in a table; the JSON file has all of them.
const STEPS_MAX: usize = 500;

/// Headings of last columns that contain sentences, which wrap.
const TEXT_HEADS: [&str; 4] = ["verdict", "state", "first occurrence", "value"];

/// Formats a table from its headings and rows; the first element of a row is its class.
pub fn table(heads: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let mut out = "<div class=\"scroll\"><table><tr>".to_owned();
    let is_text = |cells: usize, at: usize| at + 1 == cells && TEXT_HEADS.contains(heads.last().unwrap_or(&""));
    for (at, head) in heads.iter().enumerate() {
        let class = if is_text(heads.len(), at) { " class=\"text\"" } else { "" };
        out.push_str(&format!("<th{class}>{}</th>", escape(head)));
    }
    out.push_str("</tr>");
    for (class, cells) in rows {
        out.push_str(&if class.is_empty() { "<tr>".to_owned() } else { format!("<tr class=\"{class}\">") });
        for (at, cell) in cells.iter().enumerate() {
            let class = if is_text(cells.len(), at) { " class=\"text\"" } else { "" };
            out.push_str(&format!("<td{class}>{}</td>", escape(cell)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div>\n");
    out
}

fn times(latencies: &Latencies) -> Vec<String> {
    let show = |ns: u64| if latencies.count == 0 { "-".to_owned() } else { duration(ns as f64) };
    latencies.named().into_iter().map(|(_, ns)| show(ns)).collect()
}

/// Formats the response times by verb, outcome and size, the service times and the sampler's times.
pub fn figures(result: &RunResult) -> String {
    let heads = ["", "outcome", "requests", "share", "p50", "p90", "p99", "p999", "p9999", "max", "mean"];
    let figures = &result.figures;
    let all = figures.response.count.max(1) as f64;
    let row = |name: &str, outcome: &str, latencies: &Latencies| {
        let share = format!("{:.2} %", latencies.count as f64 / all * 100.0);
        let mut cells = vec![name.to_owned(), outcome.to_owned(), grouped(latencies.count as f64), share];
        cells.extend(times(latencies));
        ("", cells)
    };
    let mut rows =
        vec![row("all, response time", "", &figures.response), row("all, service time", "", &figures.service)];
    if let Some(sampler) = &figures.sampler {
        rows.push(row(&format!("{}, response time", result.second_stream()), "", sampler));
    }
    for group in figures.verbs.iter().chain(&figures.sizes) {
        rows.push(row(&group.name, &group.outcome, &group.response));
    }
    let connections = &figures.connections;
    for (name, times) in [("connecting", &connections.time), ("TLS handshake", &connections.handshake)] {
        if times.count > 0 {
            rows.push(row(name, "", times));
        }
    }
    if figures.generator.lateness.count > 0 {
        rows.push(row("lateness of the generator", "", &figures.generator.lateness));
    }
    table(&heads, &rows)
}

/// Formats every trial of a search.
pub fn steps(result: &RunResult) -> Option<String> {
    let search = result.search.as_ref()?;
    let heads = ["trial", "phase", "rate", "answered", "p50", "p99", "p999", "max", "errors", "verdict"];
    let rows: Vec<(&str, Vec<String>)> = search
        .steps
        .iter()
        .take(STEPS_MAX)
        .map(|step| {
            let verdict = match &step.generator_limit {
                _ if step.passed => "met".to_owned(),
                Some(cause) => format!("limited by the generator: {cause}"),
                None => step.broken.join("; "),
            };
            let time = |ns: u64| duration(ns as f64);
            let latencies = &step.response;
            let cells = vec![
                step.number.to_string(),
                step.phase.clone(),
                grouped(step.rate_per_s),
                grouped(step.achieved_per_s),
                time(latencies.p50_ns),
                time(latencies.p99_ns),
                time(latencies.p999_ns),
                time(latencies.max_ns),
                step.errors.to_string(),
                verdict,
            ];
            (if step.passed { "" } else { "broken" }, cells)
        })
        .collect();
    Some(table(&heads, &rows))
}

/// Formats the figures that did not change during the run; empty if there are none.
pub fn flat(figures: &[FlatFigure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = figures.iter().map(|flat| ("", vec![flat.name.clone(), flat.value.clone()])).collect();
    let summary = format!("Figures that did not change: {}", figures.len());
    format!("<details class=\"card\"><summary>{summary}</summary>{}</details>", table(&["", "value"], &rows))
}

/// Formats the counts of requests, bytes and connections.
pub fn counts(result: &RunResult) -> String {
    let c = &result.figures.counts;
    let rows: Vec<(&str, Vec<String>)> = [
        ("due", c.due),
        ("answered", c.answered),
        ("unanswered", c.unanswered),
        ("reads that found their key", result.figures.with_outcome("hit")),
        ("reads that did not", result.figures.with_outcome("miss")),
        ("writes done", result.figures.with_outcome("done")),
        ("writes not done", result.figures.with_outcome("not done")),
        ("errors", c.errors),
        ("wrong values", c.wrong),
        ("never sent", c.unsent),
        ("sent late because no connection had room", c.late_for_room),
        ("sent late because of the generator", c.late_by_generator),
        ("connections opened", c.connects),
        ("bytes sent", c.sent_bytes),
        ("bytes received", c.received_bytes),
    ]
    .into_iter()
    .map(|(name, count)| ("", vec![name.to_owned(), grouped(count as f64)]))
    .collect();
    table(&["", "count"], &rows)
}

/// Formats the use of the generator's threads.
pub fn threads(result: &RunResult) -> String {
    let rows: Vec<(&str, Vec<String>)> = result
        .figures
        .generator
        .threads
        .iter()
        .map(|thread| {
            let busy = format!("{:.0} %", thread.cpu_share * 100.0);
            let waiting = format!("{:.0} %", thread.waiting_share * 100.0);
            let cpu = thread.cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
            ("", vec![thread.name.clone(), cpu, busy, waiting, grouped(thread.involuntary_switches as f64)])
        })
        .collect();
    table(&["thread of the generator", "on CPU", "working", "waiting for a CPU", "involuntary switches"], &rows)
}

/// Formats the agents of a run on several hosts; empty if one host ran the load.
pub fn agents(result: &RunResult) -> String {
    if result.figures.agents.is_empty() {
        return String::new();
    }
    let rows: Vec<(&str, Vec<String>)> = result
        .figures
        .agents
        .iter()
        .map(|agent| {
            let time = |ns: u64| duration(ns as f64);
            let state = match (&agent.lost, &agent.limit) {
                (Some(why), _) => format!("LOST: {why}"),
                (None, Some(why)) => format!("LIMITED: {why}"),
                (None, None) => "no problem".to_owned(),
            };
            let cells = vec![
                agent.name.clone(),
                grouped(agent.offered_per_s),
                grouped(agent.achieved_per_s),
                time(agent.response.p50_ns),
                time(agent.response.p99_ns),
                time(agent.response.p999_ns),
                time(agent.lateness.p99_ns),
                format!("<= {}", time(agent.start_uncertainty_ns)),
                format!("{:+} ms", agent.wall_clock_offset_ms),
                state,
            ];
            (if agent.lost.is_some() || agent.limit.is_some() { "broken" } else { "" }, cells)
        })
        .collect();
    let heads = [
        "agent",
        "due per second",
        "replies per second",
        "p50",
        "p99",
        "p999",
        "p99 of the lateness",
        "error of the start time",
        "offset of the wall clock",
        "state",
    ];
    table(&heads, &rows)
}

/// Returns the table of faults; empty if there were none.
pub fn faults(result: &RunResult) -> String {
    if result.figures.faults.is_empty() {
        return String::new();
    }
    let rows: Vec<(&str, Vec<String>)> = result
        .figures
        .faults
        .iter()
        .map(|fault| ("broken", vec![fault.name.clone(), grouped(fault.count as f64), fault.first.clone()]))
        .collect();
    table(&["fault", "count", "first occurrence"], &rows)
}

/// Formats the machine, the command line and the settings.
pub fn environment(result: &RunResult) -> String {
    let machine = &result.machine;
    let mut rows = vec![
        ("", vec!["program".to_owned(), result.program.clone()]),
        ("", vec!["command".to_owned(), result.arguments.join(" ")]),
        ("", vec!["kernel".to_owned(), machine.kernel.clone()]),
        ("", vec!["CPU".to_owned(), format!("{} x {}", machine.cpus, machine.cpu)]),
        ("", vec!["memory".to_owned(), format!("{:.1} GiB", machine.memory_bytes as f64 / (1u64 << 30) as f64)]),
    ];
    if machine.virtual_machine {
        rows.push(("", vec!["virtual machine".to_owned(), "yes: other guests may take CPU time".to_owned()]));
    }
    if let Some(governor) = &machine.governor {
        rows.push(("", vec!["frequency governor".to_owned(), governor.clone()]));
    }
    for target in &result.targets {
        let server = target.server.as_deref().unwrap_or("unidentified server");
        rows.push(("", vec!["target".to_owned(), format!("{} by {}, {server}", target.address, target.protocol)]));
    }
    for agent in &result.agents {
        let Machine { cpus, cpu, kernel, .. } = &agent.machine;
        let what = format!("{}: {}, {cpus} x {cpu}, {kernel}", agent.name, agent.program);
        rows.push(("", vec!["agent".to_owned(), what]));
    }
    if let Some(tls) = &result.tls {
        rows.push(("", vec!["TLS".to_owned(), tls.words.clone()]));
    }
    let sessions = result.figures.connections.tls.iter();
    rows.extend(sessions.map(|sessions| ("", vec!["TLS connections".to_owned(), sessions.words()])));
    rows.extend(result.configuration.iter().map(|(name, value)| ("", vec![name.clone(), value.clone()])));
    table(&["", "value"], &rows)
}
