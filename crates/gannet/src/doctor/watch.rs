//! `gannet doctor watch`: shows context switches, migrations, interrupts and waits for a CPU live, by thread and by
//! CPU.
//!
//! ```text
//!   Counters ──two readings──> Grown ──> lines: host, CPUs, threads (the longest wait first)
//! ```

use std::io::IsTerminal;
use std::time::Instant;

use clap::{ArgMatches, Command};
use doctor::Host;
use doctor::counters::{Counters, Grown, ThreadGrown};

use super::args::{pid, root, target};
use crate::load::stop;
use crate::screen::{self, LiveView, Size, ViewLine, Weight};
use crate::top::{PLAIN, interval, no_terminal};
use crate::{Failure, print};

/// Maximum number of threads shown: those that waited most, ran most and switched most.
const THREADS_MAX: usize = 40;

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("watch")
        .about("Watch switches, migrations, soft interrupts, steal, faults, reclaim and pressure, by thread and CPU")
        .after_help("Keys: q or Esc quits, space pauses and resumes, ? lists the keys.")
        .arg(pid("Process id of the server, whose threads are shown"))
        .arg(root())
        .args(screen::readings())
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let interval = interval(matches.get_one::<String>("interval").expect("it has a default"))?;
    let target = target(matches, interval)?;
    let mut watch = Watch { pid: target.pid, host: Host::now(target.root, target.pid), begun: Instant::now() };
    let failed = |why: String| Failure::Failed(vec![why]);
    if matches.get_flag("once") || !std::io::stdout().is_terminal() {
        let first = watch.take().map_err(failed)?;
        std::thread::sleep(interval);
        let now = watch.take().map_err(failed)?;
        return print(&screen::plain(&watch.show(&now, Some(&first), PLAIN)));
    }
    let ends = stop::switch()?;
    screen::run(interval, &mut watch, &ends).map_err(no_terminal)
}

/// The counters of a host and of a process.
struct Watch {
    pid: Option<u32>,
    host: Host,
    begun: Instant,
}

impl LiveView for Watch {
    type Reading = Counters;

    fn take(&mut self) -> Result<Counters, String> {
        let counters = Counters::read(&self.host, self.begun.elapsed());
        match self.pid {
            Some(pid) if counters.threads.is_empty() => Err(format!("process {pid} has ended")),
            _ => Ok(counters),
        }
    }

    fn show(&self, now: &Counters, before: Option<&Counters>, size: Size) -> Vec<ViewLine> {
        match before {
            Some(before) => lines(&now.since(before), size.columns),
            None => vec![ViewLine::new(Weight::Head, "waiting for the second reading", size.columns)],
        }
    }
}

/// Formats the differences of two readings as lines.
fn lines(grown: &Grown, columns: usize) -> Vec<ViewLine> {
    let mut lines = Vec::new();
    let mut put = |weight, text: String| lines.push(ViewLine::new(weight, &text, columns));
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}", share * 100.0));
    let pressure = ["cpu", "memory", "io"].map(|of| format!("{of} {}", share(grown.pressure.get(of).copied())));
    put(Weight::Head, format!("the last {:.1} s; shares are in % of the time", grown.seconds));
    put(Weight::Plain, format!("waiting for           {}", pressure.join("   ")));
    put(Weight::Plain, format!("stopped by a quota    {}", share(grown.throttled)));
    let memory: Vec<String> =
        grown.memory_per_s.iter().map(|(name, rate)| format!("{name} {}", rate_of(Some(*rate)))).collect();
    put(Weight::Plain, format!("memory, per second    {}", memory.join("   ")));
    put(Weight::Plain, String::new());
    put(Weight::Head, format!("{:<6}{:>8}{:>10}{:>8}", "CPU", "busy", "softirq", "steal"));
    for cpu in &grown.cpus {
        let [busy, softirq, steal] = [cpu.busy, cpu.softirq, cpu.steal].map(|part| share(Some(part)));
        put(Weight::Plain, format!("{:<6}{busy:>8}{softirq:>10}{steal:>8}", cpu.number));
    }
    if grown.threads.is_empty() {
        return lines;
    }
    put(Weight::Plain, String::new());
    put(
        Weight::Head,
        format!(
            "{:<16}{:>7}{:>8}{:>10}{:>9}{:>9}{:>10}{:>10}",
            "thread", "ran", "waited", "taken off", "slept", "moved", "faults", "of disk"
        ),
    );
    let mut threads: Vec<&ThreadGrown> = grown.threads.iter().collect();
    let weight = |thread: &ThreadGrown| (thread.waited, thread.ran, thread.involuntary_per_s);
    threads.sort_by(|a, b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal));
    for thread in threads.iter().take(THREADS_MAX) {
        put(
            Weight::Plain,
            format!(
                "{:<16}{:>7}{:>8}{:>10}{:>9}{:>9}{:>10}{:>10}",
                // Thread names may contain any bytes.
                thread.name.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>(),
                share(Some(thread.ran)),
                share(Some(thread.waited)),
                rate_of(Some(thread.involuntary_per_s)),
                rate_of(Some(thread.voluntary_per_s)),
                rate_of(thread.moves_per_s),
                rate_of(Some(thread.minor_faults_per_s)),
                rate_of(Some(thread.major_faults_per_s)),
            ),
        );
    }
    if threads.len() > THREADS_MAX {
        put(Weight::Plain, format!("and {} threads more", threads.len() - THREADS_MAX));
    }
    lines
}

/// Formats a rate per second; `-` if it is unknown.
fn rate_of(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate >= 9.95 || rate == 0.0 => format!("{rate:.0}"),
        Some(rate) => format!("{rate:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::counters::CpuGrown;
    use std::collections::BTreeMap;

    fn thread(name: &str, waited: f64, moves_per_s: Option<f64>) -> ThreadGrown {
        let (ran, voluntary_per_s, involuntary_per_s) = (0.25, 7.0, 12.5);
        let (minor_faults_per_s, major_faults_per_s) = (0.0, 0.5);
        let name = name.to_owned();
        ThreadGrown {
            name,
            ran,
            waited,
            voluntary_per_s,
            involuntary_per_s,
            moves_per_s,
            minor_faults_per_s,
            major_faults_per_s,
        }
    }

    fn grown(threads: Vec<ThreadGrown>) -> Grown {
        Grown {
            seconds: 1.0,
            threads,
            cpus: vec![CpuGrown { number: 3, busy: 0.5, softirq: 0.2, steal: 0.01 }],
            memory_per_s: BTreeMap::from([("pgscan_direct", 640.0)]),
            pressure: BTreeMap::from([("cpu", 0.125)]),
            throttled: None,
        }
    }

    #[test]
    fn longest_waiting_thread_is_first_and_missing_values_show_a_dash() {
        let text =
            screen::plain(&lines(&grown(vec![thread("idle\x1b[2J", 0.0, None), thread("held", 0.4, Some(3.0))]), 120));
        for part in [
            "waiting for           cpu 12.5   memory -   io -\n",
            "stopped by a quota    -\n",
            "pgscan_direct 640",
            "3         50.0      20.0     1.0\n",
            "held               25.0    40.0        12      7.0      3.0         0       0.5\n",
            "idle?[2J           25.0     0.0        12      7.0        -         0       0.5\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        assert!(text.find("held") < text.find("idle"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "a table fits 80 columns: {text}");
    }

    #[test]
    fn a_narrow_terminal_and_a_thousand_threads_have_bounds() {
        let many = (0..1000).map(|n| thread(&format!("t{n}"), 0.0, None)).collect();
        let lines = lines(&grown(many), 30);
        assert!(lines.len() < THREADS_MAX + 16 && lines.iter().all(|line| line.text.chars().count() <= 30));
        assert!(lines.last().unwrap().text.starts_with("and 960 threads more"));
    }
}
