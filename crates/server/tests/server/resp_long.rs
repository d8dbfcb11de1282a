//! Tests of Redis requests that do not fit into a receive buffer: values up to the maximum length, many keys, and
//! requests that are refused or never complete.

use crate::common::redis::{Redis, Replies, request};
use crate::common::{Client, config, pattern, start, wait_until};
use crate::sim::World;
use base::prng::Prng;
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use io::sim::{Faults, SimClient};
use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;

impl World {
    /// Runs at most 2,000 iterations, until the client has received `bytes` bytes. Returns all received bytes.
    fn read(&mut self, client: &SimClient, bytes: usize) -> Vec<u8> {
        let mut got = Vec::new();
        for _ in 0..2000 {
            got.extend(client.take(usize::MAX));
            if got.len() >= bytes {
                break;
            }
            self.guard();
        }
        got
    }
}

/// Returns a configuration with segments of 1 MiB: values above 128 KiB are stored in pieces, and a big receive buffer
/// has 256 KiB.
fn long(memory_mib: u64, item_mib: u64) -> ServerConfig {
    ServerConfig {
        memcached: Vec::new(),
        resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())],
        memory_bytes: memory_mib << 20,
        item_bytes_max: item_mib << 20,
        segment_bytes: Some(1 << 20),
        ..config()
    }
}

fn connect(running: &Running) -> Replies {
    Replies::connect(crate::common::tcp(running))
}

fn show(words: &[&[u8]]) -> String {
    let word = |word: &&[u8]| format!("{} ({} bytes)", word[..word.len().min(30)].escape_ascii(), word.len());
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_with_a_value_accepts_a_long_value_like_redis() {
    let (redis, running) = (Redis::start(), start(long(256, 16)));
    let (mut ours, mut theirs) = (connect(&running), Replies::connect(redis.addr));
    let mut compared = 0;
    for len in [20_000, 131_072, 140_000, 300_000, 3_000_001] {
        let (long, other, key) = (pattern(len), vec![b'y'; len], "k".repeat(len.min(300)));
        let (long, other, key) = (long.as_slice(), other.as_slice(), key.as_bytes());
        let commands: &[&[&[u8]]] = &[
            &[b"SET", b"a", long],
            &[b"GET", b"a"],
            &[b"SET", b"a", other, b"EXAT", b"4000000000"],
            &[b"EXPIRETIME", b"a"],
            &[b"SET", b"a", long, b"KEEPTTL"],
            &[b"EXPIRETIME", b"a"],
            &[b"SET", b"a", other, b"NX"],
            &[b"SET", b"none", other, b"XX"],
            &[b"EXISTS", b"none"],
            &[b"SET", b"none", other, b"NX", b"PX", b"1000000"],
            &[b"SET", b"a", other, b"XX", b"GET"],
            &[b"GET", b"a"],
            &[b"SET", b"fresh", long, b"GET", b"KEEPTTL"],
            &[b"GET", b"fresh"],
            &[b"SET", b"a", long, b"EX"],
            &[b"SET", b"a", long, b"EX", b"0"],
            &[b"SET", b"a", long, b"NX", b"XX"],
            &[b"SET", b"a", long, b"WHAT"],
            &[b"STRLEN", b"a"],
            &[b"SETEX", b"b", b"100000", long],
            &[b"SETEX", b"b", b"-1", long],
            &[b"SETEX", b"b", b"soon", long],
            &[b"PSETEX", b"b", b"100000000", other],
            &[b"GETRANGE", b"b", b"-7", b"-1"],
            &[b"GETRANGE", b"b", b"10", b"100000"],
            &[b"SETNX", b"b", long],
            &[b"SETNX", b"c", long],
            &[b"GETSET", b"c", other],
            &[b"GETSET", b"d", other],
            &[b"GET", b"d"],
            &[b"APPEND", b"d", long],
            &[b"APPEND", b"e", long],
            &[b"APPEND", b"e", b"short"],
            &[b"GETRANGE", b"e", b"0", b"-1"],
            &[b"SETRANGE", b"e", b"5", other],
            &[b"SETRANGE", b"e", b"70000", b"part"],
            &[b"SETRANGE", b"f", b"40", long],
            &[b"SETRANGE", b"f", b"-1", long],
            &[b"GET", b"e"],
            &[b"GET", b"f"],
            &[b"MSET", b"g", long, b"h", b"short", b"i", other],
            &[b"MSET", b"g", long, b"h"],
            &[b"MGET", b"g", b"h", b"none", b"i"],
            &[b"SET", key, long],
            &[b"GET", key],
            &[b"DEL", b"a", b"b", b"c", b"d", b"e", b"f", b"fresh", b"none", long],
            &[b"EXISTS", b"a", b"b", b"g", b"h", b"i", b"none"],
        ];
        for words in commands {
            theirs.client.send(&request(words));
            ours.client.send(&request(words));
            let (ours, theirs) = (ours.next(), theirs.next());
            let shown = |reply: &[u8]| reply[..reply.len().min(120)].escape_ascii().to_string();
            assert!(ours == theirs, "{}\nours:   {}\ntheirs: {}", show(words), shown(&ours), shown(&theirs));
            compared += 1;
        }
    }
    assert_eq!(compared, 5 * 47);
    let shared = running.shared().clone();
    drop(ours);
    running.stop();
    assert_eq!((shared.pins.used(), shared.store.stats().pins), (0, 0));
}

/// Values that arrive in pieces are appended to short keys, which are then deleted. Nothing of them may remain: the
/// memory would fill with it, and other keys would be evicted.
#[test]
fn appended_long_values_leave_no_memory_in_use_after_their_keys_are_deleted() {
    let running = start(ServerConfig { memcached: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], ..long(64, 8) });
    let mut redis = crate::common::redis::resp(&running);
    let mut memcached = Client::connect(crate::common::redis::addr(&running, Protocol::Memcache));
    for number in 0..1000 {
        assert_eq!(redis.ask(&[b"SET", format!("live:{number}").as_bytes(), b"v"]), b"+OK\r\n");
    }
    let part = vec![b'p'; 700_000];
    let used = || running.shared().store.stats().item_bytes;
    let before = used();
    for round in 0..150 {
        for command in [&b"APPEND"[..], b"SETRANGE"] {
            assert_eq!(redis.ask(&[b"SET", b"s", b"a"]), b"+OK\r\n");
            let words = [&[command, b"s"][..], if command == b"APPEND" { &[] } else { &[b"1"] }, &[&part[..]]].concat();
            assert_eq!(redis.ask(&words), b":700001\r\n");
            assert_eq!(redis.ask(&[b"DEL", b"s"]), b":1\r\n");
        }
        let mode = ["MA N0", "MP N0", "MA", "MP"][round % 4];
        memcached.ask(b"set m 0 0 1\r\na\r\n", b"STORED\r\n");
        memcached.ask(&[format!("ms m 700000 {mode}\r\n").as_bytes(), &part, b"\r\n"].concat(), b"HD\r\n");
        memcached.ask(b"delete m\r\n", b"DELETED\r\n");
    }
    wait_until("the memory to be free", || used() <= before + (1 << 20));
    assert_eq!(redis.ask(&[b"DBSIZE"]), b":1000\r\n", "nothing was evicted");
    running.stop();
}

#[test]
fn set_ifeq_compares_long_values() {
    let running = start(long(128, 16));
    let mut redis = connect(&running);
    let (one, two) = (pattern(200_000), pattern(200_001));
    assert_eq!(redis.ask(&[b"SET", b"a", &one]), b"+OK\r\n");
    for (new, with, reply) in [
        (&two, &b"short"[..], &b"$-1\r\n"[..]),
        (&two, &two, b"$-1\r\n"),
        (&two, &one, b"+OK\r\n"),
        (&one, &two, b"+OK\r\n"),
    ] {
        assert_eq!(redis.ask(&[b"SET", b"a", new, b"IFEQ", with]), reply, "{} bytes", with.len());
    }
    assert_eq!(redis.ask(&[b"STRLEN", b"a"]), b":200000\r\n");
    running.stop();
}

#[test]
fn requests_of_100_000_keys_get_the_same_single_reply_as_from_redis() {
    let (redis, running) = (Redis::start(), start(long(256, 16)));
    let (mut ours, mut theirs) = (connect(&running), Replies::connect(redis.addr));
    let names: Vec<Vec<u8>> = (0..100_000).map(|number| format!("key:{number}").into_bytes()).collect();
    let (value, huge) = (pattern(50), pattern(300_000));
    let mut set = vec![&b"MSET"[..]];
    names
        .iter()
        .enumerate()
        .for_each(|(number, name)| set.extend([&name[..], if number == 777 { &huge } else { &value }]));
    let of =
        |verb: &'static [u8], step| [verb].into_iter().chain(names.iter().step_by(step).map(Vec::as_slice)).collect();
    let requests: [Vec<&[u8]>; 7] = [
        set.clone(),
        of(b"EXISTS", 1),
        of(b"MGET", 3),
        of(b"TOUCH", 2),
        of(b"UNLINK", 2),
        of(b"DEL", 1),
        set[..set.len() - 1].to_vec(),
    ];
    for words in &requests {
        theirs.client.send(&request(words));
        // Its answer may begin before it was sent whole.
        let (bytes, mut writer) = (request(words), ours.client.stream.try_clone().unwrap());
        let (ours, theirs) = std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&bytes).expect("sends"));
            (ours.next(), theirs.next())
        });
        assert!(ours == theirs, "{}: {} and {} bytes", show(&words[..1]), ours.len(), theirs.len());
    }
    ours.client.send(&request(&[b"CLIENT", b"REPLY", b"OFF"]));
    requests[..3].iter().for_each(|words| ours.client.send(&request(words)));
    assert_eq!(ours.ask(&[b"CLIENT", b"REPLY", b"ON"]), b"+OK\r\n");
    let some = [&b"EXISTS"[..], b"key:0", b"key:777", b"key:99999", b"key:100000"];
    assert_eq!(ours.ask(&some), b":3\r\n");
    running.stop();
}

#[test]
fn oversized_argument_gets_an_error_and_is_read_to_its_end() {
    let running = start(long(64, 1));
    let mut redis = connect(&running);
    assert_eq!(redis.ask(&[b"SET", b"a", b"before", b"EX", b"100"]), b"+OK\r\n");
    let long = pattern(2 << 20);
    let key = vec![b'k'; 70_000];
    let too_long = &b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"[..];
    let echo = [format!("${}\r\n", long.len()).as_bytes(), &long, b"\r\n"].concat();
    let cases: [(&[&[u8]], &[u8]); 12] = [
        (&[b"SET", b"a", &long], too_long),
        (&[b"SET", b"a", &long, b"EX", b"10"], too_long),
        (&[b"SETEX", b"a", b"10", &long], too_long),
        (&[b"APPEND", b"a", &long], too_long),
        (&[b"SETRANGE", b"a", b"1048570", b"0123456789"], too_long),
        (&[b"SETRANGE", b"a", b"1000000", &long[..200_000]], too_long),
        (&[b"SETRANGE", b"a", b"9223372036854775807", &long[..200_000]], too_long),
        (&[b"SET", &key, &long[..200_000]], too_long),
        (&[b"ECHO", &long], &echo),
        (&[b"EXPIRE", b"a", &long[..300_000]], b"-ERR value is not an integer or out of range\r\n"),
        (&[b"SET", b"a", &long[..200_000], b"IFEQ", &long], b"-ERR the request is too long for this command\r\n"),
        (&[b"GET", b"a", &long], b"-ERR wrong number of arguments for 'get' command\r\n"),
    ];
    for (words, reply) in cases {
        let got = redis.ask(words);
        assert!(got == reply, "{}: {}", show(words), got[..got.len().min(100)].escape_ascii());
        assert_eq!(redis.ask(&[b"PING"]), b"+PONG\r\n", "{}", show(words));
    }
    assert_eq!(redis.ask(&[b"GET", b"a"]), b"$6\r\nbefore\r\n", "a value that was refused takes nobody's place");
    for announced in ["536870913", "-1", "-536870912", "99999999999999999999", "1x", ""] {
        let mut bad = connect(&running);
        bad.client.send(format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${announced}\r\n").as_bytes());
        assert_eq!(bad.next(), b"-ERR Protocol error: invalid bulk length\r\n", "{announced}");
        bad.client.expect_end();
    }
    let mut bad = connect(&running);
    bad.client.send(&[b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$200000\r\n", &long[..200_000], b"xx"].concat());
    assert_eq!(bad.next(), b"-ERR Protocol error: expected CRLF after an argument\r\n");
    bad.client.expect_end();
    assert_eq!(redis.ask(&[b"GET", b"a"]), b"$6\r\nbefore\r\n");
    running.stop();
}

#[test]
fn unknown_command_of_any_length_gets_an_error_and_is_read_to_its_end() {
    let running = start(long(64, 16));
    let mut redis = connect(&running);
    for len in [1_000, 250_000, 262_144, 300_000, 5_000_000] {
        let value = pattern(len);
        let requests: [&[&[u8]]; 3] = [
            &[b"JSON.SET", b"doc", b"$", &value],
            &[b"NEVERHEARD", &value, b"x", &value],
            &[b"MIGRATE", b"h", b"1", &value, b"0", b"1"],
        ];
        for words in requests {
            let shown = show(words);
            let reply = redis.ask(words);
            assert!(reply.starts_with(b"-ERR "), "{shown}: {}", reply[..reply.len().min(60)].escape_ascii());
            assert_eq!(redis.ask(&[b"PING"]), b"+PONG\r\n", "{shown}");
            assert_eq!(redis.ask(&[b"MULTI"]), b"+OK\r\n");
            assert_eq!(redis.ask(words)[0], b'-', "{shown}");
            assert!(redis.ask(&[b"EXEC"]).starts_with(b"-EXECABORT"), "{shown}");
        }
    }
    running.stop();
}

#[test]
fn disconnect_during_a_long_set_preserves_the_previous_value() {
    let running = start(long(64, 16));
    let mut redis = connect(&running);
    let before = pattern(150_000);
    assert_eq!(redis.ask(&[b"SET", b"a", &before]), b"+OK\r\n");
    let items = running.shared().store.stats().items;
    let whole = request(&[b"SET", b"a", &pattern(5_000_000), b"EX", b"10"]);
    for sent in [40, 100_000, 1_000_000, 5_000_030, whole.len() - 1] {
        let mut other = Client::connect(crate::common::tcp(&running));
        other.send(&whole[..sent]);
        other.stream.shutdown(std::net::Shutdown::Write).unwrap();
        other.expect_end();
    }
    let shared = running.shared();
    wait_until("its places are given back", || shared.pins.used() == 0 && shared.store.stats().items == items);
    assert!(redis.ask(&[b"GET", b"a"]) == [b"$150000\r\n", &before[..], b"\r\n"].concat());
    assert_eq!(redis.ask(&[b"TTL", b"a"]), b":-1\r\n");
    running.stop();
}

/// Creates a world with one worker on a simulated network.
fn world(config: ServerConfig) -> World {
    World::new(1, Faults::NONE, config)
}

/// Returns a stream of requests of each kind that is parsed in parts, and the expected replies.
fn stream() -> (Vec<u8>, Vec<u8>) {
    let (mid, long) = (pattern(17_000), pattern(140_000));
    let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let ok = b"+OK\r\n".to_vec();
    let exchanges: Vec<(Vec<&[u8]>, Vec<u8>)> = vec![
        (vec![b"SET", b"m", &mid], ok.clone()),
        (vec![b"SET", b"m", &mid, b"EX", b"100"], ok.clone()),
        (vec![b"SET", b"l", &long], ok.clone()),
        (vec![b"SET", b"l", &long, b"KEEPTTL", b"GET"], bulk(&long)),
        (vec![b"APPEND", b"l", b"x"], b":140001\r\n".to_vec()),
        (vec![b"SETEX", b"l", b"0", &long], b"-ERR invalid expire time in 'setex' command\r\n".to_vec()),
        (vec![b"MSET", b"a", &mid, b"b", &long, b"c", &long, b"d", b"small"], ok),
        (vec![b"ECHO", &long], bulk(&long)),
        (vec![b"GET", b"m"], bulk(&mid)),
        (vec![b"MGET", b"a", b"d"], [b"*2\r\n".to_vec(), bulk(&mid), bulk(b"small")].concat()),
    ];
    let bytes = exchanges.iter().flat_map(|(words, _)| request(words)).collect();
    (bytes, exchanges.into_iter().flat_map(|(_, reply)| reply).collect())
}

#[test]
fn a_stream_that_is_cut_anywhere_is_the_same_stream() {
    let (bytes, expected) = stream();
    let mut world = world(ServerConfig { connections_max: 16, ..long(64, 16) });
    // Where one thing ends and another begins a cut is most likely to show.
    let edges = |at: &usize| bytes[at.saturating_sub(3)..(at + 3).min(bytes.len())].contains(&b'$');
    let mut prng = Prng::new(7);
    let mut cuts: Vec<usize> = (0..bytes.len()).filter(edges).collect();
    cuts.retain(|_| prng.chance(1, 30));
    cuts.extend((0..20).map(|_| prng.below(bytes.len() as u64) as usize));
    assert!(cuts.len() > 30, "{} cuts", cuts.len());
    for cut in cuts {
        let client = world.connect(Protocol::Resp);
        client.send(&bytes[..cut]);
        world.iterations(3);
        client.send(&bytes[cut..]);
        let got = world.read(&client, expected.len());
        assert!(got == expected, "cut at {cut}: {} of {} bytes", got.len(), expected.len());
        client.close_send();
        world.iterations(3);
    }
    assert_eq!((world.shared.pins.used(), world.worker.buffers_lent()), (0, 0));
}

#[test]
fn a_drip_of_single_bytes_arrives_whole() {
    let mut world = world(ServerConfig { connections_max: 16, ..long(64, 16) });
    let long = pattern(131_100);
    let bytes = request(&[b"SET", b"drip", &long, b"PX", b"100000", b"GET"]);
    let client = world.connect(Protocol::Resp);
    let (head, tail) = (bytes.len() - long.len() - 40, 60);
    for (at, byte) in bytes.iter().enumerate() {
        if at > head + 300 && at < bytes.len() - tail - 300 {
            // Within the value one byte is as good as another.
            client.send(&bytes[at..at + 1]);
            if at % 400 == 0 {
                world.iterations(1);
            }
            continue;
        }
        client.send(std::slice::from_ref(byte));
        world.iterations(1);
    }
    assert_eq!(world.read(&client, 5), b"$-1\r\n");
    client.send(&request(&[b"GET", b"drip"]));
    let expected = [b"$131100\r\n", &long[..], b"\r\n"].concat();
    assert!(world.read(&client, expected.len()) == expected);
}

#[test]
fn announced_values_without_data_reserve_almost_no_memory() {
    let mut world = world(ServerConfig { connections_max: 600, ..long(2048, 512) });
    let announcers: Vec<SimClient> = (0..500).map(|_| world.connect(Protocol::Resp)).collect();
    for (number, client) in announcers.iter().enumerate() {
        client.send(format!("*3\r\n$3\r\nSET\r\n$4\r\nk{number:03}\r\n$536000000\r\n").as_bytes());
    }
    world.iterations(30);
    let piece_bytes = 128 << 10;
    let used = world.shared.pins.used();
    assert!(used <= 64 * piece_bytes, "{used} bytes of the store are reserved for what is announced");
    // After a second nothing is kept but the head of each.
    world.clock_ns.fetch_add(2_000_000_000, Relaxed);
    world.iterations(30);
    assert_eq!((world.shared.pins.used(), world.worker.buffers_lent()), (0, 0));
    // They may go on, and others too.
    let quick = world.connect(Protocol::Resp);
    quick.send(&request(&[b"SET", b"quick", &pattern(200_000)]));
    assert_eq!(world.read(&quick, 5), b"+OK\r\n");
    let items = world.shared.store.stats().items;
    announcers[7].send(&pattern(3_000_000));
    world.iterations(60);
    assert!(world.shared.store.stats().items > items + 20, "it goes on where it was left");
    announcers.iter().for_each(SimClient::close_send);
    world.iterations(60);
    assert_eq!((world.shared.pins.used(), world.worker.buffers_lent()), (0, 0));
    assert_eq!(world.shared.store.stats().items, items, "what was not whole is gone");
}

/// Stores and reads a value of `mib` MiB with redis-cli, and compares the two.
fn round_trip(mib: usize) {
    let running = start(long(mib as u64 * 3 + 64, mib as u64 + 1));
    let port = crate::common::tcp(&running).port().to_string();
    let folder = std::env::temp_dir().join(format!("gannet-resp-long-{}-{mib}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (sent, got) = (folder.join("sent"), folder.join("got"));
    let block = pattern((1 << 20) - 1);
    let mut file = std::io::BufWriter::new(std::fs::File::create(&sent).unwrap());
    // The longest value of all, not a byte more.
    let mut left = mib << 20;
    while left > 0 {
        let take = left.min(block.len());
        file.write_all(&block[..take]).unwrap();
        left -= take;
    }
    drop(file);
    let cli = |words: &[&str], from: Option<&std::path::Path>, to: Option<&std::path::Path>| {
        let mut command = std::process::Command::new("redis-cli");
        command.args(["-p", &port]).args(words);
        command.stdin(from.map_or(std::process::Stdio::null(), |from| std::fs::File::open(from).unwrap().into()));
        if let Some(to) = to {
            command.stdout(std::fs::File::create(to).unwrap());
            assert!(command.status().expect("redis-cli can be run").success());
            return String::new();
        }
        String::from_utf8(command.output().expect("redis-cli can be run").stdout).unwrap()
    };
    assert_eq!(cli(&["-x", "SET", "big"], Some(&sent), None), "OK\n");
    assert_eq!(cli(&["STRLEN", "big"], None, None), format!("{}\n", mib << 20));
    cli(&["GET", "big"], None, Some(&got));
    let (mut sent, mut got) = (std::fs::File::open(sent).unwrap(), std::fs::File::open(got).unwrap());
    let (mut one, mut other) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    for number in 0..mib {
        sent.read_exact(&mut one).unwrap();
        got.read_exact(&mut other).unwrap_or_else(|error| panic!("MiB {number} of {mib}: {error}"));
        assert!(one == other, "MiB {number} of {mib}");
    }
    let rest = std::io::read_to_string(got).unwrap();
    assert_eq!(rest, "\n");
    std::fs::remove_dir_all(folder).unwrap();
    running.stop();
}

#[test]
fn redis_cli_stores_and_reads_values_of_a_mebibyte_and_of_a_hundred() {
    round_trip(1);
    round_trip(100);
}

#[test]
#[ignore = "writes 1 GiB; run it with --ignored"]
fn redis_cli_stores_and_reads_a_value_of_512_mebibytes() {
    round_trip(512);
}
