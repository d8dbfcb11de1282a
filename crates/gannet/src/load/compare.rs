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
    name_by_file(&mut results, matches.get_many::<String>("RESULT").into_iter().flatten());
    if let Some(path) = matches.get_one::<String>("report") {
        write(Path::new(path), &compare::html(&results))?;
    }
    print(&compare::text(&results))
}

/// Names each result by its file, and by the file's path if two files have the same name. The name of the run follows.
fn name_by_file<'a>(results: &mut [RunResult], paths: impl Iterator<Item = &'a String>) {
    let paths: Vec<&Path> = paths.map(Path::new).collect();
    let file = |path: &Path| path.file_name().unwrap_or_default().to_os_string();
    for (result, path) in results.iter_mut().zip(&paths) {
        let is_unique = paths.iter().filter(|other| file(other) == file(path)).count() == 1;
        let named = if is_unique { file(path).to_string_lossy().into_owned() } else { path.display().to_string() };
        let has_own_name = result.name.is_empty()
            || result.targets.iter().any(|target| target.address == result.name)
            || path.file_stem().is_some_and(|stem| *stem == *result.name);
        result.name = if has_own_name { named } else { format!("{named}: {}", result.name) };
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
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Returns an error if the file cannot be written, so that a long run does not end without its results. Changes no
/// file.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| unwritable(path, &error))?;
    // A run that fails leaves no empty file. If it cannot be removed, the results replace it.
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(vec![format!("{}: cannot write the file ({error}); use another name", path.display())])
}
