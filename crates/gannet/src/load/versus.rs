//! `gannet load versus --a CMD --b CMD`: compares two servers, which run alternately at the same address in each round.

use std::path::Path;
use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use load::report::terminal::summary;
use load::report::versus::{ROUNDS_MAX, VersusRound, html, no_verdict, text};
use load::session::{Mode, RunControl};
use load::timeline::process::cpu_ns;

use super::args;
use super::ask::ask;
use super::compare::write;
use super::run::{GENERATOR_LIMITED, PARTIAL, one};
use super::started::{StartedServer, listens, with_free_ports};
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

/// Flags of a single run that have no meaning for a comparison.
const SINGLE_RUN_FLAGS: [&str; 6] = ["json", "assert", "csv", "hdr", "steps-csv", "prometheus"];

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    let command = Command::new("versus")
        .about("Alternate two servers, and report the ratios of their figures with confidence intervals")
        .arg(
            value("a", "COMMAND")
                .required(true)
                .help("Command that starts the first server, which must listen at --target"),
        )
        .arg(
            value("b", "COMMAND")
                .required(true)
                .help("Command that starts the second server, which must listen at the same address"),
        )
        .arg(value("rounds", "N").default_value("7").help("Number of rounds, with one run of each server"));
    args::add(command).after_help(
        "A `gannet serve` without --admin gets a free admin port, so that it runs beside another server.\nExit codes: \
         as for gannet load; 3 also if both rates are lower bounds, set by the generator or by --rate-max, \
         so that there is no verdict.\n\nExample:\n  gannet load versus --a 'memcached -u daemon -p 11300' \\\n    \
         --b 'gannet serve --memcached 127.0.0.1:11300' \\\n    --target 127.0.0.1:11300 --rate 20k --duration 5s \
         --report versus.html",
    )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let usage = |line: &str| Failure::Usage(vec![line.to_owned()]);
    let command = |side: &str| matches.get_one::<String>(side).map_or("", String::as_str);
    let rounds = matches.get_one::<String>("rounds").and_then(|text| text.parse::<u32>().ok());
    let rounds = rounds.filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
    let rounds =
        rounds.ok_or_else(|| usage("--rounds: the number must be from 1 to 101; 7 rounds give intervals of 98 %"))?;
    let ignored = SINGLE_RUN_FLAGS.into_iter().find(|name| matches.get_raw(name).is_some());
    if let Some(name) = ignored {
        return Err(usage(&format!(
            "--{name}: versus prints its comparison, and writes it with --report; for a result of one server, use \
             `gannet load` without versus"
        )));
    }
    let asked = ask(matches)?;
    if matches!(asked.job.mode, Mode::Closed) && !matches.get_flag("closed") {
        return Err(usage("select what each round runs: --rate 20k, --slo p999=2ms or --closed"));
    }
    let mut screen = Screen::new(matches.get_flag("quiet"));
    for note in &asked.notes {
        screen.line(&format!("note: {note}"));
    }
    let run_control = Arc::new(RunControl::default());
    stop::run_control(&run_control)?;
    let mut sides = Sides::default();
    'rounds: for round in 0..rounds {
        // The order alternates from round to round, so that no side always runs second, on a warmer machine.
        let order = if round % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
        for side in order {
            if run_control.is_stopped() {
                break 'rounds;
            }
            screen.line(&format!("round {} of {rounds}: {side}", round + 1));
            match self::round(matches, command(side), &run_control, &mut screen) {
                Err(_) if stop::explains_failure(&run_control) => break 'rounds,
                measured => sides.add(side, round, measured?, run_control.is_stopped()),
            }
        }
    }
    sides.report(matches.get_one::<String>("report"), [command("a"), command("b")], rounds)
}

/// The rounds of both sides.
#[derive(Default)]
struct Sides {
    a: Vec<VersusRound>,
    b: Vec<VersusRound>,
    /// The measurements of a round that was stopped, each with its name.
    stopped: Vec<(String, VersusRound)>,
}

impl Sides {
    /// Adds a measurement. One that ended early while `is_stopped` is not a whole round.
    fn add(&mut self, side: &str, round: u32, measured: VersusRound, is_stopped: bool) {
        if measured.result.is_stopped() || (is_stopped && measured.result.partial.is_some()) {
            self.stopped.push((format!("round {}, {side}", round + 1), measured));
        } else if side == "a" {
            self.a.push(measured);
        } else {
            self.b.push(measured);
        }
    }

    /// Moves the last measurement of a side to those of the stopped round, if the other side has none for it.
    fn split(&mut self) {
        let whole = self.a.len().min(self.b.len());
        for (side, measured) in [("a", self.a.split_off(whole)), ("b", self.b.split_off(whole))] {
            let named = measured.into_iter().map(|measured| (format!("round {}, {side}", whole + 1), measured));
            self.stopped.splice(0..0, named);
        }
    }

    /// Prints and writes the comparison, or what a stopped one has measured.
    fn report(mut self, path: Option<&String>, commands: [&str; 2], rounds: u32) -> Result<(), Failure> {
        self.split();
        let whole = self.a.len();
        let page = match self.stopped.first() {
            Some((_, measured)) if whole == 0 => load::report::html(&measured.result),
            _ => html(&self.a, &self.b, commands),
        };
        if let Some(path) = path {
            write(Path::new(path), &page)?;
        }
        let mut shown = if whole > 0 { text(&self.a, &self.b) } else { String::new() };
        for (name, measured) in &self.stopped {
            shown += &format!("\n{name}, before the stop:\n{}", summary(&measured.result));
        }
        print(&shown)?;
        if (whole as u64) < u64::from(rounds) {
            let line = format!("PARTIAL: the comparison was stopped after {whole} of {rounds} rounds");
            return Err(Failure::Code(PARTIAL, vec![line]));
        }
        match no_verdict(&self.a, &self.b) {
            Some(why) => Err(Failure::Code(GENERATOR_LIMITED, vec![format!("no verdict: {why}")])),
            None => Ok(()),
        }
    }
}

/// Starts the server, runs one session and ends the server.
fn round(
    matches: &ArgMatches,
    command: &str,
    run_control: &RunControl,
    screen: &mut Screen,
) -> Result<VersusRound, Failure> {
    let asked = ask(matches)?;
    let target = asked.workload.targets.first().map_or("", |target| target.address.as_str()).to_owned();
    if listens(&target) {
        let line = format!("another server listens on {target}; end it, or pass another --target");
        return Err(Failure::Failed(vec![line]));
    }
    // A server whose statistics the user reads at an address must have its own admin port.
    let command = if matches.contains_id("server-admin") { command.to_owned() } else { with_free_ports(command) };
    let mut server = StartedServer::start(&command, &target)?;
    let before = cpu_ns(server.pid());
    let result = one(matches, asked, run_control, screen, None)?;
    let used = cpu_ns(server.pid()).zip(before).map(|(after, before)| after.saturating_sub(before));
    server.end();
    let counts = &result.figures.counts;
    let per_request = used.map(|ns| ns as f64 / (counts.answered + counts.warm_up).max(1) as f64);
    // The server's CPU time includes a prefill and the trials of a search, whose requests are not in the result's
    // count. So the CPU time per request is only known for a run without both.
    let is_plain = result.search.is_none() && matches.get_flag("no-prefill");
    Ok(VersusRound { result, server_cpu_ns: per_request.filter(|_| is_plain) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use load::result::RunResult;

    #[test]
    fn stopped_comparison_keeps_whole_rounds_and_the_measurements_of_the_last_one() {
        let measured = |partial: Option<&str>| VersusRound {
            result: RunResult { partial: partial.map(str::to_owned), ..RunResult::default() },
            server_cpu_ns: None,
        };
        let stopped = measured(Some("the search was stopped before its end"));
        let mut sides = Sides::default();
        for (side, round, measured) in [
            ("a", 0, measured(None)),
            ("b", 0, measured(Some("100 trials were used up before the answer was confirmed"))),
            ("b", 1, measured(None)),
            ("a", 1, stopped),
        ] {
            sides.add(side, round, measured, false);
        }
        sides.add("a", 1, measured(Some("no connection is left")), true);
        sides.split();
        let names: Vec<&str> = sides.stopped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((sides.a.len(), sides.b.len(), names), (1, 1, vec!["round 2, b", "round 2, a", "round 2, a"]));
        match sides.report(None, ["x", "y"], 7) {
            Err(Failure::Code(code, lines)) => {
                assert!(code == PARTIAL && lines[0].contains("after 1 of 7"), "{lines:?}")
            }
            _ => panic!("a stopped comparison is partial"),
        }
    }
}
