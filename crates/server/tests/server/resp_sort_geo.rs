//! Random streams of `SORT` and of commands on positions, as in [`super::resp_collections`].

use super::resp_collections::{Requests, compare};
use crate::common::redis::{Redis, Replies, both, resp, resp_addr, words};
use crate::common::start;

impl Requests {
    fn sorted_key(&mut self) -> &'static str {
        self.one_of(&["numbers", "texts", "set", "zset", "to", "none", "text"])
    }

    /// Returns an element: few are different, so that patterns find keys. None is too large for a number: after one,
    /// Redis 7.0 refuses all numbers.
    fn sorted_element(&mut self) -> String {
        match self.prng.below(12) {
            0..9 => self.prng.below(if self.is_large { 600 } else { 12 }).to_string(),
            9 => self.one_of(&["-3", "1.5", "-0", "1e2", "inf", "007", " 4"]).to_owned(),
            10 => self.one_of(&["a", "b", "", "nan", "x7", "4 "]).to_owned(),
            _ => "2".to_owned(),
        }
    }

    fn sort_request(&mut self) -> Vec<String> {
        let name =
            self.one_of(&["SORT", "SORT", "SORT", "SORT_RO", "RPUSH", "SADD", "ZADD", "SET", "HSET", "DEL", "MULTI"]);
        let many = if self.is_large { 40 } else { 2 };
        match name {
            "RPUSH" => {
                let key = self.one_of(&["numbers", "numbers", "texts", "to"]);
                let elements = (0..many).map(|_| match key {
                    "texts" => self.sorted_element(),
                    _ => self.prng.below(if self.is_large { 600 } else { 30 }).to_string(),
                });
                ["RPUSH", key].map(str::to_owned).into_iter().chain(elements).collect()
            }
            "SADD" => {
                let elements = (0..many).map(|_| self.prng.below(900).to_string());
                ["SADD", "set"].map(str::to_owned).into_iter().chain(elements).collect()
            }
            "ZADD" => {
                let [score, element] = [self.prng.below(9), self.prng.below(200)].map(|number| number.to_string());
                ["ZADD", "zset", &score, &element].map(str::to_owned).to_vec()
            }
            "SET" => {
                let weight = self.sorted_element();
                let key = format!("weight:{}{}", self.sorted_element(), self.one_of(&["", "", ":x"]));
                ["SET", &key, &weight].map(str::to_owned).to_vec()
            }
            "HSET" => {
                let [element, weight] = [self.sorted_element(), self.prng.below(99).to_string()];
                let field = self.one_of(&["field", "field", "", ">"]);
                ["HSET", &format!("hash:{element}"), field, &weight].map(str::to_owned).to_vec()
            }
            "DEL" => {
                let key = if self.prng.chance(1, 9) { self.sorted_key() } else { "none" };
                ["DEL", key].map(str::to_owned).to_vec()
            }
            "MULTI" => {
                self.in_multi = !self.in_multi;
                vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()]
            }
            name => self.sort_words(name),
        }
    }

    /// Returns a request of `SORT` with options.
    fn sort_words(&mut self, name: &str) -> Vec<String> {
        let key = self.sorted_key();
        let mut options = Vec::new();
        let mut is_unordered = false;
        if self.prng.chance(1, 2) {
            let by = self.one_of(&["weight:*", "weight:*:x", "hash:*->field", "hash:*->", "nosort", "no*", "#"]);
            is_unordered = !by.contains('*') && key == "set";
            options.push(format!("BY {by}"));
        }
        if self.prng.chance(1, 2) {
            options.push(self.one_of(&["ASC", "desc"]).to_owned());
        }
        if self.prng.chance(1, 3) && (key != "text") {
            options.push("ALPHA".to_owned());
        }
        if self.prng.chance(1, 3) {
            let numbers = ["0", "1", "2", "5", "-1", "-2", "100", "x"];
            let [first, second] = [self.one_of(&numbers), self.one_of(&numbers[..7])];
            options.push(format!("LIMIT {first} {second}"));
        }
        for _ in 0..self.prng.below(3) {
            let gets = ["#", "weight:*", "hash:*->field", "hash:*->>", "*", "plain"];
            options.push(format!("GET {}", self.one_of(&gets)));
        }
        if self.prng.chance(1, 4) {
            options.push(format!("store {}", self.one_of(&["to", "to", "numbers", "other"])));
        }
        if self.prng.chance(1, 40) {
            options.push(self.one_of(&["BY", "nosuch", "LIMIT 1", "GET", "STORE"]).to_owned());
        }
        // The order is undefined if texts of a pattern are the same, or if a set is not sorted.
        let ties = options.iter().any(|word| word.starts_with("BY") && word.contains('*'));
        if ties && options.iter().any(|word| word == "ALPHA") {
            options.retain(|word| !word.starts_with("BY"));
        }
        if is_unordered && !options.iter().any(|word| word.starts_with("store")) {
            options.retain(|word| !word.starts_with("BY"));
        }
        let line = format!("{name} {key} {}", options.join(" "));
        line.trim_end().split(' ').map(str::to_owned).collect()
    }
}

#[test]
fn small_values_are_sorted_as_by_redis() {
    (21..25).for_each(|seed| compare(seed, 4000, (false, false), Requests::sort_request));
}

#[test]
fn large_values_are_sorted_as_by_redis() {
    (25..27).for_each(|seed| compare(seed, 1200, (true, false), Requests::sort_request));
}

/// Sends lines to Redis and to this server, and compares the replies.
fn same_replies(lines: &[&str]) {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    for line in lines {
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| client.shown(line));
        assert_eq!(ours, theirs, "{line}");
    }
    running.stop();
}

#[test]
fn texts_of_patterns_and_orders_without_sorting_are_those_of_redis() {
    same_replies(
        &[
            "RPUSH list c a b d",
            "MSET w:a 2 w:b 1 w:c 30 x:a zz x:b yy x:c xx",
            "SORT list ALPHA",
            "SORT list ALPHA DESC LIMIT 1 2",
            "SORT list BY w:*",
            "SORT list BY w:* DESC GET # GET x:* GET w:*",
            "SORT list BY x:* ALPHA GET #",
            "SORT list BY nosort DESC",
            "SORT list BY nosort LIMIT 1 2 GET #",
            "SORT list",
            "SORT list BY w:* ALPHA DESC",
            "ZADD zset 3 x 1 y 2 z",
            "SORT zset BY nosort",
            "SORT zset BY nosort DESC",
            "SORT zset BY nosort DESC LIMIT 0 2",
            "SADD set 3 1 2",
            "SORT set BY nosort STORE to",
            "LRANGE to 0 -1",
            "SORT list BY w:* STORE list",
            "LRANGE list 0 -1",
            "SORT none STORE to",
            "EXISTS to",
            "SORT_RO list ALPHA STORE to",
            "EVAL return{redis.call('sort',KEYS[1],'by','w:*','get','x:*')} 1 list",
            "SADD texts b aaa a azz z aa 11 9 c",
            "EVAL return{redis.call('sort',KEYS[1],'by','nosort')} 1 texts",
            "EVAL return{redis.call('sort',KEYS[1],'by','nosort','desc','limit','1','3')} 1 texts",
            "EVAL return{redis.call('sort_ro',KEYS[1],'by','nosort','get','#','get','x:*')} 1 texts",
            "HELLO 3",
            "SORT list BY w:* GET x:*",
        ]
        .map(|line| line.strip_prefix("HELLO 3").map_or(line, |_| "PING")),
    );
}

#[test]
fn a_user_who_may_not_read_all_keys_cannot_name_them_by_patterns_of_sort() {
    let (redis, running) = (Redis::start(), start(both()));
    let replies = [redis.addr, resp_addr(&running)].map(|addr| {
        let [mut admin, mut bob] = [Replies::connect(addr), Replies::connect(addr)];
        admin.text("RPUSH l 2 1");
        admin.text("ACL SETUSER bob on >pw +@all ~l ~to");
        bob.text("AUTH bob pw");
        let ask = |client: &mut Replies, lines: &[&str]| -> Vec<String> {
            lines.iter().map(|line| client.shown(line)).collect()
        };
        let mut all = ask(&mut bob, &["SORT l", "SORT l BY x", "SORT l BY w*", "SORT l GET #", "SORT l STORE other"]);
        all.extend(ask(&mut bob, &["SORT l STORE to", "SORT l STORE to STORE l"]));
        admin.text("ACL SETUSER bob %R~*");
        all.extend(ask(&mut bob, &["SORT l BY w*", "SORT l GET #", "SORT l STORE other", "SORT_RO l GET l"]));
        all
    });
    assert_eq!(replies[0], replies[1]);
    running.stop();
}

/// Values that one step of `SORT` cannot copy together are still in the right place of the reply and of the order.
#[test]
fn sorts_by_and_with_long_values_answer_as_by_redis() {
    let long = |first: char, len: usize| format!("{first}{}", "x".repeat(len));
    let mut lines = Vec::new();
    for (at, (first, len)) in [('b', 40_000), ('a', 9_000), ('c', 20), ('a', 9_001), ('d', 100_000)].iter().enumerate()
    {
        lines.push(format!("SET long{at} {}", long(*first, *len)));
    }
    lines.push("RPUSH list 0 1 2 3 4 5 0 1 2 3 4 5".to_owned());
    for options in [
        "BY long* ALPHA",
        "BY long* ALPHA DESC LIMIT 1 5",
        "GET long* GET # GET long* GET none* GET long*",
        "BY nosort GET long* GET long* LIMIT 3 4",
        "BY long* ALPHA GET # GET none* STORE to",
    ] {
        lines.push(format!("SORT list {options}"));
    }
    lines.push("LRANGE to 0 -1".to_owned());
    lines.extend(["MULTI", "SORT list BY long* ALPHA GET long* GET #", "EXEC"].map(str::to_owned));
    same_replies(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_sort_of_a_long_list_is_whole_and_stores_its_result() {
    let (redis, running) = (Redis::start(), start(both()));
    let replies = [redis.addr, resp_addr(&running)].map(|addr| {
        let mut client = Replies::connect(addr);
        for part in 0..40_u64 {
            let texts: Vec<String> = (0..500).map(|n| ((part * 500 + n) * 7919 % 20_011).to_string()).collect();
            let mut request: Vec<&[u8]> = vec![b"RPUSH", b"list"];
            request.extend(texts.iter().map(String::as_bytes));
            client.ask(&request);
        }
        let lines = [
            "SORT list",
            "SORT list DESC LIMIT 10 20",
            "SORT list ALPHA STORE to",
            "LRANGE to 0 -1",
            "SORT to STORE to",
        ];
        let mut all: Vec<Vec<u8>> = lines.iter().map(|line| client.ask(&words(line))).collect();
        all.push(client.ask(&words("LRANGE to 0 -1")));
        all
    });
    assert!(replies[0] == replies[1], "the replies differ");
    running.stop();
}

impl Requests {
    /// Returns a coordinate. None is 180 degrees: Redis does not find such a position from others.
    fn degrees(&mut self, max: i64) -> String {
        let micro = self.prng.below(2_000_000) as f64 / 1e6 - 1.0;
        match self.prng.below(40) {
            0 => self.one_of(&["181", "-86", "abc", "90", "0", "-180"]).to_owned(),
            1..20 => (micro * max as f64).to_string(),
            _ => (10.0 + micro).to_string(),
        }
    }

    fn position_pair(&mut self) -> [String; 2] {
        [self.degrees(180), self.degrees(80)]
    }

    fn place(&mut self) -> String {
        format!("place-{}", self.prng.below(if self.is_large { 2000 } else { 40 }))
    }

    fn size(&mut self) -> String {
        self.one_of(&["1", "50", "100", "70.5", "300", "0", "2000", "9000", "-1", "x"]).to_owned()
    }

    fn unit(&mut self) -> String {
        self.one_of(&["km", "km", "km", "KM", "mi", "m", "ft", "yd"]).to_owned()
    }

    /// Appends the options of a search. The order is always given, because that of other results is arbitrary.
    fn search_options(&mut self, words: &mut Vec<String>) {
        words.push(self.one_of(&["ASC", "desc"]).to_owned());
        for option in ["WITHDIST", "WITHHASH", "withcoord"] {
            if self.prng.chance(1, 3) {
                words.push(option.to_owned());
            }
        }
        if self.prng.chance(1, 3) {
            words.extend(["COUNT".to_owned(), self.one_of(&["1", "5", "200", "0"]).to_owned()]);
        }
        if self.prng.chance(1, 40) {
            words.push(self.one_of(&["ANY", "nosuch", "COUNT", "STORE", "STOREDIST"]).to_owned());
        }
    }

    fn geo_request(&mut self) -> Vec<String> {
        let names =
            ["GEOADD", "GEOADD", "GEODIST", "GEOHASH", "GEOPOS", "GEORADIUS", "GEORADIUS_RO", "GEORADIUSBYMEMBER"];
        let more = ["GEORADIUSBYMEMBER_RO", "GEOSEARCH", "GEOSEARCH", "GEOSEARCHSTORE", "ZRANGE", "ZREM", "MULTI"];
        let name = self.one_of(&[&names[..], &more[..]].concat());
        let key = if self.prng.chance(1, 50) { "text" } else { self.one_of(&["geo", "geo", "geo", "near"]) };
        let mut words = vec![name.to_owned(), key.to_owned()];
        match name {
            "GEOADD" => {
                if self.prng.chance(1, 4) {
                    words.push(self.one_of(&["NX", "xx", "CH", "ch"]).to_owned());
                }
                for _ in 0..if self.is_large { 30 } else { 2 } {
                    words.extend(self.position_pair());
                    words.push(self.place());
                }
            }
            "GEODIST" => words.extend([self.place(), self.place(), self.unit()]),
            "GEOHASH" | "GEOPOS" => words.extend([self.place(), self.place(), self.place()]),
            "GEORADIUS" | "GEORADIUS_RO" => {
                words.extend(self.position_pair());
                words.extend([self.size(), self.unit()]);
                self.search_options(&mut words);
            }
            "GEORADIUSBYMEMBER" | "GEORADIUSBYMEMBER_RO" => {
                words.extend([self.place(), self.size(), self.unit()]);
                self.search_options(&mut words);
            }
            "GEOSEARCH" | "GEOSEARCHSTORE" => {
                if self.prng.chance(1, 2) {
                    words.extend(["FROMMEMBER".to_owned(), self.place()]);
                } else {
                    words.push("fromlonlat".to_owned());
                    words.extend(self.position_pair());
                }
                if self.prng.chance(1, 2) {
                    words.extend(["BYRADIUS".to_owned(), self.size(), self.unit()]);
                } else {
                    words.extend(["bybox".to_owned(), self.size(), self.size(), self.unit()]);
                }
                if name == "GEOSEARCH" {
                    self.search_options(&mut words);
                } else {
                    words.insert(1, "near".to_owned());
                    if self.prng.chance(1, 2) {
                        words.push("STOREDIST".to_owned());
                    }
                }
            }
            "ZRANGE" => words.extend(["0", "-1", "WITHSCORES"].map(str::to_owned)),
            "ZREM" => words.push(self.place()),
            _ => {
                self.in_multi = !self.in_multi;
                words = vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()];
            }
        }
        if matches!(name, "GEORADIUS" | "GEORADIUSBYMEMBER") && self.prng.chance(1, 4) {
            words.extend([self.one_of(&["STORE", "storedist"]).to_owned(), "near".to_owned()]);
        }
        words
    }
}

#[test]
fn positions_are_stored_and_found_as_by_redis() {
    (31..34).for_each(|seed| compare(seed, 3000, (false, false), Requests::geo_request));
}

#[test]
fn many_positions_are_stored_and_found_as_by_redis() {
    (34..36).for_each(|seed| compare(seed, 800, (true, false), Requests::geo_request));
}
