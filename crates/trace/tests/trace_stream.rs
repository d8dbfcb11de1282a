//! Reads arbitrary bytes as traces: every seed of the fuzz target, and random mutations of each seed.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod trace_walk;

use gannet_trace::TraceFormat;

#[test]
fn seeds_and_random_mutations_satisfy_the_trace_invariants() {
    let mut prng = corpus::prng("gannet-load", "trace_stream");
    let seeds = corpus::bytes("trace");
    let mut entries = [0; 3];
    for bytes in &seeds {
        trace_walk::assert_all_forms(bytes);
        for (count, form) in
            entries.iter_mut().zip([TraceFormat::Recorded, TraceFormat::Twitter, TraceFormat::OracleGeneral])
        {
            *count += trace_walk::read(bytes, Some(form)).0.len();
        }
        for _ in 0..60 {
            let mut changed = bytes.clone();
            corpus::change(&mut prng, &mut changed);
            trace_walk::assert_all_forms(&changed);
        }
    }
    assert!(seeds.len() >= 6 && entries.iter().all(|count| *count >= 3), "{} seeds, {entries:?}", seeds.len());
}

#[test]
fn a_block_that_promises_more_than_it_has_is_damaged() {
    // One entry: a get at instant 0, for a key of 3 bytes.
    let entry = [&[0u8, 0][..], &[1; 8], &[3, 0, 0, 1]].concat();
    assert_eq!(trace_walk::read(&trace_walk::framed(&entry, 1), None).0.len(), 1);
    for (payload, entries) in [(entry.as_slice(), 2), (&entry[..12], 1), (&[entry.as_slice(), &[0]].concat(), 1)] {
        let (got, whole) = trace_walk::read(&trace_walk::framed(payload, entries), None);
        assert!(got.is_empty() && !whole, "{entries} entries in {} bytes", payload.len());
    }
    // An unknown verb, a varint without an end, and a varint of more than 32 bits.
    let endless = [&[0u8][..], &[0xFF; 14]].concat();
    let long = [&[0u8, 0][..], &[1; 8], &[0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0, 0, 0]].concat();
    for payload in [&[&[31u8][..], &entry[1..]].concat(), &endless, &long] {
        assert_eq!(trace_walk::read(&trace_walk::framed(payload, 1), None), (Vec::new(), false));
    }
}
