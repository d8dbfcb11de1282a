//! A key with its hash, which is computed once for each operation.

/// A key's hash, which determines the place of the key's slot in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    /// Returns the bits that select the key's group of the index.
    #[inline(always)]
    pub(crate) fn group_hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the tag: the bits that an index slot stores.
    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 & 0xfff) as u16
    }
}

/// The namespace of a key: a number that is hashed with the key and stored in the segment's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(pub u8);

impl Namespace {
    /// The namespace of listeners whose configuration names no namespace.
    pub const DEFAULT: Self = Self(0);
    /// The maximum number of namespaces of a store.
    pub const MAX: usize = 16;
}

/// A key with its hash and namespace, as lookups need it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: Hash,
    pub(crate) namespace: u8,
    /// True if this is a hidden key, of a piece or a part.
    pub(crate) piece: bool,
}

/// The hash of a key in its namespace, without the key, for [`crate::Items::prefetch_item`].
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
    /// Returns only the hash, for a caller that cannot retain the key's bytes. Allowed only for clients' keys, not for
    /// hidden keys.
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

    /// Returns the hash. Equal keys of one namespace have equal hashes for the life of the store. The hash has no other
    /// meaning.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }
}

/// Hashes keys with the store's seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    seed: u64,
}

/// A number hashed with hidden keys, so that their hashes differ from those of clients' keys.
const PIECE_DOMAIN: u64 = 0x7069_6563_6500_0000;
/// A number hashed with keys for their salts, which differ from all hashes that clients may learn.
const SALT_DOMAIN: u64 = 0x0073_616c_7400_0000;

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

    /// Returns the salt of a key, which is not 0.
    pub(crate) fn salt(&self, key: &Key<'_>) -> u64 {
        let seed = self.seed.wrapping_add(SALT_DOMAIN | u64::from(key.namespace) << 56);
        xxhash_rust::xxh3::xxh3_64_with_seed(key.bytes, seed).max(1)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn hash_and_salt_differ_by_namespace_piece_and_seed() {
        let (a, b) = (Hasher::new(1), Hasher::new(2));
        let hashes = [
            a.key(Namespace(0), b"key").hash,
            a.key(Namespace(1), b"key").hash,
            a.piece(0, b"key").hash,
            a.piece(1, b"key").hash,
            b.key(Namespace(0), b"key").hash,
            Hash(a.salt(&a.key(Namespace(0), b"key"))),
            Hash(a.salt(&a.key(Namespace(1), b"key"))),
            Hash(a.salt(&a.key(Namespace(0), b"other"))),
            Hash(b.salt(&b.key(Namespace(0), b"key"))),
        ];
        for i in 0..hashes.len() {
            for j in 0..i {
                assert_ne!(hashes[i], hashes[j]);
            }
        }
    }
}
