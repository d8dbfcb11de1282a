//! The load programs of client libraries, and the figures that they print.

use serde::{Deserialize, Serialize};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a program may take in addition to its measurement: its start, its connections and its warm-up.
const EXTRA_TIME_MAX: Duration = Duration::from_secs(60);
/// The maximum length of a program's output that is read, in bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The load program of a client library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchProgram {
    /// The name of the library in the study.
    pub name: String,
    /// The words of the command, to which the options of a run are added.
    pub command: Vec<String>,
}

impl BenchProgram {
    /// Parses `NAME=COMMAND`, whose words are separated by spaces.
    ///
    /// # Errors
    /// If a part is missing.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').unwrap_or_default();
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        if name.trim().is_empty() || command.is_empty() {
            return Err(format!("cannot use {text:?}: write NAME=COMMAND, as in 'go=./gannet-bench'"));
        }
        Ok(Self { name: name.trim().to_owned(), command })
    }
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The address that the library connects to.
    pub address: String,
    /// The name of the preset.
    pub preset: String,
    /// The maximum number of requests in flight, if it is not that of the preset.
    pub in_flight_max: Option<u32>,
    /// The number of requests that are offered at once.
    pub concurrency: u32,
    /// The measured time.
    pub seconds: f64,
}

/// The figures that a load program prints, as one JSON object.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct BenchFigures {
    /// Requests per second, of those that succeeded.
    pub requests_per_s: f64,
    /// The median of the time of a request, with its wait in the library, in us.
    pub p50_us: f64,
    /// The 99th percentile, in us.
    pub p99_us: f64,
    /// The 99.9th percentile, in us.
    pub p999_us: f64,
    /// CPU time of the program for a request, in us.
    pub cpu_us_per_request: f64,
    /// The number of connections, as the library counts them.
    pub connections: u64,
    /// The failed requests: their number, or their numbers by code.
    #[serde(default)]
    pub errors: serde_json::Value,
}

impl BenchFigures {
    /// Returns the number of failed requests.
    pub fn error_count(&self) -> u64 {
        match &self.errors {
            serde_json::Value::Object(by_code) => by_code.values().filter_map(serde_json::Value::as_u64).sum(),
            number => number.as_u64().unwrap_or_default(),
        }
    }

    /// Returns the share of failed requests among those of a run of `seconds`, from 0 to 1.
    pub fn failed_share(&self, seconds: f64) -> f64 {
        let (failed, succeeded) = (self.error_count() as f64, self.requests_per_s * seconds);
        if failed > 0.0 { failed / (failed + succeeded) } else { 0.0 }
    }

    /// Parses the output of a program: its last line that is a JSON object, or all of it.
    ///
    /// # Errors
    /// If there is none, or a figure is missing.
    pub fn parse(output: &str) -> Result<Self, String> {
        let line = output.lines().rev().find(|line| line.starts_with('{') && line.ends_with('}'));
        serde_json::from_str(line.unwrap_or(output)).map_err(|error| format!("its output is not a result: {error}"))
    }
}

/// Runs a load program, and returns its figures. `is_stopped` ends the run.
///
/// # Errors
/// If the program cannot be started, fails, takes too long, or prints no figures.
pub fn run(
    program: &BenchProgram,
    options: &BenchOptions,
    is_stopped: impl Fn() -> bool,
) -> Result<BenchFigures, String> {
    let [name, words @ ..] = &program.command[..] else { return Err(format!("{}: no command", program.name)) };
    let mut command = Command::new(name);
    command.args(words).args(["--address", &options.address, "--preset", &options.preset]);
    command.args(["--concurrency", &options.concurrency.to_string(), "--seconds", &options.seconds.to_string()]);
    if let Some(in_flight_max) = options.in_flight_max {
        command.args(["--in-flight-max", &in_flight_max.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |cause: String| format!("{}: {cause}", program.name);
    let mut child = command.spawn().map_err(|error| failed(format!("cannot start {name}: {error}")))?;
    let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let most = Duration::from_secs_f64(options.seconds) + EXTRA_TIME_MAX;
    let ended = wait(&mut child, most, is_stopped);
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    match (ended.map_err(failed)?, BenchFigures::parse(&output)) {
        (true, figures) => figures.map_err(failed),
        // A program reports requests that failed by its figures and by its exit status.
        (false, Ok(figures)) if figures.error_count() > 0 => Ok(figures),
        (false, _) => {
            let last = errors.trim().lines().last().unwrap_or("without a message").to_owned();
            Err(failed(format!("the program failed: {last}")))
        }
    }
}

/// Reads a stream to its end in a thread, so that the program never waits for its reader.
fn reader(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end of a program. Returns true if it succeeded.
fn wait(child: &mut Child, most: Duration, is_stopped: impl Fn() -> bool) -> Result<bool, String> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            return Ok(status.success());
        }
        let cause = match (is_stopped(), begun.elapsed() > most) {
            (true, _) => "the study was stopped".to_owned(),
            (false, true) => format!("the program did not end within {} s", most.as_secs()),
            (false, false) => {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        let _ = child.kill();
        let _ = child.wait();
        return Err(cause);
    }
}
