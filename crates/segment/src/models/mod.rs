//! Models: the real store under a scheduler that tries interleavings of its threads at every access to a shared word.
//!
//! Run with `RUSTFLAGS='--cfg shuttle' cargo test -p gannet-segment --lib models`. A failure prints the schedule, which
//! `shuttle::replay` runs again. The scheduler explores only sequentially consistent interleavings. The stress test and
//! the sanitizers cover weaker memory orderings.

mod crashing;
mod growing;
mod locking;
mod moving;
mod parts;
mod replies;
mod resizing;
mod tiered;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::sync::Arc;

use base::clock::UnixMillis;
use shuttle::thread;

use crate::background::Background;
use crate::core::handle::ThreadHandle;
use crate::core::op::{Expire, OpError, Put, Value};
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::{Namespace, Store, StoreConfig};

/// The number of schedules that each scheduler tries for a model.
const SCHEDULES: usize = 1500;

/// Runs a model under two schedulers. One switches threads at random at every access. The other (PCT, Burckhardt et
/// al., ASPLOS '10) lets threads run long and switches at few random places, which finds races over long paths.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    explore_random(SCHEDULES, model.clone());
    for depth in 2..=4 {
        explore_pct(SCHEDULES, depth, model.clone());
    }
}

/// Explores a model with half of the schedules, because it creates two stores in each schedule.
fn explore_some(model: impl Fn() + Send + Sync + Clone + 'static) {
    explore_one_of(2, model);
}

/// Explores a slow model with the number of schedules divided by `part`.
fn explore_one_of(part: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    explore_random(SCHEDULES / part, model.clone());
    explore_pct(SCHEDULES / part, 3, model);
}

/// The stack size of a model's thread, in bytes. Shuttle's default of 32 KiB is too small for code with little
/// inlining.
const STACK_BYTES: usize = 256 << 10;

fn explore_random(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    shuttle::Runner::new(RandomScheduler::new(schedules), shuttle_config()).run(model);
}

fn explore_pct(schedules: usize, depth: usize, model: impl Fn() + Send + Sync + 'static) {
    shuttle::Runner::new(PctScheduler::new(depth, schedules), shuttle_config()).run(model);
}

fn shuttle_config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config
}

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

fn config(handles_max: usize) -> StoreConfig {
    StoreConfig {
        memory_bytes: 36 * 1024 + 1180 * (16 + 8 * (handles_max as u64 + 1)),
        memory_bytes_max: 0,
        segment_bytes: Some(1024),
        item_bytes_max: 1000,
        handles_max,
        hash_seed: 5,
        huge_pages: false,
    }
}

fn store(handles_max: usize) -> (Arc<Store>, Background) {
    Store::new(&config(handles_max), NOW).expect("store")
}

/// Runs an operation until it is not parked.
fn until_done<T>(handle: &mut ThreadHandle, mut op: impl FnMut(&mut crate::Guard<'_>) -> Result<T, OpError>) -> T {
    loop {
        let mut guard = handle.guard(NOW);
        match op(&mut guard) {
            Ok(done) => return done,
            Err(OpError::Parked) => {
                drop(guard);
                thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn put(handle: &mut ThreadHandle, key: &[u8], value: &[u8]) {
    put_until(handle, key, value, Expire::Never);
}

fn put_until(handle: &mut ThreadHandle, key: &[u8], value: &[u8], expire: Expire) {
    until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, key);
        guard.items_mut().put(&key, &Put { expire, ..Put::set(value) })
    });
}

/// Returns the value of a key, as bytes or as the digits of a number. Reads in the stages of a prefetched read. If the
/// prefetched slot does not name the key's item, the last stage looks up the key.
fn read(handle: &mut ThreadHandle, key: &[u8]) -> Option<Vec<u8>> {
    let guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, key);
    let ahead = guard.items().prefetch_item(key.key_hash());
    guard.items().read(&key, ahead).map(|hit| match hit.value {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Large(_) | Value::Typed { .. } => panic!("neither large values nor records here"),
    })
}

/// Returns the number of slots that name items.
fn slots(store: &Store) -> usize {
    (0..store.index.groups_next()).flat_map(|g| store.index.group_words(g)).filter(|(_, s)| s.is_item()).count()
}

/// The way in which [`drain_first`] drains the segment.
#[derive(Clone, Copy)]
enum Drained {
    /// As compaction does: all live items are moved.
    Moved,
    /// As eviction from the small queue does: items that were read are moved, and the others are evicted.
    Evicted,
}

/// Creates a store, and seals its first segment after `fill` has stored items there. Returns the store, its background
/// and the handle that `fill` used.
fn sealed(handles_max: usize, fill: impl FnOnce(&mut ThreadHandle)) -> (Arc<Store>, Background, ThreadHandle) {
    let (store, background) = store(handles_max);
    let mut handle = store.handle().expect("handle");
    fill(&mut handle);
    handle.seal_for_model(&store);
    assert_eq!(
        store.segments.header(SegmentId(0)).state(),
        SegmentState::Sealed,
        "the first segment taken is the lowest"
    );
    (store, background, handle)
}

/// Lets the background drain the whole first segment, which is sealed.
fn drain_first(background: &mut Background, why: Drained) {
    background.drain_for_model(SegmentId(0), matches!(why, Drained::Moved), NOW);
}

/// Drains the first segment on a separate thread.
fn draining(mut background: Background, why: Drained) -> thread::JoinHandle<()> {
    thread::spawn(move || drain_first(&mut background, why))
}
