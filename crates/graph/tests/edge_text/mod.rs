//! Reads text of any kind as edges. Used by a test and a fuzz target.

use gannet_graph::{EdgeFormat, EdgeLine, EdgeLineError, EdgeReader};

/// An edge that owns its attributes, and the position after its line.
pub type Edge = (u64, u64, Option<u64>, Vec<Option<Vec<u8>>>);
pub type Read = Vec<(Result<Edge, EdgeLineError>, u64, u64)>;

fn owned(edge: Result<EdgeLine<'_>, EdgeLineError>) -> Result<Edge, EdgeLineError> {
    edge.map(|edge| {
        let attributes = edge.attributes().map(|attribute| attribute.map(|text| text.into_owned())).collect();
        (edge.source, edge.destination, edge.time_ms, attributes)
    })
}

/// Reads text in chunks whose sizes `next` draws.
pub fn read(mut reader: EdgeReader, text: &[u8], mut next: impl FnMut() -> usize) -> Read {
    let (mut found, mut at): (Read, usize) = (Vec::new(), 0);
    while at < text.len() {
        let end = text.len().min(at + next());
        let mut input = &text[at..end];
        while let Some(edge) = reader.next(&mut input).map(owned) {
            found.push((edge, reader.position(), reader.line()));
        }
        assert!(input.is_empty());
        at = end;
    }
    if let Some(edge) = reader.finish().map(owned) {
        found.push((edge, reader.position(), reader.line()));
    }
    found
}

/// Reads text whole and in chunks whose sizes `next` draws. Asserts that both give the same, and only valid edges.
pub fn check_text(format: EdgeFormat, text: &[u8], next: impl FnMut() -> usize) -> Read {
    let whole = read(EdgeReader::new(format), text, || usize::MAX >> 1);
    assert_eq!(whole, read(EdgeReader::new(format), text, next));
    let lines = 1 + text.iter().filter(|byte| **byte == b'\n').count();
    for (edge, position, line) in &whole {
        assert!(*position <= text.len() as u64 && *line as usize <= lines);
        let Ok((source, destination, time, _)) = edge else { continue };
        assert!(source != destination && [*source, *destination].iter().all(|node| *node != 0 && *node != u64::MAX));
        assert!(time.is_none_or(|ms| ms < 1 << 48));
    }
    whole
}

/// Resumes behind the edge with index `at` of a complete read, and asserts that the rest is the same.
pub fn check_resume(format: EdgeFormat, text: &[u8], whole: &Read, at: usize) {
    let (_, position, line) = whole[at];
    let rest = read(EdgeReader::resume(format, position, line), &text[position as usize..], || 1000);
    let is_same = rest.iter().zip(&whole[at + 1..]).all(|(a, b)| a == b);
    assert!(is_same && rest.len() == whole.len() - at - 1, "resumed at byte {position}");
}
