//! Rules for all text files: line length, file length, stale terms of the glossary.

use super::Breach;
use super::tree::{File, Tree};

const LINE_CHARS_MAX: usize = 120;
const FILE_LINES_MAX: usize = 1000;

/// Extensions of files whose lines are limited to [`LINE_CHARS_MAX`]; Markdown is excluded because of its tables.
const CODE_ENDINGS: [&str; 7] = [".rs", ".py", ".java", ".go", ".js", ".mjs", ".sh"];

/// Extension of the messages that protoc generates for Go: a field and its tag must share a line.
const GENERATED_ENDING: &str = ".pb.go";

/// Checks every file of `tree`.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    let glossary = tree.file("GLOSSARY.md").map_or("", |glossary| &glossary.text);
    let (stale, wire) = (stale_terms(glossary), wire_words(glossary));
    for file in &tree.files {
        let is_code = CODE_ENDINGS.iter().any(|ending| file.path.ends_with(ending));
        if is_code && !file.path.ends_with(GENERATED_ENDING) {
            lengths(file, faults);
        }
        if is_code || (file.path.ends_with(".md") && file.path != "GLOSSARY.md") {
            terms(file, &stale, &wire, faults);
        }
    }
}

fn lengths(file: &File, faults: &mut Vec<Breach>) {
    for (index, line) in file.text.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX {
            let message = format!("{chars} characters; break the line at {LINE_CHARS_MAX}");
            faults.push(Breach::new(&file.path, index + 1, message));
        }
    }
    let lines = file.lines_without_tests();
    if file.is_rust() && !file.is_test() && lines > FILE_LINES_MAX {
        let message = format!("{lines} lines without tests; split the file, at most {FILE_LINES_MAX} are allowed");
        faults.push(Breach::new(&file.path, 0, message));
    }
}

/// A stale term, its replacement, and the directory below which it is forbidden (empty for everywhere).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stale {
    term: String,
    instead: String,
    below: String,
}

/// Returns the rows of the glossary's table below this heading, each as a list of its cells.
fn table<'g>(glossary: &'g str, heading: &'static str) -> impl Iterator<Item = Vec<String>> + 'g {
    let section = glossary.lines().skip_while(move |line| !(line.starts_with('#') && line.contains(heading)));
    let rows = section.skip(1).take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with('|'));
    rows.map(|line| {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    })
}

/// Returns the texts of the table below `Words on the wire`, whose rows are `| text | whose |`: words of other
/// projects' protocols and flags.
fn wire_words(glossary: &str) -> Vec<String> {
    let rows = table(glossary, "Words on the wire").filter(|cells| cells.len() == 2);
    rows.map(|mut cells| cells.swap_remove(0).to_lowercase()).filter(|text| text != "text" && text != "---").collect()
}

/// Returns the rows of the table below `Stale terms`: `| term | say instead | below |`.
fn stale_terms(glossary: &str) -> Vec<Stale> {
    table(glossary, "Stale terms")
        .filter(|cells| cells.len() == 3 && cells[0] != "term" && !cells[0].starts_with("--"))
        .map(|cells| Stale { term: cells[0].to_lowercase(), instead: cells[1].clone(), below: cells[2].clone() })
        .collect()
}

fn terms(file: &File, stale: &[Stale], wire: &[String], faults: &mut Vec<Breach>) {
    let here: Vec<&Stale> = stale.iter().filter(|stale| file.path.starts_with(&stale.below)).collect();
    if here.is_empty() {
        return;
    }
    for (index, line) in file.text.lines().enumerate() {
        let mut line = line.to_lowercase();
        for text in wire {
            line = line.replace(text, "");
        }
        for stale in &here {
            if contains_word(&line, &stale.term) {
                let message = format!("stale term '{}': say '{}'", stale.term, stale.instead);
                faults.push(Breach::new(&file.path, index + 1, message));
            }
        }
    }
}

/// Returns whether `word` occurs in `line` without an adjacent letter, digit or `_` (a plural `s` is allowed).
fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, found)| {
        let before = line[..at].chars().next_back();
        let rest = &line[at + found.len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        !before.is_some_and(is_part) && !rest.chars().next().is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLOSSARY: &str = "# Words\n\n## Stale terms\n\n| term | say instead | below |\n|---|---|---|\n\
                            | hash table | index | crates/segment |\n| white list | allow-list | |\n\n\
                            ## Next\n| a | b | c |\n";

    fn faults_of(files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(files), &mut faults);
        faults.iter().map(Breach::to_string).collect()
    }

    #[test]
    fn a_long_line_is_found_in_code_and_allowed_in_a_document() {
        let long = "x".repeat(121);
        assert_eq!(faults_of(&[("crates/a/src/lib.rs", &long)]).len(), 1);
        assert!(faults_of(&[("crates/a/src/lib.rs", &long[1..]), ("a.md", &long), ("a.pb.go", &long)]).is_empty());
    }

    #[test]
    fn long_file_is_reported_unless_its_length_is_due_to_tests() {
        let code = "fn a() {}\n".repeat(1001);
        assert_eq!(faults_of(&[("crates/a/src/lib.rs", &code)]).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert!(faults_of(&[("crates/a/src/lib.rs", &tests), ("crates/a/tests/all.rs", &code)]).is_empty());
    }

    #[test]
    fn stale_term_is_reported_in_the_folders_named_by_the_glossary() {
        let glossary = ("GLOSSARY.md", GLOSSARY);
        assert_eq!(faults_of(&[glossary, ("crates/segment/src/a.rs", "// the Hash tables\n")]).len(), 1);
        assert_eq!(faults_of(&[glossary, ("README.md", "a white list")]).len(), 1);
        assert!(faults_of(&[glossary, ("crates/server/src/a.rs", "// the hash table\n")]).is_empty());
        let wire =
            format!("{GLOSSARY}## Words on the wire\n\n| text | whose |\n|---|---|\n| `--white-list` | a tool's |\n");
        assert!(faults_of(&[("GLOSSARY.md", &wire), ("a.md", "its --white-list")]).is_empty());
        assert_eq!(faults_of(&[("GLOSSARY.md", &wire), ("a.md", "--white-list, a white list")]).len(), 1);
        assert!(faults_of(&[glossary, ("crates/segment/src/a.rs", "// rehash tablet, hash tablets\n")]).is_empty());
    }
}
