//! Runs the session of the graph store's page against a real server, and compares each reply with the page. Runs the
//! page's commands of `gannet file` on the file that the session leaves.

use std::path::Path;
use std::process::Command;

use crate::common::{Serving, run};
use crate::peers::Folder;
use crate::restart_together::killed;

/// A command of the page, and the output that the page shows.
struct Step {
    command: String,
    output: String,
}

/// Returns the commands of the page's indented blocks, which begin with `$`, each with the lines below it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("    ")) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push(Step { command: command.to_owned(), output: String::new() }),
            (None, Some(step)) => step.output.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    steps
}

fn shell(folder: &Folder, command: &str) -> (bool, String) {
    let output = Command::new("sh").args(["-c", command]).current_dir(folder.path()).output().expect("a shell");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_command_of_the_page_of_graphs_replies_as_the_page_shows() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph/README.md");
    let page = std::fs::read_to_string(page).expect("the page is in the repository");
    let folder = Folder::new("graph-docs");
    if !shell(&folder, "redis-cli --version").0 {
        return eprintln!("skipped: redis-cli is not installed");
    }
    let steps = steps(&page);
    let serves = steps.iter().filter(|step| step.command.starts_with("gannet serve --resp ")).count();
    assert_eq!(serves, 1, "the session begins with a server");
    let file = folder.file("graphs");
    let free = ["--memcached", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--admin", "none", "--memory", "16MiB"];
    let mut serving = Serving::start(&[&free[..], &["--graph-memory", "90MiB", "--graph-file", &file]].concat());
    let redis_cli = format!("redis-cli --no-raw -p {}", serving.addr_behind("Redis clients connect to ").port());
    let mut replies = 0;
    let is_of_session = |step: &&Step| step.command.starts_with("redis-cli ") || step.command.starts_with("printf ");
    for Step { command, output } in steps.iter().filter(is_of_session) {
        let (is_good, got) = shell(&folder, &command.replace("redis-cli", &redis_cli));
        assert!(is_good && got == *output, "{command}\nreplied\n{got}\nand the page shows\n{output}");
        replies += 1;
    }
    assert!(replies >= 6, "{replies} commands with replies");
    assert!(steps.iter().any(|step| step.command.contains("G.LOAD")), "the page loads a file");
    killed(serving);
    // The table's commands, with their options in brackets and the names of the session.
    let table = page.lines().filter_map(|line| line.strip_prefix("| `gannet file ")?.split('`').next());
    let mut commands = 0;
    for command in table {
        let words = command.replace("FILE", &file).replace("--graph G --type T", "--graph social --type knows");
        for words in [words.replace(['[', ']'], ""), words.split(" [").next().unwrap_or_default().to_owned()] {
            let words: Vec<&str> = std::iter::once("file").chain(words.split(' ')).collect();
            let (code, out, err) = run(&words);
            assert!(code == 0 && !out.is_empty(), "{words:?}: {err}");
            commands += 1;
        }
    }
    assert!(commands >= 8, "{commands} commands of the table");
}
