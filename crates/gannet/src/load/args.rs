//! Defines the command-line arguments of a load run and of a replay.

use clap::{Arg, ArgAction, ArgGroup, Command};

use super::agent;

const EXAMPLES: &str = "Examples:
  The highest rate at which 99.9 % of requests take at most 2 ms, with an HTML \
                        report:
    gannet load --target 127.0.0.1:11211 --slo p999=2ms --report out.html
  The same \
                        by steps of 10,000 requests a second, from 10,000 on:
    gannet load --target \
                        127.0.0.1:11211 --slo p999=2ms --start 10k --step 10k
  One rate for ten seconds, judged by \
                        several objectives, for CI:
    gannet load --target 127.0.0.1:11211 --rate 5k --duration 10s \
                        --assert 'p999<20ms' --assert 'errors<=0.01%'
  As fast as it goes, four requests in flight \
                        on each of 50 connections:
    gannet load --target 127.0.0.1:11211 --closed --connections 50 \
                        --depth 4 --duration 10s --json out.json
  Meta commands over a unix socket, skewed keys, \
                        values of 1 KiB that are checked when they are read:
    gannet load --target \
                        unix:/run/cache.sock --protocol meta --zipf 0.99 --value-bytes 1KiB --verify --slo p99=1ms
  \
                        A published workload, as fast as its authors paced it, for five seconds:
    gannet load \
                        --target 127.0.0.1:11211 --preset pelikan-t2a --keys 10000 --rate 10k --duration 5s
  Two \
                        hosts together, on each of which `gannet load agent` runs:
    gannet load \
                        --agents 10.0.0.1:9099,10.0.0.2:9099 --agents-token token --target 10.0.0.9:11211 --slo \
                        p999=2ms
  A workload file, with the server's own figures in the report:
    gannet load \
                        --workload shop.toml --target 127.0.0.1:11211 --server-admin 127.0.0.1:9555 --slo \
                        p999=5ms

Exit codes: 0 done, objectives kept; 1 the run failed; 2 wrong arguments; 3 the \
                        generator was the limit, so the figures
do not describe the server; 4 an assertion or \
                        objective was violated; 5 the run ended early, with partial results.";

/// Adds the arguments of a run to `command`.
pub fn add(command: Command) -> Command {
    let command = command.after_help(EXAMPLES);
    files(view(agent::add(sampler(watching(graph(requests(search(pace(target(command))))))))))
}

/// Adds the arguments for TLS, metrics and output to the subcommand that runs another tool's command line.
pub fn add_outcome(command: Command) -> Command {
    files(view(agent::add(watching(tls(command.next_help_heading("Target and connections"))))))
}

/// Adds the arguments of a replay to `command`.
pub fn add_replay(command: Command) -> Command {
    let target =
        value("target", "HOST:PORT|unix:PATH", "A server; may be repeated").action(ArgAction::Append).required(true);
    let command = connections(command.next_help_heading("Target and connections").arg(target))
        .next_help_heading("Schedule")
        .arg(speed())
        .arg(value("rate", "RATE", "Send at this rate instead of at the trace's instants, in the trace's order"))
        .arg(flag("closed", "Run a closed loop instead of the trace's instants; hides the delay that stalls cause"))
        .group(ArgGroup::new("mode").args(["speed", "rate", "closed"]))
        .arg(value("depth", "N", "Maximum of requests in flight on a connection [default: 64; 1 with --closed]"))
        .arg(value("limit", "N", "Maximum of requests from the trace"))
        .arg(flag("loop", "Repeat the trace; needs --duration or --limit"))
        .arg(value("duration", "DURATION", "Maximum length of the run [default: the whole trace, at most 24h]"))
        .arg(value("warm-up", "DURATION", "Time before the measurement begins [default: 0s]"))
        .next_help_heading("Workload")
        .arg(value("format", "NAME", "Format: recorded, twitter or oracle-general [default: detected from the file]"))
        .arg(flag("prefill", "Store before the run the keys that the trace reads with a hit"))
        .arg(flag(
            "fill-on-miss",
            "Store a key after a read that missed; always on for oracleGeneral, which has reads only",
        ))
        .arg(flag("verify", "Check every value that is read, except values changed by append, prepend, incr or decr"))
        .arg(value("value-bytes", "SIZE", "Length of a value if the trace does not have it [default: 256B]"))
        .arg(value("value-max", "SIZE", "Maximum length of a value; longer ones are cut [default: 1000KiB]"))
        .arg(flag("scale-ttl", "Divide times to live by the speed"))
        .arg(flag("allow-cut", "Replay a recorded trace whose end is missing, up to its last complete block"));
    files(view(watching(command)))
}

fn value(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Adds the arguments of TLS, including the flag that only enables TLS.
pub fn tls(command: Command) -> Command {
    secured(command.arg(flag("tls", "Use TLS, and verify the server by the system's CAs")))
}

/// Adds the arguments of TLS that name files and versions.
pub fn secured(command: Command) -> Command {
    command
        .arg(value(
            "tls-ca",
            "FILE",
            "PEM file with the CAs that verify the server; this flag and those below imply --tls",
        ))
        .arg(value("tls-cert", "FILE", "PEM file with the client's certificate"))
        .arg(value(
            "tls-key",
            "FILE",
            "PEM file with the key of the client's certificate [default: the certificate's file]",
        ))
        .arg(value("tls-server-name", "NAME", "Name in the server's certificate [default: the target's host]"))
        .arg(value("tls-versions", "LIST", "Allowed versions of TLS [default: 1.2,1.3]"))
        .arg(flag("tls-no-resume", "Do not resume sessions: every connection makes a full handshake"))
        .arg(flag("tls-insecure", "Accept any certificate: the server is not verified, and every output says so"))
}

fn target(command: Command) -> Command {
    let target = value("target", "HOST:PORT|unix:PATH", "A server; may be repeated")
        .action(ArgAction::Append)
        .required_unless_present_any(["workload"]);
    let cache = value("cache", "NAME", "Cache of gRPC calls [default: the listener's namespace]");
    connections(command.next_help_heading("Target and connections").arg(target).arg(cache))
}

fn connections(command: Command) -> Command {
    let command = command
        .arg(value(
            "protocol",
            "NAME",
            "Protocol: memcache, meta, resp, resp3 or grpc [default: memcache, or the workload's]",
        ))
        .arg(value("placement", "NAME", "Placement of keys on several targets: any, ketama or slots [default: any]"))
        .arg(value("user", "NAME", "User name; --password-env names the password's variable"))
        .arg(value("password-env", "VARIABLE", "Environment variable with the password"))
        .arg(value("connections", "N", "Number of connections [default: 50]"))
        .arg(value("threads", "N", "Number of generator threads [default: 1]"))
        .arg(value("pin", "CPULIST", "CPU of each thread, as 0,2-3, or auto; without --threads one thread per CPU"))
        .arg(flag("poll", "Poll instead of sleeping: least lateness, but each thread uses a whole CPU"))
        .arg(value("reconnect", "RATE", "Connections closed and reopened per second [default: none]"))
        .arg(value(
            "storm",
            "DURATION",
            "Interval at which all connections are closed and reopened at once [default: never]",
        ))
        .arg(value("timeout", "DURATION", "Time limit for a reply; with grpc each call's deadline [default: 10s]"))
        .arg(value("connect-timeout", "DURATION", "Time limit for opening a connection [default: 5s]"));
    tls(command)
}

fn speed() -> Arg {
    value("speed", "X", "Speed of a trace relative to its recording [default: 1]")
}

fn pace(command: Command) -> Command {
    command
        .next_help_heading("Schedule")
        .arg(value(
            "slo",
            "LIST",
            "Objectives, such as p50=200us,p999=2ms,errors=0.01%; finds the highest rate that meets them",
        ))
        .arg(value("rate", "RATE", "Run at one rate, such as 50k, instead of a search"))
        .arg(flag("closed", "Run a closed loop: each request waits for a reply; hides the delay that stalls cause"))
        .arg(value("rates", "LIST", "Run at these rates in turn, such as 10k,20k, each for --trial, without a verdict"))
        .group(ArgGroup::new("mode").args(["rate", "closed", "rates"]))
        .arg(value("depth", "N", "Maximum of requests in flight on a connection [default: 64; 1 with --closed]"))
        .arg(value("batch", "N", "Requests that are due together and sent in one system call [default: 1]"))
        .arg(value("duration", "DURATION", "Length of a run at one rate or of a closed loop [default: 10s]"))
        .arg(value("requests", "N", "End after this many requests, or after --duration if that is earlier"))
        .arg(value(
            "warm-up",
            "DURATION",
            "Time before the measurement begins [default: 1s; 5s of a search; 0s with --requests]",
        ))
        .arg(value(
            "arrivals",
            "KIND",
            "Arrival process: poisson, constant or trace:FILE [default: poisson, or the workload's]",
        ))
        .arg(speed())
}

fn search(command: Command) -> Command {
    command
        .next_help_heading("Search")
        .arg(value("start", "RATE", "First rate of a search [default: 1k]"))
        .arg(value("step", "RATE", "Raise the rate by this step until an objective breaks, instead of bisection"))
        .arg(value("rate-max", "RATE", "Highest rate of a trial"))
        .arg(value("trial", "DURATION", "Length of a trial [default: 5s]"))
        .arg(value("tolerance", "PERCENT", "Width of the bracket at which bisection ends [default: 2%]"))
        .arg(value("confirm", "N", "Trials that must agree on each end of the interval [default: 5]"))
        .arg(value("throughput-min", "PERCENT", "Share of the requests that must be answered in time [default: 99%]"))
}

fn requests(command: Command) -> Command {
    command
        .next_help_heading("Workload")
        .arg(value("workload", "FILE.toml", "A workload file, or a result's JSON; flags override it"))
        .arg(
            value("preset", "NAME", "A published workload; `gannet load presets` lists them")
                .conflicts_with("workload"),
        )
        .arg(value("keys", "N", "Number of keys [default: 100000]"))
        .arg(value("key-bytes", "SIZE", "Length of a key [default: 16B]"))
        .arg(value("value-bytes", "SIZE", "Length of a value [default: 256B]"))
        .arg(value("reads", "PERCENT", "Share of the requests that read; the rest store [default: 90%]"))
        .arg(value("zipf", "EXPONENT", "Skew of the keys' popularity, as 0.99 [default: uniform]"))
        .arg(flag("no-prefill", "Do not store the keys before the run"))
        .arg(flag("fill-on-miss", "Store a key after a read that missed"))
        .arg(flag("verify", "Check every value that is read"))
        .arg(value("seed", "N", "Seed of the random draws [default: 1]"))
}

fn graph(command: Command) -> Command {
    command
        .next_help_heading("Graph")
        .arg(value("graph-scale", "N", "The graph is an R-MAT graph of 2^N nodes [default: the workload's]"))
        .arg(
            value("graph-edges", "FILE", "The graph is that of a file: source and destination on each line")
                .conflicts_with("graph-scale"),
        )
        .arg(value("graph-endpoints", "KIND", "Nodes in requests: degree (ends of random edges) or uniform"))
        .arg(value("graph-writes", "RATE", "Edges written per second beside the queries, on a thread of their own"))
}

fn watching(command: Command) -> Command {
    command
        .next_help_heading("Server metrics")
        .arg(value("server-admin", "HOST:PORT", "Admin port of the server, whose /metrics is recorded"))
        .arg(value(
            "server-pid",
            "PID",
            "Process id of the server, if it runs on this host and is not found by its port",
        ))
}

fn sampler(command: Command) -> Command {
    command
        .next_help_heading("Sampler")
        .arg(value("sampler", "RATE", "Rate of a second stream with its own thread and connections"))
        .arg(value("sampler-target", "HOST:PORT|unix:PATH", "Target of the sampler [default: the first target]"))
        .arg(value("sampler-cpu", "N", "CPU of the sampler's thread [default: the next in --pin]"))
}

fn view(command: Command) -> Command {
    command
        .next_help_heading("Output during the run")
        .arg(value("admin", "HOST:PORT", "Listen for GET /metrics, PUT /rate, PUT /ratelimit/N and POST /quitquitquit"))
        .arg(flag("quiet", "Print nothing until the end"))
}

fn files(command: Command) -> Command {
    command
        .next_help_heading("Output")
        .arg(value("name", "NAME", "Name of the result [default: the target]"))
        .arg(
            value("assert", "CONDITION", "Assertion, as 'p999<2ms' or 'rate>100k'; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(value("report", "FILE.html", "Write an HTML report in one file"))
        .arg(value("json", "FILE", "Write the result as JSON; `gannet load schema` prints its schema"))
        .arg(value("hdr", "FILE", "Write the response times of each interval as an HDR log"))
        .arg(value("csv", "FILE", "Write a row of figures for each interval"))
        .arg(value("steps-csv", "FILE", "Write a row for each trial of a search"))
        .arg(value("prometheus", "FILE", "Write the figures for Prometheus's textfile collector"))
}

/// Returns the example commands of the help.
#[cfg(test)]
fn examples() -> impl Iterator<Item = &'static str> {
    EXAMPLES.lines().map(str::trim).filter(|line| line.starts_with("gannet load "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_example_parses() {
        let command = add(Command::new("load"));
        let mut seen = 0;
        for example in examples() {
            let words = example.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
            command.clone().try_get_matches_from(words).unwrap_or_else(|error| panic!("{example}: {error}"));
            seen += 1;
        }
        assert_eq!(seen, 8);
        command.debug_assert();
    }
}
