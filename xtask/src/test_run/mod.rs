//! Every test there is, runner by runner, with the number of tests that each executed.
//!
//! A runner that executed none has failed: a suite that finds no tests must not look like one that passes.

mod count;
pub mod needs;
mod runners;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

pub use count::Count;
pub use runners::target_folder;
use runners::{Runner, Step};

/// Runs the runners whose name contains `only` (all if empty) and prints the table and the sum; true if all passed.
///
/// # Errors
/// When something that the tests need is missing and cannot be installed, or the server does not build.
pub fn run(root: &Path, only: &str) -> Result<bool, String> {
    needs::install_missing()?;
    let runners: Vec<Runner> = runners::all(root).into_iter().filter(|runner| runner.name.contains(only)).collect();
    if runners.is_empty() {
        return Err(format!("no runner is called '{only}'"));
    }
    let mut rows = Vec::new();
    for runner in &runners {
        println!("\n== {} ==", runner.name);
        let started = Instant::now();
        let outcome = run_one(runner);
        rows.push((runner.name, outcome, started.elapsed().as_secs()));
    }
    let mut total = Count::default();
    println!();
    for (name, Outcome { count, error, .. }, seconds) in &rows {
        let verdict = error.as_deref().unwrap_or("ok");
        println!("{name:<14} {:>5} passed {:>3} failed {seconds:>5} s  {verdict}", count.passed, count.failed);
        total = total.plus(*count);
    }
    // Whoever keeps only the end of the output still learns which tests failed.
    for (name, outcome, _) in &rows {
        for line in &outcome.failures {
            println!("{name}: {line}");
        }
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.passed > 0 && rows.iter().all(|(_, outcome, _)| outcome.error.is_none()))
}

/// What came of one runner.
struct Outcome {
    /// A failure without a failed test counts as one.
    count: Count,
    /// What is wrong with it, if anything is.
    error: Option<String>,
    /// Lines of its output that name failed tests.
    failures: Vec<String>,
}

fn run_one(runner: &Runner) -> Outcome {
    for step in &runner.prepare {
        if let Err(error) = run_step(step) {
            return Outcome { count: Count { passed: 0, failed: 1 }, error: Some(error), failures: Vec::new() };
        }
    }
    let (output, error) = match run_step(&runner.step) {
        Ok(output) => (output, None),
        Err(error) => (String::new(), Some(error)),
    };
    let mut count = match &error {
        None => count::count(runner.format, &output),
        Some(_) => Count::default(),
    };
    let status_failed = output.ends_with(FAILED_MARK);
    let error = match error {
        Some(error) => Some(error),
        None if count.passed + count.failed == 0 => Some("executed no test".into()),
        None if count.failed > 0 => Some("FAILED".into()),
        None if status_failed => Some("ended with an error".into()),
        None => None,
    };
    if error.is_some() && count.failed == 0 {
        count.failed = 1;
    }
    let failures = match error {
        Some(_) => count::failures(runner.format, &output).into_iter().map(str::to_owned).collect(),
        None => Vec::new(),
    };
    Outcome { count, error, failures }
}

/// Put behind the output of a step that did not succeed.
const FAILED_MARK: &str = "\u{0}failed";

/// Runs one step, shows its output as it comes, and returns it; [`FAILED_MARK`] is behind it if the step failed.
fn run_step(step: &Step) -> Result<String, String> {
    let line = format!("exec 2>&1; {}", step.shell);
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(&step.folder).stdin(Stdio::null()).stdout(Stdio::piped());
    command.envs(step.environment.iter().map(|(name, value)| (*name, value.as_str())));
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", step.shell))?;
    let pipe = child.stdout.take().expect("stdout is piped");
    let mut output = String::new();
    for line in BufReader::new(pipe).split(b'\n') {
        let line = line.map_err(|error| format!("{}: {error}", step.shell))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(output),
        false if step.must_succeed => Err(format!("`{}` failed: {status}", step.shell)),
        false => Ok(output + FAILED_MARK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use count::Format;

    fn runner(shell: &str) -> Runner {
        Runner { name: "x", prepare: Vec::new(), step: Step::new(Path::new("/"), shell), format: Format::Cargo }
    }

    #[test]
    fn a_runner_that_executes_nothing_fails() {
        let Outcome { count, error, .. } = run_one(&runner("true"));
        assert_eq!(count, Count { passed: 0, failed: 1 });
        assert_eq!(error.as_deref(), Some("executed no test"));
    }

    #[test]
    fn a_runner_that_dies_after_passing_tests_fails() {
        let Outcome { count, error, .. } = run_one(&runner("echo 'test result: ok. 2 passed; 0 failed;'; exit 3"));
        assert_eq!(count, Count { passed: 2, failed: 1 });
        assert!(error.is_some());
    }

    #[test]
    fn a_runner_whose_tests_pass_passes() {
        let outcome = run_one(&runner("echo 'test result: ok. 2 passed; 0 failed;'"));
        assert_eq!((outcome.count, outcome.error), (Count { passed: 2, failed: 0 }, None));
        assert!(outcome.failures.is_empty());
    }

    #[test]
    fn a_failed_preparation_fails_the_runner() {
        let mut runner = runner("echo 'test result: ok. 2 passed; 0 failed;'");
        runner.prepare.push(Step::new(Path::new("/"), "false").required());
        assert_eq!(run_one(&runner).count, Count { passed: 0, failed: 1 });
    }
}
