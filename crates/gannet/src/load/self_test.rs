//! `gannet load self-test`: measures the generator's highest rate and timing error on this host.

use std::time::Duration;

use base::units::TimeSpan;
use clap::{Arg, ArgAction, ArgMatches, Command};
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
                .help("Exit with code 3 if the timer error is too large"),
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
    if matches.get_flag("strict") && !outcome.is_punctual() {
        let most = TIMER_ERROR_NS_MAX / 1000;
        let line =
            format!("the timer error is above {most} us at p99; use a CPU for the generator that nothing else uses");
        return Err(Failure::Code(super::run::GENERATOR_LIMITED, vec![line]));
    }
    Ok(())
}
