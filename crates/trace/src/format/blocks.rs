//! The bytes of a recorded trace: a header, blocks of entries with a checksum each, and an end. `docs/load/traces.md`
//! documents the format.
//!
//! ```text
//!   header 32    | "GNTTRACE" 8 | version 2 | bytes 2 | flags 4 | began, unix us 8 | check 8 |
//!   block  32+n  | "GTB1" 4 | kind 4 | payload bytes n 4 | entries 4 | base, us 8 | check 8 | payload n |
//!   entry        | bits 1 | us since the last, varint | key hash 8 | key, value bytes, TTL s, connection: varints |
//!   bits         | joined 1 | outcome 2 | verb 5 |
//!   end          a block of kind 2; its payload is the five counts of the summary, 8 bytes each
//! ```
//!
//! All numbers are little-endian; a varint has seven bits per byte, the lowest first. Checksums are XXH3-64. The
//! header's covers its first 24 bytes. A payload's uses the checksum of the first 24 bytes of its block as the seed.
//!
//! Invariants: no I/O. A block never has more than [`PAYLOAD_BYTES_MAX`] bytes. A truncated trace is a prefix of whole
//! blocks, followed by at most a partial one.

use super::TraceEntry;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The first bytes of a recorded trace.
pub const MAGIC: &[u8; 8] = b"GNTTRACE";
/// The version of the format; readers accept only this one.
pub const VERSION: u16 = 1;
/// The length of the header, in bytes.
pub const HEADER_BYTES: usize = 32;
/// The length of the header of a block, which precedes the payload, in bytes.
pub const BLOCK_HEAD_BYTES: usize = 32;
/// The maximum payload of a block, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// The maximum length of an encoded entry, in bytes: the bits, the hash, and five varints.
const ENTRY_BYTES_MAX: usize = 1 + 8 + 10 + 4 * 5;

const BLOCK_MAGIC: &[u8; 4] = b"GTB1";
const KIND_ENTRIES: u32 = 1;
const KIND_END: u32 = 2;
/// The header's flag bit that is set if the user chose the secret of the key hashes. Other traces may then have the
/// same secret.
const CHOSEN_SECRET: u32 = 1;
const CHECKED: usize = 24;
pub(super) const SUMMARY_BYTES: usize = 40;

/// The facts about a trace that precede its entries in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The time at which the trace began, in microseconds since 1970.
    pub began_unix_us: u64,
    /// True if the user chose the secret of the key hashes. Keys of traces with the same secret can be matched.
    pub chosen_secret: bool,
}

/// The counts of a trace that follow its entries in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of entries that were written.
    pub entries: u64,
    /// The number of entries that were dropped because the file could not be written fast enough.
    pub lost: u64,
    /// The number of requests without an entry: commands without a key, and commands that no verb of a trace
    /// represents.
    pub other_requests: u64,
    /// The number of connections that were recorded.
    pub connections: u64,
    /// The number of connections whose requests or replies could not be followed to their end.
    pub unfollowed: u64,
}

impl Header {
    /// Returns the encoded header.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
        let flags = if self.chosen_secret { CHOSEN_SECRET } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.began_unix_us.to_le_bytes());
        let check = xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// Returns the reason in words if the header has another version or is damaged.
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Self, String> {
        debug_assert!(bytes.starts_with(MAGIC), "the caller has checked the first bytes of the header");
        let version = u16::from_le_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Err(format!("the trace has version {version}; this program reads {VERSION}"));
        }
        if word(bytes, CHECKED) != xxh3_64(&bytes[..CHECKED]) {
            return Err("the header's checksum is wrong".to_owned());
        }
        let flags = half(bytes, 12);
        Ok(Self { began_unix_us: word(bytes, 16), chosen_secret: flags & CHOSEN_SECRET != 0 })
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Entries that are being collected into blocks.
#[derive(Debug)]
pub struct Blocks {
    payload: Vec<u8>,
    entries: u32,
    base_us: u64,
    last_us: u64,
}

impl Default for Blocks {
    fn default() -> Self {
        Self { payload: Vec::with_capacity(PAYLOAD_BYTES_MAX), entries: 0, base_us: 0, last_us: 0 }
    }
}

impl Blocks {
    /// Adds an entry. If its instant is before that of the previous entry, the previous instant is used. Returns the
    /// previous block if the entry did not fit into it.
    pub fn push(&mut self, entry: &TraceEntry) -> Option<Vec<u8>> {
        let full = self.payload.len() + ENTRY_BYTES_MAX > PAYLOAD_BYTES_MAX;
        let block = if full { self.take() } else { None };
        let at_us = entry.at_us.max(self.last_us);
        if self.entries == 0 {
            (self.base_us, self.last_us) = (at_us, at_us);
        }
        let bits = entry.verb as u8 | (entry.outcome as u8) << 5 | u8::from(entry.joined) << 7;
        self.payload.push(bits);
        put_varint(&mut self.payload, at_us - self.last_us);
        self.payload.extend_from_slice(&entry.key.to_le_bytes());
        for number in [entry.key_bytes, entry.value_bytes, entry.ttl_s, entry.connection] {
            put_varint(&mut self.payload, number.into());
        }
        self.last_us = at_us;
        self.entries += 1;
        debug_assert!(self.payload.len() <= PAYLOAD_BYTES_MAX);
        block
    }

    /// Returns the block of the entries since the last block; `None` if there are no such entries.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        if self.entries == 0 {
            return None;
        }
        let block = framed(KIND_ENTRIES, self.entries, self.base_us, &self.payload);
        self.payload.clear();
        self.entries = 0;
        Some(block)
    }

    /// Returns the end of the trace. The caller must have taken the last block by [`Blocks::take`].
    pub fn end(&self, summary: &Summary) -> Vec<u8> {
        debug_assert_eq!(self.entries, 0, "the last block has not been taken");
        let counts = [summary.entries, summary.lost, summary.other_requests, summary.connections, summary.unfollowed];
        let payload: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        framed(KIND_END, 0, self.last_us, &payload)
    }
}

fn framed(kind: u32, entries: u32, base_us: u64, payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_HEAD_BYTES + payload.len());
    block.extend_from_slice(BLOCK_MAGIC);
    for number in [kind, payload.len() as u32, entries] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&base_us.to_le_bytes());
    let check = xxh3_64_with_seed(payload, xxh3_64(&block[..CHECKED]));
    block.extend_from_slice(&check.to_le_bytes());
    block.extend_from_slice(payload);
    block
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(first & 0x7F);
        if low << shift >> shift != low {
            return None;
        }
        number |= low << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The header of a block, before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    kind: u32,
    /// The length of the payload in bytes, at most [`PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    entries: u32,
    base_us: u64,
    seed: u64,
    check: u64,
}

/// The decoded payload of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Entries, in order.
    Entries(Vec<TraceEntry>),
    /// The end of the trace.
    End(Summary),
}

impl BlockHead {
    /// Decodes the header of a block.
    ///
    /// # Errors
    /// Returns the reason in words if `bytes` is not the header of a block.
    pub fn read(bytes: &[u8; BLOCK_HEAD_BYTES]) -> Result<Self, String> {
        if !bytes.starts_with(BLOCK_MAGIC) {
            return Err("the block does not begin with GTB1".to_owned());
        }
        let (kind, payload_bytes, entries) = (half(bytes, 4), half(bytes, 8) as usize, half(bytes, 12));
        let fits = match kind {
            KIND_ENTRIES => payload_bytes <= PAYLOAD_BYTES_MAX && entries as usize <= payload_bytes,
            KIND_END => payload_bytes == SUMMARY_BYTES && entries == 0,
            _ => false,
        };
        if !fits {
            return Err("the header of the block is damaged".to_owned());
        }
        let (base_us, check) = (word(bytes, 16), word(bytes, CHECKED));
        Ok(Self { kind, payload_bytes, entries, base_us, seed: xxh3_64(&bytes[..CHECKED]), check })
    }

    /// Decodes the payload of the block.
    ///
    /// # Errors
    /// Returns the reason in words if the payload is damaged.
    ///
    /// # Panics
    /// If `bytes` does not have the length in the header.
    pub fn payload(&self, bytes: &[u8]) -> Result<Payload, String> {
        assert_eq!(bytes.len(), self.payload_bytes, "the payload is complete");
        if xxh3_64_with_seed(bytes, self.seed) != self.check {
            return Err("the block's checksum is wrong".to_owned());
        }
        if self.kind == KIND_END {
            let [entries, lost, other_requests, connections, unfollowed] = [0, 8, 16, 24, 32].map(|at| word(bytes, at));
            return Ok(Payload::End(Summary { entries, lost, other_requests, connections, unfollowed }));
        }
        let (mut rest, mut at_us) = (bytes, self.base_us);
        let mut entries = Vec::with_capacity(self.entries as usize);
        for number in 0..self.entries {
            let read = entry(&mut rest, &mut at_us);
            entries.push(read.ok_or_else(|| format!("cannot decode entry {} of the block", number + 1))?);
        }
        if rest.is_empty() {
            Ok(Payload::Entries(entries))
        } else {
            Err("the block has bytes after its last entry".into())
        }
    }
}

fn entry(rest: &mut &[u8], at_us: &mut u64) -> Option<TraceEntry> {
    let (bits, behind) = rest.split_first()?;
    *rest = behind;
    *at_us = at_us.checked_add(varint(rest)?)?;
    let (key, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    let mut number = || varint(rest).and_then(|number| u32::try_from(number).ok());
    Some(TraceEntry {
        at_us: *at_us,
        key: u64::from_le_bytes(*key),
        key_bytes: number()?,
        value_bytes: number()?,
        ttl_s: number()?,
        connection: number()?,
        verb: super::Verb::from_number(bits & 31)?,
        outcome: super::RequestOutcome::from_number(bits >> 5),
        joined: bits & 0x80 != 0,
    })
}
