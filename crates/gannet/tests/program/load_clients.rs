//! Tests of `gannet load clients` with load programs that print fixed figures. The client libraries' own tests run
//! their programs.

use crate::common::run;
use crate::peers::Folder;

const FIGURES: &str = r#"{"requests_per_s": 1234, "p50_us": 10, "p99_us": 20, "p999_us": 3000,
"cpu_us_per_request": 7.2, "connections": 1, "errors": {}}"#;

#[test]
fn study_of_client_libraries_writes_its_table_page_and_runs() {
    let folder = Folder::new("clients");
    folder.written("good.sh", &format!("echo \"$@\" >> {}\necho '{FIGURES}'\n", folder.file("seen")));
    folder.written("bad.sh", "echo 'no server' >&2\nexit 1\n");
    let program = |name: &str| format!("{name}=sh {}", folder.file(&format!("{name}.sh")));
    let (table, page, json) = (folder.file("t.md"), folder.file("p.html"), folder.file("j.json"));
    let (good, bad) = (program("good"), program("bad"));
    let grid = ["--presets", "Laptop", "--uncapped", "--concurrency", "1,50", "--round-trips", "0us,1ms"];
    let time = ["--repeats", "2", "--duration", "100ms"];
    let target = ["load", "clients", "--target", "127.0.0.1:1", "--program", &good[..]];
    let files = ["--program", &bad[..], "--table", &table[..], "--report", &page[..], "--json", &json[..]];
    let (code, _, err) = run(&[&target[..], &grid, &time, &files].concat());
    // The library whose program always fails is an error, but the figures of the other one are written.
    assert_eq!(code, 1, "{err}");
    assert!(err.ends_with("gannet: bad: the program failed: no server\n"), "{err}");
    let table = std::fs::read_to_string(table).expect("it was written");
    assert!(table.contains("| 50 | 1,234/s, 3.00 ms, 7 us, 0 | bad: the program failed: no server |"), "{table}");
    assert!(std::fs::read_to_string(page).expect("it was written").contains("good, round trip 1 ms"));
    let runs: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).expect("it was written")).expect("JSON");
    assert_eq!(runs["cells"].as_array().map(Vec::len), Some(16));
    let seen = std::fs::read_to_string(folder.file("seen")).expect("the program ran");
    assert_eq!(seen.lines().count(), 16, "{seen}");
    assert_eq!(seen.lines().filter(|line| line.contains("--in-flight-max 5000")).count(), 8, "{seen}");
    // Only libraries that work: no error.
    let (code, _, err) = run(&["load", "clients", "--program", &good, "--repeats", "1", "--concurrency", "1"]);
    assert_eq!(code, 0, "{err}");
    // A study without any figures is an error.
    let (code, _, err) = run(&["load", "clients", "--program", &bad, "--repeats", "1", "--concurrency", "1"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("bad: the program failed: no server"), "{err}");
}

#[test]
fn each_wrong_argument_of_a_study_is_named() {
    let wrong = ["--target", "nowhere", "--concurrency", "0,x", "--round-trips", "soon", "--duration", "0s"];
    let (code, _, err) = run(&[&["load", "clients", "--program", "go"][..], &wrong].concat());
    assert_eq!(code, 2, "{err}");
    for name in ["--target", "--program", "--concurrency", "--round-trips", "--duration"] {
        assert!(err.contains(name), "{name}: {err}");
    }
}
