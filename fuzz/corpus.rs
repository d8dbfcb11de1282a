//! The seeds of a fuzz target, for the tests that walk them: each includes this file.
#![allow(dead_code)]

use base::prng::Prng;

/// A seed by the name of its file, and its bytes.
pub type Seed = (String, Vec<u8>);

/// The seeds of a target, in the order of their names.
pub fn seeds(target: &str) -> Vec<Seed> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/").to_owned() + target;
    let files = std::fs::read_dir(folder).expect("the seed corpus is in the repository");
    let seed = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a readable folder").path();
        (path.display().to_string(), std::fs::read(&path).expect("a readable file"))
    };
    let mut seeds: Vec<Seed> = files.map(seed).collect();
    seeds.sort();
    seeds
}

/// Their bytes alone.
pub fn bytes(target: &str) -> Vec<Vec<u8>> {
    seeds(target).into_iter().map(|(_, bytes)| bytes).collect()
}

/// The seed of the random changes of a test: that of the environment, or 1. Says how to repeat them.
pub fn prng(package: &str, test: &str) -> Prng {
    let seed = std::env::var("GANNET_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("repeat: GANNET_SEED={seed} cargo test -p {package} --test {test}");
    Prng::new(seed)
}

/// One to four changes at random places: a bit is another one, a byte comes in between, or all from there on is gone.
pub fn change(prng: &mut Prng, bytes: &mut Vec<u8>) {
    for _ in 0..1 + prng.below(4) {
        let at = prng.below(bytes.len() as u64) as usize;
        match prng.below(3) {
            0 => bytes[at] ^= 1 << prng.below(8),
            1 => bytes.truncate(at.max(1)),
            _ => bytes.insert(at, prng.next_u64() as u8),
        }
    }
}

/// Up to `most` bytes at random places are others.
pub fn damage(prng: &mut Prng, most: u64, bytes: &mut [u8]) {
    for _ in 0..prng.below(most + 1) {
        bytes[prng.below(bytes.len() as u64) as usize] = prng.next_u64() as u8;
    }
}
