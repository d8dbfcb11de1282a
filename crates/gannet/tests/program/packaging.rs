//! Tests what a package contains beside the program: man pages, completions, the unit and the default instance.

use std::path::Path;
use std::process::Command;

use crate::common::run;
use crate::peers::Folder;

/// Installs the program below a new folder.
fn installed() -> Folder {
    let folder = Folder::new("install");
    install(&folder);
    folder
}

/// Installs the program below `folder`, with the prefix /usr.
fn install(folder: &Folder) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/install.sh");
    let mut install = Command::new(script);
    // The symbols stay: to remove them takes longer than the rest.
    install.args([env!("CARGO_BIN_EXE_gannet"), folder.path().to_str().unwrap(), "/usr"]).env("STRIP", "true");
    let output = install.output().expect("bash is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the lines of a help text that follow a heading, up to an empty one, without continued lines.
fn below<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let lines = help.lines().skip_while(move |line| !line.starts_with(heading)).skip(1);
    lines.take_while(|line| !line.is_empty()).filter(|line| line.starts_with("  ") && !line.starts_with("    "))
}

/// Returns the long flags that a help text defines.
fn flags(help: &str) -> Vec<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let name = |line: &'_ str| -> Option<usize> { line.find("--").filter(|at| *at <= 4) };
    lines
        .filter_map(|line| {
            let rest = &line[name(line)? + 2..];
            Some(&rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c))).unwrap_or(rest.len())])
        })
        .collect()
}

/// Asserts that the page of the command `words`, and each of the `completions`, have all that its help lists, and then
/// the same of its subcommands. Returns the number of compared flags.
fn compared(words: &[&str], pages: &Path, completions: &[String]) -> usize {
    let (_, help, _) = run(&[words, &[if words == ["memcached"] { "-h" } else { "--help" }]].concat());
    let name = [&["gannet"], words].concat().join("-");
    let page = std::fs::read_to_string(pages.join(format!("{name}.1")));
    let page = page.unwrap_or_else(|error| panic!("{name}: {error}")).replace("\\-", "-");
    // The generator for fish, the last, stops at the second level of subcommands.
    let at_level = if words.len() > 2 { &completions[..completions.len() - 1] } else { completions };
    let mut count = 0;
    for flag in flags(&help) {
        assert!(page.contains(&format!("--{flag}")), "{name}.1 lacks --{flag}");
        let in_fish = format!("-l {flag} ");
        for text in at_level {
            assert!(text.contains(&format!("--{flag}")) || text.contains(&in_fish), "--{flag} is not completed");
        }
        count += 1;
    }
    for line in below(&help, "Commands:") {
        let below = line.split_whitespace().next().unwrap();
        assert!(completions.iter().all(|text| text.contains(below)), "{below} is not completed");
        count += compared(&[words, &[below]].concat(), pages, completions);
    }
    count
}

#[test]
fn man_pages_and_completions_lack_no_subcommand_and_no_flag() {
    let folder = installed();
    let share = folder.path().join("usr/share");
    let completions = [
        "bash-completion/completions/gannet",
        "zsh/vendor-completions/_gannet",
        "fish/vendor_completions.d/gannet.fish",
    ]
    .map(|path| std::fs::read_to_string(share.join(path)).unwrap_or_else(|error| panic!("{path}: {error}")) + " ");
    let count = compared(&[], &share.join("man/man1"), &completions);
    assert!(count >= 250, "{count} flags");
    for text in &completions {
        // `gannet user` has a flag of the same name as the hidden subcommand.
        let text = text.replace("--generate", "").replace("-l generate", "");
        assert!(!text.contains("generate"), "a hidden argument is completed");
    }
}

#[test]
fn unit_has_no_fault_and_confines_the_server() {
    let folder = installed();
    let unit = std::fs::read_to_string(folder.path().join("usr/lib/systemd/system/gannet@.service")).unwrap();
    assert!(unit.contains("ExecStart=/usr/bin/gannet serve /etc/gannet/%i.toml"), "{unit}");
    let path = folder.written("gannet@default.service", &unit.replace("/usr/bin/gannet", env!("CARGO_BIN_EXE_gannet")));
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(&path).output().expect("systemd is installed");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).expect("its output is text"))
    };
    assert_eq!(analyze(&["verify", "--man=no", "--recursive-errors=no"]), (true, String::new()));
    // The threshold is 2.0 of 10.
    let (confined, text) = analyze(&["security", "--no-pager", "--offline=true", "--threshold=20"]);
    assert!(confined, "{text}");
}

#[test]
fn installed_default_instance_has_no_fault_and_a_changed_one_is_kept() {
    let folder = installed();
    let config = folder.file("etc/gannet/default.toml");
    let (code, out, err) = run(&["config", "--check", &config]);
    assert!(code == 0 && out.contains("no fault"), "{out}{err}");
    std::fs::write(&config, "[store]\nmemory = \"64MiB\"\n").unwrap();
    install(&folder);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "[store]\nmemory = \"64MiB\"\n");
}
