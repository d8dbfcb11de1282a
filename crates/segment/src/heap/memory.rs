//! The memory limit of the store, and its change while the store runs.
//!
//! ```text
//!   resize ──> wanted ──background──> limits in force ──> segments decommitted or given back, one by one
//! ```
//!
//! This module only records a requested resize, and the background carries it out. If the limit is raised, segments
//! become free as soon as their memory is obtained. If the limit is lowered, the eviction policy chooses the segments
//! to empty. Each segment that becomes free is decommitted, wherever it lies in the heap, and its memory is returned to
//! the kernel. The index shrinks too.
//!
//! Bounds: the lowest limit is the memory that the handles' open segments and the largest item need. The highest limit
//! is the address space that was reserved at start.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::heap::config::{Geometry, Limits};

/// The reason why the memory cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeError {
    /// The open segments, the largest item and the quotas of namespaces need more memory.
    TooSmall {
        /// The smallest possible memory limit, in bytes.
        least_bytes: u64,
    },
    /// The requested memory exceeds the reserved address space.
    TooLarge {
        /// The largest possible memory limit, in bytes.
        most_bytes: u64,
    },
}

impl std::fmt::Display for ResizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => {
                write!(f, "too small for open segments, the largest item and quotas: pass at least {least_bytes} bytes")
            }
            Self::TooLarge { most_bytes } => {
                write!(f, "more than the address space reserved at the start: pass at most {most_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for ResizeError {}

/// The requested memory, and the limits in force.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The memory limit that was last requested, in bytes.
    wanted: AtomicU64,
    // The limits in force. Only the background writes them.
    free_low: AtomicUsize,
    free_reserve: AtomicUsize,
    open_max: AtomicUsize,
    groups_max: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(geometry: &Geometry, memory_bytes: u64) -> Self {
        let Limits { free_low, free_reserve, open_max, groups_max } = geometry.limits(memory_bytes);
        Self {
            wanted: AtomicU64::new(memory_bytes),
            free_low: AtomicUsize::new(free_low),
            free_reserve: AtomicUsize::new(free_reserve),
            open_max: AtomicUsize::new(open_max),
            groups_max: AtomicUsize::new(groups_max),
        }
    }

    /// Records a request for a new memory limit, in bytes.
    pub(crate) fn request(&self, memory_bytes: u64) {
        self.wanted.store(memory_bytes, Release);
    }

    /// Returns the memory limit that was last requested, in bytes.
    pub(crate) fn wanted_bytes(&self) -> u64 {
        self.wanted.load(Acquire)
    }

    /// Replaces the limits in force.
    pub(crate) fn take(&self, limits: Limits) {
        self.free_low.store(limits.free_low, Relaxed);
        self.free_reserve.store(limits.free_reserve, Relaxed);
        self.open_max.store(limits.open_max, Relaxed);
        self.groups_max.store(limits.groups_max, Relaxed);
    }

    /// See [`Limits::free_low`].
    #[inline(always)]
    pub(crate) fn free_low(&self) -> usize {
        self.free_low.load(Relaxed)
    }

    /// See [`Limits::free_reserve`].
    #[inline(always)]
    pub(crate) fn free_reserve(&self) -> usize {
        self.free_reserve.load(Relaxed)
    }

    /// See [`Limits::open_max`].
    pub(crate) fn open_max(&self) -> usize {
        self.open_max.load(Relaxed)
    }

    /// See [`Limits::groups_max`].
    pub(crate) fn groups_max(&self) -> usize {
        self.groups_max.load(Relaxed)
    }
}
