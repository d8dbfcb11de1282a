//! `lab quota`: a server is throttled although its mean CPU use is below its quota.
//!
//! ```text
//!   used    ▁▃▂▇▁▂ ▂▁█████──────▂▃▁      the mean use is below the quota, but one period reaches it:
//!           |    period    |stopped |     all threads wait for the next period
//! ```

use std::time::Duration;

use super::catalogue::Lab;
use super::group::Group;
use super::outcome::{LabOutcome, LabPhase};
use super::part::{LabPart, Role};
use super::phases::order;
use super::rounds::Turns;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;

/// Requests per second. The server uses 0.3 CPUs for them.
const RATE_PER_S: f64 = 300.0;
const WORK: Duration = Duration::from_millis(1);
/// The CPU quota of the group, in CPUs.
const QUOTA: f64 = 0.35;
/// The kernel's default period, and a shorter period with shorter stops, in us.
const PERIOD_US: u64 = 100_000;
const SHORT_US: u64 = 10_000;
/// Time between the check's two readings, during a phase.
const WINDOW: Duration = Duration::from_secs(1);

const SETTINGS: [&str; 3] = ["no quota", "0.35 CPU, period 100 ms", "0.35 CPU, period 10 ms"];
const FIGURES: [&str; 3] = ["p99_us", "p999_us", "throttled_ms"];

pub fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let group = Group::make(scene.ledger, "cpu", "quota")?;
    let (mut phases, mut findings) = (Vec::new(), Vec::new());
    for (round, setting) in order(SETTINGS.len(), scene.wanted.rounds, scene.wanted.seed) {
        (scene.tell)(&format!("round {}: {}", round + 1, SETTINGS[setting]));
        let limit = |period_us: u64| (Some((period_us as f64 * QUOTA) as u64), period_us);
        let (quota_us, period_us) = [(None, PERIOD_US), limit(PERIOD_US), limit(SHORT_US)][setting];
        group.limit_cpu(quota_us, period_us)?;
        let seed = scene.wanted.seed ^ u64::from(round);
        let turns = Turns { cpu: None, rate_per_s: RATE_PER_S, work: WORK, time: scene.wanted.phase, seed };
        let mut part = LabPart::start(&scene.wanted.program, &Role::Turns(turns), None)?;
        group.add(part.pid())?;
        let mut phase = LabPhase::begin(setting, round, scene.now_s());
        let before = group.throttled();
        part.go()?;
        if setting == 1 && findings.is_empty() {
            let window = WINDOW.min(scene.wanted.phase / 2);
            findings = found(Lab::Quota, "/", Some(part.pid()), window);
        }
        let done = part.end(scene, &mut |_| {})?;
        let after = group.throttled();
        phase.take(TimeTally::from(done.times));
        phase.figures.extend(done.counts);
        phase.figures.insert("throttled_times".to_owned(), after.0 - before.0);
        phase.figures.insert("throttled_ms".to_owned(), after.1 - before.1);
        phases.push(phase);
    }
    let mut outcome = LabOutcome::of(Lab::Quota, scene, &SETTINGS, &FIGURES, phases);
    outcome.findings = findings;
    let p999 = outcome.against_first("p999_us", 1).cloned();
    outcome.is_shown = p999.as_ref().is_some_and(|compared| compared.is_higher());
    outcome.headline = match p999 {
        Some(compared) if compared.is_higher() => format!(
            "Shown: with a quota of 0.35 CPUs, a server that uses 0.3 CPUs replies in {:.1} ms (p999), without one in \
             {:.1} ms.",
            compared.mean_b / 1e3,
            compared.mean_a / 1e3
        ),
        _ => "Not shown: p999 with the quota is not clearly higher than without. Run more rounds.".to_owned(),
    };
    outcome.notes.push(
        "With a shorter period the stops are more frequent and shorter. Without a quota, or with whole CPUs, there \
         are none."
            .to_owned(),
    );
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_uses_less_than_the_quota() {
        assert!(RATE_PER_S * WORK.as_secs_f64() < QUOTA - 0.04);
    }
}
