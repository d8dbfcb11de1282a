//! The encoding of an item in a region.
//!
//! ```text
//!   0        4       8         12        14   15     16            24
//!  +--------+-------+---------+---------+----+------+-------------+----------+-----------+---------+-----+-------+
//!  | check  | hash  | length  | key len | ns | bits |  sequence   | [flags]  | [expire]  | [token] | key | value |
//!  |   4    |   4   |    4    |    2    | 1  |  1   |      8      |    4     |     8     |    8    |     |       |
//!  +--------+-------+---------+---------+----+------+-------------+----------+-----------+---------+-----+-------+
//!  bits: type 2 (bytes, number, typed value) | which optional fields exist: flags | expire | token
//! ```
//!
//! - `length` is that of the whole entry. The next entry begins at the next multiple of 8. All numbers are
//!   little-endian.
//! - `check` is the checksum of all bytes of the entry after `check`. Its seed is derived from the entry's position and
//!   from the region's current life.
//! - A slot stores only the 512-byte block in which an item begins. A search tries the block's 64 positions, finds the
//!   item by `hash` and verifies it by its key. So no directory is needed, small items share a block, and an item may
//!   span blocks.
//! - Two items that begin in one block always have different tags. So an address and a tag identify an item
//!   permanently. If a new item has the tag of an item in the block, a filler (namespace 255, no contents) is written
//!   first, so that the new item begins in another block.
//! - An item lies within one chunk. A length of 0 marks the end of the chunk's items.

use base::clock::UnixMillis;
use segment::{FlashAddress, RetainedItem, TierItem, TierParts};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Items begin at multiples of this number of bytes.
pub const ALIGN: usize = 8;
/// Length of an item's fixed header in bytes.
pub const HEADER_BYTES: usize = 24;
/// Maximum length of an entry in bytes. It exceeds the longest item that a store holds in one piece.
pub const ENTRY_BYTES_MAX: usize = 256 << 10;

const FLAGS: u8 = 4;
const EXPIRE: u8 = 8;
const TOKEN: u8 = 16;
/// The namespace of a filler.
const FILLER: u8 = 255;

/// The seed of an item's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// A random number for the region's current life.
    pub salt: u64,
    /// The region's number.
    pub region: u32,
}

impl Seed {
    fn at(&self, offset: usize) -> u64 {
        base::prng::split_mix(self.salt ^ base::prng::split_mix(self.region.into())).wrapping_add(offset as u64)
    }

    fn check(&self, offset: usize, entry: &[u8]) -> u32 {
        xxh3_64_with_seed(&entry[4..], self.at(offset)) as u32
    }

    /// Returns the checksum of the footer of a chunk that begins at offset `base` of its region. The seed differs from
    /// the seed of every item.
    pub(crate) fn check_footer(&self, base: usize, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, !self.at(base))
    }
}

/// Returns the 32 bits that searches compare in place of a key's hash. They mix both halves of the hash, because keys
/// with the same index bucket and tag already agree in the bits that chose those.
fn short(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// Returns the length of an item's entry in bytes, without padding.
pub fn entry_bytes(item: &TierItem<'_>) -> usize {
    HEADER_BYTES
        + if item.client_flags != 0 { 4 } else { 0 }
        + if item.expire_at.is_some() { 8 } else { 0 }
        + if item.token.is_some() { 8 } else { 0 }
        + item.key.len()
        + item.value.len()
}

/// Writes an item to the front of `into`. `offset` is the item's position in its region, in bytes.
pub fn write(item: &TierItem<'_>, seed: Seed, offset: usize, into: &mut [u8]) {
    let bytes = entry_bytes(item);
    let into = &mut into[..bytes];
    let mut bits = match item.kept {
        RetainedItem::Bytes => 0,
        RetainedItem::Number => 1,
        RetainedItem::Typed => 2,
    };
    let mut at = HEADER_BYTES;
    let mut put = |bit: u8, field: &[u8]| {
        bits |= bit;
        into[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    if item.client_flags != 0 {
        put(FLAGS, &item.client_flags.to_le_bytes());
    }
    if let Some(end) = item.expire_at {
        put(EXPIRE, &end.0.to_le_bytes());
    }
    if let Some(token) = item.token {
        put(TOKEN, &token.to_le_bytes());
    }
    put(0, item.key);
    put(0, item.value);
    debug_assert!(at == bytes, "all of it is written");
    into[4..8].copy_from_slice(&short(item.hash).to_le_bytes());
    into[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
    into[12..14].copy_from_slice(&(item.key.len() as u16).to_le_bytes());
    (into[14], into[15]) = (item.namespace, bits);
    into[16..24].copy_from_slice(&item.sequence.to_le_bytes());
    let check = seed.check(offset, into);
    into[..4].copy_from_slice(&check.to_le_bytes());
}

/// Returns the length in bytes of a filler that begins at offset `used` of its chunk. The item after the filler begins
/// in another block.
pub fn filler_bytes(used: usize) -> usize {
    let left = FlashAddress::BLOCK_BYTES - used % FlashAddress::BLOCK_BYTES;
    if left < HEADER_BYTES { left + FlashAddress::BLOCK_BYTES } else { left }
}

/// Writes a filler of `bytes` bytes to the front of `into`. `offset` is the filler's position in its region, in bytes.
pub fn write_filler(bytes: usize, seed: Seed, offset: usize, into: &mut [u8]) {
    let into = &mut into[..bytes];
    into.fill(0);
    into[8..12].copy_from_slice(&(bytes as u32).to_le_bytes());
    into[14] = FILLER;
    let check = seed.check(offset, into);
    into[..4].copy_from_slice(&check.to_le_bytes());
}

/// The result of reading a position in a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An item, and its length in bytes.
    Item(TierParts, usize),
    /// A filler, and its length in bytes.
    Filler(usize),
    /// The chunk has no further item.
    End,
    /// The bytes end within an entry. Holds the entry's length in bytes, or a header's length if even the header is
    /// incomplete.
    Longer(usize),
    /// The bytes are not as written.
    Broken,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The length of an entry and the offsets of its fields, in bytes, according to its header.
struct Shape {
    len: usize,
    flags: usize,
    expire: usize,
    token: usize,
    key: usize,
    value: usize,
}

fn shape(entry: &[u8]) -> Shape {
    let (len, key_len) = (u32_at(entry, 8) as usize, usize::from(u16::from_le_bytes([entry[12], entry[13]])));
    let field = |bit: u8, bytes: usize| if entry[15] & bit != 0 { bytes } else { 0 };
    let flags = HEADER_BYTES;
    let expire = flags + field(FLAGS, 4);
    let token = expire + field(EXPIRE, 8);
    let key = token + field(TOKEN, 8);
    Shape { len, flags, expire, token, key, value: key + key_len }
}

/// Reads the entry at offset `at` of `bytes`. `base` is the offset in the region at which `bytes` begin.
pub fn read(bytes: &[u8], base: usize, at: usize, seed: Seed) -> Entry {
    let Some(entry) = bytes.get(at..).filter(|rest| rest.len() >= HEADER_BYTES) else {
        return Entry::Longer(HEADER_BYTES);
    };
    let Shape { len, flags, expire, token, key, value } = shape(entry);
    if len == 0 {
        return Entry::End;
    }
    let bits = entry[15];
    if value > len || len > ENTRY_BYTES_MAX || bits > 31 || bits & 3 == 3 {
        return Entry::Broken;
    }
    let Some(entry) = entry.get(..len) else { return Entry::Longer(len) };
    if u32_at(entry, 0) != seed.check(base + at, entry) {
        return Entry::Broken;
    }
    if entry[14] == FILLER {
        return Entry::Filler(len);
    }
    let parts = TierParts {
        namespace: entry[14],
        key: at + key..at + value,
        value: at + value..at + len,
        kept: match bits & 3 {
            0 => RetainedItem::Bytes,
            1 => RetainedItem::Number,
            _ => RetainedItem::Typed,
        },
        client_flags: if bits & FLAGS != 0 { u32_at(entry, flags) } else { 0 },
        expire_at: (bits & EXPIRE != 0).then(|| UnixMillis(u64_at(entry, expire))),
        token: (bits & TOKEN != 0).then(|| u64_at(entry, token)),
        sequence: u64_at(entry, 16),
    };
    Entry::Item(parts, len)
}

/// The result of a search for a hash in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// An item with this hash and a valid checksum.
    Item(TierParts),
    /// The search needs more bytes: this number in total.
    More(usize),
    /// The block has items, but none with this hash.
    Other,
    /// The bytes are not as written.
    Broken,
}

/// Searches for an item with this hash among those that begin in the first block of `bytes`. `base` is the offset in
/// the region at which `bytes` begin.
pub fn search(bytes: &[u8], base: usize, hash: u64, seed: Seed) -> Search {
    search_at(bytes, base, |at| if u32_at(bytes, at + 4) == short(hash) { Is::It } else { Is::Another }, seed)
}

/// Searches the first block of `bytes` for an item by its key. `hash` returns the hash of a namespace and key, or
/// `None` if that key is not wanted.
pub fn search_keys(bytes: &[u8], base: usize, hash: impl Fn(u8, &[u8]) -> Option<u64>, seed: Seed) -> Search {
    let is_it = |at: usize| {
        let entry = &bytes[at..];
        let Shape { len, key, value, .. } = shape(entry);
        match entry.get(key..value) {
            _ if value > len => Is::Another,
            None => Is::Cut,
            Some(key) if hash(entry[14], key).is_some_and(|hash| u32_at(entry, 4) == short(hash)) => Is::It,
            Some(_) => Is::Another,
        }
    };
    search_at(bytes, base, is_it, seed)
}

/// Returns the positions in the first block of `bytes` where items can begin.
fn places(bytes: &[u8]) -> impl Iterator<Item = usize> + use<> {
    (0..FlashAddress::BLOCK_BYTES.min(bytes.len().saturating_sub(HEADER_BYTES - 1))).step_by(ALIGN)
}

/// The provisional result at a position, before the checksum of the item there is verified.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    It,
    /// The bytes end within the key, so the item may be the wanted one.
    Cut,
    Another,
}

fn search_at(bytes: &[u8], base: usize, is: impl Fn(usize) -> Is, seed: Seed) -> Search {
    let (mut more, mut cut, mut seems) = (None, None, false);
    for at in places(bytes) {
        let is = is(at);
        if is == Is::Another {
            continue;
        }
        match read(bytes, base, at, seed) {
            Entry::Item(parts, _) => return Search::Item(parts),
            Entry::Longer(len) if is == Is::Cut => cut = cut.max(Some(at + len)),
            Entry::Longer(len) => more = Some(at + len),
            Entry::End | Entry::Filler(_) => {}
            Entry::Broken => seems |= is == Is::It,
        }
    }
    if let Some(more) = more.or(cut) {
        return Search::More(more);
    }
    // If the caller followed another key's slot, the block holds that key's item, which may be longer than the bytes
    // read.
    let plausible = |at| matches!(read(bytes, base, at, seed), Entry::Item(..) | Entry::Longer(_) | Entry::Filler(_));
    if !seems && places(bytes).any(plausible) { Search::Other } else { Search::Broken }
}

/// Returns `bytes` rounded up to the next multiple of [`ALIGN`], at which another item can begin.
pub fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed { salt: 7, region: 3 };

    fn item<'i>(hash: u64, key: &'i [u8], value: &'i [u8]) -> TierItem<'i> {
        TierItem {
            hash,
            namespace: 5,
            key,
            kept: RetainedItem::Bytes,
            value,
            client_flags: 0,
            expire_at: None,
            token: None,
            sequence: 0x0102_0304_0506,
            class: 0,
            is_read: false,
        }
    }

    #[test]
    fn every_item_shape_survives_encoding_and_decoding() {
        let mut shapes = 0;
        for kept in [RetainedItem::Bytes, RetainedItem::Number, RetainedItem::Typed] {
            for fields in 0..8u8 {
                let flags = if fields & 1 != 0 { 0xdead_beef } else { 0 };
                let expire_at = (fields & 2 != 0).then_some(UnixMillis(1_700_000_000_123));
                let token = (fields & 4 != 0).then_some(u64::MAX - 1);
                let was = TierItem { kept, client_flags: flags, expire_at, token, ..item(99, b"a key", b"12345678") };
                let mut bytes = vec![0xff; 200];
                write(&was, SEED, 512, &mut bytes[64..]);
                let Entry::Item(parts, len) = read(&bytes, 448, 64, SEED) else { panic!("{was:?}") };
                assert_eq!((len, parts.namespace, parts.kept), (entry_bytes(&was), 5, kept));
                assert_eq!((&bytes[parts.key], &bytes[parts.value]), (&b"a key"[..], &b"12345678"[..]));
                assert_eq!((parts.client_flags, parts.expire_at, parts.token), (flags, expire_at, token));
                assert_eq!(parts.sequence, was.sequence);
                shapes += 1;
            }
        }
        assert_eq!(shapes, 24);
    }

    #[test]
    fn no_changed_byte_and_no_other_place_or_life_passes() {
        let was = item(1, b"key", b"a value of some length");
        let mut bytes = vec![0; 64];
        write(&was, SEED, 0, &mut bytes);
        let len = entry_bytes(&was);
        assert!(matches!(read(&bytes, 0, 0, SEED), Entry::Item(..)));
        for seed in [Seed { salt: 8, ..SEED }, Seed { region: 4, ..SEED }] {
            assert_eq!(read(&bytes, 0, 0, seed), Entry::Broken, "{seed:?}");
        }
        assert_eq!(read(&bytes, 8, 0, SEED), Entry::Broken, "another place");
        for at in 0..len {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(!matches!(read(&bytes, 0, 0, SEED), Entry::Item(..)), "byte {at} bit {bit}");
                bytes[at] ^= 1 << bit;
            }
        }
    }

    #[test]
    fn search_finds_an_item_and_distinguishes_damage_from_another_key() {
        let values: Vec<Vec<u8>> = (0..6u8).map(|i| vec![i; 40 + usize::from(i)]).collect();
        let mut bytes = vec![0; 1024];
        let mut at = 24;
        for (i, value) in values.iter().enumerate() {
            write(&item(i as u64, b"k", value), SEED, 1024 + at, &mut bytes[at..]);
            at += padded(entry_bytes(&item(0, b"k", value)));
        }
        assert!(at < 512, "all begin in one block");
        for (i, value) in values.iter().enumerate() {
            let Search::Item(parts) = search(&bytes, 1024, i as u64, SEED) else { panic!("{i}") };
            assert_eq!(&bytes[parts.value], &value[..]);
        }
        assert_eq!(search(&bytes, 1024, 77, SEED), Search::Other);
        let Search::Item(parts) = search(&bytes, 1024, 2, SEED) else { panic!() };
        bytes[parts.value.start] ^= 1;
        assert_eq!(search(&bytes, 1024, 2, SEED), Search::Broken, "its own bytes are damaged");
        assert_eq!(search(&[0; 1024], 1024, 2, SEED), Search::Broken, "nothing was written");
    }

    #[test]
    fn filler_ends_at_a_block_boundary_and_is_not_an_item() {
        for used in (8..512).step_by(8) {
            let mut bytes = vec![0xff; 2048];
            let filler = filler_bytes(512 + used);
            assert!(filler >= HEADER_BYTES && (used + filler).is_multiple_of(512) && used + filler <= 1024);
            write_filler(filler, SEED, 512 + used, &mut bytes[used..]);
            assert_eq!(read(&bytes, 512, used, SEED), Entry::Filler(filler));
            assert_eq!(search(&bytes, 512, 5, SEED), Search::Other);
        }
    }

    #[test]
    fn item_is_found_by_the_key_hash_in_its_slot() {
        let mut bytes = vec![0xff; 512];
        let mut at = 8;
        for (hash, key) in [(1, &b"one"[..]), (2, b"two"), (3, b"three")] {
            let was = item(hash, key, b"value");
            write(&was, SEED, at, &mut bytes[at..]);
            at += padded(entry_bytes(&was));
        }
        let by = |wanted: &'static [u8], hash: u64| {
            move |namespace: u8, key: &[u8]| (namespace == 5 && key == wanted).then_some(hash)
        };
        let Search::Item(parts) = search_keys(&bytes, 0, by(b"two", 2), SEED) else { panic!() };
        assert_eq!(&bytes[parts.key.clone()], b"two");
        assert_eq!(search_keys(&bytes, 0, by(b"two", 9), SEED), Search::Other, "its hash is another");
        assert_eq!(search_keys(&bytes, 0, by(b"four", 4), SEED), Search::Other);
        bytes[parts.value.start] ^= 1;
        assert_eq!(search_keys(&bytes, 0, by(b"two", 2), SEED), Search::Broken);
        let (key, value) = ([b'k'; 300], [9; 100]);
        let was = item(4, &key, &value);
        let mut bytes = vec![0; 512];
        write(&was, SEED, 0, &mut bytes);
        let fits = |_: u8, bytes: &[u8]| (bytes == key).then_some(4);
        assert_eq!(search_keys(&bytes[..256], 0, fits, SEED), Search::More(entry_bytes(&was)), "its key is cut off");
        assert!(matches!(search_keys(&bytes, 0, fits, SEED), Search::Item(_)));
    }

    #[test]
    fn partially_read_item_reports_its_full_length() {
        let value = vec![9; 3000];
        let was = item(4, b"long", &value);
        let mut bytes = vec![0; 4096];
        write(&was, SEED, 0, &mut bytes);
        assert_eq!(search(&bytes[..1024], 0, 4, SEED), Search::More(entry_bytes(&was)));
        assert_eq!(search(&bytes[..1024], 0, 5, SEED), Search::Other, "it is another key's");
        assert!(matches!(search(&bytes, 0, 4, SEED), Search::Item(_)));
    }
}
