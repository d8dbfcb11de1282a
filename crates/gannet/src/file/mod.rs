//! `gannet file`: inspects, dumps and copies a memory file or a file of graphs that no server uses; never changes it.

mod graphs;

use std::fmt::Write;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use base::units::ByteSize;
use clap::{Arg, ArgAction, ArgMatches, Command};
use segment::{FAULTS_MAX, FileCheck, FileFault, FileStats, SEGMENT_STATES, Store, StoreConfig, StoreFile};
use server::config::kinds::FlashPlace;
use server::config::remedy;
use server::offline::{self, FlashRemainder, Offline};
use server::start::{SPARE_HANDLES, StartError};

use self::graphs::EdgeSelection;
use crate::{Failure, print, warn};

/// The subcommand's arguments.
pub fn command() -> Command {
    let path = || Arg::new("PATH").required(true).help("The file, as given to --file or --graph-file");
    Command::new("file")
        .about("Inspect a memory file or a file of graphs that no server uses, without changing it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("stats")
                .about("Print figures of the file; of a memory file its header, which is fast at any size")
                .arg(path())
                .arg(Arg::new(JSON).long(JSON).action(ArgAction::SetTrue).help("Print one JSON object")),
        )
        .subcommand(
            Command::new("check")
                .about(
                    "Check every item and slot of the index, or every record and list; exit code 1 if there are errors",
                )
                .arg(path()),
        )
        .subcommand(
            Command::new("dump")
                .about("Write every live item or edge to standard output as a line of JSON: docs/format/dump.md")
                .arg(path())
                .arg(flash())
                .arg(
                    Arg::new(GRAPH)
                        .long(GRAPH)
                        .value_name("NAME")
                        .requires(TYPE)
                        .conflicts_with(FLASH)
                        .help("Of a file of graphs, write only the live edges of one type of this graph, as CSV"),
                )
                .arg(
                    Arg::new(TYPE)
                        .long(TYPE)
                        .value_name("NAME")
                        .requires(GRAPH)
                        .conflicts_with(FLASH)
                        .help("The edge type of these edges"),
                ),
        )
        .subcommand(
            Command::new("migrate")
                .about("Copy the items to a new memory file with other sizes; the old file stays unchanged")
                .arg(path())
                .arg(flash())
                .arg(
                    Arg::new(TO)
                        .long(TO)
                        .required(true)
                        .value_name("NEW")
                        .help("Path of the new file, which must not exist"),
                )
                .arg(size(MEMORY, "Memory size of the new file [default: as in the old file]"))
                .arg(size(SEGMENT, "Segment size of the new file [default: derived from the memory size]")),
        )
}

/// Length in bytes of an item that a new store must always accept.
const ITEM_BYTES_MIN: u64 = 1 << 20;
const JSON: &str = "json";
const GRAPH: &str = "graph";
const TYPE: &str = "type";
const TO: &str = "to";
const FLASH: &str = "flash";
const MEMORY: &str = "memory";
const SEGMENT: &str = "segment";

fn size(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name("SIZE").help(help).value_parser(|text: &str| text.parse::<ByteSize>())
}

fn flash() -> Arg {
    Arg::new(FLASH)
        .long(FLASH)
        .action(ArgAction::Append)
        .value_name("PATH:SIZE")
        .help("Flash devices that hold further items, as given to --flash of the server; they are only read")
        .value_parser(|text: &str| {
            text.parse::<FlashPlace>().map_err(|wrong| format!("{}; {}", wrong.what, wrong.remedy))
        })
}

/// Opens a file for reading, with the flash devices in the arguments.
fn open(path: &Path, matches: &ArgMatches) -> Result<Offline, Failure> {
    let flash: Vec<FlashPlace> = matches.get_many(FLASH).into_iter().flatten().cloned().collect();
    Offline::open(path, &flash).map_err(|error| {
        Failure::Failed(vec![match &error {
            StartError::Store(segment::StartError::File { path, fault }) => {
                format!("{}: {}", path.display(), fault.for_reader())
            }
            StartError::File { path, error } => format!("{}: {}", path.display(), with_remedy(error)),
            _ => remedy::start_error(&error),
        }])
    })
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    let path = Path::new(matches.get_one::<String>("PATH").expect("it is required"));
    let failed = |what: String| Failure::Failed(vec![format!("{}: {what}", path.display())]);
    if server::offline::graphs::is_graph_file(path) {
        return run_on_graphs(name, path, matches);
    }
    match name {
        "dump" if matches.contains_id(GRAPH) => {
            return Err(failed("it is no file of graphs; omit --graph and --type".to_owned()));
        }
        "dump" => return dump(path, matches),
        "migrate" => return migrate(path, matches),
        _ => {}
    }
    let file = MapFile::open_there(path).map_err(|error| failed(with_remedy(&error)))?;
    let file = Arc::new(file.into_view());
    let faulty = |fault: FileFault| failed(fault.for_reader());
    let report = segment::file_stats(&file, power().boot).map_err(faulty)?;
    match name {
        "stats" => {
            let left = offline::left_on_flash(&file, power().boot).map_err(faulty)?;
            let mut figures = stats(&report);
            if let Some(left) = left {
                put_flash(&mut figures, left);
            }
            print_figures(&figures, matches.get_flag(JSON))
        }
        _ => print_check(&report, segment::file_check(&file, power().boot).map_err(faulty)?),
    }
}

/// Returns the reason why a file cannot be opened, with its remedy if the command knows it.
pub fn with_remedy(error: &arena::OpenError) -> String {
    match error {
        arena::OpenError::OtherOwner { owner, .. } => {
            format!("{error}; run this command as that user, with `sudo -u '#{owner}' gannet file ..`")
        }
        arena::OpenError::Locked => format!("{error}; stop the server that uses it"),
        arena::OpenError::Io(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
            "this file is a program that runs, not a memory file; pass the file that was given to --file or \
             --graph-file"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// Runs a subcommand on a file of graphs.
fn run_on_graphs(name: &str, path: &Path, matches: &ArgMatches) -> Result<(), Failure> {
    let failed = |what: &str| Err(Failure::Failed(vec![format!("{}: {what}", path.display())]));
    match name {
        "stats" => graphs::stats(path, matches.get_flag(JSON)),
        "check" => graphs::check(path),
        "dump" if matches.contains_id(FLASH) => failed("it is a file of graphs, which has no flash; omit --flash"),
        "dump" => {
            let name = |of: &str| matches.get_one::<String>(of).map(String::as_str);
            let selection = name(GRAPH).zip(name(TYPE));
            graphs::dump(path, selection.map(|(graph, edge_type)| EdgeSelection { graph, edge_type }))
        }
        _ => failed("it is a file of graphs, which a server enlarges itself; raise graph.memory"),
    }
}

/// FileFigures with their names, in the order of their output.
#[derive(Default)]
pub struct FileFigures(Vec<(String, serde_json::Value)>);

impl FileFigures {
    /// Adds a number.
    pub fn number(&mut self, name: &str, value: u64) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// Adds a number that is written with two decimals.
    pub fn decimal(&mut self, name: &str, value: f64) {
        self.0.push((name.to_owned(), ((value * 100.0).round() / 100.0).into()));
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.into()));
    }
}

/// Prints figures, one a line or as one JSON object.
pub fn print_figures(figures: &FileFigures, is_json: bool) -> Result<(), Failure> {
    if is_json {
        let object: serde_json::Map<_, _> = figures.0.iter().cloned().collect();
        return print(&format!("{}\n", serde_json::Value::Object(object)));
    }
    let mut text = String::new();
    for (name, value) in &figures.0 {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = writeln!(text, "{name:<24}{shown}");
    }
    print(&text)
}

/// Prints the results of a complete check of a file.
fn print_check(stats: &FileStats, check: FileCheck) -> Result<(), Failure> {
    let mut text = String::new();
    if let Some(lost) = lost(stats) {
        let _ = writeln!(text, "{lost}");
    }
    if stats.lost && has_checkpoints(stats) {
        let _ = writeln!(text, "items: {}; torn places: {}", check.items, check.damaged);
    } else {
        let _ = writeln!(text, "items: {}, slots that refer to items: {}", check.items, check.slots);
        if check.flash_slots > 0 {
            let _ = writeln!(text, "slots that refer to items on flash, which is not checked: {}", check.flash_slots);
        }
        let _ = writeln!(
            text,
            "left by a crash, and repaired when the file is opened: {} items without a slot, {} duplicate slots",
            check.unnamed, check.doubled
        );
    }
    if check.faults.is_empty() {
        text.push_str("no fault\n");
        return print(&text);
    }
    let most = (check.faults.len() == FAULTS_MAX).then(|| "there may be more".to_owned());
    let faults = check.faults.into_iter().chain(most).collect();
    print(&text).and(Err(Failure::Failed(faults)))
}

fn has_checkpoints(stats: &FileStats) -> bool {
    stats.superblock.iter().any(|(name, value)| *name == "checkpoints" && *value == 1)
}

/// Describes which contents of a file survived a power failure during the file's last use; `None` if there was no power
/// failure.
fn lost(stats: &FileStats) -> Option<String> {
    if !stats.lost {
        return None;
    }
    let since = "the machine was restarted while the file was in use";
    Some(match (has_checkpoints(stats), stats.checkpoint) {
        (false, _) => format!("{since}, and there are no checkpoints: on a disk, newer writes may be lost"),
        (true, None) => {
            format!("{since}, and there is no checkpoint: a server discards its contents and creates it again")
        }
        (true, Some((at, segments))) => {
            let there: u64 = stats.segments.iter().sum();
            let secs = at.0 / 1000;
            format!(
                "{since}: a server continues from the checkpoint at {secs} s since 1970, {there} of {segments} segments"
            )
        }
    })
}

/// Writes every live item to standard output.
fn dump(path: &Path, matches: &ArgMatches) -> Result<(), Failure> {
    let mut file = open(path, matches)?;
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let now = UnixMillis::now();
    let written = (file.names().iter())
        .try_for_each(|line| writeln!(out, "{line}"))
        .and_then(|()| file.each(&mut |entry| writeln!(out, "{}", offline::line(entry, now))))
        .and_then(|counts| out.flush().map(|()| counts));
    match written {
        Ok(counts) if counts.lost == 0 => {
            warn(&format!("gannet: {} items", counts.reported));
            Ok(())
        }
        Ok(counts) => Err(Failure::Failed(vec![format!(
            "{} items were written; {} cannot be read, because a part of them is lost or damaged",
            counts.reported, counts.lost
        )])),
        // The reader may have closed the pipe, as `| head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            Err(Failure::Failed(vec![format!("cannot write to standard output: {error}; check its destination")]))
        }
    }
}

/// Creates a new memory file with the items of an old one.
fn migrate(path: &Path, matches: &ArgMatches) -> Result<(), Failure> {
    let to = Path::new(matches.get_one::<String>(TO).expect("it is required"));
    let failed = |path: &Path, what: String| Failure::Failed(vec![format!("{}: {what}", path.display())]);
    let now = UnixMillis::now();
    let mut from = open(path, matches)?;
    let longest = from.longest_item().map_err(|error| failed(path, error.to_string()))?;
    let size = |name: &str| matches.get_one::<ByteSize>(name).map(|size| size.0);
    let new = StoreConfig {
        memory_bytes: size(MEMORY).unwrap_or(from.config.memory_bytes),
        segment_bytes: size(SEGMENT).map(|size| size.min(u64::from(u32::MAX)) as u32),
        item_bytes_max: longest.max(ITEM_BYTES_MIN),
        huge_pages: true,
        // The copies of the items in memory and on flash take a thread handle each. A server takes one for each worker
        // besides, and the namespaces must have room for the open segments of all of them.
        handles_max: SPARE_HANDLES + std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        ..from.config.clone()
    };
    if to.exists() {
        return Err(failed(to, "the file already exists; use another name".to_owned()));
    }
    let made = MapFile::open(to).map_err(|error| failed(to, error.to_string()))?;
    let file = StoreFile { file: Arc::new(made), reset: false, index: from.index, index_left: None, power: power() };
    let copied =
        Store::in_file(&new, &file, now).map_err(|error| error.to_string()).and_then(|(store, mut background)| {
            from.check_namespaces(&store).map_err(|(name, error)| {
                format!(
                    "cannot create the namespace {name} there: {error}; change its memory with a server on {}, or pass \
                     another --memory or --segment",
                    path.display()
                )
            })?;
            from.copy_to(&store, &mut background, now).map_err(|error| error.to_string())
        });
    let copied = copied.map_err(|what| {
        // An incomplete file is useless, so it is removed.
        let _ = std::fs::remove_file(to);
        failed(to, what)
    })?;
    print(&format!("{} items were copied to {}\n", copied.items, to.display()))?;
    let mut left = Vec::new();
    if copied.lost > 0 {
        left.push(format!("{} items cannot be read, because a part of them is lost", copied.lost));
    }
    if copied.refused > 0 {
        left.push(format!("{} items do not fit; use more --memory or larger segments", copied.refused));
    }
    if left.is_empty() { Ok(()) } else { Err(Failure::Failed(left)) }
}

/// Returns the policy for a file after a power failure: the items of its last checkpoint are read.
fn power() -> segment::Power {
    segment::Power { boot: arena::boot_id().unwrap_or(0), checkpoints: false }
}

/// Adds the contents of flash, as far as the memory file records them.
fn put_flash(figures: &mut FileFigures, left: FlashRemainder) {
    figures.number("flash_devices", left.devices);
    figures.number("flash_regions", left.regions);
    figures.number("flash_regions_used", left.regions_used);
    figures.number("flash_items", left.items);
}

fn stats(stats: &FileStats) -> FileFigures {
    let mut figures = FileFigures::default();
    for (name, value) in &stats.superblock {
        figures.number(name, *value);
    }
    let in_use = || lost(stats).unwrap_or_else(|| "yes, or the last server was killed".to_owned());
    figures.text("left", &if stats.clean { "in order".to_owned() } else { in_use() });
    figures.number("items", stats.items);
    figures.text("item_bytes", &format!("{} ({})", stats.item_bytes, ByteSize(stats.item_bytes >> 20 << 20)));
    for (number, items) in stats.items_by_namespace.iter().enumerate().filter(|(_, items)| **items > 0) {
        figures.number(&format!("items_namespace_{number}"), *items);
    }
    for (state, count) in SEGMENT_STATES.iter().zip(stats.segments) {
        figures.number(&format!("segments_{state}"), count);
    }
    let [groups, next] = stats.groups;
    let growing = if groups == next { groups.to_string() } else { format!("{groups}, growing to {next}") };
    figures.text("index_groups", &growing);
    figures.number("index_locks_held", stats.stripes_held);
    figures.number("next_sequence", stats.sequence);
    figures.number("clock_ms", stats.clock.0);
    figures.text("checkpoint_ms", &stats.checkpoint.map_or("none".to_owned(), |(at, _)| at.0.to_string()));
    figures.number("checkpoint_segments", stats.checkpoint.map_or(0, |(_, segments)| segments));
    figures.text("notes", &format!("{}, {} bytes", stats.notes[0], stats.notes[1]));
    figures
}
