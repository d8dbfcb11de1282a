//! Divides a run into one share for each agent.

use crate::engine::{Config, HostShare, Reconnect, Sampler};

/// Returns the shares of `config` for `agents` agents, each with `threads` threads.
///
/// # Errors
/// All faults of the shares, each with its remedy.
pub(super) fn split(config: &Config, agents: usize) -> Result<Vec<Config>, Vec<String>> {
    let share = |whole: u64, agent: usize| whole / agents as u64 + u64::from((agent as u64) < whole % agents as u64);
    let shares: Vec<Config> = (0..agents)
        .map(|agent| Config {
            part: Some(HostShare { first_thread: agent * config.threads, threads: agents * config.threads }),
            connections: share(config.connections as u64, agent) as usize,
            requests_max: config.requests_max.map(|whole| share(whole, agent)),
            reconnect: Reconnect { per_s: config.reconnect.per_s / agents as f64, ..config.reconnect },
            sampler: config
                .sampler
                .as_ref()
                .map(|sampler| Sampler { rate_per_s: sampler.rate_per_s / agents as f64, ..sampler.clone() }),
            ..config.clone()
        })
        .collect();
    // Shares differ by at most one connection or request; the last share has the fewest.
    let faults = shares.last().map_or(Vec::new(), Config::faults);
    if faults.is_empty() {
        return Ok(shares);
    }
    let of = format!("for each of {agents} agents, with its share of the connections: ");
    Err(faults.into_iter().map(|fault| of.clone() + &fault).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(connections: usize) -> Config {
        let targets = vec!["127.0.0.1:1".parse().unwrap()];
        Config { targets, threads: 2, connections, requests_max: Some(100), ..Config::default() }
    }

    #[test]
    fn shares_add_up_to_the_whole() {
        let shares = split(&config(11), 3).unwrap();
        let connections: Vec<usize> = shares.iter().map(|share| share.connections).collect();
        assert_eq!(connections, [4, 4, 3]);
        assert_eq!(shares.iter().filter_map(|share| share.requests_max).sum::<u64>(), 100);
        let parts: Vec<HostShare> = shares.iter().filter_map(|share| share.part).collect();
        assert!(parts.iter().enumerate().all(|(at, part)| (part.first_thread, part.threads) == (2 * at, 6)));
        assert!(shares.iter().all(|share| share.threads == 2));
    }

    #[test]
    fn an_agent_without_a_connection_for_each_thread_is_refused_with_the_remedy() {
        let faults = split(&config(5), 3).unwrap_err();
        assert!(faults[0].contains("of 3 agents") && faults[0].contains("raise connections"), "{faults:?}");
    }
}
