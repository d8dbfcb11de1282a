//! Joins the measurements of several agents into one run.

use super::clock::Estimate;
use crate::engine::{Config, Ending, GeneratorUse, HostClock, HostRun, Limit, Load, LoopKind, Run, join::add_totals};
use crate::measure::{Histogram, RawSlice, Slice, Snapshot, Totals};

/// Figures that a host has reported in slices, without its final result.
#[derive(Debug, Default)]
pub(super) struct Reported {
    totals: Totals,
    response: Histogram,
    measured_ns: u64,
}

impl Reported {
    /// Adds a reported slice.
    pub fn add(&mut self, raw: &RawSlice, config: &Config) {
        let begin_ns = raw.number.saturating_mul(config.slice_ns);
        let end_ns = config.warm_up_ns.saturating_add(config.duration_ns);
        if begin_ns >= config.warm_up_ns && begin_ns.saturating_add(config.slice_ns) <= end_ns {
            add_totals(&mut self.totals, raw);
            self.response.merge(&raw.response);
            self.measured_ns += config.slice_ns;
        }
    }

    /// Returns the figures as a snapshot. Requests that were sent and have no known reply count as lost.
    fn snapshot(self) -> Snapshot {
        let mut totals = self.totals;
        totals.lost = totals.sent.saturating_sub(totals.answered);
        Snapshot { measured_ns: self.measured_ns, totals, response: self.response, ..Snapshot::default() }
    }
}

/// One agent's part of a run.
#[derive(Debug)]
pub(super) struct Gathered {
    pub name: String,
    pub clock: Estimate,
    pub wall_offset_ms: i64,
    /// The agent's measurements and its replies per second.
    pub over: Option<(Run, f64)>,
    /// The figures that the agent had reported before it was lost.
    pub reported: Reported,
    /// The reason why the agent was lost.
    pub lost: Option<String>,
}

impl Gathered {
    fn clock(&self) -> HostClock {
        HostClock {
            round_trip_ns: self.clock.round_trip_ns,
            uncertainty_ns: self.clock.uncertainty_ns,
            wall_offset_ms: self.wall_offset_ms,
        }
    }
}

/// Joins all agents' parts into one run with the given timeline.
pub(super) fn joined(
    config: &Config,
    gathered: Vec<Gathered>,
    timeline: Vec<Slice>,
    started_unix_ms: u64,
    is_stopped: bool,
) -> Run {
    let mut run = empty(config, started_unix_ms);
    run.bulk.timeline = timeline;
    let mut endings = Vec::new();
    for one in gathered {
        let clock = one.clock();
        let mut host = HostRun { name: one.name, clock, lost: one.lost, ..HostRun::default() };
        match one.over {
            Some((theirs, achieved_per_s)) => {
                endings.push(theirs.ending);
                if theirs.ending == Ending::Deserted {
                    host.lost.get_or_insert("the agent had no connection to the server at the end".to_owned());
                }
                add(&mut run, theirs, &mut host);
                host.achieved_per_s = achieved_per_s;
            }
            None => {
                let snapshot = one.reported.snapshot();
                measured(&mut host, &snapshot);
                let seconds = snapshot.measured_ns as f64 / 1e9;
                host.achieved_per_s = if seconds > 0.0 { snapshot.totals.answered as f64 / seconds } else { 0.0 };
                run.bulk.merge(&snapshot);
            }
        }
        run.hosts.push(host);
    }
    run.ending = match () {
        () if !endings.is_empty() && endings.iter().all(|ending| *ending == Ending::Deserted) => Ending::Deserted,
        () if run.hosts.iter().any(|host| host.lost.is_some()) => Ending::HostLost,
        () if is_stopped => Ending::Stopped,
        () if endings.iter().all(|ending| *ending == Ending::Exhausted) => Ending::Exhausted,
        () => Ending::Complete,
    };
    run
}

/// Returns a run without measurements.
pub(super) fn empty(config: &Config, started_unix_ms: u64) -> Run {
    let kind = match config.load {
        Load::Open(_) => LoopKind::Open,
        Load::Closed => LoopKind::Closed,
        Load::Blind(_) => LoopKind::Blind,
    };
    Run {
        kind,
        ending: Ending::Stopped,
        started_unix_ms,
        bulk: Snapshot::default(),
        sampler: None,
        watched: GeneratorUse::default(),
        limits: Vec::new(),
        hosts: Vec::new(),
    }
}

fn measured(host: &mut HostRun, snapshot: &Snapshot) {
    host.measured_ns = snapshot.measured_ns;
    host.totals = snapshot.totals;
    host.response.clone_from(&snapshot.response);
    host.lateness.clone_from(&snapshot.lateness);
}

fn add(run: &mut Run, theirs: Run, host: &mut HostRun) {
    measured(host, &theirs.bulk);
    run.bulk.merge(&theirs.bulk);
    if let Some(sampler) = &theirs.sampler {
        run.sampler.get_or_insert_default().merge(sampler);
    }
    let GeneratorUse { threads, steal_share, timeline } = theirs.watched;
    run.watched.steal_share = run.watched.steal_share.max(steal_share);
    run.watched.threads.extend(threads.into_iter().map(|mut thread| {
        thread.name = format!("{} {}", host.name, thread.name);
        thread
    }));
    let limits = theirs.limits.iter();
    run.limits.extend(limits.map(|limit| Limit::Host { name: host.name.clone(), limit: Box::new(limit.clone()) }));
    host.limits = theirs.limits;
    host.used = timeline;
}
