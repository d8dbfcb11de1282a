//! Random requests on streams, as in [`super::resp_collections`].

use super::resp_collections::{Requests, compare};
use crate::common::redis::{Redis, Replies, both, request, resp};
use crate::common::start;
use base::prng::Prng;
use gannet_server::start::ServerConfig;

/// The commands on streams, those that add more often.
const STREAM_NAMES: [&str; 26] = [
    "XADD",
    "XADD",
    "XADD",
    "XADD",
    "XADD",
    "XADD",
    "XADD",
    "XADD",
    "XLEN",
    "XRANGE",
    "XRANGE",
    "XREVRANGE",
    "XDEL",
    "XDEL",
    "XTRIM",
    "XREAD",
    "XREAD",
    "XSETID",
    "XINFO",
    "TYPE",
    "EXISTS",
    "RENAME",
    "COPY",
    "PEXPIRE",
    "MULTI",
    "DEL",
];

/// The maximum first number of an identifier.
const MS_MAX: u64 = 400;

impl Requests {
    fn stream(&mut self) -> &'static str {
        if self.prng.chance(1, 60) { "text" } else { self.one_of(&["stream1", "stream2", "stream3"]) }
    }

    fn stream_id(&mut self) -> String {
        match self.prng.below(20) {
            0 => self.one_of(&["abc", "5-", "-5", "1-*", "0-0", "18446744073709551616", " 7-+1", ""]).to_owned(),
            1..8 => self.prng.below(MS_MAX).to_string(),
            _ => format!("{}-{}", self.prng.below(MS_MAX), self.prng.below(8)),
        }
    }

    fn stream_end(&mut self) -> String {
        match self.prng.below(8) {
            0..2 => self.one_of(&["-", "+", "(", "("]).to_owned(),
            2 => format!("({}", self.stream_id()),
            _ => self.stream_id(),
        }
    }

    /// Appends `MAXLEN` or `MINID`. Approximate trims are not specified.
    fn trim_options(&mut self, words: &mut Vec<String>) {
        let len = if self.is_large { 3000 } else { 30 };
        match self.prng.below(8) {
            0..4 => words.extend(["MAXLEN".to_owned(), self.prng.below(len).to_string()]),
            4..6 => words.extend(["minid".to_owned(), "=".to_owned(), (self.prng.below(MS_MAX) / 4).to_string()]),
            6 => words.extend(["MINID".to_owned(), self.stream_id()]),
            _ => {
                let number = self.one_of(&["-1", "x", "9"]).to_owned();
                words.extend(["MAXLEN".to_owned(), "=".to_owned(), number]);
                if self.prng.chance(1, 2) {
                    words.extend(["LIMIT".to_owned(), self.one_of(&["0", "-1", "5", "x"]).to_owned()]);
                }
            }
        }
    }

    fn xadd(&mut self, key: &str) -> Vec<String> {
        let mut words = vec!["XADD".to_owned(), key.to_owned()];
        if self.prng.chance(1, 12) {
            words.push("NOMKSTREAM".to_owned());
        }
        if self.prng.chance(1, if self.is_large { 60 } else { 8 }) {
            self.trim_options(&mut words);
        }
        // Mostly the first number of the last entries, so that they are not refused.
        let id = match self.prng.below(10) {
            0 => self.stream_id(),
            1 => format!("{}-*", self.prng.below(MS_MAX)),
            2 => format!("{MS_MAX}-{}", self.prng.below(40)),
            _ => format!("{MS_MAX}-*"),
        };
        words.push(id);
        let fields = if self.prng.chance(1, 30) { 0 } else { 1 + self.prng.below(4) };
        for _ in 0..fields {
            words.push(self.one_of(&["name", "temperature", "7", "a longer name of a field"]).to_owned());
            words.push(match self.prng.below(6) {
                0 => "x".repeat(self.prng.below(300) as usize),
                1..4 => self.prng.below(1000).to_string(),
                _ => format!("value-{}", self.prng.below(1000)),
            });
        }
        if self.prng.chance(1, 40) {
            words.pop();
        }
        words
    }

    fn xread(&mut self) -> Vec<String> {
        let mut words = vec!["XREAD".to_owned()];
        if self.prng.chance(1, 2) {
            words.extend(["count".to_owned(), self.one_of(&["0", "1", "5", "500", "-1", "x"]).to_owned()]);
        }
        if self.prng.chance(1, 40) {
            words.push(self.one_of(&["NOACK", "GROUP", "other"]).to_owned());
        }
        words.push("STREAMS".to_owned());
        let count = 1 + self.prng.below(3);
        (0..count).for_each(|_| words.push(self.stream().to_owned()));
        for _ in 0..count {
            let id = if self.prng.chance(1, 12) { self.one_of(&["$", ">"]).to_owned() } else { self.stream_id() };
            words.push(id);
        }
        if self.prng.chance(1, 30) {
            words.pop();
        }
        words
    }

    /// Returns a request of a command on streams without groups.
    pub(super) fn stream_request(&mut self) -> Vec<String> {
        let (name, key) = (self.one_of(&STREAM_NAMES), self.stream());
        let mut words = vec![name.to_owned(), key.to_owned()];
        let many = self.one_of(if self.is_large { &["1", "3", "70", "300"] } else { &["1", "1", "2", "4"] });
        match name {
            "XADD" => return self.xadd(key),
            "XREAD" => return self.xread(),
            "XRANGE" | "XREVRANGE" => {
                words.extend([self.stream_end(), self.stream_end()]);
                if self.prng.chance(1, 2) {
                    words.extend(["COUNT".to_owned(), self.one_of(&["0", "1", "5", "500", "-3", "x"]).to_owned()]);
                }
            }
            "XDEL" => (0..many.parse().expect("a number")).for_each(|_| {
                let id = format!("{MS_MAX}-{}", self.prng.below(if self.is_large { 2000 } else { 40 }));
                words.push(if self.prng.chance(1, 300) { self.stream_id() } else { id });
            }),
            "XTRIM" => self.trim_options(&mut words),
            "XSETID" => {
                words.push(if self.prng.chance(1, 3) { self.stream_id() } else { format!("{MS_MAX}-5") });
                if self.prng.chance(1, 3) {
                    let added = self.one_of(&["0", "5", "10000", "-1", "x"]).to_owned();
                    words.extend(["ENTRIESADDED".to_owned(), added]);
                }
                if self.prng.chance(1, 3) {
                    words.extend(["MAXDELETEDID".to_owned(), self.stream_id()]);
                }
            }
            // The numbers of nodes depend on the implementation.
            "XINFO" => words = ["XLEN", key].map(str::to_owned).to_vec(),
            "RENAME" | "COPY" => words.push(self.stream().to_owned()),
            "PEXPIRE" => words.push("100000".to_owned()),
            "DEL" if self.prng.chance(9, 10) => words[0] = "XLEN".to_owned(),
            "MULTI" => {
                self.in_multi = !self.in_multi;
                words = vec![if self.in_multi { "MULTI" } else { "EXEC" }.to_owned()];
            }
            _ => {}
        }
        words
    }
}

#[test]
fn small_streams_answer_as_those_of_redis() {
    (21..25).for_each(|seed| compare(seed, 4000, (false, false), Requests::stream_request));
}

#[test]
fn large_streams_answer_as_those_of_redis() {
    (25..28).for_each(|seed| compare(seed, 4000, (true, false), Requests::stream_request));
}

/// The commands on groups, those that deliver more often.
const GROUP_NAMES: [&str; 20] = [
    "XADD",
    "XADD",
    "XADD",
    "XREADGROUP",
    "XREADGROUP",
    "XREADGROUP",
    "XREADGROUP",
    "XACK",
    "XACK",
    "XPENDING",
    "XPENDING",
    "XCLAIM",
    "XAUTOCLAIM",
    "XGROUP",
    "XINFO",
    "XINFO",
    "XDEL",
    "XTRIM",
    "COPY",
    "RENAME",
];

impl Requests {
    fn group(&mut self) -> String {
        if self.prng.chance(1, 50) { "none".to_owned() } else { self.one_of(&["group1", "group2", "g"]).to_owned() }
    }

    fn consumer(&mut self) -> String {
        format!("consumer-{}", self.prng.below(5))
    }

    /// Returns the identifier of an entry that probably exists.
    fn known_id(&mut self) -> String {
        match self.prng.below(40) {
            0 => self.stream_id(),
            _ => format!("{MS_MAX}-{}", self.prng.below(if self.is_large { 1500 } else { 60 })),
        }
    }

    fn several_ids(&mut self, words: &mut Vec<String>) {
        let most = if self.is_large { 150 } else { 5 };
        (0..1 + self.prng.below(most)).for_each(|_| words.push(self.known_id()));
    }

    /// Appends options, each with a chance, with one of these numbers.
    fn numbered(&mut self, words: &mut Vec<String>, options: &[(&str, &[&str])]) {
        for (option, numbers) in options {
            if self.prng.chance(1, 4) {
                words.push((*option).to_owned());
                if !numbers.is_empty() {
                    words.push(self.one_of(numbers).to_owned());
                }
            }
        }
    }

    fn xreadgroup(&mut self) -> Vec<String> {
        let mut words = vec!["XREADGROUP".to_owned(), "GROUP".to_owned(), self.group(), self.consumer()];
        self.numbered(&mut words, &[("NOACK", &[]), ("COUNT", &["1", "3", "10", "200", "0", "x"])]);
        words.push("STREAMS".to_owned());
        let count = 1 + self.prng.below(2);
        (0..count).for_each(|_| words.push(self.stream().to_owned()));
        for _ in 0..count {
            words.push(match self.prng.below(20) {
                0 => self.one_of(&["$", "abc", "1-*"]).to_owned(),
                1..6 => self.one_of(&["0", "0-0", "400-10"]).to_owned(),
                _ => ">".to_owned(),
            });
        }
        words
    }

    fn xgroup(&mut self, key: &str) -> Vec<String> {
        let part = self.one_of(&["CREATE", "CREATE", "SETID", "DESTROY", "CREATECONSUMER", "DELCONSUMER"]);
        let mut words = ["XGROUP", part, key].map(str::to_owned).to_vec();
        words.push(self.group());
        match part {
            "CREATE" | "SETID" => {
                words.push(self.one_of(&["0", "$", "400-5", "5", "abc", "-"]).to_owned());
                self.numbered(&mut words, &[("MKSTREAM", &[]), ("ENTRIESREAD", &["0", "-1", "5", "-2", "x"])]);
            }
            "CREATECONSUMER" | "DELCONSUMER" => words.push(self.consumer()),
            _ if self.prng.chance(1, 2) => words[1] = "DELCONSUMER".to_owned(),
            _ => {}
        }
        words
    }

    /// Returns a request of a command on groups. Idle times are either 0 or above all that pass during the test.
    pub(super) fn group_request(&mut self) -> Vec<String> {
        let (name, key) = (self.one_of(&GROUP_NAMES), self.stream());
        let mut words = vec![name.to_owned(), key.to_owned()];
        match name {
            "XADD" => {
                let times = if self.is_large { 12 } else { 1 };
                words.push(format!("{MS_MAX}-*"));
                (0..times).for_each(|at| words.extend([format!("field-{at}"), self.prng.below(1000).to_string()]));
            }
            "XREADGROUP" => return self.xreadgroup(),
            "XGROUP" => return self.xgroup(key),
            "XACK" => {
                words.push(self.group());
                self.several_ids(&mut words);
            }
            "XDEL" => (0..2).for_each(|_| words.push(self.known_id())),
            "XTRIM" if self.prng.chance(1, 2) => {
                let len = self.prng.below(if self.is_large { 800 } else { 20 });
                words.extend(["MAXLEN".to_owned(), len.to_string()]);
            }
            "XPENDING" => {
                words.push(self.group());
                if self.prng.chance(2, 3) {
                    if self.prng.chance(1, 3) {
                        words.extend(["IDLE".to_owned(), self.one_of(&["0", "500000", "x"]).to_owned()]);
                    }
                    words.extend([self.stream_end(), self.one_of(&["+", "400-30", "(400-9"]).to_owned()]);
                    words.push(self.one_of(&["0", "5", "100", "-1", "x"]).to_owned());
                    if self.prng.chance(1, 3) {
                        words.push(self.consumer());
                    }
                }
            }
            "XCLAIM" => {
                words.extend([self.group(), self.consumer(), self.one_of(&["0", "500000", "-1", "x"]).to_owned()]);
                self.several_ids(&mut words);
                let numbers: &[&str] = &["0", "1000000", "-5", "x"];
                self.numbered(&mut words, &[("FORCE", &[]), ("JUSTID", &[]), ("IDLE", numbers), ("TIME", &["1000"])]);
                self.numbered(&mut words, &[("RETRYCOUNT", &["0", "7", "-1", "x"]), ("LASTID", &["400-20", "x"])]);
            }
            "XAUTOCLAIM" => {
                words.extend([self.group(), self.consumer(), self.one_of(&["0", "500000", "x"]).to_owned()]);
                words.push(self.stream_end());
                self.numbered(&mut words, &[("COUNT", &["1", "5", "80", "0", "x"]), ("JUSTID", &[])]);
            }
            "XINFO" => {
                words = vec!["XINFO".to_owned(), self.one_of(&["STREAM", "GROUPS", "CONSUMERS"]).to_owned()];
                words.push(key.to_owned());
                match &words[1][..] {
                    "CONSUMERS" => words.push(self.group()),
                    "STREAM" => self.numbered(&mut words, &[("FULL", &[]), ("COUNT", &["0", "3", "-1"])]),
                    _ => {}
                }
            }
            "RENAME" | "COPY" if self.prng.chance(1, 4) => words.push(self.stream().to_owned()),
            _ => words = vec!["XLEN".to_owned(), key.to_owned()],
        }
        words
    }
}

/// Returns a reply without times, and without the numbers of nodes, which depend on the implementation.
fn without_times(words: &[String], reply: &[u8]) -> Vec<u8> {
    let is_listed = words[0] == "XPENDING" && words.len() > 3;
    let is_of = |part: &str| words[0] == "XINFO" && words[1] == part;
    let (is_consumers, is_stream) = (is_of("CONSUMERS"), is_of("STREAM"));
    let (mut numbers, mut all) = (0, Vec::new());
    for line in reply.split_inclusive(|byte| *byte == b'\n') {
        if line.first() != Some(&b':') {
            all.extend_from_slice(line);
            continue;
        }
        let is_left_out = is_listed && numbers % 2 == 0
            || is_consumers && numbers % 2 == 1
            || is_stream && (1..3).contains(&numbers)
            || line.len() > 14;
        all.extend_from_slice(if is_left_out { b":T\r\n" } else { line });
        numbers += 1;
    }
    all
}

/// Sends `count` random requests on groups to both servers, and compares the replies.
fn compare_groups(seed: u64, count: usize, is_large: bool) {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut requests = Requests { prng: Prng::new(seed), is_large, in_multi: false };
    for client in [&mut ours, &mut theirs] {
        client.ask(&[b"SET", b"text", b"some text"]);
    }
    let mut delivered = 0;
    for number in 0..count {
        let words = requests.group_request();
        let bytes = request(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
        let [ours, theirs] = [&mut ours, &mut theirs].map(|client| {
            client.client.send(&bytes);
            without_times(&words, &client.next())
        });
        let shown = words.join(" ");
        assert!(
            ours == theirs,
            "seed {seed}, request {number}: {shown}\n{}\n{}",
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
        delivered += usize::from(words[0] == "XREADGROUP" && ours.starts_with(b"*") && ours.len() > 20);
    }
    assert!(delivered > count / 100, "{delivered} deliveries are too few to prove anything");
    running.stop();
}

#[test]
fn groups_of_small_streams_answer_as_those_of_redis() {
    compare_groups(31, 2300, false);
}

#[test]
fn groups_of_large_streams_answer_as_those_of_redis() {
    compare_groups(36, 400, true);
}

/// Sends a request to both servers, and compares the replies, except times.
fn compare_one([ours, theirs]: [&mut Replies; 2], line: &str) {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let [ours, theirs] = [ours, theirs].map(|client| {
        let parts: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        without_times(&words, &client.ask(&parts))
    });
    assert!(ours == theirs, "{line}\n{}\n{}", ours.escape_ascii(), theirs.escape_ascii());
}

#[test]
fn groups_that_are_listed_and_destroyed_in_parts_leave_nothing_behind() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let add = "for i = 1, 9000 do redis.call('xadd', KEYS[1], i .. '-1', 'f', i) end";
    for client in [&mut ours, &mut theirs] {
        client.ask(&[b"EVAL", add.as_bytes(), b"1", b"s"]);
    }
    let mut compare = |line: &str| compare_one([&mut ours, &mut theirs], line);
    // A group with few consumers and many pending entries, and one with many consumers.
    for (group, consumers, each) in [("few", 3, 3000), ("many", 300, 30)] {
        compare(&format!("XGROUP CREATE s {group} 0"));
        for consumer in 0..consumers {
            compare(&format!("XREADGROUP GROUP {group} c{consumer} COUNT {each} STREAMS s >"));
        }
    }
    (0..300).for_each(|at| compare(&format!("XGROUP CREATE s group{at} {at} ENTRIESREAD {at}")));
    let listings = ["XINFO GROUPS s", "XINFO CONSUMERS s many", "XINFO CONSUMERS s none", "XINFO GROUPS none"];
    listings.into_iter().for_each(&mut compare);
    for group in ["few", "many"] {
        compare(&format!("XPENDING s {group}"));
        compare(&format!("XGROUP DESTROY s {group}"));
        compare(&format!("XGROUP DESTROY s {group}"));
        compare(&format!("XPENDING s {group}"));
        compare(&format!("XGROUP CREATE s {group} 8999"));
        compare(&format!("XREADGROUP GROUP {group} c1 STREAMS s >"));
        compare(&format!("XPENDING s {group} - + 10"));
        compare(&format!("XINFO CONSUMERS s {group}"));
    }
    compare("XINFO STREAM s FULL COUNT 1");
    compare("XLEN s");
    running.stop();
}

#[test]
fn approximate_trims_remove_the_same_groups_as_those_of_redis() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut prng = Prng::new(77);
    for (round, entries) in [100, 100, 10, 7, 1].into_iter().enumerate() {
        compare_one([&mut ours, &mut theirs], &format!("CONFIG SET stream-node-max-entries {entries}"));
        let key = format!("s{round}");
        let mut id = 0;
        for _ in 0..600 {
            id += 1 + prng.below(3);
            let option = match prng.below(10) {
                0 => format!("MAXLEN ~ {}", prng.below(300)),
                1 => format!("MAXLEN ~ {} LIMIT {}", prng.below(200), prng.below(150)),
                2 => format!("MINID ~ {}", id.saturating_sub(prng.below(700))),
                3 if prng.chance(1, 10) => format!("MAXLEN {}", prng.below(400)),
                _ => String::new(),
            };
            let line = match prng.below(8) {
                0 if !option.is_empty() => format!("XTRIM {key} {option}"),
                _ => format!("XADD {key} {option} {id} f v").replace("  ", " "),
            };
            compare_one([&mut ours, &mut theirs], &line);
            compare_one([&mut ours, &mut theirs], &format!("XLEN {key}"));
            // Redis begins the next entry of an empty stream in a new group, which this server does not.
            if ours.ask(&[b"XLEN", key.as_bytes()]) == b":0\r\n" {
                compare_one([&mut ours, &mut theirs], &format!("DEL {key}"));
            }
        }
        for line in
            [format!("XTRIM {key} MAXLEN ~ 0"), format!("XADD {key} {} f v", id + 5), format!("XRANGE {key} - +")]
        {
            compare_one([&mut ours, &mut theirs], &line);
        }
    }
    running.stop();
}

/// A short read of one stream does not look the group up before it delivers.
#[test]
fn errors_of_short_group_reads_are_those_of_redis_in_the_same_order() {
    let (redis, running) = (Redis::start(), start(both()));
    let (mut ours, mut theirs) = (resp(&running), Replies::connect(redis.addr));
    let mut compare = |line: &str| compare_one([&mut ours, &mut theirs], line);
    ["SET text v", "XADD s 1-1 f v", "XADD s 2-1 f v", "XGROUP CREATE s g 0"].into_iter().for_each(&mut compare);
    for key in ["none", "text", "s"] {
        for group in ["g", "other"] {
            for id in ["$", "wrong", "1-x", "-", "0", ">", "18446744073709551615-18446744073709551615"] {
                for count in ["COUNT 1 ", "COUNT 32 ", "COUNT -1 ", "COUNT 33 ", ""] {
                    compare(&format!("XREADGROUP GROUP {group} c {count}STREAMS {key} {id}"));
                }
            }
        }
    }
    compare("XPENDING s g - + 10");
    compare("XINFO GROUPS s");
    compare("EXISTS none other");
    running.stop();
}

/// Returns the reply to a request that a full store refuses until the background has reclaimed memory.
fn reply_with_room(client: &mut Replies, request: &str) -> String {
    let mut reply = String::new();
    crate::common::wait_until("the background reclaims memory", || {
        reply = client.text(request);
        !reply.starts_with("-OOM")
    });
    reply
}

/// Commands that Redis does not refuse when memory is used up: consumers must be able to empty a queue.
#[test]
fn consumers_go_on_in_a_full_store_without_eviction() {
    let server = start(ServerConfig { memory_bytes: 16 << 20, evict: false, ..both() });
    let mut client = resp(&server);
    let value = "v".repeat(1000);
    assert_eq!(client.text("XGROUP CREATE stream group 0 MKSTREAM"), "+OK");
    let mut added = 0;
    while client.text(&format!("XADD stream 1-{} field {value}", added + 1)).starts_with('$') {
        client.ask(&[b"RPUSH", b"list", format!("{added}").as_bytes()]);
        added += 1;
    }
    assert!(added > 5000, "{added} entries");
    assert!(client.text("RPUSH list x").starts_with("-OOM"));
    // A full store may deliver and claim fewer entries than requested, but some once the background has reclaimed the
    // memory of earlier changes.
    let mut first = 0;
    while first < 2000 {
        let read = reply_with_room(&mut client, "XREADGROUP GROUP group one COUNT 50 STREAMS stream >");
        let count = read.matches(&value).count();
        assert!(count > 0, "{}", &read[..read.len().min(100)]);
        let ids: Vec<String> = (first..first + count).map(|number| format!("1-{}", number + 1)).collect();
        let claim = format!("XCLAIM stream group two 0 {} JUSTID", ids.join(" "));
        assert!(reply_with_room(&mut client, &claim).starts_with('*'));
        assert!(reply_with_room(&mut client, "XAUTOCLAIM stream group one 0 0 COUNT 50 JUSTID").starts_with("*3"));
        assert_eq!(client.text(&format!("XACK stream group {}", ids.join(" "))), format!(":{count}"));
        assert_eq!(client.text(&format!("LREM list 1 {first}")), ":1");
        assert_eq!(client.text(&format!("XDEL stream {}", ids.join(" "))), format!(":{count}"));
        first += count;
    }
    crate::common::wait_until("there is room again", || {
        client.text(&format!("XADD stream 2-* field {value}")).starts_with('$')
    });
    server.stop();
}
