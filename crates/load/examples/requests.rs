//! Measures the CPU time to draw a request and to read its reply, without a network:
//! `cargo run --release -p gannet-load --example requests [uniform|zipf|set] [COUNT]`.

use std::time::Instant;

use base::clock::UnixMillis;
use gannet_load::traffic::Traffic;
use gannet_load::workload::model::Order;
use gannet_load::workload::{KeyCommand, KeySpace, RequestSource, Verb, Workload};

fn main() {
    let mut args = std::env::args().skip(1);
    let kind = args.next().unwrap_or_else(|| "uniform".into());
    let count: u64 = args.next().and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    let order = if kind == "zipf" { Order::Zipf { exponent: 0.99 } } else { Order::Uniform };
    let verb = if kind == "set" { Verb::Set } else { Verb::Get };
    let space = KeySpace { order, verbs: vec![KeyCommand::new(verb)], ..KeySpace::default() };
    let workload = Workload { keys: vec![space], ..Workload::default() };
    let mut source = RequestSource::new(&workload, 0, UnixMillis::from_secs(1_700_000_000));
    let answer = match verb {
        Verb::Set => "STORED\r\n".to_owned(),
        _ => format!("VALUE 0000000000000000 0 256\r\n{}\r\nEND\r\n", "x".repeat(256)),
    };
    let mut out = Vec::with_capacity(1 << 20);
    let (mut draw_ns, mut read_ns) = (0, 0);
    let mut pendings = Vec::with_capacity(1000);
    for _ in 0..count / 1000 {
        out.clear();
        pendings.clear();
        let begin = Instant::now();
        for _ in 0..1000 {
            pendings.push(source.next(0, &mut out));
        }
        let middle = Instant::now();
        for pending in &mut pendings {
            std::hint::black_box(source.answer(pending, answer.as_bytes()));
        }
        draw_ns += middle.duration_since(begin).as_nanos();
        read_ns += middle.elapsed().as_nanos();
    }
    let each = |ns: u128| ns as f64 / count as f64;
    println!("{kind}: {:.1} ns to draw a request, {:.1} ns to read its reply", each(draw_ns), each(read_ns));
}
