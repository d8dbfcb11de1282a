//! The state of a script in execution, and the Lua states that a worker retains.

use crate::keyspace::libraries::{Libraries, LibrarySet};
use crate::keyspace::scripts::{CachedScript, Execution, Scripts};
use crate::resp::state::transaction::Transaction;
use crate::shared::Shared;
use crate::visit::clock::Moment;
use script::{Digest, Input, Machine, MachineEvent};
use segment::Namespace;
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of idle Lua states that a worker retains.
const IDLE_MAX: usize = 2;
/// The maximum number of scripts that a worker finds without the shared cache.
const KNOWN_MAX: usize = 1024;

/// The next step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum NextStep {
    /// Resume the script with this input.
    Resume(Input),
    /// Act on this event.
    Act(MachineEvent),
}

/// The limits within which a script calls commands.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::resp) struct ScriptLimits {
    /// True if the script must not write.
    pub(in crate::resp) is_read_only: bool,
}

/// A script in execution.
pub(in crate::resp) struct RunningScript {
    pub(in crate::resp) machine: Machine,
    pub(in crate::resp) next: NextStep,
    pub(in crate::resp) limits: ScriptLimits,
    /// The command that the script has called and that is not complete.
    pub(in crate::resp) inner: Box<Transaction>,
    /// True if `inner` has begun and is not complete.
    pub(in crate::resp) is_calling: bool,
    /// The keys that must be locked before the script continues.
    pub(in crate::resp) wanted: Vec<(Namespace, Box<[u8]>)>,
    /// The time that the script sees.
    pub(in crate::resp) moment: Moment,
    /// The namespace in which the script's commands access keys.
    pub(in crate::resp) namespace: Namespace,
    pub(in crate::resp) execution: Arc<Execution>,
    /// The registration of `execution`, once the script takes more than one visit.
    pub(in crate::resp) registration: Option<Registration>,
    /// The size of the Lua heap before the execution, in bytes.
    pub(in crate::resp) heap_before: u64,
}

impl RunningScript {
    /// Returns true if the script has ended, and only its reply is missing.
    pub(in crate::resp) fn is_done(&self) -> bool {
        self.next == NextStep::Act(MachineEvent::Done)
    }
}

/// An execution that other clients see until this value is dropped.
pub(in crate::resp) struct Registration {
    shared: Arc<Shared>,
    execution: Arc<Execution>,
}

impl Registration {
    pub(in crate::resp) fn new(shared: &Arc<Shared>, execution: &Arc<Execution>) -> Self {
        shared.scripts.register(execution);
        Self { shared: Arc::clone(shared), execution: Arc::clone(execution) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.scripts.unregister(&self.execution);
    }
}

/// The Lua states and scripts that a worker retains.
#[derive(Default)]
pub struct WorkerScripts {
    idle: Vec<Machine>,
    /// The script that was looked up last. An execution looks its script up twice: before its keys are locked, and when
    /// it begins.
    last: Option<Arc<CachedScript>>,
    by_digest: HashMap<Digest, Arc<CachedScript>>,
    by_hash: HashMap<u64, Arc<CachedScript>>,
    /// The libraries of functions, and the number of changes when they were read.
    libraries: (u64, Arc<LibrarySet>),
}

impl WorkerScripts {
    /// Returns an idle Lua state. Creates one if there is none.
    ///
    /// # Errors
    /// If the stack cannot be allocated.
    pub(in crate::resp) fn take_machine(&mut self) -> std::io::Result<Machine> {
        self.idle.pop().map_or_else(Machine::new, Ok)
    }

    /// Retains a Lua state for the next script.
    pub(in crate::resp) fn return_machine(&mut self, mut machine: Machine, scripts: &Scripts, heap_before: u64) {
        let heap = machine.heap_bytes() as u64;
        if self.idle.len() < IDLE_MAX {
            scripts.note_heap(heap_before, heap);
            machine.free_buffers();
            self.idle.push(machine);
        } else {
            scripts.note_heap(heap_before, 0);
        }
    }

    /// Returns the libraries of functions.
    pub(in crate::resp) fn libraries(&mut self, libraries: &Libraries) -> Arc<LibrarySet> {
        let changes = libraries.changes();
        if self.libraries.0 != changes {
            self.libraries = (changes, libraries.now());
        }
        Arc::clone(&self.libraries.1)
    }

    /// Returns the known script with this digest.
    pub(in crate::resp) fn find(&mut self, digest: &Digest, scripts: &Scripts) -> Option<Arc<CachedScript>> {
        if let Some(last) = self.last.as_ref().filter(|last| last.script.digest == *digest) {
            return Some(Arc::clone(last));
        }
        if let Some(cached) = self.by_digest.get(digest) {
            return Some(Arc::clone(self.last.insert(Arc::clone(cached))));
        }
        let cached = scripts.find(digest)?;
        self.note(&cached, None);
        Some(cached)
    }

    /// Returns the script that was looked up last, if it has this text.
    pub(in crate::resp) fn last_with_text(&self, text: &[u8]) -> Option<Arc<CachedScript>> {
        self.last.as_ref().filter(|last| *last.script.text == *text).map(Arc::clone)
    }

    /// Returns the known script with this text, which has this hash.
    pub(in crate::resp) fn find_text(&mut self, hash: u64, text: &[u8]) -> Option<Arc<CachedScript>> {
        let cached = self.by_hash.get(&hash).filter(|cached| *cached.script.text == *text)?;
        Some(Arc::clone(self.last.insert(Arc::clone(cached))))
    }

    /// Remembers a cached script, whose text may be looked up by `hash`.
    pub(in crate::resp) fn note(&mut self, cached: &Arc<CachedScript>, hash: Option<u64>) {
        if self.by_digest.len() >= KNOWN_MAX {
            self.by_digest.clear();
            self.by_hash.clear();
        }
        self.by_digest.insert(cached.script.digest, Arc::clone(cached));
        if let Some(hash) = hash {
            self.by_hash.insert(hash, Arc::clone(cached));
        }
    }

    /// Forgets a script that is no longer cached.
    pub(in crate::resp) fn forget(&mut self, cached: &CachedScript) {
        self.last = None;
        self.by_digest.remove(&cached.script.digest);
        self.by_hash.retain(|_, other| other.script.number != cached.script.number);
    }
}
