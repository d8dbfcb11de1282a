//! Each line of the input as a meta command: the input is `mg`, `ms`, `md`, `ma` or `me` by its first byte, so that the
//! fuzzer spends its time on flags rather than on finding verbs.
#![no_main]

#[path = "../../crates/protocol/tests/walk/mod.rs"]
mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"m") {
        walk::assert_cut(bytes, &[bytes.len() / 2]);
    } else if let [first, rest @ ..] = bytes {
        let verb = [b"mg ", b"ms ", b"md ", b"ma ", b"me "][usize::from(first % 5)];
        let stream = [verb.as_slice(), rest, b"\r\n"].concat();
        walk::assert_cut(&stream, &[stream.len() / 2]);
    }
});
