//! A simulated disk that loses power. Afterwards each page of a file has its contents from the last sync or from some
//! later time, chosen at random and independently of other pages.
//!
//! ```text
//!   sync ....... look ....... look ....... now          each page of an image is from one of these four instants
//! ```
//!
//! Some syncs fail. Pages that a failed sync did not write are not written by the next sync either.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arena::{MapFile, PAGE_BYTES};
use base::prng::Prng;

use super::crashes::config;
use crate::TierPlan;

const PAGE: u64 = PAGE_BYTES as u64;
/// The maximum number of recorded states (looks) of the disk between two syncs.
const LOOKS_MAX: usize = 4;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// Sets the disk that this thread's stores use from now on, or none.
pub(super) fn set_disk(disk: Option<Disk>) {
    DISK.with(|there| *there.borrow_mut() = disk);
}

/// The possible contents of a disk.
pub(super) struct Disk {
    pub(super) file: Arc<MapFile>,
    /// The contents of the ranges of [`tracked`]: first those of the last sync, then those recorded since.
    pub(super) looks: Vec<Vec<u8>>,
    prng: Prng,
    /// The plan of the second tier, if the file has one. The tier's part of the file is only synced with the whole
    /// file.
    plan: Option<TierPlan>,
    /// The number of the step in progress.
    pub(super) step: u64,
    /// Images of power losses during a sync, each with the number of its step.
    pub(super) taken: Vec<(u64, Arc<MapFile>)>,
    /// Copies of the file at each sync, if `keeps` is true.
    pub(super) synced: Vec<Arc<MapFile>>,
    /// True if copies of the file at each sync are retained.
    pub(super) keeps: bool,
    /// True if the next sync fails.
    pub(super) refuses: bool,
    /// The pages that a failed sync did not write, with their contents then. The kernel regards them as written until
    /// they are changed again.
    pub(super) dropped: BTreeMap<usize, Vec<u8>>,
}

/// The index of the second tier's range among those of [`tracked`].
const TIER: usize = 4;

/// Returns the byte ranges whose pages may be lost: all parts of the file that a small store uses.
fn tracked(plan: Option<&TierPlan>) -> Vec<Range<u64>> {
    let parts: BTreeMap<_, _> = crate::durable::file::parts(&config(), plan).into_iter().collect();
    let (notes, undo, records) = (&parts["notes"], &parts["undo log"], &parts["checkpoint"]);
    let copy = (parts["tier"].start - records.start) / 2;
    vec![
        0..notes.start + PAGE,
        undo.start..undo.start + 8 * PAGE,
        parts["headers"].start..records.start + PAGE,
        records.start + copy..records.start + copy + PAGE,
        parts["tier"].clone(),
        parts["index"].start..parts["heap"].end,
    ]
}

fn os_file(file: &MapFile) -> std::fs::File {
    file.as_fd().try_clone_to_owned().expect("a descriptor").into()
}

fn look(file: &MapFile, plan: Option<&TierPlan>) -> Vec<u8> {
    let (from, mut bytes) = (os_file(file), Vec::new());
    for range in tracked(plan) {
        let len = bytes.len();
        bytes.resize(len + (range.end - range.start) as usize, 0);
        from.read_exact_at(&mut bytes[len..], range.start).expect("it is there");
    }
    bytes
}

impl Disk {
    pub(super) fn new(file: Arc<MapFile>, prng: Prng) -> Self {
        let (looks, taken, synced, dropped) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        Self { file, looks, prng, plan: None, step: 0, taken, synced, keeps: false, refuses: false, dropped }
    }

    /// Returns this disk for the file of a store with the given plan of a second tier.
    pub(super) fn beside(self, plan: Option<TierPlan>) -> Self {
        Self { plan, ..self }
    }

    /// Continues with a file all of whose contents are on the disk.
    pub(super) fn go_on(&mut self, file: Arc<MapFile>) {
        self.looks = vec![look(&file, self.plan.as_ref())];
        self.file = file;
        self.dropped.clear();
    }

    pub(super) fn see(&mut self) {
        if self.looks.len() < LOOKS_MAX {
            self.looks.push(look(&self.file, self.plan.as_ref()));
        }
    }

    fn sync(&mut self, all: bool) -> std::io::Result<()> {
        let plan = self.plan.as_ref();
        let (mut synced, refuses) = (look(&self.file, plan), std::mem::take(&mut self.refuses));
        let before = self.looks.first().cloned().unwrap_or_else(|| vec![0; synced.len()]);
        if !all {
            let lens: Vec<usize> = tracked(plan).iter().map(|range| (range.end - range.start) as usize).collect();
            let from = lens[..TIER].iter().sum();
            let left_out = from..from + lens[TIER];
            synced[left_out.clone()].copy_from_slice(&before[left_out]);
        }
        self.dropped.retain(|at, page| synced[*at..].starts_with(page));
        for at in (0..synced.len()).step_by(PAGE_BYTES) {
            let page = at..synced.len().min(at + PAGE_BYTES);
            if refuses && before[page.clone()] != synced[page.clone()] && self.prng.chance(1, 2) {
                self.dropped.insert(at, synced[page].to_vec());
            }
        }
        for (at, page) in &self.dropped {
            let page = *at..at + page.len();
            synced[page.clone()].copy_from_slice(&before[page]);
        }
        self.looks = vec![synced];
        if refuses { Err(std::io::Error::other("the disk refuses")) } else { Ok(()) }
    }

    /// Returns an image of the file as a power loss now would leave it.
    pub(super) fn lose(&mut self) -> Arc<MapFile> {
        let now = look(&self.file, self.plan.as_ref());
        let image = self.file.image().expect("an image");
        let to = os_file(&image);
        // The share of pages that survive: from none to all.
        let kept_of_ten = [0, 1, 5, 9, 10][self.prng.below(5) as usize];
        let mut at = 0;
        for range in tracked(self.plan.as_ref()) {
            for page in (range.start..range.end).step_by(PAGE_BYTES) {
                let end = at + PAGE.min(range.end - page) as usize;
                let of = |look: usize| &self.looks.get(look).unwrap_or(&now)[at..end];
                let is_dropped = self.dropped.get(&at).is_some_and(|page| page[..] == now[at..end]);
                let chosen = match !is_dropped && self.prng.chance(kept_of_ten, 10) {
                    true => of(self.prng.below(self.looks.len() as u64 + 1) as usize),
                    false => of(0),
                };
                if chosen != &now[at..end] {
                    to.write_all_at(chosen, page).expect("written");
                }
                at = end;
            }
        }
        Arc::new(image)
    }
}

/// Records a sync of a store's file: of the whole file, or of all parts except the second tier's. Called by the store.
pub(crate) fn synced(file: &Arc<MapFile>, all: bool) -> std::io::Result<()> {
    DISK.with(|disk| {
        let mut disk = disk.borrow_mut();
        let Some(disk) = disk.as_mut().filter(|disk| Arc::ptr_eq(&disk.file, file)) else { return Ok(()) };
        if disk.keeps {
            disk.synced.push(Arc::new(disk.file.image()?));
        }
        if disk.prng.chance(1, 3) {
            let image = disk.lose();
            disk.taken.push((disk.step, image));
        }
        disk.sync(all)
    })
}

pub(super) fn with_disk<T>(run: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with(|disk| run(disk.borrow_mut().as_mut().expect("there is a disk")))
}
