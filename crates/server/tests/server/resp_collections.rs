//! Random streams of commands on lists and sets, sent to this server and to Debian's Redis, whose replies are compared.
//! Small values and values in parts are compared, with transactions, expiry and wrong types among the commands.

use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;

/// A generator of random requests of one type of collection.
pub struct Requests {
    pub prng: Prng,
    /// True if the values become large.
    pub is_large: bool,
    pub in_multi: bool,
}

impl Requests {
    pub fn one_of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.prng.below(words.len() as u64) as usize]
    }

    /// Returns an element: a number, a short text or a long one. Few are different, so that commands find them.
    fn element(&mut self) -> String {
        match self.prng.below(10) {
            0..5 => self.prng.below(20).to_string(),
            5..9 => format!("element-{}", self.prng.below(20)),
            // Some are longer than an item in a segment of 64 KiB.
            _ if self.prng.chance(1, 10) => "y".repeat(self.prng.below(3) as usize * 500 + 8000),
            _ => "x".repeat(self.prng.below(400) as usize),
        }
    }

    pub fn position(&mut self) -> String {
        match self.prng.below(12) {
            0 => "abc".to_owned(),
            1..8 => self.one_of(&["0", "1", "-1", "2", "-2", "5", "-7"]).to_owned(),
            _ => (self.prng.below(4000) as i64 - 2000).to_string(),
        }
    }

    fn list(&mut self) -> &'static str {
        if self.prng.chance(1, 40) { "text" } else { self.one_of(&["list1", "list2", "list3"]) }
    }

    /// Returns a request of a command on lists.
    fn list_request(&mut self) -> Vec<String> {
        let name = self.one_of(&[
            "LPUSH",
            "RPUSH",
            "LPUSH",
            "RPUSH",
            "LPUSHX",
            "RPUSHX",
            "LPOP",
            "RPOP",
            "LLEN",
            "LRANGE",
            "LRANGE",
            "LINDEX",
            "LSET",
            "LINSERT",
            "LREM",
            "LTRIM",
            "LPOS",
            "LMPOP",
            "LMOVE",
            "RPOPLPUSH",
            "TYPE",
            "EXISTS",
            "RENAME",
            "COPY",
            "PEXPIRE",
            "MULTI",
            "DEL",
            "LRANGE",
        ]);
        let key = self.list();
        let mut words = vec![name.to_owned(), key.to_owned()];
        let many = self.one_of(if self.is_large { &["1", "3", "70", "300"] } else { &["1", "1", "2", "4"] });
        match name {
            "LPUSH" | "RPUSH" | "LPUSHX" | "RPUSHX" => {
                (0..many.parse().expect("a number")).for_each(|_| words.push(self.element()));
            }
            "LPOP" | "RPOP" if self.prng.chance(1, 2) => {
                words.push(self.one_of(&["0", "1", "2", "5", "300", "-1", "a"]).to_owned());
            }
            "LRANGE" => words.extend([self.position(), self.position()]),
            "LTRIM" if self.prng.chance(1, 20) => words.extend([self.position(), self.position()]),
            "LTRIM" => words.extend([self.one_of(&["0", "1", "2"]).to_owned(), self.one_of(&["-1", "-2"]).to_owned()]),
            "LINDEX" => words.push(self.position()),
            "LSET" => words.extend([self.position(), self.element()]),
            "LINSERT" => {
                let place = self.one_of(&["BEFORE", "after", "beside"]).to_owned();
                words.extend([place, self.element(), self.element()]);
            }
            "LREM" => words.extend([self.one_of(&["0", "1", "-1", "2", "-3"]).to_owned(), self.element()]),
            "LPOS" => {
                words.push(self.element());
                for option in ["RANK", "COUNT", "MAXLEN"] {
                    if self.prng.chance(1, 3) {
                        let number = self.one_of(&["0", "1", "2", "-1", "-2", "3", "10", "-100", "x"]);
                        words.extend([option.to_owned(), number.to_owned()]);
                    }
                }
            }
            "LMOVE" => {
                let ends = [self.one_of(&["LEFT", "right"]), self.one_of(&["left", "RIGHT", "up"])];
                words.extend([self.list().to_owned(), ends[0].to_owned(), ends[1].to_owned()]);
            }
            "LMPOP" => {
                words = ["LMPOP", "2", key, self.list(), self.one_of(&["left", "RIGHT"]), "COUNT"]
                    .map(str::to_owned)
                    .to_vec();
                words.push(self.one_of(&["1", "2", "400"]).to_owned());
            }
            "RPOPLPUSH" | "RENAME" | "COPY" => words.push(self.list().to_owned()),
            "PEXPIRE" => words.push("100000".to_owned()),
            "DEL" if self.prng.chance(9, 10) => words[0] = "LLEN".to_owned(),
            "MULTI" => {
                self.in_multi = !self.in_multi;
                words = vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()];
            }
            _ => {}
        }
        words
    }
}

impl Requests {
    fn set(&mut self) -> &'static str {
        if self.prng.chance(1, 40) { "text" } else { self.one_of(&["set1", "set2", "set3"]) }
    }

    /// Returns an element of a set: one of few if the sets are small, else one of many.
    fn member(&mut self) -> String {
        if self.is_large { format!("member:{}", self.prng.below(6000)) } else { self.element() }
    }

    /// Returns a request of a command on sets.
    fn set_request(&mut self) -> Vec<String> {
        let name = self.one_of(&[
            "SADD",
            "SADD",
            "SADD",
            "SREM",
            "SISMEMBER",
            "SMISMEMBER",
            "SCARD",
            "SMEMBERS",
            "SMOVE",
            "SINTER",
            "SUNION",
            "SDIFF",
            "SINTERSTORE",
            "SUNIONSTORE",
            "SDIFFSTORE",
            "SINTERCARD",
            "TYPE",
            "RENAME",
            "COPY",
            "MULTI",
            "DEL",
        ]);
        let key = self.set();
        let mut words = vec![name.to_owned(), key.to_owned()];
        let many = self.one_of(if self.is_large { &["3", "70", "900", "900"] } else { &["1", "1", "2", "4"] });
        match name {
            "SADD" | "SREM" | "SMISMEMBER" => {
                (0..many.parse().expect("a number")).for_each(|_| words.push(self.member()));
            }
            "SISMEMBER" => words.push(self.member()),
            "SMOVE" => words.extend([self.set().to_owned(), self.member()]),
            "SINTER" | "SUNION" | "SDIFF" | "SINTERSTORE" | "SUNIONSTORE" | "SDIFFSTORE" => {
                (0..1 + self.prng.below(3)).for_each(|_| words.push(self.set().to_owned()));
            }
            "SINTERCARD" => {
                words = ["SINTERCARD", "2", key, self.set(), "LIMIT"].map(str::to_owned).to_vec();
                words.push(self.one_of(&["0", "1", "5", "1000"]).to_owned());
            }
            "RENAME" | "COPY" => words.push(self.set().to_owned()),
            "DEL" if self.prng.chance(9, 10) => words[0] = "SCARD".to_owned(),
            "MULTI" => {
                self.in_multi = !self.in_multi;
                words = vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()];
            }
            _ => {}
        }
        words
    }
}

/// Returns true if two replies are the same, where numbers in bulk strings may have other digits.
fn same_numbers(ours: &[u8], theirs: &[u8]) -> bool {
    let lines = |reply: &[u8]| String::from_utf8_lossy(reply).lines().map(str::to_owned).collect::<Vec<_>>();
    let number = |line: &str| line.parse::<f64>().ok();
    let (ours, theirs) = (lines(ours), lines(theirs));
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(ours, theirs)| {
            // Lengths of numbers may differ.
            ours == theirs
                || ours.starts_with('$') && theirs.starts_with('$')
                || number(ours) == number(theirs) && number(ours).is_some()
        })
}

/// Returns a reply in a form that does not depend on the order of the elements of sets.
fn sorted(reply: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = reply.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Sends `count` random requests to both servers, and compares the replies.
pub fn compare(
    seed: u64,
    count: usize,
    (is_large, is_unordered): (bool, bool),
    next: fn(&mut Requests) -> Vec<String>,
) {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut requests = Requests { prng: Prng::new(seed), is_large, in_multi: false };
    let begin: [&[&[u8]]; 2] = [&[b"FLUSHALL"], &[b"SET", b"text", b"some text"]];
    for client in [&mut ours, &mut theirs] {
        begin.iter().for_each(|words| drop(client.ask(words)));
    }
    for number in 0..count {
        let words = next(&mut requests);
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let bytes = request(&words);
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
            client.client.send(&bytes);
            client.next()
        });
        let shown = || words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        assert!(
            ours == theirs || same_numbers(&ours, &theirs) || is_unordered && sorted(&ours) == sorted(&theirs),
            "seed {seed}, request {number}: {}\n{}\n{}",
            shown(),
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
    }
    running.stop();
}

#[test]
fn small_lists_answer_as_those_of_redis() {
    (1..4).for_each(|seed| compare(seed, 4000, (false, false), Requests::list_request));
}

#[test]
fn long_lists_answer_as_those_of_redis() {
    (4..6).for_each(|seed| compare(seed, 1500, (true, false), Requests::list_request));
}

#[test]
fn small_sets_answer_as_those_of_redis() {
    (1..4).for_each(|seed| compare(seed, 3000, (false, true), Requests::set_request));
}

#[test]
fn large_sets_answer_as_those_of_redis() {
    (4..6).for_each(|seed| compare(seed, 700, (true, true), Requests::set_request));
}

/// Returns the elements of an array of texts.
fn elements(reply: &[u8]) -> Vec<Vec<u8>> {
    let lines = reply.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end().to_vec());
    lines.skip(1).filter(|line| !line.is_empty() && line[0] != b'$').collect()
}

#[test]
fn elements_are_chosen_with_equal_chances_and_popped_once() {
    let running = start(both());
    let mut client = resp(&running);
    for (members, draws) in [(20u64, 20_000u64), (3000, 60_000)] {
        client.ask(&[b"DEL", b"set"]);
        let names: Vec<String> = (0..members).map(|number| format!("m{number}")).collect();
        let mut words: Vec<&[u8]> = vec![b"SADD", b"set"];
        words.extend(names.iter().map(String::as_bytes));
        assert_eq!(client.ask(&words), format!(":{members}\r\n").as_bytes());
        let mut counts = std::collections::HashMap::<Vec<u8>, u64>::new();
        let mut count = |found: Vec<Vec<u8>>| found.into_iter().for_each(|name| *counts.entry(name).or_default() += 1);
        // Repeated elements, few and many different ones.
        count(elements(&client.ask(&[b"SRANDMEMBER", b"set", format!("-{}", draws / 2).as_bytes()])));
        for _ in 0..draws / 4 / (members / 10) {
            let found = elements(&client.ask(&[b"SRANDMEMBER", b"set", (members / 10).to_string().as_bytes()]));
            assert_eq!(found.iter().collect::<std::collections::HashSet<_>>().len() as u64, members / 10);
            count(found);
        }
        for _ in 0..draws / 4 / (members / 2) {
            count(elements(&client.ask(&[b"SRANDMEMBER", b"set", (members / 2).to_string().as_bytes()])));
        }
        let mean = counts.values().sum::<u64>() as f64 / members as f64;
        let chi: f64 = names.iter().map(|name| (counts[name.as_bytes()] as f64 - mean).powi(2) / mean).sum();
        // Six standard deviations of the distribution with `members` degrees of freedom.
        let most = members as f64 + 6.0 * (2.0 * members as f64).sqrt();
        assert!(chi < most, "chi-square {chi} of {members} elements, at most {most}");
        let mut popped = Vec::new();
        for take in [1, members / 10, members / 2, members] {
            popped.extend(elements(&client.ask(&[b"SPOP", b"set", take.to_string().as_bytes()])));
        }
        popped.sort_unstable();
        let mut all: Vec<Vec<u8>> = names.iter().map(|name| name.clone().into_bytes()).collect();
        all.sort_unstable();
        assert_eq!(popped, all);
        assert_eq!(client.ask(&[b"EXISTS", b"set"]), b":0\r\n");
    }
    running.stop();
}

/// Sends a request to both servers and compares the replies; without the order of their lines if `is_unordered`.
fn same(clients: &mut [Replies; 2], words: &[&str], is_unordered: bool) {
    let bytes = request(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    let [ours, theirs] = clients.each_mut().map(|client| {
        client.client.send(&bytes);
        client.next()
    });
    let equal = ours == theirs || is_unordered && sorted(&ours) == sorted(&theirs);
    assert!(equal, "{}: {} and {} bytes", words[..words.len().min(4)].join(" "), ours.len(), theirs.len());
}

#[test]
fn replies_longer_than_an_output_are_whole_whatever_the_length_of_their_elements() {
    let (redis, running) = (Redis::start(), start(both()));
    let mut clients = [resp(&running), Replies::connect(redis.addr)];
    for (bytes, count) in [(100, 2000), (200, 200), (300, 256), (700, 60), (700, 700), (1500, 60), (5000, 300)] {
        same(&mut clients, &["FLUSHALL"], false);
        for number in 0..count {
            let (text, number) = (format!("{number:06}{}", "x".repeat(bytes)), (number + 1).to_string());
            for words in [
                &["RPUSH", "list", &text][..],
                &["SADD", "set", &text],
                &["SADD", "other", &text, "more"],
                &["ZADD", "sorted", &number, &text],
                &["HSET", "hash", &number, &text],
                &["XADD", "stream", &number, "field", &text],
            ] {
                same(&mut clients, words, false);
            }
        }
        let (all, third) = (count.to_string(), (count / 3).to_string());
        for words in [
            "LRANGE list 0 -1",
            "ZRANGE sorted 0 -1 WITHSCORES",
            "ZREVRANGE sorted 1 -2",
            "ZRANGEBYSCORE sorted 2 +inf LIMIT 1 1000",
            "ZRANGEBYLEX sorted - +",
            "ZDIFF 2 sorted list-that-is-absent",
            "XRANGE stream - +",
            "XREVRANGE stream + -",
            "XREAD COUNT 256 STREAMS stream 0",
            "SORT list ALPHA",
            "EVAL return{redis.call('lrange','list',0,-1),redis.call('zrange','sorted',0,-1)} 0",
            "XGROUP CREATE stream group 0",
            "XREADGROUP GROUP group reader COUNT 256 STREAMS stream >",
            "XREADGROUP GROUP group reader COUNT 256 STREAMS stream 0",
            "XCLAIM stream group claimer 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
            "XAUTOCLAIM stream group claimer 0 0 COUNT 250",
        ] {
            same(&mut clients, &words.split(' ').collect::<Vec<_>>(), false);
        }
        for words in ["SMEMBERS set", "SUNION set other", "SINTER set other", "HGETALL hash", "HVALS hash"] {
            same(&mut clients, &words.split(' ').collect::<Vec<_>>(), true);
        }
        for words in [&["SRANDMEMBER", "set", &all][..], &["ZRANDMEMBER", "sorted", &all, "WITHSCORES"]] {
            same(&mut clients, words, true);
        }
        for (name, key) in [("SRANDMEMBER", "set"), ("ZRANDMEMBER", "sorted")] {
            for drawn in [30, 64, -64, count / 2, -count] {
                let [ours, _] = &mut clients;
                let found = elements(&ours.ask(&[name.as_bytes(), key.as_bytes(), drawn.to_string().as_bytes()]));
                let wanted = if drawn < 0 { -drawn } else { drawn.min(count) };
                assert_eq!(found.len() as i32, wanted, "{name} {drawn}");
                let different = found.into_iter().collect::<std::collections::HashSet<_>>().len() as i32;
                assert!(drawn < 0 || different == wanted, "{name} {drawn}: {different} different elements");
            }
        }
        for words in [
            &["LPOP", "list", &third][..],
            &["RPOP", "list", &third],
            &["LMPOP", "1", "list", "LEFT", "COUNT", &all],
            &["ZPOPMIN", "sorted", &third],
            &["ZPOPMAX", "sorted", &third],
            &["ZMPOP", "1", "sorted", "MIN", "COUNT", &all],
        ] {
            same(&mut clients, words, false);
        }
        let [ours, _] = &mut clients;
        let popped = [&third, &all].map(|most| elements(&ours.ask(&[b"SPOP", b"set", most.as_bytes()])));
        let popped: std::collections::HashSet<_> = popped.concat().into_iter().collect();
        assert_eq!(popped.len() as i32, count, "SPOP");
    }
    running.stop();
}
