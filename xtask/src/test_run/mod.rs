//! Runs every test, runner by runner, and reports the number of executed tests.
//!
//! A runner that executed no tests has failed: a suite that finds no tests must not look like one that passes.

mod count;
mod needs;
mod runners;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

pub use count::Count;
use count::TestTime;
use runners::{Runner, ShellStep};

/// Runs the runners whose names contain one of `parts` (all if there are none). Prints the slowest tests, a table of
/// the runners and the sum. Returns true if all passed.
///
/// # Errors
/// If a part names no runner, if a program that the tests need cannot be installed, or if the server does not build.
pub fn run(root: &Path, parts: &[String]) -> Result<bool, String> {
    let mut runners = chosen(runners::all(root), parts)?;
    needs::install_missing()?;
    runners
        .iter_mut()
        .filter(|runner| runner.name == runners::CARGO_TESTS)
        .for_each(|runner| name_valkey(runner, root));
    let (overlapping, alone): (Vec<&Runner>, Vec<&Runner>) = runners.iter().partition(|runner| runner.overlaps);
    let mut rows: Vec<Row> = alone.into_iter().map(run_alone).collect();
    rows.extend(run_side_by_side(&overlapping));
    let times = rows.iter().flat_map(|(_, RunnerOutcome { times, .. }, _)| times);
    println!("\nslowest tests, with their seconds:");
    for TestTime { name, seconds } in slowest(times.cloned().collect()) {
        println!("{seconds:>9.3}  {name}");
    }
    let mut total = Count::default();
    println!();
    for (name, RunnerOutcome { count, error, .. }, seconds) in &rows {
        let verdict = error.as_deref().unwrap_or("ok");
        println!("{name:<14} {:>5} passed {:>3} failed {seconds:>5} s  {verdict}", count.passed, count.failed);
        total = total.plus(*count);
    }
    // Only the end of the output names the failed tests.
    for (name, outcome, _) in &rows {
        for line in &outcome.failures {
            println!("{name}: {line}");
        }
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.passed > 0 && rows.iter().all(|(_, outcome, _)| outcome.error.is_none()))
}

/// Names Valkey's server to tests that compare with it, if it can be installed.
fn name_valkey(runner: &mut Runner, root: &Path) {
    match testbed::valkey::binary(&testbed::target_folder(root)) {
        Ok(path) => runner.step.environment.push(("VALKEY_BIN", path.display().to_string())),
        Err(why) => println!("no test compares with Valkey: {why}"),
    }
}

/// The name of a runner, its result, and its duration in seconds.
type Row = (&'static str, RunnerOutcome, u64);

/// Runs a runner and shows its output as it arrives.
fn run_alone(runner: &Runner) -> Row {
    println!("\n== {} ==", runner.name);
    let started = Instant::now();
    let outcome = run_one(runner, &mut |line| println!("{line}"));
    (runner.name, outcome, started.elapsed().as_secs())
}

/// The number of runners that run side by side.
const LANES: usize = 2;

/// Runs runners on [`LANES`] threads, in their order, and shows the output of each when it has ended.
fn run_side_by_side(runners: &[&Runner]) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(runner) = runners.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (started, mut output) = (Instant::now(), String::new());
                    let outcome = run_one(runner, &mut |line| {
                        output.push_str(line);
                        output.push('\n');
                    });
                    let mut rows = rows.lock().expect("no lane panics while it adds a row");
                    println!("\n== {} ==\n{output}", runner.name);
                    rows.push((runner.name, outcome, started.elapsed().as_secs()));
                }
            });
        }
    });
    rows.into_inner().expect("no lane panics while it adds a row")
}

/// Returns the runners whose names contain one of `parts`, in their order; all if there are no parts.
fn chosen(runners: Vec<Runner>, parts: &[String]) -> Result<Vec<Runner>, String> {
    if let Some(part) = parts.iter().find(|part| runners.iter().all(|runner| !runner.name.contains(part.as_str()))) {
        let names: Vec<&str> = runners.iter().map(|runner| runner.name).collect();
        return Err(format!("cannot run the part '{part}': no runner has that name; choose from {}", names.join(", ")));
    }
    let is_chosen = |runner: &Runner| parts.is_empty() || parts.iter().any(|part| runner.name.contains(part.as_str()));
    Ok(runners.into_iter().filter(is_chosen).collect())
}

/// Number of tests in the list of the slowest.
const SLOWEST: usize = 20;

/// Returns the slowest of the tests, the slowest first.
fn slowest(mut times: Vec<TestTime>) -> Vec<TestTime> {
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    times.truncate(SLOWEST);
    times
}

/// The result of one runner.
struct RunnerOutcome {
    /// The number of tests; a failure without a failed test counts as one.
    count: Count,
    /// The error, if there is one.
    error: Option<String>,
    /// Lines of the output that name failed tests.
    failures: Vec<String>,
    /// Run times of the tests, if the output has them.
    times: Vec<TestTime>,
}

impl RunnerOutcome {
    /// Returns the outcome of a runner whose preparation failed.
    fn unprepared(error: String) -> Self {
        Self { count: Count { passed: 0, failed: 1 }, error: Some(error), failures: Vec::new(), times: Vec::new() }
    }
}

/// Runs a runner, and passes each line of its output to `show`.
fn run_one(runner: &Runner, show: &mut dyn FnMut(&str)) -> RunnerOutcome {
    for step in &runner.prepare {
        if let Err(error) = run_step(step, show) {
            return RunnerOutcome::unprepared(error);
        }
    }
    let (output, error) = match run_step(&runner.step, show) {
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
        None if count.passed + count.failed == 0 => Some("executed no tests".into()),
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
    RunnerOutcome { count, error, failures, times: count::times(runner.format, &output) }
}

/// Returns the command of a step. Its error messages are part of its output.
fn command(step: &ShellStep) -> Command {
    let line = format!("exec 2>&1; {}", step.shell);
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(&step.folder).stdin(Stdio::null()).stdout(Stdio::piped());
    command.envs(step.environment.iter().map(|(name, value)| (*name, value.as_str())));
    command
}

/// Appended to the output of a failed step.
const FAILED_MARK: &str = "\u{0}failed";

/// Runs one step, passes each line of its output to `show` as it arrives, and returns the output, with [`FAILED_MARK`]
/// appended if the step failed.
fn run_step(step: &ShellStep, show: &mut dyn FnMut(&str)) -> Result<String, String> {
    let mut child = command(step).spawn().map_err(|error| format!("{}: {error}", step.shell))?;
    let pipe = child.stdout.take().expect("stdout is piped");
    let mut output = String::new();
    for line in BufReader::new(pipe).split(b'\n') {
        let line = line.map_err(|error| format!("{}: {error}", step.shell))?;
        let line = String::from_utf8_lossy(&line);
        show(&line);
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
    use count::RunnerFormat;

    fn runner(shell: &str) -> Runner {
        Runner {
            name: "x",
            prepare: Vec::new(),
            overlaps: false,
            step: ShellStep::new(Path::new("/"), shell),
            format: RunnerFormat::Cargo,
        }
    }

    #[test]
    fn parts_choose_runners_and_an_unknown_part_is_an_error() {
        let names = |parts: &[&str]| -> Result<Vec<&str>, String> {
            let runners = ["cargo", "soak", "bench gate"].map(|name| Runner { name, ..runner("true") }).to_vec();
            let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            chosen(runners, &parts).map(|chosen| chosen.iter().map(|runner| runner.name).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["cargo", "soak", "bench gate"]);
        assert_eq!(names(&["gate", "cargo"]).unwrap(), ["cargo", "bench gate"]);
        assert!(names(&["soak", "gaet"]).unwrap_err().contains("'gaet'"));
    }

    #[test]
    fn a_runner_that_executes_nothing_fails() {
        let RunnerOutcome { count, error, .. } = run_one(&runner("true"), &mut |_| {});
        assert_eq!(count, Count { passed: 0, failed: 1 });
        assert_eq!(error.as_deref(), Some("executed no tests"));
    }

    #[test]
    fn a_runner_that_dies_after_passing_tests_fails() {
        let RunnerOutcome { count, error, .. } =
            run_one(&runner("echo 'test result: ok. 2 passed; 0 failed;'; exit 3"), &mut |_| {});
        assert_eq!(count, Count { passed: 2, failed: 1 });
        assert!(error.is_some());
    }

    #[test]
    fn a_runner_whose_tests_pass_passes() {
        let outcome = run_one(&runner("echo 'test result: ok. 2 passed; 0 failed;'"), &mut |_| {});
        assert_eq!((outcome.count, outcome.error), (Count { passed: 2, failed: 0 }, None));
        assert!(outcome.failures.is_empty());
    }

    #[test]
    fn step_output_is_complete_and_includes_stderr() {
        let step = ShellStep::new(Path::new("/"), "sleep 0.1; echo built; echo late >&2");
        let mut shown = String::new();
        let output = run_step(&step, &mut |line| shown = format!("{shown}{line}\n")).unwrap();
        assert_eq!((output.as_str(), shown.as_str()), ("built\nlate\n", "built\nlate\n"));
    }

    #[test]
    fn runners_side_by_side_overlap_and_each_is_reported() {
        // Each waits for the file that the other one creates.
        let folder = std::env::temp_dir().join(format!("gannet-lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let meets = |own: &str, other: &str| {
            let [own, other] = [own, other].map(|name| folder.join(name).display().to_string());
            let wait = format!("for i in $(seq 500); do [ -e {other} ] && break; sleep 0.02; done; [ -e {other} ]");
            runner(&format!("touch {own}; {wait} && echo 'test result: ok. 2 passed; 0 failed;'"))
        };
        let (a, b) = (meets("a", "b"), meets("b", "a"));
        let rows = run_side_by_side(&[&a, &b]);
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        let counts: Vec<Count> = rows.iter().map(|(_, outcome, _)| outcome.count).collect();
        assert_eq!(counts, [Count { passed: 2, failed: 0 }; 2]);
    }

    #[test]
    fn a_failed_preparation_fails_the_runner() {
        let mut runner = runner("echo 'test result: ok. 2 passed; 0 failed;'");
        runner.prepare.push(ShellStep::new(Path::new("/"), "false").required());
        assert_eq!(run_one(&runner, &mut |_| {}).count, Count { passed: 0, failed: 1 });
    }
}
