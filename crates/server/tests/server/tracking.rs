//! Tests of client-side caching (`CLIENT TRACKING`) over sockets: comparison of replies and messages with Debian's
//! Redis, changes by other protocols and by the background, and copies that must never stay outdated.

use crate::common::redis::{Redis, Replies, both, request, resp, resp_addr, words};
use crate::common::tiered::Tiered;
use crate::common::{Client, set, start, tcp, wait_until};
use base::prng::Prng;
use gannet_server::start::{Running, ServerConfig};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Returns a configuration with two workers, so that readers and writers are on different workers.
fn two() -> ServerConfig {
    ServerConfig { workers: 2, ..both() }
}

/// The beginning of a message with keys, up to their number.
const INVALIDATE: &str = ">2 $10 invalidate *";

/// The clients of one server.
struct Clients {
    clients: Vec<Replies>,
    ids: Vec<String>,
    /// True if ids are shown as `@N` in the replies to the current request.
    hides_ids: bool,
}

impl Clients {
    /// Connects clients with the versions of the protocol that `versions` names.
    fn connect(connect: impl Fn() -> Replies, versions: &str) -> Self {
        let mut clients: Vec<Replies> = versions.chars().map(|_| connect()).collect();
        let ids = clients.iter_mut().map(|client| client.text("CLIENT ID")[1..].to_owned()).collect();
        for (client, version) in clients.iter_mut().zip(versions.chars()) {
            client.text(&format!("HELLO {version}"));
        }
        Self { clients, ids, hides_ids: false }
    }

    /// Sends a request of client `who`. `@N` stands for the id of client N.
    fn send(&mut self, who: usize, line: &str) {
        let mut line = line.to_owned();
        for (number, id) in self.ids.iter().enumerate() {
            line = line.replace(&format!("@{number}"), id);
        }
        self.clients[who].client.send(&request(&words(&line)));
    }

    /// Reads a reply or message of a client. Ids are shown as `@N`.
    fn read(&mut self, who: usize) -> String {
        let mut text = self.clients[who].next().escape_ascii().to_string().replace("\\r\\n", " ");
        if !self.hides_ids && !text.contains("tracking-redir-broken") {
            return text;
        }
        for (number, id) in self.ids.iter().enumerate() {
            text = text.replace(&format!(":{id} "), &format!(":@{number} "));
            text = text.replace(&format!("redir={id} "), &format!("redir=@{number} "));
        }
        text
    }

    /// Reads all that a client receives up to the reply to a `PING`, which is sent after `replies` replies were read.
    fn read_to_mark(&mut self, who: usize, replies: usize) -> Vec<String> {
        let is_message = |text: &str| text.contains("invalidate *1") || text.contains("tracking-redir-broken");
        let mut all = Vec::new();
        while all.iter().filter(|text: &&String| !is_message(text)).count() < replies {
            all.push(self.read(who));
        }
        self.send(who, "PING mark");
        loop {
            let next = self.read(who);
            if next.contains("$4 mark") && !next.contains("invalidate") {
                return all;
            }
            all.push(next);
        }
    }
}

/// Returns a text without the details in which the servers differ.
fn alike(text: &str) -> String {
    let fields = ["flags=", "redir=", "resp="];
    if !text.contains(" flags=") {
        return text.to_owned();
    }
    let text = text.replace("\\n", "");
    text.split(' ').filter(|word| fields.iter().any(|field| word.starts_with(field))).collect::<Vec<_>>().join(" ")
}

/// Returns messages with those that follow each other joined into one, without repetitions, in the order of their keys.
fn joined(messages: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in messages {
        let Some(keys) = text.strip_prefix(INVALIDATE).and_then(|rest| rest.split_once(' ')).map(|(_, keys)| keys)
        else {
            all.push(text.clone());
            continue;
        };
        match all.last_mut().filter(|last| last.starts_with(INVALIDATE)) {
            Some(last) => last.push_str(keys),
            None => all.push(format!("{INVALIDATE}{keys}")),
        }
    }
    for message in &mut all {
        let Some(keys) = message.strip_prefix(INVALIDATE) else { continue };
        let words: Vec<&str> = keys.split_terminator(' ').collect();
        let keys: std::collections::BTreeSet<String> = words.chunks(2).map(|key| key.join(" ")).collect();
        *message = format!("{INVALIDATE}{}", keys.into_iter().collect::<Vec<_>>().join(" "));
    }
    all
}

/// Executes a script by both servers, and compares all that each client receives after each step. A line begins with
/// the number of the client that sends it.
fn compare(versions: &str, script: &str) {
    let (redis, running) = (Redis::start(), start(two()));
    let mut theirs = Clients::connect(|| Replies::connect(redis.addr), versions);
    let mut ours = Clients::connect(|| resp(&running), versions);
    let (mut messages, mut differences, mut gone) = (0, Vec::new(), Vec::new());
    let open = versions.len() as u64;
    let broadcasts = script.contains(" BCAST ");
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (who, line) = line.split_once(' ').expect("a client and its request");
        let who: usize = who.parse().expect("the number of a client");
        if line == "CLOSE" {
            for clients in [&mut theirs, &mut ours] {
                clients.clients[who].client.stream.shutdown(std::net::Shutdown::Write).expect("an open connection");
                clients.clients[who].client.read_to_end();
            }
            gone.push(who);
            wait_until("the end of the connection", || running.shared().connections_open() == open - gone.len() as u64);
            continue;
        }
        for clients in [&mut theirs, &mut ours] {
            clients.hides_ids = line.contains("CLIENT");
            line.split(';').for_each(|request| clients.send(who, request.trim()));
        }
        // The sender is first: after its reply, all messages are on their way.
        for reader in std::iter::once(who).chain((0..versions.len()).filter(|reader| *reader != who)) {
            if gone.contains(&reader) {
                continue;
            }
            let replies = if reader == who { line.split(';').count() } else { 0 };
            let mut replies_left = replies;
            let expected: Vec<String> = theirs.read_to_mark(reader, replies).iter().map(|text| alike(text)).collect();
            // A worker sends a broadcast once in an iteration, which may begin between two changes of a transaction
            // that another worker executes: its client receives two messages in place of one.
            let same =
                |received: &[String]| received == expected || broadcasts && joined(received) == joined(&expected);
            let (mut received, begun) = (Vec::new(), Instant::now());
            // Messages of another worker may arrive after the reply to the mark.
            loop {
                received.extend(ours.read_to_mark(reader, replies_left).iter().map(|text| alike(text)));
                replies_left = 0;
                if expected.is_empty() || same(&received) || begun.elapsed() > Duration::from_secs(2) {
                    break;
                }
            }
            messages += usize::from(reader != who) * expected.len();
            if !same(&received) {
                differences.push(format!("{line}, read by {reader}: {received:#?}; Redis: {expected:#?}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(messages > 0 || versions == "32", "no message was compared");
    running.stop();
}

#[test]
fn replies_and_errors_of_tracking_commands_are_those_of_redis() {
    compare(
        "32",
        "0 CLIENT GETREDIR
         0 CLIENT TRACKINGINFO
         0 CLIENT CACHING YES
         0 CLIENT CACHING maybe
         0 CLIENT TRACKING
         0 CLIENT TRACKING maybe
         0 CLIENT TRACKING ON ON
         0 CLIENT TRACKING ON REDIRECT
         0 CLIENT TRACKING ON REDIRECT x
         0 CLIENT TRACKING ON REDIRECT 0
         0 CLIENT TRACKING ON REDIRECT -1
         0 CLIENT TRACKING ON REDIRECT 4000000000
         0 CLIENT TRACKING ON REDIRECT @1 REDIRECT @1
         0 CLIENT TRACKING ON REDIRECT 4000000000 JUNK
         0 CLIENT TRACKING OFF REDIRECT 4000000000
         0 CLIENT TRACKING ON PREFIX a
         0 CLIENT TRACKING ON PREFIX
         0 CLIENT TRACKING ON BCAST OPTIN
         0 CLIENT TRACKING ON BCAST OPTOUT PREFIX a PREFIX a
         0 CLIENT TRACKING ON OPTIN OPTOUT
         0 CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
         0 CLIENT TRACKING OFF
         0 CLIENT TRACKINGINFO
         0 CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar
         0 CLIENT TRACKINGINFO
         0 CLIENT LIST ID @0
         0 CLIENT TRACKING ON BCAST PREFIX foobar
         0 CLIENT TRACKING ON BCAST PREFIX f
         0 CLIENT TRACKING ON
         0 CLIENT TRACKING ON BCAST PREFIX zap NOLOOP
         0 CLIENT TRACKINGINFO
         0 CLIENT CACHING YES
         0 CLIENT CACHING NO
         0 CLIENT TRACKING OFF
         0 CLIENT TRACKINGINFO
         0 CLIENT TRACKING ON OPTIN
         0 CLIENT TRACKINGINFO
         0 CLIENT CACHING NO
         0 CLIENT CACHING YES
         0 CLIENT TRACKINGINFO
         0 PING
         0 CLIENT TRACKINGINFO
         0 CLIENT TRACKING ON OPTOUT
         0 CLIENT TRACKING ON
         0 CLIENT TRACKINGINFO
         0 CLIENT TRACKING OFF
         0 CLIENT TRACKING ON OPTOUT NOLOOP REDIRECT @1
         0 CLIENT CACHING YES
         0 CLIENT CACHING NO
         0 CLIENT TRACKINGINFO
         0 CLIENT GETREDIR
         0 CLIENT LIST ID @0
         0 CLIENT LIST ID @1
         0 CLIENT TRACKING ON BCAST
         0 CLIENT TRACKING on
         0 RESET
         0 CLIENT GETREDIR
         0 CLIENT LIST ID @0
         1 CLIENT TRACKING ON
         1 CLIENT TRACKINGINFO
         1 CLIENT GETREDIR
         0 CONFIG GET tracking-table-max-keys
         0 CONFIG SET tracking-table-max-keys x
         0 CONFIG SET tracking-table-max-keys -1
         0 CONFIG SET tracking-table-max-keys 7
         0 CONFIG GET tracking-table-max-keys",
    );
}

#[test]
fn invalidations_of_reads_are_those_of_redis() {
    compare(
        "3322",
        "0 CLIENT TRACKING ON
         0 GET a
         1 SET a 1
         1 SET a 2
         0 GET a
         1 SET a 3 EX 100
         0 MGET a b c a
         1 MSET a 1 b 2
         1 DEL c
         1 SET c 1
         0 SET a own
         0 GET a
         0 SET a own
         0 CLIENT TRACKING ON NOLOOP
         0 GET a
         0 SET a own
         1 SET a 5
         0 HGETALL h
         1 HSET h f v
         0 HGET h f
         1 HINCRBY h g 1
         0 HGETALL h
         1 EXPIRE h 100
         0 TTL h
         1 PERSIST h
         0 LRANGE l 0 -1
         1 RPUSH l 1 2 3
         0 LLEN l
         1 LPOP l
         0 SMEMBERS s
         1 SADD s m
         0 ZRANGE z 0 -1
         1 ZADD z 1 m
         0 XRANGE x - +
         1 XADD x 1-1 f v
         0 GET r1
         0 GET r2
         1 SET r1 v
         0 GET r1
         1 RENAME r1 r2
         0 MGET r1 r2 r3
         1 COPY r2 r3
         1 COPY r3 r2 REPLACE
         0 EXISTS a b
         1 UNLINK a b
         0 STRLEN a
         1 APPEND a x
         0 GETRANGE a 0 1
         1 SETRANGE a 0 y
         0 GET n
         1 INCR n
         0 GET n
         1 GETSET n 3
         0 GET n
         1 GETDEL n
         0 GETBIT bits 1
         1 SETBIT bits 1 1
         0 PFCOUNT hll
         1 PFADD hll a b
         0 GEOPOS geo a
         1 GEOADD geo 1 2 a
         0 SORT_RO l
         1 SORT l STORE l2
         0 LRANGE l2 0 -1
         1 SORT l STORE l2
         1 GETEX a EX 100
         0 GET a
         1 GETEX a EX 100
         1 GETEX a
         0 GET flushed
         1 FLUSHALL
         1 SET flushed 1
         0 GET a
         0 FLUSHDB
         1 SET a 1
         0 GET a
         0 CLIENT TRACKING OFF
         1 SET a 2",
    );
}

#[test]
fn invalidations_of_transactions_and_scripts_are_those_of_redis() {
    compare(
        "33",
        "0 CLIENT TRACKING ON
         0 MULTI; GET a; GET b; SET a 1; EXEC
         1 MULTI; SET a 2; SET b 2; SET a 3; EXEC
         1 SET b 3
         0 EVAL return(redis.call('get',KEYS[1])) 1 a
         1 SET a 4
         0 EVAL return(redis.call('get',KEYS[1])) 2 a b
         1 SET b 4
         1 SET a 5
         0 EVAL return(1) 1 a
         1 SET a 6
         0 EVAL_RO return(redis.call('get',KEYS[1])) 1 a
         1 SET a 7
         0 GET a
         1 EVAL return(redis.call('set',KEYS[1],'v')) 1 a
         0 GET a
         0 EVAL return(redis.call('set',KEYS[1],'v')) 1 a
         0 CLIENT TRACKING OFF
         0 CLIENT TRACKING ON OPTIN
         0 GET a
         1 SET a 8
         0 CLIENT CACHING YES; GET a; GET b
         1 SET a 9
         1 SET b 9
         0 CLIENT CACHING YES; MULTI; GET a; GET b; EXEC
         0 GET c
         1 MSET a 1 b 1 c 1
         0 MULTI; CLIENT CACHING YES; GET a; GET b; EXEC
         1 SET a 1
         1 SET b 1
         0 CLIENT CACHING YES; EVAL return(redis.call('get',KEYS[1])) 1 a
         1 SET a 1
         0 CLIENT TRACKING OFF
         0 CLIENT TRACKING ON OPTOUT
         0 GET a
         0 CLIENT CACHING NO; GET b; GET c
         1 SET a 1
         1 SET b 1
         1 SET c 1
         0 MULTI; CLIENT TRACKING OFF; CLIENT TRACKING ON; GET d; EXEC
         1 SET d 1",
    );
}

#[test]
fn broadcasts_are_those_of_redis() {
    compare(
        "333",
        "0 CLIENT TRACKING ON BCAST PREFIX a PREFIX b
         1 CLIENT TRACKING ON BCAST NOLOOP
         2 SET a1 v
         2 SET c1 v
         2 MSET a1 v b1 v c1 v a1 w
         1 SET a2 v
         0 SET b2 v
         2 MULTI; SET a1 v; DEL b1; SET c2 v; EXEC
         2 EVAL redis.call('set',KEYS[1],'v')return(redis.call('set',KEYS[2],'v')) 2 a5 b5
         0 GET a1
         2 DEL nothing
         2 RENAME a1 b1
         2 FLUSHDB
         1 FLUSHALL
         0 CLIENT TRACKING ON BCAST PREFIX c
         2 SET c1 v
         0 CLIENT TRACKING OFF
         2 SET a1 v
         1 RESET
         2 SET a1 v",
    );
}

#[test]
fn redirected_invalidations_are_those_of_redis() {
    compare(
        "23322",
        "0 CLIENT TRACKING ON REDIRECT @1
         0 GET a
         2 SET a 1
         0 GET a
         0 SET a own
         3 SUBSCRIBE __redis__:invalidate
         0 CLIENT TRACKING ON REDIRECT @3
         0 GET a
         2 SET a 1
         0 GET a
         2 FLUSHALL
         0 CLIENT TRACKING ON REDIRECT @4
         0 GET a
         2 SET a 1
         4 SUBSCRIBE other
         0 GET a
         2 SET a 1
         4 UNSUBSCRIBE other
         0 GET a
         2 SET a 1
         2 CLIENT TRACKING ON BCAST REDIRECT @3 PREFIX a
         1 SET a 1
         1 SET b 1
         2 CLIENT LIST ID @2
         2 CLIENT TRACKING OFF
         2 CLIENT TRACKING ON REDIRECT @3
         2 GET a
         3 CLOSE
         0 SET a 1
         2 CLIENT TRACKINGINFO
         2 CLIENT LIST ID @2
         0 CLIENT TRACKING ON REDIRECT @0
         0 GET a
         1 SET a 1
         0 SUBSCRIBE x
         1 SET a 1",
    );
}

/// Connects a client with version 3 of the protocol that tracks keys, with options of `CLIENT TRACKING ON`.
fn tracking(running: &Running, options: &str) -> Replies {
    let mut client = resp(running);
    assert!(client.text("HELLO 3").starts_with("%7"));
    assert_eq!(client.text(format!("CLIENT TRACKING ON {options}").trim_end()), "+OK");
    client
}

/// Returns the text of an invalidation.
fn invalidation(keys: &[&str]) -> String {
    let keys = keys.iter().map(|key| format!(" ${} {key}", key.len())).collect::<String>();
    if keys.is_empty() { ">2 $10 invalidate _".to_owned() } else { format!(">2 $10 invalidate *1{keys}") }
}

fn next_text(client: &mut Replies) -> String {
    String::from_utf8(client.next()).expect("text").trim_end().replace("\r\n", " ")
}

/// Returns a figure of `INFO`.
fn figure(client: &mut Replies, name: &str) -> u64 {
    let info = client.text("INFO everything");
    let from = info.find(&format!("{name}:")).expect("a field") + name.len() + 1;
    info[from..].split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn changes_by_memcached_clients_and_expiry_reach_clients_that_track_the_key() {
    let running = start(two());
    let mut reader = tracking(&running, "");
    let mut other = Client::connect(tcp(&running));
    let requests: [(&[u8], &[u8]); 18] = [
        (b"set k 0 0 1\r\n5\r\n", b"STORED\r\n"),
        (b"incr k 1\r\n", b"6\r\n"),
        (b"decr k 1\r\n", b"5\r\n"),
        (b"append k 0 0 1\r\n0\r\n", b"STORED\r\n"),
        (b"prepend k 0 0 1\r\n1\r\n", b"STORED\r\n"),
        (b"replace k 0 0 1\r\n7\r\n", b"STORED\r\n"),
        (b"touch k 100\r\n", b"TOUCHED\r\n"),
        (b"gat 200 k\r\n", b"VALUE k 0 1\r\n7\r\nEND\r\n"),
        (b"ms k 1\r\n8\r\n", b"HD\r\n"),
        (b"ma k\r\n", b"HD\r\n"),
        (b"md k I\r\n", b"HD\r\n"),
        (b"ms k 1\r\n8\r\n", b"HD\r\n"),
        (b"md k x\r\n", b"HD\r\n"),
        (b"delete k\r\n", b"DELETED\r\n"),
        (b"add k 0 0 1\r\n5\r\n", b"STORED\r\n"),
        (b"md k\r\n", b"HD\r\n"),
        (b"mg k N30\r\n", b"HD W\r\n"),
        (b"ms k 1\r\n8\r\n", b"HD\r\n"),
    ];
    for (line, reply) in requests {
        assert!(reader.text("GET k").starts_with(['$', '_']));
        other.ask(line, reply);
        assert_eq!(next_text(&mut reader), invalidation(&["k"]), "{}", line.escape_ascii());
    }
    // A value that is too long removes the one that it would replace.
    assert_eq!(reader.text("SET k v"), "+OK");
    assert_eq!(reader.text("GET k"), "$1 v");
    let long = vec![b'x'; 2 << 20];
    other.send(&set("k", &long));
    assert_eq!(next_text(&mut reader), invalidation(&["k"]));
    // The background removes a key that has expired.
    assert_eq!(reader.text("SET brief v PX 50"), "+OK");
    assert_eq!(reader.text("GET brief"), "$1 v");
    assert_eq!(next_text(&mut reader), invalidation(&["brief"]));
    let mut flusher = Client::connect(tcp(&running));
    reader.text("GET k");
    flusher.ask(b"flush_all\r\n", b"OK\r\n");
    assert_eq!(next_text(&mut reader), invalidation(&[]));
    running.stop();
}

/// The background finds an expired item after a while. A command that removes the item earlier must report it.
#[test]
fn expired_key_that_a_command_removes_first_reaches_clients_that_track_it() {
    let running = start(two());
    let (mut reader, mut writer) = (tracking(&running, ""), resp(&running));
    let mut subscriber = resp(&running);
    let mut other = Client::connect(tcp(&running));
    assert_eq!(writer.text("CONFIG SET notify-keyspace-events Ex"), "+OK");
    assert!(subscriber.text("SUBSCRIBE __keyevent@0__:expired").starts_with("*3"));
    let long = set("k", &vec![b'x'; 2 << 20]);
    let of_redis = ["DEL k", "UNLINK k", "DEL k no", "DELEX k", "SORT no STORE k", "BITOP OR k no", "SUNIONSTORE k no"];
    let of_memcached: [&[u8]; 3] = [b"delete k\r\n", b"md k\r\n", &long];
    let mut removed_first = 0;
    for number in 0..of_redis.len() + of_memcached.len() + 2 {
        assert_eq!(writer.text("SET k v PX 300"), "+OK");
        assert_eq!(reader.text("GET k"), "$1 v", "it is read in time");
        let expired = || running.shared().store_stats().expired;
        std::thread::sleep(Duration::from_millis(310));
        let before = expired();
        match number {
            0 => assert_eq!(writer.ask(&[b"EVAL", b"return redis.call('DEL', KEYS[1])", b"1", b"k"]), b":0\r\n"),
            1 => {
                assert_eq!(writer.text("MULTI"), "+OK");
                assert_eq!(writer.text("DEL k"), "+QUEUED");
                assert_eq!(writer.text("EXEC"), "*1 :0");
            }
            number if number - 2 < of_redis.len() => assert_eq!(writer.text(of_redis[number - 2]), ":0"),
            number => other.send(of_memcached[number - 2 - of_redis.len()]),
        }
        removed_first += u64::from(expired() > before);
        assert_eq!(next_text(&mut reader), invalidation(&["k"]), "command {number}");
        let event = String::from_utf8_lossy(&subscriber.next()).into_owned();
        assert!(event.ends_with("__keyevent@0__:expired\r\n$1\r\nk\r\n"), "command {number}: {event}");
    }
    assert!(removed_first > 3, "the background was first but for {removed_first}");
    running.stop();
}

#[test]
fn truncation_of_a_record_set_reaches_clients_that_track_its_records() {
    let running = start(two());
    let (mut reader, mut broadcast, mut other) = (tracking(&running, ""), tracking(&running, "BCAST"), resp(&running));
    assert_eq!(other.text("REC.PUT r IN users BINS age INT 1"), ":1");
    assert_eq!(next_text(&mut broadcast), invalidation(&["r"]));
    assert_eq!(reader.text("HGET r age"), "$1 1");
    assert_eq!(other.text("REC.TRUNCATE users"), ":1");
    assert_eq!(next_text(&mut reader), invalidation(&[]));
    assert_eq!(next_text(&mut broadcast), invalidation(&[]));
    running.stop();
}

#[test]
fn keys_that_are_dropped_from_flash_reach_clients_and_count_as_evicted() {
    let tiered = Tiered::start("tracked");
    let (mut reader, mut writer) = (tracking(&tiered.running, "BCAST PREFIX old NOLOOP"), tiered.resp());
    let mut subscriber = tiered.resp();
    assert_eq!(writer.text("CONFIG SET notify-keyspace-events Ee"), "+OK");
    assert!(subscriber.text("SUBSCRIBE __keyevent@0__:evicted").starts_with("*3"));
    let value = crate::common::pattern(1000);
    for number in 0..3000 {
        assert_eq!(reader.ask(&[b"SET", format!("old{number}").as_bytes(), &value]), b"+OK\r\n");
    }
    tiered.fill(0..150_000);
    wait_until("regions are reclaimed", || tiered.stats().flash_evicted > 0);
    let message = next_text(&mut reader);
    assert!(message.starts_with(">2 $10 invalidate *") && message.contains(" old"), "{message}");
    let event = String::from_utf8_lossy(&subscriber.next()).into_owned();
    assert!(event.contains("__keyevent@0__:evicted\r\n$"), "{event}");
    // Reclaiming may go on meanwhile.
    let (before, counted, after) = (tiered.stats(), figure(&mut writer, "evicted_keys"), tiered.stats());
    assert!(counted > before.evicted && counted <= after.evicted + after.flash_evicted, "{counted} of {after:?}");
}

/// A flush empties the table of all databases, so that all clients must drop their copies.
#[test]
fn flushes_and_exchanges_of_databases_reach_clients_of_all_databases() {
    let running = start(two());
    let (mut reader, mut broadcast, mut other) = (tracking(&running, ""), tracking(&running, "BCAST"), resp(&running));
    let changes = ["FLUSHDB", "SWAPDB 5 6", "SWAPDB 0 1"];
    assert_eq!(other.text("SELECT 5"), "+OK");
    for change in changes {
        reader.text("GET k");
        assert_eq!(other.text(change), "+OK");
        assert_eq!(next_text(&mut reader), ">2 $10 invalidate _", "{change}");
        assert_eq!(next_text(&mut broadcast), ">2 $10 invalidate _", "{change}");
    }
    // The broadcasting client has sent nothing since its database got another namespace.
    assert_eq!(other.text("SELECT 0"), "+OK");
    assert_eq!(other.text("SET k v"), "+OK");
    assert_eq!(next_text(&mut broadcast), invalidation(&["k"]));
    running.stop();
}

#[test]
fn keys_of_a_request_beyond_the_receive_buffer_are_tracked() {
    let running = start(two());
    let (mut reader, mut other) = (tracking(&running, ""), resp(&running));
    let names: Vec<String> = (0..900).map(|number| format!("{number:0400}")).collect();
    let mget: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(names.iter().map(String::as_bytes)).collect();
    assert!(request(&mget).len() > 300_000);
    assert!(reader.ask(&mget).starts_with(b"*900\r\n"));
    assert_eq!(other.text(&format!("SET {} v", names[700])), "+OK");
    assert_eq!(next_text(&mut reader), invalidation(&[&names[700]]));
    running.stop();
}

#[test]
fn evicted_keys_reach_clients_that_track_them() {
    let running = start(ServerConfig { memory_bytes: 16 << 20, ..two() });
    let (mut reader, mut writer) = (tracking(&running, "BCAST PREFIX old NOLOOP"), resp(&running));
    let value = crate::common::pattern(5_000);
    for number in 0..1000 {
        assert_eq!(reader.ask(&[b"SET", format!("old{number}").as_bytes(), &value]), b"+OK\r\n");
    }
    for number in 0..6000 {
        assert_eq!(writer.ask(&[b"SET", format!("new{number}").as_bytes(), &value]), b"+OK\r\n");
    }
    let message = next_text(&mut reader);
    assert!(message.starts_with(">2 $10 invalidate *") && message.contains(" old"), "{message}");
    running.stop();
}

#[test]
fn tracked_keys_above_the_maximum_are_invalidated_and_removed() {
    let running = start(two());
    let mut reader = tracking(&running, "");
    assert_eq!(reader.text("CONFIG SET tracking-table-max-keys 10"), "+OK");
    let mut removed = 0;
    for number in 0..50 {
        reader.client.send(&request(&[b"GET", format!("k{number}").as_bytes()]));
        if number >= 10 {
            let (reply, message) = (next_text(&mut reader), next_text(&mut reader));
            assert!(reply == "_" && message.starts_with(">2 $10 invalidate"), "{reply} {message}");
            removed += 1;
        } else {
            assert_eq!(next_text(&mut reader), "_");
        }
    }
    let mut other = resp(&running);
    let figures = ["tracking_clients", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes"];
    assert_eq!((removed, figures.map(|name| figure(&mut other, name))), (40, [1, 10, 10, 0]));
    // More keys than one request may track: all copies are invalidated after the reply.
    let keys: Vec<String> = (0..2000).map(|number| format!("m{number}")).collect();
    let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(keys.iter().map(String::as_bytes)).collect();
    assert!(reader.ask(&words).starts_with(b"*2000\r\n"));
    assert_eq!(next_text(&mut reader), invalidation(&[]));
    drop(reader);
    wait_until("the end of the client", || figures.map(|name| figure(&mut other, name)) == [0; 4]);
    wait_until("its memory is freed", || running.shared().channels.bytes() == 0);
    running.stop();
}

#[test]
fn tracking_client_that_does_not_read_is_dropped_and_the_others_are_served() {
    let backlog = 256 << 10;
    let running = start(ServerConfig { subscriber_backlog_bytes: backlog, ..two() });
    let (mut slow, mut good, mut writer) =
        (tracking(&running, "BCAST"), tracking(&running, "BCAST PREFIX good"), resp(&running));
    let dropped = || running.shared().workers.iter().map(|w| w.counters.subscribers_dropped.value()).sum::<u64>();
    let (key, mut sent) = ("k".repeat(900), 0);
    while dropped() == 0 {
        for number in sent..sent + 100 {
            writer.client.send(&request(&[b"SET", format!("{key}{number}").as_bytes(), b"v"]));
        }
        (0..100).for_each(|_| assert_eq!(writer.next(), b"+OK\r\n"));
        sent += 100;
        assert!(sent < 100_000, "it is never dropped");
    }
    slow.client.read_to_end();
    assert_eq!(writer.text("SET good v"), "+OK");
    assert_eq!(next_text(&mut good), invalidation(&["good"]));
    wait_until("the end of its tracking", || running.shared().tracking.clients() == 1);
    running.stop();
}

#[test]
fn one_flush_reaches_each_of_many_clients_once() {
    const CLIENTS: usize = 150;
    let running = start(two());
    let mut clients: Vec<Replies> = (0..CLIENTS).map(|_| tracking(&running, "")).collect();
    let keys: Vec<String> = (0..1000).map(|number| format!("key{number}")).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let mine = if number < 10 { &keys[..] } else { &keys[..100] };
        let words: Vec<&[u8]> = std::iter::once(&b"MGET"[..]).chain(mine.iter().map(String::as_bytes)).collect();
        assert!(client.ask(&words).starts_with(b"*"));
    }
    let mut other = resp(&running);
    let items = (10 * 1000 + 140 * 100) as u64;
    assert_eq!(["tracking_total_keys", "tracking_total_items"].map(|name| figure(&mut other, name)), [1000, items]);
    // All clients have read this key.
    assert_eq!(other.text("SET key0 v"), "+OK");
    assert_eq!(other.text("FLUSHALL"), "+OK");
    for client in &mut clients {
        assert_eq!([next_text(client), next_text(client)], [invalidation(&["key0"]), invalidation(&[])]);
        assert_eq!(client.text("PING"), "+PONG");
    }
    assert_eq!(figure(&mut other, "tracking_total_keys"), 0);
    running.stop();
}

/// A client with a cache of its own.
struct Cache {
    client: Replies,
    copies: HashMap<String, String>,
    messages: usize,
}

impl Cache {
    /// Processes what the client receives up to a reply, and returns the reply.
    fn reply(&mut self) -> String {
        loop {
            let next = next_text(&mut self.client);
            let Some(keys) = next.strip_prefix(">2 $10 invalidate ") else { return next };
            self.messages += 1;
            match keys.split(' ').nth(2) {
                Some(key) => drop(self.copies.remove(key)),
                None => self.copies.clear(),
            }
        }
    }

    /// Reads a key in one of several ways, and stores a copy of its value.
    fn read(&mut self, key: &str, way: u64) {
        let text = match way {
            0 => format!("MGET {key}"),
            1 => format!("EVAL return(redis.call('get',KEYS[1])) 1 {key}"),
            2 => format!("MGET {key} other"),
            3 => format!("GETRANGE {key} 0 -1"),
            _ => format!("GET {key}"),
        };
        self.client.client.send(&request(&words(&text)));
        let reply = self.reply();
        let value = reply.split(' ').find(|word| word.starts_with('v')).unwrap_or_default();
        self.copies.insert(key.to_owned(), value.to_owned());
    }
}

/// Writers of both protocols and readers with caches are on different workers. Tracking begins again while the writers
/// write. When they pause, each copy must soon be equal to the value.
#[test]
fn no_copy_stays_outdated_when_other_workers_change_keys() {
    const ROUNDS: usize = 25;
    const KEYS: u64 = 6;
    let running = start(ServerConfig { workers: 3, ..both() });
    let (writes, written, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (running, writes, written, done) = (&running, &writes, &written, &done);
            scope.spawn(move || {
                let mut redis = Replies::connect(resp_addr(running));
                let mut memcached = Client::connect(tcp(running));
                let mut prng = Prng::new(writer);
                for number in 0_u64.. {
                    while !writes.load(Relaxed) && !done.load(Relaxed) {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                    if done.load(Relaxed) {
                        return;
                    }
                    let (key, value) = (format!("key{}", prng.below(KEYS)), format!("v{writer}-{number}"));
                    match prng.below(5) {
                        0 => memcached.ask(&set(&key, value.as_bytes()), b"STORED\r\n"),
                        1 => drop(redis.text(&format!("DEL {key}"))),
                        2 => drop(redis.text(&format!("MSET {key} {value} key0 {value}"))),
                        _ => drop(redis.text(&format!("SET {key} {value}"))),
                    }
                    written.fetch_add(1, Relaxed);
                }
            });
        }
        let mut caches: Vec<Cache> =
            (0..3).map(|_| Cache { client: tracking(&running, ""), copies: HashMap::new(), messages: 0 }).collect();
        let (mut prng, mut other) = (Prng::new(9), resp(&running));
        for round in 0..ROUNDS {
            writes.store(true, Relaxed);
            for cache in &mut caches {
                cache.client.client.send(&request(&words("CLIENT TRACKING OFF")));
                assert_eq!(cache.reply(), "+OK");
                cache.copies.clear();
            }
            for cache in &mut caches {
                cache.client.client.send(&request(&words("CLIENT TRACKING ON")));
                assert_eq!(cache.reply(), "+OK");
            }
            for _ in 0..100 {
                let (key, cache) = (format!("key{}", prng.below(KEYS)), prng.below(3) as usize);
                if !caches[cache].copies.contains_key(&key) || prng.chance(1, 4) {
                    caches[cache].read(&key, prng.below(8));
                }
            }
            writes.store(false, Relaxed);
            let deadline = Instant::now() + Duration::from_secs(5);
            for (number, cache) in caches.iter_mut().enumerate() {
                loop {
                    cache.client.client.send(&request(&words("PING")));
                    assert_eq!(cache.reply(), "+PONG");
                    let outdated = cache.copies.iter().find(|(key, copy)| {
                        let value = other.text(&format!("GET {key}"));
                        value.split(' ').nth(1).unwrap_or_default() != **copy
                    });
                    let Some((key, copy)) = outdated else { break };
                    assert!(Instant::now() < deadline, "round {round}, cache {number}: {key} is not {copy}");
                }
            }
        }
        let messages: usize = caches.iter().map(|cache| cache.messages).sum();
        done.store(true, Relaxed);
        assert!(messages > ROUNDS && written.load(Relaxed) > 500, "{messages} messages, {written:?} changes");
    });
    running.stop();
}
