//! Measures the memory overhead of a record. `GANNET_RECORDS=10000000 cargo test -p gannet-server --test
//! resp_record_memory -- --nocapture` runs with ten million records, in less than 4 GB.

mod common;

use base::prng::Prng;
use command::clients::endpoint::Protocol;
use common::redis::Replies;
use common::{config, start};
use gannet_server::start::ServerConfig;
use io::listen::ListenAddr;

/// The number of records that one request stores.
const BATCH: u64 = 100;
/// The bytes of the index for each item: an 8-byte slot, divided by the lowest load at which the index grows.
const INDEX_BYTES: u64 = 10;
/// The bytes of Aerospike's index for a record.
const AEROSPIKE_INDEX_BYTES: u64 = 64;

fn key(number: u64) -> String {
    format!("user:{number:08}")
}

/// Returns ten bytes that are not a number, so that they are stored unchanged.
fn value(number: u64, bin: u64) -> String {
    format!("v{:09}", (number * 10 + bin) % 1_000_000_000)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn a_record_of_ten_bins_of_ten_bytes_costs_less_beyond_them_than_aerospikes_index_entry() {
    let records = std::env::var("GANNET_RECORDS").map_or(20_000, |text| text.parse().expect("a number of records"));
    // 4 GB for ten million.
    let memory_bytes = (records * 400).max(64 << 20);
    let resp = vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())];
    let running = start(ServerConfig { resp, memory_bytes, memory_bytes_max: 0, ..config() });
    let addr = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    let mut redis = Replies::connect(addr.expect("an address of this protocol"));
    let before = resident_bytes();
    let bins: Vec<String> = (0..10).map(|bin| format!("bin{bin} STR")).collect();
    let shape = format!("users({})", bins.join(", "));
    let begun = std::time::Instant::now();
    let whole = [format!("*{BATCH}\r\n").into_bytes(), b":1\r\n".repeat(BATCH as usize)].concat();
    for first in (0..records).step_by(BATCH as usize) {
        let mut words = vec![b"REC.MPUT".to_vec(), shape.clone().into_bytes()];
        for number in first..first + BATCH {
            words.push(key(number).into_bytes());
            words.extend((0..10).map(|bin| value(number, bin).into_bytes()));
        }
        let reply = redis.ask(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(reply, whole);
    }
    let stored_in = begun.elapsed();
    let mut prng = Prng::new(records);
    for _ in 0..2000 {
        let number = prng.below(records);
        let reply = redis.ask(&[b"REC.GET", key(number).as_bytes(), b"BINS", b"bin7"]);
        assert_eq!(
            reply,
            format!("*3\r\n:1\r\n:-1\r\n*2\r\n$4\r\nbin7\r\n$10\r\n{}\r\n", value(number, 7)).into_bytes()
        );
    }
    let stats = running.shared().store_stats();
    assert_eq!(stats.items, records, "all of them are there");
    let (held, key_bytes) = (100, key(0).len() as u64);
    let each = stats.item_bytes / records + INDEX_BYTES;
    let beyond = each - held - key_bytes;
    println!(
        "{records} records of 10 bins of 10 bytes under {memory_bytes} bytes: {each} bytes each with a key of \
         {key_bytes}, \
         {beyond} beyond key and values; the process grew by {} bytes a record; stored in {stored_in:?}",
        (resident_bytes() - before) / records
    );
    assert!(beyond < AEROSPIKE_INDEX_BYTES, "{beyond} bytes");
    running.stop();
}
