//! Tests of compressed requests that expand a thousandfold, or to nothing.

use crate::flood::{Effort, Flood};
use crate::grpc_client::{SET, item};
use std::io::Write;

/// The maximum length of a message, in bytes.
const LONGEST: usize = 10 << 20;
/// The number of bytes of a compressed message that the server reads in one step, and that it writes.
const INPUT_STEP_BYTES: usize = 16 << 10;
const STEP_BYTES: usize = 32 << 10;

/// The start of a frame of zstd with a window of 128 KiB.
const ZSTD_START: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0, 0x38];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns a frame of zstd with `count` blocks of 128 KiB, each of which is stored as one byte and its count.
fn zstd_of_zeros(count: usize) -> Vec<u8> {
    let block = |at: usize| {
        let head = (128u32 << 10) << 3 | 1 << 1 | u32::from(at + 1 == count);
        [&head.to_le_bytes()[..3], &[0]].concat()
    };
    [ZSTD_START.to_vec(), (0..count).flat_map(block).collect()].concat()
}

#[test]
fn message_that_expands_beyond_the_maximum_is_refused_and_delays_no_other_client() {
    let mut flood = Flood::new();
    let zeros = vec![0; LONGEST + 1];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("deflate", deflate(&zeros)), ("zstd", zstd_of_zeros(100))] {
        assert!(bomb.len() < 20_000, "{encoding}: {} bytes are no bomb", bomb.len());
        let (answer, Effort { longest_ns, iterations }) = flood.call_encoded(SET, Some(encoding), &bomb);
        println!("{encoding}: {iterations} iterations, the longest {} us", longest_ns / 1000);
        assert!(answer.status == "8" && answer.text.contains("10 MiB"), "{encoding}: {answer:?}");
        assert!(iterations >= (LONGEST / STEP_BYTES) as u64, "{encoding}: {iterations} iterations");
        flood.assert_bystander_was_served(encoding);
        flood.assert_no_request_is_held(encoding);
    }
}

#[test]
fn long_message_that_expands_to_nothing_is_read_in_steps_that_delay_no_other_client() {
    let mut flood = Flood::new();
    let empty = gzip(b"");
    let members = empty.repeat(LONGEST / empty.len());
    let blocks = [0, 0, 0, 0xff, 0xff].repeat(LONGEST / 5 - 10);
    let stored = [&[0x78, 1][..], &blocks, &[1, 0, 0, 0xff, 0xff, 0, 0, 0, 1]].concat();
    let frames = [&ZSTD_START[..], &[1, 0, 0]].concat().repeat(LONGEST / 9);
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0].repeat(LONGEST / 8);
    for (encoding, bytes) in [("gzip", members), ("deflate", stored), ("zstd", frames), ("zstd", skipped)] {
        let (answer, Effort { longest_ns, iterations }) = flood.call_encoded(SET, Some(encoding), &bytes);
        println!("{encoding}: {iterations} iterations, the longest {} us", longest_ns / 1000);
        // The empty message names no key.
        assert_eq!(answer.status, "3", "{encoding}: {answer:?}");
        assert!(iterations >= (bytes.len() / INPUT_STEP_BYTES) as u64, "{encoding}: {iterations} iterations");
        flood.assert_bystander_was_served(encoding);
        flood.assert_no_request_is_held(encoding);
    }
}

#[test]
fn message_that_is_reset_while_it_expands_leaves_no_memory() {
    let mut flood = Flood::new();
    let bomb = gzip(&item("k", &vec![b'v'; 9 << 20])[5..]);
    for at in [1, 2, 5, 20, 100, 300] {
        flood.reset_while_executed(SET, Some("gzip"), &bomb, at);
        flood.assert_no_request_is_held("gzip");
    }
    assert_eq!(flood.call(SET, &item("k", b"v")[5..]).0.status, "0");
    flood.assert_bystander_was_served("gzip");
}
