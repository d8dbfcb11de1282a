//! Counters of commands. Each worker writes its own block of counters, and a reader sums all blocks.

use crate::metrics::counters::Counter;
use crate::metrics::info_totals::InfoTotals;
use std::sync::Mutex;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The command counters of one worker since start.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct CommandCounters { $($(#[$doc])* pub $name: Counter,)* }

        /// The command counters of several workers, summed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CommandTotals { $($(#[$doc])* pub $name: u64,)* }

        impl CommandTotals {
            /// Adds one worker's counters.
            pub fn add(&mut self, block: &CommandCounters) {
                $(self.$name = self.$name.wrapping_add(block.$name.value());)*
            }

            /// Returns the increase of each counter since the totals `earlier` were read.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(earlier.$name),)* }
            }

            /// Calls `see` with the name and value of every counter, in order.
            pub fn each(&self, mut see: impl FnMut(&'static str, u64)) {
                $(see(stringify!($name), self.$name);)*
            }
        }
    };
}

counters! {
    /// Keys looked up by a retrieval that is not counted as a touch.
    cmd_get,
    /// Storage commands whose value was received completely.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// Keys that a `touch` or a `gat` tried to touch, or that an `mg` with the flag `T` found.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys of `cmd_get` that existed.
    get_hits,
    /// Keys of `cmd_get` that did not exist.
    get_misses,
    /// Touches that found their item.
    touch_hits,
    /// Touches that found no item.
    touch_misses,
    /// Deletions that found their item.
    delete_hits,
    /// Deletions that found no item.
    delete_misses,
    /// Increments that found their item.
    incr_hits,
    /// Increments that found no item.
    incr_misses,
    /// Decrements that found their item.
    decr_hits,
    /// Decrements that found no item.
    decr_misses,
    /// Compare-and-swap stores whose CAS token matched the item's.
    cas_hits,
    /// Compare-and-swap stores that found no item.
    cas_misses,
    /// Compare-and-swap stores whose CAS token did not match.
    cas_badval,
    /// Items that were stored.
    items_stored,
    /// Values that were refused because they exceed the maximum item size.
    store_too_large,
    /// Values that were refused because no memory could be freed for them.
    store_no_memory,
    /// Authentication attempts.
    auth_cmds,
    /// Authentication attempts that failed.
    auth_errors,
    /// Authentication attempts that were answered late, because of earlier failures from the same source.
    auth_delayed,
    /// Requests that were refused because their user has no right to the command.
    denied_commands,
    /// Requests that were refused because their user has no right to one of the keys.
    denied_keys,
    /// Requests that were refused because their user has no right to one of the channels.
    denied_channels,
    /// Requests that were refused because their user has no right to the namespace.
    denied_namespaces,
    /// Requests that were refused because their user's quota of requests per second was used up.
    user_ops_refused,
    /// Commands that were answered with a protocol error.
    protocol_errors,
    /// The number of times that a session yielded to other sessions before all its requests were executed.
    yields,
}

impl CommandCounters {
    /// Counts a refused request by the kind of right that is missing.
    pub(crate) fn note_denied(&self, reason: &str) {
        match reason {
            "command" => self.denied_commands.add(1),
            "key" => self.denied_keys.add(1),
            "channel" => self.denied_channels.add(1),
            _ => self.denied_namespaces.add(1),
        }
    }
}

/// The state of the command counters that all workers share.
#[derive(Debug, Default)]
pub struct CommandShared {
    /// The totals at the last `stats reset`. They are subtracted from all reported counts.
    pub(crate) baseline: Mutex<CommandTotals>,
    /// The totals of `INFO` at the last reset. They are subtracted from all totals that `INFO` reports.
    pub(crate) info_baseline: Mutex<InfoTotals>,
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
