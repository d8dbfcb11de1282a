//! `lab reclaim`: a page cache full of unused data, more data in use than fits into memory, and continuous replacement
//! of segments.
//!
//! ```text
//!   runs in its own control group, so that the host's memory stays free (or in a whole guest: --whole-host)
//!     phase:  read garbage ── create segments ── ready ── readers | writers | scan | counters, read every second
//!     settings alternate: the three engines, or one engine under several values of a kernel setting
//! ```
//!
//! The lab is modelled on a simulator that an article of 2013 on stalls of a graph store describes. The simulator had
//! 25 GB of garbage and 25 GB in use on a host with 48 GB, and created, mapped and replaced files of 10 MB. In the lab,
//! the sizes depend on the available memory. The article's host had memory zones of different sizes. To produce the
//! same stalls without such zones, the lab reads the garbage continuously and has more data in use.

mod cause;
mod engine;
mod graph;
pub(super) mod options;
mod watch;
pub(super) mod work;

use std::fs;
use std::path::PathBuf;

pub use engine::Engine;
pub use options::ReclaimOptions;

use super::catalogue::Lab;
use super::group::Group;
use super::ledger::{ACCOUNTING, LabResource, boot};
use super::outcome::{LabOutcome, LabPhase};
use super::part::{LabPart, Role};
use super::phases::order;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;
use crate::host::{field, read_at};
use cause::Delays;
use watch::{FigureWatch, PressureCounters};
use work::Work;

/// Maximum memory of the lab's control group in bytes; also the default.
pub const MEMORY_MAX: u64 = 2 << 30;
const MEMORY_USUAL: u64 = 512 << 20;
/// Divisor of the host's available memory: the group uses at most a third of it.
const OF_AVAILABLE: u64 = 3;
/// Maximum memory in bytes that the part uses in addition to its segments.
const PROGRAM_BYTES: u64 = 24 << 20;
/// Minimum memory in bytes. With less memory the mechanism cannot be shown.
const MEMORY_MIN: u64 = 64 << 20;
/// Maximum disk space of the files, as a multiple of the garbage and the active segments. The factor allows for
/// replaced segments that are not deleted yet.
const DISK_SPARE: f64 = 1.3;

const FIGURES: [&str; 5] = ["read_p99_us", "read_p999_us", "p999_us", "major_faults", "workingset_refault_file"];
const HOST_FIGURES: [&str; 12] = [
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "zone_reclaim_success",
    "zone_reclaim_failed",
    "workingset_refault_file",
    "workingset_activate_file",
    "pgmajfault",
    "major_faults",
    "numa_miss",
    "read_p999_us",
];

/// A setting that the lab compares: an engine, or a value of a kernel setting.
struct Setting {
    name: String,
    engine: Engine,
    /// The value of the kernel setting during the phases, if one is compared.
    value: Option<String>,
}

fn settings(shape: &ReclaimOptions) -> Vec<Setting> {
    match &shape.values {
        Some((name, values)) => {
            let engine = shape.engine.unwrap_or(Engine::Files);
            let of = |value: &String| Setting { name: format!("{name}={value}"), engine, value: Some(value.clone()) };
            values.iter().map(of).collect()
        }
        None => Engine::ALL
            .into_iter()
            .filter(|(_, engine)| shape.engine.is_none_or(|only| only == *engine))
            .map(|(name, engine)| Setting { name: name.to_owned(), engine, value: None })
            .collect(),
    }
}

/// Returns the file of `vm.NAME`.
fn file_of(name: &str) -> Result<PathBuf, Unable> {
    let name =
        name.strip_prefix("vm.").filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
    let path = name.map(|name| PathBuf::from("/proc/sys/vm").join(name)).filter(|path| path.is_file());
    path.ok_or_else(|| {
        Unable::Host("--compare: pass a setting of this kernel, as in vm.zone_reclaim_mode=0,1".to_owned())
    })
}

/// Returns the memory that the lab uses: the group's limit, or the host's memory.
fn memory(shape: &ReclaimOptions) -> Result<u64, Unable> {
    let meminfo = read_at("/proc/meminfo".as_ref(), "/proc/meminfo").unwrap_or_default();
    let kib = |key| field(&meminfo, key).unwrap_or(0).unsigned_abs() << 10;
    if shape.is_whole_host {
        return Ok(kib("MemTotal"));
    }
    let most = (kib("MemAvailable") / OF_AVAILABLE).min(MEMORY_MAX);
    let bytes = shape.memory_bytes.unwrap_or(MEMORY_USUAL.min(most));
    if bytes > most || bytes < MEMORY_MIN {
        let (bytes, most) = (bytes >> 20, most >> 20);
        return Err(Unable::Host(format!(
            "{bytes} MiB is not between 64 and {most} MiB, a third of the available memory"
        )));
    }
    Ok(bytes)
}

/// Checks that the disk has enough space for the lab's files.
fn check_room(scene: &Scene<'_>, bytes: f64) -> Result<(), Unable> {
    let folder = scene.ledger.folder();
    let room = rustix::fs::statvfs(folder).map_err(|error| Unable::Failed(format!("{}: {error}", folder.display())))?;
    let free = room.f_bavail as f64 * room.f_frsize as f64;
    if free < bytes * DISK_SPARE {
        let needed = bytes * DISK_SPARE / f64::from(1 << 20);
        return Err(Unable::Host(format!(
            "{} has less than {needed:.0} MiB of free space; pass another --folder",
            folder.display()
        )));
    }
    Ok(())
}

/// Checks that the graph store fits into the group's memory. Its pages cannot be dropped as those of files can, so the
/// kernel would kill the part otherwise.
fn check_graph(shape: &ReclaimOptions, settings: &[Setting], memory: u64, active: usize) -> Result<(), Unable> {
    let spare = work::SPARE + shape.writers as usize;
    let needed = graph::memory_bytes(shape.segment_bytes as usize, active + spare) as u64 + PROGRAM_BYTES;
    if needed <= memory || settings.iter().all(|setting| setting.engine != Engine::Graph) {
        return Ok(());
    }
    let (needed, memory) = (needed >> 20, memory >> 20);
    let why = format!(
        "a graph store of that size needs {needed} MiB, but the memory is {memory} MiB; lower --active or --segment"
    );
    Err(Unable::Host(why))
}

/// The parameters and files that all phases share.
struct Bench {
    shape: ReclaimOptions,
    memory: u64,
    garbage: usize,
    active: usize,
    /// The file of the compared kernel setting, if there is one.
    file: Option<PathBuf>,
    /// The reason why the time of direct reclaim cannot be measured, if it cannot.
    no_reclaim: Option<String>,
}

/// Makes the kernel account for the time for which threads free memory, until the end of the lab. Returns the reason if
/// that is not possible.
fn account(scene: &mut Scene<'_>) -> Result<Option<String>, Unable> {
    let path = PathBuf::from(ACCOUNTING);
    let old = match read_at(&path, ACCOUNTING) {
        Ok(old) => old,
        Err(why) => return Ok(Some(why.to_string())),
    };
    if let Err(why) = Delays::new() {
        return Ok(Some(why));
    }
    if old != "1" {
        let left = LabResource::Setting { path: path.clone(), old, new: vec!["1".to_owned()], boot: boot() };
        scene.ledger.will_make(left).map_err(Unable::Failed)?;
        if let Err(error) = fs::write(&path, "1") {
            return Ok(Some(format!("{ACCOUNTING}: {error}")));
        }
    }
    Ok(None)
}

impl Bench {
    fn prepare(scene: &mut Scene<'_>, settings: &[Setting]) -> Result<Self, Unable> {
        let shape = scene.wanted.reclaim.clone();
        let memory = memory(&shape)?;
        let count = |part: f64| ((memory as f64 * part) as u64 / shape.segment_bytes).max(1) as usize;
        let (garbage, active) = (count(shape.garbage), count(shape.active));
        check_graph(&shape, settings, memory, active)?;
        check_room(scene, (garbage + active) as f64 * shape.segment_bytes as f64)?;
        let file = shape.values.as_ref().map(|(name, _)| file_of(name)).transpose()?;
        if let Some(path) = &file {
            let old = read_at(path, "").map_err(|unread| Unable::Host(unread.to_string()))?;
            let new = settings.iter().filter_map(|setting| setting.value.clone()).collect();
            let left = LabResource::Setting { path: path.clone(), old, new, boot: boot() };
            scene.ledger.will_make(left).map_err(Unable::Failed)?;
        }
        (scene.tell)(&format!("{} MiB: {garbage} files of garbage, {active} segments in use", memory >> 20));
        work::make_garbage(scene.ledger.folder(), garbage, shape.segment_bytes as usize).map_err(Unable::Failed)?;
        let no_reclaim = account(scene)?;
        Ok(Self { shape, memory, garbage, active, file, no_reclaim })
    }

    /// Runs a phase in its own control group. A shared group would also contain the page cache of earlier phases.
    fn phase(
        &self,
        scene: &mut Scene<'_>,
        setting: &Setting,
        round: u32,
        watch: &mut FigureWatch,
    ) -> Result<LabPhase, Unable> {
        if let (Some(path), Some(value)) = (&self.file, &setting.value) {
            fs::write(path, value).map_err(|error| Unable::Host(format!("{}: {error}", path.display())))?;
        }
        let group = if self.shape.is_whole_host {
            None
        } else {
            let group = Group::make(scene.ledger, "memory", &format!("{}-{round}", setting.engine.name()))?;
            group.limit_memory(self.memory)?;
            Some(group)
        };
        let work = Work {
            folder: scene.ledger.folder().to_owned(),
            engine: setting.engine,
            segment_bytes: self.shape.segment_bytes as usize,
            garbage: self.garbage,
            active: self.active,
            readers: self.shape.readers,
            reads_per_s: self.shape.reads_per_s,
            writers: self.shape.writers,
            write_bytes_per_s: self.shape.write_bytes_per_s,
            scan_bytes_per_s: self.shape.scan_bytes_per_s,
            counts_reclaim: self.no_reclaim.is_none(),
            notes_slow: self.shape.notes_slow,
            time: scene.wanted.phase,
            seed: scene.wanted.seed ^ u64::from(round),
        };
        let mut part = LabPart::start(&scene.wanted.program, &Role::Reclaim(Box::new(work)), None)?;
        group.as_ref().map_or(Ok(()), |group| group.add(part.pid()))?;
        part.go()?;
        part.until_ready(scene, &mut |now_s| watch.tick(now_s, group.as_ref()))?;
        let mut phase = LabPhase::begin(0, round, scene.now_s());
        let before = PressureCounters::now(group.as_ref());
        let done = part.end(scene, &mut |now_s| watch.tick(now_s, group.as_ref()))?;
        phase.figures = PressureCounters::now(group.as_ref()).since(&before);
        phase.take(TimeTally::from(done.times));
        phase.figures.extend(done.counts);
        Ok(phase)
    }
}

pub(super) fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let settings = settings(&scene.wanted.reclaim);
    let bench = Bench::prepare(scene, &settings)?;
    let (mut phases, mut watch) = (Vec::new(), FigureWatch::default());
    for (round, setting) in order(settings.len(), scene.wanted.rounds, scene.wanted.seed) {
        (scene.tell)(&format!("round {}: {}", round + 1, settings[setting].name));
        let mut phase = bench.phase(scene, &settings[setting], round, &mut watch)?;
        phase.setting = setting;
        phases.push(phase);
    }
    let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
    let figures = if bench.shape.is_whole_host { &HOST_FIGURES[..] } else { &FIGURES[..] };
    let mut outcome = LabOutcome::of(Lab::Reclaim, scene, &names, figures, phases);
    outcome.timelines = watch.timelines();
    outcome.findings = found(Lab::Reclaim, "/", None, std::time::Duration::from_secs(1));
    conclude(&mut outcome, &bench);
    Ok(outcome)
}

/// Writes the headline and the notes of the outcome.
fn conclude(outcome: &mut LabOutcome, bench: &Bench) {
    let last = outcome.settings.len() - 1;
    let is_engines = bench.file.is_none();
    // Of the engines, the last (files) is expected to be slower. Of a kernel setting's values, any may be slower.
    let clear: Vec<String> = outcome
        .compared
        .iter()
        .filter(|compared| if is_engines { compared.b == last && compared.is_higher() } else { compared.is_clear() })
        .map(|compared| outcome.sentence(compared))
        .collect();
    outcome.is_shown = !clear.is_empty();
    outcome.headline = match clear.first() {
        Some(first) => format!("Shown: {first}."),
        None if is_engines => {
            "Not shown: with files that are created and deleted, reads are not clearly slower than with the graphs."
                .to_owned()
        }
        None => "Not shown: no figure differs clearly. Use longer phases or more rounds.".to_owned(),
    };
    let (memory, segment) = (bench.memory >> 20, bench.shape.segment_bytes >> 10);
    outcome.notes.push(format!(
        "{memory} MiB of memory; {} files of garbage and {} segments in use of {segment} KiB each; {} readers, {} \
         writers with {} MiB a second, a scan of the garbage with {}.",
        bench.garbage,
        bench.active,
        bench.shape.readers,
        bench.shape.writers,
        bench.shape.write_bytes_per_s >> 20,
        bench.shape.scan_bytes_per_s >> 20
    ));
    if !bench.shape.is_whole_host {
        let note = "Counters of /proc/vmstat, of nodes and of pressure are those of the whole host. Counters that \
                    begin with group_, and those of the limit and of the page lists, are those of the control group.";
        outcome.notes.push(note.to_owned());
    }
    if let Some(why) = &bench.no_reclaim {
        outcome.notes.push(format!("This run does not show which slow reads had to free memory themselves: {why}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_are_compared_unless_a_setting_is() {
        let names =
            |shape: &ReclaimOptions| settings(shape).into_iter().map(|setting| setting.name).collect::<Vec<_>>();
        assert_eq!(names(&ReclaimOptions::default()), ["graph", "pool", "files"]);
        let one = ReclaimOptions { engine: Some(Engine::Pool), ..ReclaimOptions::default() };
        assert_eq!(names(&one), ["pool"]);
        let values = Some(("vm.zone_reclaim_mode".to_owned(), vec!["0".to_owned(), "1".to_owned()]));
        let modes = ReclaimOptions { values, ..ReclaimOptions::default() };
        assert_eq!(names(&modes), ["vm.zone_reclaim_mode=0", "vm.zone_reclaim_mode=1"]);
        assert!(settings(&modes).iter().all(|setting| setting.engine == Engine::Files));
    }

    #[test]
    fn a_graph_store_that_the_group_has_no_room_for_is_refused() {
        let check = |active, engine| {
            let shape = ReclaimOptions { engine, ..ReclaimOptions::default() };
            check_graph(&shape, &settings(&shape), 512 << 20, active)
        };
        assert!(check(102, None).is_ok() && check(120, None).is_err() && check(120, Some(Engine::Files)).is_ok());
    }

    #[test]
    fn only_settings_of_memory_are_compared() {
        assert_eq!(file_of("vm.swappiness").ok(), Some("/proc/sys/vm/swappiness".into()));
        for wrong in ["kernel.core_pattern", "vm./../kernel/core_pattern", "vm.none_such", "swappiness", "vm."] {
            assert!(file_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_that_the_host_can_not_spare_is_refused() {
        let asked = |mib: u64| memory(&ReclaimOptions { memory_bytes: Some(mib << 20), ..ReclaimOptions::default() });
        assert!(asked(1).is_err() && asked(1 << 20).is_err());
        assert!(
            memory(&ReclaimOptions { is_whole_host: true, ..ReclaimOptions::default() })
                .is_ok_and(|bytes| bytes > MEMORY_MIN)
        );
    }
}
