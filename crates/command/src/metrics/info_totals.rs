//! The counts and statistics that `INFO` reports since the last reset.

use super::Command;
use super::command_stats::StatsSums;
use super::histogram::BucketCounts;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of the whole server.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct InfoCounts { $($(#[$doc])* pub $name: u64,)* }

        impl InfoCounts {
            /// Returns the increase of each count since `earlier` was read.
            pub(crate) fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

counts! {
    /// Connections that workers have received.
    connections,
    /// Operations that were executed.
    ops,
    /// Bytes that were received.
    bytes_read,
    /// Bytes that were sent.
    bytes_written,
    /// Connections that were refused because the limit of connections was reached.
    rejected,
    /// Items that expired.
    expired,
    /// Items that were evicted.
    evicted,
    /// Expired items that were never read.
    expired_unread,
    /// Evicted items that were never read.
    evicted_unread,
    /// Items on flash that were evicted with their region.
    flash_evicted,
    /// Items that a read found expired.
    read_expired,
    /// Items that a read found flushed.
    read_flushed,
    /// Receives from sockets that returned bytes.
    receives,
    /// Sends for which the kernel accepted bytes.
    sends,
    /// Connections that were closed by the idle timeout.
    idle_closed,
    /// Times at which no file descriptor was available for a new connection.
    descriptors_exhausted,
    /// CPU time of the background's slices that remove expired items, in ms.
    expire_cpu_ms,
}

/// The totals of the whole server that `INFO` and `LATENCY HISTOGRAM` report.
#[derive(Clone, Debug, Default)]
pub struct InfoTotals {
    /// Counts of the whole server.
    pub counts: InfoCounts,
    /// Statistics of Redis commands, without plain requests.
    pub stats: StatsSums,
    /// The execution times of the plain requests of each kind of [`Command::PLAIN`].
    pub plain: [BucketCounts; Command::PLAIN.len()],
}

impl InfoTotals {
    /// Returns the increase of all totals since `earlier` was read.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            counts: self.counts.since(&earlier.counts),
            stats: self.stats.since(&earlier.stats),
            plain: std::array::from_fn(|kind| self.plain[kind].since(&earlier.plain[kind])),
        }
    }
}
