//! Bytes in both directions.

use crate::files::{Ca, Folder, client, settings};
use crate::world::{ROUGH, SMOOTH, World, echo, noise};
use io::sim::Faults;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn bytes_survive_any_fragmentation() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let settings = settings(&folder, &ca);
    let config = client(&ca.pem, None);
    for seed in 0..12 {
        let mut world = World::new(&settings, seed, ROUGH);
        world.room = [1, 7, 100, 4096, 70_000][seed as usize % 5];
        let mut one = world.connect(&config, "localhost");
        let bytes = noise(seed, 30_000 + 1000 * seed as usize);
        assert!(echo(&mut world, &mut one, &bytes) == bytes, "seed {seed}");
    }
}

#[test]
fn many_short_records_survive_any_fragmentation_beside_replies() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let settings = settings(&folder, &ca);
    let config = client(&ca.pem, None);
    for seed in 0..40 {
        let faults = Faults { fragment_bytes_max: 150 + 40 * seed as usize, ..ROUGH };
        let mut world = World::new(&settings, seed, faults);
        world.room = [16, 100, 512, 4096][seed as usize % 4];
        let mut one = world.connect(&config, "localhost");
        let bytes = noise(seed, 20_000);
        // Each write becomes a record of its own.
        bytes.chunks(1 + seed as usize * 7).for_each(|piece| one.write(piece));
        let mut got = Vec::new();
        world.run(&mut [&mut one], |world, clients| {
            assert!(!world.is_closed(0), "seed {seed}: the server closed the connection");
            got.extend(clients[0].read());
            got.len() >= bytes.len()
        });
        assert!(got == bytes, "seed {seed}");
    }
}

#[test]
fn pipeline_is_answered_wherever_it_is_cut() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let settings = settings(&folder, &ca);
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings, 1, SMOOTH);
    world.room = 512;
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    // Two writes become two records, which are cut at each byte of the network's stream.
    let bytes = noise(3, 700);
    let mut cut = 1;
    loop {
        one.write(&bytes[..300]);
        one.write(&bytes[300..]);
        let mut records = Vec::new();
        while one.tls.wants_write() {
            one.tls.write_tls(&mut records).unwrap();
        }
        if cut >= records.len() {
            break;
        }
        one.wire.send(&records[..cut]);
        world.turn();
        world.turn();
        one.wire.send(&records[cut..]);
        let mut got = Vec::new();
        world.run(&mut [&mut one], |_, clients| {
            got.extend(clients[0].read());
            got.len() >= bytes.len()
        });
        assert!(got == bytes, "cut at {cut}");
        cut += 1;
    }
    assert!(cut > 700);
}

#[test]
fn pipeline_behind_the_handshake_is_answered() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    for room in [16, 512, 4096] {
        let mut world = World::new(&settings(&folder, &ca), 1, SMOOTH);
        world.room = room;
        let mut one = world.connect(&config, "localhost");
        // The client sends its requests together with the end of its handshake.
        let bytes = noise(room as u64, 30_000);
        assert!(echo(&mut world, &mut one, &bytes) == bytes, "room for {room}");
        assert_eq!(world.tls.figures.open.load(Relaxed), 1);
    }
}

#[test]
fn key_updates_amid_a_long_value_change_nothing() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    let bytes = noise(5, 400_000);
    let (mut got, mut at) = (Vec::new(), 0);
    world.run(&mut [&mut one], |_, clients| {
        if at < bytes.len() {
            let end = (at + 9_000).min(bytes.len());
            clients[0].write(&bytes[at..end]);
            clients[0].tls.refresh_traffic_keys().unwrap();
            at = end;
        }
        got.extend(clients[0].read());
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
}

#[test]
fn key_updates_without_data_end_the_connection_and_no_other() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    for _ in 0..500 {
        one.tls.refresh_traffic_keys().unwrap();
    }
    let mut other = world.connect(&config, "localhost");
    world.run(&mut [&mut one], |_, clients| clients[0].wire.is_closed());
    assert_eq!(echo(&mut world, &mut other, b"hello"), b"hello");
}

#[test]
fn half_of_a_message_beside_data_changes_nothing() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    one.write(&noise(1, 3000));
    one.tls.refresh_traffic_keys().unwrap();
    let mut records = Vec::new();
    while one.tls.wants_write() {
        one.tls.write_tls(&mut records).unwrap();
    }
    // The server sends while it holds a part of a record.
    for piece in records.chunks(7) {
        one.wire.send(piece);
        world.turn();
    }
    let mut got = Vec::new();
    world.run(&mut [&mut one], |_, clients| {
        got.extend(clients[0].read());
        got.len() >= 3000
    });
    assert!(got == noise(1, 3000));
}

#[test]
fn replies_after_close_notify_still_arrive_and_the_server_closes_too() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"first words");
    one.write(b"last words");
    one.tls.send_close_notify();
    let mut got = Vec::new();
    world.run(&mut [&mut one], |world, clients| {
        got.extend(clients[0].read());
        world.is_closed(0)
    });
    one.turn();
    got.extend(one.read());
    assert_eq!(got, b"last words");
    assert_eq!(one.tls.process_new_packets().map(|state| state.peer_has_closed()), Ok(true));
    assert_eq!(world.tls.figures.truncated.load(Relaxed), 0);
    assert_eq!(world.tls.figures.open.load(Relaxed), 0);
    assert_eq!(world.memory.used.load(Relaxed), 0);
}

#[test]
fn end_without_close_notify_is_counted() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    one.wire.close_send();
    world.run(&mut [&mut one], |world, _| world.is_closed(0));
    assert_eq!(world.tls.figures.truncated.load(Relaxed), 1);
    assert_eq!(world.tls.figures.open.load(Relaxed), 0);
}

#[test]
fn reader_that_stops_holds_a_bounded_number_of_records() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 4, ROUGH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    let idle = world.memory.used.load(Relaxed);
    world.memory.peak.store(0, Relaxed);
    let bytes = noise(8, 500_000);
    one.write(&bytes);
    let mut records = Vec::new();
    while one.tls.wants_write() {
        one.tls.write_tls(&mut records).unwrap();
    }
    one.wire.send(&records);
    (0..3000).for_each(|_| world.turn());
    let held = world.memory.peak.load(Relaxed) - idle;
    assert!(held <= 200 << 10, "{held} bytes");
    let mut got = Vec::new();
    world.run(&mut [&mut one], |_, clients| {
        got.extend(clients[0].read());
        got.len() >= bytes.len()
    });
    assert!(got == bytes);
    assert_eq!(world.memory.used.load(Relaxed), idle, "an idle connection holds no buffer");
}

#[test]
fn broken_record_ends_the_connection_with_an_alert() {
    let (folder, ca) = (Folder::new(), Ca::new("ca"));
    let config = client(&ca.pem, None);
    let mut world = World::new(&settings(&folder, &ca), 2, SMOOTH);
    let mut one = world.connect(&config, "localhost");
    echo(&mut world, &mut one, b"x");
    one.wire.send(&[23, 3, 3, 0, 40, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 4, 5]);
    one.wire.send(&[9; 15]);
    world.run(&mut [&mut one], |_, clients| clients[0].error.is_some());
    assert_eq!(one.error, Some(rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)));
    assert_eq!((world.tls.figures.broken.load(Relaxed), world.tls.figures.failed_total()), (1, 0));
}
