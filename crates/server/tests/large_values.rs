//! Tests values of 1 MiB and of 100 MiB. The test has its own process, because it measures the whole process.

mod common;

use common::{Client, config, resident, settled_resident, start, tcp};
use gannet_server::config::kinds::IoChoice;
use gannet_server::start::ServerConfig;
use std::io::{Read, Write};

const MIB: usize = 1 << 20;
/// The maximum growth of the process beyond the store's memory, in bytes: the client's chunk, and buffers that are used
/// for the first time.
const GROWTH_MAX: u64 = 24 << 20;

/// Fills `into` with a part of a value, which differs for each `number` and `round`.
fn chunk(round: usize, number: usize, into: &mut [u8]) {
    let seed = (round * 1000 + number) as u64;
    for (at, word) in into.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed << 32 | at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
}

fn store(client: &mut Client, key: &str, mib: usize, round: usize) {
    let mut bytes = vec![0; MIB];
    client.send(format!("set {key} 0 0 {}\r\n", mib * MIB).as_bytes());
    for number in 0..mib {
        chunk(round, number, &mut bytes);
        client.stream.write_all(&bytes).expect("sends");
    }
    client.ask(b"\r\n", b"STORED\r\n");
}

fn fetch(client: &mut Client, key: &str, mib: usize, round: usize) {
    let (mut bytes, mut expected) = (vec![0; MIB], vec![0; MIB]);
    client.send(format!("get {key}\r\n").as_bytes());
    client.expect(format!("VALUE {key} 0 {}\r\n", mib * MIB).as_bytes());
    for number in 0..mib {
        client.stream.read_exact(&mut bytes).expect("the whole value");
        chunk(round, number, &mut expected);
        assert!(bytes == expected, "MiB {number} of {key} in round {round}");
    }
    client.expect(b"\r\nEND\r\n");
}

#[test]
fn values_of_100_mebibytes_round_trip_without_memory_growth() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let memory_bytes = 384 << 20;
        let running = start(ServerConfig { io, memory_bytes, item_bytes_max: 128 << 20, ..config() });
        let mut client = Client::connect(tcp(&running));
        // Everything was in use once.
        (0..4).for_each(|round| store(&mut client, &format!("warm{round}"), 100, round));
        (0..4).for_each(|round| store(&mut client, &format!("small{round}"), 1, round));
        let before = settled_resident();
        for round in 0..4 {
            store(&mut client, "large", 100, round);
            fetch(&mut client, "large", 100, round);
            for number in 0..20 {
                let key = format!("m{}", number % 5);
                store(&mut client, &key, 1, round * 100 + number);
                fetch(&mut client, &key, 1, round * 100 + number);
            }
        }
        let grown = resident().saturating_sub(before);
        assert!(grown < GROWTH_MAX, "{grown} bytes more are resident");
        let shared = running.shared().clone();
        drop(client);
        running.stop();
        assert_eq!((shared.pins.used(), shared.store.stats().pins), (0, 0), "every pin and every place is given back");
    }
}
