//! Reads the repository's text files, each once.

use std::fs;
use std::io;
use std::path::Path;

/// Directories without handwritten files.
const SKIPPED: [&str; 11] = [
    ".git",
    "target",
    "node_modules",
    ".venv",
    "__pycache__",
    "corpus",
    "artifacts",
    "coverage",
    ".pytest_cache",
    "dist",
    "obj",
];

/// Extensions of files that are read.
const ENDINGS: [&str; 14] = [
    ".rs", ".toml", ".md", ".py", ".java", ".go", ".js", ".mjs", ".sh", ".yml", ".proto", "Makefile", "LICENSE",
    "NOTICE",
];

/// Directories of crates that are not part of a release. A directory precedes the directory that contains it.
const WORKSHOP: [&str; 5] = ["lab/grpc_peers", "lab/testbed", "lab/long_commands", "lab", "xtask"];

/// One text file.
#[derive(Clone, Debug)]
pub struct File {
    /// Path below the root, with `/` as separator.
    pub path: String,
    /// Text of the file.
    pub text: String,
}

impl File {
    /// Returns whether this is a Rust source file.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether the file contains only tests.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/")
            || self.path.contains("/models/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/benches/")
    }

    /// Returns the directory name of the crate that the file belongs to: a directory below `crates/`, or one of
    /// [`WORKSHOP`].
    pub fn crate_name(&self) -> Option<&str> {
        self.crate_folder()?.rsplit('/').next()
    }

    /// Returns the directory of the crate that the file belongs to, as a path below the root.
    fn crate_folder(&self) -> Option<&str> {
        let holds = |folder: &&str| self.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        if let Some(folder) = WORKSHOP.into_iter().find(holds) {
            return Some(folder);
        }
        let (name, _) = self.path.strip_prefix("crates/")?.split_once('/')?;
        Some(&self.path[.."crates/".len() + name.len()])
    }

    /// Returns whether the file is directly in its crate's directory, as the manifest is.
    pub fn is_in_crate_root(&self) -> bool {
        self.crate_folder().is_some_and(|folder| self.path[folder.len() + 1..].find('/').is_none())
    }

    /// Returns whether the file is the root module of its crate.
    pub fn is_crate_root_module(&self) -> bool {
        self.crate_folder().is_some_and(|folder| ["/src/lib.rs", "/src/main.rs"].contains(&&self.path[folder.len()..]))
    }

    /// Returns the number of lines before the test module at the file's end; all lines if there is none.
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
    /// The files, sorted by path.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads every text file below `root`, except build output.
    ///
    /// # Errors
    /// If a directory or file cannot be read. A file that is not UTF-8 is skipped.
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

    /// Returns the file at `path`, if it exists.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Creates a tree from literals, for tests.
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
