//! Any bytes as a server's answers, cut anywhere: no panic, every promise about replies holds, and the cut changes
//! nothing. The first byte says what is expected.
#![no_main]

#[path = "../../crates/protocol/tests/reply_walk/mod.rs"]
mod reply_walk;

use gannet_protocol::memcache::client::Expect;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let [first, stream @ ..] = bytes {
        let number = first.wrapping_sub(b'a') % Expect::ALL.len() as u8;
        let expect = Expect::from_number(number).expect("a number below their count");
        // The place of the cut follows from the bytes, so that one input is one run.
        let cut = stream.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        reply_walk::assert_cut(expect, stream, &[cut % (stream.len() + 1)]);
    }
});
