//! The store itself, driven by one thread: accesses, and a slice of background work between them.

use base::clock::UnixMillis;
use segment::{Background, Expire, Lane, Namespace, OpError, Put, Store, StoreConfig};

use super::Access;

/// A store of less has so few segments that its policy is not what is measured.
pub const MEMORY_MIN_BYTES: u64 = 5 << 20;
/// Where the clock begins.
const START: UnixMillis = UnixMillis(1_700_000_000_000);
/// Keys have so many bytes.
const KEY_BYTES: usize = 16;
/// An index slot at its load, header and padding, in bytes: the fill test of the store measures them.
const OVERHEAD_BYTES: u64 = 15;
/// An expiry, in bytes.
const EXPIRY_BYTES: u64 = 4;
/// Accesses between two slices.
const SLICE_EVERY: usize = 32;

/// What an access's item costs, in bytes.
pub fn cost_bytes(access: &Access) -> u64 {
    let expiry = if access.ttl_ms > 0 { EXPIRY_BYTES } else { 0 };
    u64::from(access.value_bytes) + KEY_BYTES as u64 + OVERHEAD_BYTES + expiry
}

/// How many of the accesses miss in a store of `memory_bytes`.
///
/// # Errors
/// When a store of that memory cannot be made.
pub fn misses(accesses: &[Access], memory_bytes: u64, small_percent: Option<u8>) -> Result<u64, String> {
    let config = StoreConfig {
        memory_bytes,
        memory_bytes_max: 0,
        segment_bytes: None,
        item_bytes_max: 64 << 10,
        lanes_max: 1,
        hash_seed: 1,
        huge_pages: false,
    };
    let (store, mut background) = Store::new(&config, START).map_err(|error| error.to_string())?;
    if let Some(percent) = small_percent {
        background.hold_small_percent(percent);
    }
    let mut lane = store.lane().map_err(|error| error.to_string())?;
    let value = vec![0; 64 << 10];
    let mut misses = 0;
    for (number, access) in accesses.iter().enumerate() {
        let now = START.plus_ms(access.at_ms);
        if !hit(&mut lane, access, now) {
            misses += 1;
            store_one(&mut lane, &mut background, access, now, &value[..access.value_bytes as usize])?;
        }
        if number % SLICE_EVERY == 0 {
            slice(&mut background, now);
        }
    }
    Ok(misses)
}

fn key_text(access: &Access) -> [u8; KEY_BYTES] {
    let mut text = [b'0'; KEY_BYTES];
    for (nibble, byte) in text.iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(access.key >> (nibble * 4)) as usize & 15];
    }
    text
}

fn hit(lane: &mut Lane, access: &Access, now: UnixMillis) -> bool {
    let turn = lane.turn(now);
    let text = key_text(access);
    let key = turn.key(Namespace::DEFAULT, &text);
    turn.get(&key).is_some()
}

fn store_one(
    lane: &mut Lane,
    background: &mut Background,
    access: &Access,
    now: UnixMillis,
    value: &[u8],
) -> Result<(), String> {
    let expire = if access.ttl_ms > 0 { Expire::At(now.plus_ms(access.ttl_ms)) } else { Expire::Never };
    loop {
        let mut turn = lane.turn(now);
        let text = key_text(access);
        let key = turn.key(Namespace::DEFAULT, &text);
        match turn.put(&key, &Put { expire, ..Put::set(value) }) {
            Ok(_) => return Ok(()),
            Err(OpError::Parked) => {}
            Err(error) => return Err(error.to_string()),
        }
        drop(turn);
        slice(background, now);
    }
}

fn slice(background: &mut Background, now: UnixMillis) {
    let mut asked = 0;
    background.slice(now, &mut || {
        asked += 1;
        asked > 4
    });
}
