//! The databases that a command accesses besides that of its client: those of `MOVE` and of `COPY` with `DB`.

use super::catalog::{CommandSpec, lower};
use crate::keyspace::namespaces::Namespaces;
use protocol::resp::Args;
use segment::Namespace;

/// Returns the argument that names another database in which the command accesses its keys.
fn named<'c>(entry: &CommandSpec, mut args: Args<'c>) -> Option<&'c [u8]> {
    match entry.name {
        "move" => args.nth(1),
        "copy" => {
            let (mut named, mut options) = (None, args.skip(2));
            while let Some(word) = options.next() {
                if lower(word)[..] == *b"db" {
                    named = options.next();
                }
            }
            named
        }
        _ => None,
    }
}

/// Returns the namespace, other than `here`, in which a request of the command accesses its keys. `here` is the
/// namespace of the session. If the argument is no namespace, the command itself refuses it.
pub(super) fn other(
    (here, namespaces): (Namespace, &Namespaces),
    entry: &CommandSpec,
    args: Args<'_>,
) -> Option<Namespace> {
    namespaces.find(named(entry, args)?).filter(|other| *other != here)
}

/// Returns the keys of a request with their namespaces. A request that accesses two namespaces may access each of its
/// keys in both.
pub(super) fn keys_of<'c>(
    (here, namespaces): (Namespace, &Namespaces),
    entry: &CommandSpec,
    args: Args<'c>,
) -> impl Iterator<Item = (Namespace, &'c [u8])> + use<'c> {
    let other = other((here, namespaces), entry, args);
    let elsewhere = entry.keys_of(args).map_while(move |key| Some((other?, key)));
    entry.keys_of(args).map(move |key| (here, key)).chain(elsewhere)
}
