//! Replays every transcript of docs/protocol/memcache.md against a server.

use crate::common::{Client, config, start, tcp};
use std::io::Read;

/// A block of the page: the sent lines and the expected lines, in order.
struct Transcript {
    line: usize,
    steps: Vec<Step>,
}

enum Step {
    Send(usize, String),
    Expect(usize, String),
}

fn transcripts(text: &str) -> Vec<Transcript> {
    let mut found = Vec::new();
    let mut open: Option<Transcript> = None;
    for (number, line) in text.lines().enumerate() {
        match &mut open {
            None if line == "```memcache" => open = Some(Transcript { line: number + 1, steps: Vec::new() }),
            None => {}
            Some(_) if line == "```" => found.extend(open.take()),
            Some(block) => {
                let step =
                    step(line).unwrap_or_else(|| panic!("line {}: neither sent nor expected: {line:?}", number + 1));
                block.steps.push(step);
            }
        }
    }
    assert!(open.is_none(), "a transcript has no end");
    found
}

/// Parses `> sent` or `< expected`. A leading `2` selects a second connection.
fn step(line: &str) -> Option<Step> {
    let (connection, line) = line.strip_prefix('2').map_or((0, line), |line| (1, line));
    let (mark, text) = line.split_at_checked(1)?;
    let text = text.strip_prefix(' ').unwrap_or(text).to_owned();
    match mark {
        ">" => Some(Step::Send(connection, text)),
        "<" => Some(Step::Expect(connection, text)),
        _ => None,
    }
}

/// Returns true if `line` matches `pattern`, in which `{n}` stands for one or more digits.
fn matches(pattern: &str, line: &str) -> bool {
    let Some((before, after)) = pattern.split_once("{n}") else { return pattern == line };
    let Some(rest) = line.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && matches(after, &rest[digits..])
}

fn read_line(client: &mut Client) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        if client.stream.read(&mut byte).expect("an answer in time") == 0 {
            assert!(line.is_empty(), "half a line");
            return None;
        }
        line.push(byte[0]);
    }
    // Watchers' lines end in a lone line feed.
    let text = line.strip_suffix(b"\n").map(|text| text.strip_suffix(b"\r").unwrap_or(text)).expect("a whole line");
    Some(String::from_utf8(text.to_vec()).expect("text"))
}

#[test]
fn transcripts_of_the_protocol_document_match_the_server() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol/memcache.md");
    let text = std::fs::read_to_string(path).expect("the document is in the repository");
    let running = start(config());
    let (mut played, mut expected) = (0, 0);
    for transcript in transcripts(&text) {
        let mut clients = [Client::connect(tcp(&running)), Client::connect(tcp(&running))];
        for step in &transcript.steps {
            match step {
                Step::Send(at, line) => clients[*at].send(format!("{line}\r\n").as_bytes()),
                Step::Expect(at, pattern) => {
                    let line = read_line(&mut clients[*at]).unwrap_or("(closed)".to_owned());
                    assert!(matches(pattern, &line), "block at line {}: {line:?} is not {pattern:?}", transcript.line);
                    expected += 1;
                }
            }
        }
        // Nothing more comes than what is written.
        if !matches!(transcript.steps.last(), Some(Step::Expect(_, last)) if last == "(closed)") {
            clients[0].send(b"mn\r\n");
            assert_eq!(read_line(&mut clients[0]).as_deref(), Some("MN"), "block at line {}", transcript.line);
        }
        played += 1;
    }
    assert!(played >= 12 && expected >= 120, "{played} transcripts and {expected} lines");
    running.stop();
}

#[test]
fn a_pattern_matches_numbers_and_nothing_else() {
    assert!(matches("c{n} x", "c123 x") && matches("{n}.{n}", "0.1") && matches("END", "END"));
    assert!(!matches("c{n}", "c") && !matches("c{n}", "cx") && !matches("c{n}", "c1 ") && !matches("END", "EN"));
}
