//! `gannet load compare A.json B.json`: compares results side by side.

use std::io::Read;
use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command};
use load::report::compare;
use load::result::{JSON_BYTES_MAX, RunResult};

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("compare")
        .about("Show results side by side, relative to the first")
        .arg(
            Arg::new("RESULT")
                .help("Files that --json wrote")
                .value_name("RESULT.json")
                .required(true)
                .num_args(2..=compare::RESULTS_MAX)
                .action(ArgAction::Append),
        )
        .arg(
            Arg::new("report")
                .long("report")
                .value_name("FILE.html")
                .help("Write an HTML page with all results side by side"),
        )
        .after_help("Example:\n  gannet load compare before.json after.json --report both.html")
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let paths = matches.get_many::<String>("RESULT").into_iter().flatten();
    let read: Vec<Result<RunResult, String>> = paths.map(|path| read(Path::new(path))).collect();
    let faults: Vec<String> = read.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
    if !faults.is_empty() {
        return Err(Failure::Failed(faults));
    }
    let mut results: Vec<RunResult> = read.into_iter().flatten().collect();
    tell_apart(&mut results, matches.get_many::<String>("RESULT").into_iter().flatten());
    if let Some(path) = matches.get_one::<String>("report") {
        write(Path::new(path), &compare::html(&results))?;
    }
    print(&compare::text(&results))
}

/// Makes names unique: if several results have the same name, adds the name of its file to each of them.
fn tell_apart<'a>(results: &mut [RunResult], paths: impl Iterator<Item = &'a String>) {
    let names: Vec<String> = results.iter().map(|result| result.name.clone()).collect();
    for ((result, path), name) in results.iter_mut().zip(paths).zip(&names) {
        if names.iter().filter(|known| *known == name).count() > 1 {
            let stem = Path::new(path).file_stem().unwrap_or_default();
            result.name = format!("{} ({name})", stem.to_string_lossy());
        }
    }
}

/// Reads a result. A result without a name receives the name of its file.
pub fn read(path: &Path) -> Result<RunResult, String> {
    let fault = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = read_text(path, JSON_BYTES_MAX)?;
    let mut result = RunResult::from_json(&text).map_err(|error| fault(&error))?;
    if result.name.is_empty() {
        result.name = path.file_stem().map_or_else(|| "?".into(), |stem| stem.to_string_lossy().into_owned());
    }
    Ok(result)
}

/// Reads the text of a file of at most `bytes_max` bytes.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(fault)?;
    file.take(bytes_max + 1).read_to_string(&mut text).map_err(fault)?;
    if text.len() as u64 > bytes_max {
        return Err(format!(
            "{}: the file is longer than {bytes_max} bytes; check that it is the right file",
            path.display()
        ));
    }
    Ok(text)
}

/// Writes a file of results.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| {
        Failure::Failed(vec![format!("{}: cannot write the file ({error}); use another name", path.display())])
    })
}
