//! `SWAPDB` on several workers. `blocking.rs` compares its replies with those of Debian's Redis.

use crate::common::redis::{Replies, both, resp_addr};
use crate::common::start;
use gannet_server::start::ServerConfig;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The number of keys that all have the same value in one database.
const KEYS: usize = 8;
const SWAPS: usize = 150;

#[test]
fn each_request_sees_one_side_of_a_swap_and_later_ones_the_other() {
    let running = start(ServerConfig { workers: 3, ..both() });
    let addr = resp_addr(&running);
    let mut control = Replies::connect(addr);
    for (database, value) in [("0", "zero"), ("1", "one")] {
        control.text(&format!("SELECT {database}"));
        (0..KEYS).for_each(|key| assert_eq!(control.text(&format!("SET k{key} {value}")), "+OK"));
    }
    let (read_all, stop) =
        (format!("MGET{}", (0..KEYS).map(|key| format!(" k{key}")).collect::<String>()), AtomicBool::new(false));
    let (zero, one) = (format!("*{KEYS}{}", " $4 zero".repeat(KEYS)), format!("*{KEYS}{}", " $3 one".repeat(KEYS)));
    let writes = std::thread::scope(|scope| {
        let (read_all, stop, zero, one) = (&read_all, &stop, &zero, &one);
        let readers = (0..3).map(|number| {
            scope.spawn(move || {
                let mut client = Replies::connect(addr);
                client.text(&format!("SELECT {}", number % 2));
                let mut seen = [0_usize; 2];
                while !stop.load(Relaxed) {
                    let found = client.text(read_all);
                    assert!(found == *zero || found == *one, "{found}");
                    seen[usize::from(found == *one)] += 1;
                }
                seen
            })
        });
        let readers: Vec<_> = readers.collect();
        let writers = (0..3).map(|number| {
            scope.spawn(move || {
                let mut client = Replies::connect(addr);
                client.text(&format!("SELECT {}", number % 2));
                let mut written = 0;
                while !stop.load(Relaxed) {
                    let line = match written % 3 {
                        0 => format!("SET w{number}:{written} v"),
                        1 => format!("MSET w{number}:{written} v w{number}:{} v", written + 1),
                        _ => format!("SADD w{number}:{written} v"),
                    };
                    client.text(&line);
                    written += if written % 3 == 1 { 2 } else { 1 };
                }
                written
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut others = [Replies::connect(addr), Replies::connect(addr)];
        others[1].text("SELECT 1");
        for swap in 0..SWAPS {
            assert_eq!(control.text("SWAPDB 0 1"), "+OK");
            let (first, second) = if swap % 2 == 0 { ("$3 one", "$4 zero") } else { ("$4 zero", "$3 one") };
            assert_eq!((others[0].text("GET k3"), others[1].text("GET k3")), (first.to_owned(), second.to_owned()));
        }
        stop.store(true, Relaxed);
        for reader in readers {
            let seen = reader.join().expect("a reader");
            assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
        }
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum::<usize>()
    });
    let sizes: Vec<usize> = ["0", "1"]
        .iter()
        .map(|database| {
            control.text(&format!("SELECT {database}"));
            control.text("DBSIZE")[1..].parse().expect("a number")
        })
        .collect();
    assert_eq!(sizes[0] + sizes[1], writes + 2 * KEYS, "no acknowledged key is lost or in both: {sizes:?}");
    assert!(sizes.iter().all(|size| *size > KEYS), "{sizes:?}");
    running.stop();
}

#[test]
fn databases_are_reported_by_their_numbers_after_a_swap() {
    let running = start(ServerConfig { workers: 2, ..both() });
    let addr = resp_addr(&running);
    let (mut client, mut other) = (Replies::connect(addr), Replies::connect(addr));
    client.text("SELECT 4");
    client.text("MSET a 1 b 2");
    assert_eq!(other.text("SWAPDB 4 9"), "+OK");
    assert_eq!(client.text("DBSIZE"), ":0");
    assert!(client.text("CLIENT INFO").contains(" db=4 "));
    assert!(client.text("INFO keyspace").contains("db9:keys=2,"));
    assert_eq!((client.text("SELECT 9"), client.text("GET b")), ("+OK".to_owned(), "$1 2".to_owned()));
    assert!(client.text("CLIENT INFO").contains(" db=9 "));
    assert_eq!(client.text("EVAL return(redis.call('get','b')) 0"), "$1 2");
    assert!(
        client.text("EVAL return(redis.call('swapdb',0,1)) 0").starts_with("-ERR SWAPDB is not allowed from scripts")
    );
    running.stop();
}

#[test]
fn swapped_databases_remain_so_after_restarts_with_a_memory_file() {
    let path = std::env::temp_dir().join(format!("gannet-swapdb-{}", std::process::id()));
    let config = || ServerConfig { file: Some(path.clone()), ..both() };
    let running = start(config());
    let mut client = Replies::connect(resp_addr(&running));
    assert_eq!(client.text("SET k zero"), "+OK");
    assert_eq!(client.text("SWAPDB 0 6"), "+OK");
    running.stop();
    for start_number in 0..3 {
        let running = start(config());
        let mut client = Replies::connect(resp_addr(&running));
        let place = if start_number % 2 == 0 { 6 } else { 0 };
        for database in [0, 6] {
            assert_eq!(client.text(&format!("SELECT {database}")), "+OK");
            let found = if database == place { ":1" } else { ":0" };
            assert_eq!(client.text("EXISTS k"), found, "database {database} after start {start_number}");
        }
        assert_eq!(client.text("SWAPDB 6 0"), "+OK");
        running.stop();
    }
    let _ = std::fs::remove_file(&path);
}
