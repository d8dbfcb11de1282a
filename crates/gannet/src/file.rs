//! `gannet file`: inspects, dumps and copies a memory file that no server uses; never changes it.

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
use server::start::StartError;

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let path = || Arg::new("PATH").required(true).help("The memory file, as given to --file");
    Command::new("file")
        .about("Inspect a memory file that no server uses, without changing it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("stats").about("Print the file's header; fast at any size").arg(path()))
        .subcommand(
            Command::new("check")
                .about("Check every item and every slot of the index; exit code 1 if there are errors")
                .arg(path()),
        )
        .subcommand(
            Command::new("dump")
                .about("Write every live item to standard output as a line of JSON: docs/format/dump.md")
                .arg(path())
                .arg(flash()),
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
            _ => remedy::start_error(&error),
        }])
    })
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some((name, matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    let path = Path::new(matches.get_one::<String>("PATH").expect("it is required"));
    let failed = |what: String| Failure::Failed(vec![format!("{}: {what}", path.display())]);
    match name {
        "dump" => return dump(path, matches),
        "migrate" => return migrate(path, matches),
        _ => {}
    }
    let file = MapFile::open_there(path).map_err(|error| failed(error.to_string()))?;
    let file = Arc::new(file);
    let faulty = |fault: FileFault| failed(fault.for_reader());
    let report = segment::file_stats(&file, power().boot).map_err(faulty)?;
    match name {
        "stats" => {
            let left = offline::left_on_flash(&file, power().boot).map_err(faulty)?;
            print(&(stats(&report) + &left.map(on_flash).unwrap_or_default()))
        }
        _ => print_check(&report, segment::file_check(&file, power().boot).map_err(faulty)?),
    }
}

/// Prints the results of a complete check of a file.
fn print_check(stats: &FileStats, check: FileCheck) -> Result<(), Failure> {
    let mut text = String::new();
    if let Some(lost) = lost(stats) {
        let _ = writeln!(text, "{lost}");
    }
    if stats.lost && has_checkpoints(stats) {
        let _ = writeln!(
            text,
            "items: {}; torn, so that later items of the segment are missing: {}",
            check.items, check.damaged
        );
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
            eprintln!("gannet: {} items", counts.reported);
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
        // The copy of the items in memory and the copy of the items on flash each take a thread handle.
        handles_max: 2,
        ..from.config.clone()
    };
    if to.exists() {
        return Err(failed(to, "the file already exists; use another name".to_owned()));
    }
    let made = MapFile::open(to).map_err(|error| failed(to, error.to_string()))?;
    let file = StoreFile { file: Arc::new(made), reset: false, index: from.index, index_left: None, power: power() };
    let copied =
        Store::in_file(&new, &file, now).map_err(|error| error.to_string()).and_then(|(store, mut background)| {
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

fn put_line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name:<24}{value}");
}

/// Describes the contents of flash, as far as the memory file records them.
fn on_flash(left: FlashRemainder) -> String {
    let mut text = String::new();
    let lines = [
        ("flash_devices", left.devices),
        ("flash_regions", left.regions),
        ("flash_regions_used", left.regions_used),
        ("flash_items", left.items),
    ];
    for (name, value) in lines {
        put_line(&mut text, name, &value.to_string());
    }
    text
}

fn stats(stats: &FileStats) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| put_line(&mut text, name, &value);
    for (name, value) in &stats.superblock {
        line(name, value.to_string());
    }
    let in_use = || lost(stats).unwrap_or_else(|| "yes, or the last server was killed".to_owned());
    line("left", if stats.clean { "in order".to_owned() } else { in_use() });
    line("items", stats.items.to_string());
    line("item_bytes", format!("{} ({})", stats.item_bytes, ByteSize(stats.item_bytes >> 20 << 20)));
    for (number, items) in stats.items_by_namespace.iter().enumerate().filter(|(_, items)| **items > 0) {
        line(&format!("items_namespace_{number}"), items.to_string());
    }
    for (state, count) in SEGMENT_STATES.iter().zip(stats.segments) {
        line(&format!("segments_{state}"), count.to_string());
    }
    let [groups, next] = stats.groups;
    line("index_groups", if groups == next { groups.to_string() } else { format!("{groups}, growing to {next}") });
    line("index_locks_held", stats.stripes_held.to_string());
    line("next_sequence", stats.sequence.to_string());
    line("clock_ms", stats.clock.0.to_string());
    line("checkpoint_ms", stats.checkpoint.map_or("none".to_owned(), |(at, _)| at.0.to_string()));
    line("checkpoint_segments", stats.checkpoint.map_or(0, |(_, segments)| segments).to_string());
    line("notes", format!("{}, {} bytes", stats.notes[0], stats.notes[1]));
    text
}
