//! `lab thp`: the cost of huge pages at the first touch, the memory that they use, and their gain afterwards.
//!
//! ```text
//!   sparse   a byte in each 2 MiB       small: a page of 4 KiB each     huge: all of it
//!   touch    every page, in order       small: a fault each             huge: one fault for 512, which clears 2 MiB
//!   read     random pages               small: a walk of the tables     huge: most translations are cached
//! ```
//!
//! Both kinds come from advice on mappings of this process: no setting of the host is changed.

use std::time::Instant;

use arena::{Cells, HUGE_PAGE_BYTES, PAGE_BYTES, Pages};
use base::prng::Prng;

use super::catalogue::Lab;
use super::outcome::{LabOutcome, LabPhase};
use super::phases::order;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;
use crate::host::{chosen, read_at};

/// Bytes of memory that are used.
const BYTES: usize = 256 << 20;
/// Number of random reads.
const READS: u32 = 2_000_000;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SETTINGS: [&str; 2] = ["small pages", "huge pages"];
const FIGURES: [&str; 4] = ["sparse_mib", "p999_us", "touch_all_ms", "read_ns"];

pub fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let text = read_at(ENABLED.as_ref(), ENABLED).map_err(|unread| Unable::Host(unread.to_string()))?;
    if chosen(&text) == Some("never") {
        return Err(Unable::Host(format!("{ENABLED} is never; madvise would let the lab ask for huge pages")));
    }
    let failed = |error: std::io::Error| Unable::Failed(format!("memory: {error}"));
    let mut phases = Vec::new();
    for (round, setting) in order(SETTINGS.len(), scene.wanted.rounds, scene.wanted.seed) {
        scene.go_on()?;
        (scene.tell)(&format!("round {}: {}", round + 1, SETTINGS[setting]));
        let pages = [Pages::Small, Pages::Huge][setting];
        let mut phase = LabPhase::begin(setting, round, scene.now_s());
        let sparse = Cells::anonymous(BYTES, pages).map_err(failed)?;
        (0..BYTES).step_by(HUGE_PAGE_BYTES).for_each(|offset| sparse.store(offset, 1));
        let mut figure = |name: &str, value: f64| phase.figures.insert(name.to_owned(), value);
        figure("sparse_mib", sparse.resident_bytes().map_err(failed)? as f64 / f64::from(1 << 20));
        drop(sparse);
        let cells = Cells::anonymous(BYTES, pages).map_err(failed)?;
        let (tally, touch_all_ms) = touch(&cells);
        figure("touch_all_ms", touch_all_ms);
        figure("huge_mib", cells.huge_bytes().map_err(failed)? as f64 / f64::from(1 << 20));
        figure("read_ns", read(&cells, scene.wanted.seed ^ u64::from(round)));
        phase.take(tally);
        phases.push(phase);
    }
    let had = phases.iter().filter(|phase| phase.setting == 1).all(|phase| phase.figures["huge_mib"] > 0.0);
    let mut outcome = LabOutcome::of(Lab::Thp, scene, &SETTINGS, &FIGURES, phases);
    outcome.findings = found(Lab::Thp, "/", None, std::time::Duration::ZERO);
    let (p999, sparse) = (outcome.against_first("p999_us", 1), outcome.against_first("sparse_mib", 1));
    let is_shown = had && sparse.is_some_and(|compared| compared.is_higher());
    let headline = match (p999, sparse) {
        (Some(p999), Some(sparse)) if is_shown => format!(
            "Shown: a byte in each 2 MiB takes {:.0} MiB with huge pages and {:.1} with small ones; a first touch \
             takes {:.0} us at p999, with small pages {:.0}.",
            sparse.mean_b, sparse.mean_a, p999.mean_b, p999.mean_a
        ),
        _ if !had => "Not shown: the kernel had no huge page to give.".to_owned(),
        _ => "Not shown: too few rounds.".to_owned(),
    };
    (outcome.is_shown, outcome.headline) = (is_shown, headline);
    outcome.notes.push(
        "Times are those of a first touch of each page, in order. Memory that is got in advance (`gannet serve` \
         populates its arena) pays them before the first request, and keeps what reads gain."
            .to_owned(),
    );
    Ok(outcome)
}

/// Returns the time of the first touch of each small page, and of all together in ms.
fn touch(cells: &Cells) -> (TimeTally, f64) {
    let mut tally = TimeTally::default();
    let begun = Instant::now();
    for offset in (0..cells.bytes()).step_by(PAGE_BYTES) {
        let before = Instant::now();
        cells.store(offset, 1);
        tally.record(before.elapsed().as_nanos() as u64);
    }
    (tally, begun.elapsed().as_secs_f64() * 1e3)
}

/// Returns the mean time of a read at a random place, in ns. Each place depends on the read before.
fn read(cells: &Cells, seed: u64) -> f64 {
    let mut prng = Prng::new(seed);
    let mut sum = 0u64;
    let begun = Instant::now();
    for _ in 0..READS {
        let offset = prng.below(cells.bytes() as u64 - 1) + (sum & 1);
        sum = sum.wrapping_add(u64::from(cells.load(offset as usize)));
    }
    std::hint::black_box(sum);
    begun.elapsed().as_nanos() as f64 / f64::from(READS)
}
