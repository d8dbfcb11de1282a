//! Queries of records in the set `s` by an indexed bin.

use super::redis::Replies;

/// Returns all records of a query in order, with as many calls as necessary: each key with the value of the bin `v`.
pub fn queried(redis: &mut Replies, asked: &str, limit: u64) -> Vec<(String, String)> {
    let (mut cursor, mut replied) = ("0".to_owned(), Vec::new());
    loop {
        let reply = redis.text(&format!("REC.QUERY s {asked} LIMIT {limit} AFTER {cursor} BINS v"));
        let mut words = reply.split(' ');
        cursor = words.nth(2).unwrap_or_else(|| panic!("{reply}")).to_owned();
        let words: Vec<&str> = words.collect();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with("k:")) {
            // Key, revision, end, the map's head, the bin's name and its value.
            let value = words[at + 6].trim_start_matches(':');
            let value = if value.starts_with('$') { words[at + 7] } else { value };
            replied.push(((*word).to_owned(), value.to_owned()));
        }
        if cursor == "0" {
            return replied;
        }
    }
}
