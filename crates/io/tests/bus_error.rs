//! Tests a process that touches mapped memory without storage behind it.

use std::process::{Command, ExitStatus};
use std::sync::Barrier;

use arena::{Cells, Order};

/// Environment variable with the file that a child maps and truncates.
const CUT: &str = "GANNET_TEST_BUS_ERROR";
const LINE: &str = "the file is gone";
const CODE: i32 = 74;
const THREADS: usize = 8;
const BYTES: usize = 1 << 20;

/// Maps a file, truncates it and touches it from several threads at once. Does not return.
fn touch(path: &std::ffi::OsStr) {
    let file = std::fs::File::options().create(true).truncate(true).read(true).write(true).open(path).expect("made");
    file.set_len(BYTES as u64).expect("made longer");
    let cells = Cells::of_file(&file, BYTES, Order::Random).expect("mapped");
    gannet_io::signal::end_on_bus_error(LINE, CODE).expect("a handler");
    file.set_len(0).expect("cut short");
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cells, together) = (&cells, &together);
            scope.spawn(move || {
                together.wait();
                cells.load(thread * BYTES / THREADS)
            });
        }
    });
}

fn touched_by_a_child(number: usize) -> (ExitStatus, String) {
    let path = std::env::temp_dir().join(format!("gannet-cut-{}-{number}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "threads_that_meet_a_bus_error_at_once_end_with_its_line_and_its_code", "--nocapture"]);
    let output = child.env(CUT, &path).output().expect("a child");
    let _ = std::fs::remove_file(&path);
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn threads_that_meet_a_bus_error_at_once_end_with_its_line_and_its_code() {
    if let Some(path) = std::env::var_os(CUT) {
        return touch(&path);
    }
    for number in 0..30 {
        let (status, said) = touched_by_a_child(number);
        assert_eq!(status.code(), Some(CODE), "child {number}: {status}: {said}");
        assert!(said.contains(LINE), "{said}");
    }
}
