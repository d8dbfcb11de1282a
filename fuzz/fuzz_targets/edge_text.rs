//! Any bytes as a file of edges, in chunks of any size: no panic, the chunks change no edge, and reading goes on from
//! every line.
#![no_main]

#[path = "../../crates/graph/tests/edge_text/mod.rs"]
mod edge_text;

use gannet_graph::EdgeFormat;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else { return };
    let format = if first & 1 == 0 { EdgeFormat::Csv } else { EdgeFormat::List };
    let whole = edge_text::check_text(format, text, || 1 + usize::from(first >> 1));
    if !whole.is_empty() {
        edge_text::check_resume(format, text, &whole, usize::from(first >> 1) % whole.len());
    }
});
