//! Tests of commands with many names, receivers or connections, concurrent with other clients: each visit does a
//! bounded part of the work.

use super::half::{ask_beside, bystanders};
use crate::common;
use crate::common::redis::request;
use crate::grpc_client::{DATA, HEADERS, SETTINGS, WINDOW_UPDATE, call, frame, key};
use crate::sim::World;
use command::clients::endpoint::Protocol::{Grpc, Resp};
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use protocol::grpc::protobuf::Message;

/// The maximum CPU time of an iteration in an unoptimised build, in ns: about a hundred times the expected time. Work
/// on all of the names below at once would take far longer.
const TURN_CPU_NS_MAX: u64 = 60_000_000;

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A world with bystanders, which must always get their replies within two iterations.
struct Beside {
    world: World,
    bystanders: [SimClient; 2],
}

impl Beside {
    fn new(connections_max: usize) -> Self {
        let config = ServerConfig { connections_max, memory_bytes: 1 << 30, ..common::config() };
        let mut world = World::new(1, Faults::NONE, config);
        let bystanders = bystanders(&mut world);
        Self { world, bystanders }
    }

    /// Connects a RESP3 client, which may send any command while it is subscribed.
    fn client(&mut self) -> SimClient {
        let client = self.world.connect(Resp);
        client.send(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
        (0..20).for_each(|_| self.world.guard());
        assert!(client.take(1000).starts_with(b"%7"));
        client
    }

    /// Runs two iterations in which the bystanders send requests. Asserts that they get replies, and that no iteration
    /// takes long.
    fn iterations(&mut self, what: &str) {
        let begun = cpu_ns();
        ask_beside(&mut self.world, &self.bystanders, what);
        let ns = cpu_ns() - begun;
        assert!(ns < 2 * TURN_CPU_NS_MAX, "{what}: two turns took {} us of CPU time", ns / 1000);
    }

    /// Sends a request and a PING. Returns the bytes before the PONG, and the number of iterations until then.
    fn ask(&mut self, client: &SimClient, words: &[&[u8]]) -> (Vec<u8>, usize) {
        let what = format!("{} with {} words", words[0].escape_ascii(), words.len());
        client.send(&request(words));
        client.send(b"*1\r\n$4\r\nPING\r\n");
        let (mut got, mut iterations) = (Vec::new(), 0);
        while !got.ends_with(b"+PONG\r\n") {
            self.iterations(&what);
            iterations += 2;
            assert!(iterations < 200_000, "{what}: {} bytes", got.len());
            got.extend(client.take(usize::MAX));
        }
        got.truncate(got.len() - b"+PONG\r\n".len());
        (got, iterations)
    }
}

/// Returns a word followed by names.
fn named<'n>(word: &'n [u8], names: &'n [Vec<u8>]) -> Vec<&'n [u8]> {
    std::iter::once(word).chain(names.iter().map(Vec::as_slice)).collect()
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part).count()
}

#[test]
fn forty_thousand_names_are_subscribed_and_unsubscribed_name_by_name() {
    let mut beside = Beside::new(8);
    let client = beside.client();
    let (empty, names) = (vec![Vec::new(); 40_000], (0..10_000).map(|n| format!("name-{n}").into_bytes()));
    let names: Vec<Vec<u8>> = names.collect();
    let words =
        [[&b"SUBSCRIBE"[..], b"UNSUBSCRIBE"], [b"PSUBSCRIBE", b"PUNSUBSCRIBE"], [b"SSUBSCRIBE", b"SUNSUBSCRIBE"]];
    for [subscribe, unsubscribe] in words {
        let begin = format!(">3\r\n${}\r\n", unsubscribe.len()).into_bytes();
        let (replied, _) = beside.ask(&client, &named(unsubscribe, &empty));
        assert_eq!(count(&replied, &begin), 40_000, "each empty name is answered");
        let (replied, _) = beside.ask(&client, &named(subscribe, &names));
        assert_eq!(count(&replied, b">3\r\n"), 10_000);
        let (replied, _) = beside.ask(&client, &[unsubscribe]);
        assert_eq!(count(&replied, b">3\r\n"), 10_000);
        assert!(replied.ends_with(b":0\r\n"));
        beside.ask(&client, &named(subscribe, &names));
        let (replied, _) = beside.ask(&client, &named(unsubscribe, &names));
        assert!(count(&replied, b">3\r\n") == 10_000 && replied.ends_with(b":0\r\n"));
    }
    assert_eq!(beside.world.shared.channels.bytes(), 0);
}

/// Subscribes a client to `count` channels with this prefix.
fn subscribe_many(beside: &mut Beside, client: &SimClient, word: &[u8], prefix: &str, count: usize) {
    for from in (0..count).step_by(5000) {
        let names: Vec<Vec<u8>> = (from..count.min(from + 5000)).map(|n| format!("{prefix}{n}").into_bytes()).collect();
        beside.ask(client, &named(word, &names));
    }
}

#[test]
fn a_hundred_thousand_subscriptions_end_in_slices_and_are_listed_in_slices() {
    let mut beside = Beside::new(8);
    let (client, other) = (beside.client(), beside.client());
    for end in ["RESET", "QUIT", "reset of the connection"] {
        let client = if end == "RESET" { &client } else { &beside.client() };
        let (channels, patterns) = if end == "RESET" { (60_000, 40_000) } else { (15_000, 10_000) };
        subscribe_many(&mut beside, client, b"SUBSCRIBE", "a-channel-", channels);
        subscribe_many(&mut beside, client, b"PSUBSCRIBE", "p*", patterns);
        let (listed, iterations) = beside.ask(&other, &[b"PUBSUB", b"CHANNELS", b"*-1*"]);
        let wanted = (0..channels).filter(|n| n.to_string().starts_with('1')).count();
        assert!(listed.starts_with(format!("*{wanted}\r\n$").as_bytes()) && iterations > 6, "{iterations} iterations");
        assert_eq!(count(&listed, b"a-channel-1"), wanted);
        assert_eq!(beside.ask(&other, &[b"PUBSUB", b"NUMPAT"]).0, format!(":{patterns}\r\n").as_bytes());
        let asked: Vec<Vec<u8>> = (0..10_000).map(|n| format!("a-channel-{n}").into_bytes()).collect();
        let words: Vec<&[u8]> = std::iter::once(&b"PUBSUB"[..]).chain(named(b"NUMSUB", &asked)).collect();
        let (replied, _) = beside.ask(&other, &words);
        assert!(replied.starts_with(b"*20000\r\n") && count(&replied, b"\r\n:1\r\n") == 10_000);
        match end {
            "RESET" => assert!(beside.ask(client, &[b"RESET"]).0.ends_with(b"+RESET\r\n")),
            "QUIT" => client.send(b"*1\r\n$4\r\nQUIT\r\n"),
            _ => client.reset(),
        }
        let mut iterations = 0;
        while beside.world.shared.channels.bytes() > 0 {
            beside.iterations(end);
            iterations += 2;
            assert!(iterations < 10_000, "{end}: {} bytes are left", beside.world.shared.channels.bytes());
        }
        assert!(end == "RESET" || iterations > 40, "{end}: in {iterations} iterations");
        assert_eq!(beside.ask(&other, &[b"PUBSUB", b"CHANNELS"]).0, b"*0\r\n");
    }
}

#[test]
fn a_message_for_many_receivers_and_patterns_is_published_in_slices_and_once_to_each() {
    const RECEIVERS: usize = 3000;
    let mut beside = Beside::new(RECEIVERS + 16);
    let publisher = beside.client();
    let receivers: Vec<SimClient> = (0..RECEIVERS).map(|_| beside.world.connect(Resp)).collect();
    for receiver in &receivers {
        receiver.send(&request(&[b"SUBSCRIBE", b"news"]));
        receiver.send(&request(&[b"PSUBSCRIBE", b"n*s"]));
    }
    (0..200).for_each(|_| beside.iterations("subscribing"));
    receivers.iter().for_each(|receiver| assert!(count(&receiver.take(1000), b"subscribe\r\n") == 2));
    let patterns = beside.client();
    subscribe_many(&mut beside, &patterns, b"PSUBSCRIBE", "other-*-", 50_000);
    let (replied, iterations) = beside.ask(&publisher, &[b"PUBLISH", b"news", b"hello"]);
    assert_eq!(replied, format!(":{}\r\n", 2 * RECEIVERS).as_bytes());
    assert!(iterations > 20, "{iterations} iterations");
    // Sending takes its iterations too.
    (0..RECEIVERS / 8).for_each(|_| beside.iterations("sending"));
    for (number, receiver) in receivers.iter().enumerate() {
        let got = receiver.take(1000);
        let kinds = [&b"$7\r\nmessage\r\n"[..], b"$8\r\npmessage\r\n"].map(|kind| count(&got, kind));
        assert_eq!(kinds, [1, 1], "receiver {number}: {}", got.escape_ascii());
    }
}

/// Each change takes more than a slice: 5,000 patterns are matched with its channel.
#[test]
fn changes_of_keys_are_published_in_slices_in_order_and_their_writers_wait() {
    const CHANGES: usize = 400;
    let mut beside = Beside::new(16);
    let (writer, reader, patterns) = (beside.client(), beside.client(), beside.client());
    beside.ask(&writer, &[b"CONFIG", b"SET", b"notify-keyspace-events", b"E$"]);
    subscribe_many(&mut beside, &patterns, b"PSUBSCRIBE", "other-*-", 5000);
    beside.ask(&reader, &[b"SUBSCRIBE", b"__keyevent@0__:set"]);
    let requests: Vec<u8> = (0..CHANGES).flat_map(|n| request(&[b"SET", format!("k{n}").as_bytes(), b"x"])).collect();
    writer.send(&requests);
    let (mut stored, mut replied, mut ahead_most, mut iterations) = (0, Vec::new(), 0, 0);
    while count(&replied, b"$7\r\nmessage\r\n") < CHANGES {
        let begun = cpu_ns();
        beside.world.guard();
        assert!(cpu_ns() - begun < TURN_CPU_NS_MAX, "iteration {iterations}");
        stored += count(&writer.take(usize::MAX), b"+OK\r\n");
        replied.extend(reader.take(usize::MAX));
        ahead_most = ahead_most.max(stored - count(&replied, b"$7\r\nmessage\r\n").min(stored));
        iterations += 1;
        assert!(iterations < 100_000, "{stored} stored");
    }
    assert!(
        stored == CHANGES && ahead_most < CHANGES && iterations > CHANGES,
        "{ahead_most} ahead, {iterations} iterations"
    );
    let keys = replied.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"k"));
    for (number, key) in keys.enumerate() {
        assert_eq!(key, format!("k{number}\r").as_bytes(), "message {number}");
    }
}

#[test]
fn complex_patterns_are_refused_and_accepted_patterns_delay_no_client() {
    let mut beside = Beside::new(8);
    let (client, publisher) = (beside.client(), beside.client());
    let long = b"*a".repeat(15_000);
    let rule = [b"~", &long[..]].concat();
    let channel_rule = [b"&", &long[..]].concat();
    let key = b"h";
    for words in [
        &[&b"PSUBSCRIBE"[..], &long][..],
        &[b"KEYS", &long],
        &[b"SCAN", b"0", b"MATCH", &long],
        &[b"HSCAN", key, b"0", b"MATCH", &long],
        &[b"CONFIG", b"GET", &long],
        &[b"PUBSUB", b"CHANNELS", &long],
        &[b"ACL", b"SETUSER", b"someone", &rule],
        &[b"ACL", b"SETUSER", b"someone", &channel_rule],
    ] {
        beside.ask(&client, &[b"HSET", key, b"f", b"v"]);
        let (replied, _) = beside.ask(&client, words);
        let replied = String::from_utf8_lossy(&replied[..replied.len().min(200)]).to_lowercase();
        assert!(
            replied.starts_with("-err") && replied.contains("too complex"),
            "{:?}: {replied}",
            words[0].escape_ascii()
        );
    }
    // What is taken costs a bounded number of steps for the longest of names.
    let patterns: Vec<Vec<u8>> =
        (0..300).map(|n| [&b"*a".repeat(250)[..], format!("b{n}*").as_bytes()].concat()).collect();
    beside.ask(&client, &named(b"PSUBSCRIBE", &patterns));
    let name = vec![b'a'; 60_000];
    let (replied, iterations) = beside.ask(&publisher, &[b"PUBLISH", &name, b"x"]);
    assert!(replied == b":0\r\n" && iterations > 4, "{iterations} iterations");
}

#[test]
fn client_list_and_kill_take_a_bounded_share_of_each_iteration() {
    const CLIENTS: usize = 3000;
    let mut beside = Beside::new(CLIENTS + 16);
    let client = beside.client();
    let clients: Vec<SimClient> = (0..CLIENTS).map(|_| beside.world.connect(Resp)).collect();
    (0..100).for_each(|_| beside.iterations("connecting"));
    let (listed, iterations) = beside.ask(&client, &[b"CLIENT", b"LIST"]);
    assert!(count(&listed, b"id=") == CLIENTS + 2 && iterations > 20, "{iterations} iterations");
    assert!(listed.starts_with(b"=") && listed.ends_with(b"\n\r\n"));
    let ids: Vec<Vec<u8>> = (1..10_000).map(|n: u32| n.to_string().into_bytes()).collect();
    let words: Vec<&[u8]> = [&b"CLIENT"[..], b"LIST"].into_iter().chain(named(b"ID", &ids)).collect();
    let (again, _) = beside.ask(&client, &words);
    assert_eq!(count(&again, b"id="), CLIENTS + 2);
    assert_eq!(count(&beside.ask(&client, &[b"CLIENT", b"LIST", b"ID", b"1", b"2", b"2"]).0, b"id="), 2);
    assert_eq!(count(&beside.ask(&client, &[b"CLIENT", b"INFO"]).0, b"id="), 1);
    assert_eq!(beside.ask(&client, &[b"ACL", b"SETUSER", b"nobody"]).0, b"+OK\r\n");
    let (replied, iterations) = beside.ask(&client, &[b"CLIENT", b"KILL", b"TYPE", b"normal", b"USER", b"nobody"]);
    assert!(replied == b":0\r\n" && iterations > 2, "{iterations} iterations");
    // Their connections close over many iterations, and each gives its place back.
    clients.iter().for_each(SimClient::reset);
    let mut iterations = 0;
    while beside.world.worker.sessions() > 3 {
        let begun = cpu_ns();
        beside.world.guard();
        let ns = cpu_ns() - begun;
        iterations += 1;
        assert!(iterations < 2000 && ns < TURN_CPU_NS_MAX, "{} left, {ns} ns", beside.world.worker.sessions());
    }
    assert!(iterations > 40, "in {iterations} iterations");
}

#[test]
fn iteration_time_is_bounded_when_commands_feed_many_monitors() {
    const MONITORS: usize = 60;
    const COMMANDS: usize = 3000;
    let mut beside = Beside::new(MONITORS + 16);
    let client = beside.client();
    let monitors: Vec<SimClient> = (0..MONITORS).map(|_| beside.world.connect(Resp)).collect();
    monitors.iter().for_each(|monitor| monitor.send(&request(&[b"MONITOR"])));
    beside.world.iterations(20);
    monitors.iter().for_each(|monitor| assert_eq!(monitor.take(100), b"+OK\r\n"));
    client.send(&request(&[b"ECHO", b"text"]).repeat(COMMANDS));
    let (mut answered, mut iterations, mut replied) = (0, 0, vec![0; MONITORS]);
    while answered < COMMANDS || replied.iter().any(|replied| *replied < COMMANDS) {
        let begun = cpu_ns();
        beside.world.guard();
        assert!(cpu_ns() - begun < TURN_CPU_NS_MAX, "iteration {iterations}: {} ns", cpu_ns() - begun);
        answered += count(&client.take(usize::MAX), b"$4\r\ntext\r\n");
        for (replied, monitor) in replied.iter_mut().zip(&monitors) {
            *replied += count(&monitor.take(usize::MAX), b"\"ECHO\" \"text\"\r\n");
        }
        iterations += 1;
        assert!(iterations < 20_000, "{answered} answered, {replied:?} told");
    }
    assert!(iterations > 60, "{iterations} iterations");
}

/// A graph in which node 1 knows 60 nodes, each of which knows 1,000 nodes of its own.
fn graph_of_sixty_thousand_edges() -> (World, SimClient) {
    let config = ServerConfig { connections_max: 8, graph_memory_bytes: 90 << 20, ..common::config() };
    let mut world = World::new(1, Faults::NONE, config);
    let client = world.connect(Resp);
    let mut text = String::new();
    for child in 2..62 {
        text.push_str(&format!("1 {child}\n"));
        (0..1000).for_each(|leaf| text.push_str(&format!("{child} {}\n", child * 10_000 + leaf)));
    }
    client.send(b"G.TYPE g knows UNDIRECTED\r\n");
    client.send(&request(&[b"G.LOAD", b"g", b"knows", b"EDGES", text.as_bytes()]));
    let (mut got, mut iterations) = (Vec::new(), 0);
    while !got.ends_with(b":0\r\n*0\r\n") {
        world.guard();
        got.extend(client.take(1000));
        iterations += 1;
        assert!(iterations < 100_000, "{}", got.escape_ascii());
    }
    (world, client)
}

#[test]
fn second_degree_takes_short_slices_while_another_client_has_requests() {
    let (mut world, client) = graph_of_sixty_thousand_edges();
    let other = world.connect(Resp);
    world.iterations(3);
    let mut iterations_of = |is_beside: bool, node: u64| {
        // The requests of earlier rounds are long ago. The changed edge makes the cached set void.
        world.clock_ns.fetch_add(1_000_000_000, std::sync::atomic::Ordering::Relaxed);
        client.send(format!("G.ADD g 1 knows {node}\r\nG.DEG2 g 1 knows COUNT BUDGET 1048576\r\n").as_bytes());
        let (mut got, mut iterations, mut answers) = (Vec::new(), 0, 0);
        while !got.ends_with(b"*2\r\n:0\r\n:60000\r\n") {
            if is_beside {
                other.send(b"PING\r\n");
            }
            world.guard();
            got.extend(client.take(1000));
            answers += count(&other.take(1000), b"+PONG");
            iterations += 1;
            assert!(iterations < 10_000, "{}", got.escape_ascii());
        }
        assert!(!is_beside || answers + 2 >= iterations, "{answers} replies in {iterations} iterations");
        iterations
    };
    let (alone, beside) = (iterations_of(false, 100), iterations_of(true, 101));
    assert!(beside > 3 * alone && beside < 6 * alone, "{alone} iterations alone, {beside} beside another client");
    assert_eq!(iterations_of(false, 102), alone, "the other client has no request");
}

/// Executes a call, and returns its message.
fn ask_grpc(beside: &mut Beside, path: &str, message: &[u8]) -> Vec<u8> {
    let client = beside.world.connect(Grpc);
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // Windows of as many bytes as the reply has.
    client.send(&frame(SETTINGS, 0, 0, &[0, 4, 0x40, 0, 0, 0]));
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
    client.send(&call(1, path, message));
    let (mut got, mut data, mut iterations) = (Vec::new(), Vec::new(), 0);
    loop {
        beside.iterations(path);
        iterations += 2;
        assert!(iterations < 200_000, "{path}: {} bytes", data.len());
        got.extend(client.take(usize::MAX));
        while let Some(head) = got.first_chunk::<9>() {
            let (len, kind, flags) = (u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize, head[3], head[4]);
            if got.len() < 9 + len {
                break;
            }
            let payload: Vec<u8> = got.drain(..9 + len).skip(9).collect();
            match kind {
                DATA => data.extend(payload),
                HEADERS if flags & 1 != 0 => return data.split_off(5),
                _ => {}
            }
        }
    }
}

/// Regression: the reply of a long collection was decoded and encoded in one iteration.
#[test]
fn long_collections_are_read_over_grpc_part_by_part() {
    const WORDS: usize = 400_000;
    let mut beside = Beside::new(8);
    let client = beside.client();
    for from in (0..WORDS).step_by(4000) {
        let words: Vec<Vec<u8>> = (from..from + 4000).map(|n| format!("word-{n}").into_bytes()).collect();
        for (command, name) in [(&b"RPUSH"[..], &b"list"[..]), (b"SADD", b"set"), (b"HSET", b"hash")] {
            let parts = [command, name].into_iter().chain(words.iter().map(Vec::as_slice));
            beside.ask(&client, &parts.collect::<Vec<_>>());
        }
    }
    for (method, name, wanted) in
        [("ListFetch", "list", WORDS), ("SetFetch", "set", WORDS), ("DictionaryFetch", "hash", WORDS / 2)]
    {
        let message = ask_grpc(&mut beside, &format!("/gannet.v1.Cache/{method}"), &key(name));
        let found = Message::parse(&message).expect("a message").message(1).expect("a message").expect("found");
        assert_eq!(found.all(1).count(), wanted, "{method}");
    }
}
