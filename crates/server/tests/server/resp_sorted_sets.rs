//! Random streams of commands on sorted sets, as in [`super::resp_collections`], and scans and random elements.

use super::resp_collections::{Requests, compare};
use crate::common::redis::{Replies, both, resp};
use crate::common::start;

/// The commands on sorted sets, those that add more often.
const SORTED_SET_NAMES: [&str; 46] = [
    "ZUNIONSTORE",
    "ZINTERSTORE",
    "ZDIFFSTORE",
    "ZRANGESTORE",
    "ZUNION",
    "ZINTER",
    "ZDIFF",
    "ZINTERCARD",
    "ZMPOP",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZADD",
    "ZINCRBY",
    "ZREM",
    "ZSCORE",
    "ZMSCORE",
    "ZCARD",
    "ZCOUNT",
    "ZLEXCOUNT",
    "ZRANK",
    "ZREVRANK",
    "ZRANGE",
    "ZRANGE",
    "ZREVRANGE",
    "ZRANGEBYSCORE",
    "ZREVRANGEBYSCORE",
    "ZRANGEBYLEX",
    "ZREVRANGEBYLEX",
    "ZREMRANGEBYRANK",
    "ZREMRANGEBYSCORE",
    "ZREMRANGEBYLEX",
    "ZPOPMIN",
    "ZPOPMAX",
    "ZRANGE",
    "TYPE",
    "EXISTS",
    "RENAME",
    "COPY",
    "PEXPIRE",
    "MULTI",
    "DEL",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZCOUNT",
    "ZINCRBY",
];

impl Requests {
    /// Returns a key of a sorted set. In those that end in `l`, all elements have the same score.
    fn sorted_set(&mut self) -> &'static str {
        if self.prng.chance(1, 60) { "text" } else { self.one_of(&["zset1", "zset2", "zset3", "zset-l", "zset-l"]) }
    }

    fn score(&mut self) -> String {
        match self.prng.below(10) {
            0 => self.one_of(&["inf", "-inf", "+inf", "0", "-0", "1e3", "nan", "abc", "", "1e400"]).to_owned(),
            1..5 => (self.prng.below(20) as i64 - 10).to_string(),
            5..8 => (self.prng.below(4000) as f64 / 8.0 - 250.0).to_string(),
            _ => self.prng.below(1000).to_string(),
        }
    }

    /// Returns an element. More are different than in lists.
    fn scored_member(&mut self) -> String {
        let most = if self.is_large { 3000 } else { 30 };
        match self.prng.below(10) {
            0..5 => self.prng.below(most).to_string(),
            5..9 => format!("element-{}", self.prng.below(most)),
            _ => "x".repeat(self.prng.below(200) as usize),
        }
    }

    fn score_end(&mut self) -> String {
        format!("{}{}", self.one_of(&["", "", "("]), self.score())
    }

    fn text_end(&mut self) -> String {
        match self.prng.below(8) {
            0..2 => self.one_of(&["-", "+"]).to_owned(),
            2 => self.scored_member(),
            _ => format!("{}{}", self.one_of(&["[", "("]), self.scored_member()),
        }
    }

    /// Appends options in random places, each with a chance.
    fn options(&mut self, words: &mut Vec<String>, names: &[&str]) {
        for name in names {
            if self.prng.chance(1, 4) {
                words.push((*name).to_owned());
                if *name == "LIMIT" {
                    let numbers = ["0", "1", "5", "-1", "100", "x"];
                    words.extend([self.one_of(&numbers).to_owned(), self.one_of(&numbers).to_owned()]);
                }
            }
        }
    }

    /// Returns a request of a command over several sorted sets.
    fn several_sorted_sets(&mut self, name: &str) -> Vec<String> {
        let count = 1 + self.prng.below(3);
        let mut words = vec![name.to_owned(), count.to_string()];
        let is_stored = name.ends_with("STORE");
        if is_stored {
            // Elements of the destination have different scores.
            words.insert(1, self.one_of(&["zset1", "zset2", "zset3", "zset3"]).to_owned());
        }
        (0..count).for_each(|_| words.push(self.sorted_set().to_owned()));
        match name {
            "ZMPOP" => {
                words.push(self.one_of(&["MIN", "max", "mid"]).to_owned());
                if self.prng.chance(1, 2) {
                    words.extend(["COUNT".to_owned(), self.one_of(&["0", "1", "3", "60", "x"]).to_owned()]);
                }
            }
            "ZINTERCARD" if self.prng.chance(1, 2) => {
                words.extend(["LIMIT".to_owned(), self.one_of(&["0", "1", "20", "-1", "x"]).to_owned()]);
            }
            "ZUNION" | "ZINTER" | "ZUNIONSTORE" | "ZINTERSTORE" => {
                if self.prng.chance(1, 3) {
                    words.push("WEIGHTS".to_owned());
                    (0..count).for_each(|_| words.push(self.one_of(&["1", "-2", "0.5", "inf", "0"]).to_owned()));
                }
                if self.prng.chance(1, 3) {
                    words.extend(["AGGREGATE".to_owned(), self.one_of(&["SUM", "min", "MAX", "avg"]).to_owned()]);
                }
                if !is_stored || self.prng.chance(1, 30) {
                    self.options(&mut words, &["WITHSCORES"]);
                }
            }
            "ZDIFF" => self.options(&mut words, &["WITHSCORES"]),
            _ => {}
        }
        words
    }

    /// Returns a request of a command on sorted sets.
    fn sorted_set_request(&mut self) -> Vec<String> {
        let (mut name, key) = (self.one_of(&SORTED_SET_NAMES), self.sorted_set());
        let is_lex = key.ends_with('l');
        // Intervals of texts are specified only if all scores are the same.
        if !is_lex && name.contains("LEX") || is_lex && name == "ZINCRBY" {
            name = "ZCARD";
        }
        let several = ["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD", "ZMPOP", "ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"];
        if several.contains(&name) {
            return self.several_sorted_sets(name);
        }
        let mut words = vec![name.to_owned(), key.to_owned()];
        let many = self.one_of(if self.is_large { &["1", "3", "70", "300"] } else { &["1", "1", "2", "4"] });
        let many: usize = many.parse().expect("a number");
        match name {
            "ZADD" => {
                let is_plain = self.prng.chance(3, 4);
                self.options(&mut words, if is_plain { &["CH"] } else { &["NX", "xx", "GT", "LT", "ch", "INCR"] });
                let is_one = words.iter().any(|word| word == "INCR") && self.prng.chance(4, 5);
                for _ in 0..if is_one { 1 } else { many } {
                    let score = if is_lex { "7".to_owned() } else { self.score() };
                    // An invalid score is rare among many.
                    let is_bad = ["nan", "abc", "", "1e400"].contains(&&score[..]) && self.prng.chance(29, 30);
                    words.extend([if is_bad { "-0".to_owned() } else { score }, self.scored_member()]);
                }
                if is_lex && words.iter().any(|word| word == "INCR") {
                    words.truncate(2);
                }
            }
            "ZINCRBY" => words.extend([self.score(), self.scored_member()]),
            "ZREM" | "ZMSCORE" => (0..many).for_each(|_| words.push(self.scored_member())),
            "ZSCORE" | "ZRANK" | "ZREVRANK" => words.push(self.scored_member()),
            "ZCOUNT" => words.extend([self.score_end(), self.score_end()]),
            "ZREMRANGEBYSCORE" if self.prng.chance(1, 3) => words.extend([self.score_end(), self.score_end()]),
            "ZREMRANGEBYSCORE" => words.extend(["(5".to_owned(), self.one_of(&["5.5", "6", "9"]).to_owned()]),
            "ZLEXCOUNT" | "ZREMRANGEBYLEX" => words.extend([self.text_end(), self.text_end()]),
            "ZREMRANGEBYRANK" if self.prng.chance(1, 9) => words.extend([self.position(), self.position()]),
            "ZREMRANGEBYRANK" => words.extend(["-2", "-1"].map(str::to_owned)),
            "ZREVRANGE" => words.extend([self.position(), self.position()]),
            "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" => words.extend([self.score_end(), self.score_end()]),
            "ZRANGEBYLEX" | "ZREVRANGEBYLEX" => words.extend([self.text_end(), self.text_end()]),
            "ZRANGESTORE" if self.prng.chance(1, 2) => {
                words.insert(1, self.one_of(&["zset1", "zset2", "zset3"]).to_owned());
                words.extend([self.position(), self.position()]);
            }
            "ZRANGESTORE" => {
                words.insert(1, "zset3".to_owned());
                words.extend([self.score_end(), self.score_end(), "BYSCORE".to_owned()]);
            }
            "ZRANGE" => match self.prng.below(3) {
                0 if is_lex => words.extend([self.text_end(), self.text_end(), "BYLEX".to_owned()]),
                1 => words.extend([self.score_end(), self.score_end(), "byscore".to_owned()]),
                _ => words.extend([self.position(), self.position()]),
            },
            "ZPOPMIN" | "ZPOPMAX" if self.prng.chance(1, 2) => {
                words.push(self.one_of(&["0", "1", "2", "5", "40", "-1", "a"]).to_owned());
            }
            "RENAME" | "COPY" if is_lex => words.push("zset-l".to_owned()),
            "RENAME" | "COPY" => words.push(self.one_of(&["zset1", "zset2", "zset3"]).to_owned()),
            "PEXPIRE" => words.push("100000".to_owned()),
            "DEL" if self.prng.chance(9, 10) => words[0] = "ZCARD".to_owned(),
            "MULTI" => {
                self.in_multi = !self.in_multi;
                words = vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()];
            }
            _ => {}
        }
        if name.contains("RANGE") && !name.contains("REM") {
            let options = match name {
                "ZRANGE" => &["REV", "LIMIT", "WITHSCORES"][..],
                "ZRANGESTORE" => &["rev", "LIMIT"],
                _ => &["LIMIT", "withscores"],
            };
            self.options(&mut words, options);
        }
        words
    }
}

#[test]
fn small_sorted_sets_answer_as_those_of_redis() {
    (11..14).for_each(|seed| compare(seed, 4000, (false, false), Requests::sorted_set_request));
}

#[test]
fn large_sorted_sets_answer_as_those_of_redis() {
    (14..17).for_each(|seed| compare(seed, 1500, (true, false), Requests::sorted_set_request));
}

/// Returns the lines of a reply that are elements or scores, not heads.
fn texts(reply: &[u8]) -> Vec<String> {
    let lines = std::str::from_utf8(reply).unwrap().lines();
    lines.filter(|line| !line.starts_with(['$', '*'])).map(str::to_owned).collect()
}

/// Scans a whole sorted set. Calls `between` between two steps.
fn scan(client: &mut Replies, key: &str, count: &str, mut between: impl FnMut(&mut Replies, usize)) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    for number in 0.. {
        assert!(number < 20_000, "the scan does not end");
        let reply = client.ask(&[b"ZSCAN", key.as_bytes(), cursor.as_bytes(), b"COUNT", count.as_bytes()]);
        let mut texts = texts(&reply).into_iter();
        cursor = texts.next().expect("a cursor");
        found.extend(texts.step_by(2));
        if cursor == "0" {
            break;
        }
        between(client, number);
    }
    found
}

fn add(client: &mut Replies, key: &str, elements: std::ops::Range<u64>, score: impl Fn(u64) -> u64) {
    let elements: Vec<u64> = elements.collect();
    for part in elements.chunks(500) {
        let mut words = vec![b"ZADD".to_vec(), key.as_bytes().to_vec()];
        for element in part {
            words.extend([score(*element).to_string().into_bytes(), format!("stays-{element}").into_bytes()]);
        }
        client.ask(&words.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}

/// A function that returns the score of an element with this number.
type ScoreOf = fn(u64) -> u64;

#[test]
fn a_scan_of_a_sorted_set_returns_whoever_stays_while_others_come_and_go() {
    let running = start(both());
    let mut client = resp(&running);
    let scores: [(&str, ScoreOf); 2] = [("different", |element| element), ("same", |_| 7)];
    for (key, score) in scores {
        for (elements, count) in [(20, "10"), (3000, "10"), (3000, "1000")] {
            client.ask(&[b"DEL", key.as_bytes()]);
            add(&mut client, key, 0..elements, score);
            let mut found = scan(&mut client, key, count, |client, number| match number % 3 {
                // Others come and go, and scores change.
                0 => (0..20).for_each(|one| {
                    let other = format!("other-{number}-{one}");
                    client.ask(&[b"ZADD", key.as_bytes(), b"7", other.as_bytes()]);
                }),
                1 => drop(client.ask(&[b"ZPOPMAX", key.as_bytes(), b"0"])),
                _ => (0..20).for_each(|one| {
                    let other = format!("other-{}-{one}", number - 2);
                    client.ask(&[b"ZREM", key.as_bytes(), other.as_bytes()]);
                    let moved = format!("stays-{}", (number as u64 * 31 + one) % elements);
                    client.ask(&[b"ZADD", key.as_bytes(), b"XX", b"4000", moved.as_bytes()]);
                }),
            });
            found.retain(|element| element.starts_with("stays"));
            let scanned = found.len();
            found.sort();
            found.dedup();
            assert_eq!(found.len() as u64, elements, "{key}, {elements} elements, COUNT {count}");
            assert_eq!(scanned, found.len(), "{key}: an element is returned twice");
        }
    }
    // A sorted set that grows or shrinks during the scan keeps its cursors.
    add(&mut client, "grows", 0..3000, |element| element);
    let found = scan(&mut client, "grows", "100", |client, number| {
        if number == 3 {
            client.ask(&[b"ZREMRANGEBYRANK", b"grows", b"50", b"-1"]);
        }
    });
    let stays = |number: u64| found.contains(&format!("stays-{number}"));
    assert!((0..50).all(stays), "an element that stayed is missing");
    add(&mut client, "small", 0..3, |element| element);
    assert_eq!(client.ask(&[b"OBJECT", b"ENCODING", b"small"]), b"$8\r\nlistpack\r\n");
    assert_eq!(client.ask(&[b"OBJECT", b"ENCODING", b"same"]), b"$8\r\nskiplist\r\n");
    running.stop();
}

#[test]
fn random_elements_of_a_sorted_set_are_uniform_and_distinct() {
    let running = start(both());
    let mut client = resp(&running);
    for elements in [10, 1000] {
        client.ask(&[b"DEL", b"z"]);
        add(&mut client, "z", 0..elements, |element| element);
        let mut counts = std::collections::BTreeMap::new();
        let draws = elements * 30;
        for element in texts(&client.ask(&[b"ZRANDMEMBER", b"z", format!("-{draws}").as_bytes()])) {
            *counts.entry(element).or_insert(0_u64) += 1;
        }
        assert_eq!(counts.values().sum::<u64>(), draws);
        // The sum of squares is about the number of elements, with a standard deviation of its double's root.
        let chi: f64 = (counts.values()).map(|count| (*count as f64 - 30.0).powi(2) / 30.0).sum::<f64>()
            + (elements - counts.len() as u64) as f64 * 30.0;
        let most = elements as f64 + 6.0 * (2.0 * elements as f64).sqrt();
        assert!(chi < most, "{chi} of {elements} elements");
        for count in ["3", "40", "600", "5000"] {
            let reply = client.ask(&[b"ZRANDMEMBER", b"z", count.as_bytes(), b"WITHSCORES"]);
            let mut found: Vec<String> = texts(&reply).into_iter().step_by(2).collect();
            found.sort();
            found.dedup();
            assert_eq!(found.len() as u64, elements.min(count.parse().unwrap()));
        }
    }
    assert_eq!(client.ask(&[b"ZRANDMEMBER", b"none"]), b"$-1\r\n");
    assert_eq!(client.ask(&[b"ZRANDMEMBER", b"none", b"5"]), b"*0\r\n");
    client.ask(&[b"HELLO", b"3"]);
    assert_eq!(client.ask(&[b"ZRANGE", b"z", b"1", b"1", b"WITHSCORES"]), b"*1\r\n*2\r\n$7\r\nstays-1\r\n,1\r\n");
    assert_eq!(client.ask(&[b"ZPOPMIN", b"z"]), b"*2\r\n$7\r\nstays-0\r\n,0\r\n");
    assert_eq!(client.ask(&[b"ZPOPMAX", b"z", b"1"]), b"*1\r\n*2\r\n$9\r\nstays-999\r\n,999\r\n");
    assert_eq!(client.ask(&[b"ZRANK", b"z", b"stays-2", b"WITHSCORE"]), b"*2\r\n:1\r\n,2\r\n");
    client.ask(&[b"ZADD", b"f", b"3.1", b"a", b"1e20", b"b", b"-0", b"c", b"-inf", b"d"]);
    let scores = client.ask(&[b"ZMSCORE", b"f", b"a", b"b", b"c", b"d", b"e"]);
    assert_eq!(scores, b"*5\r\n,3.1\r\n,1e+20\r\n,0\r\n,-inf\r\n_\r\n");
    running.stop();
}

/// A result that does not fit must not be stored in part, nor in place of the old value.
#[test]
fn a_full_store_refuses_to_store_a_result_and_keeps_the_destination() {
    let running = start(gannet_server::start::ServerConfig { evict: false, ..both() });
    let mut client = resp(&running);
    let fill = |client: &mut Replies| {
        client.ask(&[b"FLUSHALL"]);
        add(client, "a", 0..3000, |element| element);
        add(client, "b", 2000..6000, |element| element);
        client.ask(&[b"SET", b"to", b"old"]);
        let set = |n: u32| client.ask(&[b"SET", format!("filler-{n}").as_bytes(), &[b'x'; 1000]]);
        assert!((0..200_000).map(set).any(|reply| reply.starts_with(b"-OOM")), "the store takes all values");
    };
    fill(&mut client);
    for line in [
        "ZUNIONSTORE to 2 a b",
        "ZINTERSTORE to 2 a b",
        "ZDIFFSTORE to 2 a b",
        "ZRANGESTORE to a 0 -1",
        "ZUNIONSTORE a 2 a b",
    ] {
        // Segments are freed at any time, so a store that refused a value may take a later one.
        let refused = (0..20).any(|_| {
            let reply = client.ask(&crate::common::redis::words(line));
            if reply.starts_with(b":") {
                fill(&mut client);
            }
            reply.starts_with(b"-OOM")
        });
        assert!(refused, "{line}");
    }
    assert_eq!(client.ask(&[b"GET", b"to"]), b"$3\r\nold\r\n");
    assert_eq!(client.ask(&[b"ZCARD", b"a"]), b":3000\r\n");
    running.stop();
}

#[test]
fn stored_sorted_sets_send_the_events_of_redis() {
    let (redis, running) = (crate::common::redis::Redis::start(), start(both()));
    let events = [redis.addr, crate::common::redis::resp_addr(&running)].map(|addr| {
        let [mut client, mut listener] = [Replies::connect(addr), Replies::connect(addr)];
        client.text("CONFIG SET notify-keyspace-events KEA");
        listener.text("PSUBSCRIBE __keyevent@0__:*");
        for line in [
            "ZADD a 1 x 2 y",
            "SADD s x",
            "ZUNIONSTORE u 2 a s",
            "ZINTERSTORE i 2 a s",
            "ZDIFFSTORE d 2 a s",
            "ZRANGESTORE r a 0 -1",
            "ZRANGESTORE r a 5 9",
            "ZRANGESTORE r a 5 9",
            "ZINTERSTORE i 2 a none",
            "ZUNIONSTORE s 1 none",
            "PUBLISH __keyevent@0__:end end",
        ] {
            client.ask(&crate::common::redis::words(line));
        }
        let mut all = Vec::new();
        while !all.last().is_some_and(|event: &String| event.contains("end")) {
            all.push(listener.next().escape_ascii().to_string());
        }
        all
    });
    assert_eq!(events[0], events[1]);
    running.stop();
}

/// In Redis, a product of 0 and an infinity becomes 0 in the first key of an intersection only, and in every key of a
/// union. The first key is the shortest.
#[test]
fn weights_of_zero_and_infinite_scores_combine_as_in_redis_in_every_key() {
    let (redis, running) = (crate::common::redis::Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let scores = ["inf", "-inf", "0", "-0", "2", "-3"];
    // Scores have no negative zero here.
    let plain = |reply: Vec<u8>| String::from_utf8(reply).expect("text").replace("$2\r\n-0\r\n", "$1\r\n0\r\n");
    let mut differing = 0;
    for lengths in [[1, 2, 3], [3, 2, 1], [2, 1, 3], [2, 2, 2]] {
        for client in [&mut ours, &mut theirs] {
            client.ask(&[b"FLUSHALL"]);
            for (key, length) in ["a", "b", "c"].iter().zip(lengths) {
                for (number, score) in scores.iter().enumerate() {
                    // Each key has each score with each score of the two others.
                    let place = match *key {
                        "a" => 1,
                        "b" => scores.len(),
                        _ => scores.len() * scores.len(),
                    };
                    let all = scores.len().pow(3);
                    let members: Vec<String> =
                        (0..all).filter(|n| n / place % scores.len() == number).map(|n| format!("m{n}")).collect();
                    let words: Vec<&str> =
                        ["ZADD", key].into_iter().chain(members.iter().flat_map(|m| [*score, m.as_str()])).collect();
                    client.ask(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
                }
                for more in 0..length {
                    client.ask(&[b"ZADD", key.as_bytes(), b"1", format!("only-{key}-{more}").as_bytes()]);
                }
            }
        }
        for weights in ["0 1 1", "1 0 1", "1 1 0", "0 0 1", "1 0 0", "0 1 0", "0 0 0", "inf 1 -inf", "-1 inf 0"] {
            for aggregate in ["SUM", "MIN", "MAX"] {
                for command in ["ZINTER", "ZUNION"] {
                    let line = format!("{command} 3 a b c WEIGHTS {weights} AGGREGATE {aggregate} WITHSCORES");
                    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                    let (got, want) = (plain(ours.ask(&words)), plain(theirs.ask(&words)));
                    assert_eq!(got, want, "{lengths:?}, {line}");
                    let stored = format!("{command}STORE d 3 a b c WEIGHTS {weights} AGGREGATE {aggregate}");
                    let words: Vec<&[u8]> = stored.split(' ').map(str::as_bytes).collect();
                    assert_eq!(ours.ask(&words), theirs.ask(&words), "{stored}");
                    let read: [&[u8]; 5] = [b"ZRANGE", b"d", b"0", b"-1", b"WITHSCORES"];
                    assert_eq!(plain(ours.ask(&read)), plain(theirs.ask(&read)), "{lengths:?}, {stored}");
                    differing += usize::from(want.contains("inf\r"));
                }
            }
        }
    }
    assert!(differing > 50, "{differing} results with infinities");
}
