//! Models of values in parts concurrent with a flush, and of leases concurrent with fills.

use shuttle::thread;

use super::{NOW, explore, store, until_done};
use crate::core::op::{Fetch, Lease, Put};
use crate::{
    Attempts, Expire, KIND_IN_PARTS, Loaded, Namespace, OpError, PartBytes, Parts, Replaced, Replacement, Value,
};

const KIND: u8 = KIND_IN_PARTS | 1;

/// A flush may happen before the write, after it, or between the write of the parts and of the head. If a value
/// remains, it is complete.
#[test]
fn first_write_during_flush_leaves_no_head_without_parts() {
    explore(|| {
        let (store, _background) = store(3);
        let mut handle = store.handle().expect("handle");
        let flushed = std::sync::Arc::clone(&store);
        let flush = thread::spawn(move || flushed.flush(Namespace::DEFAULT));
        until_done(&mut handle, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            let Loaded { version, .. } = guard.items().load(&key, &mut Attempts::default())?;
            let part = guard.parts().part_number();
            let parts = Parts { bytes: b"leaf".to_vec(), new: vec![(part, 0..4)], ..Parts::default() };
            let mut head = guard.parts().part_number().to_le_bytes().to_vec();
            head.push(1);
            head.extend_from_slice(&1u32.to_le_bytes());
            head.extend_from_slice(&[&[0; 4][..], &part.to_le_bytes(), &[0; 6]].concat());
            let new = Replacement::Typed { kind: KIND, bytes: &head, parts: Some(&parts), expire: Expire::Never };
            match guard.items_mut().replace(&key, &version, new)? {
                Replaced::Done => Ok(()),
                Replaced::Stale => Err(OpError::Parked),
            }
        });
        flush.join().expect("flush");
        let guard = handle.guard(NOW);
        let key = guard.key(Namespace::DEFAULT, b"key");
        if let Some(Value::Typed { bytes, .. }) = guard.items().peek(&key).map(|item| item.value) {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            let part = guard.parts().part(&key, word(0), word(17));
            assert_eq!(part, Some(PartBytes::Whole(b"leaf")), "a head has lost its parts");
        }
    });
}

/// If a fetch reports that another client has won the lease, the value is not filled yet. After the fill, a fetch
/// returns the value without a lease.
#[test]
fn lease_waiter_never_receives_the_filled_value() {
    explore(|| {
        let (store, _background) = store(3);
        let (mut filler, mut other) = (store.handle().expect("handle"), store.handle().expect("handle"));
        let fetch = Fetch { vivify: Some(Expire::Never), want_token: true, ..Fetch::default() };
        let token = until_done(&mut filler, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().fetch(&key, &fetch).map(|fetched| fetched.expect("it was made").item.token)
        });
        let asking = thread::spawn(move || {
            until_done(&mut other, |guard| {
                let key = guard.key(Namespace::DEFAULT, b"key");
                let fetched = guard.items_mut().fetch(&key, &fetch)?.expect("it is there");
                let filled = fetched.item.value.client_bytes() > 0;
                match fetched.lease {
                    Lease::Won => panic!("the right was given twice"),
                    Lease::AlreadyWon => assert!(!filled, "who waits sees what was filled"),
                    Lease::None => assert!(filled, "a hit has a value"),
                }
                Ok(())
            });
        });
        until_done(&mut filler, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(b"value") })
        });
        asking.join().expect("the other");
    });
}
