//! A server that leaves its listeners, connections and memory to another one, in the same process.

mod common;

use common::{Client, config, pattern, set, start, tcp, value, wait_until};
use gannet_server::config::kinds::IoChoice;
use gannet_server::handover::Estate;
use gannet_server::start::{Ended, Running, Server, ServerConfig};
use io::listen::ListenAddr;
use std::net::SocketAddr;

fn addr_of(running: &Running, at: usize) -> SocketAddr {
    let ListenAddr::Tcp(addr) = running.addrs()[at] else { panic!("a TCP address") };
    addr
}

/// Both protocols, each at a free port, on memory that can be handed over.
fn both(io: IoChoice) -> ServerConfig {
    let free = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    ServerConfig { resp: vec![free], upgradable: true, workers: 2, io, ..config() }
}

fn estate_of(running: Running) -> Estate {
    running.shared().request_hand_over();
    match running.join() {
        Ended::HandedOver(estate) => estate,
        Ended::Stopped => panic!("nobody asked for a stop"),
    }
}

/// The configuration of who comes after `running`: the same, at the ports that it has.
fn heir_of(running: &Running, config: &ServerConfig) -> ServerConfig {
    let at = |number: usize| vec![running.addrs()[number].clone()];
    ServerConfig { memcached: at(0), resp: at(1), ..config.clone() }
}

fn bytes_read(running: &Running) -> usize {
    running.shared().workers.iter().map(|worker| worker.counters.bytes_read.value() as usize).sum()
}

fn go_on(config: ServerConfig, estate: Estate) -> Running {
    Server::prepare(config, estate).expect("it goes on").go()
}

#[test]
fn connections_items_and_ports_go_on_in_the_next_server() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let (memcached, resp) = (addr_of(&running, 0), addr_of(&running, 1));
        let mut idle = Client::connect(memcached);
        idle.ask(&set("k", b"v"), b"STORED\r\n");
        // Half of a request has been received, in the next one the rest comes.
        let mut half = Client::connect(memcached);
        let half_sent = b"set half 0 0 10\r\n01234";
        half.send(half_sent);
        let mut third = Client::connect(resp);
        let hello = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
        third.send(hello);
        wait_until("an answer", || third.stream.peek(&mut [0; 100]).is_ok_and(|bytes| bytes == 100));
        let mut waste = [0; 4096];
        let _ = std::io::Read::read(&mut third.stream, &mut waste).expect("the answer");
        let named = b"SELECT 3\r\nCLIENT SETNAME carried\r\nSET in3 x\r\n";
        third.ask(named, b"+OK\r\n+OK\r\n+OK\r\n");
        let cut = b"*2\r\n$3\r\nGET\r\n$3\r\nin";
        third.send(cut);
        wait_until("all is received", || {
            bytes_read(&running) == set("k", b"v").len() + half_sent.len() + hello.len() + named.len() + cut.len()
        });
        let heir = heir_of(&running, &config);
        let estate = estate_of(running);
        assert_eq!((estate.connections.len(), estate.listeners.len()), (3, 2), "{io:?}");
        // Whoever comes meanwhile waits.
        let mut early = Client::connect(memcached);
        early.send(b"get k\r\n");
        idle.send(b"get k\r\n");
        let running = go_on(heir, estate);
        assert_eq!((addr_of(&running, 0), addr_of(&running, 1)), (memcached, resp));
        idle.expect(&value("k", b"v"));
        early.expect(&value("k", b"v"));
        half.ask(b"56789\r\nget half\r\n", b"STORED\r\nVALUE half 0 10\r\n0123456789\r\nEND\r\n");
        third.ask(b"3\r\n", b"$1\r\nx\r\n");
        third.ask(b"CLIENT GETNAME\r\nGET none\r\n", b"$7\r\ncarried\r\n_\r\n");
        assert!(running.shared().store.reopened().is_some_and(|reopened| reopened.clean && reopened.items == 2));
        drop((idle, half, third, early));
        wait_until("all are gone", || running.shared().connections_open() == 0);
        running.stop();
    }
}

#[test]
fn a_pipeline_that_is_cut_anywhere_is_answered_whole_and_in_order() {
    const REQUESTS: usize = 300;
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let mut running = start(config.clone());
        let mut client = Client::connect(tcp(&running));
        let requests: Vec<u8> = (0..REQUESTS)
            .flat_map(|number| {
                [set("last", &pattern(number)), format!("get last\r\nmg k{number}\r\n").into_bytes()].concat()
            })
            .collect();
        for part in requests.chunks(requests.len() / 5 + 1) {
            client.send(part);
            let heir = heir_of(&running, &config);
            running = go_on(heir, estate_of(running));
        }
        for number in 0..REQUESTS {
            client.expect(&[&b"STORED\r\n"[..], &value("last", &pattern(number)), b"EN\r\n"].concat());
        }
        running.stop();
    }
}

#[test]
fn who_can_not_go_on_is_closed_and_the_others_are_not_kept_waiting_by_it() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let (memcached, resp) = (addr_of(&running, 0), addr_of(&running, 1));
    let mut subscriber = Client::connect(resp);
    subscriber.ask(b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    let mut queueing = Client::connect(resp);
    queueing.ask(b"MULTI\r\nSET k queued\r\n", b"+OK\r\n+QUEUED\r\n");
    let mut large = Client::connect(memcached);
    large.send(b"set large 0 0 1000000\r\n");
    large.send(&pattern(700_000));
    wait_until("a part of the value is received", || bytes_read(&running) > 500_000);
    let mut plain = Client::connect(resp);
    plain.ask(b"SET k v\r\n", b"+OK\r\n");
    let heir = heir_of(&running, &config);
    let estate = estate_of(running);
    assert_eq!(estate.connections.len(), 1);
    let running = go_on(heir, estate);
    subscriber.expect_end();
    queueing.expect_end();
    assert_eq!(large.read_to_end(), b"", "a value that did not arrive is not acknowledged");
    plain.ask(b"GET k\r\nEXISTS large\r\n", b"$1\r\nv\r\n:0\r\n");
    running.stop();
}

#[test]
fn many_connections_go_on_all_of_them() {
    const CLIENTS: usize = 400;
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = ServerConfig { workers: 1, ..both(io) };
        let running = start(config.clone());
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(tcp(&running))).collect();
        clients.iter_mut().for_each(|client| client.ask(b"mn\r\n", b"MN\r\n"));
        let heir = heir_of(&running, &config);
        let estate = estate_of(running);
        assert_eq!(estate.connections.len(), CLIENTS, "{io:?}");
        let running = go_on(heir, estate);
        clients.iter_mut().for_each(|client| client.ask(b"mn\r\n", b"MN\r\n"));
        running.stop();
    }
}

#[test]
fn a_stop_that_was_asked_for_first_is_a_stop() {
    let running = start(both(IoChoice::Epoll));
    running.shared().request_stop();
    running.shared().request_hand_over();
    assert!(matches!(running.join(), Ended::Stopped));
}

#[test]
fn what_is_prepared_and_dropped_closes_nothing() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("k", b"v"), b"STORED\r\n");
    let heir = heir_of(&running, &config);
    let estate = estate_of(running);
    // As two processes have them: each socket twice.
    let twice = Estate {
        listeners: (estate.listeners.iter())
            .map(|listener| {
                let fd = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned().expect("a descriptor");
                io::listen::Listener::adopt(fd, listener.addr().clone())
            })
            .collect(),
        memory: estate.memory.clone(),
        devices: estate.devices.clone(),
        connections: Vec::new(),
    };
    drop(Server::prepare(heir.clone(), twice).expect("it is prepared"));
    let running = go_on(heir, estate);
    client.ask(b"get k\r\n", &value("k", b"v"));
    Client::connect(tcp(&running)).ask(b"get k\r\n", &value("k", b"v"));
    running.stop();
}
