//! Runs every command of the README in a network of its own, beside a server that was started as `make run` starts it:
//! on its default ports.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::load_docs::ends_soon;
use crate::peers::{Folder, is_verdict};

fn root_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the lines of the README's blocks of commands: indented lines, and lines between fences that name no other
/// language than text.
fn commands(page: &str) -> Vec<&str> {
    let mut fence = None;
    let mut lines = Vec::new();
    for line in page.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(language), None) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            (None, Some("text")) => lines.push(line),
            (None, None) if line.starts_with("    ") => lines.push(line.trim()),
            _ => {}
        }
    }
    lines
}

/// A command as it is run here, and whether `code` and `out` are as it should end.
struct Step {
    shell: String,
    is_good: fn(code: i32, out: &str) -> bool,
}

/// Returns the steps for the commands of the README.
fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut session: Vec<&str> = Vec::new();
    for line in commands(page) {
        match line.split_whitespace().next().unwrap_or_default() {
            // Tidy checks that the targets exist; `make test-deb` runs what installs the package.
            "make" | "sudo" => {}
            "exec" | "printf" => session.push(line),
            "gannet" if line.starts_with("gannet load ") => {
                let line =
                    line.replace("--duration 10s", "--duration 300ms").replace("--rate 5k", "--rate 200 --keys 100");
                steps.push(Step { shell: format!("{line}{}", ends_soon(&line)), is_good: is_verdict });
            }
            // 1 and 2 report findings.
            "gannet" if line.starts_with("gannet doctor ") => steps.push(Step {
                shell: line.replace("$(pidof redis-server)", "$server"),
                is_good: |code, out| code <= 2 && !out.is_empty(),
            }),
            _ => panic!("this test cannot run the command: {line}"),
        }
    }
    let is_session = |code, out: &str| code == 0 && out == "STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\n";
    steps.insert(0, Step { shell: session.join("\n"), is_good: is_session });
    steps
}

#[test]
fn every_command_of_the_readme_runs_beside_a_server_on_default_ports() {
    assert!(root_file("Makefile").contains("/release/gannet\" serve\n"), "`make run` serves without arguments");
    let steps = steps(&root_file("README.md"));
    assert!(steps.len() >= 4, "{} commands", steps.len());
    let folder = Folder::new("readme");
    let mut script = "ip link set lo up || exit 77\ngannet serve 2>log & server=$!\ntrap 'kill $server' EXIT\n\
                      for i in $(seq 200); do grep -q 'is ready' log && break; sleep 0.05; done\n"
        .to_owned();
    for (at, step) in steps.iter().enumerate() {
        script.push_str(&format!("(\n{}\n) >{at}.out 2>{at}.err; echo $? >{at}.code\n", step.shell));
    }
    let get = r"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    script.push_str(&format!("exec 3<>/dev/tcp/127.0.0.1/9555; printf '{get}' >&3; cat <&3 >admin.out\n"));
    folder.written("script", &script);
    let beside = Path::new(env!("CARGO_BIN_EXE_gannet")).parent().unwrap().display().to_string();
    let path = format!("{beside}:{}", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "--map-root-user", "bash", "script"]).current_dir(folder.path());
    let output = command.env("PATH", path).stdin(Stdio::null()).output().expect("unshare is installed");
    if !folder.path().join("log").exists() {
        return eprintln!("skipped: no network of its own: {}", String::from_utf8_lossy(&output.stderr));
    }
    for (at, step) in steps.iter().enumerate() {
        let [out, err, code] = ["out", "err", "code"].map(|end| folder.text(&format!("{at}.{end}")));
        let code = code.trim().parse().expect("an exit code");
        assert!((step.is_good)(code, &out), "{}\nended with {code}: {out}\n{err}\n{}", step.shell, folder.text("log"));
    }
    assert!(folder.text("admin.out").contains("/metrics"), "the admin port lists its pages");
    assert!(folder.path().join("out.html").exists(), "the report of the first command");
}
