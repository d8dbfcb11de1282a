//! Tests that need the store from inside.

pub(crate) mod crashes;
mod damage;
pub(crate) mod disk;
mod found;
mod noise;
mod parted;
mod power;
mod power_rules;
mod rebuilt;
mod scrubbed;
mod tiered;
mod together;

use crate::core::op::OpError;
use crate::{Namespace, Store, StoreConfig};

/// A change removes the parts that it replaced at once; what the background held just then was left for ever.
#[test]
fn a_part_whose_lock_is_not_had_goes_later() {
    let config = StoreConfig { memory_bytes: 4 << 20, segment_bytes: None, ..crashes::config() };
    let (store, mut background) = Store::new(&config, crashes::NOW).expect("a store");
    let mut handle = store.handle().expect("a thread handle");
    let mut attempt = |name: &[u8]| -> Result<(), OpError> {
        let mut guard = handle.guard(crashes::NOW);
        let key = guard.key(Namespace::DEFAULT, name);
        parted::put(&mut guard, &key, 2, b'a')?;
        let items = store.stats().items;
        let hidden = parted::first_part(&guard, &key);
        let held = store.index.lock(hidden).expect("nobody has it");
        // Where the key or the new part is in the same group there is no change now.
        parted::change_first(&mut guard, &key, b'b')?;
        assert_eq!(store.stats().items, items + 1, "the part that was replaced is there");
        drop(held);
        drop(guard);
        while background.slice(crashes::NOW, &mut || false).more {}
        assert_eq!(store.stats().items, items, "it has gone");
        Ok(())
    };
    let done = (0..50).any(|n| attempt(format!("key {n}").as_bytes()).is_ok());
    assert!(done, "the index has more than one group");
}
