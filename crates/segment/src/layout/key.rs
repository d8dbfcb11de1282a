//! A key with its hash, made once for each operation.

/// The part of a key's hash that determines its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    /// Returns the bits that select the key's group of the index.
    #[inline(always)]
    pub(crate) fn group_hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the bits that an index slot keeps.
    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 & 0xfff) as u16
    }
}

/// The keyspace of a key: hashed with the key, and stored in the segment's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub u8);

impl Namespace {
    /// The namespace of listeners that name no other.
    pub const DEFAULT: Self = Self(0);
    /// Number of namespaces that a store has room for.
    pub const MAX: usize = 16;
}

/// A key, ready to be looked up.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: Hash,
    pub(crate) namespace: u8,
    /// True for a hidden key: a piece of a large value.
    pub(crate) piece: bool,
}

/// The hash of a key in its namespace, without the key. [`crate::Items::prefetch_item`] needs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    pub(crate) hash: Hash,
    namespace: u8,
}

impl KeyHash {
    /// Returns the key with this hash. `bytes` must be the bytes that were hashed.
    #[inline]
    pub fn key(self, bytes: &[u8]) -> Key<'_> {
        Key { bytes, hash: self.hash, namespace: self.namespace, piece: false }
    }
}

impl Key<'_> {
    /// Returns the hash alone, for a caller that cannot retain the bytes. Only for keys of clients.
    #[inline]
    pub fn key_hash(&self) -> KeyHash {
        debug_assert!(!self.piece, "a hidden key");
        KeyHash { hash: self.hash, namespace: self.namespace }
    }

    /// Returns the key's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the key's namespace.
    pub fn namespace(&self) -> Namespace {
        Namespace(self.namespace)
    }

    /// Returns the hash: equal keys of one namespace have equal hashes for the life of the store, and no other meaning.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }
}

/// Hashes keys with the store's seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
}

/// Sets the hidden keys of pieces apart from every namespace's own.
const PIECE_DOMAIN: u64 = 0x7069_6563_6500_0000;

impl Hasher {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: base::prng::split_mix(seed) }
    }

    #[inline(always)]
    pub(crate) fn key<'k>(&self, namespace: Namespace, bytes: &'k [u8]) -> Key<'k> {
        assert!((namespace.0 as usize) < Namespace::MAX, "namespace {} of {}", namespace.0, Namespace::MAX);
        let seed = self.seed.wrapping_add(u64::from(namespace.0) << 56);
        let hash = Hash(xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed));
        Key { bytes, hash, namespace: namespace.0, piece: false }
    }

    pub(crate) fn piece<'k>(&self, namespace: u8, bytes: &'k [u8]) -> Key<'k> {
        let seed = self.seed.wrapping_add(PIECE_DOMAIN | u64::from(namespace) << 56);
        Key { bytes, hash: Hash(xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)), namespace, piece: true }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn hash_differs_by_namespace_piece_and_seed() {
        let (a, b) = (Hasher::new(1), Hasher::new(2));
        let hashes = [
            a.key(Namespace(0), b"key").hash,
            a.key(Namespace(1), b"key").hash,
            a.piece(0, b"key").hash,
            a.piece(1, b"key").hash,
            b.key(Namespace(0), b"key").hash,
        ];
        for i in 0..hashes.len() {
            for j in 0..i {
                assert_ne!(hashes[i], hashes[j]);
            }
        }
    }
}
