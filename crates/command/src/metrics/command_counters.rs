//! Counters of commands: one block for each worker, written by that worker alone, summed on read.

use crate::metrics::counters::Counter;
use std::sync::Mutex;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one worker's commands since start.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct CommandCounters { $($(#[$doc])* pub $name: Counter,)* }

        /// The blocks of several workers, summed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CommandTotals { $($(#[$doc])* pub $name: u64,)* }

        impl CommandTotals {
            /// Adds one worker's block.
            pub fn add(&mut self, block: &CommandCounters) {
                $(self.$name = self.$name.wrapping_add(block.$name.value());)*
            }

            /// Returns the counts since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// Calls `see` for every counter with its name, in order.
            pub fn each(&self, mut see: impl FnMut(&'static str, u64)) {
                $(see(stringify!($name), self.$name);)*
            }
        }
    };
}

counters! {
    /// Keys looked up by a retrieval.
    cmd_get,
    /// Storage commands whose value arrived whole.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// Keys that a `touch`, a `gat` or an `mg` with `T` asked to touch.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys looked up and found.
    get_hits,
    /// Keys looked up and not found.
    get_misses,
    /// Touches of an item that was there.
    touch_hits,
    /// Touches of nothing.
    touch_misses,
    /// Deletions of an item.
    delete_hits,
    /// Deletions of nothing.
    delete_misses,
    /// Increments of an item.
    incr_hits,
    /// Increments of nothing.
    incr_misses,
    /// Decrements of an item.
    decr_hits,
    /// Decrements of nothing.
    decr_misses,
    /// Comparing stores whose CAS token was the item's.
    cas_hits,
    /// Comparing stores of nothing.
    cas_misses,
    /// Comparing stores whose CAS token was another.
    cas_badval,
    /// Items stored.
    items_stored,
    /// Values refused since they are longer than an item may be.
    store_too_large,
    /// Values refused since nothing could be evicted for them.
    store_no_memory,
    /// Authentication attempts.
    auth_cmds,
    /// Authentication attempts that failed.
    auth_errors,
    /// Commands answered with a protocol error.
    protocol_errors,
    /// Times that a session yielded to others.
    yields,
}

/// State that the commands of all workers share.
#[derive(Debug, Default)]
pub struct CommandShared {
    /// The totals at the last `stats reset`; what is reported counts from there.
    pub(crate) baseline: Mutex<CommandTotals>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_workers_and_count_from_a_reset() {
        let (one, two) = (CommandCounters::default(), CommandCounters::default());
        one.get_hits.add(3);
        two.get_hits.add(4);
        let mut before = CommandTotals::default();
        before.add(&one);
        before.add(&two);
        assert_eq!(before.get_hits, 7);
        one.get_hits.add(1);
        let mut after = CommandTotals::default();
        after.add(&one);
        after.add(&two);
        assert_eq!(after.since(&before), CommandTotals { get_hits: 1, ..CommandTotals::default() });
    }
}
