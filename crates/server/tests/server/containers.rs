//! Tests of commands whose first argument is a subcommand: their errors and `HELP`, and `OBJECT` under each eviction
//! policy, beside Debian's Redis.

use crate::common;
use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use crate::sim::World;
use command::clients::endpoint::Protocol;
use command::resp::subcommands::{SUBCOMMANDS, Subcommand};
use gannet_server::start::ServerConfig;
use io::sim::{Faults, SimClient};
use std::sync::atomic::Ordering::Relaxed;

/// Returns the containers of Redis.
fn containers() -> Vec<&'static str> {
    let mut names: Vec<&str> = of_redis().filter_map(|part| Some(part.name.split_once('|')?.0)).collect();
    names.dedup();
    names
}

/// Returns the subcommands whose container Redis has too. Valkey has `COMMANDLOG`.
fn of_redis() -> impl Iterator<Item = &'static Subcommand> {
    SUBCOMMANDS.iter().filter(|part| !part.name.starts_with("g.") && !part.name.starts_with("commandlog|"))
}

/// Returns a request of `count` words.
fn of_words(part: &Subcommand, count: usize) -> String {
    let mut words: Vec<&str> = part.name.split('|').collect();
    words.resize(count, "x");
    words.join(" ").to_uppercase()
}

#[test]
fn wrong_words_of_every_subcommand_get_the_errors_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let (mut lines, mut compared) = (Vec::new(), 0);
    for part in of_redis() {
        let count = usize::from(part.arity.unsigned_abs());
        lines.extend((part.arity > 0).then(|| of_words(part, count + 1)));
        lines.extend((count > 2).then(|| of_words(part, count - 1)));
    }
    for container in containers() {
        lines.extend([format!("{container} nosuch"), format!("{container} Nosuch x"), container.to_owned()]);
    }
    lines.retain(|line| line != "command");
    lines.extend(
        ["AUTH a b c", "AUTH a b c d", "PUBSUB CHANNELS a b", "ACL CAT a b", "SLOWLOG GET 1 2"].map(str::to_owned),
    );
    // A refused request aborts the transaction.
    lines.extend(["MULTI", "CLIENT NOSUCH", "EXEC", "MULTI", "CLIENT ID x", "EXEC"].map(str::to_owned));
    for line in lines {
        let (ours, theirs) = (ours.text(&line), theirs.text(&line));
        // Redis 7.0 does not know some subcommands of later versions and of this server.
        let is_known = !theirs.starts_with("-ERR unknown subcommand") || line.to_lowercase().contains("such");
        if is_known || line.contains("CHANNELS a b") {
            assert_eq!(ours, theirs, "{line}");
            compared += 1;
        }
    }
    assert!(compared > 80, "{compared} lines compared");
    running.stop();
}

#[test]
fn help_lists_every_supported_subcommand_in_the_form_of_redis() {
    let (redis, running) = (Redis::start(), start(ServerConfig { debug_command: true, ..both() }));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for container in containers() {
        let line = format!("{container} help");
        let [ours, theirs] = [&mut ours, &mut theirs]
            .map(|client| String::from_utf8(client.ask(&[container.as_bytes(), b"help"])).expect("text"));
        let lines = |all: &str| all.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        assert_eq!(ours[0], theirs[0], "{line}");
        assert_eq!(ours[ours.len() - 2..], theirs[theirs.len() - 2..], "{line}");
        assert!(ours.iter().all(|line| line.starts_with('+')), "{ours:?}");
        for part in SUBCOMMANDS.iter().filter(|part| part.name.starts_with(&format!("{container}|"))) {
            let word = part.name.split('|').nth(1).expect("a subcommand").to_uppercase();
            let is_listed = ours.iter().any(|line| line[1..].split(' ').next() == Some(&word));
            assert_eq!(is_listed, !part.help.is_empty(), "{}", part.name);
        }
    }
    assert!(ours.text("DEBUG HELP").starts_with("*5 +DEBUG <subcommand>"));
    // Redis replies so if its allocator has no statistics.
    assert_eq!(ours.text("MEMORY MALLOC-STATS"), "$45 Stats not supported for the current allocator");
    for line in ["MEMORY MALLOC-STATS x", "LATENCY GRAPH", "LATENCY GRAPH nosuch", "LATENCY GRAPH a b"] {
        assert_eq!(ours.text(line), theirs.text(line), "{line}");
    }
    running.stop();
}

#[test]
fn object_depends_on_the_eviction_policy_as_in_redis() {
    for (evict, policy) in [(true, "allkeys-lfu"), (false, "noeviction")] {
        let (redis, running) = (Redis::start(), start(ServerConfig { evict, ..both() }));
        let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
        assert_eq!(theirs.text(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK");
        assert!(ours.text("CONFIG GET maxmemory-policy").ends_with(policy));
        for line in [
            "SET k v",
            "OBJECT FREQ k",
            "OBJECT IDLETIME k",
            "OBJECT FREQ none",
            "OBJECT IDLETIME none",
            "OBJECT REFCOUNT k",
        ] {
            let (ours, theirs) = (ours.text(line), theirs.text(line));
            let are_numbers = ours.starts_with(':') && theirs.starts_with(':');
            assert!(ours == theirs || are_numbers, "{line} with {policy}: {ours} {theirs}");
        }
        running.stop();
    }
}

/// `redis-cli --hotkeys` lists the keys with the greatest frequencies.
#[test]
fn frequency_of_a_key_rises_with_its_reads() {
    let running = start(both());
    let mut client = resp(&running);
    client.text("MSET cold 1 warm 1 hot 1");
    let frequency = |client: &mut Replies, key: &str| {
        let reply = client.text(&format!("OBJECT FREQ {key}"));
        reply.strip_prefix(':').and_then(|number| number.parse::<u32>().ok()).expect("a number")
    };
    (0..3).for_each(|_| drop(client.text("GET warm")));
    for _ in 0..40 {
        client.client.send(&request(&[b"GET", b"hot"]).repeat(100));
        (0..100).for_each(|_| drop(client.next()));
    }
    let [cold, warm, hot] = ["cold", "warm", "hot"].map(|key| frequency(&mut client, key));
    assert!(cold < warm && warm + 20 < hot && hot < 255, "{cold} {warm} {hot}");
    assert_eq!(frequency(&mut client, "hot"), hot, "a query is not a read");
    running.stop();
}

/// A server with a simulated clock, and its client.
struct Clocked {
    world: World,
    client: SimClient,
}

impl Clocked {
    fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.client.send(&request(&words));
        for _ in 0..1000 {
            self.world.guard();
            let reply = self.client.take(usize::MAX);
            if !reply.is_empty() {
                return String::from_utf8(reply).expect("text").trim_end().to_owned();
            }
        }
        panic!("{line}: no reply");
    }

    fn wait_secs(&mut self, secs: u64) {
        self.world.clock_ns.fetch_add(secs * 1_000_000_000, Relaxed);
        self.world.guard();
    }
}

#[test]
fn idle_time_is_lowered_by_reads_and_not_by_queries() {
    let world = World::new(1, Faults::NONE, ServerConfig { evict: false, ..common::config() });
    let client = world.connect(Protocol::Resp);
    let mut server = Clocked { world, client };
    for (store, read) in [
        ("SET k value", "GET k"),
        ("SET k 12", "GET k"),
        ("SET k value", "TOUCH k"),
        ("SET k value", "STRLEN k"),
        ("HSET k f v", "HGET k f"),
    ] {
        server.ask("DEL k");
        server.ask(store);
        let idle = |server: &mut Clocked, secs: std::ops::RangeInclusive<u64>| {
            let reply = server.ask("OBJECT IDLETIME k");
            let idle_secs: u64 = reply[1..].parse().expect("a number");
            assert!(secs.contains(&idle_secs), "{store}, {read}: {idle_secs}, not {secs:?}");
        };
        server.wait_secs(10);
        idle(&mut server, 10..=1000);
        server.wait_secs(10);
        idle(&mut server, 20..=1000);
        server.ask(read);
        idle(&mut server, 0..=1);
        server.wait_secs(5);
        idle(&mut server, 5..=6);
        server.ask(read);
        idle(&mut server, 0..=1);
    }
}
