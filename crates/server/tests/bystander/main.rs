//! One client cannot hold up another: every long command, at sizes at which it takes many slices, runs beside a client
//! that sends `PING` in every event-loop iteration.
//!
//! Under the simulated clock nothing depends on how fast this machine is. An iteration ends by counted work, so what is
//! asserted is in iterations: a command takes at least as many as its size says, and the bystander is answered within
//! [`LATE_MAX`] of them, with one such client and with [`CROWD`] at once. `GANNET_BYSTANDER_SCALE=1000000` runs the
//! commands over so many keys and fields, and `--nocapture` prints the CPU time of the longest iteration of each.

#[path = "../common/mod.rs"]
mod common;
#[path = "../sim/mod.rs"]
mod sim;

use common::redis::request;
use gannet_server::command::Protocol;
use gannet_server::pace::ITERATION_OPS_MAX;
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use sim::World;
use std::sync::atomic::Ordering::Relaxed;

/// Iterations within which a bystander is answered.
const LATE_MAX: u64 = 2;
/// Clients that run a command at once.
const CROWD: usize = 100;
/// Iterations in which a crowd is watched.
const CROWD_ITERATIONS: u64 = 40;
/// Keys and fields, if nothing else is asked for.
const SCALE: usize = 30_000;

/// CPU time of this thread in ns.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn line(text: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    request(&words)
}

/// A command with words for each of so many numbers behind it.
fn many(head: &str, count: usize, words: impl Fn(usize) -> String) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = head.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    for number in 0..count {
        all.extend(words(number).split(' ').map(|word| word.as_bytes().to_vec()));
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    request(&all)
}

/// So many requests as one transaction.
fn transaction(count: usize, request: impl Fn(usize) -> String) -> Vec<u8> {
    let mut bytes = line("MULTI");
    (0..count).for_each(|number| bytes.extend(line(&request(number))));
    bytes.extend(line("EXEC"));
    bytes
}

/// A command, and how many iterations it takes at least.
struct Row {
    name: &'static str,
    protocol: Protocol,
    request: Vec<u8>,
    iterations_min: u64,
    /// A client of its own has done it before: it changes what the next one finds, and a crowd does not run it.
    is_once: bool,
}

impl Row {
    /// `units` of which an iteration does at most `each`.
    fn new(name: &'static str, request: Vec<u8>, units: usize, each: usize) -> Self {
        let iterations_min = (units / each / 2).max(2) as u64;
        Self { name, protocol: Protocol::Resp, request, iterations_min, is_once: false }
    }

    fn once(self) -> Self {
        Self { is_once: true, ..self }
    }

    fn memcached(name: &'static str, request: String, units: usize, each: usize) -> Self {
        Self { protocol: Protocol::Memcache, ..Self::new(name, request.into_bytes(), units, each) }
    }

    /// What is sent behind the request, and what its answer ends with.
    fn mark(&self) -> (Vec<u8>, &'static [u8]) {
        match self.protocol {
            Protocol::Resp => (line("ECHO all-answered"), b"$12\r\nall-answered\r\n"),
            Protocol::Memcache => (b"mn\r\n".to_vec(), b"MN\r\n"),
        }
    }
}

/// A client that sends `PING` as soon as the last one is answered.
struct Bystander {
    client: SimClient,
    asked: Option<u64>,
    late_max: u64,
    answers: u64,
}

impl Bystander {
    fn new(lab: &mut Lab) -> Self {
        let client = lab.world.connect(Protocol::Resp);
        lab.drive(&client, b"", &line("PING"), b"+PONG\r\n");
        Self { client, asked: None, late_max: 0, answers: 0 }
    }

    fn ask(&mut self, iteration: u64) {
        if self.asked.is_none() {
            self.client.send(&line("PING"));
            self.asked = Some(iteration);
        }
    }

    fn listen(&mut self, iteration: u64) {
        let Some(asked) = self.asked else { return };
        self.late_max = self.late_max.max(iteration - asked);
        if !self.client.take(usize::MAX).is_empty() {
            self.asked = None;
            self.answers += 1;
        }
    }
}

struct Lab {
    world: World,
    scale: usize,
}

impl Lab {
    fn new() -> Self {
        let scale = std::env::var("GANNET_BYSTANDER_SCALE").map_or(SCALE, |text| text.parse().expect("a number"));
        let config = ServerConfig {
            connections_max: 512,
            memory_bytes: if scale > SCALE { 4 << 30 } else { 512 << 20 },
            item_bytes_max: 128 << 20,
            segment_bytes: Some(1 << 20),
            ..common::config()
        };
        Self { world: World::new(1, Faults::NONE, config), scale }
    }

    /// An iteration of the worker, whose CPU time is given in ns, and a slice of the background.
    fn iterate(&mut self) -> u64 {
        let before = cpu_ns();
        assert!(self.world.worker.turn(), "the worker does not stop by itself");
        let took = cpu_ns() - before;
        let now = base::clock::UnixMillis(self.world.clock_ns.load(Relaxed) / 1_000_000);
        let mut steps = 0;
        self.world.background.slice(now, &mut || {
            steps += 1;
            steps > 8
        });
        took
    }

    /// Sends two requests and waits for the answer to the second one.
    fn drive(&mut self, client: &SimClient, first: &[u8], second: &[u8], end: &[u8]) {
        client.send(first);
        client.send(second);
        let mut got = Vec::new();
        for _ in 0..1_000_000 {
            self.iterate();
            got.extend(client.take(usize::MAX));
            if got.ends_with(end) {
                return;
            }
        }
        panic!("no answer: {}", got[..got.len().min(300)].escape_ascii());
    }

    fn fill(&mut self, requests: impl Iterator<Item = Vec<u8>>) {
        let client = self.world.connect(Protocol::Resp);
        let requests: Vec<Vec<u8>> = requests.collect();
        for batch in requests.chunks(500) {
            self.drive(&client, &batch.concat(), &line("PING"), b"+PONG\r\n");
        }
        client.close_send();
    }

    /// One client runs the command.
    fn run_alone(&mut self, row: &Row) {
        let mut bystander = Bystander::new(self);
        let client = self.world.connect(row.protocol);
        self.world.turns(3);
        let (after, end) = row.mark();
        client.send(&row.request);
        client.send(&after);
        let (mut got, mut iterations, mut longest_ns) = (Vec::new(), 0, 0);
        while !got.ends_with(end) {
            bystander.ask(iterations);
            longest_ns = self.iterate().max(longest_ns);
            iterations += 1;
            bystander.listen(iterations);
            got.extend(client.take(usize::MAX));
            got.drain(..got.len().saturating_sub(200));
            assert!(iterations < 2_000_000 && !client.is_closed(), "{}: no answer", row.name);
        }
        let Row { name, iterations_min, .. } = row;
        let late = bystander.late_max;
        println!("{name:40} {iterations:7} iterations, the longest {:6} us, PING within {late}", longest_ns / 1000);
        assert!(iterations >= *iterations_min, "{name}: {iterations} iterations, not {iterations_min} at least");
        assert!(late <= LATE_MAX && bystander.answers > 0, "{name}: a PING took {late} iterations");
        client.close_send();
        bystander.client.close_send();
        self.world.turns(5);
    }

    /// A crowd runs it at once, and goes before it is done.
    fn run_in_a_crowd(&mut self, row: &Row) {
        let mut bystander = Bystander::new(self);
        let crowd: Vec<SimClient> = (0..CROWD).map(|_| self.world.connect(row.protocol)).collect();
        self.world.turns(8);
        crowd.iter().for_each(|client| client.send(&row.request));
        // Requests that are long are received in several iterations.
        let received = row.request.len() as u64 * CROWD as u64 / (256 << 10) + 2;
        self.world.turns(received as usize);
        for iteration in 0..CROWD_ITERATIONS {
            bystander.ask(iteration);
            self.iterate();
            bystander.listen(iteration + 1);
            crowd.iter().for_each(|client| drop(client.take(usize::MAX)));
        }
        let late = bystander.late_max;
        assert!(late <= LATE_MAX, "{}: beside {CROWD} clients a PING took {late} iterations", row.name);
        assert!(bystander.answers >= CROWD_ITERATIONS / LATE_MAX / 2, "{}: {} answers", row.name, bystander.answers);
        crowd.iter().for_each(SimClient::reset);
        bystander.client.close_send();
        while self.world.worker.sessions() > 0 {
            bystander.client.take(usize::MAX);
            self.world.turn();
        }
        let left = self.world.shared.budget.used();
        assert!(left == 0, "{}: {left} bytes of client memory are in use when nobody is there", row.name);
    }

    fn run(&mut self, rows: &[Row]) {
        for row in rows {
            self.run_alone(row);
            if !row.is_once {
                self.run_in_a_crowd(row);
            }
        }
    }
}

/// Operations of one iteration, at most: those that end it, and a last visit.
const OPS: usize = ITERATION_OPS_MAX + 64;

#[test]
fn walks_over_all_keys_hold_nobody_up() {
    let mut lab = Lab::new();
    let n = lab.scale;
    lab.fill((0..n).map(|number| line(&format!("SET key:{number} value:{number}"))));
    // A step of a walk counts for as many operations as a quarter of its keys, and four more.
    let keys = 4 * OPS;
    lab.run(&[
        Row::new("KEYS nomatch*", line("KEYS nomatch*"), n, keys),
        Row::new("KEYS *", line("KEYS *"), n, keys),
        Row::new("SCAN 0 COUNT 1000000", line("SCAN 0 COUNT 1000000"), n / 10, keys),
        Row::memcached("lru_crawler metadump all", "lru_crawler metadump all\r\n".into(), n, keys),
        Row::memcached("lru_crawler mgdump all", "lru_crawler mgdump all\r\n".into(), n, keys),
    ]);
}

#[test]
fn commands_over_many_keys_hold_nobody_up() {
    let mut lab = Lab::new();
    lab.fill((0..10_000).map(|number| line(&format!("SET key:{number} value:{number}"))));
    let keys: String = (0..5000).map(|number| format!(" key:{number}")).collect();
    lab.run(&[
        Row::new("EXEC of 8,000 SET", transaction(8000, |n| format!("SET m:{n} v")), 8000, OPS),
        Row::new("EXEC of 8,000 GET", transaction(8000, |_| "GET key:1".into()), 8000, OPS),
        Row::new("WATCH of 4,096 keys", many("WATCH", 4096, |n| format!("key:{n}")), 4096, OPS),
        Row::new("MGET of 10,000 keys", many("MGET", 10_000, |n| format!("key:{n}")), 10_000, OPS),
        Row::new("MSET of 5,000 keys", many("MSET", 5_000, |n| format!("ms:{n} v")), 5_000, OPS),
        Row::new("MSET of 4,000 keys as one", many("MSET", 4_000, |n| format!("ms:{n} v")), 4_000, OPS),
        Row::new("EXISTS of 10,000 keys", many("EXISTS", 10_000, |n| format!("ms:{n}")), 10_000, OPS),
        Row::new("TOUCH of 10,000 keys", many("TOUCH", 10_000, |n| format!("ms:{n}")), 10_000, OPS),
        Row::new("DEL of 10,000 keys", many("DEL", 10_000, |n| format!("ms:{n}")), 10_000, OPS),
        Row::memcached("get of 5,000 keys", format!("get{keys}\r\n"), 5000, OPS),
        Row::memcached("gat of 5,000 keys", format!("gat 100{keys}\r\n"), 5000, OPS),
    ]);
}

#[test]
fn commands_over_one_large_hash_hold_nobody_up() {
    let mut lab = Lab::new();
    let n = lab.scale;
    lab.fill((0..n / 100).map(|part| {
        let field = |at| format!("field:{0} value:{0}", 100 * part + at);
        many("HSET h", 100, field)
    }));
    let fields = |head: &str, count, name: &'static str| many(head, count, move |number| format!("{name}:{number}"));
    // A leaf of some twenty fields counts for as many operations as a quarter of them, and two more.
    let walked = 4 * OPS;
    let row = |name, request, units, each| Row::new(name, request, units, each);
    lab.run(&[
        row("HGETALL", line("HGETALL h"), n, walked),
        row("HKEYS", line("HKEYS h"), n, walked),
        row("HVALS", line("HVALS h"), n, walked),
        row("HRANDFIELD h 1000000", line("HRANDFIELD h 1000000"), n, walked),
        row("HRANDFIELD h -20000 WITHVALUES", line("HRANDFIELD h -20000 WITHVALUES"), 20_000, OPS),
        row("HSCAN COUNT 1000000", line("HSCAN h 0 COUNT 1000000"), n, walked),
        row("HSCAN MATCH", line("HSCAN h 0 MATCH nomatch* COUNT 1000000"), n, walked),
        row("HMGET of 10,000 fields", fields("HMGET h", 10_000, "field"), 10_000, OPS),
        row("HTTL of 10,000 fields", fields("HTTL h FIELDS 10000", 10_000, "field"), 10_000, OPS),
        row("HSET of 1,500 fields", many("HSET h", 1_500, |n| format!("field:{n} new")), 1_500 * 3, OPS),
        row("HSET of 1,500 new fields", many("HSET h", 1_500, |n| format!("new:{n} new")), 1_500 * 3, OPS),
        row("HDEL of 1,500 fields", fields("HDEL h", 1_500, "new"), 1_500 * 3, OPS),
        row("HEXPIRE of 1,500 fields", fields("HEXPIRE h 1000 FIELDS 1500", 1_500, "field"), 1_500 * 3, OPS),
        row("HPERSIST of 1,500 fields", fields("HPERSIST h FIELDS 1500", 1_500, "field"), 1_500 * 3, OPS),
        row("HGETEX of 1,500 fields", fields("HGETEX h EX 100 FIELDS 1500", 1_500, "field"), 1_500 * 3, OPS),
        row("HGETDEL of 1,500 fields", fields("HGETDEL h FIELDS 1500", 1_500, "field"), 1_500 * 3, OPS).once(),
        row("COPY of a hash", line("COPY h h2 REPLACE"), n / 40, OPS),
        row("MEMORY USAGE of a hash", line("MEMORY USAGE h"), n / 30, OPS),
    ]);
}

#[test]
fn commands_over_one_long_value_hold_nobody_up() {
    let mut lab = Lab::new();
    let bytes = 40 << 20;
    let value = vec![b'x'; bytes];
    lab.fill(std::iter::once(request(&[b"SET", b"v", &value])));
    // What one visit copies, within the store and into an answer, and what one send takes.
    let copied = 256 << 10;
    let row = |name, text: &str, bytes: usize| Row::new(name, line(text), bytes, copied);
    lab.run(&[
        row("GET", "GET v", bytes),
        row("GETRANGE", "GETRANGE v 1 -1", bytes),
        row("MGET", "MGET v none", bytes),
        row("SETRANGE", "SETRANGE v 3000000 abc", bytes).once(),
        row("APPEND", "APPEND v abc", bytes).once(),
        row("COPY", "COPY v v2", bytes).once(),
        row("EXPIRE", "EXPIRE v2 1000", bytes).once(),
        row("EXPIRE to a later time", "EXPIRE v2 100000", bytes).once(),
        row("SETRANGE into nothing", "SETRANGE zeros 40000000 abc", 40_000_000).once(),
        Row::memcached("append", "append v 0 0 3\r\nabc\r\n".into(), bytes, copied).once(),
        Row::memcached("prepend", "prepend v 0 0 3\r\nabc\r\n".into(), bytes, copied).once(),
        Row::memcached("touch", "touch v 1000\r\n".into(), bytes, copied).once(),
    ]);
}

#[test]
fn commands_over_many_records_hold_nobody_up() {
    let mut lab = Lab::new();
    let n = lab.scale;
    lab.fill((0..n).map(|at| line(&format!("REC.PUT p:{at} IN people BINS name STR n{at} age INT {}", at % 100))));
    lab.run(&[
        Row::new("REC.SCAN", line("REC.SCAN people 0 COUNT 4096"), 2000, OPS),
        Row::new("REC.INDEX CREATE", line("REC.INDEX CREATE people age INT"), n, OPS).once(),
        Row::new("REC.QUERY", line("REC.QUERY people age BETWEEN 0 100 LIMIT 4096"), 4096, OPS),
        Row::new("REC.TRUNCATE", line("REC.TRUNCATE people"), n, OPS).once(),
    ]);
}
