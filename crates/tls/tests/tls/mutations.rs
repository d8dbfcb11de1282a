//! Clients whose records are changed at random on the way: the server ends such connections, whatever arrives, and
//! never panics. A panic would end the process, with all its connections.

use crate::files::{Ca, Folder, client, settings};
use crate::world::{Client, ROUGH, SMOOTH, World, echo};
use base::prng::Prng;
use gannet_tls::{TlsSettings, Versions};
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

/// The number of connections of each test.
const CONNECTIONS: u64 = 1500;
const HEADER_BYTES: usize = 5;

/// Splits bytes into records.
fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at + HEADER_BYTES <= bytes.len() {
        let end = at + HEADER_BYTES + usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
        all.push(bytes[at..end.min(bytes.len())].to_vec());
        at = end;
    }
    all
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, 3, 3];
    record.extend_from_slice(&(body.len() as u16).to_be_bytes());
    record.extend_from_slice(body);
    record
}

/// Returns a record with contents of no client.
fn junk(prng: &mut Prng) -> Vec<u8> {
    let len = [0, 1, 2, 4, 5, 40, 600, 16_009, 16_384, 16_385, 18_432, 18_433][prng.below(12) as usize];
    let mut body: Vec<u8> = (0..len).map(|_| prng.below(256) as u8).collect();
    let kind = [20, 21, 22, 22, 22, 23, 24, 99][prng.below(8) as usize];
    if kind == 22 && len >= 4 {
        // The header of a handshake message: its type and length.
        body[0] = [1, 2, 4, 8, 11, 14, 15, 16, 20, 24, 99][prng.below(11) as usize];
        let announced = [0, 1, len as u32 - 4, len as u32 - 3, len as u32 + 1, 20_000, 65_536, 0x00ff_ffff];
        body[1..4].copy_from_slice(&announced[prng.below(8) as usize].to_be_bytes()[1..]);
    }
    record(kind, &body)
}

/// Changes the records of a client at random. Most stay as they are.
fn mutate(prng: &mut Prng, bytes: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    for mut one in records(bytes) {
        let len = one.len();
        match prng.below(24) {
            0 => {
                let at = prng.below(len as u64) as usize;
                one[at] ^= 1 << prng.below(8);
            }
            1 => one[3..5].copy_from_slice(&(prng.below(65_536) as u16).to_be_bytes()),
            2 => one.truncate(prng.below(len as u64) as usize),
            3 => one.extend_from_within(..),
            4 => one.splice(0..0, junk(prng)).for_each(drop),
            5 => one.extend(junk(prng)),
            6 => one = junk(prng),
            7 if len > HEADER_BYTES + 1 => {
                // The same message in two records, perhaps with something between them.
                let (head, body) = one.split_at(HEADER_BYTES);
                let (first, rest) = body.split_at(1 + prng.below(body.len() as u64 - 1) as usize);
                let between = if prng.chance(1, 3) { junk(prng) } else { Vec::new() };
                one = [record(head[0], first), between, record(head[0], rest)].concat();
            }
            8 => one.clear(),
            9 => one[0] = [20, 21, 22, 23][prng.below(4) as usize],
            10 if len > HEADER_BYTES + 4 => {
                let at = HEADER_BYTES + 1 + prng.below(3) as usize;
                one[at] = prng.below(256) as u8;
            }
            _ => {}
        }
        all.extend(one);
    }
    all
}

/// Moves records between a client and the server for some iterations, and changes those of the client.
fn exchange(world: &mut World, client: &mut Client, prng: &mut Prng) {
    for turn in 0..40 {
        let mut sent = Vec::new();
        while client.tls.wants_write() {
            client.tls.write_tls(&mut sent).expect("a vector accepts all");
        }
        if !sent.is_empty() {
            let bytes = mutate(prng, &sent);
            if !bytes.is_empty() {
                client.wire.send(&bytes);
            }
        }
        world.turn();
        let taken = client.wire.take(1 << 16);
        let mut left = &taken[..];
        while !left.is_empty() {
            client.tls.read_tls(&mut left).expect("a slice is read");
            let _ = client.tls.process_new_packets();
            client.read();
        }
        if turn % 3 == 2 && !client.tls.is_handshaking() {
            // A client that has received an alert writes no more.
            let _ = client.tls.writer().write_all(&vec![7; prng.below(3000) as usize]);
            if prng.chance(1, 4) {
                let _ = client.tls.refresh_traffic_keys();
            }
        }
        if client.wire.is_closed() {
            break;
        }
    }
    if prng.chance(1, 2) {
        client.wire.close_send();
    } else {
        client.wire.reset();
    }
    (0..10).for_each(|_| world.turn());
}

fn attack(versions: Versions, faults: io::sim::Faults, room: usize) {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let settings = TlsSettings { versions, ..settings(&folder, &ca) };
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings, 1, faults);
    world.room = room;
    let mut opened = 0;
    for seed in 0..CONNECTIONS {
        let mut prng = Prng::new(seed);
        let mut one = world.connect(&config, "localhost");
        exchange(&mut world, &mut one, &mut prng);
        opened += u64::from(!one.tls.is_handshaking());
        if seed % 100 == 99 {
            // The rest of the connections end, and others are served. A new world keeps the test fast.
            let mut good = world.connect(&config, "localhost");
            assert_eq!(echo(&mut world, &mut good, b"hello"), b"hello", "after seed {seed}");
            let figures = &world.tls.figures;
            assert!(figures.under_way.load(Relaxed) <= 100, "seed {seed}");
            world = World::new(&settings, seed, faults);
            world.room = room;
        }
    }
    println!("{opened} of {CONNECTIONS} clients completed their handshake");
    assert!(opened > CONNECTIONS / 10 && opened < CONNECTIONS, "both phases are attacked");
}

#[test]
fn changed_records_end_their_connection_and_nothing_else_in_tls_1_3() {
    attack(Versions::Tls13, SMOOTH, 4096);
}

#[test]
fn changed_records_end_their_connection_and_nothing_else_in_tls_1_2() {
    attack(Versions::Tls12, SMOOTH, 4096);
}

#[test]
fn changed_records_in_fragments_end_their_connection_and_nothing_else() {
    attack(Versions::Both, ROUGH, 100);
}
