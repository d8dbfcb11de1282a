//! Parses a runner's output: the number of executed tests, and the failed ones.

/// Numbers of passed and failed tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of passed tests.
    pub passed: u64,
    /// Number of failed tests, including errors.
    pub failed: u64,
}

impl Count {
    /// Adds both numbers.
    pub fn plus(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// The format of a runner's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerFormat {
    /// `test result: ok. 3 passed; 0 failed; ...`, one line per test binary.
    Cargo,
    /// `3 passed, 1 failed in 0.1s`, on the last line.
    Pytest,
    /// `--- PASS: TestX`, one line per test (`go test -v`).
    Go,
    /// `# pass 3` and `# fail 0` (TAP).
    Node,
    /// `Tests run: 3, Failures: 0, Errors: 0, Skipped: 0`; the last such line is the sum.
    Surefire,
    /// `ascii get   [pass]`.
    Memccapable,
}

/// Counts the tests in `output`.
pub fn count(format: RunnerFormat, output: &str) -> Count {
    match format {
        RunnerFormat::Cargo => sum(output
            .lines()
            .filter(|line| line.starts_with("test result:"))
            .map(|line| Count { passed: number_before(line, "passed"), failed: number_before(line, "failed") })),
        RunnerFormat::Pytest => {
            // Python may write more behind the summary.
            let has_result =
                |line: &str| ["passed", "failed", "error"].iter().any(|word| number_before(line, word) > 0);
            let line = output.lines().rev().find(|line| line.contains(" in ") && has_result(line));
            let line = line.unwrap_or_default();
            let failed = number_before(line, "failed") + number_before(line, "error");
            Count { passed: number_before(line, "passed"), failed }
        }
        RunnerFormat::Go => sum(output.lines().map(|line| Count {
            passed: u64::from(line.starts_with("--- PASS:")),
            failed: u64::from(line.starts_with("--- FAIL:")),
        })),
        RunnerFormat::Node => sum(output.lines().map(|line| Count {
            passed: number_after(line, "# pass "),
            failed: number_after(line, "# fail ") + number_after(line, "# cancelled "),
        })),
        RunnerFormat::Surefire => {
            let line = output.lines().rev().find(|line| line.contains("Tests run:")).unwrap_or_default();
            let part = |name: &str| line.find(name).map_or(0, |at| number_after(&line[at..], name));
            let failed = part("Failures: ") + part("Errors: ");
            Count { passed: part("Tests run: ").saturating_sub(failed + part("Skipped: ")), failed }
        }
        RunnerFormat::Memccapable => sum(output.lines().map(|line| Count {
            passed: u64::from(line.trim_end().ends_with("[pass]")),
            failed: u64::from(line.trim_end().ends_with("[FAIL]")),
        })),
    }
}

/// Maximum number of output lines repeated below the table: a failed test may print thousands.
const FAILURE_LINES: usize = 12;

/// Returns the lines of `output` that name a failed test, each with the next line, which often has the reason.
pub fn failures(format: RunnerFormat, output: &str) -> Vec<&str> {
    let names_one = |line: &str| match format {
        RunnerFormat::Cargo => {
            (line.starts_with("test ") && line.contains(" ... FAILED"))
                || (line.starts_with("thread '") && line.contains(" panicked at "))
        }
        RunnerFormat::Pytest => line.starts_with("FAILED ") || line.starts_with("ERROR "),
        RunnerFormat::Go => line.trim_start().starts_with("--- FAIL:"),
        RunnerFormat::Node => line.trim_start().starts_with("not ok "),
        RunnerFormat::Surefire => line.starts_with("[ERROR]"),
        RunnerFormat::Memccapable => line.trim_end().ends_with("[FAIL]"),
    };
    let mut lines = Vec::new();
    let mut follows = false;
    for line in output.lines() {
        let is_named = names_one(line);
        if is_named || follows {
            lines.push(line);
        }
        follows = is_named;
    }
    lines.truncate(FAILURE_LINES);
    lines
}

/// The run time of one test.
#[derive(Clone, Debug, PartialEq)]
pub struct TestTime {
    /// The test's path within its binary.
    pub name: String,
    /// Seconds of wall-clock time.
    pub seconds: f64,
}

/// Parses the run times of tests from `output`: lines `test NAME ... ok <0.012s>` of Rust's harness with
/// `--report-time`. Other formats have none.
pub fn times(format: RunnerFormat, output: &str) -> Vec<TestTime> {
    let time = |line: &str| {
        let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let seconds = rest.split_once('<')?.1.split_once("s>")?.0.parse().ok()?;
        Some(TestTime { name: name.to_owned(), seconds })
    };
    match format {
        RunnerFormat::Cargo => output.lines().filter_map(time).collect(),
        _ => Vec::new(),
    }
}

fn sum(counts: impl Iterator<Item = Count>) -> Count {
    counts.fold(Count::default(), Count::plus)
}

/// Returns the number before the first `word` of `line`, or 0.
fn number_before(line: &str, word: &str) -> u64 {
    let Some(at) = line.find(word) else { return 0 };
    let text = line[..at].trim_end();
    let digits = text.rfind(|c: char| !c.is_ascii_digit()).map_or(text, |end| &text[end + 1..]);
    digits.parse().unwrap_or(0)
}

/// Returns the number after `prefix` at the start of `line`, or 0.
fn number_after(line: &str, prefix: &str) -> u64 {
    let Some(rest) = line.strip_prefix(prefix) else { return 0 };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).map_or(rest, |end| &rest[..end]);
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(format: RunnerFormat, output: &str, passed: u64, failed: u64) {
        assert_eq!(count(format, output), Count { passed, failed });
    }

    #[test]
    fn each_runner_is_read_when_all_passes_and_when_some_fail() {
        let cargo = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\nx\n\
                     test result: FAILED. 10 passed; 2 failed; 0 ignored\n";
        reads(RunnerFormat::Cargo, cargo, 13, 2);
        reads(RunnerFormat::Pytest, "...\n===== 2 failed, 12 passed, 1 warning in 3.10s =====\n", 12, 2);
        reads(RunnerFormat::Pytest, "12 passed in 3.10s\nwarning: ignored in <function>\nDuring this, in x\n", 12, 0);
        reads(RunnerFormat::Pytest, "12 passed in 3.10s\n", 12, 0);
        reads(RunnerFormat::Pytest, "1 passed, 1 error in 0.10s\n", 1, 1);
        reads(RunnerFormat::Go, "=== RUN A\n--- PASS: A (0.0s)\n    --- PASS: A/b\n--- FAIL: B (0.0s)\nFAIL\n", 1, 1);
        reads(RunnerFormat::Node, "# tests 5\n# pass 4\n# fail 1\n# cancelled 0\n", 4, 1);
        let maven = "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s\n\
                     [ERROR] Tests run: 9, Failures: 1, Errors: 2, Skipped: 1\n";
        reads(RunnerFormat::Surefire, maven, 5, 3);
        reads(RunnerFormat::Memccapable, "ascii get      [pass]\nascii set      [FAIL]\n", 1, 1);
    }

    #[test]
    fn failed_test_is_reported_with_the_lines_after_it() {
        let check = "a   [pass]\nb   [FAIL]\n    cmp: no such file\nc   [pass]\n";
        assert_eq!(failures(RunnerFormat::Memccapable, check), ["b   [FAIL]", "    cmp: no such file"]);
        let cargo = "test a ... ok\ntest b ... FAILED\nx\nthread 'b' (7) panicked at src/b.rs:1:2:\nno answer\ny\n";
        let named = ["test b ... FAILED", "x", "thread 'b' (7) panicked at src/b.rs:1:2:", "no answer"];
        assert_eq!(failures(RunnerFormat::Cargo, cargo), named);
        assert!(failures(RunnerFormat::Go, "--- PASS: A\n").is_empty());
        assert_eq!(failures(RunnerFormat::Node, &"not ok 1\n".repeat(100)).len(), FAILURE_LINES);
    }

    #[test]
    fn run_times_are_read_from_the_lines_of_tests() {
        let output = "test a::b ... ok <0.012s>\ntest c ... FAILED <3.5s>\ntest d ... ignored\ntest e ... ok\n";
        let time = |name: &str, seconds| TestTime { name: name.to_owned(), seconds };
        assert_eq!(times(RunnerFormat::Cargo, output), [time("a::b", 0.012), time("c", 3.5)]);
        assert!(times(RunnerFormat::Pytest, output).is_empty());
        assert_eq!(failures(RunnerFormat::Cargo, output), ["test c ... FAILED <3.5s>", "test d ... ignored"]);
    }

    #[test]
    fn output_without_tests_counts_as_none_executed() {
        for format in [
            RunnerFormat::Cargo,
            RunnerFormat::Pytest,
            RunnerFormat::Go,
            RunnerFormat::Node,
            RunnerFormat::Surefire,
            RunnerFormat::Memccapable,
        ] {
            reads(format, "", 0, 0);
            reads(format, "no tests ran in 0.01s\n", 0, 0);
        }
    }
}
