//! Files of edges: their forms, their errors, chunks of any size and bytes of any kind. `GRAPH_SEED=N` repeats a run.
#![cfg(not(shuttle))]

mod edge_text;

use base::prng::Prng;
use edge_text::{Edge, check_resume, check_text, read};
use gannet_graph::limits::LINE_BYTES_MAX;
use gannet_graph::{EdgeFormat, EdgeLineCause, EdgeLineError, EdgeReader};

fn edges(format: EdgeFormat, text: &[u8]) -> Vec<Result<Edge, (u64, EdgeLineCause)>> {
    let found = read(EdgeReader::new(format), text, || usize::MAX >> 1);
    found.into_iter().map(|(edge, ..)| edge.map_err(|error| (error.line, error.cause))).collect()
}

fn plain(source: u64, destination: u64, time: Option<u64>) -> Result<Edge, (u64, EdgeLineCause)> {
    Ok((source, destination, time, Vec::new()))
}

#[test]
fn csv_of_every_form_is_read() {
    let text = b"\xEF\xBB\xBFsource,destination,time\n1,2\n3,4,5\r\n\n 6 , 7 ,\n\
        \"8\",\"9\",10,a,\"b,\"\"c\"\"\",\n11,12,,x\n15,16,,\"\",,\"\"\n13,14";
    let with = |source, destination, time, attributes: &[Option<&[u8]>]| {
        Ok((source, destination, time, attributes.iter().map(|text| text.map(<[u8]>::to_vec)).collect::<Vec<_>>()))
    };
    let expected = [
        plain(1, 2, None),
        plain(3, 4, Some(5)),
        plain(6, 7, None),
        with(8, 9, Some(10), &[Some(b"a"), Some(b"b,\"c\""), None]),
        with(11, 12, None, &[Some(b"x")]),
        with(15, 16, None, &[Some(b""), None, Some(b"")]),
        plain(13, 14, None),
    ];
    assert_eq!(edges(EdgeFormat::Csv, text), expected);
    assert_eq!(edges(EdgeFormat::Csv, b"18446744073709551614,1\n"), [plain(u64::MAX - 1, 1, None)]);
}

#[test]
fn edge_list_of_every_form_is_read() {
    let text = b"# Nodes: 4\n% another\n1 2\n3\t4 \n  5   6\t7\n\n8 9\r\n";
    let expected = [plain(1, 2, None), plain(3, 4, None), plain(5, 6, Some(7)), plain(8, 9, None)];
    assert_eq!(edges(EdgeFormat::List, text), expected);
}

#[test]
fn bad_line_is_an_error_with_its_number_and_cause_and_the_next_line_is_read() {
    use EdgeLineCause::*;
    let not = |name, text: &str| NotANumber(name, text.to_owned());
    let long = "7".repeat(LINE_BYTES_MAX + 1);
    let lines: [(&str, EdgeLineCause); 16] = [
        ("1", NoDestination),
        ("1,", not("destination", "")),
        (",2", not("source", "")),
        ("x1,2", not("source", "x1")),
        ("1,-2", not("destination", "-2")),
        ("1,2,soon", not("time", "soon")),
        ("1,2\u{fe},5", not("destination", "2\\xc3\\xbe")),
        ("0,2", ReservedNode(0)),
        ("2,0,3", ReservedNode(0)),
        ("18446744073709551615,2", ReservedNode(u64::MAX)),
        ("18446744073709551616,2", not("source", "18446744073709551616")),
        ("5,5", SelfEdge(5)),
        ("5,6,281474976710656", TimeOutOfRange(1 << 48)),
        ("5,6,7,\"a", BadQuote),
        ("\"5\"x,6", BadQuote),
        (&long, TooLong),
    ];
    let mut text = b"1,2\n".to_vec();
    for (line, _) in &lines {
        text.extend(format!("{line}\n3,4\n").bytes());
    }
    let mut expected = vec![plain(1, 2, None)];
    for (number, (_, cause)) in lines.iter().enumerate() {
        expected.extend([Err((number as u64 * 2 + 2, cause.clone())), plain(3, 4, None)]);
    }
    assert_eq!(edges(EdgeFormat::Csv, &text), expected);
    assert_eq!(edges(EdgeFormat::List, b"1 2 3 4\n"), [Err((1, TooManyFields))]);
    let message = EdgeLineError { line: 7, cause: not("source", "x1") }.to_string();
    assert_eq!(message, "cannot read line 7: the source 'x1' is not a number; correct it");
}

/// Draws text that resembles a file of edges, or only bytes.
fn draw_text(prng: &mut Prng) -> Vec<u8> {
    let pieces: [&[u8]; 16] = [
        b"1",
        b"23",
        b",",
        b",",
        b" ",
        b"\n",
        b"\n",
        b"\r\n",
        b"\"",
        b"#",
        b"%",
        b"\t",
        b"x",
        b"\xff",
        b"0",
        b"18446744073709551615",
    ];
    let mut text = Vec::new();
    for _ in 0..prng.below(400) {
        match prng.below(12) {
            0 => text.push(prng.below(256) as u8),
            1 => text.extend(format!("{},{}\n", prng.below(30), prng.below(30)).bytes()),
            2 => text.extend(format!("{} {}\n", prng.below(30), prng.next_u64()).bytes()),
            3 if prng.chance(1, 40) => text.extend(vec![b'7'; prng.below(2 * LINE_BYTES_MAX as u64) as usize]),
            _ => text.extend(pieces[prng.below(16) as usize]),
        }
    }
    text
}

#[test]
fn bytes_of_any_kind_in_chunks_of_any_size_give_the_same_edges_and_positions() {
    let seed = std::env::var("GRAPH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("repeat with GRAPH_SEED={seed}");
    let mut prng = Prng::new(seed);
    let (mut read_edges, mut errors, mut resumed) = (0, 0, 0);
    for round in 0..4000 {
        let text = draw_text(&mut prng);
        let format = if round % 2 == 0 { EdgeFormat::Csv } else { EdgeFormat::List };
        let most = 1 + prng.below(40);
        let whole = check_text(format, &text, || 1 + prng.below(most) as usize);
        read_edges += whole.iter().filter(|(edge, ..)| edge.is_ok()).count();
        errors += whole.iter().filter(|(edge, ..)| edge.is_err()).count();
        if !whole.is_empty() {
            check_resume(format, &text, &whole, prng.below(whole.len() as u64) as usize);
            resumed += 1;
        }
    }
    assert!(read_edges > 10_000 && errors > 10_000 && resumed > 1000, "{read_edges} edges, {errors} errors");
}
