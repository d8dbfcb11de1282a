//! Any bytes as a file that Redis saved: no panic, errors lie within the file, reading goes on from every mark to the
//! same keys, and passing over a value ends where reading it does.
#![no_main]

// The reader alone, without the rest of its crate.
#[path = "../../crates/migrate/src/rdb/mod.rs"]
mod rdb;

use libfuzzer_sys::fuzz_target;
use rdb::{Checked, RdbReader, check};

fuzz_target!(|bytes: &[u8]| {
    match check(bytes, bytes.len() as u64) {
        Ok(Checked { version, .. }) => assert!((1..=rdb::VERSION_MAX).contains(&version)),
        Err(damage) => assert!(damage.offset <= bytes.len() as u64, "{damage}"),
    }
    let Ok(mut reader) = RdbReader::new(bytes) else { return };
    loop {
        let mark = reader.mark();
        match reader.next(|_, _| true) {
            Ok(Some(entry)) => {
                let rest = &bytes[mark.offset as usize..];
                let again = RdbReader::resume(rest, mark).next(|_, _| true).expect("it was read before");
                assert_eq!(again.as_ref(), Some(&entry));
                let mut passing = RdbReader::resume(rest, mark);
                let passed = passing.next(|_, _| false).expect("it was read before").expect("it was there before");
                assert_eq!((passed.key, passing.mark()), (entry.key, reader.mark()));
            }
            Ok(None) => return,
            Err(damage) => {
                assert!(damage.offset <= bytes.len() as u64, "{damage}");
                return;
            }
        }
    }
});
