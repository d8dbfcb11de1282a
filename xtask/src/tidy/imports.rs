//! Finds the imports between the modules of a crate.
//!
//! A name that the crate's root re-exports counts as imported from its original module. Imports in tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::tree::{File, Tree};

/// One source file of a crate.
pub(super) struct SourceFile<'t> {
    pub(super) file: &'t File,
    pub(super) syntax: syn::File,
}

impl SourceFile<'_> {
    /// Returns the names of the file's module path from the crate's root; empty for the root itself.
    pub(super) fn module(&self) -> Vec<&str> {
        let path = self.file.path.split_once("/src/").map_or("", |(_, path)| path).trim_end_matches(".rs");
        let path = path.strip_suffix("/mod").unwrap_or(path);
        if ["lib", "main"].contains(&path) { Vec::new() } else { path.split('/').collect() }
    }
}

/// Returns the source files of each crate of `tree`. Skips files that do not parse, which the check `rust` reports.
pub(super) fn sources(tree: &Tree) -> BTreeMap<&str, Vec<SourceFile<'_>>> {
    let mut sources: BTreeMap<&str, Vec<SourceFile<'_>>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.is_test() && file.path.contains("/src/")) {
        if let (Some(name), Ok(syntax)) = (file.crate_name(), syn::parse_file(&file.text)) {
            sources.entry(name).or_default().push(SourceFile { file, syntax });
        }
    }
    sources
}

/// Returns the number of modules that the root of a crate declares.
pub(super) fn modules_of_root(files: &[SourceFile<'_>]) -> usize {
    let module = |item: &&syn::Item| matches!(item, syn::Item::Mod(module) if !is_test(&module.attrs));
    root(files).map_or(0, |root| root.items.iter().filter(module).count())
}

/// Returns the modules that each module imports, by their paths from the root (`heap::segments`). A re-exported name
/// counts for its original module, and the re-export itself does not count.
pub(super) fn imports(files: &[SourceFile<'_>]) -> BTreeMap<String, BTreeSet<String>> {
    let tests: BTreeSet<String> = root(files).map(test_modules).unwrap_or_default();
    let is_test = |source: &SourceFile<'_>| source.module().first().is_some_and(|name| tests.contains(*name));
    let files: Vec<&SourceFile<'_>> = files.iter().filter(|source| !is_test(source)).collect();
    let modules: BTreeSet<String> = files.iter().map(|source| source.module().join("::")).collect();
    let mut names = ModuleNames { modules, exports: BTreeMap::new() };
    for source in &files {
        let exports = exports(&source.syntax, &names, &owned(source));
        names.exports.insert(source.module().join("::"), exports);
    }
    let of = |source: &&SourceFile<'_>| {
        let mut imports = Imports { module: owned(source), names: &names, found: BTreeSet::new() };
        imports.visit_file(&source.syntax);
        imports.found.remove(&source.module().join("::"));
        (source.module().join("::"), imports.found)
    };
    files.iter().filter(|source| !source.module().is_empty()).map(of).collect()
}

fn owned(source: &SourceFile<'_>) -> Vec<String> {
    source.module().iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the modules of the root that exist only for tests.
fn test_modules(root: &syn::File) -> BTreeSet<String> {
    let module = |item: &syn::Item| match item {
        syn::Item::Mod(module) if is_test(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    };
    root.items.iter().filter_map(module).collect()
}

fn root<'s>(files: &'s [SourceFile<'_>]) -> Option<&'s syn::File> {
    files.iter().find(|source| source.module().is_empty()).map(|source| &source.syntax)
}

/// Returns whether an item exists only for tests.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    let is_one = |attribute: &syn::Attribute| {
        let tokens = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("cfg")
            && ["test", "all (test", "any (test"].iter().any(|test| tokens.starts_with(test))
    };
    attributes.iter().any(is_one)
}

/// Returns the paths that a `use` imports, each with the imported name at its end.
fn use_paths(tree: &syn::UseTree) -> Vec<Vec<String>> {
    match tree {
        syn::UseTree::Path(path) => {
            let head = path.ident.to_string();
            use_paths(&path.tree).into_iter().map(|rest| [vec![head.clone()], rest].concat()).collect()
        }
        syn::UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        syn::UseTree::Rename(rename) => vec![vec![rename.ident.to_string()]],
        syn::UseTree::Glob(_) => vec![vec!["*".to_owned()]],
        syn::UseTree::Group(group) => group.items.iter().flat_map(use_paths).collect(),
    }
}

/// Returns the names that a module re-exports, each with its original path from the root.
fn exports(file: &syn::File, names: &ModuleNames, module: &[String]) -> BTreeMap<String, Vec<String>> {
    let paths = |item: &syn::Item| match item {
        syn::Item::Use(item) if is_export(item) => use_paths(&item.tree),
        _ => Vec::new(),
    };
    let absolute = |path: Vec<String>| {
        let absolute = names.absolute(module, &path)?;
        path.last().cloned().map(|name| (name, absolute))
    };
    file.items.iter().flat_map(paths).filter_map(absolute).collect()
}

fn is_export(item: &syn::ItemUse) -> bool {
    !matches!(item.vis, syn::Visibility::Inherited)
}

/// The modules of a crate, and the names that each module re-exports, with their original paths.
struct ModuleNames {
    modules: BTreeSet<String>,
    exports: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl ModuleNames {
    /// Converts a path in `module` to a path from the crate's root. Returns `None` unless the path begins with `crate`,
    /// `self`, `super` or a module below `module`.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        match path {
            [first, rest @ ..] if first == "crate" => Some(rest.to_vec()),
            [first, rest @ ..] if first == "self" => Some([module, rest].concat()),
            _ if supers > module.len() => None,
            _ if supers > 0 => Some([&module[..module.len() - supers], &path[supers..]].concat()),
            [first, ..] => {
                let child = [module, std::slice::from_ref(first)].concat().join("::");
                self.modules.contains(&child).then(|| [module, path].concat())
            }
            [] => None,
        }
    }

    /// Returns the module that contains a path's name. `path` is from the root; at most `steps` re-exports are
    /// followed.
    fn module(&self, path: &[String], steps: usize) -> Option<String> {
        let prefix = (0..=path.len()).rev().map(|length| (length, path[..length].join("::")));
        let (length, module) = prefix.into_iter().find(|(_, module)| self.modules.contains(module))?;
        let export = path.get(length).and_then(|name| self.exports.get(&module)?.get(name));
        match export.filter(|_| steps > 0) {
            Some(path) => self.module(path, steps - 1),
            None => Some(module).filter(|module| !module.is_empty()),
        }
    }
}

/// Maximum number of re-exports that are followed for one name.
const STEPS_MAX: usize = 4;

/// The imports of a file.
struct Imports<'a> {
    /// Path of the visited module from the root.
    module: Vec<String>,
    names: &'a ModuleNames,
    found: BTreeSet<String>,
}

impl Imports<'_> {
    fn add(&mut self, path: &[String]) {
        let absolute = self.names.absolute(&self.module, path);
        self.found.extend(absolute.and_then(|path| self.names.module(&path, STEPS_MAX)));
    }
}

impl<'ast> Visit<'ast> for Imports<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) && module.content.is_some() {
            self.module.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_export(item) {
            use_paths(&item.tree).iter().for_each(|path| self.add(path));
        }
    }

    /// Ignores `pub(super)`, which is not an import.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}
