//! Tests restarts with a memory file that has lists, sets and sorted sets: the server is killed while a client changes
//! them, and started again. Every element must be there that was acknowledged. The change under way at a kill is made
//! completely or not at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use base::prng::Prng;

use crate::restart::{MemoryFile, before_a_kill, kills, seed_told};
use crate::restart_together::{Redis, killed, serve_redis};

/// The maximum length of the list after a trim.
const LIST_MAX: usize = 6000;

/// The expected collections.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    list: VecDeque<String>,
    set: BTreeSet<String>,
    scores: BTreeMap<String, i64>,
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

    /// Reads the collections.
    fn read(redis: &mut Redis) -> Self {
        let mut all = |line: &str| redis.ask(line).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let (list, set) = (all("LRANGE list 0 -1"), all("SMEMBERS set"));
        let scored = all("ZRANGE scores 0 -1 WITHSCORES");
        let (pairs, _) = scored.as_chunks::<2>();
        let scores = pairs.iter().map(|[member, score]| (member.clone(), score.parse().expect("a whole score")));
        Self { list: list.into(), set: set.into_iter().collect(), scores: scores.collect() }
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
    let is_enough = |known: &Expected| known.list.len().min(known.set.len()).min(known.scores.len()) > 1000;
    for round in 0..10 * kills(6) {
        if round >= kills(6) && is_enough(&known) {
            break;
        }
        let (serving, _, addr) = serve_redis(&file, &workers);
        let mut redis = Redis::connect(addr);
        if round > 0 {
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
