//! `lab readahead`: the bytes that a fault for one page reads, depending on the device's setting and on the advice for
//! the mapping.
//!
//! ```text
//!   file in the lab's folder ── its own loop device ── mapping, touches of random pages
//!                               read_ahead_kb: 0, 128, 8192          the settings of the host's disks do not change
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use arena::{Cells, Order, PAGE_BYTES};
use base::prng::Prng;
use rustix::fs::{Advice, fadvise};

use super::catalogue::Lab;
use super::ledger::{LabResource, command, loop_of};
use super::outcome::{LabOutcome, LabPhase};
use super::phases::order;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;

/// Size of the file in bytes.
const BYTES: usize = 512 << 20;
/// Size of one write to the file, in bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Maximum number of touches in a phase. After 100 consecutive faults on uncached pages the kernel stops to read around
/// faults.
const TOUCHES_MAX: u32 = 64;
/// Size in bytes of a sector, the unit of the kernel's counters.
const SECTOR_BYTES: f64 = 512.0;

/// The settings of a phase: a name, the device's setting, and the mapping's advice.
const SETTINGS: [(&str, &str, Order); 4] = [
    ("read_ahead_kb 0", "0", Order::Usual),
    ("read_ahead_kb 128", "128", Order::Usual),
    ("read_ahead_kb 8192", "8192", Order::Usual),
    ("read_ahead_kb 8192, random advice", "8192", Order::Random),
];
const FIGURES: [&str; 2] = ["read_a_touch_kib", "p50_us"];

pub fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let (device, queue) = device(scene)?;
    let mut phases = Vec::new();
    for (round, setting) in order(SETTINGS.len(), scene.wanted.rounds, scene.wanted.seed) {
        scene.go_on()?;
        let (name, kib, advice) = SETTINGS[setting];
        (scene.tell)(&format!("round {}: {name}", round + 1));
        write(&queue.join("queue/read_ahead_kb"), kib)?;
        let mut phase = LabPhase::begin(setting, round, scene.now_s());
        let failed = |error: std::io::Error| Unable::Failed(format!("{device}: {error}"));
        let file = File::open(&device).map_err(failed)?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
        let before = sectors(&queue)?;
        let cells = Cells::of_file(&file, BYTES, advice).map_err(failed)?;
        let tally = touch(&cells, scene, scene.wanted.seed ^ u64::from(round))?;
        drop(cells);
        let read_kib = (sectors(&queue)? - before) * SECTOR_BYTES / 1024.0;
        phase.figures.insert("read_a_touch_kib".to_owned(), read_kib / tally.count().max(1) as f64);
        phase.take(tally);
        phases.push(phase);
    }
    let names = SETTINGS.map(|(name, ..)| name);
    let mut outcome = LabOutcome::of(Lab::Readahead, scene, &names, &FIGURES, phases);
    outcome.findings = check_device(scene.ledger.folder(), &queue)?;
    let read = |setting| outcome.against_first("read_a_touch_kib", setting);
    let is_shown = read(2).is_some_and(|compared| compared.is_higher());
    let headline = match (read(2), read(3)) {
        (Some(far), Some(advised)) if far.is_higher() => format!(
            "Shown: a touch of 4 KiB reads {:.0} KiB with read_ahead_kb 8192, {:.0} KiB with 0, and {:.0} KiB with \
             8192 and MADV_RANDOM.",
            far.mean_b, far.mean_a, advised.mean_b
        ),
        _ => "Not shown: with read-ahead, a touch does not clearly read more bytes here.".to_owned(),
    };
    (outcome.is_shown, outcome.headline) = (is_shown, headline);
    outcome.notes.push(
        "Each phase touches 64 random pages of 512 MiB, which are not cached when the phase begins. With much \
         read-ahead, later touches find pages that earlier touches read. In a file larger than memory they would not."
            .to_owned(),
    );
    Ok(outcome)
}

/// Creates a loop device for a file of the lab. Returns the device's name and its folder below /sys/block.
fn device(scene: &mut Scene<'_>) -> Result<(String, std::path::PathBuf), Unable> {
    if !rustix::process::geteuid().is_root() {
        return Err(Unable::Host("only root can create a loop device; run the lab as root".to_owned()));
    }
    let path = scene.ledger.folder().join("disk");
    let failed = |error: std::io::Error| Unable::Failed(format!("{}: {error}", path.display()));
    let mut file = File::create_new(&path).map_err(failed)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut prng = Prng::new(scene.wanted.seed);
    for _ in 0..BYTES / PIECE_BYTES {
        scene.go_on()?;
        prng.fill(&mut piece);
        file.write_all(&piece).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| failed(error.into()))?;
    scene.ledger.will_make(LabResource::Loop(path.clone())).map_err(Unable::Failed)?;
    let name = path.to_str().ok_or_else(|| Unable::Failed("the folder's name is not text".to_owned()))?;
    // Direct I/O keeps the file below the device out of the cache, which would otherwise serve pages that were dropped
    // from the device's cache.
    let made = command("losetup", &["--find", "--read-only", "--direct-io=on", name]);
    made.map_err(|why| Unable::Host(format!("cannot create a loop device: {why}")))?;
    let device = loop_of(&path).ok_or_else(|| Unable::Failed("cannot find the loop device".to_owned()))?;
    let queue = Path::new("/sys/block").join(device.trim_start_matches("/dev/"));
    Ok((device, queue))
}

fn write(path: &Path, text: &str) -> Result<(), Unable> {
    fs::write(path, text).map_err(|error| Unable::Host(format!("{}: {error}", path.display())))
}

/// Returns the number of sectors that a device has read.
fn sectors(queue: &Path) -> Result<f64, Unable> {
    let path = queue.join("stat");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let number = text.split_whitespace().nth(2).and_then(|word| word.parse().ok());
    number.ok_or_else(|| Unable::Failed(format!("{} has no sectors", path.display())))
}

/// Touches random pages until the phase's time or its number of touches is reached. Returns the times.
fn touch(cells: &Cells, scene: &Scene<'_>, seed: u64) -> Result<TimeTally, Unable> {
    let (mut tally, mut prng) = (TimeTally::default(), Prng::new(seed));
    let begun = Instant::now();
    for _ in 0..TOUCHES_MAX {
        if begun.elapsed() >= scene.wanted.phase {
            break;
        }
        scene.go_on()?;
        let page = prng.below((cells.bytes() / PAGE_BYTES) as u64) as usize;
        let before = Instant::now();
        std::hint::black_box(cells.load(page * PAGE_BYTES));
        tally.record(before.elapsed().as_nanos() as u64);
    }
    Ok(tally)
}

/// Runs the check on a tree with a disk that has the settings of the lab's device, and returns the findings.
fn check_device(folder: &Path, queue: &Path) -> Result<Vec<crate::Finding>, Unable> {
    let tree = folder.join("tree");
    let to = tree.join("sys/block/lab/queue");
    let failed = |error: std::io::Error| Unable::Failed(format!("{}: {error}", to.display()));
    fs::create_dir_all(&to).map_err(failed)?;
    write(&queue.join("queue/read_ahead_kb"), SETTINGS[2].1)?;
    for file in ["read_ahead_kb", "rotational"] {
        let text = fs::read_to_string(queue.join("queue").join(file)).map_err(failed)?;
        fs::write(to.join(file), text).map_err(failed)?;
    }
    Ok(found(Lab::Readahead, &tree.to_string_lossy(), None, Duration::ZERO))
}
