//! The figures of namespaces, as commands and the admin port report them.

use super::namespaces::{Namespaces, UsageStats};
use crate::metrics::command_counters::CommandTotals;
use crate::shared::Shared;
use segment::{Namespace, NamespaceStats};

/// The figures of a namespace, as commands and the admin port report them.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The namespace's number.
    pub namespace: Namespace,
    /// The namespace's name, or its number if it has no name.
    pub name: String,
    /// The store's statistics of the namespace.
    pub store: NamespaceStats,
    /// The namespace's use of its quotas.
    pub room: UsageStats,
    /// Counters of the commands that were executed in the namespace.
    pub commands: CommandTotals,
}

/// Returns the figures of the default namespace, and of each namespace that has a name or has been used.
pub fn figures(shared: &Shared) -> Vec<Figures> {
    let named = shared.namespaces.named();
    let read = |namespace: Namespace| {
        let (store, room) = (shared.store.namespace_stats(namespace), shared.namespaces.stats(namespace));
        let used = store.items + store.evicted + store.expired + store.flushed + room.connections > 0;
        let is_named = named.iter().any(|config| config.number == namespace.0);
        (namespace == Namespace::DEFAULT || is_named || used).then(|| {
            let mut commands = CommandTotals::default();
            shared.workers.iter().for_each(|worker| commands.add(&worker.commands[usize::from(namespace.0)]));
            Figures { namespace, name: shared.namespaces.name(namespace), store, room, commands }
        })
    };
    Namespaces::numbers().filter_map(read).collect()
}
