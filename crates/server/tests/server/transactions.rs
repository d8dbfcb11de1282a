//! Tests of transactions and of commands over several keys: comparisons of replies with Debian's Redis over random
//! streams, clients that disconnect during a transaction, and the state that other clients see meanwhile.

mod updates;

use crate::common::redis::{Redis, Replies, request};
use crate::common::{Client, config, start, tcp, wait_until};
use base::prng::Prng;
use command::clients::endpoint::Protocol;
use command::memory::budget::MemoryUse;
use command::metrics::{Command, Part, Totals};
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

fn both(workers: usize) -> ServerConfig {
    ServerConfig { resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], workers, ..config() }
}

fn resp_addr(running: &Running) -> SocketAddr {
    let found = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == Protocol::Resp => Some(*addr),
        _ => None,
    });
    found.expect("an address of this protocol")
}

fn resp(running: &Running) -> Replies {
    Replies::connect(resp_addr(running))
}

/// Returns the bytes of client memory that queued requests use.
fn queued(running: &Running) -> u64 {
    running.shared().budget.used_by(MemoryUse::Queued)
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns a random command for one of two connections. One command in five is invalid.
fn command(prng: &mut Prng) -> Vec<Vec<u8>> {
    let key = |prng: &mut Prng| format!("key:{}", prng.below(4));
    let number = |prng: &mut Prng| ["1", "7", "-3", "x", "9223372036854775807"][prng.below(5) as usize];
    let line = match prng.below(34) {
        0..=4 => "MULTI".to_owned(),
        5..=9 => "EXEC".to_owned(),
        10 => "DISCARD".to_owned(),
        11 | 12 => format!("WATCH {}", key(prng)),
        13 => format!("WATCH {} {}", key(prng), key(prng)),
        14 => "UNWATCH".to_owned(),
        15 | 16 => format!("SET {} {}", key(prng), number(prng)),
        17 => format!("SET {} text NX", key(prng)),
        18 => format!("GET {}", key(prng)),
        19 => format!("INCRBY {} {}", key(prng), number(prng)),
        20 => format!("MSET {} 1 {} b", key(prng), key(prng)),
        21 => format!("MSETNX {} 1 {} b", key(prng), key(prng)),
        22 => format!("MGET {} {} {}", key(prng), key(prng), key(prng)),
        23 => format!("{} {} {}", ["DEL", "EXISTS", "TOUCH", "UNLINK"][prng.below(4) as usize], key(prng), key(prng)),
        24 => format!("{} {} {}", ["RENAME", "RENAMENX"][prng.below(2) as usize], key(prng), key(prng)),
        25 => format!("COPY {} {}{}", key(prng), key(prng), ["", " REPLACE", " DB 0", " DB x"][prng.below(4) as usize]),
        26 => format!("EXPIRE {} {}", key(prng), ["1000", "-1", "x"][prng.below(3) as usize]),
        27 => format!("APPEND {} tail", key(prng)),
        28 => format!("GETDEL {}", key(prng)),
        29 => {
            ["EXEC x", "MULTI x", "DISCARD x", "WATCH", "SET key:1", "NOSUCHCOMMANDATALL a", "MSET a", "MSETNX a 1 b"]
                [prng.below(8) as usize]
                .to_owned()
        }
        30 => format!("PERSIST {}", key(prng)),
        31 => ["WAIT 0 0", "WAIT x 0", "WAIT 0 x", "WAIT 0 -1", "ROLE", "RESET", "KEYS nothing*", "FLUSHALL"]
            [prng.below(8) as usize]
            .to_owned(),
        32 => format!("STRLEN {}", key(prng)),
        _ => "PING".to_owned(),
    };
    words(&line)
}

/// Compares the replies of both servers to two connections that send commands alternately, so that changes by one
/// connection affect keys that the other watches.
fn compare(seed: u64, version: &[u8], workers: usize) {
    let (redis, running) = (Redis::start(), start(both(workers)));
    let mut ours = [resp(&running), resp(&running)];
    let mut theirs = [Replies::connect(redis.addr), Replies::connect(redis.addr)];
    for replies in ours.iter_mut().chain(&mut theirs) {
        replies.ask(&[b"HELLO", version]);
    }
    let mut prng = Prng::new(seed);
    let (mut executed, mut broken, mut aborted) = (0, 0, 0);
    let mut asked = std::collections::VecDeque::new();
    for step in 0..6000 {
        let who = prng.below(2) as usize;
        let command = command(&mut prng);
        let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let (mine, yours) = (ours[who].ask(&command), theirs[who].ask(&command));
        let show = |bytes: &[u8]| bytes[..bytes.len().min(300)].escape_ascii().to_string();
        asked.push_back(format!("{who}: {} -> {}", command.join(&b' ').escape_ascii(), show(&yours)));
        if asked.len() > 25 {
            asked.pop_front();
        }
        assert!(
            mine == yours,
            "seed {seed}, step {step}, ours: {}, theirs the last of\n{}",
            show(&mine),
            asked.make_contiguous().join("\n")
        );
        if command[0] == b"EXEC" {
            match yours[0] {
                b'*' if yours != b"*-1\r\n" => executed += 1,
                b'*' | b'_' => broken += 1,
                _ if yours.starts_with(b"-EXECABORT") => aborted += 1,
                _ => {}
            }
        }
        if command[0] == b"RESET" {
            for replies in [&mut ours[who], &mut theirs[who]] {
                replies.ask(&[b"HELLO", version]);
            }
        }
    }
    assert!(executed > 100 && broken > 20 && aborted > 20, "{executed} executed, {broken} broken, {aborted} aborted");
    running.stop();
}

#[test]
fn transactions_are_answered_as_by_redis_in_version_2() {
    compare(3, b"2", 1);
}

#[test]
fn transactions_are_answered_as_by_redis_in_version_3_with_two_workers() {
    compare(4, b"3", 2);
}

/// Several connections repeatedly move an amount between two accounts in a transaction. A reader that requests both
/// accounts at once must always see the same sum.
#[test]
fn no_reader_sees_half_a_transaction_or_half_a_command() {
    let running = start(both(3));
    let addr = resp_addr(&running);
    let mut setup = resp(&running);
    assert_eq!(setup.ask(&[b"MSET", b"a", b"1000", b"b", b"1000", b"x", b"0", b"y", b"0"]), b"+OK\r\n");
    let stop = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let (stop, readers) = (&stop, 3);
        let looks: Vec<_> = (0..readers)
            .map(|reader| {
                scope.spawn(move || {
                    let mut client = Replies::connect(addr);
                    let mut looks = 0;
                    while !stop.load(Relaxed) {
                        let text = if reader == 0 {
                            client.client.send(b"MULTI\r\nGET a\r\nGET b\r\nGET x\r\nGET y\r\nEXEC\r\n");
                            (0..5).for_each(|_| assert!(client.next().starts_with(b"+")));
                            client.next()
                        } else {
                            client.ask(&[b"MGET", b"a", b"b", b"x", b"y"])
                        };
                        let text = String::from_utf8(text).unwrap();
                        let numbers: Vec<i64> =
                            text.split("\r\n").skip(2).step_by(2).map(|n| n.parse().unwrap()).collect();
                        assert_eq!(numbers[0] + numbers[1], 2000, "{text:?}");
                        assert_eq!(numbers[2], numbers[3], "{text:?}");
                        looks += 1;
                    }
                    looks
                })
            })
            .collect();
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                scope.spawn(move || {
                    let mut client = Replies::connect(addr);
                    for round in 0..300 {
                        let number = format!("{}", round * 3 + writer);
                        client.client.send(b"MULTI\r\nDECRBY a 7\r\nINCRBY b 7\r\nEXEC\r\n");
                        (0..3).for_each(|_| assert!(client.next().starts_with(b"+")));
                        assert!(client.next().starts_with(b"*2\r\n:"));
                        let number = number.as_bytes();
                        assert_eq!(client.ask(&[b"MSET", b"x", number, b"y", number]), b"+OK\r\n");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Relaxed);
        looks.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>()
    });
    assert!(looks > 100, "{looks} looks");
    assert_eq!(setup.ask(&[b"GET", b"b"]), b"$4\r\n7300\r\n");
    assert_eq!(running.shared().store.key_locks_in_flight(), 0);
    running.stop();
}

#[test]
fn a_client_that_does_not_read_holds_no_keys() {
    let running = start(ServerConfig { client_memory_bytes: Some(64 << 20), ..both(2) });
    let (mut slow, mut other) = (resp(&running), resp(&running));
    let long = vec![b'x'; 100_000];
    assert_eq!(slow.ask(&[b"SET", b"long", &long]), b"+OK\r\n");
    slow.client.send(&request(&[b"MULTI"]));
    for _ in 0..200 {
        slow.client.send(&request(&[b"GET", b"long"]));
    }
    slow.client.send(&request(&[b"SET", b"done", b"1"]));
    slow.client.send(&request(&[b"EXEC"]));
    wait_until("the transaction", || other.ask(&[b"GET", b"done"]) == b"$1\r\n1\r\n");
    assert_eq!(other.ask(&[b"SET", b"long", b"short"]), b"+OK\r\n");
    assert_eq!(running.shared().store.key_locks_in_flight(), 0);
    (0..202).for_each(|_| assert!(slow.next().starts_with(b"+")));
    let answer = slow.next();
    assert!(answer.starts_with(b"*201\r\n$100000\r\nxxx") && answer.ends_with(b"xxx\r\n+OK\r\n"));
    assert_eq!(answer.len(), 6 + 200 * (9 + 100_002) + 5);
    running.stop();
}

#[test]
fn queued_commands_of_a_disconnected_client_are_discarded() {
    let running = start(both(1));
    let mut other = resp(&running);
    let mut gone = resp(&running);
    gone.ask(&[b"WATCH", b"a"]);
    gone.ask(&[b"MULTI"]);
    assert_eq!(gone.ask(&[b"SET", b"a", b"1"]), b"+QUEUED\r\n");
    assert!(queued(&running) > 0);
    drop(gone);
    wait_until("the end of what was queued", || queued(&running) == 0);
    assert_eq!(other.ask(&[b"GET", b"a"]), b"$-1\r\n");
    running.stop();
}

#[test]
fn more_is_not_queued_than_may_be_and_spoils_the_transaction() {
    let running = start(ServerConfig { client_memory_bytes: Some(3 << 20), ..both(1) });
    let mut client = resp(&running);
    let long = vec![b'x'; 200_000];
    client.ask(&[b"MULTI"]);
    let mut refused = 0;
    for _ in 0..20 {
        match client.ask(&[b"SET", b"a", &long]) {
            reply if reply == b"+QUEUED\r\n" => {}
            reply => {
                assert!(reply.starts_with(b"-OOM client memory is used up"), "{}", reply.escape_ascii());
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && refused < 15, "{refused} refused");
    assert!(client.ask(&[b"EXEC"]).starts_with(b"-EXECABORT "));
    assert_eq!(client.ask(&[b"EXISTS", b"a"]), b":0\r\n");
    assert_eq!(queued(&running), 0);
    running.stop();
}

#[test]
fn command_over_more_keys_than_an_iteration_serves_gets_a_single_reply() {
    let running = start(both(2));
    let mut client = resp(&running);
    let keys: Vec<String> = (0..3000).map(|number| format!("key:{number}")).collect();
    let mut pairs: Vec<&[u8]> = vec![b"MSET"];
    keys.iter().for_each(|key| pairs.extend([key.as_bytes(), b"value"]));
    assert_eq!(client.ask(&pairs), b"+OK\r\n");
    let named =
        |name: &'static [u8]| std::iter::once(name).chain(keys.iter().map(String::as_bytes)).collect::<Vec<_>>();
    let answer = client.ask(&named(b"MGET"));
    assert_eq!(answer.len(), 7 + 3000 * 11);
    assert_eq!(client.ask(&named(b"EXISTS")), b":3000\r\n");
    pairs[0] = b"MSETNX";
    assert_eq!(client.ask(&pairs), b":0\r\n");
    let replied = client.ask(&[b"KEYS", b"key:*"]);
    assert!(replied.starts_with(b"*3000\r\n"), "{}", replied[..20].escape_ascii());
    assert!(client.ask(&[b"KEYS", b"key:1?"]).starts_with(b"*10\r\n"));
    assert_eq!(client.ask(&named(b"DEL")), b":3000\r\n");
    assert_eq!(client.ask(&[b"KEYS", b"*"]), b"*0\r\n");
    assert_eq!(running.shared().store.key_locks_in_flight(), 0);
    running.stop();
}

#[test]
fn a_memcached_client_sees_no_half_of_a_transaction_either() {
    let running = start(both(2));
    let (addr, memcached) = (resp_addr(&running), tcp(&running));
    let stop = AtomicBool::new(false);
    Replies::connect(addr).ask(&[b"MSET", b"x", b"0000", b"y", b"0000"]);
    let looks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (stop, looks) = (&stop, &looks);
        let reader = scope.spawn(move || {
            let mut client = Client::connect(memcached);
            while !stop.load(Relaxed) {
                // x is written before y: a client that reads a new y and then an old x has seen half of a change.
                let mut answer = [0; 17 + 4];
                let mut read = |key: &str| {
                    client.send(format!("get {key}\r\n").as_bytes());
                    std::io::Read::read_exact(&mut client.stream, &mut answer[..13 + 4 + 2 + 2]).unwrap();
                    let mut end = [0; 3];
                    std::io::Read::read_exact(&mut client.stream, &mut end).unwrap();
                    String::from_utf8_lossy(&answer[13..17]).parse::<u32>().unwrap()
                };
                let (first, second) = (read("x"), read("y"));
                assert!(second >= first, "x {first}, then y {second}");
                looks.fetch_add(1, Relaxed);
            }
        });
        let mut writer = Replies::connect(addr);
        // A busy machine may let the reader wait for long.
        for number in (1..9999).take_while(|number| *number < 1500 || looks.load(Relaxed) < 50) {
            let number = format!("{number:04}");
            let number = number.as_bytes();
            assert_eq!(writer.ask(&[b"MSET", b"x", number, b"y", number]), b"+OK\r\n");
        }
        stop.store(true, Relaxed);
        reader.join().unwrap();
    });
    let looks = looks.into_inner();
    assert!(looks >= 50, "{looks} looks");
    running.stop();
}

#[test]
fn transaction_requests_are_timed_when_executed_not_when_queued() {
    let running = start(both(1));
    let mut client = resp(&running);
    let recorder = &running.shared().workers[0].recorder;
    let count = |command, part| Totals::read([recorder]).of(command, part).count;
    client.ask(&[b"MULTI"]);
    for words in [&[&b"GET"[..], b"k"][..], &[b"INCR", b"n"], &[b"GET", b"n"], &[b"SET", b"k"], &[b"AUTH", b"x"]] {
        client.ask(words);
    }
    // The refused request has made the transaction fail.
    assert!(client.ask(&[b"EXEC"]).starts_with(b"-EXECABORT"));
    assert_eq!(count(Command::Get, Part::Wait), 0);
    client.ask(&[b"SELECT", b"3"]);
    client.ask(&[b"MULTI"]);
    recorder.set_slow_above_ns(Some(0));
    for words in [&[&b"GET"[..], b"k"][..], &[b"INCR", b"n"], &[b"GET", b"n"], &[b"AUTH", b"secret"]] {
        assert_eq!(client.ask(words), b"+QUEUED\r\n");
    }
    assert!(client.ask(&[b"EXEC"]).starts_with(b"*4\r\n$-1\r\n:1\r\n$1\r\n1\r\n-"));
    // The times are recorded before the reply is sent.
    let counts = Part::ALL.map(|part| [count(Command::Get, part), count(Command::Incr, part)]);
    assert_eq!(counts, [[2, 1], [2, 1], [0, 0]]);
    let here = Totals::read([recorder]).of_namespace(segment::Namespace(3), Part::Execute).count;
    assert!(here >= 3, "{here}");
    wait_until("the end of EXEC", || {
        client.ask(&[b"PING"]);
        recorder.slow().read(0).iter().any(|slow| slow.line.to_string() == "EXEC")
    });
    let slow = recorder.slow().read(0);
    let of = |line: &str| slow.iter().filter(|slow| slow.line.to_string() == line).collect::<Vec<_>>();
    let get = of("GET k").into_iter().find(|slow| slow.command == Command::Get).expect("it was executed");
    assert_eq!((of("GET k").len(), get.send_ns), (2, 0), "queued, and executed");
    assert!(!slow.iter().any(|slow| slow.line.to_string().contains("secret")));
    // The time of EXEC includes the time of its requests.
    let exec = of("EXEC")[0].execute_ns;
    assert!(exec >= get.execute_ns, "{exec}");
    running.stop();
}

/// After a restart with a smaller item limit, stored values exceed the new limit, and are longer than the replies that
/// a transaction may retain.
#[test]
fn value_above_the_stored_reply_limit_is_refused_without_a_crash() {
    let path = std::env::temp_dir().join(format!("gannet-kept-answers-{}", std::process::id()));
    let served = |item_bytes_max: u64| ServerConfig {
        file: Some(path.clone()),
        memory_bytes: 192 << 20,
        item_bytes_max,
        segment_bytes: Some(1 << 20),
        ..both(1)
    };
    let (long, len) = (b"long", (66 << 20) + 5);
    let running = start(served(80 << 20));
    assert_eq!(resp(&running).ask(&[b"SET", long, &vec![b'x'; len]]), b"+OK\r\n");
    running.stop();
    for _ in 0..2 {
        let running = start(served(1 << 20));
        let mut redis = resp(&running);
        assert_eq!(redis.text("SET short s"), "+OK");
        let refused = "-ERR the reply exceeds this server's limit: request less at once";
        assert_eq!(redis.text("MGET long short"), refused);
        assert_eq!(redis.text("MGET short long short"), refused);
        for line in ["MULTI", "GET short", "GET long", "INCR n", "GETDEL long", "STRLEN long", "EXEC"] {
            redis.client.send(&request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        }
        let answers: Vec<_> = (0..7).map(|_| String::from_utf8(redis.next()).unwrap()).collect();
        let wanted = format!("*5\r\n$1\r\ns\r\n{refused}\r\n:1\r\n{refused}\r\n:{len}\r\n");
        assert_eq!(answers[6], wanted, "what does not fit is refused alone, and not executed");
        assert_eq!(redis.text("GETRANGE long 69206020 -1"), "$1 x", "the long value was not removed");
        assert_eq!(redis.text("DEL n"), ":1");
        running.stop();
    }
    std::fs::remove_file(&path).unwrap();
}

/// Sends a transaction of reads whose replies together are `count` times as long as the value of the key `long`.
fn read_much(client: &mut Replies, count: usize) {
    let get = request(&[b"GET", b"long"]).repeat(count);
    client.client.send(&[request(&[b"MULTI"]), get, request(&[b"EXEC"])].concat());
}

#[test]
fn oldest_client_that_does_not_read_is_dropped_if_client_memory_is_short() {
    let running = start(ServerConfig { client_memory_bytes: Some(24 << 20), ..both(1) });
    let (mut slow, mut quick) = (resp(&running), resp(&running));
    assert_eq!(quick.ask(&[b"SET", b"long", &vec![b'x'; 100_000]]), b"+OK\r\n");
    let dropped = || running.shared().workers[0].counters.client_memory_dropped.value();
    // The replies use half of the limit, so no client is closed.
    read_much(&mut slow, 120);
    wait_until("the answers", || running.shared().budget.used_by(MemoryUse::Replies) > 11_000_000);
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(dropped(), 0, "there is memory for others");
    // Further slow readers, until more than three quarters of the limit are used.
    let mut others = Vec::new();
    wait_until("the end of the slow reader", || {
        if dropped() == 0 && others.len() < 8 {
            others.push(resp(&running));
            read_much(others.last_mut().expect("it was pushed"), 80);
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        dropped() > 0
    });
    assert!(slow.client.read_to_end().len() < 12_000_000, "it was closed before it had read all");
    read_much(&mut quick, 20);
    (0..21).for_each(|_| assert!(quick.next().starts_with(b"+")));
    assert!(quick.next().starts_with(b"*20\r\n$100000\r\n"), "others are served");
    drop(others);
    running.stop();
}

#[test]
fn silent_holders_of_incomplete_transactions_are_dropped_if_client_memory_is_short() {
    let running = start(ServerConfig { client_memory_bytes: Some(24 << 20), ..both(1) });
    let dropped = || running.shared().workers[0].counters.client_memory_dropped.value();
    let (mut long, mut watching, mut active) = (resp(&running), resp(&running), resp(&running));
    let queue = |client: &mut Replies, count: usize| {
        (0..count).for_each(|_| assert_eq!(client.ask(&[b"SET", b"k", &vec![b'x'; 1 << 20]]), b"+QUEUED\r\n"));
    };
    for client in [&mut long, &mut active] {
        assert_eq!(client.text("MULTI"), "+OK");
    }
    assert_eq!(watching.ask(&[b"WATCH", &vec![b'w'; 30_000]]), b"+OK\r\n");
    queue(&mut active, 4);
    queue(&mut long, 4);
    let from = std::time::Instant::now();
    while from.elapsed() < std::time::Duration::from_millis(2500) {
        assert_eq!(active.text("PING"), "+QUEUED");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(dropped(), 0, "there is memory for others");
    // Requests that would use more than three quarters of the limit.
    let mut others: Vec<_> = (0..3).map(|_| resp(&running)).collect();
    for client in &mut others {
        assert_eq!(client.text("MULTI"), "+OK");
        client.client.send(&request(&[b"SET", b"k", &vec![b'y'; 1 << 20]]).repeat(6));
    }
    wait_until("the end of a silent client", || {
        assert!(active.text("PING").starts_with("+QUEUED"), "a client that sends requests stays connected");
        std::thread::sleep(std::time::Duration::from_millis(20));
        dropped() > 0 && running.shared().budget.used() <= 18 << 20
    });
    assert!(active.text("EXEC").starts_with('*'), "its transaction is executed");
    running.stop();
}

#[test]
fn command_over_several_keys_without_client_memory_gets_an_oom_error() {
    let running = start(ServerConfig { client_memory_bytes: Some(24 << 20), ..both(1) });
    let mut client = resp(&running);
    let keys: Vec<_> = (0..300).map(|n| format!("key:{n}")).collect();
    for key in &keys {
        assert_eq!(client.ask(&[b"SET", key.as_bytes(), &[b'v'; 900]]), b"+OK\r\n");
    }
    let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().map(|key| key.as_bytes())).collect();
    let budget = &running.shared().budget;
    for spare in [0, 1 << 10, 8 << 10, 40 << 10, 200 << 10] {
        let taken = budget.bytes_max() - budget.used() - spare;
        budget.take(MemoryUse::Walks, taken);
        let reply = client.ask(&words);
        budget.release(MemoryUse::Walks, taken);
        assert!(reply.starts_with(b"-OOM client memory is used up"), "{spare}: {}", reply[..80].escape_ascii());
        assert_eq!(client.text("GET key:7"), format!("$900 {}", "v".repeat(900)), "the connection is still open");
    }
    assert!(client.ask(&words).starts_with(b"*300\r\n$900\r\n"));
    running.stop();
}

#[test]
fn request_that_exceeds_client_memory_gets_an_oom_error() {
    let running = start(ServerConfig { client_memory_bytes: Some(1 << 20), ..both(1) });
    let mut client = resp(&running);
    assert_eq!(client.ask(&[b"SET", b"long", &vec![b'x'; 700_000]]), b"+OK\r\n");
    let oom = |answer: &[u8]| answer.starts_with(b"-OOM client memory is used up");
    client.client.send(&[request(&[b"MULTI"]), request(&[b"SET", b"a", b"1"])].concat());
    client.client.send(&[request(&[b"GETDEL", b"long"]).repeat(2), request(&[b"GET", b"long"])].concat());
    client.client.send(&[request(&[b"INCR", b"n"]), request(&[b"EXEC"])].concat());
    (0..6).for_each(|_| assert!(client.next().starts_with(b"+")));
    let answer = String::from_utf8(client.next()).expect("text");
    assert!(answer.starts_with("*5\r\n+OK\r\n$700000\r\n") && answer.ends_with("$-1\r\n$-1\r\n:1\r\n"));
    // A reply that does not fit is an error in its place, and commands that change something are executed.
    assert_eq!(client.ask(&[b"SET", b"long", &vec![b'x'; 700_000]]), b"+OK\r\n");
    client.client.send(&[request(&[b"MULTI"]), request(&[b"GET", b"long"]), request(&[b"GETDEL", b"long"])].concat());
    client.client.send(&[request(&[b"INCR", b"n"]), request(&[b"EXEC"])].concat());
    (0..4).for_each(|_| assert!(client.next().starts_with(b"+")));
    let answer = client.next();
    let tail = answer.split(|byte| *byte == b'\n').rev().take(3).collect::<Vec<_>>();
    assert!(tail[1] == b":2\r" && oom(tail[2]), "{}", answer[answer.len() - 300..].escape_ascii());
    assert_eq!(client.ask(&[b"STRLEN", b"long"]), b":700000\r\n", "a refused command is not executed");
    // Queued requests that exceed the memory, so that their transaction fails.
    client.ask(&[b"MULTI"]);
    let refused = (0..20).filter(|_| oom(&client.ask(&[b"SET", b"b", &[b'x'; 100_000]]))).count();
    assert!(refused > 5 && client.ask(&[b"EXEC"]).starts_with(b"-EXECABORT "));
    assert_eq!(client.ask(&[b"EXISTS", b"b"]), b":0\r\n");
    // Names of channels may use half of the limit.
    let refused = (0..20).filter(|n| oom_of_names(&client.ask(&[b"SUBSCRIBE", &[b'a' + *n as u8; 60_000]]))).count();
    assert!((5..15).contains(&refused), "{refused} refused");
    running.stop();
}

fn oom_of_names(answer: &[u8]) -> bool {
    answer.starts_with(b"-OOM names of channels")
}
