//! The arguments of a run.

use clap::{Arg, ArgAction, ArgGroup, Command};

use super::agent;

const EXAMPLES: &str = "\
Examples:
  The highest rate at which 99.9 % of requests take at most 2 ms, with a page to show:
    gannet load --target 127.0.0.1:11211 --slo p999=2ms --report out.html
  The same by steps of 10,000 requests a second, from 10,000 on:
    gannet load --target 127.0.0.1:11211 --slo p999=2ms --start 10k --step 10k
  One rate for ten seconds, judged by several objectives, for CI:
    gannet load --target 127.0.0.1:11211 --rate 5k --duration 10s --assert 'p999<20ms' --assert 'errors<=0.01%'
  As fast as it goes, four requests in flight on each of 50 connections:
    gannet load --target 127.0.0.1:11211 --closed --connections 50 --depth 4 --duration 10s --json out.json
  Meta commands over a unix socket, skewed keys, values of 1 KiB that are checked when they are read:
    gannet load --target unix:/run/cache.sock --protocol meta --zipf 0.99 --value-bytes 1KiB --verify --slo p99=1ms
  A published workload, as fast as its authors paced it, for five seconds:
    gannet load --target 127.0.0.1:11211 --preset pelikan-t2a --keys 10000 --rate 10k --duration 5s
  The load from two hosts, on each of which `gannet load agent` runs, as one:
    gannet load --agents 10.0.0.1:9099,10.0.0.2:9099 --agents-token token --target 10.0.0.9:11211 --slo p999=2ms
  A workload file, with the server's own account beside it:
    gannet load --workload shop.toml --target 127.0.0.1:11211 --server-admin 127.0.0.1:9090 --slo p999=5ms

Exit codes: 0 done and kept; 1 it could not be run; 2 wrong arguments; 3 the generator was the limit, so the figures say
nothing about the server; 4 an assertion or objective was broken; 5 it ended early, and what was measured is kept.";

/// Adds the arguments of a run to `command`.
pub fn add(command: Command) -> Command {
    let command = command.after_help(EXAMPLES);
    files(view(agent::add(sampler(watching(requests(search(pace(target(command)))))))))
}

/// Adds what a run of another tool's command line takes beside that: what is watched, what comes out.
pub fn add_outcome(command: Command) -> Command {
    files(view(agent::add(watching(tls(command.next_help_heading("Whom to ask"))))))
}

/// Adds the arguments of a replay to `command`.
pub fn add_replay(command: Command) -> Command {
    let target =
        value("target", "HOST:PORT|unix:PATH", "A server; may be repeated").action(ArgAction::Append).required(true);
    let command = connections(command.next_help_heading("Whom to ask").arg(target))
        .next_help_heading("How requests come")
        .arg(speed())
        .arg(value("rate", "RATE", "This rate instead of the trace's instants; the order stays"))
        .arg(flag("closed", "A closed loop instead of the trace's instants; hides what stalls hold back"))
        .group(ArgGroup::new("mode").args(["speed", "rate", "closed"]))
        .arg(value("depth", "N", "Requests in flight on a connection at most [default: 1 closed, 64 else]"))
        .arg(value("limit", "N", "Requests of the trace at most"))
        .arg(flag("loop", "At its end the trace begins again; give --duration or --limit"))
        .arg(value("duration", "DURATION", "How long at most [default: to the end of the trace, 24h]"))
        .arg(value("warm-up", "DURATION", "Before anything is measured [default: 0s]"))
        .next_help_heading("What is asked")
        .arg(value("format", "NAME", "recorded, twitter or oracle-general [default: as the file begins]"))
        .arg(flag("prefill", "Store what the trace reads and found before the run"))
        .arg(flag(
            "fill-on-miss",
            "A read that misses is followed by a store; always of oracleGeneral, which only reads",
        ))
        .arg(flag("verify", "Check every value that is read, but for those appended to or counted"))
        .arg(value("value-bytes", "SIZE", "How long a value is of which the trace does not say it [default: 256B]"))
        .arg(value("value-max", "SIZE", "Longer values are cut to it [default: 1000KiB]"))
        .arg(flag("scale-ttl", "Times to live are divided by the speed"));
    files(view(watching(command)))
}

fn value(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// What secures connections.
fn tls(command: Command) -> Command {
    secured(command.arg(flag("tls", "Connections are secured by TLS; the server is verified by the system's CAs")))
}

/// How a connection over TLS is secured.
pub fn secured(command: Command) -> Command {
    command
        .arg(value("tls-ca", "FILE", "The CAs that may vouch for the server, as PEM; this and those below mean TLS"))
        .arg(value("tls-cert", "FILE", "The certificate that the client shows, as PEM"))
        .arg(value("tls-key", "FILE", "Its key, as PEM [default: in the same file]"))
        .arg(value("tls-server-name", "NAME", "The name that the server proves [default: the target's host]"))
        .arg(value("tls-versions", "LIST", "Versions of TLS that are spoken [default: 1.2,1.3]"))
        .arg(flag("tls-no-resume", "Every handshake is a whole one, also when a connection is made anew"))
        .arg(flag("tls-insecure", "Take any certificate: who answers is not known, and every output says so"))
}

fn target(command: Command) -> Command {
    let target = value("target", "HOST:PORT|unix:PATH", "A server; may be repeated")
        .action(ArgAction::Append)
        .required_unless_present_any(["workload"]);
    connections(command.next_help_heading("Whom to ask").arg(target))
}

fn connections(command: Command) -> Command {
    let command = command
        .arg(value("protocol", "NAME", "memcache, meta, resp or resp3 [default: memcache, or the workload's]"))
        .arg(value("placement", "NAME", "Which of several targets has a key: any, ketama or slots [default: any]"))
        .arg(value("user", "NAME", "Who connects; the password is in the environment"))
        .arg(value("password-env", "VARIABLE", "The environment's variable with the password"))
        .arg(value("connections", "N", "Connections in all [default: 50]"))
        .arg(value("threads", "N", "Threads of the generator [default: 1]"))
        .arg(value(
            "pin",
            "CPULIST",
            "A CPU for each thread, as 0,2-3, or auto; without --threads as many threads as CPUs",
        ))
        .arg(flag("poll", "Threads never sleep: the least lateness, at a CPU each"))
        .arg(value("reconnect", "RATE", "Connections that are closed and made anew, a second [default: none]"))
        .arg(value(
            "storm",
            "DURATION",
            "Every so long all connections are closed and made anew at once [default: never]",
        ))
        .arg(value("timeout", "DURATION", "How long an answer is waited for [default: 10s]"))
        .arg(value("connect-timeout", "DURATION", "How long a connection is waited for [default: 5s]"));
    tls(command)
}

fn speed() -> Arg {
    value("speed", "X", "How many times faster than it was recorded a trace is run [default: 1]")
}

fn pace(command: Command) -> Command {
    command
        .next_help_heading("How requests come")
        .arg(value("slo", "LIST", "Objectives, as p50=200us,p999=2ms,errors=0.01%: the highest rate that keeps them"))
        .arg(value("rate", "RATE", "One rate, as 50k, instead of a search"))
        .arg(flag("closed", "A closed loop: the next request waits for an answer; hides what stalls hold back"))
        .arg(value("rates", "LIST", "Rates one after the other, as 10k,20k, each for --trial; none is judged"))
        .group(ArgGroup::new("mode").args(["rate", "closed", "rates"]))
        .arg(value("depth", "N", "Requests in flight on a connection at most [default: 1 closed, 64 else]"))
        .arg(value("batch", "N", "Requests that are due at once and leave in one send [default: 1]"))
        .arg(value("duration", "DURATION", "How long a run at a rate, or a closed one, is [default: 10s]"))
        .arg(value("requests", "N", "Requests after which it ends, if the time is not over before"))
        .arg(value(
            "warm-up",
            "DURATION",
            "Before anything is measured [default: 1s; 5s of a search; 0s with --requests]",
        ))
        .arg(value("arrivals", "KIND", "poisson, constant or trace:FILE [default: poisson, or the workload's]"))
        .arg(speed())
}

fn search(command: Command) -> Command {
    command
        .next_help_heading("How the search goes")
        .arg(value("start", "RATE", "Where it begins [default: 1k]"))
        .arg(value("step", "RATE", "Up by this much until an objective breaks, instead of bisection"))
        .arg(value("rate-max", "RATE", "No trial is above it"))
        .arg(value("trial", "DURATION", "How long a trial is [default: 5s]"))
        .arg(value("tolerance", "PERCENT", "How far the bracket is narrowed [default: 2%]"))
        .arg(value("confirm", "N", "Trials that must agree on each end of the interval [default: 5]"))
        .arg(value("throughput-min", "PERCENT", "The part of the rate that must be answered in time [default: 99%]"))
}

fn requests(command: Command) -> Command {
    command
        .next_help_heading("What is asked")
        .arg(value("workload", "FILE.toml", "A workload file, or a result's JSON; flags win over it"))
        .arg(
            value("preset", "NAME", "A published workload; `gannet load presets` lists them")
                .conflicts_with("workload"),
        )
        .arg(value("keys", "N", "How many keys there are [default: 100000]"))
        .arg(value("key-bytes", "SIZE", "How long a key is [default: 16B]"))
        .arg(value("value-bytes", "SIZE", "How long a value is [default: 256B]"))
        .arg(value("reads", "PERCENT", "The part of requests that read; the rest store [default: 90%]"))
        .arg(value("zipf", "EXPONENT", "Popular keys are asked for more often, as 0.99 [default: all equally]"))
        .arg(flag("no-prefill", "Do not store every key before the run"))
        .arg(flag("fill-on-miss", "A read that misses is followed by a store"))
        .arg(flag("verify", "Check every value that is read"))
        .arg(value("seed", "N", "Draws follow from it [default: 1]"))
}

fn watching(command: Command) -> Command {
    command
        .next_help_heading("What is watched")
        .arg(value("server-admin", "HOST:PORT", "The server's admin port, for its /metrics"))
        .arg(value("server-pid", "PID", "The server's process, if it is on this host and is not found by its port"))
}

fn sampler(command: Command) -> Command {
    command
        .arg(value("sampler", "RATE", "A second stream at this rate on a thread and connections of its own"))
        .arg(value("sampler-target", "HOST:PORT|unix:PATH", "Where the sampler asks [default: the first target]"))
        .arg(value("sampler-cpu", "N", "The sampler's own CPU [default: the next in --pin]"))
}

fn view(command: Command) -> Command {
    command
        .next_help_heading("While it runs")
        .arg(value("admin", "HOST:PORT", "A port for /metrics, PUT /rate, PUT /ratelimit/N and POST /quitquitquit"))
        .arg(flag("quiet", "Say nothing until the end"))
}

fn files(command: Command) -> Command {
    command
        .next_help_heading("What comes out")
        .arg(value("name", "NAME", "What the result is called [default: the target]"))
        .arg(
            value("assert", "CONDITION", "What must hold, as 'p999<2ms' or 'rate>100k'; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(value("report", "FILE.html", "A page with everything, in one file"))
        .arg(value("json", "FILE", "Everything as JSON; `gannet load schema` describes it"))
        .arg(value("hdr", "FILE", "The response times of each interval as an HDR log"))
        .arg(value("csv", "FILE", "A row for each interval"))
        .arg(value("steps-csv", "FILE", "A row for each trial of a search"))
        .arg(value("prometheus", "FILE", "The figures for Prometheus, as for a textfile collector"))
}

/// The example commands of the help, a line each.
#[cfg(test)]
fn examples() -> impl Iterator<Item = &'static str> {
    EXAMPLES.lines().map(str::trim).filter(|line| line.starts_with("gannet load "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_of_the_help_is_one_that_is_taken() {
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
