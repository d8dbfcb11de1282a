//! `gannet load rerun RESULT.json`: repeats the run of a result, with the workload and the flags of its recipe.
//!
//! Flags on the command line override those of the recipe.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};

use super::recipe::read;
use super::{args, run as session};
use crate::Failure;

/// Flags that select the mode of a run. If one of them is given, it replaces all of those in the recipe.
const MODES: [&str; 4] = ["slo", "rate", "closed", "rates"];

/// Returns the subcommand's arguments.
pub fn command() -> Command {
    Command::new("rerun")
        .about("Repeat the run of a result, with its workload, seed and flags")
        .arg(Arg::new("RESULT").value_name("RESULT.json").required(true).help("A file that --json wrote"))
        .arg(
            Arg::new("FLAGS")
                .help("Flags of `gannet load` that override those of the result")
                .num_args(0..)
                .allow_hyphen_values(true)
                .trailing_var_arg(true),
        )
        .after_help("Example:\n  gannet load rerun out.json --target 127.0.0.1:11212 --json again.json")
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = matches.get_one::<String>("RESULT").map_or("", String::as_str);
    let given: Vec<String> = matches.get_many::<String>("FLAGS").into_iter().flatten().cloned().collect();
    let result = read(Path::new(path))?;
    let mut words = vec!["gannet load".to_owned()];
    words.extend(result.again.into_iter().filter(|flag| !is_replaced(flag, &given)));
    words.push(format!("--workload={}", as_json(path)?));
    words.extend(given);
    let matches = args::add(Command::new("load")).try_get_matches_from(words).unwrap_or_else(|error| error.exit());
    session::run(&matches)
}

/// Returns the path if it ends with `.json`; otherwise an error, because the file may be a workload instead of a
/// result.
fn as_json(path: &str) -> Result<&str, Failure> {
    if path.ends_with(".json") {
        return Ok(path);
    }
    Err(Failure::Usage(vec![format!("{path}: a result's name ends with .json; rename the file")]))
}

/// Returns whether a given flag replaces the recipe's `flag`.
fn is_replaced(flag: &str, given: &[String]) -> bool {
    let name = |word: &str| word.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
    let kept = name(flag);
    given.iter().filter(|word| word.starts_with("--")).map(|word| name(word)).any(|given| {
        let modes = MODES.contains(&given.as_str()) && MODES.contains(&kept.as_str());
        given == kept || modes
    })
}
