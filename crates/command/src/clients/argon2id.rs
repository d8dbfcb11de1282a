//! Argon2id hashes of passwords (RFC 9106), in the PHC string format.
//!
//! ```text
//!   $argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$iE9...     memory in KiB, passes, lanes; salt and hash in base64
//! ```
//! A check takes milliseconds, so no worker makes one: the thread `passwords` does ([`crate::host::Host::hash_aside`]).
//! After a success, the hash retains a keyed digest of the password, so that later logins need no Argon2id. The key is
//! random, new in each process, and stored nowhere.
//!
//! Invariants:
//! - No error, log line or `Debug` text contains a hash or a password.
//! - A check allocates at most [`MEMORY_KIB_MAX`], and returns it when it ends.

use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Block, Params, Version};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;
use std::sync::OnceLock;
use subtle::ConstantTimeEq;

/// The maximum length of a password of a login that is checked against Argon2id hashes, in bytes. It bounds the memory
/// of waiting checks.
pub(crate) const PASSWORD_BYTES_MAX: usize = 4096;
/// The maximum memory of a check, in KiB: that of the second choice of RFC 9106, section 4.
const MEMORY_KIB_MAX: u32 = 64 << 10;
/// The maximum number of passes over the memory.
const PASSES_MAX: u32 = 16;
/// The maximum number of lanes. One thread computes them, one after another.
const LANES_MAX: u32 = 16;
/// The minimum length of the salt and of the hash, in bytes.
const SALT_BYTES_MIN: usize = 8;
const HASH_BYTES_MIN: usize = 16;
/// The maximum length of the hash, in bytes.
const HASH_BYTES_MAX: usize = 64;
/// The maximum length of the text, in bytes.
const TEXT_BYTES_MAX: usize = 250;
/// The parameters of new hashes: memory in KiB, passes and lanes.
const NEW: (u32, u32, u32) = (19 << 10, 2, 1);
/// The length of a new salt, and of a new hash, in bytes.
const NEW_SALT_BYTES: usize = 16;
const NEW_HASH_BYTES: usize = 32;

/// The reason why a text is not a usable hash.
pub(crate) type HashError = &'static str;

const MALFORMED: HashError = "The password hash must have the form $argon2id$v=19$m=KIB,t=PASSES,p=LANES$SALT$HASH";
const TOO_COSTLY: HashError = "The Argon2id hash exceeds m=65536 (64 MiB), t=16 or p=16";

/// An Argon2id hash of a password.
pub(crate) struct Argon2idHash {
    text: Box<str>,
    /// The keyed digest of the right password, after the first successful check.
    verified: OnceLock<[u8; 32]>,
}

impl fmt::Debug for Argon2idHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a hash)")
    }
}

impl Argon2idHash {
    /// Parses a hash in the PHC string format.
    ///
    /// # Errors
    /// If the text is malformed, or a check would need too much memory or time.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, HashError> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_BYTES_MAX).ok_or(MALFORMED)?;
        let (params, salt, hash) = parts(text).ok_or(MALFORMED)?;
        if salt.len() < SALT_BYTES_MIN || !(HASH_BYTES_MIN..=HASH_BYTES_MAX).contains(&hash.len()) {
            return Err(MALFORMED);
        }
        if params.m_cost() > MEMORY_KIB_MAX || params.t_cost() > PASSES_MAX || params.p_cost() > LANES_MAX {
            return Err(TOO_COSTLY);
        }
        Ok(Self { text: text.into(), verified: OnceLock::new() })
    }

    /// Hashes a new password with a random salt. Takes milliseconds.
    ///
    /// # Errors
    /// If the memory cannot be allocated.
    pub(crate) fn create(password: &[u8]) -> Result<Self, HashError> {
        let mut salt = [0; NEW_SALT_BYTES];
        fill_with_random(&mut salt);
        let (memory_kib, passes, lanes) = NEW;
        let params = Params::new(memory_kib, passes, lanes, None).expect("the parameters are valid");
        let mut hash = [0; NEW_HASH_BYTES];
        compute(&params, password, &salt, &mut hash).ok_or("cannot hash the password: out of memory")?;
        let encoded = argon2::password_hash::Output::new(&hash).expect("the length is valid");
        let salt = SaltString::encode_b64(&salt).expect("the length is valid");
        let text = format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${encoded}");
        let created = Self { text: text.into(), verified: OnceLock::new() };
        let _ = created.verified.set(created.keyed_digest(password));
        Ok(created)
    }

    /// Returns the hash in the PHC string format.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if an earlier check of this password in this process succeeded. Takes about a microsecond.
    pub(crate) fn was_verified(&self, password: &[u8]) -> bool {
        self.verified.get().is_some_and(|known| known.ct_eq(&self.keyed_digest(password)).into())
    }

    /// Returns true if the password is right. Takes milliseconds, and up to 2 s with the highest parameters. Returns
    /// false if the memory cannot be allocated.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        let Some((params, salt, hash)) = parts(&self.text) else { return false };
        let mut computed = [0; HASH_BYTES_MAX];
        let computed = &mut computed[..hash.len()];
        if compute(&params, password, &salt, computed).is_none() {
            tracing::warn!("cannot check a password: cannot allocate {} KiB", params.m_cost());
            return false;
        }
        let is_right = bool::from(computed.ct_eq(&hash));
        if is_right {
            let _ = self.verified.set(self.keyed_digest(password));
        }
        is_right
    }

    /// Returns a digest of the password and this hash, which only this process can compute.
    fn keyed_digest(&self, password: &[u8]) -> [u8; 32] {
        let mac = Hmac::<Sha256>::new_from_slice(process_key()).expect("a key has any length");
        mac.chain_update(self.text.as_bytes()).chain_update([0]).chain_update(password).finalize().into_bytes().into()
    }
}

/// Returns the parameters, the salt and the hash of a text in the PHC string format.
fn parts(text: &str) -> Option<(Params, Vec<u8>, Vec<u8>)> {
    let parsed = PasswordHash::new(text).ok()?;
    if parsed.algorithm != ARGON2ID_IDENT || parsed.version != Some(Version::V0x13.into()) {
        return None;
    }
    let params = Params::try_from(&parsed).ok()?;
    let mut salt = [0; TEXT_BYTES_MAX];
    let salt = parsed.salt?.decode_b64(&mut salt).ok()?.to_vec();
    Some((params, salt, parsed.hash?.as_bytes().to_vec()))
}

/// Computes Argon2id into `hash`. Returns `None` if the memory cannot be allocated.
fn compute(params: &Params, password: &[u8], salt: &[u8], hash: &mut [u8]) -> Option<()> {
    let mut blocks = Vec::new();
    blocks.try_reserve_exact(params.block_count()).ok()?;
    blocks.resize(params.block_count(), Block::default());
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
    argon2.hash_password_into_with_memory(password, salt, hash, &mut blocks).ok()
}

/// Returns the key of all keyed digests in this process.
fn process_key() -> &'static [u8; 32] {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    KEY.get_or_init(|| {
        let mut key = [0; 32];
        fill_with_random(&mut key);
        key
    })
}

/// Fills `bytes` with random bytes from the kernel.
///
/// # Panics
/// If a filter of the host refuses the system call. Then no password can be stored safely.
pub(super) fn fill_with_random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the kernel refuses random bytes ({error}): allow the system call getrandom"),
        }
    }
}

/// A hash of the password `right`, with small parameters.
#[cfg(test)]
pub(crate) const RIGHT: &str =
    "$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQxNmJ5dGVzMQ$fmqzTU8anUjeUd3fJkFlBcz3+I+1KyWI0vFU6SaH96k";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_password_is_never_verified_nor_remembered() {
        let hash = Argon2idHash::parse(RIGHT.as_bytes()).unwrap();
        assert!(!hash.was_verified(b"right") && !hash.verify(b"wrong") && !hash.was_verified(b"wrong"));
        assert!(hash.verify(b"right"));
        assert!(hash.was_verified(b"right") && !hash.was_verified(b"wrong") && !hash.was_verified(b""));
        assert!(!Argon2idHash::parse(RIGHT.as_bytes()).unwrap().was_verified(b"right"), "a new hash remembers nothing");
        assert_eq!((format!("{hash:?}"), hash.text()), ("(a hash)".to_owned(), RIGHT));
    }

    #[test]
    fn two_hashes_of_one_password_have_different_salts() {
        let [one, two] = [(); 2].map(|()| Argon2idHash::create(b"secret").unwrap());
        assert_ne!(one.text(), two.text());
        assert!(one.was_verified(b"secret") && !one.was_verified(b"other"));
        let parsed = Argon2idHash::parse(one.text().as_bytes()).unwrap();
        assert!(parsed.verify(b"secret") && !parsed.verify(b"other"));
        assert!(one.text().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", one.text());
    }

    #[test]
    fn malformed_or_costly_hash_is_refused() {
        let with = |from: &str, to: &str| {
            assert!(RIGHT.contains(from), "{from}");
            Argon2idHash::parse(RIGHT.replacen(from, to, 1).as_bytes()).err()
        };
        for (from, to) in [
            ("argon2id", "argon2i"),
            ("argon2id", "scrypt"),
            ("v=19", "v=16"),
            ("$v=19", ""),
            ("m=", "x="),
            ("c29tZXNhbHQxNmJ5dGVzMQ", "c29t"),
            ("fmqzTU8anUjeUd3fJkFlBcz3+I+1KyWI0vFU6SaH96k", "fmqz"),
        ] {
            assert_eq!(with(from, to), Some(MALFORMED), "{to}");
        }
        for (from, to) in [("m=64", "m=65537"), ("t=2", "t=17"), ("p=1", "p=17")] {
            let refused = with(from, to);
            assert!(refused == Some(TOO_COSTLY) || to == "p=17" && refused == Some(MALFORMED), "{to}: {refused:?}");
        }
        assert_eq!(with("m=64", "m=65536"), None);
        let cut = RIGHT.rsplit_once('$').unwrap().0;
        assert_eq!(Argon2idHash::parse(cut.as_bytes()).err(), Some(MALFORMED));
        for text in ["", "$", "$argon2id$", "$argon2id$v=19$m=64,t=2,p=1$$", &"$argon2id".repeat(99)] {
            assert_eq!(Argon2idHash::parse(text.as_bytes()).err(), Some(MALFORMED), "{text}");
        }
        assert_eq!(Argon2idHash::parse(b"$argon2id\xff").err(), Some(MALFORMED));
    }

    /// Prints the figures of decision 0028.
    #[test]
    #[ignore = "a measurement"]
    fn figures_of_a_check() {
        let peak_kib = || -> u64 {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let time = |what: &str, rounds: u32, work: &mut dyn FnMut()| {
            let times = (0..rounds).map(|_| {
                let begun = std::time::Instant::now();
                work();
                begun.elapsed()
            });
            println!("{what}: {:?}, peak of the process {} KiB", times.min().unwrap(), peak_kib());
        };
        println!("before: peak of the process {} KiB", peak_kib());
        let new = Argon2idHash::create(b"secret").unwrap();
        time("m=19456,t=2,p=1", 20, &mut || assert!(new.verify(b"secret")));
        time("remembered", 1000, &mut || assert!(new.was_verified(b"secret")));
        for params in ["m=65536,t=3,p=4", "m=65536,t=16,p=1"] {
            let text = RIGHT.replacen("m=64,t=2,p=1", params, 1);
            let hash = Argon2idHash::parse(text.as_bytes()).unwrap();
            time(params, 3, &mut || assert!(!hash.verify(b"right")));
        }
    }
}
