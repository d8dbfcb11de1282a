use super::bench::{BenchFigures, BenchProgram};
use super::delay_proxy::DelayProxy;
use super::study::{ClientSetting, StudyPlan};
use super::{page, table};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Starts a server that sends all bytes back, for a number of connections.
fn echo(connections: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut reader = stream.try_clone().expect("a second handle");
                let _ = std::io::copy(&mut reader, &mut stream);
            });
        }
    });
    address
}

/// A script that is removed with the value.
struct Script(PathBuf);

impl Script {
    fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("gannet-bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a file in the temporary folder");
        Self(path)
    }

    fn program(&self, name: &str) -> BenchProgram {
        BenchProgram::parse(&format!("{name}=sh {}", self.0.display())).expect("a command")
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn proxy_adds_its_round_trip_keeps_the_order_and_counts_connections() {
    let round_trip = Duration::from_millis(40);
    let proxy = DelayProxy::start(echo(3), round_trip).expect("a free port");
    let mut streams: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(proxy.address()).expect("connects")).collect();
    for stream in &mut streams {
        let begun = Instant::now();
        stream.write_all(b"x").expect("it is open");
        stream.read_exact(&mut [0]).expect("it comes back");
        assert!(begun.elapsed() >= round_trip, "{:?}", begun.elapsed());
    }
    let sent: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_be_bytes).collect();
    let mut writer = streams[0].try_clone().expect("a second handle");
    let bytes = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&bytes));
    let mut received = vec![0; sent.len()];
    streams[0].read_exact(&mut received).expect("all bytes come back");
    writing.join().expect("no panic").expect("all bytes were sent");
    assert!(received == sent);
    assert_eq!(proxy.take_most(), 3);
    drop(streams);
    let closed = Instant::now();
    while proxy.take_most() > 0 {
        assert!(closed.elapsed() < Duration::from_secs(10), "the connections end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn study_runs_each_program_in_each_combination_and_reports_failures() {
    let figures = concat!(
        r#"{"requests_per_s": 100, "p50_us": 1, "p99_us": 2, "p999_us": 3, "#,
        r#""cpu_us_per_request": 4.5, "connections": 2, "errors": ERRORS}"#
    );
    // The options of the run are the words of the script.
    let good = Script::new(&format!("echo starting; echo \"$@\" >&2; echo '{}'\n", figures.replace("ERRORS", "{}")));
    let partly = Script::new(&format!("echo '{}'; exit 1\n", figures.replace("ERRORS", "{\"TIMEOUT\": 30}")));
    let refused = figures.replace("100,", "0,").replace("ERRORS", "{\"TIMEOUT\": 3}");
    let refused = Script::new(&format!("echo '{refused}'; exit 1\n"));
    let broken = Script::new("echo 'cannot connect: refused' >&2; exit 1\n");
    let silent = Script::new("echo hello\n");
    let setting = |is_uncapped| ClientSetting { preset: "Laptop".to_owned(), is_uncapped };
    let plan = StudyPlan {
        target: echo(0),
        programs: [
            ("good", &good),
            ("partly", &partly),
            ("refused", &refused),
            ("broken", &broken),
            ("silent", &silent),
        ]
        .map(|(name, script)| script.program(name))
        .into(),
        settings: vec![setting(false), setting(true)],
        concurrencies: vec![1, 100],
        round_trips: vec![Duration::ZERO, Duration::from_millis(1)],
        repeats: 3,
        seconds: 0.1,
    };
    let mut reported = 0;
    let study = plan.run(|| false, |number, _| reported = number).expect("proxies start");
    assert_eq!((plan.runs(), reported, study.cells.len()), (120, 120, 40));
    for cell in &study.cells {
        let failures: Vec<&str> = cell.failures.iter().map(String::as_str).collect();
        match &cell.client[..] {
            "good" => assert_eq!((cell.runs.len(), failures.len()), (3, 0)),
            "partly" => assert_eq!((cell.runs.len(), failures.len()), (3, 0)),
            "refused" => assert_eq!((cell.runs.len(), failures), (0, vec!["no request succeeded: {\"TIMEOUT\":3}"])),
            "broken" => assert_eq!(failures, ["broken: the program failed: cannot connect: refused"]),
            _ => assert!(cell.runs.is_empty() && failures[0].contains("its output is not a result"), "{failures:?}"),
        }
    }
    let text = table::markdown(&study);
    assert_eq!(text.matches("### ").count(), 4, "{text}");
    assert!(text.contains("### Laptop without its cap, round trip 1 ms"), "{text}");
    assert!(
        text.contains("| 100 | 100/s, 0.00 ms, 4 us, 0 | 100/s, 0.00 ms, 4 us, 0, 75.0 % failed | no request"),
        "{text}"
    );
    assert_eq!(page::html(&study).matches("<figure>").count(), 5 * 2 * 3);
    let stopped = plan.run(|| true, |_, _| panic!("no run begins")).expect("proxies start");
    assert!(stopped.cells.iter().all(|cell| cell.runs.is_empty() && cell.failures.is_empty()));
}

#[test]
fn commands_and_results_without_a_part_are_refused() {
    for text in ["", "go", "go=", "=go", " = "] {
        assert!(BenchProgram::parse(text).is_err(), "{text:?}");
    }
    for output in ["", "{}", "null", "{\"requests_per_s\": 1}"] {
        assert!(BenchFigures::parse(output).is_err(), "{output:?}");
    }
}
