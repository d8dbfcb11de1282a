//! The scripts of the server, by their digests, and the scripts in execution.
//!
//! ```text
//!   EVAL text ──> digest ──> cached? ──no──> compile ──> cache: the least recently used script of EVAL may go
//!   SCRIPT LOAD ────────────────────────────────────────> cache: stays until SCRIPT FLUSH, or an error if it is full
//! ```
//!
//! Scripts that may access keys which they do not name run one at a time: they hold the right to extend their key lock
//! set ([`Scripts::take_right`]).

use crate::keyspace::libraries::Libraries;
use base::clock::UnixMillis;
use script::{Digest, Header, Script};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The maximum number of scripts that `EVAL` has cached.
pub const EVAL_SCRIPTS_MAX: usize = 500;
/// The maximum number of scripts that `SCRIPT LOAD` has cached, and of their bytes.
pub const LOADED_SCRIPTS_MAX: usize = 10_000;
/// The maximum number of bytes of the scripts that `SCRIPT LOAD` has cached.
pub const LOADED_BYTES_MAX: u64 = 64 << 20;
/// The time after which a script in execution counts as too slow, so that others that wait for it get an error, unless
/// `CONFIG SET busy-reply-threshold` has set another. After it, a stop of the server ends a script that has written.
pub const BUSY_MS: u64 = 5_000;

/// A cached script.
#[derive(Debug)]
pub struct CachedScript {
    /// The script.
    pub script: Arc<Script>,
    /// The time of the last use by the store's clock, in ms.
    used_ms: AtomicU64,
    /// True if the script is no longer in the cache.
    is_removed: AtomicBool,
}

impl CachedScript {
    /// Records a use of the script. Returns false if the script is no longer in the cache.
    pub fn use_at(&self, now: UnixMillis) -> bool {
        self.used_ms.store(now.0, Relaxed);
        !self.is_removed.load(Acquire)
    }
}

#[derive(Debug)]
struct CachedEntry {
    cached: Arc<CachedScript>,
    /// True if `SCRIPT LOAD` has cached the script.
    is_loaded: bool,
}

#[derive(Debug, Default)]
struct Cache {
    entries: HashMap<Digest, CachedEntry>,
    loaded: usize,
    loaded_bytes: u64,
    bytes: u64,
}

impl Cache {
    fn remove(&mut self, digest: &Digest) {
        let Some(entry) = self.entries.remove(digest) else { return };
        entry.cached.is_removed.store(true, Release);
        let bytes = entry.cached.script.bytes();
        self.bytes -= bytes;
        if entry.is_loaded {
            self.loaded -= 1;
            self.loaded_bytes -= bytes;
        }
    }

    /// Removes the scripts of `EVAL` that were not used for the longest time, until there is room for one more.
    fn make_room(&mut self) {
        while self.entries.len() - self.loaded >= EVAL_SCRIPTS_MAX {
            let evals = self.entries.values().filter(|entry| !entry.is_loaded);
            let Some(oldest) = evals.min_by_key(|entry| entry.cached.used_ms.load(Relaxed)) else { return };
            let digest = oldest.cached.script.digest;
            self.remove(&digest);
        }
    }
}

/// The state of a script in execution that other clients may end.
#[derive(Debug)]
pub struct Execution {
    /// The start of the execution by the store's clock.
    pub began: UnixMillis,
    /// True if the script has executed a command that writes.
    pub has_written: AtomicBool,
    /// True if the script must end.
    pub is_killed: AtomicBool,
    /// The name of the function; `None` for a script.
    pub function: Option<Box<[u8]>>,
    /// The words of the request, once the execution is registered.
    pub command: OnceLock<Vec<Box<[u8]>>>,
}

/// The name of a function in execution, the words of its request, and the start of the execution.
pub type RunningFunction = (Box<[u8]>, Vec<Box<[u8]>>, UnixMillis);

/// The outcome of `SCRIPT KILL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// No script is in execution.
    NotBusy,
    /// The script has written, so it must not be ended.
    Unkillable,
    /// The script will end.
    Killed,
}

/// The scripts of the server.
#[derive(Debug, Default)]
pub struct Scripts {
    /// The libraries of functions.
    pub libraries: Libraries,
    cache: Mutex<Cache>,
    numbers: AtomicU64,
    /// True while a script holds the right to extend its key lock set.
    is_right_taken: AtomicBool,
    /// The scripts whose execution takes more than one visit.
    executions: Mutex<Vec<Arc<Execution>>>,
    /// The number of entries of `executions`.
    long: AtomicU64,
    /// The sizes of the Lua heaps of all workers together, in bytes.
    heap_bytes: AtomicU64,
    /// The time after which a script counts as too slow, in ms, less [`BUSY_MS`] (wrapping).
    busy_ms_more: AtomicU64,
}

impl Scripts {
    /// Returns the time after which a script in execution counts as too slow, in ms; 0: never.
    pub fn busy_ms(&self) -> u64 {
        self.busy_ms_more.load(Relaxed).wrapping_add(BUSY_MS)
    }

    /// Sets the time after which a script in execution counts as too slow, in ms; 0: never.
    pub fn set_busy_ms(&self, ms: u64) {
        self.busy_ms_more.store(ms.wrapping_sub(BUSY_MS), Relaxed);
    }

    /// Returns true if a script that has been in execution for `age_ms` is too slow.
    pub fn is_too_slow(&self, age_ms: u64) -> bool {
        let busy_ms = self.busy_ms();
        busy_ms != 0 && age_ms > busy_ms
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn executions(&self) -> MutexGuard<'_, Vec<Arc<Execution>>> {
        self.executions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a script, which is not cached yet.
    pub fn create(&self, text: &[u8], header: Header) -> Arc<Script> {
        let number = self.numbers.fetch_add(1, Relaxed) + 1;
        Arc::new(Script { number, digest: script::digest_of(text), text: text.into(), header })
    }

    /// Returns the cached script with this digest.
    pub fn find(&self, digest: &Digest) -> Option<Arc<CachedScript>> {
        self.cache().entries.get(digest).map(|entry| Arc::clone(&entry.cached))
    }

    /// Caches a script that compiles, for `SCRIPT LOAD` if `is_loaded` is true, otherwise for `EVAL`. Returns `None` if
    /// the limits of `SCRIPT LOAD` are reached.
    pub fn insert(&self, script: Arc<Script>, is_loaded: bool, now: UnixMillis) -> Option<Arc<CachedScript>> {
        let mut cache = self.cache();
        let (digest, bytes) = (script.digest, script.bytes());
        let known = cache.entries.get(&digest).map(|entry| (Arc::clone(&entry.cached), entry.is_loaded));
        if let Some((cached, was_loaded)) = &known
            && (*was_loaded || !is_loaded)
        {
            return Some(Arc::clone(cached));
        }
        if is_loaded && (cache.loaded >= LOADED_SCRIPTS_MAX || cache.loaded_bytes + bytes > LOADED_BYTES_MAX) {
            return None;
        }
        let cached = match known {
            Some((cached, _)) => cached,
            None => {
                if !is_loaded {
                    cache.make_room();
                }
                cache.bytes += bytes;
                let (used_ms, is_removed) = (AtomicU64::new(now.0), AtomicBool::new(false));
                Arc::new(CachedScript { script, used_ms, is_removed })
            }
        };
        if is_loaded {
            cache.loaded += 1;
            cache.loaded_bytes += bytes;
        }
        cache.entries.insert(digest, CachedEntry { cached: Arc::clone(&cached), is_loaded });
        Some(cached)
    }

    /// Removes all scripts.
    pub fn flush(&self) {
        let mut cache = self.cache();
        cache.entries.values().for_each(|entry| entry.cached.is_removed.store(true, Release));
        *cache = Cache::default();
    }

    /// Returns the number of cached scripts, and their bytes.
    pub fn cached(&self) -> (usize, u64) {
        let cache = self.cache();
        (cache.entries.len(), cache.bytes)
    }

    /// Takes the right to extend a key lock set. Returns false if another script holds it.
    pub fn take_right(&self) -> bool {
        self.is_right_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Returns the right to extend a key lock set.
    pub fn return_right(&self) {
        self.is_right_taken.store(false, Release);
    }

    /// Registers a script whose execution takes more than one visit.
    pub fn register(&self, execution: &Arc<Execution>) {
        self.executions().push(Arc::clone(execution));
        self.long.fetch_add(1, Relaxed);
    }

    /// Removes a script that [`Scripts::register`] has registered.
    pub fn unregister(&self, execution: &Arc<Execution>) {
        self.executions().retain(|other| !Arc::ptr_eq(other, execution));
        self.long.fetch_sub(1, Relaxed);
    }

    /// Returns true if a script takes more than one visit.
    pub fn has_long(&self) -> bool {
        self.long.load(Relaxed) != 0
    }

    /// Returns true if a script has been in execution for too long.
    pub fn is_busy(&self, now: UnixMillis) -> bool {
        self.has_long() && self.executions().iter().any(|execution| self.is_too_slow(now.ms_since(execution.began)))
    }

    /// Returns the earliest instant that a script of more than one visit sees as the present, or `now` if there is no
    /// such script. What had not expired at that instant must not be removed.
    pub fn earliest_present(&self, now: UnixMillis) -> UnixMillis {
        if !self.has_long() {
            return now;
        }
        self.executions().iter().map(|execution| execution.began).fold(now, UnixMillis::min)
    }

    /// Returns a function in execution.
    pub fn running_function(&self) -> Option<RunningFunction> {
        let executions = self.executions();
        let running = executions.iter().find_map(|execution| Some((execution, execution.function.clone()?)));
        running.map(|(execution, name)| (name, execution.command.get().cloned().unwrap_or_default(), execution.began))
    }

    /// Ends the scripts in execution that have not written, or the functions if `of_functions` is true.
    pub fn kill(&self, of_functions: bool) -> Kill {
        let mut outcome = Kill::NotBusy;
        for execution in self.executions().iter().filter(|one| one.function.is_some() == of_functions) {
            if execution.has_written.load(Acquire) {
                outcome = if outcome == Kill::Killed { Kill::Killed } else { Kill::Unkillable };
            } else {
                execution.is_killed.store(true, Release);
                outcome = Kill::Killed;
            }
        }
        outcome
    }

    /// Records that the Lua heap of a worker has changed from `before` to `after` bytes.
    pub fn note_heap(&self, before: u64, after: u64) {
        self.heap_bytes.fetch_add(after.wrapping_sub(before), Relaxed);
    }

    /// Returns the size of the Lua heaps of all workers together, in bytes.
    pub fn heap_bytes(&self) -> u64 {
        self.heap_bytes.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_of_eval_make_room_for_newer_ones_and_loaded_ones_stay() {
        let (scripts, now) = (Scripts::default(), |ms| UnixMillis(ms));
        let text = |number: u64| format!("return {number}").into_bytes();
        let create = |number| scripts.create(&text(number), Header::default());
        let loaded = scripts.insert(create(0), true, now(0)).expect("room");
        let first = scripts.insert(create(1), false, now(1)).expect("room");
        for number in 2..=EVAL_SCRIPTS_MAX as u64 + 5 {
            assert!(first.use_at(now(number)), "a script in use stays");
            scripts.insert(create(number), false, now(number));
        }
        assert_eq!(scripts.cached().0, EVAL_SCRIPTS_MAX + 1);
        assert!(scripts.find(&loaded.script.digest).is_some());
        assert!(scripts.find(&script::digest_of(&text(2))).is_none());
        scripts.flush();
        assert!(!first.use_at(now(9)) && scripts.cached() == (0, 0));
    }
}
