//! Statistics of gRPC calls by method. Each worker has its own, and a reader sums those of all workers.
//!
//! Memory is allocated at the first call of a worker: about 6 KiB for each method.

use super::counters::Counter;
use super::histogram::{BucketCounts, CoarseHistogram};
use std::sync::OnceLock;

/// The number of status codes of gRPC.
pub const STATUSES: usize = 17;

/// The statistics of one method on one worker.
#[derive(Debug, Default)]
struct MethodRow {
    /// The times of calls: from the end of the request to the start of the execution, of the execution, and from its
    /// end to the last byte in the output.
    parts: [CoarseHistogram; 3],
    statuses: [Counter; STATUSES],
}

/// The statistics of all methods on one worker. Only that worker writes them.
#[derive(Debug)]
pub struct CallStats {
    methods: usize,
    rows: OnceLock<Box<[MethodRow]>>,
}

impl CallStats {
    /// Creates the statistics of `methods` methods.
    pub fn new(methods: usize) -> Self {
        Self { methods, rows: OnceLock::new() }
    }

    fn row(&self, method: usize) -> &MethodRow {
        &self.rows.get_or_init(|| (0..self.methods).map(|_| MethodRow::default()).collect())[method]
    }

    /// Counts a call that ended with a status. `parts_ns`: its times, if it was executed.
    #[inline]
    pub fn record(&self, method: usize, status: usize, parts_ns: Option<[u64; 3]>) {
        let row = self.row(method);
        row.statuses[status].add(1);
        for (part, ns) in row.parts.iter().zip(parts_ns.into_iter().flatten()) {
            part.record(ns);
        }
    }
}

/// The statistics of one method, summed over all workers.
#[derive(Clone, Debug, Default)]
pub struct MethodSums {
    /// The times of executed calls: wait, execute, send.
    pub parts: [BucketCounts; 3],
    /// The number of calls by their status.
    pub statuses: [u64; STATUSES],
}

/// Reads the statistics of all workers. Returns the sums of each method.
pub fn sums<'s>(workers: impl IntoIterator<Item = &'s CallStats>) -> Vec<MethodSums> {
    let mut sums = Vec::new();
    for stats in workers {
        sums.resize_with(stats.methods, MethodSums::default);
        for (sum, row) in sums.iter_mut().zip(stats.rows.get().into_iter().flatten()) {
            sum.parts.iter_mut().zip(&row.parts).for_each(|(sum, part)| sum.add_coarse(part));
            sum.statuses.iter_mut().zip(&row.statuses).for_each(|(sum, count)| *sum += count.value());
        }
    }
    sums
}
