//! Converts the measurements of a run to a result.

use std::collections::BTreeMap;

use super::{
    AgentFigures, Connections, FaultCount, Figures, Generator, GeneratorThread, Group, Interval, Latencies,
    ReplyCounts, RunResult, TlsSessions,
};
use crate::engine::{HostRun, Limit, Run};
use crate::measure::{Cell, Fate, Histogram, Slice, Totals};
use crate::workload::graph::GraphQuery;
use crate::workload::model::Verb;

const NS_A_S: f64 = 1e9;
/// Highest number of kinds of faults in a result.
const FAULTS_MAX: usize = 16;

/// Returns the figures of one run.
pub fn figures(run: &Run) -> Figures {
    let (bulk, totals) = (&run.bulk, &run.bulk.totals);
    let duration_s = bulk.measured_ns as f64 / NS_A_S;
    let per_s = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    let verb = |cell: &Cell| (cell.verb, cell.fate as usize);
    let name_of = |verb: usize| bulk.verbs.get(verb).cloned().unwrap_or_default();
    let verbs = grouped(&bulk.cells, verb, |cell| {
        let name = name_of(cell.verb);
        let outcome = outcome(cell.fate, &name).to_owned();
        (name, outcome)
    });
    let size = |cell: &Cell| (cell.size as usize, 0);
    let sizes = grouped(&bulk.cells, size, |cell| (format!("values of {}", cell.size.name()), String::new()));
    let threads = run.watched.threads.iter().map(|thread| GeneratorThread {
        name: thread.name.clone(),
        cpu: thread.cpu.map(|cpu| cpu as u64),
        cpu_share: thread.busy_share(),
        waiting_share: thread.preempted_share(),
        involuntary_switches: thread.involuntary_switches,
    });
    let beside = run.sampler.iter().flat_map(|sampler| &sampler.faults);
    let faults = bulk.faults.iter().chain(beside).take(FAULTS_MAX).map(|fault| FaultCount {
        name: fault.name.clone(),
        count: fault.count,
        first: fault.first.clone(),
    });
    Figures {
        duration_s,
        offered_per_s: per_s(totals.due),
        achieved_per_s: answered_in_time_per_s(run),
        counts: counts(&run.bulk.totals),
        response: latencies(&bulk.response),
        service: latencies(&bulk.service),
        verbs,
        sizes,
        sampler: run.sampler.as_ref().map(|sampler| latencies(&sampler.response)),
        connections: Connections {
            time: latencies(&bulk.connect),
            handshake: latencies(&bulk.handshake),
            tls: bulk.tls.iter().map(TlsSessions::from).collect(),
        },
        faults: faults.collect(),
        generator: Generator { lateness: latencies(&bulk.lateness), threads: threads.collect() },
        agents: run.hosts.iter().map(agent).collect(),
    }
}

/// Returns the outcome's displayed name for requests with the name `verb`.
fn outcome(fate: Fate, verb: &str) -> &'static str {
    match fate {
        Fate::Hit if GraphQuery::named(verb).is_some_and(GraphQuery::has_budget) => "complete",
        fate => fate.name_for(is_read(verb)),
    }
}

/// Returns whether requests with this name read values.
fn is_read(name: &str) -> bool {
    GraphQuery::named(name).is_some_and(|query| query != GraphQuery::Add)
        || Verb::NAMES.iter().any(|(known, verb)| *known == name && verb.reads() && !verb.modifies_hash())
}

fn agent(host: &HostRun) -> AgentFigures {
    let limits: Vec<String> = host.limits.iter().map(brief).collect();
    AgentFigures {
        name: host.name.clone(),
        offered_per_s: if host.measured_ns == 0 {
            0.0
        } else {
            host.totals.due as f64 * NS_A_S / host.measured_ns as f64
        },
        achieved_per_s: host.achieved_per_s,
        counts: counts(&host.totals),
        response: latencies(&host.response),
        lateness: latencies(&host.lateness),
        limit: (!limits.is_empty()).then(|| limits.join(", ")),
        lost: host.lost.clone(),
        start_uncertainty_ns: host.clock.uncertainty_ns,
        round_trip_ns: host.clock.round_trip_ns,
        wall_clock_offset_ms: host.clock.wall_offset_ms,
    }
}

/// Returns the counts of the measured part.
pub fn counts(totals: &Totals) -> ReplyCounts {
    ReplyCounts {
        due: totals.due,
        answered: totals.answered,
        unanswered: totals.lost + totals.unsent,
        unsent: totals.unsent,
        hits: totals.hits,
        misses: totals.misses,
        errors: totals.errors,
        wrong: totals.wrong,
        late_for_room: totals.late_for_room,
        late_by_generator: totals.late_by_generator,
        warm_up: totals.warm_up,
        connects: totals.connects,
        redirects: totals.redirects,
        sent_bytes: totals.bytes_sent,
        received_bytes: totals.bytes_received,
    }
}

/// Returns the replies per second within the measured part; later replies are not throughput. If a run is shorter than
/// a slice, all replies count.
pub fn answered_in_time_per_s(run: &Run) -> f64 {
    let measured = || run.bulk.timeline.iter().filter(|slice| slice.measured);
    // A run that ends at a number of requests may end within its last slice.
    let span_ns = measured().map(|slice| slice.length_ns).sum::<u64>().min(run.bulk.measured_ns);
    if span_ns == 0 {
        return run.bulk.answered_per_s();
    }
    measured().map(|slice| slice.answered).sum::<u64>() as f64 * NS_A_S / span_ns as f64
}

/// Converts a histogram of the engine to its stored form.
pub fn latencies(histogram: &Histogram) -> Latencies {
    Latencies::of(histogram.as_hdr())
}

/// Merges cells with the same key, in the order of the keys.
fn grouped(
    cells: &[Cell],
    key: impl Fn(&Cell) -> (usize, usize),
    names: impl Fn(&Cell) -> (String, String),
) -> Vec<Group> {
    type Named = ((String, String), Histogram, Histogram);
    let mut groups: BTreeMap<(usize, usize), Named> = BTreeMap::new();
    for cell in cells {
        let (_, response, service) =
            groups.entry(key(cell)).or_insert_with(|| (names(cell), Histogram::new(), Histogram::new()));
        response.merge(&cell.response);
        service.merge(&cell.service);
    }
    let group = |((name, outcome), response, service): Named| Group {
        name,
        outcome,
        response: latencies(&response),
        service: latencies(&service),
    };
    groups.into_values().map(group).collect()
}

/// Converts a slice of a run that began `began_s` seconds after the session. The slice has percentiles but no
/// histogram.
pub fn interval(slice: &Slice, began_s: f64) -> Interval {
    let duration_s = slice.length_ns as f64 / NS_A_S;
    Interval {
        at_s: began_s + slice.begin_ns as f64 / NS_A_S,
        duration_s,
        target_per_s: slice.rate_per_s,
        achieved_per_s: slice.answered as f64 / duration_s,
        errors: slice.errors + slice.wrong + slice.lost,
        response: Latencies {
            count: slice.answered + slice.lost,
            p50_ns: slice.p50_ns,
            p90_ns: slice.p90_ns,
            p99_ns: slice.p99_ns,
            p999_ns: slice.p999_ns,
            p9999_ns: slice.max_ns,
            max_ns: slice.max_ns,
            ..Latencies::default()
        },
    }
}

/// Combines several runs of the same kind into the first one's result; `None` if there are none.
pub fn results_together(several: &[&RunResult]) -> Option<RunResult> {
    let mut joined = (*several.first()?).clone();
    joined.figures = together(&several.iter().map(|result| &result.figures).collect::<Vec<_>>());
    joined.elapsed_s = several.iter().map(|result| result.elapsed_s).sum();
    Some(joined)
}

/// Combines the figures of several runs of the same kind.
pub fn together(several: &[&Figures]) -> Figures {
    let Some((first, rest)) = several.split_first() else { return Figures::default() };
    if rest.is_empty() {
        return (*first).clone();
    }
    let count = several.len() as f64;
    let mean = |of: fn(&Figures) -> f64| several.iter().map(|figures| of(figures)).sum::<f64>() / count;
    let times = |of: fn(&Figures) -> &Latencies| Latencies::together(several.iter().map(|figures| of(figures)));
    let mut counts = ReplyCounts::default();
    let mut faults: Vec<FaultCount> = Vec::new();
    for figures in several {
        counts.add(&figures.counts);
        for fault in &figures.faults {
            match faults.iter_mut().find(|known| known.name == fault.name) {
                Some(known) => known.count += fault.count,
                None => faults.push(fault.clone()),
            }
        }
    }
    let samplers: Vec<&Latencies> = several.iter().filter_map(|figures| figures.sampler.as_ref()).collect();
    Figures {
        duration_s: mean(|figures| figures.duration_s) * count,
        offered_per_s: mean(|figures| figures.offered_per_s),
        achieved_per_s: mean(|figures| figures.achieved_per_s),
        counts,
        response: times(|figures| &figures.response),
        service: times(|figures| &figures.service),
        verbs: groups_together(several.iter().flat_map(|figures| &figures.verbs)),
        sizes: groups_together(several.iter().flat_map(|figures| &figures.sizes)),
        sampler: (!samplers.is_empty()).then(|| Latencies::together(samplers)),
        connections: Connections::together(several.iter().map(|figures| &figures.connections)),
        faults,
        generator: Generator {
            lateness: times(|figures| &figures.generator.lateness),
            threads: threads_together(several),
        },
        agents: agents_together(several),
    }
}

/// Combines agents by name: mean rates, all counts and times, the worst clock.
fn agents_together(several: &[&Figures]) -> Vec<AgentFigures> {
    let mut joined: Vec<Vec<&AgentFigures>> = Vec::new();
    for agent in several.iter().flat_map(|figures| &figures.agents) {
        match joined.iter_mut().find(|known| known[0].name == agent.name) {
            Some(known) => known.push(agent),
            None => joined.push(vec![agent]),
        }
    }
    let one = |of: &Vec<&AgentFigures>| {
        let mean = |rate: fn(&AgentFigures) -> f64| of.iter().map(|a| rate(a)).sum::<f64>() / of.len() as f64;
        let mut counts = ReplyCounts::default();
        of.iter().for_each(|agent| counts.add(&agent.counts));
        AgentFigures {
            name: of[0].name.clone(),
            offered_per_s: mean(|agent| agent.offered_per_s),
            achieved_per_s: mean(|agent| agent.achieved_per_s),
            counts,
            response: Latencies::together(of.iter().map(|agent| &agent.response)),
            lateness: Latencies::together(of.iter().map(|agent| &agent.lateness)),
            limit: of.iter().find_map(|agent| agent.limit.clone()),
            lost: of.iter().find_map(|agent| agent.lost.clone()),
            start_uncertainty_ns: of.iter().map(|agent| agent.start_uncertainty_ns).max().unwrap_or(0),
            round_trip_ns: of.iter().map(|agent| agent.round_trip_ns).max().unwrap_or(0),
            wall_clock_offset_ms: of.last().map_or(0, |agent| agent.wall_clock_offset_ms),
        }
    };
    joined.iter().map(one).collect()
}

fn groups_together<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<Group> {
    let mut joined: Vec<(&Group, Vec<&Group>)> = Vec::new();
    for group in groups {
        match joined.iter_mut().find(|(first, _)| first.name == group.name && first.outcome == group.outcome) {
            Some((_, members)) => members.push(group),
            None => joined.push((group, vec![group])),
        }
    }
    let one = |(first, members): (&Group, Vec<&Group>)| Group {
        name: first.name.clone(),
        outcome: first.outcome.clone(),
        response: Latencies::together(members.iter().map(|group| &group.response)),
        service: Latencies::together(members.iter().map(|group| &group.service)),
    };
    joined.into_iter().map(one).collect()
}

/// Combines threads by name: the mean shares, all switches.
fn threads_together(several: &[&Figures]) -> Vec<GeneratorThread> {
    let mut joined: Vec<(GeneratorThread, f64)> = Vec::new();
    for thread in several.iter().flat_map(|figures| &figures.generator.threads) {
        match joined.iter_mut().find(|(known, _)| known.name == thread.name) {
            Some((known, count)) => {
                known.cpu_share += thread.cpu_share;
                known.waiting_share += thread.waiting_share;
                known.involuntary_switches += thread.involuntary_switches;
                *count += 1.0;
            }
            None => joined.push((thread.clone(), 1.0)),
        }
    }
    let mean = |(mut thread, count): (GeneratorThread, f64)| {
        thread.cpu_share /= count;
        thread.waiting_share /= count;
        thread
    };
    joined.into_iter().map(mean).collect()
}

/// Describes a limit in a few words, for a line with several.
pub fn brief(limit: &Limit) -> String {
    match limit {
        Limit::Cpu { thread, busy_share } => format!("{thread} worked {:.0} %", busy_share * 100.0),
        Limit::Late { p99_ns, .. } => format!("late by {} us at p99", p99_ns / 1000),
        Limit::Preempted { thread, preempted_share } => {
            format!("{thread} waited for a CPU {:.0} %", preempted_share * 100.0)
        }
        Limit::Steal { steal_share } => format!("steal {:.0} %", steal_share * 100.0),
        Limit::Host { name, limit } => format!("{name}: {}", brief(limit)),
    }
}
