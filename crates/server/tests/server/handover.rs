//! Tests of a server that hands its listeners, connections and memory over to another server in the same process.

use crate::common::{Client, config, pattern, set, start, tcp, value, wait_until};
use command::clients::endpoint::Protocol;
use gannet_server::config::kinds::IoChoice;
use gannet_server::handover::HandoverState;
use gannet_server::start::{EndedThread, Running, Server, ServerConfig};
use io::listen::ListenAddr;
use std::net::SocketAddr;

fn addr_of(running: &Running, at: usize) -> SocketAddr {
    let ListenAddr::Tcp(addr) = running.addrs()[at] else { panic!("a TCP address") };
    addr
}

/// Returns a configuration with both protocols, each at a free port, and with memory that can be handed over.
fn both(io: IoChoice) -> ServerConfig {
    let free = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
    ServerConfig { resp: vec![free], upgradable: true, workers: 2, io, ..config() }
}

fn handover_state_of(running: Running) -> HandoverState {
    running.shared().request_hand_over();
    match running.join() {
        EndedThread::HandedOver(handover_state) => handover_state,
        EndedThread::Stopped => panic!("nobody asked for a stop"),
    }
}

/// Returns the configuration of the successor of `running`: the same, with its actual ports.
fn successor_of(running: &Running, config: &ServerConfig) -> ServerConfig {
    let at = |number: usize| vec![running.addrs()[number].clone()];
    ServerConfig { memcached: at(0), resp: at(1), ..config.clone() }
}

fn bytes_read(running: &Running) -> usize {
    running.shared().workers.iter().map(|worker| worker.counters.bytes_read.value() as usize).sum()
}

/// Returns the next line that a client receives, without its line end.
fn line(client: &mut Client) -> String {
    let mut all = Vec::new();
    while !all.ends_with(b"\n") {
        let mut part = [0; 512];
        let there = client.stream.peek(&mut part).expect("a line");
        assert!(there > 0, "closed in the midst of a line: {}", all.escape_ascii());
        let end = part[..there].iter().position(|byte| *byte == b'\n').map_or(there, |at| at + 1);
        client.expect(&part[..end]);
        all.extend_from_slice(&part[..end]);
    }
    String::from_utf8_lossy(&all).trim_end().to_owned()
}

fn go_on(config: ServerConfig, handover_state: HandoverState) -> Running {
    Server::prepare(config, handover_state).expect("it goes on").go()
}

#[test]
fn connections_items_and_ports_go_on_in_the_next_server() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let (memcached, resp) = (addr_of(&running, 0), addr_of(&running, 1));
        let mut idle = Client::connect(memcached);
        idle.ask(&set("k", b"v"), b"STORED\r\n");
        // The old server has received half of a request. The client sends the rest to the new server.
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
        let cut = b"CLIENT REPLY SKIP\r\n*2\r\n$3\r\nGET\r\n$3\r\nin";
        third.send(cut);
        wait_until("all is received", || {
            bytes_read(&running) == set("k", b"v").len() + half_sent.len() + hello.len() + named.len() + cut.len()
        });
        let successor = successor_of(&running, &config);
        let handover_state = handover_state_of(running);
        assert_eq!((handover_state.connections.len(), handover_state.listeners.len()), (3, 2), "{io:?}");
        // A client that connects during the handover waits.
        let mut early = Client::connect(memcached);
        early.send(b"get k\r\n");
        idle.send(b"get k\r\n");
        let running = go_on(successor, handover_state);
        assert_eq!((addr_of(&running, 0), addr_of(&running, 1)), (memcached, resp));
        idle.expect(&value("k", b"v"));
        early.expect(&value("k", b"v"));
        half.ask(b"56789\r\nget half\r\n", b"STORED\r\nVALUE half 0 10\r\n0123456789\r\nEND\r\n");
        third.ask(b"3\r\nGET in3\r\n", b"$1\r\nx\r\n");
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
            let successor = successor_of(&running, &config);
            running = go_on(successor, handover_state_of(running));
        }
        for number in 0..REQUESTS {
            client.expect(&[&b"STORED\r\n"[..], &value("last", &pattern(number)), b"EN\r\n"].concat());
        }
        running.stop();
    }
}

#[test]
fn handover_closes_only_connections_with_an_unfinished_value() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let (memcached, resp) = (addr_of(&running, 0), addr_of(&running, 1));
    let mut large = Client::connect(memcached);
    large.send(b"set large 0 0 1000000\r\n");
    large.send(&pattern(700_000));
    wait_until("a part of the value is received", || bytes_read(&running) > 500_000);
    let mut plain = Client::connect(resp);
    plain.ask(b"SET k v\r\n", b"+OK\r\n");
    let successor = successor_of(&running, &config);
    let handover_state = handover_state_of(running);
    assert_eq!(handover_state.connections.len(), 1);
    let running = go_on(successor, handover_state);
    assert_eq!(large.read_to_end(), b"", "a value that did not arrive is not acknowledged");
    plain.ask(b"GET k\r\nEXISTS large\r\n", b"$1\r\nv\r\n:0\r\n");
    running.stop();
}

/// A handover must not close subscribers or lose messages that are published meanwhile.
#[test]
fn subscribers_go_on_with_every_message_once_and_in_order() {
    const MESSAGES: usize = 3000;
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let mut running = start(config.clone());
        let resp = addr_of(&running, 1);
        let mut second = Client::connect(resp);
        second.ask(b"SUBSCRIBE news\r\n", b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        let mut third = Client::connect(resp);
        third.send(b"HELLO 3\r\n");
        wait_until("an answer", || third.stream.peek(&mut [0; 100]).is_ok_and(|bytes| bytes == 100));
        let _ = std::io::Read::read(&mut third.stream, &mut [0; 4096]).expect("the answer");
        third.ask(b"PSUBSCRIBE n*\r\n", b">3\r\n$10\r\npsubscribe\r\n$2\r\nn*\r\n:1\r\n");
        let mut monitor = Client::connect(resp);
        monitor.ask(b"MONITOR\r\n", b"+OK\r\n");
        let (first, last) = (Client::connect(resp), Client::connect(resp));
        let publishers: Vec<_> = [first, last]
            .into_iter()
            .map(|mut client| {
                std::thread::spawn(move || {
                    for number in 0..MESSAGES {
                        let text = format!("PUBLISH news {number}\r\n");
                        client.ask(text.as_bytes(), b":2\r\n");
                    }
                })
            })
            .collect();
        for _ in 0..4 {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let successor = successor_of(&running, &config);
            running = go_on(successor, handover_state_of(running));
        }
        publishers.into_iter().for_each(|publisher| publisher.join().expect("each message has two receivers"));
        let texts = |client: &mut Client, head: &[u8], each: usize| {
            let mut next = [0; 2];
            for _ in 0..2 * MESSAGES {
                client.expect(head);
                let length = line(client);
                let text = line(client);
                assert_eq!(length, format!("${}", text.len()));
                let number: usize = text.parse().expect("a number");
                // Those of one publisher come in their order.
                let at = next.iter().position(|next| *next == number).expect("the next one of somebody");
                next[at] += 1;
            }
            assert_eq!(next, [MESSAGES; 2], "{each}");
        };
        texts(&mut second, b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n", 2);
        texts(&mut third, b">4\r\n$8\r\npmessage\r\n$2\r\nn*\r\n$4\r\nnews\r\n", 3);
        let replied: usize = (0..2 * MESSAGES).filter(|_| line(&mut monitor).contains("\"PUBLISH\" \"news\"")).count();
        assert_eq!(replied, 2 * MESSAGES, "{io:?}");
        second.ask(b"PING\r\n", b"*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        third.ask(b"PUNSUBSCRIBE n*\r\n", b">3\r\n$12\r\npunsubscribe\r\n$2\r\nn*\r\n:0\r\n");
        running.stop();
    }
}

/// A client must not retain copies of values that change during a handover.
#[test]
fn tracking_goes_on_and_all_copies_are_invalidated() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let resp = addr_of(&running, 1);
        let (mut reader, mut broad) = (Client::connect(resp), Client::connect(resp));
        for (client, mode) in [
            (&mut reader, &b"CLIENT TRACKING ON OPTOUT NOLOOP\r\n"[..]),
            (&mut broad, b"CLIENT TRACKING ON BCAST PREFIX k\r\n"),
        ] {
            client.send(b"HELLO 3\r\n");
            while line(client) != "modules" {}
            client.expect(b"*0\r\n");
            client.ask(mode, b"+OK\r\n");
        }
        reader.ask(b"GET k\r\n", b"_\r\n");
        let successor = successor_of(&running, &config);
        let handover_state = handover_state_of(running);
        let running = go_on(successor, handover_state);
        let all = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
        reader.expect(all);
        broad.expect(all);
        reader.ask(b"GET k\r\n", b"_\r\n");
        Client::connect(resp).ask(b"SET k v\r\n", b"+OK\r\n");
        let one = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        reader.expect(one);
        broad.expect(one);
        reader.ask(
            b"CLIENT CACHING YES\r\n",
            b"-ERR CLIENT CACHING YES is only valid when tracking is enabled in \
            OPTIN mode.\r\n",
        );
        running.stop();
    }
}

/// A handover must not end transactions that have begun, or lose their watched keys.
#[test]
fn transactions_go_on_and_keys_that_changed_meanwhile_are_known_to_have() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let resp = addr_of(&running, 1);
        let mut other = Client::connect(resp);
        other.ask(b"SET k 1\r\nSET gone x\r\nSET moved x\r\n", b"+OK\r\n+OK\r\n+OK\r\n");
        let mut queueing = Client::connect(resp);
        queueing.ask(b"SELECT 2\r\nMULTI\r\nSET a 1\r\nINCR a\r\n", b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n");
        let mut spoilt = Client::connect(resp);
        spoilt.ask(b"MULTI\r\n", b"+OK\r\n");
        spoilt.ask(b"GET\r\n", b"-ERR wrong number of arguments for 'get' command\r\n");
        // The key that each connection watches, and whether its transaction must be executed.
        let rows: [(&[u8], bool); 7] = [
            (b"WATCH k none\r\n", true),
            (b"WATCH k\r\n", true),
            (b"WATCH gone\r\n", false),
            (b"WATCH born\r\n", false),
            (b"WATCH moved\r\n", false),
            (b"WATCH later\r\n", false),
            (b"WATCH k later2\r\n", false),
        ];
        let mut watching: Vec<Client> = rows
            .iter()
            .map(|(watch, _)| {
                let mut client = Client::connect(resp);
                client.ask(watch, b"+OK\r\n");
                client
            })
            .collect();
        other.ask(b"DEL gone\r\nSET born x\r\nDEL born\r\nAPPEND moved y\r\n", b":1\r\n+OK\r\n:1\r\n:2\r\n");
        let successor = successor_of(&running, &config);
        let handover_state = handover_state_of(running);
        assert_eq!(handover_state.connections.len(), rows.len() + 3);
        let mut running = go_on(successor, handover_state);
        other.ask(b"SET later x\r\nDEL later\r\nSET later2 x\r\n", b"+OK\r\n:1\r\n+OK\r\n");
        // Once more, with what was queued and watched elsewhere.
        let successor = successor_of(&running, &config);
        running = go_on(successor, handover_state_of(running));
        queueing.ask(b"INCR a\r\nEXEC\r\nGET a\r\n", b"+QUEUED\r\n*3\r\n+OK\r\n:2\r\n:3\r\n$1\r\n3\r\n");
        spoilt.ask(b"EXEC\r\n", b"-EXECABORT Transaction discarded because of previous errors.\r\n");
        for ((watch, is_executed), client) in rows.iter().zip(&mut watching) {
            let replied = if *is_executed { &b"*1\r\n$1\r\n1\r\n"[..] } else { b"*-1\r\n" };
            client.send(b"MULTI\r\nGET k\r\nEXEC\r\n");
            client.expect(&[b"+OK\r\n+QUEUED\r\n", replied].concat());
            let _ = watch;
        }
        other.ask(b"SELECT 2\r\nGET a\r\n", b"+OK\r\n$1\r\n3\r\n");
        running.stop();
    }
}

/// A handover must not close clients with unread replies.
#[test]
fn unread_replies_are_delivered_by_the_next_server() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let mut client = Client::connect(tcp(&running));
        let long = pattern(400_000);
        client.ask(&set("long", &long), b"STORED\r\n");
        client.ask(&set("short", b"v"), b"STORED\r\n");
        // More than sockets hold: a request that is partly answered, and behind it requests that are not executed.
        client.send(&b"get long none short\r\ngats 0 short long\r\n".repeat(15));
        let sent = || running.shared().workers.iter().map(|worker| worker.counters.sends_short.value()).sum::<u64>();
        wait_until("nobody reads", || sent() > 0);
        let successor = successor_of(&running, &config);
        let handover_state = handover_state_of(running);
        assert_eq!(handover_state.connections.len(), 1, "{io:?}");
        assert!(!handover_state.connections[0].carried.output.is_empty() || io == IoChoice::Uring);
        let running = go_on(successor, handover_state);
        let head = format!("VALUE long 0 {}", long.len());
        let answer = [head.as_bytes(), b"\r\n", &long, b"\r\nVALUE short 0 1\r\nv\r\nEND\r\n"].concat();
        for _ in 0..15 {
            client.expect(&answer);
            assert!(line(&mut client).starts_with("VALUE short 0 1 "));
            client.expect(b"v\r\n");
            assert!(line(&mut client).starts_with(&head));
            client.expect(&[&long, &b"\r\nEND\r\n"[..]].concat());
        }
        client.ask(b"mn\r\n", b"MN\r\n");
        running.stop();
    }
}

/// A handover must preserve users that commands have created, and their connections.
#[test]
fn acl_users_survive_handover_with_rights_and_connections() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let resp = addr_of(&running, 1);
    let mut admin = Client::connect(resp);
    admin.ask(b"ACL SETUSER reader on >secret ~r:* +get +auth\r\nSET r:1 v\r\n", b"+OK\r\n+OK\r\n");
    let mut reader = Client::connect(resp);
    reader.ask(b"AUTH reader secret\r\nGET r:1\r\n", b"+OK\r\n$1\r\nv\r\n");
    let successor = successor_of(&running, &config);
    let running = go_on(successor, handover_state_of(running));
    reader.ask(b"GET r:1\r\n", b"$1\r\nv\r\n");
    reader.send(b"GET other\r\n");
    assert!(line(&mut reader).starts_with("-NOPERM"), "rights go along");
    Client::connect(resp).ask(b"AUTH reader secret\r\n", b"+OK\r\n");
    admin.ask(b"ACL DELUSER reader\r\n", b":1\r\n");
    let successor = successor_of(&running, &config);
    let running = go_on(successor, handover_state_of(running));
    Client::connect(resp)
        .ask(b"AUTH reader secret\r\n", b"-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    running.stop();
}

/// Returns the reply to `CONFIG GET *` without names of ports.
fn settings(client: &mut Client) -> Vec<String> {
    client.send(b"CONFIG GET *\r\n");
    let count: usize = line(client)[1..].parse().expect("a number of texts");
    let texts: Vec<String> = (0..count)
        .map(|_| {
            line(client);
            line(client)
        })
        .collect();
    texts.chunks(2).map(|pair| pair.join("=")).filter(|pair| !pair.starts_with("port=")).collect()
}

/// A queue on which `CONFIG SET maxmemory-policy noeviction` was set would lose jobs.
#[test]
fn settings_that_config_set_has_changed_keep_their_values_in_each_next_server() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let mut client = Client::connect(addr_of(&running, 1));
    let before = settings(&mut client);
    for change in [
        "maxmemory-policy noeviction",
        "notify-keyspace-events Ex",
        "maxmemory 60mb",
        "slowlog-log-slower-than 5",
        "slowlog-max-len 77",
        "maxclients 50",
        "timeout 900",
        "tracking-table-max-keys 1234",
        "hash-max-listpack-entries 9",
        "activerehashing no",
    ] {
        client.ask(format!("CONFIG SET {change}\r\n").as_bytes(), b"+OK\r\n");
    }
    client.ask(b"CONFIG SET client-output-buffer-limit \"pubsub 20mb 0 0\"\r\n", b"+OK\r\n");
    let changed = settings(&mut client);
    let different = before.iter().zip(&changed).filter(|(before, after)| before != after).count();
    assert!(different >= 11, "{different} settings were changed");
    let mut running = running;
    for _ in 0..3 {
        let successor = successor_of(&running, &config);
        running = go_on(successor, handover_state_of(running));
        assert_eq!(settings(&mut client), changed);
    }
    client.ask(b"CONFIG SET maxmemory-policy allkeys-lfu timeout 0\r\n", b"+OK\r\n");
    let changed = settings(&mut client);
    let successor = successor_of(&running, &config);
    let running = go_on(successor, handover_state_of(running));
    assert_eq!(settings(&mut client), changed);
    running.stop();
}

/// Clients from before `CONFIG SET requirepass` need no password, also after a handover.
#[test]
fn clients_from_before_a_password_was_set_go_on_without_it_in_the_next_server() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let resp = addr_of(&running, 1);
    let [mut issuer, mut early, mut queues, mut late] = [(); 4].map(|()| Client::connect(resp));
    early.ask(b"SET k v\r\n", b"+OK\r\n");
    queues.ask(b"MULTI\r\nGET k\r\n", b"+OK\r\n+QUEUED\r\n");
    late.ask(b"PING\r\n", b"+PONG\r\n");
    issuer.ask(b"CONFIG SET requirepass secret\r\n", b"+OK\r\n");
    late.ask(b"AUTH secret\r\n", b"+OK\r\n");
    let mut unknown = Client::connect(resp);
    unknown.ask(b"GET k\r\n", b"-NOAUTH Authentication required.\r\n");
    let mut running = running;
    for _ in 0..2 {
        let successor = successor_of(&running, &config);
        running = go_on(successor, handover_state_of(running));
        for client in [&mut issuer, &mut early, &mut late] {
            client.ask(b"GET k\r\n", b"$1\r\nv\r\n");
        }
        for client in [&mut unknown, &mut Client::connect(resp)] {
            client.ask(b"GET k\r\n", b"-NOAUTH Authentication required.\r\n");
        }
    }
    queues.ask(b"EXEC\r\n", b"*1\r\n$1\r\nv\r\n");
    running.stop();
}

/// Clients that never authenticated must do so at a new process that requires it, also those that only receive.
#[test]
fn clients_without_a_user_must_authenticate_if_the_next_process_requires_it() {
    let users = std::env::temp_dir().join(format!("gannet-handover-users-{}", std::process::id()));
    std::fs::write(&users, "ann:right\n").expect("written");
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let (memcached, resp) = (tcp(&running), addr_of(&running, 1));
    let [mut plain, mut queues, mut waits, mut hears] = [(); 4].map(|()| Client::connect(resp));
    plain.ask(b"PING\r\n", b"+PONG\r\n");
    queues.ask(b"MULTI\r\nSET k v\r\n", b"+OK\r\n+QUEUED\r\n");
    hears.ask(b"SUBSCRIBE c\r\n", b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    waits.send(b"BLPOP list 0\r\n");
    let mut text = Client::connect(memcached);
    text.ask(b"get k\r\n", b"END\r\n");
    let next = ServerConfig { auth_file: Some(users.clone()), ..config };
    let successor = successor_of(&running, &next);
    // Another process reads the files of users, as here.
    let running = go_on(successor, HandoverState { known: None, ..handover_state_of(running) });
    plain.ask(b"GET k\r\n", b"-NOAUTH Authentication required.\r\n");
    queues.send(b"EXEC\r\n");
    let refused = line(&mut queues);
    assert!(refused.contains("Authentication required"), "{refused}");
    text.ask(b"get k\r\n", b"CLIENT_ERROR unauthenticated\r\n");
    waits.expect(b"-NOAUTH Authentication required.\r\n");
    hears.stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).expect("a socket");
    assert!(hears.read_to_end().is_empty(), "closed, without a message");
    plain.ask(b"AUTH ann right\r\nGET k\r\n", b"+OK\r\n$-1\r\n");
    running.stop();
    std::fs::remove_file(users).expect("it is there");
}

/// A server that resumes after a failed takeover must not read the files of users again: it would exit if a file were
/// invalid.
#[test]
fn resume_after_failed_takeover_does_not_read_changed_files_again() {
    let file = |name: &str| std::env::temp_dir().join(format!("gannet-handover-{}-{name}", std::process::id()));
    let (rights, socket) = (file("acl"), file("socket"));
    std::fs::write(&rights, "user reader on >secret ~* +get\n").expect("written");
    let unix = ListenAddr::Unix { path: socket.clone(), mode: 0o600 };
    let config = ServerConfig {
        acl_file: Some(rights.clone()),
        endpoints: vec![(Protocol::Resp.into(), unix)],
        ..both(IoChoice::Epoll)
    };
    let running = start(config.clone());
    let resp = addr_of(&running, 1);
    let mut reader = Client::connect(resp);
    reader.ask(b"AUTH reader secret\r\n", b"+OK\r\n");
    let successor = successor_of(&running, &config);
    let handover_state = handover_state_of(running);
    std::fs::write(&rights, "nonsense").expect("written");
    std::fs::remove_file(&socket).expect("it is there");
    let running = go_on(successor, handover_state);
    reader.ask(b"GET none\r\n", b"$-1\r\n");
    Client::connect(resp).ask(b"AUTH reader secret\r\n", b"+OK\r\n");
    running.stop();
    std::fs::remove_file(rights).expect("it is there");
}

/// A refusal line must not be inserted into a reply that the client has not read completely.
#[test]
fn client_refused_at_takeover_gets_no_error_line_inside_a_reply() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let mut client = Client::connect(tcp(&running));
    let long = pattern(900_000);
    client.ask(&set("long", &long), b"STORED\r\n");
    client.send(&b"get long\r\n".repeat(10));
    let sent = || running.shared().workers.iter().map(|worker| worker.counters.sends_short.value()).sum::<u64>();
    wait_until("nobody reads", || sent() > 0);
    let successor = ServerConfig { connections_max: 1, ..successor_of(&running, &config) };
    let mut other = Client::connect(tcp(&running));
    other.ask(b"watch deletions\r\n", b"OK\r\n");
    let handover_state = handover_state_of(running);
    assert_eq!(handover_state.connections.len(), 2);
    let running = go_on(successor, handover_state);
    let replied = client.read_to_end();
    let whole = value("long", &long).repeat(10);
    assert!(
        whole.starts_with(&replied) && replied.len() < whole.len(),
        "{}",
        replied[replied.len() - 60..].escape_ascii()
    );
    running.stop();
}

/// A handover must not close a memcached client that watches.
#[test]
fn watchers_go_on_watching() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let memcached = addr_of(&running, 0);
    let mut watcher = Client::connect(memcached);
    watcher.ask(b"watch deletions\r\n", b"OK\r\n");
    let mut client = Client::connect(memcached);
    client.ask(&set("k", b"v"), b"STORED\r\n");
    let successor = successor_of(&running, &config);
    let running = go_on(successor, handover_state_of(running));
    client.ask(b"delete k\r\n", b"DELETED\r\n");
    assert!(line(&mut watcher).contains("type=deleted key=k"), "it is told");
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
        let successor = successor_of(&running, &config);
        let handover_state = handover_state_of(running);
        assert_eq!(handover_state.connections.len(), CLIENTS, "{io:?}");
        let running = go_on(successor, handover_state);
        clients.iter_mut().for_each(|client| client.ask(b"mn\r\n", b"MN\r\n"));
        running.stop();
    }
}

#[test]
fn stop_requested_before_a_handover_takes_precedence() {
    let running = start(both(IoChoice::Epoll));
    running.shared().request_stop();
    running.shared().request_hand_over();
    assert!(matches!(running.join(), EndedThread::Stopped));
}

#[test]
fn dropping_a_prepared_takeover_closes_no_socket() {
    let config = both(IoChoice::Epoll);
    let running = start(config.clone());
    let mut client = Client::connect(tcp(&running));
    client.ask(&set("k", b"v"), b"STORED\r\n");
    let successor = successor_of(&running, &config);
    let handover_state = handover_state_of(running);
    // Duplicates each socket, as if two processes had it.
    let twice = HandoverState {
        listeners: (handover_state.listeners.iter())
            .map(|listener| {
                let fd = std::os::fd::AsFd::as_fd(listener).try_clone_to_owned().expect("a descriptor");
                io::listen::Listener::adopt(fd, listener.addr().clone())
            })
            .collect(),
        memory: handover_state.memory.clone(),
        devices: handover_state.devices.clone(),
        graphs: None,
        index: None,
        users: None,
        settings: Vec::new(),
        known: None,
        connections: Vec::new(),
    };
    drop(Server::prepare(successor.clone(), twice).expect("it is prepared"));
    let running = go_on(successor, handover_state);
    client.ask(b"get k\r\n", &value("k", b"v"));
    Client::connect(tcp(&running)).ask(b"get k\r\n", &value("k", b"v"));
    running.stop();
}

#[test]
fn clients_that_wait_for_a_key_go_on_waiting_until_their_deadline_or_an_element() {
    for io in [IoChoice::Epoll, IoChoice::Uring] {
        let config = both(io);
        let running = start(config.clone());
        let addr = addr_of(&running, 1);
        let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(addr)).collect();
        let begun = std::time::Instant::now();
        clients[0].send(b"BLPOP late 3\r\nPING\r\n");
        clients.iter_mut().skip(1).for_each(|client| client.send(b"BLPOP k 0\r\nPING\r\n"));
        wait_until("all wait", || running.shared().waiters.blocked() == 5);
        let next = successor_of(&running, &config);
        // So much later would a wait end that begins again.
        std::thread::sleep(std::time::Duration::from_millis(2000));
        let moved_ms = begun.elapsed().as_millis();
        let running = go_on(next, handover_state_of(running));
        // On a slow machine, the first client's deadline may be due already.
        wait_until("all others wait", || running.shared().waiters.blocked() >= 4);
        let mut producer = Client::connect(addr);
        producer.ask(b"RPUSH k 1 2 3 4 5\r\n", b":5\r\n");
        producer.ask(b"LLEN k\r\n", b":1\r\n");
        let mut elements = Vec::new();
        for client in clients.iter_mut().skip(1) {
            let lines: Vec<String> = (0..6).map(|_| line(client)).collect();
            assert_eq!((&lines[..4].join(" ")[..], &lines[5][..]), ("*2 $1 k $1", "+PONG"));
            elements.push(lines[4].clone());
        }
        elements.sort_unstable();
        assert_eq!(elements, ["1", "2", "3", "4"]);
        clients[0].expect(b"*-1\r\n+PONG\r\n");
        let waited_ms = begun.elapsed().as_millis();
        assert!((3000..3000 + moved_ms).contains(&waited_ms), "the wait has not begun again: {waited_ms} ms");
    }
}
