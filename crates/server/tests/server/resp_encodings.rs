//! `OBJECT ENCODING` beside Debian's Redis, at the limits of each encoding.

use crate::common::redis::{Redis, Replies, both, resp};
use crate::common::start;

/// Returns a text of `len` bytes that differs from those with other numbers.
fn text(number: usize, len: usize) -> String {
    let digits = number.to_string();
    "x".repeat(len.saturating_sub(digits.len())) + &digits
}

/// Returns requests that each store a value of `count` elements under `k`, with elements of at most `len` bytes.
fn values(count: usize, len: usize) -> Vec<Vec<String>> {
    let words = |name: &str, elements: &mut dyn Iterator<Item = Vec<String>>| {
        [name.to_owned(), "k".to_owned()].into_iter().chain(elements.flatten()).collect::<Vec<_>>()
    };
    let all = || 0..count;
    vec![
        words("RPUSH", &mut all().map(|n| vec![text(n, len)])),
        words("SADD", &mut all().map(|n| vec![text(n, len)])),
        words("SADD", &mut all().map(|n| vec![(n as i64 * 7_000_000_000 - 50).to_string()])),
        words("SADD", &mut all().map(|n| vec![if n + 1 == count { format!("0{n}") } else { n.to_string() }])),
        words("ZADD", &mut all().map(|n| vec![(count - n).to_string(), text(n, len)])),
        words("ZADD", &mut all().map(|n| vec!["1".to_owned(), text(n, if n + 1 == count { len } else { 9 })])),
        words("HSET", &mut all().map(|n| vec![n.to_string(), text(n, len)])),
        words("HSET", &mut all().map(|n| vec![text(n, if n == count / 2 { len } else { 9 }), "1.5".to_owned()])),
        words("SET", &mut std::iter::once(vec![text(1, count * len)])),
    ]
}

#[test]
fn encoding_at_each_limit_is_that_of_redis() {
    let (theirs, running) = (Redis::start(), start(both()));
    let (mut redis, mut gannet) = (Replies::connect(theirs.addr), resp(&running));
    let mut seen = std::collections::HashSet::new();
    let mut compare = |words: &[String]| {
        let encoded = [&mut redis, &mut gannet].map(|replies| {
            replies.text("DEL k");
            let stored = replies.ask(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
            assert!(!stored.starts_with(b"-"), "{}", stored.escape_ascii());
            replies.text("OBJECT ENCODING k")
        });
        assert_eq!(encoded[0], encoded[1], "{:?}", &words[..words.len().min(9)]);
        seen.insert(encoded[0].split(' ').nth(1).unwrap_or_default().to_owned());
    };
    for count in [1, 2, 11, 44, 45, 128, 129, 512, 513, 3000] {
        for len in [9, 64, 65, 400].into_iter().filter(|len| count * len <= 60_000) {
            values(count, len).iter().for_each(|words| compare(words));
        }
    }
    for number in ["0", "-1", "01", "+1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.0"] {
        compare(&["SET", "k", number].map(str::to_owned));
    }
    compare(&["XADD", "k", "1-1", "f", "v"].map(str::to_owned));
    for encoding in "int embstr raw quicklist intset hashtable listpack skiplist stream".split(' ') {
        assert!(seen.contains(encoding), "{encoding} was not reached");
    }
    running.stop();
}
