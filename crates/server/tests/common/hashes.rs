//! Random commands on hashes, and the random parts of their replies.

use base::prng::Prng;

/// Returns a random field name: a digit, an empty name, or `f` and a digit.
fn field(prng: &mut Prng) -> Vec<u8> {
    match prng.below(8) {
        0 => prng.below(3).to_string().into_bytes(),
        1 => Vec::new(),
        _ => format!("f{}", prng.below(6)).into_bytes(),
    }
}

/// Returns a value that keeps a Redis hash in its list encoding, which returns fields in the order of insertion.
fn value(prng: &mut Prng) -> Vec<u8> {
    match prng.below(9) {
        0 => Vec::new(),
        1 => i64::MAX.to_string().into_bytes(),
        2 => b"-0".to_vec(),
        3 => vec![b'v'; 60 + prng.below(5) as usize],
        4 => b"a\r\nb\0".to_vec(),
        5 => format!("-{}", prng.below(70_000)).into_bytes(),
        6 => (1i64 << prng.below(63)).to_string().into_bytes(),
        7 => format!("{}.5", prng.below(10)).into_bytes(),
        _ => format!("text {}", prng.below(9)).into_bytes(),
    }
}

fn one_of(prng: &mut Prng, words: &[&str]) -> Vec<u8> {
    words[prng.below(words.len() as u64) as usize].into()
}

/// Returns the words of a random hash command on one of the keys that the other random commands use. Half of the
/// commands are valid.
pub fn command(prng: &mut Prng) -> Vec<Vec<u8>> {
    let key = format!("key:{}", prng.below(5)).into_bytes();
    let mut words: Vec<Vec<u8>> = Vec::new();
    match prng.below(12) {
        0..=3 => {
            words.extend([one_of(prng, &["HSET", "hset", "HMSET"]), key]);
            for _ in 0..prng.below(30) {
                words.extend([field(prng), value(prng)]);
            }
            if prng.below(8) == 0 {
                words.push(field(prng));
            }
        }
        4 => words.extend([one_of(prng, &["HGETALL", "HKEYS", "HVALS", "HLEN"]), key]),
        5 => words.extend([one_of(prng, &["HGET", "HEXISTS", "HSTRLEN"]), key, field(prng)]),
        6 => {
            words.extend([one_of(prng, &["HMGET", "HDEL"]), key]);
            words.extend((0..prng.below(5)).map(|_| field(prng)));
        }
        7 => words.extend([b"HSETNX".to_vec(), key, field(prng), value(prng)]),
        8 => {
            let delta = one_of(prng, &["1", "-5", "9223372036854775807", "-9223372036854775808", "1.5", "", "x"]);
            words.extend([b"HINCRBY".to_vec(), key, field(prng), delta]);
        }
        9 => {
            // Numbers whose sums are exact: this server adds 64-bit doubles, Redis 80-bit numbers.
            let field = format!("sum{}", prng.below(2)).into_bytes();
            let delta = one_of(prng, &["1", "-2.5", "0.25", "abc", "1e2", "", "inf"]);
            words.extend([b"HINCRBYFLOAT".to_vec(), key, field, delta]);
        }
        10 => {
            words.extend([b"HRANDFIELD".to_vec(), key]);
            if prng.below(4) > 0 {
                words.push(one_of(prng, &["0", "1", "100", "-3", "x", "-9223372036854775808", "9223372036854775807"]));
                if prng.below(2) == 0 {
                    words.push(one_of(prng, &["WITHVALUES", "withvalues", "VALUES"]));
                }
            }
        }
        _ => {
            words.extend([b"HSCAN".to_vec(), key, one_of(prng, &["0", "0", "0", "x"])]);
            for _ in 0..prng.below(3) {
                match prng.below(4) {
                    0 => words.extend([b"MATCH".to_vec(), one_of(prng, &["f*", "*", "f[0-2]", "no"])]),
                    1 => words.extend([b"COUNT".to_vec(), one_of(prng, &["5", "0", "x"])]),
                    2 => words.push(b"COUNT".to_vec()),
                    _ => words.extend([b"NO".to_vec(), b"1".to_vec()]),
                }
            }
        }
    }
    words
}

/// Returns true if two replies to `words` are equal, apart from randomly selected fields.
pub fn same_but_for_chance(words: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    let drawn = words[0].eq_ignore_ascii_case(b"HRANDFIELD") && words.get(2).is_none_or(|count| *count != b"100");
    let first_line = |reply: &[u8]| reply.split(|byte| *byte == b'\r').next().map(<[u8]>::to_vec);
    match (ours.first(), theirs.first()) {
        // A field drawn: they may have another length.
        (Some(b'$'), Some(b'$')) if drawn => ours.starts_with(b"$-1") == theirs.starts_with(b"$-1"),
        (Some(b'*'), Some(b'*')) if drawn => first_line(ours) == first_line(theirs),
        _ => false,
    }
}
