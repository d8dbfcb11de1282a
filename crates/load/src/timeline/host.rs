//! The use of the host's CPUs, from `/proc/stat`.

use super::{FigureReading, Source, Unit};

/// The kernel's ticks per second in `/proc/stat`: always 100 for programs.
const TICKS_A_SECOND: f64 = 100.0;

/// A source with the use of all CPUs of this host and of the busiest one.
#[derive(Default)]
pub struct Host {
    before: Vec<HostTicks>,
}

/// The time of a CPU since its start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTicks {
    /// Total time in ticks.
    pub total: f64,
    /// Idle time in ticks.
    pub idle: f64,
    /// Time in soft interrupts, mostly packet processing, in ticks.
    pub softirq: f64,
    /// Time that the hypervisor gave to other guests, in ticks.
    pub steal: f64,
}

/// Parses `/proc/stat`; the first entry is all CPUs together.
pub fn parse(stat: &str) -> Vec<HostTicks> {
    let lines = stat.lines().filter(|line| line.starts_with("cpu"));
    lines
        .map(|line| {
            let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
            let at = |index: usize| ticks.get(index).copied().unwrap_or(0.0);
            // user nice system idle iowait irq softirq steal; user time already includes guest time.
            HostTicks { total: ticks.iter().take(8).sum(), idle: at(3) + at(4), softirq: at(6), steal: at(7) }
        })
        .collect()
}

/// Returns shares of the time between two readings.
pub fn readings(before: &[HostTicks], now: &[HostTicks]) -> Vec<FigureReading> {
    if before.len() != now.len() || now.is_empty() {
        return Vec::new();
    }
    let share = |of: fn(&HostTicks) -> f64, at: usize| {
        let passed = now[at].total - before[at].total;
        if passed <= 0.0 { 0.0 } else { ((of(&now[at]) - of(&before[at])) / passed).clamp(0.0, 1.0) }
    };
    let busy = |at| 1.0 - share(|ticks| ticks.idle, at);
    let passed = |at: usize| now[at].total > before[at].total;
    if !passed(0) {
        return Vec::new();
    }
    let most = |of: &dyn Fn(usize) -> f64| (1..now.len()).filter(|at| passed(*at)).map(of).fold(0.0, f64::max);
    vec![
        FigureReading::new("CPU busy/all", Unit::Share, busy(0)),
        FigureReading::new("CPU busy/busiest", Unit::Share, most(&busy)),
        FigureReading::new("softirq/all", Unit::Share, share(|ticks| ticks.softirq, 0)),
        FigureReading::new("softirq/busiest CPU", Unit::Share, most(&|at| share(|ticks| ticks.softirq, at))),
        FigureReading::new("steal", Unit::Share, share(|ticks| ticks.steal, 0)),
    ]
}

impl Source for Host {
    fn whose(&self) -> &'static str {
        "host"
    }

    fn read(&mut self) -> Vec<FigureReading> {
        let Ok(stat) = std::fs::read_to_string("/proc/stat") else { return Vec::new() };
        let now = parse(&stat);
        let readings = readings(&self.before, &now);
        self.before = now;
        readings
    }
}

/// Returns the steal time of all CPUs since the machine started, in seconds.
pub fn steal_s() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    parse(&stat).first().map(|all| all.steal / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        "cpu  100 0 100 800 0 0 10 5 0 0\ncpu0 50 0 50 400 0 0 10 5 0 0\ncpu1 50 0 50 400 0 0 0 0 0 0\nintr 1\n";
    const AFTER: &str =
        "cpu  200 0 150 840 0 0 20 5 0 0\ncpu0 140 0 55 400 0 0 20 5 0 0\ncpu1 60 0 95 440 0 0 0 0 0 0\n";

    #[test]
    fn shares_are_those_of_the_time_between_and_the_busiest_is_named() {
        let readings = readings(&parse(BEFORE), &parse(AFTER));
        let value = |name: &str| readings.iter().find(|reading| reading.name == name).unwrap().value;
        assert_eq!(value("CPU busy/all"), 0.8);
        assert_eq!(value("CPU busy/busiest"), 1.0);
        assert_eq!(value("softirq/all"), 10.0 / 200.0);
        assert!((value("softirq/busiest CPU") - 10.0 / 105.0).abs() < 1e-9);
        assert_eq!(value("steal"), 0.0);
    }

    #[test]
    fn unavailable_host_readings_are_omitted() {
        assert!(readings(&[], &parse(AFTER)).is_empty());
        assert!(readings(&parse(AFTER), &parse(AFTER)).is_empty());
        assert!(parse("no such thing").is_empty());
        assert!(Host::default().read().is_empty(), "a single reading spans no time");
    }
}
