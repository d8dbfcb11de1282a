//! `lab thp`: the cost of huge pages at the first touch, the memory that they use, and their benefit for later reads.
//!
//! ```text
//!   sparse   a byte in each 2 MiB       small: uses 4 KiB per byte      huge: uses 2 MiB per byte
//!   touch    every page, in order       small: one fault per page       huge: one fault per 512 pages, clears 2 MiB
//!   read     random pages               small: walks the page tables    huge: most translations are cached
//! ```
//!
//! The lab gets both kinds of pages by advice on its own mappings (madvise), and changes no setting of the host.

use std::time::Instant;

use arena::{Cells, HUGE_PAGE_BYTES, PAGE_BYTES, Pages};
use base::prng::Prng;

use super::catalogue::Lab;
use super::outcome::{LabOutcome, LabPhase};
use super::phases::order;
use super::scene::{Scene, Unable, found};
use super::tally::TimeTally;
use crate::host::{chosen, read_at};

/// Size of the mapping, in bytes.
const BYTES: usize = 256 << 20;
/// Number of random reads.
const READS: u32 = 2_000_000;

const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SETTINGS: [&str; 2] = ["small pages", "huge pages"];
const FIGURES: [&str; 4] = ["sparse_mib", "p999_us", "touch_all_ms", "read_ns"];

pub fn run(scene: &mut Scene<'_>) -> Result<LabOutcome, Unable> {
    let text = read_at(ENABLED.as_ref(), ENABLED).map_err(|unread| Unable::Host(unread.to_string()))?;
    if chosen(&text) == Some("never") {
        return Err(Unable::Host(format!(
            "{ENABLED} is never; write madvise into it, so that the lab can request huge pages"
        )));
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
            "Shown: one byte in each 2 MiB uses {:.0} MiB with huge pages and {:.1} MiB with small pages. The p999 of \
             a first touch is {:.0} us with huge pages and {:.0} us with small pages.",
            sparse.mean_b, sparse.mean_a, p999.mean_b, p999.mean_a
        ),
        _ if !had => "Not shown: the kernel had no free huge pages.".to_owned(),
        _ => "Not shown: too few rounds.".to_owned(),
    };
    (outcome.is_shown, outcome.headline) = (is_shown, headline);
    outcome.notes.push(
        "The times are those of the first touch of each page, in order. If memory is populated in advance, as \
         `gannet serve` populates its arena, no request waits for a first touch, and reads are still faster."
            .to_owned(),
    );
    Ok(outcome)
}

/// Touches every small page. Returns the time of each touch, and the total time in ms.
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

/// Returns the mean time of a read at a random place, in ns. Each place depends on the result of the read before it.
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
