//! `gannet doctor bundle`: writes an archive for a bug report, without secrets.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgMatches, Command, value_parser};
use doctor::bundle::{Bundle, without_names};
use doctor::{Host, Report, checks, run as look};

use super::args::{failed, pid, root, target};
use super::tune;
use crate::{Failure, print};

/// Highest number of journals in the archive; the latest ones are included.
const JOURNALS_MAX: usize = 20;

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("bundle")
        .about("Write an archive for a bug report, with the input and results of the checks and without secrets")
        .arg(pid("Process id of the server, whose threads, limits and memory are also checked"))
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("FILE.tar.gz")
                .value_parser(value_parser!(PathBuf))
                .help("Path of the archive [default: gannet-doctor-SECONDS.tar.gz in the working directory]"),
        )
        .arg(root())
        .arg(tune::journals())
}

/// Runs the subcommand.
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
    let fault = |error: std::io::Error| failed(vec![format!("{}: {error}; pass another --out", path.display())]);
    // An existing file may belong to another program, so it is not overwritten.
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(fault)?;
    bundle.write(file).and_then(|file| file.sync_all()).map_err(fault)?;
    print(&format!("{}: review it before you send it; README.txt lists what was removed.\n", path.display()))
}
