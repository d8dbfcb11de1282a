//! Tests restarts with a memory file that has lists, sets, sorted sets and streams: the server is killed while a client
//! changes them, and started again. Every element must be there that was acknowledged. The change under way at a kill
//! is made completely or not at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::restart::{MemoryFile, before_a_kill, kills, seed_told};
use crate::restart_together::{Redis, killed, serve_redis};

/// The maximum number of entries of the stream after a trim.
const ENTRIES_MAX: usize = 3000;
/// The maximum length of the list after a trim.
const LIST_MAX: usize = 6000;

/// The expected collections.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    list: VecDeque<String>,
    set: BTreeSet<String>,
    scores: BTreeMap<String, i64>,
    /// The entries of the stream by the first number of their identifiers, and those that are pending in its group.
    entries: BTreeMap<u64, String>,
    pending: BTreeSet<u64>,
    delivered: u64,
}

impl Expected {
    /// Returns the words of a random change, and makes the change.
    fn change(&mut self, random: &mut Prng, number: u64) -> Vec<String> {
        let count = [1, 1, 4, 50][random.below(4) as usize];
        let pushed: Vec<String> = (0..count).map(|at| format!("element-{number}-{at}")).collect();
        let members: Vec<String> = (0..count).map(|_| format!("member-{}", random.below(8000))).collect();
        let words = |name: &[&str], rest: &[String]| {
            name.iter().map(|word| word.to_string()).chain(rest.iter().cloned()).collect()
        };
        if random.chance(1, 2) {
            return self.change_stream(random, number);
        }
        match random.below(8) {
            0 | 1 => {
                self.list.extend(pushed.iter().cloned());
                words(&["RPUSH", "list"], &pushed)
            }
            2 => {
                pushed.iter().for_each(|element| self.list.push_front(element.clone()));
                words(&["LPUSH", "list"], &pushed)
            }
            3 => {
                self.list.pop_front();
                words(&["LPOP", "list"], &[])
            }
            4 => {
                let from = self.list.len().saturating_sub(LIST_MAX);
                self.list.drain(..from);
                words(&["LTRIM", "list", &format!("-{LIST_MAX}"), "-1"], &[])
            }
            5 => {
                self.set.extend(members.iter().cloned());
                words(&["SADD", "set"], &members)
            }
            6 => {
                self.set.retain(|member| !members.contains(member));
                words(&["SREM", "set"], &members)
            }
            _ => {
                let scored: Vec<(i64, String)> =
                    members.into_iter().map(|member| (random.below(2000) as i64 - 1000, member)).collect();
                self.scores.extend(scored.iter().map(|(score, member)| (member.clone(), *score)));
                let flat: Vec<String> =
                    scored.into_iter().flat_map(|(score, member)| [score.to_string(), member]).collect();
                words(&["ZADD", "scores"], &flat)
            }
        }
    }

    /// Returns the words of a random change of the stream, and makes the change.
    fn change_stream(&mut self, random: &mut Prng, number: u64) -> Vec<String> {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        match random.below(12) {
            0 => {
                let ids: Vec<u64> = (0..20).map(|_| random.below(number + 1)).collect();
                self.entries.retain(|id, _| !ids.contains(id));
                let ids: Vec<String> = ids.iter().map(|id| format!("{id}-1")).collect();
                words(&format!("XDEL stream {}", ids.join(" ")))
            }
            1 => {
                let gone = self.entries.len().saturating_sub(ENTRIES_MAX);
                (0..gone).for_each(|_| drop(self.entries.pop_first()));
                words(&format!("XTRIM stream MAXLEN {ENTRIES_MAX}"))
            }
            2 | 3 => {
                let new: Vec<u64> = self.entries.range(self.delivered + 1..).map(|(id, _)| *id).take(30).collect();
                self.delivered = new.last().copied().unwrap_or(self.delivered);
                self.pending.extend(new);
                words("XREADGROUP GROUP group one COUNT 30 STREAMS stream >")
            }
            4 => {
                let ids: Vec<u64> = (0..20).map(|_| random.below(number + 1)).collect();
                self.pending.retain(|id| !ids.contains(id));
                let ids: Vec<String> = ids.iter().map(|id| format!("{id}-1")).collect();
                words(&format!("XACK stream group {}", ids.join(" ")))
            }
            _ => {
                let value = format!("value-{number}-{}", "x".repeat(random.below(60) as usize));
                self.entries.insert(number, value.clone());
                words(&format!("XADD stream {number}-1 name {value}"))
            }
        }
    }

    /// Reads the collections.
    fn read(redis: &mut Redis) -> Self {
        let mut all = |line: &str| redis.ask(line).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (list, set) = (all("LRANGE list 0 -1"), all("SMEMBERS set"));
        let scored = all("ZRANGE scores 0 -1 WITHSCORES");
        let (pairs, _) = scored.as_chunks::<2>();
        let scores = pairs.iter().map(|[member, score]| (member.clone(), score.parse().expect("a whole score")));
        let id = |id: &str| id.strip_suffix("-1").and_then(|id| id.parse::<u64>().ok()).expect("an identifier");
        let (entries, pending, groups) =
            (all("XRANGE stream - +"), all("XPENDING stream group - + 100000"), all("XINFO GROUPS stream"));
        Self {
            list: list.into(),
            set: set.into_iter().collect(),
            scores: scores.collect(),
            entries: entries.as_chunks::<3>().0.iter().map(|[key, _, value]| (id(key), value.clone())).collect(),
            pending: pending.as_chunks::<4>().0.iter().map(|[key, ..]| id(key)).collect(),
            delivered: groups.get(7).and_then(|last| last.split('-').next()?.parse().ok()).expect("the last entry"),
        }
    }
}

/// Changes the collections until the server is killed. Returns the collections after the last acknowledged change, and
/// after the change under way.
fn changes_until_a_kill(
    redis: &mut Redis,
    mut known: Expected,
    random: &mut Prng,
    number: &mut u64,
    until: Instant,
) -> [Expected; 2] {
    loop {
        *number += 1;
        let mut next = known.clone();
        let words = next.change(random, *number);
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        if redis.send(&words).is_err() {
            return [known, next];
        }
        if Instant::now() >= until {
            // The kill comes while this request is under way.
            return [known, next];
        }
        match redis.answer() {
            Err(_) => return [known, next],
            Ok(reply) => assert!(!reply.starts_with('-'), "{reply}"),
        }
        known = next;
    }
}

#[test]
fn collections_have_every_acknowledged_element_after_a_kill() {
    let seed = 5;
    let file = MemoryFile::new("collections");
    let (mut random, mut number, mut known) = (Prng::new(seed), 0, Expected::default());
    let workers = ["--workers", "2"];
    // A slow machine needs more rounds until there are enough elements to prove anything.
    let is_enough = |known: &Expected| {
        let elements = known.list.len().min(known.set.len()).min(known.scores.len());
        elements > 1000 && known.entries.len() > 200 && known.pending.len() > 100
    };
    for round in 0..10 * kills(6) {
        if round >= kills(6) && is_enough(&known) {
            break;
        }
        let (serving, _, addr) = serve_redis(&file, &workers);
        let mut redis = Redis::connect(addr);
        if round == 0 {
            redis.ask("XGROUP CREATE stream group 0 MKSTREAM");
        } else {
            let found = Expected::read(&mut redis);
            assert!(number > 0 && found == known, "{}: round {round}", seed_told("elements differ", seed));
        }
        let until = Instant::now() + before_a_kill(Duration::from_millis(150 + random.below(250)));
        let either = changes_until_a_kill(&mut redis, known, &mut random, &mut number, until);
        killed(serving);
        let (serving, _, addr) = serve_redis(&file, &workers);
        let found = Expected::read(&mut Redis::connect(addr));
        let told = seed_told("elements differ", seed);
        assert!(either.contains(&found), "{told}: round {round}, change {number}");
        known = found;
        killed(serving);
    }
    assert!(is_enough(&known), "too few elements");
}
