//! Random requests on streams, as in [`super::resp_collections`].

use super::resp_collections::{Requests, compare};

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
    fn stream_request(&mut self) -> Vec<String> {
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
