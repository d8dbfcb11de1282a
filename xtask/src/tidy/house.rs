//! Measures the structure of each crate by figures that show how easily a newcomer understands it, and compares them
//! with limits.
//!
//! ```text
//!   crate/src ──> modules directly below src/       the length of the list that a reader sees first
//!             ├─> largest import cycle, in files    files that can be understood only together
//!             ├─> methods of the largest type       the size of a type's interface
//!             ├─> files of one type                 the highest number of files with `impl` blocks of one type
//!             ├─> doc comments that open badly      with a question word instead of a verb or a noun
//!             └─> lines of the old dialect          with words for which the field has standard terms
//!   all crates ─┬─> definitions of one type name    the highest number of types with the same name
//!               └─> lines with further phrases      for which plain words exist
//! ```
//!
//! `xtask house` prints the figures. `limits.toml` beside this file has a limit for each, which may only fall: a change
//! that improves a figure lowers the limit. `words.toml` has the words. Tests are not counted.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use syn::visit::{self, Visit};

use super::Breach;
use super::imports::{self, SourceFile, is_test};
use super::tree::{File, Tree};

/// The contents of `words.toml`.
const WORDS: &str = include_str!("words.toml");
/// The contents of `limits.toml`.
const LIMITS: &str = include_str!("limits.toml");
/// The path of `limits.toml`, for messages.
const LIMITS_PATH: &str = "xtask/src/tidy/limits.toml";

/// The words and phrases that are counted. `words.toml` describes each list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountedWords {
    bad_openings: Vec<String>,
    dialect: Vec<String>,
    phrases: Vec<String>,
}

impl CountedWords {
    fn read() -> Self {
        toml::from_str(WORDS).expect("the document of words has these lists")
    }
}

/// The figures of one crate, or the limits for these figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateShape {
    /// Modules directly below `src/`.
    pub modules: usize,
    /// Number of modules (files) in the largest set of modules that all import one another, directly or indirectly.
    pub cycle: usize,
    /// Highest number of methods of a type, without trait implementations. Types with the same name count as one type.
    pub methods: usize,
    /// Highest number of files with `impl` blocks of a type, without trait implementations. Types with the same name
    /// count as one type.
    pub files_of_type: usize,
    /// Number per thousand of doc comments that open with a word of [`CountedWords::bad_openings`].
    pub bad_openings_permille: usize,
    /// Number of lines with a phrase of [`CountedWords::dialect`].
    pub dialect_lines: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    /// Highest number of definitions of one type name over all crates.
    definitions_of_one_name: usize,
    /// Number of lines with a phrase of [`CountedWords::phrases`] over all crates.
    phrase_lines: usize,
    /// Upper bound for the limit [`CrateShape::bad_openings_permille`] that each crate sets for itself.
    bad_openings_permille_max: usize,
    /// Crates that are exempt from this upper bound.
    bad_openings_exempt: Vec<String>,
    crates: BTreeMap<String, CrateShape>,
}

/// The figures of one crate.
#[derive(Clone, Debug, Default)]
pub struct CrateFigures {
    shape: CrateShape,
    lines: usize,
    phrase_lines: usize,
    /// Name of the type with the most methods.
    largest_type: String,
    /// Name of the type whose `impl` blocks are in the most files.
    widest_type: String,
}

/// The figures of all crates.
#[derive(Debug, Default)]
pub struct House {
    crates: BTreeMap<String, CrateFigures>,
    /// Names that several types have, each with its number of definitions, in descending order of that number.
    names: Vec<(String, usize)>,
}

/// Checks the figures of `tree` against the limits.
pub fn check(tree: &Tree, faults: &mut Vec<Breach>) {
    match toml::from_str(LIMITS) {
        Ok(limits) => {
            compare(&measure(tree), &limits, faults);
            compare_with_max(&limits, faults);
        }
        Err(error) => faults.push(Breach::new(LIMITS_PATH, 0, error.to_string())),
    }
}

fn compare(house: &House, limits: &Limits, faults: &mut Vec<Breach>) {
    for (name, CrateFigures { shape, .. }) in &house.crates {
        let Some(limit) = limits.crates.get(name) else {
            faults.push(Breach::new(LIMITS_PATH, 0, format!("add limits for the crate '{name}': {shape:?}")));
            continue;
        };
        let figures = [
            ("modules directly below src/", shape.modules, limit.modules),
            ("modules in an import cycle", shape.cycle, limit.cycle),
            ("methods of one type", shape.methods, limit.methods),
            ("files with methods of one type", shape.files_of_type, limit.files_of_type),
            ("permille of doc comments that open badly", shape.bad_openings_permille, limit.bad_openings_permille),
            ("lines with a `dialect` phrase of words.toml", shape.dialect_lines, limit.dialect_lines),
        ];
        for (what, value, most) in figures.into_iter().filter(|(_, value, most)| value > most) {
            let message = format!("{value} {what}, at most {most} are allowed; `xtask house` shows the figures");
            faults.push(Breach::new(&format!("crates/{name}"), 0, message));
        }
    }
    let (phrases, most) =
        (house.crates.values().map(|figures| figures.phrase_lines).sum::<usize>(), limits.phrase_lines);
    if phrases > most {
        let message =
            format!("{phrases} lines with a phrase of words.toml, at most {most} are allowed: use plain words");
        faults.push(Breach::new("crates", 0, message));
    }
    let most = limits.definitions_of_one_name;
    for (name, count) in house.names.iter().filter(|(_, count)| *count > most) {
        let message = format!("{count} types are called '{name}', at most {most} may be: give this one its own name");
        faults.push(Breach::new("crates", 0, message));
    }
}

/// Checks that no crate's limit of bad openings exceeds [`Limits::bad_openings_permille_max`], unless the crate is
/// exempt.
fn compare_with_max(limits: &Limits, faults: &mut Vec<Breach>) {
    let most = limits.bad_openings_permille_max;
    for (name, CrateShape { bad_openings_permille: limit, .. }) in &limits.crates {
        let is_exempt = limits.bad_openings_exempt.contains(name);
        let message = match (*limit > most, is_exempt) {
            (true, false) => format!("the limit of bad openings of '{name}' is {limit}, at most {most} is allowed"),
            (false, true) => format!("'{name}' opens few doc comments badly; remove it from bad_openings_exempt"),
            _ => continue,
        };
        faults.push(Breach::new(LIMITS_PATH, 0, message));
    }
}

/// Prints a table with the figures of each crate of `tree`.
pub fn print(tree: &Tree) {
    let house = measure(tree);
    println!(
        "crate      lines  modules  cycle  methods of the largest type  files of the widest type  bad openings, 1/1000 \
         \u{20}dialect  phrases"
    );
    for (name, CrateFigures { shape, lines, phrase_lines, largest_type, widest_type }) in &house.crates {
        let CrateShape { modules, cycle, bad_openings_permille: bad, dialect_lines: dialect, .. } = *shape;
        let largest = format!("{} {largest_type}", shape.methods);
        let widest = format!("{} {widest_type}", shape.files_of_type);
        println!(
            "{name:<9} {lines:>6} {modules:>8} {cycle:>6}  {largest:<27} {widest:<25} {bad:>20} {dialect:>8} \
             {phrase_lines:>8}"
        );
    }
    println!("\nnames of several types:");
    for (name, count) in house.names.iter().filter(|(_, count)| *count > 3) {
        println!("{count:>4}  {name}");
    }
}

/// Measures every crate of `tree`.
fn measure(tree: &Tree) -> House {
    let sources = imports::sources(tree);
    let words = CountedWords::read();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    let mut house = House::default();
    for (name, files) in sources {
        let mut items = Items::default();
        files.iter().for_each(|source| items.read(source));
        items.types.iter().for_each(|name| *names.entry(name.clone()).or_default() += 1);
        house.crates.insert(name.to_owned(), figures(&files, &items, &words));
    }
    house.names = names.into_iter().filter(|(_, count)| *count > 1).collect();
    house.names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    house
}

fn figures(files: &[SourceFile<'_>], items: &Items, words: &CountedWords) -> CrateFigures {
    let imports = imports::imports(files);
    let (doc, bad) =
        files.iter().map(|source| openings(source.file, words)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let most = |count: fn(&(usize, BTreeSet<String>)) -> usize| {
        let counts = items.methods.iter().map(|(name, methods)| (count(methods), name.clone()));
        counts.max().unwrap_or_default()
    };
    let ((methods, largest_type), (files_of_type, widest_type)) =
        (most(|(methods, _)| *methods), most(|(_, files)| files.len()));
    CrateFigures {
        shape: CrateShape {
            modules: imports::modules_of_root(files),
            cycle: largest_cycle(&imports).len().max(1),
            methods,
            files_of_type,
            bad_openings_permille: (1000 * bad).checked_div(doc).unwrap_or(0),
            dialect_lines: files.iter().map(|source| lines_with(source.file, &words.dialect)).sum(),
        },
        phrase_lines: files.iter().map(|source| lines_with(source.file, &words.phrases)).sum(),
        lines: files.iter().map(|source| source.file.lines_without_tests()).sum(),
        largest_type,
        widest_type,
    }
}

/// Returns the number of doc comments of a file, and of those that open with a word of [`CountedWords::bad_openings`].
fn openings(file: &File, words: &CountedWords) -> (usize, usize) {
    let (mut comments, mut bad) = (0, 0);
    let mut is_within = false;
    for line in file.text.lines().take(file.lines_without_tests()) {
        let text = line.trim_start().strip_prefix("///");
        if let (Some(text), false) = (text, is_within) {
            comments += 1;
            let word = text.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            bad += usize::from(words.bad_openings.iter().any(|bad| bad == word));
        }
        is_within = text.is_some();
    }
    (comments, bad)
}

/// Returns the number of lines of a file with one of `phrases`, as whole words.
fn lines_with(file: &File, phrases: &[String]) -> usize {
    let has_phrase = |line: &&str| {
        let words: Vec<&str> = line.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
        let line = format!(" {} ", words.join(" ").to_ascii_lowercase());
        phrases.iter().any(|phrase| line.contains(&format!(" {phrase} ")))
    };
    file.text.lines().take(file.lines_without_tests()).filter(has_phrase).count()
}

/// Types and methods of a crate.
#[derive(Default)]
struct Items {
    path: String,
    types: Vec<String>,
    /// Number of methods of each type, and the files with its `impl` blocks.
    methods: BTreeMap<String, (usize, BTreeSet<String>)>,
}

impl Items {
    fn read(&mut self, source: &SourceFile<'_>) {
        self.path.clone_from(&source.file.path);
        self.visit_file(&source.syntax);
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types.push(item.ident.to_string());
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        if let (None, Some(name), false) = (&item.trait_, path.path.segments.last(), is_test(&item.attrs)) {
            let methods = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
            let entry = self.methods.entry(name.ident.to_string()).or_default();
            entry.0 += methods;
            entry.1.insert(self.path.clone());
        }
    }
}

/// Prints the largest import cycle of one crate: a line for each module, with the modules of the cycle that it imports.
/// Returns false if the crate does not exist.
pub fn print_cycle(tree: &Tree, name: &str) -> bool {
    let sources = imports::sources(tree);
    let Some(files) = sources.get(name) else { return false };
    let imports = imports::imports(files);
    let cycle = largest_cycle(&imports);
    for module in &cycle {
        let named: Vec<&str> =
            imports[*module].iter().filter(|named| cycle.contains(named)).map(String::as_str).collect();
        println!("{module}: {}", named.join(" "));
    }
    true
}

/// Returns the largest set of modules that all import one another, directly or indirectly; empty if there is no cycle.
fn largest_cycle(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<&String> {
    let reached = |from: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            for next in imports.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> = imports.keys().map(|module| (module, reached(module))).collect();
    let leads_back = |module: &String, other: &&String| reach.get(other).is_some_and(|back| back.contains(module));
    let cycles =
        reach.iter().map(|(module, seen)| seen.iter().copied().filter(|other| leads_back(module, other)).collect());
    cycles.max_by_key(BTreeSet::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "mod a;\nmod b;\nmod c;\npub use c::Deep;\n#[cfg(test)]\nmod tests;\n";

    fn house() -> House {
        let a = "use crate::b;\n// Told anew.\n// Who is it?\n/// What it is.\n\
                 pub struct Twice;\nimpl Twice {\n fn x() {}\n}\n";
        let b = "/// A thing.\n///\n/// What follows.\npub struct Twice;\nfn f() -> crate::Deep {}\n";
        let c = "use super::a::{Twice};\npub struct Deep;\n#[cfg(test)]\nmod tests {\n use crate::b;\n}\n";
        let more = "use super::super::b;\nimpl Twice {\n fn y() {}\n}\nimpl Clone for Twice { fn clone() {} }\n";
        let sources = [("lib.rs", ROOT), ("a.rs", a), ("b.rs", b), ("c/mod.rs", c), ("a/more.rs", more)];
        let files: Vec<(String, &str)> =
            sources.iter().map(|(name, text)| (format!("crates/io/src/{name}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        measure(&Tree::of(&files))
    }

    #[test]
    fn modules_cycles_methods_openings_and_names_are_counted() {
        let house = house();
        let io = &house.crates["io"];
        let shape = CrateShape {
            modules: 3,
            cycle: 3,
            methods: 2,
            files_of_type: 2,
            bad_openings_permille: 500,
            dialect_lines: 1,
        };
        assert_eq!((io.shape, io.largest_type.as_str(), io.widest_type.as_str()), (shape, "Twice", "Twice"));
        assert_eq!(io.phrase_lines, 1);
        assert_eq!(house.names, [("Twice".to_owned(), 2)]);
    }

    #[test]
    fn figure_above_its_limit_is_reported_but_not_at_the_limit() {
        let faults = |head: &str, crates: &str| {
            let mut faults = Vec::new();
            let limits = toml::from_str(&format!("{head}\n{crates}")).unwrap();
            compare(&house(), &limits, &mut faults);
            compare_with_max(&limits, &mut faults);
            faults.len()
        };
        let head = |names: usize, phrases: usize, exempt: &str| {
            format!(
                "definitions_of_one_name = {names}\nphrase_lines = {phrases}\nbad_openings_permille_max = 20\n\
                 bad_openings_exempt = [{exempt}]"
            )
        };
        let crates = "[crates.io]\nmodules = 3\ncycle = 3\nmethods = 2\nfiles_of_type = 2\ndialect_lines = 1\n\
                      bad_openings_permille = ";
        assert_eq!(faults(&head(2, 1, "'io'"), &format!("{crates}500\n")), 0);
        assert_eq!(faults(&head(1, 0, "'io'"), &format!("{crates}499\n")), 3);
        assert_eq!(faults(&head(2, 1, ""), "[crates]\n"), 1, "a crate without limits");
        assert_eq!(faults(&head(2, 1, ""), &format!("{crates}500\n")), 1, "a limit above the most");
        assert_eq!(faults(&head(2, 1, "'io'"), &format!("{crates}20\n")), 2, "too many, and exempt without need");
    }

    #[test]
    fn modules_without_a_way_back_are_no_cycle() {
        let imports = |pairs: &[(&str, &str)]| {
            let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (from, to) in pairs {
                imports.entry((*from).into()).or_default().insert((*to).into());
                imports.entry((*to).into()).or_default();
            }
            largest_cycle(&imports).len()
        };
        assert_eq!(imports(&[("a", "b"), ("b", "c")]), 0);
        assert_eq!(imports(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "d"), ("d", "c")]), 2);
    }
}
