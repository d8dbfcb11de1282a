//! Rules for Markdown documents: every `make` command in them is a target of the Makefile, every relative link and
//! every path names an existing file or directory, and every anchor of a link names a heading.

use super::Breach;
use super::tree::{File, Tree};

/// Checks every Markdown file of `tree`.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    let targets = tree.file("Makefile").map(|file| make_targets(&file.text)).unwrap_or_default();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for target in commands(line) {
                if !targets.contains(&target) {
                    let message = format!("`make {target}` is not a target of the Makefile");
                    faults.push(Breach::new(&file.path, index + 1, message));
                }
            }
            for link in links(line) {
                if let Some(lack) = lack(tree, file, link) {
                    faults.push(Breach::new(&file.path, index + 1, format!("the link '{link}' has no {lack}")));
                }
            }
            for path in paths(line) {
                if !is_there(tree, path.trim_end_matches('/')) {
                    faults.push(Breach::new(&file.path, index + 1, format!("the path `{path}` does not exist")));
                }
            }
        }
    }
}

/// Returns the targets of a Makefile: words before a `:` at the start of a line.
fn make_targets(makefile: &str) -> Vec<String> {
    let rules = makefile.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let names = rules.filter_map(|line| line.split_once(':')).filter(|(_, rest)| !rest.starts_with('='));
    names.flat_map(|(names, _)| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the word after `make` of each command that starts with it: in a code span, or in a line of a code block.
fn commands(line: &str) -> Vec<String> {
    let starts = line.match_indices("make ").filter(|(at, _)| {
        let before = line[..*at].trim_end_matches("$ ");
        before.trim().is_empty() || before.ends_with('`')
    });
    let is_target = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    starts
        .filter_map(|(at, found)| {
            let is_span = line[..at].ends_with('`');
            let is_block = at == 0 || line.starts_with("    ") || line.starts_with("$ ");
            let rest = &line[at + found.len()..];
            let word: String = rest.chars().take_while(|c| is_target(*c)).collect();
            let after = rest[word.len()..].trim_start();
            let ends = after.is_empty() || after.starts_with(['`', '#']) || is_span;
            (!word.is_empty() && ends && (is_span || is_block)).then_some(word)
        })
        .collect()
}

/// Returns the targets of inline links that are paths, anchors, or both.
fn links(line: &str) -> Vec<&str> {
    let targets = line.match_indices("](").filter_map(|(at, found)| line[at + found.len()..].split(')').next());
    targets.filter(|link| !link.contains("://") && !link.starts_with("mailto:")).collect()
}

/// Returns the code spans that are paths from the root.
fn paths(line: &str) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_path = |span: &&str| FOLDERS.iter().any(|folder| span.starts_with(folder)) && span.chars().all(is_plain);
    line.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// Beginnings of the code spans that must be paths of existing files or directories.
const FOLDERS: [&str; 5] = ["crates/", "xtask/", "lab/", "docs/", "conformance/"];

fn is_there(tree: &Tree, path: &str) -> bool {
    let below = format!("{path}/");
    tree.files.iter().any(|file| file.path == path || file.path.starts_with(&below))
}

/// Returns the part of a link that does not exist: its target, or the heading that its anchor names.
fn lack(tree: &Tree, from: &File, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = target(from, path);
    if !path.is_empty() && !target.is_empty() && !is_there(tree, &target) {
        return Some("target".to_owned());
    }
    let page = if path.is_empty() { from } else { tree.file(&target)? };
    let anchor = anchor.filter(|_| page.path.ends_with(".md"))?;
    let mut headings = page.text.lines().filter(|line| line.starts_with('#'));
    let has_heading = headings.any(|heading| anchor_of(heading.trim_start_matches('#').trim()) == anchor);
    (!has_heading).then(|| format!("heading in {}", page.path))
}

/// Returns the anchor that GitHub gives to a heading.
fn anchor_of(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    heading.to_lowercase().chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the path from the root that a relative path in the file `from` names.
fn target(from: &File, path: &str) -> String {
    let folder = from.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: (&str, &str) = ("Makefile", "CARGO := cargo\nrun test: deps\n\tcargo run\n");

    fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(files), &mut faults);
        faults.iter().map(Breach::to_string).collect()
    }

    #[test]
    fn unknown_make_target_is_reported_in_code_spans_and_blocks() {
        assert_eq!(faults_of(&[MAKEFILE, ("README.md", "try `make walk`\n")]).len(), 1);
        assert_eq!(faults_of(&[MAKEFILE, ("README.md", "make walk   # goes\n")]).len(), 1);
        assert!(faults_of(&[MAKEFILE, ("README.md", "`make run`, or\nmake test\n")]).is_empty());
    }

    #[test]
    fn the_verb_make_in_a_sentence_is_no_command() {
        assert!(faults_of(&[MAKEFILE, ("README.md", "make sure that\nwe make it so\n")]).is_empty());
    }

    #[test]
    fn a_link_to_a_missing_file_is_found() {
        let links = "[b](b.md) [c](../README.md#x) [d](https://example.org) [e](#here) [f](../docs)\n# Here";
        let page = ("docs/a.md", links);
        assert_eq!(faults_of(&[MAKEFILE, page, ("README.md", "# X")]).len(), 1);
        assert!(faults_of(&[MAKEFILE, page, ("README.md", "# X"), ("docs/b.md", "")]).is_empty());
    }

    #[test]
    fn an_anchor_without_a_heading_is_found() {
        let page = |anchor: &'static str| ("docs/a.md", anchor);
        let other = ("docs/b.md", "## p50, `p999` and another owner's [log]\n");
        let known = page("[b](b.md#p50-p999-and-another-owners-log)");
        assert!(faults_of(&[MAKEFILE, known, other]).is_empty());
        for unknown in ["[b](b.md#p50)", "[c](#here)"] {
            let faults = faults_of(&[MAKEFILE, page(unknown), other]);
            assert!(faults.len() == 1 && faults[0].contains("has no heading in docs/"), "{faults:?}");
        }
    }

    #[test]
    fn missing_repository_path_in_a_document_is_reported() {
        let source = ("crates/a/src/lib.rs", "");
        assert_eq!(faults_of(&[source, ("a.md", "| x | `crates/a/tests/model.rs`, tidy |")]).len(), 1);
        assert!(faults_of(&[source, ("a.md", "`crates/a/src/`, `crates/a/src/lib.rs`, `crates/NAME/*`")]).is_empty());
    }
}
