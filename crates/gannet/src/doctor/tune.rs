//! `gannet doctor apply`, `undo` and `persist`: write settings, restore the old values, and print files that set the
//! values at each boot.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::checks::select;
use doctor::tune::{
    Journal, PersistForm, RunLog, Setting, Settled, StepOutcome, TunePlan, apply, draft, latest, persist, runs, script,
    undo,
};
use doctor::{CheckTarget, Host};

use super::args::{failed, pid, root, target};
use crate::{Failure, print, warn};

/// Default time in seconds after which a run that changes network settings is undone unless it is confirmed.
const CONFIRM_S: &str = "60";
/// Interval at which a waiting process checks whether the run was confirmed.
const LOOK: Duration = Duration::from_millis(200);
/// Time for which the guard of a killed process tries to open the journal.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);

pub fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub fn journals() -> Arg {
    Arg::new("journals")
        .long("journals")
        .value_parser(value_parser!(PathBuf))
        .value_name("DIR")
        .help("Directory of the journals [default: /var/lib/gannet/doctor, below --root]")
}

/// The subcommands' arguments.
pub fn commands() -> [Command; 3] {
    let run = || Arg::new("run").value_name("RUN").help("The run [default: the latest that is not undone]");
    let apply = Command::new("apply")
        .about("Apply the remedies of findings, with a journal of each run")
        .after_help(
            "Only settings of the running kernel are written; the boot loader and files are not changed.\nA run that \
             changes the network is undone automatically unless it is confirmed in time.\nExit codes: 0 everything \
             was written, or nothing had to be; 1 a value was refused or clamped; 3 the run failed.",
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_delimiter(',')
                .value_name("ID,...")
                .help("Apply only the remedies of these checks or groups"),
        )
        .arg(flag("dry-run", "Print an equivalent shell script and write nothing"))
        .arg(flag("confirm", "Confirm the latest run, so that its timer does not undo it").exclusive(false))
        .arg(
            Arg::new("timer")
                .long("timer")
                .value_name("SECONDS")
                .default_value(CONFIRM_S)
                .value_parser(value_parser!(u64).range(0..=3600))
                .help("Time after which an unconfirmed run that changes the network is undone; 0 for never"),
        )
        .arg(pid("Process id of the server, which is also checked"))
        .arg(root())
        .arg(journals());
    let undo = Command::new("undo")
        .about("Undo a run, the last change first")
        .after_help("Exit codes: 0 everything was restored; 1 some values were left unchanged; 3 the command failed.")
        .arg(run())
        .arg(flag("force", "Also undo values that another program has changed since"))
        .arg(flag("list", "List the runs, with the changes that are not undone"))
        .arg(
            Arg::new("unless-confirmed")
                .long("unless-confirmed")
                .hide(true)
                .value_parser(value_parser!(u64))
                .requires("run"),
        )
        .arg(
            Arg::new("when-gone")
                .long("when-gone")
                .hide(true)
                .value_parser(value_parser!(i32).range(1..))
                .requires("run")
                .conflicts_with("unless-confirmed"),
        )
        .arg(root())
        .arg(journals());
    let persist = Command::new("persist")
        .about("Print a configuration that repeats a run's changes at boot; it is not installed")
        .arg(run())
        .arg(
            Arg::new("as")
                .long("as")
                .value_name("FORMAT")
                .required(true)
                .value_parser(PersistForm::ALL.map(|(name, _)| name))
                .help("Format: sysctl.d (only settings below /proc/sys), a systemd unit, or a profile of tuned"),
        )
        .arg(root())
        .arg(journals());
    [apply, undo, persist]
}

/// Returns the directory of the journals.
pub fn folder(matches: &ArgMatches, root: &Path) -> PathBuf {
    matches.get_one::<PathBuf>("journals").cloned().unwrap_or_else(|| root.join("var/lib/gannet/doctor"))
}

pub fn words(why: String) -> Failure {
    failed(vec![why])
}

/// Returns the kernel's identifier of the current boot.
pub fn boot(root: &Path) -> String {
    let text = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    text.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Returns the root directory of the host's files: `--root`, or `/`.
pub fn root_of(matches: &ArgMatches) -> Result<PathBuf, Failure> {
    let root = matches.get_one::<PathBuf>("root").expect("it has a default").clone();
    if root.is_dir() { Ok(root) } else { Err(words(format!("--root: {} is not a directory", root.display()))) }
}

/// Returns the given run, or the latest that is not undone.
fn run_of(matches: &ArgMatches, folder: &Path) -> Result<Option<String>, Failure> {
    match matches.get_one::<String>("run") {
        Some(run) => Ok(Some(run.clone())),
        None => latest(folder).map_err(words),
    }
}

/// Runs `apply`.
pub fn run_apply(matches: &ArgMatches) -> Result<(), Failure> {
    let target = target(matches, Duration::from_secs(1))?;
    let (root, folder) = (target.root.clone(), folder(matches, &target.root));
    if matches.get_flag("confirm") {
        return confirm(&folder);
    }
    let drafted = drafted(matches, target)?;
    if matches.get_flag("dry-run") {
        return print(&script(&drafted, &root));
    }
    for (check, why) in &drafted.beside {
        warn(&format!("gannet: {check}: {why}"));
    }
    if drafted.steps.is_empty() {
        return print("There is nothing to write.\n");
    }
    let mut journal = Journal::begin(&folder, &boot(&root)).map_err(words)?;
    let run = journal.run.clone();
    let timer = *matches.get_one::<u64>("timer").expect("it has a default");
    let is_network = drafted.steps.iter().any(|step| is_network(&step.new.path));
    // Prints this before the changes, because a change may disconnect this terminal.
    if is_network && timer > 0 {
        start_timer(&root, &folder, &run, timer).map_err(words)?;
    }
    let settled = apply(&root, &mut journal, &drafted, &mut |_| {}).map_err(words)?;
    let mut text: String = settled.iter().map(|step| line(step, false)).collect();
    text += &format!("Run {run}; `gannet doctor undo {run}` undoes it.\n");
    if is_network && timer > 0 {
        text += &format!(
            "It changes the network, and is undone in {timer} s unless you run: gannet doctor apply \
                          --confirm\n"
        );
    }
    ended(&text, &settled)
}

fn drafted(matches: &ArgMatches, target: CheckTarget) -> Result<TunePlan, Failure> {
    let only: Vec<String> = matches.get_many::<String>("only").unwrap_or_default().cloned().collect();
    let checks = select(&only).map_err(failed)?;
    let mut drafted = draft(&Host::watch(target), &checks);
    // If the user names no check, the checks whose remedies cannot be written are not listed.
    if only.is_empty() {
        drafted.beside.clear();
    }
    Ok(drafted)
}

/// Returns whether a write to the file may disconnect clients.
fn is_network(path: &str) -> bool {
    ["/sys/class/net/", "/proc/irq/", "/ethtool/"].iter().any(|start| path.starts_with(start))
}

/// Starts a process that undoes the run after `seconds` seconds unless the run is confirmed. The process survives this
/// one and its terminal.
fn start_timer(root: &Path, folder: &Path, run: &str, seconds: u64) -> Result<(), String> {
    start_undo(root, folder, run, ["--unless-confirmed", &seconds.to_string()]).map(drop)
}

/// Starts a process that undoes the run when this process ends for any reason, unless the run is confirmed or undone
/// before.
pub fn start_guard(root: &Path, folder: &Path, run: &str) -> Result<Child, String> {
    start_undo(root, folder, run, ["--when-gone", &std::process::id().to_string()])
}

fn start_undo(root: &Path, folder: &Path, run: &str, when: [&str; 2]) -> Result<Child, String> {
    use std::os::unix::process::CommandExt;
    // This path is the running executable, even if its file has been replaced.
    let later = std::process::Command::new("/proc/self/exe")
        .args(["doctor", "undo", run])
        .args(when)
        .arg("--root")
        .arg(root)
        .arg("--journals")
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    later.map_err(|error| format!("cannot start the process that undoes the run later: {error}"))
}

fn confirm(folder: &Path) -> Result<(), Failure> {
    let Some(run) = latest(folder).map_err(words)? else {
        return Err(words("there is no run to confirm: none exists, or its timer has undone it".to_owned()));
    };
    let (mut journal, _) = Journal::open(folder, &run).map_err(words)?;
    journal.confirm().map_err(words)?;
    print(&format!("Run {run} stays.\n"))
}

/// Runs `undo`.
pub fn run_undo(matches: &ArgMatches) -> Result<(), Failure> {
    let root = root_of(matches)?;
    let folder = folder(matches, &root);
    if matches.get_flag("list") {
        let tell = |run: String| match RunLog::read(&folder, &run) {
            Ok(log) => format!("{run}  {} changes not undone\n", log.open_steps()),
            Err(why) => format!("{run}  {why}\n"),
        };
        return print(&runs(&folder).into_iter().map(tell).collect::<String>());
    }
    let Some(run) = run_of(matches, &folder)? else { return print("There is nothing to undo.\n") };
    if let Some(seconds) = matches.get_one::<u64>("unless-confirmed")
        && is_confirmed_within(&folder, &run, Duration::from_secs(*seconds))
    {
        return Ok(());
    }
    if let Some(process) = matches.get_one::<i32>("when-gone")
        && is_settled_before_gone(&folder, &run, *process)
    {
        return Ok(());
    }
    let patience = if matches.contains_id("when-gone") { LOCK_PATIENCE } else { Duration::ZERO };
    let (mut journal, log) = open_within(&folder, &run, patience).map_err(words)?;
    let settled =
        undo(&root, &mut journal, &log, &boot(&root), matches.get_flag("force"), &mut |_| {}).map_err(words)?;
    let text: String = settled.iter().map(|step| line(step, true)).collect();
    let log = RunLog::read(&folder, &run).map_err(words)?;
    let end = match log.open_steps() {
        0 => format!("Run {run} is undone.\n"),
        left => format!("{left} changes of run {run} are not undone.\n"),
    };
    ended(&(text + &end), &settled)
}

/// Opens the journal of a run. Tries again for `patience` if that fails: a process that was killed while it started
/// another one leaves its lock to that one until its program is loaded.
fn open_within(folder: &Path, run: &str, patience: Duration) -> Result<(Journal, RunLog), String> {
    let begun = Instant::now();
    loop {
        match Journal::open(folder, run) {
            Err(_) if begun.elapsed() < patience => std::thread::sleep(LOOK),
            opened => return opened,
        }
    }
}

/// Waits until the run is confirmed, for at most `time`. Returns whether it was confirmed. An unreadable journal does
/// not count as a confirmation.
fn is_confirmed_within(folder: &Path, run: &str, time: Duration) -> bool {
    // Leaves the terminal's session, so that this process does not end with the terminal. It may be the only process
    // that can undo the changes.
    let _ = rustix::process::setsid();
    let begun = Instant::now();
    loop {
        if RunLog::read(folder, run).is_ok_and(|log| log.is_confirmed) {
            return true;
        }
        if begun.elapsed() >= time {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Waits until the run is confirmed or undone, or until the process with the id `process` has ended. Returns false in
/// the last case.
fn is_settled_before_gone(folder: &Path, run: &str, process: i32) -> bool {
    let _ = rustix::process::setsid();
    let parent = || rustix::process::getppid().map(rustix::process::Pid::as_raw_pid);
    loop {
        // `process` is the parent of this process. If the parent is another process now, `process` has ended, even if
        // its id is in use again.
        let is_gone = parent() != Some(process);
        if RunLog::read(folder, run).is_ok_and(|log| log.is_confirmed || log.is_over()) {
            return true;
        }
        if is_gone {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs `persist`.
pub fn run_persist(matches: &ArgMatches) -> Result<(), Failure> {
    let root = root_of(matches)?;
    let folder = folder(matches, &root);
    let none = || words("there is no applied run; use `gannet doctor apply` first".to_owned());
    let run = run_of(matches, &folder)?.ok_or_else(none)?;
    let log = RunLog::read(&folder, &run).map_err(words)?;
    let settings: Vec<&Setting> = log.effective().map(|step| &step.new).collect();
    if settings.is_empty() {
        return Err(none());
    }
    let name = matches.get_one::<String>("as").expect("it is required");
    let kept = PersistForm::ALL.into_iter().find(|(known, _)| known == name).expect("the parser knows them").1;
    print(&persist(&settings, kept))
}

/// Formats a step as a line.
fn line(settled: &Settled, is_back: bool) -> String {
    let step = &settled.step;
    let (from, to) = if is_back { (&step.new.value, &step.old) } else { (&step.old, &step.new.value) };
    let what = match &settled.outcome {
        StepOutcome::Done => "done".to_owned(),
        StepOutcome::Clamped(now) => format!("CLAMPED: the value is {now}"),
        StepOutcome::Refused(why) => format!("REFUSED: {why}"),
        StepOutcome::Untouched => "the value was already restored".to_owned(),
        StepOutcome::Foreign(now) => {
            format!("LEFT: another program changed the value to {now}; --force undoes that too")
        }
        StepOutcome::Restarted => "the host was restarted; its boot settings are unchanged".to_owned(),
    };
    let text = format!("{}: {} ({from} -> {to}): {what}", step.check, step.new.path);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>() + "\n"
}

fn ended(text: &str, settled: &[Settled]) -> Result<(), Failure> {
    print(text)?;
    let whole =
        |step: &Settled| matches!(step.outcome, StepOutcome::Done | StepOutcome::Untouched | StepOutcome::Restarted);
    if settled.iter().all(whole) { Ok(()) } else { Err(Failure::Code(1, Vec::new())) }
}
