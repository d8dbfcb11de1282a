//! The runners in the order in which they run: those that measure time alone, then the others side by side. The first
//! of these builds the release, of which the second needs nothing; then the longest come first.

use std::env;
use std::path::{Path, PathBuf};

use testbed::target_folder;

use super::count::RunnerFormat;

/// One command line, run by bash.
#[derive(Clone, Debug)]
pub struct ShellStep {
    /// The command line that bash runs.
    pub shell: String,
    /// The directory in which it runs.
    pub folder: PathBuf,
    /// Variables added to the environment.
    pub environment: Vec<(&'static str, String)>,
    /// True if a failure ends the runner at once; otherwise the tests' own report shows what failed.
    pub must_succeed: bool,
}

impl ShellStep {
    /// Creates a step whose output explains a failure.
    pub fn new(folder: &Path, shell: impl Into<String>) -> Self {
        Self { shell: shell.into(), folder: folder.to_path_buf(), environment: Vec::new(), must_succeed: false }
    }

    /// Returns the step as one that must succeed.
    pub fn required(mut self) -> Self {
        self.must_succeed = true;
        self
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }
}

/// One suite.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Name of the suite in the table.
    pub name: &'static str,
    /// Steps that run before the suite.
    pub prepare: Vec<ShellStep>,
    /// True if the suite depends on no real time, so that it may run beside others of this kind.
    pub overlaps: bool,
    /// The command of the suite.
    pub step: ShellStep,
    /// The format of its output, for counting.
    pub format: RunnerFormat,
}

impl Runner {
    /// Creates a suite that needs a release build of the server.
    fn of_release(name: &'static str, build: &ShellStep, step: ShellStep) -> Self {
        Self { name, prepare: vec![build.clone()], overlaps: true, step, format: RunnerFormat::Cargo }
    }
}

/// Returns all runners.
pub fn all(root: &Path) -> Vec<Runner> {
    let target = target_folder(root);
    let server = target.join("release/gannet").display().to_string();
    let xtask = env::current_exe().unwrap_or_else(|_| target.join("debug/xtask")).display().to_string();
    // The gate's second program is built with the server: each shares most of its crates with the other.
    let build = ShellStep::new(root, "cargo build --release --package gannet --package long_commands").required();
    let clients = root.join("conformance/clients");
    let suite = |name: &'static str, folder: &str, prepare: &[&str], shell: &str, format: RunnerFormat| {
        let folder = clients.join(folder);
        let mut steps = vec![build.clone()];
        steps
            .extend(prepare.iter().map(|shell| ShellStep::new(&folder, *shell).required().with("VENV", venv(&target))));
        let step = ShellStep::new(&folder, shell).with("GANNET_BIN", &server).with("VENV", venv(&target));
        Runner { name, prepare: steps, overlaps: true, step, format }
    };
    vec![
        cargo_tests(root),
        Runner::of_release(
            "bench gate",
            &build,
            ShellStep::new(root, format!("{xtask} gate")).with("GANNET_BIN", &server),
        ),
        Runner {
            name: "models",
            prepare: Vec::new(),
            overlaps: true,
            step: ShellStep::new(root, format!("{xtask} loom")),
            format: RunnerFormat::Cargo,
        },
        Runner::of_release(
            "replay",
            &build,
            ShellStep::new(root, "cargo run --quiet --package lab -- replay --short").with("GANNET_BIN", &server),
        ),
        Runner {
            name: "debian",
            prepare: vec![build.clone()],
            overlaps: true,
            step: ShellStep::new(root, "conformance/debian/run.sh").with("GANNET_BIN", &server),
            format: RunnerFormat::Memccapable,
        },
        suite("memccapable", ".", &[], "./memccapable", RunnerFormat::Memccapable),
        suite(
            "pymemcache",
            "python",
            &[
                "python3 -m venv \"$VENV\"",
                "\"$VENV\"/bin/pip install -q --disable-pip-version-check -r requirements.txt",
            ],
            // The second folder has the tests of the client library, which use the same environment.
            "\"$VENV\"/bin/python -m pytest -q -p no:cacheprovider . ../../../clients/python/tests",
            RunnerFormat::Pytest,
        ),
        suite("gomemcache", "go", &[], "go test -v -count=1 ./...", RunnerFormat::Go),
        suite("go client", "../../clients/go", &[], "go vet ./... && go test -v -count=1 ./...", RunnerFormat::Go),
        suite("dotnet client", "../../clients/dotnet", &["scripts/toolchain"], "scripts/test", RunnerFormat::Node),
        suite("java client", "../../clients/java", &[], "mvn -B -ntp -Dstyle.color=never test", RunnerFormat::Surefire),
        suite("npm memcached", "node", &NODE_PREPARE, NODE, RunnerFormat::Node),
        suite("spymemcached", "java", &[], "mvn -B -ntp -Dstyle.color=never test", RunnerFormat::Surefire),
        Runner::of_release(
            "soak",
            &build,
            ShellStep::new(root, "cargo run --quiet --package lab -- soak --short").with("GANNET_BIN", &server),
        ),
    ]
}

/// The name of the runner of all tests in Rust.
pub const CARGO_TESTS: &str = "cargo";

fn cargo_tests(root: &Path) -> Runner {
    Runner {
        name: CARGO_TESTS,
        prepare: Vec::new(),
        overlaps: false,
        step: ShellStep::new(root, CARGO)
            .with(TEST_RUNNER, "env RUSTC_BOOTSTRAP=1")
            .with("RUST_TEST_THREADS", threads()),
        format: RunnerFormat::Cargo,
    }
}

/// Runs unit and integration tests with their times, then the examples of the documentation. rustdoc runs those and
/// reports no times.
const CARGO: &str = "cargo test --workspace --no-fail-fast --lib --bins --tests -- -Z unstable-options \
    --report-time; status=$?; cargo test --workspace --no-fail-fast --doc && exit $status";

/// Returns the number of tests of one binary that run at once: two per CPU, because the tests of the program wait for
/// processes and timers more than they compute.
fn threads() -> String {
    (std::thread::available_parallelism().map_or(1, usize::from) * 2).to_string()
}

/// Cargo starts test binaries by the command in this variable, because stable Rust's harness reports times only on
/// request.
const TEST_RUNNER: &str = if cfg!(target_arch = "aarch64") {
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER"
} else {
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
};

/// The client library for Node has packages of its own, and its tests use the compiled files.
const NODE_PREPARE: [&str; 3] = [
    "npm ci --no-audit --no-fund",
    "npm --prefix ../../../clients/typescript ci --no-audit --no-fund --ignore-scripts",
    "npm --prefix ../../../clients/typescript run build",
];

/// The second folder has the tests of the client library.
const NODE: &str = "node --test --test-reporter=tap *.test.mjs ../../../clients/typescript/tests/*.test.mjs";

fn venv(target: &Path) -> String {
    target.join("clients-python").display().to_string()
}
