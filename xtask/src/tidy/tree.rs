//! The repository's text files, read once.

use std::fs;
use std::io;
use std::path::Path;

/// Folders that hold nothing written by hand.
const SKIPPED: [&str; 9] =
    [".git", "target", "node_modules", ".venv", "__pycache__", "corpus", "artifacts", "coverage", ".pytest_cache"];

/// Endings of files that are read.
const ENDINGS: [&str; 12] =
    [".rs", ".toml", ".md", ".py", ".java", ".go", ".js", ".mjs", ".sh", ".yml", "Makefile", "LICENSE"];

/// Folders of crates that are never shipped. A folder stands before the folder that it lies in.
const WORKSHOP: [&str; 3] = ["lab/testbed", "lab", "xtask"];

/// One text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// True for a Rust source file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True for a file that holds tests and nothing else.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/models/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/benches/")
    }

    /// Returns the folder name of the crate that the file belongs to: a folder below `crates/`, or of [`WORKSHOP`].
    pub fn crate_name(&self) -> Option<&str> {
        self.crate_folder()?.rsplit('/').next()
    }

    /// Returns the folder of the crate that the file belongs to, as a path below the root.
    fn crate_folder(&self) -> Option<&str> {
        let holds = |folder: &&str| self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if let Some(folder) = WORKSHOP.into_iter().find(holds) {
            return Some(folder);
        }
        let (name, _) = self.path.strip_prefix("crates/")?.split_once('/')?;
        Some(&self.path[.."crates/".len() + name.len()])
    }

    /// Returns whether the file lies in its crate's own folder, as the manifest does.
    pub fn is_in_crate_root(&self) -> bool {
        self.crate_folder().is_some_and(|folder| self.path[folder.len() + 1..].find('/').is_none())
    }

    /// Returns whether the file is the root module of its crate.
    pub fn is_crate_root_module(&self) -> bool {
        self.crate_folder().is_some_and(|folder| ["/src/lib.rs", "/src/main.rs"].contains(&&self.path[folder.len()..]))
    }

    /// Number of lines before the test module at the file's end; all lines if there is none.
    pub fn lines_without_tests(&self) -> usize {
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(2).position(|two| {
            two[0].trim_end().starts_with("#[cfg(") && two[0].contains("test") && two[1].starts_with("mod ")
        });
        tests.unwrap_or(lines.len())
    }
}

/// All text files below a root, sorted by path.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads every text file below `root`, apart from what builds leave there.
    ///
    /// # Errors
    /// When a folder or file cannot be read. A file that is not UTF-8 is left out.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                match fs::read_to_string(entry.path()) {
                    Ok(text) => self.files.push(File { path, text }),
                    Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The file at `path`, if it is there.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A tree made of literals, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        Self { files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_innermost_crate() {
        let paths =
            ["crates/io/src/a.rs", "xtask/src/main.rs", "lab/src/soak/mod.rs", "lab/testbed/Cargo.toml", "data/a.md"];
        let tree = Tree::of(&paths.map(|path| (path, "")));
        let names: Vec<Option<&str>> = tree.files.iter().map(File::crate_name).collect();
        assert_eq!(names, [Some("io"), Some("xtask"), Some("lab"), Some("testbed"), None]);
        assert_eq!(tree.files.iter().position(File::is_crate_root_module), Some(1));
        assert_eq!(tree.files.iter().position(File::is_in_crate_root), Some(3));
    }

    #[test]
    fn lines_of_a_test_module_are_not_counted() {
        let tree = Tree::of(&[("crates/a/src/lib.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n")]);
        assert_eq!(tree.files[0].lines_without_tests(), 2);
        let tree = Tree::of(&[("crates/a/src/lib.rs", "fn a() {}\nfn b() {}\n")]);
        assert_eq!(tree.files[0].lines_without_tests(), 2);
    }
}
