//! `gannet load self-test`: measures the generator's highest rate and timing error on this host.

use std::time::Duration;

use base::units::TimeSpan;
use clap::{Arg, ArgAction, ArgMatches, Command};
use load::engine::Config;
use load::selftest::{TIMER_ERROR_NS_MAX, Trial, try_host};

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("self-test")
        .about("Show the highest rate and the timing error of the generator on this host, against a null server")
        .arg(
            Arg::new("part")
                .long("part")
                .value_name("DURATION")
                .default_value("2s")
                .help("Length of each of the three parts"),
        )
        .arg(
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("Exit with code 3 if the timer error is above 20 us at p99 [default: above 1 ms]"),
        )
        .after_help("Example:\n  gannet load self-test --part 1s")
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let text = matches.get_one::<String>("part").expect("it has a default");
    let part: TimeSpan = text.parse().map_err(|error: base::units::UnitError| {
        Failure::Usage(vec![format!("--part: {error}; {}", error.remedy())])
    })?;
    if !(Duration::from_millis(50)..=Duration::from_secs(60)).contains(&Duration::from_nanos(part.0)) {
        return Err(Failure::Usage(vec!["--part: the length must be from 50ms to 60s".to_owned()]));
    }
    let trial = Trial { part_ns: part.0, ..Trial::default() };
    let outcome =
        try_host(&trial).map_err(|error| Failure::Failed(error.to_string().lines().map(str::to_owned).collect()))?;
    print(&outcome.to_string())?;
    judged(outcome.lateness_p99_ns, matches.get_flag("strict"))
}

/// Returns the failure if the timer error, in nanoseconds at p99, is too large: above that of any valid run, or with
/// `--strict` above the target.
fn judged(lateness_p99_ns: u64, is_strict: bool) -> Result<(), Failure> {
    let most_ns = if is_strict { TIMER_ERROR_NS_MAX } else { Config::default().lateness_ns_max };
    if lateness_p99_ns <= most_ns {
        return Ok(());
    }
    let line = format!(
        "the timer error is {} us at p99, above {} us; use a CPU for the generator that nothing else uses",
        lateness_p99_ns / 1000,
        most_ns / 1000
    );
    Err(Failure::Code(super::run::GENERATOR_LIMITED, vec![line]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_timer_error_is_no_success() {
        let code = |ns, is_strict| match judged(ns, is_strict) {
            Err(Failure::Code(code, _)) => code,
            _ => 0,
        };
        assert_eq!([code(15_000, false), code(500_000, false), code(60_000_000, false)], [0, 0, 3]);
        assert_eq!([code(15_000, true), code(500_000, true)], [0, 3]);
    }
}
