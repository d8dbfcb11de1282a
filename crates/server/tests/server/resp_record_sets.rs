//! Tests of record sets over a socket: shared bin names, lists and maps, filters, many records in one command, walks
//! and truncation.

use crate::common::redis::{Replies, request, resp, running};
use base::prng::Prng;
use gannet_server::start::Running;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

fn served() -> (Running, Replies) {
    let running = running();
    let replies = resp(&running);
    (running, replies)
}

/// Sends the words of a line as a request; the text between `{` and `}` is one word. Returns the reply as text.
fn ask(redis: &mut Replies, line: &str) -> String {
    let mut words = Vec::new();
    for part in line.split('{') {
        match part.split_once('}') {
            Some((word, rest)) => {
                words.push(word);
                words.extend(rest.split(' ').filter(|word| !word.is_empty()));
            }
            None => words.extend(part.split(' ').filter(|word| !word.is_empty())),
        }
    }
    let words: Vec<&[u8]> = words.into_iter().map(str::as_bytes).collect();
    let reply = redis.ask(&words).escape_ascii().to_string();
    reply.replace("\\r\\n", " ").replace("\\'", "'").replace("\\\"", "\"").trim_end().to_owned()
}

fn check(redis: &mut Replies, script: &[(&str, &str)]) {
    for (line, reply) in script {
        assert_eq!(ask(redis, line), *reply, "{line}");
    }
}

#[test]
fn record_of_a_set_is_consistent_across_commands_and_stays_in_its_set() {
    let (running, mut redis) = served();
    check(
        &mut redis,
        &[
            ("REC.PUT u IN users BINS name STR Ann 7 INT 3", ":1"),
            ("REC.GET u", "*3 :1 :-1 *4 $4 name $3 Ann $1 7 :3"),
            ("REC.GET u BINS 7 name none", "*3 :1 :-1 *6 $1 7 :3 $4 name $3 Ann $4 none $-1"),
            ("HGETALL u", "*4 $4 name $3 Ann $1 7 $1 3"),
            ("HSET u new 5 name Bob", ":1"),
            ("HINCRBY u 7 2", ":5"),
            ("HKEYS u", "*3 $4 name $1 7 $3 new"),
            ("TYPE u", "+hash"),
            ("OBJECT ENCODING u", "$8 listpack"),
            ("REC.PUT u IN users BINS name STR Eve", ":4"),
            ("REC.PUT u BINS name STR Eva", ":5"),
            (
                "REC.PUT u IN others BINS name STR x",
                "-RECORDSET record 'u': it belongs to set 'users', not to set 'others'",
            ),
            ("REC.PUT plain BINS a INT 1", ":1"),
            (
                "REC.PUT plain IN users BINS a INT 2",
                "-RECORDSET record 'plain': it belongs to no set, not to set 'users'",
            ),
            ("REC.OPERATE v IN users OPS ADD visits INT 2 GET name", "*2 :1 *2 :2 $-1"),
            ("REC.SETS", "*2 *2 $5 users *4 $4 name $1 7 $3 new $6 visits *2 $6 others *0"),
            ("COPY u w", ":1"),
            ("RENAME w x", "+OK"),
            ("REC.GET x BINS name", "*3 :5 :-1 *2 $4 name $3 Eva"),
            ("REC.DEL x", ":1"),
            ("HDEL u name 7 new", ":3"),
            ("EXISTS u", ":0"),
            ("REC.PUT u IN others BINS name STR x", ":1"),
            ("REC.PUT a IN {} BINS n INT 1", "-ERR the name of a record set has 1 to 63 bytes"),
            ("REC.TOUCH u IN users", "-ERR syntax error"),
        ],
    );
    running.stop();
}

#[test]
fn lists_and_maps_are_changed_in_place_and_returned_complete() {
    let (running, mut redis) = served();
    check(
        &mut redis,
        &[
            ("REC.PUT r BINS l LIST 3 INT 1 STR two LIST 1 BOOL 1 m MAP 2 a INT 1 5 STR x", ":1"),
            ("REC.GET r", "*3 :1 :-1 *4 $1 l *3 :1 $3 two *1 :1 $1 m *4 $1 a :1 $1 5 $1 x"),
            ("REC.GET r TYPED BINS m", "*3 :1 :-1 *2 $1 m *2 $3 MAP *4 $1 a :1 $1 5 $1 x"),
            ("HMGET r l m", "*2 $16 [1,\"two\",[true]] $15 {\"a\":1,\"5\":\"x\"}"),
            ("HSTRLEN r l", ":16"),
            (
                "REC.OPERATE r OPS LAPPEND l INT 4 LGET l -1 LGET l 9 LSIZE l LINSERT l 0 INT 0 LSET l -2 STR z \
                 LPOP l 0 LPOP l 9 LTRIM l 1 2 GET l",
                "*2 :2 *10 :4 :4 $-1 :4 :5 +OK :0 $-1 :2 *2 $3 two $1 z",
            ),
            (
                "REC.OPERATE r OPS MPUT m b FLOAT 0.5 MADD m a INT 2 MGET m 5 MGET m none MDEL m 5 MDEL m 5 MSIZE m \
                 GET m",
                "*2 :3 *8 :3 :3 $1 x $-1 :1 :0 :2 *4 $1 a :3 $1 b $3 0.5",
            ),
            // Where nothing is.
            (
                "REC.OPERATE r OPS LSIZE no MSIZE no LPOP no 0 MGET no k LTRIM no 0 5 MDEL no k",
                "*2 :3 *6 :0 :0 $-1 $-1 :0 :0",
            ),
            ("REC.OPERATE new OPS LAPPEND l INT 1 MPUT m k INT 1 MADD c k INT 5", "*2 :1 *3 :1 :1 :5"),
            // What is refused leaves all as it was.
            (
                "REC.OPERATE r OPS LAPPEND l INT 1 LAPPEND m INT 1",
                "-BINTYPE record 'r', bin 'm': it holds MAP, not LIST",
            ),
            ("REC.OPERATE r OPS MPUT l k INT 1", "-BINTYPE record 'r', bin 'l': it holds LIST, not MAP"),
            ("REC.OPERATE r OPS ADD l INT 1", "-BINTYPE record 'r', bin 'l': it holds LIST, not INT"),
            (
                "REC.OPERATE r OPS LSET l 2 INT 1",
                "-BINRANGE record 'r', bin 'l': its list has 2 values, none at index 2",
            ),
            (
                "REC.OPERATE r OPS LINSERT l -3 INT 1",
                "-BINRANGE record 'r', bin 'l': its list has 2 values, none at index -3",
            ),
            ("REC.OPERATE r OPS MADD m b INT 1", "-BINTYPE record 'r', bin 'm': it holds FLOAT, not INT"),
            (
                "REC.OPERATE r OPS APPEND l LIST 0",
                "-BINTYPE record 'r', bin 'l': LIST is not supported by this operation",
            ),
            ("REC.PUT r BINS l LIST x", "-BINVALUE record 'r', bin 'l': the given value is not of type LIST"),
            ("REC.PUT r BINS l LIST 2 INT 1", "-ERR syntax error"),
            ("REC.GET r BINS l", "*3 :3 :-1 *2 $1 l *2 $3 two $1 z"),
        ],
    );
    let deep = |depth: usize| format!("REC.PUT d BINS l {}LIST 0", "LIST 1 ".repeat(depth - 1));
    assert_eq!(ask(&mut redis, &deep(8)), ":1");
    assert_eq!(
        ask(&mut redis, &deep(9)),
        "-BINVALUE record 'd', bin 'l': lists and maps cannot be nested more than 8 deep"
    );
    assert!(
        ask(
            &mut redis,
            "REC.OPERATE d OPS MPUT m k LIST 1 INT 1 MPUT m j LIST 1 LIST 1 LIST 1 LIST 1 LIST 1 LIST 1 LIST 0"
        )
        .starts_with("*2 :2")
    );
    assert!(
        ask(&mut redis, "REC.OPERATE d OPS MPUT m j LIST 1 LIST 1 LIST 1 LIST 1 LIST 1 LIST 1 LIST 1 LIST 0")
            .starts_with("-BINVALUE")
    );
    redis.ask(&[b"HELLO", b"3"]);
    assert_eq!(ask(&mut redis, "REC.GET new BINS m"), "*3 :1 :-1 %1 $1 m %1 $1 k :1");
    running.stop();
}

#[test]
fn filter_selects_the_records_that_are_read_or_changed() {
    let (running, mut redis) = served();
    check(
        &mut redis,
        &[
            ("REC.PUT r BINS age INT 30 city STR Paris", ":1"),
            ("REC.GET r FILTER {age > 29 and city == 'Paris'} BINS age", "*3 :1 :-1 *2 $3 age :30"),
            ("REC.GET r FILTER {age > 30}", "*-1"),
            ("REC.ADD r FILTER {age < 31} BINS age INT 1", ":2"),
            ("REC.ADD r FILTER {age < 31} BINS age INT 1", "-FILTERED record 'r': it does not match the filter"),
            ("REC.DEL r FILTER {not has city}", "-FILTERED record 'r': it does not match the filter"),
            ("REC.TOUCH r FILTER {has city}", ":3"),
            ("REC.PUT none FILTER {age > 5} BINS a INT 1", ":1"),
            (
                "REC.GET r FILTER {age >}",
                "-ERR invalid filter at byte 5: expected a number, 'true', 'false' or text in single quotes",
            ),
            ("REC.DEL r FILTER age", "-ERR invalid filter at byte 3: expected a comparison operator or 'contains'"),
            ("REC.DEL r FILTER {age == 31} IFREV 3", ":1"),
        ],
    );
    running.stop();
}

#[test]
fn many_records_are_written_and_read_in_one_command() {
    let (running, mut redis) = served();
    ask(&mut redis, "SET string x");
    ask(&mut redis, "REC.PUT other IN others BINS a INT 1");
    check(
        &mut redis,
        &[
            ("REC.MPUT {users(name STR, age INT)} a Ann 30 b Bob 40 c Eve 50", "*3 :1 :1 :1"),
            (
                "REC.MGET * a none c",
                "*3 *3 :1 :-1 *4 $4 name $3 Ann $3 age :30 *-1 *3 :1 :-1 *4 $4 name $3 Eve $3 age :50",
            ),
            ("REC.MGET age,none b string", "*2 *3 :1 :-1 *4 $3 age :40 $4 none $-1 *-1"),
            (
                "REC.MPUT {users(age INT)} a 31 string 1 other 5 b x c 51",
                "*5 :2 -WRONGTYPE Operation against a key holding the wrong kind of value -RECORDSET record 'other': \
                 it belongs to set 'others', not to set 'users' -BINVALUE record 'b', bin 'age': the given value is \
                 not of type INT :2",
            ),
            ("REC.MGET age a b c", "*3 *3 :2 :-1 *2 $3 age :31 *3 :1 :-1 *2 $3 age :40 *3 :2 :-1 *2 $3 age :51"),
            ("REC.MPUT {(n INT)} plain 5", "*1 :1"),
            ("REC.MPUT {users(age INT)} a 31 b", "-ERR wrong number of arguments for 'rec.mput' command"),
            ("REC.MPUT users a 31", "-ERR syntax error"),
            ("REC.MPUT {users(age)} a 31", "-ERR syntax error"),
            (
                "REC.MPUT {users(age WHAT)} a 31",
                "-BINVALUE record 'a', bin 'age': unknown type 'WHAT'; the types are INT, FLOAT, BOOL, STR, BYTES, \
                 LIST and MAP",
            ),
        ],
    );
    // More than one visit, inside and outside of a transaction.
    let mut words: Vec<Vec<u8>> = vec![b"REC.MPUT".to_vec(), b"users(age INT)".to_vec()];
    let mut read: Vec<Vec<u8>> = vec![b"REC.MGET".to_vec(), b"age".to_vec()];
    for number in 0..500 {
        words.extend([format!("many{number}").into_bytes(), number.to_string().into_bytes()]);
        read.push(format!("many{number}").into_bytes());
    }
    let [words, read] = [&words, &read].map(|words| words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!(redis.ask(&words), [b"*500\r\n".to_vec(), b":1\r\n".repeat(500)].concat());
    assert_eq!(redis.ask(&[b"MULTI"]), b"+OK\r\n");
    assert_eq!(redis.ask(&words), b"+QUEUED\r\n");
    assert_eq!(redis.ask(&read), b"+QUEUED\r\n");
    let reply = redis.ask(&[b"EXEC"]);
    assert_eq!(reply.windows(4).filter(|part| *part == b":2\r\n").count(), 1000 + 1);
    running.stop();
}

/// Walks a set to its end. Returns all keys.
fn scan(redis: &mut Replies, options: &str, mut between: impl FnMut(&mut Replies)) -> Vec<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
    loop {
        let reply = ask(redis, &format!("REC.SCAN users {cursor} {options}"));
        let mut words = reply.split(' ');
        cursor = words.nth(2).unwrap_or_else(|| panic!("{reply}")).to_owned();
        keys.extend(words.filter(|word| word.starts_with("key:")).map(str::to_owned));
        between(redis);
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn set_scan_returns_all_remaining_records_and_none_of_another_set() {
    let (running, mut redis) = served();
    let mut batch = Vec::new();
    for number in 0..3000 {
        let set = if number % 3 == 0 { "others" } else { "users" };
        let (key, number) = (format!("key:{number}"), number.to_string());
        batch.extend(request(&[
            b"REC.PUT",
            key.as_bytes(),
            b"IN",
            set.as_bytes(),
            b"BINS",
            b"n",
            b"INT",
            number.as_bytes(),
        ]));
    }
    redis.client.send(&batch);
    (0..3000).for_each(|_| assert_eq!(redis.next(), b":1\r\n"));
    let of_set = |number: &i32| number % 3 != 0;
    let mut added = 3000;
    let replied = scan(&mut redis, "COUNT 7 BINS n", |redis| {
        // The index grows meanwhile, and records come and go.
        for _ in 0..20 {
            ask(redis, &format!("REC.PUT key:{added} IN users BINS n INT 1"));
            added += 1;
        }
        ask(redis, &format!("DEL key:{}", added % 300));
    });
    let distinct: HashSet<_> = replied.iter().collect();
    for number in (300..3000).filter(of_set) {
        assert!(distinct.contains(&format!("key:{number}")), "key:{number} stayed");
    }
    assert!((0..3000).filter(|number| !of_set(number)).all(|number| !distinct.contains(&format!("key:{number}"))));
    let filtered = scan(&mut redis, "COUNT 50 FILTER {n >= 1000 and n < 1300} BINS none", |_| {});
    let wanted: HashSet<_> = (1000..1300).filter(of_set).map(|number| format!("key:{number}")).collect();
    assert_eq!(filtered.into_iter().collect::<HashSet<_>>(), wanted);
    check(
        &mut redis,
        &[
            ("REC.SCAN none 0", "*2 $1 0 *0"),
            ("REC.SCAN users x", "-ERR invalid cursor"),
            ("REC.SCAN users 0 COUNT 0", "-ERR syntax error"),
            (
                "REC.SCAN users 0 FILTER {n ==}",
                "-ERR invalid filter at byte 4: expected a number, 'true', 'false' or text in single quotes",
            ),
        ],
    );
    running.stop();
}

#[test]
fn a_walk_with_a_rate_looks_at_no_more_records_than_that() {
    let (running, mut redis) = served();
    for number in 0..60 {
        ask(&mut redis, &format!("REC.PUT key:{number} IN users BINS n INT 1"));
    }
    let begun = Instant::now();
    let replied = scan(&mut redis, "COUNT 10 RATE 200", |_| {});
    assert_eq!(replied.into_iter().collect::<HashSet<_>>().len(), 60);
    // All but those of the last call are waited for, whatever else the machine does.
    assert!(begun.elapsed().as_millis() >= 245, "{:?}", begun.elapsed());
    running.stop();
}

#[test]
fn truncated_set_is_empty_at_once_and_its_items_are_freed() {
    let (running, mut redis) = served();
    let mut batch = Vec::new();
    for number in 0..2000 {
        let (key, set) = (format!("key:{number}"), if number % 2 == 0 { &b"users"[..] } else { b"others" });
        batch.extend(request(&[b"REC.PUT", key.as_bytes(), b"IN", set, b"BINS", b"n", b"INT", b"1"]));
    }
    redis.client.send(&batch);
    (0..2000).for_each(|_| assert_eq!(redis.next(), b":1\r\n"));
    check(
        &mut redis,
        &[
            ("REC.TRUNCATE none", ":0"),
            ("REC.TRUNCATE users", ":1000"),
            ("REC.GET key:0", "*-1"),
            ("EXISTS key:0 key:1", ":1"),
            ("HGET key:2 n", "$-1"),
            ("TYPE key:4", "+none"),
            ("REC.PUT key:0 IN users CREATE BINS n INT 2", ":1"),
        ],
    );
    assert_eq!(scan(&mut redis, "", |_| {}), ["key:0"]);
    check(&mut redis, &[("REC.TRUNCATE users", ":1"), ("DBSIZE", ":1000")]);
    assert_eq!(running.shared().store_stats().items, 1000);
    running.stop();
}

/// Compares typed changes of records, in several sets and in no set, with maps.
#[test]
fn records_of_sets_equal_a_map_over_puts_deletions_and_truncations() {
    let (running, mut redis) = served();
    let (mut compared, mut truncated) = (0, 0);
    for seed in 0..6 {
        println!("seed {seed}");
        let mut prng = Prng::new(seed);
        let mut model: BTreeMap<String, (Option<u64>, BTreeMap<String, i64>)> = BTreeMap::new();
        for _ in 0..400 {
            let key = format!("s{seed}:k{}", prng.below(20));
            let set = prng.below(4);
            let set = (set < 3).then_some(set);
            match prng.below(12) {
                0 => {
                    let there = model.remove(&key).is_some();
                    assert_eq!(ask(&mut redis, &format!("REC.DEL {key}")), format!(":{}", i32::from(there)));
                }
                1 if prng.below(4) == 0 => {
                    let before = model.len();
                    model.retain(|_, (of, _)| *of != Some(1));
                    truncated += before - model.len();
                    let gone = ask(&mut redis, &format!("REC.TRUNCATE seed{seed}:1"));
                    assert_eq!(gone, format!(":{}", before - model.len()));
                }
                _ => {
                    let (bin, number) = (format!("bin{}", prng.below(30)), prng.below(1000) as i64);
                    let of = set.map_or(String::new(), |set| format!(" IN seed{seed}:{set}"));
                    let reply = ask(&mut redis, &format!("REC.PUT {key}{of} BINS {bin} INT {number}"));
                    match model.get_mut(&key) {
                        Some((of, _)) if set.is_some() && *of != set => {
                            assert!(reply.starts_with("-RECORDSET"), "{reply}")
                        }
                        there => {
                            assert!(reply.starts_with(':'), "{reply}");
                            match there {
                                Some((_, bins)) => drop(bins.insert(bin, number)),
                                None => drop(model.insert(key.clone(), (set, [(bin, number)].into()))),
                            }
                        }
                    }
                }
            }
            let replied = ask(&mut redis, &format!("HGETALL {key}"));
            let words: Vec<&str> = replied.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
            let replied: BTreeMap<_, _> =
                words.chunks(2).map(|pair| (pair[0].to_owned(), pair[1].parse().unwrap())).collect();
            assert_eq!(replied, model.get(&key).map(|(_, bins)| bins.clone()).unwrap_or_default(), "{key}");
            compared += 1;
        }
    }
    assert!(compared >= 2400 && truncated > 20, "{compared} compared, {truncated} truncated");
    running.stop();
}
