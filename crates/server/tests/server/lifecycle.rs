//! Tests of the end of connections: refused, idle, slow and reset connections, and the stop of the server.

use crate::common::{Client, PATIENCE, config, pattern, set, start, tcp, value, wait_until};
use base::clock::UnixMillis;
use gannet_server::config::kinds::IoChoice;
use gannet_server::start::{Server, ServerConfig, StartError, assemble};
use segment::{Expire, Namespace, Put};
use std::time::{Duration, Instant};

const REFUSAL: &[u8] = b"ERROR Too many open connections\r\n";

#[test]
fn connection_above_the_maximum_is_refused_until_another_closes() {
    let mut config = config();
    (config.workers, config.connections_max) = (2, 3);
    let running = start(config);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(tcp(&running))).collect();
    for client in &mut clients {
        client.ask(b"get x\r\n", b"END\r\n");
    }
    for refused in 1..=5 {
        assert_eq!(Client::connect(tcp(&running)).read_to_end(), REFUSAL);
        assert_eq!(running.shared().acceptor.rejected.value(), refused);
    }
    clients.pop();
    wait_until("the close is counted", || running.shared().connections_open() == 2);
    let mut late = Client::connect(tcp(&running));
    late.ask(b"get x\r\n", b"END\r\n");
    running.stop();
}

#[test]
fn idle_connection_is_closed_but_a_busy_connection_is_not() {
    let mut config = config();
    config.idle_timeout = Some(Duration::from_millis(1500));
    let running = start(config);
    let mut idle = Client::connect(tcp(&running));
    let mut busy = Client::connect(tcp(&running));
    let begun = Instant::now();
    idle.ask(b"get x\r\n", b"END\r\n");
    let watcher = std::thread::spawn(move || {
        idle.expect_end();
        begun.elapsed()
    });
    // A client that this machine did not run in time was idle too.
    let (mut asked, mut late) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(4) || !watcher.is_finished() {
        let mut reply = [0; 5];
        busy.send(b"get x\r\n");
        if !std::io::Read::read_exact(&mut busy.stream, &mut reply).is_ok_and(|()| &reply == b"END\r\n") {
            assert!(asked.elapsed() > Duration::from_secs(1), "closed {:?} after its last request", asked.elapsed());
            (busy, late) = (Client::connect(tcp(&running)), late + 1);
        }
        asked = Instant::now();
        std::thread::sleep(Duration::from_millis(100));
    }
    let closed_after = watcher.join().unwrap();
    assert!(closed_after >= Duration::from_millis(1400), "{closed_after:?}");
    assert_eq!(running.shared().workers[0].counters.idle_closed.value(), 1 + late);
    running.stop();
}

#[test]
fn a_reader_of_a_large_value_that_stalls_gives_its_pins_back_when_it_is_dropped() {
    let mut config = config();
    config.stall_timeout = Duration::from_millis(1000);
    config.item_bytes_max = 16 << 20;
    config.memory_bytes = 256 << 20;
    let running = start(config);
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("k", &pattern(12 << 20)), b"STORED\r\n");
    client.send(&b"get k\r\n".repeat(4));
    wait_until("the pin", || running.shared().pins.used() > 0);
    let counters = &running.shared().workers[0].counters;
    wait_until("the drop", || counters.slow_readers_dropped.value() == 1);
    wait_until("the pins' return", || running.shared().pins.used() == 0);
    let mut other = Client::connect(tcp(&running));
    other.ask(b"get k\r\n", &value("k", &pattern(12 << 20)));
    running.stop();
}

#[test]
fn slow_reader_holding_pins_is_dropped_for_an_active_reader() {
    let mut config = config();
    config.item_bytes_max = 16 << 20;
    config.memory_bytes = 256 << 20;
    let running = start(config);
    let mut slow = Client::connect(tcp(&running));
    let bytes = pattern(12 << 20);
    slow.ask(&set("k", &bytes), b"STORED\r\n");
    slow.send(b"get k\r\n");
    wait_until("the pin", || running.shared().pins.used() > 0);
    let mut quick = Client::connect(tcp(&running));
    quick.ask(b"get k\r\n", &value("k", &bytes));
    assert_eq!(running.shared().workers[0].counters.slow_readers_dropped.value(), 1);
    running.stop();
}

#[test]
fn polling_worker_serves_accepts_and_stops_like_a_sleeping_worker() {
    let busy_poll = Duration::from_millis(5);
    let running = start(ServerConfig { busy_poll, ..config() });
    let counters = &running.shared().workers[0].counters;
    let mut client = Client::connect(tcp(&running));
    for round in 0..200 {
        client.ask(&set("k", &pattern(round)), b"STORED\r\n");
        client.ask(b"get k\r\n", &value("k", &pattern(round)));
        if round % 10 == 0 {
            // While it polls for the others.
            Client::connect(tcp(&running)).ask(b"get k\r\n", &value("k", &pattern(round)));
        }
    }
    assert!(counters.turns_polled.value() > 100, "{} turns", counters.turns_polled.value());
    // Nothing to do for longer than that: it sleeps.
    wait_until("the worker sleeps", || {
        let (iterations, polled) = (counters.iterations.value(), counters.turns_polled.value());
        std::thread::sleep(Duration::from_millis(500));
        counters.iterations.value() - iterations <= 20 && counters.turns_polled.value() == polled
    });
    drop(client);
    running.stop();
}

#[test]
fn worker_does_not_poll_by_default() {
    let running = start(config());
    let mut client = Client::connect(tcp(&running));
    (0..50).for_each(|_| client.ask(b"get x\r\n", b"END\r\n"));
    assert_eq!(running.shared().workers[0].counters.turns_polled.value(), 0);
    running.stop();
}

#[test]
fn a_value_that_is_replaced_while_it_is_sent_arrives_as_it_was() {
    // Large enough that whole values of 8 KiB and more may be pinned a hundred times over.
    let running = start(ServerConfig { memory_bytes: 512 << 20, ..config() });
    let mut other = Client::connect(tcp(&running));
    for len in [8 << 10, 20_000, 60_000, 120_000] {
        let (old, new) = (pattern(len), vec![b'n'; len]);
        other.ask(&set("k", &old), b"STORED\r\n");
        let mut slow = Client::connect(tcp(&running));
        let count = (16 << 20) / len;
        // More than both sockets hold.
        slow.send(&b"get k\r\n".repeat(count));
        wait_until("a pin that stays", || {
            running.shared().pins.used() > 0 && {
                std::thread::sleep(Duration::from_millis(20));
                running.shared().pins.used() > 0
            }
        });
        other.ask(&set("k", &new), b"STORED\r\n");
        for number in 0..2000 {
            other.ask(&set(&format!("churn{number}"), &new), b"STORED\r\n");
        }
        let (old, new) = (value("k", &old), value("k", &new));
        let mut reply = vec![0; old.len()];
        let mut replaced = 0;
        for number in 0..count {
            std::io::Read::read_exact(&mut slow.stream, &mut reply).unwrap();
            replaced += usize::from(reply != old);
            assert!(reply == if replaced > 0 { &new[..] } else { &old[..] }, "reply {number} of {len} bytes");
        }
        assert!(replaced > 0 && replaced < count, "{replaced} of {count} replies were of the new value");
    }
    wait_until("the pins' return", || running.shared().pins.used() == 0);
    running.stop();
}

#[test]
fn reset_during_a_large_set_preserves_the_old_value() {
    let running = start(config());
    for round in 0..8 {
        let mut client = Client::connect(tcp(&running));
        client.ask(&set("k", b"old"), b"STORED\r\n");
        client.send(b"set k 0 0 1000000\r\n");
        client.send(&pattern(50_000 * round));
        // Unread bytes make the close a reset.
        client.send(b"");
        drop(client);
    }
    wait_until("the closes", || running.shared().connections_open() == 0);
    let mut client = Client::connect(tcp(&running));
    client.ask(b"get k\r\n", &value("k", b"old"));
    let bytes = pattern(1_000_000);
    client.ask(&set("k", &bytes), b"STORED\r\n");
    client.ask(b"get k\r\n", &value("k", &bytes));
    running.stop();
}

#[test]
fn a_stop_finishes_the_request_in_flight_and_closes_idle_connections() {
    let running = start(config());
    let addr = tcp(&running);
    let mut idle = Client::connect(addr);
    idle.ask(b"get x\r\n", b"END\r\n");
    let mut half = Client::connect(addr);
    let request = set("k", &pattern(5000));
    half.send(&request[..2000]);
    let shared = running.shared().clone();
    wait_until("the half's arrival", || shared.workers[0].counters.bytes_read.value() >= 2007);
    let stopper = std::thread::spawn(move || {
        let begun = Instant::now();
        running.stop();
        begun.elapsed()
    });
    idle.expect_end();
    half.ask(&request[2000..], b"STORED\r\n");
    half.expect_end();
    assert!(stopper.join().unwrap() < PATIENCE);
    assert!(std::net::TcpStream::connect(addr).is_err(), "the listener is closed");
}

#[test]
fn a_stop_does_not_wait_longer_than_its_timeout_for_a_client_that_never_finishes() {
    let mut config = config();
    config.stop_timeout = Duration::from_millis(700);
    let running = start(config);
    let mut half = Client::connect(tcp(&running));
    half.send(b"set k 0 0 500\r\nabc");
    let shared = running.shared().clone();
    wait_until("the half's arrival", || shared.workers[0].counters.bytes_read.value() >= 18);
    let begun = Instant::now();
    running.stop();
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(600) && took < PATIENCE, "{took:?}");
    half.expect_end();
}

#[test]
fn a_stop_does_not_wait_for_clients_that_read_nothing_and_serves_those_that_read_late() {
    let stop_timeout = 2 * PATIENCE;
    let running = start(ServerConfig { stop_timeout, ..config() });
    let addr = tcp(&running);
    let bytes = pattern(1_000_000);
    Client::connect(addr).ask(&set("k", &bytes), b"STORED\r\n");
    let [mut silent, mut late] = [0; 2].map(|_| Client::connect(addr));
    let shared = running.shared().clone();
    let shorts = || shared.workers.iter().map(|worker| worker.counters.sends_short.value()).sum::<u64>();
    for (client, blocked) in [(&mut silent, 1), (&mut late, 2)] {
        client.send(&b"get k\r\n".repeat(20));
        wait_until("the client's socket is full", || shorts() >= blocked);
    }
    let begun = Instant::now();
    let stopper = std::thread::spawn(move || running.stop());
    // A pause that a lost packet may cause.
    std::thread::sleep(Duration::from_millis(1000));
    let reply = value("k", &bytes);
    let mut received = vec![0; reply.len()];
    for number in 0..20 {
        std::io::Read::read_exact(&mut late.stream, &mut received).expect("a reply");
        assert!(received == reply, "reply {number}");
    }
    late.expect_end();
    stopper.join().expect("no panic");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1900) && took < stop_timeout / 2, "{took:?}");
    drop(silent);
}

#[test]
fn a_port_in_use_is_an_error_that_names_it() {
    let running = start(config());
    let mut config = config();
    config.memcached = running.addrs().to_vec();
    let Err(error) = gannet_server::start::Server::start(config) else { panic!("two servers on one port") };
    assert!(error.to_string().contains(&tcp(&running).to_string()), "{error}");
    running.stop();
}

#[test]
fn a_clock_that_was_set_back_before_a_start_freezes_no_time_to_live() {
    let path = std::env::temp_dir().join(format!("gannet-lifecycle-{}-clock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut config = config();
    config.file = Some(path.clone());
    let ahead = UnixMillis::now().plus_ms(50 * 60 * 1000);
    {
        let (shared, mut background) = assemble(config.clone(), ahead).expect("a store");
        let mut handle = shared.store.handle().expect("a thread handle");
        let mut guard = handle.guard(ahead);
        for (name, ms) in [(&b"ended"[..], 1000), (b"old", 6000)] {
            let expire = Expire::At(ahead.plus_ms(ms));
            let key = guard.key(Namespace::DEFAULT, name);
            let stored = guard.items_mut().put(&key, &Put { expire, ..Put::set(b"v") });
            assert!(stored.is_ok());
        }
        drop(guard);
        background.slice(ahead.plus_ms(1500), &mut || false);
    }
    let running = start(config);
    let reopened = *running.shared().store.reopened().expect("a file");
    assert!(reopened.found && reopened.clock_behind_ms > 49 * 60 * 1000, "{reopened:?}");
    let mut client = Client::connect(tcp(&running));
    client.ask(
        b"set new 0 1 1\r\nv\r\nget ended old new\r\n",
        b"STORED\r\nVALUE old 0 1\r\nv\r\nVALUE new 0 1\r\nv\r\nEND\r\n",
    );
    for key in ["new", "old"] {
        wait_until("the end of an item", || {
            client.send(format!("mg {key}\r\n").as_bytes());
            crate::commands::read_until(&mut client, b"\r\n") == b"EN\r\n"
        });
    }
    running.stop();
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn start_waits_for_an_address_that_is_about_to_be_released() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = held.local_addr().expect("its address");
    let mut config = config();
    config.memcached = vec![io::listen::ListenAddr::Tcp(addr)];
    let refused = gannet_server::start::Server::start(config.clone()).map(drop).expect_err("it is in use");
    assert!(refused.to_string().contains("cannot listen on"), "{refused}");
    let freed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
    });
    let running = start(config);
    Client::connect(addr).ask(b"get x\r\n", b"END\r\n");
    freed.join().expect("it ends");
    running.stop();
}

/// If the memory file is refused at the start, no client may have connected before.
#[test]
fn connect_before_the_memory_file_is_accepted_is_refused_not_reset() {
    let path = std::env::temp_dir().join(format!("gannet-lifecycle-{}", std::process::id()));
    let held = arena::MapFile::open(&path).expect("a file");
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], crate::common::port::free_port()));
    let memcached = vec![io::listen::ListenAddr::Tcp(addr)];
    let config = ServerConfig { memcached, file: Some(path.clone()), ..config() };
    let begun = Instant::now();
    let starting = std::thread::spawn(move || Server::start(config).map(drop));
    let mut tries = 0;
    while !starting.is_finished() {
        let refused = std::net::TcpStream::connect(addr).expect_err("nobody serves");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        tries += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = starting.join().expect("it ends").expect_err("another process has the file");
    assert!(matches!(refused, StartError::File { .. }), "{refused}");
    assert!(begun.elapsed() > Duration::from_millis(500), "the start did not wait for the file: {tries} tries");
    assert!(tries > 0);
    drop(held);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn partial_requests_beyond_the_buffers_are_counted_and_delay_no_client() {
    const HALVES: usize = 700;
    let stall_timeout = 2 * PATIENCE;
    let running = start(ServerConfig { connections_max: HALVES + 2, stall_timeout, ..config() });
    let mut bystander = Client::connect(tcp(&running));
    bystander.ask(&set("k", b"v"), b"STORED\r\n");
    let request = set("h", &[b'x'; 100]);
    let mut halves: Vec<Client> = (0..HALVES).map(|_| Client::connect(tcp(&running))).collect();
    for half in &mut halves {
        half.send(&request[..25]);
    }
    let worker = &running.shared().workers[0];
    wait_until("all are set aside", || worker.aside.inputs() == HALVES as u64);
    let begun = Instant::now();
    (0..50).for_each(|_| bystander.ask(b"get k\r\n", &value("k", b"v")));
    // Without buffers this would take the whole stall timeout.
    assert!(begun.elapsed() < stall_timeout, "{:?}", begun.elapsed());
    assert!(worker.counters.set_aside.value() >= HALVES as u64 && worker.aside.bytes() < 400 * HALVES as u64);
    for half in &mut halves {
        half.send(&request[25..]);
        half.expect(b"STORED\r\n");
    }
    wait_until("nothing is set aside", || worker.aside.bytes() == 0);
    running.stop();
}

#[test]
fn client_that_floods_after_quit_is_reset_and_delays_no_other_client() {
    let running = start(config());
    let mut bystander = Client::connect(tcp(&running));
    bystander.ask(&set("k", b"v"), b"STORED\r\n");
    let mut flood = Client::connect(tcp(&running));
    let flooding = std::thread::spawn(move || {
        let bytes = [&b"quit\r\n"[..], &vec![b'x'; 1 << 20]].concat();
        let mut sent = 0;
        // It ends with a connection that is reset.
        while sent < 1 << 30 && std::io::Write::write_all(&mut flood.stream, &bytes).is_ok() {
            sent += bytes.len();
        }
        sent
    });
    (0..200).for_each(|_| bystander.ask(b"get k\r\n", &value("k", b"v")));
    let sent = flooding.join().expect("the flood ends");
    assert!(sent < 64 << 20, "{sent} bytes were taken from a connection that had quit");
    running.stop();
}

/// A client that reconnects during a stop must be refused: a connection that the stopping server still accepted would
/// lose its first request.
#[test]
fn client_closed_by_a_stop_cannot_reconnect() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        for round in 0..8 {
            let running = start(ServerConfig { io, workers: 2, ..config() });
            let addr = tcp(&running);
            let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(addr)).collect();
            clients.iter_mut().for_each(|client| client.ask(b"mn\r\n", b"MN\r\n"));
            let stop = std::thread::spawn(move || running.stop());
            for client in &mut clients {
                client.expect_end();
                let again = std::net::TcpStream::connect(addr);
                assert!(again.is_err(), "{io:?}, round {round}: let in after the end of the first connection");
            }
            stop.join().expect("it stops");
        }
    }
}
