//! Figures of runs on several hosts: lost hosts, the slowest host, and the use of each host.

use crate::engine::{HostRun, UseSlice};
use crate::result::{AgentFigures, Timeline};
use crate::timeline::{POINTS_MAX, TIMELINES_MAX};
use page::words::{duration, grouped};

/// Share of due requests with a reply in time, below which an agent counts as the slowest.
const ACHIEVED_MIN: f64 = 0.99;

/// Returns a sentence about the lost hosts; `None` if no host was lost.
pub(super) fn lost(hosts: &[HostRun]) -> Option<String> {
    let lost = hosts.iter().filter_map(|host| {
        let (why, answered) = (host.lost.as_ref()?, grouped(host.totals.answered as f64));
        Some(format!("agent {} was lost: {why}; the {answered} replies that it reported are included", host.name))
    });
    let lost: Vec<String> = lost.collect();
    (!lost.is_empty()).then(|| lost.join("; "))
}

/// Returns a sentence about the slowest of several agents. An agent that was the bottleneck comes first. Next comes an
/// agent whose requests did not all get replies in time, and last the agent with the longest tail.
pub(super) fn slowest(agents: &[AgentFigures]) -> Option<String> {
    if agents.len() < 2 {
        return None;
    }
    let share = |agent: &AgentFigures| {
        if agent.offered_per_s > 0.0 { (agent.achieved_per_s / agent.offered_per_s).min(ACHIEVED_MIN) } else { 0.0 }
    };
    let of_all = |a: &&AgentFigures, b: &&AgentFigures| {
        let by_limit = a.limit.is_some().cmp(&b.limit.is_some());
        let by_share = share(b).total_cmp(&share(a));
        by_limit.then(by_share).then(a.response.p999_ns.cmp(&b.response.p999_ns))
    };
    let worst = agents.iter().max_by(of_all)?;
    let others = agents.iter().filter(|agent| agent.name != worst.name);
    let others_ns = others.map(|agent| agent.response.p999_ns).max().unwrap_or(0);
    let limited = worst.limit.as_ref().map_or(String::new(), |limit| format!(", and it was the bottleneck: {limit}"));
    Some(format!(
        "slowest agent: {}, p999 {} (at most {} on the others), {}/s replied of {}/s, {} late at p99{limited}",
        worst.name,
        duration(worst.response.p999_ns as f64),
        duration(others_ns as f64),
        grouped(worst.achieved_per_s),
        grouped(worst.offered_per_s),
        duration(worst.lateness.p99_ns as f64),
    ))
}

/// Timelines of the hosts during a session.
#[derive(Debug, Default)]
pub(super) struct HostTimelines(Vec<Timeline>);

impl HostTimelines {
    /// Adds a run that began `began_s` seconds after the session.
    pub fn add(&mut self, hosts: &[HostRun], began_s: f64) {
        type Figure = (&'static str, fn(&UseSlice) -> f64);
        let figures: [Figure; 4] = [
            ("CPU use of the busiest thread", |slice| slice.busy_share),
            ("worst thread's wait for a CPU", |slice| slice.preempted_share),
            ("CPU use of the host", |slice| slice.machine_share),
            ("steal", |slice| slice.steal_share),
        ];
        for (name, value) in figures {
            for host in hosts {
                let points = host.used.iter().map(|slice| (began_s + slice.end_ns as f64 / 1e9, value(slice)));
                self.extend(format!("agents, {name}/{}", host.name), points);
            }
        }
    }

    fn extend(&mut self, name: String, points: impl Iterator<Item = (f64, f64)>) {
        let line = match self.0.iter_mut().position(|line| line.name == name) {
            Some(at) => &mut self.0[at],
            None if self.0.len() < TIMELINES_MAX => {
                let (source, unit) = ("generator".to_owned(), "share".to_owned());
                self.0.push(Timeline { source, name, unit, points: Vec::new() });
                self.0.last_mut().expect("a timeline was pushed")
            }
            None => return,
        };
        let room = POINTS_MAX.saturating_sub(line.points.len());
        line.points.extend(points.take(room));
    }

    /// Returns the timelines.
    pub fn into_timelines(mut self) -> Vec<Timeline> {
        self.0.retain(|line| !line.points.is_empty());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Latencies;

    fn agent(name: &str, achieved_per_s: f64, p999_ns: u64) -> AgentFigures {
        let response = Latencies { p999_ns, ..Latencies::default() };
        AgentFigures { name: name.to_owned(), offered_per_s: 1000.0, achieved_per_s, response, ..Default::default() }
    }

    #[test]
    fn slowest_agent_is_ranked_by_limit_then_rate_then_tail() {
        let named = |agents: &[AgentFigures]| slowest(agents).unwrap()["slowest agent: ".len()..][..1].to_owned();
        let mut agents = [agent("a", 999.0, 5_000_000), agent("b", 1001.0, 9_000_000), agent("c", 998.0, 1_000)];
        assert_eq!(named(&agents), "b", "an agent within a hundredth of its rate does not count as the slowest");
        agents[2].achieved_per_s = 900.0;
        assert_eq!(named(&agents), "c");
        agents[0].limit = Some("late".to_owned());
        assert_eq!(named(&agents), "a");
        assert!(slowest(&agents).unwrap().contains("it was the bottleneck: late"));
        assert_eq!(slowest(&agents[..1]), None, "a single agent is not ranked");
    }
}
