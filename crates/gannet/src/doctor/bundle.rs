//! `gannet doctor bundle`: an archive for a report of a fault, without secrets.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgMatches, Command, value_parser};
use doctor::bundle::{Bundle, without_names};
use doctor::{Host, Report, checks, run as look};

use super::args::{failed, pid, root, target};
use super::tune;
use crate::{Failure, print};

/// Journals that are added at most: the latest.
const JOURNALS_MAX: usize = 20;

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("bundle")
        .about("Put what the checks read and found into one archive, without secrets, for a report of a fault")
        .arg(pid("The server's process, whose threads, limits and memory are looked at too"))
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE.tar.gz")
                .value_parser(value_parser!(PathBuf))
                .help("Where it is written [default: gannet-doctor-SECONDS.tar.gz here]"),
        )
        .arg(root())
        .arg(tune::journals())
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let target = target(matches, Duration::from_secs(1))?;
    let (pid, journals) = (target.pid, tune::folder(matches, &target.root));
    let host = Host::watch(target).taped();
    let all: Vec<_> = checks::all().collect();
    let mut report = Report::new(&host, pid, look(&host, &all));
    report.host = "-".to_owned();
    report.findings.iter_mut().for_each(without_names);
    let plan = super::plan::of_host(&host);
    let mut bundle = Bundle::of(&host.tape(), pid);
    bundle.add("report.json", report.json());
    bundle.add("report.txt", report.text(true));
    bundle.add("plan.txt", plan);
    for run in doctor::tune::runs(&journals).into_iter().rev().take(JOURNALS_MAX) {
        let name = format!("{run}.jsonl");
        if let Ok(text) = std::fs::read_to_string(journals.join(&name)) {
            bundle.add(&format!("journals/{name}"), text);
        }
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let path = matches.get_one::<PathBuf>("out").cloned();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("gannet-doctor-{now_s}.tar.gz")));
    let fault = |error: std::io::Error| failed(vec![format!("{}: {error}; name another --out", path.display())]);
    // An existing file belongs to another program.
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(fault)?;
    bundle.write(file).and_then(|file| file.sync_all()).map_err(fault)?;
    print(&format!("{}: look through it before you send it; README.txt says what was taken out.\n", path.display()))
}
