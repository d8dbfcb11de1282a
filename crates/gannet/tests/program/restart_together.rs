//! Tests restarts with a memory file that has data of Redis clients: transactions, commands with several keys, large
//! hashes, records, namespaces and secondary indexes. Also tests a full memory that is sometimes flushed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::common::{PATIENCE, Serving, TempFile, connect, request};
use crate::restart::{MemoryFile, before_a_kill, get, kills, seed_told, serve, value_of};

/// A connection that uses RESP.
pub struct Redis(BufReader<TcpStream>);

impl Redis {
    pub fn connect(addr: SocketAddr) -> Self {
        Self(BufReader::new(connect(addr)))
    }

    pub fn send(&mut self, words: &[&[u8]]) -> std::io::Result<()> {
        self.0.get_mut().write_all(&request(words))
    }

    /// Reads the next reply. Returns its elements with spaces between them; `nil` for a null.
    pub fn answer(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 || !line.ends_with("\r\n") {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let count = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'$' if count() >= 0 => {
                let mut bytes = vec![0; count() as usize + 2];
                self.0.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            b'*' if count() >= 0 => {
                let all: std::io::Result<Vec<String>> = (0..count()).map(|_| self.answer()).collect();
                Ok(all?.join(" "))
            }
            b'$' | b'*' => Ok("nil".to_owned()),
            _ => Ok(line.to_owned()),
        }
    }

    pub fn ask(&mut self, text: &str) -> String {
        self.ask_words(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    fn ask_words(&mut self, words: &[&[u8]]) -> String {
        self.send(words).and_then(|()| self.answer()).expect("an answer")
    }
}

pub fn serve_redis(file: &MemoryFile, more: &[&str]) -> (Serving, SocketAddr, SocketAddr) {
    let (mut serving, memcached) = serve(file, &[&["--resp", "127.0.0.1:0"], more].concat());
    let redis = serving.addr_behind("Redis clients connect to ");
    (serving, memcached, redis)
}

pub fn killed(mut serving: Serving) {
    serving.signal("KILL");
    serving.ended();
}

/// Executes the changes of one round in one transaction. The round's number is in everything that it changes.
fn round(redis: &mut Redis, round: u64, fields: u64) -> std::io::Result<()> {
    let (number, long) = (round.to_string(), value_of("long", round, 20_000));
    let (from, to) = if round.is_multiple_of(2) { ("r:1", "r:0") } else { ("r:0", "r:1") };
    let (first, field) = (round.to_string(), format!("f{}", round % fields));
    let words: [&[&[u8]]; 9] = [
        &[b"MULTI"],
        &[b"SET", b"text", first.as_bytes()],
        &[b"SET", b"long", &long],
        &[b"INCR", b"count"],
        &[b"RENAME", from.as_bytes(), to.as_bytes()],
        &[b"HSET", b"hash", field.as_bytes(), number.as_bytes(), b"last", number.as_bytes()],
        &[b"REC.OPERATE", b"record", b"IN", b"set", b"OPS", b"ADD", b"n", b"INT", b"1"],
        &[b"MSET", b"a", number.as_bytes(), b"b", number.as_bytes()],
        &[b"EXEC"],
    ];
    words.iter().try_for_each(|words| redis.send(words))?;
    for _ in 0..words.len() - 1 {
        redis.answer()?;
    }
    let done = redis.answer()?;
    assert!(!done.contains("ERR") && !done.contains("OOM") && done != "nil", "{done}");
    Ok(())
}

/// Returns the number of the last round that was executed, and checks that all data has this number.
fn round_there(redis: &mut Redis, fields: u64, told: &str) -> u64 {
    let number = redis.ask("GET text");
    let round: u64 = number.parse().unwrap_or_else(|_| panic!("{told}: text is {number}"));
    let says = |redis: &mut Redis, what: &str, is: &str| {
        let found = redis.ask(what);
        assert!(found == is, "{told}: {what} is {:.60} in round {round}, not {is:.60}", found);
    };
    says(redis, "GET count", &number);
    says(redis, "MGET a b", &format!("{number} {number}"));
    says(redis, "HGET hash last", &number);
    says(redis, &format!("HGET hash f{}", round % fields), &number);
    let long = value_of("long", round, 20_000);
    says(redis, "GET long", std::str::from_utf8(&long).expect("text"));
    let (gone, there) = if round.is_multiple_of(2) { ("r:1", "r:0") } else { ("r:0", "r:1") };
    says(redis, &format!("EXISTS {gone}"), ":0");
    says(redis, &format!("HLEN {there}"), ":2000");
    says(redis, &format!("HGET {there} f1999"), "v1999");
    let record = redis.ask("REC.GET record");
    assert!(record.ends_with(&format!("n :{round}")), "{told}: the record is {record} in round {round}");
    round
}

/// Stores the data that the rounds change, before the first round.
fn begin(redis: &mut Redis, fields: u64) {
    let words = |count: u64, value: &str| -> Vec<Vec<u8>> {
        (0..count).flat_map(|at| [format!("f{at}"), format!("{value}{at}")]).map(String::into_bytes).collect()
    };
    for (key, count) in [("r:0", 2000), ("hash", fields)] {
        let all = [vec![b"HSET".to_vec(), key.as_bytes().to_vec()], words(count, "v")].concat();
        redis.ask_words(&all.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    redis.ask("REC.PUT record IN set BINS n INT 0");
}

fn torture_together(seed: u64, kills: usize, more: &[&str]) {
    let told = seed_told("transactions", seed);
    let name = format!("together-{seed}");
    let file = if more.is_empty() { MemoryFile::new(&name) } else { MemoryFile::on_disk(&name) };
    let config = TempFile::new(&format!("together-{seed}.toml"), "[store]\nevict = false\n");
    let (mut prng, fields, mut acknowledged) = (Prng::new(seed), 3000, 0);
    let mut begun = false;
    for _ in 0..kills {
        let (serving, _, addr) = serve_redis(&file, &[&[config.path(), "--workers", "2"], more].concat());
        let mut redis = Redis::connect(addr);
        if begun {
            let there = round_there(&mut redis, fields, &told);
            assert!((acknowledged..=acknowledged + 1).contains(&there), "{told}: {there}, {acknowledged} was answered");
            acknowledged = there;
        } else {
            begin(&mut redis, fields);
            round(&mut redis, 1, fields).expect("the first round");
            (acknowledged, begun) = (1, true);
        }
        let most = if more.is_empty() { 60_000 } else { 120_000 };
        let wait = before_a_kill(Duration::from_micros(1_000 + prng.below(most)));
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let mut done = acknowledged;
                while round(&mut redis, done + 1, fields).is_ok() {
                    done += 1;
                }
                done
            });
            std::thread::sleep(wait);
            killed(serving);
            acknowledged = writing.join().expect("the writer");
        });
    }
    let (_serving, _, addr) = serve_redis(&file, &[config.path()]);
    let there = round_there(&mut Redis::connect(addr), fields, &told);
    assert!((acknowledged..=acknowledged + 1).contains(&there), "{told}: {there}, {acknowledged} was answered");
    assert!(acknowledged > kills as u64, "{told}: {acknowledged} rounds in {kills} kills");
}

#[test]
fn transaction_cut_by_a_kill_is_applied_entirely_or_not_at_all() {
    torture_together(3, kills(7), &[]);
    torture_together(7, kills(6), &["--checkpoint", "1s"]);
}

/// Stores keys on one connection without end, so that the index grows, and items are evicted and moved. Sometimes
/// flushes all items.
fn fill_and_flush(
    addr: SocketAddr,
    sent: &mut BTreeMap<u64, u64>,
    flushed: &mut u64,
    number: &mut u64,
    prng: &mut Prng,
    ended: &AtomicBool,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(addr)?);
    stream.get_ref().set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    while !ended.load(Relaxed) {
        let (mut batch, before) = (Vec::new(), *number);
        for _ in 0..64 {
            *number += 1;
            let key = prng.below(60_000);
            let value = value_of(&format!("k{key}"), *number, 20 + prng.below(1500) as usize);
            batch.extend(format!("set k{key} 0 0 {}\r\n", value.len()).as_bytes());
            batch.extend(value);
            batch.extend(b"\r\n");
            sent.insert(key, *number);
        }
        let flushes = prng.below(400) == 0;
        if flushes {
            batch.extend(b"flush_all\r\n");
        }
        stream.get_mut().write_all(&batch)?;
        for _ in before..*number + u64::from(flushes) {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            assert!(["STORED\r\n", "OK\r\n"].contains(&line.as_str()), "{line:?}");
        }
        if flushes {
            *flushed = *number;
        }
    }
    Ok(())
}

/// After a kill, a full memory may have only the values that were stored last or were in flight, and nothing from
/// before a flush; many items must be found.
fn torture_full(seed: u64, kills: usize) {
    let told = seed_told("a full memory", seed);
    let file = MemoryFile::new(&format!("full-{seed}"));
    let (mut prng, mut sent, mut flushed, mut number) = (Prng::new(seed), BTreeMap::new(), 0, 0);
    // A slow machine needs more rounds until there are enough values to prove anything.
    for kill in 0..10 * kills {
        if kill >= kills && number > 1000 * kills as u64 {
            break;
        }
        let (serving, addr) = serve(&file, &["--workers", "2"]);
        let ended = AtomicBool::new(false);
        let wait = before_a_kill(Duration::from_millis(20 + prng.below(400)));
        let mut keys = Prng::new(prng.next_u64());
        std::thread::scope(|scope| {
            let (sent, flushed, number, ended) = (&mut sent, &mut flushed, &mut number, &ended);
            scope.spawn(move || drop(fill_and_flush(addr, sent, flushed, number, &mut keys, ended)));
            std::thread::sleep(wait);
            killed(serving);
            ended.store(true, Relaxed);
        });
        let (serving, addr) = serve(&file, &["--workers", "2"]);
        let mut stream = BufReader::new(connect(addr));
        let mut there = 0;
        sent.retain(|key, last| {
            // Any part of the last batch may have been executed.
            let under_way = *last + 64 > number;
            if !under_way && *key % 7 != 0 {
                return true;
            }
            let name = format!("k{key}");
            let Some(value) = get(&mut stream, &name) else { return !under_way };
            let text = String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned();
            let (of, rest) = text.split_once('=').expect("a key");
            let stored: u64 = rest.split(';').next().and_then(|stored| stored.parse().ok()).expect("a number");
            assert_eq!((of, &value), (name.as_str(), &value_of(&name, stored, value.len())), "{told}");
            assert!(stored == *last || (under_way && stored < *last), "{told}: {name} is of {stored}, not of {last}");
            assert!(stored > flushed, "{told}: {name} is of {stored}, before the flush of {flushed}");
            (*last, there) = (stored, there + 1);
            true
        });
        assert!(there > 0 || number < flushed + 10_000, "{told}: nothing is there after kill {kill}");
        killed(serving);
    }
    assert!(number > 1000 * kills as u64, "{told}: {number} were stored");
}

#[test]
fn full_store_holds_only_the_latest_values_after_each_kill() {
    torture_full(4, kills(12));
}

/// Repeats a request until the reply is `is`.
fn until(redis: &mut Redis, what: &str, is: &str) {
    let begun = Instant::now();
    loop {
        let found = redis.ask(what);
        if found == is {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} is {found}, not {is}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn namespaces_record_sets_and_secondary_indexes_are_whole_after_a_kill() {
    let file = MemoryFile::new("kinds");
    let text = "[[namespace]]\nname = \"shop\"\nmemory = \"8MiB\"\n";
    let config = TempFile::new("kinds.toml", text);
    let (serving, _, addr) = serve_redis(&file, &[config.path()]);
    let mut redis = Redis::connect(addr);
    for number in 0..500 {
        let answer =
            redis.ask(&format!("REC.PUT p:{number} IN people BINS age INT {} city STR c{}", number % 50, number % 7));
        assert_eq!(answer, ":1");
    }
    assert_eq!(redis.ask("REC.INDEX CREATE people age INT MEMORY 1048576"), "+OK");
    assert_eq!(redis.ask("REC.INDEX CREATE people city STR MEMORY 1048576"), "+OK");
    assert_eq!(redis.ask("REC.INDEX CREATE people gone STR MEMORY 1048576"), "+OK");
    assert_eq!(redis.ask("REC.INDEX DROP people gone"), ":1");
    assert_eq!(redis.ask("SELECT shop"), "+OK");
    assert_eq!(redis.ask("SET key in-shop"), "+OK");
    let (asked, sets) = ("REC.QUERY people age BETWEEN 7 7 LIMIT 100 BINS age", redis.ask("REC.SETS"));
    redis.ask("SELECT 0");
    let told = redis.ask(asked);
    assert_eq!(told.matches("p:").count(), 10, "{told}");
    let sets = [redis.ask("REC.SETS"), sets];
    killed(serving);
    for kill in 0..3 {
        let (serving, _, addr) = serve_redis(&file, &[config.path()]);
        let mut redis = Redis::connect(addr);
        assert_eq!(redis.ask("REC.GET p:33 BINS age"), ":1 :-1 age :33");
        // A record that is stored while the index is rebuilt from older records is found together with them.
        assert_eq!(redis.ask(&format!("REC.PUT new:{kill} IN people BINS age INT 7 city STR c1")), ":1");
        let begun = Instant::now();
        while redis.ask("REC.INDEX LIST").contains("building") {
            assert!(begun.elapsed() < PATIENCE, "its indexes are not whole");
            std::thread::sleep(Duration::from_millis(5));
        }
        let found = redis.ask(asked);
        assert_eq!((found.matches("p:").count(), found.matches("new:").count()), (10, kill + 1), "{found}");
        let city = redis.ask("REC.QUERY people city EQ c3 LIMIT 200 BINS age");
        assert_eq!(city.matches("p:").count(), 500 / 7, "{city}");
        assert!(redis.ask("REC.QUERY people gone EQ x").contains("NOINDEX"));
        assert_eq!(redis.ask("REC.SETS"), sets[0]);
        redis.ask("SELECT shop");
        until(&mut redis, "GET key", "in-shop");
        assert_eq!((redis.ask("REC.SETS"), redis.ask("DBSIZE")), (sets[1].clone(), ":1".to_owned()));
        killed(serving);
    }
}
